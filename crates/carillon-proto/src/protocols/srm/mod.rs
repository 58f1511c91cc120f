//! SRM: Scalable Reliable Multicast of Floyd, Jacobson, Liu, McCanne and Zhang (SIGCOMM '95, ToN 1997),
//! with the rules and constants of the agents in ns-2.35.
//!
//! All members are alike. Who misses a message asks the group for it after a random wait that grows
//! with the distance to its source; who hears the request in time does not ask too. Any member that has
//! the message repeats it to the group after a random wait that grows with the distance to the one that
//! asked; who hears the repair in time does not repeat it too. Distances come from session messages,
//! which also show that the last messages are missing.
//!
//! Left out: the application's own naming and its pages, recovery groups of their own, and loss
//! fingerprints. What the sources leave open is decided in `docs/protocols/srm.md`.

mod config;
mod context;
mod describe;
mod peer;
mod recovery;
mod reports;
mod responder;
mod source;
mod streams;
#[cfg(test)]
mod tests;

use carillon_core::{ConfigError, HeaderBytes, Order, ProtocolEntry, Role};
use carillon_wire::srm::HEADER_LEN;

pub use peer::SrmPeer;

/// Scalable Reliable Multicast.
pub const ENTRY: ProtocolEntry = ProtocolEntry {
    name: "srm",
    family: "receiver-initiated, requests and repairs to the group, suppressed by random timers",
    summary: "Scalable Reliable Multicast: any member repairs, without help from routers",
    reference: "Floyd, Jacobson, Liu, McCanne and Zhang 1997; ns-2.35",
    roles: &[Role::Peer],
    order: Order::Source,
    confirmed: false,
    waits: true,
    header_bytes: |_| HeaderBytes::all(HEADER_LEN),
    format: &carillon_wire::srm::FORMAT,
    parameters: config::PARAMETERS,
    delivery_settings: config::DELIVERY_SETTINGS,
    host_settings: config::HOST_SETTINGS,
    build: |role, context, settings| match role {
        Role::Peer => Ok(Box::new(SrmPeer::new(context, settings)?)),
        _ => Err(ConfigError::no_such_role(role)),
    },
    ..describe::DESCRIBED
};
