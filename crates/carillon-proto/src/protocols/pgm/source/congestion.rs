//! Congestion control of a source: PGMCC (draft-ietf-rmt-bb-pgmcc-03; Rizzo 2000).
//!
//! Data packets name one receiver, the acker, which acknowledges each of them. Its acknowledgments move the window
//! of the controller. All receivers report their loss rate in NAKs, by which the controller elects the acker. A
//! source without an acker names none; receivers then answer after a random wait.
//!
//! The source keeps no table of receivers: it knows the acker, the acker before it, and the last other one that
//! reported. Parity packets, repairs and SPMs need no room in the window.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use carillon_core::{Config, NodeId, Time};
use carillon_wire::pgm::{Ack, AckerElection, LossReport};

use crate::blocks::congestion::{Acknowledgment, CongestionControl, ControlSettings, Controller, PathReport};
use crate::blocks::{RetransmissionTimeout, near};

/// Window of a source, its acker, and the acknowledgments.
#[derive(Debug)]
pub(super) struct Congestion {
    control: Box<dyn CongestionControl>,
    /// Receivers that the controller knows, by their numbers there: the acker and the last other one that reported.
    reporters: [Option<Reporter>; 2],
    /// Acker before the present one. Packets in flight at an election name it, so its acknowledgments still count.
    previous: Option<Reporter>,
    record: AckRecord,
    /// Number of packets sent up to the newest acknowledged one; all of them after a timeout.
    answered: u64,
    timeout: RetransmissionTimeout,
}

/// Receiver that reports. Behind a network element, which is the node, the address tells receivers apart; on one host
/// the node does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reporter {
    node: NodeId,
    address: IpAddr,
}

impl Congestion {
    /// Reads the settings; none without congestion control.
    pub fn new(settings: &Config) -> Option<Self> {
        let name = settings.choice("congestion");
        let control = ControlSettings { receivers: 2, flight: settings.count("txw_sqns"), rate: None };
        let control = (name != "none").then(|| (Controller::named(name).build)(&control).ok()).flatten()?;
        Some(Congestion {
            control,
            reporters: [None; 2],
            previous: None,
            record: AckRecord::default(),
            answered: 0,
            timeout: RetransmissionTimeout::adaptive(INITIAL_TIMEOUT, MIN_TIMEOUT, MAX_TIMEOUT),
        })
    }

    /// Returns true if a packet may be sent, with `next` packets sent.
    pub fn has_room(&self, next: u64) -> bool {
        next - self.answered < self.control.window()
    }

    /// Returns true while an acknowledgment is awaited, with `next` packets sent.
    pub fn awaits(&self, next: u64) -> bool {
        self.answered < next
    }

    /// Longest wait for the next acknowledgment.
    pub fn timeout(&self) -> Duration {
        self.timeout.current()
    }

    /// Timestamp and acker of a data packet of the source with the address `source`.
    pub fn election(&self, now: Time, source: IpAddr) -> AckerElection {
        let nobody: IpAddr = match source {
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let acker = self.control.deciding().and_then(|acker| self.reporters[acker]);
        AckerElection { timestamp_ms: milliseconds(now), acker: acker.map_or(nobody, |acker| acker.address) }
    }

    /// Handles the loss rate of a receiver, with `next` packets sent. Returns its number and its round-trip time;
    /// none if it cannot be right.
    pub fn on_report(
        &mut self,
        now: Time,
        next: u64,
        node: NodeId,
        report: LossReport,
    ) -> Option<(usize, Duration)> {
        let LossReport { timestamp_ms, loss, receiver: address } = report;
        let round_trip = Duration::from_millis(milliseconds(now).wrapping_sub(timestamp_ms).into());
        if round_trip > MAX_ROUND_TRIP || address.is_unspecified() {
            return None;
        }
        let (acker, reporter) = (self.control.deciding(), Reporter { node, address });
        let known = self.reporters.iter().position(|known| *known == Some(reporter));
        let number = known.unwrap_or_else(|| {
            // The acker keeps its place.
            let free = acker.map_or(0, |acker| 1 - acker);
            self.control.remove(free);
            self.reporters[free] = Some(reporter);
            free
        });
        // The timestamp cannot show less than a unit of it.
        let round_trip = round_trip.max(Duration::from_millis(1));
        let loss = f64::from(loss) / 65_536.0;
        self.control.on_report(now, number, &PathReport { round_trip, loss });
        if self.control.deciding() != acker {
            self.previous = acker.and_then(|acker| self.reporters[acker]);
            self.record = AckRecord::starting_at(next);
        }
        Some((number, round_trip))
    }

    /// Handles an acknowledgment, with `next` packets sent. Returns false if it is of no acker, or of no packet.
    pub fn on_ack(&mut self, now: Time, next: u64, node: NodeId, ack: Ack, report: LossReport) -> bool {
        let newest = near(ack.newest, next);
        let previous = self.previous;
        let Some((number, round_trip)) = self.on_report(now, next, node, report).filter(|_| newest < next)
        else {
            return false;
        };
        let is_acker = self.control.deciding() == Some(number);
        if !is_acker && (previous.is_none() || self.reporters[number] != previous) {
            return false;
        }
        self.answered = self.answered.max(newest + 1);
        if is_acker {
            self.timeout.on_sample(round_trip);
            let judged = self.record.on_ack(newest, ack.bitmap);
            let acknowledgment = judged.acknowledgment(now, round_trip, (newest + 1, next));
            self.control.on_acknowledged(now, number, &acknowledgment);
            if judged.lost > 0 {
                self.control.on_lost(now, number, &acknowledgment);
            }
        }
        true
    }

    /// Handles a timeout: no acknowledgment came, so nothing counts as in flight any longer.
    pub fn on_silence(&mut self, now: Time, next: u64) {
        if let Some(acker) = self.control.deciding() {
            self.control.on_silent(now, acker);
        }
        self.answered = next;
        self.timeout.on_expiry();
    }
}

/// Reception of the newest packets at the acker, from its acknowledgments.
#[derive(Clone, Copy, Debug, Default)]
struct AckRecord {
    /// First packet that counts: packets before it name another acker.
    start: u64,
    /// Number after the newest acknowledged packet.
    end: u64,
    /// Packets known to have arrived; bit n stands for the packet `end` - 1 - n.
    arrived: u32,
    /// Number after the last packet that is known as arrived or as lost.
    judged: u64,
}

/// Packets that an acknowledgment adds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Judged {
    arrived: u64,
    lost: u64,
    /// Number after the last lost packet; 0 without losses.
    lost_up_to: u64,
}

impl Judged {
    /// Acknowledgment as the controller takes it, of an acknowledgment that covers the first of these numbers of
    /// packets when the second had been sent.
    fn acknowledgment(self, now: Time, round_trip: Duration, (sent, next): (u64, u64)) -> Acknowledgment {
        Acknowledgment {
            asked: Time::from_nanos(now.since(Time::ZERO + round_trip).as_nanos() as u64),
            round_trip,
            sent,
            arrived: sent - self.lost.min(sent),
            since: next - sent,
            newly_arrived: self.arrived,
            newly_lost: self.lost,
            lost_up_to: self.lost_up_to,
            over_round_trip: (0, 0),
            span: Duration::ZERO,
        }
    }
}

impl AckRecord {
    fn starting_at(start: u64) -> Self {
        AckRecord { start, end: start, arrived: 0, judged: start }
    }

    /// Adds an acknowledgment of the packet `newest` and the 31 before it.
    fn on_ack(&mut self, newest: u64, bitmap: u32) -> Judged {
        let shifted = |map: u32, by: u64| if by < 32 { map << by } else { 0 };
        let end = (newest + 1).max(self.end);
        self.arrived = shifted(self.arrived, end - self.end);
        self.end = end;
        // Bits of packets from `start` on.
        let counted = match end.saturating_sub(self.start) {
            count @ 0..32 => (1 << count) - 1,
            _ => u32::MAX,
        };
        let added = shifted(bitmap, end - 1 - newest) & counted & !self.arrived;
        self.arrived |= added;
        let mut judged = Judged { arrived: added.count_ones().into(), ..Judged::default() };
        // Nothing is known of packets that no bitmap has covered.
        self.judged = self.judged.max(end.saturating_sub(32));
        while self.judged < end {
            let bit = end - 1 - self.judged;
            let later = self.arrived & ((1 << bit) - 1);
            if self.arrived >> bit & 1 == 0 {
                // A packet is lost once three later ones have arrived.
                if later.count_ones() < LOSS_THRESHOLD {
                    break;
                }
                judged.lost += 1;
                judged.lost_up_to = self.judged + 1;
            }
            self.judged += 1;
        }
        judged
    }
}

/// Clock of timestamps.
fn milliseconds(now: Time) -> u32 {
    (now.as_nanos() / 1_000_000) as u32
}

/// Number of later packets that must have arrived before a packet counts as lost.
const LOSS_THRESHOLD: u32 = 3;
/// Longest round-trip time that a report may show.
const MAX_ROUND_TRIP: Duration = Duration::from_secs(60);
/// Wait for an acknowledgment before the first sample (RFC 6298, section 2.1).
const INITIAL_TIMEOUT: Duration = Duration::from_secs(1);
const MIN_TIMEOUT: Duration = Duration::from_millis(200);
/// Longest wait, which is the constant one of OpenPGM.
const MAX_TIMEOUT: Duration = Duration::from_secs(3);

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(arrived: u64, lost: u64, lost_up_to: u64) -> Judged {
        Judged { arrived, lost, lost_up_to }
    }

    #[test]
    fn packet_is_lost_once_three_later_ones_arrived() {
        let mut record = AckRecord::starting_at(10);
        assert_eq!(record.on_ack(10, 0b1), judged(1, 0, 0));
        // Packet 11 is missing.
        assert_eq!(record.on_ack(12, 0b101), judged(1, 0, 0));
        assert_eq!(record.on_ack(13, 0b1011), judged(1, 0, 0));
        assert_eq!(record.on_ack(14, 0b1_0111), judged(1, 1, 12));
        assert_eq!(record.on_ack(15, 0b10_1111), judged(1, 0, 0));
    }

    #[test]
    fn later_acknowledgment_replaces_lost_ones() {
        let mut record = AckRecord::starting_at(0);
        assert_eq!(record.on_ack(9, 0b11_1111_1111), judged(10, 0, 0));
        // The acknowledgments of 10 to 14 are lost, and one comes late.
        assert_eq!(record.on_ack(15, 0xffff), judged(6, 0, 0));
        assert_eq!(record.on_ack(14, 0x7fff), judged(0, 0, 0));
        // Nothing tells of packets 16 to 68; of the 32 newest, one is missing.
        assert_eq!(record.on_ack(100, u32::MAX - 8), judged(31, 1, 98));
    }

    #[test]
    fn packets_for_another_acker_do_not_count() {
        let mut record = AckRecord::starting_at(100);
        assert_eq!(record.on_ack(98, u32::MAX), judged(0, 0, 0));
        assert_eq!(record.on_ack(101, 0b10_0011), judged(2, 0, 0));
    }
}
