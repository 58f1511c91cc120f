//! `carillon view`: the page that animates a run.

use std::borrow::Cow;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};
use carillon_lab::inputs;
use carillon_lab::scenario::{InputContents, ScenarioFile};
use carillon_lab::trace::recording::DEFAULT_EVENT_LIMIT;
use carillon_lab::view::{View, write_page};

use crate::commands::protocols::named;
use crate::delivery::Stop;

/// Watch a run in the browser: packets on their links, losses and repairs, and charts.
#[derive(Debug, clap::Args)]
#[command(
    before_help = "Example: carillon view scenario.toml",
    after_help = "\
Examples:
  carillon view pgm.toml                              runs the scenario; the page can run it again
  carillon view pgm.toml --set group.receivers=20 --seed 7
  carillon view run.carr --export run.html            writes one file to share
  carillon view received.jsonl                        trace of send --trace or recv --trace
  carillon view session.pcapng --protocol pgm         packets only
  carillon view results                               the scenario of a results folder

A recording (.carr, by carillon run --trace) is exact. A JSON trace has no rates and delays, so that the page derives the
arrivals of frames; a capture has neither losses nor deliveries."
)]
pub struct Args {
    /// Scenario (.toml), trace (.carr, .jsonl, .pcapng), or results folder.
    file: PathBuf,
    /// Write the page to FILE, and do not open it.
    #[arg(long, value_name = "FILE.html")]
    export: Option<PathBuf>,
    /// Replace FILE.
    #[arg(long, requires = "export")]
    overwrite: bool,
    /// Set a key of the scenario, such as group.receivers=20.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    settings: Vec<String>,
    /// Use this seed instead of the seed of the scenario.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Protocol of the packets in a trace [default: recognized by the packets].
    #[arg(long, value_name = "NAME")]
    protocol: Option<String>,
    /// Maximum number of events on the page.
    #[arg(long, value_name = "N", default_value_t = DEFAULT_EVENT_LIMIT)]
    max_events: usize,
}

/// `carillon view`
pub fn run(args: &Args) -> anyhow::Result<()> {
    let page = page()?;
    if let Some(path) = args.export.as_deref().filter(|path| path.exists() && !args.overwrite) {
        bail!("{} exists: choose another name, or give --overwrite", path.display());
    }
    let view = view(args)?;
    if view.truncated {
        eprintln!("the page shows the first {} events: --max-events N for more", args.max_events);
    }
    let path = match &args.export {
        Some(path) => {
            let problem = || format!("cannot write {}", path.display());
            write_file(&page, &view, File::create(path).with_context(problem)?).with_context(problem)?;
            path.clone()
        }
        None => {
            let file = tempfile::Builder::new().prefix("carillon-view-").suffix(".html").tempfile();
            let (file, path) = file.context("cannot make a temporary file for the page")?.keep()?;
            write_file(&page, &view, file).with_context(|| format!("cannot write {}", path.display()))?;
            path
        }
    };
    println!("{}", path.display());
    if args.export.is_none() && !open(&path) {
        eprintln!("no browser could be started: open this file in one");
    }
    Ok(())
}

fn write_file(page: &str, view: &View, file: File) -> std::io::Result<()> {
    let mut out = BufWriter::new(file);
    write_page(page, view, &mut out)?;
    out.flush()
}

/// Contents of the page: the scenario's run, or the trace.
fn view(args: &Args) -> anyhow::Result<View> {
    let is_scenario = args.file.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("toml"));
    if !is_scenario && !args.file.is_dir() {
        if !args.settings.is_empty() || args.seed.is_some() {
            bail!("{}: --set and --seed need a scenario, and this is a trace", args.file.display());
        }
        let protocol = args.protocol.as_deref().map(named).transpose()?;
        return Ok(View::of_trace(&args.file, protocol, args.max_events)?);
    }
    if args.protocol.is_some() {
        bail!("--protocol names the packets of a trace; of a scenario give --set protocol.name=NAME");
    }
    let mut settings = Vec::new();
    for setting in &args.settings {
        let Some((key, value)) = setting.split_once('=') else {
            bail!("--set {setting}: write KEY=VALUE, such as group.receivers=20");
        };
        settings.push((key.trim(), value.trim()));
    }
    let file = match args.file.is_dir() {
        true => of_results(&args.file)?.with_all(&settings)?,
        false => {
            let origin = args.file.display().to_string();
            let text = std::fs::read(&args.file).with_context(|| format!("cannot read {origin}"))?;
            let Ok(text) = String::from_utf8(text) else { bail!("{origin}: is not text in UTF-8") };
            ScenarioFile::parse_set(&origin, &text, &settings, inputs::beside(&origin))?
        }
    };
    let file = match args.seed.filter(|seed| *seed != file.seed()) {
        Some(seed) => file.with("run.seed", &seed.to_string())?,
        None => file,
    };
    let stop = Stop::on_signals()?;
    Ok(View::of_scenario(&file, args.max_events, &|| stop.asked())?)
}

/// The scenario of a results folder, from its manifest.
fn of_results(dir: &Path) -> anyhow::Result<ScenarioFile> {
    #[derive(serde::Deserialize)]
    struct Manifest {
        scenario: serde_json::Value,
    }
    let path = dir.join("manifest.json");
    let origin = path.display().to_string();
    let what = || format!("{} has no results of carillon run: cannot read {origin}", dir.display());
    let manifest = std::fs::read(&path).with_context(what)?;
    let Manifest { scenario } = serde_json::from_slice(&manifest).with_context(what)?;
    let table = serde_json::from_value(scenario).with_context(what)?;
    let files = inputs::in_folder(PathBuf::new(), InputContents::new());
    Ok(ScenarioFile::from_table_with(&origin, table, files, carillon_proto::REGISTRY)?)
}

/// The page without a recording: the file that `CARILLON_VIEW_PAGE` names, the installed one, or the page of this
/// build.
fn page() -> anyhow::Result<Cow<'static, str>> {
    let named = std::env::var_os(PAGE_VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from);
    let installed = || {
        let program = std::env::current_exe().ok()?;
        Some(program.parent()?.parent()?.join(INSTALLED_PAGE)).filter(|path| path.is_file())
    };
    let Some(path) = named.or_else(installed) else { return Ok(BUILT_PAGE.into()) };
    let read = std::fs::read_to_string(&path);
    Ok(read.with_context(|| format!("cannot read the page {}", path.display()))?.into())
}

/// Opens a file in the browser; returns false if no program for that could be started.
fn open(path: &Path) -> bool {
    let is_without_screen = cfg!(target_os = "linux")
        && ["DISPLAY", "WAYLAND_DISPLAY"].iter().all(|name| std::env::var_os(name).is_none());
    if is_without_screen {
        return false;
    }
    let (program, arguments): (&str, &[&str]) = match std::env::consts::OS {
        "macos" => ("open", &[]),
        "windows" => ("cmd", &["/C", "start", ""]),
        _ => ("xdg-open", &[]),
    };
    let mut command = Command::new(program);
    command.args(arguments).arg(path).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().is_ok()
}

// `BUILT_PAGE`: the page that was built before this program, or the stored one.
include!(concat!(env!("OUT_DIR"), "/page.rs"));

/// Environment variable with the file of the page.
const PAGE_VARIABLE: &str = "CARILLON_VIEW_PAGE";
/// Page below the prefix of an installation.
const INSTALLED_PAGE: &str = "share/carillon/view.html";
