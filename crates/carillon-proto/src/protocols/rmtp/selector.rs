//! Selection of the acknowledgment processor that a receiver reports to.

use std::collections::BTreeMap;
use std::time::Duration;

use carillon_core::{NodeId, Scope, Time};

/// Offers of acknowledgment processors (SND_ACK_TOME) and the selected one.
#[derive(Debug)]
pub(super) struct ProcessorSelector {
    /// Lifetime of an offer.
    lifetime: Duration,
    offers: BTreeMap<NodeId, Offer>,
    chosen: Option<NodeId>,
}

#[derive(Debug)]
struct Offer {
    /// Remaining TTL of the offer; the highest is the nearest node.
    remaining_ttl: Scope,
    at: Time,
    /// First message that the node can repair.
    oldest: u64,
}

impl ProcessorSelector {
    /// Creates a selector without offers.
    pub fn new(lifetime: Duration) -> Self {
        ProcessorSelector { lifetime, offers: BTreeMap::new(), chosen: None }
    }

    /// Records an offer of a node.
    pub fn on_offer(&mut self, now: Time, from: NodeId, remaining_ttl: Scope, oldest: u64) {
        self.offers.insert(from, Offer { remaining_ttl, at: now, oldest });
    }

    /// Drops offers of nodes that `stays` rejects.
    pub fn retain(&mut self, stays: impl Fn(NodeId) -> bool) {
        self.offers.retain(|&node, _| stays(node));
    }

    /// Selects the nearest processor that can repair from message `missing_from` on. Ties go to the current
    /// processor, then to `default`. Returns true if the selection changed.
    pub fn choose(&mut self, now: Time, missing_from: u64, default: NodeId) -> bool {
        self.offers.retain(|_, offer| now.since(offer.at) <= self.lifetime);
        let (before, nearest) = (self.processor(default), self.offers.iter());
        // The current processor wins ties, so that equal neighbours do not alternate.
        let best = nearest.filter(|(_, offer)| offer.oldest <= missing_from).max_by_key(|&(&node, offer)| {
            (offer.remaining_ttl, node == before, node == default, std::cmp::Reverse(node))
        });
        self.chosen = best.map(|(&node, _)| node);
        self.processor(default) != before
    }

    /// Selected processor, or `default`.
    pub fn processor(&self, default: NodeId) -> NodeId {
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
    fn nearest_live_processor_is_chosen() {
        let mut selector = ProcessorSelector::new(Duration::from_millis(300));
        assert_eq!(selector.processor(DEFAULT), DEFAULT);
        selector.on_offer(at(0), NodeId(7), Scope(60), 0);
        selector.on_offer(at(200), NodeId(8), Scope(58), 0);
        assert!(selector.choose(at(200), 5, DEFAULT));
        assert_eq!(selector.processor(DEFAULT), NodeId(7));
        // The next nearest follows a silent one; the session's parent is the last resort.
        assert!(selector.choose(at(301), 5, DEFAULT));
        assert_eq!(selector.processor(DEFAULT), NodeId(8));
        assert!(selector.choose(at(501), 5, DEFAULT));
        assert_eq!(selector.processor(DEFAULT), DEFAULT);
    }

    #[test]
    fn processor_without_the_missing_message_is_not_chosen() {
        let mut selector = ProcessorSelector::new(Duration::from_millis(300));
        selector.on_offer(at(0), NodeId(7), Scope(60), 6);
        assert!(!selector.choose(at(0), 5, DEFAULT));
        assert!(selector.choose(at(0), 6, DEFAULT));
    }

    #[test]
    fn current_processor_wins_ties() {
        let mut selector = ProcessorSelector::new(Duration::from_millis(300));
        selector.on_offer(at(0), NodeId(9), Scope(60), 0);
        selector.on_offer(at(0), DEFAULT, Scope(60), 0);
        selector.on_offer(at(0), NodeId(8), Scope(60), 0);
        assert!(!selector.choose(at(0), 5, DEFAULT));
        selector.retain(|node| node != DEFAULT);
        assert!(selector.choose(at(0), 5, NodeId(3)));
        assert_eq!(selector.processor(NodeId(3)), NodeId(8));
        selector.on_offer(at(0), NodeId(1), Scope(60), 0);
        assert!(!selector.choose(at(0), 5, NodeId(3)));
    }
}
