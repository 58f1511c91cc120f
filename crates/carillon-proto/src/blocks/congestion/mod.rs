//! Congestion control of a polling sender: how fast it sends, and how much may be in flight.
//!
//! A [`CongestionControl`] sees the packets, polls and answers of a whole group, and gives a rate, a number of packets
//! in flight, and the [`Limit`] that explains it. A sender that takes a controller by name takes every entry of
//! [`CONTROLLERS`], so an entry is also in the suites and in the study `reproduce congestion`.

mod cubic;
mod delay;
mod equation;
mod fixed;
mod pgmcc;
mod record;
mod slowest;
#[cfg(test)]
mod tests;
mod windowed;

use std::fmt::Debug;
use std::time::Duration;

use carillon_core::{BitRate, ConfigError, Time};

pub use cubic::CubicWindow;
pub use delay::DelayPath;
pub use equation::{LossIntervals, loss_for, packets_per_round_trip};
pub use pgmcc::LOSS_GAIN;
pub use record::{Acknowledgment, Answer, Mark, PathRecord};
pub use slowest::{PathControl, Slowest};

/// Registered controllers; the first one is the default.
pub const CONTROLLERS: &[Controller] =
    &[delay::CONTROLLER, equation::CONTROLLER, fixed::CONTROLLER, pgmcc::CONTROLLER, cubic::CONTROLLER];

/// Entry of a controller.
#[derive(Clone, Copy, Debug)]
pub struct Controller {
    /// Name in settings, such as `congestion = "delay"`.
    pub name: &'static str,
    /// Method by which it finds the rate, in one sentence.
    pub summary: &'static str,
    /// Source of the algorithm.
    pub reference: &'static str,
    /// Makes a controller of a group. Fails if it lacks a setting.
    pub build: fn(&ControlSettings) -> Result<Box<dyn CongestionControl>, ConfigError>,
}

/// Settings of a controller.
#[derive(Clone, Copy, Debug)]
pub struct ControlSettings {
    /// Number of receivers; they have the indices from 0 on.
    pub receivers: usize,
    /// Maximum number of packets in queues and receive buffers.
    pub flight: u64,
    /// Configured rate of the sender, which applies beside that of the controller; none if it is not bounded.
    pub rate: Option<BitRate>,
}

impl Controller {
    /// Controller with this name.
    ///
    /// # Panics
    ///
    /// Panics if there is none: settings accept only names of the registry.
    pub fn named(name: &str) -> &'static Controller {
        let found = CONTROLLERS.iter().find(|controller| controller.name == name);
        found.unwrap_or_else(|| panic!("no controller is called {name}"))
    }
}

/// Names of all controllers, for the values of a parameter.
pub const CONTROLLER_NAMES: [&str; CONTROLLERS.len()] = {
    let mut names = [""; CONTROLLERS.len()];
    let mut at = 0;
    while at < names.len() {
        names[at] = CONTROLLERS[at].name;
        at += 1;
    }
    names
};

/// Congestion control of a group. All quantities are packets, seconds, and packets per second.
///
/// A sender calls the handlers at non-decreasing times, and asks for the outputs after each of them. Only the handler
/// of acknowledgments and the three outputs without a default are required.
pub trait CongestionControl: Debug + Send {
    /// Handles a data packet or repair that was sent to the group.
    fn on_sent(&mut self, _now: Time) {}

    /// Handles a poll of a receiver.
    fn on_polled(&mut self, _now: Time, _receiver: usize) {}

    /// Handles the answer of a receiver to a poll.
    fn on_acknowledged(&mut self, now: Time, receiver: usize, acknowledgment: &Acknowledgment);

    /// Handles the report of a receiver that measures its own loss rate. Its acknowledgments then do not change the
    /// rate.
    fn on_report(&mut self, _now: Time, _receiver: usize, _report: &PathReport) {}

    /// Handles an answer that shows new losses, after [`on_acknowledged`](Self::on_acknowledged).
    fn on_lost(&mut self, _now: Time, _receiver: usize, _acknowledgment: &Acknowledgment) {}

    /// Handles a receiver that left more polls unanswered than random loss explains; repeated with each further poll.
    fn on_silent(&mut self, _now: Time, _receiver: usize) {}

    /// Handles a sender that has nothing to send.
    fn on_idle(&mut self, _now: Time) {}

    /// Removes a receiver from the group.
    fn remove(&mut self, _receiver: usize) {}

    /// Rate in packets per second; none while it is unknown, and the window alone limits the sender.
    fn rate(&self) -> Option<f64>;

    /// Number of packets that may be in flight to the whole group.
    fn window(&self) -> u64;

    /// Number of packets that may be in flight to one receiver, if that is more.
    fn window_to(&self, _receiver: usize) -> u64 {
        self.window()
    }

    /// Reason for the present window to a receiver.
    fn limit(&self, receiver: usize) -> Limit;

    /// Receiver to poll every second time, because its answers decide.
    fn deciding(&self) -> Option<usize> {
        None
    }

    /// True if each path has a window of its own. A sender may then follow the fastest path alone for a while, to learn
    /// the cost of the slower ones.
    fn has_own_windows(&self) -> bool {
        false
    }

    /// Estimate of the path to a receiver, if the controller has a better one than the record of its answers.
    fn estimate(&self, _receiver: usize) -> Option<PathEstimate> {
        None
    }
}

/// Report of a receiver that measures its own loss rate.
#[derive(Clone, Copy, Debug)]
pub struct PathReport {
    /// Round-trip time to the receiver.
    pub round_trip: Duration,
    /// Loss rate, from 0 to 1.
    pub loss: f64,
}

/// Reason for a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The capacity of the path is still being searched.
    Search,
    /// The capacity of the path, and a queue.
    Capacity,
    /// Losses.
    Loss,
    /// A pause that measures the path without a queue.
    Pause,
    /// A receiver that does not answer.
    Silence,
    /// A rate; the window bounds only the packets that no answer covers.
    Rate,
}

impl Limit {
    /// Name of the limit in reports.
    pub fn name(self) -> &'static str {
        match self {
            Limit::Search => "search",
            Limit::Capacity => "capacity",
            Limit::Loss => "loss",
            Limit::Pause => "pause",
            Limit::Silence => "silence",
            Limit::Rate => "rate",
        }
    }
}

/// Estimate of the path to a receiver.
#[derive(Clone, Copy, Debug)]
pub struct PathEstimate {
    /// Congestion window in packets.
    pub window: u64,
    /// Smoothed loss rate.
    pub loss: f64,
    /// Minimum round-trip time, without queues; none before the first sample.
    pub round_trip: Option<Duration>,
    /// Smoothed time that a poll and its answer wait in queues.
    pub queued: Duration,
}
