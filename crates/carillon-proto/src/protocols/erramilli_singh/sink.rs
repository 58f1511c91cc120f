//! Receiving side of a member.

use std::collections::{BTreeSet, VecDeque};

use bytes::Bytes;
use carillon_core::{Delivery, DropReason, Event, MessageId, Time, Transmit};
use carillon_wire::erramilli_singh::{Packet, Progress};

use super::config::Settings;
use super::context::{Context, Timer};
use crate::blocks::reformation::To;
use crate::blocks::{Arrival, ReceiveWindow, Skipped};

/// Receiving side: delivers the messages of each source in order, requests missing ones, sends chokes, and detects
/// failed members.
#[derive(Debug)]
pub(super) struct Sink {
    settings: Settings,
    /// State of each member by rank; the entry of this node is unused.
    members: Vec<Member>,
    /// Source of each message that waits for the application, in delivery order.
    waiting: VecDeque<usize>,
    /// Members to which a NAK is due.
    naks: BTreeSet<usize>,
    choke_due: bool,
    /// Time before which no further choke is sent.
    choking_until: Time,
}

/// State of another member.
#[derive(Debug)]
struct Member {
    reception: ReceiveWindow,
    /// Arrival time of its last packet.
    heard: Time,
    failed: bool,
}

impl Sink {
    /// Creates the receiving side for a group of `members`; `joining` if the others have started earlier.
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

    /// Starts the silence timeout of every other member.
    pub fn start(&mut self, context: &mut Context) {
        for rank in (0..self.members.len()).filter(|&rank| rank != context.rank) {
            self.members[rank].heard = context.now;
            context.timers.arm(Timer::Silence(rank), context.now + self.settings.silence);
        }
    }

    /// Records a packet of a member. Every packet shows that the member is alive, because a busy sender sends no
    /// status messages.
    pub fn on_sign_of_life(&mut self, context: &mut Context, rank: usize) {
        let member = &mut self.members[rank];
        member.heard = context.now;
        if std::mem::take(&mut member.failed) {
            context.events.push(Event::MemberJoined { member: context.nodes[rank] });
            context.timers.arm(Timer::Silence(rank), context.now + self.settings.silence);
        }
    }

    /// Handles a message.
    pub fn on_data(&mut self, context: &mut Context, rank: usize, sequence: u32, payload: Bytes) {
        let reception = &mut self.members[rank].reception;
        let Some(number) = self.settings.numbers.near(sequence, reception.expected()) else {
            return context.events.dropped(DropReason::Malformed);
        };
        // A joining member starts with the first message that it receives.
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
        // Only a message beyond the expected one reveals a gap.
        if number > reception.expected() {
            self.naks.insert(rank);
        }
        self.deliver_in_order(context, rank);
        self.choke_due |= endangered && context.now >= self.choking_until;
    }

    /// Handles a status or sanity message: the next number of a source and the size of its back window.
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
        // Messages before the back window cannot be repaired.
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

    /// Marks a member as failed, unless a packet of it has arrived since the timer was armed.
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

    /// Repeats the NAK to a member.
    pub fn on_nak_timer(&mut self, rank: usize) {
        self.members[rank].reception.request_again();
        self.naks.insert(rank);
    }

    /// Returns the next choke or NAK. A NAK is built when it leaves, so that its message is still missing then.
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
                // The member stays queued until nothing more is missing.
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

    /// Returns the next message for the application.
    pub fn poll_delivery(&mut self, context: &mut Context) -> Option<Delivery> {
        let delivery = context.poll_delivery()?;
        if let Some(rank) = self.waiting.pop_front() {
            self.members[rank].reception.fetched();
        }
        Some(delivery)
    }

    /// Skips messages that can no longer be repaired, and records their loss.
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
