//! What metrics can be at best, by the formulas of Segovia 1996, section 4.1.

use super::Terms;
use crate::scenario::Scenario;

/// The theoretical bounds of a point, for full windows (section 4.1).
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Messages of a full window.
    pub window: f64,
    /// Least message latency, in seconds (equations 4.18 and 4.19).
    pub latency: f64,
    /// Greatest relative throughput (equations 4.5 and 4.13).
    pub relative_throughput: f64,
    /// Greatest absolute throughput, in bit/s.
    pub throughput: f64,
}

impl Bounds {
    /// The bounds of a window of n messages.
    pub fn new(terms: &Terms, window: f64) -> Self {
        let latency = terms.latency_bound(window);
        let useful_bits = terms.receivers * window * terms.data * terms.rate.bps() as f64;
        Bounds {
            window,
            latency,
            relative_throughput: terms.unicast_time(window) / latency,
            throughput: useful_bits / latency,
        }
    }

    /// The bounds of a scenario, for a protocol that has them.
    pub fn of(scenario: &Scenario) -> Option<Self> {
        let window = (scenario.protocol.unicast_equivalent?.window)(&scenario.config);
        Terms::of(scenario).map(|terms| Bounds::new(&terms, window as f64))
    }

    /// The bound of a metric, in its unit.
    pub fn of_metric(&self, metric: &str) -> Option<f64> {
        match metric {
            "message_latency_s" => Some(self.latency),
            "relative_throughput" => Some(self.relative_throughput),
            "throughput_bps" => Some(self.throughput),
            _ => None,
        }
    }
}
