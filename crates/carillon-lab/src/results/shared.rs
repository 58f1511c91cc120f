//! Runs that several sweeps have: made once, and kept for the others.
//!
//! A run depends on its scenario and its seeds only. Two sweeps share a run if the documents of their points are equal,
//! whatever they sweep, and the run has the same number at both points. Results of shared runs wait in a temporary
//! file, since a run may have millions of samples.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use toml::{Table, Value};

use super::error::{ResultsError, io_at};
use super::hashes::file_hashes;
use super::journal::Journal;
use crate::plan::Plan;
use crate::run::RunResult;
use crate::scenario::{Point, ScenarioFile};

/// Runs that several sweeps have.
#[derive(Debug)]
pub struct SharedRuns {
    /// Points that several sweeps have: the index of the first run of each in `kept`, and how many follow.
    points: BTreeMap<Digest, (usize, u32)>,
    kept: Mutex<Kept>,
}

/// Digest of the document of a point.
type Digest = [u8; 32];

/// Results of the shared runs that were made.
#[derive(Debug)]
struct Kept {
    journal: Journal,
    /// Hashes of the files that the scenario of each run names.
    files: BTreeMap<usize, BTreeMap<String, String>>,
}

/// Shared runs of a plan.
pub(super) struct PlanRuns<'a> {
    shared: &'a SharedRuns,
    /// Index in `kept` of each run of the plan that is shared.
    runs: Vec<Option<usize>>,
    files: BTreeMap<String, String>,
}

impl SharedRuns {
    /// Finds the runs that at least two of these scenarios have. Their results will wait in a file without a name in
    /// this folder.
    pub fn of<'a>(
        scenarios: impl IntoIterator<Item = &'a ScenarioFile>,
        dir: &Path,
    ) -> Result<Self, ResultsError> {
        // Runs at each point, of the two sweeps that have most of them.
        let mut points: BTreeMap<Digest, [u32; 2]> = BTreeMap::new();
        for file in scenarios {
            let own: BTreeSet<Digest> = file.points().iter().map(|point| digest(file, point)).collect();
            for point in own {
                let [most, second] = points.entry(point).or_default();
                let runs = file.replications();
                (*most, *second) = ((*most).max(runs), (*second).max(runs.min(*most)));
            }
        }
        let mut count = 0;
        let shared = points.into_iter().filter(|(_, [_, second])| *second > 0).map(|(point, [_, runs])| {
            let first = count;
            count += runs as usize;
            (point, (first, runs))
        });
        let points = shared.collect();
        let journal = Journal::temporary(dir, count).map_err(io_at(dir))?;
        Ok(SharedRuns { points, kept: Mutex::new(Kept { journal, files: BTreeMap::new() }) })
    }

    /// Shared runs of a plan. Its files were read.
    pub(super) fn of_plan(&self, file: &ScenarioFile, plan: &Plan) -> PlanRuns<'_> {
        let points: Vec<_> =
            plan.points.iter().map(|point| self.points.get(&digest(file, point)).copied()).collect();
        let runs = plan.runs.iter().map(|run| {
            let (first, runs) = points[run.point]?;
            (run.replication < runs).then_some(first + run.replication as usize)
        });
        PlanRuns { shared: self, runs: runs.collect(), files: file_hashes(file) }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PlanRuns<'_> {
    /// The result of a run of the plan, if another sweep has made it.
    pub fn find(&self, run: usize) -> Option<RunResult> {
        let kept = &mut *self.shared.kept();
        let at = self.runs[run].filter(|at| kept.files.get(at) == Some(&self.files))?;
        // A result that cannot be read is made again.
        kept.journal.result(at).ok().flatten()
    }

    /// Keeps the result of a run for other sweeps, if it is shared.
    pub fn keep(&self, run: usize, result: &RunResult) {
        let Some(at) = self.runs[run] else { return };
        let kept = &mut *self.shared.kept();
        // Without room in the file the other sweeps make the run again.
        if kept.journal.append(at, result, false).is_ok() {
            kept.files.insert(at, self.files.clone());
        }
    }
}

/// Digest of everything on which the runs of a point depend, except for the contents of files.
fn digest(file: &ScenarioFile, point: &Point) -> Digest {
    let mut table = file.table_at(point);
    table.remove("name");
    table.remove("source");
    if let Some(Value::Table(run)) = table.get_mut("run") {
        run.retain(|key, _| !["replications", "precision", "precision_of"].contains(&key));
        if run.is_empty() {
            table.remove("run");
        }
    }
    let folder = Path::new(file.origin()).parent().unwrap_or(Path::new(""));
    let text = format!("{}\n{}", folder.display(), sorted(Value::Table(table)));
    *blake3::hash(text.as_bytes()).as_bytes()
}

/// A value with the keys of all its tables in ascending order: the order of a file says nothing.
fn sorted(value: Value) -> Value {
    match value {
        Value::Table(table) => {
            let keys: BTreeMap<String, Value> = table.into_iter().collect();
            let keys = keys.into_iter().map(|(key, value)| (key, sorted(value)));
            Value::Table(keys.collect::<Table>())
        }
        Value::Array(values) => Value::Array(values.into_iter().map(sorted).collect()),
        value => value,
    }
}
