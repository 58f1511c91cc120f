//! RMP: total order by a rotating token site that orders messages after they were sent (post-ordering).
//!
//! Members multicast messages. The token site gives all messages that it holds a slot in the order, in one
//! acknowledgment that also passes the token on. Each message has its quality of service: unreliable, reliable, source
//! ordered, totally ordered, or resilient, which delays its delivery until enough members hold it.
//!
//! Source: Whetten, Montgomery and Kaplan 1995, and Montgomery 1994, as far as their abstracts and Johnstone 1997
//! describe them. Rules that the sources leave open are decided in `docs/protocols/rmp.md`.

mod answers;
mod arrivals;
mod config;
mod context;
mod lists;
mod nacks;
mod order;
mod own;
mod peer;
mod service;
mod slots;
mod states;
#[cfg(test)]
mod tests;
mod token;

use carillon_core::{
    About, ConfigError, DefaultSettings, DeliveryProperties, HeaderBytes, Order, PacketProperties,
    ProtocolEntry, Role, StudyProperties,
};
use carillon_wire::rmp::{DATA_HEADER_LEN, REPAIR_HEADER_LEN};

pub use peer::Peer;

/// Reliable Multicast Protocol.
pub const ENTRY: ProtocolEntry = ProtocolEntry {
    name: "rmp",
    about: About {
        family: "rotating token site, acknowledgments with timestamps, negative acknowledgments",
        summary: "total order after sending by a rotating token; quality of service per message",
        reference: "Whetten, Montgomery and Kaplan 1995; Montgomery 1994",
    },
    roles: &[Role::Peer],
    delivery: DeliveryProperties {
        order: Order::Total,
        confirmed: true,
        waits: true,
        ..ProtocolEntry::PLAIN.delivery
    },
    packets: PacketProperties {
        // A repair carries the slot with the message.
        header_bytes: |_| HeaderBytes { data: DATA_HEADER_LEN, max: REPAIR_HEADER_LEN },
        format: &carillon_wire::rmp::FORMAT,
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
        Role::Peer => Ok(Box::new(Peer::new(context, settings)?)),
        _ => Err(ConfigError::no_such_role(role)),
    },
    ..ProtocolEntry::PLAIN
};
