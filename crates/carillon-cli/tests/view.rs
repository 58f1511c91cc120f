//! `carillon view`: the page of a scenario, a trace and a results folder.

use std::fs;
use std::path::Path;
use std::process::Command;

const SCENARIO: &str = r#"name = "small"
[network]
kind = "star"
latency = "5 ms"
[group]
receivers = 2
[loss]
model = "bernoulli"
p = 0.1
[protocol]
name = "pgm"
[workload]
messages = 5
message_bytes = 200
"#;

/// Page with a place for the recording.
const PAGE: &str = "<html>\n<!-- carillon-data -->\n</html>\n";

/// Runs the command without a screen; returns its exit code, standard output and standard error.
fn carillon(dir: &Path, args: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_carillon"));
    command.env("CARILLON_VIEW_PAGE", "page.html").env_remove("DISPLAY").env_remove("WAYLAND_DISPLAY");
    let output = command.args(args).current_dir(dir).output().expect("the program runs");
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("s.toml"), SCENARIO).unwrap();
    fs::write(dir.path().join("page.html"), PAGE).unwrap();
    dir
}

#[test]
fn scenario_trace_and_results_are_exported_and_files_are_kept() {
    let dir = folder();
    let dir = dir.path();
    for trace in ["s.carr", "s.jsonl", "s.pcapng", "s.nam"] {
        let (code, _, problem) = carillon(dir, &["run", "s.toml", "--trace", trace]);
        assert_eq!((code, problem.as_str()), (Some(0), ""), "{trace}");
    }
    assert_eq!(carillon(dir, &["run", "s.toml", "--out", "results"]).0, Some(0));
    for file in ["s.toml", "s.carr", "s.jsonl", "s.pcapng", "results"] {
        let (code, out, problem) = carillon(dir, &["view", file, "--export", "v.html", "--overwrite"]);
        assert_eq!((code, out.as_str(), problem.as_str()), (Some(0), "v.html\n", ""), "{file}");
        let page = fs::read_to_string(dir.join("v.html")).unwrap();
        assert!(page.contains("<script id=\"carillon-data\"") && page.contains("\"recording\":\""), "{file}");
        let has_scenario = page.contains("[workload]");
        assert_eq!(has_scenario, ["s.toml", "s.carr", "results"].contains(&file), "{file}");
    }
    let before = fs::read(dir.join("v.html")).unwrap();
    let (code, _, problem) = carillon(dir, &["view", "s.toml", "--export", "v.html"]);
    assert!(
        code != Some(0) && problem.contains("v.html exists") && problem.contains("--overwrite"),
        "{problem}"
    );
    assert_eq!(fs::read(dir.join("v.html")).unwrap(), before);
}

#[test]
fn page_without_a_screen_is_written_and_named() {
    let dir = folder();
    let (code, out, problem) = carillon(dir.path(), &["view", "s.toml"]);
    assert_eq!(code, Some(0), "{problem}");
    assert!(problem.contains("open this file"), "{problem}");
    let path = Path::new(out.trim());
    assert!(fs::read_to_string(path).unwrap().starts_with("<html>"));
    fs::remove_file(path).unwrap();
}

#[test]
fn mistakes_say_what_would_be_valid() {
    let dir = folder();
    let dir = dir.path();
    carillon(dir, &["run", "s.toml", "--trace", "s.jsonl"]);
    fs::write(dir.join("sweep.toml"), format!("{SCENARIO}[sweep]\n\"loss.p\" = [0.0, 0.1]\n")).unwrap();
    fs::create_dir(dir.join("empty")).unwrap();
    for (args, expected) in [
        (&["missing.toml"][..], "cannot read missing.toml"),
        (&["s.jsonl", "--seed", "1"], "need a scenario"),
        (&["s.jsonl", "--protocol", "pgn"], "no protocol \"pgn\"; known: "),
        (&["s.toml", "--protocol", "pgm"], "protocol.name=NAME"),
        (&["s.toml", "--set", "x"], "KEY=VALUE"),
        (&["sweep.toml"], "--set loss.p=VALUE"),
        (&["empty"], "empty has no results"),
        (&["page.html"], ".carr, .jsonl or .pcapng"),
    ] {
        let (code, out, problem) = carillon(dir, &[&["view"], args].concat());
        assert!(code != Some(0) && out.is_empty(), "{args:?}");
        assert!(problem.contains(expected), "{args:?}: {problem}");
    }
    fs::write(dir.join("page.html"), "<html></html>").unwrap();
    let (code, _, problem) = carillon(dir, &["view", "s.toml", "--export", "v.html"]);
    assert!(code != Some(0) && problem.contains("make page"), "{problem}");
    fs::remove_file(dir.join("page.html")).unwrap();
    let (_, _, problem) = carillon(dir, &["view", "s.toml"]);
    assert!(problem.contains("cannot read the page page.html"), "{problem}");
}
