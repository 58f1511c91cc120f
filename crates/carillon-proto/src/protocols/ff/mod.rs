//! FF: full feedback, a sender-initiated protocol with positive acknowledgments.
//!
//! Every receiver acknowledges every packet, and the sender multicasts a message again that some receiver has not
//! acknowledged in time. FF serves as the baseline of PF.
//!
//! Source: Pingali, Towsley and Kurose 1994, as Barcellos and Ezhilchelvan 1998 simulate it. See
//! `docs/protocols/ff.md`.

mod receiver;
mod sender;
mod states;
#[cfg(test)]
mod tests;

use carillon_core::{
    About, ConfigError, DefaultSettings, DeliveryProperties, HeaderBytes, Order, PacketProperties, Parameter,
    ProtocolEntry, Role, StudyProperties,
};
use carillon_wire::ff::HEADER_LEN;

use super::pf::config::{BURST, DELIVERY_SETTINGS, HOST_SETTINGS, IPG, RTO_MIN, RTT, RTT_MAX, WINDOW};
use crate::blocks::retransmission::parameters::PAST_LIMIT;

pub use receiver::FfReceiver;
pub use sender::FfSender;

/// Registry entry of FF.
pub const ENTRY: ProtocolEntry = ProtocolEntry {
    name: "ff",
    about: About {
        family: "sender-driven, positive acknowledgment",
        summary: "full feedback: every receiver acknowledges every packet, repairs go to all",
        reference: "Pingali, Towsley and Kurose 1994, as in Barcellos and Ezhilchelvan 1998",
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
        format: &carillon_wire::ff::FORMAT,
        ..ProtocolEntry::PLAIN.packets
    },
    parameters: &[
        WINDOW,
        IPG,
        RTT,
        RTT_MAX,
        RTO_MIN,
        RETRANSMISSION_LIMIT,
        BACKOFF,
        RECEIVER_PAST_LIMIT,
        BURST,
    ],
    settings: DefaultSettings {
        // The remaining settings of PF concern polls.
        delivery: &[
            DELIVERY_SETTINGS[0],
            DELIVERY_SETTINGS[2],
            DELIVERY_SETTINGS[3],
            DELIVERY_SETTINGS[4],
            ("backoff", "true"),
        ],
        host: HOST_SETTINGS,
        ..ProtocolEntry::PLAIN.settings
    },
    study: StudyProperties { states: states::STATES, ..ProtocolEntry::PLAIN.study },
    build: |role, context, settings| match role {
        Role::Receiver => Ok(Box::new(FfReceiver::new(context, settings))),
        Role::Sender => Ok(Box::new(FfSender::new(context, settings))),
        _ => Err(ConfigError::no_such_role(role)),
    },
    ..ProtocolEntry::PLAIN
};

const RETRANSMISSION_LIMIT: Parameter = Parameter::count("retransmission_limit", (0, 1_000_000), "10")
    .doc("with past_limit other than wait: a message is sent again while the count has not exceeded this");
const BACKOFF: Parameter = Parameter::switch("backoff", "false")
    .doc("the timeout of a message doubles each time that it goes again, twice at most, so that one receiver that never acknowledges does not have all sent for ever (Carillon's)");
const RECEIVER_PAST_LIMIT: Parameter = Parameter {
    default: "wait",
    doc: "past the limit: wait, and send it again (the papers, which have no limit), expel the receivers that miss it, or skip it (both Carillon's)",
    ..PAST_LIMIT
};
