//! Packets of the session that wait to be sent by a receiver.
//!
//! A packet is composed when it leaves, so that it states the present state.

use std::collections::BTreeSet;

use carillon_core::{AssociationId, NodeId};

use super::releases::EarlierDecline;

/// Packet that the session's state composes. The order of the variants is the order of sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Pending {
    /// JOIN, or ASK if the invitation cannot be accepted.
    Join,
    /// JOIN to the group, with a nonce that is no secret.
    Knock,
    /// ASK to the present sender.
    Ask,
    /// PRESENT to the group.
    Present,
    /// READY.
    Ready,
    /// REPORT. It waits until the sender has admitted the receiver.
    Report,
    /// PROGRESS.
    Progress,
    /// HOLDINGS.
    Holdings,
}

/// Packets to send: notices to senders that invite, then `pending`, then the notice of leaving.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    pub decline: Option<Decline>,
    pub earlier_decline: Option<EarlierDecline>,
    pub pending: BTreeSet<Pending>,
    pub leave: Option<Leave>,
}

/// Notice to a sender that its invitation is declined.
#[derive(Debug)]
pub(super) struct Decline {
    pub association: AssociationId,
    pub sender: NodeId,
    pub text: String,
    /// Number of packets left to send.
    pub left: usize,
}

/// Notice to the sender that this receiver leaves.
#[derive(Debug)]
pub(super) struct Leave {
    pub reason: String,
    /// Number of packets left to send.
    pub left: usize,
}

impl Outbox {
    /// Schedules a packet of the session's state.
    pub fn schedule(&mut self, packet: Pending) {
        self.pending.insert(packet);
    }

    /// Cancels packets of the session's state.
    pub fn cancel(&mut self, packets: &[Pending]) {
        self.pending.retain(|packet| !packets.contains(packet));
    }

    /// Takes the next packet of the session's state. Before the admission a REPORT has to wait.
    pub fn take(&mut self, is_admitted: bool) -> Option<Pending> {
        let may_go = |packet: &&Pending| is_admitted || **packet != Pending::Report;
        let next = *self.pending.iter().find(may_go)?;
        self.pending.remove(&next);
        Some(next)
    }
}
