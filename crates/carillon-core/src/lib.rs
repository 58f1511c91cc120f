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
mod inline_queue;
mod input;
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
    ANY_STATE, DeliveryGuarantee, FeedbackForger, Forgery, Format, Golden, ObservedState, PSEUDO_STATE,
    ParsedPacket, Remainder, States, Trial, TrialNetwork,
};
pub use drain::{Host, check_early, drain};
pub use event::{DropReason, Event, Note, Outcome, SCHEMA_VERSION, TraceEvent, Value};
pub use events::Events;
pub use helpers::{Helper, HelperTable, Helpers, TableError};
pub use ids::{AssociationId, GroupId, MessageId, NodeId, PortId, PortSet};
pub use inline_queue::InlineQueue;
pub use input::Input;
pub use machine::{
    Application, Delivery, Machine, OfferError, PathMeasure, Receiver, Relay, Sender, poll_application,
};
pub use notice::Notice;
pub use observer::{NoObserver, Observer};
pub use parameters::{Config, ConfigError, Kind, Parameter, Setting, joined};
pub use pool::BufferPool;
pub use registry::{
    Build, BuildContext, HeaderBytes, HostValue, Identities, NetworkKind, OneWay, Order, ProtocolEntry,
    RawIp, UnicastEquivalent,
};
pub use rng::{Rng, Seeds};
pub use role::Role;
pub use sampler::IntervalSampler;
pub use sequence::{SeqSet, expand};
pub use time::Time;
pub use timers::Timers;
pub use token_bucket::TokenBucket;
pub use units::{BitRate, DataSize, Probability, Span, UnitError};

pub use std::time::Duration;
