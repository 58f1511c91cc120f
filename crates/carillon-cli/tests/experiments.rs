//! The laboratory's commands on files of their own: what is written, what is kept, and what they exit with.

use std::path::Path;
use std::process::{Command, Output};

const SCENARIO: &str = r#"name = "small"
[network]
kind = "lan"
[group]
receivers = 2
[protocol]
name = "msaw"
[protocol.mbap]
window = 5
[workload]
messages = 10
message_bytes = 1000
[sweep]
"protocol.name" = ["msaw", "mbap"]
"group.receivers" = [2, 4]
"#;

fn carillon(dir: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_carillon")).args(arguments).current_dir(dir).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn results_are_drawn_and_not_replaced_without_being_asked() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    std::fs::write(dir.join("small.toml"), SCENARIO).unwrap();
    let run = ["run", "small.toml", "--out", "results"];
    assert!(carillon(dir, &run).status.success());
    let before = std::fs::read(dir.join("results/summary.csv")).unwrap();
    let refused = carillon(dir, &[&run[..], &["--seed", "7"]].concat());
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("--overwrite"), "{refused:?}");
    assert_eq!(std::fs::read(dir.join("results/summary.csv")).unwrap(), before);
    assert!(carillon(dir, &[&run[..], &["--seed", "7", "--overwrite"]].concat()).status.success());
    assert_ne!(std::fs::read(dir.join("results/summary.csv")).unwrap(), before);
    let manifest: serde_json::Value =
        serde_json::from_slice(&std::fs::read(dir.join("results/manifest.json")).unwrap()).unwrap();
    let points = manifest["points"].as_array().unwrap();
    assert_eq!((points.len(), &points[3]["at"]["group.receivers"]), (4, &"4".into()));
    assert_eq!((&points[3]["protocol"], &points[3]["settings"]["window"]), (&"mbap".into(), &"5".into()));

    let plot = carillon(dir, &["plot", "results", "--y", "message_latency_s", "--out", "figure"]);
    assert_eq!(text(&plot.stdout), "figure.svg\nfigure.png\n", "{plot:?}");
    assert!(std::fs::read(dir.join("figure.png")).unwrap().starts_with(b"\x89PNG"));
    let plot = carillon(dir, &["plot", "results", "--y", "message_latency_s", "--out", "figure.pdf"]);
    assert_eq!(text(&plot.stdout), "figure.pdf\n", "{plot:?}");
    assert!(std::fs::read(dir.join("figure.pdf")).unwrap().starts_with(b"%PDF"));
    let report = carillon(dir, &["report", "results"]);
    assert_eq!(text(&report.stdout), "results/report.html\n", "{report:?}");
    let page = std::fs::read_to_string(dir.join("results/report.html")).unwrap();
    let printed = carillon(dir, &["report", "results", "--out", "-"]);
    assert!(text(&printed.stdout) == page && page.contains("carillon run small.toml"));
    assert_eq!(carillon(dir, &["report", "nowhere"]).status.code(), Some(2));
    let metrics = carillon(dir, &["plot", "results"]);
    assert_eq!(metrics.status.code(), Some(2));
    assert!(text(&metrics.stderr).contains("message_latency_s"), "{metrics:?}");
}

#[test]
fn report_of_experiments_states_what_holds() {
    let dir = tempfile::tempdir().unwrap();
    let output = carillon(dir.path(), &["reproduce", "segovia-fig-4.1", "--report=page.html"]);
    assert!(text(&output.stdout).ends_with("to compare with.\npage.html\n"), "{output:?}");
    let page = std::fs::read_to_string(dir.path().join("page.html")).unwrap();
    assert!(page.contains("How much of each source holds") && page.contains("segovia-fig-4.1"));
    assert_eq!(carillon(dir.path(), &["reproduce", "segovia-4.1", "--all"]).status.code(), Some(2));
}

#[test]
fn a_command_file_leads_out_of_no_folder() {
    let dir = tempfile::tempdir().unwrap();
    let below = dir.path().join("below");
    std::fs::create_dir(&below).unwrap();
    for name in ["../stats", "/tmp/carillon-stats"] {
        std::fs::write(
            below.join("x.cmd"),
            format!(
                "STATSFILE = {name}\nPROTO = BAP\nSTARTRECS = 3\nENDRECS = 3\nINCRECS = 1\nBAPPKTIMEOUTMETHOD = formula\n\
             STARTBAPPKTIMEOUT = 1000\nSTARTBAPACKTIMEOUT = 95000\nSTARTBAPWIN = 1\nSTARTBAPRANDWAIT = 6000\n\
             STARTPKTS = 10\nREPETITIONS = 1\n"
            ),
        )
        .unwrap();
        let output = carillon(&below, &["run", "x.cmd"]);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(text(&output.stderr).contains("leads out of its folder"), "{output:?}");
        assert!(!dir.path().join("stats").exists());
    }
}

#[test]
fn what_is_outside_its_bounds_and_not_declared_is_exit_1() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    std::fs::write(dir.join("small.toml"), SCENARIO).unwrap();
    std::fs::write(dir.join("claims.csv"), "id,s,claim,k,p,m,c,low,high\nC,,slow,,,,,1,\n").unwrap();
    let study = r#"[[experiment]]
id = "mine"
title = "Mine"
[experiment.study]
plans = [{ id = "small", plan = "small.toml" }]
[experiment.study.analysis.claims]
text = "claims.csv"
checks = [{ id = "C", values = [{ of = ["small"], metrics = ["message_latency_s"] }], rule = { at_least = 1.0 } }]
"#;
    std::fs::write(dir.join("mine.toml"), study).unwrap();
    assert_eq!(carillon(dir, &["reproduce", "mine.toml"]).status.code(), Some(1));
    let expected = "[[experiment.study.expected]]\nchecks = [\"C\"]\nreason = \"it is fast\"\n";
    std::fs::write(dir.join("mine.toml"), study.to_owned() + expected).unwrap();
    let output = carillon(dir, &["reproduce", "mine.toml"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(text(&output.stdout).contains("it is fast"));
    assert!(text(&carillon(dir, &["reproduce", "--list", "mine.toml"]).stdout).starts_with("mine "));
}

#[test]
fn a_run_that_can_give_no_latency_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let routed = "name = \"one\"\n[network]\nkind = \"graph\"\ntopology = \"btree-h3\"\n[loss]\ndrop_one = \"source\"\n\
                  [protocol]\nname = \"pgm\"\ntxw_max_rte = \"10 Mbit/s\"\n[workload]\nmessage_bytes = 1000\n\
                  rate = \"10 packet/s\"\nstart = \"4 s\"\n";
    std::fs::write(dir.path().join("one.toml"), routed).unwrap();
    std::fs::write(dir.path().join("small.toml"), SCENARIO).unwrap();
    let said = |scenario: &str| {
        let output = carillon(dir.path(), &["run", scenario]);
        assert!(output.status.success(), "{output:?}");
        text(&output.stderr)
    };
    assert!(said("one.toml").contains("no delivery_latency_s at 1 of the points: with `loss.drop_one`"));
    assert!(!said("small.toml").contains("delivery_latency_s"));
}
