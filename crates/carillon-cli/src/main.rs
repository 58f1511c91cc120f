//! The `carillon` command: glue between the command line and the crates that do the work.

mod commands;
mod delivery;
mod exit;

use std::process::ExitCode;

use commands::Cli;

fn main() -> ExitCode {
    report_file_size_limit();
    exit::code(Cli::given().run())
}

/// Makes a write beyond the file size limit (`ulimit -f`) fail with an error that the command reports. The signal
/// SIGXFSZ would end the process without a message. Child processes have the default again.
fn report_file_size_limit() {
    let flag = std::sync::Arc::default();
    // The command also works if the system refuses this.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, flag);
}
