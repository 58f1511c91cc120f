//! Link in one direction: queue, rate, delay, jitter and losses.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use carillon_core::{BitRate, Passage, Rng, Seeds, Time};

use crate::loss::{LossModel, LossProcess, LossSection, LossyPlace, SingleLoss};

/// State of one direction of a link. It is small, since a large network has many; rarely needed parts are boxed.
#[derive(Debug)]
pub(super) struct LinkState {
    rate: BitRate,
    /// Propagation delay in nanoseconds.
    delay: u64,
    /// Departure time of the last packet.
    free: Time,
    /// Departure times of the packets before it, ascending; kept only while a packet waits.
    leaving: Option<Box<DepartureQueue>>,
    /// Losses; `None` on a link without any.
    losses: Option<Box<Losses>>,
    /// Jitter; `None` on a link of constant delay.
    jitter: Option<Box<Jitter>>,
}

// A large network has many of them.
const _: () = assert!(size_of::<LinkState>() <= 48);

#[derive(Debug, Default)]
struct DepartureQueue(VecDeque<Time>);

/// Jitter: normally distributed delays, independent for each packet, so that packets may overtake each other.
///
/// A generator has more than 300 bytes. It is therefore made anew for several draws at a time and not kept. Making one
/// costs as much as many draws, so a link that carries more draws more at a time.
#[derive(Debug)]
struct Jitter {
    deviation: Duration,
    /// Delays of the next packets in nanoseconds, the next one last.
    drawn_ahead: Vec<u64>,
    /// Number of delays drawn so far.
    drawn: u64,
}

/// Smallest and largest number of delays drawn at a time. A draw doubles the number of delays that the link has had.
const DELAYS_PER_DRAW: (u64, u64) = (8, 256);

/// Losses of a link. The fates of several packets are drawn at a time, like delays.
#[derive(Debug, Default)]
struct Losses {
    /// Loss model, shared by links with equal ones.
    model: Arc<LossModel>,
    /// Fates of the next packets, the next one in the lowest bit: whether each is lost, and whether it meets the bad
    /// state. `left` of them are unused.
    drawn_ahead: (u64, u64),
    left: u8,
    /// Number of draws so far, and the state after them.
    drawn: u64,
    is_bad: bool,
    /// True if every packet passes the loss sections in `rare`, false if only originals are looked up there.
    has_sections: bool,
    rare: Option<Box<RareLosses>>,
}

/// Losses that few links have.
#[derive(Debug, Default)]
struct RareLosses {
    singles: Vec<SingleLoss>,
    /// Loss sections beside the model.
    sections: Vec<LossProcess>,
}

const _: () = assert!(size_of::<Losses>() <= 48);

/// Number of fates drawn at a time.
const FATES_PER_DRAW: u8 = 64;

/// Fate of a packet on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// Arrives at the other end.
    Arrives(Passage),
    /// Transmitted and lost.
    Lost(Passage),
    /// Discarded because the queue is full.
    Discarded,
}

impl LinkState {
    pub(super) fn new(delay: Duration, rate: BitRate) -> Self {
        LinkState { rate, delay: nanos(delay), free: Time::ZERO, leaving: None, losses: None, jitter: None }
    }

    /// Sets the loss model.
    pub(super) fn set_loss(&mut self, model: Arc<LossModel>) {
        self.losses.get_or_insert_default().set_model(model);
    }

    /// Sets the standard deviation of the delay, which is cut off at zero.
    pub(super) fn set_deviation(&mut self, deviation: Duration) {
        self.jitter = (!deviation.is_zero()).then(|| Box::new(Jitter::new(deviation)));
    }

    /// Adds a single loss.
    pub(super) fn lose(&mut self, single: SingleLoss) {
        self.losses.get_or_insert_default().rare.get_or_insert_default().singles.push(single);
    }

    /// Adds a loss section beside the model.
    pub(super) fn add_loss(&mut self, section: Arc<LossSection>, place: LossyPlace) {
        let losses = self.losses.get_or_insert_default();
        losses.has_sections = true;
        losses.rare.get_or_insert_default().sections.push(LossProcess::new(section, place));
    }

    /// Returns the time at which fewer than `limit` packets wait, if nothing else is queued; `None` if there is room
    /// now.
    pub(super) fn has_room_at(&self, now: Time, limit: usize) -> Option<Time> {
        let DepartureQueue(leaving) = self.leaving.as_deref().filter(|_| self.free > now)?;
        let waiting = leaving.iter().filter(|&&at| at > now).count();
        (waiting >= limit).then(|| leaving[leaving.len() - limit])
    }

    /// Empties the queue at a time in the past, since when the link is idle.
    pub(super) fn flush(&mut self, at: Time) {
        self.free = self.free.min(at);
        self.leaving = None;
    }

    /// Queues a packet of `bytes` bytes, where `limit` packets may wait in addition to the one being sent. `seeds`
    /// returns the streams of this link and direction.
    pub(super) fn put(
        &mut self,
        now: Time,
        bytes: u64,
        limit: usize,
        original: Option<SingleLoss>,
        seeds: impl Fn() -> Seeds,
    ) -> Fate {
        // Forget the packets that have left; an empty queue takes no memory.
        if let Some(DepartureQueue(leaving)) = self.leaving.as_deref_mut() {
            while leaving.front().is_some_and(|&at| at <= now) {
                leaving.pop_front();
            }
            if leaving.is_empty() {
                self.leaving = None;
            }
        }
        if self.free > now {
            // The packet being sent is the first one in `leaving`, or the last packet itself.
            if self.leaving.as_deref().map_or(0, |DepartureQueue(leaving)| leaving.len()) >= limit {
                return Fate::Discarded;
            }
            self.leaving.get_or_insert_default().0.push_back(self.free);
        }
        let starts = self.free.max(now);
        self.free = starts.plus_nanos(self.rate.nanos_for_bytes(bytes));
        // A lost packet has taken its time on the link all the same.
        let is_lost = self.losses.as_mut().is_some_and(|losses| losses.loses(now, original, &seeds));
        if is_lost {
            // Without a draw, so that a loss does not change the delays of others.
            return Fate::Lost(Passage { starts, arrives: self.free.plus_nanos(self.delay) });
        }
        let delay = match &mut self.jitter {
            None => self.delay,
            Some(jitter) => jitter.draw(Duration::from_nanos(self.delay), &seeds),
        };
        Fate::Arrives(Passage { starts, arrives: self.free.plus_nanos(delay) })
    }
}

impl Jitter {
    fn new(deviation: Duration) -> Self {
        Jitter { deviation, drawn_ahead: Vec::new(), drawn: 0 }
    }

    fn draw(&mut self, mean: Duration, seeds: impl Fn() -> Seeds) -> u64 {
        if let Some(delay) = self.drawn_ahead.pop() {
            return delay;
        }
        // A normal delay takes two draws.
        let mut rng = seeds().stream_from("delay", 2 * self.drawn);
        let (mean, deviation) = (mean.as_secs_f64(), self.deviation.as_secs_f64());
        let (least, most) = DELAYS_PER_DRAW;
        let count = self.drawn.clamp(least, most);
        self.drawn += count;
        let mut draws = [0; 2 * DELAYS_PER_DRAW.1 as usize];
        let draws = &mut draws[..2 * count as usize];
        rng.fill_bits(draws);
        let delay =
            |&bits: &[u64; 2]| nanos(Duration::from_secs_f64(Rng::normal_of(bits, mean, deviation).max(0.0)));
        self.drawn_ahead.extend(draws.as_chunks().0.iter().rev().map(delay));
        self.drawn_ahead.pop().unwrap_or_default()
    }
}

impl RareLosses {
    /// Returns true if a loss section loses the packet. Every section sees every packet, so that none changes the
    /// draws of another.
    fn lose(&mut self, now: Time, original: Option<SingleLoss>, seeds: impl Fn() -> Seeds) -> bool {
        let sections = self.sections.iter_mut();
        sections.fold(false, |is_lost, section| section.loses(now, original, &seeds) | is_lost)
    }

    /// Returns true if the packet is to be lost once.
    fn lose_single(&mut self, original: Option<SingleLoss>) -> bool {
        let at = original.and_then(|original| self.singles.iter().position(|single| *single == original));
        at.map(|at| self.singles.remove(at)).is_some()
    }
}

impl Losses {
    /// Sets the model from the next packet on. Its draws follow those of the packets that have passed, so that unused
    /// fates change no result.
    fn set_model(&mut self, model: Arc<LossModel>) {
        if self.left > 0 {
            // Unused fates are given back, so that the stream continues where the passed packets ended.
            self.drawn -= u64::from(self.left) * self.model.draws();
            self.is_bad = self.drawn_ahead.1 & 1 == 1;
            self.left = 0;
        }
        self.model = model;
    }

    /// Returns true if this packet is lost.
    fn loses(&mut self, now: Time, original: Option<SingleLoss>, seeds: impl Fn() -> Seeds) -> bool {
        let mut is_lost = false;
        if (self.has_sections || original.is_some())
            && let Some(rare) = self.rare.as_deref_mut()
        {
            is_lost = rare.lose(now, original, &seeds);
            if rare.lose_single(original) {
                return true;
            }
        }
        if *self.model == LossModel::None {
            return is_lost;
        }
        if self.left == 0 {
            self.draw(seeds());
        }
        is_lost |= self.drawn_ahead.0 & 1 == 1;
        self.drawn_ahead = (self.drawn_ahead.0 >> 1, self.drawn_ahead.1 >> 1);
        self.left -= 1;
        is_lost
    }

    fn draw(&mut self, seeds: Seeds) {
        let mut rng = seeds.stream_from("loss", self.drawn);
        self.drawn_ahead = (0, 0);
        if let LossModel::Bernoulli(p) = *self.model {
            // The frequent model, without a call for each packet. The state does not change.
            let mut draws = [0; FATES_PER_DRAW as usize];
            rng.fill_bits(&mut draws);
            for draw in draws.into_iter().rev() {
                self.drawn_ahead.0 = self.drawn_ahead.0 << 1 | u64::from(Rng::unit_of(draw) < p.value());
            }
            self.drawn_ahead.1 = if self.is_bad { u64::MAX } else { 0 };
        } else {
            for at in 0..FATES_PER_DRAW {
                let is_bad = self.is_bad;
                let is_lost = self.model.loses(&mut self.is_bad, &mut rng);
                self.drawn_ahead.0 |= u64::from(is_lost) << at;
                self.drawn_ahead.1 |= u64::from(is_bad) << at;
            }
        }
        self.left = FATES_PER_DRAW;
        self.drawn += u64::from(FATES_PER_DRAW) * self.model.draws();
    }
}

/// Converts a delay to nanoseconds; it saturates at 584 years.
fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use carillon_core::{MessageId, NodeId, Probability};

    use super::*;

    fn p(value: f64) -> Probability {
        Probability::new(value).expect("a probability")
    }

    fn put(wire: &mut LinkState, at: u64) -> Fate {
        wire.put(Time::from_nanos(at), 125, 2, None, || Seeds::new(1))
    }

    fn is_lost(fate: Fate) -> bool {
        matches!(fate, Fate::Lost(_))
    }

    #[test]
    fn packets_follow_each_other_and_a_full_queue_discards() {
        // 125 bytes at 1 Mbit/s take a millisecond.
        let mut wire = LinkState::new(Duration::from_millis(10), BitRate::mbps(1));
        let at = |millis: u64| Time::from_nanos(millis * 1_000_000);
        // The first bit leaves a millisecond before the last one, which takes 10 ms to the other end.
        let arrives = |millis| Fate::Arrives(Passage { starts: at(millis - 11), arrives: at(millis) });
        assert_eq!(put(&mut wire, 0), arrives(11));
        assert_eq!(put(&mut wire, 0), arrives(12));
        assert_eq!(put(&mut wire, 0), arrives(13));
        assert_eq!(put(&mut wire, 0), Fate::Discarded, "one is sent, two wait");
        assert_eq!(put(&mut wire, 1_000_000), arrives(14), "the first has left");
        assert_eq!(put(&mut wire, 9_000_000), arrives(20), "the link was idle");
    }

    #[test]
    fn delays_are_normal_and_never_negative() {
        let mean_of = |mean: u64, deviation: u64| {
            let mut wire = LinkState::new(Duration::from_micros(mean), BitRate::mbps(1000));
            wire.set_deviation(Duration::from_micros(deviation));
            let delays = (0..100_000_u64).map(|at| {
                let sent = Time::from_nanos(at * 1_000_000);
                // A byte takes 8 ns.
                match wire.put(sent, 1, 1, None, || Seeds::new(1)) {
                    Fate::Arrives(passage) => passage.arrives.since(sent).as_secs_f64() * 1e6 - 0.008,
                    fate => panic!("{fate:?}"),
                }
            });
            let delays: Vec<f64> = delays.collect();
            let mean = delays.iter().sum::<f64>() / delays.len() as f64;
            let variance =
                delays.iter().map(|delay| (delay - mean).powi(2)).sum::<f64>() / delays.len() as f64;
            (mean, variance.sqrt(), delays.iter().copied().fold(f64::INFINITY, f64::min))
        };
        let (mean, deviation, _) = mean_of(1500, 80);
        assert!((mean - 1500.0).abs() < 1.0 && (deviation - 80.0).abs() < 1.0, "{mean} {deviation}");
        // Half of the distribution is cut off: the mean of the rest is its deviation divided by the root of two pi.
        let (mean, _, least) = mean_of(0, 100);
        assert!((mean - 39.89).abs() < 0.5 && least >= -0.01, "{mean} {least}");
    }

    #[test]
    fn single_loss_drops_one_original_and_no_repair() {
        let mut wire = LinkState::new(Duration::ZERO, BitRate::mbps(1));
        let loss = SingleLoss { source: NodeId(0), message: MessageId(3) };
        wire.lose(loss);
        let mut fate = |original| wire.put(Time::ZERO, 1, 50, original, || Seeds::new(1));
        assert!(!is_lost(fate(None)), "a repair");
        assert!(!is_lost(fate(Some(SingleLoss { message: MessageId(2), ..loss }))));
        assert!(is_lost(fate(Some(loss))));
        assert!(!is_lost(fate(Some(loss))));
    }

    #[test]
    fn loss_models_lose_their_mean_share() {
        let bursty =
            LossModel::GilbertElliott { to_bad: p(0.02), to_good: p(0.2), good: p(0.01), bad: p(0.5) };
        for model in [LossModel::None, LossModel::Bernoulli(p(0.05)), bursty] {
            let mut wire = LinkState::new(Duration::ZERO, BitRate::mbps(1000));
            wire.set_loss(Arc::new(model));
            let lost = (0..200_000_u64).filter(|&at| is_lost(put(&mut wire, at * 1_000_000))).count();
            let share = lost as f64 / 200_000.0;
            assert!((share - model.mean()).abs() < 0.005, "{model:?}: {share} and not {}", model.mean());
        }
    }

    /// Batched draws equal single draws, also when the model changes between two packets.
    #[test]
    fn batched_draws_equal_single_draws() {
        let bursty = LossModel::GilbertElliott { to_bad: p(0.1), to_good: p(0.2), good: p(0.1), bad: p(0.6) };
        let (mut wire, mut rng) =
            (LinkState::new(Duration::ZERO, BitRate::mbps(1000)), Seeds::new(1).stream("loss"));
        let (mut is_bad, mut at) = (false, 0);
        for (model, packets) in [(LossModel::Bernoulli(p(0.3)), 100), (bursty, 75), (LossModel::None, 5)]
            .into_iter()
            .chain([(bursty, 333), (LossModel::Bernoulli(p(0.5)), 64), (LossModel::Bernoulli(p(0.2)), 999)])
        {
            wire.set_loss(Arc::new(model));
            for _ in 0..packets {
                at += 1_000_000;
                let expected = match model {
                    LossModel::None => false,
                    LossModel::Bernoulli(p) => rng.chance(p.value()),
                    LossModel::GilbertElliott { to_bad, to_good, good, bad } => {
                        let is_lost = rng.chance(if is_bad { bad } else { good }.value());
                        is_bad ^= rng.chance(if is_bad { to_good } else { to_bad }.value());
                        is_lost
                    }
                };
                assert_eq!(is_lost(put(&mut wire, at)), expected, "{model:?}");
            }
        }
        let (mut jitter, mut rng) = (Jitter::new(Duration::from_micros(80)), Seeds::new(1).stream("delay"));
        for _ in 0..100 {
            let expected = nanos(Duration::from_secs_f64(rng.normal(1.5e-3, 80e-6).max(0.0)));
            assert_eq!(jitter.draw(Duration::from_micros(1500), || Seeds::new(1)), expected);
        }
    }
}
