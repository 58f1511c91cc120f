//! How much a requester may have sent again: so that one member, or a stranger, that asks again and again
//! cannot make others send without bound.

use std::collections::BTreeMap;

use carillon_core::Parameter;

/// Counts the repairs that each requester causes: so many for each message there is, on the average of all,
/// and so many at once. All who are no members (routers, where they are let in) are best taken together.
#[derive(Debug)]
pub struct RepairBudget<K> {
    /// For each message; 0 if there is no bound.
    each: u64,
    /// By requester: as many as the protocol tells apart.
    spent: BTreeMap<K, u64>,
}

impl<K: Copy + Ord> RepairBudget<K> {
    /// So many repairs for each message and requester; 0 is any number.
    pub fn new(each: u64) -> Self {
        RepairBudget { each, spent: BTreeMap::new() }
    }

    /// The repairs that it may still cause after so many messages.
    pub fn left(&self, requester: K, messages: u64) -> u64 {
        if self.each == 0 {
            return u64::MAX;
        }
        let all = TO_BEGIN_WITH.saturating_add(messages.saturating_mul(self.each));
        all.saturating_sub(self.spent.get(&requester).copied().unwrap_or_default())
    }

    /// So many repairs are due on its word.
    pub fn spend(&mut self, requester: K, repairs: u64) {
        if self.each > 0 {
            let spent = self.spent.entry(requester).or_default();
            *spent = spent.saturating_add(repairs);
        }
    }
}

/// The parameter that it follows. A path that loses nine packets of ten needs nine repairs a message.
pub const REPAIR_BUDGET: Parameter = Parameter::count("repair_budget", (0, 1000), "0")
    .doc("repairs that one requester may cause for each message there is, and 1024 more; requests beyond that are dropped; 0: any number (Carillon's)");

/// Repairs that a requester may cause at once.
pub const TO_BEGIN_WITH: u64 = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_requester_has_so_many_for_each_message_and_some_to_begin_with() {
        let mut budget = RepairBudget::new(9);
        assert_eq!(budget.left('a', 0), 1024);
        budget.spend('a', 1024);
        assert_eq!((budget.left('a', 0), budget.left('b', 0)), (0, 1024));
        assert_eq!(budget.left('a', 2), 18);
        budget.spend('a', u64::MAX);
        assert_eq!(budget.left('a', u64::MAX), 0);
    }

    #[test]
    fn none_is_no_bound_and_counts_nothing() {
        let mut budget = RepairBudget::new(0);
        budget.spend('a', u64::MAX);
        assert_eq!(budget.left('a', 0), u64::MAX);
        assert!(budget.spent.is_empty());
    }
}
