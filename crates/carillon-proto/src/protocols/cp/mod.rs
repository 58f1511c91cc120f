//! CP: the Combined Protocol.
//!
//! In each region the local exchange combines the statuses of the endpoints into one: the maximum of LW_r and the OR
//! of the aligned lists. It orders an endpoint that has a block to multicast it in the region, until all endpoints
//! have it.
//!
//! Source: Paul, Sabnani and Kristol (ICNP 1994), section 5. See `docs/protocols/cp.md`.

use carillon_core::{About, PacketProperties, ProtocolEntry};
use carillon_wire::status::Family;

use super::snr::{Consolidation, FAMILY, Repairs, Rule, TransmitterState, build, config};

/// Rules in which CP differs from the rest of the family.
const RULE: Rule = Rule {
    family: Family::Cp,
    consolidation: Some(Consolidation::Maximum),
    repairs: Repairs::Holder,
    transmitter_state: TransmitterState::WhenQuiet,
};

/// The Combined Protocol.
pub const ENTRY: ProtocolEntry = ProtocolEntry {
    name: "cp",
    about: About {
        summary: "local exchanges find a receiver of the region that has a missing message and multicasts it there",
        reference: "Paul, Sabnani and Kristol 1994",
        ..FAMILY.about
    },
    packets: PacketProperties { format: &carillon_wire::status::CP, ..FAMILY.packets },
    parameters: config::LOCAL_PARAMETERS,
    build: |role, context, config| build(RULE, role, context, config),
    ..FAMILY
};
