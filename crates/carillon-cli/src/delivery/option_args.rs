//! Arguments of `send` and `recv` that come from the table of options.
//!
//! [`OptionArgs`] makes an argument of each row that belongs to its group: flag, name of the value, default and help
//! are those of the row, and its parser checks the value. The command then applies the given values to [`Settings`],
//! so a new row needs no code here.
//!
//! The commands declare some arguments of rows themselves, because their meaning depends on other arguments.
//! `--receivers`, `--expect` and `--wait` together make the condition for the start. `--helpers` takes a number or
//! names, and `--from` takes names too. The default of `--protocol` depends on `--plain`, and `--set` is checked with
//! the protocol. `--key-file`, `--one-way`, `--update` and the choice of contents are no options of the table.

use std::fmt::Debug;
use std::marker::PhantomData;

use carillon_transfer::options::{Argument, Notation, OPTIONS, OptionEntry, Scope, Settings};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, FromArgMatches};

/// Group of rows of the table.
pub trait Rows: Debug {
    /// Returns true if a row with this argument belongs to the group.
    fn has(entry: &OptionEntry, argument: &Argument) -> bool;
}

/// Options of senders and receivers.
#[derive(Debug)]
pub struct EveryEnd;

/// Expert options of senders and receivers. They are a group of their own, as they stand behind other headings.
#[derive(Debug)]
pub struct EveryEndExpert;

/// Options that senders have beside [`EveryEnd`]'s.
#[derive(Debug)]
pub struct SendersOnly;

impl Rows for EveryEnd {
    fn has(entry: &OptionEntry, argument: &Argument) -> bool {
        is_shared(entry) && argument.heading != EXPERT
    }
}

impl Rows for EveryEndExpert {
    fn has(entry: &OptionEntry, argument: &Argument) -> bool {
        is_shared(entry) && argument.heading == EXPERT
    }
}

impl Rows for SendersOnly {
    fn has(entry: &OptionEntry, _: &Argument) -> bool {
        entry.is_for(Scope::Send) && !is_shared(entry)
    }
}

/// Returns true for options that mean the same to senders and receivers. The timeouts of the two differ.
fn is_shared(entry: &OptionEntry) -> bool {
    entry.is_for(Scope::Send) && entry.is_for(Scope::Recv) && entry.name != "timeout"
}

/// Arguments for the options of a group, and the values that were given.
#[derive(Debug)]
pub struct OptionArgs<R> {
    /// Options and values in text notation, in the order of the table.
    given: Vec<(&'static OptionEntry, String)>,
    rows: PhantomData<R>,
}

impl<R> OptionArgs<R> {
    /// Applies the given values.
    pub fn apply(&self, settings: &mut Settings) {
        for (entry, text) in &self.given {
            entry.set(settings, text, Notation::Text).expect("its argument has accepted the value");
        }
    }

    /// Text that was given for an option.
    pub fn given(&self, name: &str) -> Option<&str> {
        self.given.iter().find(|(entry, _)| entry.name == name).map(|(_, text)| text.as_str())
    }
}

impl<R: Rows> clap::Args for OptionArgs<R> {
    fn augment_args(command: Command) -> Command {
        augmented::<R>(command, OPTIONS)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<R: Rows> FromArgMatches for OptionArgs<R> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(OptionArgs { given: given::<R>(matches, OPTIONS), rows: PhantomData })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Rows of a group, with their arguments.
fn rows<R: Rows>(
    table: &'static [OptionEntry],
) -> impl Iterator<Item = (&'static OptionEntry, &'static Argument)> {
    let arguments = table.iter().filter_map(|entry| Some((entry, entry.argument.as_ref()?)));
    arguments.filter(|(entry, argument)| !argument.heading.is_empty() && R::has(entry, argument))
}

/// Adds the arguments of a group to a command.
fn augmented<R: Rows>(command: Command, table: &'static [OptionEntry]) -> Command {
    command.args(rows::<R>(table).map(|(entry, argument)| arg(entry, argument)))
}

/// Argument of a row.
fn arg(entry: &'static OptionEntry, argument: &'static Argument) -> Arg {
    let mut arg = Arg::new(entry.name)
        .long(argument.flag)
        .help(entry.doc.strip_suffix('.').unwrap_or(entry.doc))
        .help_heading(argument.heading)
        .conflicts_with_all(argument.conflicts.iter().copied());
    for required in argument.requires {
        arg = arg.requires(*required);
    }
    if entry.kind.name.is_empty() {
        return arg.action(ArgAction::SetTrue);
    }
    if !entry.default.is_empty() {
        arg = arg.default_value(entry.default);
    }
    arg.value_name(entry.kind.name)
        .action(if entry.repeats { ArgAction::Append } else { ArgAction::Set })
        .value_parser(move |text: &str| checked(entry, text))
}

/// Returns the text if it is a value of the option.
fn checked(entry: &OptionEntry, text: &str) -> Result<String, String> {
    entry.set(&mut Settings::default(), text, Notation::Text).map(|()| text.to_owned())
}

/// Values of a group that the user gave.
fn given<R: Rows>(
    matches: &ArgMatches,
    table: &'static [OptionEntry],
) -> Vec<(&'static OptionEntry, String)> {
    let mut given = Vec::new();
    for (entry, _) in rows::<R>(table) {
        if matches.value_source(entry.name) != Some(ValueSource::CommandLine) {
            continue;
        }
        match entry.kind.name.is_empty() {
            true => given.push((entry, "1".to_owned())),
            false => {
                let values = matches.get_many::<String>(entry.name).into_iter().flatten();
                given.extend(values.map(|text| (entry, text.clone())));
            }
        }
    }
    given
}

/// Heading of expert options.
const EXPERT: &str = "Expert";

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    /// A row that the table gets is an argument, and its value reaches the settings, without further code.
    #[test]
    fn new_row_is_an_argument() {
        let mut dummy = *OPTIONS.iter().find(|entry| entry.name == "rounds").expect("a row");
        dummy.name = "dummy";
        dummy.argument = Some(Argument { flag: "dummy", heading: "Network", requires: &[], conflicts: &[] });
        let table: &'static [OptionEntry] = Vec::leak(vec![dummy]);
        let command = augmented::<SendersOnly>(Command::new("send"), table);
        let parse = |text: &str| command.clone().try_get_matches_from(["send", "--dummy", text]);

        let args = OptionArgs::<SendersOnly> {
            given: given::<SendersOnly>(&parse("7").expect("a number"), table),
            rows: PhantomData,
        };
        let mut settings = Settings::default();
        args.apply(&mut settings);
        assert_eq!(settings.send.rounds, 7);
        let error = parse("many").expect_err("no number").to_string();
        assert!(error.contains("invalid value 'many' for '--dummy <N>': invalid digit"), "{error}");
        assert!(command.clone().render_help().to_string().contains("--dummy <N>"));
    }

    /// A command has the argument of each row that is for it, and of no other row.
    #[test]
    fn commands_have_the_arguments_of_their_rows() {
        let command = crate::commands::Cli::command();
        for (name, scope) in [("send", Scope::Send), ("recv", Scope::Recv), ("relay", Scope::Relay)] {
            let command = command.find_subcommand(name).expect("a command");
            for entry in OPTIONS {
                let Some(Argument { flag, .. }) = entry.argument else { continue };
                let has = command.get_arguments().any(|argument| argument.get_long() == Some(flag));
                // Receivers and routers have these with another meaning.
                let differs = ["protocol", "set", "job"].contains(&entry.name) && scope != Scope::Send;
                assert!(has == entry.is_for(scope) || differs, "{name} --{flag}");
            }
        }
    }
}
