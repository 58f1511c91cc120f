//! Published numbers for a result folder, found by the shipped table that its scenario repeats.

use serde_json::Value;

use super::experiment::ExperimentKind;
use super::files::EXPERIMENTS;
use super::published::PublishedTable;
use super::table::TableSpec;

/// Published values for the scenario of a result folder.
#[derive(Clone, Debug)]
pub struct PublishedValues<'a> {
    table: &'a TableSpec,
    numbers: PublishedTable,
}

impl PublishedValues<'_> {
    /// Finds the values by the name and document of a scenario. `None` if no table at hand has this scenario, or if
    /// it differs in more than its sweep, messages and runs.
    pub fn of(name: &str, scenario: &Value) -> Option<Self> {
        let tables = EXPERIMENTS.iter().filter_map(|experiment| match &experiment.shows {
            ExperimentKind::Table(table) => Some((experiment.id, table)),
            _ => None,
        });
        for (id, table) in tables {
            if id != name {
                continue;
            }
            // Tables and their scenarios have one name.
            let file = table.plan.scenario().ok()?;
            if file.name() == name && file.repeats(scenario) {
                return Some(PublishedValues { table, numbers: PublishedTable::read(table.published) });
            }
        }
        None
    }

    /// The published mean of a metric, in the metric's unit, at the point where keys have these values.
    pub fn mean(&self, metric: &str, value: impl Fn(&str) -> Option<f64>) -> Option<f64> {
        let quantity = self.table.quantities.iter().find(|quantity| quantity.metric.0 == metric)?;
        let keys = self.table.keys.iter();
        let keys = keys.map(|key| Some((key.column.0, value(key.scenario.0)? * key.scale)));
        let keys: Vec<(&str, f64)> = keys.collect::<Option<_>>()?;
        let record = self.numbers.record(keys.into_iter())?;
        Some(self.numbers.number(record, &format!("mean_{}", quantity.column))? / quantity.scale)
    }
}
