//! Packets of MTP, the Multicast Transport Protocol (RFC 1301), and of this project's form of MTP-2.
//!
//! The bytes of version 1 are those of the RFC (2.2), without the common envelope; over UDP a packet is the datagram.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+---------------+---------------+---------------+
//! |  version 1, 2 |  packet type  |   modifier    |  subchannel   |
//! +---------------+---------------+---------------+---------------+
//! |                  source connection identifier                 |
//! +---------------------------------------------------------------+
//! |               destination connection identifier               |
//! +---------------+-----------------------------------------------+
//! |    synchro    |     status of the 12 messages before (24)     |
//! +---------------+---------------+-------------------------------+
//! |        message sequence       |        packet sequence        |
//! +-------------------------------+-------------------------------+
//! |                        heartbeat in ms                        |
//! +-------------------------------+-------------------------------+
//! |             window            |           retention           |
//! +-------------------------------+-------------------------------+
//! | version 2 only:           view (32)                           |
//! +---------------------------------------------------------------+
//! | 0 data      0 data, 1 eow, 2 eom       user bytes             |
//! | 1 nak       0 request, 1 deny          ranges: message 2,     |
//! |             packet 2, message 2, packet 2 each                |
//! | 2 empty     0 dally, 1 cancel, 2 hibernate                    |
//! | 3 join      0 request, 1 confirm, 2 deny   class 1,           |
//! |             transport class 1, transport type 1, reserved 1,  |
//! |             throughput 2, data unit 2, multicast identifier 4 |
//! | 4 quit      0 request, 1 confirm       identifier 4           |
//! | 5 token     0 request, 1 confirm       identifiers of the web |
//! | 6 isMember  0 request, 1 confirm, 2 deny   identifier 4, and  |
//! |             age in ms 4 in a confirm                          |
//! | version 2 only:                                               |
//! | 7 held      length of the log 8                               |
//! | 8 fetch     place 8                                           |
//! | 9 fetched   place 8, source 2, number 4, user bytes           |
//! | 10 gone     place 8, next number of each member 8             |
//! | 0x40 to 0x47  the reformation's, see `reformation`            |
//! +---------------------------------------------------------------+
//! ```
//!
//! A transport address in a data field is a connection identifier here, as the RFC fixes no size. The layout of
//! version 2 is Carillon's, since no source gives MTP-2's.

mod acceptance;
mod describe;
mod display;

use carillon_core::AssociationId;

use crate::ParseError;
use crate::reader::Reader;
use crate::reformation;

pub use acceptance::{Acceptance, HORIZON, Status};
pub use describe::FORMAT;

/// Packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Fields that all packets have.
    pub header: Header,
    /// Contents of the packet's type.
    pub body: Body<'a>,
}

/// Fields that all packets have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Number of the view in MTP-2; `None` in version 1.
    pub view: Option<u32>,
    /// Stream of a message, or of the message that a token is for.
    pub subchannel: u8,
    /// Connection identifier of the member that sends the message.
    pub source: u32,
    /// Connection identifier of the web or of a member; 0 if unknown.
    pub destination: u32,
    /// Message acceptance record.
    pub acceptance: Acceptance,
    /// Heartbeat in milliseconds.
    pub heartbeat: u32,
    /// Number of data packets that a member may send per heartbeat.
    pub window: u16,
    /// Number of heartbeats for which a producer keeps data.
    pub retention: u16,
}

/// Contents of a packet's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body<'a> {
    /// Data of a message.
    Data(Mark, &'a [u8]),
    /// Request for missing packets.
    Nak(Ranges<'a>),
    /// Refusal: the packets are no longer kept.
    Deny(Ranges<'a>),
    /// Packet without data.
    Empty(Empty),
    /// Admission to the web.
    Join(Reply, Terms),
    /// Departure of the member with this identifier; true for the confirmation.
    Quit(bool, u32),
    /// Request for a token.
    TokenRequest,
    /// Grant of the token of the header's message, with the multicast identifiers of the web.
    TokenConfirm(Identifiers<'a>),
    /// Question whether the member with this identifier is alive.
    IsMember(u32),
    /// Answer: it is, and was heard of this many milliseconds ago.
    Member(u32, u32),
    /// Answer: it is not.
    NotMember(u32),
    /// MTP-2: this member holds the messages before this place of the log.
    Held(u64),
    /// MTP-2: request for an entry of the log between views.
    Fetch(u64),
    /// MTP-2: entry of the log.
    Fetched {
        /// Place of the entry.
        place: u64,
        /// Rank of the member that offered the message.
        source: u8,
        /// Number of the message at its source.
        number: u32,
        /// Contents of the message.
        payload: &'a [u8],
    },
    /// MTP-2: nothing before this place is kept; with the members' next numbers there.
    Gone(u64, &'a [u8]),
    /// MTP-2: packet of the agreement on a new view.
    Reformation(reformation::Packet<'a>),
}

/// Modifier of a data packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Data: further packets follow at once.
    Data,
    /// End of window: no more packets in this heartbeat.
    EndOfWindow,
    /// End of message, which gives the token back.
    EndOfMessage,
}

/// Modifier of an empty packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Empty {
    /// Keeps the web synchronised.
    Dally,
    /// Gives a token back that is not needed.
    Cancel,
    /// The web is idle; its heartbeat is longer.
    Hibernate,
}

/// Modifier of a join packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Request.
    Request,
    /// Admission.
    Confirm,
    /// Refusal.
    Deny,
}

/// Contents of a join packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Member class: master 0, producer 1, consumer 2.
    pub class: u8,
    /// Transport class: reliable 0, unreliable 1.
    pub reliability: u8,
    /// Transport type: NxN 0, 1xN 1.
    pub kind: u8,
    /// Minimum throughput in kB/s.
    pub throughput: u16,
    /// Maximum data unit in bytes.
    pub data_unit: u16,
    /// Multicast connection identifier of the web.
    pub web: u32,
}

/// Ranges of missing packets, each as it stands in the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ranges<'a>(&'a [[u8; 8]]);

/// Connection identifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identifiers<'a>(&'a [[u8; 4]]);

/// Range of packets: message and packet of the first and of the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Range {
    /// First missing packet.
    pub low: (u16, u16),
    /// Last missing packet.
    pub high: (u16, u16),
}

/// Bytes of the header in version 1.
pub const HEADER_LEN: usize = 28;
/// Bytes before the contents in a fetched entry.
pub const FETCHED_LEN: usize = 14;
/// Bytes of the view in version 2.
pub const VIEW_LEN: usize = 4;

/// Connection identifier of the member of this rank. The RFC wants one per transport instance; all members can compute
/// this one.
pub fn member_id(web: AssociationId, rank: usize) -> u32 {
    // An odd factor, so that no two ranks share an identifier.
    web.0.wrapping_add((rank as u32).wrapping_add(1).wrapping_mul(0x9e37_79b9))
}

impl Range {
    /// Bytes of the range in a nak.
    pub fn bytes(&self) -> [u8; 8] {
        let [a, b] = self.low.0.to_be_bytes();
        let [c, d] = self.low.1.to_be_bytes();
        let [e, f] = self.high.0.to_be_bytes();
        let [g, h] = self.high.1.to_be_bytes();
        [a, b, c, d, e, f, g, h]
    }
}

impl<'a> Ranges<'a> {
    /// Ranges of these bytes.
    pub fn new(bytes: &'a [[u8; 8]]) -> Self {
        Ranges(bytes)
    }

    /// Ranges in the order of the packet.
    pub fn iter(&self) -> impl Iterator<Item = Range> + use<'a> {
        self.0.iter().map(|&[a, b, c, d, e, f, g, h]| Range {
            low: (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])),
            high: (u16::from_be_bytes([e, f]), u16::from_be_bytes([g, h])),
        })
    }
}

impl<'a> Identifiers<'a> {
    /// Identifiers of these bytes.
    pub fn new(bytes: &'a [[u8; 4]]) -> Self {
        Identifiers(bytes)
    }

    /// Identifiers in the order of the packet.
    pub fn iter(&self) -> impl Iterator<Item = u32> + use<'a> {
        self.0.iter().map(|&bytes| u32::from_be_bytes(bytes))
    }
}

impl<'a> Packet<'a> {
    /// Parses a datagram.
    pub fn parse(bytes: &'a [u8]) -> Result<Packet<'a>, ParseError> {
        let mut reader = Reader::new(bytes);
        let version = reader.u8()?;
        if !matches!(version, VERSION | VERSION_2) {
            return Err(ParseError::Field { field: "version", value: version.into() });
        }
        let (kind, modifier) = (reader.u8()?, reader.u8()?);
        let mut header = Header {
            view: None,
            subchannel: reader.u8()?,
            source: reader.u32()?,
            destination: reader.u32()?,
            acceptance: Acceptance::read(&mut reader)?,
            heartbeat: reader.u32()?,
            window: reader.u16()?,
            retention: reader.u16()?,
        };
        if version == VERSION_2 {
            header.view = Some(reader.u32()?);
        }
        let body = match Body::read(&mut reader, kind, modifier)? {
            Some(body) => body,
            None if version == VERSION_2 => Body::read_of_view(&mut reader, kind, modifier)?,
            None => return Err(ParseError::Type(kind)),
        };
        reader.end("excess")?;
        Ok(Packet { header, body })
    }

    /// Appends the packet as a datagram.
    pub fn emit(&self, buf: &mut Vec<u8>) {
        let Packet { header, body } = self;
        let version = if header.view.is_some() { VERSION_2 } else { VERSION };
        let (kind, modifier) = body.kind();
        buf.extend_from_slice(&[version, kind, modifier, header.subchannel]);
        buf.extend_from_slice(&header.source.to_be_bytes());
        buf.extend_from_slice(&header.destination.to_be_bytes());
        header.acceptance.emit(buf);
        buf.extend_from_slice(&header.heartbeat.to_be_bytes());
        buf.extend_from_slice(&header.window.to_be_bytes());
        buf.extend_from_slice(&header.retention.to_be_bytes());
        if let Some(view) = header.view {
            buf.extend_from_slice(&view.to_be_bytes());
        }
        body.emit(buf);
    }

    /// Length of the encoded packet in bytes.
    pub fn wire_len(&self) -> usize {
        HEADER_LEN + self.header.view.map_or(0, |_| VIEW_LEN) + self.body.wire_len()
    }

    /// Name of the packet in traces.
    pub fn name(&self) -> &'static str {
        self.body.name()
    }
}

impl<'a> Body<'a> {
    /// Name of the packet in traces.
    pub fn name(&self) -> &'static str {
        match self {
            Body::Data(Mark::Data, _) => "data",
            Body::Data(Mark::EndOfWindow, _) => "eow",
            Body::Data(Mark::EndOfMessage, _) => "eom",
            Body::Nak(_) => "nak",
            Body::Deny(_) => "nak_deny",
            Body::Empty(Empty::Dally) => "dally",
            Body::Empty(Empty::Cancel) => "cancel",
            Body::Empty(Empty::Hibernate) => "hibernate",
            Body::Join(Reply::Request, _) => "join_request",
            Body::Join(Reply::Confirm, _) => "join_confirm",
            Body::Join(Reply::Deny, _) => "join_deny",
            Body::Quit(false, _) => "quit_request",
            Body::Quit(true, _) => "quit_confirm",
            Body::TokenRequest => "token_request",
            Body::TokenConfirm(_) => "token_confirm",
            Body::IsMember(_) => "ismember_request",
            Body::Member(..) => "ismember_confirm",
            Body::NotMember(_) => "ismember_deny",
            Body::Held(_) => "held",
            Body::Fetch(_) => "fetch",
            Body::Fetched { .. } => "fetched",
            Body::Gone(..) => "gone",
            Body::Reformation(packet) => packet.name(),
        }
    }

    /// Packet type and modifier.
    fn kind(&self) -> (u8, u8) {
        match self {
            Body::Data(mark, _) => (kind::DATA, *mark as u8),
            Body::Nak(_) => (kind::NAK, 0),
            Body::Deny(_) => (kind::NAK, 1),
            Body::Empty(empty) => (kind::EMPTY, *empty as u8),
            Body::Join(reply, _) => (kind::JOIN, *reply as u8),
            Body::Quit(confirm, _) => (kind::QUIT, (*confirm).into()),
            Body::TokenRequest => (kind::TOKEN, 0),
            Body::TokenConfirm(_) => (kind::TOKEN, 1),
            Body::IsMember(_) => (kind::IS_MEMBER, 0),
            Body::Member(..) => (kind::IS_MEMBER, 1),
            Body::NotMember(_) => (kind::IS_MEMBER, 2),
            Body::Held(_) => (kind::HELD, 0),
            Body::Fetch(_) => (kind::FETCH, 0),
            Body::Fetched { .. } => (kind::FETCHED, 0),
            Body::Gone(..) => (kind::GONE, 0),
            Body::Reformation(packet) => (packet.packet_type(), 0),
        }
    }

    fn wire_len(&self) -> usize {
        match self {
            Body::Data(_, bytes) => bytes.len(),
            Body::Nak(ranges) | Body::Deny(ranges) => 8 * ranges.0.len(),
            Body::Empty(_) | Body::TokenRequest => 0,
            Body::Join(..) => 12,
            Body::Quit(..) | Body::IsMember(_) | Body::NotMember(_) => 4,
            Body::TokenConfirm(web) => 4 * web.0.len(),
            Body::Member(..) | Body::Held(_) | Body::Fetch(_) => 8,
            Body::Fetched { payload, .. } => FETCHED_LEN + payload.len(),
            Body::Gone(_, state) => 8 + state.len(),
            Body::Reformation(packet) => packet.wire_len(),
        }
    }

    fn emit(&self, buf: &mut Vec<u8>) {
        match *self {
            Body::Data(_, bytes) => buf.extend_from_slice(bytes),
            Body::Nak(ranges) | Body::Deny(ranges) => buf.extend_from_slice(ranges.0.as_flattened()),
            Body::Empty(_) | Body::TokenRequest => {}
            Body::Join(_, terms) => terms.emit(buf),
            Body::Quit(_, target) | Body::IsMember(target) | Body::NotMember(target) => {
                buf.extend_from_slice(&target.to_be_bytes());
            }
            Body::TokenConfirm(web) => buf.extend_from_slice(web.0.as_flattened()),
            Body::Member(target, age) => {
                buf.extend_from_slice(&target.to_be_bytes());
                buf.extend_from_slice(&age.to_be_bytes());
            }
            Body::Held(place) | Body::Fetch(place) => buf.extend_from_slice(&place.to_be_bytes()),
            Body::Fetched { place, source, number, payload } => {
                buf.extend_from_slice(&place.to_be_bytes());
                buf.extend_from_slice(&u16::from(source).to_be_bytes());
                buf.extend_from_slice(&number.to_be_bytes());
                buf.extend_from_slice(payload);
            }
            Body::Gone(place, state) => {
                buf.extend_from_slice(&place.to_be_bytes());
                buf.extend_from_slice(state);
            }
            Body::Reformation(packet) => packet.emit(buf),
        }
    }

    /// Reads a body of the RFC's types; none if the type is another.
    fn read(reader: &mut Reader<'a>, kind: u8, modifier: u8) -> Result<Option<Body<'a>>, ParseError> {
        let unknown = ParseError::Field { field: "modifier", value: modifier.into() };
        Ok(Some(match (kind, modifier) {
            (kind::DATA, 0) => Body::Data(Mark::Data, reader.remaining()),
            (kind::DATA, 1) => Body::Data(Mark::EndOfWindow, reader.remaining()),
            (kind::DATA, 2) => Body::Data(Mark::EndOfMessage, reader.remaining()),
            (kind::NAK, 0) => Body::Nak(Ranges(reader.chunks()?)),
            (kind::NAK, 1) => Body::Deny(Ranges(reader.chunks()?)),
            (kind::EMPTY, 0) => Body::Empty(Empty::Dally),
            (kind::EMPTY, 1) => Body::Empty(Empty::Cancel),
            (kind::EMPTY, 2) => Body::Empty(Empty::Hibernate),
            (kind::JOIN, 0) => Body::Join(Reply::Request, Terms::read(reader)?),
            (kind::JOIN, 1) => Body::Join(Reply::Confirm, Terms::read(reader)?),
            (kind::JOIN, 2) => Body::Join(Reply::Deny, Terms::read(reader)?),
            (kind::QUIT, 0 | 1) => Body::Quit(modifier == 1, reader.u32()?),
            (kind::TOKEN, 0) => Body::TokenRequest,
            (kind::TOKEN, 1) => Body::TokenConfirm(Identifiers(reader.chunks()?)),
            (kind::IS_MEMBER, 0) => Body::IsMember(reader.u32()?),
            (kind::IS_MEMBER, 1) => Body::Member(reader.u32()?, reader.u32()?),
            (kind::IS_MEMBER, 2) => Body::NotMember(reader.u32()?),
            (kind::DATA..=kind::IS_MEMBER, _) => return Err(unknown),
            _ => return Ok(None),
        }))
    }

    /// Reads a body of the types that only version 2 has.
    fn read_of_view(reader: &mut Reader<'a>, kind: u8, modifier: u8) -> Result<Body<'a>, ParseError> {
        if modifier != 0 {
            return Err(ParseError::Field { field: "modifier", value: modifier.into() });
        }
        Ok(match kind {
            kind::HELD => Body::Held(reader.u64()?),
            kind::FETCH => Body::Fetch(reader.u64()?),
            kind::FETCHED => Body::Fetched {
                place: reader.u64()?,
                source: reader.rank("source")?,
                number: reader.u32()?,
                payload: reader.remaining(),
            },
            kind::GONE => Body::Gone(reader.u64()?, reader.remaining()),
            kind if reformation::KINDS.contains(&kind) => {
                let bytes = reader.remaining();
                let packet = reformation::Packet::parse(kind, bytes)?;
                // Nothing may follow the packet, so that it is emitted again byte for byte.
                match bytes.len().checked_sub(packet.wire_len()) {
                    Some(0) => Body::Reformation(packet),
                    extra => {
                        return Err(ParseError::Field { field: "excess", value: extra.unwrap_or(0) as u64 });
                    }
                }
            }
            kind => return Err(ParseError::Type(kind)),
        })
    }
}

impl Terms {
    fn emit(&self, buf: &mut Vec<u8>) {
        buf.extend_from_slice(&[self.class, self.reliability, self.kind, 0]);
        buf.extend_from_slice(&self.throughput.to_be_bytes());
        buf.extend_from_slice(&self.data_unit.to_be_bytes());
        buf.extend_from_slice(&self.web.to_be_bytes());
    }

    fn read(reader: &mut Reader<'_>) -> Result<Terms, ParseError> {
        let [class, reliability, kind, reserved] = reader.array()?;
        for (field, value, max) in [
            ("class", class, 2),
            ("transport class", reliability, 1),
            ("transport type", kind, 1),
            ("reserved", reserved, 0),
        ] {
            if value > max {
                return Err(ParseError::Field { field, value: value.into() });
            }
        }
        let (throughput, data_unit) = (reader.u16()?, reader.u16()?);
        Ok(Terms { class, reliability, kind, throughput, data_unit, web: reader.u32()? })
    }
}

impl<'a> Reader<'a> {
    /// Takes all unread bytes as items of N bytes.
    fn chunks<const N: usize>(&mut self) -> Result<&'a [[u8; N]], ParseError> {
        match self.remaining().as_chunks() {
            (chunks, []) => Ok(chunks),
            (_, rest) => Err(ParseError::Field { field: "excess", value: rest.len() as u64 }),
        }
    }
}

const VERSION: u8 = 1;
const VERSION_2: u8 = 2;

mod kind {
    pub const DATA: u8 = 0;
    pub const NAK: u8 = 1;
    pub const EMPTY: u8 = 2;
    pub const JOIN: u8 = 3;
    pub const QUIT: u8 = 4;
    pub const TOKEN: u8 = 5;
    pub const IS_MEMBER: u8 = 6;
    pub const HELD: u8 = 7;
    pub const FETCH: u8 = 8;
    pub const FETCHED: u8 = 9;
    pub const GONE: u8 = 10;
}
