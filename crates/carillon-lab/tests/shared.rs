//! Runs that several sweeps have are made once, and the results are those of sweeps by themselves.

use std::fs;
use std::path::Path;

use carillon_lab::results::{Contents, Existing, SharedRuns, SweepError, SweepOptions, run_into};
use carillon_lab::scenario::ScenarioFile;

/// Twelve runs at six points.
const WIDE: &str = r#"
name = "wide"
[network]
kind = "lan"
[loss]
model = "bernoulli"
p = 0.02
[protocol]
name = "mbap"
window = 1
[workload]
messages = 60
message_bytes = 1518
[sweep]
"protocol.window" = [1, 5]
"group.receivers" = [2, 5, 9]
[run]
replications = 2
"#;

/// Three of its points, with the keys in another order.
const NARROW: &str = r#"
name = "narrow"
source = "another"
[run]
replications = 2
[workload]
message_bytes = 1518
messages = 60
[protocol]
window = 5
name = "mbap"
[loss]
p = 0.02
model = "bernoulli"
[network]
kind = "lan"
[sweep]
"group.receivers" = [9, 2, 5]
"#;

fn parse(text: &str) -> ScenarioFile {
    ScenarioFile::parse("shared.toml", text).unwrap()
}

/// Runs a sweep. If it `may_run` nothing, its results are those that another one has made.
fn sweep(
    file: &ScenarioFile,
    dir: &Path,
    shared: Option<&SharedRuns>,
    may_run: bool,
) -> Result<(), SweepError> {
    let contents = Contents { samples: true, ..Contents::default() };
    let (existing, stop) = (Existing::Keep, || !may_run);
    let options = SweepOptions {
        contents,
        existing,
        threads: 2.into(),
        testbed: None,
        shared,
        stop: &stop,
        progress: &|_| {},
    };
    run_into(file, dir, &options).map(drop)
}

fn tables(dir: &Path) -> Vec<Vec<u8>> {
    let names = ["summary.csv", "runs.csv", "summary.parquet", "samples.parquet"];
    names.map(|name| fs::read(dir.join(name)).unwrap()).into()
}

#[test]
fn shared_runs_are_made_once_with_the_same_results() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let (wide, narrow) = (parse(WIDE), parse(NARROW));
    let shared = SharedRuns::of([&wide, &narrow], dir).unwrap();
    sweep(&wide, &dir.join("wide"), Some(&shared), true).unwrap();
    sweep(&narrow, &dir.join("narrow"), Some(&shared), false).expect("all of its runs were made");
    for (file, name) in [(&wide, "wide"), (&narrow, "narrow")] {
        sweep(file, &dir.join("alone"), None, true).unwrap();
        assert!(tables(&dir.join(name)) == tables(&dir.join("alone")), "{name}");
        fs::remove_dir_all(dir.join("alone")).unwrap();
    }
}

#[test]
fn more_replications_of_a_shared_point_are_made() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let (wide, more) = (parse(WIDE), parse(NARROW).with("run.replications", "3").unwrap());
    let shared = SharedRuns::of([&wide, &more], dir).unwrap();
    sweep(&wide, &dir.join("wide"), Some(&shared), true).unwrap();
    let error = sweep(&more, &dir.join("stopped"), Some(&shared), false).unwrap_err().to_string();
    assert!(error.starts_with("interrupted: 6 of 9 runs are done"), "{error}");
    sweep(&more, &dir.join("more"), Some(&shared), true).unwrap();
    sweep(&more, &dir.join("alone"), None, true).unwrap();
    assert!(tables(&dir.join("more")) == tables(&dir.join("alone")));
}

#[test]
fn runs_of_other_seeds_and_settings_are_not_shared() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let wide = parse(WIDE);
    for (key, value) in [("run.seed", "7"), ("loss.p", "0.03"), ("workload.messages", "61")] {
        let other = parse(NARROW).with(key, value).unwrap();
        let shared = SharedRuns::of([&wide, &other], dir).unwrap();
        sweep(&wide, &dir.join(key).join("wide"), Some(&shared), true).unwrap();
        let error = sweep(&other, &dir.join(key).join("other"), Some(&shared), false).unwrap_err();
        assert!(error.to_string().starts_with("interrupted: 0 of 6 runs are done"), "{key}: {error}");
    }
}

#[test]
fn runs_with_another_content_of_a_file_are_not_shared() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let origin = dir.join("mine.toml").to_string_lossy().into_owned();
    let text = |name: &str| {
        format!(
            "name = \"{name}\"\n[network]\nkind = \"graph\"\ntopology = \"mine.edges\"\n[protocol]\nname = \"pgm\"\n\
             [workload]\nmessages = 3\nmessage_bytes = 100\nrate = \"10 packet/s\"\n"
        )
    };
    fs::write(dir.join("mine.roles"), "nodes 3\nsource 0\nreceiver 1\nreceiver 2\n").unwrap();
    let parse = |name: &str| carillon_lab::inputs::parse(&origin, &text(name)).unwrap();
    let (first, second) = ("0 1 0.01\n1 2 0.01\n", "0 1 0.01\n1 2 0.02\n");
    fs::write(dir.join("mine.edges"), first).unwrap();
    let shared = SharedRuns::of([&parse("first"), &parse("second")], dir).unwrap();
    let run = |name: &str, edges: &str, may_run| {
        fs::write(dir.join("mine.edges"), edges).unwrap();
        sweep(&parse(name), &dir.join(name), Some(&shared), may_run)
    };
    run("first", first, true).unwrap();
    run("second", second, false).expect_err("it has another topology");
    run("third", first, false).expect("the topology of the first one");
}
