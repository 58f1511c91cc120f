//! Common envelope of protocols with no header of their own that names a session.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+---------------+---------------+---------------+
//! |  magic 0xCA   |    version    |   protocol    |  packet type  |
//! +---------------+---------------+---------------+---------------+
//! |                        association id                         |
//! +---------------------------------------------------------------+
//! ```
//!
//! The association id is drawn at random by the sender of a session, so that two sessions on one group and port do
//! not mix. Each protocol numbers its packet types itself. The version is 3 for the session and 1 for all others. The
//! envelope never changes again: releases recognise each other by the wire version in the session's opening.

use carillon_core::AssociationId;

use crate::ParseError;

/// Common envelope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// Protocol of the packet that follows: one of the constants in [`protocol`].
    pub protocol: u8,
    /// Packet type in the numbering of that protocol.
    pub packet_type: u8,
    /// Session of the packet.
    pub association: AssociationId,
}

/// Protocol numbers of the envelope.
pub mod protocol {
    /// Session: the opening and closing exchange of all protocols.
    pub const SESSION: u8 = 0;
    /// Multicast stop-and-wait (Segovia 1996).
    pub const MSAW: u8 = 1;
    /// Multicast block acknowledgment (Segovia 1996).
    pub const MBAP: u8 = 2;
    /// Round-robin acknowledgment (Segovia 1996).
    pub const RRA: u8 = 3;
    /// Sequencer protocol of Kaashoek, Tanenbaum et al.
    pub const SEQUENCER: u8 = 4;
    /// Reliable broadcast of Chang and Maxemchuk.
    pub const CHANG_MAXEMCHUK: u8 = 6;
    /// Broadcast protocol of Erramilli and Singh.
    pub const ERRAMILLI_SINGH: u8 = 5;
    /// Light-weight Multicast Services (LMS).
    pub const LMS: u8 = 7;
    /// Reliable Multicast Transport Protocol (RMTP).
    pub const RMTP: u8 = 20;
    /// Reliable Adaptive Multicast Protocol (RAMP).
    pub const RAMP: u8 = 21;
    /// Scalable Reliable Multicast (SRM).
    pub const SRM: u8 = 8;
    /// Polling feedback (PF).
    pub const PF: u8 = 30;
    /// Full feedback (FF).
    pub const FF: u8 = 31;
    /// Polling feedback over many levels (PRMP).
    pub const PRMP: u8 = 32;
    /// Status of each receiver (SNR).
    pub const SNR: u8 = 40;
    /// Designated Status Protocol (DSP).
    pub const DSP: u8 = 41;
    /// Consolidated Status Protocol (CSP).
    pub const CSP: u8 = 42;
    /// Combined Protocol (CP).
    pub const CP: u8 = 43;
    /// Carillon's own delivery protocol.
    pub const CARILLON: u8 = 50;
    /// Reliable Multicast Protocol (RMP).
    pub const RMP: u8 = 60;
    /// Path diagnosis between machines (`carillon doctor`).
    pub const DOCTOR: u8 = 250;
}

impl Envelope {
    /// Bytes of the envelope.
    pub const LEN: usize = 8;

    /// Splits a datagram into its envelope and the rest.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<(Envelope, &[u8]), ParseError> {
        let Some((head, rest)) = bytes.split_first_chunk::<{ Envelope::LEN }>() else {
            return Err(ParseError::Truncated { have: bytes.len(), need: Self::LEN });
        };
        if head[0] != MAGIC || head[1] != version(head[2]) {
            return Err(ParseError::Magic(u16::from_be_bytes([head[0], head[1]])));
        }
        let association = AssociationId(u32::from_be_bytes([head[4], head[5], head[6], head[7]]));
        Ok((Envelope { protocol: head[2], packet_type: head[3], association }, rest))
    }

    /// Splits a datagram of one protocol into its envelope and the rest.
    #[inline]
    pub fn parse_for(expected: u8, bytes: &[u8]) -> Result<(Envelope, &[u8]), ParseError> {
        let (envelope, rest) = Envelope::parse(bytes)?;
        if envelope.protocol != expected {
            return Err(ParseError::Protocol(envelope.protocol));
        }
        Ok((envelope, rest))
    }

    /// Appends the envelope.
    pub fn emit(&self, buf: &mut Vec<u8>) {
        buf.extend_from_slice(&[MAGIC, version(self.protocol), self.protocol, self.packet_type]);
        buf.extend_from_slice(&self.association.0.to_be_bytes());
    }
}

/// Association from random bits, such that no other protocol takes a packet with this envelope for its own. Its first
/// byte stands where PGM has version and type: it names a version that PGM does not have. As versions of NORM and
/// LCT, `MAGIC` is unknown too.
pub fn drawn_association(bits: u32) -> AssociationId {
    AssociationId(bits & 0x3fff_ffff | 0x8000_0000)
}

/// Association of a datagram with the common envelope.
pub fn association_of(bytes: &[u8]) -> Option<AssociationId> {
    Envelope::parse(bytes).ok().map(|(envelope, _)| envelope.association)
}

/// Version of a protocol's packets.
const fn version(protocol: u8) -> u8 {
    if protocol == self::protocol::SESSION { SESSION_VERSION } else { 1 }
}

/// Version of the session's packets. It stays 3: later formats differ by the wire version in their fixed opening.
pub(crate) const SESSION_VERSION: u8 = 3;

pub(crate) const MAGIC: u8 = 0xCA;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_bytes() {
        let envelope =
            Envelope { protocol: protocol::MBAP, packet_type: 1, association: AssociationId(0x01020304) };
        let mut buf = Vec::new();
        envelope.emit(&mut buf);
        assert_eq!(buf, [0xCA, 1, 2, 1, 1, 2, 3, 4]);
        assert_eq!(Envelope::parse(&buf), Ok((envelope, &[][..])));
    }

    #[test]
    fn the_session_of_an_earlier_version_is_another() {
        let mut buf = Vec::new();
        Envelope { protocol: protocol::SESSION, packet_type: 1, association: AssociationId(1) }
            .emit(&mut buf);
        assert_eq!(buf[..3], [0xCA, 3, 0]);
        assert_eq!(Envelope::parse(&[0xCA, 1, 0, 1, 0, 0, 0, 1]), Err(ParseError::Magic(0xCA01)));
        assert_eq!(Envelope::parse(&[0xCA, 2, 2, 1, 0, 0, 0, 1]), Err(ParseError::Magic(0xCA02)));
    }

    #[test]
    fn drawn_associations_are_no_pgm_packets() {
        for bits in (0..=u32::MAX).step_by(65_537) {
            let mut packet = Vec::new();
            let association = drawn_association(bits);
            Envelope { protocol: protocol::SESSION, packet_type: 1, association }.emit(&mut packet);
            // A checksum of zero means that there is none, so the type must already be wrong.
            packet.resize(36, 0);
            assert_eq!(crate::pgm::PacketType::peek(&packet), None, "{association}");
            assert!(!matches!(packet[0] >> 4, 1 | 2), "versions of NORM and LCT");
        }
    }

    #[test]
    fn every_prefix_is_refused() {
        for len in 0..Envelope::LEN {
            let bytes = [0xCA, 1, 2, 1, 1, 2, 3, 4];
            assert_eq!(Envelope::parse(&bytes[..len]), Err(ParseError::Truncated { have: len, need: 8 }));
        }
    }
}
