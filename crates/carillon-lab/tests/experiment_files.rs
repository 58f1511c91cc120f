//! Experiment files: a user's own experiments run like the shipped ones, and errors in a file are reported.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use carillon_core::NoObserver;
use carillon_lab::plan::Run;
use carillon_lab::reproduce::{CheckVerdict, Experiment, Laboratory, Options, Outcome, ReproduceError, read};
use carillon_lab::results::{Existing, Testbed};
use carillon_lab::run::run_one;

const PLAN: &str = r#"name = "mine"
[network]
kind = "lan"
[group]
receivers = 2
[protocol]
name = "msaw"
[workload]
messages = 5
message_bytes = 1000
[sweep]
"group.receivers" = [2, 4]
"#;

const HEAD: &str = r#"[define]
receivers = { column = "receivers", label = "receivers", scenario = "group.receivers" }
latency = { column = "lat", label = "latency, ms", metric = "message_latency_s", scale = 1e3, digits = 2 }
"#;

const TABLE: &str = r#"[[experiment]]
id = "mine-1"
title = "A table of my own"
[experiment.table]
plan = "mine.toml"
published = { table = "mine.csv" }
keys = ["$receivers"]
quantities = ["$latency"]
published_samples = { packets = 5 }
tolerance = 0.1
"#;

const FIGURE: &str = r#"[[experiment]]
id = "mine-fig-1"
title = "And its figure"
figure.spread = { table = "mine-1", metric = "message_latency_s" }
"#;

fn experiments(text: &str) -> Result<&'static [Experiment], String> {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("mine.toml"), PLAN).unwrap();
    std::fs::write(dir.path().join("mine.csv"), "receivers,mean_lat\n2,900\n").unwrap();
    let measured = "group.receivers,metric,n,mean,sd,min,p25,p50,p75,p95,max,ci95_low,ci95_high\n\
        2,message_latency_s,3,0.5,0,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5\n";
    std::fs::write(dir.path().join("measured.csv"), measured).unwrap();
    std::fs::write(dir.path().join("all.toml"), text).unwrap();
    read(&dir.path().join("all.toml")).map_err(|error| error.to_string())
}

fn outcomes(experiments: &'static [Experiment]) -> Vec<Outcome> {
    outcomes_with(experiments, None)
}

fn outcomes_with(experiments: &'static [Experiment], testbed: Option<&Testbed<'_>>) -> Vec<Outcome> {
    let dir = tempfile::tempdir().unwrap();
    let mut laboratory = laboratory(dir.path(), testbed);
    experiments.iter().map(|experiment| laboratory.reproduce(experiment).unwrap()).collect()
}

fn laboratory<'a>(out: &'a Path, testbed: Option<&'a Testbed<'a>>) -> Laboratory<'a> {
    Laboratory::new(Options { testbed, ..options(out) })
}

fn options(out: &Path) -> Options<'_> {
    Options {
        jobs: 1,
        seed: None,
        messages: None,
        testbed: None,
        out,
        samples: true,
        existing: Existing::Keep,
        stop: &|| false,
        progress: &|_| {},
    }
}

/// Numbers of an outcome, without times.
fn shown(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Table(table) => format!("{:?}", table.rows),
        Outcome::Figure(figure) => format!("{figure:?}"),
        Outcome::Study(study) => format!("{:?}", study.sheets),
    }
}

#[test]
fn a_table_and_a_figure_of_ones_own_are_run_and_judged() {
    let outcomes = outcomes(experiments(&format!("{HEAD}{TABLE}{FIGURE}")).unwrap());
    let [Outcome::Table(table), Outcome::Figure(figure)] = &outcomes[..] else { panic!("{outcomes:?}") };
    assert_eq!((table.rows.len(), table.published_cells().count()), (2, 1));
    assert!(!outcomes[0].holds(), "900 ms are not what two receivers take: {table}");
    assert!(figure.series.iter().any(|series| series.name == "published mean"));
}

/// Text of six tables and a figure.
fn many() -> String {
    let table = |number: usize| TABLE.replace("mine-1", &format!("mine-{number}"));
    (1..=6).fold(HEAD.to_owned(), |text, number| text + &table(number)) + FIGURE
}

#[test]
fn experiments_run_ahead_are_run_once_and_passed_on_in_order() {
    let all: Vec<&Experiment> = experiments(&many()).unwrap().iter().collect();
    let reproduced = |jobs: usize| {
        let dir = tempfile::tempdir().unwrap();
        let (told, last) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let progress = |runs| {
            told.fetch_add(1, Ordering::Relaxed);
            last.store(runs, Ordering::Relaxed);
        };
        let mut laboratory = Laboratory::new(Options { jobs, progress: &progress, ..options(dir.path()) });
        let mut outcomes = Vec::new();
        laboratory
            .reproduce_each::<ReproduceError>(&all, &mut |experiment, outcome| {
                outcomes.push((experiment.id, shown(&outcome)));
                Ok(())
            })
            .unwrap();
        // Two points of each table, and none of the figure.
        assert_eq!((told.into_inner(), last.into_inner()), (12, 12), "{jobs} threads");
        outcomes
    };
    let (alone, ahead) = (reproduced(1), reproduced(3));
    assert_eq!(
        alone.iter().map(|(id, _)| *id).collect::<Vec<_>>(),
        all.iter().map(|of| of.id).collect::<Vec<_>>()
    );
    assert_eq!(alone, ahead);
}

#[test]
fn an_error_ahead_is_reported_in_its_turn() {
    let all: Vec<&Experiment> = experiments(&many()).unwrap().iter().collect();
    let dir = tempfile::tempdir().unwrap();
    // There is a file where the folder of the sixth table is to be.
    std::fs::write(dir.path().join("mine-6"), "").unwrap();
    let mut passed = Vec::new();
    let mut laboratory = Laboratory::new(Options { jobs: 2, ..options(dir.path()) });
    let result = laboratory.reproduce_each::<ReproduceError>(&all, &mut |experiment, _| {
        passed.push(experiment.id);
        Ok(())
    });
    assert!(result.unwrap_err().to_string().contains("mine-6"));
    assert_eq!(passed, ["mine-1", "mine-2", "mine-3", "mine-4", "mine-5"]);
}

#[test]
fn an_error_of_the_caller_ends_what_runs_ahead() {
    let all: Vec<&Experiment> = experiments(&many()).unwrap().iter().collect();
    let dir = tempfile::tempdir().unwrap();
    let mut laboratory = Laboratory::new(Options { jobs: 2, ..options(dir.path()) });
    let refused = || ReproduceError::File("refused".into());
    let result = laboratory.reproduce_each::<ReproduceError>(&all, &mut |_, _| Err(refused()));
    assert_eq!(result.unwrap_err().to_string(), "refused");
}

#[test]
fn stored_testbed_numbers_appear_beside_the_simulation() {
    let text = format!(
        "{HEAD}{TABLE}[experiment.table.testbed]\nsettings = {{ \"workload.message_bytes\" = \"1500\" }}\n\
         measured = \"measured.csv\"\nconditions = \"Two cores\"\n"
    );
    let experiments = experiments(&text).unwrap();
    let shown = |testbed: Option<&Testbed<'_>>| {
        let outcome = outcomes_with(experiments, testbed).remove(0);
        let Outcome::Table(table) = outcome else { panic!("{outcome:?}") };
        let cell = |at: usize| (table.rows[at].cells[0].value, table.rows[at].cells[0].testbed);
        (cell(0), cell(1), table.to_string())
    };
    let (two, four, text) = shown(None);
    assert_eq!((two.1, four.1), (Some(500.0), None), "milliseconds, and only where there is a row");
    assert!(text.contains("\"testbed\": Two cores."), "{text}");
    let testbed = |run: &Run| {
        assert_eq!(run.scenario.workload.message_bytes, 1500);
        run_one(run, &mut NoObserver).map_err(|error| error.to_string())
    };
    let (anew, other, text) = shown(Some(&testbed));
    assert_eq!((anew.0, other.0), (two.0, four.0), "the simulation is the same");
    assert!(anew.1.unwrap() > anew.0 && other.1.unwrap() > other.0, "longer messages take longer: {text}");
    assert!(text.contains("measured now") && !text.contains("Two cores"), "{text}");
    let failed = |_: &Run| Err("no namespaces".to_owned());
    let dir = tempfile::tempdir().unwrap();
    let mut laboratory = laboratory(dir.path(), Some(&failed));
    assert_eq!(laboratory.reproduce(&experiments[0]).unwrap_err().to_string(), "no namespaces");
}

/// A study of one claim, that these values are one at least.
fn claim(values: &str, more: &str) -> Outcome {
    let text = format!(
        "[[experiment]]\nid = \"mine-claims\"\ntitle = \"Claims\"\n[experiment.study]\nplans = [{{ id = \"mine\", plan = \"mine.toml\" }}]\n\
         [experiment.study.analysis.claims]\ntext = \"claims.csv\"\nchecks = [{{ id = \"C-1\", values = [{values}], rule = {{ at_least = 1.0 }} }}]\n{more}"
    );
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("mine.toml"), PLAN).unwrap();
    let claims = "id,section,claim,kind,protocols,metric,condition,low,high\nC-1,,It takes a second,,,,,1,\n";
    std::fs::write(dir.path().join("claims.csv"), claims).unwrap();
    std::fs::write(dir.path().join("all.toml"), text).unwrap();
    outcomes(read(&dir.path().join("all.toml")).unwrap()).remove(0)
}

#[test]
fn values_of_a_claim_are_numbers_of_each_plan_metric_and_place() {
    let measured = |values: &str| match claim(values, "") {
        Outcome::Study(study) => study.checks[0].measured.clone(),
        other => panic!("{other:?}"),
    };
    let latency = r#"of = ["mine"], metrics = ["message_latency_s"]"#;
    let at =
        |receivers: &str| measured(&format!("{{ {latency}, at = {{ \"group.receivers\" = {receivers} }} }}"));
    let (two, four) = (at("2"), at("4.0"));
    assert_ne!(two, four);
    assert_eq!(at("[4, 2]"), format!("{four}, {two}"));
    assert_eq!(at("3"), "NaN", "there is no such point");
    let both = r#"{ of = ["mine", "mine"], metrics = ["message_latency_s", "delivered"], at = { "protocol.name" = "msaw" } }"#;
    assert_eq!(measured(both), "NaN, NaN, NaN, NaN", "the protocol is not swept");
    let of = |more: &str| measured(&format!("{{ {latency}, {more}, at = {{ \"group.receivers\" = 2 }} }}"));
    assert_eq!(of("over = \"mine\""), "1.000");
    assert_eq!(of("less = \"mine\""), "0.00000");
    let taken = |take: &str| measured(&format!("{{ {latency}, take = {take} }}"));
    let mean = |text: &str| text.split(' ').next().unwrap().parse::<f64>().unwrap();
    let (place, greatest) = if mean(&two) > mean(&four) { ("2.000", two) } else { ("4.000", four) };
    assert_eq!(taken("{ arg_max = \"group.receivers\" }"), place);
    assert_eq!(taken("{ max_mean = \"group.receivers\" }"), greatest);
}

#[test]
fn a_claim_that_does_not_hold_fails_unless_it_is_expected_to() {
    let study = |more: &str| claim(r#"{ of = ["mine"], metrics = ["message_latency_s"] }"#, more);
    let verdict = |outcome: &Outcome| match outcome {
        Outcome::Study(study) => (study.checks[0].verdict, study.to_string()),
        other => panic!("{other:?}"),
    };
    let outcome = study("");
    assert!(!outcome.holds());
    assert_eq!(verdict(&outcome).0, CheckVerdict::DoesNotHold);
    let outcome = study("[[experiment.study.expected]]\nchecks = [\"C-1\"]\nreason = \"it is fast\"\n");
    assert!(outcome.holds());
    let (verdict, text) = verdict(&outcome);
    assert_eq!(verdict, CheckVerdict::ExpectedDeviation);
    assert!(text.contains("it is fast") && text.contains("1 do not and are known to"), "{text}");
}

#[test]
fn what_is_wrong_with_a_file_is_said_with_its_experiment() {
    let refused = |text: &str| experiments(text).unwrap_err();
    let with = |from: &str, to: &str| format!("{HEAD}{}", TABLE.replace(from, to));
    let error = refused(&with("$latency", "$latencies"));
    assert!(
        error.contains("experiment mine-1: \"$latencies\" is not defined; there are receivers, latency"),
        "{error}"
    );
    assert!(refused(&with("tolerance", "tolerances")).contains("tolerances"));
    assert!(refused(&with("mine.csv", "other.csv")).contains("other.csv"));
    assert!(refused(&with("mine-1", "../mine")).contains("the name of a folder"));
    assert!(refused(&with("mine-1", "segovia-4.1")).contains("another experiment has this id"));
    assert!(refused(&format!("{HEAD}{TABLE}{TABLE}")).contains("another experiment has this id"));
    assert!(refused(&FIGURE.replace("mine-1", "mine-2")).contains("there is no table mine-2"));
    assert!(
        refused(&format!("{HEAD}{TABLE}{}", FIGURE.replace("message_latency_s", "losses")))
            .contains("has no losses")
    );
    assert!(refused("[define]\na = \"$a\"\n[[experiment]]\nid = \"$a\"\n").contains("refers to itself"));
    assert!(
        refused("[[experiment]]\nid = \"x\"\ntitle = \"\"\n")
            .contains("one of `table`, `figure` and `study`")
    );
    assert!(read(Path::new("/nowhere/x.toml")).is_err());
}

#[test]
fn every_claim_that_was_collected_is_checked() {
    let sources = [
        (
            include_str!("../../../experiments/published/papadopoulos-claims.csv"),
            include_str!("../../../experiments/reproduce/papadopoulos.toml"),
        ),
        (
            include_str!("../../../experiments/published/paul-claims.csv"),
            include_str!("../../../experiments/reproduce/paul.toml"),
        ),
        (
            include_str!("../../../experiments/published/barcellos-claims.csv"),
            include_str!("../../../experiments/reproduce/barcellos.toml"),
        ),
        (
            include_str!("../../../experiments/published/johnstone-claims.csv"),
            include_str!("../../../experiments/reproduce/johnstone.toml"),
        ),
        (
            include_str!("../../../experiments/published/mtp-claims.csv"),
            include_str!("../../../experiments/reproduce/mtp.toml"),
        ),
        (
            include_str!("../../../experiments/published/johnstone-behaviour.csv"),
            include_str!("../../../experiments/reproduce/johnstone.toml"),
        ),
    ];
    for (collected, file) in sources {
        let ids: Vec<&str> = collected.lines().skip(1).filter_map(|line| line.split(',').next()).collect();
        let checked = |id: &&&str| file.matches(&format!("{{ id = \"{id}\"")).count() >= 1;
        assert_eq!(ids.iter().filter(checked).count(), ids.len());
    }
}
