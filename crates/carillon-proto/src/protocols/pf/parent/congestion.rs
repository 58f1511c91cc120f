//! Congestion control of a parent: a window for each child after Jacobson (1988), on top of the flow control of section
//! 2.2.
//!
//! The slowest child sets the pace, as with the buffers of the children. A loss that a child reports halves its window.
//! A child that leaves two polls in a row unanswered starts anew with one message: one missing response says nothing
//! about the messages (section 2.4), and the poll after it asks for the facts.

use crate::blocks::CongestionWindow;
use crate::protocols::pf::config::CongestionRule;

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

    /// Handles a message that the child has now.
    pub fn on_arrived(&mut self) {
        self.window.on_acknowledged();
    }

    /// Handles a message that the child reports as missing; `sent` is the next message.
    pub fn on_missing(&mut self, message: u64, sent: u64) {
        self.window.on_loss(message, sent);
    }

    /// Handles an unanswered poll, the `absent`th in a row; `missing` is the first message that the child is missing.
    pub fn on_absent(&mut self, absent: u32, missing: u64, sent: u64) {
        if absent == ABSENT_POLLS_OF_TIMEOUT {
            self.window.on_timeout(missing, sent);
        }
    }

    /// Size of the window in messages if it limits the messages of the parent.
    pub fn limiting_window(&self) -> Option<u64> {
        (!self.is_reported).then_some(self.window.size())
    }

    /// Size of the window in messages if the parent reports it to the node that sends the messages.
    pub fn reported_window(&self) -> Option<u64> {
        self.is_reported.then_some(self.window.size())
    }
}

/// Number of unanswered polls in a row that start a window anew.
const ABSENT_POLLS_OF_TIMEOUT: u32 = 2;
