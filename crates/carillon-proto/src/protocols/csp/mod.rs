//! CSP: the Consolidated Status Protocol.
//!
//! In each region the local exchange combines the statuses of the endpoints into one: the minimum of LW_r and the AND
//! of the aligned lists. Only the source retransmits.
//!
//! Source: Paul, Sabnani and Kristol (ICNP 1994), section 4. See `docs/protocols/csp.md`.

use carillon_core::{About, PacketProperties, ProtocolEntry};
use carillon_wire::status::Family;

use super::snr::{Consolidation, FAMILY, Repairs, Rule, TransmitterState, build, config};

/// Rules in which CSP differs from the rest of the family.
const RULE: Rule = Rule {
    family: Family::Csp,
    consolidation: Some(Consolidation::Minimum),
    repairs: Repairs::Source,
    transmitter_state: TransmitterState::Never,
};

/// The Consolidated Status Protocol.
pub const ENTRY: ProtocolEntry = ProtocolEntry {
    name: "csp",
    about: About {
        summary: "local exchanges report which messages all receivers of a region have; the source repairs all losses",
        reference: "Paul, Sabnani and Kristol 1994",
        ..FAMILY.about
    },
    packets: PacketProperties { format: &carillon_wire::status::CSP, ..FAMILY.packets },
    parameters: config::ADDRESSED_PARAMETERS,
    build: |role, context, config| build(RULE, role, context, config),
    ..FAMILY
};
