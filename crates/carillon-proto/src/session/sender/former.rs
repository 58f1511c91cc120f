//! Members of a session before this one that may report yet: one that stood still may have had everything in its socket.

use std::collections::BTreeMap;

use carillon_core::{AssociationId, NodeId, Time};
use carillon_wire::session::Nonce;

use super::{Reply, SenderSession};
use crate::session::roster::MemberOutcome;

/// Those who were given up by sessions that had sent everything.
#[derive(Clone, Debug, Default)]
pub struct Former {
    /// Their names, by the session, where they are, and what nobody else knows.
    members: BTreeMap<(AssociationId, NodeId, Nonce), String>,
}

impl SenderSession {
    /// Those whom this session, and those before it, have given up, for the next one.
    pub fn former(&self) -> Former {
        let mut former = self.config.former.clone();
        if self.finishing {
            for (index, member) in self.roster.members().iter().enumerate() {
                let nonce = self.roster.record(index).nonce;
                if let MemberOutcome::Lost(_) = member.outcome {
                    former.members.insert((self.config.association, member.node, nonce), member.name.clone());
                }
            }
        }
        former
    }

    /// The names of those of sessions before this one that have said since that they have everything, verified, and when.
    pub fn reported_since(&self) -> impl Iterator<Item = (&str, Time)> {
        self.reported_since.iter().map(|(name, at)| (name.as_str(), *at))
    }

    /// A report of a session before this one, from one that was there.
    pub(super) fn on_former_report(
        &mut self,
        now: Time,
        association: AssociationId,
        source: NodeId,
        nonce: Nonce,
    ) -> bool {
        let Some(name) = self.config.former.members.get(&(association, source, nonce)) else { return false };
        self.reported_since.entry(name.clone()).or_insert(now);
        self.replies.insert(source, Reply::Former(association, nonce));
        true
    }
}
