//! SRM: Scalable Reliable Multicast (Floyd, Jacobson, Liu, McCanne and Zhang, SIGCOMM '95 and ToN 1997), with the
//! rules and constants of the agents in ns-2.35.
//!
//! All members are alike. A member that misses a message requests it from the group after a random wait that grows
//! with the distance to the source; an overheard request suppresses its own. Any member that holds the message
//! repairs it to the group after a random wait that grows with the distance to the requester; an overheard repair
//! suppresses its own. Session messages measure the distances and reveal tail losses.
//!
//! Application data units and pages, separate recovery groups, and loss fingerprints are left out.
//! `docs/protocols/srm.md` lists the decisions that the sources leave open.

mod config;
mod context;
mod peer;
mod recovery;
mod reports;
mod responder;
mod source;
mod states;
mod streams;
#[cfg(test)]
mod tests;

use carillon_core::{
    About, ConfigError, DefaultSettings, DeliveryProperties, HeaderBytes, Order, PacketProperties,
    ProtocolEntry, Role, StudyProperties,
};
use carillon_wire::srm::HEADER_LEN;

pub use peer::SrmPeer;

/// Registry entry of Scalable Reliable Multicast.
pub const ENTRY: ProtocolEntry = ProtocolEntry {
    name: "srm",
    about: About {
        family: "receiver-initiated, requests and repairs to the group, suppressed by random timers",
        summary: "Scalable Reliable Multicast: any member repairs, without help from routers",
        reference: "Floyd, Jacobson, Liu, McCanne and Zhang 1997; ns-2.35",
    },
    roles: &[Role::Peer],
    delivery: DeliveryProperties {
        order: Order::Source,
        confirmed: false,
        waits: true,
        ..ProtocolEntry::PLAIN.delivery
    },
    packets: PacketProperties {
        header_bytes: |_| HeaderBytes::all(HEADER_LEN),
        format: &carillon_wire::srm::FORMAT,
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
        Role::Peer => Ok(Box::new(SrmPeer::new(context, settings)?)),
        _ => Err(ConfigError::no_such_role(role)),
    },
    ..ProtocolEntry::PLAIN
};
