//! Messages and their quality of service.

use std::fmt;

use super::slot::Id;
use crate::ParseError;
use crate::reader::Reader;

/// Quality of service of a message, which its sender chooses. The codes are Carillon's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Quality {
    /// Delivered on arrival, without repair.
    Unreliable,
    /// Delivered on arrival, with repair.
    Reliable,
    /// Delivered in the order of its source.
    SourceOrdered,
    /// Delivered in the order of the group.
    TotallyOrdered,
    /// Totally ordered, and delivered after the token was accepted this many more times.
    Resilient(u8),
    /// Totally ordered, and delivered when more than half of the members hold it.
    MajorityResilient,
    /// Totally ordered, and delivered when all members hold it.
    TotallyResilient,
}

impl Quality {
    /// Code and number of passes on the wire.
    fn code(self) -> [u8; 2] {
        match self {
            Quality::Unreliable => [0, 0],
            Quality::Reliable => [1, 0],
            Quality::SourceOrdered => [2, 0],
            Quality::TotallyOrdered => [3, 0],
            Quality::Resilient(passes) => [4, passes],
            Quality::MajorityResilient => [5, 0],
            Quality::TotallyResilient => [6, 0],
        }
    }

    fn of_code([quality, passes]: [u8; 2]) -> Result<Self, ParseError> {
        let quality = match quality {
            0 => Quality::Unreliable,
            1 => Quality::Reliable,
            2 => Quality::SourceOrdered,
            3 => Quality::TotallyOrdered,
            4 => Quality::Resilient(passes),
            5 => Quality::MajorityResilient,
            6 => Quality::TotallyResilient,
            other => return Err(ParseError::Field { field: "quality", value: other.into() }),
        };
        match quality.code() {
            [_, expected] if expected == passes => Ok(quality),
            _ => Err(ParseError::Field { field: "passes", value: passes.into() }),
        }
    }
}

impl fmt::Display for Quality {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Quality::Unreliable => f.write_str("unreliable"),
            Quality::Reliable => f.write_str("reliable"),
            Quality::SourceOrdered => f.write_str("source"),
            Quality::TotallyOrdered => f.write_str("total"),
            Quality::Resilient(passes) => write!(f, "resilient-{passes}"),
            Quality::MajorityResilient => f.write_str("majority"),
            Quality::TotallyResilient => f.write_str("totally-resilient"),
        }
    }
}

/// Message with its identity and quality of service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// Source and sequence number. Unreliable messages have a sequence of their own.
    pub id: Id,
    /// Quality of service.
    pub quality: Quality,
    /// Number of the message at its source, which counts messages of all qualities.
    pub number: u64,
    /// Contents of the message.
    pub payload: &'a [u8],
}

impl<'a> Message<'a> {
    /// Bytes before the payload.
    pub const HEADER_LEN: usize = 20;

    pub(super) fn parse(reader: &mut Reader<'a>) -> Result<Self, ParseError> {
        let source = reader.u16()?;
        let quality = Quality::of_code(reader.array()?)?;
        let (sequence, number) = (reader.u64()?, reader.u64()?);
        Ok(Message { id: Id { source, sequence }, quality, number, payload: reader.remaining() })
    }

    pub(super) fn emit(&self, buf: &mut Vec<u8>) {
        buf.extend_from_slice(&self.id.source.to_be_bytes());
        buf.extend_from_slice(&self.quality.code());
        buf.extend_from_slice(&self.id.sequence.to_be_bytes());
        buf.extend_from_slice(&self.number.to_be_bytes());
        buf.extend_from_slice(self.payload);
    }

    pub(super) fn wire_len(&self) -> usize {
        Self::HEADER_LEN + self.payload.len()
    }
}

impl fmt::Display for Message<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Message { id, quality, number, payload } = self;
        write!(f, "{id} number {number} {quality} len {}", payload.len())
    }
}
