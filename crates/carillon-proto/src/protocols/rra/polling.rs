//! Whom a sender asks, when, and what it has asked.

use carillon_core::{BuildContext, Config, ConfigError, Identities};
use carillon_wire::rra::{AckRequest, HEADER_LEN};

use super::context::{Context, Timer};
use super::messages::Messages;
use crate::blocks::{OutstandingPoll, OutstandingPolls, PollingList, Retransmission, RetransmissionTimeout};

/// The receivers, whose turn it is, and the questions under way.
#[derive(Debug)]
pub(super) struct PollScheduler {
    burst: u64,
    /// Questions that may be open.
    max_outstanding_polls: usize,
    /// What may be under way follows the paths.
    pub by_path: bool,
    pub retransmission: Retransmission,
    /// What names each member on the wire.
    identities: Identities,
    pub members: PollingList,
    pub outstanding: OutstandingPolls,
    /// Packets of messages sent since a receiver was last asked.
    in_burst: u64,
    /// The receiver that last reported losses: repairs ask it.
    pub reporter: Option<usize>,
    /// All that have something to acknowledge and were not asked are to be.
    pub poll_all: bool,
}

impl PollScheduler {
    /// Nobody was asked.
    pub fn new(build: &BuildContext, settings: &Config) -> Result<Self, ConfigError> {
        let burst = settings.count("burst");
        // One acknowledgment at a time: the formula's r is 1.
        let retransmission =
            Retransmission::new(build, settings, HEADER_LEN, burst, Default::default())?.for_receivers(1);
        let max_outstanding_polls = settings.count("questions") as usize;
        let by_path = settings.choice("flow_control") == "path";
        if by_path && max_outstanding_polls == 1 {
            let why = "`flow_control = \"path\"` goes with several questions: give `questions` above 1";
            return Err(ConfigError::Conflict(why.into()));
        }
        let (timeout, flight) = (RetransmissionTimeout::new(&retransmission), settings.count("flight"));
        Ok(PollScheduler {
            burst,
            max_outstanding_polls,
            by_path,
            retransmission,
            identities: build.identities.clone(),
            members: PollingList::new(build.members.len(), timeout, by_path, flight),
            outstanding: OutstandingPolls::default(),
            in_burst: 0,
            reporter: None,
            poll_all: false,
        })
    }

    /// Whether nothing is sent until the receiver that was asked has answered.
    pub fn polls_one_at_a_time(&self) -> bool {
        self.max_outstanding_polls == 1
    }

    /// Asks a receiver with the packet that is about to go out.
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

    /// What a receiver answers, unless it was not asked this or has answered it; and how many questions to it fewer
    /// are open: it will not answer earlier ones any more.
    pub fn on_answer(
        &mut self,
        context: &mut Context,
        index: usize,
        number: u32,
    ) -> Option<(OutstandingPoll, u32)> {
        let number = self.outstanding.expand(number)?;
        let (question, open) = self.outstanding.answer(number, index)?;
        context.timers.cancel(Timer::Answer(number));
        // Of one question at a time all are the same one, asked again, and a late answer is one too.
        let before = if self.polls_one_at_a_time() { u64::MAX } else { number };
        Some((question, self.withdraw(context, index, before) as u32 + u32::from(open)))
    }

    /// It is no longer in the group.
    pub fn remove(&mut self, context: &mut Context, index: usize) {
        self.withdraw(context, index, u64::MAX);
        self.members.remove(index);
    }

    /// There is nothing to ask about.
    pub fn clear(&mut self, context: &mut Context) {
        self.outstanding.clear();
        self.members.clear_polls();
        self.poll_all = false;
        context.timers.clear();
    }

    /// Counts a packet of a message; whether it is the last of its burst.
    pub fn ends_burst(&mut self, last: bool) -> bool {
        self.in_burst += 1;
        last || self.in_burst >= self.burst()
    }

    /// Whether as much is under way as may be, with so many packets sent.
    pub fn is_full(&self, context: &Context, serial: u64) -> bool {
        if self.outstanding.open_count() >= self.max_outstanding_polls {
            return true;
        }
        self.by_path && self.members.is_full(context.now, serial, self.outstanding.open())
    }

    /// Packets for each question: by path few enough that each receiver is asked some times in a window.
    fn burst(&self) -> u64 {
        if !self.by_path {
            return self.burst;
        }
        let asked = 4 * self.members.live().max(1) as u64;
        (self.members.window() / asked).clamp(1, self.burst)
    }

    /// Questions to a receiver before this one will not be answered; how many there were.
    fn withdraw(&mut self, context: &mut Context, index: usize, before: u64) -> usize {
        let earlier = self.outstanding.withdraw(index, before);
        for &number in &earlier {
            context.timers.cancel(Timer::Answer(number));
        }
        earlier.len()
    }
}
