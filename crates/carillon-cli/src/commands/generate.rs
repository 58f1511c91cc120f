//! Shell completions and the manual page, made from the same definitions as `--help`.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::Command;

/// Print a completion script for a shell.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  carillon completions bash > ~/.local/share/bash-completion/completions/carillon"
)]
pub struct CompletionsArgs {
    /// Shell.
    shell: clap_complete::Shell,
}

/// Print the manual page, or write one page for each command into a folder.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  carillon man | man -l -")]
pub struct ManArgs {
    /// Write carillon.1, carillon-send.1, … into this folder.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// `carillon completions`, for the command line that `command` defines.
pub fn completions(args: &CompletionsArgs, mut command: Command) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "carillon", &mut script);
    Ok(std::io::stdout().write_all(&script)?)
}

/// `carillon man`, for the command line that `command` defines.
pub fn man(args: &ManArgs, command: Command) -> anyhow::Result<()> {
    match &args.out {
        None => Ok(clap_mangen::Man::new(command).render(&mut std::io::stdout())?),
        Some(dir) => {
            std::fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
            clap_mangen::generate_to(command, dir)
                .with_context(|| format!("cannot write to {}", dir.display()))
        }
    }
}
