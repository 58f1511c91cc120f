//! The sequencer protocol of Kaashoek, Tanenbaum, Flynn Hummel and Bal (1989), after Segovia 1996, 2.7.
//!
//! One member, the sequencer, assigns every message its number in one total order. A member sends a message to it
//! (DATA), and it multicasts the message with the sequence number (MULTICAST). The other members request missing
//! messages (RETRANS), and acknowledge with the messages they send.
//!
//! The source only suggests how to replace a crashed sequencer; here it is the
//! [reformation](crate::blocks::reformation). For it a message is accepted only when `resilience` further members
//! hold it, as in Amoeba. The second way to send (BB) comes from Amoeba too. `docs/protocols/sequencer.md` lists the
//! rules and decisions.

mod config;
mod context;
mod follower;
mod leader;
mod order;
mod peer;
mod states;
#[cfg(test)]
mod tests;

use carillon_core::{
    About, ConfigError, DefaultSettings, DeliveryProperties, HeaderBytes, Order, PacketProperties,
    ProtocolEntry, Role, StudyProperties,
};
use carillon_wire::sequencer::HEADER_LEN;

pub use peer::SequencerPeer;

/// Registry entry of the sequencer protocol.
pub const ENTRY: ProtocolEntry = ProtocolEntry {
    name: "sequencer",
    about: About {
        family: "sequencer, negative and piggybacked positive acknowledgment, total order",
        summary: "one member orders all messages; acknowledgments ride on messages; a crashed sequencer is replaced",
        reference: "Kaashoek et al. 1989, in Segovia 1996, 2.7",
    },
    roles: &[Role::Peer],
    delivery: DeliveryProperties {
        order: Order::Total,
        confirmed: true,
        waits: true,
        ..ProtocolEntry::PLAIN.delivery
    },
    packets: PacketProperties {
        header_bytes: |_| HeaderBytes::all(HEADER_LEN),
        format: &carillon_wire::sequencer::FORMAT,
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
        Role::Peer => Ok(Box::new(SequencerPeer::new(context, settings)?)),
        _ => Err(ConfigError::no_such_role(role)),
    },
    ..ProtocolEntry::PLAIN
};
