//! State of a receiver of a source with congestion control (PGMCC): its loss rate, and acknowledgments of the acker.

use std::net::IpAddr;
use std::time::Duration;

use carillon_core::Time;
use carillon_wire::pgm::LossReport;

use crate::blocks::congestion::LOSS_GAIN;

/// Reception of original data, for the source.
#[derive(Debug)]
pub(super) struct Feedback {
    /// Loss rate, by an EWMA over packets (draft-ietf-rmt-bb-pgmcc-03, section 2.6).
    loss: f64,
    /// Number after the newest packet.
    end: u64,
    /// Packets that arrived; bit n stands for the packet `end` - 1 - n.
    arrived: u32,
    /// Timestamp of the newest packet, and the time of its arrival.
    timestamp: (u32, Time),
    /// True if an acknowledgment is due.
    ack_due: bool,
    /// End of the wait before this receiver proposes itself as acker.
    proposal: Option<Time>,
}

impl Feedback {
    /// Creates the state of a receiver with this original packet as its first one.
    pub fn starting_at(number: u64) -> Self {
        let timestamp = (0, Time::ZERO);
        Feedback { loss: 0.0, end: number, arrived: 0, timestamp, ack_due: false, proposal: None }
    }

    /// Records an original packet. Packets between it and the newest one count as lost.
    pub fn on_packet(&mut self, now: Time, number: u64, timestamp_ms: u32) {
        if number < self.end {
            // Late packets stay in the loss rate.
            let bit = self.end - 1 - number;
            self.arrived |= if bit < 32 { 1 << bit } else { 0 };
            return;
        }
        let missing = number - self.end;
        self.loss = 1.0 - (1.0 - self.loss) * libm::pow(1.0 - LOSS_GAIN, missing as f64);
        self.loss *= 1.0 - LOSS_GAIN;
        self.arrived = if missing < 31 { self.arrived << (missing + 1) | 1 } else { 1 };
        self.end = number + 1;
        self.timestamp = (timestamp_ms, now);
    }

    /// Handles the acker that an original packet names. Every receiver that is not told of an acker proposes itself
    /// after a random `wait`.
    pub fn on_acker(&mut self, now: Time, acker: IpAddr, own: IpAddr, wait: Duration) {
        if !acker.is_unspecified() {
            self.proposal = None;
            self.ack_due |= acker == own;
        } else if self.proposal.is_none() && !self.ack_due {
            self.proposal = Some(now + wait);
            self.on_time(now);
        }
    }

    /// Takes the acknowledgment that is due: the newest packet, and the bitmap of the packets that arrived.
    pub fn take_acknowledgment(&mut self) -> Option<(u64, u32)> {
        std::mem::take(&mut self.ack_due).then_some((self.end - 1, self.arrived))
    }

    /// Loss rate with the timestamp of the newest packet, moved on by the time since.
    pub fn report(&self, now: Time, receiver: IpAddr) -> LossReport {
        let (timestamp, since) = self.timestamp;
        let elapsed = now.since(since).as_millis() as u32;
        let loss = (self.loss * 65_536.0).min(65_535.0) as u16;
        LossReport { timestamp_ms: timestamp.wrapping_add(elapsed), loss, receiver }
    }

    /// Starts an acknowledgment if the wait before it is over.
    pub fn on_time(&mut self, now: Time) {
        if self.proposal.is_some_and(|at| at <= now) {
            (self.proposal, self.ack_due) = (None, true);
        }
    }

    pub fn next_timeout(&self) -> Option<Time> {
        self.proposal
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Section 2.6: a lost packet adds the gain, and each packet takes its share.
    #[test]
    fn loss_rate_is_weighted_mean_over_packets() {
        let mut feedback = Feedback::starting_at(5);
        let now = Time::ZERO;
        feedback.on_packet(now, 5, 0);
        assert_eq!((feedback.loss, feedback.arrived), (0.0, 0b1));
        feedback.on_packet(now, 8, 0);
        let twice = 1.0 - (1.0 - LOSS_GAIN) * (1.0 - LOSS_GAIN);
        assert!((feedback.loss - twice * (1.0 - LOSS_GAIN)).abs() < 1e-12);
        assert_eq!((feedback.end, feedback.arrived), (9, 0b1001));
        // A late packet is in the bitmap.
        feedback.on_packet(now, 7, 0);
        assert_eq!((feedback.end, feedback.arrived), (9, 0b1011));
        feedback.on_packet(now, 1000, 0);
        assert_eq!((feedback.end, feedback.arrived), (1001, 1));
        for number in (1003..20_000).step_by(2) {
            feedback.on_packet(now, number, 0);
        }
        assert!((feedback.loss - 0.5).abs() < 0.01);
    }
}
