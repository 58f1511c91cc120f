//! Commands of the sender (RFC 5740, 4.2.3).

use std::fmt;

use super::{Position, Requests, Stamp};
use crate::ParseError;
use crate::reader::Reader;

/// Command of the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command<'a> {
    /// Everything up to here was sent (FLUSH).
    Flush {
        /// Object of the last symbol.
        object: u16,
        /// Last symbol.
        position: Position,
        /// Receivers that must acknowledge it.
        nodes: Nodes<'a>,
    },
    /// The sender ends (EOT).
    End,
    /// Earlier data is not repaired any more (SQUELCH).
    Squelch {
        /// First object that is repaired.
        object: u16,
        /// First symbol that is repaired.
        position: Position,
        /// Numbers of later objects that are not repaired, two bytes each.
        invalid: &'a [u8],
    },
    /// Probe of the round-trip time and for congestion control (CC).
    Probe {
        /// Sequence number of the probe.
        sequence: u16,
        /// Send time.
        sent: Stamp,
        /// State of the receivers that limit the rate, eight bytes each.
        nodes: &'a [u8],
    },
    /// Requests that the sender has received (REPAIR_ADV).
    RepairAdvertisement {
        /// True if not all requests had room.
        limited: bool,
        /// Requests.
        requests: Requests<'a>,
    },
    /// Receivers must answer (ACK_REQ).
    AckRequest {
        /// Type of the answer.
        kind: u8,
        /// Identifier of the request.
        id: u8,
        /// Receivers that must answer.
        nodes: Nodes<'a>,
    },
    /// Contents of the application.
    Application(&'a [u8]),
}

/// Identifiers of receivers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Nodes<'a>(&'a [u8]);

const NODE_LEN: usize = 4;
const PROBE_NODE_LEN: usize = 8;

impl<'a> Nodes<'a> {
    /// Identifiers in these bytes, four each; fails if one is cut.
    pub fn new(bytes: &'a [u8]) -> Result<Self, ParseError> {
        whole(bytes, NODE_LEN, "node list").map(Nodes)
    }

    /// The identifiers.
    pub fn iter(self) -> impl Iterator<Item = u32> {
        self.0.chunks_exact(NODE_LEN).map(|node| u32::from_be_bytes([node[0], node[1], node[2], node[3]]))
    }
}

/// State of a receiver that limits the rate, in a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeNode {
    /// Identifier of the receiver.
    pub node: u32,
    /// Flags of [`Congestion`](super::Congestion).
    pub flags: u8,
    /// Round-trip time in the code of [`decode_grtt`](super::decode_grtt).
    pub rtt: u8,
    /// Rate in the code of [`decode_rate`](super::decode_rate).
    pub rate: u16,
}

impl ProbeNode {
    /// Appends the state.
    pub fn push(self, buf: &mut Vec<u8>) {
        buf.extend_from_slice(&self.node.to_be_bytes());
        buf.extend_from_slice(&[self.flags, self.rtt]);
        buf.extend_from_slice(&self.rate.to_be_bytes());
    }

    /// The states in a probe.
    pub fn each(nodes: &[u8]) -> impl Iterator<Item = ProbeNode> {
        nodes.as_chunks::<PROBE_NODE_LEN>().0.iter().map(|&[a, b, c, d, flags, rtt, high, low]| ProbeNode {
            node: u32::from_be_bytes([a, b, c, d]),
            flags,
            rtt,
            rate: u16::from_be_bytes([high, low]),
        })
    }
}

/// Returns the bytes if they consist of items of this length.
fn whole<'a>(bytes: &'a [u8], item: usize, field: &'static str) -> Result<&'a [u8], ParseError> {
    match bytes.len() % item {
        0 => Ok(bytes),
        _ => Err(ParseError::Field { field, value: bytes.len() as u64 }),
    }
}

/// Fields of a command before the extensions.
pub(super) enum Fields {
    Flush(u16, Position),
    End,
    Squelch(u16, Position),
    Probe(u16, Stamp),
    RepairAdvertisement(bool),
    AckRequest(u8, u8),
    Application,
}

impl Fields {
    pub fn read(fields: &mut Reader<'_>) -> Result<Fields, ParseError> {
        match fields.u8()? {
            subtype::FLUSH => {
                let (object, position) = place(fields)?;
                Ok(Fields::Flush(object, position))
            }
            subtype::END => {
                reserved(&fields.array::<3>()?)?;
                Ok(Fields::End)
            }
            subtype::SQUELCH => {
                let (object, position) = place(fields)?;
                Ok(Fields::Squelch(object, position))
            }
            subtype::PROBE => {
                reserved(&[fields.u8()?])?;
                Ok(Fields::Probe(fields.u16()?, Stamp::read(fields)?))
            }
            subtype::REPAIR_ADVERTISEMENT => {
                let limited = fields.flag("limit flag")?;
                reserved(&fields.array::<2>()?)?;
                Ok(Fields::RepairAdvertisement(limited))
            }
            subtype::ACK_REQUEST => {
                reserved(&[fields.u8()?])?;
                Ok(Fields::AckRequest(fields.u8()?, fields.u8()?))
            }
            subtype::APPLICATION => {
                reserved(&fields.array::<3>()?)?;
                Ok(Fields::Application)
            }
            other => Err(ParseError::Type(other)),
        }
    }

    pub fn with_content(self, content: &[u8]) -> Result<Command<'_>, ParseError> {
        Ok(match self {
            Fields::Flush(object, position) => {
                Command::Flush { object, position, nodes: Nodes::new(content)? }
            }
            Fields::End if content.is_empty() => Command::End,
            Fields::End => {
                return Err(ParseError::Field { field: "bytes behind EOT", value: content.len() as u64 });
            }
            Fields::Squelch(object, position) => {
                Command::Squelch { object, position, invalid: whole(content, 2, "object list")? }
            }
            Fields::Probe(sequence, sent) => {
                Command::Probe { sequence, sent, nodes: whole(content, PROBE_NODE_LEN, "node states")? }
            }
            Fields::RepairAdvertisement(limited) => {
                Command::RepairAdvertisement { limited, requests: Requests::new(content)? }
            }
            Fields::AckRequest(kind, id) => Command::AckRequest { kind, id, nodes: Nodes::new(content)? },
            Fields::Application => Command::Application(content),
        })
    }
}

/// Object and position behind the FEC encoding.
fn place(fields: &mut Reader<'_>) -> Result<(u16, Position), ParseError> {
    let fec_id = fields.u8()?;
    Ok((fields.u16()?, Position::read(fec_id, fields)?))
}

fn reserved(bytes: &[u8]) -> Result<(), ParseError> {
    match bytes.iter().find(|&&byte| byte != 0) {
        None => Ok(()),
        Some(&value) => Err(ParseError::Field { field: "reserved", value: value.into() }),
    }
}

impl<'a> Command<'a> {
    pub(super) fn emit_fields(&self, buf: &mut Vec<u8>) {
        match *self {
            Command::Flush { object, position, .. } => emit_place(subtype::FLUSH, object, position, buf),
            Command::End => buf.extend_from_slice(&[subtype::END, 0, 0, 0]),
            Command::Squelch { object, position, .. } => emit_place(subtype::SQUELCH, object, position, buf),
            Command::Probe { sequence, sent, .. } => {
                buf.extend_from_slice(&[subtype::PROBE, 0]);
                buf.extend_from_slice(&sequence.to_be_bytes());
                sent.emit(buf);
            }
            Command::RepairAdvertisement { limited, .. } => {
                buf.extend_from_slice(&[subtype::REPAIR_ADVERTISEMENT, limited.into(), 0, 0]);
            }
            Command::AckRequest { kind, id, .. } => {
                buf.extend_from_slice(&[subtype::ACK_REQUEST, 0, kind, id]);
            }
            Command::Application(_) => buf.extend_from_slice(&[subtype::APPLICATION, 0, 0, 0]),
        }
    }

    pub(super) fn fields_len(&self) -> usize {
        match self {
            Command::Flush { position, .. } | Command::Squelch { position, .. } => 4 + position.len(),
            Command::Probe { .. } => 12,
            Command::End
            | Command::RepairAdvertisement { .. }
            | Command::AckRequest { .. }
            | Command::Application(_) => 4,
        }
    }

    pub(super) fn content(&self) -> &'a [u8] {
        match *self {
            Command::Flush { nodes, .. } | Command::AckRequest { nodes, .. } => nodes.0,
            Command::End => &[],
            Command::Squelch { invalid: content, .. }
            | Command::Probe { nodes: content, .. }
            | Command::Application(content) => content,
            Command::RepairAdvertisement { requests, .. } => requests.as_bytes(),
        }
    }

    /// Name of the command.
    pub fn name(&self) -> &'static str {
        match self {
            Command::Flush { .. } => "flush",
            Command::End => "eot",
            Command::Squelch { .. } => "squelch",
            Command::Probe { .. } => "cc",
            Command::RepairAdvertisement { .. } => "repair_adv",
            Command::AckRequest { .. } => "ack_req",
            Command::Application(_) => "application",
        }
    }
}

fn emit_place(subtype: u8, object: u16, position: Position, buf: &mut Vec<u8>) {
    buf.extend_from_slice(&[subtype, position.fec_id()]);
    buf.extend_from_slice(&object.to_be_bytes());
    position.emit(buf);
}

impl fmt::Display for Command<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Command::Flush { object, position, nodes } => {
                write!(f, " object {object} {position}")?;
                nodes.iter().try_for_each(|node| write!(f, " {node:#x}"))
            }
            Command::End => Ok(()),
            Command::Squelch { object, position, invalid } => {
                write!(f, " object {object} {position}")?;
                let invalid = invalid.chunks_exact(2).map(|id| u16::from_be_bytes([id[0], id[1]]));
                invalid.into_iter().try_for_each(|id| write!(f, " not {id}"))
            }
            Command::Probe { sequence, sent, nodes } => {
                write!(f, " {sequence} at {}.{:06}", sent.seconds, sent.microseconds)?;
                write!(f, " nodes {}", nodes.len() / PROBE_NODE_LEN)
            }
            Command::RepairAdvertisement { limited, requests } => {
                write!(f, "{}{requests}", if *limited { " limited" } else { "" })
            }
            Command::AckRequest { kind, id, nodes } => {
                write!(f, " type {kind} id {id}")?;
                nodes.iter().try_for_each(|node| write!(f, " {node:#x}"))
            }
            Command::Application(content) => write!(f, " len {}", content.len()),
        }
    }
}

/// Subtypes of commands (RFC 5740, 4.2.3).
mod subtype {
    pub const FLUSH: u8 = 1;
    pub const END: u8 = 2;
    pub const SQUELCH: u8 = 3;
    pub const PROBE: u8 = 4;
    pub const REPAIR_ADVERTISEMENT: u8 = 5;
    pub const ACK_REQUEST: u8 = 6;
    pub const APPLICATION: u8 = 7;
}
