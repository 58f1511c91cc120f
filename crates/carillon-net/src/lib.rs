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
//! Left out: the hop count a datagram arrived with (its [`Scope`](carillon_core::Scope) reads
//! `GLOBAL`), relays on the path of others' datagrams, and systems other than Unix.

mod driver;
mod endpoint;
mod error;
mod inbox;
mod injector;
mod interface;
mod outbox;
mod pacer;
mod peers;
mod stats;
mod wait;

pub use driver::Driver;
pub use endpoint::{Endpoint, EndpointConfig, GROUP, SELF};
pub use error::{DriveError, OpenError};
pub use interface::Interface;
pub use stats::Stats;
