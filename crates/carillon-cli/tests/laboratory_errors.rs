//! Mistakes with `carillon run`: each ends with exit code 2 and a line that says what would be valid. Existing
//! results are kept.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

const SCENARIO: &str = r#"name = "small"
[network]
kind = "lan"
[group]
receivers = 2
[protocol]
name = "msaw"
[workload]
messages = 5
message_bytes = 200
[run]
replications = 2
"#;

/// The exit code of `carillon run` in a folder, and its standard error.
fn run(dir: &Path, args: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_carillon")).arg("run").args(args).current_dir(dir).output();
    let output = output.expect("the program runs");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

fn folder(text: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("s.toml"), text).unwrap();
    dir
}

#[test]
fn resume_of_something_else_is_refused_and_keeps_the_results() {
    let dir = folder(SCENARIO);
    let dir = dir.path();
    assert_eq!(run(dir, &["s.toml", "--out", "out"]).0, Some(0));
    let before = fs::read(dir.join("out/summary.csv")).unwrap();
    for (args, differs) in [
        (&["--seed", "7"][..], "run.seed is not set there, 7 here"),
        (&["--set", "workload.messages=6"], "workload.messages is 5 there, 6 here"),
        (&["--set", "protocol.timeout=1 s"], "protocol.timeout is not set there, \"1 s\" here"),
    ] {
        let (code, stderr) = run(dir, &[&["s.toml", "--out", "out", "--resume"], args].concat());
        assert_eq!(code, Some(2), "{stderr}");
        assert!(stderr.contains(differs) && stderr.contains("--overwrite"), "{stderr}");
        assert_eq!(fs::read(dir.join("out/summary.csv")).unwrap(), before);
    }
    let (code, stderr) = run(dir, &["s.toml", "--out", "out", "--resume", "--seed", "1"]);
    assert!(code == Some(0) && stderr.contains("nothing is left to run"), "{stderr}");
    // Results of which nothing says what they are.
    fs::remove_file(dir.join("out/manifest.json")).unwrap();
    let (code, stderr) = run(dir, &["s.toml", "--out", "out", "--resume"]);
    assert!(code == Some(2) && stderr.contains("manifest.json is missing or unreadable"), "{stderr}");
    assert_eq!(fs::read(dir.join("out/summary.csv")).unwrap(), before);
}

#[test]
fn values_that_are_wrong_are_refused_with_what_is_valid() {
    let dir = folder(SCENARIO);
    let error = |line: &str, wrong: &str| {
        fs::write(dir.path().join("w.toml"), SCENARIO.replace(line, wrong)).unwrap();
        let (code, stderr) = run(dir.path(), &["w.toml", "--out", "w"]);
        assert_eq!(code, Some(2), "{wrong}: {stderr}");
        assert!(!dir.path().join("w").exists(), "{wrong} writes nothing");
        stderr
    };
    for (line, wrong, valid) in [
        ("replications = 2", "replications = 0", "w.toml:12: `run.replications` is 0: give 1 or more"),
        (
            "messages = 5",
            "messages = -5",
            "`messages`: invalid value: integer `-5`, expected a whole number of 1 or more",
        ),
        ("receivers = 2", "receivers = 2.5", "expected a whole number of 1 or more"),
        ("messages = 5", "messages = 5\nrate = 100", "100 has no unit: write \"100 packet/s\""),
        (
            "kind = \"lan\"",
            "kind = \"lan\"\nbit_rate = 10",
            "10 has no unit: expected a bit rate above zero with its unit, such as \"10 Mbit/s\"",
        ),
        (
            "replications = 2",
            "time_limit = 5",
            "5 has no unit: expected a span of time with its unit, such as \"20 ms\"",
        ),
        ("replications = 2", "step_limit = 0", "expected a whole number of 1 or more"),
        ("name = \"small\"", "name = 7", "expected text in quotes"),
        (
            "[run]",
            "[sweep]\n\"group.receivers\" = { from = 5, to = 60, step = 7 }\n[run]",
            "goes from 5 in steps of 7, which miss its end 60: write to = 54 or to = 61",
        ),
        (
            "[run]",
            "[loss]\nmodel = \"bernoulli\"\np = 0\n[sweep]\n\"loss.p\" = { from = 0.0, to = 0.1, step = 0.03 }\n[run]",
            "miss its end 0.1: write to = 0.09 or to = 0.12",
        ),
    ] {
        let stderr = error(line, wrong);
        assert!(stderr.contains(valid), "{wrong}: {stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
    }
    // A range that meets its end, in fractions too, is what it was.
    let swept = "[loss]\nmodel = \"bernoulli\"\np = 0\n[sweep]\n\"loss.p\" = { from = 0.0, to = 0.3, step = 0.1 }\n[run]";
    fs::write(dir.path().join("w.toml"), SCENARIO.replace("[run]", swept)).unwrap();
    assert_eq!(run(dir.path(), &["w.toml", "--out", "w"]).0, Some(0));
    // The key is named where there is no line.
    let (code, stderr) = run(dir.path(), &["s.toml", "--set", "loss.p=0", "--set", "workload.messages=-5"]);
    assert!(code == Some(2) && stderr.contains("`workload.messages`: invalid value"), "{stderr}");
}

#[test]
fn settings_that_need_each_other_may_come_in_any_order() {
    let dir = folder(SCENARIO);
    // A topology belongs to a graph, a graph needs one, and the file alone is missing its receivers.
    let (graph, tree) = ("network.kind=graph", "network.topology=binary-tree");
    let without = SCENARIO.replace("[group]\nreceivers = 2\n", "");
    fs::write(dir.path().join("s.toml"), without).unwrap();
    for order in [[graph, tree], [tree, graph]] {
        let (code, stderr) = run(dir.path(), &["s.toml", "--set", order[0], "--set", order[1]]);
        assert_eq!(code, Some(0), "{order:?}: {stderr}");
    }
}

#[test]
fn files_that_are_no_scenario_are_refused_for_what_they_are() {
    let dir = folder(SCENARIO);
    for (name, text, expected) in [
        ("s.tml", SCENARIO, "s.tml: looks like a scenario: give it a name that ends in .toml"),
        ("s.yaml", "network:\n  kind: lan\n", "s.yaml: is neither a scenario"),
        ("s.json", "{\"network\": {\"kind\": \"lan\"}}\n", "s.json: is neither a scenario"),
        ("empty", "", "empty: is neither a scenario"),
        ("bap.cmd", "PROT = BAP\n", "bap.cmd:1: unknown variable `PROT`"),
    ] {
        fs::write(dir.path().join(name), text).unwrap();
        let (code, stderr) = run(dir.path(), &[name]);
        assert!(code == Some(2) && stderr.contains(expected), "{name}: {stderr}");
    }
}

#[test]
fn killed_run_leaves_nothing_after_the_next_one() {
    let long = SCENARIO
        .replace("messages = 5", "messages = 2000")
        .replace("replications = 2", "replications = 2000");
    let dir = folder(&long);
    let (dir, out) = (dir.path(), dir.path().join("out"));
    let temporary = dir.join("tmp");
    fs::create_dir(&temporary).unwrap();
    let names = |dir: &Path| -> Vec<String> {
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().into_string().unwrap()).collect()
    };
    let is_under_way =
        |dir: &Path| fs::metadata(dir.join("runs.partial")).is_ok_and(|file| file.len() > 1000);
    let kill_when = |args: &[&str], is_under_way: &dyn Fn() -> bool| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_carillon"));
        command.args(["run", "s.toml", "--jobs", "1"]).args(args).current_dir(dir).env("TMPDIR", &temporary);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
        while !is_under_way() {
            assert_eq!(child.try_wait().unwrap(), None, "it ran to its end");
            sleep(Duration::from_millis(5));
        }
        child
    };
    let mut child = kill_when(&["--out", "out"], &|| is_under_way(&out));
    // Meanwhile the folder is not another process's.
    let (code, stderr) = run(dir, &["s.toml", "--out", "out", "--overwrite"]);
    assert!(
        code == Some(2) && stderr.contains("another process is running a sweep in this folder"),
        "{stderr}"
    );
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(names(&out).iter().any(|name| name.ends_with(".tmp")), "{:?}", names(&out));
    let mut child =
        kill_when(&[], &|| names(&temporary).iter().any(|name| is_under_way(&temporary.join(name))));
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(names(&temporary).len(), 1);

    // Another sweep is refused; the same with fewer runs is another one too.
    fs::write(dir.join("s.toml"), SCENARIO).unwrap();
    let (code, stderr) = run(dir, &["s.toml", "--out", "out", "--resume"]);
    assert!(code == Some(2) && stderr.contains("run.replications is 2000 there, 2 here"), "{stderr}");
    assert_eq!(run(dir, &["s.toml", "--out", "out", "--overwrite"]).0, Some(0));
    let mut left = names(&out);
    left.sort();
    assert_eq!(left, ["manifest.json", "runs.csv", "samples.parquet", "summary.csv", "summary.parquet"]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_carillon"));
    let output = command.args(["run", "s.toml"]).current_dir(dir).env("TMPDIR", &temporary).output().unwrap();
    assert!(output.status.success() && !output.stdout.is_empty());
    assert_eq!(names(&temporary), [""; 0], "nothing is left of the process that was killed");
}
