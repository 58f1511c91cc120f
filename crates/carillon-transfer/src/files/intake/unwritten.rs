//! A file of a transfer with contents that arrive and are not written.

use carillon_wire::file::Record;

use super::super::problem::{Problem, in_order};

/// A file that this receiver has already or cannot store, while others receive it.
#[derive(Debug)]
pub struct Unwritten {
    pub name: Vec<u8>,
    /// Bytes that have arrived.
    pub offset: u64,
    pub reason: UnwrittenReason,
}

/// Reason why contents are not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnwrittenReason {
    /// This receiver has the file.
    Present,
    /// This receiver cannot store the file.
    Unstorable,
}

impl Unwritten {
    /// A file from its beginning on.
    pub fn new(name: Vec<u8>, reason: UnwrittenReason) -> Self {
        Unwritten { name, offset: 0, reason }
    }

    /// Passes over the next part.
    pub fn pass(&mut self, offset: u64, len: u64) -> Result<(), Problem> {
        in_order(&self.name, self.offset, offset)?;
        self.offset = self.offset.saturating_add(len);
        Ok(())
    }

    /// Checks that all bytes have arrived.
    pub fn end(&self, size: u64) -> Result<(), Problem> {
        in_order(&self.name, size, self.offset)
    }
}

/// Part of a file in a record: index of the entry, offset and length in bytes.
pub fn part_of(record: &Record<'_>) -> Option<(u32, u64, u64)> {
    match *record {
        Record::Data { index, offset, bytes } => Some((index, offset, bytes.len() as u64)),
        Record::Hole { index, offset, len } | Record::Same { index, offset, len } => {
            Some((index, offset, len))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_come_in_order_and_end_at_the_size() {
        let mut file = Unwritten::new(b"f".to_vec(), UnwrittenReason::Unstorable);
        assert!(file.pass(1, 2).is_err() && file.pass(0, 3).is_ok() && file.pass(0, 3).is_err());
        assert!(file.end(4).is_err() && file.end(2).is_err() && file.end(3).is_ok());
        // A hostile length does not wrap around.
        assert!(file.pass(3, u64::MAX).is_ok());
        assert_eq!(file.offset, u64::MAX);
    }

    #[test]
    fn part_is_data_a_hole_or_a_part_of_an_earlier_version() {
        assert_eq!(part_of(&Record::Data { index: 1, offset: 2, bytes: b"abc" }), Some((1, 2, 3)));
        assert_eq!(part_of(&Record::Hole { index: 1, offset: 2, len: 4 }), Some((1, 2, 4)));
        assert_eq!(part_of(&Record::Same { index: 1, offset: 2, len: 5 }), Some((1, 2, 5)));
        assert_eq!(part_of(&Record::Kept { index: 1 }), None);
    }
}
