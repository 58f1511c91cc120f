//! Packets with bytes of several messages: the ends of messages within a packet, and their tag.
//!
//! EOM marks an end at the last byte of a packet only. A packet that crosses the end of a message lists the ends
//! before its last byte in a tag. The tag has room for ends at equal distances, which covers calls of equal length and
//! any two ends.

/// Ends of messages before the last byte of a packet, at equal distances.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct InnerEnds {
    /// Offset in the packet after the first message that ends in it.
    first: u16,
    /// Distance from one end to the next.
    spacing: u16,
    count: u16,
}

impl InnerEnds {
    /// Adds an end behind the others. Returns false if the tag cannot express it.
    pub fn push(&mut self, offset: usize) -> bool {
        let Ok(offset) = u16::try_from(offset) else { return false };
        match self.count {
            0 => *self = InnerEnds { first: offset, spacing: 0, count: 1 },
            MAX_INNER_ENDS.. => return false,
            1 => (self.spacing, self.count) = (offset - self.first, 2),
            _ if usize::from(offset) != self.offset(self.count) => return false,
            _ => self.count += 1,
        }
        true
    }

    fn offset(self, index: u16) -> usize {
        usize::from(self.first) + usize::from(index) * usize::from(self.spacing)
    }

    /// Tag of the packet; `None` if no message ends before its last byte.
    pub fn tag(self) -> Option<[u8; 8]> {
        let [f, s, c] = [self.first, self.spacing, self.count].map(u16::to_be_bytes);
        (self.count > 0).then_some([MARK[0], MARK[1], f[0], f[1], s[0], s[1], c[0], c[1]])
    }

    /// Reads a tag. Returns `None` if it is of another kind.
    pub fn read(tag: [u8; 8]) -> Option<Self> {
        let [a, b, f0, f1, s0, s1, c0, c1] = tag;
        let [first, spacing, count] = [[f0, f1], [s0, s1], [c0, c1]].map(u16::from_be_bytes);
        ([a, b] == MARK).then_some(InnerEnds { first, spacing, count })
    }

    /// Offsets of the ends in a packet with `len` bytes; `None` if they do not fit, as in a forged packet.
    pub fn offsets(self, len: usize) -> Option<impl Iterator<Item = usize>> {
        let is_spaced = self.spacing > 0 || self.count == 1;
        let is_right = (1..=MAX_INNER_ENDS).contains(&self.count)
            && self.first > 0
            && is_spaced
            && self.offset(self.count - 1) < len;
        is_right.then(|| (0..self.count).map(move |index| self.offset(index)))
    }
}

/// Maximum number of messages that end before the last byte of a packet; it bounds the work for one packet.
const MAX_INNER_ENDS: u16 = 255;
/// First bytes of the tag. A tag for an empty message begins differently.
const MARK: [u8; 2] = *b"en";

#[cfg(test)]
mod tests {
    use super::*;

    fn read(tag: [u8; 8], len: usize) -> Option<Vec<usize>> {
        InnerEnds::read(tag)?.offsets(len).map(Iterator::collect)
    }

    #[test]
    fn tag_lists_ends_at_equal_distances() {
        let mut ends = InnerEnds::default();
        assert_eq!(ends.tag(), None);
        for (offset, fits) in [(3, true), (10, true), (17, true), (25, false), (24, true)] {
            assert_eq!(ends.push(offset), fits, "{offset}");
        }
        let tag = ends.tag().unwrap();
        assert_eq!(tag, [b'e', b'n', 0, 3, 0, 7, 0, 4]);
        assert_eq!(read(tag, 25), Some(vec![3, 10, 17, 24]));
        assert_eq!(read(tag, 24), None, "the last byte's end is EOM");
        assert!(!InnerEnds::default().push(65_536));
    }

    #[test]
    fn forged_tags_are_rejected() {
        for tag in [*b"no bytes", [b'e', b'n', 0, 0, 0, 1, 0, 2], [b'e', b'n', 0, 1, 0, 0, 0, 2]] {
            assert_eq!(read(tag, 1000), None);
        }
        assert_eq!(read([b'e', b'n', 0, 1, 0, 1, 1, 0], 1000), None, "too many");
        assert_eq!(read([b'e', b'n', 0, 1, 0, 1, 0, 0], 1000), None, "none");
        assert_eq!(read([b'e', b'n', 0, 1, 0, 1, 0, 255], 1000).map(|ends| ends.len()), Some(255));
    }
}
