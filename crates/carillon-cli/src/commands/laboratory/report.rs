//! `carillon report`: one page from a result folder.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Context as _;
use carillon_lab::report::FolderReport;

/// Write one self-contained HTML page from a result folder.
#[derive(Debug, clap::Args)]
#[command(
    before_help = "Example: carillon report results",
    after_help = "\
Examples:
  carillon run experiments/plans/segovia-4.1.toml --out results
  carillon report results
  carillon report results --out table-4.1.html

The page says what was run, with version, seed and hash of the scenario. It has the published numbers if the scenario
repeats a table of a source, a table with confidence intervals over the runs and a plot for each metric, and the
scenario with the commands that repeat it. It needs no network and no other file. Nothing is run."
)]
pub struct Args {
    /// Folder, as written by run --out, or of one experiment by reproduce --out.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// File to write; - for standard output [default: DIR/report.html].
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// `carillon report`
pub fn run(args: &Args) -> anyhow::Result<()> {
    let html = FolderReport::read(&args.dir)?.html();
    let path = args.out.clone().unwrap_or_else(|| args.dir.join("report.html"));
    let mut stdout = std::io::stdout().lock();
    if path.as_os_str() == "-" {
        stdout.write_all(html.as_bytes())?;
        return Ok(());
    }
    std::fs::write(&path, html).with_context(|| format!("cannot write {}", path.display()))?;
    writeln!(stdout, "{}", path.display())?;
    Ok(())
}
