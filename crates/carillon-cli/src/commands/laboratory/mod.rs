//! Commands of the laboratory: simulations, their results and their pictures.

mod compare;
mod jobs;
mod plot;
mod report;
mod reproduce;
mod run;
mod topology;
mod view;

/// Commands that only builds with the feature `laboratory` have.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    Run(run::Args),
    Reproduce(reproduce::Args),
    Compare(compare::Args),
    Plot(plot::Args),
    Report(report::Args),
    View(view::Args),
    Topology(topology::Args),
}

impl Command {
    /// Runs the command.
    pub fn run(self) -> anyhow::Result<()> {
        match self {
            Command::Run(args) => run::run(&args),
            Command::Reproduce(args) => reproduce::run(&args),
            Command::Compare(args) => compare::run(&args),
            Command::Plot(args) => plot::run(&args),
            Command::Report(args) => report::run(&args),
            Command::View(args) => view::run(&args),
            Command::Topology(args) => topology::run(&args),
        }
    }
}
