//! Bound of the repairs that one requester can cause, against receivers or strangers that request without end.

use std::collections::BTreeMap;

use carillon_core::Parameter;

/// Token bucket per requester: a number of repairs per message of the session, and an initial burst. All nodes that
/// are no members (routers, where they are admitted) should share one key.
#[derive(Debug)]
pub struct RepairBudget<K> {
    /// Repairs per message; 0 means no bound.
    each: u64,
    /// Repairs caused, by requester.
    spent: BTreeMap<K, u64>,
}

impl<K: Copy + Ord> RepairBudget<K> {
    /// Creates a budget of `each` repairs per message and requester; 0 means no bound.
    pub fn new(each: u64) -> Self {
        RepairBudget { each, spent: BTreeMap::new() }
    }

    /// Number of repairs that the requester may still cause after `messages` messages.
    pub fn left(&self, requester: K, messages: u64) -> u64 {
        if self.each == 0 {
            return u64::MAX;
        }
        // Receivers need repairs before many messages were sent, hence the initial ones.
        let all = INITIAL_REPAIRS.saturating_add(messages.saturating_mul(self.each));
        all.saturating_sub(self.spent.get(&requester).copied().unwrap_or_default())
    }

    /// Charges repairs to a requester.
    pub fn spend(&mut self, requester: K, repairs: u64) {
        if self.each > 0 {
            let spent = self.spent.entry(requester).or_default();
            *spent = spent.saturating_add(repairs);
        }
    }
}

/// Parameter of the budget. A path that loses nine of ten packets needs nine repairs per message.
pub const REPAIR_BUDGET: Parameter = Parameter::count("repair_budget", (0, 1000), "0")
    .doc("repairs that one requester may cause for each message there is, and 1024 more; requests beyond that are dropped; 0: any number (Carillon's)");

/// Initial number of repairs of a requester.
pub const INITIAL_REPAIRS: u64 = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budget_grows_with_messages_from_initial_repairs() {
        let mut budget = RepairBudget::new(9);
        assert_eq!(budget.left('a', 0), 1024);
        budget.spend('a', 1024);
        assert_eq!((budget.left('a', 0), budget.left('b', 0)), (0, 1024));
        assert_eq!(budget.left('a', 2), 18);
        budget.spend('a', u64::MAX);
        assert_eq!(budget.left('a', u64::MAX), 0);
    }

    #[test]
    fn zero_means_no_bound() {
        let mut budget = RepairBudget::new(0);
        budget.spend('a', u64::MAX);
        assert_eq!(budget.left('a', 0), u64::MAX);
        assert!(budget.spent.is_empty());
    }
}
