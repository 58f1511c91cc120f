//! Records as lines of a log.

use std::fmt;

use super::path::Quoted;
use super::{Record, ResumePoint};
use crate::hex::Hex;

impl fmt::Display for Record<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = |size: &Option<u64>| size.map_or_else(|| "unknown".to_owned(), |size| size.to_string());
        match self {
            Record::Offer { entries, bytes } => {
                write!(f, "file offer entries {entries} bytes {}", size(bytes))
            }
            Record::File { index, size: bytes, mode, modified, path } => {
                write!(f, "file {index} begin size {} mode {mode:03o} ", size(bytes))?;
                modified.iter().try_for_each(|time| write!(f, "modified {time} "))?;
                write!(f, "path {}", Quoted(path))
            }
            Record::Data { index, offset, bytes } => {
                write!(f, "file {index} data offset {offset} length {}", bytes.len())
            }
            Record::Hole { index, offset, len } => {
                write!(f, "file {index} hole offset {offset} length {len}")
            }
            Record::Span { index, offset, step, count, sessions } => {
                write!(f, "file {index} span offset {offset} step {step} count {count} sessions")?;
                sessions.iter().try_for_each(|session| write!(f, " {:08x}", session.0))
            }
            Record::Subtree { index, end, value } => {
                write!(f, "file {index} subtree end {end} value {}", Hex(value))
            }
            Record::EndOfFile { index, size, digest } => {
                write!(f, "file {index} end size {size} digest {}", Hex(digest))
            }
            Record::End { bytes, .. } => write!(f, "file transfer end bytes {bytes}"),
            Record::Message { number, bytes } => {
                write!(f, "stream message {number} length {}", bytes.len())
            }
            Record::Piece { number, offset, len, bytes } => {
                write!(f, "stream message {number} of {len} piece offset {offset} length {}", bytes.len())
            }
            Record::EndOfStream { messages } => write!(f, "stream end messages {messages}"),
            Record::Directory { index, mode, modified, path } => {
                write!(f, "file {index} directory mode {mode:03o} ")?;
                modified.iter().try_for_each(|time| write!(f, "modified {time} "))?;
                write!(f, "path {}", Quoted(path))
            }
            Record::Link { index, target, path } => {
                write!(f, "file {index} link path {} target {}", Quoted(path), Quoted(target))
            }
            Record::Withdraw { index, reason } => write!(f, "file {index} withdrawn: {reason}"),
            Record::Resume(ResumePoint { transfer, entry, offset }) => {
                write!(f, "file transfer {} from file {entry} offset {offset}", Hex(transfer))
            }
            Record::Kept { index } => write!(f, "file {index} kept"),
            Record::List { list, flags } => write!(f, "file list {}{flags}", Hex(list)),
            Record::Question { question } => write!(f, "file question {question}"),
            Record::Delete { limit: None } => f.write_str("file delete"),
            Record::Delete { limit: Some(limit) } => write!(f, "file delete limit {limit}"),
            Record::Exclude { pattern } => write!(f, "file exclude {}", Quoted(pattern.as_bytes())),
            Record::Archive { offset, total, bytes } => {
                write!(f, "file archive offset {offset} of {total} length {}", bytes.len())
            }
            Record::Same { index, offset, len } => {
                write!(f, "file {index} same offset {offset} length {len}")
            }
        }
    }
}
