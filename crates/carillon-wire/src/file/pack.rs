//! Several records in one message (PACK).

use carillon_core::{BufferPool, Bytes, BytesMut};

use super::{DATA_HEADER_LEN, Record, Signed, record_type};
use crate::ParseError;
use crate::reader::Reader;

/// Iterates over the records of a message: the only one, or those of a PACK. The signature of a signed message is not
/// checked.
///
/// The iterator ends after the first error.
pub fn records(message: &[u8]) -> Records<'_> {
    let message = Signed::parse(message).ok().flatten().map_or(message, |signed| signed.message);
    match message.split_first() {
        Some((&record_type::PACK, rest)) => Records { rest: Remaining::Pack(rest), number: 0 },
        _ => Records { rest: Remaining::One(message), number: 0 },
    }
}

/// Iterator of [`records`].
#[derive(Clone, Debug)]
pub struct Records<'a> {
    rest: Remaining<'a>,
    number: usize,
}

#[derive(Clone, Debug)]
enum Remaining<'a> {
    One(&'a [u8]),
    Pack(&'a [u8]),
    Done,
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, ParseError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = match std::mem::replace(&mut self.rest, Remaining::Done) {
            Remaining::One(record) => Record::parse(record),
            // A single record needs no PACK: every message has one encoding.
            Remaining::Pack([]) if self.number < 2 => {
                Err(ParseError::Field { field: "records in a pack", value: self.number as u64 })
            }
            Remaining::Pack([]) | Remaining::Done => return None,
            Remaining::Pack(rest) => read_packed_record(rest).map(|(record, rest)| {
                self.rest = Remaining::Pack(rest);
                record
            }),
        };
        self.number += 1;
        Some(next)
    }
}

fn read_packed_record(rest: &[u8]) -> Result<(Record<'_>, &[u8]), ParseError> {
    let mut reader = Reader::new(rest);
    let len = reader.u16()?;
    let (record, after) = (reader.bytes(len.into())?, reader.rest());
    Ok((Record::parse(record)?, after))
}

/// Packer that fills messages with records.
#[derive(Debug)]
pub struct Packer {
    /// Maximum length of a message in bytes.
    max_len: usize,
    /// Buffer with PACK and the records so far. Short messages are cut from one larger chunk, since memory that one
    /// thread allocates and another frees costs both.
    buffer: BytesMut,
    /// End of the records in the buffer.
    end: usize,
    records: usize,
    /// True if the record is too long for a PACK, so that it must be the only one.
    is_oversized: bool,
    /// Scratch space for a record.
    record: Vec<u8>,
    /// Buffers of long messages, for reuse.
    pooled: BufferPool,
}

impl Packer {
    /// Packer for messages of up to `max_len` bytes.
    pub fn new(max_len: usize) -> Self {
        Packer {
            max_len,
            buffer: BytesMut::new(),
            end: 0,
            records: 0,
            is_oversized: false,
            record: Vec::new(),
            pooled: BufferPool::new(MAX_POOLED_BUFFERS),
        }
    }

    /// Maximum length of another record in bytes.
    pub fn room(&self) -> usize {
        match self.records {
            // The only record needs no PACK header.
            0 => self.max_len,
            _ if self.is_oversized => 0,
            _ => (self.max_len.saturating_sub(self.end + PACK_RECORD_LEN)).min(u16::MAX.into()),
        }
    }

    /// Appends a record, for which there must be [room](Self::room).
    pub fn push(&mut self, record: &Record<'_>) {
        self.begin(record.wire_len());
        self.emit(record);
        self.records += 1;
    }

    /// Appends a DATA record of `len` bytes, for which there must be [room](Self::room). `fill` writes the contents
    /// in place; if it fails, nothing is appended.
    pub fn push_data<E>(
        &mut self,
        index: u32,
        offset: u64,
        len: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let before = self.end;
        self.begin(DATA_HEADER_LEN + len);
        self.emit(&Record::Data { index, offset, bytes: &[] });
        let end = self.end + len;
        let filled = fill(&mut self.buffer[self.end..end]);
        match filled {
            Ok(()) => (self.end, self.records) = (end, self.records + 1),
            Err(_) => self.end = before,
        }
        filled
    }

    /// Returns true if there is no record to take.
    pub fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// Takes the message: a PACK, or the record itself if it is the only one.
    pub fn take(&mut self) -> Bytes {
        let end = std::mem::take(&mut self.end);
        let message = match (self.max_len >= MIN_POOLED_LEN, end >= MIN_POOLED_LEN) {
            // Short messages share a chunk.
            (false, _) => self.buffer.split_to(end).freeze(),
            // A short message is copied, so that it does not hold a long buffer until it is acknowledged.
            (true, false) => Bytes::copy_from_slice(&self.buffer[..end]),
            (true, true) => {
                let whole = std::mem::take(&mut self.buffer).freeze();
                self.pooled.lend(whole.clone());
                whole.slice(..end)
            }
        };
        match std::mem::take(&mut self.records) {
            // A single record is sent without the PACK headers in front of it.
            1 => message.slice(PACK_HEADER_LEN + PACK_RECORD_LEN..),
            _ => message,
        }
    }

    /// Writes the headers before a record of `len` bytes.
    fn begin(&mut self, len: usize) {
        debug_assert!(len <= self.room(), "{len} bytes have room");
        if self.records == 0 {
            let whole = self.max_len + PACK_HEADER_LEN + PACK_RECORD_LEN;
            if self.buffer.len() < whole {
                // Reuse a buffer that was returned; look for one if none is known.
                let again = self.pooled.returned().or_else(|| {
                    self.pooled.collect();
                    self.pooled.returned()
                });
                self.buffer = again.unwrap_or_else(|| BytesMut::zeroed(whole.max(SHARED_CHUNK_LEN)));
            }
            self.put(&[record_type::PACK]);
        }
        // A record of 64 KiB or more does not fit the length field of a PACK and must be the only one.
        let len = u16::try_from(len);
        self.is_oversized = len.is_err();
        self.put(&len.unwrap_or(u16::MAX).to_be_bytes());
    }

    fn emit(&mut self, record: &Record<'_>) {
        let mut bytes = std::mem::take(&mut self.record);
        bytes.clear();
        record.emit(&mut bytes);
        self.put(&bytes);
        self.record = bytes;
    }

    /// Writes bytes over the unused part of the buffer.
    fn put(&mut self, bytes: &[u8]) {
        let end = self.end + bytes.len();
        self.buffer[self.end..end].copy_from_slice(bytes);
        self.end = end;
    }
}

/// Size of the chunks from which short messages are cut, in bytes.
const SHARED_CHUNK_LEN: usize = 32 << 10;

/// Minimum length of a message, in bytes, for which whole buffers are pooled.
const MIN_POOLED_LEN: usize = 16 << 10;

/// Maximum number of pooled buffers: the messages that wait for the network and for acknowledgments.
const MAX_POOLED_BUFFERS: usize = 512;

/// Bytes of a PACK without its records.
pub const PACK_HEADER_LEN: usize = 1;

/// Bytes before each record in a PACK.
pub const PACK_RECORD_LEN: usize = 2;
