//! Record of the answers of one receiver: packets arrived and lost, and round-trip times.

use std::time::Duration;

use carillon_core::Time;

use super::windowed::Windowed;

/// Answers of one receiver, as far as every controller needs them.
#[derive(Clone, Debug)]
pub struct PathRecord {
    /// Last report of the receiver: packets arrived, and when.
    last: Mark,
    /// Number of packets that are confirmed as lost.
    lost: u64,
    /// Packets that are missing beyond these, which may only be late.
    suspected: Option<Suspicion>,
    /// Loss rate, smoothed over `SMOOTHING_PACKETS`, and the number of packets that it covers.
    loss: (f64, f64),
    /// Minimum of the recent round-trip times in seconds, negated.
    least: Windowed,
    /// EWMA of the round-trip time in excess of the minimum, in seconds.
    queued: f64,
}

/// Number of packets that had reached a receiver at some time, as far as the sender knew, and the number sent.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    arrived: u64,
    serial: u64,
    /// Time of the poll, and of its answer.
    asked: Time,
    at: Option<Time>,
}

/// Packets missing at an answer, until later answers confirm that they are lost.
#[derive(Clone, Copy, Debug)]
struct Suspicion {
    /// Number of packets sent up to the poll of the first answer that showed it.
    sent: u64,
    /// Minimum number of missing packets since.
    missing: u64,
}

/// Answer to a poll.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    /// Time of the poll.
    pub asked: Time,
    /// State of the record when the poll was sent.
    pub then: Mark,
    /// Number of packets sent up to the poll.
    pub serial: u64,
    /// Number of packets sent since the poll.
    pub since: u64,
    /// Packets that have reached the receiver, modulo 2^32.
    pub arrived: u32,
}

/// Measurement from the answer to a poll, compared with earlier answers.
#[derive(Clone, Copy, Debug)]
pub struct Acknowledgment {
    /// Time of the poll.
    pub asked: Time,
    /// Time from the poll to its answer.
    pub round_trip: Duration,
    /// Number of packets sent up to the poll.
    pub sent: u64,
    /// Number of these that arrived.
    pub arrived: u64,
    /// Number of packets sent since the poll.
    pub since: u64,
    /// Number of packets that arrived since the previous answer.
    pub newly_arrived: u64,
    /// Number of packets confirmed as lost since the previous answer: packets missing at an earlier answer too, if its
    /// poll left at least three packets before this one. So reordering by fewer packets is no loss (RFC 5681, section
    /// 3.2).
    pub newly_lost: u64,
    /// Number of packets sent up to the poll that showed these losses first; 0 without losses.
    pub lost_up_to: u64,
    /// Packets sent, and arrived, over about a round trip: since the answer that was the last one when the poll was
    /// sent.
    pub over_round_trip: (u64, u64),
    /// Longer of the times in which these packets were sent and arrived.
    pub span: Duration,
}

/// Estimate of the path to a receiver.
#[derive(Clone, Copy, Debug)]
pub struct PathEstimate {
    /// Congestion window in packets.
    pub window: u64,
    /// Smoothed loss rate.
    pub loss: f64,
    /// Minimum round-trip time, without queues; none before the first sample.
    pub round_trip: Option<Duration>,
    /// Smoothed time that a poll and its answer wait in queues.
    pub queued: Duration,
}

impl Acknowledgment {
    /// Number of packets in flight just before the answer.
    pub fn in_flight(&self) -> u64 {
        self.since.saturating_add(self.newly_arrived)
    }

    /// Delivery rate in packets per second (Cheng et al., *Delivery Rate Estimation*); none if it covers no time.
    pub fn delivery_rate(&self) -> Option<f64> {
        let span = self.span.as_secs_f64();
        (span > 0.0).then(|| self.over_round_trip.1 as f64 / span)
    }
}

impl Default for PathRecord {
    fn default() -> Self {
        PathRecord {
            last: Mark { arrived: 0, serial: 0, asked: Time::ZERO, at: None },
            lost: 0,
            suspected: None,
            loss: (0.0, 0.0),
            least: Windowed::default(),
            queued: 0.0,
        }
    }
}

impl PathRecord {
    /// Present state, to be kept with a poll.
    pub fn mark(&self) -> Mark {
        self.last
    }

    /// Number of packets sent when the poll left that was answered last.
    pub fn answered(&self) -> u64 {
        self.last.serial
    }

    /// Packets sent and arrived as of the last answer; none before the first.
    pub fn counts(&self) -> Option<(u64, u64)> {
        self.last.at.map(|_| (self.last.serial, self.last.arrived))
    }

    /// Smoothed loss rate.
    pub fn loss(&self) -> f64 {
        self.loss.0
    }

    /// Estimate of the path with this window.
    pub fn estimate(&self, window: u64) -> PathEstimate {
        PathEstimate {
            window,
            loss: self.loss.0,
            round_trip: Duration::try_from_secs_f64(-self.least.greatest()).ok(),
            queued: Duration::try_from_secs_f64(self.queued).unwrap_or_default(),
        }
    }

    /// Adds an answer. Returns its measurement; none if a newer answer has overtaken it.
    pub fn on_answer(&mut self, now: Time, answer: Answer) -> Option<Acknowledgment> {
        let Answer { asked, then, serial, since, arrived } = answer;
        let step = arrived.wrapping_sub(self.last.arrived as u32);
        // A step beyond half of the range is a negative one.
        if step > u32::MAX / 2 {
            return None;
        }
        self.last = Mark { arrived: self.last.arrived + u64::from(step), serial, asked, at: Some(now) };
        let (newly_lost, lost_up_to) = self.confirm_losses(serial);
        // Measure over at least a round trip, so that answers in a burst do not look like a fast path, and over at
        // least the distance between polls, so that a late answer does not.
        let span = now.since(then.at.unwrap_or(asked).min(asked));
        let span = then.at.map_or(span, |_| span.max(asked.since(then.asked)));
        let acknowledgment = Acknowledgment {
            asked,
            round_trip: now.since(asked),
            sent: serial,
            arrived: self.last.arrived,
            since,
            newly_arrived: step.into(),
            newly_lost,
            lost_up_to,
            over_round_trip: (serial.saturating_sub(then.serial), self.last.arrived - then.arrived),
            span,
        };
        self.note(now, &acknowledgment);
        Some(acknowledgment)
    }

    /// Number of packets that an answer to a poll after `serial` packets confirms as lost, and the number sent when the
    /// poll left that showed them first.
    fn confirm_losses(&mut self, serial: u64) -> (u64, u64) {
        let missing = serial.saturating_sub(self.last.arrived);
        let suspicion =
            self.suspected.map(|first| Suspicion { missing: first.missing.min(missing), ..first });
        let confirmed = suspicion.filter(|first| serial >= first.sent.saturating_add(REORDERING));
        // Late packets only lower the number of missing packets, so each loss counts once.
        let newly_lost = confirmed.map_or(0, |first| first.missing.saturating_sub(self.lost));
        self.lost += newly_lost;
        let lost_up_to = confirmed.filter(|_| newly_lost > 0).map_or(0, |first| first.sent);
        // A suspicion that is decided makes room for the next one.
        let open = suspicion.filter(|first| confirmed.is_none() && first.missing > self.lost);
        let next = (missing > self.lost).then_some(Suspicion { sent: serial, missing });
        self.suspected = open.or(next);
        (newly_lost, lost_up_to)
    }

    /// Updates the averages.
    fn note(&mut self, now: Time, acknowledgment: &Acknowledgment) {
        let (sent, came) = acknowledgment.over_round_trip;
        let round_trip = acknowledgment.round_trip.as_secs_f64();
        self.least.note(now, -round_trip, MIN_ROUND_TRIP_MEMORY);
        self.queued += (round_trip + self.least.greatest() - self.queued) * QUEUEING_DELAY_GAIN;
        if sent > 0 {
            let (loss, packets) = self.loss;
            let packets = (packets + sent as f64).min(SMOOTHING_PACKETS.max(sent as f64));
            let rate = (1.0 - came as f64 / sent as f64).clamp(0.0, 1.0);
            self.loss = (loss + sent as f64 / packets * (rate - loss), packets);
        }
    }
}

/// Number of packets after a missing one that show its loss, as the three duplicate acknowledgments of TCP.
const REORDERING: u64 = 3;
/// Number of packets over which the loss rate is smoothed.
const SMOOTHING_PACKETS: f64 = 256.0;
/// Time for which the minimum round-trip time is remembered.
const MIN_ROUND_TRIP_MEMORY: Duration = Duration::from_secs(10);
/// Gain of the EWMA of the queueing delay.
const QUEUEING_DELAY_GAIN: f64 = 0.125;

#[cfg(test)]
mod tests {
    use super::*;

    /// Losses that each answer confirms. An answer has the number of packets sent up to its poll, and the number of
    /// arrived ones.
    fn losses(answers: &[(u64, u32)]) -> Vec<(u64, u64)> {
        let mut record = PathRecord::default();
        let mut of = |now: u64, serial, arrived| {
            let (asked, then) = (Time::from_nanos(now), record.mark());
            let answer = Answer { asked, then, serial, since: 0, arrived };
            let found = record.on_answer(Time::from_nanos(now + 1000), answer).expect("it is the newest");
            (found.newly_lost, found.lost_up_to)
        };
        (0..).zip(answers).map(|(now, &(serial, arrived))| of(now * 1000, serial, arrived)).collect()
    }

    /// RFC 5681, section 3.2: three packets later.
    #[test]
    fn loss_is_confirmed_by_answer_three_packets_later() {
        assert_eq!(losses(&[(10, 8), (12, 10), (13, 11), (20, 18)]), [(0, 0), (0, 0), (2, 10), (0, 0)]);
    }

    #[test]
    fn late_packets_are_no_loss() {
        // Polls overtake two packets, which then arrive.
        assert_eq!(losses(&[(10, 8), (14, 14), (20, 18), (30, 30)]), [(0, 0); 4]);
    }

    #[test]
    fn later_losses_are_confirmed_apart() {
        assert_eq!(losses(&[(10, 9), (20, 17), (30, 27)]), [(0, 0), (1, 10), (2, 20)]);
    }
}
