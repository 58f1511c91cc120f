//! NORM: NACK-Oriented Reliable Multicast (RFC 5740, 2009).
//!
//! The sender cuts a stream into blocks of source symbols. A receiver that misses symbols waits for a random time, in
//! which requests of others can suppress its own, and sends a NACK. The sender collects NACKs for a few round-trip
//! times, and then repairs each block with as many parity symbols as the worst receiver misses (RFC 5510): a parity
//! symbol repairs a different loss at each receiver.
//!
//! Sessions of Carillon are one stream of messages; plain sessions ([`files`]) send files to other implementations.
//! `docs/protocols/norm.md` lists what is left out.

mod config;
mod files;
mod grtt;
mod identity;
mod receiver;
mod repairs;
mod sender;
mod states;
#[cfg(test)]
mod tests;

use carillon_core::{ConfigError, HeaderBytes, Order, ProtocolEntry, Role};

pub use files::{NormFileReceiver, NormFileSender};
pub use receiver::NormReceiver;
pub use sender::NormSender;

/// Registry entry of NACK-Oriented Reliable Multicast.
pub const ENTRY: ProtocolEntry = ProtocolEntry {
    name: "norm",
    family: "receiver-driven, negative acknowledgment, parity from the source",
    summary: "NACK-Oriented Reliable Multicast: suppressed requests, repaired with parity symbols",
    reference: "RFC 5740",
    roles: &[Role::Sender, Role::Receiver],
    order: Order::Source,
    confirmed: false,
    waits: false,
    sender_hears_group: true,
    header_bytes: |_| HeaderBytes::all(config::HEADER_LEN),
    format: &carillon_wire::norm::FORMAT,
    plain: Some(&files::PLAIN),
    parameters: config::PARAMETERS,
    delivery_settings: config::DELIVERY_SETTINGS,
    build: |role, context, settings| match role {
        Role::Sender => Ok(Box::new(NormSender::new(context, settings)?)),
        Role::Receiver => Ok(Box::new(NormReceiver::new(context, settings)?)),
        _ => Err(ConfigError::no_such_role(role)),
    },
    states: states::STATES,
    ..ProtocolEntry::PLAIN
};
