//! Bytes of the records.

use super::list::LIST_LEN;
use super::modification_time::time_to_bytes;
use super::{
    DATA_HEADER_LEN, DIGEST_LEN, FILE_HEADER_LEN, KEPT_LEN, LINK_HEADER_LEN, MESSAGE_HEADER_LEN, MODE_MASK,
    PIECE_HEADER_LEN, REASON_CHANGED, REASON_UNREADABLE, Record, ResumePoint, SUBTREE_LEN, UNKNOWN_SIZE,
    WithdrawReason, record_type as types,
};

impl Record<'_> {
    /// Appends the record.
    pub fn emit(&self, buf: &mut Vec<u8>) {
        match *self {
            Record::Data { index, offset, bytes } => {
                put(buf, types::DATA, [&index.to_be_bytes()[..], &offset.to_be_bytes(), bytes])
            }
            Record::Hole { index, offset, len } => {
                put(buf, types::HOLE, [&index.to_be_bytes()[..], &offset.to_be_bytes(), &len.to_be_bytes()])
            }
            Record::Span { index, offset, step, count, sessions } => put(
                buf,
                types::SPAN,
                [
                    &index.to_be_bytes()[..],
                    &offset.to_be_bytes(),
                    &step.to_be_bytes(),
                    &count.to_be_bytes(),
                    sessions.0,
                ],
            ),
            Record::Subtree { index, end, value } => {
                put(buf, types::SUBTREE, [&index.to_be_bytes()[..], &end.to_be_bytes(), &value])
            }
            Record::EndOfFile { index, size, digest } => {
                put(buf, types::END_OF_FILE, [&index.to_be_bytes()[..], &size.to_be_bytes(), &digest])
            }
            Record::Message { number, bytes } => put(buf, types::MESSAGE, [&number.to_be_bytes()[..], bytes]),
            Record::Piece { number, offset, len, bytes } => put(
                buf,
                types::PIECE,
                [&number.to_be_bytes()[..], &offset.to_be_bytes(), &len.to_be_bytes(), bytes],
            ),
            Record::EndOfStream { messages } => put(buf, types::END_OF_STREAM, [&messages.to_be_bytes()[..]]),
            Record::Kept { index } => put(buf, types::KEPT, [&index.to_be_bytes()[..]]),
            Record::Same { index, offset, len } => {
                put(buf, types::SAME, [&index.to_be_bytes()[..], &offset.to_be_bytes(), &len.to_be_bytes()])
            }
            Record::Withdraw { index, reason } => {
                buf.push(types::WITHDRAW);
                buf.extend_from_slice(&index.to_be_bytes());
                buf.push(match reason {
                    WithdrawReason::Changed => REASON_CHANGED,
                    WithdrawReason::Unreadable => REASON_UNREADABLE,
                });
            }
            _ => self.emit_entry(buf),
        }
    }

    /// Appends a record that is no part of a file or of a stream.
    fn emit_entry(&self, buf: &mut Vec<u8>) {
        match *self {
            Record::Offer { entries, bytes } => put(
                buf,
                types::OFFER,
                [&entries.to_be_bytes()[..], &bytes.unwrap_or(UNKNOWN_SIZE).to_be_bytes()],
            ),
            Record::File { index, size, mode, modified, path } => {
                // Bits outside of the mask, such as set-user-id, never leave the sender.
                put(
                    buf,
                    types::FILE,
                    [
                        &index.to_be_bytes()[..],
                        &size.unwrap_or(UNKNOWN_SIZE).to_be_bytes(),
                        &(mode & MODE_MASK).to_be_bytes(),
                        &time_to_bytes(modified),
                        path.as_bytes(),
                    ],
                );
            }
            Record::End { bytes, listing } => put(buf, types::END, [&bytes.to_be_bytes()[..], &listing]),
            Record::Directory { index, mode, modified, path } => put(
                buf,
                types::DIRECTORY,
                [
                    &index.to_be_bytes()[..],
                    &(mode & MODE_MASK).to_be_bytes(),
                    &time_to_bytes(modified),
                    path.as_bytes(),
                ],
            ),
            Record::Link { index, target, path } => {
                // Every target that parses is shorter than that.
                let len = u16::try_from(target.len()).unwrap_or(u16::MAX);
                buf.push(types::LINK);
                buf.extend_from_slice(&index.to_be_bytes());
                buf.extend_from_slice(&len.to_be_bytes());
                buf.extend_from_slice(&target[..len.into()]);
                buf.extend_from_slice(path.as_bytes());
            }
            Record::Resume(reached) => {
                buf.push(types::RESUME);
                reached.emit(buf);
            }
            Record::List { list, flags } => put(buf, types::LIST, [&list[..], &[flags.code()]]),
            Record::Question { question } => put(buf, types::QUESTION, [&question.to_be_bytes()[..]]),
            Record::Delete { limit } => {
                put(buf, types::DELETE, [&limit.unwrap_or(UNKNOWN_SIZE).to_be_bytes()[..]])
            }
            Record::Exclude { pattern } => put(buf, types::EXCLUDE, [pattern.as_bytes()]),
            Record::Archive { offset, total, bytes } => {
                put(buf, types::ARCHIVE, [&offset.to_be_bytes()[..], &total.to_be_bytes(), bytes])
            }
            // Parts are emitted above.
            _ => {}
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

/// Appends the type of a record and its parts.
#[inline]
fn put<const N: usize>(buf: &mut Vec<u8>, record_type: u8, parts: [&[u8]; N]) {
    buf.push(record_type);
    parts.into_iter().for_each(|part| buf.extend_from_slice(part));
}
