//! The UDP multicast driver: one [`Machine`](carillon_core::Machine) of a process on real UDP/IP
//! multicast, driven by the same [`drain`](carillon_core::drain) as in the simulator.
//!
//! An [`Endpoint`] owns the sockets, the table of peers, and the fault injector. A [`Driver`] joins
//! it with a machine, an application and an observer; its caller loops, so there is no thread and
//! no runtime here:
//!
//! ```no_run
//! # use std::time::Duration;
//! # use carillon_core::{Application, Machine, NoObserver, Seeds};
//! # use carillon_net::{Driver, Endpoint, EndpointConfig};
//! # fn run<A: Application>(
//! #     machine: Box<dyn Machine>, application: A, done: fn(&A) -> bool,
//! # ) -> Result<(), Box<dyn std::error::Error>> {
//! let group = "239.255.77.77:7777".parse()?;
//! let endpoint = Endpoint::open(EndpointConfig { listen: true, ..EndpointConfig::new(group) })?;
//! let mut driver = Driver::new(endpoint, machine, application, NoObserver);
//! while !done(driver.application()) {
//!     driver.step(Duration::from_secs(1))?;
//! }
//! # Ok(()) }
//! ```
//!
//! With a [`Key`] (`EndpointConfig::key`) an endpoint seals everything that it sends. Only datagrams sealed with the
//! same key, by an endpoint that has proven its presence, reach the machine.
//!
//! With a [`RawIp`](carillon_core::RawIp) (`EndpointConfig::raw`) the packets of one protocol are sent directly over
//! IP, where the system permits it.
//!
//! A [`RelayEndpoint`] with a [`RelayDriver`] is a router of a protocol: it forwards the group's datagrams
//! between interfaces as a relay machine says (Linux and IPv4).
//!
//! Receivers that multicast does not reach ask a sender for unicast copies (`EndpointConfig::from`,
//! `EndpointConfig::copies`).
//!
//! A [`Dscp`] (`EndpointConfig::dscp`) marks everything that an endpoint sends, for the queues of network devices.
//!
//! Sources (`EndpointConfig::sources`) restrict an endpoint to the multicasts of these hosts.
//!
//! An endpoint has one interface, or several (`EndpointConfig::further_interfaces`): it then sends and receives the
//! group on each of them.
//!
//! Broadcasts on one IPv4 network take the place of multicasts if the group is 255.255.255.255.
//!
//! Not covered: the hop count with which a datagram arrived at an end system (its
//! [`Scope`](carillon_core::Scope) reads `GLOBAL`), and systems other than Unix.

mod branch;
mod config;
mod copies;
mod driver;
mod dscp;
mod endpoint;
mod error;
mod failures;
mod follow;
mod gather;
mod inbox;
mod injector;
mod interface;
mod interfaces;
mod numbers;
mod options;
mod outbox;
mod peer_book;
mod peers;
mod port;
mod probe;
mod raw;
#[cfg(target_os = "linux")]
mod relay;
mod seal;
mod sockets;
mod sources;
mod stats;
mod train;
mod wait;
mod waker;

pub use branch::InterfaceChange;
pub use config::EndpointConfig;
pub use copies::{CopyStats, Path, SubscriptionState, sender_of_relay};
pub use driver::{Backpressure, Driver};
pub use dscp::{Dscp, UnknownDscp};
pub use endpoint::Endpoint;
pub use error::{DriveError, OpenError};
pub use failures::SendFailure;
pub use follow::{Reopened, Standing};
pub use interface::{Choice, Fallback, Interface};
pub use numbers::{GROUP, SELF, swapped};
pub use probe::{Arrival, Probe};
#[cfg(target_os = "linux")]
pub use relay::{
    RelayConfig, RelayDriver, RelayEndpoint, RelayStats, RemoteRelay, RemoteRelayConfig, RemoteRelayStats,
};
pub use seal::{Key, KeyError, KeyFile, SEAL_BYTES, is_sealed};
pub use sources::is_source_specific;
pub use stats::{SealStats, Stats};
pub use train::{TrainMeter, TrainPacket};
pub use waker::{WakeReceiver, Waker};
