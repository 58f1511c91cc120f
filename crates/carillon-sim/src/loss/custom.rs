//! Losses that a program decides, packet by packet.

use std::fmt;
use std::sync::Arc;

use carillon_core::{NodeId, Time};

use super::model::SingleLoss;

/// Loss model of a program.
pub trait LossFunction: Send + Sync {
    /// Probability with which a packet is lost, from 0 to 1. Equal packets must have equal probabilities, or runs
    /// cannot be repeated.
    fn probability(&self, packet: &LossQuery) -> f64;
}

/// A packet about which a loss model decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LossQuery {
    /// Time of the packet at this place.
    pub time: Time,
    /// Place.
    pub place: LossyPlace,
    /// Number of the packet at this place, from 0.
    pub number: u64,
    /// Message of the packet if this is the first transmission.
    pub original: Option<SingleLoss>,
}

/// Place at which packets are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossyPlace {
    /// A link, in the direction from one node to another.
    Link {
        /// Node that sends.
        from: NodeId,
        /// Node that receives.
        to: NodeId,
    },
    /// The interface of a node, for packets that arrive.
    Interface(NodeId),
}

impl fmt::Display for LossyPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LossyPlace::Link { from, to } => write!(f, "{}>{}", from.0, to.0),
            LossyPlace::Interface(node) => node.0.fmt(f),
        }
    }
}

/// Rule of a section with a loss model of a program.
#[derive(Clone)]
pub struct CustomRule {
    /// Name of the model.
    pub name: String,
    /// Model.
    pub function: Arc<dyn LossFunction>,
}

impl fmt::Debug for CustomRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CustomRule").field(&self.name).finish()
    }
}

impl PartialEq for CustomRule {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && Arc::ptr_eq(&self.function, &other.function)
    }
}
