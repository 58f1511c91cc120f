//! Received datagrams: batches read into shared buffers.

use std::collections::VecDeque;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::ops::{Range, RangeInclusive};

use bytes::{Buf, Bytes, BytesMut};
use carillon_core::{BufferPool, DropReason, Time};
use quinn_udp::{BATCH_SIZE, RecvMeta, UdpSocketState};
use socket2::Socket;

use crate::copies::is_frame;
use crate::seal::Seal;

/// Receive buffers with datagrams that were not handed out yet.
///
/// A well-filled buffer is handed out itself and returns when its last slice is dropped. While many are lent, because
/// a writer is slow, datagrams are copied instead: new buffers would have to be cleared and are larger than their
/// contents.
///
/// Small contents are always copied, so that holding a small packet does not hold 64 KiB. The copy is made when the
/// datagram is taken, so that short-lived datagrams reuse one small allocation. Frame-sized datagrams share an
/// allocation, because freeing in another thread than the allocating one is expensive.
#[derive(Debug)]
pub(crate) struct Inbox {
    slots: [BytesMut; BATCH_SIZE],
    /// Number of buffers created.
    made: usize,
    /// Buffers that are lent.
    lent: BufferPool,
    /// Space for copied datagrams.
    piece: BytesMut,
    /// Metadata of the slots.
    metas: [RecvMeta; BATCH_SIZE],
    filled: Range<usize>,
    multicast: bool,
    /// Rest of the slot that is being handed out: one datagram, or several of equal size (except the last) that the
    /// system has coalesced (GRO).
    open: Option<(RecvMeta, Bytes)>,
    /// Result of opening each datagram of that slot.
    unsealed: VecDeque<Unsealed>,
}

/// Range of the content, `None` if it is not for the machine, or the reason for dropping the datagram.
type Unsealed = Result<Option<Range<usize>>, DropReason>;

/// Opens the seals of datagrams.
pub(crate) struct Opener<'a> {
    pub(crate) seal: &'a mut Seal,
    pub(crate) now: Time,
    /// Own address of the endpoint. Multicasts from it need not be opened.
    pub(crate) own: SocketAddr,
}

/// A received datagram.
#[derive(Debug)]
pub(crate) struct Datagram {
    pub(crate) source: SocketAddr,
    pub(crate) multicast: bool,
    /// Length on the wire in bytes.
    pub(crate) len: usize,
    /// Content, `None` if it is not for the machine, or the reason for dropping the datagram.
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

    /// Reads one batch without waiting, and discards the rest of the previous one.
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

    /// Takes the next datagram of the batch and opens its seal if there is an opener.
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
            // An empty datagram has no seal.
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
                // Frames are authenticated apart.
                false if is_frame(datagram) => Ok(Some(0..datagram.len())),
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

    /// Copies the first `len` bytes of a slot.
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

/// Creates a receive buffer. Its allocation is large enough to come from the system, which zeroes pages when they are
/// touched; few datagrams touch all. Such allocations begin shortly behind the start of a page, as do most kernel
/// buffers, and copying between nearly equal page offsets is many times slower (4K aliasing). Each buffer therefore
/// begins at another offset.
fn new_slot(made: &mut usize) -> BytesMut {
    let mut slot = BytesMut::zeroed(2 * SLOT);
    *made += 1;
    slot.advance(CACHE_LINE * (1 + *made * SLOT_OFFSET_STEP % SLOT_OFFSETS));
    slot.truncate(SLOT);
    slot
}

/// Bytes of a receive buffer: more than any datagram or coalesced run, so that nothing is truncated.
const SLOT: usize = 65_536;

/// Unit of the page offsets of buffers, in bytes.
const CACHE_LINE: usize = 64;
/// Number of page offsets.
const SLOT_OFFSETS: usize = 61;
/// Step from the offset of one buffer to that of the next, coprime to [`SLOT_OFFSETS`].
const SLOT_OFFSET_STEP: usize = 23;

/// Maximum number of lent buffers: enough for a batch, the machine and a writer that keeps up, with short datagrams.
const MAX_LENT_BUFFERS: usize = 256;

/// Bytes of a shared allocation for copies. A held datagram holds all of it, so it is small and shared only by
/// datagrams that are long and fit at least twice.
const PIECE: usize = 8 << 10;
const SHARED_COPY_LEN: RangeInclusive<usize> = 1 << 10..=PIECE / 2;

/// Minimum content, in bytes, for which a buffer is lent instead of copied.
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
            // A copy that is alone in its allocation can be taken back.
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
