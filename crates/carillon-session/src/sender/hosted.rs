//! Protocol's machine at a sender, and what the session takes from its notices.

use std::collections::VecDeque;

use carillon_core::{Delivery, Machine, NodeId, Seeds};
use carillon_wire::session::Identity;

/// Protocol's machine.
#[derive(Debug)]
pub(super) struct Hosted {
    /// Random streams of the machine.
    pub seeds: Seeds,
    /// Identity of this node among peers.
    pub identity: Identity,
    /// The machine, from the end of gathering until the end is announced.
    pub machine: Option<Box<dyn Machine>>,
    /// Lost members: those below them in the tree must be notified.
    pub lost: Vec<NodeId>,
    /// True if the protocol reports too few members to continue.
    pub too_few: bool,
    /// Deliveries that the protocol had made and the application has not taken (peers only).
    pub left_over: VecDeque<Delivery>,
    /// Number of repairs that the protocol has sent.
    pub repairs: u64,
}

impl Hosted {
    pub fn new(seeds: Seeds, identity: Identity) -> Self {
        Hosted {
            seeds,
            identity,
            machine: None,
            lost: Vec::new(),
            too_few: false,
            left_over: VecDeque::new(),
            repairs: 0,
        }
    }
}
