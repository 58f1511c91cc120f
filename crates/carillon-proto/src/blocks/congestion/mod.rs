//! Congestion control of a polling sender: how fast it sends, and how much may be in flight.
//!
//! A [`CongestionControl`] sees the packets, polls and answers of a whole group, and gives a rate, a number of packets
//! in flight, and the [`Limit`] that explains it. A sender that takes a controller by name takes every entry of
//! [`CONTROLLERS`], so an entry is also in the suites and in the study `reproduce congestion`.

mod controller;
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

pub use controller::{CongestionControl, ControlSettings, Controller, Limit, PathReport};
pub use cubic::CubicWindow;
pub use delay::DelayPath;
pub use equation::{LossIntervals, loss_for, packets_per_round_trip};
pub use pgmcc::LOSS_GAIN;
pub use record::{Acknowledgment, Answer, Mark, PathEstimate, PathRecord};
pub use slowest::{PathControl, Slowest};

/// Registered controllers; the first one is the default.
pub const CONTROLLERS: &[Controller] =
    &[delay::CONTROLLER, equation::CONTROLLER, fixed::CONTROLLER, pgmcc::CONTROLLER, cubic::CONTROLLER];

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
