//! Packets to send, chosen when the caller asks, so that packets that have become needless are not sent.

use carillon_wire::reformation::{Ballot, Packet, Ranks};

use super::view::{Proposal, To, View};

/// Flags of the packets to send.
#[derive(Clone, Debug, Default)]
pub(super) struct Due {
    /// INVITE to the own ballot.
    pub invite: bool,
    /// VOTE for the promised ballot.
    pub vote: bool,
    /// REFUSE to this node, for this ballot of it.
    pub refuse: Option<(usize, Ballot)>,
    /// START of the proposed view.
    pub start: bool,
    /// READY for the accepted view.
    pub ready: bool,
    /// ACTIVE to these members.
    pub active: Ranks,
    /// INSTALLED to the leader.
    pub installed: bool,
    /// JOIN to the group.
    pub join: bool,
}

/// State of a node that its packets carry.
pub(super) struct Standing<'a> {
    pub rank: usize,
    pub promised: Ballot,
    pub accepted: &'a View,
    pub is_lost: bool,
}

impl Due {
    /// Next packet of a node that has everything below `length`. `starting` is the view it proposes.
    pub fn poll<'a>(
        &mut self,
        node: Standing<'_>,
        length: u64,
        starting: Option<&'a Proposal>,
    ) -> Option<(To, Packet<'a>)> {
        let (ballot, leader) = (node.promised, To::Rank(node.promised.coordinator.into()));
        let View { ballot: accepted, members, joiners } = *node.accepted;
        // Each call takes one packet. The contents are of the time of sending, so that a vote states the present log.
        if std::mem::take(&mut self.invite) {
            return Some((To::Group, Packet::Invite { ballot }));
        }
        if std::mem::take(&mut self.vote) {
            return Some((
                leader,
                Packet::Vote { ballot, accepted: accepted.number, length, members, joiners },
            ));
        }
        if let Some((to, refused)) = self.refuse.take() {
            return Some((To::Rank(to), Packet::Refuse { ballot: refused, promised: ballot }));
        }
        if std::mem::take(&mut self.ready) {
            return Some((leader, Packet::Ready { ballot: accepted }));
        }
        if std::mem::take(&mut self.installed) {
            return Some((To::Rank(node.accepted.leader()), Packet::Installed { ballot: accepted }));
        }
        if let Some(rank) = self.active.iter().next() {
            // If all other members need it, one multicast serves them.
            let all = members.without(&[node.rank].into_iter().collect());
            let to = if self.active == all { To::Group } else { To::Rank(rank) };
            match to {
                To::Group => self.active = Ranks::default(),
                To::Rank(rank) => _ = self.active.remove(rank),
            }
            return Some((to, Packet::Active { ballot: accepted }));
        }
        if std::mem::take(&mut self.join) {
            return Some((To::Group, Packet::Join { lost: node.is_lost }));
        }
        let proposal = starting.filter(|_| std::mem::take(&mut self.start))?;
        let View { ballot, members, joiners } = proposal.view;
        let (base, length, state) = (proposal.base, proposal.length, &proposal.state);
        Some((To::Group, Packet::Start { ballot, base, length, members, joiners, state }))
    }
}
