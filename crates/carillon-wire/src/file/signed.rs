//! Messages that the sender has signed.

use super::{Record, record_type};
use crate::ParseError;
use crate::reader::Reader;

/// A message with a signature: `type 15 | key, 32 bytes | time u64 | signature, 64 bytes | message ...`, the message being a record or a PACK.
///
/// What is signed is the text `carillon 2026-11-28 signed transfer 2` and a zero, the group, the job, the time, and a digest of all records of the transfer so far, this
/// message's included: `docs/explanation/security.md` has the rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signed<'a> {
    /// The sender's public key (Ed25519, RFC 8032).
    pub key: [u8; 32],
    /// When the job was begun by the sender's clock, in nanoseconds since 1970.
    pub time: u64,
    /// The signature.
    pub signature: [u8; 64],
    /// The message.
    pub message: &'a [u8],
}

/// Bytes that a signature adds to a message.
pub const SIGNED_HEADER_LEN: usize = 1 + 32 + 8 + 64;

impl<'a> Signed<'a> {
    /// Parses a message; nothing if it is not signed.
    pub fn parse(message: &'a [u8]) -> Result<Option<Self>, ParseError> {
        let mut reader = Reader::new(message);
        if message.first() != Some(&record_type::SIGNED) {
            return Ok(None);
        }
        reader.u8()?;
        let (key, time, signature) = (reader.array()?, reader.u64()?, reader.array()?);
        Ok(Some(Signed { key, time, signature, message: reader.remaining() }))
    }

    /// Appends the message.
    pub fn emit(&self, buf: &mut Vec<u8>) {
        buf.push(record_type::SIGNED);
        buf.extend_from_slice(&self.key);
        buf.extend_from_slice(&self.time.to_be_bytes());
        buf.extend_from_slice(&self.signature);
        buf.extend_from_slice(self.message);
    }

    /// The bytes that a signature is over. `group` is an IPv6 address (IPv4 as `::ffff:a.b.c.d`) and a port; `job` is the
    /// identity of the job; `digest` is that of the records so far.
    #[must_use]
    pub fn text(group: &[u8; 18], job: &[u8; 16], time: u64, digest: &[u8; 32]) -> Vec<u8> {
        [CONTEXT, group, job, &time.to_be_bytes(), digest].concat()
    }
}

/// Whether the digest has this record, and a message with it has to be signed: all but OFFER, whose numbers END has, DATA and
/// HOLE, which END_OF_FILE has a digest of, and SPAN, which changes nothing.
#[must_use]
pub fn needs_signature(record: &Record<'_>) -> bool {
    !matches!(record, Record::Offer { .. } | Record::Data { .. } | Record::Hole { .. } | Record::Span { .. })
}

/// What signatures of this kind begin with, so that they are none of any other.
const CONTEXT: &[u8] = b"carillon 2026-11-28 signed transfer 2\0";
