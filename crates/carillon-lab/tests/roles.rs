//! Topology files of one's own: any order of lines, any numbers of nodes, and every protocol that runs on a routed
//! network.

use std::fs;
use std::path::Path;

use carillon_core::{NetworkKind, NoObserver, ProtocolEntry};
use carillon_lab::inputs;
use carillon_lab::plan::Plan;
use carillon_lab::run::{RunResult, run_one};
use carillon_proto::REGISTRY;

/// A router, node 3, between hosts 0, 1, 2 and 4.
const EDGES: &str = "0 3 1\n1 3 2\n2 3 3\n4 3 4\n";

/// Receivers out of order beside the same in ascending order, with the lowest, a middle and the highest number for
/// the source.
const ROLES: [(&str, &str); 4] = [
    (
        "nodes 5\nsource 0\nreceiver 4\nreceiver 2\nreceiver 1\n",
        "nodes 5\nsource 0\nreceiver 1\nreceiver 2\nreceiver 4\n",
    ),
    (
        "receiver 4\nreceiver 0\nnodes 5\nreceiver 1\nsource 2\n",
        "nodes 5\nsource 2\nreceiver 0\nreceiver 1\nreceiver 4\n",
    ),
    (
        "nodes 5\nreceiver 2\nreceiver 0\nreceiver 1\nsource 4\n",
        "nodes 5\nsource 4\nreceiver 0\nreceiver 1\nreceiver 2\n",
    ),
    ("nodes 5\nreceiver 4\nsource 1\nreceiver 0\n", "nodes 5\nsource 1\nreceiver 0\nreceiver 4\n"),
];

fn run(dir: &Path, entry: &ProtocolEntry, roles: &str) -> RunResult {
    fs::write(dir.join("m.edges"), EDGES).unwrap();
    fs::write(dir.join("m.roles"), roles).unwrap();
    let text = format!(
        "name = \"roles\"\n[network]\nkind = \"graph\"\ntopology = \"m.edges\"\n[protocol]\nname = \"{}\"\n\
         [workload]\nmessages = 3\nmessage_bytes = 200\nrate = \"10 packet/s\"\n[run]\ntime_limit = \"1 min\"\n",
        entry.name
    );
    let file = inputs::parse(dir.join("s.toml").to_str().unwrap(), &text).unwrap();
    run_one(&Plan::new(&file).unwrap().runs[0], &mut NoObserver).unwrap()
}

#[test]
fn every_protocol_runs_with_receivers_in_any_order() {
    let dir = tempfile::tempdir().unwrap();
    let mut tried = 0;
    for entry in REGISTRY.iter().filter(|entry| entry.networks.contains(&NetworkKind::Graph)) {
        for (turned, ascending) in ROLES {
            let [turned, ascending] = [turned, ascending].map(|roles| run(dir.path(), entry, roles));
            assert_eq!(turned.samples, ascending.samples, "{}", entry.name);
            let undelivered =
                ascending.samples.iter().find(|(name, _)| *name == "undelivered_share").unwrap();
            assert_eq!(undelivered.1, [0.0], "{}", entry.name);
            tried += 1;
        }
    }
    assert!(tried >= 4 * 15, "{tried} runs");
}

#[test]
fn errors_of_topology_files_name_the_file_and_the_line() {
    let dir = tempfile::tempdir().unwrap();
    let error = |edges: &str, roles: &str| {
        fs::write(dir.path().join("m.edges"), edges).unwrap();
        fs::write(dir.path().join("m.roles"), roles).unwrap();
        let text = "name = \"x\"\n[network]\nkind = \"graph\"\ntopology = \"m.edges\"\n[protocol]\nname = \"pgm\"\n\
                    [workload]\nmessages = 1\nmessage_bytes = 100\n";
        inputs::parse(dir.path().join("s.toml").to_str().unwrap(), text).unwrap_err().to_string()
    };
    for (edges, roles, expected) in [
        (EDGES, "nodes 5\nsource 0\nsource 1\nreceiver 2\n", "m.roles: line 3: a second source"),
        (EDGES, "nodes 5\nsource 0\nreceiver 0\n", "m.roles: line 3: node 0 is the source"),
        (EDGES, "nodes 5\nsource 0\nreceiver 9\n", "m.roles: line 3: node 9 is none of the 5"),
        (EDGES, "nodes 5\nsource 0\nreceiver one\n", "m.roles: line 3: `one` is no number of a node"),
        ("0 1 1\n0 2\n", "nodes 3\nsource 0\nreceiver 1\n", "m.edges: line 2: expected `node node delay_ms"),
    ] {
        let message = error(edges, roles);
        assert!(message.contains(expected), "{message}");
    }
}
