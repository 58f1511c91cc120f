//! Entry of a format in the table: the packets that suites know of it.

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
