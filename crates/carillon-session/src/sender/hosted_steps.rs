//! Construction and calls of the protocol's machine at a sender.

use carillon_core::{
    BuildContext, ConfigError, Delivery, Event, HelperTable, Identities, Machine, NodeId, Notice, Receiver,
    Role,
};

use super::SenderSession;
use super::state::Pending;
use crate::LOCAL_NODE;

impl SenderSession {
    /// Builds the protocol's sender.
    pub(super) fn build(
        &self,
        members: &[(NodeId, u64)],
        helpers: HelperTable,
    ) -> Result<Box<dyn Machine>, ConfigError> {
        // Among peers this node has the first rank.
        let (role, own) = match self.config.has_peers() {
            true => (Role::Peer, Some((LOCAL_NODE, self.hosted.identity.0))),
            false => (Role::Sender, None),
        };
        let members = || own.iter().chain(members).copied();
        // A sender that is no member has no identity among them.
        let identity = own.map_or(0, |(_, identity)| identity);
        let context = BuildContext {
            association: self.config.association,
            node: LOCAL_NODE,
            sender: LOCAL_NODE,
            members: members().map(|(node, _)| node).collect(),
            helpers: helpers.into(),
            identities: Identities::agreed(identity, members().map(|(_, identity)| identity).collect()),
            addresses: self.config.network.addresses.clone(),
            group: self.config.group,
            seeds: self.hosted.seeds.clone(),
            bit_rate: self.config.network.bit_rate,
            link_overhead: self.config.network.link_overhead,
            max_payload: self.sending.max_payload,
            memory: self.config.memory,
            rejoining: false,
        };
        let mut machine = (self.config.protocol.build)(role, &context, &self.config.config)?;
        match machine.as_sender() {
            Some(_) => Ok(machine),
            None => Err(ConfigError::Conflict(format!("{} has no sender", self.config.protocol.name))),
        }
    }

    /// Calls the protocol's machine, if it exists, and processes its notices and events.
    pub(super) fn with_inner<T>(&mut self, call: impl FnOnce(&mut dyn Machine) -> T) -> Option<T> {
        let inner = self.hosted.machine.as_deref_mut()?;
        let result = call(inner);
        while let Some(notice) = inner.poll_notice() {
            let index = |member| self.roster.index_of(member);
            self.watching.pulse.note(&notice);
            match notice {
                Notice::MemberLost { member } => {
                    if let Some(index) = index(member) {
                        if self.config.has_roster() {
                            self.announcing.pending.insert(Pending::Roster);
                        }
                        self.hosted.lost.push(member);
                        if self.config.has_peers()
                            && std::mem::replace(&mut self.roster.record_mut(index).expelled, true)
                        {
                            // The protocol's machine reported the loss and has announced it.
                            continue;
                        }
                        self.roster.lose(index, "stopped acknowledging".to_owned());
                    }
                    self.events.push(Event::MemberLost { member });
                }
                Notice::RepairNeeded { member, messages } => {
                    if let Some(index) = index(member) {
                        self.roster.lacks(index, messages);
                    }
                }
                Notice::Sent { repair: true, .. } => {
                    self.hosted.repairs += 1;
                    self.roster.repaired();
                }
                Notice::TooFewMembers => self.hosted.too_few |= self.config.has_peers(),
                // The application that offered the message may wait for this notice.
                Notice::Completed { .. } => self.events.notify(notice),
                Notice::Sent { .. } | Notice::LossFinal { .. } => {}
            }
        }
        // Lost members were recorded above, once.
        let others = |event: &Event| !matches!(event, Event::MemberLost { .. });
        std::iter::from_fn(|| inner.poll_event()).filter(others).for_each(|event| self.events.push(event));
        Some(result)
    }
}

impl Receiver for SenderSession {
    fn poll_delivery(&mut self) -> Option<Delivery> {
        if let Some(delivery) = self.hosted.left_over.pop_front() {
            return Some(delivery);
        }
        let delivery = self.with_inner(|inner| inner.as_receiver()?.poll_delivery()).flatten()?;
        // Own messages were counted when they were offered.
        if delivery.source != LOCAL_NODE {
            self.sending.offered_bytes =
                self.sending.offered_bytes.saturating_add(delivery.payload.len() as u64);
        }
        self.watching.made_progress = true;
        Some(delivery)
    }
}
