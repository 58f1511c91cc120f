//! Sending side of a member.

use bytes::Bytes;
use carillon_core::{DropReason, MessageId, OfferError, Outcome, Rng, TokenBucket, Transmit};
use carillon_wire::erramilli_singh::{Packet, Progress};

use super::config::Settings;
use super::context::{Context, Timer};
use crate::blocks::reformation::To;
use crate::blocks::{
    Announcement, DueRepairs, Numbered, Outgoing, Reach, RepairScope, RequestOrigin, StatusSeries,
};

/// Sending side: sends messages, answers NAKs with repairs, and announces its progress while idle.
#[derive(Debug)]
pub(super) struct Source {
    settings: Settings,
    /// Messages not sent yet, at most B.
    waiting: Outgoing,
    /// `sendBuf`: the last B messages sent, the implicit back window. The newest message displaces the oldest, even
    /// if a receiver misses it.
    window: Numbered<Bytes>,
    /// Repairs and refusals that are due.
    repairs: DueRepairs<To>,
    /// Series of status and sanity messages while idle.
    pub idle: StatusSeries,
    /// Minimum interval between data packets.
    pace: TokenBucket,
    /// Pause of new messages after a choke.
    choked: TokenBucket,
    finished: bool,
    /// First message that is not complete.
    completed: u64,
    /// Random phase of the sanity messages.
    sanity: Rng,
}

impl Source {
    /// Creates the sending side; `may_offer` is false for a listener.
    pub fn new(may_offer: bool, settings: Settings, sanity: Rng) -> Self {
        Source {
            waiting: Outgoing::new(settings.b, !may_offer),
            window: Numbered::default(),
            repairs: DueRepairs::new(settings.repair_guard),
            idle: StatusSeries::new(settings.k, settings.t1, settings.t2),
            pace: TokenBucket::default(),
            choked: TokenBucket::default(),
            finished: false,
            completed: 0,
            sanity,
            settings,
        }
    }

    /// Starts the idle series at a random time within T2, because nodes that start together would otherwise send
    /// their sanity messages at the same moments for ever.
    pub fn start(&mut self, context: &mut Context) {
        let t2 = u64::try_from(self.settings.t2.as_nanos()).unwrap_or(u64::MAX);
        let phase = std::time::Duration::from_nanos(1 + self.sanity.below(t2));
        context.timers.arm(Timer::Idle, context.now + phase);
    }

    /// Queues a message; refuses it while B messages wait or if this node may not send.
    pub fn offer(&mut self, payload: Bytes) -> Result<MessageId, OfferError> {
        let waiting = self.waiting.offer(payload)?;
        Ok(MessageId(self.window.end() + waiting))
    }

    /// Marks the end of the offered messages.
    pub fn finish(&mut self, context: &mut Context) {
        self.waiting.finish();
        self.finished = true;
        self.stay(context);
    }

    /// Returns true if every offered message is complete.
    pub fn is_finished(&self) -> bool {
        self.finished && self.waiting.is_empty() && self.completed == self.window.end()
    }

    /// Handles a NAK: queues the repair, or a refusal if the message has left the back window.
    pub fn on_nak(&mut self, context: &mut Context, rank: usize, expected: u32) {
        let next = self.window.end();
        let Some(number) = self.settings.numbers.before(expected, next) else {
            return context.events.dropped(DropReason::OutOfWindow);
        };
        context.events.received("nak", number);
        self.stay(context);
        let to = match self.settings.scope.reach(RequestOrigin::BY_ANYONE) {
            Reach::Requester => To::Rank(rank),
            Reach::Group { .. } => To::Group,
        };
        let oldest = self.window.start();
        // A status message tells the receiver which messages can still be repaired.
        if number < oldest {
            self.repairs.refuse(context.now, to);
        }
        let end = if self.settings.go_back { next } else { number + 1 };
        for number in number.max(oldest)..end {
            self.repairs.request(context.now, number, to);
        }
    }

    /// Handles a choke: pauses new messages, at most for the agreed T3.
    pub fn on_choke(&mut self, context: &mut Context, pause: std::time::Duration) {
        let last = MessageId(self.window.end().saturating_sub(1));
        context.events.received("choke", last);
        self.choked.pause(context.now, pause.min(self.settings.t3));
    }

    /// Completes all messages after a long time without NAKs: every live member has all that can be repaired.
    pub fn on_quiet(&mut self, context: &mut Context) {
        let busy = !self.waiting.is_empty() || !self.repairs.is_empty();
        if self.finished && !busy && self.idle.is_over() {
            while self.completed < self.window.end() {
                self.complete(context);
            }
        }
    }

    /// Name of the present series for the state diagram.
    pub fn state(&self) -> &'static str {
        if self.idle.is_over() { "Sanity" } else { "Status" }
    }

    /// Returns the next packet: refusals first, then announcements, then data.
    pub fn poll(&mut self, context: &mut Context, buf: &mut Vec<u8>) -> Option<Transmit> {
        if let Some(to) = self.repairs.pop_refusal(context.now) {
            return Some(self.announce(context, Announcement::Status, to, buf));
        }
        if let Some((announcement, interval)) = self.idle.take() {
            context.timers.arm(Timer::Idle, context.now + interval);
            if announcement == Announcement::Status {
                // The quiet time starts with the last status message.
                self.stay(context);
            }
            return Some(self.announce(context, announcement, To::Group, buf));
        }
        self.poll_data(context, buf)
    }

    /// Returns the next data packet. Repairs go first and ignore a choke, because messages that wait for a repair
    /// fill buffers too.
    fn poll_data(&mut self, context: &mut Context, buf: &mut Vec<u8>) -> Option<Transmit> {
        let due = match (self.repairs.is_empty(), self.waiting.is_empty()) {
            (false, _) => self.pace.ready_at(context.now),
            (true, false) => self.pace.ready_at(context.now).max(self.choked.ready_at(context.now)),
            (true, true) => return None,
        };
        if let Some(due) = due {
            context.timers.arm(Timer::Pace, due);
            return None;
        }
        if let Some((number, to)) = self.repairs.pop(context.now) {
            return self.send(context, number, to, true, buf);
        }
        let payload = self.waiting.pop()?;
        let number = self.window.push(payload);
        // The implicit back window: a message that leaves it counts as delivered (section 2.8).
        if let Some((gone, _)) = self.window.pop_beyond(self.settings.b) {
            self.repairs.forget(gone);
            if gone == self.completed {
                self.complete(context);
            }
        }
        context.timers.arm(Timer::Idle, context.now + self.idle.restart());
        self.send(context, number, To::Group, false, buf)
    }

    /// Sends a message of the back window.
    fn send(
        &mut self,
        context: &mut Context,
        number: u64,
        to: To,
        repair: bool,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let sequence = self.settings.numbers.wire(number);
        let payload = self.window.get(number)?;
        Packet::Data { source: context.rank as u16, sequence, payload }.emit(context.association, buf);
        let transmit = context.transmit(to);
        let transmit = context.events.data_sent(transmit, MessageId(number), buf.len(), repair);
        self.pace.pause(context.now, self.settings.send_interval);
        self.stay(context);
        Some(transmit)
    }

    /// Builds a status or sanity message with the next number and the size of the back window.
    fn announce(
        &mut self,
        context: &mut Context,
        announcement: Announcement,
        to: To,
        buf: &mut Vec<u8>,
    ) -> Transmit {
        let next = self.window.end();
        let wire = self.settings.numbers.wire(next);
        let progress = Progress { source: context.rank as u16, next: wire, held: self.window.len() as u32 };
        let (packet, name) = match announcement {
            Announcement::Status => (Packet::Status(progress), "status"),
            Announcement::Sanity => (Packet::Sanity(progress), "sanity"),
        };
        packet.emit(context.association, buf);
        context.events.control(name, next.saturating_sub(1));
        context.transmit(to)
    }

    /// Completes the oldest open message. Without acknowledgments the sender cannot know that all members have it.
    fn complete(&mut self, context: &mut Context) {
        let (message, outcome) = (MessageId(self.completed), Outcome::Acknowledged);
        self.completed += 1;
        context.events.completed(message, outcome, 1);
    }

    /// Restarts the quiet time.
    fn stay(&mut self, context: &mut Context) {
        context.timers.arm(Timer::Quiet, context.now + self.settings.quiet);
    }
}
