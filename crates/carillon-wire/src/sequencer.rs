//! Packets of the sequencer protocol of Kaashoek, Tanenbaum et al.
//!
//! Segovia 1996, 2.7, names the types DATA, MULTICAST, RETRANS, PHASE1, PHASE2 and ACK_COMMIT, and a
//! header of type, sequenceNr, messageNr, senderID and destID; the other types are those of Amoeba's
//! group module in spirit. The layout is Carillon's: the addresses are the network's.
//!
//! ```text
//! all        envelope | view (32) | ...
//! 0x01 REQUEST     (DATA, to the sequencer)  ack (32) | messageNr (32) | message
//! 0x02 BROADCAST   (DATA, to all)            ack (32) | messageNr (32) | message
//! 0x03 ORDERED     (MULTICAST) sequenceNr (32) | accepted (32) | purge (32) | source (16) | messageNr (32) | message
//! 0x04 SHORT       (MULTICAST without the message)                   the same, without
//! 0x05 RETRANS     ack (32) | sequenceNr (32)
//! 0x10 ACK, 0x11 DUMMY, 0x12 ACK_COMMIT, 0x13 ACK_PHASE2, 0x14 ALIVEREQ
//!                  ack (32)
//! 0x20 ACCEPT, 0x21 ALIVE, 0x22 PHASE1, 0x23 PHASE2
//!                  next (32) | accepted (32) | purge (32) | members that must answer (a set of ranks)
//! 0x30 FETCH       sequenceNr (32)
//! 0x31 FETCHED     sequenceNr (32) | source (16) | messageNr (32) | message
//! 0x32 GONE        sequenceNr (32) | the next messageNr of each member (64 each)
//! 0x40 to 0x47     the reformation's: no view, see [`reformation`](crate::reformation)
//! ```
//!
//! Numbers count modulo 2^32. `ack`, `next`, `accepted` and `purge` are one past the last message that the member has
//! without a gap, that is ordered, that is accepted, and that all members have. `source` is a rank. Padding may
//! follow an ACK or another packet that does not end with a message or a state.

mod describe;

use std::fmt;

use carillon_core::AssociationId;

use crate::ParseError;
use crate::envelope::{Envelope, protocol};
use crate::reader::Reader;
use crate::reformation::{self, Ranks};

pub use describe::FORMAT;

/// Packet of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packet<'a> {
    /// Packet of a view.
    Normal {
        /// Number of the view.
        view: u32,
        /// Contents of the packet.
        body: Body<'a>,
    },
    /// Packet of the agreement on a new view.
    Reformation(reformation::Packet<'a>),
}

/// Contents of a packet of a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body<'a> {
    /// Request of a member to order a message.
    Request {
        /// First message that the member is missing: it has all earlier ones.
        ack: u32,
        /// Number of the message at its source.
        message: u32,
        /// True if sent to all members (BB), false if to the sequencer alone (PB).
        broadcast: bool,
        /// Contents of the message.
        payload: &'a [u8],
    },
    /// Ordered message.
    Ordered {
        /// Sequence number of the message in the total order.
        order: u32,
        /// First message that is not accepted yet.
        accepted: u32,
        /// First message that some member may be missing.
        purge: u32,
        /// Rank of the member that offered the message.
        source: u8,
        /// Number of the message at its source.
        message: u32,
        /// Contents of the message; `None` if the members may have it already (BB).
        payload: Option<&'a [u8]>,
    },
    /// Request of a member for a missing message.
    Retrans {
        /// First message that the member is missing: it has all earlier ones.
        ack: u32,
        /// Sequence number of the missing message.
        order: u32,
    },
    /// Report of a member.
    Report {
        /// Cause of the report.
        kind: Report,
        /// First message that the member is missing: it has all earlier ones.
        ack: u32,
    },
    /// Status of the sequencer.
    Status {
        /// Cause of the status.
        kind: Status,
        /// Sequence number of the next message.
        next: u32,
        /// First message that is not accepted yet.
        accepted: u32,
        /// First message that some member may be missing.
        purge: u32,
        /// Members that must answer.
        wanted: Ranks,
    },
    /// Request of a node for a missing message of the surviving log, between views.
    Fetch {
        /// Sequence number of the message.
        order: u32,
    },
    /// Answer to a FETCH.
    Fetched {
        /// Sequence number of the message.
        order: u32,
        /// Rank of the member that offered the message.
        source: u8,
        /// Number of the message at its source.
        message: u32,
        /// Contents of the message.
        payload: &'a [u8],
    },
    /// Answer to a request for messages that are no longer held.
    Gone {
        /// First sequence number that is held.
        order: u32,
        /// State from which a node can continue there, in the protocol's own layout.
        state: &'a [u8],
    },
}

/// Cause of a member's report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// Member has stored a tentative message.
    Ack,
    /// Member has been silent for long (heartbeat).
    Dummy,
    /// Answer to PHASE1.
    AckCommit,
    /// Answer to PHASE2.
    AckPhase2,
    /// Sequencer has been silent for long.
    AliveReq,
}

/// Cause of a sequencer's status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Tentative messages are accepted.
    Accept,
    /// Answer to ALIVEREQ, or to a request for a message that was ordered long ago.
    Alive,
    /// Members must request missing messages, or report that none is missing.
    Phase1,
    /// No member is missing a message.
    Phase2,
}

/// Bytes of an ordered message before its payload.
pub const HEADER_LEN: usize = Envelope::LEN + 22;

impl Report {
    /// Name of the packet in traces.
    pub fn name(self) -> &'static str {
        match self {
            Report::Ack => "ack",
            Report::Dummy => "dummy",
            Report::AckCommit => "ack_commit",
            Report::AckPhase2 => "ack_phase2",
            Report::AliveReq => "alivereq",
        }
    }
}

impl Status {
    /// Name of the packet in traces.
    pub fn name(self) -> &'static str {
        match self {
            Status::Accept => "accept",
            Status::Alive => "alive",
            Status::Phase1 => "phase1",
            Status::Phase2 => "phase2",
        }
    }
}

impl<'a> Packet<'a> {
    /// Parses a datagram.
    pub fn parse(bytes: &'a [u8]) -> Result<(AssociationId, Packet<'a>), ParseError> {
        let (envelope, mut reader) = Reader::behind_envelope(protocol::SEQUENCER, bytes)?;
        let kind = envelope.packet_type;
        let packet = if reformation::KINDS.contains(&kind) {
            Packet::Reformation(reformation::Packet::parse(kind, reader.rest())?)
        } else {
            let view = reader.u32()?;
            Packet::Normal { view, body: reader.body(kind)? }
        };
        Ok((envelope.association, packet))
    }

    /// Appends the packet as a datagram.
    pub fn emit(&self, association: AssociationId, buf: &mut Vec<u8>) {
        let packet_type = match self {
            Packet::Normal { body, .. } => body.packet_type(),
            Packet::Reformation(packet) => packet.packet_type(),
        };
        Envelope { protocol: protocol::SEQUENCER, packet_type, association }.emit(buf);
        match self {
            Packet::Normal { view, body } => {
                buf.extend_from_slice(&view.to_be_bytes());
                body.emit(buf);
            }
            Packet::Reformation(packet) => packet.emit(buf),
        }
    }

    /// Length of the encoded packet in bytes.
    pub fn wire_len(&self) -> usize {
        Envelope::LEN
            + match self {
                Packet::Normal { body, .. } => 4 + body.wire_len(),
                Packet::Reformation(packet) => packet.wire_len(),
            }
    }

    /// Name of the packet in traces.
    pub fn name(&self) -> &'static str {
        match self {
            Packet::Normal { body, .. } => body.name(),
            Packet::Reformation(packet) => packet.name(),
        }
    }
}

impl Body<'_> {
    /// Name of the packet in traces.
    pub fn name(&self) -> &'static str {
        match self {
            Body::Request { broadcast: false, .. } => "request",
            Body::Request { broadcast: true, .. } => "broadcast",
            Body::Ordered { payload: Some(_), .. } => "ordered",
            Body::Ordered { payload: None, .. } => "short",
            Body::Retrans { .. } => "retrans",
            Body::Report { kind, .. } => kind.name(),
            Body::Status { kind, .. } => kind.name(),
            Body::Fetch { .. } => "fetch",
            Body::Fetched { .. } => "fetched",
            Body::Gone { .. } => "gone",
        }
    }

    fn packet_type(&self) -> u8 {
        match self {
            Body::Request { broadcast: false, .. } => kind::REQUEST,
            Body::Request { broadcast: true, .. } => kind::BROADCAST,
            Body::Ordered { payload: Some(_), .. } => kind::ORDERED,
            Body::Ordered { payload: None, .. } => kind::SHORT_BUFFERS,
            Body::Retrans { .. } => kind::RETRANS,
            Body::Report { kind, .. } => match kind {
                Report::Ack => kind::ACK,
                Report::Dummy => kind::DUMMY,
                Report::AckCommit => kind::ACK_COMMIT,
                Report::AckPhase2 => kind::ACK_PHASE2,
                Report::AliveReq => kind::ALIVEREQ,
            },
            Body::Status { kind, .. } => match kind {
                Status::Accept => kind::ACCEPT,
                Status::Alive => kind::ALIVE,
                Status::Phase1 => kind::PHASE1,
                Status::Phase2 => kind::PHASE2,
            },
            Body::Fetch { .. } => kind::FETCH,
            Body::Fetched { .. } => kind::FETCHED,
            Body::Gone { .. } => kind::GONE,
        }
    }

    fn wire_len(&self) -> usize {
        match self {
            Body::Request { payload, .. } => 8 + payload.len(),
            Body::Ordered { payload, .. } => 18 + payload.map_or(0, <[u8]>::len),
            Body::Retrans { .. } => 8,
            Body::Report { .. } | Body::Fetch { .. } => 4,
            Body::Gone { state, .. } => 4 + state.len(),
            Body::Status { wanted, .. } => 12 + wanted.wire_len(),
            Body::Fetched { payload, .. } => 10 + payload.len(),
        }
    }

    fn emit(&self, buf: &mut Vec<u8>) {
        let numbers = |numbers: &[u32], buf: &mut Vec<u8>| {
            numbers.iter().for_each(|number| buf.extend_from_slice(&number.to_be_bytes()));
        };
        match *self {
            Body::Request { ack, message, payload, .. } => {
                numbers(&[ack, message], buf);
                buf.extend_from_slice(payload);
            }
            Body::Ordered { order, accepted, purge, source, message, payload } => {
                numbers(&[order, accepted, purge], buf);
                buf.extend_from_slice(&u16::from(source).to_be_bytes());
                numbers(&[message], buf);
                buf.extend_from_slice(payload.unwrap_or_default());
            }
            Body::Retrans { ack, order } => numbers(&[ack, order], buf),
            Body::Report { ack, .. } => numbers(&[ack], buf),
            Body::Status { next, accepted, purge, wanted, .. } => {
                numbers(&[next, accepted, purge], buf);
                wanted.emit(buf);
            }
            Body::Fetch { order } => numbers(&[order], buf),
            Body::Gone { order, state } => {
                numbers(&[order], buf);
                buf.extend_from_slice(state);
            }
            Body::Fetched { order, source, message, payload } => {
                numbers(&[order], buf);
                buf.extend_from_slice(&u16::from(source).to_be_bytes());
                numbers(&[message], buf);
                buf.extend_from_slice(payload);
            }
        }
    }
}

impl<'a> Reader<'a> {
    fn body(&mut self, kind: u8) -> Result<Body<'a>, ParseError> {
        Ok(match kind {
            kind::REQUEST | kind::BROADCAST => Body::Request {
                ack: self.u32()?,
                message: self.u32()?,
                broadcast: kind == kind::BROADCAST,
                payload: self.rest(),
            },
            kind::ORDERED | kind::SHORT_BUFFERS => Body::Ordered {
                order: self.u32()?,
                accepted: self.u32()?,
                purge: self.u32()?,
                source: self.rank("source")?,
                message: self.u32()?,
                payload: (kind == kind::ORDERED).then(|| self.rest()),
            },
            kind::RETRANS => Body::Retrans { ack: self.u32()?, order: self.u32()? },
            kind::ACK => self.report(Report::Ack)?,
            kind::DUMMY => self.report(Report::Dummy)?,
            kind::ACK_COMMIT => self.report(Report::AckCommit)?,
            kind::ACK_PHASE2 => self.report(Report::AckPhase2)?,
            kind::ALIVEREQ => self.report(Report::AliveReq)?,
            kind::ACCEPT => self.status(Status::Accept)?,
            kind::ALIVE => self.status(Status::Alive)?,
            kind::PHASE1 => self.status(Status::Phase1)?,
            kind::PHASE2 => self.status(Status::Phase2)?,
            kind::FETCH => Body::Fetch { order: self.u32()? },
            kind::FETCHED => Body::Fetched {
                order: self.u32()?,
                source: self.rank("source")?,
                message: self.u32()?,
                payload: self.rest(),
            },
            kind::GONE => Body::Gone { order: self.u32()?, state: self.rest() },
            other => return Err(ParseError::Type(other)),
        })
    }

    fn report(&mut self, kind: Report) -> Result<Body<'a>, ParseError> {
        Ok(Body::Report { kind, ack: self.u32()? })
    }

    fn status(&mut self, kind: Status) -> Result<Body<'a>, ParseError> {
        let (next, accepted, purge) = (self.u32()?, self.u32()?, self.u32()?);
        let wanted = self.ranks()?;
        Ok(Body::Status { kind, next, accepted, purge, wanted })
    }
}

impl fmt::Display for Packet<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Packet::Normal { view, body } => write!(f, "sequencer {} view {view}{body}", body.name()),
            Packet::Reformation(packet) => write!(f, "sequencer {packet}"),
        }
    }
}

/// Display of the fields after the name and the view.
impl fmt::Display for Body<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Body::Request { ack, message, payload, .. } => {
                write!(f, " ack {ack} message {message} len {}", payload.len())
            }
            Body::Ordered { order, accepted, purge, source, message, payload } => {
                write!(
                    f,
                    " order {order} accepted {accepted} purge {purge} source {source} message {message}"
                )?;
                payload.map_or(Ok(()), |payload| write!(f, " len {}", payload.len()))
            }
            Body::Retrans { ack, order } => write!(f, " ack {ack} order {order}"),
            Body::Report { ack, .. } => write!(f, " ack {ack}"),
            Body::Status { next, accepted, purge, wanted, .. } => {
                write!(f, " next {next} accepted {accepted} purge {purge} wanted {wanted}")
            }
            Body::Fetch { order } => write!(f, " order {order}"),
            Body::Gone { order, state } => write!(f, " order {order} state {}", state.len()),
            Body::Fetched { order, source, message, payload } => {
                write!(f, " order {order} source {source} message {message} len {}", payload.len())
            }
        }
    }
}

mod kind {
    pub const REQUEST: u8 = 0x01;
    pub const BROADCAST: u8 = 0x02;
    pub const ORDERED: u8 = 0x03;
    pub const SHORT_BUFFERS: u8 = 0x04;
    pub const RETRANS: u8 = 0x05;
    pub const ACK: u8 = 0x10;
    pub const DUMMY: u8 = 0x11;
    pub const ACK_COMMIT: u8 = 0x12;
    pub const ACK_PHASE2: u8 = 0x13;
    pub const ALIVEREQ: u8 = 0x14;
    pub const ACCEPT: u8 = 0x20;
    pub const ALIVE: u8 = 0x21;
    pub const PHASE1: u8 = 0x22;
    pub const PHASE2: u8 = 0x23;
    pub const FETCH: u8 = 0x30;
    pub const FETCHED: u8 = 0x31;
    pub const GONE: u8 = 0x32;
}
