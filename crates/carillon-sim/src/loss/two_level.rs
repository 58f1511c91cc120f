//! Two-level loss: a slow process of congestion, and short bursts within each of its levels.
//!
//! Losses on the Internet are correlated for about a second, and their rate changes over minutes (Yajnik, Moon,
//! Kurose, Towsley 1999, "Measurement and modelling of the temporal dependence in packet loss"). The model of Clark
//! 2001 ("Modeling the effects of burst packet loss and recency on subjective voice quality") alternates between
//! periods of high and of low loss, each with states for received and lost packets. RFC 3611, section 4.7.2, measures
//! these periods. They are the upper level here, the two states the lower one.
//!
//! Unlike in Clark's chain, periods last a random time instead of a random number of packets: congestion by other
//! traffic does not depend on the studied protocol, and every protocol meets the same periods.

use std::time::Duration;

use carillon_core::{Probability, Rng, Time};

/// Parameters of a two-level loss.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TwoLevel {
    /// Loss rate in calm periods.
    pub calm: Probability,
    /// Loss rate in congested periods.
    pub congested: Probability,
    /// Mean duration of a calm period; durations are exponentially distributed.
    pub calm_time: Duration,
    /// Mean duration of a congested period.
    pub congested_time: Duration,
    /// Mean number of consecutive losses within a period; `None` for independent losses.
    pub burst: Option<f64>,
}

impl TwoLevel {
    /// Shortest mean duration of a period, so that long pauses of the traffic take few draws.
    pub const MIN_TIME: Duration = Duration::from_millis(1);

    /// Share of packets lost in the long run, if they are evenly spaced in time.
    pub fn mean(&self) -> f64 {
        let (calm, congested) = (self.calm_time.as_secs_f64(), self.congested_time.as_secs_f64());
        (self.calm.value() * calm + self.congested.value() * congested) / (calm + congested)
    }

    /// Returns true if bursts of this mean length can make up this loss rate. A received packet separates two bursts,
    /// so that the rate is at most `burst / (burst + 1)`.
    pub fn is_possible(rate: Probability, burst: f64) -> bool {
        burst >= 1.0 && (rate.value() <= burst / (burst + 1.0) || rate == Probability::ONE)
    }

    /// Draws the fate of a packet.
    pub(super) fn loses(&self, state: &mut LevelState, now: Time, rng: &mut Rng) -> bool {
        state.pass_to(self, now);
        let rate = if state.is_congested { self.congested } else { self.calm }.value();
        let chance = match (self.burst, state.lost_last) {
            (None, _) | (_, None) => rate,
            _ if rate >= 1.0 => 1.0,
            (Some(burst), Some(true)) => 1.0 - 1.0 / burst,
            (Some(burst), Some(false)) => rate / ((1.0 - rate) * burst),
        };
        let is_lost = rng.chance(chance);
        state.lost_last = Some(is_lost);
        is_lost
    }
}

/// State of a two-level loss at one place.
#[derive(Debug)]
pub(super) struct LevelState {
    is_congested: bool,
    /// End of the period.
    until: Time,
    /// Stream of the periods, apart from that of the packets: the periods depend on time alone.
    periods: Rng,
    /// True if the last packet was lost; `None` at the beginning of a period, where the long-run rate applies, so that
    /// no burst continues into the next period.
    lost_last: Option<bool>,
}

impl LevelState {
    /// State at time zero, drawn from the long-run distribution.
    pub(super) fn new(levels: &TwoLevel, mut periods: Rng) -> Self {
        let (calm, congested) = (levels.calm_time.as_secs_f64(), levels.congested_time.as_secs_f64());
        let is_congested = periods.chance(congested / (calm + congested));
        let mut state = LevelState { is_congested, until: Time::ZERO, periods, lost_last: None };
        state.draw(levels);
        state
    }

    /// Advances to the period of `now`.
    fn pass_to(&mut self, levels: &TwoLevel, now: Time) {
        while self.until <= now {
            self.is_congested = !self.is_congested;
            self.lost_last = None;
            self.draw(levels);
        }
    }

    fn draw(&mut self, levels: &TwoLevel) {
        let mean = if self.is_congested { levels.congested_time } else { levels.calm_time };
        let span = self.periods.exponential(mean.max(TwoLevel::MIN_TIME).as_secs_f64());
        self.until += Duration::from_secs_f64(span);
    }
}
