//! What other sites have asked for and is still to be sent to them.

use std::collections::{BTreeMap, BTreeSet};

/// Answers that are due. Only what was asked for is kept; the answer itself is made when it is sent.
#[derive(Debug, Default)]
pub(super) struct Answers {
    /// By site and timestamp, whether the message goes with the acknowledgment.
    repairs: BTreeMap<(u16, u64), bool>,
    /// Sites that want to know how far this one is.
    confirmations: BTreeSet<u16>,
    /// Sites that asked for what is not kept any more.
    purged: BTreeSet<u16>,
}

/// Repairs due at most.
const MOST: usize = 4096;

impl Answers {
    /// A site asks for an acknowledgment, with its message or without.
    pub fn repair(&mut self, site: u16, timestamp: u64, with_message: bool) {
        if self.repairs.len() < MOST {
            *self.repairs.entry((site, timestamp)).or_default() |= with_message;
        }
    }

    /// A site waits for a confirmation.
    pub fn confirm(&mut self, site: u16) {
        self.confirmations.insert(site);
    }

    /// A site asks for what is not kept any more.
    pub fn purged(&mut self, site: u16) {
        self.purged.insert(site);
    }

    /// The next site to be told what is not kept any more.
    pub fn next_purged(&mut self) -> Option<u16> {
        self.purged.pop_first()
    }

    /// The next repair: for whom, of what, and whether with the message.
    pub fn next_repair(&mut self) -> Option<(u16, u64, bool)> {
        self.repairs.pop_first().map(|((site, timestamp), with_message)| (site, timestamp, with_message))
    }

    /// The next site to be told how far this one is.
    pub fn next_confirmation(&mut self) -> Option<u16> {
        self.confirmations.pop_first()
    }
}
