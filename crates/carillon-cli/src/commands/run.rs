//! `carillon run`: scenarios and command files.

use std::fs;
use std::io::{BufWriter, Write as _};
use std::path::{Component, Path, PathBuf};
use std::time::{Instant, SystemTime};

use anyhow::{Context as _, bail};
use carillon_lab::command_file::CommandFile;
use carillon_lab::log::PlayByPlay;
use carillon_lab::plan::Plan;
use carillon_lab::results::Results;
use carillon_lab::run::{RunResult, run_one, run_plan};
use carillon_lab::scenario::ScenarioFile;
use carillon_lab::statistics_file::write_pass;
use carillon_lab::trace::{CaptureOptions, TraceFile};

use super::jobs::{Jobs, RunProgress, not_overwritten};
use crate::delivery::Stop;

/// Run a scenario (.toml) or a command file of the 1996 simulator (any other extension).
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  carillon run msaw.toml --out results
  carillon run msaw.toml --set group.receivers=20 --set loss.p=0.01 --trace run.pcapng
  carillon run msaw.toml --backend testbed        as root: real UDP between network namespaces
  carillon run bapwin.cmd                 writes the statistics file it names

Without --out, prints the summary table as CSV.")]
pub struct Args {
    /// The scenario or command file.
    file: PathBuf,
    /// Write summary.csv, summary.parquet, samples.parquet and manifest.json into DIR.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Replace the results that are in DIR.
    #[arg(long, requires = "out")]
    overwrite: bool,
    /// Set a key of the scenario, such as group.receivers=20.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    settings: Vec<String>,
    /// Use this seed instead of the scenario's own.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    #[command(flatten)]
    jobs: Jobs,
    /// Simulate, or run in real time over UDP between network namespaces (needs root).
    #[arg(long, value_enum, default_value = "sim")]
    backend: Backend,
    /// What joins the nodes of a testbed: a model of the shared Ethernet, or a bridge.
    #[arg(long, value_enum, default_value = "shared")]
    medium: Medium,
    /// Write the events (.jsonl) or datagrams (.pcapng) of the run; the scenario must have one run.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
}

/// What joins the nodes of a testbed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Medium {
    /// A model of the shared Ethernet, run in real time.
    Shared,
    /// The system's bridge: a switch as fast as the machine.
    Switched,
}

impl From<Medium> for carillon_testbed::Medium {
    fn from(medium: Medium) -> Self {
        match medium {
            Medium::Shared => carillon_testbed::Medium::Shared,
            Medium::Switched => carillon_testbed::Medium::Switched,
        }
    }
}

/// Where a scenario runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Backend {
    /// The simulator.
    Sim,
    /// Network namespaces of this machine.
    Testbed,
}

/// `carillon run`
pub fn run(args: &Args) -> anyhow::Result<()> {
    let origin = args.file.display().to_string();
    let text = fs::read(&args.file).with_context(|| format!("cannot read {origin}"))?;
    let Ok(text) = String::from_utf8(text) else { bail!("{origin}: is not text in UTF-8") };
    let is_scenario = args.file.extension().is_some_and(|extension| extension == "toml");
    let (mut file, command) = if is_scenario {
        (ScenarioFile::parse(&origin, &text)?, None)
    } else {
        let command = CommandFile::parse(&origin, &text)?;
        (command.scenario.clone(), Some(command))
    };
    for setting in &args.settings {
        let Some((key, value)) = setting.split_once('=') else {
            bail!("--set {setting}: write KEY=VALUE, such as group.receivers=20");
        };
        file = file.with(key.trim(), value.trim())?;
    }
    if let Some(seed) = args.seed {
        file = file.with("run.seed", &seed.to_string())?;
    }
    if let Some(dir) = &args.out {
        not_overwritten(dir, args.overwrite)?;
    }
    if let Some(command) = &command {
        in_dir(args.out.as_deref(), &command.statistics)?;
    }
    let plan = Plan::new(&file)?;
    let begin = Instant::now();
    let log = command.as_ref().and_then(|command| command.log.as_deref());
    let runs = match (&args.trace, log, args.backend) {
        (Some(path), _, backend) => vec![traced(&plan, path, backend, args.medium)?],
        (None, Some(_), Backend::Testbed) => {
            bail!("{origin}: a log of the whole pass is written by the simulator only")
        }
        (None, Some(path), Backend::Sim) => logged(&plan, &in_dir(args.out.as_deref(), path)?)?,
        (None, None, Backend::Testbed) => {
            let progress = RunProgress::new(file.name());
            let (stop, done) = (Stop::on_signals()?, || progress.run_done(plan.runs.len()));
            let runs = carillon_testbed::run_plan(&plan, args.medium.into(), &|| stop.asked(), &done)?;
            progress.finish();
            runs
        }
        (None, None, Backend::Sim) => {
            let progress = RunProgress::new(file.name());
            let runs = run_plan(&plan, args.jobs.number(), &|| progress.run_done(plan.runs.len()))?;
            progress.finish();
            runs
        }
    };
    let results = Results::new(&file, &plan, &runs, begin.elapsed());
    if let Some(dir) = &args.out {
        results.write(dir)?;
    }
    if let Some(command) = &command {
        let path = in_dir(args.out.as_deref(), &command.statistics)?;
        write_statistics(&path, &plan, &file, &runs)
            .with_context(|| format!("cannot write {}", path.display()))?;
        eprintln!("{} passes written to {}", plan.points.len(), path.display());
    } else if args.out.is_none() {
        results.summary().to_csv(&mut std::io::stdout().lock())?;
    }
    Ok(())
}

/// The one run of a plan, with a trace file.
fn traced(plan: &Plan, path: &Path, backend: Backend, medium: Medium) -> anyhow::Result<RunResult> {
    let [run] = plan.runs.as_slice() else {
        bail!("--trace writes one run, and this scenario has {}: choose one with --set", plan.runs.len());
    };
    let mut trace = TraceFile::create(path, CaptureOptions::default())?;
    let result = match backend {
        Backend::Sim => run_one(run, &mut trace)?,
        Backend::Testbed => {
            let stop = Stop::on_signals()?;
            carillon_testbed::run_one(run, medium.into(), &|| stop.asked(), &mut trace)?
        }
    };
    trace.finish()?;
    Ok(result)
}

/// All runs one after the other, their events told in the log file.
fn logged(plan: &Plan, path: &Path) -> anyhow::Result<Vec<RunResult>> {
    let problem = || format!("cannot write {}", path.display());
    let mut log = PlayByPlay::new(BufWriter::new(fs::File::create(path).with_context(problem)?));
    let mut results = Vec::new();
    for run in &plan.runs {
        log.begin_pass(run.point, run.replication, &plan.points[run.point].to_string());
        results.push(run_one(run, &mut log)?);
    }
    log.finish().with_context(problem)?;
    Ok(results)
}

fn write_statistics(
    path: &Path,
    plan: &Plan,
    file: &ScenarioFile,
    runs: &[RunResult],
) -> std::io::Result<()> {
    let mut out = BufWriter::new(fs::File::create(path)?);
    let date = date();
    for pass in runs.chunk_by(|a, b| a.point == b.point) {
        let scenario = plan.runs.iter().find(|run| run.point == pass[0].point).map(|run| &run.scenario);
        let Some(scenario) = scenario else { continue };
        let messages = pass.iter().flat_map(|run| &run.messages);
        write_pass(&mut out, scenario, file.replications(), &date, messages)?;
    }
    out.flush()
}

/// A file that a command file names: below --out, or here. Only the command line leads elsewhere.
fn in_dir(dir: Option<&Path>, name: &str) -> anyhow::Result<PathBuf> {
    let inside = |part| matches!(part, Component::Normal(_) | Component::CurDir);
    if !Path::new(name).components().all(inside) {
        bail!(
            "the command file writes to {name}, which leads out of its folder: name a file, and give --out DIR for another folder"
        );
    }
    let path = dir.map_or_else(|| PathBuf::from(name), |dir| dir.join(name));
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    Ok(path)
}

/// The date as her simulator wrote it (`ctime`, in UTC); SOURCE_DATE_EPOCH makes it repeatable.
fn date() -> String {
    let given = std::env::var("SOURCE_DATE_EPOCH").ok().and_then(|seconds| seconds.parse().ok());
    let seconds = given.unwrap_or_else(|| {
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64)
    });
    carillon_lab::statistics_file::ctime(seconds)
}
