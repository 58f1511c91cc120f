//! The packets a receiver misses, and how far it is with asking for each: RFC 3208, section 6.4.

use std::time::Duration;

use carillon_core::Time;

use crate::blocks::{Expired, FeedbackDelay, RequestSchedule, Stage, Tries, Uniform};

/// The waits of a request: for others, for its confirmation (NCF), and for the repair.
#[derive(Debug)]
pub(super) struct Waits {
    pub(super) back_off: Uniform,
    pub(super) ncf: Duration,
    pub(super) data: Duration,
}

/// The packets missed.
#[derive(Debug)]
pub(super) struct Missing {
    waits: Waits,
    requests: RequestSchedule<u64>,
}

impl Missing {
    /// None; requests have these waits, and each may end in vain so often.
    pub(super) fn new(waits: Waits, tries: Tries) -> Self {
        Missing { waits, requests: RequestSchedule::new(tries) }
    }

    /// Packets found missing at once back off together, so that one request can name them all.
    pub(super) fn add(&mut self, now: Time, numbers: impl IntoIterator<Item = u64>) {
        let mut wait = None;
        for number in numbers {
            let wait = *wait.get_or_insert_with(|| self.waits.back_off.delay(0, 0.0));
            self.requests.begin(now, number, wait, ());
        }
    }

    /// A packet is missed no more; whether it was.
    pub(super) fn remove(&mut self, number: u64) -> bool {
        self.requests.remove(number).is_some()
    }

    /// The first packet missed before `limit`.
    pub(super) fn first_before(&self, limit: u64) -> Option<u64> {
        self.requests.first().filter(|&number| number < limit)
    }

    /// Somebody confirmed that this packet was asked for: whether that was before this receiver did.
    /// `None` if it is not missed.
    pub(super) fn on_confirmed(&mut self, now: Time, number: u64) -> Option<bool> {
        self.requests.confirm(now, number, self.waits.data)
    }

    /// Somebody else asks for this packet: whether this receiver need not. `None` if it is not missed.
    ///
    /// As in the RFC's diagram, which waits for the NCF as if the request were one's own; its text
    /// waits as if it were confirmed.
    pub(super) fn on_overheard(&mut self, now: Time, number: u64) -> Option<bool> {
        match self.requests.stage(number)? {
            Stage::Confirmed => self.on_confirmed(now, number),
            _ => self.requests.asked(now, number, self.waits.ncf),
        }
    }

    /// This packet is to be asked for now if it is to be asked for at all.
    pub(super) fn hurry(&mut self, now: Time, number: u64) {
        self.requests.hurry(now, number);
    }

    /// All waits that are over end; returns the packets that were asked for too often.
    pub(super) fn expire(&mut self, now: Time) -> Vec<u64> {
        let mut given_up = Vec::new();
        while let Some((number, expired)) = self.requests.expire(now) {
            match expired {
                Expired::Unanswered => {
                    self.requests.back_off(now, number, self.waits.back_off.delay(0, 0.0));
                }
                Expired::GivenUp(()) => given_up.push(number),
                Expired::Due | Expired::Over(()) => {}
            }
        }
        given_up
    }

    /// How each request stands, and when the wait of this stage is over.
    pub(super) fn stages(&self) -> impl Iterator<Item = (u64, Stage, Option<Time>)> {
        self.requests.iter().map(|(number, stage, ends, ())| (number, stage, ends))
    }

    /// When the next wait is over.
    pub(super) fn next_timeout(&self) -> Option<Time> {
        self.requests.next_timeout()
    }

    /// Whether something is to be asked for now.
    pub(super) fn is_due(&self) -> bool {
        self.requests.is_due()
    }

    /// The oldest packet to be asked for now: it is asked for.
    pub(super) fn ask_next(&mut self, now: Time) -> Option<u64> {
        let number = self.requests.take_due()?;
        self.requests.asked(now, number, self.waits.ncf);
        Some(number)
    }
}
