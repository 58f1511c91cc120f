//! What `run` and `reproduce` share: the number of threads, progress, and care for results that are there.

use std::io::IsTerminal as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use carillon_lab::results::{Existing, Report};
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

/// Where results go, and what becomes of those that are there.
#[derive(Debug, clap::Args)]
pub struct Out {
    /// Write results into DIR.
    #[arg(long = "out", value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Replace the results that are in DIR.
    #[arg(long, requires = "dir", conflicts_with = "resume")]
    overwrite: bool,
    /// Go on with the sweep that is in DIR: what is done is kept.
    #[arg(long, requires = "dir")]
    resume: bool,
}

impl Out {
    /// The folder that was given.
    pub fn given(&self) -> Option<&Path> {
        self.dir.as_deref()
    }

    /// Whether results that are there go on.
    pub fn resumes(&self) -> bool {
        self.resume
    }

    /// What becomes of results that are there.
    pub fn existing(&self) -> Existing {
        match (self.overwrite, self.resume) {
            (true, _) => Existing::Replace,
            (_, true) => Existing::Resume,
            (false, false) => Existing::Keep,
        }
    }

    /// The folder that was given, or one that goes with the process.
    pub fn folder(&self) -> anyhow::Result<Folder> {
        match &self.dir {
            Some(dir) => Ok(Folder::Given(dir.clone())),
            None => {
                let folder = tempfile::Builder::new().prefix(PASSING).tempdir();
                let folder = folder.context("cannot make a folder for results")?;
                remove_abandoned_folders(folder.path());
                Ok(Folder::Passing(folder))
            }
        }
    }
}

/// How the names of folders begin that go with the process.
const PASSING: &str = "carillon-run-";

/// Removes folders of this user that processes left when they were killed: their journal is there and not locked.
fn remove_abandoned_folders(own: &Path) {
    let Ok(own) = own.metadata() else { return };
    for entry in std::fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten() {
        let is_ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(PASSING))
            && entry.metadata().is_ok_and(|folder| folder.is_dir() && folder.uid() == own.uid());
        if is_ours && carillon_lab::results::is_abandoned(&entry.path()) {
            // One that cannot be removed harms nothing.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// A folder for results.
#[derive(Debug)]
pub enum Folder {
    /// The user's.
    Given(PathBuf),
    /// One that is removed in the end.
    Passing(tempfile::TempDir),
}

impl Folder {
    /// Where it is.
    pub fn path(&self) -> &Path {
        match self {
            Folder::Given(dir) => dir,
            Folder::Passing(dir) => dir.path(),
        }
    }
}

/// Says what the means of latencies leave out, and where there are none.
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
