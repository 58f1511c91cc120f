//! The vocabulary every part of Carillon shares: time, identifiers, the [`Machine`] traits, the
//! driving contract and its one [`drain`], timers, random streams, and the trace events.
//!
//! Nothing here does I/O, looks at a clock, or depends on hash order. A protocol is a [`Machine`];
//! the simulator and the UDP driver are [`Host`]s that call [`drain`] after every change.

mod addresses;
mod datagram;
mod describe;
mod drain;
mod event;
mod events;
mod helpers;
mod ids;
mod input;
mod lean;
pub mod machine;
mod notice;
mod observer;
mod one_in;
mod pace;
mod parameters;
mod pool;
mod registry;
mod rng;
mod role;
mod sequence;
mod time;
mod timers;
mod units;

pub use addresses::{AddressBook, Addresses, Numbered};
pub use bytes::{Bytes, BytesMut};
pub use datagram::{Dest, Received, Scope, Transmit, Verdict};
pub use describe::{
    ANY, Boast, Format, Golden, Ground, InState, Lie, OUTSIDE, Promise, Reading, Rest, States, Trial,
};
pub use drain::{Host, check_early, drain};
pub use event::{DropReason, Event, Note, Outcome, SCHEMA_VERSION, TraceEvent, Value};
pub use events::Events;
pub use helpers::{Helper, HelperTable, Helpers, TableError};
pub use ids::{AssociationId, GroupId, MessageId, NodeId, PortId, PortSet};
pub use input::Input;
pub use lean::LeanQueue;
pub use machine::{
    Application, Delivery, Machine, OfferError, PathMeasure, Receiver, Relay, Sender, poll_application,
};
pub use notice::Notice;
pub use observer::{NoObserver, Observer};
pub use one_in::OneIn;
pub use pace::Pace;
pub use parameters::{Config, ConfigError, Kind, Parameter, Setting, joined};
pub use pool::BufferPool;
pub use registry::{
    Build, BuildContext, HeaderBytes, HostValue, Identities, NetworkKind, OneWay, Order, ProtocolEntry,
    RawIp, UnicastEquivalent,
};
pub use rng::{Rng, Seeds};
pub use role::Role;
pub use sequence::{SeqSet, expand};
pub use time::Time;
pub use timers::Timers;
pub use units::{BitRate, DataSize, Probability, Span, UnitError};

pub use std::time::Duration;
