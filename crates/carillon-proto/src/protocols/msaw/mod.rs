//! MSAW: multicast stop-and-wait, and its unicast equivalent SAW.
//!
//! One message at a time goes to the group, and every receiver acknowledges it. A timeout sends it again, to all
//! receivers or to those without an acknowledgment. The group is static and has one source.
//!
//! Source: Segovia 1996, section 2.5. See `docs/protocols/msaw.md`.

mod config;
mod nak;
mod receiver;
mod sender;
mod states;
#[cfg(test)]
mod tests;

use carillon_core::{
    About, BuildContext, Config, ConfigError, DefaultSettings, DeliveryProperties, Machine, Order,
    PacketProperties, ProtocolEntry, Role, StudyProperties, UnicastEquivalent,
};
use carillon_wire::msaw::{HEADER_LEN, TIMED_HEADER_LEN};

pub use nak::{NakReceiver, NakSender};
pub use receiver::MsawReceiver;
pub use sender::MsawSender;

use crate::blocks::{AdaptiveWait, Addressed, Recipients, SerialUnicast};

/// Registry entry of multicast stop-and-wait.
pub const ENTRY: ProtocolEntry = ProtocolEntry {
    name: "msaw",
    about: About {
        family: "sender-driven, positive acknowledgment",
        summary: "multicast stop-and-wait: one message at a time, acknowledged by every receiver",
        reference: "Segovia 1996, section 2.5",
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
        format: &carillon_wire::msaw::FORMAT,
        ..ProtocolEntry::PLAIN.packets
    },
    parameters: config::PARAMETERS,
    settings: DefaultSettings { delivery: config::DELIVERY_SETTINGS, ..ProtocolEntry::PLAIN.settings },
    study: StudyProperties {
        unicast_equivalent: Some(UnicastEquivalent {
            protocol: "saw",
            ack_bytes: |settings| settings.size("ack_bytes").0,
            window: |_| 1,
        }),
        states: states::STATES,
        ..ProtocolEntry::PLAIN.study
    },
    build: |role, context, settings| build(role, context, settings, false),
    ..ProtocolEntry::PLAIN
};

/// Registry entry of unicast stop-and-wait, to one receiver after the other.
pub const UNICAST_ENTRY: ProtocolEntry = ProtocolEntry {
    name: "saw",
    about: About {
        summary: "unicast equivalent of msaw: stop-and-wait to one receiver after the other",
        reference: "Segovia 1996, sections 2.4 and 4.1",
        ..ENTRY.about
    },
    study: StudyProperties { states: &[states::ACK_SENDER], unicast_equivalent: None, ..ENTRY.study },
    build: |role, context, settings| build(role, context, settings, true),
    ..ENTRY
};

fn build(
    role: Role,
    context: &BuildContext,
    settings: &Config,
    unicast: bool,
) -> Result<Box<dyn Machine>, ConfigError> {
    let config = config::SenderConfig::new(context, settings)?;
    let negative = settings.choice("feedback") == "nak";
    if negative && (unicast || config.addressed == Addressed::Unicast) {
        let what = "`feedback = \"nak\"` retransmits to the group: it goes with msaw and retransmission = \"multicast\"";
        return Err(ConfigError::Conflict(what.to_owned()));
    }
    Ok(match role {
        Role::Peer | Role::Relay | Role::Helper => return Err(ConfigError::no_such_role(role)),
        Role::Receiver if negative => Box::new(NakReceiver::new(context, settings)),
        Role::Sender if negative => Box::new(NakSender::new(context, config, settings)),
        Role::Receiver => Box::new(MsawReceiver::new(context, settings)),
        Role::Sender if unicast => {
            let leg = |receiver| MsawSender::new(context, config, receiver);
            Box::new(SerialUnicast::to_members(context, 1, leg))
        }
        Role::Sender => Box::new(MsawSender::new(context, config, Recipients::group(context))),
    })
}
