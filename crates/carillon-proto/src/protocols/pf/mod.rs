//! PF: polling feedback.
//!
//! A parent sends messages to its children and polls them for their state. It plans each poll by the child's
//! round-trip time, so that responses arrive no faster than the parent can process them, which avoids feedback
//! implosion.
//!
//! Source: Barcellos and Ezhilchelvan 1998. See `docs/protocols/pf.md`.

pub(crate) mod config;
pub(crate) mod intake;
pub(crate) mod parent;
pub(crate) mod receiver;
pub(crate) mod sender;
pub(crate) mod states;

use carillon_core::{
    About, ConfigError, DefaultSettings, DeliveryProperties, HeaderBytes, Order, PacketProperties,
    ProtocolEntry, Role, StudyProperties,
};
use carillon_wire::pf::{HEADER_LEN, POLL_HEADER_LEN};

pub use receiver::PfReceiver;
pub use sender::PfSender;

/// Registry entry of polling feedback.
pub const ENTRY: ProtocolEntry = ProtocolEntry {
    name: "pf",
    about: About {
        family: "sender-driven, positive and negative acknowledgment by polls",
        summary: "polling feedback: children are polled at a rate of responses that the parent can process",
        reference: "Barcellos and Ezhilchelvan 1998",
    },
    roles: &[Role::Sender, Role::Receiver],
    delivery: DeliveryProperties {
        order: Order::Source,
        confirmed: true,
        waits: true,
        ..ProtocolEntry::PLAIN.delivery
    },
    packets: PacketProperties {
        header_bytes: |_| HEADER,
        format: &carillon_wire::pf::FORMAT,
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
        Role::Receiver => Ok(Box::new(PfReceiver::new(context, settings))),
        Role::Sender => Ok(Box::new(PfSender::new(context, settings)?)),
        _ => Err(ConfigError::no_such_role(role)),
    },
    ..ProtocolEntry::PLAIN
};

/// Header sizes: of DATA, and of a DATAPOLL that polls the maximum number of children.
pub(crate) const HEADER: HeaderBytes = HeaderBytes { data: HEADER_LEN, max: POLL_HEADER_LEN + 1 + 5 * 40 };
