//! FEC encodings: their payload identifiers and the transmission information of objects (EXT_FTI).
//!
//! Sources: RFC 5445 (compact no-code, small block systematic), RFC 5510 (Reed-Solomon), RFC 5053 (Raptor), RFC 6330
//! (RaptorQ).

use std::fmt;

use crate::reader::Reader;

/// FEC encoding, as the codepoint of a packet and the file delivery table name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Encoding {
    /// 0: no code.
    NoCode,
    /// 1: Raptor.
    Raptor,
    /// 2: Reed-Solomon over GF(2^m).
    ReedSolomon,
    /// 5: Reed-Solomon over GF(2^8).
    ReedSolomon8,
    /// 6: RaptorQ.
    RaptorQ,
    /// 129: small block systematic; its instance names the code.
    SmallBlock,
}

/// Transmission information of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmission {
    /// Bytes of the object as it is sent.
    pub length: u64,
    /// Bytes of a symbol.
    pub symbol: u16,
    /// Code with its parameters.
    pub code: Code,
}

/// Parameters of a code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// No code.
    NoCode {
        /// Maximum number of source symbols of a block.
        block: u32,
    },
    /// Reed-Solomon over GF(2^8).
    ReedSolomon8 {
        /// Maximum number of source symbols of a block.
        block: u8,
        /// Maximum number of symbols of a block, parity included.
        total: u8,
    },
    /// Reed-Solomon over GF(2^m).
    ReedSolomon {
        /// Bits of an element of the field.
        bits: u8,
        /// Number of symbols in a packet.
        group: u8,
        /// Maximum number of source symbols of a block.
        block: u16,
        /// Maximum number of symbols of a block, parity included.
        total: u16,
    },
    /// Small block systematic code.
    SmallBlock {
        /// Instance: the code.
        instance: u16,
        /// Maximum number of source symbols of a block.
        block: u16,
        /// Maximum number of symbols of a block, parity included.
        total: u16,
    },
    /// Raptor.
    Raptor {
        /// Number of blocks of the object.
        blocks: u16,
        /// Number of sub-blocks of a block.
        sub_blocks: u8,
        /// Symbol alignment in bytes.
        alignment: u8,
    },
    /// RaptorQ.
    RaptorQ {
        /// Number of blocks of the object.
        blocks: u8,
        /// Number of sub-blocks of a block.
        sub_blocks: u16,
        /// Symbol alignment in bytes.
        alignment: u8,
    },
}

/// Place of a symbol in its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PayloadId {
    /// Number of the block (SBN).
    pub block: u32,
    /// Number of the symbol in its block (ESI).
    pub symbol: u32,
    /// Number of source symbols of the block, which small block systematic codes repeat in each packet.
    pub length: Option<u16>,
}

impl Encoding {
    /// Encoding with this identifier; `None` if it is not known.
    pub fn of(id: u8) -> Option<Encoding> {
        Some(match id {
            0 => Encoding::NoCode,
            1 => Encoding::Raptor,
            2 => Encoding::ReedSolomon,
            5 => Encoding::ReedSolomon8,
            6 => Encoding::RaptorQ,
            129 => Encoding::SmallBlock,
            _ => return None,
        })
    }

    /// Its identifier.
    pub fn id(self) -> u8 {
        match self {
            Encoding::NoCode => 0,
            Encoding::Raptor => 1,
            Encoding::ReedSolomon => 2,
            Encoding::ReedSolomon8 => 5,
            Encoding::RaptorQ => 6,
            Encoding::SmallBlock => 129,
        }
    }

    /// Parts the payload of a packet into payload identifier and symbol. The fields of encoding 2 have the default
    /// widths, those of GF(2^8).
    pub fn split(self, payload: &[u8]) -> Option<(PayloadId, &[u8])> {
        let (&word, rest) = payload.split_first_chunk::<4>()?;
        let word = u32::from_be_bytes(word);
        let id =
            |bits: u32| PayloadId { block: word >> bits, symbol: word & ((1 << bits) - 1), length: None };
        Some(match self {
            Encoding::NoCode | Encoding::Raptor => (id(16), rest),
            Encoding::ReedSolomon | Encoding::ReedSolomon8 => (id(8), rest),
            Encoding::RaptorQ => (id(24), rest),
            Encoding::SmallBlock => {
                let (&[a, b, c, d], rest) = rest.split_first_chunk::<4>()?;
                let length = Some(u16::from_be_bytes([a, b]));
                (PayloadId { block: word, symbol: u16::from_be_bytes([c, d]).into(), length }, rest)
            }
        })
    }

    /// Appends a payload identifier. Numbers beyond the widths of the fields lose their high bits.
    pub fn push_id(self, buf: &mut Vec<u8>, id: PayloadId) {
        let word = |bits: u32| id.block << bits | id.symbol & ((1 << bits) - 1);
        match self {
            Encoding::NoCode | Encoding::Raptor => buf.extend_from_slice(&word(16).to_be_bytes()),
            Encoding::ReedSolomon | Encoding::ReedSolomon8 => buf.extend_from_slice(&word(8).to_be_bytes()),
            Encoding::RaptorQ => buf.extend_from_slice(&word(24).to_be_bytes()),
            Encoding::SmallBlock => {
                buf.extend_from_slice(&id.block.to_be_bytes());
                buf.extend_from_slice(&id.length.unwrap_or(0).to_be_bytes());
                buf.extend_from_slice(&(id.symbol as u16).to_be_bytes());
            }
        }
    }

    /// Bytes of a payload identifier.
    pub fn id_len(self) -> usize {
        if self == Encoding::SmallBlock { 8 } else { 4 }
    }
}

impl Code {
    /// Its encoding.
    pub fn encoding(self) -> Encoding {
        match self {
            Code::NoCode { .. } => Encoding::NoCode,
            Code::Raptor { .. } => Encoding::Raptor,
            Code::ReedSolomon { .. } => Encoding::ReedSolomon,
            Code::ReedSolomon8 { .. } => Encoding::ReedSolomon8,
            Code::RaptorQ { .. } => Encoding::RaptorQ,
            Code::SmallBlock { .. } => Encoding::SmallBlock,
        }
    }

    /// Scheme-specific information as the file delivery table has it; empty if the code has none.
    pub fn specific(self) -> Vec<u8> {
        match self {
            Code::ReedSolomon { bits, group, .. } => vec![bits, group],
            Code::Raptor { blocks, sub_blocks, alignment } => {
                let [a, b] = blocks.to_be_bytes();
                vec![a, b, sub_blocks, alignment]
            }
            Code::RaptorQ { blocks, sub_blocks, alignment } => {
                let [a, b] = sub_blocks.to_be_bytes();
                vec![blocks, a, b, alignment]
            }
            _ => Vec::new(),
        }
    }

    /// Code with these attributes of the file delivery table: maximum numbers of source symbols and of symbols of a
    /// block, instance, and scheme-specific information. `None` if one is missing or out of its range.
    pub fn of_attributes(
        encoding: Encoding,
        block: Option<u32>,
        total: Option<u32>,
        instance: Option<u16>,
        specific: &[u8],
    ) -> Option<Code> {
        Some(match encoding {
            Encoding::NoCode => Code::NoCode { block: block? },
            Encoding::ReedSolomon8 => {
                Code::ReedSolomon8 { block: block?.try_into().ok()?, total: total?.try_into().ok()? }
            }
            Encoding::ReedSolomon => {
                let (bits, group) = match *specific {
                    [] => (0, 0),
                    [bits, group] => (bits, group),
                    _ => return None,
                };
                Code::ReedSolomon {
                    // 0 stands for the default (RFC 5510, 4.2.4).
                    bits: if bits == 0 { 8 } else { bits },
                    group: group.max(1),
                    block: block?.try_into().ok()?,
                    total: total?.try_into().ok()?,
                }
            }
            Encoding::SmallBlock => Code::SmallBlock {
                instance: instance.unwrap_or(0),
                block: block?.try_into().ok()?,
                total: total?.try_into().ok()?,
            },
            Encoding::Raptor => match *specific {
                [a, b, sub_blocks, alignment] => {
                    Code::Raptor { blocks: u16::from_be_bytes([a, b]), sub_blocks, alignment }
                }
                _ => return None,
            },
            Encoding::RaptorQ => match *specific {
                [blocks, a, b, alignment] => {
                    Code::RaptorQ { blocks, sub_blocks: u16::from_be_bytes([a, b]), alignment }
                }
                _ => return None,
            },
        })
    }
}

impl Transmission {
    /// Reads the contents of EXT_FTI, behind type and length.
    pub(super) fn parse(encoding: Encoding, bytes: &[u8]) -> Option<Transmission> {
        let mut fields = Reader::new(bytes);
        if encoding == Encoding::RaptorQ {
            let [a, b, c, d, e, _] = fields.array().ok()?;
            let length = u64::from_be_bytes([0, 0, 0, a, b, c, d, e]);
            let (symbol, blocks) = (fields.u16().ok()?, fields.u8().ok()?);
            let (sub_blocks, alignment) = (fields.u16().ok()?, fields.u8().ok()?);
            return Some(Transmission {
                length,
                symbol,
                code: Code::RaptorQ { blocks, sub_blocks, alignment },
            });
        }
        let length = u64::from(fields.u16().ok()?) << 32 | u64::from(fields.u32().ok()?);
        let (symbol, code) = match encoding {
            Encoding::NoCode => {
                let _reserved = fields.u16().ok()?;
                (fields.u16().ok()?, Code::NoCode { block: fields.u32().ok()? })
            }
            Encoding::ReedSolomon8 => {
                let symbol = fields.u16().ok()?;
                (symbol, Code::ReedSolomon8 { block: fields.u8().ok()?, total: fields.u8().ok()? })
            }
            Encoding::ReedSolomon => {
                let (bits, group) = (fields.u8().ok()?, fields.u8().ok()?);
                let (symbol, block) = (fields.u16().ok()?, fields.u16().ok()?);
                (symbol, Code::ReedSolomon { bits, group, block, total: fields.u16().ok()? })
            }
            Encoding::SmallBlock => {
                let (instance, symbol) = (fields.u16().ok()?, fields.u16().ok()?);
                let (block, total) = (fields.u16().ok()?, fields.u16().ok()?);
                (symbol, Code::SmallBlock { instance, block, total })
            }
            Encoding::Raptor | Encoding::RaptorQ => {
                let _reserved = fields.u16().ok()?;
                let (symbol, blocks) = (fields.u16().ok()?, fields.u16().ok()?);
                let (sub_blocks, alignment) = (fields.u8().ok()?, fields.u8().ok()?);
                (symbol, Code::Raptor { blocks, sub_blocks, alignment })
            }
        };
        Some(Transmission { length, symbol, code })
    }

    /// Appends the contents of EXT_FTI. Their reserved fields are zero.
    pub(super) fn emit(&self, buf: &mut Vec<u8>) {
        let length = self.length.to_be_bytes();
        let symbol = self.symbol.to_be_bytes();
        match self.code {
            Code::RaptorQ { .. } => buf.extend_from_slice(&length[3..]),
            _ => buf.extend_from_slice(&length[2..]),
        }
        match self.code {
            Code::NoCode { block } => {
                buf.extend_from_slice(&[0; 2]);
                buf.extend_from_slice(&symbol);
                buf.extend_from_slice(&block.to_be_bytes());
            }
            Code::ReedSolomon8 { block, total } => {
                buf.extend_from_slice(&symbol);
                buf.extend_from_slice(&[block, total]);
            }
            Code::ReedSolomon { bits, group, block, total } => {
                buf.extend_from_slice(&[bits, group]);
                [symbol, block.to_be_bytes(), total.to_be_bytes()].iter().for_each(|field| buf.extend(field));
            }
            Code::SmallBlock { instance, block, total } => {
                let fields = [instance.to_be_bytes(), symbol, block.to_be_bytes(), total.to_be_bytes()];
                fields.iter().for_each(|field| buf.extend(field));
            }
            Code::Raptor { .. } => {
                buf.extend_from_slice(&[0; 2]);
                buf.extend_from_slice(&symbol);
                buf.extend_from_slice(&self.code.specific());
            }
            Code::RaptorQ { .. } => {
                buf.push(0);
                buf.extend_from_slice(&symbol);
                buf.extend_from_slice(&self.code.specific());
            }
        }
    }
}

impl fmt::Display for PayloadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, " block {} symbol {}", self.block, self.symbol)?;
        self.length.map_or(Ok(()), |length| write!(f, " of {length}"))
    }
}
