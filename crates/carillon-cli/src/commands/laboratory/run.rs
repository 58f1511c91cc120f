//! `carillon run`: scenarios and command files.

use std::fs;
use std::io::{BufWriter, Write as _};
use std::path::{Component, Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context as _, bail};
use carillon_lab::command_file::CommandFile;
use carillon_lab::inputs;
use carillon_lab::log::TextLog;
use carillon_lab::plan::Plan;
use carillon_lab::results::{self, Contents, Writer};
use carillon_lab::run::{RunError, RunResult, run_each, run_on, run_one};
use carillon_lab::scenario::ScenarioFile;
use carillon_lab::statistics_file::write_pass;
use carillon_lab::trace::TraceFile;
use carillon_lab::trace::recording::{Description, RecordedMetric};

use super::jobs::{Jobs, Out, RunProgress, warn_of_latencies};
use crate::delivery::Stop;

/// Run a scenario (.toml), or a command file of the 1996 simulator (recognised by its content).
#[derive(Debug, clap::Args)]
#[command(
    before_help = "Example: carillon run scenario.toml --out results",
    after_help = "\
Examples:
  carillon run msaw.toml --out results
  carillon run msaw.toml --set group.receivers=20 --set loss.p=0.01 --trace run.pcapng
  carillon run msaw.toml --backend testbed        as root: real UDP between network namespaces
  carillon run bapwin.cmd                 writes the statistics file it names

Without --out, prints the summary table as CSV. With it DIR gets summary.csv, summary.parquet, runs.csv (the mean of each
run), samples.parquet and manifest.json, as runs end: what an interrupted sweep has done is kept for --resume."
)]
pub struct Args {
    /// Scenario or command file.
    file: PathBuf,
    #[command(flatten)]
    out: Out,
    /// Set a key of the scenario, such as group.receivers=20.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    settings: Vec<String>,
    /// Use this seed instead of the seed of the scenario.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    #[command(flatten)]
    jobs: Jobs,
    /// Run in the simulator, or in real time over UDP between network namespaces (needs root).
    #[arg(long, value_enum, default_value = "sim")]
    backend: Backend,
    /// Network of a testbed: a model of the shared Ethernet, or a bridge.
    #[arg(long, value_enum, default_value = "shared")]
    medium: Medium,
    /// Write the events (.jsonl), the packets (.pcapng), a recording for `carillon view` (.carr) or a trace for nam
    /// (.nam). The scenario must have one run.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
}

/// Network that connects the nodes of a testbed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Medium {
    /// Model of the shared Ethernet, run in real time.
    Shared,
    /// Bridge of the system: a switch as fast as the machine.
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

/// Environment of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Backend {
    /// Simulator.
    Sim,
    /// Network namespaces of this machine.
    Testbed,
}

/// `carillon run`
pub fn run(args: &Args) -> anyhow::Result<()> {
    let origin = args.file.display().to_string();
    let (file, command) = read(args, &origin)?;
    let folder = args.out.folder()?;
    results::check(folder.path(), args.out.existing())?;
    if let Some(command) = &command {
        in_dir(args.out.given(), &command.statistics)?;
    }
    let contents =
        Contents { samples: args.out.given().is_some(), messages: command.is_some(), metrics: &[] };
    let plan = Plan::new(&file)?;
    if args.out.resumes() && results::is_complete(folder.path(), &file) {
        eprintln!("{} is complete: nothing is left to run", folder.path().display());
        return Ok(());
    }
    let mut writer = Writer::open(&file, &plan, folder.path(), contents, args.out.existing())?;
    let pending = writer.pending();
    let progress = RunProgress::new(file.name());
    let log = command.as_ref().and_then(|command| command.log.as_deref());
    let mut take = |run: usize, result: RunResult| -> anyhow::Result<usize> {
        let first_needed = writer.take(run, result)?;
        progress.run_done(pending.len());
        Ok(first_needed)
    };
    let ended = match (&args.trace, log, args.backend) {
        (Some(path), ..) => traced(&file, &plan, path, args).and_then(|result| take(0, result).map(drop)),
        (None, Some(_), Backend::Testbed) => {
            bail!("{origin}: a log of the whole pass is written by the simulator only")
        }
        (None, Some(path), Backend::Sim) => logged(&plan, &in_dir(args.out.given(), path)?, &mut take),
        (None, None, Backend::Testbed) => {
            let stop = Stop::on_signals()?;
            let medium = args.medium.into();
            let mut first_needed = 0;
            pending.iter().try_for_each(|&run| {
                if run >= first_needed {
                    let observer = &mut carillon_core::NoObserver;
                    let result =
                        carillon_testbed::run_one(&plan.runs[run], medium, &|| stop.asked(), observer)?;
                    first_needed = take(run, result)?;
                }
                Ok(())
            })
        }
        (None, None, Backend::Sim) => {
            let stop = Stop::on_signals()?;
            let mut take = |run, result: RunResult| Ok::<usize, RunFailed>(take(run, result)?);
            run_each(&plan, &pending, args.jobs.number().into(), &|| stop.asked(), &mut take)
                .map_err(|RunFailed(error)| error)
        }
    };
    progress.finish();
    let left = writer.pending().len();
    if ended.is_err() || left > 0 {
        let done = writer.interrupt()?;
        if args.out.given().is_some() && done > 0 {
            eprintln!(
                "{done} of {} runs are done and kept in {}: --resume goes on with the rest",
                plan.runs.len(),
                folder.path().display()
            );
        }
        ended?;
        bail!("interrupted");
    }
    if let Some(command) = &command {
        let path = in_dir(args.out.given(), &command.statistics)?;
        write_statistics(&path, &plan, &file, &mut writer)
            .with_context(|| format!("cannot write {}", path.display()))?;
        eprintln!("{} passes written to {}", plan.points.len(), path.display());
    }
    warn_of_latencies(&writer.finish()?);
    if command.is_none() && args.out.given().is_none() {
        let mut summary = fs::File::open(folder.path().join("summary.csv"))?;
        std::io::copy(&mut summary, &mut std::io::stdout().lock())?;
    }
    Ok(())
}

/// Reads the scenario, or the command file that describes one.
fn read(args: &Args, origin: &str) -> anyhow::Result<(ScenarioFile, Option<CommandFile>)> {
    let text = fs::read(&args.file).with_context(|| format!("cannot read {origin}"))?;
    let Ok(text) = String::from_utf8(text) else { bail!("{origin}: is not text in UTF-8") };
    let mut settings = Vec::new();
    for setting in &args.settings {
        let Some((key, value)) = setting.split_once('=') else {
            bail!("--set {setting}: write KEY=VALUE, such as group.receivers=20");
        };
        settings.push((key.trim(), value.trim()));
    }
    let is_scenario = args.file.extension().is_some_and(|extension| extension == "toml");
    // All settings are applied together: one of them may be valid only with another.
    let (file, command) = if is_scenario {
        (ScenarioFile::parse_set(origin, &text, &settings, inputs::beside(origin))?, None)
    } else {
        if !CommandFile::recognises(&text) {
            let what = if ScenarioFile::recognises(&text) {
                "looks like a scenario: give it a name that ends in .toml"
            } else {
                "is neither a scenario, which is TOML in a file that ends in .toml, nor a command file of the 1996 simulator, \
                 which has lines such as PROTO = SAW"
            };
            bail!("{origin}: {what}");
        }
        let command = CommandFile::parse(origin, &text)?;
        (command.scenario.with_all(&settings)?, Some(command))
    };
    // The scenario's own seed, given again, is no other scenario, so --resume accepts it.
    let file = match args.seed.filter(|seed| *seed != file.seed()) {
        Some(seed) => file.with("run.seed", &seed.to_string())?,
        None => file,
    };
    Ok((file, command))
}

/// Error that ends a sweep.
struct RunFailed(anyhow::Error);

impl From<RunError> for RunFailed {
    fn from(error: RunError) -> Self {
        RunFailed(error.into())
    }
}

impl From<anyhow::Error> for RunFailed {
    fn from(error: anyhow::Error) -> Self {
        RunFailed(error)
    }
}

/// Runs the only run of a plan and writes its trace.
fn traced(file: &ScenarioFile, plan: &Plan, path: &Path, args: &Args) -> anyhow::Result<RunResult> {
    let (backend, medium) = (args.backend, args.medium);
    let [run] = plan.runs.as_slice() else {
        bail!("--trace writes one run, and this scenario has {}: choose one with --set", plan.runs.len());
    };
    let is_nam = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("nam"));
    if is_nam && backend == Backend::Testbed {
        bail!(
            "{}: a trace for nam needs the times of frames on links, which only the simulator knows",
            path.display()
        );
    }
    let mut trace = TraceFile::of_run(path, &run.scenario)?;
    let result = match backend {
        Backend::Sim => {
            let result = run_on(run, &mut trace, &|| false, args.jobs.number())?;
            result.expect("nothing stops the run")
        }
        Backend::Testbed => {
            let stop = Stop::on_signals()?;
            carillon_testbed::run_one(run, medium.into(), &|| stop.asked(), &mut trace)?
        }
    };
    if trace.is_truncated() {
        eprintln!("{}: the run has more events than a recording holds; the rest is left out", path.display());
    }
    let (scenario, files) = (file.to_toml(), file.text_inputs());
    let metrics = RecordedMetric::means(&result.samples);
    trace.finish_as(&Description { seed: Some(file.seed()), scenario: Some(&scenario), files, metrics })?;
    Ok(result)
}

/// Consumer of the results of a run.
type Take<'a> = dyn FnMut(usize, RunResult) -> anyhow::Result<usize> + 'a;

/// Runs all runs one after another and writes their events to the log file.
fn logged(plan: &Plan, path: &Path, take: &mut Take<'_>) -> anyhow::Result<()> {
    let problem = || format!("cannot write {}", path.display());
    let mut log = TextLog::new(BufWriter::new(fs::File::create(path).with_context(problem)?));
    for (at, run) in plan.runs.iter().enumerate() {
        log.begin_pass(run.point, run.replication, &plan.points[run.point].to_string());
        take(at, run_one(run, &mut log)?)?;
    }
    log.finish().with_context(problem)
}

fn write_statistics(
    path: &Path,
    plan: &Plan,
    file: &ScenarioFile,
    results: &mut Writer<'_>,
) -> anyhow::Result<()> {
    let mut out = BufWriter::new(fs::File::create(path)?);
    let date = date();
    let mut first = 0;
    for pass in plan.runs.chunk_by(|a, b| a.point == b.point) {
        let runs = first..first + pass.len();
        first = runs.end;
        let messages: Vec<_> = runs.map(|run| results.messages(run)).collect::<Result<_, _>>()?;
        write_pass(&mut out, &pass[0].scenario, file.replications(), &date, messages.iter().flatten())?;
    }
    Ok(out.flush()?)
}

/// Path of a file that a command file names: below --out, or in the current directory. Only the command line may lead
/// elsewhere.
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

/// Date as the 1996 simulator wrote it (`ctime`, in UTC); SOURCE_DATE_EPOCH makes it repeatable.
fn date() -> String {
    let given = std::env::var("SOURCE_DATE_EPOCH").ok().and_then(|seconds| seconds.parse().ok());
    let seconds = given.unwrap_or_else(|| {
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64)
    });
    carillon_lab::statistics_file::ctime(seconds)
}
