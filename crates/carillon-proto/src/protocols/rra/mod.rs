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

use carillon_core::{ConfigError, HeaderBytes, Order, ProtocolEntry, Role};
use carillon_wire::rra::HEADER_LEN;

pub use receiver::RraReceiver;
pub use sender::RraSender;

/// Registry entry of round-robin acknowledgment.
pub const ENTRY: ProtocolEntry = ProtocolEntry {
    name: "rra",
    family: "sender-driven, positive acknowledgment by turns",
    summary: "round-robin acknowledgment: each message names the one receiver that acknowledges",
    reference: "Segovia 1996, chapter 5",
    roles: &[Role::Sender, Role::Receiver],
    order: Order::Source,
    confirmed: true,
    waits: true,
    header_bytes: |_| HeaderBytes::all(HEADER_LEN),
    format: &carillon_wire::rra::FORMAT,
    parameters: config::PARAMETERS,
    delivery_settings: config::DELIVERY_SETTINGS,
    host_settings: config::HOST_SETTINGS,
    build: |role, context, settings| match role {
        Role::Receiver => Ok(Box::new(RraReceiver::new(context, settings))),
        Role::Sender => Ok(Box::new(RraSender::new(context, settings)?)),
        _ => Err(ConfigError::no_such_role(role)),
    },
    states: states::STATES,
    ..ProtocolEntry::PLAIN
};
