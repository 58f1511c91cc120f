//! Parameters of protocols and their settings.
//!
//! A registry entry declares its parameters; a [`Config`] has a value for each, parsed from scenario files or the
//! command line and checked against its kind.

use std::collections::BTreeMap;
use std::fmt;

use thiserror::Error;

use crate::{BitRate, DataSize, Probability, Role, Span};

/// Parameter of a protocol.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Name: the source's own, in snake case.
    pub name: &'static str,
    /// Kind of its values.
    pub kind: Kind,
    /// Default, as it would be written.
    pub default: &'static str,
    /// Effect, and origin of the default.
    pub doc: &'static str,
    /// Name in earlier releases. Settings may have it, and invitations do, so that both releases understand them.
    pub former: Option<&'static str>,
}

/// Concatenates lists into an array of `N` entries, such as parameters that a protocol shares with others and its own
/// ones.
///
/// # Panics
///
/// Panics if the number of entries is not `N`, or the first list is empty.
pub const fn joined<T: Copy, const N: usize>(lists: &[&[T]]) -> [T; N] {
    let mut all = [lists[0][0]; N];
    let (mut list, mut count) = (0, 0);
    while list < lists.len() {
        let mut at = 0;
        while at < lists[list].len() {
            all[count] = lists[list][at];
            (at, count) = (at + 1, count + 1);
        }
        list += 1;
    }
    assert!(count == N, "as many as are joined");
    all
}

impl Parameter {
    /// Whole number within these bounds, both included.
    pub const fn count(name: &'static str, (min, max): (u64, u64), default: &'static str) -> Self {
        Parameter { name, kind: Kind::Count { min, max }, default, doc: "", former: None }
    }

    /// Data size within these bounds in bytes, both included.
    pub const fn size(name: &'static str, (min, max): (u64, u64), default: &'static str) -> Self {
        Parameter { name, kind: Kind::Size { min, max }, default, doc: "", former: None }
    }

    /// Rate, which may be none.
    pub const fn rate(name: &'static str, default: &'static str) -> Self {
        Parameter { name, kind: Kind::Rate, default, doc: "", former: None }
    }

    /// Span of time.
    pub const fn span(name: &'static str, default: &'static str) -> Self {
        Parameter { name, kind: Kind::Span, default, doc: "", former: None }
    }

    /// Probability.
    pub const fn probability(name: &'static str, default: &'static str) -> Self {
        Parameter { name, kind: Kind::Probability, default, doc: "", former: None }
    }

    /// Switch, true or false.
    pub const fn switch(name: &'static str, default: &'static str) -> Self {
        Parameter { name, kind: Kind::Switch, default, doc: "", former: None }
    }

    /// Choice among these words.
    pub const fn choice(name: &'static str, words: &'static [&'static str], default: &'static str) -> Self {
        Parameter { name, kind: Kind::Choice(words), default, doc: "", former: None }
    }

    /// Name of the parameter in invitations.
    pub const fn name_on_the_wire(&self) -> &'static str {
        match self.former {
            Some(former) => former,
            None => self.name,
        }
    }

    /// Adds the name that the parameter had in earlier releases.
    pub const fn formerly(self, former: &'static str) -> Self {
        Parameter { former: Some(former), ..self }
    }

    /// Adds the description.
    pub const fn doc(self, doc: &'static str) -> Self {
        Parameter { doc, ..self }
    }
}

/// Kind of a parameter's values.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// Whole number within bounds, both included.
    Count {
        /// Minimum.
        min: u64,
        /// Maximum.
        max: u64,
    },
    /// Data size in bytes within bounds, both included.
    Size {
        /// Minimum.
        min: u64,
        /// Maximum.
        max: u64,
    },
    /// Rate; a number without unit is bytes per second, and 0 is none.
    Rate,
    /// Span of time.
    Span,
    /// Probability.
    Probability,
    /// Switch, true or false.
    Switch,
    /// Choice among these words.
    Choice(&'static [&'static str]),
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Count { min, max } => write!(f, "a whole number from {min} to {max}"),
            Kind::Size { min, max } => write!(f, "a data size from {min} to {max} byte"),
            Kind::Rate => {
                f.write_str("a rate such as \"10 Mbit/s\"; a number alone: bytes in a second; 0: none")
            }
            Kind::Span => f.write_str("a span of time such as \"20 ms\" or \"6000 bit\""),
            Kind::Probability => f.write_str("a probability from 0 to 1"),
            Kind::Switch => f.write_str("true or false"),
            Kind::Choice(words) => {
                f.write_str("one of ")?;
                for (i, word) in words.iter().enumerate() {
                    write!(f, "{}\"{word}\"", if i > 0 { ", " } else { "" })?;
                }
                Ok(())
            }
        }
    }
}

/// Value of a parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Setting {
    /// Value of a [`Kind::Count`].
    Count(u64),
    /// Value of a [`Kind::Size`].
    Size(DataSize),
    /// Value of a [`Kind::Rate`].
    Rate(Option<BitRate>),
    /// Value of a [`Kind::Span`].
    Span(Span),
    /// Value of a [`Kind::Probability`].
    Probability(Probability),
    /// Value of a [`Kind::Switch`].
    Switch(bool),
    /// Value of a [`Kind::Choice`].
    Choice(&'static str),
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Setting::Count(count) => count.fmt(f),
            Setting::Size(size) => size.fmt(f),
            Setting::Rate(Some(rate)) => rate.fmt(f),
            Setting::Rate(None) => f.write_str("0"),
            Setting::Span(span) => span.fmt(f),
            Setting::Probability(p) => p.fmt(f),
            Setting::Switch(on) => on.fmt(f),
            Setting::Choice(word) => f.write_str(word),
        }
    }
}

/// Invalid configuration.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// Unknown parameter.
    #[error("unknown parameter `{key}`; valid are: {valid}")]
    UnknownKey {
        /// Key as written.
        key: String,
        /// Valid keys.
        valid: String,
    },
    /// Value that the parameter does not take.
    #[error("`{key} = {value}`: expected {expected}")]
    BadValue {
        /// Parameter.
        key: String,
        /// Value as written.
        value: String,
        /// Description of valid values.
        expected: String,
    },
    /// Conflict between values.
    #[error("{0}")]
    Conflict(String),
}

impl ConfigError {
    /// Error of a protocol's constructor for a role that the protocol does not have.
    pub fn no_such_role(role: Role) -> Self {
        ConfigError::Conflict(format!("this protocol has no {role}"))
    }
}

/// Settings of one protocol: every parameter has a value of its kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Config(BTreeMap<&'static str, Setting>);

impl Config {
    /// Every parameter at its default.
    pub fn defaults(parameters: &'static [Parameter]) -> Self {
        let parse = |p: &'static Parameter| {
            p.parse(p.default).unwrap_or_else(|error| panic!("the default of a parameter is valid: {error}"))
        };
        Config(parameters.iter().map(|p| (p.name, parse(p))).collect())
    }

    /// Sets one parameter from text; fails for an unknown key or an invalid value.
    pub fn set(
        &mut self,
        parameters: &'static [Parameter],
        key: &str,
        value: &str,
    ) -> Result<(), ConfigError> {
        let is_named = |p: &&Parameter| p.name == key || p.former == Some(key);
        let Some(parameter) = parameters.iter().find(is_named) else {
            let names: Vec<_> = parameters.iter().map(|p| p.name).collect();
            return Err(ConfigError::UnknownKey { key: key.to_owned(), valid: names.join(", ") });
        };
        self.0.insert(parameter.name, parameter.parse(value)?);
        Ok(())
    }

    /// Takes over the values of all parameters that the other settings have too.
    pub fn with(mut self, other: &Config) -> Self {
        for (name, setting) in other.iter() {
            if let Some(own) = self.0.get_mut(name) {
                *own = setting;
            }
        }
        self
    }

    /// Iterates over all settings by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, Setting)> + '_ {
        self.0.iter().map(|(&name, &setting)| (name, setting))
    }

    /// Value of a count.
    ///
    /// # Panics
    ///
    /// Like the other accessors, if the protocol declared no such parameter of this kind.
    pub fn count(&self, name: &str) -> u64 {
        match self.0.get(name) {
            Some(Setting::Count(count)) => *count,
            _ => undeclared(name, "count"),
        }
    }

    /// Value of a data size.
    pub fn size(&self, name: &str) -> DataSize {
        match self.0.get(name) {
            Some(Setting::Size(size)) => *size,
            _ => undeclared(name, "size"),
        }
    }

    /// Value of a rate.
    pub fn rate(&self, name: &str) -> Option<BitRate> {
        match self.0.get(name) {
            Some(Setting::Rate(rate)) => *rate,
            _ => undeclared(name, "rate"),
        }
    }

    /// Value of a span of time.
    pub fn span(&self, name: &str) -> Span {
        match self.0.get(name) {
            Some(Setting::Span(span)) => *span,
            _ => undeclared(name, "span"),
        }
    }

    /// Value of a probability.
    pub fn probability(&self, name: &str) -> Probability {
        match self.0.get(name) {
            Some(Setting::Probability(p)) => *p,
            _ => undeclared(name, "probability"),
        }
    }

    /// Value of a switch.
    pub fn switch(&self, name: &str) -> bool {
        match self.0.get(name) {
            Some(Setting::Switch(on)) => *on,
            _ => undeclared(name, "switch"),
        }
    }

    /// Value of a choice.
    pub fn choice(&self, name: &str) -> &'static str {
        match self.0.get(name) {
            Some(Setting::Choice(word)) => word,
            _ => undeclared(name, "choice"),
        }
    }
}

impl Parameter {
    /// Parses the value of the parameter; fails if the parameter does not take it.
    pub fn parse(&self, text: &str) -> Result<Setting, ConfigError> {
        let value = match self.kind {
            Kind::Count { min, max } => {
                text.parse().ok().filter(|n| (min..=max).contains(n)).map(Setting::Count)
            }
            Kind::Size { min, max } => text
                .parse()
                .map(DataSize)
                .or_else(|_| text.parse::<DataSize>())
                .ok()
                .filter(|size| (min..=max).contains(&size.0))
                .map(Setting::Size),
            Kind::Rate => match text.parse::<u64>() {
                Ok(bytes) => bytes.checked_mul(8).map(BitRate::new).map(Setting::Rate),
                Err(_) => text.parse().ok().map(|rate| Setting::Rate(Some(rate))),
            },
            Kind::Span => text.parse().ok().map(Setting::Span),
            Kind::Probability => text.parse().ok().map(Setting::Probability),
            Kind::Switch => text.parse().ok().map(Setting::Switch),
            Kind::Choice(words) => words.iter().find(|word| **word == text).map(|word| Setting::Choice(word)),
        };
        value.ok_or_else(|| ConfigError::BadValue {
            key: self.name.to_owned(),
            value: text.to_owned(),
            expected: self.kind.to_string(),
        })
    }
}

fn undeclared(name: &str, kind: &str) -> ! {
    panic!("the protocol reads a {kind} `{name}` that its entry does not declare")
}
