//! SNR, and the machines that it shares with DSP, CSP and CP.
//!
//! Source and receivers exchange their complete state periodically, and the source selectively retransmits the blocks
//! that a state does not contain. SNR was designed for one receiver; with several, each reports to the source. DSP,
//! CSP and CP place helpers between them, which differ in a [`Rule`].
//!
//! Source: Netravali, Roome and Sabnani 1990, "Design and implementation of a high speed transport protocol", as
//! described and extended by Paul, Sabnani and Kristol (ICNP 1994), "Multicast transport protocols for high speed
//! networks". See `docs/protocols/snr.md`.

mod children;
pub(crate) mod config;
mod endpoint;
mod local;
mod node;
mod report;
mod rule;
mod sender;
mod states;
#[cfg(test)]
mod tests;

use carillon_core::{
    About, BuildContext, Config, ConfigError, DefaultSettings, DeliveryProperties, HeaderBytes, Helpers,
    Machine, Order, PacketProperties, ProtocolEntry, Role, SessionProperties, StudyProperties,
};
use carillon_wire::status::{Family, HEADER_LEN};

pub use node::StatusNode;
pub use report::{Consolidation, Report};
pub use rule::{Repairs, Rule, TransmitterState};
pub use sender::StatusSender;

/// Rules of SNR: each receiver reports to the source.
const RULE: Rule = Rule {
    family: Family::Snr,
    consolidation: None,
    repairs: Repairs::Source,
    transmitter_state: TransmitterState::Always,
};

/// Registry entry of SNR.
pub const ENTRY: ProtocolEntry = ProtocolEntry {
    name: "snr",
    about: About {
        summary: "source and receivers exchange their complete state periodically; selective repeat by it",
        reference: "Netravali, Roome and Sabnani 1990; Paul, Sabnani and Kristol 1994",
        ..FAMILY.about
    },
    roles: &[Role::Sender, Role::Receiver],
    helpers: Helpers::None,
    packets: PacketProperties { format: &carillon_wire::status::SNR, ..FAMILY.packets },
    parameters: config::PARAMETERS,
    build: |role, context, config| build(RULE, role, context, config),
    ..FAMILY
};

/// Fields that the entries of the family have in common.
pub(super) const FAMILY: ProtocolEntry = ProtocolEntry {
    about: About { family: "sender-driven, periodic complete state", ..ProtocolEntry::PLAIN.about },
    roles: &[Role::Sender, Role::Receiver, Role::Helper],
    helpers: Helpers::Optional,
    delivery: DeliveryProperties {
        order: Order::Source,
        confirmed: true,
        waits: true,
        ..ProtocolEntry::PLAIN.delivery
    },
    session: SessionProperties {
        many_sources: Some(carillon_wire::envelope::association_of),
        ..ProtocolEntry::PLAIN.session
    },
    packets: PacketProperties {
        header_bytes: |_| HeaderBytes::all(HEADER_LEN),
        ..ProtocolEntry::PLAIN.packets
    },
    parameters: config::LOCAL_PARAMETERS,
    settings: DefaultSettings {
        delivery: config::DELIVERY_SETTINGS,
        host: config::HOST_SETTINGS,
        ..ProtocolEntry::PLAIN.settings
    },
    study: StudyProperties { states: states::STATES, ..ProtocolEntry::PLAIN.study },
    ..ProtocolEntry::PLAIN
};

/// Builds the machine of a role for a protocol of the family.
pub(super) fn build(
    rule: Rule,
    role: Role,
    context: &BuildContext,
    config: &Config,
) -> Result<Box<dyn Machine>, ConfigError> {
    Ok(match role {
        Role::Sender => Box::new(StatusSender::new(rule, context, config)?),
        Role::Receiver => Box::new(StatusNode::new(rule, role, context, config)?),
        Role::Helper if rule.family != Family::Snr => Box::new(StatusNode::new(rule, role, context, config)?),
        _ => return Err(ConfigError::no_such_role(role)),
    })
}
