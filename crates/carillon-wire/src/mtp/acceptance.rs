//! Message acceptance record (RFC 1301, 2.2.6).

use crate::ParseError;
use crate::reader::Reader;

/// Number of messages before its own of which a packet carries the status.
pub const HORIZON: usize = 12;

/// Status of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Status {
    /// Accepted: all members deliver the message.
    Accepted,
    /// Pending: the master has not decided yet.
    #[default]
    Pending,
    /// Rejected: no member delivers the message.
    Rejected,
}

/// Message acceptance record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acceptance {
    /// Synchronisation with earlier messages; 0 if the client does not ask for it.
    pub synchro: u8,
    /// Status of the messages before `message`, the one right before it first.
    pub status: [Status; HORIZON],
    /// Message of the packet's token; in a control packet, the message after the last one known.
    pub message: u16,
    /// Number of the packet in its message.
    pub packet: u16,
}

impl Acceptance {
    pub(super) fn emit(&self, buf: &mut Vec<u8>) {
        let vector = self.status.iter().fold(0_u32, |vector, &status| vector << 2 | status as u32);
        let [_, a, b, c] = vector.to_be_bytes();
        buf.extend_from_slice(&[self.synchro, a, b, c]);
        buf.extend_from_slice(&self.message.to_be_bytes());
        buf.extend_from_slice(&self.packet.to_be_bytes());
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, ParseError> {
        let [synchro, a, b, c] = reader.array()?;
        let vector = u32::from_be_bytes([0, a, b, c]);
        let mut status = [Status::Pending; HORIZON];
        for (at, status) in status.iter_mut().enumerate() {
            *status = match vector >> (2 * (HORIZON - 1 - at)) & 3 {
                0 => Status::Accepted,
                1 => Status::Pending,
                2 => Status::Rejected,
                other => return Err(ParseError::Field { field: "status", value: other.into() }),
            };
        }
        Ok(Acceptance { synchro, status, message: reader.u16()?, packet: reader.u16()? })
    }
}
