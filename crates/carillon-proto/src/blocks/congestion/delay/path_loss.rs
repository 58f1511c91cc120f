//! Loss rate of a path, and the loss rate that is usual on it without congestion.

use std::time::Duration;

use carillon_core::Time;

use super::min_rtt_probe::PauseLoss;
use crate::blocks::congestion::windowed::Windowed;

/// Smoothed loss rate of a path, compared with the usual one.
#[derive(Clone, Debug, Default)]
pub(super) struct PathLoss {
    /// Smoothed loss rate.
    pub(super) rate: f64,
    /// Smoothed loss rate without the losses for which the queue was already cut.
    recent: f64,
    /// Number of packets that the average covers.
    packets: f64,
    /// True once the loss without congestion is known.
    is_learned: bool,
    /// True if the present loss is the usual one, once it can be measured.
    is_usual: bool,
    /// Minimum of the loss rate in the recent past, negated.
    least: Windowed,
}

impl PathLoss {
    /// Adds a sample: `came` of `sent` packets arrived.
    pub(super) fn note(&mut self, now: Time, came: f64, sent: f64) {
        if sent <= 0.0 {
            return;
        }
        // A sample that is longer than the average replaces it.
        self.packets = (self.packets + sent).min(SMOOTHING_PACKETS.max(sent));
        // An average over the first packets, then an EWMA with a weight of 1/256 per packet.
        let weight = sent / self.packets;
        let rate = (1.0 - came / sent).clamp(0.0, 1.0);
        self.rate += weight * (rate - self.rate);
        self.recent += weight * (rate - self.recent);
        // Without congestion, enough packets measure the usual loss as a pause does.
        self.is_learned |= self.is_usual && self.packets >= LEARNING_PACKETS as f64;
        if self.is_learned && self.packets >= SMOOTHING_PACKETS {
            self.least.note(now, -self.rate, MIN_LOSS_MEMORY);
        }
    }

    /// Learns the usual loss from packets that were sent while the queue was nearly empty.
    pub(super) fn learn(&mut self, now: Time, found: PauseLoss) {
        if found.sent > 0 {
            self.is_learned = true;
            // The old averages contain the losses of the queue, so the measurement replaces them.
            self.rate = (1.0 - found.arrived as f64 / found.sent as f64).clamp(0.0, 1.0);
            self.recent = self.rate;
            self.least = Windowed::default();
            self.least.note(now, -self.rate, MIN_LOSS_MEMORY);
        }
    }

    /// Handles a path that was found full. Returns false if the usual loss is still unknown and must be measured. It
    /// is known if hardly anything is lost, or if the sender was idle.
    pub(super) fn on_full(&mut self, idle: bool) -> bool {
        // An idle sender fills no queue, so its losses are not congestion.
        self.is_usual |= idle;
        self.is_learned |= self.rate <= MIN_UNUSUAL_LOSS;
        self.is_usual || self.is_learned
    }

    /// Forgets recent losses, since the queue was cut for them.
    pub(super) fn forgive(&mut self) {
        self.recent = self.usual();
    }

    /// Loss rate without congestion, as far as known; the maximum while nothing is known.
    pub(super) fn usual(&self) -> f64 {
        // An empty filter yields negative infinity, which becomes the maximum here.
        (-self.least.greatest()).clamp(0.0, MAX_USUAL_LOSS)
    }

    /// Returns true if the loss exceeds the usual one by more than chance. Then a queue is full that is too short to
    /// show in the delay.
    pub(super) fn is_more_than_usual(&self) -> bool {
        let usual = self.usual();
        // Standard deviation of the share lost among this many packets with independent losses.
        let deviation = (usual * (1.0 - usual) / SMOOTHING_PACKETS).sqrt();
        let is_known = self.is_learned && self.packets >= SMOOTHING_PACKETS;
        is_known && self.recent > usual + MIN_UNUSUAL_LOSS + UNUSUAL_DEVIATIONS * deviation
    }
}

/// Loss rate above the usual one that counts as congestion.
const MIN_UNUSUAL_LOSS: f64 = 0.02;
/// Standard deviations of the usual loss that are added. Many paths are each tested often, and a false alarm on one
/// slows the whole group.
const UNUSUAL_DEVIATIONS: f64 = 8.0;
/// Maximum of the usual loss: more counts as congestion, however long it lasts.
const MAX_USUAL_LOSS: f64 = 0.4;
/// Number of packets over which the loss rate is smoothed.
const SMOOTHING_PACKETS: f64 = 256.0;
/// Time for which the minimum of the loss rate is remembered.
const MIN_LOSS_MEMORY: Duration = Duration::from_secs(5);

/// Number of packets that measure the usual loss.
pub(super) const LEARNING_PACKETS: u64 = 128;

#[cfg(test)]
mod tests {
    use carillon_core::{Rng, Seeds};
    use proptest::prelude::*;

    use super::*;

    /// Sends rounds of 64 packets, 10 ms apart, with this loss. Returns how often the loss counted as unusual.
    fn rounds(loss: &mut PathLoss, now: &mut Time, rng: &mut Rng, count: u32, rate: f64) -> u32 {
        let mut seen = 0;
        for _ in 0..count {
            *now += Duration::from_millis(10);
            let came = (0..64).filter(|_| !rng.chance(rate)).count();
            loss.note(*now, came as f64, 64.0);
            seen += u32::from(loss.is_more_than_usual());
        }
        seen
    }

    proptest! {
        #[test]
        fn unusual_loss_is_detected_without_false_alarms(
            seed in any::<u64>(),
            usual in 0.0..0.3,
        ) {
            let mut rng = Seeds::new(seed).stream("loss");
            let (mut loss, mut now) = (PathLoss::default(), Time::ZERO);
            prop_assert_eq!(rounds(&mut loss, &mut now, &mut rng, 20, usual), 0, "nothing is known yet");
            // Losses in pauses measure the usual loss.
            let sent = 2000;
            let arrived = (0..sent).filter(|_| !rng.chance(usual)).count() as u64;
            loss.learn(now, PauseLoss { sent, arrived });
            prop_assert!((loss.usual() - usual).abs() < 0.06);
            // The minimum counts, and chance makes it small at a low loss.
            let mistaken = rounds(&mut loss, &mut now, &mut rng, 300, usual);
            prop_assert!(mistaken <= 15, "{} of 300", mistaken);
            prop_assert!((loss.rate - usual).abs() < 0.15, "{} is lost", loss.rate);
            prop_assert!(rounds(&mut loss, &mut now, &mut rng, 30, usual + 0.5) > 10);
            // Unusual loss is answered by sending less, and does not count twice.
            loss.forgive();
            prop_assert!(!loss.is_more_than_usual());
        }

        #[test]
        fn rates_stay_between_zero_and_one(
            notes in prop::collection::vec((0..3000_u64, -10.0..200.0, -1.0..100.0), 0..100)
        ) {
            let (mut loss, mut now) = (PathLoss::default(), Time::ZERO);
            for (wait, came, sent) in notes {
                now += Duration::from_millis(wait);
                loss.note(now, came, sent);
                prop_assert!((0.0..=1.0).contains(&loss.rate) && (0.0..=MAX_USUAL_LOSS).contains(&loss.usual()));
            }
        }
    }

    #[test]
    fn usual_loss_is_measured_before_path_counts_as_full() {
        let full = |rate: f64, idle: bool| {
            let mut loss = PathLoss::default();
            loss.note(Time::ZERO, 100.0 * (1.0 - rate), 100.0);
            loss.on_full(idle)
        };
        assert!(full(0.0, false) && full(0.01, false));
        assert!(!full(0.1, false), "what is usual is to be found out");
        assert!(full(0.1, true), "nothing else was sent, so it is usual");
    }
}
