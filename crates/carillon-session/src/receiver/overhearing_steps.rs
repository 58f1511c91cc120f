//! Steps of a receiver that overhears a session.

use carillon_core::{
    AssociationId, BuildContext, Bytes, Config, Machine, NodeId, ObservedState, ProtocolEntry, Received,
    Role, Time,
};
use carillon_wire::session::Invite;

use super::super::demands;
use super::ReceiverSession;
use super::overhearing::{Overhearing, STATES};
use crate::{bounds, observed};

impl ReceiverSession {
    /// State of overhearing.
    pub(super) fn observe_overhearing(&self) -> ObservedState {
        observed(
            &STATES,
            match self.seeking.overhearing.as_deref() {
                None => "Idle",
                Some(Overhearing { machine: None, .. }) => "Chosen",
                Some(Overhearing { machine: Some(_), .. }) => "Listening",
            },
        )
    }

    /// Next message overheard, with its session. Messages come in any order, and not all of them come.
    pub fn poll_overheard(&mut self) -> Option<(AssociationId, Bytes)> {
        let Overhearing { session: (association, _), machine, .. } =
            self.seeking.overhearing.as_deref_mut()?;
        let delivery = machine.as_mut()?.as_receiver()?.poll_delivery()?;
        Some((*association, delivery.payload))
    }

    /// Begins to overhear a session, as a catch-up session will serve this receiver.
    pub(super) fn begin_overhearing(&mut self, association: AssociationId, sender: NodeId) {
        let session = (association, sender);
        if self.config.overhears && self.seeking.overhearing.as_ref().is_none_or(|one| one.session != session)
        {
            self.seeking.overhearing = Some(Box::new(Overhearing::new(association, sender)));
        }
    }

    /// Creates the machine, if this invitation belongs to the overheard session.
    pub(super) fn learn_overheard(
        &mut self,
        source: NodeId,
        association: AssociationId,
        invite: &Invite<'_>,
    ) {
        let Some(overhearing) = &self.seeking.overhearing else { return };
        if overhearing.machine.is_some() || overhearing.session != (association, source) {
            return;
        }
        let machine = self.overheard(source, association, invite);
        if let Some(overhearing) = &mut self.seeking.overhearing {
            overhearing.machine = machine;
            overhearing.longest = BuildContext::max_datagram_len(invite.max_payload);
        }
    }

    /// Machine that overhears, if the protocol permits it.
    fn overheard(
        &self,
        sender: NodeId,
        association: AssociationId,
        invite: &Invite<'_>,
    ) -> Option<Box<dyn Machine>> {
        let named = |entry: &&&'static ProtocolEntry| entry.name == &*invite.protocol;
        let entry = self.config.protocols.iter().find(named)?;
        let overheard_with = entry.session.overheard_with?;
        // The limits of a session that is joined hold here too.
        if self.too_long(invite).is_some() || invite.max_payload > self.config.receive_buffer {
            return None;
        }
        let mut config = Config::defaults(entry.parameters);
        // Settings for overhearing come last, so that they override the sender's.
        let own = demands::protocol_settings(&invite.settings);
        for (key, value) in own.chain(overheard_with.iter().copied()) {
            config.set(entry.parameters, key, value).ok()?;
        }
        bounds::cut(entry, &mut config, self.config.network.bit_rate);
        let context = self.context(association, sender, invite.max_payload);
        (entry.build)(Role::Receiver, &context, &config).ok()
    }

    /// Handles a datagram of a protocol. Returns true if it belongs to the overheard session.
    pub(super) fn overhear(
        &mut self,
        now: Time,
        association: AssociationId,
        datagram: &Received<'_>,
    ) -> bool {
        let Some(overhearing) = &mut self.seeking.overhearing else { return false };
        if overhearing.session != (association, datagram.source) {
            return false;
        }
        let Some(machine) = &mut overhearing.machine else { return false };
        // Machines count memory in datagrams, so none may be longer than announced.
        if datagram.bytes.len() <= overhearing.longest {
            machine.handle_datagram(now, *datagram);
            // Events of this machine are neither recorded nor acted on.
            while machine.poll_event().is_some() || machine.poll_notice().is_some() {}
        }
        true
    }
}
