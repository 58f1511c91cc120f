//! `carillon plot`: figures of result folders.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use carillon_lab::plot::{Figure, Folder, Intervals, PlotSpec, figures, panels_pdf, panels_png, panels_svg};

/// Draw result folders: a metric over a swept key, as SVG and PNG.
#[derive(Debug, clap::Args)]
#[command(
    before_help = "Example: carillon plot results --y delivery_latency_s",
    after_help = "\
Examples:
  carillon run experiments/plans/segovia-4.3.toml --out results
  carillon plot results --y relative_throughput
  carillon plot results --y message_latency_s --x group.receivers --where 'protocol.ack_wait=22000 bit'
  carillon plot lms srm pgm --y recovery_latency_s --series protocol.name --intervals quartiles
  carillon plot results --y throughput_bps --facets group.receivers --out figure.svg

A column is a swept key, any key of the scenario, or `folder`. Numbers along the horizontal axis are joined by
lines, names are not. Published means are drawn as outlines where the folder repeats a table of a source. An
empty or misspelt --y lists the metrics."
)]
pub struct Args {
    /// Folders, as written by run --out or reproduce --out.
    #[arg(required = true, value_name = "DIR")]
    dirs: Vec<PathBuf>,
    /// Metric to draw; without a name, the available ones are listed.
    #[arg(long, value_name = "METRIC", default_value = "")]
    y: String,
    /// Key along the horizontal axis [default: the one with most values].
    #[arg(long, value_name = "KEY")]
    x: Option<String>,
    /// Keys that distinguish the series [default: all keys that differ].
    #[arg(long, value_name = "KEY,…", value_delimiter = ',')]
    series: Option<Vec<String>>,
    /// Draw a panel for each value of this key, all with the same axes.
    #[arg(long, value_name = "KEY")]
    facets: Option<String>,
    /// Draw only the points where KEY has this value.
    #[arg(long = "where", value_name = "KEY=VALUE")]
    only: Vec<String>,
    /// Meaning of the bars: the 95 % confidence interval of the mean over the runs (none with one run), the quartiles
    /// around the median, the range of all samples, or no bars.
    #[arg(long, value_enum, default_value = "ci95")]
    intervals: Bars,
    /// Use the mean of each run as one sample for quartiles and ranges too, since samples of one run depend on each
    /// other. Confidence intervals always do.
    #[arg(long)]
    runs: bool,
    /// Use a logarithmic horizontal axis.
    #[arg(long)]
    log_x: bool,
    /// Use a logarithmic vertical axis.
    #[arg(long)]
    log_y: bool,
    /// Heading of the figure.
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// File to write: FILE.svg, FILE.png, FILE.pdf, or another name for SVG and PNG [default: METRIC-over-KEY].
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print the description of the figure (docs/reference/experiments.md), one line for each panel, and write nothing.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Bars {
    Ci95,
    Quartiles,
    Range,
    None,
}

/// `carillon plot`
pub fn run(args: &Args) -> anyhow::Result<()> {
    let read = if args.runs { Folder::read_runs } else { Folder::read };
    let folders = args.dirs.iter().map(|dir| read(dir)).collect::<Result<Vec<_>, _>>()?;
    let only = args.only.iter().map(|setting| match setting.split_once('=') {
        Some((key, value)) => Ok((key.trim().to_owned(), value.trim().to_owned())),
        None => bail!("--where {setting}: write KEY=VALUE, such as group.receivers=20"),
    });
    let panels = figures(
        &folders,
        &PlotSpec {
            x: args.x.clone(),
            y: args.y.clone(),
            series: args.series.clone(),
            facets: args.facets.clone(),
            only: only.collect::<anyhow::Result<_>>()?,
            intervals: match args.intervals {
                Bars::Ci95 => Intervals::Ci95,
                Bars::Quartiles => Intervals::Quartiles,
                Bars::Range => Intervals::Range,
                Bars::None => Intervals::None,
            },
            log: (args.log_x, args.log_y),
            title: args.title.clone(),
        },
    )?;
    let mut stdout = std::io::stdout().lock();
    if args.json {
        for panel in &panels {
            writeln!(stdout, "{}", serde_json::to_string(panel)?)?;
        }
        return Ok(());
    }
    let (stem, wanted) = target(args.out.as_deref(), &panels);
    for extension in wanted {
        let path = PathBuf::from(format!("{}.{extension}", stem.display()));
        let bytes = match *extension {
            "svg" => panels_svg(&panels).into_bytes(),
            "pdf" => panels_pdf(&panels)?,
            _ => panels_png(&panels, PIXELS)?,
        };
        std::fs::write(&path, bytes).with_context(|| format!("cannot write {}", path.display()))?;
        writeln!(stdout, "{}", path.display())?;
    }
    Ok(())
}

/// Name of the files without ending, and the endings to write.
fn target(out: Option<&Path>, panels: &[Figure]) -> (PathBuf, &'static [&'static str]) {
    let Some(out) = out else {
        let first = panels.first().map_or("figure", |panel| panel.id.as_str());
        let over = first.find("-over-").map_or(0, |at| at + 6);
        // Panels append their value to the name.
        let short = match panels.len() {
            1 => first.to_owned(),
            _ => first[..over].to_owned() + "panels",
        };
        return (PathBuf::from(short), &["svg", "png"]);
    };
    match out.extension().and_then(|extension| extension.to_str()) {
        Some("svg") => (out.with_extension(""), &["svg"]),
        Some("png") => (out.with_extension(""), &["png"]),
        Some("pdf") => (out.with_extension(""), &["pdf"]),
        _ => (out.to_owned(), &["svg", "png"]),
    }
}

/// Pixels of a PNG for each unit of the SVG: 300 per inch at a width of 4.8 inches.
pub const PIXELS: f32 = 2.0;
