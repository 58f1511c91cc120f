//! Messages of a live stream, from one sender.

use carillon_core::Order;
use carillon_wire::file::Record;

use super::super::live::Live;
use super::super::message_numbers::MessageNumbers;
use super::super::problem::{Problem, ours, refused};

/// Receiver of one sender's messages: it checks their numbers and puts pieces together.
#[derive(Debug)]
pub struct StreamIntake {
    numbers: MessageNumbers,
}

impl StreamIntake {
    /// Creates a receiver for this order of delivery.
    pub fn new(order: Order) -> Self {
        StreamIntake { numbers: MessageNumbers::new(order) }
    }

    /// Returns true for a record of a live stream.
    pub fn takes(record: &Record<'_>) -> bool {
        matches!(record, Record::Message { .. } | Record::Piece { .. } | Record::EndOfStream { .. })
    }

    /// Passes a message of the sender `name` on. Returns its bytes, and true if the stream has ended and nothing is
    /// missing.
    pub fn on_record(
        &mut self,
        name: &str,
        record: &Record<'_>,
        live: &mut Live,
    ) -> Result<(u64, bool), Problem> {
        live.in_order &= !self.numbers.as_they_come();
        match *record {
            Record::Message { number, bytes } => {
                self.numbers.take(number).map_err(|text| refused(&text))?;
                live.write(name, number, bytes).map_err(ours)?;
                Ok((bytes.len() as u64, self.numbers.is_complete()))
            }
            Record::Piece { number, offset, len, bytes } => {
                let whole = self.numbers.take_piece(number, (offset, len), bytes);
                if let Some(whole) = whole.map_err(|text| refused(&text))? {
                    live.write_whole(name, number, whole).map_err(ours)?;
                }
                Ok((bytes.len() as u64, self.numbers.is_complete()))
            }
            Record::EndOfStream { messages } => {
                self.numbers.end(messages).map(|is_over| (0, is_over)).map_err(|text| refused(&text))
            }
            _ => Ok((0, false)),
        }
    }

    /// Returns true if the sender has ended the stream and messages are missing.
    pub fn is_short(&self) -> bool {
        self.numbers.is_short()
    }

    /// Describes missing messages after the end of the stream.
    pub fn shortage(&self) -> Option<String> {
        self.numbers.shortage()
    }

    /// Discards incomplete messages after the last record.
    pub fn forget(&mut self) {
        self.numbers.forget();
    }
}
