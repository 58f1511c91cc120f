//! Parity at a receiver (RFC 3208, section 11.4): it judges losses at the end of a transmission group, asks for as many
//! parity packets as the group is missing, and computes the missing data.

use bytes::Bytes;
use carillon_core::{Dest, DropReason, Event, MessageId, Transmit};
use carillon_wire::pgm::{Body, Data, Nak, NakList, Options};

use super::super::identity::list_of;
use super::super::parity::Offer;
use super::groups::Groups;
use super::{PgmReceiver, Piece, Upstream};
use crate::blocks::{MachineContext, Tries, Waits, near, wire};

impl PgmReceiver {
    /// Accepts the parity that the first SPM offers, if the window has room for several groups.
    pub(super) fn accept_parity(&mut self, options: &Options<'_>, terms: Option<(Waits, Tries)>) {
        let Some(offer) = Offer::of_spm(options).filter(|offer| self.rxw_sqns >= MIN_GROUPS * offer.size)
        else {
            return;
        };
        self.groups = terms.map(|(waits, tries)| Box::new(Groups::new(offer, waits, tries)));
    }

    /// Keeps a data packet for the code.
    pub(super) fn keep_symbol(&mut self, number: u64, piece: &Piece) {
        if let Some(groups) = &mut self.groups {
            groups.keep(number, piece.payload.clone());
        }
    }

    /// Forgets that a packet is missing. Returns true if it was awaited in its group.
    pub(super) fn remove_awaited(&mut self, number: u64) -> bool {
        self.groups.as_mut().is_some_and(|groups| groups.remove(number))
    }

    /// Computes missing data of the group of a data packet, and judges the losses of earlier groups, which have ended.
    pub(super) fn on_group_data(&mut self, context: &mut MachineContext, number: u64) {
        let Some(groups) = &mut self.groups else { return };
        let group = groups.offer.group_of(number);
        self.recover(context, group);
        self.judge_losses(context, group, group);
    }

    /// Requests what is missing before `end`, as parity if all packets of the group, before `sent`, were sent.
    pub(super) fn judge_losses(&mut self, context: &mut MachineContext, end: u64, sent: u64) {
        if let Some(groups) = &mut self.groups {
            let single = groups.judge(context.now, end, sent);
            self.missing.add(context.now, single);
        }
    }

    /// Drops groups that are behind, and requests what is left of the group that the trailing edge divides.
    pub(super) fn advance_groups(&mut self, context: &mut MachineContext) {
        if let Some(groups) = &mut self.groups {
            let single = groups.advance(self.early.expected(), self.trail);
            self.missing.add(context.now, single);
        }
    }

    /// Expires the waits of requests for parity. Groups without an answer are requested packet by packet.
    pub(super) fn expire_groups(&mut self, context: &mut MachineContext) {
        if let Some(groups) = &mut self.groups {
            for group in groups.requests.expire(context.now) {
                self.missing.add(context.now, groups.give_up(group));
            }
        }
    }

    /// Handles a parity packet.
    pub(super) fn on_parity(
        &mut self,
        context: &mut MachineContext,
        data: Data<'_>,
        options: Options<'_>,
        payload: Bytes,
    ) {
        let number = self.expand(data.sqn);
        let (Some(groups), true) = (&self.groups, self.upstream.is_some()) else {
            return context.events.dropped(DropReason::Redundant);
        };
        let offer = groups.offer;
        let group = offer.group_of(number);
        let end = group.saturating_add(offer.size);
        let Some(index) = offer.index(number, options.parity_group) else {
            return context.events.dropped(DropReason::Malformed);
        };
        let trail = near(data.trail, number);
        if trail > end || end > self.limit() {
            return context.events.dropped(DropReason::OutOfWindow);
        }
        // A source sends parity of whole groups only.
        self.known = self.known.max(Some(end));
        self.on_trail(context, trail);
        self.advance(context);
        let is_missing = |number: &u64| !matches!(self.early.get(*number), Some(Some(_)));
        if !(group.max(self.early.expected())..end).any(|number| is_missing(&number)) {
            return context.events.dropped(DropReason::Redundant);
        }
        if self.is_full(context) {
            return context.events.dropped(DropReason::BufferFull);
        }
        let Some(groups) = &mut self.groups else { return };
        if !groups.keep_parity(group, index, payload, options.variable_length) {
            return context.events.dropped(DropReason::Duplicate);
        }
        context.events.received("parity", number);
        self.recover(context, group);
    }

    /// Delivers the missing data of a group that enough packets give.
    fn recover(&mut self, context: &mut MachineContext, group: u64) {
        let Some(groups) = &mut self.groups else { return };
        for (number, payload) in groups.decode(group) {
            self.missing.remove(number);
            if let Some(repairer) = &mut self.repairer {
                repairer.hold(number, payload.clone());
            }
            let piece = Piece { payload, fragment: None };
            self.keep_symbol(number, &piece);
            // The first packets of a group may lie before the start of the reception.
            if number >= self.early.expected() && !matches!(self.early.get(number), Some(Some(_))) {
                let message = MessageId(number);
                context.events.push(Event::LossRepaired { source: context.sender, message });
                self.early.insert(number, Some(piece));
            }
        }
        self.advance(context);
    }

    /// Handles the NCF of a parity NAK: it suppresses the own one if it counts as many packets.
    pub(super) fn on_parity_ncf(&mut self, context: &mut MachineContext, nak: Nak, list: NakList<'_>) {
        context.events.received("ncf", self.expand(nak.sqn));
        for group in self.counted_groups(context, nak, list) {
            let Some(groups) = &mut self.groups else { return };
            if groups.requests.on_confirmed(context.now, group) == Some(true) {
                context.events.push(Event::RequestSuppressed { message: MessageId(group) });
            }
        }
    }

    /// Handles the parity NAK of another receiver.
    pub(super) fn on_parity_nak(&mut self, context: &mut MachineContext, nak: Nak, list: NakList<'_>) {
        context.events.received("nak", self.expand(nak.sqn));
        for group in self.counted_groups(context, nak, list) {
            let Some(groups) = &mut self.groups else { return };
            if groups.requests.on_overheard(context.now, group) == Some(true) {
                context.events.push(Event::RequestSuppressed { message: MessageId(group) });
            }
        }
    }

    /// Groups of which a NAK or an NCF counts at least as many packets as this receiver is missing.
    fn counted_groups(&mut self, context: &mut MachineContext, nak: Nak, list: NakList<'_>) -> Vec<u64> {
        let (Some(offer), true) = (self.groups.as_ref().map(|groups| groups.offer), self.upstream.is_some())
        else {
            return Vec::new();
        };
        let mut counted = Vec::new();
        for number in self.numbers(nak, list) {
            let group = offer.group_of(number);
            // All packets of the group were sent, also those that this receiver has not seen.
            if group + offer.size <= self.limit() {
                self.learn_of(context, group + offer.size - 1);
            }
            let Some(groups) = &mut self.groups else { break };
            groups.request(context.now, group);
            if offer.count_of(number) >= groups.deficit(group) {
                counted.push(group);
            }
        }
        counted
    }

    /// Emits one NAK for the parity of the oldest groups that are due.
    pub(super) fn emit_parity_nak(
        &mut self,
        context: &mut MachineContext,
        upstream: Upstream,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let groups = self.groups.as_mut()?;
        let mut numbers = Vec::new();
        while numbers.len() < usize::from(self.nak_list)
            && let Some(group) = groups.requests.next_request(context.now)
        {
            context.events.push(Event::Requested { source: context.sender, message: MessageId(group) });
            // The lowest bits have the number of packets, less one.
            numbers.push(group + groups.deficit(group).max(1) - 1);
        }
        let (&first, others) = numbers.split_first()?;
        let list = list_of(others.iter().map(|&number| wire(number)));
        let group = self.addresses.of_group(context.group);
        let nak = Nak { sqn: wire(first), source: upstream.source, group };
        let report = self.report(context.now);
        let options = Options { parity: true, report, ..Options::listing(&list) };
        self.packet(Body::Nak(nak), options).emit(buf);
        context.events.control("nak", first);
        Some(Transmit::now(Dest::Node(upstream.node)))
    }
}

/// Minimum number of transmission groups that the receive window must hold.
const MIN_GROUPS: u64 = 4;
