//! Protocol of Erramilli and Singh (ACM SIGCOMM Workshop 1987): NAKs and an implicit back window.
//!
//! Every member is a sender and a receiver. Receivers request missing messages with NAKs and send no acknowledgments;
//! a sender keeps its last B messages, the implicit back window. An idle sender states the number of its next
//! message, K times in intervals of T1 (STATUS) and then in intervals of T2 (SANITY), so that receivers detect the
//! loss of its last message and see that it is alive. A receiver with a nearly full buffer asks all senders to pause
//! for T3 (CHOKE).
//!
//! Source: Segovia 1996, section 2.8. Group set-up and recovery of failed nodes are left out, as in the source. Open
//! rules are decided in `docs/protocols/erramilli-singh.md`.

mod config;
mod context;
mod peer;
mod sink;
mod source;
mod states;
#[cfg(test)]
mod tests;

use carillon_core::{
    About, ConfigError, DefaultSettings, DeliveryProperties, HeaderBytes, Order, PacketProperties,
    ProtocolEntry, Role, StudyProperties,
};
use carillon_wire::erramilli_singh::HEADER_LEN;

pub use peer::ErramilliSinghPeer;

/// Registry entry of the protocol.
pub const ENTRY: ProtocolEntry = ProtocolEntry {
    name: "erramilli-singh",
    about: About {
        family: "receiver-driven, negative acknowledgment, implicit back window",
        summary: "Erramilli and Singh: NAKs, status and sanity messages of idle senders, timed choke",
        reference: "Segovia 1996, section 2.8",
    },
    roles: &[Role::Peer],
    delivery: DeliveryProperties {
        order: Order::Source,
        confirmed: true,
        waits: false,
        ..ProtocolEntry::PLAIN.delivery
    },
    packets: PacketProperties {
        header_bytes: |_| HeaderBytes::all(HEADER_LEN),
        format: &carillon_wire::erramilli_singh::FORMAT,
        ..ProtocolEntry::PLAIN.packets
    },
    parameters: config::PARAMETERS,
    settings: DefaultSettings {
        delivery: config::DELIVERY_SETTINGS,
        host: config::HOST_SETTINGS,
        ..ProtocolEntry::PLAIN.settings
    },
    study: StudyProperties { states: states::STATES, ..ProtocolEntry::PLAIN.study },
    build: |role, context, settings| match role {
        Role::Peer => Ok(Box::new(ErramilliSinghPeer::new(context, settings)?)),
        _ => Err(ConfigError::no_such_role(role)),
    },
    ..ProtocolEntry::PLAIN
};
