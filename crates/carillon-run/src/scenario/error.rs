//! Errors of scenario files, with their position.

use thiserror::Error;
use toml::de::{DeTable, DeValue};

/// Error of a scenario file, in one line: file, line, key, description and valid values.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{place}: {what}")]
pub struct ScenarioError {
    place: String,
    what: String,
}

impl ScenarioError {
    /// Something wrong with a file as a whole.
    pub fn new(place: impl Into<String>, what: impl Into<String>) -> Self {
        // The quoted text comes from the file and may contain control characters.
        ScenarioError { place: one_line(place.into()), what: one_line(what.into()) }
    }

    /// Something wrong with the value of a key; finds its line.
    pub(super) fn at(origin: &str, text: &str, key: &str, what: String) -> Self {
        // A swept value stands in the sweep section under its dotted name.
        let line =
            line_of(text, &["sweep", key]).or_else(|| line_of(text, &key.split('.').collect::<Vec<_>>()));
        let place = match line {
            Some(line) => format!("{origin}:{line}"),
            None => origin.to_owned(),
        };
        ScenarioError::new(place, format!("`{key}` {what}"))
    }

    /// Error of the TOML parser.
    pub(super) fn toml(origin: &str, text: &str, error: &toml::de::Error) -> Self {
        let place = match error.span() {
            Some(span) if !text.is_empty() => format!("{origin}:{}", line_at(text, span.start)),
            _ => origin.to_owned(),
        };
        let key = error.span().and_then(|span| key_at(text, span.start)).map(str::to_owned);
        // A table that was made has no text to point at, and the reader's account names the key.
        let key = key.or_else(|| key_in(&error.to_string())).unwrap_or_default();
        let message = in_words(&error.message().trim_end().replace('\n', " "), &key);
        let what = if key.is_empty() { message } else { format!("`{key}`: {message}") };
        ScenarioError::new(place, what)
    }
}

/// The key that the reader's account of an error names: `… in \`workload.messages\``.
fn key_in(account: &str) -> Option<String> {
    let (_, rest) = account.rsplit_once("in `")?;
    let (key, rest) = rest.split_once('`')?;
    rest.trim().is_empty().then(|| key.to_owned())
}

/// A message of the reader with what would be valid in place of a type of the program.
fn in_words(message: &str, key: &str) -> String {
    let Some((before, expected)) = message.rsplit_once("expected ") else { return message.to_owned() };
    let name = key.rsplit('.').next().unwrap_or(key);
    let valid = match expected {
        "u8" | "u16" | "u32" | "u64" | "usize" if POSITIVE_KEYS.contains(&name) => {
            "a whole number of 1 or more"
        }
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number of 0 or more",
        "i8" | "i16" | "i32" | "i64" => "a whole number",
        "a nonzero u32" | "a nonzero u64" => "a whole number of 1 or more",
        "f32" | "f64" => "a number",
        "a string" | "string" => "text in quotes",
        "a boolean" => "true or false",
        "a sequence" => "a list in brackets",
        other => other,
    };
    format!("{before}expected {valid}")
}

/// Keys for which the value 0 is refused when the scenario is resolved.
const POSITIVE_KEYS: &[&str] =
    &["messages", "receivers", "senders", "replications", "height", "routers", "one_in", "times", "burst"];

/// The text with control characters escaped.
fn one_line(text: String) -> String {
    if !text.contains(char::is_control) {
        return text;
    }
    let mut line = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if c.is_control() {
            line.extend(c.escape_default());
        } else {
            line.push(c);
        }
    }
    line
}

fn line_at(text: &str, offset: usize) -> usize {
    text.as_bytes()[..offset.min(text.len())].iter().filter(|&&byte| byte == b'\n').count() + 1
}

/// Key on the line of an error.
fn key_at(text: &str, offset: usize) -> Option<&str> {
    let line = text.lines().nth(line_at(text, offset) - 1)?;
    let (key, _) = line.split_once('=')?;
    Some(key.trim()).filter(|key| !key.starts_with('#'))
}

fn line_of(text: &str, path: &[&str]) -> Option<usize> {
    let table = DeTable::parse(text).ok()?;
    let mut table = table.into_inner();
    let (last, mut sections) = path.split_last()?;
    let mut section_line = None;
    while let [section, rest @ ..] = sections {
        sections = rest;
        match table.remove(*section)?.into_inner() {
            DeValue::Table(inner) => table = inner,
            // One of several sections, by its number.
            DeValue::Array(list) => {
                let [number, rest @ ..] = sections else { return None };
                sections = rest;
                let at = number.parse::<usize>().ok()?.checked_sub(1)?;
                let section = list.into_iter().nth(at)?;
                section_line = Some(line_at(text, section.span().start));
                match section.into_inner() {
                    DeValue::Table(inner) => table = inner,
                    _ => return None,
                }
            }
            _ => return None,
        }
    }
    let key = table.iter().map(|(key, _)| key).find(|key| key.get_ref() == last);
    // A missing key of one of several sections is at the beginning of its section.
    key.map(|key| line_at(text, key.span().start)).or(section_line)
}
