//! Packs messages into MESSAGES frames.

use carillon_wire::daemon::{Frame, MAX_RECORDS_LEN};
use carillon_wire::file::{Packer, Record, stream_records};

use super::connection::Connection;

/// Records that are collected into one frame.
#[derive(Debug)]
pub(super) struct Packing(Packer);

impl Packing {
    pub fn new() -> Self {
        Packing(Packer::new(MAX_RECORDS_LEN))
    }

    /// Adds a message, in pieces if it is long.
    pub fn push(&mut self, number: u64, bytes: &[u8], connection: &mut Connection) {
        for record in stream_records(number, bytes, MAX_RECORDS_LEN) {
            self.record(&record, connection);
        }
    }

    /// Sends the collected records.
    pub fn flush(&mut self, connection: &mut Connection) {
        if !self.0.is_empty() {
            connection.push(&Frame::Messages(&self.0.take()));
        }
    }

    fn record(&mut self, record: &Record<'_>, connection: &mut Connection) {
        if record.wire_len() > self.0.room() {
            self.flush(connection);
        }
        self.0.push(record);
    }
}
