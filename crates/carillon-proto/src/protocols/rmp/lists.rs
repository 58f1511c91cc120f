//! Lists of members in the total order. A list is a slot: every member has the same members before and after it.

use std::collections::BTreeMap;

use carillon_wire::reformation::{Ballot, Ranks};

use super::context::Context;
use crate::blocks::reformation::View;

/// Lists of the present view.
#[derive(Debug)]
pub(super) struct Lists {
    /// Members as of the last list or view that was delivered.
    pub announced: Ranks,
    /// Timestamp of the list that has admitted each of these members.
    pub admitted: BTreeMap<u16, u64>,
    /// Number of passes of the token before the last list.
    pub last: Option<u64>,
    /// List with which this member begins, until it holds its slot.
    pub awaited: Option<Ranks>,
}

impl Lists {
    /// Creates the record of a view without a list.
    pub fn new(members: Ranks) -> Self {
        Lists { announced: members, admitted: BTreeMap::new(), last: None, awaited: None }
    }

    /// Forgets the lists of the view that ends.
    pub fn begin_view(&mut self) {
        self.admitted.clear();
        (self.last, self.awaited) = (None, None);
    }

    /// Records a list in the log, with the members that it admits.
    pub fn on_list(&mut self, timestamp: u64, passes: u64, members: &Ranks, come: &Ranks) {
        self.admitted.retain(|&rank, _| members.contains(rank.into()));
        self.admitted.extend(come.iter().map(|rank| (rank as u16, timestamp)));
        (self.last, self.awaited) = (Some(passes), None);
    }

    /// Notifies the host of a delivered list.
    pub fn announce(&mut self, context: &mut Context, members: Ranks) {
        let view = View { ballot: Ballot::default(), members, joiners: Ranks::default() };
        context.on_view(&std::mem::replace(&mut self.announced, members), &view);
    }
}
