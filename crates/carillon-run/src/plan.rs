//! The plan: every run of a scenario file, each with its seed.

use carillon_core::Seeds;

use crate::scenario::{Point, Scenario, ScenarioError, ScenarioFile};

/// Run of a plan: one scenario with one seed.
#[derive(Clone, Debug)]
pub struct Run {
    /// Which sweep point, in order.
    pub point: usize,
    /// Which replication of it.
    pub replication: u32,
    /// Scenario of the run.
    pub scenario: Scenario,
    /// Seeds of the random streams. The same replication has the same seeds at every point, so that points are
    /// compared under common random numbers.
    pub seeds: Seeds,
}

impl Run {
    /// The first run of a scenario file, which is the first one of its [`Plan`].
    pub fn first(file: &ScenarioFile) -> Result<Self, ScenarioError> {
        let point = file.points().into_iter().next().unwrap_or_default();
        let seeds = Seeds::new(file.seed()).replication(0);
        Ok(Run { point: 0, replication: 0, scenario: file.resolve(&point)?, seeds })
    }
}

/// Runs of a scenario file: points in order, the replications of each together.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The sweep points.
    pub points: Vec<Point>,
    /// The runs.
    pub runs: Vec<Run>,
}

impl Plan {
    /// The plan of a scenario file.
    pub fn new(file: &ScenarioFile) -> Result<Self, ScenarioError> {
        let points = file.points();
        let root = Seeds::new(file.seed());
        let mut runs = Vec::new();
        for (index, point) in points.iter().enumerate() {
            let scenario = file.resolve(point)?;
            for replication in 0..file.replications() {
                let seeds = root.replication(replication.into());
                runs.push(Run { point: index, replication, scenario: scenario.clone(), seeds });
            }
        }
        Ok(Plan { points, runs })
    }
}
