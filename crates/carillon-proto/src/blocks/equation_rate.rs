//! A rate by the throughput that TCP would have where the worst receiver is.
//!
//! TFMCC (RFC 4654): from loss events and round trips follows for each receiver what TCP would get there (its section 2.1, the equation of Padhye, Firoiu,
//! Towsley and Kurose, 1998), and the least of these is the rate. Who has it is the current limiting receiver: a receiver that asks for less is
//! followed at once, and more is taken only on its word, by a packet a round trip in each round trip. Before the first loss the rate is twice what the slowest receives.
//!
//! Left out: receivers do not compute anything themselves, and feedback is not suppressed, since a polling sender learns of all what it needs; the sender counts what
//! a status says has come against what it had sent.

use std::time::Duration;

use carillon_core::{BitRate, Time};

use super::loss_intervals::LossIntervals;
use super::{LowestOf, RateControl};

/// What TCP would send in a round trip, in packets, where each has this chance to be the first of a loss event: RFC 4654, 2.1, with b = 1 and
/// a retransmission timeout of four round trips.
pub fn packets_a_trip(loss: f64) -> f64 {
    let root = libm::sqrt(2.0 * loss / 3.0);
    1.0 / (root + 12.0 * libm::sqrt(3.0 * loss / 8.0) * loss * (1.0 + 32.0 * loss * loss))
}

/// The loss at which TCP would send so many.
pub fn loss_for(packets: f64) -> f64 {
    let (mut low, mut high) = (1e-12, 1.0);
    // It falls with the loss; by halves of the exponent.
    for _ in 0..64 {
        let middle = libm::sqrt(low * high);
        if packets_a_trip(middle) > packets { low = middle } else { high = middle }
    }
    libm::sqrt(low * high)
}

/// What a status says of how much has come.
#[derive(Clone, Copy, Debug)]
pub struct Heard {
    /// Packets sent when it was asked for.
    pub sent: u64,
    /// How many had come, modulo 2^32.
    pub arrived: u32,
    /// The round trip.
    pub trip: Duration,
}

/// The rate of a group.
#[derive(Clone, Debug)]
pub struct EquationRate {
    /// By index.
    receivers: Vec<Receiver>,
    /// Packets a second that each may be sent, of those of whom something is known.
    lowest: LowestOf,
    /// Packets a second now.
    rate: Option<f64>,
    /// When the limiting receiver was heard last.
    heard: Time,
    /// Bits of a packet.
    packet: f64,
}

/// What is known of one.
#[derive(Clone, Debug, Default)]
struct Receiver {
    intervals: LossIntervals,
    sent: u64,
    arrived: u64,
    /// The greatest number of packets that were missing so far.
    lost: u64,
    trip: Option<Duration>,
    /// When it was heard last.
    at: Option<Time>,
    /// What it counts with among the others.
    share: Option<u64>,
}

impl EquationRate {
    /// For so many receivers and packets of so many bytes.
    pub fn new(receivers: usize, packet: usize) -> Self {
        EquationRate {
            receivers: vec![Receiver::default(); receivers],
            lowest: LowestOf::default(),
            rate: None,
            heard: Time::ZERO,
            packet: packet as f64 * 8.0,
        }
    }

    /// A receiver answers.
    pub fn on_answer(&mut self, now: Time, index: usize, heard: Heard) {
        let receiver = &mut self.receivers[index];
        let step = heard.arrived.wrapping_sub(receiver.arrived as u32);
        // An older answer overtaken by a newer one counts backwards.
        if step > u32::MAX / 2 || heard.sent < receiver.sent {
            return;
        }
        let trip = heard.trip.max(LEAST_TRIP);
        let smoothed = receiver.trip.map_or(trip, |mean| mean * 9 / 10 + trip / 10);
        receiver.trip = Some(smoothed);
        let sent = heard.sent - receiver.sent;
        (receiver.sent, receiver.arrived) = (heard.sent, receiver.arrived + u64::from(step));
        let missing = receiver.sent.saturating_sub(receiver.arrived);
        let lost = missing.saturating_sub(receiver.lost);
        receiver.lost = receiver.lost.max(missing);
        let span = receiver.at.replace(now).map(|at| now.since(at).as_secs_f64());
        let received = span.filter(|span| *span > 0.0).map(|span| f64::from(step) / span);
        let seconds = smoothed.as_secs_f64();
        // As RFC 4654, 2.5.3: half of what came when the first was lost.
        let first = || 1.0 / loss_for((received.unwrap_or(0.0) / 2.0 * seconds).max(0.5));
        receiver.intervals.note(now, sent, lost, smoothed, first);
        let loss = receiver.intervals.rate();
        let share =
            if loss > 0.0 { Some(packets_a_trip(loss) / seconds) } else { received.map(|rate| 2.0 * rate) };
        let Some(share) = share.map(|share| share.max(LEAST)) else { return };
        self.place(index, Some(share as u64));
        self.follow(now, index, share, loss > 0.0);
    }

    /// It has not answered in time. If all wait for it the rate is halved.
    pub fn on_silence(&mut self, index: usize) {
        if self.limiting() == Some(index) {
            self.rate = self.rate.map(|rate| (rate / 2.0).max(LEAST));
        }
    }

    /// It is gone.
    pub fn remove(&mut self, index: usize) {
        self.place(index, None);
    }

    /// Who has the least.
    pub fn limiting(&self) -> Option<usize> {
        self.lowest.get().map(|(_, index)| index)
    }

    fn place(&mut self, index: usize, share: Option<u64>) {
        match (std::mem::replace(&mut self.receivers[index].share, share), share) {
            (Some(before), Some(share)) => self.lowest.change(index, before, share),
            (Some(before), None) => self.lowest.remove(index, before),
            (None, Some(share)) => self.lowest.insert(index, share),
            (None, None) => {}
        }
    }

    fn follow(&mut self, now: Time, index: usize, share: f64, has_lost: bool) {
        let rate = self.rate.unwrap_or(share);
        if share <= rate {
            (self.rate, self.heard) = (Some(share), now);
        } else if self.limiting() == Some(index) {
            let trip = self.receivers[index].trip.unwrap_or(LEAST_TRIP).as_secs_f64();
            let trips = (now.since(self.heard).as_secs_f64() / trip).min(1.0);
            // A packet a round trip more in each; before anything was lost at once.
            let more = if has_lost { trips / trip } else { f64::INFINITY };
            (self.rate, self.heard) = (Some(share.min(rate + more)), now);
        }
    }
}

impl RateControl for EquationRate {
    fn rate(&self) -> Option<BitRate> {
        BitRate::new((self.rate? * self.packet) as u64)
    }
}

/// Packets a second, at least.
const LEAST: f64 = 10.0;
/// A round trip takes this long, at least: what a clock and a process add.
const LEAST_TRIP: Duration = Duration::from_micros(100);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn it_is_what_the_equation_says() {
        // RFC 5348 gives no table; by hand: sqrt(2p/3) = 0.0816 and 12 sqrt(3p/8) p (1 + 32 p^2) = 0.00737 at 1 %.
        assert!((packets_a_trip(0.01) - 11.23).abs() < 0.02, "{}", packets_a_trip(0.01));
    }

    /// A bottleneck that carries so many packets a second: everything beyond is lost. Returns the mean rate of the second half.
    fn through(carries: f64, losses: &[f64], trip: Duration, seconds: u64) -> f64 {
        let mut control = EquationRate::new(losses.len(), 1000);
        let (mut sent, mut arrived) = (0.0, vec![0.0; losses.len()]);
        let (mut now, mut sum, mut steps) = (Time::ZERO, 0.0, 0.0);
        let end = Time::ZERO + Duration::from_secs(seconds);
        let mut rng = carillon_core::Seeds::new(1).stream("losses");
        while now < end {
            now += trip;
            let rate = control.rate().map_or(100.0, |rate| rate.bps() as f64 / 8000.0);
            let packets = rate * trip.as_secs_f64();
            sent += packets;
            for (index, &loss) in losses.iter().enumerate() {
                let through = packets.min(carries * trip.as_secs_f64());
                let lost = (0..through as u64).filter(|_| rng.unit() < loss).count() as f64;
                arrived[index] += through - lost;
                let (sent, arrived) = (sent as u64, arrived[index] as u64 as u32);
                control.on_answer(now, index, Heard { sent, arrived, trip });
            }
            if now > Time::ZERO + Duration::from_secs(seconds / 2) {
                (sum, steps) = (sum + rate, steps + 1.0);
            }
        }
        sum / steps
    }

    #[test]
    fn it_fills_a_bottleneck_that_drops_what_is_beyond() {
        let rate = through(2000.0, &[0.0], Duration::from_millis(50), 60);
        assert!((1400.0..2100.0).contains(&rate), "{rate}");
    }

    #[test]
    fn the_worst_receiver_decides_as_tcp_would_there() {
        let trip = Duration::from_millis(50);
        let rate = through(1e9, &[0.0001, 0.02, 0.001], trip, 100);
        let tcp = packets_a_trip(0.02) / 0.05;
        assert!(rate > tcp / 2.0 && rate < tcp * 2.0, "{rate}, and TCP would have {tcp}");
    }

    #[test]
    fn nobody_is_waited_for_who_is_gone() {
        let mut control = EquationRate::new(2, 1000);
        let trip = Duration::from_millis(10);
        for step in 1..100_u64 {
            let now = Time::ZERO + trip * step as u32;
            for (index, arrived) in [(0, step * 100), (1, step * 5)] {
                control.on_answer(now, index, Heard { sent: step * 100, arrived: arrived as u32, trip });
            }
        }
        assert_eq!(control.limiting(), Some(1));
        control.remove(1);
        assert_eq!(control.limiting(), Some(0));
    }

    proptest! {
        #[test]
        fn more_loss_is_never_worth_more(loss in 1e-6..0.9_f64, more in 1.0001..2.0_f64) {
            prop_assert!(packets_a_trip(loss * more) < packets_a_trip(loss));
            let back = loss_for(packets_a_trip(loss));
            prop_assert!((back / loss - 1.0).abs() < 1e-6, "{back} of {loss}");
        }

        #[test]
        fn it_never_panics_and_never_jumps_up_once_something_was_lost(
            answers in prop::collection::vec((0..3_usize, 0..2000_u64, 0..2000_u32, 1..300_u64, 0..100_u64), 1..200)
        ) {
            let mut control = EquationRate::new(3, 1000);
            let (mut now, mut sent, mut arrived) = (Time::ZERO, 0, [0_u32; 3]);
            for (index, more, came, trip, pause) in answers {
                now += Duration::from_millis(pause);
                sent += more;
                arrived[index] = arrived[index].wrapping_add(came);
                let (before, trip) = (control.rate, Duration::from_millis(trip));
                control.on_answer(now, index, Heard { sent, arrived: arrived[index], trip });
                let has_lost = control.receivers[index].intervals.rate() > 0.0;
                if let (Some(before), Some(after), true) = (before, control.rate, has_lost) {
                    let trip = control.receivers[index].trip.unwrap().as_secs_f64();
                    prop_assert!(after <= before + 1.0 / trip + 1e-9, "{before} to {after}");
                }
            }
        }
    }
}
