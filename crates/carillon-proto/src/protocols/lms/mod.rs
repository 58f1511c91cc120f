//! LMS: Light-weight Multicast Services, local recovery with the help of routers.
//!
//! In every router one interface leads to the *replier* of the subtree below it. A request from the replier's
//! interface goes up; a request from another interface turns at this router, its *turning point*, to the replier.
//! Only one request therefore leaves a subtree that has lost a message. A replier that has the message sends it to
//! the turning point, which multicasts it on the interface of the request (*directed multicast*). Routers keep no
//! state for messages or requests.
//!
//! Source: Papadopoulos, Parulkar and Varghese, INFOCOM 1998. Rules that the paper and the thesis leave open follow
//! the author's agents for ns-2; further decisions are in `docs/protocols/lms.md`.

mod answers;
mod config;
mod padding;
mod receiver;
mod relay;
mod sample;
mod sender;
mod states;
#[cfg(test)]
mod tests;

use carillon_core::{
    About, ConfigError, DefaultSettings, DeliveryProperties, HeaderBytes, Order, PacketProperties,
    ProtocolEntry, Role, StudyProperties,
};
use carillon_wire::lms::HEADER_LEN;

pub use receiver::LmsReceiver;
pub use relay::LmsRelay;
pub use sender::LmsSender;

/// Registry entry of Light-weight Multicast Services.
pub const ENTRY: ProtocolEntry = ProtocolEntry {
    name: "lms",
    about: About {
        family: "receiver-driven, negative acknowledgment, local recovery with help of routers",
        summary: "Light-weight Multicast Services: routers send each request to a replier and repairs down one branch",
        reference: "Papadopoulos, Parulkar and Varghese 1998",
    },
    roles: &[Role::Sender, Role::Receiver, Role::Relay],
    delivery: DeliveryProperties {
        order: Order::Source,
        confirmed: false,
        waits: false,
        ..ProtocolEntry::PLAIN.delivery
    },
    packets: PacketProperties {
        header_bytes: |_| HeaderBytes::all(HEADER_LEN),
        format: &carillon_wire::lms::FORMAT,
        ..ProtocolEntry::PLAIN.packets
    },
    parameters: config::PARAMETERS,
    settings: DefaultSettings { delivery: config::DELIVERY_SETTINGS, ..ProtocolEntry::PLAIN.settings },
    study: StudyProperties { states: states::STATES, ..ProtocolEntry::PLAIN.study },
    build: |role, context, settings| match role {
        Role::Sender => Ok(Box::new(LmsSender::new(context, settings)?)),
        Role::Receiver => Ok(Box::new(LmsReceiver::new(context, settings)?)),
        Role::Relay => Ok(Box::new(LmsRelay::new(context, settings)?)),
        _ => Err(ConfigError::no_such_role(role)),
    },
    ..ProtocolEntry::PLAIN
};
