//! Theoretical bounds of metrics, by the formulas of Segovia 1996, section 4.1.

use carillon_core::BitRate;

use crate::scenario::Scenario;

/// The transmission times that the formulas of section 4.1 need.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// Receivers r.
    pub receivers: f64,
    /// Transmission time d of a data packet, in seconds.
    pub data: f64,
    /// Transmission time a of an acknowledgment, in seconds.
    pub ack: f64,
    /// The rate of the medium.
    pub rate: BitRate,
}

impl Terms {
    /// The terms of a scenario; `None` for a protocol without a unicast equivalent by
    /// acknowledgments.
    pub fn of(scenario: &Scenario) -> Option<Self> {
        let ack_bytes = scenario.protocol.study.unicast_equivalent?.ack_bytes;
        let ack = ack_bytes(&scenario.config).max(scenario.network.min_packet().into());
        let rate = scenario.network.bit_rate();
        let seconds = |bytes: u64| bytes as f64 * 8.0 / rate.bps() as f64;
        Some(Terms {
            receivers: f64::from(scenario.receivers),
            data: seconds(scenario.workload.message_bytes.into()),
            ack: seconds(ack),
            rate,
        })
    }

    /// Time of the unicast equivalent for a window of n messages: r n d + r a (equations 4.2, 4.10).
    pub fn unicast_time(&self, window: f64) -> f64 {
        self.receivers * (window * self.data + self.ack)
    }

    /// Minimum time in seconds for a window of n messages: n d + r a (equations 4.18, 4.19).
    pub fn latency_bound(&self, window: f64) -> f64 {
        window * self.data + self.receivers * self.ack
    }
}

/// The theoretical bounds of a point, for full windows (section 4.1).
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Messages of a full window.
    pub window: f64,
    /// Minimum message latency, in seconds (equations 4.18 and 4.19).
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
        let window = (scenario.protocol.study.unicast_equivalent?.window)(&scenario.config);
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
