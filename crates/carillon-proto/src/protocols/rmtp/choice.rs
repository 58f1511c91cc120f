//! Whom a receiver reports to.

use std::collections::BTreeMap;
use std::time::Duration;

use carillon_core::{NodeId, Scope, Time};

/// Those who offer to repair, as far as they were heard.
#[derive(Debug)]
pub(super) struct Choice {
    /// How long an offer stands.
    lifetime: Duration,
    offers: BTreeMap<NodeId, Offer>,
    chosen: Option<NodeId>,
}

#[derive(Debug)]
struct Offer {
    /// Routers that it could still have passed: the more, the nearer.
    left: Scope,
    at: Time,
    /// The first message that it can repair.
    oldest: u64,
}

impl Choice {
    /// Nobody has offered yet.
    pub fn new(lifetime: Duration) -> Self {
        Choice { lifetime, offers: BTreeMap::new(), chosen: None }
    }

    /// A node offers itself.
    pub fn on_offer(&mut self, now: Time, from: NodeId, left: Scope, oldest: u64) {
        self.offers.insert(from, Offer { left, at: now, oldest });
    }

    /// Only these may be turned to from now on.
    pub fn retain(&mut self, stays: impl Fn(NodeId) -> bool) {
        self.offers.retain(|&node, _| stays(node));
    }

    /// Chooses the nearest that can repair what is lacked from this message on; of equals whom it has, then the `default`.
    /// Whether that is another than before.
    pub fn choose(&mut self, now: Time, lacked: u64, default: NodeId) -> bool {
        self.offers.retain(|_, offer| now.since(offer.at) <= self.lifetime);
        let (before, nearest) = (self.of(default), self.offers.iter());
        let best = nearest.filter(|(_, offer)| offer.oldest <= lacked).max_by_key(|&(&node, offer)| {
            (offer.left, node == before, node == default, std::cmp::Reverse(node))
        });
        self.chosen = best.map(|(&node, _)| node);
        self.of(default) != before
    }

    /// Who was chosen.
    pub fn of(&self, default: NodeId) -> NodeId {
        self.chosen.unwrap_or(default)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFAULT: NodeId = NodeId(0);

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn the_nearest_is_chosen_while_it_is_heard() {
        let mut choice = Choice::new(Duration::from_millis(300));
        assert_eq!(choice.of(DEFAULT), DEFAULT);
        choice.on_offer(at(0), NodeId(7), Scope(60), 0);
        choice.on_offer(at(200), NodeId(8), Scope(58), 0);
        assert!(choice.choose(at(200), 5, DEFAULT));
        assert_eq!(choice.of(DEFAULT), NodeId(7));
        // The next best once it is silent, whom the session says when all are.
        assert!(choice.choose(at(301), 5, DEFAULT));
        assert_eq!(choice.of(DEFAULT), NodeId(8));
        assert!(choice.choose(at(501), 5, DEFAULT));
        assert_eq!(choice.of(DEFAULT), DEFAULT);
    }

    #[test]
    fn who_has_forgotten_what_is_lacked_is_of_no_use() {
        let mut choice = Choice::new(Duration::from_millis(300));
        choice.on_offer(at(0), NodeId(7), Scope(60), 6);
        assert!(!choice.choose(at(0), 5, DEFAULT));
        assert!(choice.choose(at(0), 6, DEFAULT));
    }

    #[test]
    fn of_equals_it_stays_with_whom_it_has() {
        let mut choice = Choice::new(Duration::from_millis(300));
        choice.on_offer(at(0), NodeId(9), Scope(60), 0);
        choice.on_offer(at(0), DEFAULT, Scope(60), 0);
        choice.on_offer(at(0), NodeId(8), Scope(60), 0);
        assert!(!choice.choose(at(0), 5, DEFAULT));
        choice.retain(|node| node != DEFAULT);
        assert!(choice.choose(at(0), 5, NodeId(3)));
        assert_eq!(choice.of(NodeId(3)), NodeId(8));
        choice.on_offer(at(0), NodeId(1), Scope(60), 0);
        assert!(!choice.choose(at(0), 5, NodeId(3)));
    }
}
