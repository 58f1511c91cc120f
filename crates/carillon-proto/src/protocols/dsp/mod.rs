//! DSP: the Designated Status Protocol.
//!
//! In each region a designated endpoint reports its own state to the source, and multicasts to its region the blocks
//! that receivers there are missing.
//!
//! Source: Paul, Sabnani and Kristol (ICNP 1994), section 3. See `docs/protocols/dsp.md`.

use carillon_core::{About, PacketProperties, ProtocolEntry};
use carillon_wire::status::Family;

use super::snr::{FAMILY, Repairs, Rule, TransmitterState, build, config};

/// Rules in which DSP differs from the rest of the family.
const RULE: Rule = Rule {
    family: Family::Dsp,
    consolidation: None,
    repairs: Repairs::Representative,
    transmitter_state: TransmitterState::Never,
};

/// The Designated Status Protocol.
pub const ENTRY: ProtocolEntry = ProtocolEntry {
    name: "dsp",
    about: About {
        summary: "designated receivers of regions report their own state, and multicast repairs in their regions",
        reference: "Paul, Sabnani and Kristol 1994",
        ..FAMILY.about
    },
    packets: PacketProperties { format: &carillon_wire::status::DSP, ..FAMILY.packets },
    parameters: config::REPRESENTATIVE_PARAMETERS,
    build: |role, context, config| build(RULE, role, context, config),
    ..FAMILY
};
