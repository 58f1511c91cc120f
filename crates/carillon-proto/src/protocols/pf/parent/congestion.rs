//! Congestion control of a parent: a window for each child after Jacobson (1988), on top of the flow control of section
//! 2.2.
//!
//! The slowest child sets the pace, as with the buffers of the children. A loss that a child reports halves its window.
//! A child that leaves two polls in a row unanswered starts anew with one message: one missing response says nothing
//! about the messages (section 2.4), and the poll after it asks for the facts.

use super::Parent;
use super::child::Child;
use crate::blocks::CongestionWindow;

/// Congestion window of a child.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChildCongestion {
    window: CongestionWindow,
    /// True if another node sends the messages, so that the window is only reported to it.
    is_reported: bool,
}

impl ChildCongestion {
    /// Creates the window of a child; `None` without congestion control. `most` bounds it.
    pub fn new(rule: CongestionRule, most: u64) -> Option<Self> {
        let window = CongestionWindow::new(most);
        (rule != CongestionRule::None)
            .then_some(ChildCongestion { window, is_reported: rule == CongestionRule::Reported })
    }
}

impl Child {
    /// Handles a message that the child has now.
    pub(super) fn on_arrived(&mut self) {
        if let Some(congestion) = &mut self.congestion {
            congestion.window.on_acknowledged();
        }
    }

    /// Handles a message that the child reports as missing; `sent` is the next message.
    pub(super) fn on_missing(&mut self, message: u64, sent: u64) {
        if let Some(congestion) = &mut self.congestion {
            congestion.window.on_loss(message, sent);
        }
    }

    /// Handles an unanswered poll, which [`Child::absent`] counts.
    pub(super) fn on_absent(&mut self, sent: u64) {
        let missing = self.map.next();
        if let Some(congestion) = self.congestion.as_mut().filter(|_| self.absent == ABSENT_POLLS_OF_TIMEOUT)
        {
            congestion.window.on_timeout(missing, sent);
        }
    }

    /// First message beyond the congestion window.
    pub(super) fn congestion_limit(&self) -> u64 {
        let congestion = self.congestion.filter(|congestion| !congestion.is_reported);
        congestion.map_or(u64::MAX, |congestion| self.map.next().saturating_add(congestion.window.size()))
    }
}

impl Parent {
    /// Window that this parent reports to the node that sends its messages: the smallest at its children, or below
    /// them.
    pub fn reported_window(&self) -> Option<u64> {
        let reported = |index: usize| {
            let child = &self.children[index];
            let congestion = child.congestion.filter(|congestion| congestion.is_reported)?;
            Some(congestion.window.size().min(child.size))
        };
        self.live_children().filter_map(reported).min()
    }
}

/// Congestion control of a parent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum CongestionRule {
    /// No congestion control (the paper).
    #[default]
    None,
    /// The windows limit the messages of this parent.
    Window,
    /// The windows are reported to the node that sends the messages.
    Reported,
}

/// Number of unanswered polls in a row that start a window anew.
const ABSENT_POLLS_OF_TIMEOUT: u32 = 2;
