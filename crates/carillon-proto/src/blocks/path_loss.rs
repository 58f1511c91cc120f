//! Which part of what goes over a path is lost, and which part usually is.

use std::time::Duration;

use carillon_core::Time;

use super::Found;
use super::windowed::Windowed;

/// Which part of the packets is lost, and which part usually is.
#[derive(Clone, Debug, Default)]
pub(super) struct PathLoss {
    /// Smoothed.
    pub(super) part: f64,
    /// The same, but what the queue was cut for does not count any more.
    recent: f64,
    /// Packets it was made from, as far as they count.
    packets: f64,
    /// It is known what is lost without congestion.
    is_learned: bool,
    /// It is what is lost now, once it can be told.
    is_usual: bool,
    /// The least it was, as its negative.
    least: Windowed,
}

impl PathLoss {
    /// So many of the packets sent came.
    pub(super) fn note(&mut self, now: Time, came: f64, sent: f64) {
        if sent <= 0.0 {
            return;
        }
        self.packets = (self.packets + sent).min(LOSS_PACKETS.max(sent));
        let weight = sent / self.packets;
        let part = (1.0 - came / sent).clamp(0.0, 1.0);
        self.part += weight * (part - self.part);
        self.recent += weight * (part - self.recent);
        self.is_learned |= self.is_usual && self.packets >= LEARNING_PACKETS as f64;
        if self.is_learned && self.packets >= LOSS_PACKETS {
            self.least.note(now, -self.part, LEAST_MEMORY);
        }
    }

    /// Nearly nothing stood in queues while these packets went out, if there were any.
    pub(super) fn learn(&mut self, now: Time, found: Found) {
        if found.sent > 0 {
            self.is_learned = true;
            self.part = (1.0 - found.arrived as f64 / found.sent as f64).clamp(0.0, 1.0);
            self.recent = self.part;
            self.least = Windowed::default();
            self.least.note(now, -self.part, LEAST_MEMORY);
        }
    }

    /// The path carries no more. Hardly any loss is usual, and so is what is lost of little; otherwise it is to be found out, and `false`.
    pub(super) fn on_full(&mut self, idle: bool) -> bool {
        self.is_usual |= idle;
        self.is_learned |= self.part <= MORE_LOSS;
        self.is_usual || self.is_learned
    }

    /// Less is sent for what was lost up to now.
    pub(super) fn forgive(&mut self) {
        self.recent = self.usual();
    }

    /// What is lost without any congestion, as far as one can tell; while nothing is known, as much as it may be.
    pub(super) fn usual(&self) -> f64 {
        (-self.least.greatest()).clamp(0.0, MOST_USUAL)
    }

    /// Whether it is more than chance would have it: a queue is full that is too short to be seen by its delay.
    pub(super) fn is_more_than_usual(&self) -> bool {
        let usual = self.usual();
        let deviation = (usual * (1.0 - usual) / LOSS_PACKETS).sqrt();
        let is_known = self.is_learned && self.packets >= LOSS_PACKETS;
        is_known && self.recent > usual + MORE_LOSS + MORE_DEVIATIONS * deviation
    }
}

/// More loss than usual: by so much, and by so many standard deviations of what is usual: many paths, each seen often, are to be called
/// crowded by chance hardly ever, since the least window counts for all.
const MORE_LOSS: f64 = 0.02;
const MORE_DEVIATIONS: f64 = 8.0;
/// What is more than this is not usual, however long it lasts.
const MOST_USUAL: f64 = 0.4;
/// Packets over which loss is smoothed.
const LOSS_PACKETS: f64 = 256.0;
/// How long it is remembered what was lost at least.
const LEAST_MEMORY: Duration = Duration::from_secs(5);

/// Packets that say what is usually lost.
pub(super) const LEARNING_PACKETS: u64 = 128;

#[cfg(test)]
mod tests {
    use carillon_core::{Rng, Seeds};
    use proptest::prelude::*;

    use super::*;

    /// Rounds of 64 packets, 10 ms apart, of which each is lost with this chance; how often more than usual was seen.
    fn rounds(loss: &mut PathLoss, now: &mut Time, rng: &mut Rng, count: u32, part: f64) -> u32 {
        let mut seen = 0;
        for _ in 0..count {
            *now += Duration::from_millis(10);
            let came = (0..64).filter(|_| !rng.chance(part)).count();
            loss.note(*now, came as f64, 64.0);
            seen += u32::from(loss.is_more_than_usual());
        }
        seen
    }

    proptest! {
        #[test]
        fn chance_is_hardly_ever_called_more_than_usual_and_a_fuller_queue_soon_is(
            seed in any::<u64>(),
            usual in 0.0..0.3,
        ) {
            let mut rng = Seeds::new(seed).stream("loss");
            let (mut loss, mut now) = (PathLoss::default(), Time::ZERO);
            prop_assert_eq!(rounds(&mut loss, &mut now, &mut rng, 20, usual), 0, "nothing is known yet");
            // What is lost in pauses says what is usual.
            let sent = 2000;
            let arrived = (0..sent).filter(|_| !rng.chance(usual)).count() as u64;
            loss.learn(now, Found { sent, arrived });
            prop_assert!((loss.usual() - usual).abs() < 0.06);
            // The least part that was lost counts, which chance makes small where little is lost.
            let mistaken = rounds(&mut loss, &mut now, &mut rng, 300, usual);
            prop_assert!(mistaken <= 15, "{} of 300", mistaken);
            prop_assert!((loss.part - usual).abs() < 0.15, "{} is lost", loss.part);
            prop_assert!(rounds(&mut loss, &mut now, &mut rng, 30, usual + 0.5) > 10);
            // It is answered by sending less, and does not count a second time.
            loss.forgive();
            prop_assert!(!loss.is_more_than_usual());
        }

        #[test]
        fn every_part_is_one_whatever_is_said(
            notes in prop::collection::vec((0..3000_u64, -10.0..200.0, -1.0..100.0), 0..100)
        ) {
            let (mut loss, mut now) = (PathLoss::default(), Time::ZERO);
            for (wait, came, sent) in notes {
                now += Duration::from_millis(wait);
                loss.note(now, came, sent);
                prop_assert!((0.0..=1.0).contains(&loss.part) && (0.0..=MOST_USUAL).contains(&loss.usual()));
            }
        }
    }

    #[test]
    fn it_is_found_out_before_a_full_path_is_believed_unless_hardly_anything_is_lost() {
        let full = |part: f64, idle: bool| {
            let mut loss = PathLoss::default();
            loss.note(Time::ZERO, 100.0 * (1.0 - part), 100.0);
            loss.on_full(idle)
        };
        assert!(full(0.0, false) && full(0.01, false));
        assert!(!full(0.1, false), "what is usual is to be found out");
        assert!(full(0.1, true), "nothing else was sent, so it is usual");
    }
}
