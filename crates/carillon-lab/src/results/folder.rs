//! Tables of a result folder, read back.

use std::path::Path;

use super::columns::RUN_COLUMNS;
use super::nodes::{NodeTable, file_name};
use crate::metrics::SubjectKind;
use crate::table::{ColumnKind, Table, TableError};

/// Reads the summary of a complete result folder: a row for each point and metric.
pub fn read_summary(dir: &Path) -> Result<Table, TableError> {
    Table::read_parquet(&dir.join("summary.parquet"))
}

/// Reads the means of the runs of a complete result folder: a row for each run and metric.
pub fn read_runs(dir: &Path) -> Result<Table, TableError> {
    read_keyed(dir, "runs.csv", &RUN_COLUMNS)
}

/// Reads the means of the nodes of a complete result folder: a row for each run, node and metric.
pub fn read_nodes(dir: &Path, kind: SubjectKind) -> Result<Table, TableError> {
    let (name, path) = (kind.name(), dir.join(file_name(kind)));
    if !path.exists() {
        let what = format!("the scenario does not measure {name}s (run.measure = [\"{name}s\"])");
        return Err(TableError::Malformed { path, what });
    }
    read_keyed(dir, &file_name(kind), &NodeTable::columns(kind))
}

/// Reads a CSV table with the swept keys before its own columns.
fn read_keyed(dir: &Path, name: &str, own: &[(&str, ColumnKind)]) -> Result<Table, TableError> {
    let summary = read_summary(dir)?;
    // The swept keys are the columns before the metric, of the same types in both tables.
    let keys = summary.columns().take_while(|(name, _)| *name != "metric");
    let columns: Vec<(String, ColumnKind)> = keys
        .map(|(name, column)| (name.to_owned(), column.kind()))
        .chain(own.iter().map(|&(name, kind)| (name.to_owned(), kind)))
        .collect();
    Table::read_csv(&dir.join(name), &columns)
}
