//! Records of file delivery and live streams inside protocol messages, one or several to a message.
//!
//! A transfer is an OFFER, then its entries, and finally END. A directory is a DIRECTORY before its contents, and a
//! symbolic link a LINK. A file is a FILE, then DATA in ascending order of offset, with HOLEs for zeros that take no
//! space in it, and END_OF_FILE. WITHDRAW replaces END_OF_FILE if the file changed while it was read, and the
//! receiver then discards it. A live stream is its MESSAGEs in order and END_OF_STREAM; a message that is too long
//! for one record is sent as PIECEs ([`stream_records`]). The last field of a record extends to its end. Where
//! several members send, each sends its own sequence of records.
//!
//! ```text
//! OFFER (1)        | type 1 | entries u32 | bytes u64 |
//! FILE (2)         | type 2 | index u32 | size u64 | mode u32 | modified i64 | path ... |
//! DATA (3)         | type 3 | index u32 | offset u64 | bytes ... |
//! END_OF_FILE (4)  | type 4 | index u32 | size u64 | digest, 32 bytes |
//! END (5)          | type 5 | bytes u64 |
//! MESSAGE (6)      | type 6 | number u64 | bytes ... |
//! END_OF_STREAM (7)| type 7 | messages u64 |
//! DIRECTORY (8)    | type 8 | index u32 | mode u32 | modified i64 | path ... |
//! LINK (9)         | type 9 | index u32 | target length u16 | target | path ... |
//! WITHDRAW (10)    | type 10 | index u32 | reason u8 |
//! PACK (11)        | type 11 | (record length u16 | record) two or more times |
//! PIECE (12)       | type 12 | number u64 | offset u32 | length u32 | bytes ... |
//! RESUME (13)      | type 13 | transfer, 16 bytes | entry u32 | offset u64 |
//! KEPT (14)        | type 14 | index u32 |
//! SIGNED (15)      | type 15 | key, 32 bytes | time u64 | signature, 64 bytes | a record or a PACK |
//! HOLE (16)        | type 16 | index u32 | offset u64 | length u64 |
//! SPAN (17)        | type 17 | index u32 | offset u64 | step u32 | count u32 | session u32 ... |
//! SUBTREE (18)     | type 18 | index u32 | end u64 | chaining value, 32 bytes |
//! LIST (19)        | type 19 | list, 16 bytes | flags u8 |
//! QUESTION (20)    | type 20 | question u32 |
//! SAME (21)        | type 21 | index u32 | offset u64 | length u64 |
//! DELETE (22)      | type 22 | limit u64 |
//! EXCLUDE (23)     | type 23 | pattern ... |
//! ARCHIVE (24)     | type 24 | offset u32 | total u32 | bytes ... |
//! ```
//!
//! RESUME follows OFFER and names the transfer: equal names mean equal files. It has the entry and the byte of that
//! entry at which the transfer begins, since all receivers have everything before it; usually both are 0. A file
//! before that point is a FILE and KEPT. A JOIN carries the receiver's own [`ResumePoint`].
//!
//! LIST follows OFFER where every receiver answers questions about its holdings: an *update*. All FILE, DIRECTORY and
//! LINK records come first, unless every receiver knows the list, and then QUESTION 1. The SUBTREEs and END_OF_FILEs
//! of files that some receivers have in another version may follow, and QUESTION 2. Receivers answer each question
//! through the session ([`crate::holdings`]). Then come the files that a receiver is missing. SAME stands for bytes
//! that every receiver has in its version of the file, at the same place.
//!
//! DELETE and then EXCLUDEs follow LIST if receivers are to remove what the listed directories have beyond the list,
//! except what the patterns match; a limit of 2^64 - 1 stands for none. QUESTION 3 asks what that is
//! ([`crate::deletions`]). Only receivers that permit it get these records.
//!
//! ARCHIVE records before the first FILE, DIRECTORY or LINK have owners, attributes and special entries in pieces
//! ([`archive`]). Only receivers that permit it get them; a list that every receiver knows includes them.
//!
//! SPAN is a message of its own and no part of the transfer. It describes the next `count` messages: a DATA of this
//! file each, with `step` bytes, the first one at `offset`. They were transmitted in these sessions, 1 to 8 of them;
//! a receiver that overheard them there has them already.
//!
//! A size of 2^64 - 1 in OFFER and FILE means that it is unknown, as for a stream. The bytes of OFFER are those of
//! all files when they were listed; the bytes of END are the sum of all DATA and HOLEs. A HOLE has 16 MiB at most, a
//! SAME 4 MiB, and a message at most one of them, which bounds the work per message. A mode has the permission bits
//! 0777 only. `modified` is the modification time in nanoseconds since 1970 without leap seconds, or -2^63 if unknown.
//! A reason is 1 for a file that changed and 2 for one that could not be read.
//!
//! The digest is BLAKE3 over the file's bytes. It is the root of a hash tree, and SUBTREE has the chaining value of
//! the 4 MiB of the file before `end`, a multiple of 4 MiB. One follows each complete part of that size in ascending
//! order, also for parts that all receivers have. A receiver with other contents therefore need not wait for the end
//! of the file.
//!
//! A message is a record or a PACK of records ([`records`]): small files share a message, and so do messages of a
//! live stream that are sent at the same moment.

pub mod archive;
mod display;
mod emit;
mod list;
mod modification_time;
mod pack;
mod path;
mod signed;

pub use list::{LIST_LEN, ListFlags};
pub use pack::{PACK_HEADER_LEN, PACK_RECORD_LEN, Packer, Records, records};
pub use path::{LINK_TARGET_MAX_LEN, RelativePath, link_stays_below};
pub use signed::{SIGNED_HEADER_LEN, Signed, needs_signature};

use std::fmt;

use carillon_core::AssociationId;

use crate::ParseError;
use crate::reader::Reader;

/// Record of a transfer or a live stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// Summary of the transfer.
    Offer {
        /// Number of files, directories and links.
        entries: u32,
        /// Bytes of all files when they were listed; `None` if one of them is a stream.
        bytes: Option<u64>,
    },
    /// Beginning of a file.
    File {
        /// Index of the entry in the transfer, from 0.
        index: u32,
        /// Size in bytes; `None` for a stream.
        size: Option<u64>,
        /// Unix permission bits, limited to [`MODE_MASK`].
        mode: u32,
        /// Modification time in nanoseconds since 1970, if known.
        modified: Option<i64>,
        /// Path below the receiver's directory.
        path: RelativePath<'a>,
    },
    /// Part of a file's contents.
    Data {
        /// Index of the file.
        index: u32,
        /// Offset of the first byte in the file.
        offset: u64,
        /// Contents.
        bytes: &'a [u8],
    },
    /// Zeros that take no space in the sender's file.
    Hole {
        /// Index of the file.
        index: u32,
        /// Offset of the first zero in the file.
        offset: u64,
        /// Number of zeros, at most [`HOLE_MAX`].
        len: u64,
    },
    /// Description of the next messages, each a DATA.
    Span {
        /// Index of the file.
        index: u32,
        /// Offset of the first DATA in the file.
        offset: u64,
        /// Bytes of each DATA.
        step: u32,
        /// Number of messages.
        count: u32,
        /// Sessions in which the messages were transmitted.
        sessions: Sessions<'a>,
    },
    /// Node of the hash tree of a file.
    Subtree {
        /// Index of the file.
        index: u32,
        /// Offset after the last byte of the subtree, which has [`SUBTREE_BYTES`] bytes.
        end: u64,
        /// Chaining value of BLAKE3.
        value: [u8; DIGEST_LEN],
    },
    /// End of a complete file.
    EndOfFile {
        /// Index of the file.
        index: u32,
        /// Size in bytes.
        size: u64,
        /// BLAKE3 digest of the contents.
        digest: [u8; DIGEST_LEN],
    },
    /// End of a complete transfer.
    End {
        /// Bytes of all DATA and HOLEs.
        bytes: u64,
        /// BLAKE3 digest over all FILE, END_OF_FILE, KEPT, WITHDRAW, DIRECTORY, LINK, DELETE, EXCLUDE and ARCHIVE
        /// records, each preceded by its length in 4 bytes.
        listing: [u8; DIGEST_LEN],
    },
    /// Fragment of a message of a live stream.
    Piece {
        /// Number of the message at its sender, from 0.
        number: u64,
        /// Offset of the fragment in the message.
        offset: u32,
        /// Bytes of the whole message.
        len: u32,
        /// Fragment.
        bytes: &'a [u8],
    },
    /// Message of a live stream.
    Message {
        /// Number of the message at its sender, from 0.
        number: u64,
        /// Message.
        bytes: &'a [u8],
    },
    /// End of a complete live stream.
    EndOfStream {
        /// Number of its messages.
        messages: u64,
    },
    /// Directory; its contents follow.
    Directory {
        /// Index of the entry in the transfer, from 0.
        index: u32,
        /// Unix permission bits, limited to [`MODE_MASK`].
        mode: u32,
        /// Modification time in nanoseconds since 1970, if known.
        modified: Option<i64>,
        /// Path below the receiver's directory.
        path: RelativePath<'a>,
    },
    /// Symbolic link.
    Link {
        /// Index of the entry in the transfer, from 0.
        index: u32,
        /// Target as the link has it; [`link_stays_below`] tells whether it is harmless.
        target: &'a [u8],
        /// Path below the receiver's directory.
        path: RelativePath<'a>,
    },
    /// Identity of the transfer and the point from which it is sent; all receivers have everything before it.
    Resume(ResumePoint),
    /// End of a file that all receivers have.
    Kept {
        /// Index of the file.
        index: u32,
    },
    /// Beginning of an update.
    List {
        /// Identity of the list of entries.
        list: TransferId,
        /// Contents of the update, and requests to the receivers.
        flags: ListFlags,
    },
    /// Question for the receivers' holdings.
    Question {
        /// Number of the question, from 1.
        question: u32,
    },
    /// Bytes that all receivers have in their version of the file.
    Same {
        /// Index of the file.
        index: u32,
        /// Offset of the first byte in the file.
        offset: u64,
        /// Number of bytes, at most [`SUBTREE_BYTES`].
        len: u64,
    },
    /// Request to remove entries that the listed directories have beyond the list.
    Delete {
        /// Maximum number of entries; a receiver that has more fails.
        limit: Option<u64>,
    },
    /// Pattern of entries that stay.
    Exclude {
        /// The pattern.
        pattern: &'a str,
    },
    /// Part of the table of attributes and special entries ([`archive`]).
    Archive {
        /// Offset of the part in the table.
        offset: u32,
        /// Bytes of the table, at most [`archive::MAX_TABLE_BYTES`].
        total: u32,
        /// The part.
        bytes: &'a [u8],
    },
    /// End of a file that the receivers must discard.
    Withdraw {
        /// Index of the file.
        index: u32,
        /// Reason.
        reason: WithdrawReason,
    },
}

/// Sessions of one sender, by their association ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sessions<'a>(&'a [u8]);

impl<'a> Sessions<'a> {
    /// Checks the bytes of a list: 1 to [`SESSIONS_MAX`] ids of four bytes; `None` otherwise.
    pub fn new(bytes: &'a [u8]) -> Option<Self> {
        let fits = bytes.len().is_multiple_of(4) && (1..=SESSIONS_MAX).contains(&(bytes.len() / 4));
        fits.then_some(Sessions(bytes))
    }

    /// Association ids in order.
    pub fn iter(&self) -> impl Iterator<Item = AssociationId> + 'a {
        self.0.as_chunks().0.iter().map(|&number| AssociationId(u32::from_be_bytes(number)))
    }
}

/// Maximum number of sessions in a SPAN.
pub const SESSIONS_MAX: usize = 8;

/// Identity of a transfer: equal for transfers of the same files.
pub type TransferId = [u8; 16];

/// Point that a transfer has reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResumePoint {
    /// Identity of the transfer.
    pub transfer: TransferId,
    /// Number of complete entries.
    pub entry: u32,
    /// Bytes of the next entry that are complete.
    pub offset: u64,
}

impl ResumePoint {
    /// Length in bytes.
    pub const LEN: usize = 16 + 4 + 8;

    /// Appends the point: `transfer, 16 bytes | entry u32 | offset u64`.
    pub fn emit(&self, buf: &mut Vec<u8>) {
        buf.extend_from_slice(&self.transfer);
        buf.extend_from_slice(&self.entry.to_be_bytes());
        buf.extend_from_slice(&self.offset.to_be_bytes());
    }

    /// Parses a point; refuses further bytes.
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(bytes);
        let reached = reader.reached()?;
        reader.end("bytes after the place")?;
        Ok(reached)
    }
}

/// Reason why a sender withdraws a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WithdrawReason {
    /// File changed while it was sent.
    Changed,
    /// File could not be read.
    Unreadable,
}

impl fmt::Display for WithdrawReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            WithdrawReason::Changed => "changed while it was sent",
            WithdrawReason::Unreadable => "could not be read by the sender",
        })
    }
}

/// Permission bits that a transfer carries: no set-user-id, set-group-id, or sticky bit.
pub const MODE_MASK: u32 = 0o777;

/// Bytes of a digest.
pub const DIGEST_LEN: usize = 32;

/// Bytes of a part of a file with a chaining value of its own; parts begin at multiples of this size.
pub const SUBTREE_BYTES: u64 = 4 << 20;

/// Bytes of a SUBTREE.
pub const SUBTREE_LEN: usize = 1 + 4 + 8 + DIGEST_LEN;

/// Bytes that MESSAGE adds to a message of a live stream.
pub const MESSAGE_HEADER_LEN: usize = 1 + 8;

/// Bytes that PIECE adds to a fragment.
pub const PIECE_HEADER_LEN: usize = 1 + 8 + 4 + 4;

/// Bytes that DATA adds to a part of a file.
pub const DATA_HEADER_LEN: usize = 1 + 4 + 8;

/// Maximum number of zeros in a HOLE.
pub const HOLE_MAX: u64 = 16 << 20;

/// Bytes of a FILE without its path.
pub const FILE_HEADER_LEN: usize = 1 + 4 + 8 + 4 + 8;

/// Bytes of a KEPT.
pub const KEPT_LEN: usize = 1 + 4;

/// Bytes that ARCHIVE adds to a part of the table.
pub const ARCHIVE_HEADER_LEN: usize = 1 + 4 + 4;

/// Bytes of a LINK without its path and its target.
pub const LINK_HEADER_LEN: usize = 1 + 4 + 2;

impl<'a> Record<'a> {
    /// Parses a record.
    pub fn parse(message: &'a [u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(message);
        let record = match reader.u8()? {
            record_type::OFFER => Record::Offer { entries: reader.u32()?, bytes: known(reader.u64()?) },
            record_type::FILE => Record::File {
                index: reader.u32()?,
                size: known(reader.u64()?),
                mode: reader.mode()?,
                modified: reader.modified()?,
                path: reader.path()?,
            },
            record_type::DATA => {
                let (index, offset, bytes) = (reader.u32()?, reader.u64()?, reader.remaining());
                Record::Data { index, offset: checked_offset(offset, bytes.len() as u64)?, bytes }
            }
            record_type::HOLE => reader.hole()?,
            record_type::SPAN => reader.span()?,
            record_type::SUBTREE => reader.subtree()?,
            record_type::END_OF_FILE => {
                Record::EndOfFile { index: reader.u32()?, size: reader.u64()?, digest: reader.array()? }
            }
            record_type::END => Record::End { bytes: reader.u64()?, listing: reader.array()? },
            record_type::MESSAGE => Record::Message { number: reader.u64()?, bytes: reader.remaining() },
            record_type::PIECE => reader.piece()?,
            record_type::END_OF_STREAM => Record::EndOfStream { messages: reader.u64()? },
            record_type::DIRECTORY => Record::Directory {
                index: reader.u32()?,
                mode: reader.mode()?,
                modified: reader.modified()?,
                path: reader.path()?,
            },
            record_type::LINK => {
                let (index, len) = (reader.u32()?, reader.u16()?);
                let target = path::target(reader.bytes(len.into())?)?;
                Record::Link { index, target, path: reader.path()? }
            }
            record_type::WITHDRAW => reader.withdraw()?,
            record_type::RESUME => Record::Resume(reader.reached()?),
            record_type::KEPT => Record::Kept { index: reader.u32()? },
            record_type::LIST => {
                Record::List { list: reader.array()?, flags: ListFlags::parse(reader.u8()?)? }
            }
            record_type::QUESTION => Record::Question { question: reader.u32()? },
            record_type::SAME => {
                let (index, offset, len) = (reader.u32()?, reader.u64()?, reader.u64()?);
                if !(1..=SUBTREE_BYTES).contains(&len) {
                    return Err(ParseError::Field { field: "length", value: len });
                }
                Record::Same { index, offset: checked_offset(offset, len)?, len }
            }
            record_type::DELETE => Record::Delete { limit: known(reader.u64()?) },
            record_type::EXCLUDE => reader.exclude()?,
            record_type::ARCHIVE => reader.archive()?,
            other => return Err(ParseError::Type(other)),
        };
        reader.end("bytes after the record")?;
        Ok(record)
    }
}

/// Returns the records of a message of a live stream: a MESSAGE, or PIECEs if it does not fit a record of `most`
/// bytes.
///
/// The length field of a message of 4 GiB or more saturates, and receivers refuse such lengths, as they do much
/// shorter ones.
pub fn stream_records(number: u64, message: &[u8], most: usize) -> impl Iterator<Item = Record<'_>> {
    let is_whole = message.is_empty() || MESSAGE_HEADER_LEN + message.len() <= most;
    let len = u32::try_from(message.len()).unwrap_or(u32::MAX);
    let whole = is_whole.then_some(Record::Message { number, bytes: message });
    let size = most.saturating_sub(PIECE_HEADER_LEN).max(1);
    let pieces = message[if is_whole { message.len() } else { 0 }..].chunks(size);
    let offsets = (0..).step_by(size).map(|offset: usize| u32::try_from(offset).unwrap_or(u32::MAX));
    let pieces = offsets.zip(pieces).map(move |(offset, bytes)| Record::Piece { number, offset, len, bytes });
    whole.into_iter().chain(pieces)
}

impl<'a> Reader<'a> {
    /// Reads a HOLE.
    fn hole(&mut self) -> Result<Record<'a>, ParseError> {
        let (index, offset, len) = (self.u32()?, self.u64()?, self.u64()?);
        // The bound limits the work that a small record can cause.
        if !(1..=HOLE_MAX).contains(&len) {
            return Err(ParseError::Field { field: "length", value: len });
        }
        Ok(Record::Hole { index, offset: checked_offset(offset, len)?, len })
    }

    /// Reads a SPAN.
    fn span(&mut self) -> Result<Record<'a>, ParseError> {
        let (index, offset, step, count) = (self.u32()?, self.u64()?, self.u32()?, self.u32()?);
        // An empty span describes nothing.
        if step == 0 || count == 0 {
            return Err(ParseError::Field { field: "span", value: 0 });
        }
        let offset = checked_offset(offset, u64::from(step) * u64::from(count))?;
        let bytes = self.remaining();
        let refused = ParseError::Field { field: "sessions", value: bytes.len() as u64 };
        let sessions = Sessions::new(bytes).ok_or(refused)?;
        Ok(Record::Span { index, offset, step, count, sessions })
    }

    /// Reads a SUBTREE.
    fn subtree(&mut self) -> Result<Record<'a>, ParseError> {
        let (index, end) = (self.u32()?, self.u64()?);
        // Subtrees are the aligned 4 MiB parts of a file only.
        if end == 0 || !end.is_multiple_of(SUBTREE_BYTES) {
            return Err(ParseError::Field { field: "end", value: end });
        }
        Ok(Record::Subtree { index, end, value: self.array()? })
    }

    /// Reads a PIECE.
    fn piece(&mut self) -> Result<Record<'a>, ParseError> {
        let (number, offset, len) = (self.u64()?, self.u32()?, self.u32()?);
        let bytes = self.remaining();
        // A fragment has at least one byte and ends within its message.
        if bytes.is_empty() || u64::from(offset) + bytes.len() as u64 > u64::from(len) {
            return Err(ParseError::Field { field: "length", value: len.into() });
        }
        Ok(Record::Piece { number, offset, len, bytes })
    }

    /// Reads a WITHDRAW.
    fn withdraw(&mut self) -> Result<Record<'a>, ParseError> {
        let index = self.u32()?;
        let reason = match self.u8()? {
            REASON_CHANGED => WithdrawReason::Changed,
            REASON_UNREADABLE => WithdrawReason::Unreadable,
            other => return Err(ParseError::Field { field: "reason", value: other.into() }),
        };
        Ok(Record::Withdraw { index, reason })
    }

    /// Reads an EXCLUDE.
    fn exclude(&mut self) -> Result<Record<'a>, ParseError> {
        let bytes = self.remaining();
        let refused = ParseError::Field { field: "pattern", value: bytes.len() as u64 };
        let pattern = std::str::from_utf8(bytes).ok().filter(|text| !text.is_empty());
        Ok(Record::Exclude { pattern: pattern.ok_or(refused)? })
    }

    /// Reads an ARCHIVE.
    fn archive(&mut self) -> Result<Record<'a>, ParseError> {
        let (offset, total, bytes) = (self.u32()?, self.u32()?, self.remaining());
        let fits = u64::from(offset) + bytes.len() as u64 <= u64::from(total);
        if bytes.is_empty() || !fits || total as usize > archive::MAX_TABLE_BYTES {
            return Err(ParseError::Field { field: "total", value: total.into() });
        }
        Ok(Record::Archive { offset, total, bytes })
    }

    fn mode(&mut self) -> Result<u32, ParseError> {
        let mode = self.u32()?;
        match mode & !MODE_MASK {
            0 => Ok(mode),
            _ => Err(ParseError::Field { field: "mode", value: mode.into() }),
        }
    }

    fn reached(&mut self) -> Result<ResumePoint, ParseError> {
        Ok(ResumePoint { transfer: self.array()?, entry: self.u32()?, offset: self.u64()? })
    }

    /// Reads the path at the end of a record.
    fn path(&mut self) -> Result<RelativePath<'a>, ParseError> {
        RelativePath::parse(self.remaining())
    }
}

/// Checks the offset of `len` bytes in a file: their end must stay below the value that stands for an unknown size.
fn checked_offset(offset: u64, len: u64) -> Result<u64, ParseError> {
    match offset.checked_add(len) {
        None | Some(UNKNOWN_SIZE) => Err(ParseError::Field { field: "offset", value: offset }),
        Some(_) => Ok(offset),
    }
}

fn known(size: u64) -> Option<u64> {
    (size != UNKNOWN_SIZE).then_some(size)
}

const UNKNOWN_SIZE: u64 = u64::MAX;
const REASON_CHANGED: u8 = 1;
const REASON_UNREADABLE: u8 = 2;

mod record_type {
    pub const OFFER: u8 = 0x01;
    pub const FILE: u8 = 0x02;
    pub const DATA: u8 = 0x03;
    pub const END_OF_FILE: u8 = 0x04;
    pub const END: u8 = 0x05;
    pub const MESSAGE: u8 = 0x06;
    pub const END_OF_STREAM: u8 = 0x07;
    pub const DIRECTORY: u8 = 0x08;
    pub const LINK: u8 = 0x09;
    pub const WITHDRAW: u8 = 0x0A;
    pub const PACK: u8 = 0x0B;
    pub const PIECE: u8 = 0x0C;
    pub const RESUME: u8 = 0x0D;
    pub const KEPT: u8 = 0x0E;
    pub const SIGNED: u8 = 0x0F;
    pub const HOLE: u8 = 0x10;
    pub const SPAN: u8 = 0x11;
    pub const SUBTREE: u8 = 0x12;
    pub const LIST: u8 = 0x13;
    pub const QUESTION: u8 = 0x14;
    pub const SAME: u8 = 0x15;
    pub const DELETE: u8 = 0x16;
    pub const EXCLUDE: u8 = 0x17;
    pub const ARCHIVE: u8 = 0x18;
}
