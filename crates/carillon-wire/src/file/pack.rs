//! Several records in one message.

use carillon_core::{BufferPool, Bytes, BytesMut};

use super::{DATA_HEADER_LEN, Record, Signed, record_type};
use crate::ParseError;
use crate::reader::Reader;

/// The records of a message, in order: one, or those of a PACK; signed or not, which is not looked at.
///
/// Ends after the first error.
pub fn records(message: &[u8]) -> Records<'_> {
    let message = Signed::parse(message).ok().flatten().map_or(message, |signed| signed.message);
    match message.split_first() {
        Some((&record_type::PACK, rest)) => Records { rest: Remaining::Pack(rest), number: 0 },
        _ => Records { rest: Remaining::One(message), number: 0 },
    }
}

/// See [`records`].
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
            // One alone needs no pack: there is one form of everything.
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

/// Fills messages with records.
#[derive(Debug)]
pub struct Packer {
    /// Bytes of a message, at most.
    max_len: usize,
    /// Room for a message, with PACK and its records so far; short messages are cut from a longer piece one after the other, since what one thread takes
    /// from the allocator and another gives back costs both.
    buffer: BytesMut,
    /// Where the records so far end.
    end: usize,
    records: usize,
    /// The record is too long to be one of several.
    is_oversized: bool,
    /// A record, kept for its room.
    record: Vec<u8>,
    /// The buffers of long messages.
    pooled: BufferPool,
}

impl Packer {
    /// For messages of up to `max_len` bytes.
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

    /// Bytes that another record may have.
    pub fn room(&self) -> usize {
        match self.records {
            // Alone it needs no pack.
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

    /// Appends DATA with a piece of so many bytes, for which there must be [room](Self::room), as `fill` writes them where
    /// they are to be; nothing if that fails.
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

    /// Whether there is nothing to take.
    pub fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// Takes the message: a pack, or the record if it is one only.
    pub fn take(&mut self) -> Bytes {
        let end = std::mem::take(&mut self.end);
        let message = match (self.max_len >= MIN_POOLED_LEN, end >= MIN_POOLED_LEN) {
            (false, _) => self.buffer.split_to(end).freeze(),
            // What waits for acknowledgments is not to hold memory that it does not need.
            (true, false) => Bytes::copy_from_slice(&self.buffer[..end]),
            (true, true) => {
                let whole = std::mem::take(&mut self.buffer).freeze();
                self.pooled.lend(whole.clone());
                whole.slice(..end)
            }
        };
        match std::mem::take(&mut self.records) {
            1 => message.slice(PACK_HEADER_LEN + PACK_RECORD_LEN..),
            _ => message,
        }
    }

    /// Puts in what is before a record of so many bytes.
    fn begin(&mut self, len: usize) {
        debug_assert!(len <= self.room(), "{len} bytes have room");
        if self.records == 0 {
            let whole = self.max_len + PACK_HEADER_LEN + PACK_RECORD_LEN;
            if self.buffer.len() < whole {
                let again = self.pooled.returned().or_else(|| {
                    self.pooled.collect();
                    self.pooled.returned()
                });
                self.buffer = again.unwrap_or_else(|| BytesMut::zeroed(whole.max(SHARED_CHUNK_LEN)));
            }
            self.put(&[record_type::PACK]);
        }
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

    /// Puts these in, over what is there.
    fn put(&mut self, bytes: &[u8]) {
        let end = self.end + bytes.len();
        self.buffer[self.end..end].copy_from_slice(bytes);
        self.end = end;
    }
}

/// Short messages are cut from pieces of so many bytes.
const SHARED_CHUNK_LEN: usize = 32 << 10;

/// From so many bytes on the buffer of a message is used again.
const MIN_POOLED_LEN: usize = 16 << 10;

/// So many of them are remembered: what waits for the network and for its acknowledgment.
const MAX_POOLED_BUFFERS: usize = 512;

/// Bytes that PACK has besides its records.
pub const PACK_HEADER_LEN: usize = 1;

/// Bytes that a record in a PACK has before it.
pub const PACK_RECORD_LEN: usize = 2;
