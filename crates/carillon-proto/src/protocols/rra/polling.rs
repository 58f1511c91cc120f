//! Scheduling of polls: which receiver is polled, when, and which polls are outstanding.

use carillon_core::{BuildContext, Config, ConfigError, Identities};
use carillon_wire::rra::{AckRequest, HEADER_LEN};

use super::context::{Context, Timer};
use super::messages::Messages;
use crate::blocks::congestion::{ControlSettings, Controller};
use crate::blocks::{OutstandingPoll, OutstandingPolls, PollingList, Retransmission, RetransmissionTimeout};

/// Receivers in polling order, and the outstanding polls.
#[derive(Debug)]
pub(super) struct PollScheduler {
    burst: u64,
    /// Maximum number of outstanding polls.
    max_outstanding_polls: usize,
    /// True with `flow_control = "path"`: the controller limits the rate and the data in flight.
    pub by_path: bool,
    pub retransmission: Retransmission,
    /// Identities that name the members on the wire.
    identities: Identities,
    pub members: PollingList,
    pub outstanding: OutstandingPolls,
    /// Data packets sent since the last poll.
    in_burst: u64,
    /// Receiver that last reported losses, which polls with repairs address.
    pub reporter: Option<usize>,
    /// True to poll every receiver that has messages to acknowledge and no outstanding poll.
    pub poll_all: bool,
}

impl PollScheduler {
    /// Creates a scheduler without outstanding polls. Fails if `flow_control = "path"` allows one poll only, and if the
    /// controller lacks a setting.
    pub fn new(build: &BuildContext, settings: &Config) -> Result<Self, ConfigError> {
        let burst = settings.count("burst");
        // One acknowledgment at a time: r is 1 in the timeout formula.
        let retransmission =
            Retransmission::new(build, settings, HEADER_LEN, burst, Default::default())?.for_receivers(1);
        let max_outstanding_polls = settings.count("questions") as usize;
        let by_path = settings.choice("flow_control") == "path";
        if by_path && max_outstanding_polls == 1 {
            let why = "`flow_control = \"path\"` needs several outstanding polls: set `questions` above 1";
            return Err(ConfigError::Conflict(why.into()));
        }
        let (timeout, receivers) = (RetransmissionTimeout::new(&retransmission), build.members.len());
        let rate = settings.rate("rate");
        let control = ControlSettings { receivers, flight: settings.count("flight"), rate };
        let control = (Controller::named(settings.choice("congestion")).build)(&control)?;
        Ok(PollScheduler {
            burst,
            max_outstanding_polls,
            by_path,
            retransmission,
            identities: build.identities.clone(),
            members: PollingList::new(receivers, timeout, control, by_path),
            outstanding: OutstandingPolls::default(),
            in_burst: 0,
            reporter: None,
            poll_all: false,
        })
    }

    /// Returns true if the sender waits for each answer before it sends anything else, as in the thesis.
    pub fn polls_one_at_a_time(&self) -> bool {
        self.max_outstanding_polls == 1
    }

    /// Polls a receiver with the packet about to be sent.
    pub fn start_poll(
        &mut self,
        context: &mut Context,
        messages: &Messages,
        index: usize,
        message: u64,
    ) -> AckRequest {
        let member = self.members.member(index);
        let (serial, end, mark) = (messages.serial, messages.sent, member.path.mark());
        let deadline = context.now + member.timeout.current();
        self.members.on_poll(context.now, index);
        let number =
            self.outstanding.insert(OutstandingPoll { index, message, serial, end, at: context.now, mark });
        context.timers.arm(Timer::Answer(number), deadline);
        self.in_burst = 0;
        let acker = self.identities.member(index, messages.window.node(index)) as u32;
        AckRequest { acker, question: number as u32 }
    }

    /// Handles an answer. Returns the poll it answers, and the number of polls to this receiver that are closed by
    /// it. `None` if the poll is unknown or was answered.
    pub fn on_answer(
        &mut self,
        context: &mut Context,
        index: usize,
        number: u32,
    ) -> Option<(OutstandingPoll, u32)> {
        let number = self.outstanding.expand(number)?;
        let (question, open) = self.outstanding.answer(number, index)?;
        context.timers.cancel(Timer::Answer(number));
        // With one poll at a time, all polls are repetitions of one: a late answer closes them all.
        let before = if self.polls_one_at_a_time() { u64::MAX } else { number };
        Some((question, self.withdraw(context, index, before) as u32 + u32::from(open)))
    }

    /// Removes a receiver that left the group.
    pub fn remove(&mut self, context: &mut Context, index: usize) {
        self.withdraw(context, index, u64::MAX);
        self.members.remove(index);
    }

    /// Forgets all polls, once every message is acknowledged.
    pub fn clear(&mut self, context: &mut Context) {
        self.outstanding.clear();
        self.members.clear_polls();
        self.poll_all = false;
        context.timers.clear();
    }

    /// Counts a data packet. Returns true if it is the last of its burst and carries a poll.
    pub fn ends_burst(&mut self, last: bool) -> bool {
        self.in_burst += 1;
        last || self.in_burst >= self.burst()
    }

    /// Returns true if the limit of outstanding polls or the congestion window is reached, after `serial` packets.
    pub fn is_full(&mut self, context: &Context, serial: u64) -> bool {
        if self.outstanding.open_count() >= self.max_outstanding_polls {
            return true;
        }
        self.by_path && self.members.is_full(context.now, serial, self.outstanding.open())
    }

    /// Data packets per poll. With path flow control, few enough to poll each receiver about four times per window.
    fn burst(&self) -> u64 {
        if !self.by_path {
            return self.burst;
        }
        let asked = 4 * self.members.live().max(1) as u64;
        (self.members.window() / asked).clamp(1, self.burst)
    }

    /// Withdraws a receiver's outstanding polls before the given one. Returns their number.
    fn withdraw(&mut self, context: &mut Context, index: usize, before: u64) -> usize {
        let earlier = self.outstanding.withdraw(index, before);
        for &number in &earlier {
            context.timers.cancel(Timer::Answer(number));
        }
        earlier.len()
    }
}
