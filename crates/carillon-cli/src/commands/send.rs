//! `carillon send`: files to many receivers.

/// Send files to every receiver of a group.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// `carillon send`
pub fn run(_args: Args) -> anyhow::Result<()> {
    anyhow::bail!("not built yet")
}
