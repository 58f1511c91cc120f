//! Commands and options that this build does not have, since it was made without the laboratory.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, Error};

/// Names the build that has the command or option, if an error of `command` is about one of the laboratory.
pub fn explained(error: Error, command: &mut Command) -> Error {
    let (kind, names) = match error.kind() {
        ErrorKind::InvalidSubcommand => (ContextKind::InvalidSubcommand, &COMMANDS[..]),
        ErrorKind::UnknownArgument => (ContextKind::InvalidArg, &OPTIONS[..]),
        _ => return error,
    };
    match error.get(kind) {
        Some(ContextValue::String(name)) if names.contains(&name.as_str()) => {
            let text = format!("{name} is not in this build, which delivers only: {BUILD} has it");
            command.error(ErrorKind::InvalidSubcommand, text)
        }
        _ => error,
    }
}

const COMMANDS: [&str; 7] = ["run", "reproduce", "compare", "plot", "report", "view", "topology"];
const OPTIONS: [&str; 1] = ["--trace"];
/// Builds with the laboratory.
const BUILD: &str = "the package carillon, or cargo build --release with default features,";

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser as _};

    use super::*;
    use crate::commands::Cli;

    fn error(arguments: &[&str]) -> String {
        let error = Cli::try_parse_from(arguments).expect_err("the command is not in this build");
        explained(error, &mut Cli::command()).to_string()
    }

    #[test]
    fn a_missing_command_names_the_build_that_has_it() {
        for name in COMMANDS {
            for arguments in [&["carillon", name, "x"][..], &["carillon", "help", name]] {
                let text = error(arguments);
                assert!(text.contains(&format!("{name} is not in this build")), "{text}");
            }
        }
        assert!(error(&["carillon", "recv", "--trace", "a.jsonl"]).contains("--trace is not in this build"));
    }

    #[test]
    fn an_unknown_command_remains_an_ordinary_error() {
        assert!(error(&["carillon", "rum"]).contains("unrecognized subcommand 'rum'"));
    }

    #[test]
    fn help_lists_only_what_is_there() {
        let help = Cli::command().render_help().to_string();
        assert!(help.contains("\n  recv"), "{help}");
        let found = COMMANDS.iter().find(|name| help.contains(&format!("\n  {name} ")));
        assert_eq!(found, None, "{help}");
    }
}
