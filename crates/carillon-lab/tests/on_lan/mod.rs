//! Helpers shared by the tests of protocols among peers on the Ethernet.

use std::path::Path;

use carillon_core::NoObserver;
use carillon_lab::plan::Plan;
use carillon_lab::run::{RunResult, run_one};
use carillon_lab::scenario::ScenarioFile;

/// Runs messages of 1518 bytes with this loss at each interface; `group`, `protocol` and `workload` are
/// further lines of their sections.
pub fn run(group: &str, protocol: &str, loss: f64, messages: u32, workload: &str) -> RunResult {
    let text = format!(
        "name = \"x\"\n[network]\nkind = \"lan\"\n[loss]\nmodel = \"bernoulli\"\np = {loss}\n\
         [group]\n{group}\n[protocol]\n{protocol}\n\
         [workload]\nmessages = {messages}\nmessage_bytes = 1518\n{workload}\n"
    );
    let file = ScenarioFile::parse("x", &text).unwrap();
    run_one(&Plan::new(&file).unwrap().runs[0], &mut NoObserver).unwrap()
}

/// The mean of a metric.
pub fn mean(result: &RunResult, metric: &str) -> f64 {
    let (_, samples) = result.samples.iter().find(|(name, _)| *name == metric).unwrap();
    samples.iter().sum::<f64>() / samples.len() as f64
}

/// Checks that every shipped plan with this prefix is valid and named after its file, and that there are `count` of
/// them.
pub fn check_plans(prefix: &str, count: usize) {
    let plans = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/plans"));
    let mut found = 0;
    for entry in std::fs::read_dir(plans).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        if name.starts_with(prefix) {
            let file = ScenarioFile::parse(name, &std::fs::read_to_string(&path).unwrap()).unwrap();
            assert_eq!(file.name(), name);
            assert!(!Plan::new(&file).unwrap().runs.is_empty());
            found += 1;
        }
    }
    assert_eq!(found, count);
}
