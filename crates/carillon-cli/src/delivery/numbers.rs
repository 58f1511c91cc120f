//! `--metrics`: numbers for whoever fetches them.

use std::net::SocketAddr;
use std::time::Instant;

use anyhow::Context as _;
use carillon_core::Duration;
use carillon_transfer::monitor::{Exporter, Monitor};

use super::seconds::seconds;
use super::stop::Stop;
use super::words::say;

/// Where numbers are served, and for how long.
#[derive(Clone, Debug, clap::Args)]
pub struct NumbersArgs {
    /// Serve numbers at http://ADDR:PORT/metrics in the text format of Prometheus, such as 127.0.0.1:9464; port 0 is any.
    #[arg(long, value_name = "ADDR:PORT")]
    pub metrics: Option<SocketAddr>,
    /// Serve them for so long after the end, so that the last ones are fetched too.
    #[arg(long, value_name = "SECONDS", default_value = "0", value_parser = seconds, requires = "metrics")]
    pub metrics_linger: Duration,
}

/// Numbers that are served, if they are.
#[derive(Debug)]
pub struct Numbers {
    served: Option<(Monitor, Exporter)>,
    linger: Duration,
    /// Signals that had come when the work was over.
    signals: Option<usize>,
}

impl NumbersArgs {
    /// Serves what a monitor is told.
    pub fn serve(&self) -> anyhow::Result<Numbers> {
        let monitor = Monitor::default();
        let told = monitor.clone();
        self.serve_as(monitor, move || told.text())
    }

    /// Serves this; the monitor may be told or not.
    pub fn serve_as(
        &self,
        monitor: Monitor,
        source: impl Fn() -> String + Send + 'static,
    ) -> anyhow::Result<Numbers> {
        let Some(address) = self.metrics else {
            return Ok(Numbers { served: None, linger: Duration::ZERO, signals: None });
        };
        let exporter = Exporter::start(address, source).with_context(|| format!("--metrics {address}"))?;
        say(format_args!("numbers at http://{}/metrics", exporter.address()));
        Ok(Numbers { served: Some((monitor, exporter)), linger: self.metrics_linger, signals: None })
    }
}

impl Numbers {
    /// Who is to be told.
    pub fn monitor(&self) -> Option<Monitor> {
        self.served.as_ref().map(|(monitor, _)| monitor.clone())
    }

    /// The work is over: a signal from now on, also one that comes while it is reported, ends the waiting for who fetches.
    pub fn work_is_over(&mut self, stop: &Stop) {
        self.signals = Some(stop.count());
    }

    /// Serves the last ones for as long as was said, or until a signal comes.
    pub fn linger(self, stop: &Stop) {
        let (begun, signals) = (Instant::now(), self.signals.unwrap_or_else(|| stop.count()));
        while begun.elapsed() < self.linger && stop.count() == signals {
            std::thread::sleep(LOOK.min(self.linger));
        }
    }
}

/// How soon a signal is noticed.
const LOOK: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use signal_hook::consts::SIGTERM;
    use signal_hook::low_level::raise;

    use super::*;

    /// Whether waiting an hour ends soon, with a signal before the work is over or after that.
    fn ends_with_a_signal(after: bool) -> bool {
        let stop = Stop::on_signals().expect("signals are counted");
        let mut numbers = Numbers { served: None, linger: Duration::from_secs(3600), signals: None };
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

    /// A receiver that is told to stop while it still prints its report served its numbers for as long as was said.
    #[test]
    fn a_signal_ends_the_waiting_for_who_fetches_once_the_work_is_over_and_one_before_does_not() {
        assert!(ends_with_a_signal(true));
        assert!(!ends_with_a_signal(false), "it asked the transfer to end, and was heard");
    }
}
