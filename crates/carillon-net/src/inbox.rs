//! What has arrived: batches of datagrams read into shared buffers.

use std::collections::VecDeque;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::ops::{Range, RangeInclusive};

use bytes::{Buf, Bytes, BytesMut};
use carillon_core::{BufferPool, DropReason, Time};
use quinn_udp::{BATCH_SIZE, RecvMeta, UdpSocketState};
use socket2::Socket;

use crate::seal::Seal;

/// The receive buffers and what was read into them but not handed out yet.
///
/// A buffer that comes back well filled is handed out itself, and returns when nobody holds a slice
/// of it any more. While many are away, because a slow writer has much before it, nothing more is
/// handed out: buffers made anew have to be cleared, and are larger than what is in them. A little in
/// a big buffer is copied out, so that holding a small packet does not hold 64 KiB. It is copied when
/// its turn comes, so that a batch whose datagrams are used and forgotten takes the same small
/// allocation over and over. Datagrams that fill a frame share one, a few each: what one thread takes
/// from the allocator and another gives back costs both.
#[derive(Debug)]
pub(crate) struct Inbox {
    slots: [BytesMut; BATCH_SIZE],
    /// How many were made.
    made: usize,
    /// Slots handed out.
    lent: BufferPool,
    /// Room for datagrams that are copied.
    piece: BytesMut,
    /// What is in the slots.
    metas: [RecvMeta; BATCH_SIZE],
    filled: Range<usize>,
    multicast: bool,
    /// The rest of the slot that is being handed out: one datagram, or several of equal size (but
    /// the last) that the system has coalesced.
    open: Option<(RecvMeta, Bytes)>,
    /// What became of the seals of that slot, one for each datagram: where its content is.
    unsealed: VecDeque<Unsealed>,
}

/// Where the content of a datagram is, nothing if it has none for the machine, or why it is dropped.
type Unsealed = Result<Option<Range<usize>>, DropReason>;

/// What opens the datagrams of an endpoint with a key.
pub(crate) struct Opener<'a> {
    pub(crate) seal: &'a mut Seal,
    pub(crate) now: Time,
    /// The endpoint's own address, whose multicasts nobody wants to open.
    pub(crate) own: SocketAddr,
}

/// One datagram.
#[derive(Debug)]
pub(crate) struct Datagram {
    pub(crate) source: SocketAddr,
    pub(crate) multicast: bool,
    /// Bytes that came.
    pub(crate) len: usize,
    /// What it says, nothing if that is not for the machine, or why it is dropped.
    pub(crate) content: Result<Option<Bytes>, DropReason>,
}

impl Inbox {
    pub(crate) fn new() -> Self {
        let mut made = 0;
        Inbox {
            slots: std::array::from_fn(|_| new_slot(&mut made)),
            made,
            lent: BufferPool::new(MAX_LENT_BUFFERS),
            piece: BytesMut::new(),
            metas: [RecvMeta::default(); BATCH_SIZE],
            filled: 0..0,
            multicast: false,
            open: None,
            unsealed: VecDeque::new(),
        }
    }

    /// Reads one batch, without waiting. What is left of the batch before is lost.
    pub(crate) fn fill(&mut self, io: &Socket, state: &UdpSocketState, multicast: bool) -> io::Result<()> {
        self.filled = 0..0;
        self.open = None;
        self.lent.collect();
        for at in 0..self.slots.len() {
            if self.slots[at].is_empty() {
                self.slots[at] = self.lent.returned().unwrap_or_else(|| new_slot(&mut self.made));
            }
        }
        let mut buffers = self.slots.each_mut().map(|slot| IoSliceMut::new(slot));
        let count = state.recv(io.into(), &mut buffers, &mut self.metas)?;
        self.filled = 0..count;
        self.multicast = multicast;
        Ok(())
    }

    /// Takes the next datagram of the batch, and opens its seal if there is an opener.
    pub(crate) fn take(&mut self, mut opener: Option<Opener<'_>>) -> Option<Datagram> {
        let (meta, mut bytes) = match self.open.take() {
            Some(open) => open,
            None => self.next_slot(opener.as_mut())?,
        };
        let first = if meta.stride == 0 || meta.stride >= bytes.len() {
            bytes
        } else {
            let first = bytes.split_to(meta.stride);
            self.open = Some((meta, bytes));
            first
        };
        let len = first.len();
        let content = match opener {
            None => Ok(Some(first)),
            // A datagram of no bytes has no seal.
            Some(_) => match self.unsealed.pop_front().unwrap_or(Err(DropReason::Unsealed)) {
                Ok(content) => Ok(content.map(|range| first.slice(range))),
                Err(reason) => Err(reason),
            },
        };
        Some(Datagram { source: meta.addr, multicast: self.multicast, len, content })
    }

    fn next_slot(&mut self, opener: Option<&mut Opener<'_>>) -> Option<(RecvMeta, Bytes)> {
        let at = self.filled.next()?;
        let meta = self.metas[at];
        if let Some(Opener { seal, now, own }) = opener {
            let stride = if meta.stride == 0 { SLOT } else { meta.stride };
            let own = self.multicast && meta.addr == *own;
            let datagrams = self.slots[at][..meta.len].chunks_mut(stride);
            self.unsealed.clear();
            self.unsealed.extend(datagrams.map(|datagram| match own {
                true => Ok(None),
                false => seal.open(*now, meta.addr, self.multicast, datagram),
            }));
        }
        if meta.len < MIN_LENT_LEN || self.lent.is_full() {
            return Some((meta, self.copied(at, meta.len)));
        }
        let whole = std::mem::take(&mut self.slots[at]).freeze();
        let bytes = whole.slice(..meta.len);
        self.lent.lend(whole);
        Some((meta, bytes))
    }

    /// What this slot has got, so many bytes, somewhere else.
    fn copied(&mut self, at: usize, len: usize) -> Bytes {
        let content = &self.slots[at][..len];
        if !SHARED_COPY_LEN.contains(&len) {
            return Bytes::copy_from_slice(content);
        }
        if self.piece.capacity() < len {
            self.piece = BytesMut::with_capacity(PIECE);
        }
        self.piece.extend_from_slice(content);
        self.piece.split().freeze()
    }
}

/// A receive buffer, of an allocation that is so large that it comes from the system, whose pages are zeroed when they are
/// touched: few datagrams touch all of them. Such an allocation begins a few bytes behind the start of a page, and so does most
/// that the kernel copies from; processors copy many times slower where one runs so shortly before the other, which the low
/// twelve bits of both addresses tell them. So a buffer begins elsewhere in its page, each at another place than those made
/// before it.
fn new_slot(made: &mut usize) -> BytesMut {
    let mut slot = BytesMut::zeroed(2 * SLOT);
    *made += 1;
    slot.advance(CACHE_LINE * (1 + *made * SLOT_OFFSET_STEP % SLOT_OFFSETS));
    slot.truncate(SLOT);
    slot
}

/// Bytes of a receive buffer: more than any datagram or coalesced run has, so nothing is truncated.
const SLOT: usize = 65_536;

/// A buffer begins at one of so many places in a page, these many bytes from each other, and the next one so many places on.
const CACHE_LINE: usize = 64;
const SLOT_OFFSETS: usize = 61;
const SLOT_OFFSET_STEP: usize = 23;

/// Buffers handed out at once, at most: what a batch, the machine and a writer that keeps up may hold of datagrams that are shorter
/// than they are.
const MAX_LENT_BUFFERS: usize = 256;

/// Who holds one of the datagrams that were copied into a piece holds the piece; so it is short, and only long ones are, of
/// which it has room for two or more.
const PIECE: usize = 8 << 10;
const SHARED_COPY_LEN: RangeInclusive<usize> = 1 << 10..=PIECE / 2;

/// From this many bytes on a buffer is handed out rather than copied.
const MIN_LENT_LEN: usize = SLOT / 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copied_datagrams_stay_intact_and_hold_no_buffer() {
        const UNSHARED_LEN: usize = *SHARED_COPY_LEN.start() - 1;
        let mut inbox = Inbox::new();
        let mut copies = Vec::new();
        for (turn, len) in (0..200).map(|turn| {
            (turn, [UNSHARED_LEN, UNSHARED_LEN + 1, 1455, PIECE / 2, PIECE, MIN_LENT_LEN - 1][turn % 6])
        }) {
            inbox.slots[0][..len].fill(turn as u8);
            copies.push((turn, len, inbox.copied(0, len)));
        }
        for (turn, len, copy) in &copies {
            assert!(copy.len() == *len && copy.iter().all(|&byte| byte == *turn as u8), "{turn}");
            // Alone in its allocation it can be taken back.
            assert!(SHARED_COPY_LEN.contains(len) || copy.is_unique(), "{turn}");
        }
    }

    #[test]
    fn frame_sized_datagrams_share_an_allocation() {
        let mut inbox = Inbox::new();
        let copies: Vec<Bytes> = (0..100).map(|_| inbox.copied(0, 1455)).collect();
        let together = |pair: &&[Bytes]| pair[1].as_ptr().addr() == pair[0].as_ptr().addr() + 1455;
        assert_eq!(copies.windows(2).filter(together).count(), 80);
    }

    #[test]
    fn datagrams_are_copied_while_many_buffers_are_lent() -> io::Result<()> {
        let io = std::net::UdpSocket::bind("127.0.0.1:0")?;
        let address = io.local_addr()?;
        let io = Socket::from(io);
        let state = UdpSocketState::new((&io).into())?;
        let mut inbox = Inbox::new();
        let mut receive = |turn: usize| -> io::Result<Bytes> {
            io.send_to(&[turn as u8; MIN_LENT_LEN], &address.into())?;
            inbox.fill(&io, &state, false)?;
            let datagram = inbox.take(None).expect("one came");
            assert!(inbox.made <= BATCH_SIZE + MAX_LENT_BUFFERS, "{turn}: {} buffers", inbox.made);
            Ok(datagram.content.expect("it is not dropped").expect("it has one"))
        };
        let held = (0..2 * MAX_LENT_BUFFERS).map(&mut receive).collect::<io::Result<Vec<Bytes>>>()?;
        for (turn, content) in held.iter().enumerate() {
            assert!(
                content.len() == MIN_LENT_LEN && content.iter().all(|&byte| byte == turn as u8),
                "{turn}"
            );
        }
        let copied = |content: &Bytes| content.is_unique();
        assert_eq!(held.iter().filter(|content| copied(content)).count(), MAX_LENT_BUFFERS);
        drop(held);
        assert!(!copied(&receive(7)?), "a buffer has come back");
        Ok(())
    }
}
