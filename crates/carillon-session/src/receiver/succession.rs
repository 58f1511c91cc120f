//! Detection of a sender that has left its session and gathers for another one.

use carillon_core::{AssociationId, Duration, NodeId, Time};
use carillon_wire::session::State;

use super::ReceiverSession;
use super::outbox::Pending;
use super::state::{Invited, ReceiverPhase};

impl ReceiverSession {
    /// Reports at once if the node of the present session gathers for another one: that session has ended, and its
    /// successor says so in answer to the report.
    pub(super) fn ask_about_the_end(&mut self, association: AssociationId, source: NodeId, state: State) {
        let is_successor = |invited: &Invited| invited.sender == source && invited.association != association;
        if state == State::Gathering
            && self.phase == ReceiverPhase::Reporting
            && self.invited.as_ref().is_some_and(is_successor)
        {
            self.outbox.schedule(Pending::Report);
        }
    }

    /// Returns true if the sender has been silent in this session for a while and gathers for another one. It may do
    /// so from the same node, or after a restart from another port of the same host under the same name. In the
    /// latter case there may be two senders, so only the new one must have been heard for as long.
    pub(super) fn is_succeeded(
        &mut self,
        now: Time,
        association: AssociationId,
        source: NodeId,
        name: &str,
    ) -> bool {
        let is_running = self.phase == ReceiverPhase::Running;
        if !is_running || self.liveness.silence(now).is_none_or(|silence| silence < SUCCESSION_SILENCE) {
            return false;
        }
        let Some(invited) = self.invited.as_mut().filter(|invited| invited.association != association) else {
            return false;
        };
        // A sender that gathers at the same node has left its former session.
        if invited.sender == source {
            return true;
        }
        let host = |node| self.config.network.addresses.of_node(node);
        if invited.name != name || host(source).is_none() || host(source) != host(invited.sender) {
            return false;
        }
        match invited.successor {
            Some((known, since)) if known == association => now.since(since) >= SUCCESSION_SILENCE,
            _ => {
                invited.successor = Some((association, now));
                false
            }
        }
    }
}

/// Silence after which a sender that gathers for another session has ended this one: five heartbeats.
const SUCCESSION_SILENCE: Duration = Duration::from_secs(1);
