//! A session that this receiver is not in, and whose further session will serve it: what goes by in it is heard.
//!
//! A machine of the session's protocol takes what its sender sends to the group, in whatever order it comes, and never says anything. What
//! it makes of it the application may keep: a further session [withholds](carillon_core::Sender::withhold) it.

use carillon_core::{
    AssociationId, BuildContext, Bytes, Config, Machine, NodeId, ProtocolEntry, Received, Role, Time,
};
use carillon_wire::session::Invite;

use super::ReceiverSession;
use crate::session::bounds;

/// Such a session.
#[derive(Debug)]
pub(super) struct Overhearing {
    session: (AssociationId, NodeId),
    /// Once it was invited to again, which says to what.
    machine: Option<Box<dyn Machine>>,
    longest: usize,
}

impl Overhearing {
    /// This session of this sender.
    pub fn new(association: AssociationId, sender: NodeId) -> Self {
        Overhearing { session: (association, sender), machine: None, longest: 0 }
    }
}

impl ReceiverSession {
    /// What went by in a session that this receiver is not in, and in which, if it is to be heard: messages, in no order, and not all.
    pub fn poll_overheard(&mut self) -> Option<(AssociationId, Bytes)> {
        let Overhearing { session: (association, _), machine, .. } = self.overhearing.as_deref_mut()?;
        let delivery = machine.as_mut()?.as_receiver()?.poll_delivery()?;
        Some((*association, delivery.payload))
    }

    /// A further session will serve this receiver, which is not in this one.
    pub(super) fn begin_overhearing(&mut self, association: AssociationId, sender: NodeId) {
        let session = (association, sender);
        if self.config.overhears && self.overhearing.as_ref().is_none_or(|one| one.session != session) {
            self.overhearing = Some(Box::new(Overhearing::new(association, sender)));
        }
    }

    /// An invitation, perhaps to the session that is overheard: it says how it is read.
    pub(super) fn learn_overheard(
        &mut self,
        source: NodeId,
        association: AssociationId,
        invite: &Invite<'_>,
    ) {
        let Some(overhearing) = &self.overhearing else { return };
        if overhearing.machine.is_some() || overhearing.session != (association, source) {
            return;
        }
        let machine = self.overheard(source, association, invite);
        if let Some(overhearing) = &mut self.overhearing {
            overhearing.machine = machine;
            overhearing.longest = BuildContext::max_datagram_len(invite.max_payload);
        }
    }

    /// The machine that hears it, if its protocol can be overheard.
    fn overheard(
        &self,
        sender: NodeId,
        association: AssociationId,
        invite: &Invite<'_>,
    ) -> Option<Box<dyn Machine>> {
        let named = |entry: &&&'static ProtocolEntry| entry.name == &*invite.protocol;
        let entry = self.config.protocols.iter().find(named)?;
        let overheard_with = entry.overheard_with?;
        if self.too_long(invite).is_some() || invite.max_payload > self.config.receive_buffer {
            return None;
        }
        let mut config = Config::defaults(entry.parameters);
        for (key, value) in invite.settings.pairs().chain(overheard_with.iter().copied()) {
            config.set(entry.parameters, key, value).ok()?;
        }
        bounds::cut(entry, &mut config, self.config.bit_rate);
        let context = self.context(association, sender, invite.max_payload);
        (entry.build)(Role::Receiver, &context, &config).ok()
    }

    /// A datagram of the protocol; whether it is of the session that is overheard.
    pub(super) fn overhear(
        &mut self,
        now: Time,
        association: AssociationId,
        datagram: &Received<'_>,
    ) -> bool {
        let Some(overhearing) = &mut self.overhearing else { return false };
        if overhearing.session != (association, datagram.source) {
            return false;
        }
        let Some(machine) = &mut overhearing.machine else { return false };
        if datagram.bytes.len() <= overhearing.longest {
            machine.handle_datagram(now, *datagram);
            // It is in no trace, and nothing is done about what it finds.
            while machine.poll_event().is_some() || machine.poll_notice().is_some() {}
        }
        true
    }
}
