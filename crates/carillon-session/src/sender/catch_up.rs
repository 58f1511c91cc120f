//! Catch-up: receivers of the job across its sessions, and which of them the next session is to serve.

use std::collections::{BTreeMap, BTreeSet};

use carillon_core::{NodeId, States, Time};

use crate::ledger::Ledger;
use crate::unserved::UnservedList;

/// Declared states.
pub(super) const STATES: States = States {
    of: "sender, receiver of the job",
    transitions: &[
        ("[*]", "Known", "JOIN: its name is entered in the ledger"),
        ("[*]", "Wanted", "JOIN or DECLINE after the start"),
        ("[*]", "Verified", "an earlier session of the job verified the receiver"),
        ("Known", "Wanted", "REFUSE later"),
        ("Known", "Verified", "REPORT verified"),
        ("Wanted", "Verified", "REPORT verified, or JOIN of a receiver that has everything"),
        ("Verified", "Known", "REPORT failed or damaged"),
        ("Verified", "Wanted", "REPORT damaged"),
    ],
};

/// Receivers of the job.
#[derive(Debug, Default)]
pub(super) struct CatchUp {
    /// Receivers of the job.
    pub ledger: Ledger,
    /// Receivers that are not served.
    pub unserved: UnservedList,
    /// Nodes that may be known receivers at another address, with the time of their first JOIN.
    pub undecided: BTreeMap<NodeId, Time>,
    /// Names of the receivers that a catch-up session is to serve.
    pub wanting: BTreeSet<String>,
    /// True if another session continues the stream of this one, so a verified member has only a part.
    pub continues: bool,
    /// Receivers that reported to an earlier session after its end, with the time.
    pub reported_since: BTreeMap<String, Time>,
}

impl CatchUp {
    pub fn new(ledger: Ledger) -> Self {
        CatchUp { ledger, ..CatchUp::default() }
    }
}
