//! Rate of TCP on the path of the worst receiver, by an equation (TFMCC, RFC 4654).
//!
//! The windows of the paths apply as well, so that a rate that is not found yet fills no queue.

mod equation_rate;
mod loss_intervals;

use carillon_core::Time;

use super::{
    Acknowledgment, CongestionControl, ControlSettings, Controller, DelayPath, Limit, PathEstimate, Slowest,
};
use equation_rate::{EquationRate, ReceiverReport};
pub use equation_rate::{loss_for, packets_per_round_trip};
pub use loss_intervals::LossIntervals;

/// Entry of the registry.
pub const CONTROLLER: Controller = Controller {
    name: "equation",
    summary: "throughput that TCP would have to the worst receiver, by its loss events and round-trip time",
    reference: "TFMCC (RFC 4654), equation of Padhye et al. 1998",
    build: |settings| Ok(Box::new(Equation::new(settings))),
};

/// Rate by the equation, and windows by the delay of the paths.
#[derive(Debug)]
struct Equation {
    paths: Slowest<DelayPath>,
    equation: EquationRate,
}

impl Equation {
    fn new(settings: &ControlSettings) -> Self {
        Equation {
            paths: Slowest::new(settings, DelayPath::with_buffers(settings.flight)),
            equation: EquationRate::new(settings.receivers),
        }
    }
}

impl CongestionControl for Equation {
    fn on_acknowledged(&mut self, now: Time, receiver: usize, acknowledgment: &Acknowledgment) {
        self.paths.on_acknowledged(now, receiver, acknowledgment);
        let &Acknowledgment { sent, arrived, round_trip, .. } = acknowledgment;
        let report = ReceiverReport { sent, arrived: arrived as u32, trip: round_trip };
        self.equation.on_answer(now, receiver, report);
    }

    fn on_silent(&mut self, now: Time, receiver: usize) {
        self.paths.on_silent(now, receiver);
        self.equation.on_silence(receiver);
    }

    fn remove(&mut self, receiver: usize) {
        self.paths.remove(receiver);
        self.equation.remove(receiver);
    }

    fn rate(&self) -> Option<f64> {
        self.equation.rate()
    }

    fn window(&self) -> u64 {
        self.paths.window()
    }

    fn window_to(&self, receiver: usize) -> u64 {
        self.paths.window_to(receiver)
    }

    fn limit(&self, receiver: usize) -> Limit {
        if self.equation.limiting() == Some(receiver) { Limit::Rate } else { self.paths.limit(receiver) }
    }

    fn deciding(&self) -> Option<usize> {
        self.equation.limiting()
    }

    fn estimate(&self, receiver: usize) -> Option<PathEstimate> {
        self.paths.estimate(receiver)
    }
}
