//! Votes of one ballot, and the rule by which they suffice.

use std::collections::BTreeMap;

use carillon_wire::reformation::Ranks;

/// Vote: the log that a member holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Vote {
    /// Number of the last view that the member accepted.
    pub accepted: u32,
    /// Place after the last message before the first gap, in the order of that view.
    pub length: u64,
    /// Members of that view.
    pub members: Ranks,
    /// Members that joined that view without any state.
    pub joiners: Ranks,
}

/// Votes for one ballot, by rank.
#[derive(Clone, Debug, Default)]
pub(super) struct Votes(BTreeMap<usize, Vote>);

/// Log that continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Best {
    /// Rank of the member that has it.
    pub from: usize,
    /// Number of the view with that order.
    pub base: u32,
    /// Place after its last message.
    pub length: u64,
}

impl Votes {
    /// Counts a vote, which replaces an earlier one of the same member.
    pub fn insert(&mut self, rank: usize, vote: Vote) {
        self.0.insert(rank, vote);
    }

    /// Removes the vote of a member that has lost its state.
    pub fn remove(&mut self, rank: usize) {
        self.0.remove(&rank);
    }

    /// Members that have voted.
    pub fn voters(&self) -> Ranks {
        self.0.keys().copied().collect()
    }

    /// Members that should vote: the members of every view that a voter has accepted.
    pub fn wanted(&self) -> Ranks {
        self.0.values().fold(Ranks::default(), |all, vote| all.or(&vote.members))
    }

    /// Log that continues, if the votes suffice: those of a majority of all `group` nodes, and of all but
    /// `resilience` members of the last view that any voter accepted.
    ///
    /// The majority ensures that two ballots share a voter, so that the later one learns what the earlier one may
    /// have put in force. The other condition concerns messages: a committed message is held by `resilience` + 1
    /// members of its view. One of them therefore votes, and the members that did not vote are too few to commit more
    /// in that view.
    ///
    /// Instead of the latter, the votes of all members of the last view that are not `gone` suffice: a message that
    /// one of them delivered is in its log. Messages that only `gone` members delivered may be lost. If a member that
    /// is not gone is silent, this does not apply, since it may have delivered messages that only it and gone members
    /// hold.
    ///
    /// A joiner counts for the view it joined only after it has accepted it, since an earlier vote says nothing of
    /// its later log.
    pub fn best(&self, group: usize, resilience: usize, gone: &Ranks) -> Option<Best> {
        // A later view cannot have been in force: some voter would have accepted it.
        // An order may change the members of its view, so that the longest log knows them.
        let last = self.0.values().max_by_key(|vote| (vote.accepted, vote.length))?;
        let counts = |&(rank, vote): &(&usize, &Vote)| {
            last.members.contains(*rank) && (!last.joiners.contains(*rank) || vote.accepted == last.accepted)
        };
        let of_last_view: Ranks = self.0.iter().filter(counts).map(|(&rank, _)| rank).collect();
        // With a resilience beyond the size of the view, one vote of it is still needed.
        let enough = last.members.len().saturating_sub(resilience).max(1);
        // Members that may be alive and have not voted.
        let silent = last.members.without(&of_last_view).without(gone);
        if self.0.len() <= group / 2 || (of_last_view.len() < enough && !silent.is_empty()) {
            return None;
        }
        // Only logs in the order of the last view may continue. Of equally long ones, the lowest rank has it.
        let in_order = self.0.iter().filter(|(_, vote)| vote.accepted == last.accepted);
        let longest = in_order.max_by_key(|(rank, vote)| (vote.length, std::cmp::Reverse(**rank)));
        longest.map(|(&from, vote)| Best { from, base: vote.accepted, length: vote.length })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vote(accepted: u32, length: u64, members: usize) -> Vote {
        Vote { accepted, length, members: Ranks::below(members), joiners: Ranks::default() }
    }

    fn votes(all: &[(usize, Vote)]) -> Votes {
        Votes(all.iter().copied().collect())
    }

    #[test]
    fn all_but_resilience_members_must_vote() {
        let two = votes(&[(0, vote(0, 1, 5)), (1, vote(0, 1, 5))]);
        assert_eq!(two.best(5, 2, &Ranks::default()), None, "no majority");
        let three = votes(&[(0, vote(0, 1, 5)), (1, vote(0, 4, 5)), (2, vote(0, 4, 5))]);
        assert_eq!(three.best(5, 1, &Ranks::default()), None, "two are missing, one may");
        assert_eq!(three.best(5, 2, &Ranks::default()), Some(Best { from: 1, base: 0, length: 4 }));
        assert_eq!(three.best(5, 0, &Ranks::default()), None, "without resilience no crash is survived");
    }

    #[test]
    fn gone_members_do_not_count_if_all_others_vote() {
        let gone = |ranks: &[usize]| ranks.iter().copied().collect::<Ranks>();
        let three = votes(&[(0, vote(0, 1, 5)), (1, vote(0, 4, 5)), (2, vote(0, 4, 5))]);
        assert_eq!(three.best(5, 1, &gone(&[3, 4])), Some(Best { from: 1, base: 0, length: 4 }));
        assert_eq!(three.best(5, 1, &gone(&[4])), None, "3 and 4 may hold what 3 has delivered");
        let two = votes(&[(0, vote(0, 1, 5)), (1, vote(0, 4, 5))]);
        assert_eq!(two.best(5, 1, &gone(&[2, 3, 4])), None, "no majority");
        // The same in a later view, but the group still has five nodes.
        let later = votes(&[(0, vote(3, 1, 3)), (1, vote(3, 1, 3))]);
        assert_eq!(later.best(5, 0, &gone(&[2])), None, "no majority");
        assert_eq!(later.best(3, 0, &gone(&[2])).map(|best| best.base), Some(3));
    }

    #[test]
    fn last_view_precedes_longest_log() {
        let mixed = votes(&[(0, vote(0, 9, 3)), (1, vote(2, 4, 2))]);
        assert_eq!(mixed.best(3, 1, &Ranks::default()), Some(Best { from: 1, base: 2, length: 4 }));
    }

    #[test]
    fn joiner_counts_only_after_accepting_view() {
        let joined = Vote { joiners: [2].into_iter().collect(), ..vote(3, 7, 3) };
        let stale = votes(&[(0, joined), (2, vote(0, 7, 3))]);
        assert_eq!(stale.best(3, 1, &Ranks::default()), None);
        let fresh = votes(&[(0, joined), (2, joined)]);
        assert_eq!(fresh.best(3, 1, &Ranks::default()).map(|best| best.length), Some(7));
    }
}
