//! Entry of the registry: what a metric is, what it needs, and how it is taken.

use crate::metrics::need::Need;
use crate::metrics::of_run::Run;
use crate::metrics::subject::{Subject, SubjectKind};

/// A metric.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Its name in result tables.
    pub name: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// Unit of observation: the entity that one sample describes.
    pub sample: &'static str,
    /// The facts it needs; where one is not given there is no such metric, never a zero.
    pub needs: &'static [Need],
    /// Definition of the metric.
    pub definition: &'static str,
    /// Source of the definition.
    pub source: &'static str,
    /// Nodes that the samples describe.
    pub(super) subject: Subject,
    /// Computes the samples. Called once per run, so it may move long lists out of the run.
    pub(super) samples: fn(&mut Run<'_>) -> Vec<f64>,
}

impl Metric {
    /// Kind of the nodes that the samples describe; `None` if they describe no single node.
    pub fn subject_kind(&self) -> Option<SubjectKind> {
        self.subject.kind()
    }
}
