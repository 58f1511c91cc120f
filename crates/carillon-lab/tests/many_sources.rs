//! Several sources in one group, for protocols with one sender.

use std::collections::BTreeMap;

use carillon_core::{Event, MessageId, NodeId, Observer, Time};
use carillon_lab::plan::Plan;
use carillon_lab::run::run_one;
use carillon_lab::scenario::ScenarioFile;

/// Deliveries of each receiver from each source.
#[derive(Default)]
struct Deliveries(BTreeMap<(NodeId, NodeId), Vec<u64>>);

impl Observer for Deliveries {
    fn event(&mut self, _: Time, node: NodeId, event: &Event) {
        if let Event::Delivered { source, message: MessageId(number) } = event {
            self.0.entry((node, *source)).or_default().push(*number);
        }
    }
}

/// Runs 30 messages of each of three sources, and returns the deliveries.
fn deliveries(network: &str, group: &str, protocol: &str) -> Deliveries {
    let text = format!(
        "name = \"x\"\n[network]\n{network}\n[loss]\nmodel = \"bernoulli\"\np = 0.05\n[group]\nsenders = 3\n{group}\n\
         [protocol]\n{protocol}\n[workload]\nmessages = 30\nmessage_bytes = 500\nrate = \"100 packet/s\""
    );
    let file = ScenarioFile::parse("x.toml", &text).unwrap_or_else(|error| panic!("{error}"));
    let plan = Plan::new(&file).unwrap_or_else(|error| panic!("{error}"));
    let mut deliveries = Deliveries::default();
    run_one(&plan.runs[0], &mut deliveries).unwrap_or_else(|error| panic!("{protocol}: {error}"));
    deliveries
}

/// Asserts that each member has the messages of all other sources, each once and in order.
fn check(name: &str, deliveries: &Deliveries, members: &[u32], sources: &[u32]) {
    for &member in members {
        for &source in sources.iter().filter(|&&source| source != member) {
            let got = deliveries.0.get(&(NodeId(member), NodeId(source)));
            assert_eq!(got, Some(&(0..30).collect()), "{name}: {member} from {source}");
        }
    }
    let expected = members.len() * sources.len() - sources.len();
    assert_eq!(deliveries.0.len(), expected, "{name}");
}

#[test]
fn every_member_receives_every_source_on_a_lan() {
    let (slow, selective) = ("status_interval = \"50 ms\"", "error_control = \"selective\"");
    for (protocol, helpers, setting) in [
        ("snr", "", slow),
        ("dsp", "helpers = [1]", slow),
        ("csp", "helpers = 1", slow),
        ("cp", "helpers = 1", slow),
        ("xtp", "", selective),
    ] {
        let group = format!("receivers = 5\n{helpers}");
        let settings = format!("name = \"{protocol}\"\n{setting}");
        let got = deliveries("kind = \"lan\"", &group, &settings);
        check(protocol, &got, &[0, 1, 2, 3, 4, 5], &[0, 1, 2]);
    }
}

/// The second and third source sit in the same region, behind its helper.
#[test]
fn every_member_receives_every_source_across_regions() {
    for (protocol, helpers) in [("dsp", "representatives"), ("csp", "exchanges"), ("cp", "exchanges")] {
        let group = format!("helpers = \"{helpers}\"");
        let network = "kind = \"graph\"\ntopology = \"tree\"\nfanout = \"2 x 3\"\nlink_rate = \"10 Mbit/s\"";
        let got = deliveries(network, &group, &format!("name = \"{protocol}\""));
        let members: Vec<u32> = std::iter::once(0).chain(got.0.keys().map(|(node, _)| node.0)).collect();
        let members: Vec<u32> = std::collections::BTreeSet::from_iter(members).into_iter().collect();
        assert_eq!(members.len(), 7);
        check(protocol, &got, &members, &[members[0], members[1], members[2]]);
    }
}

#[test]
fn protocols_with_one_sender_refuse_several() {
    let text = "name = \"x\"\n[network]\nkind = \"lan\"\n[group]\nreceivers = 3\nsenders = 2\n[protocol]\nname = \"msaw\"\n\
                [workload]\nmessages = 3\nmessage_bytes = 500";
    let file = ScenarioFile::parse("x.toml", text).and_then(|file| Plan::new(&file));
    let error = file.expect_err("msaw has one sender").to_string();
    assert!(error.contains("\"msaw\" has one sender"), "{error}");
}
