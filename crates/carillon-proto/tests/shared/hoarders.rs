//! Protocols with receivers that keep every datagram but behave correctly otherwise. A memory suite that passes one of
//! them checks nothing. There is one for each kind of guarantee.

use carillon_core::{BuildContext, Config, ConfigError, Machine, ProtocolEntry, Role};
use carillon_proto::protocols::{msaw, pgm, sequencer, xtp};
use carillon_testkit::HoardingMachine;

/// Hoarding variants of a protocol without feedback, with acknowledgments, with requests, and of peers.
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
