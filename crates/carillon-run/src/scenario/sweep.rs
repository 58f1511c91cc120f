//! Sweeps: keys that take several values, and the cross product of them.

use std::fmt;

use carillon_core::{Kind, NetworkKind, ProtocolEntry};
use serde::Deserialize;
use toml::{Table, Value};

use super::error::ScenarioError;

/// Axis of a sweep: a key, or several keys that change together, and their values in order.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// The keys with their sections, such as `group.receivers`.
    pub keys: Vec<String>,
    /// Steps along the axis, each with one value per key.
    pub steps: Vec<Vec<Value>>,
}

impl Axis {
    /// The values of one of its keys.
    pub fn values(&self, key: usize) -> impl Iterator<Item = &Value> + Clone {
        self.steps.iter().map(move |step| &step[key])
    }
}

/// A value for each swept key.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Point(pub Vec<(String, Value)>);

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (key, value)) in self.0.iter().enumerate() {
            write!(f, "{}{key} = {}", if i == 0 { " at " } else { ", " }, text_of(value))?;
        }
        Ok(())
    }
}

/// `{ from, to, step }`, both ends included.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Range {
    from: Value,
    to: Value,
    step: Value,
}

/// The axes of the `[sweep]` section, in the order of their keys' appearance.
pub(super) fn axes(
    origin: &str,
    text: &str,
    table: &Table,
    protocols: &[&ProtocolEntry],
) -> Result<Vec<Axis>, ScenarioError> {
    let Some(Value::Table(sweep)) = table.get("sweep") else { return Ok(Vec::new()) };
    let mut axes = Vec::new();
    let mut points = 1usize;
    for (name, value) in sweep {
        let bad = |what: &str| ScenarioError::at(origin, text, name, what.to_owned());
        // "a.b, a.c" = [[1, 2], [3, 4]]: keys that change together.
        let keys: Vec<String> = name.split(',').map(|key| key.trim().to_owned()).collect();
        // `protocol.mbap.window` is a parameter that one protocol has for itself.
        let parts = |key: &String| key.split('.').count();
        // So is `loss.2.p` the key of one of several sections.
        let is_deep = |key: &String| key.starts_with("protocol.") || key.starts_with("loss.");
        if keys.iter().any(|key| parts(key) != 2 && !(parts(key) == 3 && is_deep(key))) {
            return Err(bad("is no key of a section, such as \"group.receivers\""));
        }
        if let Some(what) = keys.iter().find_map(|key| names_no_section(table, key)) {
            return Err(bad(&what));
        }
        let steps: Vec<Vec<Value>> = match value {
            Value::Array(values) if values.is_empty() => return Err(bad("has no values")),
            Value::String(word) if name == "protocol.name" && word == "all" => fitting(table, protocols),
            Value::String(word) if word == "all" && choices(table, name, protocols).is_some() => {
                choices(table, name, protocols).unwrap_or_default()
            }
            Value::Array(values) if keys.len() == 1 => {
                values.iter().map(|value| vec![value.clone()]).collect()
            }
            Value::Array(rows) => {
                let row = |row: &Value| row.as_array().filter(|row| row.len() == keys.len()).cloned();
                rows.iter().map(row).collect::<Option<_>>().ok_or_else(|| {
                    bad("names several keys, so each of its values is a list with one value for each key")
                })?
            }
            Value::Table(range) if keys.len() == 1 => {
                let range = Range::deserialize(range.clone())
                    .map_err(|_| bad("is no range: write { from = 5, to = 60, step = 5 }"))?;
                if let Some(what) = range.misses_end() {
                    return Err(bad(&what));
                }
                let values = range.values().ok_or_else(|| {
                    bad("is no range: from, to and step are numbers, step is above 0, to is not below from, and there are at most 100000 values")
                })?;
                values.into_iter().map(|value| vec![value]).collect()
            }
            _ => return Err(bad("is neither a list of values nor a range { from, to, step }")),
        };
        let plain = |value: &Value| !matches!(value, Value::Array(_) | Value::Table(_) | Value::Datetime(_));
        if !steps.iter().flatten().all(plain) {
            return Err(bad("has a value that is no number, text, or truth value"));
        }
        // Looked at axis by axis, so that memory is bounded too.
        points = points.saturating_mul(steps.len());
        if points > MAX_POINTS {
            let what = format!("has more than {MAX_POINTS} points");
            return Err(ScenarioError::at(origin, text, "sweep", what));
        }
        axes.push(Axis { keys, steps });
    }
    Ok(axes)
}

/// Repairing protocols that run on the network of this document.
fn fitting(table: &Table, protocols: &[&ProtocolEntry]) -> Vec<Vec<Value>> {
    let kind = table.get("network").and_then(|network| network.get("kind")).and_then(Value::as_str);
    let is_shared = matches!(kind, Some("lan" | "radio"));
    let kind = if is_shared { NetworkKind::Lan } else { NetworkKind::Graph };
    let fits = |entry: &&&ProtocolEntry| entry.delivery.repairs && entry.networks.contains(&kind);
    protocols.iter().filter(fits).map(|entry| vec![Value::String(entry.name.to_owned())]).collect()
}

/// Values of a parameter `protocol.PARAMETER` that is a choice; none if the key is not that.
fn choices(table: &Table, key: &str, protocols: &[&ProtocolEntry]) -> Option<Vec<Vec<Value>>> {
    let name = get(table, "protocol.name")?.as_str()?;
    let entry = protocols.iter().find(|entry| entry.name == name)?;
    let parameter = entry.parameters.iter().find(|own| key.strip_prefix("protocol.") == Some(own.name))?;
    let Kind::Choice(words) = parameter.kind else { return None };
    Some(words.iter().map(|&word| vec![Value::String(word.to_owned())]).collect())
}

impl Range {
    /// Describes a range that does not reach its end in whole steps, and names the ends that would fit.
    fn misses_end(&self) -> Option<String> {
        let values = self.values()?;
        let (last, to, step) = (number(values.last()?)?, number(&self.to)?, number(&self.step)?);
        let is_met = (to - last).abs() <= 1e-6 * step;
        let plain = |value: f64| format!("{}", (value * 1e12).round() / 1e12);
        (!is_met).then(|| {
            format!(
                "goes from {} in steps of {}, which miss its end {}: write to = {} or to = {}",
                plain(number(&self.from).unwrap_or_default()),
                plain(step),
                plain(to),
                plain(last),
                plain(last + step)
            )
        })
    }

    fn values(&self) -> Option<Vec<Value>> {
        match (&self.from, &self.to, &self.step) {
            (&Value::Integer(from), &Value::Integer(to), &Value::Integer(step)) => {
                let count = usize::try_from(to.checked_sub(from)?.checked_div(step)?).ok()?;
                (step > 0 && to >= from && count < MAX_POINTS)
                    .then(|| (from..=to).step_by(step as usize).map(Value::Integer).collect())
            }
            (from, to, step) => {
                let (from, to, step) = (number(from)?, number(to)?, number(step)?);
                let count = ((to - from) / step + 1e-9).floor();
                ((0.0..MAX_POINTS as f64).contains(&count) && step > 0.0).then(|| {
                    // Multiplied, not added up: 0.1 steps stay what they look like.
                    let at = |i| ((from + f64::from(i) * step) * 1e12).round() / 1e12;
                    (0..=count as u32).map(|i| Value::Float(at(i))).collect()
                })
            }
        }
    }
}

fn number(value: &Value) -> Option<f64> {
    value.as_float().or_else(|| value.as_integer().map(|n| n as f64))
}

/// The cross product, the last axis running fastest.
pub(super) fn points(axes: &[Axis]) -> Vec<Point> {
    let mut points = vec![Point::default()];
    for axis in axes {
        points = points
            .into_iter()
            .flat_map(|point| {
                axis.steps.iter().map(move |step| {
                    let mut point = point.clone();
                    point.0.extend(axis.keys.iter().cloned().zip(step.iter().cloned()));
                    point
                })
            })
            .collect();
    }
    points
}

/// Sets a dotted key.
pub(super) fn set(table: &mut Table, key: &str, value: Value) {
    match key.split_once('.') {
        Some((section, rest)) => {
            let section = table.entry(section).or_insert_with(|| Value::Table(Table::new()));
            match section {
                Value::Table(inner) => set(inner, rest, value),
                // A list of sections; `names_no_section` has refused keys without one of them.
                Value::Array(list) => {
                    if let Some((at, rest)) = section_of(list, rest)
                        && let Some(Value::Table(inner)) = list.get_mut(at)
                    {
                        set(inner, rest, value);
                    }
                }
                other => *other = value,
            }
        }
        None => {
            table.insert(key.to_owned(), value);
        }
    }
}

/// Position of the section that a key such as `2.p` or `core.p` names in a list of sections, by its number from 1 or
/// by its name, and the rest of the key.
fn section_of<'k>(list: &[Value], key: &'k str) -> Option<(usize, &'k str)> {
    let (section, rest) = key.split_once('.')?;
    let is_named = |value: &Value| value.get("name").and_then(Value::as_str) == Some(section);
    let numbered = || section.parse::<usize>().ok()?.checked_sub(1);
    let at = list.iter().position(is_named).or_else(numbered)?;
    (at < list.len()).then_some((at, rest))
}

/// Describes a key that names none of the sections of a list.
pub(super) fn names_no_section(table: &Table, key: &str) -> Option<String> {
    let (section, rest) = key.split_once('.')?;
    let Some(Value::Array(list)) = table.get(section) else { return None };
    match section_of(list, rest) {
        Some(_) => None,
        None => {
            let field = rest.rsplit('.').next().unwrap_or(rest);
            Some(format!(
                "names none of the {} sections [[{section}]]: write `{section}.1.{field}`, or the name of a section instead of its number",
                list.len()
            ))
        }
    }
}

/// Value of a dotted key, if it has one.
pub(super) fn get<'t>(table: &'t Table, key: &str) -> Option<&'t Value> {
    let Some((section, rest)) = key.split_once('.') else { return table.get(key) };
    match table.get(section)? {
        Value::Table(inner) => get(inner, rest),
        Value::Array(list) => {
            let (at, rest) = section_of(list, rest)?;
            get(list.get(at)?.as_table()?, rest)
        }
        _ => None,
    }
}

/// Returns true if the table has a dotted key.
pub(super) fn has(table: &Table, key: &str) -> bool {
    get(table, key).is_some()
}

/// A value as typed on a command line: TOML if it is that, else text.
pub(super) fn value_of(text: &str) -> Value {
    let document = format!("value = {text}");
    match toml::from_str::<Table>(&document) {
        Ok(mut table) if table.len() == 1 => {
            table.remove("value").unwrap_or_else(|| Value::String(text.to_owned()))
        }
        _ => Value::String(text.to_owned()),
    }
}

/// A value as it would be typed.
pub fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A value that is a number.
pub fn number_of(value: &Value) -> Option<f64> {
    value.as_float().or(value.as_integer().map(|n| n as f64))
}

/// Maximum number of points of a sweep. Every point is resolved when the file is read, which takes seconds for this
/// number.
const MAX_POINTS: usize = 100_000;
