//! The text format of Prometheus, version 0.0.4.

use std::fmt::Write as _;

use crate::snapshot::Snapshot;

/// A metric with its samples.
#[derive(Debug)]
pub struct Family {
    /// The name.
    pub name: &'static str,
    /// Counter or gauge.
    pub kind: Kind,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    /// Roles that have it.
    pub ends: &'static str,
    /// Description in one line.
    pub help: &'static str,
    pub(crate) fill: fn(&Snapshot, &mut Samples<'_>),
}

/// Type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Counts up, from 0 in a new process.
    Counter,
    /// Takes any value.
    Gauge,
}

impl Kind {
    /// Its name in the format.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        }
    }
}

/// Writer of the samples of one metric.
#[derive(Debug)]
pub struct Samples<'a> {
    family: &'a Family,
    text: &'a mut String,
    any: bool,
}

impl Samples<'_> {
    /// Writes a sample without labels, if the value is known.
    pub(crate) fn one(&mut self, value: Option<impl Into<Number>>) {
        if let Some(value) = value {
            self.with(&[], value);
        }
    }

    /// Writes a sample with labels, in the order of the metric. Empty labels are omitted.
    pub(crate) fn with(&mut self, labels: &[&str], value: impl Into<Number>) {
        debug_assert_eq!(labels.len(), self.family.labels.len(), "{}", self.family.name);
        let Family { name, kind, help, .. } = self.family;
        if !std::mem::replace(&mut self.any, true) {
            // Help texts are constants without line feeds and backslashes.
            let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {}", kind.name());
        }
        self.text.push_str(name);
        let mut open = '{';
        for (label, value) in self.family.labels.iter().zip(labels).filter(|(_, value)| !value.is_empty()) {
            let _ = write!(self.text, "{open}{label}=\"");
            escape(value, self.text);
            self.text.push('"');
            open = ',';
        }
        if open == ',' {
            self.text.push('}');
        }
        let _ = match value.into() {
            Number::Count(count) => writeln!(self.text, " {count}"),
            Number::Real(real) => writeln!(self.text, " {real}"),
        };
    }

    /// Writes a sample per possible state: 1 for the current one, 0 for the others.
    pub(crate) fn state(&mut self, whose: &[&str], state: &str, states: &[&str]) {
        for one in states {
            let labels: Vec<&str> = whose.iter().copied().chain([*one]).collect();
            self.with(&labels, u64::from(*one == state));
        }
    }
}

/// A sample value, exact for counters.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Number {
    Count(u64),
    Real(f64),
}

impl From<u64> for Number {
    fn from(count: u64) -> Self {
        Number::Count(count)
    }
}

impl From<f64> for Number {
    fn from(real: f64) -> Self {
        Number::Real(real)
    }
}

/// Writes all known metrics of the snapshot.
pub(crate) fn write(families: &[Family], snapshot: &Snapshot) -> String {
    let mut text = String::new();
    for family in families {
        let mut samples = Samples { family, text: &mut text, any: false };
        (family.fill)(snapshot, &mut samples);
    }
    text
}

/// Escapes a label value: names come from the network, and the format reserves three characters.
fn escape(value: &str, text: &mut String) {
    for c in value.chars() {
        match c {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            c => text.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::{FAMILIES, Limit, ReceiverView};

    #[test]
    fn metric_names_are_unique_and_conventional() {
        let names: BTreeSet<&str> = FAMILIES.iter().map(|family| family.name).collect();
        assert_eq!(names.len(), FAMILIES.len());
        for Family { name, kind, labels, help, ends, .. } in FAMILIES {
            assert!(name.starts_with("carillon_"), "{name}");
            assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{name}");
            assert_eq!(name.ends_with("_total"), *kind == Kind::Counter, "{name}");
            assert!(!help.contains(['\n', '\\']) && !help.is_empty() && !ends.is_empty(), "{name}");
            assert!(labels.iter().all(|label| label.bytes().all(|byte| byte.is_ascii_lowercase())), "{name}");
        }
    }

    #[test]
    fn unknown_values_are_omitted_and_names_escaped() {
        let mut snapshot = Snapshot::new("sender");
        let text = write(FAMILIES, &snapshot);
        assert!(text.lines().all(|line| line.contains("_info") || line.contains("_seconds")), "{text}");
        snapshot.limit = Some(Limit::Room { receiver: "a\\b\"c\nd é".to_owned() });
        snapshot.receivers = vec![ReceiverView {
            name: "x".to_owned(),
            address: None,
            state: "receiving",
            bytes: Some(7),
            rate: Some(0.5),
            repairs: None,
            waited: None,
            heard: snapshot.taken,
            path: None,
        }];
        let text = write(FAMILIES, &snapshot);
        assert!(text.contains("\ncarillon_limit{by=\"room\",receiver=\"a\\\\b\\\"c\\nd é\"} 1\n"), "{text}");
        assert!(text.contains("\ncarillon_receiver_bytes_total{receiver=\"x\"} 7\n"), "{text}");
        assert!(text.contains("\ncarillon_receiver_bytes_per_second{receiver=\"x\"} 0.5\n"), "{text}");
        assert!(text.contains("\ncarillon_receiver_state{receiver=\"x\",state=\"failed\"} 0\n"), "{text}");
        assert!(!text.contains("repairs") && !text.contains("loss") && !text.contains("NaN"), "{text}");
    }
}
