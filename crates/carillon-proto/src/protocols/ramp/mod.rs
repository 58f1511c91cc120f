//! RAMP: the Reliable Adaptive Multicast Protocol (Braudes and Zabele, RFC 1458; Koifman and Zabele, INFOCOM 1996).
//!
//! Receivers request spans of missing messages at once, and the sender collects requests during the retransmission
//! hold timer: a message that many request is multicast, another one goes to each requester. In *burst mode* the first
//! message of each burst asks for acknowledgments and one Idle ends the burst. In *idle mode* the sender multicasts
//! Idles between bursts, receivers send Idles of their own, and nothing is acknowledged. Each receiver has its own
//! service: sender-reliable, receiver-reliable or unreliable.
//!
//! Sources: RFC 1458, section 4; Johnstone 1997, section II.E.4, for the modes of the 1996 paper. They give neither
//! formats nor numbers; `docs/protocols/ramp.md` lists this project's decisions. The group authority, router
//! squelches and quality levels of RFC 1458 are left out.

mod bursts;
mod channels;
mod config;
mod poll;
mod rate;
mod receiver;
mod repairs;
mod sender;
mod states;
#[cfg(test)]
mod tests;

use carillon_core::{
    About, ConfigError, DefaultSettings, DeliveryProperties, HeaderBytes, Order, PacketProperties,
    ProtocolEntry, Role, StudyProperties,
};
use carillon_wire::ramp::HEADER_LEN;

pub use receiver::RampReceiver;
pub use sender::RampSender;

/// Registry entry of the Reliable Adaptive Multicast Protocol.
pub const ENTRY: ProtocolEntry = ProtocolEntry {
    name: "ramp",
    about: About {
        family: "receiver-driven requests, acknowledgment for each burst or Idles both ways",
        summary: "Reliable Adaptive Multicast Protocol: requests, repairs by unicast or multicast, burst and idle mode",
        reference: "Braudes and Zabele 1993 (RFC 1458); Koifman and Zabele 1996, as in Johnstone 1997",
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
        format: &carillon_wire::ramp::FORMAT,
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
        Role::Sender => Ok(Box::new(RampSender::new(context, settings)?)),
        Role::Receiver => Ok(Box::new(RampReceiver::new(context, settings)?)),
        _ => Err(ConfigError::no_such_role(role)),
    },
    ..ProtocolEntry::PLAIN
};
