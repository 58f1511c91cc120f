//! Bytes of the records.

use super::list::LIST_LEN;
use super::{
    DATA_HEADER_LEN, DIGEST_LEN, FILE_HEADER_LEN, KEPT_LEN, LINK_HEADER_LEN, MESSAGE_HEADER_LEN, MODE_MASK,
    NO_TIME, PIECE_HEADER_LEN, REASON_CHANGED, REASON_UNREADABLE, Record, ResumePoint, SUBTREE_LEN,
    UNKNOWN_SIZE, WithdrawReason, record_type,
};

impl Record<'_> {
    /// Appends the record.
    pub fn emit(&self, buf: &mut Vec<u8>) {
        match *self {
            Record::Offer { entries, bytes } => {
                buf.push(record_type::OFFER);
                buf.extend_from_slice(&entries.to_be_bytes());
                buf.extend_from_slice(&bytes.unwrap_or(UNKNOWN_SIZE).to_be_bytes());
            }
            Record::File { index, size, mode, modified, path } => {
                buf.push(record_type::FILE);
                buf.extend_from_slice(&index.to_be_bytes());
                buf.extend_from_slice(&size.unwrap_or(UNKNOWN_SIZE).to_be_bytes());
                // Bits outside of the mask, such as set-user-id, never leave the sender.
                buf.extend_from_slice(&(mode & MODE_MASK).to_be_bytes());
                buf.extend_from_slice(&modified.unwrap_or(NO_TIME).to_be_bytes());
                buf.extend_from_slice(path.as_bytes());
            }
            Record::Data { index, offset, bytes } => {
                buf.push(record_type::DATA);
                buf.extend_from_slice(&index.to_be_bytes());
                buf.extend_from_slice(&offset.to_be_bytes());
                buf.extend_from_slice(bytes);
            }
            Record::Hole { index, offset, len } => {
                buf.push(record_type::HOLE);
                buf.extend_from_slice(&index.to_be_bytes());
                buf.extend_from_slice(&offset.to_be_bytes());
                buf.extend_from_slice(&len.to_be_bytes());
            }
            Record::Span { index, offset, step, count, sessions } => {
                buf.push(record_type::SPAN);
                buf.extend_from_slice(&index.to_be_bytes());
                buf.extend_from_slice(&offset.to_be_bytes());
                buf.extend_from_slice(&step.to_be_bytes());
                buf.extend_from_slice(&count.to_be_bytes());
                buf.extend_from_slice(sessions.0);
            }
            Record::Subtree { index, end, value } => {
                buf.push(record_type::SUBTREE);
                buf.extend_from_slice(&index.to_be_bytes());
                buf.extend_from_slice(&end.to_be_bytes());
                buf.extend_from_slice(&value);
            }
            Record::EndOfFile { index, size, digest } => {
                buf.push(record_type::END_OF_FILE);
                buf.extend_from_slice(&index.to_be_bytes());
                buf.extend_from_slice(&size.to_be_bytes());
                buf.extend_from_slice(&digest);
            }
            Record::End { bytes, listing } => {
                buf.push(record_type::END);
                buf.extend_from_slice(&bytes.to_be_bytes());
                buf.extend_from_slice(&listing);
            }
            Record::Message { number, bytes } => {
                buf.push(record_type::MESSAGE);
                buf.extend_from_slice(&number.to_be_bytes());
                buf.extend_from_slice(bytes);
            }
            Record::Piece { number, offset, len, bytes } => {
                buf.push(record_type::PIECE);
                buf.extend_from_slice(&number.to_be_bytes());
                buf.extend_from_slice(&offset.to_be_bytes());
                buf.extend_from_slice(&len.to_be_bytes());
                buf.extend_from_slice(bytes);
            }
            Record::EndOfStream { messages } => {
                buf.push(record_type::END_OF_STREAM);
                buf.extend_from_slice(&messages.to_be_bytes());
            }
            Record::Directory { index, mode, modified, path } => {
                buf.push(record_type::DIRECTORY);
                buf.extend_from_slice(&index.to_be_bytes());
                buf.extend_from_slice(&(mode & MODE_MASK).to_be_bytes());
                buf.extend_from_slice(&modified.unwrap_or(NO_TIME).to_be_bytes());
                buf.extend_from_slice(path.as_bytes());
            }
            Record::Link { index, target, path } => {
                // Every target that parses is shorter than that.
                let len = u16::try_from(target.len()).unwrap_or(u16::MAX);
                buf.push(record_type::LINK);
                buf.extend_from_slice(&index.to_be_bytes());
                buf.extend_from_slice(&len.to_be_bytes());
                buf.extend_from_slice(&target[..len.into()]);
                buf.extend_from_slice(path.as_bytes());
            }
            Record::Resume(reached) => {
                buf.push(record_type::RESUME);
                reached.emit(buf);
            }
            Record::Kept { index } => {
                buf.push(record_type::KEPT);
                buf.extend_from_slice(&index.to_be_bytes());
            }
            Record::List { list, flags } => {
                buf.push(record_type::LIST);
                buf.extend_from_slice(&list);
                buf.push(flags.code());
            }
            Record::Question { question } => {
                buf.push(record_type::QUESTION);
                buf.extend_from_slice(&question.to_be_bytes());
            }
            Record::Same { index, offset, len } => {
                buf.push(record_type::SAME);
                buf.extend_from_slice(&index.to_be_bytes());
                buf.extend_from_slice(&offset.to_be_bytes());
                buf.extend_from_slice(&len.to_be_bytes());
            }
            Record::Delete { limit } => {
                buf.push(record_type::DELETE);
                buf.extend_from_slice(&limit.unwrap_or(UNKNOWN_SIZE).to_be_bytes());
            }
            Record::Exclude { pattern } => {
                buf.push(record_type::EXCLUDE);
                buf.extend_from_slice(pattern.as_bytes());
            }
            Record::Archive { offset, total, bytes } => {
                buf.push(record_type::ARCHIVE);
                buf.extend_from_slice(&offset.to_be_bytes());
                buf.extend_from_slice(&total.to_be_bytes());
                buf.extend_from_slice(bytes);
            }
            Record::Withdraw { index, reason } => {
                buf.push(record_type::WITHDRAW);
                buf.extend_from_slice(&index.to_be_bytes());
                buf.push(match reason {
                    WithdrawReason::Changed => REASON_CHANGED,
                    WithdrawReason::Unreadable => REASON_UNREADABLE,
                });
            }
        }
    }

    /// Length of the record in bytes.
    pub fn wire_len(&self) -> usize {
        match self {
            Record::Offer { .. } => 1 + 4 + 8,
            Record::File { path, .. } => FILE_HEADER_LEN + path.len(),
            Record::Data { bytes, .. } => DATA_HEADER_LEN + bytes.len(),
            Record::Hole { .. } => 1 + 4 + 8 + 8,
            Record::Span { sessions, .. } => 1 + 4 + 8 + 4 + 4 + sessions.0.len(),
            Record::Subtree { .. } => SUBTREE_LEN,
            Record::EndOfFile { .. } => 1 + 4 + 8 + DIGEST_LEN,
            Record::End { .. } => 1 + 8 + DIGEST_LEN,
            Record::EndOfStream { .. } => 1 + 8,
            Record::Message { bytes, .. } => MESSAGE_HEADER_LEN + bytes.len(),
            Record::Piece { bytes, .. } => PIECE_HEADER_LEN + bytes.len(),
            Record::Directory { path, .. } => 1 + 4 + 4 + 8 + path.len(),
            Record::Link { target, path, .. } => LINK_HEADER_LEN + target.len() + path.len(),
            Record::Withdraw { .. } => 1 + 4 + 1,
            Record::Resume(_) => 1 + ResumePoint::LEN,
            Record::Kept { .. } | Record::Question { .. } => KEPT_LEN,
            Record::List { .. } => LIST_LEN,
            Record::Same { .. } => 1 + 4 + 8 + 8,
            Record::Delete { .. } => 1 + 8,
            Record::Exclude { pattern } => 1 + pattern.len(),
            Record::Archive { bytes, .. } => super::ARCHIVE_HEADER_LEN + bytes.len(),
        }
    }
}
