//! Sequential stopping: a point of a sweep needs no more runs once its means are precise enough (Law, Simulation
//! Modeling and Analysis, section 9.4.1: the relative precision of a mean).

use crate::metrics::METRICS;

use super::document::Run;

/// Precision at which a point needs no more runs (`run.precision` and `run.precision_of`).
#[derive(Clone, Debug, PartialEq)]
pub struct Precision {
    /// Largest half-width of the 95 % confidence interval over the means of runs, as a share of their mean.
    pub relative: f64,
    /// Names of the metrics that must be this precise.
    pub metrics: Vec<String>,
}

impl Precision {
    /// Runs that a point has before it may end early: the interval of two runs is often narrow by chance. The interval
    /// of three runs with a standard deviation of 20 % is as narrow as 5 % once in a hundred times.
    pub const MIN_RUNS: u32 = 3;

    /// Checks the keys of a scenario. The error has the key and what is wrong with it.
    pub(super) fn check(run: &Run) -> Result<(), (&'static str, String)> {
        let Some(relative) = run.precision else {
            return match run.precision_of.is_empty() {
                true => Ok(()),
                false => Err(("run.precision_of", "needs run.precision, such as 0.05".to_owned())),
            };
        };
        if !(relative > 0.0 && relative < 1.0) {
            return Err((
                "run.precision",
                format!("is {relative}: give a share between 0 and 1, such as 0.05"),
            ));
        }
        if run.precision_of.is_empty() {
            let what = "needs run.precision_of, a list of metrics, such as [\"throughput_bps\"]";
            return Err(("run.precision", what.to_owned()));
        }
        let is_known = |name: &&String| METRICS.iter().any(|metric| metric.name == **name);
        if let Some(unknown) = run.precision_of.iter().find(|name| !is_known(name)) {
            return Err((
                "run.precision_of",
                format!("{unknown:?} is no metric: the metrics have a page in the reference"),
            ));
        }
        Ok(())
    }
}
