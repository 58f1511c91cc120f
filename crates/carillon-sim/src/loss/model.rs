//! Losses of a link: its loss model, and a single packet that it loses.

use carillon_core::{MessageId, NodeId, Probability, Rng};

/// Loss model of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum LossModel {
    /// No loss.
    #[default]
    None,
    /// Independent loss of each packet with this probability (Bernoulli).
    Bernoulli(Probability),
    /// Burst losses by a Markov chain of a good and a bad state (Gilbert 1960, Elliott 1963). A packet is lost with
    /// the probability of the current state; then the state may change.
    GilbertElliott {
        /// Probability of a change from good to bad after a packet.
        to_bad: Probability,
        /// Probability of a change from bad to good after a packet.
        to_good: Probability,
        /// Loss probability in the good state.
        good: Probability,
        /// Loss probability in the bad state.
        bad: Probability,
    },
}

impl LossModel {
    /// Share of packets lost in the long run, from 0 to 1.
    pub fn mean(&self) -> f64 {
        match self {
            LossModel::None => 0.0,
            LossModel::Bernoulli(p) => p.value(),
            LossModel::GilbertElliott { to_bad, to_good, good, bad } => {
                let leaving = to_bad.value() + to_good.value();
                // A chain that never changes stays in the good state, where it starts.
                let share = if leaving > 0.0 { to_bad.value() / leaving } else { 0.0 };
                good.value() * (1.0 - share) + bad.value() * share
            }
        }
    }

    /// Number of draws for each packet.
    pub(crate) fn draws(&self) -> u64 {
        match self {
            LossModel::None => 0,
            LossModel::Bernoulli(_) => 1,
            LossModel::GilbertElliott { .. } => 2,
        }
    }

    /// Draws the fate of a packet. `is_bad` is the state of the chain.
    pub(crate) fn loses(&self, is_bad: &mut bool, rng: &mut Rng) -> bool {
        match *self {
            LossModel::None => false,
            LossModel::Bernoulli(p) => rng.chance(p.value()),
            LossModel::GilbertElliott { to_bad, to_good, good, bad } => {
                let (loss, change) = if *is_bad { (bad, to_good) } else { (good, to_bad) };
                let is_lost = rng.chance(loss.value());
                *is_bad ^= rng.chance(change.value());
                is_lost
            }
        }
    }
}

/// Loss of a single packet: the first transmission of a message; repairs pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SingleLoss {
    /// Node that offered the message.
    pub source: NodeId,
    /// Number of the message at its source.
    pub message: MessageId,
}
