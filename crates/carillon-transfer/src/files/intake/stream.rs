//! Messages of a live stream, from one sender.

use carillon_core::Order;
use carillon_wire::file::{Record, ResumePoint, TransferId};

use super::super::live::Live;
use super::super::message_numbers::{BEGINS, CONTINUES, MessageNumbers};
use super::super::problem::{Problem, ours, refused};

/// Receiver of one sender's messages: it checks their numbers and puts pieces together.
#[derive(Debug)]
pub struct StreamIntake {
    numbers: MessageNumbers,
    order: Order,
    /// Job of the stream.
    job: TransferId,
    /// True if another session continues the stream.
    continues: bool,
}

impl StreamIntake {
    /// Creates a receiver for this order of delivery.
    pub fn new(order: Order) -> Self {
        StreamIntake {
            numbers: MessageNumbers::new(order),
            order,
            job: TransferId::default(),
            continues: false,
        }
    }

    /// Continues the stream of this job, with the numbers of the earlier sessions if there are any.
    pub fn resume(&mut self, job: TransferId, numbers: Option<MessageNumbers>) {
        self.job = job;
        if let Some(numbers) = numbers {
            self.numbers = numbers.resumed(self.order);
        }
    }

    /// Returns true if another session continues the stream.
    pub fn continues(&self) -> bool {
        self.continues
    }

    /// Returns the numbers for a later session.
    pub fn into_numbers(self) -> MessageNumbers {
        self.numbers
    }

    /// Returns true for a record of a live stream.
    pub fn takes(record: &Record<'_>) -> bool {
        matches!(
            record,
            Record::Message { .. } | Record::Piece { .. } | Record::EndOfStream { .. } | Record::Resume(_)
        )
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
            // An earlier session has delivered it.
            Record::Message { number, .. } | Record::Piece { number, .. }
                if self.numbers.is_repeated(number) =>
            {
                Ok((0, self.numbers.is_complete()))
            }
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
            Record::Resume(point) => {
                self.on_resume(&point).map(|is_over| (0, is_over)).map_err(|text| refused(&text))
            }
            _ => Ok((0, false)),
        }
    }

    /// Handles the number of the first message of this session, or of the next one. Returns true if this session has
    /// ended and nothing is missing.
    fn on_resume(&mut self, point: &ResumePoint) -> Result<bool, String> {
        match *point {
            ResumePoint { transfer, .. } if transfer != self.job => {
                Err("a record is of another stream".to_owned())
            }
            ResumePoint { entry: BEGINS, offset, .. } => {
                self.numbers.begin_with(offset);
                Ok(self.numbers.is_complete())
            }
            ResumePoint { entry: CONTINUES, offset, .. } => {
                self.continues = true;
                self.numbers.end(offset)
            }
            ResumePoint { entry, .. } => Err(format!("a stream has no part {entry}")),
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
