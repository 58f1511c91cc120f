//! TCP-friendly rate of the worst receiver: TFMCC (RFC 4654).
//!
//! Loss events and round-trip times of each receiver give the throughput of TCP on its path (section 2.1, the
//! equation of Padhye, Firoiu, Towsley and Kurose 1998). The smallest of these is the rate, and the receiver that has
//! it is the current limiting receiver. A lower rate is followed at once. A higher one needs a report of the limiting
//! receiver, and grows by one packet per round-trip time. Before the first loss the rate is twice the slowest receive
//! rate.
//!
//! Left out: receivers compute nothing, and feedback is not suppressed, since the sender polls. The sender compares
//! the packets a status reports with those it had sent.

use std::time::Duration;

use carillon_core::Time;

use super::loss_intervals::LossIntervals;
use crate::blocks::NodeMinimum;

/// Throughput of TCP in packets per round-trip time at this loss event rate: RFC 4654, section 2.1, with b = 1 and a
/// retransmission timeout of four round-trip times.
pub fn packets_per_round_trip(loss: f64) -> f64 {
    let root = libm::sqrt(2.0 * loss / 3.0);
    1.0 / (root + 12.0 * libm::sqrt(3.0 * loss / 8.0) * loss * (1.0 + 32.0 * loss * loss))
}

/// Loss event rate at which TCP would have this throughput (inverse by bisection).
pub fn loss_for(packets: f64) -> f64 {
    let (mut low, mut high) = (1e-12, 1.0);
    // The throughput falls with the loss. Halve the interval on a logarithmic scale.
    // 64 steps exhaust the precision of a float.
    for _ in 0..64 {
        let middle = libm::sqrt(low * high);
        if packets_per_round_trip(middle) > packets { low = middle } else { high = middle }
    }
    libm::sqrt(low * high)
}

/// Report of the packets a receiver has received.
#[derive(Clone, Copy, Debug)]
pub struct ReceiverReport {
    /// Packets sent when the report was polled.
    pub sent: u64,
    /// Packets received, modulo 2^32.
    pub arrived: u32,
    /// Round-trip time of the poll.
    pub trip: Duration,
}

/// Rate control of a group.
#[derive(Clone, Debug)]
pub struct EquationRate {
    /// Receivers by index.
    receivers: Vec<Receiver>,
    /// Packets per second that each receiver permits, of receivers with a measurement.
    lowest: NodeMinimum,
    /// Current rate in packets per second.
    rate: Option<f64>,
    /// Time of the last report from the limiting receiver.
    heard: Time,
}

/// Measurements of one receiver.
#[derive(Clone, Debug, Default)]
struct Receiver {
    /// Intervals between its loss events.
    intervals: LossIntervals,
    /// Packets sent, as of its last report.
    sent: u64,
    /// Packets received, as of its last report.
    arrived: u64,
    /// Largest number of packets missing so far.
    lost: u64,
    /// Smoothed round-trip time; `None` before the first report.
    trip: Option<Duration>,
    /// Time of the last report.
    at: Option<Time>,
    /// Its entry in `lowest`.
    share: Option<u64>,
}

impl EquationRate {
    /// Creates the rate control of a group.
    pub fn new(receivers: usize) -> Self {
        EquationRate {
            receivers: vec![Receiver::default(); receivers],
            lowest: NodeMinimum::default(),
            rate: None,
            heard: Time::ZERO,
        }
    }

    /// Handles a report of a receiver.
    pub fn on_answer(&mut self, now: Time, index: usize, heard: ReceiverReport) {
        let receiver = &mut self.receivers[index];
        let step = heard.arrived.wrapping_sub(receiver.arrived as u32);
        // A report overtaken by a newer one would count backwards.
        if step > u32::MAX / 2 || heard.sent < receiver.sent {
            return;
        }
        let trip = heard.trip.max(MIN_ROUND_TRIP);
        // EWMA with a weight of 0.1 for the sample (RFC 5348, section 4.3).
        let smoothed = receiver.trip.map_or(trip, |mean| mean * 9 / 10 + trip / 10);
        receiver.trip = Some(smoothed);
        let sent = heard.sent - receiver.sent;
        (receiver.sent, receiver.arrived) = (heard.sent, receiver.arrived + u64::from(step));
        // Reordering can only lower the number of missing packets; count each loss once.
        let missing = receiver.sent.saturating_sub(receiver.arrived);
        let lost = missing.saturating_sub(receiver.lost);
        receiver.lost = receiver.lost.max(missing);
        let span = receiver.at.replace(now).map(|at| now.since(at).as_secs_f64());
        let received = span.filter(|span| *span > 0.0).map(|span| f64::from(step) / span);
        let seconds = smoothed.as_secs_f64();
        // RFC 4654, section 2.5.3: assume the loss at which TCP has half of the receive rate at the first loss.
        let first = || 1.0 / loss_for((received.unwrap_or(0.0) / 2.0 * seconds).max(0.5));
        receiver.intervals.note(now, sent, lost, smoothed, first);
        let loss = receiver.intervals.rate();
        let share = if loss > 0.0 {
            Some(packets_per_round_trip(loss) / seconds)
        } else {
            received.map(|rate| 2.0 * rate)
        };
        // Without a loss, a rate needs two reports.
        let Some(share) = share.map(|share| share.max(MIN_RATE)) else { return };
        // Enter the share first, since `follow` asks which receiver is the limiting one.
        self.place(index, Some(share as u64));
        self.follow(now, index, share, loss > 0.0);
    }

    /// Rate in packets per second; none before the first measurement.
    pub fn rate(&self) -> Option<f64> {
        self.rate
    }

    /// Handles a silent receiver: halves the rate if it is the limiting one.
    pub fn on_silence(&mut self, index: usize) {
        if self.limiting() == Some(index) {
            self.rate = self.rate.map(|rate| (rate / 2.0).max(MIN_RATE));
        }
    }

    /// Removes a receiver from the group.
    pub fn remove(&mut self, index: usize) {
        self.place(index, None);
    }

    /// Current limiting receiver: the one with the lowest rate.
    pub fn limiting(&self) -> Option<usize> {
        self.lowest.get().map(|(_, index)| index)
    }

    /// Replaces the entry of a receiver in `lowest`; none removes it.
    fn place(&mut self, index: usize, share: Option<u64>) {
        match (std::mem::replace(&mut self.receivers[index].share, share), share) {
            (Some(before), Some(share)) => self.lowest.change(index, before, share),
            (Some(before), None) => self.lowest.remove(index, before),
            (None, Some(share)) => self.lowest.insert(index, share),
            (None, None) => {}
        }
    }

    /// Applies the rate of a receiver: decreases follow at once, increases only for the limiting receiver.
    fn follow(&mut self, now: Time, index: usize, share: f64, has_lost: bool) {
        let rate = self.rate.unwrap_or(share);
        if share <= rate {
            (self.rate, self.heard) = (Some(share), now);
        } else if self.limiting() == Some(index) {
            let trip = self.receivers[index].trip.unwrap_or(MIN_ROUND_TRIP).as_secs_f64();
            // After a long silence, the rate still grows by one packet at most.
            let trips = (now.since(self.heard).as_secs_f64() / trip).min(1.0);
            // Grow by one packet per round-trip time, or at once before the first loss.
            let more = if has_lost { trips / trip } else { f64::INFINITY };
            (self.rate, self.heard) = (Some(share.min(rate + more)), now);
        }
    }
}

/// Minimum rate in packets per second.
const MIN_RATE: f64 = 10.0;
/// Minimum round-trip time: the share of clock and process.
const MIN_ROUND_TRIP: Duration = Duration::from_micros(100);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn throughput_follows_equation() {
        // RFC 5348 has no table. By hand at 1 %: sqrt(2p/3) = 0.0816 and 12 sqrt(3p/8) p (1 + 32 p^2) = 0.00737.
        assert!((packets_per_round_trip(0.01) - 11.23).abs() < 0.02, "{}", packets_per_round_trip(0.01));
    }

    /// Simulates a bottleneck of this rate that drops all excess. Returns the mean rate of the second half.
    fn through(carries: f64, losses: &[f64], trip: Duration, seconds: u64) -> f64 {
        let mut control = EquationRate::new(losses.len());
        let (mut sent, mut arrived) = (0.0, vec![0.0; losses.len()]);
        let (mut now, mut sum, mut steps) = (Time::ZERO, 0.0, 0.0);
        let end = Time::ZERO + Duration::from_secs(seconds);
        let mut rng = carillon_core::Seeds::new(1).stream("losses");
        while now < end {
            now += trip;
            let rate = control.rate().unwrap_or(100.0);
            let packets = rate * trip.as_secs_f64();
            sent += packets;
            for (index, &loss) in losses.iter().enumerate() {
                let through = packets.min(carries * trip.as_secs_f64());
                let lost = (0..through as u64).filter(|_| rng.unit() < loss).count() as f64;
                arrived[index] += through - lost;
                let (sent, arrived) = (sent as u64, arrived[index] as u64 as u32);
                control.on_answer(now, index, ReceiverReport { sent, arrived, trip });
            }
            if now > Time::ZERO + Duration::from_secs(seconds / 2) {
                (sum, steps) = (sum + rate, steps + 1.0);
            }
        }
        sum / steps
    }

    #[test]
    fn rate_fills_dropping_bottleneck() {
        let rate = through(2000.0, &[0.0], Duration::from_millis(50), 60);
        assert!((1400.0..2100.0).contains(&rate), "{rate}");
    }

    #[test]
    fn worst_receiver_sets_tcp_rate() {
        let trip = Duration::from_millis(50);
        let rate = through(1e9, &[0.0001, 0.02, 0.001], trip, 100);
        let tcp = packets_per_round_trip(0.02) / 0.05;
        assert!(rate > tcp / 2.0 && rate < tcp * 2.0, "{rate}, and TCP would have {tcp}");
    }

    #[test]
    fn removed_receiver_does_not_limit_rate() {
        let mut control = EquationRate::new(2);
        let trip = Duration::from_millis(10);
        for step in 1..100_u64 {
            let now = Time::ZERO + trip * step as u32;
            for (index, arrived) in [(0, step * 100), (1, step * 5)] {
                control.on_answer(
                    now,
                    index,
                    ReceiverReport { sent: step * 100, arrived: arrived as u32, trip },
                );
            }
        }
        assert_eq!(control.limiting(), Some(1));
        control.remove(1);
        assert_eq!(control.limiting(), Some(0));
    }

    proptest! {
        #[test]
        fn throughput_falls_with_loss(loss in 1e-6..0.9_f64, more in 1.0001..2.0_f64) {
            prop_assert!(packets_per_round_trip(loss * more) < packets_per_round_trip(loss));
            let back = loss_for(packets_per_round_trip(loss));
            prop_assert!((back / loss - 1.0).abs() < 1e-6, "{back} of {loss}");
        }

        #[test]
        fn rate_never_jumps_after_first_loss(
            answers in prop::collection::vec((0..3_usize, 0..2000_u64, 0..2000_u32, 1..300_u64, 0..100_u64), 1..200)
        ) {
            let mut control = EquationRate::new(3);
            let (mut now, mut sent, mut arrived) = (Time::ZERO, 0, [0_u32; 3]);
            for (index, more, came, trip, pause) in answers {
                now += Duration::from_millis(pause);
                sent += more;
                arrived[index] = arrived[index].wrapping_add(came);
                let (before, trip) = (control.rate, Duration::from_millis(trip));
                control.on_answer(now, index, ReceiverReport { sent, arrived: arrived[index], trip });
                let has_lost = control.receivers[index].intervals.rate() > 0.0;
                if let (Some(before), Some(after), true) = (before, control.rate, has_lost) {
                    let trip = control.receivers[index].trip.unwrap().as_secs_f64();
                    prop_assert!(after <= before + 1.0 / trip + 1e-9, "{before} to {after}");
                }
            }
        }
    }
}
