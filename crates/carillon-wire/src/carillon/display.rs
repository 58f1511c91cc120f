//! Display of a packet in one line.

use std::fmt;

use super::{ClosedBlock, CodedBlock, IncompleteBlock, Packet, Poll, Status};

impl fmt::Display for Packet<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Packet::Data { sequence, index, length, count, payload } => {
                write!(f, "carillon data seq {sequence} index {index} of {length} count {count}")?;
                write!(f, " len {}", payload.len())
            }
            Packet::Repair { block: CodedBlock { first, length, planned }, number, count, more, symbol } => {
                write!(f, "carillon repair block {first} of {length} number {number} of {planned}")?;
                write!(f, " count {count} more {more} len {}", symbol.len())
            }
            Packet::Xor { first, length, count, places, sum } => {
                write!(f, "carillon xor block {first} of {length} count {count} places")?;
                places.as_slice().iter().try_for_each(|place| write!(f, " {place}"))?;
                write!(f, " len {}", sum.len())
            }
            Packet::Poll { poll: Poll { next, first, question, after, span }, blocks, asked } => {
                write!(f, "carillon poll next {next} first {first} question {question}")?;
                write!(f, " after {after} span {span} blocks")?;
                blocks.iter().try_for_each(|block| write!(f, " {block}"))?;
                write!(f, " asked")?;
                asked.iter().try_for_each(|identity| write!(f, " {identity:#x}"))
            }
            Packet::Status { status: Status { expected, question, arrived, room }, lacking } => {
                write!(f, "carillon status expected {expected} question {question}")?;
                write!(f, " arrived {arrived} room {room} lacks")?;
                lacking.iter().try_for_each(|lacks| write!(f, " {lacks}"))
            }
        }
    }
}

impl fmt::Display for ClosedBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{}:{}", self.first, self.length, self.count)
    }
}

impl fmt::Display for IncompleteBlock<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = if self.plain { "plain " } else { "" };
        write!(f, "{}:{} {plain}{} map{}", self.first, self.count, self.lacks, self.missing)
    }
}
