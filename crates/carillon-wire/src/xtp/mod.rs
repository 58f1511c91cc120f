//! Packets of XTP, the Xpress Transport Protocol, revisions 4.0 and 4.0b.
//!
//! The bytes are XTP's own, without the common envelope; over UDP a packet is the datagram.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------------------------------------------------------+
//! |                             key (64)                          |
//! +-----------------------------------------------+-----+---------+
//! |                  options (24)                 | ver | format  |
//! +-----------------------------------------------+-----+---------+
//! |                            dlen (32)                          |
//! +-------------------------------+-------------------------------+
//! |            check (16)         |            sort (16)          |
//! +-------------------------------+-------------------------------+
//! |                            sync (32)                          |
//! +---------------------------------------------------------------+
//! |                             seq (64)                          |
//! +---------------------------------------------------------------+
//! | DATA    data, of which the first 8 bytes are a tag if BTAG    |
//! | FIRST   address segment, traffic segment, data                |
//! | CNTL    rseq 8, alloc 8, echo 4                               |
//! | ECNTL   the same, nspan 4, then left 8 and right 8 each       |
//! | TCNTL   rseq 8, alloc 8, echo 4, reserved 4, xkey 8, traffic  |
//! | JCNTL   the same with an address segment before the traffic   |
//! | JOIN    obsolete in 4.0b; its payload is not looked at        |
//! | DIAG    code 4, value 4, text                                 |
//! +---------------------------------------------------------------+
//! ```
//!
//! `dlen` counts the bytes behind the header and must match them. The checksum is the Internet checksum over header
//! and segments, or over the header alone with NOCHECK. Reserved bits of the options must be zero.

mod describe;
mod segments;

use std::fmt;

use carillon_core::AssociationId;

use crate::ParseError;
use crate::checksum::OnesSum;
use crate::reader::Reader;

pub use describe::FORMAT;
pub use segments::{Address, AddressForm, Common, Handover, Rates, Spans, Traffic, TrafficForm, service};

/// XTP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Key of the addressed context; with [`RTN`] the key of the receiving node's context.
    pub key: u64,
    /// Options without [`option::BTAG`], which follows from the tag.
    pub options: u32,
    /// Priority, if [`option::SORT`] is set.
    pub sort: u16,
    /// Number of the sender's synchronizing handshake.
    pub sync: u32,
    /// Position of the first byte of data in the stream; in a control packet, of the next byte that will be sent.
    pub seq: u64,
    /// Contents of the packet's format.
    pub body: Body<'a>,
}

/// Contents that depend on the packet format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body<'a> {
    /// Data (DATA).
    Data(Data<'a>),
    /// First packet of an association, with or without data (FIRST).
    First(Address<'a>, Traffic<'a>, Data<'a>),
    /// Status of a node (CNTL).
    Cntl(Common),
    /// Status of a node and the ranges that it has beyond a gap (ECNTL).
    Ecntl(Common, Spans<'a>),
    /// Status of a node, its key, and its traffic specification (TCNTL).
    Tcntl(Handover, Traffic<'a>),
    /// Like `Tcntl`, from a node that joins or from the one that admits it (JCNTL).
    Jcntl(Handover, Address<'a>, Traffic<'a>),
    /// Join request of revision 4.0 (JOIN).
    Join(&'a [u8]),
    /// Error report (DIAG).
    Diag(Diag<'a>),
}

/// Data segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Data<'a> {
    /// Tag: bytes that are no part of the stream.
    pub tag: Option<[u8; TAG_LEN]>,
    /// Bytes of the stream.
    pub bytes: &'a [u8],
}

/// Error report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Diag<'a> {
    /// Error code, one of the constants below.
    pub code: u32,
    /// Reason code.
    pub value: u32,
    /// Description in words.
    pub text: &'a [u8],
}

impl Diag<'_> {
    /// Code: the context was refused.
    pub const CONTEXT_REFUSED: u32 = 1;
    /// Code: the context was abandoned.
    pub const CONTEXT_ABANDONED: u32 = 2;
    /// Code: the context does not exist.
    pub const INVALID_CONTEXT: u32 = 3;
    /// Code: the request was refused.
    pub const REQUEST_REFUSED: u32 = 4;
    /// Code: the node may not join.
    pub const JOIN_REFUSED: u32 = 5;
    /// Reason: not given.
    pub const UNSPECIFIED: u32 = 0;
    /// Reason: the requested bytes are no longer available.
    pub const INVALID_RETRANSMISSION_REQUEST: u32 = 11;
    /// Reason: the sender does not admit the node.
    pub const JOIN_DENIED: u32 = 13;
}

/// Bits of the options field.
pub mod option {
    /// The checksum covers the header only.
    pub const NOCHECK: u32 = 0x40_0000;
    /// The other end must answer when this bit differs from that of the last packet.
    pub const EDGE: u32 = 0x20_0000;
    /// No retransmission.
    pub const NOERR: u32 = 0x10_0000;
    /// Multicast association.
    pub const MULTI: u32 = 0x08_0000;
    /// The allocation is the space that the receiving user has reserved.
    pub const RES: u32 = 0x04_0000;
    /// The sort field has the priority.
    pub const SORT: u32 = 0x02_0000;
    /// The sender ignores the allocation (no flow control).
    pub const NOFLOW: u32 = 0x01_0000;
    /// A receiver reports a gap at once.
    pub const FASTNAK: u32 = 0x00_8000;
    /// The receiver must report its status now.
    pub const SREQ: u32 = 0x00_4000;
    /// The receiver must report its status once its user has taken everything up to here.
    pub const DREQ: u32 = 0x00_2000;
    /// The node reads no more.
    pub const RCLOSE: u32 = 0x00_1000;
    /// The node writes no more.
    pub const WCLOSE: u32 = 0x00_0800;
    /// The last byte ends a message.
    pub const EOM: u32 = 0x00_0400;
    /// The node has closed its context.
    pub const END: u32 = 0x00_0200;
    /// The data begins with a tag.
    pub const BTAG: u32 = 0x00_0100;
    /// Mask of all options.
    pub const OPTION_MASK: u32 = 0x7f_ff00;
    /// Names of all options.
    pub(super) const NAMES: [(u32, &str); 15] = [
        (NOCHECK, "nocheck"),
        (EDGE, "edge"),
        (NOERR, "noerr"),
        (MULTI, "multi"),
        (RES, "res"),
        (SORT, "sort"),
        (NOFLOW, "noflow"),
        (FASTNAK, "fastnak"),
        (SREQ, "sreq"),
        (DREQ, "dreq"),
        (RCLOSE, "rclose"),
        (WCLOSE, "wclose"),
        (EOM, "eom"),
        (END, "end"),
        (BTAG, "btag"),
    ];
}

/// Bit of a key that was assigned by the receiving node.
pub const RTN: u64 = 1 << 63;
/// Bytes of the header.
pub const HEADER_LEN: usize = 32;
/// Bytes of a tag.
pub const TAG_LEN: usize = 8;
/// Protocol number in the IP header.
pub const IP_PROTOCOL: u8 = 36;

const VERSION: u8 = 1;
const CHECK_AT: usize = 16;
const DATA: u8 = 0;
const CNTL: u8 = 1;
const FIRST: u8 = 2;
const ECNTL: u8 = 3;
const TCNTL: u8 = 5;
const JOIN: u8 = 6;
const JCNTL: u8 = 7;
const DIAG: u8 = 8;

/// Returns true if the header is that of an XTP packet: version, format, and length.
pub fn is_packet(bytes: &[u8]) -> bool {
    let Some((header, rest)) = bytes.split_first_chunk::<HEADER_LEN>() else { return false };
    let dlen = u32::from_be_bytes([header[12], header[13], header[14], header[15]]);
    header[11] >> 5 == VERSION && header[11] & 31 <= DIAG && rest.len() as u64 == u64::from(dlen)
}

/// Key of the context that the initiator of this association opens. Half of its 63 bits are the association, the
/// other half follow from it, so that no other number is a key.
pub fn key_of(association: AssociationId) -> u64 {
    // Finalizer of SplitMix64 (Steele, Lea and Flood 2014): each bit of the number changes about half of the result.
    let mut mixed = u64::from(association.0).wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (((mixed ^ (mixed >> 31)) << 32) & !RTN) | u64::from(association.0)
}

/// Association of a packet, which its key names in either direction.
pub fn association_of(bytes: &[u8]) -> Option<AssociationId> {
    Packet::parse(bytes).ok()?.association()
}

impl<'a> Packet<'a> {
    /// Parses a datagram and verifies its checksum.
    pub fn parse(bytes: &'a [u8]) -> Result<Packet<'a>, ParseError> {
        let mut reader = Reader::new(bytes);
        let key = reader.u64()?;
        let command = reader.u32()?;
        let dlen = reader.u32()?;
        let stored = reader.u16()?;
        let (sort, sync, seq) = (reader.u16()?, reader.u32()?, reader.u64()?);
        let (options, format) = (command >> 8, command as u8);
        if format >> 5 != VERSION {
            return Err(ParseError::Magic(format.into()));
        }
        // The packet must end where its header says, so a truncated one is refused.
        if reader.rest().len() as u64 != u64::from(dlen) {
            return Err(ParseError::Field { field: "dlen", value: dlen.into() });
        }
        // Reserved option bits must be zero.
        if options & !option::OPTION_MASK != 0 {
            return Err(ParseError::Field { field: "options", value: options.into() });
        }
        if checksum(bytes, options) != stored {
            return Err(ParseError::Field { field: "check", value: stored.into() });
        }
        let is_tagged = options & option::BTAG != 0;
        let body = match format & 31 {
            DATA => Body::Data(Data::read(is_tagged, &mut reader)?),
            FIRST => {
                let (address, traffic) = (Address::read(&mut reader)?, Traffic::read(&mut reader)?);
                Body::First(address, traffic, Data::read(is_tagged, &mut reader)?)
            }
            CNTL => Body::Cntl(Common::read(&mut reader)?),
            ECNTL => Body::Ecntl(Common::read(&mut reader)?, Spans::read(&mut reader)?),
            TCNTL => Body::Tcntl(Handover::read(&mut reader)?, Traffic::read(&mut reader)?),
            JCNTL => {
                let handover = Handover::read(&mut reader)?;
                Body::Jcntl(handover, Address::read(&mut reader)?, Traffic::read(&mut reader)?)
            }
            JOIN => Body::Join(reader.remaining()),
            DIAG => Body::Diag(Diag { code: reader.u32()?, value: reader.u32()?, text: reader.remaining() }),
            _ => return Err(ParseError::Type(format)),
        };
        reader.end("dlen")?;
        // Only formats with a data segment can have a tag.
        let carries = matches!(body, Body::Data(_) | Body::First(..));
        if is_tagged && !carries {
            return Err(ParseError::Field { field: "options", value: options.into() });
        }
        Ok(Packet { key, options: options & !option::BTAG, sort, sync, seq, body })
    }

    /// Appends the packet as a datagram.
    pub fn emit(&self, buf: &mut Vec<u8>) {
        let start = buf.len();
        // The tag option follows from the data segment.
        let tag = if self.data().is_some_and(|data| data.tag.is_some()) { option::BTAG } else { 0 };
        let options = self.options | tag;
        buf.extend_from_slice(&self.key.to_be_bytes());
        let command = options << 8 | u32::from(VERSION << 5 | self.format());
        buf.extend_from_slice(&command.to_be_bytes());
        buf.extend_from_slice(&((self.wire_len() - HEADER_LEN) as u32).to_be_bytes());
        buf.extend_from_slice(&[0, 0]);
        buf.extend_from_slice(&self.sort.to_be_bytes());
        buf.extend_from_slice(&self.sync.to_be_bytes());
        buf.extend_from_slice(&self.seq.to_be_bytes());
        match self.body {
            Body::Data(data) => data.put(buf),
            Body::First(address, traffic, data) => {
                address.put(buf);
                traffic.put(buf);
                data.put(buf);
            }
            Body::Cntl(common) => common.put(buf),
            Body::Ecntl(common, spans) => {
                common.put(buf);
                spans.put(buf);
            }
            Body::Tcntl(handover, traffic) => {
                handover.put(buf);
                traffic.put(buf);
            }
            Body::Jcntl(handover, address, traffic) => {
                handover.put(buf);
                address.put(buf);
                traffic.put(buf);
            }
            Body::Join(bytes) => buf.extend_from_slice(bytes),
            Body::Diag(diag) => {
                buf.extend_from_slice(&diag.code.to_be_bytes());
                buf.extend_from_slice(&diag.value.to_be_bytes());
                buf.extend_from_slice(diag.text);
            }
        }
        // The checksum comes last, with its own field as zero.
        let sum = checksum(&buf[start..], options);
        buf[start + CHECK_AT..start + CHECK_AT + 2].copy_from_slice(&sum.to_be_bytes());
    }

    /// Length of the encoded packet in bytes.
    pub fn wire_len(&self) -> usize {
        HEADER_LEN
            + match self.body {
                Body::Data(data) => data.wire_len(),
                Body::First(address, traffic, data) => {
                    address.wire_len() + traffic.wire_len() + data.wire_len()
                }
                Body::Cntl(_) => Common::LEN,
                Body::Ecntl(_, spans) => Common::LEN + spans.wire_len(),
                Body::Tcntl(_, traffic) => Handover::LEN + traffic.wire_len(),
                Body::Jcntl(_, address, traffic) => Handover::LEN + address.wire_len() + traffic.wire_len(),
                Body::Join(bytes) => bytes.len(),
                Body::Diag(diag) => 8 + diag.text.len(),
            }
    }

    /// Association of the key, in either direction; `None` if [`key_of`] makes no such key.
    pub fn association(&self) -> Option<AssociationId> {
        let association = AssociationId(self.key as u32);
        (key_of(association) == self.key & !RTN).then_some(association)
    }

    /// Returns true if this option is set.
    pub fn has(&self, option: u32) -> bool {
        self.options & option != 0
    }

    /// Data segment, if the format has one.
    pub fn data(&self) -> Option<Data<'a>> {
        match self.body {
            Body::Data(data) | Body::First(_, _, data) => Some(data),
            _ => None,
        }
    }

    /// Status of the opposite direction of the stream, if the format has one.
    pub fn status(&self) -> Option<Common> {
        match self.body {
            Body::Cntl(common) | Body::Ecntl(common, _) => Some(common),
            Body::Tcntl(handover, _) | Body::Jcntl(handover, ..) => Some(handover.common),
            _ => None,
        }
    }

    /// Name of the format.
    pub fn name(&self) -> &'static str {
        match self.body {
            Body::Data(_) => "data",
            Body::First(..) => "first",
            Body::Cntl(_) => "cntl",
            Body::Ecntl(..) => "ecntl",
            Body::Tcntl(..) => "tcntl",
            Body::Jcntl(..) => "jcntl",
            Body::Join(_) => "join",
            Body::Diag(_) => "diag",
        }
    }

    fn format(&self) -> u8 {
        match self.body {
            Body::Data(_) => DATA,
            Body::First(..) => FIRST,
            Body::Cntl(_) => CNTL,
            Body::Ecntl(..) => ECNTL,
            Body::Tcntl(..) => TCNTL,
            Body::Jcntl(..) => JCNTL,
            Body::Join(_) => JOIN,
            Body::Diag(_) => DIAG,
        }
    }
}

impl<'a> Data<'a> {
    /// Data without a tag.
    pub const fn plain(bytes: &'a [u8]) -> Self {
        Data { tag: None, bytes }
    }

    fn read(is_tagged: bool, reader: &mut Reader<'a>) -> Result<Self, ParseError> {
        let tag = if is_tagged { Some(reader.array()?) } else { None };
        Ok(Data { tag, bytes: reader.remaining() })
    }

    fn put(&self, buf: &mut Vec<u8>) {
        buf.extend(self.tag.into_iter().flatten());
        buf.extend_from_slice(self.bytes);
    }

    fn wire_len(&self) -> usize {
        self.tag.map_or(0, |tag| tag.len()) + self.bytes.len()
    }
}

/// Checksum over the packet or its header alone, with the field itself as zero.
fn checksum(packet: &[u8], options: u32) -> u16 {
    let covered = if options & option::NOCHECK != 0 { &packet[..HEADER_LEN] } else { packet };
    OnesSum::without(covered, CHECK_AT).complement()
}

impl fmt::Display for Packet<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "xtp {} key {:016x} sync {} seq {}", self.name(), self.key, self.sync, self.seq)?;
        let tag = self.data().and_then(|data| data.tag);
        let options = self.options | if tag.is_some() { option::BTAG } else { 0 };
        for (_, name) in option::NAMES.into_iter().filter(|(bit, _)| options & bit != 0) {
            write!(f, " {name}")?;
        }
        if self.has(option::SORT) {
            write!(f, " {}", self.sort)?;
        }
        match self.body {
            Body::Data(_) | Body::Cntl(_) => {}
            Body::First(address, traffic, _) => write!(f, " {address} {traffic}")?,
            Body::Ecntl(_, spans) => write!(f, " {spans}")?,
            Body::Tcntl(handover, traffic) => write!(f, " xkey {:016x} {traffic}", handover.xkey)?,
            Body::Jcntl(handover, address, traffic) => {
                write!(f, " xkey {:016x} {address} {traffic}", handover.xkey)?;
            }
            Body::Join(bytes) => write!(f, " len {}", bytes.len())?,
            Body::Diag(diag) => {
                write!(
                    f,
                    " code {} value {} {:?}",
                    diag.code,
                    diag.value,
                    diag.text.escape_ascii().to_string()
                )?;
            }
        }
        if let Some(status) = self.status() {
            write!(f, " rseq {} alloc {} echo {}", status.rseq, status.alloc, status.echo)?;
        }
        if let Some(data) = self.data() {
            write!(f, " len {}", data.bytes.len())?;
        }
        Ok(())
    }
}
