//! NACK process of a receiver of files (RFC 5740, 5.3): back-off, suppression and hold-off.

use carillon_core::{Event, MessageId};
use carillon_wire::norm::Requests;

use super::{Context, NormFileReceiver, Reception, Timer};
use crate::protocols::norm::files::needs::{MAX_BLOCKS, Needs};
use crate::protocols::norm::phase::Phase;

impl NormFileReceiver {
    /// Everything that is missing before the end of the data sent so far.
    fn needs(&self) -> Needs {
        let (mut needs, (last, blocks)) = (Needs::default(), self.end);
        let Some(first) = self.first else { return needs };
        for number in first..=last {
            if needs.blocks.len() >= MAX_BLOCKS || needs.objects.len() >= MAX_BLOCKS {
                break;
            }
            let end = if number < last { u64::MAX } else { blocks };
            match self.objects.get(&number) {
                Some(Reception::Assembling(assembly)) => assembly.needs(number, end, &mut needs),
                Some(Reception::Done) => {}
                // Nothing of the last one may have been sent yet.
                None if end > 0 => {
                    needs.objects.insert(number);
                }
                None => {}
            }
        }
        needs
    }

    /// Begins a back-off if anything is missing.
    pub(super) fn consider(&mut self, context: &mut Context) {
        if self.requesting.phase() != Phase::Idle {
            return;
        }
        let needs = self.needs();
        if needs.is_empty() {
            return;
        }
        match self.requesting.back_off(&mut self.timing) {
            Some(wait) => {
                self.requesting.noted = needs;
                context.timers.arm(Timer::Request, context.now + wait);
            }
            None => self.hold_off(context),
        }
    }

    /// Handles the requests of another receiver, which the sender will satisfy for all.
    pub(super) fn on_requests_of_others(&mut self, requests: Requests<'_>) {
        if self.requesting.phase() == Phase::BackOff {
            self.requesting.collected.merge(Needs::read(requests, self.end.0, self.code));
        }
    }

    /// Handles the end of the back-off or of the hold-off.
    pub(super) fn on_request_timer(&mut self, context: &mut Context) {
        if self.requesting.phase() == Phase::HoldOff {
            self.requesting.enter(Phase::Idle);
            return self.consider(context);
        }
        let needs = self.needs();
        let Some(first) = needs.first() else { return self.requesting.enter(Phase::Idle) };
        // A sender that has gone back to an earlier block will come to the missing ones.
        let passed = self.position >= first;
        let is_covered = self.requesting.noted.is_covered_by(&self.requesting.collected);
        if passed && !self.requesting.is_left_to_others(is_covered) {
            let (bytes, _) = needs.write(self.requesting.most_bytes, self.code);
            self.requesting.due = Some(bytes);
            context.events.push(Event::Requested { source: context.sender, message: MessageId(first.0) });
        } else {
            context.events.push(Event::RequestSuppressed { message: MessageId(first.0) });
        }
        self.hold_off(context);
    }

    /// Waits for repairs.
    fn hold_off(&mut self, context: &mut Context) {
        let wait = self.requesting.hold_off(&self.timing);
        context.timers.arm(Timer::Request, context.now + wait);
    }

    /// Asks a silent sender, a limited number of times. If nothing is missing, it has ended.
    pub(super) fn on_inactivity(&mut self, context: &mut Context) {
        let (needs, silence) = (self.needs(), context.now.since(self.heard));
        if needs.is_empty() && silence >= self.end_wait {
            return self.close(context);
        }
        if !needs.is_empty() && silence >= self.timing.inactivity() {
            if !self.requesting.may_ask() {
                return;
            }
            self.position = self.position.max(self.end);
            self.consider(context);
        }
        context.timers.arm(Timer::Inactivity, context.now + self.timing.silence(self.end_wait));
    }
}
