//! MTP, the Multicast Transport Protocol (Armstrong, Freier and Marzullo, RFC 1301, 1992), and MTP-2 (Bormann, Ott,
//! Gehrcke, Kerschat and Seifert, ICCCN '94).
//!
//! A master grants numbered tokens, by which all messages have one order. The holder of a token multicasts the packets
//! of its message; members request lost packets from it by unicast. The master decides whether a message is accepted,
//! and every packet carries the decisions on the last twelve messages. Members deliver accepted messages in order.
//!
//! MTP abandons the web with its master. MTP-2 elects another one, for which this project uses the
//! [reformation](crate::blocks::reformation): its source's formats are not available. `docs/protocols/mtp.md` lists the
//! decisions.

mod assembly;
mod config;
mod consumer;
mod context;
mod frame;
mod master;
mod order;
mod peer;
mod producer;
mod states;
#[cfg(test)]
mod tests;
mod views;
mod web;

use carillon_core::{
    About, ConfigError, DefaultSettings, DeliveryProperties, HeaderBytes, Order, PacketProperties,
    ProtocolEntry, Role, StudyProperties,
};
use carillon_wire::mtp::{FETCHED_LEN, HEADER_LEN, VIEW_LEN};

pub use peer::MtpPeer;

/// Registry entry of MTP.
pub const ENTRY: ProtocolEntry = ProtocolEntry {
    name: "mtp",
    about: About {
        family: "tokens of a master, unicast negative acknowledgment, total order",
        summary: "Multicast Transport Protocol: a master orders messages by tokens and decides on each; it is not replaced",
        reference: "Armstrong, Freier and Marzullo 1992 (RFC 1301)",
    },
    roles: &[Role::Peer],
    delivery: DeliveryProperties { order: Order::Total, confirmed: true, ..ProtocolEntry::PLAIN.delivery },
    packets: PacketProperties {
        header_bytes: |_| HeaderBytes::all(HEADER_LEN + producer::NUMBER_LEN),
        format: &carillon_wire::mtp::FORMAT,
        ..ProtocolEntry::PLAIN.packets
    },
    parameters: config::PARAMETERS,
    settings: DefaultSettings {
        delivery: config::DELIVERY_SETTINGS,
        host: config::HOST_SETTINGS,
        ..ProtocolEntry::PLAIN.settings
    },
    study: StudyProperties { records_losses: true, states: states::STATES, ..ProtocolEntry::PLAIN.study },
    build: |role, context, settings| match role {
        Role::Peer => Ok(Box::new(MtpPeer::new(context, settings, false)?)),
        _ => Err(ConfigError::no_such_role(role)),
    },
    ..ProtocolEntry::PLAIN
};

/// Registry entry of MTP-2.
pub const MTP2_ENTRY: ProtocolEntry = ProtocolEntry {
    name: "mtp-2",
    about: About {
        summary: "MTP-2: like MTP, and a crashed master is replaced by election; streams with priorities",
        reference: "Bormann et al. 1994, in Johnstone and Williams 1997, II.E.5; RFC 1301",
        ..ENTRY.about
    },
    packets: PacketProperties {
        // An entry of the log that is fetched between views has a place and a source too.
        header_bytes: |_| {
            let data = HEADER_LEN + VIEW_LEN + producer::NUMBER_LEN;
            HeaderBytes { data, max: data + FETCHED_LEN - producer::NUMBER_LEN }
        },
        ..ENTRY.packets
    },
    parameters: config::MTP2_PARAMETERS,
    study: StudyProperties { states: states::MTP2_STATES, ..ENTRY.study },
    build: |role, context, settings| match role {
        Role::Peer => Ok(Box::new(MtpPeer::new(context, settings, true)?)),
        _ => Err(ConfigError::no_such_role(role)),
    },
    ..ENTRY
};
