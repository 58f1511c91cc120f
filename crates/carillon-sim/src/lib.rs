//! Deterministic network simulator.
//!
//! A [`World`] is a value: a network, one machine for each node, and an observer. It has no global state: worlds can
//! run in parallel, and equal worlds run alike to the last bit. Three networks exist: a shared Ethernet ([`Lan`]), a
//! half-duplex radio ([`Radio`]) and routed links ([`Graph`](graph::Graph)).

pub mod applications;
mod crashed;
pub mod graph;
pub mod hosts;
pub mod interfaces;
pub mod lan;
pub mod loss;
pub mod network;
mod node;
mod node_host;
pub mod parts;
pub mod queue;
mod serials;
mod stop;
mod tape;
pub mod world;

pub use crashed::Crashed;
pub use hosts::{HostConfig, HostDrops, Hosts};
pub use interfaces::LossyInterfaces;
pub use lan::{Lan, LanConfig, Radio, RadioConfig};
pub use network::{Arrival, Call, Network, Precedence, TimerRule};
pub use parts::{Merge, Part, Span, Step, Window};
pub use queue::EventQueue;
pub use tape::Tape;
pub use world::{DEFAULT_EMISSION_LIMIT, Runaway, StopReason, World};
