//! Command files of the 1996 simulator (Segovia, section 3.6), translated to scenarios.
//!
//! ```text
//! # comment
//! PROTO = BAP
//! STARTRECS = 3
//! ENDRECS = 20
//! INCRECS = 1
//! ```
//!
//! Every range runs as one axis of a cross product. Timers are looked at as her simulator did,
//! after bus activity.

use std::collections::BTreeMap;

use toml::{Table, Value};

use crate::inputs;
use crate::scenario::{ScenarioError, ScenarioFile};

/// A command file as read.
#[derive(Clone, Debug)]
pub struct CommandFile {
    /// The scenario it describes.
    pub scenario: ScenarioFile,
    /// Name of the statistics file (STATSFILE).
    pub statistics: String,
    /// Name of the log file (LOGFILE), if one is wanted.
    pub log: Option<String>,
}

/// The variables of a file, with the line each was set on.
struct Variables<'a> {
    origin: &'a str,
    values: BTreeMap<String, (usize, String)>,
}

impl CommandFile {
    /// Returns true if a text looks like a Segovia command file: it sets a variable with a name in capitals.
    pub fn recognises(text: &str) -> bool {
        text.lines().any(|line| {
            let name = line.split_once('=').map(|(name, _)| name.trim()).unwrap_or_default();
            let in_capitals = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
            name.starts_with(|c: char| c.is_ascii_uppercase()) && name.chars().all(in_capitals)
        })
    }

    /// Reads a command file; `origin` is its name in error messages.
    pub fn parse(origin: &str, text: &str) -> Result<Self, ScenarioError> {
        let variables = Variables::parse(origin, text)?;
        let block = match variables.word("PROTO", &["SAW", "BAP", "GBN"])?.as_deref() {
            Some("SAW") => false,
            Some(_) => true,
            None => return Err(ScenarioError::new(origin, "`PROTO` is not set; valid are SAW and BAP")),
        };
        let mut sweep = Table::new();
        for range in RANGES.iter().filter(|range| range.protocol.is_none_or(|of_block| of_block == block)) {
            sweep.insert(range.key.to_owned(), Value::Array(variables.range(range)?));
        }
        let mut protocol = Table::new();
        protocol.insert("name".into(), if block { "mbap" } else { "msaw" }.into());
        let method = if block { "BAPPKTIMEOUTMETHOD" } else { "SAWTIMEOUTMETHOD" };
        let method = variables.word(method, &["formula", "constant"])?.unwrap_or_else(|| "formula".into());
        protocol.insert("timeout_method".into(), method.into());
        if !block {
            let words = &["multicast", "unicast"];
            let method = variables.word("SAWRETRANS", words)?.unwrap_or_else(|| "multicast".into());
            protocol.insert("retransmission".into(), method.into());
        }
        let repetitions = variables.number("REPETITIONS", 1, 100)?.unwrap_or(10);
        let table = Table::from_iter([
            ("name".into(), Value::from(stem(origin))),
            ("source".into(), "Segovia 1996, section 3.6".into()),
            (
                "network".into(),
                Table::from_iter([
                    ("kind".into(), Value::from("lan")),
                    ("timers".into(), "after-bus-activity".into()),
                ])
                .into(),
            ),
            (
                "loss".into(),
                Table::from_iter([("model".into(), Value::from("bernoulli")), ("p".into(), 0.into())]).into(),
            ),
            ("group".into(), Table::from_iter([("receivers".into(), Value::from(1))]).into()),
            ("protocol".into(), protocol.into()),
            (
                "workload".into(),
                Table::from_iter([
                    ("messages".into(), Value::from(1)),
                    ("message_bytes".into(), 1518.into()),
                ])
                .into(),
            ),
            ("sweep".into(), sweep.into()),
            ("run".into(), Table::from_iter([("replications".into(), Value::from(repetitions))]).into()),
        ]);
        Ok(CommandFile {
            scenario: ScenarioFile::from_table_with(
                origin,
                table,
                inputs::beside(origin),
                carillon_proto::REGISTRY,
            )?,
            statistics: variables.text("STATSFILE").unwrap_or_else(|| "statsfile".into()),
            log: variables.text("LOGFILE"),
        })
    }
}

impl<'a> Variables<'a> {
    fn parse(origin: &'a str, text: &str) -> Result<Self, ScenarioError> {
        let mut values = BTreeMap::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let place = format!("{origin}:{number}");
            let Some((name, value)) = line.split_once('=') else {
                let what = format!("\"{line}\" is no assignment; write VARIABLE = value");
                return Err(ScenarioError::new(place, what));
            };
            // The thesis spells the receivers' increment both ways (sample file and text).
            let name = match name.trim() {
                "INCRECS" => "INCRRECS",
                name => name,
            };
            if !is_known(name) {
                return Err(ScenarioError::new(
                    place,
                    format!("unknown variable `{name}`; {}", nearest(name)),
                ));
            }
            values.insert(name.to_owned(), (number, value.trim().to_owned()));
        }
        Ok(Variables { origin, values })
    }

    /// A value that is not empty.
    fn text(&self, name: &str) -> Option<String> {
        self.values.get(name).map(|(_, value)| value.clone()).filter(|value| !value.is_empty())
    }

    fn error(&self, name: &str, what: &str) -> ScenarioError {
        let place = match self.values.get(name) {
            Some((line, _)) => format!("{}:{line}", self.origin),
            None => self.origin.to_owned(),
        };
        let value =
            self.text(name).map_or_else(|| format!("`{name}`"), |value| format!("`{name} = {value}`"));
        ScenarioError::new(place, format!("{value} {what}"))
    }

    fn word(&self, name: &str, words: &[&str]) -> Result<Option<String>, ScenarioError> {
        match self.text(name) {
            Some(word) if !words.contains(&word.as_str()) => {
                Err(self.error(name, &format!("is none of {}", words.join(", "))))
            }
            word => Ok(word),
        }
    }

    fn number(&self, name: &str, min: i64, max: i64) -> Result<Option<i64>, ScenarioError> {
        let Some(text) = self.text(name) else { return Ok(None) };
        match text.parse::<i64>() {
            Ok(number) if (min..=max).contains(&number) => Ok(Some(number)),
            _ => Err(self.error(name, &format!("is no whole number from {min} to {max}"))),
        }
    }

    /// START…, END…, INCR…: one value if there is no END.
    fn range(&self, range: &Range) -> Result<Vec<Value>, ScenarioError> {
        let name = |prefix: &str| format!("{prefix}{}", range.variable);
        let (start, end, increment) = (name("START"), name("END"), name("INCR"));
        let from = match (self.number(&start, range.min, range.max)?, range.default) {
            (Some(from), _) | (None, Some(from)) => from,
            (None, None) => return Err(self.error(&start, "is not set")),
        };
        let to = self.number(&end, range.min, range.max)?.unwrap_or(from);
        let step = self.number(&increment, 1, i64::MAX)?.unwrap_or(1);
        if to < from {
            return Err(self.error(&end, &format!("is below {start} = {from}")));
        }
        let count = (to - from) / step + 1;
        if count > 100_000 {
            return Err(self.error(&increment, "makes more than 100000 values"));
        }
        Ok((0..count).map(|i| (range.value)(from + i * step)).collect())
    }
}

/// A variable that takes a range, and the scenario key it stands for.
struct Range {
    variable: &'static str,
    key: &'static str,
    /// `Some(true)` for block acknowledgment, `Some(false)` for stop-and-wait, `None` for both.
    protocol: Option<bool>,
    min: i64,
    max: i64,
    /// The default of section 3.6, or the value of its sample file; `None` must be given.
    default: Option<i64>,
    value: fn(i64) -> Value,
}

/// Sweepable variables in the nesting order of the axes, slowest first.
const RANGES: &[Range] = &[
    Range {
        variable: "RECS",
        key: "group.receivers",
        protocol: None,
        min: 2,
        max: 100,
        default: None,
        value: Value::Integer,
    },
    Range {
        variable: "DATAPKTSIZE",
        key: "workload.message_bytes",
        protocol: None,
        min: 64,
        max: 1518,
        default: Some(1518),
        value: Value::Integer,
    },
    Range {
        variable: "ACKPKTSIZE",
        key: "protocol.ack_bytes",
        protocol: None,
        min: 64,
        max: 1518,
        default: Some(64),
        value: Value::Integer,
    },
    Range {
        variable: "PKTS",
        key: "workload.messages",
        protocol: None,
        min: 1,
        max: 5000,
        default: None,
        value: Value::Integer,
    },
    Range {
        variable: "FAILRT",
        key: "loss.p",
        protocol: None,
        min: 0,
        max: 100,
        default: Some(0),
        value: percent,
    },
    Range {
        variable: "SAWTIMEOUT",
        key: "protocol.timeout",
        protocol: Some(false),
        min: 0,
        max: MAX_BIT_TIMES,
        default: None,
        value: bits,
    },
    Range {
        variable: "SAWRANDWAIT",
        key: "protocol.ack_wait",
        protocol: Some(false),
        min: 0,
        max: MAX_BIT_TIMES,
        default: Some(0),
        value: bits,
    },
    Range {
        variable: "SAWRETRANSLIM",
        key: "protocol.retransmission_limit",
        protocol: Some(false),
        min: 0,
        max: 1_000_000,
        default: Some(10),
        value: Value::Integer,
    },
    Range {
        variable: "BAPPKTIMEOUT",
        key: "protocol.timeout",
        protocol: Some(true),
        min: 0,
        max: MAX_BIT_TIMES,
        default: None,
        value: bits,
    },
    Range {
        variable: "BAPACKTIMEOUT",
        key: "protocol.ack_timeout",
        protocol: Some(true),
        min: 1,
        max: MAX_BIT_TIMES,
        default: Some(95_000),
        value: bits,
    },
    Range {
        variable: "BAPWIN",
        key: "protocol.window",
        protocol: Some(true),
        min: 1,
        max: 32_768,
        default: None,
        value: Value::Integer,
    },
    Range {
        variable: "BAPRANDWAIT",
        key: "protocol.ack_wait",
        protocol: Some(true),
        min: 0,
        max: MAX_BIT_TIMES,
        default: Some(0),
        value: bits,
    },
    Range {
        variable: "BAPRETRANSLIM",
        key: "protocol.retransmission_limit",
        protocol: Some(true),
        min: 0,
        max: 1_000_000,
        default: Some(20),
        value: Value::Integer,
    },
];

const WORD_VARIABLES: &[&str] =
    &["LOGFILE", "STATSFILE", "PROTO", "REPETITIONS", "SAWTIMEOUTMETHOD", "SAWRETRANS", "BAPPKTIMEOUTMETHOD"];

/// The longest time in bit times: a day and more at 10 Mbit/s.
const MAX_BIT_TIMES: i64 = 1_000_000_000_000;

fn is_known(name: &str) -> bool {
    WORD_VARIABLES.contains(&name) || names().any(|known| known == name)
}

fn names() -> impl Iterator<Item = String> {
    RANGES
        .iter()
        .flat_map(|range| ["START", "END", "INCR"].map(|prefix| format!("{prefix}{}", range.variable)))
}

/// Suggestion for an unknown variable: the known one with the most letters in equal positions.
fn nearest(name: &str) -> String {
    let known = WORD_VARIABLES.iter().map(|word| (*word).to_owned()).chain(names());
    let alike = |known: &String| known.chars().zip(name.chars()).filter(|(a, b)| a == b).count();
    known.max_by_key(alike).map_or_else(String::new, |known| format!("did you mean `{known}`?"))
}

fn bits(count: i64) -> Value {
    Value::String(format!("{count} bit"))
}

fn percent(count: i64) -> Value {
    Value::Float(count as f64 / 100.0)
}

/// The file's name without folder and extension.
fn stem(origin: &str) -> String {
    std::path::Path::new(origin)
        .file_stem()
        .map_or_else(|| origin.to_owned(), |stem| stem.to_string_lossy().into_owned())
}
