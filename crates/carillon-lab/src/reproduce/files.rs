//! Experiment files: the shipped ones below `experiments/reproduce`, and a user's own.
//!
//! A file is a list of `[[experiment]]`. Shared values are defined once under `[define]`: the value `"$name"` stands
//! for the definition. In a table, `use = "$name"` inserts its keys, of which others may be overridden. A value that
//! ends in `.toml` or `.csv` names a file in the same folder. Everything read stays in memory until the program ends.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;

use serde::Deserialize;
use toml::{Table, Value};

use super::error::ReproduceError;
use super::experiment::{Experiment, ExperimentKind};
use super::figures::FigureSpec;
use super::kept::Text;
use super::study::StudySpec;
use super::table::TableSpec;
use crate::shipped;

/// Shipped experiments: file by file, in the order within each file.
pub static EXPERIMENTS: LazyLock<Vec<Experiment>> = LazyLock::new(|| {
    let files = shipped::FILES.iter().filter(|(path, _)| path.starts_with("reproduce/"));
    let experiments = files.map(|(path, text)| match parse(path, text, &shipped_file, &[]) {
        Ok(experiments) => experiments,
        Err(error) => panic!("experiments/{error}"),
    });
    experiments.collect::<Vec<_>>().concat()
});

/// The shipped experiment of this name.
pub fn find(id: &str) -> Option<&'static Experiment> {
    EXPERIMENTS.iter().find(|experiment| experiment.id == id)
}

/// The shipped experiments that a name stands for: the one of this name, or all of this source.
pub fn matching(name: &str) -> Vec<&'static Experiment> {
    let of_source = |id: &str| id.strip_prefix(name).is_some_and(|rest| rest.starts_with('-'));
    EXPERIMENTS.iter().filter(|experiment| experiment.id == name || of_source(experiment.id)).collect()
}

/// The experiments of a user's file. Figures may be drawn from shipped tables too.
pub fn read(path: &Path) -> Result<&'static [Experiment], ReproduceError> {
    let origin = path.display().to_string();
    let io = |path: &Path, error| format!("cannot read {}: {error}", path.display());
    let file = std::fs::read_to_string(path).map_err(|error| ReproduceError::File(io(path, error)))?;
    let beside = |name: &str| {
        let path = path.parent().unwrap_or(Path::new("")).join(name);
        match std::fs::read_to_string(&path) {
            Ok(text) => Ok((path.display().to_string(), text)),
            Err(error) => shipped_file(name).map_err(|_| io(&path, error)),
        }
    };
    let experiments = parse(&origin, &file, &beside, &EXPERIMENTS).map_err(ReproduceError::File)?;
    Ok(experiments.leak())
}

/// A shipped file, as the shipped experiments name it: beside their folder.
fn shipped_file(name: &str) -> Result<(String, String), String> {
    let path = name.trim_start_matches("../");
    let text = shipped::find(path).ok_or_else(|| format!("there is no file {path}"))?;
    Ok((path.to_owned(), text.to_owned()))
}

/// Finds a file by the name it has in another, with the path it is known by.
type Reader<'a> = dyn Fn(&str) -> Result<(String, String), String> + 'a;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    /// Source that the experiments repeat; the path of the file if there is none.
    source: Option<String>,
    #[serde(default)]
    define: Table,
    experiment: Vec<Table>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    id: Text,
    title: Text,
    table: Option<TableSpec>,
    figure: Option<FigureSpec>,
    study: Option<StudySpec>,
}

fn parse(
    origin: &str,
    file: &str,
    read: &Reader<'_>,
    known: &[Experiment],
) -> Result<Vec<Experiment>, String> {
    let document: Document =
        toml::from_str(file).map_err(|error| format!("{origin}: {}", error.to_string().trim_end()))?;
    let source: &'static str = document.source.unwrap_or_else(|| origin.to_owned()).leak();
    let values = Definitions { define: &document.define, read };
    let mut experiments: Vec<Experiment> = Vec::new();
    for (at, table) in document.experiment.into_iter().enumerate() {
        let id = table.get("id").and_then(Value::as_str).map(str::to_owned);
        let id = id.unwrap_or_else(|| format!("number {}", at + 1));
        let wrong = |what: &dyn std::fmt::Display| format!("{origin}: experiment {id}: {what}");
        let table = values.resolved(Value::Table(table), 0).map_err(|what| wrong(&what))?;
        let entry: Entry = table.try_into().map_err(|error| wrong(&error.to_string().replace('\n', " ")))?;
        let experiment = entry.experiment(source).map_err(|what| wrong(&what))?;
        if experiments.iter().chain(known).any(|other| other.id == experiment.id) {
            return Err(wrong(&"another experiment has this id"));
        }
        experiments.push(experiment);
    }
    let tables: BTreeMap<&str, TableSpec> = experiments
        .iter()
        .chain(known)
        .filter_map(|experiment| match &experiment.shows {
            ExperimentKind::Table(table) => Some((experiment.id, *table)),
            _ => None,
        })
        .collect();
    let mut plans = BTreeMap::new();
    for experiment in &mut experiments {
        let wrong = |what: String| format!("{origin}: experiment {}: {what}", experiment.id);
        match &mut experiment.shows {
            ExperimentKind::Table(_) => {}
            ExperimentKind::Figure(figure) => figure.find_tables(&tables).map_err(wrong)?,
            ExperimentKind::Study(study) => {
                for plan in study.plans.0 {
                    if !is_name(plan.id.0) {
                        return Err(wrong(format!("the plan {:?} is no name of a folder", plan.id)));
                    }
                    if *plans.entry(plan.id.0).or_insert((plan.plan.path, plan.settings))
                        != (plan.plan.path, plan.settings)
                    {
                        return Err(wrong(format!("the plan {} is two things", plan.id)));
                    }
                }
            }
        }
    }
    Ok(experiments)
}

/// Returns true if a text may name a folder below `--out`.
fn is_name(id: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    !id.is_empty() && !id.starts_with('.') && id.chars().all(plain)
}

impl Entry {
    /// The experiment of a file about this source.
    fn experiment(self, source: &'static str) -> Result<Experiment, String> {
        let Entry { id, title, table, figure, study } = self;
        let shows = match (table, figure, study) {
            (Some(table), None, None) => ExperimentKind::Table(table),
            (None, Some(figure), None) => ExperimentKind::Figure(figure),
            (None, None, Some(study)) => ExperimentKind::Study(study),
            _ => return Err("has one of `table`, `figure` and `study`".to_owned()),
        };
        if !is_name(id.0) {
            return Err("its id is to be the name of a folder: letters, digits, '-', '_' and '.'".to_owned());
        }
        Ok(Experiment { id: id.0, title: title.0, source, shows })
    }
}

/// Definitions of a file, by name.
struct Definitions<'a> {
    define: &'a Table,
    read: &'a Reader<'a>,
}

impl Definitions<'_> {
    /// A value with everything in it that names something replaced by what it names.
    fn resolved(&self, value: Value, depth: usize) -> Result<Value, String> {
        if depth > MAX_NESTING_DEPTH {
            return Err("a definition under [define] refers to itself".to_owned());
        }
        match value {
            Value::String(name) if name.starts_with('$') => {
                let found = self.define.get(&name[1..]);
                let found = found.ok_or_else(|| {
                    let known: Vec<&str> = self.define.keys().map(String::as_str).collect();
                    format!("\"{name}\" is not defined; there are {}", known.join(", "))
                })?;
                self.resolved(found.clone(), depth + 1)
            }
            Value::String(name) if name.ends_with(".toml") || name.ends_with(".csv") => {
                let (path, text) = (self.read)(&name)?;
                Ok(Value::Table(
                    [("path".to_owned(), path.into()), ("text".to_owned(), text.into())]
                        .into_iter()
                        .collect(),
                ))
            }
            Value::Array(values) => {
                let values = values.into_iter().map(|value| self.resolved(value, depth + 1));
                Ok(Value::Array(values.collect::<Result<_, _>>()?))
            }
            Value::Table(mut table) => {
                let mut whole = match table.remove("use") {
                    None => Table::new(),
                    Some(used) => match self.resolved(used, depth + 1)? {
                        Value::Table(used) => used,
                        _ => return Err("`use` is to name a table that is defined".to_owned()),
                    },
                };
                for (key, value) in table {
                    whole.insert(key, self.resolved(value, depth + 1)?);
                }
                Ok(Value::Table(whole))
            }
            plain => Ok(plain),
        }
    }
}

const MAX_NESTING_DEPTH: usize = 32;
