//! Tables of means by node: `receivers.csv`.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use carillon_core::NodeId;

use crate::metrics::{METRICS, SubjectKind};
use crate::table::{Cell, ColumnKind};

/// Table with a row for each run, node and metric, appended to as runs end.
#[derive(Debug)]
pub(super) struct NodeTable {
    pub kind: SubjectKind,
    out: BufWriter<File>,
}

impl NodeTable {
    /// Creates the empty table of a folder.
    pub fn create(dir: &Path, kind: SubjectKind) -> io::Result<Self> {
        Ok(NodeTable { kind, out: BufWriter::new(File::create(dir.join(file_name(kind)))?) })
    }

    /// Columns behind the swept keys.
    pub fn columns(kind: SubjectKind) -> [(&'static str, ColumnKind); 7] {
        [
            ("replication", ColumnKind::Integer),
            (kind.name(), ColumnKind::Integer),
            ("metric", ColumnKind::Text),
            ("n", ColumnKind::Integer),
            ("mean", ColumnKind::Real),
            ("min", ColumnKind::Real),
            ("max", ColumnKind::Real),
        ]
    }

    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// File to which lines are appended.
    pub fn out(&mut self) -> &mut impl Write {
        &mut self.out
    }
}

/// Name of the table of a kind of nodes.
pub(super) fn file_name(kind: SubjectKind) -> String {
    format!("{}s.csv", kind.name())
}

/// Removes the tables of earlier results.
pub(super) fn remove_tables(dir: &Path) -> io::Result<()> {
    for kind in SubjectKind::VARIANTS {
        match fs::remove_file(dir.join(file_name(kind))) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Kind of the nodes that the samples of a metric describe.
pub(super) fn kind_of(metric: &str) -> Option<SubjectKind> {
    METRICS.iter().find(|known| known.name == metric)?.subject_kind()
}

/// Statistics of the samples of each node. The memory grows with the number of nodes, not with that of samples.
#[derive(Debug, Default)]
pub(super) struct NodeStatistics(BTreeMap<NodeId, NodeSamples>);

/// Statistics of the samples of a node.
#[derive(Clone, Copy, Debug)]
struct NodeSamples {
    count: u64,
    sum: f64,
    min: f64,
    max: f64,
}

impl NodeStatistics {
    /// Adds samples with their nodes. Missing samples are skipped.
    pub fn add(&mut self, nodes: &[NodeId], values: &[f64]) {
        let present = nodes.iter().zip(values).filter(|(_, value)| !value.is_nan());
        for (&node, &value) in present {
            let none = NodeSamples { count: 0, sum: 0.0, min: f64::INFINITY, max: f64::NEG_INFINITY };
            let samples = self.0.entry(node).or_insert(none);
            samples.count += 1;
            samples.sum += value;
            samples.min = samples.min.min(value);
            samples.max = samples.max.max(value);
        }
    }

    /// Cells of each node from the node on, in ascending order of nodes.
    pub fn cells(self, metric: &Cell) -> impl Iterator<Item = [Cell; 6]> {
        self.0.into_iter().map(move |(node, NodeSamples { count, sum, min, max })| {
            // Rounding must not put the mean of equal samples beside them.
            let mean = (sum / count as f64).clamp(min, max);
            [node.0.into(), metric.clone(), Cell::count(count), mean.into(), min.into(), max.into()]
        })
    }
}
