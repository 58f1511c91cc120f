//! `carillon recv`: receive files.

/// Receive files.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// `carillon recv`
pub fn run(_args: Args) -> anyhow::Result<()> {
    anyhow::bail!("not built yet")
}
