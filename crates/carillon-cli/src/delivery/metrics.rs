//! `--metrics`: an HTTP endpoint for monitoring systems.

use std::net::SocketAddr;
use std::time::Instant;

use anyhow::Context as _;
use carillon_core::Duration;
use carillon_transfer::monitor::{Exporter, Monitor};

use super::messages::notice;
use super::seconds;
use super::stop::Stop;

/// Address and lifetime of the metrics endpoint.
#[derive(Clone, Debug, clap::Args)]
pub struct MetricsArgs {
    /// Serve metrics for Prometheus at http://ADDR:PORT/metrics, such as 127.0.0.1:9464; port 0 picks a free port.
    #[arg(long, value_name = "ADDR:PORT", help_heading = "Output")]
    pub metrics: Option<SocketAddr>,
    /// Keep serving the last metrics for this long after the end.
    #[arg(long, value_name = "SECONDS", default_value = "0", value_parser = seconds, requires = "metrics", help_heading = "Output")]
    pub metrics_linger: Duration,
}

/// Running metrics endpoint, if one was asked for.
#[derive(Debug)]
pub struct MetricsEndpoint {
    served: Option<(Monitor, Exporter)>,
    linger: Duration,
    /// Number of signals received when the work ended.
    signals: Option<usize>,
}

impl MetricsArgs {
    /// Serves the text of a new monitor.
    pub fn serve(&self) -> anyhow::Result<MetricsEndpoint> {
        let monitor = Monitor::default();
        let told = monitor.clone();
        self.serve_as(monitor, move || told.text())
    }

    /// Serves the text that `source` returns.
    pub fn serve_as(
        &self,
        monitor: Monitor,
        source: impl Fn() -> String + Send + 'static,
    ) -> anyhow::Result<MetricsEndpoint> {
        let Some(address) = self.metrics else {
            return Ok(MetricsEndpoint { served: None, linger: Duration::ZERO, signals: None });
        };
        let exporter = Exporter::start(address, source).with_context(|| format!("--metrics {address}"))?;
        notice(format_args!("numbers at http://{}/metrics", exporter.address()));
        Ok(MetricsEndpoint { served: Some((monitor, exporter)), linger: self.metrics_linger, signals: None })
    }
}

impl MetricsEndpoint {
    /// Monitor that the transfer reports to, if metrics are served.
    pub fn monitor(&self) -> Option<Monitor> {
        self.served.as_ref().map(|(monitor, _)| monitor.clone())
    }

    /// Marks the end of the work. From now on a signal ends the lingering, also one that arrives while the report is
    /// printed.
    pub fn work_is_over(&mut self, stop: &Stop) {
        self.signals = Some(stop.count());
    }

    /// Serves the last metrics for `--metrics-linger`, or until a signal arrives.
    pub fn linger(self, stop: &Stop) {
        let (begun, signals) = (Instant::now(), self.signals.unwrap_or_else(|| stop.count()));
        while begun.elapsed() < self.linger && stop.count() == signals {
            std::thread::sleep(SIGNAL_CHECK_INTERVAL.min(self.linger));
        }
    }
}

/// Interval at which signals are checked while lingering.
const SIGNAL_CHECK_INTERVAL: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use signal_hook::consts::SIGTERM;
    use signal_hook::low_level::raise;

    use super::*;

    /// Returns true if lingering for an hour ends soon after a signal that came before or after the end of the work.
    fn ends_with_a_signal(after: bool) -> bool {
        let stop = Stop::on_signals().expect("signals are counted");
        let mut numbers = MetricsEndpoint { served: None, linger: Duration::from_secs(3600), signals: None };
        if after {
            numbers.work_is_over(&stop);
        }
        raise(SIGTERM).expect("a signal");
        while stop.count() == 0 {
            std::thread::yield_now();
        }
        if !after {
            numbers.work_is_over(&stop);
        }
        let (sends, ended) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            numbers.linger(&stop);
            let _ = sends.send(());
        });
        ended.recv_timeout(std::time::Duration::from_millis(if after { 10_000 } else { 300 })).is_ok()
    }

    /// A signal that asks for the end of a transfer does not also end the lingering.
    #[test]
    fn signal_after_the_work_ends_the_wait_for_scrapers() {
        assert!(ends_with_a_signal(true));
        assert!(!ends_with_a_signal(false), "it asked the transfer to end, and was heard");
    }
}
