//! Requests that a network element or the source confirms by an NCF: RFC 3208, section 6.4.

use std::time::Duration;

use carillon_core::Time;

use super::{Expired, FeedbackDelay, RequestSchedule, Stage, Tries, Uniform};

/// Waits of a request: for others, for its confirmation (NCF), and for the repair.
#[derive(Debug)]
pub struct Waits {
    /// Random back-off before a request: another receiver may send it meanwhile.
    pub back_off: Uniform,
    /// Wait from the request to its confirmation.
    pub ncf: Duration,
    /// Wait from the confirmation to the repair.
    pub data: Duration,
}

/// State of the requests for missing packets.
#[derive(Debug)]
pub struct ConfirmedRequests {
    /// Durations of the waits.
    waits: Waits,
    /// Requests by packet, one for each that is missing.
    requests: RequestSchedule<u64>,
}

impl ConfirmedRequests {
    /// Creates an empty set. Each request has these waits, and each wait may expire as often as `tries` permits.
    pub fn new(waits: Waits, tries: Tries) -> Self {
        ConfirmedRequests { waits, requests: RequestSchedule::new(tries) }
    }

    /// Adds missing packets. Packets found missing together share one back-off, so that one request can name them
    /// all.
    pub fn add(&mut self, now: Time, numbers: impl IntoIterator<Item = u64>) {
        let mut wait = None;
        for number in numbers {
            let wait = *wait.get_or_insert_with(|| self.waits.back_off.delay(0, 0.0));
            self.requests.begin(now, number, wait, ());
        }
    }

    /// Random back-off, for feedback that is not about a missing packet.
    pub fn random_wait(&mut self) -> Duration {
        self.waits.back_off.delay(0, 0.0)
    }

    /// Removes a packet that is no longer missing. Returns true if it was.
    pub fn remove(&mut self, number: u64) -> bool {
        self.requests.remove(number).is_some()
    }

    /// First missing packet before `limit`.
    pub fn first_before(&self, limit: u64) -> Option<u64> {
        self.requests.first().filter(|&number| number < limit)
    }

    /// Records the confirmation of a request. Returns true if it came before this receiver's own request; `None` if
    /// the packet is not missing.
    pub fn on_confirmed(&mut self, now: Time, number: u64) -> Option<bool> {
        self.requests.confirm(now, number, self.waits.data)
    }

    /// Records the request of another receiver. Returns true if this receiver need not send its own; `None` if the
    /// packet is not missing.
    ///
    /// The RFC's diagram waits for the NCF as if the request were one's own, and its text as if it were confirmed.
    /// This follows the diagram.
    pub fn on_overheard(&mut self, now: Time, number: u64) -> Option<bool> {
        match self.requests.stage(number)? {
            // A request after the confirmation restarts the wait for the repair, as a further NCF would.
            Stage::Confirmed => self.on_confirmed(now, number),
            // This receiver waits as if it had sent the request itself.
            _ => self.requests.asked(now, number, self.waits.ncf),
        }
    }

    /// Ends the back-off of this packet, if it waits for one.
    pub fn end_back_off(&mut self, now: Time, number: u64) {
        self.requests.end_back_off(now, number);
    }

    /// Expires all waits. Returns the packets that were requested too often.
    pub fn expire(&mut self, now: Time) -> Vec<u64> {
        let mut given_up = Vec::new();
        while let Some((number, expired)) = self.requests.expire(now) {
            match expired {
                // Each repetition has a random back-off of its own, so that receivers do not repeat in step.
                Expired::Unanswered => {
                    self.requests.back_off(now, number, self.waits.back_off.delay(0, 0.0));
                }
                Expired::Abandoned(()) => given_up.push(number),
                // `next_request` takes due requests. There is no hold-down here: a packet that arrives is removed.
                Expired::Due | Expired::Over(()) => {}
            }
        }
        given_up
    }

    /// State of each request, and the end of its present wait.
    pub fn stages(&self) -> impl Iterator<Item = (u64, Stage, Option<Time>)> {
        self.requests.iter().map(|(number, stage, ends, ())| (number, stage, ends))
    }

    /// End of the next wait.
    pub fn next_timeout(&self) -> Option<Time> {
        self.requests.next_timeout()
    }

    /// Returns true if a request is due.
    pub fn is_due(&self) -> bool {
        self.requests.is_due()
    }

    /// Takes the oldest packet to request now, and starts the wait for its confirmation.
    pub fn next_request(&mut self, now: Time) -> Option<u64> {
        let number = self.requests.take_due()?;
        self.requests.asked(now, number, self.waits.ncf);
        Some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use carillon_core::Seeds;

    fn requests(unconfirmed: u32, unrepaired: u32) -> ConfirmedRequests {
        let ms = Duration::from_millis;
        let back_off = Uniform::new(ms(10), &Seeds::new(1), "confirmed-requests");
        let waits = Waits { back_off, ncf: ms(20), data: ms(50) };
        ConfirmedRequests::new(waits, Tries { unconfirmed, unrepaired })
    }

    fn at(millis: u64) -> Time {
        Time::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn losses_found_together_are_requested_together() {
        let mut requests = requests(10, 10);
        requests.add(at(0), [3, 4, 9]);
        assert!(requests.next_timeout().is_some_and(|due| due <= at(10)));
        assert!(requests.expire(at(10)).is_empty());
        let asked: Vec<u64> = std::iter::from_fn(|| requests.next_request(at(10))).collect();
        assert_eq!((asked, requests.is_due()), (vec![3, 4, 9], false));
        assert_eq!(requests.next_timeout(), Some(at(30)), "until it is confirmed");
    }

    #[test]
    fn requested_or_confirmed_packet_is_suppressed() {
        let mut requests = requests(10, 10);
        requests.add(at(0), [1, 2]);
        assert_eq!(
            (requests.on_overheard(at(0), 1), requests.on_confirmed(at(0), 2)),
            (Some(true), Some(true))
        );
        assert_eq!((requests.on_overheard(at(0), 3), requests.on_confirmed(at(0), 3)), (None, None));
        assert!(requests.expire(at(19)).is_empty() && !requests.is_due());
        assert!(requests.remove(1) && requests.remove(2) && !requests.remove(1));
        assert_eq!(requests.next_timeout(), None);
    }

    #[test]
    fn each_packet_is_repaired_or_abandoned() {
        let mut rng = Seeds::new(1).stream("missing");
        let (mut requests, mut missing) = (requests(3, 3), std::collections::BTreeSet::new());
        for (round, now) in (0..4_000u64).map(|round| (round, at(round))) {
            if round < 3_000 && rng.below(3) == 0 {
                requests.add(now, [round]);
                missing.insert(round);
            }
            let any = round.saturating_sub(rng.below(60));
            match rng.below(5) {
                0 => assert_eq!(requests.remove(any), missing.remove(&any)),
                1 => assert_eq!(requests.on_confirmed(now, any).is_some(), missing.contains(&any)),
                2 => requests.end_back_off(now, any),
                _ => {}
            }
            while let Some(asked) = requests.next_request(now) {
                assert!(missing.contains(&asked));
            }
            for given_up in requests.expire(now) {
                assert!(missing.remove(&given_up));
            }
            assert_eq!(requests.first_before(u64::MAX), missing.first().copied());
        }
        assert_eq!((missing.len(), requests.next_timeout()), (0, None), "time ends all of them");
    }
}
