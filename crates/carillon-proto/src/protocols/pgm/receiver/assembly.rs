//! Messages that a source has sent in several packets (OPT_FRAGMENT, section 9.4).

use bytes::{Bytes, BytesMut};
use carillon_wire::pgm::Fragment;

use crate::blocks::wire;

/// Packet in the receive window.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    /// Data of the packet.
    pub payload: Bytes,
    /// Position in the application's message, if the packet has only a part of it.
    pub fragment: Option<Fragment>,
}

/// Message of which fragments are being delivered. They arrive here in order, so there is at most one.
#[derive(Debug, Default)]
pub(super) struct Assembly {
    open: Option<Box<Open>>,
}

#[derive(Debug)]
struct Open {
    number: u64,
    length: u32,
    bytes: BytesMut,
}

impl Assembly {
    /// Adds the next packet in order, `None` if it is lost. Returns the message that it completes, with the number of
    /// its first packet. Fragments that do not continue a message are dropped.
    pub fn add(&mut self, number: u64, piece: Option<Piece>) -> Option<(u64, Bytes)> {
        let open = self.open.take();
        let Piece { payload, fragment } = piece?;
        let Some(Fragment { first, offset, length }) = fragment else { return Some((number, payload)) };
        let mut open = match open {
            Some(open) if wire(open.number) == first && open.length == length => open,
            _ if offset == 0 && first == wire(number) && length <= MAX_MESSAGE_LEN => {
                Box::new(Open { number, length, bytes: BytesMut::new() })
            }
            _ => return None,
        };
        let (at, length) = (open.bytes.len(), length as usize);
        if at != offset as usize || payload.is_empty() || payload.len() > length - at {
            return None;
        }
        open.bytes.extend_from_slice(&payload);
        if open.bytes.len() == length {
            return Some((open.number, open.bytes.freeze()));
        }
        self.open = Some(open);
        None
    }
}

/// Maximum bytes of a message in fragments; OpenPGM sends up to 65 535.
const MAX_MESSAGE_LEN: u32 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(first: u32, offset: u32, length: u32, payload: &'static str) -> Option<Piece> {
        let fragment = Some(Fragment { first, offset, length });
        Some(Piece { payload: Bytes::from_static(payload.as_bytes()), fragment })
    }

    #[test]
    fn fragments_in_order_make_a_message() {
        let mut assembly = Assembly::default();
        assert_eq!(assembly.add(7, piece(7, 0, 6, "abc")), None);
        assert_eq!(assembly.add(8, piece(7, 3, 6, "de")), None);
        assert_eq!(assembly.add(9, piece(7, 5, 6, "f")), Some((7, Bytes::from_static(b"abcdef"))));
        let whole = Piece { payload: Bytes::from_static(b"x"), fragment: None };
        assert_eq!(assembly.add(10, Some(whole)), Some((10, Bytes::from_static(b"x"))));
    }

    /// A lost fragment takes its message along, and no other one.
    #[test]
    fn message_with_a_lost_fragment_is_dropped() {
        let mut assembly = Assembly::default();
        assert_eq!(assembly.add(0, piece(0, 0, 4, "ab")), None);
        assert_eq!(assembly.add(1, None), None);
        assert_eq!(assembly.add(2, piece(0, 2, 4, "cd")), None);
        assert_eq!(assembly.add(3, piece(3, 0, 2, "e")), None);
        assert_eq!(assembly.add(4, piece(3, 1, 2, "f")), Some((3, Bytes::from_static(b"ef"))));
    }

    #[test]
    fn contradicting_fragments_make_no_message() {
        for wrong in [(5, 2, 3, "cde"), (5, 1, 3, "c"), (5, 2, 4, "c"), (4, 2, 3, "c"), (5, 2, 3, "")] {
            let mut assembly = Assembly::default();
            assert_eq!(assembly.add(5, piece(5, 0, 3, "ab")), None);
            let (first, offset, length, payload) = wrong;
            assert_eq!(assembly.add(6, piece(first, offset, length, payload)), None, "{wrong:?}");
        }
        let mut assembly = Assembly::default();
        assert_eq!(assembly.add(0, piece(0, 0, u32::MAX, "a")), None);
        assert!(assembly.open.is_none(), "it is longer than any");
    }
}
