//! NORM: NACK-Oriented Reliable Multicast (RFC 5740, 2009).
//!
//! The sender cuts a stream into blocks of source symbols. A receiver that misses symbols waits for a random time, in
//! which requests of others can suppress its own, and sends a NACK. The sender collects NACKs for a few round-trip
//! times, and then repairs each block with as many parity symbols as the worst receiver misses (RFC 5510): a parity
//! symbol repairs a different loss at each receiver.
//!
//! Sessions of Carillon are one stream of messages; plain sessions send files (`files`) or a stream to other
//! implementations.
//! `docs/protocols/norm.md` lists what is left out.

mod config;
mod confirmations;
mod congestion;
mod cycle;
mod files;
mod grtt;
mod identity;
mod phase;
mod plain;
mod receiver;
mod repairs;
mod requesting;
mod sender;
mod states;
#[cfg(test)]
mod stream_tests;
#[cfg(test)]
mod tests;
mod timing;
#[cfg(test)]
mod world;

use carillon_core::{
    About, ConfigError, DefaultSettings, DeliveryProperties, HeaderBytes, Order, PacketProperties,
    ProtocolEntry, Role, SessionProperties, StudyProperties,
};

pub use files::{NormFileReceiver, NormFileSender};
pub use plain::NormPlainReceiver;
pub use receiver::NormReceiver;
pub use sender::NormSender;

/// Registry entry of NACK-Oriented Reliable Multicast.
pub const ENTRY: ProtocolEntry = ProtocolEntry {
    name: "norm",
    about: About {
        family: "receiver-driven, negative acknowledgment, parity from the source",
        summary: "NACK-Oriented Reliable Multicast: suppressed requests, repaired with parity symbols",
        reference: "RFC 5740",
    },
    roles: &[Role::Sender, Role::Receiver],
    delivery: DeliveryProperties {
        order: Order::Source,
        confirmed: false,
        waits: false,
        ..ProtocolEntry::PLAIN.delivery
    },
    session: SessionProperties { sender_hears_group: true, ..ProtocolEntry::PLAIN.session },
    plain: Some(&plain::PLAIN),
    packets: PacketProperties {
        header_bytes: |_| HeaderBytes::all(config::HEADER_LEN),
        format: &carillon_wire::norm::FORMAT,
        ..ProtocolEntry::PLAIN.packets
    },
    parameters: config::PARAMETERS,
    settings: DefaultSettings { delivery: config::DELIVERY_SETTINGS, ..ProtocolEntry::PLAIN.settings },
    study: StudyProperties { states: states::STATES, ..ProtocolEntry::PLAIN.study },
    build: |role, context, settings| match role {
        Role::Sender => Ok(Box::new(NormSender::new(context, settings)?)),
        Role::Receiver => Ok(Box::new(NormReceiver::new(context, settings)?)),
        _ => Err(ConfigError::no_such_role(role)),
    },
    ..ProtocolEntry::PLAIN
};
