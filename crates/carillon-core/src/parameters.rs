//! What can be set of a protocol, and settings.

use std::collections::BTreeMap;
use std::fmt;

use thiserror::Error;

use crate::{BitRate, DataSize, Probability, Role, Span};

/// One parameter of a protocol.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Its name: the source's own, in snake case.
    pub name: &'static str,
    /// What values it takes.
    pub kind: Kind,
    /// Its default, as it would be written.
    pub default: &'static str,
    /// What it does and where the default comes from.
    pub doc: &'static str,
}

/// Lists one behind the other, of `N` entries in all: what a protocol shares with others, and what is its own.
///
/// # Panics
///
/// If they are not as many, or the first list is empty.
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
    /// A whole number within these bounds, both included.
    pub const fn count(name: &'static str, (min, max): (u64, u64), default: &'static str) -> Self {
        Parameter { name, kind: Kind::Count { min, max }, default, doc: "" }
    }

    /// A data size of so many bytes, both bounds included.
    pub const fn size(name: &'static str, (min, max): (u64, u64), default: &'static str) -> Self {
        Parameter { name, kind: Kind::Size { min, max }, default, doc: "" }
    }

    /// A rate, which may be none.
    pub const fn rate(name: &'static str, default: &'static str) -> Self {
        Parameter { name, kind: Kind::Rate, default, doc: "" }
    }

    /// A span of time.
    pub const fn span(name: &'static str, default: &'static str) -> Self {
        Parameter { name, kind: Kind::Span, default, doc: "" }
    }

    /// A probability.
    pub const fn probability(name: &'static str, default: &'static str) -> Self {
        Parameter { name, kind: Kind::Probability, default, doc: "" }
    }

    /// Yes or no.
    pub const fn switch(name: &'static str, default: &'static str) -> Self {
        Parameter { name, kind: Kind::Switch, default, doc: "" }
    }

    /// One of these words.
    pub const fn choice(name: &'static str, words: &'static [&'static str], default: &'static str) -> Self {
        Parameter { name, kind: Kind::Choice(words), default, doc: "" }
    }

    /// The same, and what it does.
    pub const fn doc(self, doc: &'static str) -> Self {
        Parameter { doc, ..self }
    }
}

/// The values a parameter takes.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// A whole number within bounds, both included.
    Count {
        /// The least.
        min: u64,
        /// The greatest.
        max: u64,
    },
    /// A data size in bytes within bounds, both included.
    Size {
        /// The least.
        min: u64,
        /// The greatest.
        max: u64,
    },
    /// A rate; a number alone is bytes in a second, and 0 none.
    Rate,
    /// A span of time.
    Span,
    /// A probability.
    Probability,
    /// Yes or no.
    Switch,
    /// One of these words.
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

/// The value of a parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Setting {
    /// For [`Kind::Count`].
    Count(u64),
    /// For [`Kind::Size`].
    Size(DataSize),
    /// For [`Kind::Rate`].
    Rate(Option<BitRate>),
    /// For [`Kind::Span`].
    Span(Span),
    /// For [`Kind::Probability`].
    Probability(Probability),
    /// For [`Kind::Switch`].
    Switch(bool),
    /// For [`Kind::Choice`].
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

/// A configuration that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// No such parameter.
    #[error("unknown parameter `{key}`; valid are: {valid}")]
    UnknownKey {
        /// What was written.
        key: String,
        /// What could have been.
        valid: String,
    },
    /// A value that the parameter does not take.
    #[error("`{key} = {value}`: expected {expected}")]
    BadValue {
        /// The parameter.
        key: String,
        /// What was written.
        value: String,
        /// What could have been.
        expected: String,
    },
    /// Values that do not go together.
    #[error("{0}")]
    Conflict(String),
}

impl ConfigError {
    /// What the constructor of a protocol says to a role that it does not have.
    pub fn no_such_role(role: Role) -> Self {
        ConfigError::Conflict(format!("this protocol has no {role}"))
    }
}

/// The settings of one protocol: every parameter has a value of its kind.
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

    /// Sets one parameter from text.
    pub fn set(
        &mut self,
        parameters: &'static [Parameter],
        key: &str,
        value: &str,
    ) -> Result<(), ConfigError> {
        let Some(parameter) = parameters.iter().find(|p| p.name == key) else {
            let names: Vec<_> = parameters.iter().map(|p| p.name).collect();
            return Err(ConfigError::UnknownKey { key: key.to_owned(), valid: names.join(", ") });
        };
        self.0.insert(parameter.name, parameter.parse(value)?);
        Ok(())
    }

    /// The same with the values that another protocol's settings give to parameters of these names.
    pub fn with(mut self, other: &Config) -> Self {
        for (name, setting) in other.iter() {
            if let Some(own) = self.0.get_mut(name) {
                *own = setting;
            }
        }
        self
    }

    /// All settings by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, Setting)> + '_ {
        self.0.iter().map(|(&name, &setting)| (name, setting))
    }

    /// The value of a count.
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

    /// The value of a data size.
    pub fn size(&self, name: &str) -> DataSize {
        match self.0.get(name) {
            Some(Setting::Size(size)) => *size,
            _ => undeclared(name, "size"),
        }
    }

    /// The value of a rate.
    pub fn rate(&self, name: &str) -> Option<BitRate> {
        match self.0.get(name) {
            Some(Setting::Rate(rate)) => *rate,
            _ => undeclared(name, "rate"),
        }
    }

    /// The value of a span of time.
    pub fn span(&self, name: &str) -> Span {
        match self.0.get(name) {
            Some(Setting::Span(span)) => *span,
            _ => undeclared(name, "span"),
        }
    }

    /// The value of a probability.
    pub fn probability(&self, name: &str) -> Probability {
        match self.0.get(name) {
            Some(Setting::Probability(p)) => *p,
            _ => undeclared(name, "probability"),
        }
    }

    /// The value of a switch.
    pub fn switch(&self, name: &str) -> bool {
        match self.0.get(name) {
            Some(Setting::Switch(on)) => *on,
            _ => undeclared(name, "switch"),
        }
    }

    /// The value of a choice.
    pub fn choice(&self, name: &str) -> &'static str {
        match self.0.get(name) {
            Some(Setting::Choice(word)) => word,
            _ => undeclared(name, "choice"),
        }
    }
}

impl Parameter {
    /// The value written as `text`, if the parameter takes it.
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
