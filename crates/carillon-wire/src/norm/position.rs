//! FEC payload identifiers: the block and the symbol of a packet (RFC 5740, RFC 5510, RFC 5445).

use std::fmt;

use crate::ParseError;
use crate::reader::Reader;

/// Place of a symbol in an object. Symbols below the length of the block are source symbols, the others parity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// FEC encoding 5, Reed-Solomon over GF(2^8): a block of 24 bits and a symbol of 8 bits.
    Rs8 {
        /// Number of the block, below 2^24.
        block: u32,
        /// Symbol in the block.
        symbol: u8,
    },
    /// FEC encoding 2, Reed-Solomon over GF(2^m): 32 bits, the last m of which are the symbol. The object's
    /// transmission information states m.
    Rs {
        /// Block and symbol.
        both: u32,
    },
    /// FEC encoding 129, small block systematic codes.
    Systematic {
        /// Number of the block.
        block: u32,
        /// Number of source symbols in the block.
        length: u16,
        /// Symbol in the block.
        symbol: u16,
    },
}

impl Position {
    /// Reads the identifier of this FEC encoding.
    pub(super) fn read(fec_id: u8, fields: &mut Reader<'_>) -> Result<Position, ParseError> {
        match fec_id {
            5 => {
                let both = fields.u32()?;
                Ok(Position::Rs8 { block: both >> 8, symbol: both as u8 })
            }
            2 => Ok(Position::Rs { both: fields.u32()? }),
            129 => Ok(Position::Systematic {
                block: fields.u32()?,
                length: fields.u16()?,
                symbol: fields.u16()?,
            }),
            other => Err(ParseError::Field { field: "fec_id", value: other.into() }),
        }
    }

    /// FEC encoding identifier.
    pub fn fec_id(self) -> u8 {
        match self {
            Position::Rs8 { .. } => 5,
            Position::Rs { .. } => 2,
            Position::Systematic { .. } => 129,
        }
    }

    /// Block and symbol, where the encoding alone states them; `bits` are those of a symbol for encoding 2.
    pub fn split(self, bits: u8) -> (u32, u32) {
        match self {
            Position::Rs8 { block, symbol } => (block, symbol.into()),
            Position::Rs { both } => {
                let bits = u32::from(bits.min(31));
                (both >> bits, both & ((1 << bits) - 1))
            }
            Position::Systematic { block, symbol, .. } => (block, symbol.into()),
        }
    }

    pub(super) fn len(self) -> usize {
        if let Position::Systematic { .. } = self { 8 } else { 4 }
    }

    pub(super) fn emit(self, buf: &mut Vec<u8>) {
        match self {
            Position::Rs8 { block, symbol } => {
                buf.extend_from_slice(&(block << 8 | u32::from(symbol)).to_be_bytes());
            }
            Position::Rs { both } => buf.extend_from_slice(&both.to_be_bytes()),
            Position::Systematic { block, length, symbol } => {
                buf.extend_from_slice(&block.to_be_bytes());
                buf.extend_from_slice(&length.to_be_bytes());
                buf.extend_from_slice(&symbol.to_be_bytes());
            }
        }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Position::Rs8 { block, symbol } => write!(f, "block {block} symbol {symbol}"),
            Position::Rs { both } => write!(f, "position {both:#x}"),
            Position::Systematic { block, length, symbol } => {
                write!(f, "block {block} of {length} symbol {symbol}")
            }
        }
    }
}
