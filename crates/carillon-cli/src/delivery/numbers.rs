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
        let Some(address) = self.metrics else { return Ok(Numbers { served: None, linger: Duration::ZERO }) };
        let exporter = Exporter::start(address, source).with_context(|| format!("--metrics {address}"))?;
        say(format_args!("numbers at http://{}/metrics", exporter.address()));
        Ok(Numbers { served: Some((monitor, exporter)), linger: self.metrics_linger })
    }
}

impl Numbers {
    /// Who is to be told.
    pub fn monitor(&self) -> Option<Monitor> {
        self.served.as_ref().map(|(monitor, _)| monitor.clone())
    }

    /// Serves the last ones for as long as was said, or until a signal comes.
    pub fn linger(self, stop: &Stop) {
        let (begun, signals) = (Instant::now(), stop.count());
        while begun.elapsed() < self.linger && stop.count() == signals {
            std::thread::sleep(LOOK.min(self.linger));
        }
    }
}

/// How soon a signal is noticed.
const LOOK: Duration = Duration::from_millis(50);
