//! Protocols whose receivers keep every datagram for ever and do all else as they should: a suite that passes one of them checks
//! no memory. One for each kind of promise.

use carillon_core::{BuildContext, Config, ConfigError, Machine, ProtocolEntry, Role};
use carillon_proto::protocols::{msaw, pgm, sequencer, xtp};
use carillon_testkit::HoardingMachine;

/// Hoarders without feedback, with acknowledgments, with requests, and of peers.
pub const HOARDERS: [&ProtocolEntry; 4] = [
    &ProtocolEntry {
        build: |role, context, config| hoard(&xtp::DATAGRAM_ENTRY, role, context, config),
        ..xtp::DATAGRAM_ENTRY
    },
    &ProtocolEntry {
        build: |role, context, config| hoard(&msaw::ENTRY, role, context, config),
        ..msaw::ENTRY
    },
    &ProtocolEntry { build: |role, context, config| hoard(&pgm::ENTRY, role, context, config), ..pgm::ENTRY },
    &ProtocolEntry {
        build: |role, context, config| hoard(&sequencer::ENTRY, role, context, config),
        ..sequencer::ENTRY
    },
];

fn hoard(
    entry: &ProtocolEntry,
    role: Role,
    context: &BuildContext,
    config: &Config,
) -> Result<Box<dyn Machine>, ConfigError> {
    let machine = (entry.build)(role, context, config)?;
    Ok(match role {
        Role::Receiver | Role::Peer => Box::new(HoardingMachine::new(machine)),
        _ => machine,
    })
}
