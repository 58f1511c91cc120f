//! `carillon compare`: two result folders, cell by cell.

use std::io::Write as _;
use std::path::PathBuf;

use carillon_lab::compare::SummaryComparison;

/// Compare two result folders cell by cell, with 95 % confidence intervals over the runs.
#[derive(Debug, clap::Args)]
#[command(
    before_help = "Example: carillon compare results other-results",
    after_help = "\
Example: the same losses, another recovery scheme
  carillon run routed.toml --out lms
  carillon run routed.toml --set protocol.name=srm --out srm
  carillon compare lms srm"
)]
pub struct Args {
    /// First folder, as written by run --out.
    a: PathBuf,
    /// Second folder.
    b: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// `carillon compare`
pub fn run(args: &Args) -> anyhow::Result<()> {
    let comparison = SummaryComparison::of(&args.a, &args.b)?;
    let mut out = std::io::stdout().lock();
    match args.json {
        true => writeln!(out, "{}", serde_json::to_string_pretty(&comparison)?)?,
        false => write!(out, "{comparison}")?,
    }
    for remark in comparison.remarks() {
        eprintln!("carillon: {remark}");
    }
    Ok(())
}
