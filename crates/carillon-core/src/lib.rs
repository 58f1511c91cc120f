//! Shared vocabulary of Carillon: time, identifiers, the [`Machine`] traits and their driving contract, timers,
//! random streams, and trace events.
//!
//! A protocol is a [`Machine`], a state machine without I/O. The simulator and the UDP driver are [`Host`]s: they
//! call [`drain`] after every change of a machine and carry out what it emits. Nothing in this crate does I/O, reads
//! a clock, or depends on hash order, so a run is a function of its inputs and its seed.

mod addresses;
mod datagram;
mod describe;
mod drain;
mod event;
mod events;
mod helpers;
mod ids;
mod inline_queue;
pub mod machine;
mod notice;
mod observer;
mod parameters;
mod pool;
mod registry;
mod rng;
mod role;
mod sampler;
mod sequence;
mod time;
mod timers;
mod token_bucket;
mod units;

pub use addresses::{AddressBook, Addresses, NumberedAddresses};
pub use bytes::{Bytes, BytesMut};
pub use datagram::{Dest, Received, Scope, Transmit, Verdict};
pub use describe::{
    ANY_STATE, Format, ObservedState, PSEUDO_STATE, PacketKind, PacketSummary, ParsedPacket, Remainder,
    States,
};
pub use drain::{Host, check_early, drain};
pub use event::{DropReason, Event, Note, Outcome, SCHEMA_VERSION, TraceEvent, Value};
pub use events::Events;
pub use helpers::{Helper, HelperTable, Helpers, TableError};
pub use ids::{AssociationId, GroupId, MessageId, NodeId, PortId, PortSet};
pub use inline_queue::InlineQueue;
pub use machine::{
    Application, Delivery, Machine, OfferError, PathMeasure, Receiver, Relay, Sender, poll_application,
};
pub use notice::Notice;
pub use observer::{Frame, Handling, LinkDirection, NoObserver, Observer, Passage};
pub use parameters::{Config, ConfigError, Kind, Parameter, Setting, joined};
pub use pool::BufferPool;
pub use registry::{
    About, AssociationReader, Build, BuildContext, DefaultSettings, DeliveryProperties, HeaderBytes,
    HostValue, Identities, NetworkKind, OneWay, Order, PacketProperties, PlainContents, PlainKind,
    PlainPacket, PlainSessions, ProtocolEntry, RawIp, SessionProperties, SourceKey, StudyProperties,
    UnicastEquivalent,
};
pub use rng::{Draws, NodeSeeds, Rng, Seeds};
pub use role::Role;
pub use sampler::IntervalSampler;
pub use sequence::{SeqSet, expand};
pub use time::Time;
pub use timers::Timers;
pub use token_bucket::TokenBucket;
pub use units::{BitRate, DataSize, Probability, Span, UnitError};

pub use std::time::Duration;
