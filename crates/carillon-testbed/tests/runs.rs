//! Scenarios over UDP between network namespaces. Namespaces need root and ip(8).

use carillon_core::{DropReason, Event, NodeId, Observer, ProtocolEntry, Time};
use carillon_lab::plan::Plan;
use carillon_lab::scenario::{Inputs, ScenarioFile};
use carillon_testbed::{Medium, run_one};
use carillon_testkit::{TREE, can_make_namespaces};

static PROTOCOLS: &[&ProtocolEntry] = &[&TREE];

const SCENARIO: &str = r#"name = "x"
[network]
kind = "lan"
[loss]
model = "bernoulli"
p = "5 %"
[group]
receivers = 3
helpers = [4, 5]
tree = 1
[protocol]
name = "test-tree"
[workload]
messages = 40
message_bytes = 1000
[run]
time_limit = "60 s"
"#;

/// Nodes that have repaired something for others.
#[derive(Default)]
struct Repairs(Vec<NodeId>);

impl Observer for Repairs {
    fn event(&mut self, _time: Time, node: NodeId, event: &Event) {
        if let Event::Forwarded { repair: true, .. } = *event {
            self.0.push(node);
        }
    }
}

#[test]
fn a_chain_of_helpers_repairs_over_sockets() {
    if !can_make_namespaces() {
        return;
    }
    let file =
        ScenarioFile::parse_with("x.toml", SCENARIO, Inputs::default(), PROTOCOLS).expect("a scenario");
    let run = Plan::new(&file).expect("a plan").runs.remove(0);
    let mut repairs = Repairs::default();
    let result = run_one(&run, Medium::Switched, &|| false, &mut repairs).expect("it comes to an end");
    let samples = |metric: &str| {
        result.samples.iter().find(|(name, _)| *name == metric).map(|(_, samples)| samples.clone())
    };
    assert_eq!(samples("undelivered_share"), Some(vec![0.0]));
    assert_eq!(samples("delivery_latency_s").map(|samples| samples.len()), Some(120), "of receivers only");
    assert!(repairs.0.contains(&NodeId(5)), "the lower one has repaired: {:?}", repairs.0);
    assert!(repairs.0.iter().all(|node| [NodeId(4), NodeId(5)].contains(node)));
}

/// Nodes with a fault injector that has dropped something.
#[derive(Default)]
struct Drops(Vec<NodeId>);

impl Observer for Drops {
    fn event(&mut self, _time: Time, node: NodeId, event: &Event) {
        if *event == (Event::Dropped { reason: DropReason::Injected }) {
            self.0.push(node);
        }
    }
}

#[test]
fn last_receiver_drops_set_share_on_either_medium() {
    if !can_make_namespaces() {
        return;
    }
    let scenario = SCENARIO
        .replace("model = \"bernoulli\"\np = \"5 %\"", "model = \"uniform\"\none_in = 5")
        .replace("helpers = [4, 5]\ntree = 1\n", "")
        .replace("test-tree", "xtp");
    let file = ScenarioFile::parse("x.toml", &scenario).expect("a scenario");
    let run = Plan::new(&file).expect("a plan").runs.remove(0);
    for medium in [Medium::Switched, Medium::Shared] {
        let mut drops = Drops::default();
        let result = run_one(&run, medium, &|| false, &mut drops).expect("it comes to an end");
        let undelivered = result.samples.iter().find(|(name, _)| *name == "undelivered_share");
        assert_eq!(undelivered.map(|(_, samples)| samples.as_slice()), Some(&[0.0][..]), "{medium:?}");
        // Of 40 messages and their repairs, at least one in 9.
        assert!(
            drops.0.len() >= 4 && drops.0.iter().all(|node| *node == NodeId(3)),
            "{medium:?}: {:?}",
            drops.0
        );
    }
}

#[test]
fn a_payload_is_as_long_as_it_was_said_to_be() {
    if !can_make_namespaces() {
        return;
    }
    // It just fits a frame.
    let scenario = SCENARIO
        .replace("p = \"5 %\"", "p = 0.0")
        .replace("helpers = [4, 5]\ntree = 1\n", "")
        .replace("test-tree\"", "xtp\"\nmaxdata = \"1440 byte\"")
        .replace("messages = 40\nmessage_bytes = 1000", "total_bytes = 14400\npayload_bytes = 1440");
    let file = ScenarioFile::parse("x.toml", &scenario).expect("a scenario");
    let run = Plan::new(&file).expect("a plan").runs.remove(0);
    let mut sent = Sent::default();
    run_one(&run, Medium::Shared, &|| false, &mut sent).expect("it comes to an end");
    assert_eq!(sent.0, [(NodeId(0), 1472); 10]);
}

/// First transmissions of messages: sender and bytes.
#[derive(Default)]
struct Sent(Vec<(NodeId, u32)>);

impl Observer for Sent {
    fn event(&mut self, _time: Time, node: NodeId, event: &Event) {
        if let Event::Sent { bytes, .. } = *event {
            self.0.push((node, bytes));
        }
    }
}
