//! Columns of the tables of a result folder, after the swept keys.

use crate::statistics::Summary;
use crate::table::ColumnKind;

/// Columns of the means of runs.
pub(super) const RUN_COLUMNS: [(&str, ColumnKind); 4] = [
    ("replication", ColumnKind::Integer),
    ("metric", ColumnKind::Text),
    ("n", ColumnKind::Integer),
    ("mean", ColumnKind::Real),
];

/// Columns of samples.
pub(super) const SAMPLE_COLUMNS: [(&str, ColumnKind); 4] = [
    ("replication", ColumnKind::Integer),
    ("metric", ColumnKind::Text),
    ("sample", ColumnKind::Integer),
    ("value", ColumnKind::Real),
];

/// Columns of the summary.
pub(super) fn summary_columns() -> Vec<(&'static str, ColumnKind)> {
    [("metric", ColumnKind::Text)].into_iter().chain(Summary::COLUMNS).collect()
}
