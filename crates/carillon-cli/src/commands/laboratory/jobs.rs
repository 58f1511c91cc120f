//! Options that `run` and `reproduce` share: threads, progress, and the folder for results.

use std::io::IsTerminal as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use carillon_lab::results::{Existing, Report};
use indicatif::{ProgressBar, ProgressStyle};

/// Number of threads.
#[derive(Debug, clap::Args)]
pub struct Jobs {
    /// Run on N threads; the results do not depend on it [default: one for each processor].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
}

impl Jobs {
    /// Number of threads to use.
    pub fn number(&self) -> usize {
        match self.jobs {
            Some(jobs) => jobs.into(),
            None => std::thread::available_parallelism().map_or(1, usize::from),
        }
    }
}

/// Folder for results, and the treatment of results that are already there.
#[derive(Debug, clap::Args)]
pub struct Out {
    /// Write results into DIR.
    #[arg(long = "out", value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Replace the results that are in DIR.
    #[arg(long, requires = "dir", conflicts_with = "resume")]
    overwrite: bool,
    /// Continue the sweep in DIR; finished runs are kept.
    #[arg(long, requires = "dir")]
    resume: bool,
}

impl Out {
    /// Folder from the command line.
    pub fn given(&self) -> Option<&Path> {
        self.dir.as_deref()
    }

    /// Returns true if an earlier sweep is to be continued.
    pub fn resumes(&self) -> bool {
        self.resume
    }

    /// Treatment of results that are already there.
    pub fn existing(&self) -> Existing {
        match (self.overwrite, self.resume) {
            (true, _) => Existing::Replace,
            (_, true) => Existing::Resume,
            (false, false) => Existing::Keep,
        }
    }

    /// Folder from the command line, or a temporary one that is removed at the end.
    pub fn folder(&self) -> anyhow::Result<Folder> {
        match &self.dir {
            Some(dir) => Ok(Folder::Given(dir.clone())),
            None => {
                let folder = tempfile::Builder::new().prefix(TEMPORARY_PREFIX).tempdir();
                let folder = folder.context("cannot make a folder for results")?;
                remove_abandoned_folders(folder.path());
                Ok(Folder::Temporary(folder))
            }
        }
    }
}

/// Prefix of the names of temporary folders.
const TEMPORARY_PREFIX: &str = "carillon-run-";

/// Removes temporary folders of this user that killed processes left: their journal exists and is not locked.
fn remove_abandoned_folders(own: &Path) {
    let Ok(own) = own.metadata() else { return };
    for entry in std::fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten() {
        let is_ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(TEMPORARY_PREFIX))
            && entry.metadata().is_ok_and(|folder| folder.is_dir() && folder.uid() == own.uid());
        if is_ours && carillon_lab::results::is_abandoned(&entry.path()) {
            // A folder that cannot be removed does no harm.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// A folder for results.
#[derive(Debug)]
pub enum Folder {
    /// Folder chosen by the user.
    Given(PathBuf),
    /// Temporary folder, removed at the end.
    Temporary(tempfile::TempDir),
}

impl Folder {
    /// Path of the folder.
    pub fn path(&self) -> &Path {
        match self {
            Folder::Given(dir) => dir,
            Folder::Temporary(dir) => dir.path(),
        }
    }
}

/// Warns if latencies leave out undelivered messages, or if there are no latencies.
pub fn warn_of_latencies(report: &Report) {
    for (reason, points) in &report.without_latency {
        eprintln!("no delivery_latency_s at {points} of the points: {reason}");
    }
    if let Some((share, point)) = &report.worst {
        eprintln!(
            "not everything was delivered at {} of the points, at worst {:.3} % of a run{point}: delivery_latency_s is that of the rest (undelivered_share)",
            report.undelivered,
            share * 100.0
        );
    }
}

/// Progress bar over the runs of a plan, on terminals only.
#[derive(Debug)]
pub struct RunProgress(ProgressBar);

impl RunProgress {
    /// Creates a bar with this name.
    pub fn new(name: &str) -> Self {
        if !std::io::stderr().is_terminal() {
            return RunProgress(ProgressBar::hidden());
        }
        let style = ProgressStyle::with_template("{prefix} {bar:40} {pos}/{len} runs, {eta} left")
            .expect("the template is well formed");
        RunProgress(ProgressBar::new(0).with_style(style).with_prefix(name.to_owned()))
    }

    /// Notes that one of `runs` runs has ended.
    pub fn run_done(&self, runs: usize) {
        self.0.set_length(runs as u64);
        self.0.inc(1);
    }

    /// Removes the bar.
    pub fn finish(&self) {
        self.0.finish_and_clear();
    }
}
