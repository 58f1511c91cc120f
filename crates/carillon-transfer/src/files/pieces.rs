//! Reassembly of long messages of a live stream.

use std::collections::BTreeMap;

use super::MAX_MESSAGE_LEN;

/// Reassembles messages from pieces in any order.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    /// Incomplete messages by number.
    messages: BTreeMap<u64, Half>,
    /// Total size of the incomplete messages.
    bytes: usize,
}

/// An incomplete message.
#[derive(Debug)]
struct Half {
    bytes: Vec<u8>,
    /// Number of bytes received.
    came: usize,
}

impl Pieces {
    /// Adds a piece of the message `number` with `len` bytes in total; returns the message when it is complete. Each
    /// piece arrives once.
    pub fn take(
        &mut self,
        number: u64,
        (offset, len): (u32, u32),
        piece: &[u8],
    ) -> Result<Option<Vec<u8>>, String> {
        let (offset, len) = (offset as usize, len as usize);
        if len > MAX_MESSAGE_LEN {
            return Err(format!("a message is longer than {MAX_MESSAGE_LEN} bytes"));
        }
        if !self.messages.contains_key(&number) {
            if self.bytes + len > MAX_PENDING_BYTES {
                return Err("too many messages are half there".to_owned());
            }
            self.bytes += len;
            self.messages.insert(number, Half { bytes: vec![0; len], came: 0 });
        }
        let half = self.messages.get_mut(&number).filter(|half| half.bytes.len() == len);
        let half = half.ok_or_else(|| format!("message {number} has two lengths"))?;
        let place = half.bytes.get_mut(offset..).and_then(|rest| rest.get_mut(..piece.len()));
        place.ok_or_else(|| format!("a piece of message {number} lies beyond it"))?.copy_from_slice(piece);
        half.came += piece.len();
        if half.came < len {
            return Ok(None);
        }
        self.bytes -= len;
        Ok(self.messages.remove(&number).map(|half| half.bytes))
    }

    /// Returns true if no message is incomplete.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }
}

/// Maximum bytes of incomplete messages: more than a sender has in flight, plus a longest message at either end.
const MAX_PENDING_BYTES: usize = 8 * MAX_MESSAGE_LEN;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interleaved_pieces_are_reassembled() {
        let mut pieces = Pieces::default();
        assert_eq!(pieces.take(7, (3, 5), b"de"), Ok(None));
        assert_eq!(pieces.take(6, (0, 3), b"fg"), Ok(None));
        assert_eq!(pieces.take(7, (0, 5), b"abc"), Ok(Some(b"abcde".to_vec())));
        assert!(!pieces.is_empty());
        assert_eq!(pieces.take(6, (2, 3), b"h"), Ok(Some(b"fgh".to_vec())));
        assert!(pieces.is_empty() && pieces.bytes == 0);
    }

    #[test]
    fn inconsistent_or_excessive_pieces_are_refused() {
        let longest = MAX_MESSAGE_LEN as u32;
        let mut pieces = Pieces::default();
        assert_eq!(pieces.take(0, (0, 4), b"ab"), Ok(None));
        let refused = |result: Result<_, String>, words: &str| {
            assert!(matches!(&result, Err(reason) if reason.contains(words)), "{result:?}");
        };
        refused(pieces.take(0, (2, 5), b"cd"), "two lengths");
        refused(pieces.take(0, (3, 4), b"cd"), "beyond it");
        refused(pieces.take(0, (9, 4), b""), "beyond it");
        refused(pieces.take(1, (0, longest + 1), b"x"), "longer than");
        for number in 1..8 {
            assert_eq!(pieces.take(number, (0, longest), b"x"), Ok(None));
        }
        refused(pieces.take(8, (0, longest), b"x"), "half there");
        assert_eq!(pieces.take(0, (2, 4), b"cd"), Ok(Some(b"abcd".to_vec())));
        assert_eq!(pieces.take(8, (0, longest), b"x"), Ok(None));
    }
}
