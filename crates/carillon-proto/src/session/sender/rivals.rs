//! Other senders on the same group: receivers join whichever they hear first, so whoever runs them
//! wants to know.
//!
//! A sender of a one-sender protocol hears the group while it gathers only. It therefore answers the
//! other's invitation with one of its own, to that sender alone, which then knows too.

use carillon_core::{AssociationId, NodeId, Time};
use carillon_wire::session::{Body, DatagramSizes, Invite, Name, Packet, Settings, State, Text};

use super::SenderSession;
use super::state::{Reply, Rival, SenderPhase};

impl SenderSession {
    /// An invitation to another session, of so many bytes.
    pub(super) fn on_rival(
        &mut self,
        now: Time,
        node: NodeId,
        association: AssociationId,
        invite: &Invite<'_>,
        len: usize,
    ) {
        if self.roster.index_of(node).is_some() || matches!(invite.state, State::Finished | State::Aborted) {
            return;
        }
        let known = self.rivals.iter().position(|rival| rival.node == node);
        let index = known.unwrap_or(self.rivals.len());
        if index == MOST {
            return;
        }
        if known.is_none() {
            let name = invite.sender.to_string();
            self.rivals.push(Rival { name, node, association, heard: now, answers: ANSWERS });
        }
        // One that only claims to be a sender does not make this one send more than it is sent.
        let answer = Packet { association: self.config.association, body: self.short_invite() };
        let affordable = answer.wire_len() <= len * MOST_GAIN;
        let rival = &mut self.rivals[index];
        if affordable && rival.answers > 0 && self.phase == SenderPhase::Gathering {
            rival.answers -= 1;
            self.replies.insert(node, Reply::Invite);
        }
    }

    /// An invitation without what only receivers need.
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
        })
    }
}

/// Other senders remembered.
const MOST: usize = 8;
/// Answers to each, since the network may lose them.
const ANSWERS: u32 = 3;
/// An answer is at most this many times as long as what it answers.
const MOST_GAIN: usize = 3;
