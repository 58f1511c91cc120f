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
    let text = described(&error);
    let lines: Vec<_> = text.lines().map(shown).collect();
    notice_text(&lines.join("\n"));
    ExitCode::from(2)
}

/// An error with its causes. Errors of libraries name their cause already; it is not repeated.
fn described(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.ends_with(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_named_once() {
        let cause = || io::Error::new(io::ErrorKind::NotFound, "no such file");
        let plain = anyhow::Error::from(cause()).context("cannot write a.csv");
        assert_eq!(described(&plain), "cannot write a.csv: no such file");
        let named = anyhow::Error::from(cause()).context("cannot write a.csv: no such file");
        assert_eq!(
            described(&named.context("the run has failed")),
            "the run has failed: cannot write a.csv: no such file"
        );
    }
}
