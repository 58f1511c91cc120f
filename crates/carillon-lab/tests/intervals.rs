//! Confidence intervals over runs: identical scenarios agree, different ones do not.

use std::path::Path;

use carillon_lab::compare::{Difference, SummaryComparison};
use carillon_lab::results::{Contents, Existing, SweepOptions, run_into};
use carillon_lab::scenario::ScenarioFile;

/// Messages of one window share their latency, and a loss delays a whole window.
const SCENARIO: &str = r#"
name = "intervals"
[network]
kind = "lan"
bit_rate = "1 Mbit/s"
[loss]
model = "bernoulli"
p = 0.02
[group]
receivers = 3
[protocol]
name = "mbap"
window = 10
ack_wait = "22000 bit"
[workload]
messages = 60
message_bytes = 1518
[run]
replications = 4
"#;

fn run(dir: &Path, settings: &[(&str, &str)]) {
    let file = ScenarioFile::parse("intervals.toml", SCENARIO).unwrap().with_all(settings).unwrap();
    sweep(dir, &file);
}

fn sweep(dir: &Path, file: &ScenarioFile) {
    let options = SweepOptions {
        contents: Contents::default(),
        existing: Existing::Keep,
        threads: 1.into(),
        testbed: None,
        shared: None,
        stop: &|| false,
        progress: &|_| {},
    };
    run_into(file, dir, &options).unwrap();
}

/// Compares the cells of two scenarios, by metric.
fn compare(a: &[(&str, &str)], b: &[(&str, &str)]) -> Vec<(String, Difference)> {
    let dir = tempfile::tempdir().unwrap();
    let (a_dir, b_dir) = (dir.path().join("a"), dir.path().join("b"));
    run(&a_dir, a);
    run(&b_dir, b);
    let comparison = SummaryComparison::of(&a_dir, &b_dir).unwrap();
    comparison.rows.into_iter().map(|row| (row.metric, row.difference)).collect()
}

#[test]
fn seeds_alone_put_at_most_a_twentieth_apart() {
    let (mut pairs_apart, mut cells, mut cells_apart) = (0, 0, 0);
    for pair in 0..20 {
        let [a, b] = [2 * pair + 1, 2 * pair + 2].map(|seed: u64| seed.to_string());
        let differences = compare(&[("run.seed", &a)], &[("run.seed", &b)]);
        cells += differences.len();
        cells_apart += differences.iter().filter(|(_, differs)| *differs == Difference::Apart).count();
        let is_apart = |(metric, differs): &&(String, Difference)| {
            metric == "message_latency_s" && *differs == Difference::Apart
        };
        pairs_apart += differences.iter().filter(is_apart).count();
    }
    assert!(cells >= 200, "{cells} cells were compared");
    assert!(pairs_apart <= 1, "the latency of {pairs_apart} of 20 identical pairs is apart");
    assert!(20 * cells_apart <= cells, "{cells_apart} of {cells} cells are apart");
}

#[test]
fn scenarios_that_differ_in_loss_are_apart() {
    let differences = compare(&[], &[("loss.p", "0.1"), ("run.seed", "2")]);
    let latency = differences.iter().find(|(metric, _)| metric == "message_latency_s").unwrap();
    assert_eq!(latency.1, Difference::Apart);
}

#[test]
fn summary_has_the_interval_of_the_means_of_runs() {
    let dir = tempfile::tempdir().unwrap();
    let swept = format!("{SCENARIO}[sweep]\n\"group.receivers\" = [2, 3]\n");
    sweep(dir.path(), &ScenarioFile::parse("intervals.toml", &swept).unwrap());
    let read = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap();
    let (summary, runs) = (read("summary.csv"), read("runs.csv"));
    let mut compared = 0;
    for row in summary.lines().skip(1) {
        let cells: Vec<&str> = row.split(',').collect();
        let [receivers, metric] = [cells[0], cells[1]];
        let mut means: Vec<f64> = runs
            .lines()
            .map(|line| line.split(',').collect::<Vec<_>>())
            .filter(|run| run[0] == receivers && run[2] == metric)
            .filter_map(|run| run[4].parse().ok())
            .collect();
        let of_runs = carillon_lab::statistics::Summary::of(&mut means);
        assert_eq!(of_runs.n, 4, "{row}");
        let end = |at: usize| cells[at].parse::<f64>().unwrap();
        assert_eq!(
            (end(cells.len() - 2), end(cells.len() - 1)),
            (of_runs.ci95_low, of_runs.ci95_high),
            "{row}"
        );
        compared += 1;
    }
    assert!(compared >= 10, "{compared} rows");
}

#[test]
fn one_run_leaves_the_interval_empty() {
    let dir = tempfile::tempdir().unwrap();
    run(dir.path(), &[("run.replications", "1")]);
    let summary = std::fs::read_to_string(dir.path().join("summary.csv")).unwrap();
    let rows: Vec<&str> = summary.lines().skip(1).collect();
    assert!(rows.len() >= 5, "{summary}");
    assert!(rows.iter().all(|row| row.ends_with(",,")), "{summary}");
}
