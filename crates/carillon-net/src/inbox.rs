//! What has arrived: batches of datagrams read into shared buffers.

use std::collections::VecDeque;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;

use bytes::{Bytes, BytesMut};
use quinn_udp::{BATCH_SIZE, RecvMeta, UdpSocketState};
use socket2::Socket;

/// The receive buffers and the datagrams read but not handed out yet.
///
/// A buffer that comes back well filled is handed out itself, and returns when nobody holds a slice
/// of it any more; a little in a big buffer is copied out, so that holding a small packet does not
/// hold 64 KiB.
#[derive(Debug)]
pub(crate) struct Inbox {
    slots: [BytesMut; BATCH_SIZE],
    /// Slots handed out with the last batch.
    lent: Vec<(usize, Bytes)>,
    arrived: VecDeque<Arrived>,
}

/// One datagram, or several of equal size (but the last) that the system has coalesced.
#[derive(Debug)]
struct Arrived {
    source: SocketAddr,
    multicast: bool,
    stride: usize,
    bytes: Bytes,
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
            arrived: VecDeque::with_capacity(BATCH_SIZE),
        }
    }

    /// Reads one batch, without waiting. Every datagram of the batch before must have been taken.
    pub(crate) fn fill(&mut self, io: &Socket, state: &UdpSocketState, multicast: bool) -> io::Result<()> {
        for (at, bytes) in self.lent.drain(..) {
            self.slots[at] = bytes.try_into_mut().unwrap_or_else(|_| BytesMut::zeroed(SLOT));
        }
        let mut metas = [RecvMeta::default(); BATCH_SIZE];
        let mut buffers = self.slots.each_mut().map(|slot| IoSliceMut::new(slot));
        let count = state.recv(io.into(), &mut buffers, &mut metas)?;
        for (at, meta) in metas[..count].iter().enumerate() {
            let bytes = if meta.len >= FULL {
                let whole = std::mem::take(&mut self.slots[at]).freeze();
                let bytes = whole.slice(..meta.len);
                self.lent.push((at, whole));
                bytes
            } else {
                Bytes::copy_from_slice(&self.slots[at][..meta.len])
            };
            self.arrived.push_back(Arrived { source: meta.addr, multicast, stride: meta.stride, bytes });
        }
        Ok(())
    }

    /// Takes the next datagram.
    pub(crate) fn take(&mut self) -> Option<Datagram> {
        let first = self.arrived.front_mut()?;
        let (source, multicast) = (first.source, first.multicast);
        if first.stride == 0 || first.stride >= first.bytes.len() {
            let bytes = self.arrived.pop_front()?.bytes;
            return Some(Datagram { source, multicast, bytes });
        }
        let bytes = first.bytes.split_to(first.stride);
        Some(Datagram { source, multicast, bytes })
    }
}

/// Bytes of a receive buffer: more than any datagram or coalesced run has, so nothing is truncated.
const SLOT: usize = 65_536;

/// From this many bytes on a buffer is handed out rather than copied.
const FULL: usize = SLOT / 4;
