//! A sender that has left its session and gathers for another one.

use carillon_core::{AssociationId, Duration, NodeId, Time};

use super::ReceiverSession;
use super::state::{ReceiverPhase, Timer};

impl ReceiverSession {
    /// Whether its sender, which has not been heard in its session for a while, gathers for another one: from where it was, or, started anew, from
    /// another port of the same host under the same name. Then there may be two of them: only if the other alone is heard for as long.
    pub(super) fn is_succeeded(
        &mut self,
        now: Time,
        association: AssociationId,
        source: NodeId,
        name: &str,
    ) -> bool {
        let silence = self.config.silence;
        let Some(over) = self.timers.armed(Timer::Silence).filter(|_| self.phase == ReceiverPhase::Running)
        else {
            return false;
        };
        let Some(invited) = self.invited.as_mut().filter(|invited| invited.association != association) else {
            return false;
        };
        if now + silence < over + SUCCEEDED {
            return false;
        }
        if invited.sender == source {
            return true;
        }
        let host = |node| self.config.addresses.of_node(node);
        if invited.name != name || host(source).is_none() || host(source) != host(invited.sender) {
            return false;
        }
        match invited.successor {
            Some((known, since)) if known == association => now.since(since) >= SUCCEEDED,
            _ => {
                invited.successor = Some((association, now));
                false
            }
        }
    }
}

/// A sender that says nothing in its session for so long, five heartbeats, and gathers for another one has ended the first.
const SUCCEEDED: Duration = Duration::from_secs(1);
