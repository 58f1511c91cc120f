//! Protocol's machine at a receiver, with the bounds on the datagrams that it gets and sends.

use carillon_core::{Duration, Machine, Seeds, Time, Timers};

use super::send_budget::{EarlyDatagrams, SendBudget};
use super::state::Timer;

/// Protocol's machine.
#[derive(Debug)]
pub(super) struct Hosted {
    /// Random streams of the machine.
    pub seeds: Seeds,
    /// The machine. It is driven only after the sender has welcomed this receiver.
    pub machine: Option<Box<dyn Machine>>,
    /// Datagrams of the protocol that arrived before its machine was started.
    pub early: EarlyDatagrams,
    /// Bytes that the machine may send.
    pub budget: SendBudget,
    /// Own messages, if the member offers any.
    pub offering: Offering,
    /// True if a message was delivered.
    pub delivered: bool,
    pub timers: Timers<Timer>,
}

/// Own messages of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Offering {
    /// The application may offer messages.
    Open,
    /// The application has finished, and messages are in flight.
    Finishing,
    /// Messages are complete, and the application has finished.
    Done,
}

impl Hosted {
    pub fn new(seeds: Seeds) -> Self {
        Hosted {
            seeds,
            machine: None,
            early: EarlyDatagrams::default(),
            budget: SendBudget::default(),
            offering: Offering::Open,
            delivered: false,
            timers: Timers::new(),
        }
    }

    /// Passes the other early datagrams on soon. The host can take the pending events before.
    pub fn go_on_soon(&mut self, now: Time) {
        self.timers.arm(Timer::Early, now + EARLY_RETRY_DELAY);
    }

    /// Ends the session. A finished receiver keeps its machine, which still answers the sender.
    pub fn end(&mut self, keeps_machine: bool) {
        self.early = EarlyDatagrams::default();
        self.timers.clear();
        if !keeps_machine {
            self.machine = None;
        }
    }
}

/// Maximum number of pending events while early datagrams are passed on.
pub(super) const MAX_PENDING_EVENTS: usize = 512;
/// Delay after which the rest of the early datagrams is passed on.
const EARLY_RETRY_DELAY: Duration = Duration::from_micros(1);
