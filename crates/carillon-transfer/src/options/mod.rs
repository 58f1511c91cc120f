//! Table of the options of an end, from which other interfaces derive theirs.
//!
//! [`OPTIONS`] declares an option once, with its name, values, default, documentation and the ends that take it. The
//! fields of the daemon's OPEN frame, the keys of the C library, the keyword arguments of Python, arguments of
//! `carillon send` and `recv`, and `docs/reference/options.md` are derived from it. The typed methods of
//! [`End`](crate::End) set the same fields of [`Settings`].
//!
//! Left out: keys and attached bytes, which are not text, and the monitor, which is an object of the program.

mod access;
mod table;
mod values;

pub use table::OPTIONS;
pub use values::{Kind, Notation, seconds};

use crate::{Network, SendOptions};

/// Settings that the options of the table set.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Settings of the network.
    pub network: Network,
    /// Options of a sender.
    pub send: SendOptions,
    /// Maximum number of hops of datagrams.
    pub hops: u8,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { network: Network::default(), send: SendOptions::default(), hops: 1 }
    }
}

/// An end or interface that takes options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Sender of files: `carillon send`, [`send`](fn@crate::send) and Python's `send`.
    Send,
    /// Receiver: `carillon recv`, and Python's `receive` and `listen`.
    Recv,
    /// Further sender of a session of peers: `carillon send --join`.
    Join,
    /// Helper or router: `carillon relay`.
    Relay,
    /// [Socket](crate::socket), also of C and of Python's `connect`, and the daemon.
    Socket,
}

impl Scope {
    /// Scopes in the order of the documentation.
    pub const SCOPES: [Scope; 5] = [Scope::Send, Scope::Recv, Scope::Join, Scope::Relay, Scope::Socket];

    /// Name in the documentation.
    pub fn name(self) -> &'static str {
        match self {
            Scope::Send => "send",
            Scope::Recv => "recv",
            Scope::Join => "join",
            Scope::Relay => "relay",
            Scope::Socket => "socket",
        }
    }
}

/// An option: a row of the table.
#[derive(Clone, Copy, Debug)]
pub struct OptionEntry {
    /// Name: the key of the daemon's field and of C, and the keyword argument of Python.
    pub name: &'static str,
    /// Kind of its values.
    pub kind: Kind,
    /// Default in [text notation](Notation::Text); empty if there is none.
    pub default: &'static str,
    /// Documentation.
    pub doc: &'static str,
    /// Ends and interfaces that take the option.
    pub scopes: &'static [Scope],
    /// True if the option can be given several times; each value is added.
    pub repeats: bool,
    /// Argument of the commands; `None` if they have none.
    pub argument: Option<Argument>,
    access: Access,
}

/// Argument of a command for an option.
#[derive(Clone, Copy, Debug)]
pub struct Argument {
    /// Name without the hyphens before it.
    pub flag: &'static str,
    /// Heading in the help; empty if the command declares the argument itself.
    pub heading: &'static str,
    /// Arguments without which it is refused, by their names in the command's code.
    pub requires: &'static [&'static str],
    /// Arguments together with which it is refused.
    pub conflicts: &'static [&'static str],
}

/// Functions that set a field from text, and return the texts in exact notation that set it.
#[derive(Clone, Copy, Debug)]
struct Access {
    set: fn(&mut Settings, &str, Notation) -> Result<(), String>,
    values: fn(&Settings) -> Vec<String>,
}

impl OptionEntry {
    /// Creates an option for these scopes, which has no argument in the commands and no default.
    const fn new(
        name: &'static str,
        kind: Kind,
        access: Access,
        scopes: &'static [Scope],
        doc: &'static str,
    ) -> Self {
        OptionEntry { name, kind, default: "", doc, scopes, repeats: false, argument: None, access }
    }

    /// Sets the default, in text notation.
    const fn default(mut self, text: &'static str) -> Self {
        self.default = text;
        self
    }

    /// Permits several values.
    const fn repeated(mut self) -> Self {
        self.repeats = true;
        self
    }

    /// Adds an argument with this flag below this heading to the commands.
    const fn argument(self, flag: &'static str, heading: &'static str) -> Self {
        self.restricted(flag, heading, &[], &[])
    }

    /// Adds an argument that requires other arguments and conflicts with others.
    const fn restricted(
        mut self,
        flag: &'static str,
        heading: &'static str,
        requires: &'static [&'static str],
        conflicts: &'static [&'static str],
    ) -> Self {
        self.argument = Some(Argument { flag, heading, requires, conflicts });
        self
    }

    /// Records that the commands declare the argument with this flag themselves, because its meaning there depends on
    /// others.
    const fn own_argument(self, flag: &'static str) -> Self {
        self.argument(flag, "")
    }

    /// Returns true if this end or interface takes the option.
    pub fn is_for(&self, scope: Scope) -> bool {
        self.scopes.contains(&scope)
    }

    /// Sets the option, or adds the value if the option repeats.
    ///
    /// # Errors
    /// Fails if the text is not a value of this option; the error says what is expected.
    pub fn set(&self, settings: &mut Settings, text: &str, notation: Notation) -> Result<(), String> {
        (self.access.set)(settings, text, notation)
    }

    /// Values in exact notation that set the option to its present value; none for a default that needs no mention.
    pub fn values(&self, settings: &Settings) -> Vec<String> {
        (self.access.values)(settings)
    }
}

/// Error of an option by its name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionError {
    /// The end takes no option of this name.
    #[error("there is no option {0}")]
    Unknown(String),
    /// The value is invalid; the text says what is expected.
    #[error("{0}")]
    Invalid(String),
}

impl Settings {
    /// Sets an option of `table` by its name.
    ///
    /// # Errors
    /// Fails if the table has no such option for this scope, or if the text is not a value of it.
    pub fn set(
        &mut self,
        table: &[OptionEntry],
        scope: Scope,
        name: &str,
        text: &str,
        notation: Notation,
    ) -> Result<(), OptionError> {
        let entry = table.iter().find(|entry| entry.name == name && entry.is_for(scope));
        let entry = entry.ok_or_else(|| OptionError::Unknown(name.to_owned()))?;
        entry.set(self, text, notation).map_err(OptionError::Invalid)
    }

    /// Names and values in exact notation of the options of `table` for this scope that make these settings.
    pub fn fields(&self, table: &[OptionEntry], scope: Scope) -> Vec<(&'static str, String)> {
        let entries = table.iter().filter(|entry| entry.is_for(scope));
        entries
            .flat_map(|entry| entry.values(self).into_iter().map(move |value| (entry.name, value)))
            .collect()
    }
}

#[cfg(test)]
mod tests;
