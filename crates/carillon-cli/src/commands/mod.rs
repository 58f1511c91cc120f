//! The commands, one file each.

mod daemon;
mod doctor;
mod generate;
mod join;
#[cfg(feature = "laboratory")]
mod laboratory;
mod metric;
#[cfg(not(feature = "laboratory"))]
mod missing;
mod plain;
mod protocols;
mod recv;
mod relay;
mod send;
mod sender_notices;

use std::sync::LazyLock;

use carillon_wire::session::WIRE_VERSION;
use clap::{CommandFactory as _, Parser, Subcommand};

#[cfg_attr(
    feature = "laboratory",
    doc = "Send files to many machines over reliable multicast, and compare multicast protocols in a simulator."
)]
#[cfg_attr(not(feature = "laboratory"), doc = "Send files to many machines over reliable multicast.")]
#[derive(Debug, Parser)]
#[command(name = "carillon", version = VERSION.as_str(), arg_required_else_help = true, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Protocols(protocols::Args),
    #[cfg(feature = "laboratory")]
    #[command(flatten)]
    Laboratory(laboratory::Command),
    Send(Box<send::Args>),
    Recv(Box<recv::Args>),
    Relay(relay::Args),
    Daemon(daemon::Args),
    Doctor(doctor::Args),
    Metric(Box<metric::Args>),
    Completions(generate::CompletionsArgs),
    Man(generate::ManArgs),
}

/// Release, commit and wire version, as `--version` prints them.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    format!("{} (commit {}, wire version {WIRE_VERSION})", env!("CARGO_PKG_VERSION"), env!("CARILLON_COMMIT"))
});

impl Cli {
    /// Parses the command line. Exits if it is wrong or asks for help.
    pub fn given() -> Cli {
        #[cfg(feature = "laboratory")]
        return Cli::parse();
        #[cfg(not(feature = "laboratory"))]
        Cli::try_parse().unwrap_or_else(|error| missing::explained(error, &mut Cli::command()).exit())
    }

    /// Runs the command.
    pub fn run(self) -> anyhow::Result<()> {
        match self.command {
            Command::Protocols(args) => protocols::run(&args),
            #[cfg(feature = "laboratory")]
            Command::Laboratory(command) => command.run(),
            Command::Send(args) => send::run(*args),
            Command::Recv(args) => recv::run(*args),
            Command::Relay(args) => relay::run(&args),
            Command::Daemon(args) => daemon::run(&args),
            Command::Doctor(args) => doctor::run(&args),
            Command::Metric(args) => metric::run(&args),
            Command::Completions(args) => generate::completions(&args, Cli::command()),
            Command::Man(args) => generate::man(&args, Cli::command()),
        }
    }
}
