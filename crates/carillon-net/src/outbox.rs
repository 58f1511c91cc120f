//! Outgoing datagrams: runs that leave in one system call, and datagrams with a later departure time.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::net::SocketAddr;

use bytes::Bytes;
use carillon_core::{Dest, Time};

use crate::numbers::SELF;

/// Datagrams of equal size (the last may be smaller) to one destination, sent in one system call where the system can
/// segment (GSO).
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) to: Dest,
    pub(crate) way: Route,
    /// Bytes of each datagram except the last.
    pub(crate) segment: usize,
    pub(crate) count: usize,
    pub(crate) contents: Vec<u8>,
    /// True for unicast copies of multicasts.
    pub(crate) is_copy: bool,
    /// True after a smaller or empty datagram, which ends the run.
    closed: bool,
}

/// Route of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) address: SocketAddr,
    /// Hop limit of a multicast.
    pub(crate) hops: Option<u8>,
    /// True for packets directly over IP instead of UDP.
    pub(crate) raw: bool,
}

/// A datagram with a departure time, ordered by time and then by transmit order.
#[derive(Debug)]
struct Delayed {
    at: Time,
    serial: u64,
    to: Dest,
    bytes: Vec<u8>,
}

/// Runs that wait for the socket, and datagrams that wait for their departure time.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    runs: VecDeque<Run>,
    held: BinaryHeap<Reverse<Delayed>>,
    serial: u64,
    spare: Vec<Vec<u8>>,
}

impl Outbox {
    /// Appends a datagram, to the last run if it fits. Takes the contents of the buffer and leaves an empty one.
    pub(crate) fn push(&mut self, to: Dest, way: Route, bytes: &mut Vec<u8>, max_segments: usize) {
        let len = bytes.len();
        if let Some(contents) = self.extend(way, len, max_segments) {
            contents.extend_from_slice(bytes);
            return;
        }
        let contents = std::mem::replace(bytes, self.spare.pop().unwrap_or_default());
        self.begin(to, way, len, contents);
    }

    /// Appends a datagram of length `len` that `write` adds to the given buffer.
    pub(crate) fn push_with(
        &mut self,
        to: Dest,
        way: Route,
        len: usize,
        max_segments: usize,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        if let Some(contents) = self.extend(way, len, max_segments) {
            return write(contents);
        }
        let mut contents = self.spare.pop().unwrap_or_default();
        write(&mut contents);
        self.begin(to, way, len, contents);
    }

    /// Returns the contents of the last run if a datagram of this length fits, and counts the datagram.
    fn extend(&mut self, way: Route, len: usize, max_segments: usize) -> Option<&mut Vec<u8>> {
        let run = self.runs.back_mut()?;
        let fits = !run.closed
            && run.count < max_segments
            && len <= run.segment
            && run.contents.len() + len <= MAX_RUN
            && run.way == way
            && len > 0;
        if !fits {
            return None;
        }
        run.count += 1;
        run.closed = len < run.segment;
        Some(&mut run.contents)
    }

    fn begin(&mut self, to: Dest, way: Route, len: usize, contents: Vec<u8>) {
        self.runs.push_back(Run {
            to,
            way,
            segment: len,
            count: 1,
            contents,
            is_copy: false,
            closed: len == 0,
        });
    }

    /// Delays a datagram until its departure time.
    pub(crate) fn hold(&mut self, at: Time, to: Dest, bytes: Vec<u8>) {
        let serial = self.serial;
        self.serial += 1;
        self.held.push(Reverse(Delayed { at, serial, to, bytes }));
    }

    /// Takes the first delayed datagram if it is due.
    pub(crate) fn due(&mut self, now: Time) -> Option<(Dest, Vec<u8>)> {
        if self.next_departure()? > now {
            return None;
        }
        self.held.pop().map(|Reverse(held)| (held.to, held.bytes))
    }

    /// Takes the first run.
    pub(crate) fn pop(&mut self) -> Option<Run> {
        self.runs.pop_front()
    }

    /// Puts a run back where it was.
    pub(crate) fn push_front(&mut self, run: Run) {
        self.runs.push_front(run);
    }

    /// Gives a buffer back for later use.
    pub(crate) fn recycle(&mut self, mut buffer: Vec<u8>) {
        if self.spare.len() < MAX_SPARE_BUFFERS {
            buffer.clear();
            self.spare.push(buffer);
        }
    }

    /// Number of waiting runs.
    pub(crate) fn runs(&self) -> usize {
        self.runs.len()
    }

    /// Departure time of the next delayed datagram.
    pub(crate) fn next_departure(&self) -> Option<Time> {
        self.held.peek().map(|Reverse(held)| held.at)
    }
}

impl Run {
    /// The datagrams as slices of the run's contents.
    pub(crate) fn datagrams(&self, whole: &Bytes) -> impl Iterator<Item = Bytes> {
        let (segment, len) = (self.segment, whole.len());
        (0..self.count).map(move |i| whole.slice(i * segment..((i + 1) * segment).min(len)))
    }

    /// Copy of the run for one address.
    pub(crate) fn copied(&self, address: SocketAddr) -> Run {
        let Run { segment, count, ref contents, .. } = *self;
        let way = Route { address, hops: None, raw: false };
        Run {
            to: Dest::Node(SELF),
            way,
            segment,
            count,
            contents: contents.clone(),
            is_copy: true,
            closed: true,
        }
    }

    /// Splits the run into runs of one datagram.
    pub(crate) fn split(self) -> Vec<Run> {
        let chunks = self.contents.chunks(self.segment.max(1));
        chunks
            .map(|chunk| Run {
                to: self.to.clone(),
                way: self.way,
                segment: chunk.len(),
                count: 1,
                contents: chunk.to_vec(),
                is_copy: self.is_copy,
                closed: true,
            })
            .collect()
    }
}

impl PartialEq for Delayed {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}
impl Eq for Delayed {}
impl PartialOrd for Delayed {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Delayed {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.serial).cmp(&(other.at, other.serial))
    }
}

/// Maximum bytes of a run: the largest payload of UDP over IPv4.
const MAX_RUN: usize = 65_507;

/// Maximum number of spare buffers.
const MAX_SPARE_BUFFERS: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use carillon_core::{GroupId, NodeId};

    fn way(port: u16, hops: Option<u8>) -> Route {
        Route { address: SocketAddr::from(([10, 0, 0, 1], port)), hops, raw: false }
    }

    fn push(outbox: &mut Outbox, node: u32, len: usize) {
        outbox.push(Dest::Node(NodeId(node)), way(node as u16, None), &mut vec![node as u8; len], 64);
    }

    fn shape(outbox: &mut Outbox) -> Vec<(usize, usize, usize)> {
        std::iter::from_fn(|| outbox.pop()).map(|r| (r.count, r.segment, r.contents.len())).collect()
    }

    #[test]
    fn equal_datagrams_share_a_run_until_a_smaller_one() {
        let mut outbox = Outbox::default();
        for (node, len) in [(1, 100), (1, 100), (1, 40), (1, 40), (2, 40), (2, 41), (2, 0), (2, 0)] {
            push(&mut outbox, node, len);
        }
        let expected = [(3, 100, 240), (1, 40, 40), (1, 40, 40), (1, 41, 41), (1, 0, 0), (1, 0, 0)];
        assert_eq!(shape(&mut outbox), expected);
    }

    #[test]
    fn a_run_ends_at_64_datagrams_or_65507_bytes() {
        let mut outbox = Outbox::default();
        (0..65).for_each(|_| push(&mut outbox, 1, 10));
        (0..9).for_each(|_| push(&mut outbox, 2, 8192));
        let expected = [(64, 10, 640), (1, 10, 10), (7, 8192, 57_344), (2, 8192, 16_384)];
        assert_eq!(shape(&mut outbox), expected);
    }

    #[test]
    fn multicasts_of_different_scope_do_not_share_a_run() {
        let mut outbox = Outbox::default();
        for hops in [1, 1, 2] {
            outbox.push(Dest::group(GroupId(0)), way(1, Some(hops)), &mut vec![0; 9], 64);
        }
        assert_eq!(shape(&mut outbox), [(2, 9, 18), (1, 9, 9)]);
    }

    #[test]
    fn raw_ip_and_udp_datagrams_do_not_share_a_run() {
        let mut outbox = Outbox::default();
        for raw in [false, false, true] {
            outbox.push(Dest::Node(NodeId(1)), Route { raw, ..way(1, None) }, &mut vec![0; 9], 64);
        }
        assert_eq!(shape(&mut outbox), [(2, 9, 18), (1, 9, 9)]);
    }

    #[test]
    fn delayed_datagrams_leave_by_time_then_transmit_order() {
        let mut outbox = Outbox::default();
        for (at, byte) in [(20, 1), (10, 2), (20, 3), (10, 4), (30, 5)] {
            outbox.hold(Time::from_nanos(at), Dest::Node(NodeId(1)), vec![byte]);
        }
        assert_eq!(outbox.next_departure(), Some(Time::from_nanos(10)));
        assert_eq!(outbox.due(Time::from_nanos(9)), None);
        let now = Time::from_nanos(25);
        let order: Vec<u8> = std::iter::from_fn(|| outbox.due(now)).map(|(_, bytes)| bytes[0]).collect();
        assert_eq!(order, [2, 4, 1, 3]);
        assert_eq!(outbox.next_departure(), Some(Time::from_nanos(30)));
    }

    #[test]
    fn a_split_run_has_the_same_datagrams() {
        let mut outbox = Outbox::default();
        for byte in 1..=3 {
            let len = if byte == 3 { 5 } else { 7 };
            outbox.push(Dest::Node(NodeId(1)), way(1, None), &mut vec![byte; len], 64);
        }
        let run = outbox.pop().expect("one run");
        let whole = Bytes::from(run.contents.clone());
        let expected: Vec<Vec<u8>> = run.datagrams(&whole).map(|d| d.to_vec()).collect();
        assert_eq!(expected, [vec![1; 7], vec![2; 7], vec![3; 5]]);
        let split: Vec<Vec<u8>> = run.split().into_iter().map(|r| r.contents).collect();
        assert_eq!(split, expected);
    }
}
