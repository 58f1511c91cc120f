//! Other senders on the same group.
//!
//! Receivers join the sender that they hear first, so the user of either sender should know of the other. A sender of
//! a one-sender protocol listens to the group only while it gathers. It therefore answers the invitation of another
//! sender with a unicast of its own.

use carillon_core::{AssociationId, NodeId, Time};
use carillon_wire::session::{Body, DatagramSizes, Invite, Name, Packet, Settings, State, Text};

use super::SenderSession;
use super::state::{Reply, Rival, SenderPhase};

impl SenderSession {
    /// Handles an invitation of another session with a packet of `len` bytes.
    pub(super) fn on_rival(
        &mut self,
        now: Time,
        node: NodeId,
        association: AssociationId,
        invite: &Invite<'_>,
        len: usize,
    ) {
        // A session that is over takes no receivers away. A member of this session is no other sender.
        if self.roster.index_of(node).is_some() || matches!(invite.state, State::Finished | State::Aborted) {
            return;
        }
        let known = self.answering.rivals.iter().position(|rival| rival.node == node);
        let index = known.unwrap_or(self.answering.rivals.len());
        if index == MAX_RIVALS {
            return;
        }
        if known.is_none() {
            let name = invite.sender.to_string();
            self.answering.rivals.push(Rival {
                name,
                node,
                association,
                heard: now,
                answers: ANSWERS_PER_RIVAL,
            });
        }
        // A node that only claims to be a sender cannot make this one send more than it receives.
        let answer = Packet { association: self.config.association, body: self.short_invite() };
        let affordable = answer.wire_len() <= len * AMPLIFICATION_LIMIT;
        let rival = &mut self.answering.rivals[index];
        if affordable && rival.answers > 0 && self.phase == SenderPhase::Gathering {
            rival.answers -= 1;
            self.answering.replies.insert(node, Reply::Invite);
        }
    }

    /// Invitation without the fields that only receivers need.
    pub(super) fn short_invite(&self) -> Body<'_> {
        let name = |name| Name::new(name).expect("names were checked when the session was made");
        Body::Invite(Invite {
            state: State::Gathering,
            max_payload: self.config.max_payload,
            progress_interval: self.progress_interval(),
            relays: false,
            sizes: DatagramSizes::default(),
            protocol: name(self.config.protocol.name),
            sender: name(&self.config.name),
            settings: Settings::default(),
            reason: Text::default(),
            job: None,
            asks: false,
            job_name: None,
        })
    }
}

/// Maximum number of other senders remembered.
const MAX_RIVALS: usize = 8;
/// Number of answers to each, since some may be lost.
const ANSWERS_PER_RIVAL: u32 = 3;
/// Maximum ratio of the lengths of an answer and the packet it answers.
const AMPLIFICATION_LIMIT: usize = 3;
