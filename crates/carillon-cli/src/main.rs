//! The `carillon` command: glue between the command line and the crates that do the work.

mod commands;
mod delivery;
mod exit;

use std::process::ExitCode;

use clap::Parser;

use commands::Cli;

fn main() -> ExitCode {
    exit::code(Cli::parse().run())
}
