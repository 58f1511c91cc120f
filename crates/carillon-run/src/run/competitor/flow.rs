//! Flow of TCP's kind as laboratory traffic: window of CUBIC (RFC 9438), an acknowledgment for each packet, loss by
//! packet numbers (RFC 9002, section 6.1.1), and the timeout of RFC 6298.
//!
//! The flow carries no data: each packet has a new number, and a lost one is not repeated. Packets and acknowledgments
//! are not paced. Delayed acknowledgments and HyStart++ are left out.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use carillon_core::{Bytes, Delivery, Dest, Machine, MessageId, NodeId, Received, Receiver, Time, Transmit};
use carillon_proto::blocks::congestion::CubicWindow;

/// Returns true if a datagram belongs to the flow.
pub(super) fn is_of_flow(bytes: &[u8]) -> bool {
    number(bytes).is_some()
}

/// Number of a packet, or of the packet that is acknowledged.
fn number(bytes: &[u8]) -> Option<u64> {
    let rest = bytes.strip_prefix(MAGIC)?;
    Some(u64::from_be_bytes(rest.get(..8)?.try_into().ok()?))
}

/// Begin of each packet. The packets of sessions have other first bytes.
const MAGIC: &[u8] = b"\0cubic-flow\0";

/// Sender of the flow.
#[derive(Debug)]
pub(super) struct FlowSender {
    to: NodeId,
    /// Bytes of a datagram.
    size: usize,
    is_started: bool,
    window: CubicWindow,
    /// Number of the next packet.
    next: u64,
    /// Packets in flight, with the times at which they were sent.
    in_flight: BTreeMap<u64, Time>,
    /// First packet that was sent after the last cut.
    recover: u64,
    /// Smoothed round-trip time and its variation, in seconds.
    smoothed: Option<(f64, f64)>,
    /// Time of the start or of the timeout, and the factor by which earlier timeouts have lengthened it.
    deadline: Option<Time>,
    back_off: u32,
}

impl FlowSender {
    /// Creates a sender of datagrams of `size` bytes that begins at `start`.
    pub(super) fn new(to: NodeId, size: usize, start: Time) -> Self {
        FlowSender {
            to,
            size: size.max(MAGIC.len() + 8),
            is_started: false,
            window: CubicWindow::default(),
            next: 0,
            in_flight: BTreeMap::new(),
            recover: 0,
            smoothed: None,
            deadline: Some(start),
            back_off: 1,
        }
    }

    fn timeout(&self) -> Duration {
        let seconds = self.smoothed.map_or(1.0, |(mean, variation)| mean + 4.0 * variation);
        Duration::from_secs_f64(seconds).max(MIN_TIMEOUT) * self.back_off
    }

    fn on_acknowledged(&mut self, now: Time, number: u64) {
        let Some(sent) = self.in_flight.remove(&number) else { return };
        let trip = now.since(sent).as_secs_f64();
        let (mean, variation) = self.smoothed.map_or((trip, trip / 2.0), |(mean, variation)| {
            (mean + (trip - mean) / 8.0, variation + ((mean - trip).abs() - variation) / 4.0)
        });
        (self.smoothed, self.back_off) = (Some((mean, variation)), 1);
        self.deadline = Some(now + self.timeout());
        // Packets that were sent three or more before an acknowledged one are lost, as links keep the order.
        let kept = self.in_flight.split_off(&number.saturating_sub(REORDERING - 1));
        let lost = std::mem::replace(&mut self.in_flight, kept);
        if lost.last_key_value().is_some_and(|(&last, _)| last >= self.recover) {
            self.window.on_loss();
            self.recover = self.next;
        } else if number >= self.recover {
            self.window.on_acknowledged(now, 1.0, Duration::from_secs_f64(mean));
        }
    }
}

impl Machine for FlowSender {
    fn handle_datagram(&mut self, now: Time, datagram: Received<'_>) {
        if let Some(number) = number(datagram.bytes) {
            self.on_acknowledged(now, number);
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        if self.deadline.is_none_or(|deadline| deadline > now) {
            return;
        }
        if std::mem::replace(&mut self.is_started, true) {
            self.window.on_timeout();
            self.in_flight.clear();
            self.recover = self.next;
            self.back_off = (self.back_off * 2).min(MAX_BACK_OFF);
        }
        self.deadline = Some(now + self.timeout());
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.deadline
    }

    fn poll_transmit(&mut self, now: Time, buf: &mut Vec<u8>) -> Option<Transmit> {
        if !self.is_started || self.in_flight.len() as f64 >= self.window.size().min(MAX_WINDOW) {
            return None;
        }
        buf.extend_from_slice(MAGIC);
        buf.extend_from_slice(&self.next.to_be_bytes());
        buf.resize(self.size, 0);
        self.in_flight.insert(self.next, now);
        self.next += 1;
        Some(Transmit::now(Dest::Node(self.to)))
    }
}

/// Receiver of the flow, which acknowledges each packet.
#[derive(Debug)]
pub(super) struct FlowSink {
    source: NodeId,
    to_acknowledge: VecDeque<u64>,
    arrived: VecDeque<u64>,
}

impl FlowSink {
    pub(super) fn new(source: NodeId) -> Self {
        FlowSink { source, to_acknowledge: VecDeque::new(), arrived: VecDeque::new() }
    }
}

impl Machine for FlowSink {
    fn handle_datagram(&mut self, _now: Time, datagram: Received<'_>) {
        if let Some(number) = number(datagram.bytes) {
            self.to_acknowledge.push_back(number);
            self.arrived.push_back(number);
        }
    }

    fn poll_transmit(&mut self, _now: Time, buf: &mut Vec<u8>) -> Option<Transmit> {
        let number = self.to_acknowledge.pop_front()?;
        buf.extend_from_slice(MAGIC);
        buf.extend_from_slice(&number.to_be_bytes());
        Some(Transmit::now(Dest::Node(self.source)))
    }

    fn as_receiver(&mut self) -> Option<&mut dyn Receiver> {
        Some(self)
    }
}

impl Receiver for FlowSink {
    fn poll_delivery(&mut self) -> Option<Delivery> {
        let message = MessageId(self.arrived.pop_front()?);
        Some(Delivery { source: self.source, message, payload: Bytes::new() })
    }
}

/// Packets sent this many before an acknowledged one count as lost (RFC 9002, section 6.1.1).
const REORDERING: u64 = 3;
/// Minimum timeout, as in Linux.
const MIN_TIMEOUT: Duration = Duration::from_millis(200);
/// Maximum factor of the timeout.
const MAX_BACK_OFF: u32 = 64;
/// Maximum number of packets in flight: the receive buffer.
const MAX_WINDOW: f64 = (1 << 17) as f64;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::from_nanos(millis * 1_000_000)
    }

    /// Takes out what the sender may send, and returns the numbers.
    fn sent(sender: &mut FlowSender, now: Time) -> Vec<u64> {
        let mut buf = Vec::new();
        let mut numbers = Vec::new();
        while sender.poll_transmit(now, &mut buf).is_some() {
            assert_eq!(buf.len(), 1000);
            numbers.extend(number(&buf));
            buf.clear();
        }
        numbers
    }

    #[test]
    fn loss_is_found_by_a_packet_sent_three_later_and_cuts_once() {
        let mut sender = FlowSender::new(NodeId(1), 1000, Time::ZERO);
        sender.handle_timeout(at(0));
        assert_eq!(sent(&mut sender, at(0)), (0..10).collect::<Vec<_>>());
        sender.on_acknowledged(at(20), 2);
        let before = sender.window.size();
        sender.on_acknowledged(at(20), 3);
        assert!(sender.window.size() < before, "packet 0 is lost");
        let cut = sender.window.size();
        for number in [4, 9] {
            sender.on_acknowledged(at(20), number);
        }
        assert_eq!(sender.window.size(), cut, "losses before the cut count once");
        assert_eq!(sender.in_flight.keys().copied().collect::<Vec<_>>(), [7, 8]);
    }

    #[test]
    fn timeout_starts_anew_with_back_off() {
        let mut sender = FlowSender::new(NodeId(1), 1000, at(5));
        assert!(sent(&mut sender, at(0)).is_empty());
        sender.handle_timeout(at(5));
        assert_eq!(sent(&mut sender, at(5)).len(), 10);
        assert_eq!(sender.poll_timeout(), Some(at(1005)));
        sender.handle_timeout(at(1005));
        assert_eq!(sent(&mut sender, at(1005)), [10, 11]);
        assert_eq!(sender.poll_timeout(), Some(at(3005)));
    }
}
