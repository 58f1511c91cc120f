//! What a path is like while nothing stands in its queues.

use std::time::Duration;

use carillon_core::Time;

/// The least round trip of a path, and pauses in which it is looked for.
///
/// Who sends all the time may never see it, since packets of its own, or of others that began before it, stand in queues: when it was not seen
/// for a while, less is sent until a question meets what is left of them (Cardwell et al., *BBR*, 2016, ProbeRTT). Those
/// who share a queue come to pause at the same time, since each sees less than it knew in the pause of another. What is
/// lost without a queue is learned in the same way.
#[derive(Clone, Debug, Default)]
pub struct EmptyPath {
    /// Seconds, once there was one.
    least: Option<f64>,
    /// When it was last seen, or nearly.
    seen: Time,
    pause: Option<Pause>,
}

/// Less is sent.
#[derive(Clone, Copy, Debug)]
struct Pause {
    /// Questions asked from then on meet what others have left in the queues.
    from: Time,
    /// The least round trip since it began.
    least: f64,
    /// Packets that are to go out from then on, for their losses.
    packets: u64,
    /// Packets sent and arrived by then.
    then: Option<(u64, u64)>,
}

/// What a path was found to do with what was sent in a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Packets that were sent,
    pub sent: u64,
    /// and those of them that arrived.
    pub arrived: u64,
}

impl EmptyPath {
    /// The least round trip in seconds; infinite while nothing is known.
    pub fn least(&self) -> f64 {
        self.least.unwrap_or(f64::INFINITY)
    }

    /// Whether less is to be sent than the path holds.
    pub fn is_paused(&self) -> bool {
        self.pause.is_some()
    }

    /// Less is sent from now on, until the losses of so many packets are known. The last round trip took so long.
    pub fn pause(&mut self, now: Time, trip: Duration, packets: u64) {
        self.pause = Some(Pause { from: now + trip, least: f64::INFINITY, packets, then: None });
    }

    /// A question asked then is answered now, so many packets sent and arrived in all; at the end of a pause, what was found.
    pub fn on_answer(&mut self, now: Time, asked: Time, serial: u64, arrived: u64) -> Option<Found> {
        let trip = now.since(asked);
        let seconds = trip.as_secs_f64();
        let Some(pause) = &mut self.pause else {
            let least = self.least();
            if seconds <= least + (least * NEARLY).max(NEAR) {
                (self.least, self.seen) = (Some(seconds.min(least)), now);
            } else if now.since(self.seen).as_secs_f64() >= MEMORY.max(least * MEMORY_TRIPS) {
                self.pause(now, trip, 0);
            }
            return None;
        };
        pause.least = pause.least.min(seconds);
        if asked < pause.from {
            return None;
        }
        let then = *pause.then.get_or_insert((serial, arrived));
        // Answers may overtake each other.
        let sent = serial.saturating_sub(then.0);
        let found = Found { sent, arrived: arrived.saturating_sub(then.1).min(sent) };
        if found.sent < pause.packets {
            return None;
        }
        (self.least, self.seen, self.pause) = (Some(pause.least), now, None);
        Some(found)
    }

    /// It is not looked for as long as nothing is known of the path.
    pub fn put_off(&mut self, now: Time) {
        self.seen = now;
    }
}

/// Seconds, and round trips if they take longer, that it is remembered without being seen: two round trips of half the rate cost a fortieth then.
const MEMORY: f64 = 2.5;
const MEMORY_TRIPS: f64 = 40.0;
/// What counts as seeing it: so much more of it, or so many seconds, which systems take to wake somebody.
const NEARLY: f64 = 0.03;
const NEAR: f64 = 0.000_25;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn what_was_not_seen_for_long_is_looked_for_in_a_pause() {
        let mut path = EmptyPath::default();
        let answer =
            |path: &mut EmptyPath, asked: u64, now: u64| path.on_answer(at(now), at(asked), now, now);
        assert_eq!(answer(&mut path, 0, 20), None);
        assert_eq!(path.least(), 0.020);
        // A queue of 30 ms stands on the path.
        let since = (50..).find(|&now| {
            answer(&mut path, now - 50, now);
            path.is_paused()
        });
        assert_eq!(since, Some(2520), "after two seconds and a half");
        // What was asked before the queue was gone says nothing; what is asked then does.
        for now in 2521..2570 {
            assert_eq!(answer(&mut path, now - 40, now), None);
            assert!(path.is_paused());
        }
        assert_eq!(answer(&mut path, 2570, 2595), Some(Found { sent: 0, arrived: 0 }));
        assert_eq!((path.is_paused(), path.least()), (false, 0.025), "the path has become longer");
    }

    #[test]
    fn the_longer_the_path_the_longer_it_is_remembered() {
        for (trip, until) in [(20, 2520), (600, 24_600)] {
            let mut path = EmptyPath::default();
            path.on_answer(at(trip), at(0), 0, 0);
            let paused = (trip + 100..).find(|&now| {
                path.on_answer(at(now), at(now - trip - 50), now, now);
                path.is_paused()
            });
            // What is nearly as short counts as seen: 18 ms more of 600 do.
            assert!(paused.is_some_and(|now| (until..until + 100).contains(&now)), "{trip}: {paused:?}");
        }
    }

    #[test]
    fn what_is_seen_now_and_then_is_not_looked_for() {
        let mut path = EmptyPath::default();
        for now in 100..10_000 {
            let trip = if now % 2000 == 0 { 20 } else { 70 };
            path.on_answer(at(now), at(now - trip), now, now);
            assert!(!path.is_paused());
        }
        assert_eq!(path.least(), 0.020);
    }

    #[test]
    fn losses_are_learned_from_what_goes_out_once_the_queue_is_gone() {
        let mut path = EmptyPath::default();
        path.pause(at(100), Duration::from_millis(20), 128);
        // Half was lost before, a quarter is lost since.
        assert_eq!(path.on_answer(at(119), at(99), 1000, 500), None);
        assert_eq!(path.on_answer(at(140), at(120), 1010, 505), None);
        assert_eq!(path.on_answer(at(150), at(130), 1110, 580), None);
        assert_eq!(path.on_answer(at(155), at(125), 1005, 585), None, "an older question, answered later");
        assert_eq!(path.on_answer(at(160), at(140), 1150, 610), Some(Found { sent: 140, arrived: 105 }));
    }
}
