//! Tables of a result folder, read back.

use std::path::Path;

use super::RUN_COLUMNS;
use crate::table::{ColumnKind, Table, TableError};

/// Reads the summary of a complete result folder: a row for each point and metric.
pub fn read_summary(dir: &Path) -> Result<Table, TableError> {
    Table::read_parquet(&dir.join("summary.parquet"))
}

/// Reads the means of the runs of a complete result folder: a row for each run and metric.
pub fn read_runs(dir: &Path) -> Result<Table, TableError> {
    let summary = read_summary(dir)?;
    // The swept keys are the columns before the metric, of the same types in both tables.
    let keys = summary.columns().take_while(|(name, _)| *name != "metric");
    let columns: Vec<(String, ColumnKind)> = keys
        .map(|(name, column)| (name.to_owned(), column.kind()))
        .chain(RUN_COLUMNS.map(|(name, kind)| (name.to_owned(), kind)))
        .collect();
    Table::read_csv(&dir.join("runs.csv"), &columns)
}
