//! Reliable broadcast of Chang and Maxemchuk (1984): total order by a rotating token site.
//!
//! All messages go to all sites. The token site acknowledges each message with a timestamp, which is its position in
//! the total order; a source repeats a message until it is acknowledged, and other sites request missing timestamps.
//! The token moves with the acknowledgments. A message is delivered when `L` sites have accepted the token after it,
//! so that the order survives `L` failures.
//!
//! Source: Segovia 1996, section 2.9. Rules that the source leaves open are decided in
//! `docs/protocols/chang-maxemchuk.md`.

mod answers;
mod config;
mod context;
mod log;
mod order;
mod peer;
mod requests;
mod states;
#[cfg(test)]
mod tests;
mod token;

use carillon_core::{
    About, ConfigError, DefaultSettings, DeliveryProperties, HeaderBytes, Order, PacketProperties,
    ProtocolEntry, Role, StudyProperties,
};
use carillon_wire::chang_maxemchuk::{ACK_LEN, MSG_HEADER_LEN};

pub use peer::Peer;

/// Chang and Maxemchuk's reliable broadcast.
pub const ENTRY: ProtocolEntry = ProtocolEntry {
    name: "chang-maxemchuk",
    about: About {
        family: "rotating token site, acknowledgments with timestamps, negative acknowledgments",
        summary: "total order by a token site that goes around; survives the failure of sites",
        reference: "Segovia 1996, section 2.9; Chang and Maxemchuk 1984",
    },
    roles: &[Role::Peer],
    delivery: DeliveryProperties {
        order: Order::Total,
        confirmed: true,
        waits: true,
        ..ProtocolEntry::PLAIN.delivery
    },
    packets: PacketProperties {
        // A repair carries the acknowledgment with the message.
        header_bytes: |_| HeaderBytes { data: MSG_HEADER_LEN, max: ACK_LEN },
        format: &carillon_wire::chang_maxemchuk::FORMAT,
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
