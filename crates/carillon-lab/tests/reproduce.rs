//! The shipped experiments: well formed, and in agreement with their published numbers. The full
//! runs are `carillon reproduce`; here each has a tenth of their packets.

use carillon_lab::plan::Plan;
use carillon_lab::reproduce::{EXPERIMENTS, Experiment, Options, reproduce};
use carillon_lab::scenario::ScenarioFile;

#[test]
fn every_shipped_scenario_is_valid_and_named_after_its_experiment() {
    for experiment in EXPERIMENTS {
        let file = ScenarioFile::parse(experiment.id, experiment.plan).unwrap();
        assert_eq!(file.name(), experiment.id);
        assert!(!Plan::new(&file).unwrap().runs.is_empty());
    }
}

#[test]
fn published_means_lie_within_their_bounds() {
    for experiment in EXPERIMENTS {
        let plan = experiment.plan.replace("messages = 20000", "messages = 2000");
        assert_ne!(plan, experiment.plan);
        // A tenth of the packets: the simulated means scatter too, so the bounds are wider.
        let experiment =
            Experiment { plan: plan.leak(), tolerance: experiment.tolerance * 1.5, ..copy(experiment) };
        let options = Options { jobs: 2, seed: None, out: None, progress: &|_| {} };
        let comparison = reproduce(&experiment, &options).unwrap();
        assert!(comparison.rows.len() >= 12, "{}", experiment.id);
        assert!(comparison.holds(), "\n{comparison}");
        assert!(comparison.unicast_deviation.is_none_or(|deviation| deviation < 1e-9));
    }
}

fn copy(experiment: &Experiment) -> Experiment {
    Experiment { ..*experiment }
}
