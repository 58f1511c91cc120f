//! Messages with a signature of the sender.

use super::{Record, record_type};
use crate::ParseError;
use crate::reader::Reader;

/// Message with a signature: `type 15 | key, 32 bytes | time u64 | signature, 64 bytes | message ...`; the message is
/// a record or a PACK.
///
/// The signed text is `carillon 2026-11-28 signed transfer 2` and a zero, the group, the job, the time, and a digest
/// of all records of the transfer so far, including this message: `docs/reference/seal-and-signature.md` has the rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signed<'a> {
    /// Public key of the sender (Ed25519, RFC 8032).
    pub key: [u8; 32],
    /// Start of the job by the sender's clock, in nanoseconds since 1970.
    pub time: u64,
    /// Signature (Ed25519).
    pub signature: [u8; 64],
    /// Signed message.
    pub message: &'a [u8],
}

/// Bytes that a signature adds to a message.
pub const SIGNED_HEADER_LEN: usize = 1 + 32 + 8 + 64;

impl<'a> Signed<'a> {
    /// Parses a message; `None` if it has no signature.
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

    /// Builds the signed text. `group` is an IPv6 address (IPv4 as `::ffff:a.b.c.d`) and a port, `job` the identity
    /// of the job, and `digest` the digest of the records so far.
    #[must_use]
    pub fn text(group: &[u8; 18], job: &[u8; 16], time: u64, digest: &[u8; 32]) -> Vec<u8> {
        [CONTEXT, group, job, &time.to_be_bytes(), digest].concat()
    }
}

/// Returns true if the digest covers this record, so that its message must be signed. OFFER is exempt because END
/// repeats its numbers, DATA and HOLE because END_OF_FILE has their digest, and SPAN because it changes nothing.
#[must_use]
pub fn needs_signature(record: &Record<'_>) -> bool {
    !matches!(record, Record::Offer { .. } | Record::Data { .. } | Record::Hole { .. } | Record::Span { .. })
}

/// Context at the beginning of the signed text, so that a signature is valid for no other purpose.
const CONTEXT: &[u8] = b"carillon 2026-11-28 signed transfer 2\0";
