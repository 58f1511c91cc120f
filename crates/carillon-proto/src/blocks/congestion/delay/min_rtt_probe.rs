//! Round-trip time of a path without queues, and pauses that measure it.
//!
//! A sender that always transmits may never see the path without a queue, since its own packets and those of older
//! flows stand in it. If the minimum was not seen for a while, the sender pauses until a poll meets an empty queue
//! (ProbeRTT of BBR: Cardwell et al. 2016). Flows that share a queue soon pause together, since each sees a lower
//! round-trip time in the pause of another. The loss without a queue is measured in the same way.

use std::time::Duration;

use carillon_core::Time;

/// Minimum round-trip time of a path, and the pauses in which it is measured.
#[derive(Clone, Debug, Default)]
pub struct MinRttProbe {
    /// Minimum round-trip time in seconds, after the first sample.
    least: Option<f64>,
    /// Time at which the minimum was last seen, or nearly.
    seen: Time,
    /// Pause in progress.
    pause: Option<Pause>,
}

/// A pause with reduced sending.
#[derive(Clone, Copy, Debug)]
struct Pause {
    /// Time from which polls find the queue drained.
    from: Time,
    /// Minimum round-trip time since the pause began, in seconds.
    least: f64,
    /// Number of packets to send after that time to measure their loss.
    packets: u64,
    /// Packets sent and arrived at that time.
    then: Option<(u64, u64)>,
}

/// Loss measured in a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PauseLoss {
    /// Number of packets sent after the queue was drained.
    pub sent: u64,
    /// Number of these that arrived.
    pub arrived: u64,
}

impl MinRttProbe {
    /// Minimum round-trip time in seconds; infinite before the first sample.
    pub fn min_rtt(&self) -> f64 {
        self.least.unwrap_or(f64::INFINITY)
    }

    /// Returns true during a pause.
    pub fn is_paused(&self) -> bool {
        self.pause.is_some()
    }

    /// Begins a pause that lasts until the loss of this many packets is known. `trip` is the last round-trip time.
    pub fn pause(&mut self, now: Time, trip: Duration, packets: u64) {
        // Packets sent before the pause need up to a round trip to leave the queue.
        self.pause = Some(Pause { from: now + trip, least: f64::INFINITY, packets, then: None });
    }

    /// Handles the answer to a poll, with the total of packets sent and arrived. Returns the measured loss at the end
    /// of a pause.
    pub fn on_answer(&mut self, now: Time, asked: Time, serial: u64, arrived: u64) -> Option<PauseLoss> {
        let trip = now.since(asked);
        let seconds = trip.as_secs_f64();
        let Some(pause) = &mut self.pause else {
            let least = self.min_rtt();
            // A sample near the minimum refreshes it. Otherwise pause once it is too old.
            if seconds <= least + (least * RTT_TOLERANCE_SHARE).max(RTT_TOLERANCE_SECONDS) {
                (self.least, self.seen) = (Some(seconds.min(least)), now);
            } else if now.since(self.seen).as_secs_f64()
                >= MIN_PROBE_INTERVAL_SECONDS.max(least * MIN_PROBE_INTERVAL_ROUND_TRIPS)
            {
                self.pause(now, trip, 0);
            }
            return None;
        };
        pause.least = pause.least.min(seconds);
        // This poll still met the old queue. Its round-trip time counts, as it can only be too long, but its loss does
        // not.
        if asked < pause.from {
            return None;
        }
        let then = *pause.then.get_or_insert((serial, arrived));
        // Answers may arrive out of order.
        let sent = serial.saturating_sub(then.0);
        let found = PauseLoss { sent, arrived: arrived.saturating_sub(then.1).min(sent) };
        // Fewer packets would give too rough a loss rate.
        if found.sent < pause.packets {
            return None;
        }
        // The minimum of the pause replaces the old one, so that a longer route is accepted too.
        (self.least, self.seen, self.pause) = (Some(pause.least), now, None);
        Some(found)
    }

    /// Postpones the next pause while nothing is known of the path.
    pub fn postpone(&mut self, now: Time) {
        self.seen = now;
    }
}

/// Interval between pauses in seconds, if the minimum is not seen meanwhile. Two round trips at half the rate then
/// cost a fortieth.
const MIN_PROBE_INTERVAL_SECONDS: f64 = 2.5;
/// Interval between pauses in round trips, if that is longer.
const MIN_PROBE_INTERVAL_ROUND_TRIPS: f64 = 40.0;
/// Tolerance within which a sample counts as the minimum, as a share of it.
const RTT_TOLERANCE_SHARE: f64 = 0.03;
/// Tolerance in seconds, for the time that systems take to wake a process.
const RTT_TOLERANCE_SECONDS: f64 = 0.000_25;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn minimum_not_seen_for_long_causes_pause() {
        let mut path = MinRttProbe::default();
        let answer =
            |path: &mut MinRttProbe, asked: u64, now: u64| path.on_answer(at(now), at(asked), now, now);
        assert_eq!(answer(&mut path, 0, 20), None);
        assert_eq!(path.min_rtt(), 0.020);
        // A queue of 30 ms stands on the path.
        let since = (50..).find(|&now| {
            answer(&mut path, now - 50, now);
            path.is_paused()
        });
        assert_eq!(since, Some(2520), "after two seconds and a half");
        // Polls sent before the queue drained say nothing.
        for now in 2521..2570 {
            assert_eq!(answer(&mut path, now - 40, now), None);
            assert!(path.is_paused());
        }
        assert_eq!(answer(&mut path, 2570, 2595), Some(PauseLoss { sent: 0, arrived: 0 }));
        assert_eq!((path.is_paused(), path.min_rtt()), (false, 0.025), "the path has become longer");
    }

    #[test]
    fn longer_path_is_probed_less_often() {
        for (trip, until) in [(20, 2520), (600, 24_600)] {
            let mut path = MinRttProbe::default();
            path.on_answer(at(trip), at(0), 0, 0);
            let paused = (trip + 100..).find(|&now| {
                path.on_answer(at(now), at(now - trip - 50), now, now);
                path.is_paused()
            });
            // A sample nearly as short counts: 18 ms more than 600 ms do.
            assert!(paused.is_some_and(|now| (until..until + 100).contains(&now)), "{trip}: {paused:?}");
        }
    }

    #[test]
    fn minimum_seen_now_and_then_causes_no_pause() {
        let mut path = MinRttProbe::default();
        for now in 100..10_000 {
            let trip = if now % 2000 == 0 { 20 } else { 70 };
            path.on_answer(at(now), at(now - trip), now, now);
            assert!(!path.is_paused());
        }
        assert_eq!(path.min_rtt(), 0.020);
    }

    #[test]
    fn pause_measures_loss_after_queue_drained() {
        let mut path = MinRttProbe::default();
        path.pause(at(100), Duration::from_millis(20), 128);
        // Half was lost before the pause, and a quarter in it.
        assert_eq!(path.on_answer(at(119), at(99), 1000, 500), None);
        assert_eq!(path.on_answer(at(140), at(120), 1010, 505), None);
        assert_eq!(path.on_answer(at(150), at(130), 1110, 580), None);
        assert_eq!(path.on_answer(at(155), at(125), 1005, 585), None, "an older question, answered later");
        assert_eq!(path.on_answer(at(160), at(140), 1150, 610), Some(PauseLoss { sent: 140, arrived: 105 }));
    }
}
