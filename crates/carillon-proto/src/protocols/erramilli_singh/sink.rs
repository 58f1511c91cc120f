//! The receiving side of a node.

use std::collections::{BTreeSet, VecDeque};

use bytes::Bytes;
use carillon_core::{Delivery, DropReason, Event, MessageId, Time, Transmit};
use carillon_wire::erramilli_singh::{Packet, Progress};

use super::config::Settings;
use super::context::{Context, Timer};
use crate::blocks::reformation::To;
use crate::blocks::{Arrival, ReceiveWindow, Skipped};

/// Delivers the messages of each source in order, asks for those that are missing, asks for a pause
/// when a buffer fills, and notices members that have failed.
#[derive(Debug)]
pub(super) struct Sink {
    settings: Settings,
    /// One for each member; this node's own is not used.
    members: Vec<Member>,
    /// Whose the messages are that wait for the application.
    waiting: VecDeque<usize>,
    /// The members to send a NAK to.
    naks: BTreeSet<usize>,
    choke_due: bool,
    /// No choke before this.
    choking_until: Time,
}

/// What is known of another member.
#[derive(Debug)]
struct Member {
    reception: ReceiveWindow,
    /// When it was last heard.
    heard: Time,
    failed: bool,
}

impl Sink {
    /// The receiving side in a group of so many; `joining` if the others have started before.
    pub fn new(members: usize, joining: bool, settings: Settings) -> Self {
        let member = |_| {
            let window = ReceiveWindow::new(settings.buffer, joining);
            let reception = if settings.nak_all { window.requesting_all() } else { window };
            Member { reception, heard: Time::ZERO, failed: false }
        };
        Sink {
            members: (0..members).map(member).collect(),
            waiting: VecDeque::new(),
            naks: BTreeSet::new(),
            choke_due: false,
            choking_until: Time::ZERO,
            settings,
        }
    }

    /// The node starts: the others have their time to be heard.
    pub fn start(&mut self, context: &mut Context) {
        for rank in (0..self.members.len()).filter(|&rank| rank != context.rank) {
            self.members[rank].heard = context.now;
            context.timers.arm(Timer::Silence(rank), context.now + self.settings.silence);
        }
    }

    /// A packet of a member came in. Any packet is a sign of life: a busy sender, by the rules of the
    /// source, sends no status messages.
    pub fn on_sign_of_life(&mut self, context: &mut Context, rank: usize) {
        let member = &mut self.members[rank];
        member.heard = context.now;
        if std::mem::take(&mut member.failed) {
            context.events.push(Event::MemberJoined { member: context.nodes[rank] });
            context.timers.arm(Timer::Silence(rank), context.now + self.settings.silence);
        }
    }

    /// A message came in.
    pub fn on_data(&mut self, context: &mut Context, rank: usize, sequence: u32, payload: Bytes) {
        let reception = &mut self.members[rank].reception;
        let Some(number) = self.settings.numbers.near(sequence, reception.expected()) else {
            return context.events.dropped(DropReason::Malformed);
        };
        reception.join_at(number);
        let message = MessageId(number);
        let missing = reception.announce(number);
        let endangered = reception.fill(number) >= self.settings.choke_at;
        let arrival = reception.insert(number, payload);
        match arrival {
            Arrival::Duplicate => context.events.dropped(DropReason::Duplicate),
            Arrival::NoRoom => context.events.dropped(DropReason::BufferFull),
            Arrival::New => context.events.received("data", message),
        }
        if let Some(missing) = missing {
            context.events.loss_found(None, missing);
        }
        // Only what lies beyond the expected message shows that it is missing.
        if number > reception.expected() {
            self.naks.insert(rank);
        }
        self.deliver_in_order(context, rank);
        self.choke_due |= endangered && context.now >= self.choking_until;
    }

    /// A source says how far it has come, and what it still holds.
    pub fn on_progress(
        &mut self,
        context: &mut Context,
        rank: usize,
        progress: Progress,
        packet: &'static str,
    ) {
        let reception = &mut self.members[rank].reception;
        let next = self.settings.numbers.near(progress.next, reception.expected());
        let held = u64::from(progress.held);
        let Some((next, oldest)) = next.and_then(|next| Some((next, next.checked_sub(held)?))) else {
            return context.events.dropped(DropReason::Malformed);
        };
        context.events.received(packet, next.saturating_sub(1));
        reception.join_at(next);
        if let Some(missing) = reception.announce(next) {
            context.events.loss_found(None, missing);
        }
        if let Some(skipped) = reception.skip_to(oldest) {
            self.on_lost(context, rank, skipped);
        }
        let reception = &mut self.members[rank].reception;
        if reception.expected() < next {
            if context.timers.armed(Timer::Nak(rank)).is_none() {
                reception.request_again();
            }
            self.naks.insert(rank);
        }
    }

    /// A member had its time: it has failed, unless it was heard since.
    pub fn on_silence(&mut self, context: &mut Context, rank: usize) {
        let member = &mut self.members[rank];
        let due = member.heard + self.settings.silence;
        if due > context.now {
            return context.timers.arm(Timer::Silence(rank), due);
        }
        member.failed = true;
        context.events.member_lost(context.nodes[rank]);
        context.timers.cancel(Timer::Nak(rank));
        self.naks.remove(&rank);
    }

    /// A NAK had its time.
    pub fn on_nak_timer(&mut self, rank: usize) {
        self.members[rank].reception.request_again();
        self.naks.insert(rank);
    }

    /// The next packet, if there is one. Whether a message is still missing is looked at now.
    pub fn poll(&mut self, context: &mut Context, buf: &mut Vec<u8>) -> Option<Transmit> {
        let from = context.rank as u16;
        if std::mem::take(&mut self.choke_due) {
            self.choking_until = context.now + self.settings.t3;
            let pause_us = u32::try_from(self.settings.t3.as_micros()).unwrap_or(u32::MAX);
            Packet::Choke { from, pause_us }.emit(context.association, buf);
            context.events.control("choke", 0_u64);
            return Some(context.transmit(To::Group));
        }
        while let Some(rank) = self.naks.pop_first() {
            let reception = &mut self.members[rank].reception;
            let Some(number) = reception.next_request() else { continue };
            if self.settings.nak_all {
                // Until there is none.
                self.naks.insert(rank);
            }
            let expected = self.settings.numbers.wire(number);
            Packet::Nak { from, source: rank as u16, expected }.emit(context.association, buf);
            context.events.control("nak", number);
            if let Some(interval) = self.settings.nak_timer {
                context.timers.arm(Timer::Nak(rank), context.now + interval);
            }
            return Some(context.transmit(To::Rank(rank)));
        }
        None
    }

    /// The next message for the application.
    pub fn poll_delivery(&mut self, context: &mut Context) -> Option<Delivery> {
        let delivery = context.poll_delivery()?;
        if let Some(rank) = self.waiting.pop_front() {
            self.members[rank].reception.fetched();
        }
        Some(delivery)
    }

    /// Messages that can be repaired no more are skipped, and named in the trace.
    fn on_lost(&mut self, context: &mut Context, rank: usize, skipped: Skipped) {
        let (first, count) = (skipped.range.start, skipped.lost());
        if count > 0 {
            context.unrecoverable(Some(context.nodes[rank]), first, count);
        }
        for (number, payload) in skipped.survivors {
            self.deliver(context, rank, number, payload);
        }
        self.deliver_in_order(context, rank);
    }

    fn deliver_in_order(&mut self, context: &mut Context, rank: usize) {
        while let Some((number, payload)) = self.members[rank].reception.pop() {
            self.deliver(context, rank, number, payload);
        }
    }

    fn deliver(&mut self, context: &mut Context, rank: usize, number: u64, payload: Bytes) {
        self.waiting.push_back(rank);
        context.deliver(rank, number, payload);
    }
}
