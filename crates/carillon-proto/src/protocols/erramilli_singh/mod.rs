//! The protocol of Erramilli and Singh, ACM SIGCOMM '87 Workshop, as Segovia 1996, section 2.8,
//! describes it.
//!
//! Every member is a sender and a receiver. Receivers ask for what they miss (NAK); nobody
//! acknowledges. A sender keeps its last B messages, the implicit back window, and forgets what is
//! older. So that the last message of a burst is missed too, an idle sender says what its next
//! message will be: K times in intervals of T1 (STATUS), then for ever in intervals of T2 (SANITY),
//! which also shows that the node lives. A receiver whose buffer fills asks all senders to pause
//! for T3 (CHOKE).
//!
//! Left out, as in the source: the set-up of the group, and the recovery of nodes that failed. What
//! the source leaves open is decided in `docs/protocols/erramilli-singh.md`.

mod config;
mod context;
mod describe;
mod peer;
mod sink;
mod source;
#[cfg(test)]
mod tests;

use carillon_core::{ConfigError, HeaderBytes, Order, ProtocolEntry, Role};
use carillon_wire::erramilli_singh::HEADER_LEN;

pub use peer::ErramilliSinghPeer;

/// Erramilli and Singh.
pub const ENTRY: ProtocolEntry = ProtocolEntry {
    name: "erramilli-singh",
    family: "receiver-driven, negative acknowledgment, implicit back window",
    summary: "Erramilli and Singh: NAKs, status and sanity messages of idle senders, timed choke",
    reference: "Segovia 1996, section 2.8",
    roles: &[Role::Peer],
    order: Order::Source,
    confirmed: true,
    waits: false,
    header_bytes: |_| HeaderBytes::all(HEADER_LEN),
    format: &carillon_wire::erramilli_singh::FORMAT,
    parameters: config::PARAMETERS,
    delivery_settings: config::DELIVERY_SETTINGS,
    host_settings: config::HOST_SETTINGS,
    build: |role, context, settings| match role {
        Role::Peer => Ok(Box::new(ErramilliSinghPeer::new(context, settings)?)),
        _ => Err(ConfigError::no_such_role(role)),
    },
    ..describe::DESCRIBED
};
