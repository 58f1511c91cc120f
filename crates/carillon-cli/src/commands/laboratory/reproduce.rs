//! `carillon reproduce`: tables and figures of the sources beside their published numbers, and studies of
//! the questions they left open.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use carillon_lab::plan::Run;
use carillon_lab::plot::{Figure, pdf, png, svg};
use carillon_lab::report::Page;
use carillon_lab::reproduce::{
    EXPERIMENTS, Experiment, Laboratory, Options, Outcome, check_table, matching, read,
};
use carillon_lab::results;

use super::jobs::{Jobs, Out, RunProgress};
use super::plot::PIXELS;
use crate::delivery::Stop;
use crate::exit::JobFailed;

/// Repeat published tables and figures and print them beside the published numbers.
#[derive(Debug, clap::Args)]
#[command(
    before_help = "Example: carillon reproduce segovia-4.1",
    after_help = "\
Examples:
  carillon reproduce --list
  carillon reproduce segovia-4.1
  carillon reproduce segovia-fig-4.3 --out results
  carillon reproduce segovia --out results    every table and figure of a source, and one page of all
  carillon reproduce open --out results       the questions that the source left open
  carillon reproduce mine.toml --out results  experiments of your own, written as docs/reference/experiments.md says
  carillon reproduce --all --report           everything, and one page that says how much of each source holds
  carillon reproduce johnstone-4.5 --testbed  as root: what stands there of a testbed is measured anew, in real time

Exits with 1 if a number or a claim lies outside its bounds and is not known to: known deviations are shown
with their reason. It also exits with 1 if all experiments of a source were repeated and a count of what holds
differs from the stored one (experiments/published/counts.csv). With --out there is below DIR a folder for each experiment (results and comparison, tables as CSV,
figures as SVG, PNG and JSON), and index.html, a page of all: the same page as that of --report."
)]
pub struct Args {
    /// Experiments, or a source for all of its experiments, or your own files (.toml) [default: all shipped
    /// experiments].
    #[arg(value_name = "ID")]
    ids: Vec<String>,
    /// Repeat all shipped experiments; the default without an ID.
    #[arg(long, conflicts_with = "ids")]
    all: bool,
    /// Write one self-contained HTML page of all results, with the numbers and claims of each source that hold
    /// [default FILE: index.html below --out, or report.html].
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    report: Option<Option<PathBuf>>,
    /// List the experiments and stop.
    #[arg(long)]
    list: bool,
    #[command(flatten)]
    out: Out,
    /// Use this seed instead of the seed of the experiment.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    #[command(flatten)]
    jobs: Jobs,
    /// Measure testbed results again, in network namespaces of this machine and in real time (needs root). Without
    /// it, the recorded measurements are shown.
    #[arg(long)]
    testbed: bool,
    /// Print one JSON object for each experiment.
    #[arg(long)]
    json: bool,
}

/// `carillon reproduce`
pub fn run(args: &Args) -> anyhow::Result<()> {
    let mut stdout = std::io::stdout().lock();
    if args.list {
        for experiment in chosen(args)? {
            writeln!(stdout, "{:20} {}", experiment.id, experiment.title)?;
        }
        return Ok(());
    }
    let chosen = chosen(args)?;
    if args.testbed {
        carillon_testbed::permitted()?;
    }
    let folder = args.out.folder()?;
    results::check(folder.path(), args.out.existing())?;
    let stop = Stop::on_signals()?;
    let asked = || stop.asked();
    let progress = RunProgress::new("reproduce");
    let run_done = |runs| progress.run_done(runs);
    let measure = |run: &Run| {
        let medium = carillon_testbed::Medium::Shared;
        carillon_testbed::run_one(run, medium, &asked, &mut carillon_core::NoObserver)
            .map_err(|error| error.to_string())
    };
    let mut laboratory = Laboratory::new(Options {
        jobs: args.jobs.number(),
        seed: args.seed,
        messages: None,
        testbed: if args.testbed { Some(&measure) } else { None },
        out: folder.path(),
        samples: args.out.given().is_some(),
        existing: args.out.existing(),
        stop: &asked,
        progress: &run_done,
    });
    let mut page = Page::new("Tables and figures beside their published numbers, and open questions");
    let mut holds = true;
    laboratory.reproduce_each::<anyhow::Error>(&chosen, &mut |experiment, outcome| {
        writeln!(stdout, "{}", shown(&outcome, args)?)?;
        if let Some(dir) = args.out.given() {
            write_outcome(&dir.join(experiment.id), &outcome)?;
        }
        page.add(experiment, &outcome);
        holds &= outcome.holds();
        Ok(())
    })?;
    progress.finish();
    let index = args.out.given().map(|dir| dir.join("index.html"));
    let report = args.report.as_ref().map(|file| match (file, &index) {
        (Some(file), _) | (None, Some(file)) => file.as_path(),
        (None, None) => Path::new("report.html"),
    });
    for path in index.as_deref().into_iter().chain(report.filter(|path| index.as_deref() != Some(*path))) {
        write(path, page.html())?;
    }
    if let Some(report) = report.filter(|_| !args.json) {
        writeln!(stdout, "{}{}", page.sources(), report.display())?;
    }
    if let Some(dir) = args.out.given() {
        write(&dir.join("counts.csv"), page.sources().counts_csv()?)?;
    }
    // The counts are those of the shipped seeds and of recorded measurements.
    let changes = if args.seed.is_some() || args.testbed { Vec::new() } else { page.sources().changes() };
    for change in &changes {
        eprintln!("{change}");
    }
    if holds && changes.is_empty() { Ok(()) } else { Err(JobFailed.into()) }
}

/// Text of an outcome on standard output.
fn shown(outcome: &Outcome, args: &Args) -> anyhow::Result<String> {
    Ok(match (outcome, args.json) {
        (Outcome::Table(comparison), false) => comparison.to_string(),
        (Outcome::Table(comparison), true) => serde_json::to_string(comparison)?,
        (Outcome::Study(study), false) => study.to_string(),
        (Outcome::Study(study), true) => serde_json::to_string(study)?,
        (Outcome::Figure(figure), true) => serde_json::to_string(figure)?,
        (Outcome::Figure(figure), false) => described(figure, args.out.given()),
    })
}

/// Experiments named on the command line, or all shipped ones.
fn chosen(args: &Args) -> anyhow::Result<Vec<&'static Experiment>> {
    match args.ids.is_empty() {
        true => Ok(EXPERIMENTS.iter().collect()),
        false => Ok(args.ids.iter().map(|id| known(id)).collect::<anyhow::Result<Vec<_>>>()?.concat()),
    }
}

fn write_outcome(dir: &Path, outcome: &Outcome) -> anyhow::Result<()> {
    std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    match outcome {
        Outcome::Table(comparison) => {
            write(&dir.join("comparison.txt"), comparison.to_string())?;
            write(&dir.join("comparison.json"), serde_json::to_string_pretty(comparison)? + "\n")
        }
        Outcome::Figure(figure) => write_figure(dir, figure),
        Outcome::Study(study) => {
            write(&dir.join("study.txt"), study.to_string())?;
            write(&dir.join("study.json"), serde_json::to_string_pretty(study)? + "\n")?;
            for sheet in &study.sheets {
                sheet.table()?.write_csv(&dir.join(format!("{}.csv", sheet.name)))?;
            }
            if !study.checks.is_empty() {
                check_table(&study.checks)?.write_csv(&dir.join("checks.csv"))?;
            }
            study.figures.iter().try_for_each(|figure| write_figure(dir, figure))
        }
    }
}

fn write_figure(dir: &Path, figure: &Figure) -> anyhow::Result<()> {
    let file = |extension: &str| dir.join(format!("{}.{extension}", figure.id));
    write(&file("svg"), svg(figure))?;
    write(&file("png"), png(figure, PIXELS)?)?;
    write(&file("pdf"), pdf(figure)?)?;
    write(&file("json"), serde_json::to_string_pretty(figure)? + "\n")
}

fn described(figure: &Figure, out: Option<&Path>) -> String {
    let series: Vec<&str> = figure.series.iter().map(|series| series.name.as_str()).collect();
    let place = match out {
        Some(dir) => format!("drawn in {}", dir.join(&figure.id).display()),
        None => "give --out DIR to draw it".into(),
    };
    format!("{}: {}\nseries: {}; {place}\n", figure.id, figure.title, series.join("; "))
}

fn write(path: &Path, bytes: impl AsRef<[u8]>) -> anyhow::Result<()> {
    std::fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}

fn known(id: &str) -> anyhow::Result<Vec<&'static Experiment>> {
    if Path::new(id).extension().is_some_and(|extension| extension == "toml") {
        return Ok(read(Path::new(id))?.iter().collect());
    }
    let experiments = matching(id);
    if experiments.is_empty() {
        let ids: Vec<_> = EXPERIMENTS.iter().map(|experiment| experiment.id).collect();
        anyhow::bail!("no experiment \"{id}\"; there are {}", ids.join(", "));
    }
    Ok(experiments)
}
