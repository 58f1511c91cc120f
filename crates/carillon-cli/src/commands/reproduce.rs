//! `carillon reproduce`: tables of the sources beside their published numbers.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Context as _;
use carillon_lab::reproduce::{EXPERIMENTS, Experiment, Options, find, reproduce};

use super::jobs::{Jobs, RunProgress};
use crate::exit::JobFailed;

/// Repeat a published table and print it beside the published numbers.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  carillon reproduce --list
  carillon reproduce segovia-4.1
  carillon reproduce --out results        all of them, with result folders

Exits with 1 if a number lies outside its bounds.")]
pub struct Args {
    /// The experiments; all if none is named.
    #[arg(value_name = "ID")]
    ids: Vec<String>,
    /// List the experiments and stop.
    #[arg(long)]
    list: bool,
    /// Write a result folder for each experiment, and the comparison, below DIR.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Use this seed instead of the experiment's own.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    #[command(flatten)]
    jobs: Jobs,
    /// Print JSON, one object a line for each experiment.
    #[arg(long)]
    json: bool,
}

/// `carillon reproduce`
pub fn run(args: &Args) -> anyhow::Result<()> {
    let mut stdout = std::io::stdout().lock();
    if args.list {
        for experiment in EXPERIMENTS {
            writeln!(stdout, "{:14} {}", experiment.id, experiment.title)?;
        }
        return Ok(());
    }
    let chosen: Vec<&Experiment> = if args.ids.is_empty() {
        EXPERIMENTS.iter().collect()
    } else {
        args.ids.iter().map(|id| known(id)).collect::<anyhow::Result<_>>()?
    };
    let mut holds = true;
    for experiment in chosen {
        let progress = RunProgress::new(experiment.id);
        let comparison = reproduce(
            experiment,
            &Options {
                jobs: args.jobs.number(),
                seed: args.seed,
                out: args.out.as_deref(),
                progress: &|runs| progress.run_done(runs),
            },
        )?;
        progress.finish();
        let text = if args.json { serde_json::to_string(&comparison)? } else { comparison.to_string() };
        writeln!(stdout, "{text}")?;
        if let Some(dir) = &args.out {
            let dir = dir.join(experiment.id);
            let write = |name: &str, text: String| {
                let path = dir.join(name);
                std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
            };
            write("comparison.txt", comparison.to_string())?;
            write("comparison.json", serde_json::to_string_pretty(&comparison)? + "\n")?;
        }
        holds &= comparison.holds();
    }
    if holds { Ok(()) } else { Err(JobFailed.into()) }
}

fn known(id: &str) -> anyhow::Result<&'static Experiment> {
    find(id).with_context(|| {
        let ids: Vec<_> = EXPERIMENTS.iter().map(|experiment| experiment.id).collect();
        format!("no experiment \"{id}\"; there are {}", ids.join(", "))
    })
}
