//! Steps of a sender that gathers: the condition of the start, and its limit.

use carillon_core::{DropReason, Duration, NodeId, Span, Time};

use super::gathering::GatheringState;
use super::state::SenderPhase;
use super::{SenderSession, arrivals};
use crate::KNOCK;
use crate::config::Gather;
use crate::unserved::UnservedReason;

impl SenderSession {
    /// Returns true if the start condition holds.
    pub(super) fn is_gathered(&self) -> bool {
        let receivers = self.roster.receivers();
        // A time limit starts the session only if a receiver has joined, except one way.
        let over = receivers > 0 && self.gathering.is_wait_over();
        let enough = match &self.config.gather {
            Gather::Count(count) => over || receivers >= *count,
            Gather::Names(names) => {
                over || (receivers >= names.len() && names.iter().all(|name| self.roster.has_name(name)))
            }
            Gather::Silent(_) => self.gathering.is_wait_over(),
            Gather::Wait(_) | Gather::Settle(_) | Gather::Quiet(_) => over,
            Gather::Again { awaited, .. } => {
                let all = || !awaited.is_empty() && awaited.iter().all(|name| self.roster.has_name(name));
                over || (receivers > 0 && all())
            }
        };
        // Expected helpers must have joined too, unless the limit has passed.
        enough
            && (self.gathering.is_limit_over() || self.roster.helpers() >= self.config.helpers.wanted.count())
    }

    /// Lets the session start after a quiet time, if the receiver that joined first was there before the sender and
    /// late receivers are served too.
    pub(super) fn begin_quiet_start(&mut self, now: Time) {
        let heartbeat = self.config.heartbeat;
        // A receiver that misses the start of a stream may have missed its first messages.
        let is_served = self.config.job.further && !self.config.job.is_series();
        let may_be_late = matches!(self.config.gather, Gather::Quiet(_)) && is_served;
        if !may_be_late || !self.gathering.arrivals.was_waiting(now, heartbeat) {
            return self.announcing.end_short_interval();
        }
        self.gathering.permit_quiet_start();
        self.await_quiet();
        // Receivers that have missed the first invitations get several more before the start.
        let quiet = self.gathering.arrivals.quiet_time(self.transfer_time());
        self.announcing.invite_each(now, arrivals::invitation_interval(quiet, heartbeat));
    }

    /// Handles the JOIN of a node that is no member and gets a CHALLENGE.
    pub(super) fn on_stranger_asks(&mut self, now: Time, node: NodeId, name: &str) {
        if self.phase == SenderPhase::Gathering {
            self.gathering.arrivals.on_challenged(now, node);
            self.gathering.arrivals.note_name(node, name);
            self.await_quiet();
        }
    }

    /// Handles a JOIN to the group. It shows that a receiver is there, although its JOINs to the sender do not arrive.
    /// The CHALLENGE makes both hosts resolve each other's link address.
    pub(super) fn on_knock(&mut self, now: Time, node: NodeId, name: &str) {
        if self.phase != SenderPhase::Gathering || self.roster.index_of(node).is_some() {
            return self.events.dropped(DropReason::Duplicate);
        }
        self.gathering.arrivals.on_knock(now, node);
        self.gathering.arrivals.note_name(node, name);
        self.await_quiet();
        // A CHALLENGE that its own JOIN gets must not be replaced.
        if !self.answering.replies.contains_key(&node) {
            self.challenge(now, node, KNOCK);
        }
    }

    /// Records nodes that have asked and not answered when gathering ends, unless a member has the name.
    pub(super) fn leave_out_unanswered(&mut self, now: Time) {
        for (node, name) in self.gathering.arrivals.take_unanswered() {
            if !self.roster.has_name(&name) {
                self.leave_out(now, node, &name, UnservedReason::Unanswered);
            }
        }
    }

    /// Handles the JOIN of a member, which repeats it as a keepalive or because WELCOME was lost.
    pub(super) fn on_member_asks(&mut self, now: Time, index: usize) {
        if self.phase == SenderPhase::Gathering {
            self.gathering.arrivals.on_repeated(now.since(self.roster.record(index).heard));
            self.await_quiet();
        }
    }

    /// Puts the start off after a JOIN, if a quiet time begins with it.
    pub(super) fn await_quiet(&mut self) {
        self.gathering.await_quiet(self.gathering.arrivals.quiet_until(self.transfer_time()));
    }

    /// Time that the data take at the rate of the interface; zero if their amount is unknown.
    fn transfer_time(&self) -> Duration {
        let bits = self.config.job.total_bytes.unwrap_or(0).saturating_mul(8);
        let nanos = u128::from(bits) * 1_000_000_000 / u128::from(self.config.network.bit_rate.bps());
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Time at which gathering ends if no further receiver asks to join; none if no receiver has joined, or if the
    /// start does not depend on time.
    pub fn starts_at(&self) -> Option<Time> {
        self.gathering.starts_at()
    }

    /// Handles the end of the gathering time: starts with the receivers that have joined, unless that is not
    /// permitted or not possible.
    pub(super) fn on_gather_limit(&mut self, now: Time) {
        let limit = self.config.limits.limit.unwrap_or_default();
        let (joined, wanted_helpers) = (self.roster.receivers(), self.config.helpers.wanted.count());
        let has_helpers = self.config.protocol.helpers.allow(self.roster.helpers());
        if joined > 0 && has_helpers && !self.config.limits.all_or_nothing {
            // `advance` does the rest.
            self.gathering.state = GatheringState::LimitOver;
            return;
        }
        let wanted = match &self.config.gather {
            Gather::Names(_) if !self.missing().is_empty() => {
                format!("{} did not join", self.missing().join(", "))
            }
            _ if self.roster.helpers() < wanted_helpers && joined > 0 => {
                format!("{} of {wanted_helpers} helpers joined", self.roster.helpers())
            }
            Gather::Count(count) => format!("{joined} of {count} receivers joined"),
            Gather::Names(_) => "those that are expected did not join".to_owned(),
            Gather::Wait(_)
            | Gather::Silent(_)
            | Gather::Settle(_)
            | Gather::Quiet(_)
            | Gather::Again { .. } => "no receiver joined".to_owned(),
        };
        self.abort(now, &format!("{wanted} within {}", Span::Time(limit)));
    }
}
