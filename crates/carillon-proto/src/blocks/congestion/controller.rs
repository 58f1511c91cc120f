//! Interface of a controller: its entry in the registry, its handlers and its outputs.

use std::fmt::Debug;
use std::time::Duration;

use carillon_core::{BitRate, ConfigError, Time};

use super::record::{Acknowledgment, PathEstimate};

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
