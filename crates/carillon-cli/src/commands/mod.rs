//! The commands, one file each.

mod compare;
mod daemon;
mod doctor;
mod generate;
mod helping;
mod jobs;
mod join;
mod metric;
mod plot;
mod protocols;
mod recv;
mod relay;
mod report;
mod reproduce;
mod run;
mod send;
mod sender_notices;
mod topology;
mod view;

use std::sync::LazyLock;

use carillon_wire::session::WIRE_VERSION;
use clap::{Parser, Subcommand};

/// Send files to many machines over reliable multicast, and compare multicast protocols in a simulator.
#[derive(Debug, Parser)]
#[command(name = "carillon", version = VERSION.as_str(), arg_required_else_help = true, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Protocols(protocols::Args),
    Run(run::Args),
    Reproduce(reproduce::Args),
    Compare(compare::Args),
    Plot(plot::Args),
    Report(report::Args),
    View(view::Args),
    Topology(topology::Args),
    Send(Box<send::Args>),
    Recv(recv::Args),
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
    /// Runs the command.
    pub fn run(self) -> anyhow::Result<()> {
        match self.command {
            Command::Protocols(args) => protocols::run(&args),
            Command::Run(args) => run::run(&args),
            Command::Reproduce(args) => reproduce::run(&args),
            Command::Compare(args) => compare::run(&args),
            Command::Plot(args) => plot::run(&args),
            Command::Report(args) => report::run(&args),
            Command::View(args) => view::run(&args),
            Command::Topology(args) => topology::run(&args),
            Command::Send(args) => send::run(*args),
            Command::Recv(args) => recv::run(args),
            Command::Relay(args) => relay::run(&args),
            Command::Daemon(args) => daemon::run(&args),
            Command::Doctor(args) => doctor::run(&args),
            Command::Metric(args) => metric::run(&args),
            Command::Completions(args) => generate::completions(&args),
            Command::Man(args) => generate::man(&args),
        }
    }
}
