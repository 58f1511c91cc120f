//! What `run` and `reproduce` share: the number of threads, progress, and care for results that are there.

use std::io::IsTerminal as _;
use std::path::Path;

use anyhow::bail;
use carillon_lab::results::has_results;
use indicatif::{ProgressBar, ProgressStyle};

/// The number of threads.
#[derive(Debug, clap::Args)]
pub struct Jobs {
    /// Run on N threads; results do not depend on it. Default: one for each processor.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
}

impl Jobs {
    /// How many.
    pub fn number(&self) -> usize {
        match self.jobs {
            Some(jobs) => jobs.into(),
            None => std::thread::available_parallelism().map_or(1, usize::from),
        }
    }
}

/// Results that are there are replaced only if that is asked for.
pub fn not_overwritten(dir: &Path, overwrite: bool) -> anyhow::Result<()> {
    if !overwrite && has_results(dir) {
        bail!("{} has results already: give --overwrite to replace them, or another --out", dir.display());
    }
    Ok(())
}

/// A bar over the runs of a plan, on a terminal only.
#[derive(Debug)]
pub struct RunProgress(ProgressBar);

impl RunProgress {
    /// A bar with this name.
    pub fn new(name: &str) -> Self {
        if !std::io::stderr().is_terminal() {
            return RunProgress(ProgressBar::hidden());
        }
        let style = ProgressStyle::with_template("{prefix} {bar:40} {pos}/{len} runs, {eta} left")
            .expect("the template is well formed");
        RunProgress(ProgressBar::new(0).with_style(style).with_prefix(name.to_owned()))
    }

    /// One of `runs` runs is done.
    pub fn run_done(&self, runs: usize) {
        self.0.set_length(runs as u64);
        self.0.inc(1);
    }

    /// All are done.
    pub fn finish(&self) {
        self.0.finish_and_clear();
    }
}
