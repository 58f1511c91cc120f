//! Packets of ALC, Asynchronous Layered Coding (RFC 5775), with the LCT header (RFC 5651), as FLUTE uses them.
//!
//! The bytes are the RFCs' own, without the common envelope; over UDP a packet is the datagram.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-------+---+---+-+---+-+-+-+-+-+---------------+---------------+
//! |version| C |PSI|S| O |H|T|R|A|B| header words  |   codepoint   |
//! +-------+---+---+-+---+-+-+-+-+-+---------------+---------------+
//! | congestion control information, C + 1 words                   |
//! +---------------------------------------------------------------+
//! | transport session identifier, 32 S + 16 H bits                |
//! +---------------------------------------------------------------+
//! | transport object identifier, 32 O + 16 H bits                 |
//! +---------------------------------------------------------------+
//! | sender's time if T, residual time if R: a word each           |
//! +---------------------------------------------------------------+
//! | header extensions                                             |
//! +---------------------------------------------------------------+
//! | FEC payload identifier, and the symbol                        |
//! +---------------------------------------------------------------+
//! ```
//!
//! T and R are of RFC 3451, which FLUTE version 1 refers to; RFC 5651 reserves their bits and has EXT_TIME instead.

mod describe;
mod extensions;
mod fec;
mod identifiers;

use std::fmt;

pub use describe::FORMAT;
pub use extensions::{Extensions, FdtHeader};
pub use fec::{Code, Encoding, PayloadId, Transmission};
pub use identifiers::Identifiers;

use crate::ParseError;
use crate::hex::Hex;
use crate::lct_extensions::WORD;
use crate::reader::Reader;

/// ALC packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Protocol-specific bits (PSI), 2 bits; of no meaning for FLUTE.
    pub specific: u8,
    /// Congestion control information: 4, 8, 12 or 16 bytes.
    pub congestion: &'a [u8],
    /// Session and object.
    pub identifiers: Identifiers,
    /// Sender's time in milliseconds (RFC 3451).
    pub sender_time: Option<u32>,
    /// Rest of the session in milliseconds (RFC 3451).
    pub residual_time: Option<u32>,
    /// True if the sender is about to stop (A).
    pub closes_session: bool,
    /// True if nothing more is to come of the object (B).
    pub closes_object: bool,
    /// Codepoint: FLUTE's is the FEC encoding identifier.
    pub codepoint: u8,
    /// Header extensions.
    pub extensions: Extensions<'a>,
    /// FEC payload identifier and symbol; [`Encoding::split`] parts them.
    pub payload: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Object identifier of the file delivery table.
    pub const FDT: u128 = 0;

    /// Packet of a session, without extensions and payload.
    pub fn new(identifiers: Identifiers, codepoint: u8) -> Self {
        Packet {
            specific: 0,
            congestion: &[0; WORD],
            identifiers,
            sender_time: None,
            residual_time: None,
            closes_session: false,
            closes_object: false,
            codepoint,
            extensions: Extensions::default(),
            payload: &[],
        }
    }

    /// Parses a packet.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let mut fields = Reader::new(bytes);
        let [first, flags] = fields.array()?;
        if first >> 4 != VERSION {
            return Err(ParseError::Magic(u16::from_be_bytes([first, flags])));
        }
        let words = fields.u8()?;
        let codepoint = fields.u8()?;
        let congestion = fields.bytes(WORD * (1 + usize::from(first >> 2 & 3)))?;
        let identifiers = Identifiers::read(flags, &mut fields)?;
        let mut time = |bit| if flags & bit != 0 { fields.u32().map(Some) } else { Ok(None) };
        let (sender_time, residual_time) = (time(SENDER_TIME)?, time(RESIDUAL_TIME)?);
        let fixed = bytes.len() - fields.rest().len();
        let header = WORD * usize::from(words);
        let extensions = header
            .checked_sub(fixed)
            .ok_or(ParseError::Field { field: "header length", value: words.into() })?;
        Ok(Packet {
            specific: first & 3,
            congestion,
            identifiers,
            sender_time,
            residual_time,
            closes_session: flags & CLOSE_SESSION != 0,
            closes_object: flags & CLOSE_OBJECT != 0,
            codepoint,
            extensions: Extensions::new(fields.bytes(extensions)?)?,
            payload: fields.remaining(),
        })
    }

    /// Appends the packet. The header must have at most 255 words.
    pub fn emit(&self, buf: &mut Vec<u8>) {
        let words = self.header_len() / WORD;
        debug_assert!(words <= u8::MAX.into(), "the header length has one byte");
        let congestion = (self.congestion.len() / WORD).saturating_sub(1) as u8;
        let flag = |set, bit| if set { bit } else { 0 };
        let flags = self.identifiers.flags()
            | flag(self.sender_time.is_some(), SENDER_TIME)
            | flag(self.residual_time.is_some(), RESIDUAL_TIME)
            | flag(self.closes_session, CLOSE_SESSION)
            | flag(self.closes_object, CLOSE_OBJECT);
        buf.extend_from_slice(&[
            VERSION << 4 | congestion << 2 | self.specific & 3,
            flags,
            words as u8,
            self.codepoint,
        ]);
        buf.extend_from_slice(self.congestion);
        self.identifiers.emit(buf);
        for time in [self.sender_time, self.residual_time].into_iter().flatten() {
            buf.extend_from_slice(&time.to_be_bytes());
        }
        buf.extend_from_slice(self.extensions.as_bytes());
        buf.extend_from_slice(self.payload);
    }

    /// Bytes of the header with its extensions.
    pub fn header_len(&self) -> usize {
        let times = [self.sender_time, self.residual_time].into_iter().flatten().count();
        WORD * (1 + times)
            + self.congestion.len()
            + self.identifiers.wire_len()
            + self.extensions.as_bytes().len()
    }

    /// Bytes of the packet.
    pub fn wire_len(&self) -> usize {
        self.header_len() + self.payload.len()
    }

    /// Name of the packet: its second word as text.
    pub fn name(&self) -> &'static str {
        match self.identifiers.toi() {
            _ if self.payload.is_empty() && self.closes_session => "close",
            Some(Packet::FDT) => "fdt",
            _ => "symbol",
        }
    }
}

impl fmt::Display for Packet<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "alc {} code {}{}", self.name(), self.codepoint, self.identifiers)?;
        if self.congestion.iter().any(|&byte| byte != 0) {
            write!(f, " congestion {}", Hex(self.congestion))?;
        }
        if self.specific != 0 {
            write!(f, " specific {}", self.specific)?;
        }
        if let Some(time) = self.sender_time {
            write!(f, " time {time} ms")?;
        }
        if let Some(time) = self.residual_time {
            write!(f, " rest {time} ms")?;
        }
        if self.closes_object {
            f.write_str(" close-object")?;
        }
        if self.closes_session {
            f.write_str(" close-session")?;
        }
        write!(f, "{}", self.extensions)?;
        let split = Encoding::of(self.codepoint).and_then(|encoding| encoding.split(self.payload));
        match split {
            Some((id, symbol)) => write!(f, "{id} len {}", symbol.len()),
            None if self.payload.is_empty() => Ok(()),
            None => write!(f, " payload {}", self.payload.len()),
        }
    }
}

/// Version of LCT.
const VERSION: u8 = 1;
const SENDER_TIME: u8 = 0x08;
const RESIDUAL_TIME: u8 = 0x04;
const CLOSE_SESSION: u8 = 0x02;
const CLOSE_OBJECT: u8 = 0x01;
