//! What a transfer says of its entries, apart from what is in them.

use carillon_wire::file::Record;

use super::record_digest::RecordDigest;

/// Which files, directories and links there are, with their sizes, permission bits and times, what files come to, and which of them are not
/// delivered: what both ends have of that, END has them compare.
#[derive(Debug, Default)]
pub struct Listing(RecordDigest);

impl Listing {
    /// Adds this record, if it says something of an entry.
    pub fn add(&mut self, record: &Record<'_>) {
        if let Record::File { .. }
        | Record::EndOfFile { .. }
        | Record::Kept { .. }
        | Record::Withdraw { .. }
        | Record::Directory { .. }
        | Record::Link { .. } = record
        {
            self.0.add(record);
        }
    }

    /// What it comes to.
    pub fn digest(&self) -> [u8; blake3::OUT_LEN] {
        self.0.so_far()
    }
}
