//! Views of MTP-2: agreement, transfer of the log, and the roles of a member in its view.

use bytes::Bytes;
use carillon_core::{DropReason, Transmit};
use carillon_wire::mtp::{Body, member_id};
use carillon_wire::reformation::Ranks;

use super::consumer::Consumer;
use super::context::{Context, Timer};
use super::frame::Frame;
use super::master::Master;
use super::order::Entry;
use super::peer::MtpPeer;
use super::web::Standing;
use crate::blocks::reformation::To;
use crate::blocks::{Change, near, next_numbers};

impl MtpPeer {
    /// Takes the role of this member in its view.
    pub(super) fn enter_view(&mut self, context: &Context) {
        let (master, is_in_force) = (self.master_rank(), self.is_in_force());
        let members = self.membership.as_ref().map_or_else(
            || Ranks::below(context.nodes.len()),
            |membership| membership.agreement().view().members,
        );
        let resilience = self.settings.election.as_ref().map_or(0, |election| election.resilience);
        let mut others = members.iter().filter(|&rank| rank != master).take(resilience);
        let is_backup = others.any(|rank| rank == context.rank);
        let is_admitted = self.membership.is_some() || self.web.standing() == Standing::Master;
        let leads = is_in_force && master == context.rank && is_admitted;
        self.master = leads.then(|| Master::new(context, &self.order, &self.settings, &members));
        let (rng, length) = (self.consumer.rng(), self.order.log.length());
        self.consumer = Consumer::new(context, &self.settings, rng, is_backup && is_in_force, length);
    }

    /// Follows the changes of the view (MTP-2).
    pub(super) fn step(&mut self, context: &mut Context) {
        while let Some(membership) = &mut self.membership
            && let Some(change) = membership.follow(context, &mut self.order)
        {
            if change == Change::Installed {
                self.serve.clear();
            }
            self.producer.on_view();
            self.enter_view(context);
        }
    }

    /// MTP-2: handles packets between views. Returns true for a packet of the view in force.
    pub(super) fn admit_in_view(
        &mut self,
        context: &mut Context,
        from: usize,
        view: u32,
        body: Body<'_>,
        bytes: &Bytes,
    ) -> bool {
        let Some(membership) = &mut self.membership else { return false };
        match body {
            Body::Reformation(packet) => {
                context.received(packet.name(), self.order.log.length());
                membership.agreement_mut().handle(context.now, from, &packet);
                self.step(context);
                return false;
            }
            Body::Fetch(_) | Body::Fetched { .. } | Body::Gone(..) => {
                self.on_between(context, from, view, body, bytes);
                self.step(context);
                return false;
            }
            _ => {}
        }
        membership.agreement_mut().on_packet_of(context.now, from, view);
        self.step(context);
        let Some(membership) = &mut self.membership else { return false };
        if membership.is_behind(view) {
            // The leader of that view will announce it in answer.
            self.newer = Some(from);
        }
        membership.admits(context, from, view)
    }

    /// MTP-2: handles FETCH, FETCHED and GONE, as parts of the [reformation](crate::blocks::reformation).
    pub(super) fn on_between(
        &mut self,
        context: &mut Context,
        from: usize,
        view: u32,
        body: Body<'_>,
        bytes: &Bytes,
    ) {
        let (order, members) = (&mut self.order, context.nodes.len());
        let Some(membership) = &mut self.membership else { return };
        // Only the promised ballot may change the log.
        if view != membership.agreement().promised().number {
            return context.events.dropped(DropReason::OutOfWindow);
        }
        let asked = membership.asks(from);
        match body {
            Body::Fetch(place) => {
                context.received("fetch", place);
                if place < order.log.length() {
                    self.serve.insert((place, from));
                }
            }
            Body::Fetched { place, source, number, payload } if asked && usize::from(source) < members => {
                let source = usize::from(source);
                let message = near(number, order.log.next(source));
                context.received("fetched", message);
                let entry = Entry { source, message, payload: bytes.slice_ref(payload) };
                membership.on_fetched(context, order, from, place, entry);
            }
            Body::Gone(place, state) if asked => {
                if let Some(numbers) = next_numbers(state, members) {
                    membership.on_gone(context, order, place, numbers);
                }
            }
            _ => context.events.dropped(DropReason::OutOfWindow),
        }
    }

    /// Takes the master's role if only this member's messages are ordered, which saves the token exchange.
    pub(super) fn migrate(&mut self, context: &mut Context) {
        let Some(election) = &self.settings.election else { return };
        let is_due = election.migrate_after > 0 && self.order.own_run() >= election.migrate_after;
        if self.master.is_none()
            && is_due
            && !self.order.outbox.is_empty()
            && let Some(membership) = &mut self.membership
        {
            self.order.end_own_run();
            membership.agreement_mut().begin(context.now);
            self.step(context);
        }
    }

    /// MTP-2: emits packets of the agreement, and FETCHes with their answers.
    pub(super) fn poll_views(
        &mut self,
        context: &mut Context,
        mut frame: Frame,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let membership = self.membership.as_mut()?;
        let order = &mut self.order;
        let length = order.log.length();
        if let Some((to, packet)) = membership.agreement_mut().poll_transmit(length) {
            context.control(packet.name(), length);
            let record = order.record(order.horizon(), 0);
            frame.emit(context, to, (context.rank, 0), record, Body::Reformation(packet), buf);
            return Some(context.transmit(to));
        }
        let view = frame.view;
        frame.view = Some(membership.agreement().promised().number);
        if let Some((place, rank)) = self.serve.pop_first() {
            let Some(entry) = order.log.get(place) else {
                let first = order.log.base();
                let state = order.log.state_at(first);
                return Some(frame.control(context, order, To::Rank(rank), Body::Gone(first, &state), buf));
            };
            let (source, message, payload) = (entry.source, entry.message, entry.payload.clone());
            let body =
                Body::Fetched { place, source: source as u8, number: message as u32, payload: &payload };
            let record = order.record(order.horizon(), 0);
            frame.emit(context, To::Rank(rank), (context.rank, 0), record, body, buf);
            return Some(context.data_sent(To::Rank(rank), (source, message), buf.len(), true, true));
        }
        if let Some((from, run)) = membership.ask(MAX_FETCHES, 1) {
            if context.timers.armed(Timer::Fetch).is_none() {
                context.timers.arm(Timer::Fetch, context.now + self.settings.heartbeat);
            }
            return Some(frame.control(context, order, To::Rank(from), Body::Fetch(run.start), buf));
        }
        let rank = self.newer.take().filter(|_| membership.agreement().takes_part())?;
        frame.view = view;
        let body = Body::IsMember(member_id(context.association, rank));
        Some(frame.control_at(context, order, To::Rank(rank), order.settled(), body, buf))
    }
}

/// Maximum number of log entries that are fetched at once.
const MAX_FETCHES: u64 = 16;
