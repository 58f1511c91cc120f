//! The plan: every run of a scenario file, each with its seed.

use carillon_core::Seeds;

use crate::scenario::{Point, Scenario, ScenarioError, ScenarioFile};

/// One run.
#[derive(Clone, Debug)]
pub struct Run {
    /// Which sweep point, in order.
    pub point: usize,
    /// Which replication of it.
    pub replication: u32,
    /// What is run.
    pub scenario: Scenario,
    /// Where its random streams come from. The same replication at another point has the same
    /// streams, so that points are compared under the same losses.
    pub seeds: Seeds,
}

/// All runs of a scenario file, points in order, replications within a point.
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
