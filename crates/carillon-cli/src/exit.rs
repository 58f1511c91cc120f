//! Exit codes: 0 success; 1 the job ran and failed; 2 wrong usage, unreadable input, I/O error.

use std::fmt;
use std::io;
use std::process::ExitCode;

use carillon_transfer::files::shown;

use crate::delivery::notice_text;

/// The job ran and failed, and has already reported why: a receiver lost, a comparison outside its bounds.
#[derive(Debug)]
pub struct JobFailed;

impl fmt::Display for JobFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the job failed")
    }
}

impl std::error::Error for JobFailed {}

/// The exit code of a command, after its error was printed in one line.
pub fn code(result: anyhow::Result<()>) -> ExitCode {
    let Err(error) = result else { return ExitCode::SUCCESS };
    if error.is::<JobFailed>() {
        return ExitCode::from(1);
    }
    // A reader that closed the pipe has enough, as in `carillon … | head`.
    let broken_pipe = |cause: &&(dyn std::error::Error + 'static)| matches!(cause.downcast_ref::<io::Error>(), Some(e) if e.kind() == io::ErrorKind::BrokenPipe);
    if error.chain().any(|cause| broken_pipe(&cause)) {
        return ExitCode::SUCCESS;
    }
    // Errors in scenario files take several lines.
    let text = format!("{error:#}");
    let lines: Vec<_> = text.lines().map(shown).collect();
    notice_text(&lines.join("\n"));
    ExitCode::from(2)
}
