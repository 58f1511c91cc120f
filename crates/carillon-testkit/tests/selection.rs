//! Tests of the environment variables that select protocols and seeds: an unknown name fails the test and lists the
//! valid ones.

use std::process::Command;

use carillon_testkit::{Exercise, TREE, TestLocation, chosen, for_each_run, seeds};

/// Runs one of the ignored tests below with these variables; returns success and output.
fn run(test: &str, variables: &[(&str, &str)]) -> (bool, String) {
    let mut command = Command::new(std::env::current_exe().expect("this program has a path"));
    command.args(["--ignored", "--exact", test, "--nocapture"]);
    for name in ["CARILLON_PROTOCOL", "CARILLON_RUNS", "CARILLON_SEED", "CARILLON_FROM"] {
        command.env_remove(name);
    }
    let output = command.envs(variables.iter().copied()).output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    (output.status.success(), text.into_owned())
}

#[test]
fn unknown_protocol_fails_and_lists_the_valid_ones() {
    assert!(run("tries_the_tree", &[]).0);
    assert!(run("tries_the_tree", &[("CARILLON_PROTOCOL", TREE.name)]).0);
    let (passes, text) = run("tries_the_tree", &[("CARILLON_PROTOCOL", "tere")]);
    let expected = format!("CARILLON_PROTOCOL=tere: nothing has that name; valid are {}", TREE.name);
    assert!(!passes && text.contains(&expected), "{text}");
}

#[test]
fn no_runs_and_numbers_that_are_none_fail() {
    let (passes, text) = run("tries_the_tree", &[("CARILLON_RUNS", "0")]);
    assert!(!passes && text.contains("CARILLON_RUNS=0: expected 1 or more"), "{text}");
    let (passes, text) = run("tries_the_tree", &[("CARILLON_SEED", "one")]);
    assert!(!passes && text.contains("CARILLON_SEED=one: expected a whole number"), "{text}");
}

#[test]
fn runs_that_exercise_nothing_fail() {
    let (passes, text) = run("exercises_nothing", &[]);
    assert!(!passes && text.contains("runs exercised 0 datagrams, which is fewer than 1 each"), "{text}");
    let (passes, text) = run("has_no_protocol", &[]);
    assert!(!passes && text.contains("there is no protocol to try"), "{text}");
}

fn place(test: &'static str) -> TestLocation {
    TestLocation { package: "carillon-testkit", target: "selection", test }
}

#[test]
#[ignore = "run by the tests above"]
fn tries_the_tree() {
    assert_eq!(chosen(&[&TREE], [&TREE]).len(), 1);
    assert!(seeds(1).count() == 1);
}

#[test]
#[ignore = "run by the tests above"]
fn exercises_nothing() {
    let floor = Exercise { datagrams: 1, deliveries: 0, timers: 0 };
    for_each_run(place("exercises_nothing"), &[&TREE], &[&TREE], 2, floor, |_, _| Ok(()));
}

#[test]
#[ignore = "run by the tests above"]
fn has_no_protocol() {
    for_each_run(place("has_no_protocol"), &[&TREE], &[], 2, Exercise::default(), |_, _| Ok(()));
}
