//! Operations of the module.

use carillon_core::Observer;
use carillon_run::plan::Run;
use carillon_run::run::{RunResult, simulate};
use carillon_run::scenario::ScenarioFile;
use carillon_run::trace::recording::{Description, RecordedMetric};
use carillon_run::trace::{JsonLines, Recording};

use crate::error::{CallError, MAX_NODES_AND_LINKS};
use crate::limit::{EventLimit, StepLimit};
use crate::protocols;
use crate::request::RunRequest;

/// Operation of the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Lists the protocols with their parameters and states, as JSON.
    Protocols,
    /// Runs a scenario and returns the recording ([`Recording`]).
    Run,
    /// Runs a scenario and returns its trace in JSON, with the bytes that `carillon run --trace` writes.
    Trace,
    /// Returns the version of Carillon.
    Version,
}

impl Operation {
    /// Operation of this number.
    ///
    /// # Errors
    /// [`CallError::Operation`].
    pub fn of(number: u32) -> Result<Self, CallError> {
        match number {
            0 => Ok(Operation::Protocols),
            1 => Ok(Operation::Run),
            2 => Ok(Operation::Trace),
            3 => Ok(Operation::Version),
            _ => Err(CallError::Operation(number)),
        }
    }
}

/// Carries out an operation. Only runs have a request, in JSON.
///
/// # Errors
/// The request or its scenario is invalid, the network is too large, or the run has no result.
pub fn call(operation: Operation, request: &[u8]) -> Result<Vec<u8>, CallError> {
    match operation {
        Operation::Protocols => Ok(serde_json::to_vec(&protocols::all())?),
        Operation::Run => record(&RunRequest::parse(request)?),
        Operation::Trace => trace(&RunRequest::parse(request)?),
        Operation::Version => Ok(env!("CARGO_PKG_VERSION").into()),
    }
}

/// Recording of a run.
fn record(request: &RunRequest) -> Result<Vec<u8>, CallError> {
    let file = request.file()?;
    let run = first_run(&file)?;
    let limit = usize::try_from(request.max_events).unwrap_or(usize::MAX);
    let mut recording = Recording::of(&run.scenario, limit);
    let result = observe(&run, request.max_events, &mut recording)?;
    if result.is_none() {
        recording.mark_truncated();
    }
    let scenario = file.to_toml();
    let description = Description {
        seed: Some(file.seed()),
        scenario: Some(&scenario),
        files: file.text_inputs(),
        metrics: result.map_or_else(Vec::new, |result| RecordedMetric::means(&result.samples)),
    };
    Ok(recording.to_bytes(&description))
}

/// Trace of a run in JSON.
fn trace(request: &RunRequest) -> Result<Vec<u8>, CallError> {
    let run = first_run(&request.file()?)?;
    let mut bytes = Vec::new();
    let mut trace = JsonLines::new(&mut bytes).naming_frames(run.scenario.protocol.packets.format);
    observe(&run, request.max_events, &mut trace)?;
    trace.finish()?;
    Ok(bytes)
}

/// The first run of a scenario, if its network is not too large for a page.
fn first_run(file: &ScenarioFile) -> Result<Run, CallError> {
    let run = Run::first(file)?;
    let (nodes, links) = match run.scenario.network.graph() {
        Some(graph) => (graph.topology.nodes(), graph.topology.links().len()),
        None => (run.scenario.stations(), 0),
    };
    if nodes + links > MAX_NODES_AND_LINKS {
        return Err(CallError::TooLarge { nodes, links });
    }
    Ok(run)
}

/// Simulates a run up to its limits. `None` if a limit cut it off.
fn observe(run: &Run, max_events: u64, observer: &mut dyn Observer) -> Result<Option<RunResult>, CallError> {
    let mut limited = EventLimit::new(observer, max_events);
    let result = simulate(run, &mut limited, &mut StepLimit::default())?;
    Ok(result.filter(|_| !limited.is_exceeded()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCENARIO: &str = "name = \"x\"\n[network]\nkind = \"lan\"\n[loss]\nmodel = \"bernoulli\"\np = 0.1\n\
        [group]\nreceivers = 4\n[protocol]\nname = \"pgm\"\n[workload]\nmessages = 50\nmessage_bytes = 200\nrate = \"100 packet/s\"\n";

    fn request(more: &str) -> Vec<u8> {
        format!("{{\"scenario\": {}{more}}}", serde_json::to_string(SCENARIO).unwrap()).into()
    }

    fn lines(more: &str) -> Vec<String> {
        let bytes = call(Operation::Trace, &request(more)).unwrap_or_else(|error| panic!("{error}"));
        String::from_utf8(bytes).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn runs_depend_on_seed_and_settings() {
        let all = lines("");
        assert!(all.len() > 300, "{}", all.len());
        assert_eq!(all, lines(", \"seed\": 1"));
        assert_ne!(all, lines(", \"seed\": 2"));
        assert!(lines(", \"set\": {\"workload.messages\": \"5\"}").len() < all.len() / 2);
    }

    #[test]
    fn runs_end_at_the_limit_of_events() {
        let all = lines("");
        assert_eq!(lines(", \"max_events\": 100"), all[..100]);
        assert_eq!(lines(&format!(", \"max_events\": {}", all.len())), all);
    }

    #[test]
    fn large_groups_end_at_the_limit_too() {
        let begin = lines(", \"set\": {\"group.receivers\": \"20000\"}, \"max_events\": 1000");
        assert_eq!(begin.len(), 1000);
    }

    #[test]
    fn recordings_have_the_events_of_the_trace() {
        let all = lines("").len();
        for (max, count, truncated) in [(all, all, false), (all - 1, all - 1, true), (10, 10, true)] {
            let bytes = call(Operation::Run, &request(&format!(", \"max_events\": {max}"))).unwrap();
            carillon_run::trace::recording::check(&bytes).unwrap();
            let length = u32::from_le_bytes(bytes[8..12].try_into().unwrap()) as usize;
            let header: serde_json::Value = serde_json::from_slice(&bytes[12..12 + length]).unwrap();
            assert_eq!((&header["count"], &header["truncated"]), (&count.into(), &truncated.into()));
            assert_eq!(header["metrics"].as_array().unwrap().is_empty(), truncated);
            assert_eq!((&header["seed"], &header["protocol"]), (&1.into(), &"pgm".into()));
            assert!(ScenarioFile::parse("x.toml", header["scenario"].as_str().unwrap()).is_ok());
        }
    }

    #[test]
    fn errors_name_the_key_and_the_file() {
        let error = |request: &[u8]| call(Operation::Trace, request).expect_err("it is wrong").to_string();
        let unknown = request(", \"set\": {\"group.receivers\": \"-1\"}");
        assert!(error(&unknown).contains("`group.receivers`"), "{}", error(&unknown));
        assert!(error(&request(", \"sed\": 1")).contains("unknown field `sed`"));
        assert!(error(b"{}").contains("missing field `scenario`"));
        let graph = SCENARIO.replace("\"lan\"", "\"graph\"\ntopology = \"mine.edges\"");
        let graph = graph.replace("[group]\nreceivers = 4\n", "");
        let graph = serde_json::json!({ "scenario": graph }).to_string();
        assert!(error(graph.as_bytes()).contains("mine.edges"), "{}", error(graph.as_bytes()));
        let large = error(&request(", \"set\": {\"group.receivers\": \"200000\"}"));
        assert!(large.starts_with("the network has 200001 nodes and 0 links"), "{large}");
        assert_eq!(Operation::of(9).unwrap_err().to_string(), "there is no operation 9: give 0 to 3");
    }

    #[test]
    fn protocols_have_parameters_with_ranges_and_pages() {
        let bytes = call(Operation::Protocols, b"").unwrap();
        let all: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(all.as_array().unwrap().len(), carillon_proto::REGISTRY.len());
        let of = |name: &str| all.as_array().unwrap().iter().find(|entry| entry["name"] == name).unwrap();
        assert_eq!(of("saw")["page"], "protocols/msaw.md");
        let kinds = all.as_array().unwrap().iter().flat_map(|entry| entry["parameters"].as_array().unwrap());
        for parameter in kinds {
            let bounded = ["count", "size"].iter().any(|kind| parameter["type"] == *kind);
            assert_eq!(parameter["range"].is_array(), bounded, "{parameter}");
        }
    }
}
