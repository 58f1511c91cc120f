//! BLAKE3 over records, each behind its length (u32), so that nothing but these records in this order has it.

use carillon_wire::file::Record;

/// The digest over the records so far.
#[derive(Debug, Default)]
pub struct RecordDigest {
    hasher: blake3::Hasher,
    buffer: Vec<u8>,
}

impl RecordDigest {
    /// Adds this record.
    pub fn add(&mut self, record: &Record<'_>) {
        self.buffer.clear();
        record.emit(&mut self.buffer);
        self.hasher.update(&(self.buffer.len() as u32).to_be_bytes()).update(&self.buffer);
    }

    /// Digest over the records so far.
    pub fn so_far(&self) -> [u8; blake3::OUT_LEN] {
        *self.hasher.finalize().as_bytes()
    }
}
