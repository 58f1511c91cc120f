//! Round-trip times of a member to the helpers and the sender, as measured by the member.

use std::fmt;

use crate::ParseError;
use crate::reader::Reader;

use super::MAX_PEERS;

/// List of round-trip times, as checked bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Distances<'a>(&'a [u8]);

/// Round-trip time to one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DistanceTo {
    /// Rank of the node in the roster.
    pub rank: u16,
    /// Round-trip time in microseconds.
    pub micros: u32,
}

impl<'a> Distances<'a> {
    /// Maximum number of entries of a packet.
    pub const MAX_ENTRIES: usize = 180;

    /// Appends these entries, as many as fit a packet.
    pub fn encode(distances: impl IntoIterator<Item = DistanceTo>, buf: &mut Vec<u8>) {
        for DistanceTo { rank, micros } in distances.into_iter().take(Self::MAX_ENTRIES) {
            buf.extend_from_slice(&rank.to_be_bytes());
            buf.extend_from_slice(&micros.to_be_bytes());
        }
    }

    /// Checks the bytes of a list; `None` if they are not one.
    pub fn new(bytes: &'a [u8]) -> Option<Self> {
        Self::read(bytes).ok()
    }

    /// Entries in the order of the packet.
    pub fn iter(&self) -> impl Iterator<Item = DistanceTo> + use<'a> {
        let mut reader = Reader::new(self.0);
        std::iter::from_fn(move || read_entry(&mut reader).ok())
    }

    pub(super) fn parse(reader: &mut Reader<'a>) -> Result<Self, ParseError> {
        let count = reader.u8()?;
        if usize::from(count) > Self::MAX_ENTRIES {
            return Err(ParseError::Field { field: "count", value: count.into() });
        }
        Self::read(reader.bytes(ENTRY_LEN * usize::from(count))?)
    }

    fn read(bytes: &'a [u8]) -> Result<Self, ParseError> {
        if bytes.len() > ENTRY_LEN * Self::MAX_ENTRIES {
            return Err(ParseError::Field { field: "bytes of distances", value: bytes.len() as u64 });
        }
        let mut reader = Reader::new(bytes);
        while !reader.rest().is_empty() {
            // Ranks must be those of a possible roster.
            let rank = read_entry(&mut reader)?.rank;
            if usize::from(rank) >= MAX_PEERS {
                return Err(ParseError::Field { field: "rank", value: rank.into() });
            }
        }
        Ok(Distances(bytes))
    }

    pub(super) fn emit(&self, buf: &mut Vec<u8>) {
        // A packet has fewer than 256 entries.
        buf.push((self.0.len() / ENTRY_LEN) as u8);
        buf.extend_from_slice(self.0);
    }

    pub(super) fn wire_len(&self) -> usize {
        1 + self.0.len()
    }
}

fn read_entry(reader: &mut Reader<'_>) -> Result<DistanceTo, ParseError> {
    Ok(DistanceTo { rank: reader.u16()?, micros: reader.u32()? })
}

impl fmt::Display for Distances<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.iter().try_for_each(|DistanceTo { rank, micros }| write!(f, " {rank}: {micros} us"))
    }
}

/// Bytes of an entry.
const ENTRY_LEN: usize = 2 + 4;
