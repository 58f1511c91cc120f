//! The sequencer protocol: Kaashoek, Tanenbaum, Flynn Hummel and Bal, 1989, as Segovia 1996, 2.7, tells
//! it.
//!
//! One member, the sequencer, gives every message its place in one order. A member sends it a message
//! (DATA) and it sends the message on to all (MULTICAST) with a sequence number; the other members ask
//! for what they lack (RETRANS), and say what they have with the messages they send.
//!
//! What the source only suggests, the replacement of a dead sequencer, is the
//! [reformation](crate::blocks::reformation). For it a message is accepted only when `resilience`
//! further members hold it, as in Amoeba, from which the second way to send a message (BB) comes too.
//! `docs/protocols/sequencer.md` has the rules and what was decided where the source is silent.

mod config;
mod context;
mod describe;
mod follower;
mod leader;
mod order;
mod peer;
#[cfg(test)]
mod tests;

use carillon_core::{ConfigError, HeaderBytes, Order, ProtocolEntry, Role};
use carillon_wire::sequencer::HEADER_LEN;

pub use peer::SequencerPeer;

/// The sequencer protocol.
pub const ENTRY: ProtocolEntry = ProtocolEntry {
    name: "sequencer",
    family: "sequencer, negative and piggybacked positive acknowledgment, total order",
    summary: "one member gives all messages their order; acknowledgments ride on messages; a dead sequencer is replaced",
    reference: "Kaashoek et al. 1989, in Segovia 1996, 2.7",
    roles: &[Role::Peer],
    order: Order::Total,
    confirmed: true,
    waits: true,
    header_bytes: |_| HeaderBytes::all(HEADER_LEN),
    format: &carillon_wire::sequencer::FORMAT,
    parameters: config::PARAMETERS,
    delivery_settings: config::DELIVERY_SETTINGS,
    host_settings: config::HOST_SETTINGS,
    build: |role, context, settings| match role {
        Role::Peer => Ok(Box::new(SequencerPeer::new(context, settings)?)),
        _ => Err(ConfigError::no_such_role(role)),
    },
    ..describe::DESCRIBED
};
