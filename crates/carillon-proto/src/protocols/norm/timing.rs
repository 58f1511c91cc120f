//! Times that the sender announces, at a receiver.

use std::time::Duration;

use carillon_core::{BuildContext, Config, Draws, Time};
use carillon_wire::norm::{SenderState, Stamp, decode_group_size, decode_grtt};

use super::grtt::random_backoff;

/// Times that the sender announces.
#[derive(Debug)]
pub(super) struct Timing {
    /// Greatest round-trip time of the group.
    pub grtt: Duration,
    /// Back-off factor K.
    pub backoff: u32,
    group_size: u64,
    /// Time in the last probe, and when it arrived.
    probe: Option<(Stamp, Time)>,
    draws: Draws,
    /// Random waits before answers to probes.
    feedback: Draws,
}

/// Timers of a receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// End of the back-off or of the hold-off.
    Request,
    /// The sender has been silent.
    Inactivity,
    /// End of the wait before the answer to a probe.
    Feedback,
}

impl Timing {
    /// Times in the settings, until the sender announces others.
    pub fn new(build: &BuildContext, settings: &Config) -> Timing {
        Timing {
            grtt: settings.span("grtt").at(build.bit_rate),
            backoff: settings.count("backoff_factor") as u32,
            group_size: settings.count("group_size"),
            probe: None,
            draws: build.seeds.draws("norm.backoff"),
            feedback: build.seeds.draws("norm.feedback"),
        }
    }

    /// Records the state of the sender in any of its packets.
    pub fn on_sender(&mut self, state: SenderState) {
        self.grtt = decode_grtt(state.grtt);
        self.backoff = state.backoff.into();
        self.group_size = decode_group_size(state.group_size);
    }

    /// Records a probe.
    pub fn on_probe(&mut self, now: Time, sent: Stamp) {
        self.probe = Some((sent, now));
    }

    /// Answer to the last probe: its time, later by the time that the receiver held it.
    pub fn echo(&self, now: Time) -> Stamp {
        let Some((sent, arrived)) = self.probe else { return Stamp::default() };
        let micros = u64::from(sent.microseconds) + now.since(arrived).as_micros() as u64;
        Stamp {
            seconds: sent.seconds.wrapping_add((micros / 1_000_000) as u32),
            microseconds: (micros % 1_000_000) as u32,
        }
    }

    /// Time without a packet after which the sender counts as silent.
    pub fn inactivity(&self) -> Duration {
        (40 * self.grtt).max(MIN_SILENCE)
    }

    /// Time without a packet after which a receiver considers whether its source has ended. A long round-trip time
    /// must not delay that.
    pub fn silence(&self, end_wait: Duration) -> Duration {
        self.inactivity().min(end_wait.max(MIN_SILENCE))
    }

    /// Draws a random wait before a NACK. Returns it and the longest one.
    pub fn draw_wait(&mut self) -> (Duration, Duration) {
        let longest = self.backoff * self.grtt;
        (self.draws.with(|rng| random_backoff(longest, self.group_size, rng)), longest)
    }

    /// Draws a random wait before the answer to a probe.
    pub fn draw_feedback_wait(&mut self) -> Duration {
        self.feedback.with(|rng| random_backoff(self.backoff * self.grtt, self.group_size, rng))
    }
}

/// Shortest time without a packet after which the sender counts as silent.
const MIN_SILENCE: Duration = Duration::from_secs(1);
