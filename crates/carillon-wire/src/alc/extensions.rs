//! Header extensions of LCT (RFC 5651, section 5.2) and of FLUTE (RFC 6726, section 3.4).

use std::fmt;

use super::{Encoding, Transmission};
use crate::ParseError;
use crate::hex::Hex;
use crate::lct_extensions::{FTI, WORD, check, each, find};

/// Header extensions, in the order of the packet. Unknown ones are kept and not interpreted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extensions<'a>(&'a [u8]);

/// Header of an instance of the file delivery table (EXT_FDT).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FdtHeader {
    /// Version of FLUTE: 1 or 2.
    pub version: u8,
    /// Number of the instance, 20 bits.
    pub instance: u32,
}

const TIME: u8 = 2;
const FDT: u8 = 192;
const CENC: u8 = 193;
/// Bit of EXT_TIME: seconds of the sender's clock follow.
const SENDER_SECONDS: u8 = 0x80;

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

    /// Appends the header of an instance of the file delivery table.
    pub fn push_fdt(buf: &mut Vec<u8>, FdtHeader { version, instance }: FdtHeader) {
        let word = u32::from(FDT) << 24 | u32::from(version & 15) << 20 | instance & 0xf_ffff;
        buf.extend_from_slice(&word.to_be_bytes());
    }

    /// Appends the sender's time, in seconds since 1900 (NTP).
    pub fn push_time(buf: &mut Vec<u8>, seconds: u32) {
        buf.extend_from_slice(&[TIME, 2, SENDER_SECONDS, 0]);
        buf.extend_from_slice(&seconds.to_be_bytes());
    }

    /// Appends the transmission information of an object.
    pub fn push_transmission(buf: &mut Vec<u8>, transmission: &Transmission) {
        let start = buf.len();
        buf.extend_from_slice(&[FTI, 0]);
        transmission.emit(buf);
        buf.resize(start + (buf.len() - start).next_multiple_of(WORD), 0);
        buf[start + 1] = ((buf.len() - start) / WORD) as u8;
    }

    /// Header of an instance of the file delivery table, if the packet has it.
    pub fn fdt(self) -> Option<FdtHeader> {
        let &[high, mid, low] = find(self.0, FDT)? else { return None };
        let instance = u32::from_be_bytes([0, high & 15, mid, low]);
        Some(FdtHeader { version: high >> 4, instance })
    }

    /// Content encoding of the file delivery table (EXT_CENC), if the packet has it: 0 none, 1 ZLIB, 2 DEFLATE,
    /// 3 GZIP.
    pub fn content_encoding(self) -> Option<u8> {
        find(self.0, CENC)?.first().copied()
    }

    /// Seconds of the sender's clock since 1900, if the packet has them.
    pub fn sender_seconds(self) -> Option<u32> {
        match *find(self.0, TIME)? {
            [flags, _, a, b, c, d, ..] if flags & SENDER_SECONDS != 0 => {
                Some(u32::from_be_bytes([a, b, c, d]))
            }
            _ => None,
        }
    }

    /// Transmission information of the object for this FEC encoding, if the packet has it.
    pub fn transmission(self, encoding: Encoding) -> Option<Transmission> {
        Transmission::parse(encoding, find(self.0, FTI)?)
    }
}

impl fmt::Display for Extensions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (kind, content) in each(self.0) {
            match (kind, self.fdt()) {
                (FDT, Some(FdtHeader { version, instance })) => {
                    write!(f, " version {version} instance {instance}")?;
                }
                (CENC, _) => write!(f, " encoding {}", Hex(content))?,
                (FTI, _) => write!(f, " fti {}", Hex(content))?,
                (TIME, _) => write!(f, " clock {}", Hex(content))?,
                (other, _) => write!(f, " extension {other} {}", Hex(content))?,
            }
        }
        Ok(())
    }
}
