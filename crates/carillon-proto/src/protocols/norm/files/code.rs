//! Codes of the blocks of files, and the numbers of symbols in packets (RFC 5740, 5.1.1; RFC 5510).

use carillon_wire::norm::{Position, Transmission};

use crate::blocks::SymbolField;

/// Reed-Solomon code, by its FEC encoding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Code {
    /// Encoding 5: blocks of up to 255 symbols.
    #[default]
    Rs8,
    /// Encoding 2: symbols have numbers of 8 or 16 bits.
    Rs(u8),
}

impl Code {
    /// Code of an encoding, with the bits of its symbol numbers; `None` if it is not supported.
    pub fn of(fec_id: u8, bits: u8) -> Option<Code> {
        match (fec_id, bits) {
            (5, _) => Some(Code::Rs8),
            (2, 8 | 16) => Some(Code::Rs(bits)),
            _ => None,
        }
    }

    /// Code for blocks of this size, which NRL's library chooses as well; `None` if there is none.
    pub fn for_symbols(symbols: usize) -> Option<Code> {
        [Code::Rs8, Code::Rs(16)].into_iter().find(|code| symbols <= code.field().max_symbols())
    }

    /// FEC encoding.
    pub fn fec_id(self) -> u8 {
        if self == Code::Rs8 { 5 } else { 2 }
    }

    /// Bits of the number of a symbol.
    pub fn bits(self) -> u8 {
        match self {
            Code::Rs8 => 8,
            Code::Rs(bits) => bits,
        }
    }

    pub fn field(self) -> SymbolField {
        if self.bits() == 16 { SymbolField::Gf16 } else { SymbolField::Gf8 }
    }

    /// Number of blocks that packets can tell apart.
    pub fn max_blocks(self) -> u64 {
        1 << (32 - u32::from(self.bits()))
    }

    /// Place of a symbol in a packet.
    pub fn position(self, (block, symbol): (u64, u16)) -> Position {
        let block = (block % self.max_blocks()) as u32;
        match self {
            Code::Rs8 => Position::Rs8 { block, symbol: symbol as u8 },
            Code::Rs(bits) => Position::Rs { both: block << bits | u32::from(symbol) },
        }
    }

    /// Block and symbol at a place in a packet; `None` in one of another encoding.
    pub fn place(self, position: Position) -> Option<(u64, u16)> {
        let (block, symbol) = position.split(self.bits());
        (position.fec_id() == self.fec_id()).then_some((block.into(), symbol as u16))
    }

    /// Bytes of the transmission information in each packet (EXT_FTI).
    pub fn extension_len(self) -> u64 {
        if self == Code::Rs8 { 12 } else { 16 }
    }

    /// Largest segment of at most `most` bytes that the code takes: elements of 16 bits have two bytes.
    pub fn segment(self, most: u64) -> u16 {
        let most = most.min(u16::MAX.into()) as u16;
        if self.field() == SymbolField::Gf16 { most & !1 } else { most }
    }

    /// Code that a packet's transmission information names.
    pub fn of_transmission(fec_id: u8, transmission: &Transmission) -> Option<Code> {
        Code::of(fec_id, transmission.bits)
    }
}
