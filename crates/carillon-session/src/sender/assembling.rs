//! Agreement of the members of a session with a roster, as its organiser sees it.

use std::collections::BTreeSet;

use carillon_core::{HelperTable, NodeId, ObservedState, States, Time, Timers};

use super::measured::{self, Measured};
use super::state::{SenderPhase, Timer};
use crate::observed;

/// Declared states.
pub(super) const STATES: States = States {
    of: "sender, roster",
    transitions: &[
        ("[*]", "None", ""),
        ("None", "Announced", "the start condition holds: ROSTER and INVITE assembling"),
        ("Announced", "Announced", "a member was lost, or the distances are known: ROSTER of a new edition"),
        ("Announced", "Agreed", "READY of all members"),
        ("Agreed", "Announced", "the distances are known: ROSTER of a new edition"),
    ],
};

/// Agreement of the members.
#[derive(Debug, Default)]
pub(super) struct Assembling {
    /// Agreement on the roster, from the end of gathering, if members know each other.
    pub assembly: Option<Assembly>,
    /// Distances that the members report, for the helper tree.
    pub measured: Measured,
    pub timers: Timers<Timer>,
}

impl Assembling {
    pub fn observe(&self, phase: SenderPhase, is_measuring: bool) -> [ObservedState; 2] {
        let (state, edition) = match &self.assembly {
            None => ("None", 0),
            Some(assembly) => {
                let is_open = phase == SenderPhase::Assembling && assembly.ready.len() < assembly.ranks.len();
                (if is_open { "Announced" } else { "Agreed" }, assembly.edition)
            }
        };
        // Each edition of the roster is a new round of the agreement.
        let roster = ObservedState { turn: u64::from(edition), ..observed(&STATES, state) };
        [roster, observed(&measured::STATES, self.measured.state(is_measuring))]
    }
}

/// Agreement of the members on the roster.
#[derive(Debug)]
pub(super) struct Assembly {
    /// Number of the roster, higher for each new list of members.
    pub edition: u32,
    /// Time of the first announcement of this edition, in the time in which the session ran.
    pub told: Time,
    /// Members by rank, without the organiser.
    pub ranks: Vec<NodeId>,
    /// Rank of each member's helper, as the edition states it; 0 is the organiser.
    pub parents: Vec<u16>,
    /// Present assignment of members to helpers.
    pub table: HelperTable,
    /// Members heard since the first announcement of this edition.
    pub present: BTreeSet<NodeId>,
    /// Members that know the whole edition.
    pub ready: BTreeSet<NodeId>,
    /// First rank of the next page; 0 before the first page.
    pub next: usize,
    /// Heartbeats until the roster is repeated while the session runs.
    pub rest: u32,
}
