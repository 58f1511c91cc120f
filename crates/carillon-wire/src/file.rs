//! File delivery inside protocol messages: one record per message, no envelope of its own.
//!
//! A transfer is OFFER, then for each file FILE, its DATA in ascending order of offset, and
//! END_OF_FILE, and at last END. A live stream is its MESSAGEs in order, and END_OF_STREAM. The last
//! field of a record runs to the end of the message. Where several send, each sends this of its own.
//!
//! ```text
//! OFFER (1)        | type 1 | files u32 | bytes u64 |
//! FILE (2)         | type 2 | index u32 | size u64 | mode u32 | path ... |
//! DATA (3)         | type 3 | index u32 | offset u64 | bytes ... |
//! END_OF_FILE (4)  | type 4 | index u32 | size u64 | digest, 32 bytes |
//! END (5)          | type 5 | bytes u64 |
//! MESSAGE (6)      | type 6 | number u64 | bytes ... |
//! END_OF_STREAM (7)| type 7 | messages u64 |
//! ```
//!
//! A size of 2^64 - 1 in OFFER and FILE means that it is not known beforehand, as for a stream.
//! The digest is BLAKE3 over the file's bytes.

use std::fmt;
use std::ops::Deref;

use crate::ParseError;

/// One record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// What the transfer consists of.
    Offer {
        /// Number of files.
        files: u32,
        /// Bytes of all files together; `None` if one of them is a stream.
        bytes: Option<u64>,
    },
    /// A file begins.
    File {
        /// Its place in the transfer, from 0.
        index: u32,
        /// Its size; `None` for a stream.
        size: Option<u64>,
        /// Unix permission bits; only [`MODE_MASK`] is carried.
        mode: u32,
        /// Where it belongs below the receiver's directory.
        path: RelativePath<'a>,
    },
    /// A piece of a file.
    Data {
        /// Which file.
        index: u32,
        /// Where the piece begins.
        offset: u64,
        /// The piece.
        bytes: &'a [u8],
    },
    /// A file is complete.
    EndOfFile {
        /// Which file.
        index: u32,
        /// Its size.
        size: u64,
        /// BLAKE3 over its bytes.
        digest: [u8; DIGEST_LEN],
    },
    /// The transfer is complete.
    End {
        /// Bytes of all files together.
        bytes: u64,
    },
    /// A message of a live stream.
    Message {
        /// Which one of its sender, from 0.
        number: u64,
        /// The message.
        bytes: &'a [u8],
    },
    /// The live stream is complete.
    EndOfStream {
        /// How many messages it had.
        messages: u64,
    },
}

/// The permission bits a transfer carries: no set-user-id, set-group-id, or sticky bit.
pub const MODE_MASK: u32 = 0o777;

/// Bytes of a digest.
pub const DIGEST_LEN: usize = 32;

/// Bytes that MESSAGE adds to a message of a live stream.
pub const MESSAGE_HEADER_LEN: usize = 1 + 8;

/// Bytes that DATA adds to a piece of a file.
pub const DATA_HEADER_LEN: usize = 1 + 4 + 8;

impl<'a> Record<'a> {
    /// Parses a message.
    pub fn parse(message: &'a [u8]) -> Result<Self, ParseError> {
        let Some((&record_type, rest)) = message.split_first() else {
            return Err(ParseError::Truncated { have: 0, need: 1 });
        };
        match record_type {
            record_type::OFFER => {
                let (files, rest) = u32_off(message, rest)?;
                let (bytes, rest) = u64_off(message, rest)?;
                end(rest)?;
                Ok(Record::Offer { files, bytes: known(bytes) })
            }
            record_type::FILE => {
                let (index, rest) = u32_off(message, rest)?;
                let (size, rest) = u64_off(message, rest)?;
                let (mode, rest) = u32_off(message, rest)?;
                if mode & !MODE_MASK != 0 {
                    return Err(ParseError::Field { field: "mode", value: mode.into() });
                }
                Ok(Record::File { index, size: known(size), mode, path: RelativePath::parse(rest)? })
            }
            record_type::DATA => {
                let (index, rest) = u32_off(message, rest)?;
                let (offset, bytes) = u64_off(message, rest)?;
                // No piece may reach the size that stands for an unknown one.
                if offset.checked_add(bytes.len() as u64).is_none_or(|end| end == UNKNOWN) {
                    return Err(ParseError::Field { field: "offset", value: offset });
                }
                Ok(Record::Data { index, offset, bytes })
            }
            record_type::END_OF_FILE => {
                let (index, rest) = u32_off(message, rest)?;
                let (size, rest) = u64_off(message, rest)?;
                let (digest, rest) = take(message, rest)?;
                end(rest)?;
                Ok(Record::EndOfFile { index, size, digest })
            }
            record_type::END => {
                let (bytes, rest) = u64_off(message, rest)?;
                end(rest)?;
                Ok(Record::End { bytes })
            }
            record_type::MESSAGE => {
                let (number, bytes) = u64_off(message, rest)?;
                Ok(Record::Message { number, bytes })
            }
            record_type::END_OF_STREAM => {
                let (messages, rest) = u64_off(message, rest)?;
                end(rest)?;
                Ok(Record::EndOfStream { messages })
            }
            other => Err(ParseError::Type(other)),
        }
    }

    /// Appends the record.
    pub fn emit(&self, buf: &mut Vec<u8>) {
        match *self {
            Record::Offer { files, bytes } => {
                buf.push(record_type::OFFER);
                buf.extend_from_slice(&files.to_be_bytes());
                buf.extend_from_slice(&bytes.unwrap_or(UNKNOWN).to_be_bytes());
            }
            Record::File { index, size, mode, path } => {
                buf.push(record_type::FILE);
                buf.extend_from_slice(&index.to_be_bytes());
                buf.extend_from_slice(&size.unwrap_or(UNKNOWN).to_be_bytes());
                buf.extend_from_slice(&(mode & MODE_MASK).to_be_bytes());
                buf.extend_from_slice(path.as_bytes());
            }
            Record::Data { index, offset, bytes } => {
                buf.push(record_type::DATA);
                buf.extend_from_slice(&index.to_be_bytes());
                buf.extend_from_slice(&offset.to_be_bytes());
                buf.extend_from_slice(bytes);
            }
            Record::EndOfFile { index, size, digest } => {
                buf.push(record_type::END_OF_FILE);
                buf.extend_from_slice(&index.to_be_bytes());
                buf.extend_from_slice(&size.to_be_bytes());
                buf.extend_from_slice(&digest);
            }
            Record::End { bytes } => {
                buf.push(record_type::END);
                buf.extend_from_slice(&bytes.to_be_bytes());
            }
            Record::Message { number, bytes } => {
                buf.push(record_type::MESSAGE);
                buf.extend_from_slice(&number.to_be_bytes());
                buf.extend_from_slice(bytes);
            }
            Record::EndOfStream { messages } => {
                buf.push(record_type::END_OF_STREAM);
                buf.extend_from_slice(&messages.to_be_bytes());
            }
        }
    }

    /// Bytes of the message.
    pub fn wire_len(&self) -> usize {
        match self {
            Record::Offer { .. } => 1 + 4 + 8,
            Record::File { path, .. } => 1 + 4 + 8 + 4 + path.len(),
            Record::Data { bytes, .. } => DATA_HEADER_LEN + bytes.len(),
            Record::EndOfFile { .. } => 1 + 4 + 8 + DIGEST_LEN,
            Record::End { .. } | Record::EndOfStream { .. } => 1 + 8,
            Record::Message { bytes, .. } => MESSAGE_HEADER_LEN + bytes.len(),
        }
    }
}

impl fmt::Display for Record<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = |size: &Option<u64>| size.map_or_else(|| "unknown".to_owned(), |size| size.to_string());
        match self {
            Record::Offer { files, bytes } => write!(f, "file offer files {files} bytes {}", size(bytes)),
            Record::File { index, size: bytes, mode, path } => {
                let path = path.escape_debug();
                write!(f, "file {index} begin size {} mode {mode:03o} path \"{path}\"", size(bytes))
            }
            Record::Data { index, offset, bytes } => {
                write!(f, "file {index} data offset {offset} length {}", bytes.len())
            }
            Record::EndOfFile { index, size, digest } => {
                write!(f, "file {index} end size {size} digest ")?;
                digest.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
            Record::End { bytes } => write!(f, "file transfer end bytes {bytes}"),
            Record::Message { number, bytes } => {
                write!(f, "stream message {number} length {}", bytes.len())
            }
            Record::EndOfStream { messages } => write!(f, "stream end messages {messages}"),
        }
    }
}

/// A path that stays below the directory it is joined to: components parted by `/`, none of them
/// empty, `.` or `..`, none with a backslash or NUL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RelativePath<'a>(&'a str);

impl<'a> RelativePath<'a> {
    /// The longest path, in bytes.
    pub const MAX_LEN: usize = 4096;

    /// `None` if the path is not of this kind or too long.
    pub fn new(path: &'a str) -> Option<Self> {
        let component_ok =
            |component: &str| !matches!(component, "" | "." | "..") && !component.contains(['\0', '\\']);
        (path.len() <= Self::MAX_LEN && path.split('/').all(component_ok)).then_some(RelativePath(path))
    }

    /// The path.
    pub const fn as_str(&self) -> &'a str {
        self.0
    }

    fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let refused = ParseError::Field { field: "path", value: bytes.len() as u64 };
        // Length first: no time is spent on text that is refused anyway.
        if bytes.len() > Self::MAX_LEN {
            return Err(refused);
        }
        std::str::from_utf8(bytes).ok().and_then(RelativePath::new).ok_or(refused)
    }
}

impl Deref for RelativePath<'_> {
    type Target = str;
    fn deref(&self) -> &str {
        self.0
    }
}

impl fmt::Display for RelativePath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

fn take<'a, const N: usize>(message: &[u8], rest: &'a [u8]) -> Result<([u8; N], &'a [u8]), ParseError> {
    let Some((head, tail)) = rest.split_first_chunk::<N>() else {
        return Err(ParseError::Truncated { have: message.len(), need: message.len() - rest.len() + N });
    };
    Ok((*head, tail))
}

fn u32_off<'a>(message: &[u8], rest: &'a [u8]) -> Result<(u32, &'a [u8]), ParseError> {
    take(message, rest).map(|(bytes, rest)| (u32::from_be_bytes(bytes), rest))
}

fn u64_off<'a>(message: &[u8], rest: &'a [u8]) -> Result<(u64, &'a [u8]), ParseError> {
    take(message, rest).map(|(bytes, rest)| (u64::from_be_bytes(bytes), rest))
}

fn end(rest: &[u8]) -> Result<(), ParseError> {
    match rest.len() {
        0 => Ok(()),
        extra => Err(ParseError::Field { field: "bytes after the record", value: extra as u64 }),
    }
}

fn known(size: u64) -> Option<u64> {
    (size != UNKNOWN).then_some(size)
}

const UNKNOWN: u64 = u64::MAX;

mod record_type {
    pub const OFFER: u8 = 0x01;
    pub const FILE: u8 = 0x02;
    pub const DATA: u8 = 0x03;
    pub const END_OF_FILE: u8 = 0x04;
    pub const END: u8 = 0x05;
    pub const MESSAGE: u8 = 0x06;
    pub const END_OF_STREAM: u8 = 0x07;
}
