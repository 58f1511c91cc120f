//! Attributes that a receiver could not store.

use std::collections::BTreeMap;

use super::super::names::shown_name;

/// A kind of attribute that a receiver could not store, with the entries.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Loss {
    /// Kind of the attribute, such as "owner".
    pub what: &'static str,
    /// Reason, in most cases the message of the system.
    pub reason: String,
    /// Number of entries.
    pub count: u64,
    /// Names of the first entries, below the directory.
    pub names: Vec<Vec<u8>>,
}

/// Losses of a transfer, by kind and reason.
#[derive(Clone, Debug, Default)]
pub(in crate::files) struct Losses(BTreeMap<(&'static str, String), Loss>);

impl Losses {
    /// Adds an entry.
    pub fn add(&mut self, what: &'static str, reason: impl ToString, name: &[u8]) {
        let reason = reason.to_string();
        let loss = self.0.entry((what, reason.clone())).or_insert_with(|| Loss {
            what,
            reason,
            count: 0,
            names: Vec::new(),
        });
        loss.count += 1;
        if loss.names.len() < MAX_NAMES {
            loss.names.push(name.to_owned());
        }
    }

    /// Iterates over the losses.
    pub fn all(&self) -> impl Iterator<Item = &Loss> {
        self.0.values()
    }

    /// Summary for the sender, short enough for the report of a session, if anything was lost.
    pub fn text(&self) -> Option<String> {
        let mut all = self.all();
        let first = all.next()?;
        if all.next().is_none() {
            return Some(format!("not stored: {first}"));
        }
        let each: Vec<String> = self.all().map(|loss| format!("{} ({})", loss.what, loss.count)).collect();
        Some(format!("not stored, with numbers of entries: {}", each.join(", ")))
    }
}

impl std::fmt::Display for Loss {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let first = self.names.first().map(|name| shown_name(name)).unwrap_or_default();
        match self.count {
            1 => write!(f, "{} of {first} ({})", self.what, self.reason),
            count => write!(f, "{} of {count} entries, the first {first} ({})", self.what, self.reason),
        }
    }
}

/// Maximum number of names of a loss.
const MAX_NAMES: usize = 1000;
