//! Digest of the entries of a transfer, apart from their contents.

use carillon_wire::file::Record;

use super::record_digest::RecordDigest;

/// Digest over names, sizes, permission bits, times, links and digests of all entries, which are not delivered, and
/// which others stay.
/// Both ends compute it, and END compares them.
#[derive(Debug, Default)]
pub struct Listing(RecordDigest);

impl Listing {
    /// Adds a record if it describes an entry.
    pub fn add(&mut self, record: &Record<'_>) {
        if let Record::File { .. }
        | Record::EndOfFile { .. }
        | Record::Kept { .. }
        | Record::Withdraw { .. }
        | Record::Directory { .. }
        | Record::Link { .. }
        | Record::Delete { .. }
        | Record::Exclude { .. }
        | Record::Archive { .. } = record
        {
            self.0.add(record);
        }
    }

    /// Digest of the records so far.
    pub fn digest(&self) -> [u8; blake3::OUT_LEN] {
        self.0.so_far()
    }
}
