//! Losses of the sections of a scenario: a rule, and its process at one place.
//!
//! Several sections may cover the same place, where a packet survives only if every one of them lets it pass. Each
//! process sees every packet and has a random stream of its own, so that a further section changes no draw of the
//! others. The first independent or Gilbert-Elliott section of a link is not such a process: the link draws its fates
//! ahead.

mod custom;
mod list;
mod model;
mod two_level;

use std::sync::Arc;

use carillon_core::{IntervalSampler, Rng, Seeds, Time};

pub use custom::{CustomRule, LossFunction, LossQuery, LossyPlace};
pub use list::{LossList, PacketCount};
pub use model::{LossModel, SingleLoss};
use two_level::LevelState;
pub use two_level::TwoLevel;

/// Loss section: a rule, and the name of its random streams.
#[derive(Clone, Debug, PartialEq)]
pub struct LossSection {
    /// Name of the stream at each place; different for each section.
    pub stream: String,
    /// Rule.
    pub rule: LossRule,
}

/// Rule of a loss section.
#[derive(Clone, Debug, PartialEq)]
pub enum LossRule {
    /// Independent losses, or a chain of two states.
    Model(LossModel),
    /// Levels of congestion that change with time.
    TwoLevel(TwoLevel),
    /// Losses at random intervals, which are uniform about this mean ([`IntervalSampler`]).
    Uniform(u64),
    /// Listed packets.
    List(LossList),
    /// Decisions of a program.
    Custom(CustomRule),
}

/// Process of a loss section at one place: one direction of a link, or the interface of a node.
#[derive(Debug)]
pub struct LossProcess {
    section: Arc<LossSection>,
    place: LossyPlace,
    /// Number of packets so far.
    packets: u64,
    /// Random state, made on first use: most places of a large network never lose.
    random: Option<Box<RandomState>>,
}

#[derive(Debug)]
struct RandomState {
    rng: Rng,
    model: ModelState,
}

#[derive(Debug)]
enum ModelState {
    /// The chain of two states is in its bad state.
    Chain {
        is_bad: bool,
    },
    Levels(LevelState),
    Intervals(IntervalSampler),
}

impl LossProcess {
    /// Process at its beginning.
    pub fn new(section: Arc<LossSection>, place: LossyPlace) -> Self {
        LossProcess { section, place, packets: 0, random: None }
    }

    /// Returns true if the next packet is lost. `original` is its message if this is the first transmission; `seeds`
    /// returns the streams of the place.
    pub fn loses(&mut self, now: Time, original: Option<SingleLoss>, seeds: impl FnOnce() -> Seeds) -> bool {
        let number = self.packets;
        self.packets += 1;
        let rule = &self.section.rule;
        if let LossRule::List(list) = rule {
            return list.loses(number, original);
        }
        let stream = &self.section.stream;
        let random = self.random.get_or_insert_with(|| Box::new(RandomState::new(rule, &seeds(), stream)));
        if let LossRule::Custom(custom) = rule {
            let query = LossQuery { time: now, place: self.place, number, original };
            let probability = custom.function.probability(&query);
            // A draw for each packet, whatever the probability, so that one decision does not change later ones.
            return random.rng.unit() < probability;
        }
        random.loses(rule, now)
    }
}

impl RandomState {
    fn new(rule: &LossRule, seeds: &Seeds, stream: &str) -> Self {
        let rng = seeds.stream(stream);
        let model = match rule {
            LossRule::Model(_) | LossRule::List(_) | LossRule::Custom(_) => {
                ModelState::Chain { is_bad: false }
            }
            LossRule::TwoLevel(levels) => {
                ModelState::Levels(LevelState::new(levels, seeds.stream(&format!("{stream}.level"))))
            }
            LossRule::Uniform(one_in) => ModelState::Intervals(IntervalSampler::new(*one_in, rng.clone())),
        };
        RandomState { rng, model }
    }

    fn loses(&mut self, rule: &LossRule, now: Time) -> bool {
        let rng = &mut self.rng;
        match (rule, &mut self.model) {
            (LossRule::Model(model), ModelState::Chain { is_bad }) => model.loses(is_bad, rng),
            (LossRule::TwoLevel(levels), ModelState::Levels(state)) => levels.loses(state, now, rng),
            (LossRule::Uniform(_), ModelState::Intervals(sampler)) => sampler.selects(),
            (rule, _) => unreachable!("the state was made for {rule:?}"),
        }
    }
}

#[cfg(test)]
mod tests;
