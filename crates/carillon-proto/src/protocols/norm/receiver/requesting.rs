//! NACK process of a receiver (RFC 5740, 5.3): back-off, suppression and hold-off.

use carillon_core::{Event, MessageId};
use carillon_wire::norm::Requests;

use super::{Context, NormReceiver, Timer};
use crate::protocols::norm::phase::Phase;
use crate::protocols::norm::repairs::Wants;

impl NormReceiver {
    /// Begins a back-off if symbols before `limit` are missing.
    pub(super) fn consider(&mut self, context: &mut Context, limit: u64) {
        self.limit = self.limit.max(limit);
        if self.requesting.phase() != Phase::Idle || self.store.needs(self.limit).is_empty() {
            return;
        }
        match self.requesting.back_off(&mut self.timing) {
            Some(wait) => {
                self.requesting.noted = self.limit;
                context.timers.arm(Timer::Request, context.now + wait);
            }
            None => self.hold_off(context),
        }
    }

    /// Handles the requests of another receiver, which the sender will satisfy for all.
    pub(super) fn on_requests_of_others(&mut self, requests: Requests<'_>) {
        if self.requesting.phase() == Phase::BackOff {
            let expected = self.shape.place(self.store.expected()).0;
            self.requesting.collected.merge(Wants::read(requests, self.shape, expected, MAX_BLOCKS));
        }
    }

    /// Handles the end of the back-off or of the hold-off.
    pub(super) fn on_request_timer(&mut self, context: &mut Context) {
        if self.requesting.phase() == Phase::HoldOff {
            self.requesting.enter(Phase::Idle);
            return self.consider(context, 0);
        }
        let needs = self.store.needs(self.requesting.noted);
        let Some(first) = needs.blocks().next() else { return self.requesting.enter(Phase::Idle) };
        // A sender that has gone back to an earlier block will come to the missing ones.
        let passed = self.shape.place(self.position).0 >= first;
        let is_covered = needs.is_covered_by(&self.requesting.collected);
        if passed && !self.requesting.is_left_to_others(is_covered) {
            let all = self.store.needs(self.limit);
            let (bytes, _) = all.write(self.object, self.requesting.most_bytes);
            self.requesting.due = Some(bytes);
            self.tell_requests(context, |source, message| Event::Requested { source, message });
        } else {
            self.tell_requests(context, |_, message| Event::RequestSuppressed { message });
        }
        self.hold_off(context);
    }

    /// Records an event for each missing message that may be requested now.
    fn tell_requests(
        &self,
        context: &mut Context,
        event: impl Fn(carillon_core::NodeId, MessageId) -> Event,
    ) {
        for &number in self.missing.range(..self.limit) {
            context.events.push(event(context.sender, MessageId(number)));
        }
    }

    /// Waits for repairs.
    fn hold_off(&mut self, context: &mut Context) {
        let wait = self.requesting.hold_off(&self.timing);
        context.timers.arm(Timer::Request, context.now + wait);
    }

    /// Asks a silent sender, a limited number of times. A plain source of which nothing is missing may have ended.
    pub(super) fn on_inactivity(&mut self, context: &mut Context) {
        let is_missing = self.store.expected() < self.end;
        if !is_missing && self.plain.as_ref().is_some_and(|plain| plain.is_over(context.now)) {
            return self.close(context);
        }
        // A plain source that is silent without reason is awaited for longer.
        let silence = self.plain.as_ref().map(|plain| plain.silence(context.now));
        let asks = silence.is_none_or(|silence| is_missing && silence >= self.timing.inactivity());
        if asks && !self.requesting.may_ask() {
            return;
        }
        if asks {
            self.position = self.position.max(self.end.saturating_sub(1));
            self.consider(context, self.end);
        }
        self.await_silence(context);
    }

    /// Arms the timer of silence.
    pub(super) fn await_silence(&mut self, context: &mut Context) {
        let silence = match &self.plain {
            Some(plain) => self.timing.silence(plain.end_wait()),
            None => self.timing.inactivity(),
        };
        context.timers.arm(Timer::Inactivity, context.now + silence);
    }
}

/// Maximum number of blocks of which requests of others are remembered.
const MAX_BLOCKS: usize = 1024;
