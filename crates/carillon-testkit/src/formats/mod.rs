//! Packets of all formats for suites: fuzzed ones, and golden ones, which never change.
//!
//! A format has one file here and one line in [`FORMATS`]. Suites find it by the name of the format. Nothing of this is
//! compiled into a product.

mod alc;
mod carillon;
mod chang_maxemchuk;
mod erramilli_singh;
mod feedback;
pub(crate) mod ff;
mod kfold;
mod lms;
mod mbap;
mod msaw;
mod mtp;
mod norm;
pub(crate) mod pf;
mod pgm;
pub(crate) mod ramp;
mod reformation;
mod rmp;
pub(crate) mod rmtp;
mod rra;
mod sequencer;
mod srm;
pub(crate) mod status;
mod tree;
mod xtp;

use std::collections::BTreeMap;

use carillon_core::{AssociationId, Format, PacketKind};

use crate::fuzz::Input;

/// Packets of a format for suites.
#[derive(Debug)]
pub struct FormatTests {
    /// The format.
    pub format: &'static Format,
    /// Makes a datagram of this format from fuzzed decisions. Most of these datagrams are plausible in this session,
    /// as from an attacker that has overheard it.
    pub fuzzed: fn(&mut Input<'_>, AssociationId, &mut Vec<u8>),
    /// Golden vectors: one packet of each type.
    pub golden: &'static [Golden],
}

impl FormatTests {
    /// Kinds of the golden packets by name, in traces and in summaries. A name that stands for packets of several
    /// kinds is left out. [`Format::kinds`] lists the same.
    pub fn golden_kinds(&self) -> BTreeMap<String, PacketKind> {
        let mut kinds: BTreeMap<String, Option<PacketKind>> = BTreeMap::new();
        for datagram in self.golden.iter().map(Golden::bytes) {
            let Some(summary) = (self.format.summary)(&datagram) else { continue };
            let names = [Some(summary.name.to_owned()), self.format.packet_name(&datagram)];
            for name in names.into_iter().flatten() {
                let kind = kinds.entry(name).or_insert(Some(summary.kind));
                *kind = kind.filter(|kind| *kind == summary.kind);
            }
        }
        kinds.into_iter().filter_map(|(name, kind)| Some((name, kind?))).collect()
    }
}

/// Golden vector: text and bytes of a packet, which never change.
#[derive(Clone, Copy, Debug)]
pub struct Golden {
    /// Packet as one line of text.
    pub line: &'static str,
    /// Bytes of the packet in hexadecimal digits; blanks between them are ignored.
    pub hex: &'static str,
}

impl Golden {
    /// Bytes of the packet.
    pub fn bytes(&self) -> Vec<u8> {
        let digits: Vec<u8> = self.hex.chars().filter_map(|digit| Some(digit.to_digit(16)? as u8)).collect();
        digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect()
    }
}

/// Packets of all formats of the registry, and of the tree protocol of the suites.
pub const FORMATS: &[&FormatTests] = &[
    &alc::TESTS,
    &carillon::TESTS,
    &chang_maxemchuk::TESTS,
    &erramilli_singh::TESTS,
    &ff::TESTS,
    &kfold::TESTS,
    &lms::TESTS,
    &mbap::TESTS,
    &msaw::TESTS,
    &mtp::TESTS,
    &norm::TESTS,
    &pf::TESTS,
    &pgm::TESTS,
    &ramp::TESTS,
    &rmp::TESTS,
    &rmtp::TESTS,
    &rra::TESTS,
    &sequencer::TESTS,
    &srm::TESTS,
    &xtp::TESTS,
    &status::SNR,
    &status::DSP,
    &status::CSP,
    &status::CP,
    &tree::TESTS,
];

/// Packets of this format.
///
/// # Panics
///
/// Panics if the table does not have it.
pub fn format_tests(format: &Format) -> &'static FormatTests {
    let found = FORMATS.iter().find(|tests| tests.format.name == format.name);
    found.unwrap_or_else(|| panic!("{} has no line in crates/carillon-testkit/src/formats", format.name))
}
