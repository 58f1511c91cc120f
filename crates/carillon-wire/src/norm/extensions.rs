//! Header extensions (RFC 5740, 4.1).

use std::fmt;

use super::quantities::{decode_grtt, decode_rate};
use crate::ParseError;
use crate::hex::Hex;
use crate::lct_extensions::{FTI, check, each, find};
use crate::reader::Reader;

/// Header extensions, in the order of the packet. Unknown ones are kept and not interpreted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extensions<'a>(&'a [u8]);

/// Transmission information of an object (EXT_FTI).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmission {
    /// Size of the object in bytes, or of the buffer of a stream.
    pub size: u64,
    /// Maximum number of payload bytes in a packet.
    pub segment: u16,
    /// Maximum number of source symbols in a block.
    pub block: u16,
    /// Number of parity symbols of a block.
    pub parity: u16,
    /// Bits of a symbol number: 8 or 16 (FEC encoding 2).
    pub bits: u8,
}

/// State of a receiver for congestion control (EXT_CC).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Congestion {
    /// Sequence number of the sender's last probe.
    pub sequence: u16,
    /// Flags of the receiver.
    pub flags: u8,
    /// Round-trip time in the code of [`decode_grtt`].
    pub rtt: u8,
    /// Loss rate as a share of 65535.
    pub loss: u16,
    /// Rate in the code of [`decode_rate`].
    pub rate: u16,
}

impl Congestion {
    /// The receiver is the one that limits the rate.
    pub const LIMITING: u8 = 0x01;
    /// The receiver may become the one that limits the rate.
    pub const CANDIDATE: u8 = 0x02;
    /// The round-trip time is measured.
    pub const MEASURED: u8 = 0x04;
    /// The receiver has lost nothing so far.
    pub const STARTING: u8 = 0x08;
}

const CC: u8 = 3;
const RATE: u8 = 128;

impl<'a> Extensions<'a> {
    /// Checks that the bytes are whole extensions.
    pub fn new(bytes: &'a [u8]) -> Result<Self, ParseError> {
        check(bytes)?;
        Ok(Extensions(bytes))
    }

    /// Bytes of all extensions.
    pub fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// Appends the transmission information of an object with FEC encoding 5. Its last field is the number of parity
    /// symbols, as NRL's implementation has it, and not that of all symbols (RFC 5510).
    pub fn push_rs8(buf: &mut Vec<u8>, transmission: Transmission) {
        buf.extend_from_slice(&[FTI, 3]);
        buf.extend_from_slice(&transmission.size.to_be_bytes()[2..]);
        buf.extend_from_slice(&transmission.segment.to_be_bytes());
        buf.extend_from_slice(&[transmission.block.min(255) as u8, transmission.parity.min(255) as u8]);
    }

    /// Appends the transmission information of an object with FEC encoding 2, as [`Extensions::push_rs8`] does. A
    /// packet has one symbol.
    pub fn push_rs(buf: &mut Vec<u8>, transmission: Transmission) {
        buf.extend_from_slice(&[FTI, 4]);
        buf.extend_from_slice(&transmission.size.to_be_bytes()[2..]);
        buf.extend_from_slice(&[transmission.bits, 1]);
        buf.extend_from_slice(&transmission.segment.to_be_bytes());
        buf.extend_from_slice(&transmission.block.to_be_bytes());
        buf.extend_from_slice(&transmission.parity.to_be_bytes());
    }

    /// Appends the sender's rate, in the code of [`decode_rate`].
    pub fn push_rate(buf: &mut Vec<u8>, rate: u16) {
        buf.extend_from_slice(&[RATE, 0]);
        buf.extend_from_slice(&rate.to_be_bytes());
    }

    /// Appends the state of a receiver.
    pub fn push_congestion(buf: &mut Vec<u8>, state: Congestion) {
        buf.extend_from_slice(&[CC, 3]);
        buf.extend_from_slice(&state.sequence.to_be_bytes());
        buf.extend_from_slice(&[state.flags, state.rtt]);
        buf.extend_from_slice(&state.loss.to_be_bytes());
        buf.extend_from_slice(&state.rate.to_be_bytes());
        buf.extend_from_slice(&[0; 2]);
    }

    /// Transmission information for this FEC encoding, if the packet has it.
    pub fn transmission(self, fec_id: u8) -> Option<Transmission> {
        let mut fields = Reader::new(find(self.0, FTI)?);
        let size = u64::from(fields.u16().ok()?) << 32 | u64::from(fields.u32().ok()?);
        match fec_id {
            5 => {
                let segment = fields.u16().ok()?;
                let (block, parity) = (fields.u8().ok()?.into(), fields.u8().ok()?.into());
                Some(Transmission { size, segment, block, parity, bits: 8 })
            }
            2 => {
                let (bits, _) = (fields.u8().ok()?, fields.u8().ok()?);
                let segment = fields.u16().ok()?;
                let (block, parity) = (fields.u16().ok()?, fields.u16().ok()?);
                Some(Transmission { size, segment, block, parity, bits })
            }
            129 => {
                let _instance = fields.u16().ok()?;
                let segment = fields.u16().ok()?;
                let (block, parity) = (fields.u16().ok()?, fields.u16().ok()?);
                Some(Transmission { size, segment, block, parity, bits: 16 })
            }
            _ => None,
        }
    }

    /// State of the receiver, if the packet has it.
    pub fn congestion(self) -> Option<Congestion> {
        let mut fields = Reader::new(find(self.0, CC)?);
        Some(Congestion {
            sequence: fields.u16().ok()?,
            flags: fields.u8().ok()?,
            rtt: fields.u8().ok()?,
            loss: fields.u16().ok()?,
            rate: fields.u16().ok()?,
        })
    }

    /// Code of the sender's rate, if the packet has it.
    pub fn rate(self) -> Option<u16> {
        find(self.0, RATE).map(|content| u16::from_be_bytes([content[1], content[2]]))
    }
}

impl fmt::Display for Extensions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (kind, content) in each(self.0) {
            match kind {
                RATE => write!(f, " rate {:.0}", self.rate().map_or(0.0, decode_rate))?,
                CC => {
                    let Some(state) = self.congestion() else { continue };
                    let rtt = decode_grtt(state.rtt).as_secs_f64();
                    write!(f, " cc {} flags {:#04x} rtt {rtt:.6}", state.sequence, state.flags)?;
                    write!(f, " loss {} rate {:.0}", state.loss, decode_rate(state.rate))?;
                }
                FTI => write!(f, " fti {}", Hex(content))?,
                other => write!(f, " extension {other} {}", Hex(content))?,
            }
        }
        Ok(())
    }
}
