//! Messages from the records of MESSAGES, and into them.

use carillon_wire::daemon::{Frame, MAX_RECORDS_LEN};
use carillon_wire::file::{MESSAGE_HEADER_LEN, Packer, Record};

use super::line::Line;
use crate::files::LONGEST_MESSAGE;

/// Puts messages together.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    pieces: Vec<u8>,
}

impl Gathered {
    /// One more record; the message that is complete with it, with its number.
    pub fn take(
        &mut self,
        number: u64,
        bytes: &[u8],
        is_last: bool,
    ) -> Result<Option<(u64, Vec<u8>)>, String> {
        if self.pieces.len() + bytes.len() > LONGEST_MESSAGE {
            return Err(format!("a message is longer than {LONGEST_MESSAGE} bytes"));
        }
        self.pieces.extend_from_slice(bytes);
        Ok(is_last.then(|| (number, std::mem::take(&mut self.pieces))))
    }

    /// Whether a message is half there.
    pub fn is_half(&self) -> bool {
        !self.pieces.is_empty()
    }
}

/// Messages on their way into a line.
#[derive(Debug)]
pub(super) struct Packing(Packer);

impl Packing {
    pub fn new() -> Self {
        Packing(Packer::new(MAX_RECORDS_LEN))
    }

    /// One more message, in pieces if it is long.
    pub fn push(&mut self, number: u64, mut bytes: &[u8], line: &mut Line) {
        while bytes.len() > MAX_RECORDS_LEN - MESSAGE_HEADER_LEN {
            let (piece, rest) = bytes.split_at(MAX_RECORDS_LEN - MESSAGE_HEADER_LEN);
            self.record(&Record::Piece { number, bytes: piece }, line);
            bytes = rest;
        }
        self.record(&Record::Message { number, bytes }, line);
    }

    /// What is there goes.
    pub fn flush(&mut self, line: &mut Line) {
        if !self.0.is_empty() {
            line.push(&Frame::Messages(&self.0.take()));
        }
    }

    fn record(&mut self, record: &Record<'_>, line: &mut Line) {
        if record.wire_len() > self.0.room() {
            self.flush(line);
        }
        self.0.push(record);
    }
}
