//! MBAP: multicast block acknowledgment, and its unicast equivalent BAP.
//!
//! The sender transmits up to n messages to the group at once, and every receiver acknowledges them with one packet.
//! A timeout retransmits the whole window. The group is static and has one source.
//!
//! Source: Segovia 1996, section 2.6. See `docs/protocols/mbap.md`.

mod config;
mod receiver;
mod sender;
mod states;
#[cfg(test)]
mod tests;

use carillon_core::{
    About, ConfigError, DefaultSettings, DeliveryProperties, Order, PacketProperties, ProtocolEntry, Role,
    StudyProperties, UnicastEquivalent,
};
use carillon_wire::mbap::{HEADER_LEN, TIMED_HEADER_LEN};

use config::SenderConfig;
pub use receiver::MbapReceiver;
pub use sender::MbapSender;

use crate::blocks::{AdaptiveWait, Recipients, SerialUnicast};

/// Registry entry of multicast block acknowledgment.
pub const ENTRY: ProtocolEntry = ProtocolEntry {
    name: "mbap",
    about: About {
        family: "sender-driven, positive acknowledgment",
        summary: "multicast block acknowledgment: windows of n messages, each acknowledged once by every receiver",
        reference: "Segovia 1996, section 2.6",
    },
    roles: &[Role::Sender, Role::Receiver],
    delivery: DeliveryProperties {
        order: Order::Source,
        confirmed: true,
        waits: true,
        ..ProtocolEntry::PLAIN.delivery
    },
    packets: PacketProperties {
        header_bytes: |settings| AdaptiveWait::header_bytes(settings, HEADER_LEN, TIMED_HEADER_LEN),
        format: &carillon_wire::mbap::FORMAT,
        ..ProtocolEntry::PLAIN.packets
    },
    parameters: config::PARAMETERS,
    settings: DefaultSettings {
        delivery: config::DELIVERY_SETTINGS,
        host: config::HOST_SETTINGS,
        ..ProtocolEntry::PLAIN.settings
    },
    study: StudyProperties {
        unicast_equivalent: Some(UnicastEquivalent {
            protocol: "bap",
            ack_bytes: |settings| settings.size("ack_bytes").0,
            window: |settings| settings.count("window"),
        }),
        states: states::STATES,
        ..ProtocolEntry::PLAIN.study
    },
    build: |role, context, settings| {
        // Receivers have no settings of their own, so the sender's checks cover them.
        let config = SenderConfig::new(context, settings)?;
        match role {
            Role::Receiver => Ok(Box::new(MbapReceiver::new(context, settings))),
            Role::Sender => Ok(Box::new(MbapSender::new(context, config, Recipients::group(context)))),
            _ => Err(ConfigError::no_such_role(role)),
        }
    },
    ..ProtocolEntry::PLAIN
};

/// Registry entry of unicast block acknowledgment, to one receiver after the other.
pub const UNICAST_ENTRY: ProtocolEntry = ProtocolEntry {
    name: "bap",
    about: About {
        summary: "unicast equivalent of mbap: block acknowledgment to one receiver after the other",
        reference: "Segovia 1996, sections 2.4 and 4.1",
        ..ENTRY.about
    },
    study: StudyProperties { unicast_equivalent: None, ..ENTRY.study },
    build: |role, context, settings| match role {
        Role::Sender => {
            let config = SenderConfig::new(context, settings)?;
            let leg = |receiver| MbapSender::new(context, config, receiver);
            Ok(Box::new(SerialUnicast::to_members(context, config.window, leg)))
        }
        _ => (ENTRY.build)(role, context, settings),
    },
    ..ENTRY
};
