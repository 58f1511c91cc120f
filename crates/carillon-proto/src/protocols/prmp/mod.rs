//! PRMP: polling feedback over a tree of nodes.
//!
//! Each inner node is a child of its parent and the parent of the nodes below it, and repairs losses for them. Every
//! level follows the rules of [`super::pf`].
//!
//! Source: Barcellos and Ezhilchelvan 1998, which describes one level and announces the tree. See
//! `docs/protocols/prmp.md`.

mod branch;
mod node;
mod sender;
mod states;
#[cfg(test)]
mod tests;

use carillon_core::{
    About, ConfigError, DefaultSettings, DeliveryProperties, Helpers, Order, PacketProperties, Parameter,
    ProtocolEntry, Role, StudyProperties, joined,
};

use super::pf;
use super::pf::config::{DELIVERY_SETTINGS, HOST_SETTINGS, PARAMETERS};

pub use node::PrmpNode;
pub use sender::PrmpSender;

/// Registry entry of polling feedback over a tree.
pub const ENTRY: ProtocolEntry = ProtocolEntry {
    name: "prmp",
    about: About {
        family: "sender-driven, acknowledgment by polls along a tree",
        summary: "polling feedback over many levels: each inner node polls its children and repairs for them",
        reference: "Barcellos and Ezhilchelvan 1998, sections 1 and 5",
    },
    roles: &[Role::Sender, Role::Receiver, Role::Helper],
    helpers: Helpers::Optional,
    delivery: DeliveryProperties {
        order: Order::Source,
        confirmed: true,
        waits: true,
        ..ProtocolEntry::PLAIN.delivery
    },
    packets: PacketProperties {
        header_bytes: |_| pf::HEADER,
        format: &carillon_wire::pf::FORMAT,
        ..ProtocolEntry::PLAIN.packets
    },
    parameters: &joined::<_, { PARAMETERS.len() + 3 }>(&[PARAMETERS, &[DATA, RELIABILITY, HELPER_TIMEOUT]]),
    settings: DefaultSettings {
        delivery: &joined::<_, { DELIVERY_SETTINGS.len() + 1 }>(&[DELIVERY_SETTINGS, &[("data", "root")]]),
        host: HOST_SETTINGS,
        ..ProtocolEntry::PLAIN.settings
    },
    study: StudyProperties {
        // Hop by hop, a message is sent once to each child, and only the first of these packets counts as its original.
        marks_originals: false,
        states: states::STATES,
        ..ProtocolEntry::PLAIN.study
    },
    build: |role, context, settings| match role {
        Role::Sender => Ok(Box::new(PrmpSender::new(context, settings)?)),
        Role::Receiver | Role::Helper => Ok(Box::new(PrmpNode::new(role, context, settings)?)),
        _ => Err(ConfigError::no_such_role(role)),
    },
    ..ProtocolEntry::PLAIN
};

const DATA: Parameter = Parameter::choice("data", &["hop", "root"], "hop")
    .doc("hop: each node sends messages to its children, one by one; root: the sender sends to the whole group, and inner nodes send what their children lack");
const RELIABILITY: Parameter = Parameter::choice("reliability", &["end", "hop"], "end")
    .doc("end: the sender is done with a message when all receivers below have it; hop: when its own children have it (what a dead inner node alone had is lost)");
const HELPER_TIMEOUT: Parameter = Parameter::span("helper_timeout", "2 s")
    .doc("an inner node that has not answered for so long has failed; its children turn to its parent");
