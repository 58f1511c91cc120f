//! Results of one run.

use std::time::Duration;

use super::error::RunError;
use crate::metrics::{self, MessageRecord, Recorder, SampleNodes, Samples};
use crate::plan::Run;

/// Results of a run.
#[derive(Clone, Debug)]
pub struct RunResult {
    /// Which sweep point.
    pub point: usize,
    /// Which replication of it.
    pub replication: u32,
    /// The messages, in the order of their completion.
    pub messages: Vec<MessageRecord>,
    /// The metrics.
    pub samples: Vec<Samples>,
    /// Nodes of the samples, for metrics of nodes that the scenario measures (`run.measure`).
    pub nodes: Vec<SampleNodes>,
    /// Steps of the simulation.
    pub steps: u64,
    /// Real time it took, if the supervisor knows it.
    pub wall: Duration,
}

impl RunResult {
    /// Result of a run that cannot begin and delivers nothing.
    pub(super) fn of_nothing(run: &Run) -> Result<RunResult, RunError> {
        let mut result = RunResult::new(run, Recorder::new(&run.scenario), true, 0, Duration::ZERO)?;
        result.samples.retain(|(metric, _)| *metric == "undelivered_share");
        result.nodes.clear();
        Ok(result)
    }

    /// Computes the results of a run, simulated or on a testbed: the metrics of the recorded trace, if the senders
    /// are `done`.
    pub fn new(
        run: &Run,
        recorder: Recorder,
        done: bool,
        steps: u64,
        wall: Duration,
    ) -> Result<Self, RunError> {
        let scenario = &run.scenario;
        let (messages, totals) = recorder.into_messages();
        if !done && !scenario.keeps_unfinished {
            let done = messages.len() as u64;
            let messages = scenario.workload.messages * u64::from(scenario.senders);
            return Err(match steps >= scenario.step_limit {
                true => RunError::Steps { steps, done, messages },
                false => RunError::Unfinished { limit: scenario.time_limit, done, messages },
            });
        }
        let (samples, nodes) = metrics::samples(scenario, &messages, totals);
        let Run { point, replication, .. } = *run;
        Ok(RunResult { point, replication, messages, samples, nodes, steps, wall })
    }
}
