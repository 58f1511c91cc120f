//! A scenario with helpers over UDP between network namespaces. Namespaces need root and ip(8).

use carillon_core::{Event, NodeId, Observer, ProtocolEntry, TraceEvent};
use carillon_lab::plan::Plan;
use carillon_lab::scenario::ScenarioFile;
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

/// Who has repaired something for others.
#[derive(Default)]
struct Repairs(Vec<NodeId>);

impl Observer for Repairs {
    fn event(&mut self, event: &TraceEvent) {
        if let Event::Forwarded { repair: true, .. } = event.event {
            self.0.push(event.node);
        }
    }
}

#[test]
fn a_chain_of_helpers_repairs_over_sockets() {
    if !can_make_namespaces() {
        return;
    }
    let file = ScenarioFile::parse_with("x.toml", SCENARIO, PROTOCOLS).expect("a scenario");
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
