//! RRA: round-robin acknowledgment.
//!
//! Segovia 1996, chapter 5, proposes it in one paragraph. Each message names one receiver, which acknowledges it and
//! everything received before. The receivers take turns, so that acknowledgments never contend for the medium.
//!
//! `docs/protocols/rra.md` decides what the paragraph leaves open: windows, missing acknowledgments and losses.

mod config;
mod context;
mod messages;
mod polling;
mod receiver;
mod sender;
mod states;
#[cfg(test)]
mod tests;

use carillon_core::{
    About, ConfigError, DefaultSettings, DeliveryProperties, HeaderBytes, Order, PacketProperties,
    ProtocolEntry, Role, StudyProperties,
};
use carillon_wire::rra::HEADER_LEN;

pub use receiver::RraReceiver;
pub use sender::RraSender;

/// Registry entry of round-robin acknowledgment.
pub const ENTRY: ProtocolEntry = ProtocolEntry {
    name: "rra",
    about: About {
        family: "sender-driven, positive acknowledgment by turns",
        summary: "round-robin acknowledgment: each message names the one receiver that acknowledges",
        reference: "Segovia 1996, chapter 5",
    },
    roles: &[Role::Sender, Role::Receiver],
    delivery: DeliveryProperties {
        order: Order::Source,
        confirmed: true,
        waits: true,
        ..ProtocolEntry::PLAIN.delivery
    },
    packets: PacketProperties {
        header_bytes: |_| HeaderBytes::all(HEADER_LEN),
        format: &carillon_wire::rra::FORMAT,
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
        Role::Receiver => Ok(Box::new(RraReceiver::new(context, settings))),
        Role::Sender => Ok(Box::new(RraSender::new(context, settings)?)),
        _ => Err(ConfigError::no_such_role(role)),
    },
    ..ProtocolEntry::PLAIN
};
