//! RMTP: the Reliable Multicast Transport Protocol (Lin and Paul, INFOCOM 1996; Paul, Sabnani, Lin and Bhattacharyya,
//! IEEE JSAC 1997).
//!
//! Receivers send periodic acknowledgments with a cumulative number and a bitmap. The *acknowledgment processor* of
//! their region, a designated receiver, repairs missing messages from its cache and acknowledges upwards on behalf of
//! its region, up to the sender. The sender therefore handles few acknowledgments, and repairs travel short
//! distances. RMTP is the successor of DSP.
//!
//! `docs/protocols/rmtp.md` lists the decisions that the papers leave open or to a session manager.

mod config;
mod node;
mod processor;
mod selector;
mod sender;
mod states;
#[cfg(test)]
mod tests;

use carillon_core::{
    About, ConfigError, DefaultSettings, DeliveryProperties, HeaderBytes, Helpers, Order, PacketProperties,
    ProtocolEntry, Role, StudyProperties,
};
use carillon_wire::rmtp::HEADER_LEN;

pub use node::RmtpNode;
pub use sender::RmtpSender;

/// Registry entry of the Reliable Multicast Transport Protocol.
pub const ENTRY: ProtocolEntry = ProtocolEntry {
    name: "rmtp",
    about: About {
        family: "periodic acknowledgment along a tree, designated receivers repair",
        summary: "Reliable Multicast Transport Protocol: designated receivers collect status and repair their regions",
        reference: "Paul, Sabnani, Lin and Bhattacharyya 1997",
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
        format: &carillon_wire::rmtp::FORMAT,
        header_bytes: |_| HeaderBytes::all(HEADER_LEN),
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
        Role::Sender => Ok(Box::new(RmtpSender::new(context, settings)?)),
        Role::Receiver | Role::Helper => Ok(Box::new(RmtpNode::new(role, context, settings)?)),
        _ => Err(ConfigError::no_such_role(role)),
    },
    ..ProtocolEntry::PLAIN
};
