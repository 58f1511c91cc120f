//! What has arrived: batches of datagrams read into shared buffers.

use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::ops::Range;

use bytes::{Bytes, BytesMut};
use quinn_udp::{BATCH_SIZE, RecvMeta, UdpSocketState};
use socket2::Socket;

/// The receive buffers and what was read into them but not handed out yet.
///
/// A buffer that comes back well filled is handed out itself, and returns when nobody holds a slice
/// of it any more; a little in a big buffer is copied out, so that holding a small packet does not
/// hold 64 KiB. It is copied when its turn comes, so that a batch whose datagrams are used and
/// forgotten takes the same small allocation over and over.
#[derive(Debug)]
pub(crate) struct Inbox {
    slots: [BytesMut; BATCH_SIZE],
    /// Slots handed out from the last batch.
    lent: Vec<(usize, Bytes)>,
    /// What is in the slots.
    metas: [RecvMeta; BATCH_SIZE],
    filled: Range<usize>,
    multicast: bool,
    /// The rest of the slot that is being handed out: one datagram, or several of equal size (but
    /// the last) that the system has coalesced.
    open: Option<(RecvMeta, Bytes)>,
}

/// One datagram.
#[derive(Debug)]
pub(crate) struct Datagram {
    pub(crate) source: SocketAddr,
    pub(crate) multicast: bool,
    pub(crate) bytes: Bytes,
}

impl Inbox {
    pub(crate) fn new() -> Self {
        Inbox {
            slots: std::array::from_fn(|_| BytesMut::zeroed(SLOT)),
            lent: Vec::with_capacity(BATCH_SIZE),
            metas: [RecvMeta::default(); BATCH_SIZE],
            filled: 0..0,
            multicast: false,
            open: None,
        }
    }

    /// Reads one batch, without waiting. What is left of the batch before is lost.
    pub(crate) fn fill(&mut self, io: &Socket, state: &UdpSocketState, multicast: bool) -> io::Result<()> {
        self.filled = 0..0;
        self.open = None;
        for (at, bytes) in self.lent.drain(..) {
            self.slots[at] = bytes.try_into_mut().unwrap_or_else(|_| BytesMut::zeroed(SLOT));
        }
        let mut buffers = self.slots.each_mut().map(|slot| IoSliceMut::new(slot));
        let count = state.recv(io.into(), &mut buffers, &mut self.metas)?;
        self.filled = 0..count;
        self.multicast = multicast;
        Ok(())
    }

    /// Takes the next datagram of the batch.
    pub(crate) fn take(&mut self) -> Option<Datagram> {
        let (meta, mut bytes) = match self.open.take() {
            Some(open) => open,
            None => self.next_slot()?,
        };
        let first = if meta.stride == 0 || meta.stride >= bytes.len() {
            bytes
        } else {
            let first = bytes.split_to(meta.stride);
            self.open = Some((meta, bytes));
            first
        };
        Some(Datagram { source: meta.addr, multicast: self.multicast, bytes: first })
    }

    fn next_slot(&mut self) -> Option<(RecvMeta, Bytes)> {
        let at = self.filled.next()?;
        let meta = self.metas[at];
        if meta.len < FULL {
            return Some((meta, Bytes::copy_from_slice(&self.slots[at][..meta.len])));
        }
        let whole = std::mem::take(&mut self.slots[at]).freeze();
        let bytes = whole.slice(..meta.len);
        self.lent.push((at, whole));
        Some((meta, bytes))
    }
}

/// Bytes of a receive buffer: more than any datagram or coalesced run has, so nothing is truncated.
const SLOT: usize = 65_536;

/// From this many bytes on a buffer is handed out rather than copied.
const FULL: usize = SLOT / 4;
