//! Scenarios with helpers: places, trees, errors and metrics. The protocol is the small tree of the testkit.

use std::time::Duration;

use carillon_core::{
    Bytes, Dest, DropReason, Event, Helpers, MessageId, NoObserver, NodeId, Observer, ProtocolEntry, Time,
};
use carillon_lab::metrics::Recorder;
use carillon_lab::plan::{Plan, Run};
use carillon_lab::run::{RunResult, run_one};
use carillon_lab::scenario::{Inputs, Scenario, ScenarioFile};
use carillon_testkit::TREE;

/// Variants of the tree protocol: one that requires helpers, one with requests by receivers, one without helpers.
static HELPERS_REQUIRED: ProtocolEntry =
    ProtocolEntry { name: "needy", helpers: Helpers::Required(2), ..TREE };
static NAK_BASED: ProtocolEntry = ProtocolEntry {
    name: "asking",
    delivery: carillon_core::DeliveryProperties { confirmed: false, ..TREE.delivery },
    ..TREE
};
static WITHOUT_HELPERS: ProtocolEntry = ProtocolEntry { name: "alone", helpers: Helpers::None, ..TREE };
static PROTOCOLS: &[&ProtocolEntry] = &[&TREE, &HELPERS_REQUIRED, &NAK_BASED, &WITHOUT_HELPERS];

const LAN: &str = "kind = \"lan\"";
/// The source is 0, routers are 1 to 3 and 4 to 9, and 10 to 21 receive.
const GRAPH: &str = "kind = \"graph\"\ntopology = \"tree\"\nfanout = \"3 x 2 x 2\"";

fn file(network: &str, group: &str, protocol: &str) -> Result<ScenarioFile, String> {
    let lossy = if network == LAN { "p = \"2 %\"" } else { "p = \"3 %\"" };
    let receivers = if network == LAN { "receivers = 6\n" } else { "" };
    let text = format!(
        "name = \"x\"\n[network]\n{network}\n[loss]\nmodel = \"bernoulli\"\n{lossy}\n[group]\n{receivers}{group}\n\
         [protocol]\nname = \"{protocol}\"\nwait = \"300 ms\"\n[workload]\nmessages = 60\nmessage_bytes = 1000\n"
    );
    ScenarioFile::parse_with("x.toml", &text, Inputs::default(), PROTOCOLS).map_err(|error| error.to_string())
}

fn the_run(network: &str, group: &str, protocol: &str) -> Run {
    let file = file(network, group, protocol).expect("a scenario");
    Plan::new(&file).expect("a plan").runs.remove(0)
}

fn scenario(network: &str, group: &str) -> Scenario {
    the_run(network, group, "test-tree").scenario
}

/// Parents of these nodes; 0 is the sender.
fn parents(scenario: &Scenario, nodes: impl IntoIterator<Item = u32>) -> Vec<u32> {
    let parent = |node| scenario.helpers.parent(NodeId(node)).map_or(0, |parent| parent.0);
    nodes.into_iter().map(parent).collect()
}

#[test]
fn helpers_of_a_lan_stand_behind_the_receivers() {
    let flat = scenario(LAN, "helpers = 2");
    assert_eq!((flat.stations(), parents(&flat, 7..=8)), (9, vec![0, 0]));
    assert_eq!(parents(&flat, 1..=6), [7, 8, 7, 8, 7, 8]);
    assert_eq!(flat.helpers, scenario(LAN, "helpers = 2\ntree = \"flat\"").helpers);
    assert_eq!(flat.helpers, scenario(LAN, "helpers = [7, 8]").helpers);
    let chain = scenario(LAN, "helpers = 3\ntree = 1");
    assert_eq!((parents(&chain, 7..=9), parents(&chain, 1..=2)), (vec![0, 7, 8], vec![9, 9]));
    let list = scenario(LAN, "helpers = 3\ntree = [0, 1, 0]");
    assert_eq!((parents(&list, 7..=9), parents(&list, 1..=4)), (vec![0, 7, 0], vec![8, 9, 8, 9]));
    let all = scenario(LAN, "helpers = 2\ntree = [2, 0, 1, 1, 0, 2, 2, 2]");
    assert_eq!((parents(&all, 7..=8), parents(&all, 1..=6)), (vec![8, 0], vec![7, 7, 0, 8, 8, 8]));
}

#[test]
fn receivers_that_are_named_help_too() {
    let designated = scenario(LAN, "helpers = [2, 7]");
    assert_eq!(designated.only_helping().collect::<Vec<_>>(), [NodeId(7)]);
    assert_eq!(parents(&designated, 1..=7), [2, 0, 7, 2, 7, 2, 0]);
    assert_eq!(designated.members().len(), 6);
}

#[test]
fn helpers_of_a_routed_network_sit_where_its_tree_branches() {
    let upper = scenario(GRAPH, "helpers = 3");
    assert_eq!(parents(&upper, 1..=3), [0, 0, 0]);
    assert_eq!(parents(&upper, 10..=21), [1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3]);
    let all = scenario(GRAPH, "helpers = 9\ntree = \"path\"");
    assert_eq!(parents(&all, 4..=9), [1, 1, 2, 2, 3, 3]);
    assert_eq!(parents(&all, [10, 11, 12, 21]), [4, 4, 5, 9]);
    // Exchanges only beside the receivers; receivers at the third router are children of the source.
    let exchanges = scenario(GRAPH, "helpers = [4, 5, 6, 7]");
    assert_eq!(parents(&exchanges, [4, 7, 10, 17, 18, 21]), [0, 0, 4, 7, 0, 0]);
    let flat = scenario(GRAPH, "helpers = 2\ntree = \"flat\"");
    assert_eq!(parents(&flat, 10..=13), [1, 2, 1, 2]);
}

#[test]
fn errors_name_the_key_and_what_would_do() {
    let error = |network, group, protocol| {
        let error = file(network, group, protocol).expect_err("it is wrong");
        assert!(!error.contains('\n'), "an error is one line: {error}");
        error
    };
    for (network, group, protocol, what) in [
        (LAN, "helpers = 2", "alone", "`group.helpers` is 2: \"alone\" has no helpers"),
        (LAN, "", "needy", "`group.helpers` is 0: \"needy\" needs 2 at least"),
        (LAN, "helpers = 1", "needy", "`group.helpers` is 1: \"needy\" needs 2 at least"),
        (LAN, "helpers = -1", "test-tree", "-1 is neither a number of helpers nor a list of nodes"),
        (LAN, "helpers = 100000", "test-tree", "give 10000 at most"),
        (LAN, "helpers = [7, 7]", "test-tree", "names a node twice"),
        (LAN, "helpers = [0]", "test-tree", "names node 0: receivers are 1 to 6"),
        (LAN, "helpers = [9]", "test-tree", "names node 9: receivers are 1 to 6"),
        (LAN, "tree = 2", "test-tree", "`group.tree` requires helpers, and there are none"),
        (LAN, "helpers = 2\ntree = \"path\"", "test-tree", "a lan has none"),
        (LAN, "helpers = 2\ntree = \"tall\"", "test-tree", "\"tall\" is no tree"),
        (LAN, "helpers = 2\ntree = 0", "test-tree", "0 is no tree"),
        (LAN, "helpers = 2\ntree = [0]", "test-tree", "has 1 numbers: give 2"),
        (LAN, "helpers = 2\ntree = [0, 3]", "test-tree", "names helper 3: there are 2"),
        (LAN, "helpers = 2\ntree = [2, 1]", "test-tree", "turns to itself by way of others"),
        (GRAPH, "helpers = 10", "test-tree", "the multicast tree branches at 9 routers"),
        (GRAPH, "helpers = [0]", "test-tree", "nodes are 0 to 21, and 0 is the source"),
        (GRAPH, "helpers = [22]", "test-tree", "names node 22: nodes are 0 to 21"),
    ] {
        let error = error(network, group, protocol);
        assert!(error.contains(what), "{group}: {error}");
    }
}

/// Observer of the nodes that send to the sender, and of the number of repairs from other nodes.
#[derive(Default)]
struct RepairObserver {
    to_sender: Vec<NodeId>,
    repairs: Vec<NodeId>,
}

impl Observer for RepairObserver {
    fn event(&mut self, _time: Time, node: NodeId, event: &Event) {
        if let Event::Forwarded { repair: true, .. } = *event {
            self.repairs.push(node);
        }
    }

    fn datagram(&mut self, _time: Time, from: NodeId, to: &Dest, _bytes: &Bytes) {
        if *to == Dest::Node(NodeId(0)) {
            self.to_sender.push(from);
        }
    }
}

fn samples<'a>(result: &'a RunResult, metric: &str) -> &'a [f64] {
    &result.samples.iter().find(|(name, _)| *name == metric).expect("the metric is given").1
}

#[test]
fn everything_is_delivered_by_helpers_on_both_kinds_of_network() {
    for (network, group, receivers) in [
        (LAN, "helpers = 2", 6),
        (LAN, "helpers = [1, 7, 8]\ntree = 1", 6),
        (GRAPH, "helpers = 3", 12),
        (GRAPH, "helpers = 9", 12),
        (GRAPH, "helpers = [10, 4]\ntree = [0, 1]", 12),
    ] {
        let run = the_run(network, group, "test-tree");
        let mut watch = RepairObserver::default();
        let result = run_one(&run, &mut watch).expect("it comes to an end");
        assert_eq!(samples(&result, "undelivered_share"), [0.0], "{group}");
        assert_eq!(samples(&result, "delivery_latency_s").len(), 60 * receivers, "{group}: receivers only");
        let own = run.scenario.helpers.children_of_sender(&run.scenario.members());
        assert!(watch.to_sender.iter().all(|from| own.contains(from)), "{group}");
        assert!(!watch.repairs.is_empty(), "{group}: helpers have repaired");
        // The second run repeats the first.
        let again = run_one(&run, &mut NoObserver).expect("it comes to an end");
        assert_eq!(format!("{:?}", again.samples), format!("{:?}", result.samples), "{group}");
    }
}

/// Helpers are members of the group: without loss there is nothing to repair.
#[test]
fn helpers_hear_the_group() {
    for (network, group) in [(LAN, "helpers = 2"), (GRAPH, "helpers = 9")] {
        let file = file(network, group, "test-tree").and_then(|file| {
            file.with_all(&[("loss.p", "0 %"), ("protocol.wait", "2 s")]).map_err(|error| error.to_string())
        });
        let run = Plan::new(&file.expect("a scenario")).expect("a plan").runs.remove(0);
        let mut watch = RepairObserver::default();
        let result = run_one(&run, &mut watch).expect("it comes to an end");
        assert_eq!(watch.repairs, []);
        assert!(samples(&result, "retransmissions_per_message").iter().all(|count| *count == 0.0), "{group}");
    }
}

#[test]
fn a_helper_is_nobodys_receiver() {
    let run = the_run(GRAPH, "helpers = 3", "asking");
    let mut recorder = Recorder::new(&run.scenario);
    let mut tell = |node: u32, event: Event| {
        recorder.event(Time::ZERO, NodeId(node), &event);
    };
    let (source, message) = (NodeId(0), MessageId(0));
    // A helper and a receiver miss the same message.
    for node in [1, 10] {
        tell(node, Event::LossFound { source: Some(source), message });
        tell(node, Event::LossRepaired { source, message });
        tell(node, Event::Dropped { reason: DropReason::Duplicate });
        tell(node, Event::Requested { source, message });
    }
    tell(0, Event::FrameLost { receiver: None, original: true });
    let result = RunResult::new(&run, recorder, true, 0, Duration::ZERO).expect("it is done");
    assert_eq!(samples(&result, "recovery_latency_s").len(), 1);
    assert_eq!(samples(&result, "requests_per_loss"), [1.0]);
    assert_eq!(samples(&result, "exposure"), [1.0 / 12.0]);
}

/// The children of a dead helper wait until its parent detects the death, or until the endpoints are notified.
#[test]
fn dead_helper_stalls_children_until_they_change_parent() {
    let measured = |death: &str, protocol: &str| {
        let text = format!(
            "name = \"x\"\n[network]\n{GRAPH}\nlink_rate = \"100 Mbit/s\"\n[group]\nhelpers = \"exchanges\"\nhelpers_if_any = true\n{death}\n\
             [protocol]\nname = \"{protocol}\"\nprofile = \"delivery\"\n[workload]\nmessages = 600\nmessage_bytes = 500\n\
             rate = \"100 packet/s\"\n[loss]\nmodel = \"bernoulli\"\nlinks = \"last\"\np = 0.02\n\
             [run]\ntime_limit = \"30 s\"\nunfinished = \"keep\""
        );
        let file = ScenarioFile::parse("x.toml", &text).map_err(|error| error.to_string())?;
        let result = run_one(&Plan::new(&file).unwrap().runs[0], &mut NoObserver).unwrap();
        let of = |name: &str| result.samples.iter().find(|(metric, _)| *metric == name).map(|(_, of)| of[0]);
        Ok::<_, String>((of("longest_wait_s"), of("undelivered_share")))
    };
    assert_eq!(measured("", "prmp"), Ok((None, Some(0.0))), "nobody dies");
    assert_eq!(measured("helper_dies = \"1 s\"", "rra"), Ok((None, Some(0.0))), "it has none that could");
    let (wait, undelivered) = measured("helper_dies = \"1 s\"", "prmp").unwrap();
    assert!(undelivered == Some(0.0) && (1.0..4.0).contains(&wait.unwrap()), "{wait:?} {undelivered:?}");
    // The parent of the dead helper waits for ever for its reports.
    let untold = measured("helper_dies = \"1 s\"", "csp").unwrap().1.unwrap();
    let (wait, undelivered) = measured("helper_dies = \"1 s\"\ndeath_told = \"2 s\"", "csp").unwrap();
    assert!(
        untold > 0.0 && undelivered == Some(0.0) && wait.unwrap() > 1.0,
        "{untold} {wait:?} {undelivered:?}"
    );
    let told = measured("death_told = \"2 s\"", "csp").unwrap_err();
    assert!(told.contains("`group.death_told` belongs to group.helper_dies"), "{told}");
}
