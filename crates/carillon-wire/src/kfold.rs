//! Packets of k-fold repetition: envelope, number, message. The layout is Carillon's.

use std::fmt;

use carillon_core::{AssociationId, Format, PacketKind, PacketSummary, ParsedPacket, Remainder};

use crate::reader::Reader;
use crate::{Envelope, ParseError};

/// Message and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Number of the message, modulo 2^32.
    pub number: u32,
    /// Contents of the message.
    pub payload: &'a [u8],
}

/// Bytes before the message.
pub const HEADER_LEN: usize = Envelope::LEN + 4;

/// Format of the protocol.
pub const FORMAT: Format = Format { name: "kfold", read, summary, kinds: KINDS };

const PROTOCOL: u8 = 9;
const DATA: u8 = 1;

impl<'a> Packet<'a> {
    /// Parses a datagram.
    pub fn parse(bytes: &'a [u8]) -> Result<(AssociationId, Packet<'a>), ParseError> {
        let (envelope, mut reader) = Reader::behind_envelope(PROTOCOL, bytes)?;
        match envelope.packet_type {
            DATA => Ok((envelope.association, Packet { number: reader.u32()?, payload: reader.rest() })),
            other => Err(ParseError::Type(other)),
        }
    }

    /// Appends the packet as a datagram.
    pub fn emit(&self, association: AssociationId, buf: &mut Vec<u8>) {
        Envelope { protocol: PROTOCOL, packet_type: DATA, association }.emit(buf);
        buf.extend_from_slice(&self.number.to_be_bytes());
        buf.extend_from_slice(self.payload);
    }
}

impl fmt::Display for Packet<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kfold data {} len {}", self.number, self.payload.len())
    }
}

fn read(bytes: &[u8]) -> Result<ParsedPacket, String> {
    let (association, packet) = Packet::parse(bytes).map_err(|error| error.to_string())?;
    let mut again = Vec::new();
    packet.emit(association, &mut again);
    Ok(ParsedPacket::new(&packet, again, HEADER_LEN + packet.payload.len(), Remainder::Empty))
}

/// Summarizes a packet for viewers.
fn summary(bytes: &[u8]) -> Option<PacketSummary> {
    let (_, packet) = Packet::parse(bytes).ok()?;
    Some(PacketSummary::about("data", PacketKind::Data, packet.number))
}

/// Kinds of the packets by name, in traces and in summaries.
const KINDS: &[(&str, PacketKind)] = &[("data", PacketKind::Data)];
