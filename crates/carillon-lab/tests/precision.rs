//! Sequential stopping (`run.precision`): points end once their means are precise enough.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use carillon_lab::results::{Contents, Existing, SweepError, SweepOptions, is_complete, run_into};
use carillon_lab::scenario::ScenarioFile;
use carillon_lab::statistics::Summary;

const SCENARIO: &str = r#"
name = "precision"
[network]
kind = "lan"
[loss]
model = "bernoulli"
p = 0.02
[protocol]
name = "msaw"
[workload]
messages = 200
message_bytes = 1518
[sweep]
"group.receivers" = [2, 5, 9]
[run]
replications = 12
"#;

const PRECISION: [(&str, &str); 2] =
    [("run.precision", "0.1"), ("run.precision_of", r#"["throughput_bps", "message_latency_s"]"#)];

/// Runs the sweep, until `most` runs have ended. Returns the number of runs that were made.
fn sweep(
    file: &ScenarioFile,
    dir: &Path,
    jobs: usize,
    existing: Existing,
    most: usize,
) -> Result<usize, SweepError> {
    let ended = AtomicUsize::new(0);
    let contents = Contents { samples: true, ..Contents::default() };
    let progress = |_| {
        ended.fetch_add(1, Ordering::Relaxed);
    };
    let stop = || ended.load(Ordering::Relaxed) >= most;
    let options = SweepOptions {
        contents,
        existing,
        threads: jobs.into(),
        testbed: None,
        shared: None,
        stop: &stop,
        progress: &progress,
    };
    run_into(file, dir, &options)?;
    Ok(ended.load(Ordering::Relaxed))
}

fn text(dir: &Path, name: &str) -> String {
    fs::read_to_string(dir.join(name)).unwrap()
}

fn tables(dir: &Path) -> Vec<Vec<u8>> {
    ["summary.csv", "runs.csv", "samples.parquet"].map(|name| fs::read(dir.join(name)).unwrap()).into()
}

/// Means of a metric at a point, one of each run, from the text of `runs.csv`.
fn means(runs: &str, point: &str, metric: &str) -> Vec<f64> {
    let rows = runs.lines().map(|line| line.split(',').collect::<Vec<_>>());
    rows.filter(|row| row[0] == point && row[2] == metric).map(|row| row[4].parse().unwrap()).collect()
}

/// Returns true if these means have a 95 % interval of at most 10 % to each side.
fn is_precise(means: &[f64]) -> bool {
    let found = Summary::of(&mut means.to_vec());
    found.ci95_high - found.mean <= 0.1 * found.mean
}

#[test]
fn points_end_at_the_first_run_with_the_precision() {
    let all = ScenarioFile::parse("precision.toml", SCENARIO).unwrap();
    let file = all.with_all(&PRECISION).unwrap();
    let (whole, ended) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    sweep(&all, whole.path(), 2, Existing::Keep, usize::MAX).unwrap();
    // One thread makes no run that turns out to be needless.
    let made = sweep(&file, ended.path(), 1, Existing::Keep, usize::MAX).unwrap();
    let (whole, runs) = (text(whole.path(), "runs.csv"), text(ended.path(), "runs.csv"));
    let mut numbers = Vec::new();
    for point in ["2", "5", "9"] {
        let of =
            |text: &str| ["throughput_bps", "message_latency_s"].map(|metric| means(text, point, metric));
        let (expected, found) = (of(&whole), of(&runs));
        let suffices = |&count: &usize| expected.iter().all(|means| is_precise(&means[..count]));
        let count = (3..=12).find(suffices).unwrap_or(12);
        assert_eq!(found, expected.map(|means| means[..count].to_vec()), "point {point}");
        numbers.push(count);
    }
    assert!(numbers.iter().any(|count| *count < 12) && numbers.iter().any(|count| *count > 3), "{numbers:?}");
    let manifest: serde_json::Value = serde_json::from_str(&text(ended.path(), "manifest.json")).unwrap();
    let done: usize = numbers.iter().sum();
    assert_eq!(made, done, "runs made");
    assert_eq!(
        (manifest["runs_done"].as_u64(), manifest["runs_left_out"].as_u64()),
        (Some(done as u64), Some(36 - done as u64))
    );
    assert!(is_complete(ended.path(), &file) && !is_complete(ended.path(), &all));
}

#[test]
fn tables_depend_neither_on_threads_nor_on_interrupts() {
    let file = ScenarioFile::parse("precision.toml", SCENARIO).unwrap().with_all(&PRECISION).unwrap();
    let dirs: [_; 3] = std::array::from_fn(|_| tempfile::tempdir().unwrap());
    let [one, three, resumed] = dirs.each_ref().map(|dir| dir.path());
    sweep(&file, one, 1, Existing::Keep, usize::MAX).unwrap();
    sweep(&file, three, 3, Existing::Keep, usize::MAX).unwrap();
    assert_eq!(tables(one), tables(three));
    let mut interrupts = 0;
    while sweep(&file, resumed, 2, Existing::Resume, 3).is_err() {
        interrupts += 1;
    }
    assert!(interrupts >= 3, "{interrupts}");
    assert_eq!(tables(one), tables(resumed));
    let steps = |dir| {
        serde_json::from_str::<serde_json::Value>(&text(dir, "manifest.json")).unwrap()["steps"].clone()
    };
    assert_eq!(steps(one), steps(three));
}

#[test]
fn wrong_precisions_are_refused_with_their_keys() {
    let file = ScenarioFile::parse("precision.toml", SCENARIO).unwrap();
    for (settings, expected) in [
        (vec![("run.precision", "0.05")], "`run.precision` needs run.precision_of"),
        (vec![("run.precision", "1.5"), PRECISION[1]], "`run.precision` is 1.5"),
        (vec![("run.precision", "nan"), PRECISION[1]], "`run.precision` is NaN"),
        (vec![PRECISION[1]], "`run.precision_of` needs run.precision"),
        (
            vec![PRECISION[0], ("run.precision_of", r#"["speed"]"#)],
            "`run.precision_of` \"speed\" is no metric",
        ),
    ] {
        let error = file.with_all(&settings).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

/// The interval of two runs is often narrow by chance, so a wide precision ends no point before its third run.
#[test]
fn every_point_has_at_least_three_runs() {
    let file = ScenarioFile::parse("precision.toml", SCENARIO).unwrap();
    let file = file.with_all(&[("run.precision", "0.9"), PRECISION[1]]).unwrap();
    let dir = tempfile::tempdir().unwrap();
    sweep(&file, dir.path(), 1, Existing::Keep, usize::MAX).unwrap();
    let runs = text(dir.path(), "runs.csv");
    assert_eq!(["2", "5", "9"].map(|point| means(&runs, point, "throughput_bps").len()), [3, 3, 3]);
}

/// A caller may want fewer runs than the precision asks for, as a notebook does for a quick look.
#[test]
fn fewer_replications_than_its_least_number_are_all_made() {
    let file = ScenarioFile::parse("precision.toml", SCENARIO).unwrap();
    let file = file.with_all(&[PRECISION[0], PRECISION[1], ("run.replications", "2")]).unwrap();
    let dir = tempfile::tempdir().unwrap();
    sweep(&file, dir.path(), 2, Existing::Keep, usize::MAX).unwrap();
    assert_eq!(means(&text(dir.path(), "runs.csv"), "5", "throughput_bps").len(), 2);
}
