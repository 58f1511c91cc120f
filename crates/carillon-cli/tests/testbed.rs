//! `carillon run --backend testbed`: the machines of a scenario over UDP between network namespaces. Namespaces need
//! root and ip(8). Without them each test prints a notice that it is skipped (`carillon_testkit::skip`).

use std::process::{Command, Output};

use carillon_testkit::{can_make_namespaces, sampling_step};

fn carillon(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_carillon"));
    command.args(["run"]).arg(scenario()).args(args).output().expect("the command runs")
}

fn scenario() -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/testbed.toml")
}

/// Mean, sample count and minimum of a metric.
fn metric(output: &Output, name: &str) -> (f64, u64, f64) {
    let text = String::from_utf8_lossy(&output.stdout);
    let row = text.lines().find(|line| line.starts_with(&format!("{name},")));
    let row = row.unwrap_or_else(|| panic!("no {name}: {text} {}", String::from_utf8_lossy(&output.stderr)));
    let fields: Vec<&str> = row.split(',').collect();
    (fields[2].parse().unwrap(), fields[1].parse().unwrap(), fields[4].parse().unwrap())
}

#[test]
fn a_model_of_the_shared_medium_carries_the_frames() {
    if !can_make_namespaces() {
        return;
    }
    let output = carillon(&["--backend", "testbed"]);
    // No medium of 1 Mbit/s carries a frame of 1518 bytes and three of 64 in less time.
    let (_, messages, least) = metric(&output, "message_latency_s");
    assert_eq!(messages, 20);
    assert!(least >= (1518.0 + 3.0 * 64.0) * 8.0 / 1e6, "{least}");
    assert_eq!(metric(&output, "delivery_latency_s").1, 60);
    assert_eq!(metric(&output, "undelivered_share").0, 0.0);
    assert!(metric(&output, "collisions_per_message").0 > 0.0, "three answer at once");
}

#[test]
fn a_bridge_carries_them_too_and_drivers_lose_some() {
    if !can_make_namespaces() {
        return;
    }
    let args = ["--backend", "testbed", "--medium", "switched", "--set", "loss.p=0.2"];
    // On a busy machine an answer may miss several timeouts.
    let patient = ["--set", "protocol.timeout=20 ms", "--set", "protocol.retransmission_limit=10000"];
    let output = carillon(&[&args[..], &patient].concat());
    assert_eq!(metric(&output, "message_latency_s").1, 20);
    assert_eq!(metric(&output, "collisions_per_message").0, 0.0);
    // A message and its acknowledgment both arrive with probability 0.8^2, so most messages are sent again.
    assert!(metric(&output, "retransmissions_per_message").0 > 0.0);
    assert_eq!(metric(&output, "undelivered_share").0, 0.0);
}

/// Settings with longer timeouts. The defaults assume a network with processors of its own; here processes share one,
/// and a member may miss several polls before it is scheduled.
const PATIENT: [(&str, &str); 4] = [
    ("timeout", "protocol.timeout=100 ms"),
    ("absent_polls", "protocol.absent_polls=1000"),
    ("retransmission_limit", "protocol.retransmission_limit=1000"),
    ("retries", "protocol.retries=1000"),
];

#[test]
fn every_protocol_runs_on_it() {
    if !can_make_namespaces() {
        return;
    }
    let listed =
        Command::new(env!("CARGO_BIN_EXE_carillon")).arg("protocols").arg("--json").output().unwrap();
    let protocols: serde_json::Value = serde_json::from_slice(&listed.stdout).expect("a list");
    for protocol in protocols.as_array().expect("a list").iter().step_by(sampling_step(3)) {
        let name = protocol["name"].as_str().expect("a name");
        let set = format!("protocol.name={name}");
        // Room for repairs of Chang and Maxemchuk, which have a header of 12 bytes more than messages.
        let room = "workload.message_bytes=1500";
        let mut args = vec!["--backend", "testbed", "--medium", "switched", "--set", &set, "--set", room];
        let parameters = protocol["parameters"].as_array().expect("parameters");
        for (parameter, set) in PATIENT {
            if parameters.iter().any(|one| one["name"] == parameter) {
                args.extend(["--set", set]);
            }
        }
        let output = carillon(&args);
        let undelivered = metric(&output, "undelivered_share").0;
        assert!(undelivered == 0.0 || protocol["repairs"] == false, "{name}: {undelivered}");
        // Every request names an existing member, since packets name members the same way at all hosts. Senders
        // without feedback complete no message.
        if protocol["confirmed"] == true {
            assert_eq!(metric(&output, "failed_messages").0, 0.0, "{name}");
        }
    }
}

#[test]
fn a_run_of_which_a_node_fails_is_over_and_says_why() {
    if !can_make_namespaces() {
        return;
    }
    let too_long = ["--set", "workload.message_bytes=4000", "--set", "run.time_limit=1000 s"];
    let output = carillon(&[&["--backend", "testbed", "--medium", "switched"], &too_long[..]].concat());
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("1472"), "{error}");
}

#[test]
fn what_a_testbed_cannot_do_is_said() {
    let output = carillon(&["--backend", "testbed", "--set", "group.receivers=5000"]);
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("at most 1000 nodes") || error.contains("needs root"), "{error}");
}
