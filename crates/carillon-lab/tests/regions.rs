//! Trees of different regions: resolved values, helpers and errors.

use carillon_core::{NoObserver, NodeId, ProtocolEntry};
use carillon_lab::plan::Plan;
use carillon_lab::run::{RunResult, run_one};
use carillon_lab::scenario::{Inputs, Scenario, ScenarioFile};
use carillon_testkit::TREE;

/// The source is 0, the backbone 1; exchanges are 2 and 3, and 4 and 5 below 2; 6 receives at 2, 7 to 9 at 3, 10 at
/// 4, and 11 and 12 at 5.
const REGIONS: &str = "regions = [
    { round_trip = \"10 ms\", rate = \"15 Mbit/s\", endpoints = 1, regions = [
        { round_trip = \"4 ms\", local_round_trip = \"2 ms\", endpoints = 1 },
        { round_trip = \"6 ms\", local_round_trip = \"0 ms\", endpoints = 2 },
    ] },
    { round_trip = \"60 ms\", endpoints = 3, p = 0.5, uplink_p = 0.25 },
]";

static PROTOCOLS: &[&ProtocolEntry] = &[
    &TREE,
    &carillon_proto::protocols::srm::ENTRY,
    &carillon_proto::protocols::lms::ENTRY,
    &carillon_proto::protocols::pgm::ENTRY,
];

fn parse(network: &str, rest: &str, protocol: &str) -> Result<ScenarioFile, String> {
    let text = format!(
        "name = \"x\"\n[network]\nkind = \"graph\"\ntopology = \"tree\"\n{network}\n{rest}\n[protocol]\n\
         name = \"{protocol}\"\n[workload]\nmessages = 40\nmessage_bytes = 1000\nrate = \"10 packet/s\"\nstart = \"4 s\"\n"
    );
    ScenarioFile::parse_with("x.toml", &text, Inputs::default(), PROTOCOLS).map_err(|error| error.to_string())
}

fn scenario(network: &str, rest: &str) -> Scenario {
    let file = parse(network, rest, "test-tree").unwrap_or_else(|error| panic!("{error}"));
    Plan::new(&file).expect("a plan").runs.remove(0).scenario
}

fn run(network: &str, rest: &str, protocol: &str) -> RunResult {
    let file = parse(network, rest, protocol).unwrap_or_else(|error| panic!("{error}"));
    let plan = Plan::new(&file).expect("a plan");
    run_one(&plan.runs[0], &mut NoObserver).unwrap_or_else(|error| panic!("{error}"))
}

fn samples<'a>(result: &'a RunResult, metric: &str) -> &'a [f64] {
    &result.samples.iter().find(|(name, _)| *name == metric).expect("the metric is given").1
}

/// Half of each round trip on the way, and a packet of 1000 bytes on each link at its rate, where nothing is lost.
#[test]
fn a_delivery_takes_what_its_regions_take() {
    let lossless = REGIONS.replace(", p = 0.5, uplink_p = 0.25", "");
    let result = run(&lossless, "", "srm");
    let (slow, fast) = (8000.0 / 1.5e6, 8000.0 / 15e6);
    let inner = slow + 0.005 + fast;
    let mut expected = vec![
        inner + fast + 0.0005,
        inner + 0.002 + slow + 0.001 + slow,
        inner + 0.003 + slow + slow,
        inner + 0.003 + slow + slow,
    ];
    expected.extend([3.0 * slow + 0.030 + 0.0005; 3]);
    expected.sort_by(f64::total_cmp);
    let mut of_first: Vec<f64> = samples(&result, "delivery_latency_s")[..7].to_vec();
    of_first.sort_by(f64::total_cmp);
    for (latency, expected) in of_first.iter().zip(&expected) {
        assert!((latency - expected).abs() < 1e-6, "{of_first:?} {expected:?}");
    }
}

/// Compares the packets of the source that reach an endpoint of the second region with the packets that reach other
/// endpoints.
#[test]
fn a_region_loses_what_it_says() {
    let losses = |network: &str, loss: &str| {
        let scenario = scenario(network, loss);
        let graph = scenario.network.graph().expect("a routed network").clone();
        let links = 0..graph.topology.links().len() as u32;
        links.map(|link| graph.loss_of(link).map_or(0.0, |loss| loss.mean())).collect::<Vec<f64>>()
    };
    // By the numbers of their lower ends, from the backbone on.
    assert_eq!(losses(REGIONS, ""), [0.0, 0.0, 0.25, 0.0, 0.0, 0.0, 0.5, 0.5, 0.5, 0.0, 0.0, 0.0]);
    let last = "[loss]\nmodel = \"bernoulli\"\np = 0.1\nlinks = \"last\"";
    assert_eq!(losses(REGIONS, last), [0.0, 0.0, 0.25, 0.0, 0.0, 0.1, 0.5, 0.5, 0.5, 0.1, 0.1, 0.1]);
    let shared = "[loss]\nmodel = \"bernoulli\"\np = 0.1\nlinks = \"shared\"";
    assert_eq!(losses(REGIONS, shared), [0.1, 0.1, 0.25, 0.1, 0.1, 0.0, 0.5, 0.5, 0.5, 0.0, 0.0, 0.0]);
}

#[test]
fn receivers_are_dealt_out_to_regions_that_say_no_number() {
    let regions = "regions = [{ round_trip = \"1 ms\" }, { round_trip = \"1 ms\", endpoints = 2 }, { round_trip = \"1 ms\" }, { round_trip = \"1 ms\" }]";
    let at = |receivers: u32| {
        let scenario = scenario(regions, &format!("[group]\nreceivers = {receivers}"));
        let topology = scenario.network.graph().expect("a routed network").topology.clone();
        (2..6).map(|exchange| topology.ports(NodeId(exchange)).len() - 1).collect::<Vec<_>>()
    };
    assert_eq!(at(10), [3, 2, 3, 2]);
    assert_eq!(at(6), [2, 2, 1, 1]);
    assert_eq!(at(2), [0, 2, 0, 0]);
}

#[test]
fn exchanges_and_representatives_help_their_regions() {
    let parents = |scenario: &Scenario, nodes: std::ops::RangeInclusive<u32>| {
        let parent = |node| scenario.helpers.parent(NodeId(node)).map_or(0, |parent| parent.0);
        nodes.map(parent).collect::<Vec<u32>>()
    };
    let exchanges = scenario(REGIONS, "[group]\nhelpers = \"exchanges\"");
    assert_eq!(exchanges.only_helping().map(|node| node.0).collect::<Vec<_>>(), [2, 3, 4, 5]);
    assert_eq!(parents(&exchanges, 2..=12), [0, 0, 2, 2, 2, 3, 3, 3, 4, 5, 5]);
    let representatives = scenario(REGIONS, "[group]\nhelpers = \"representatives\"");
    assert_eq!(representatives.only_helping().count(), 0);
    assert_eq!(parents(&representatives, 6..=12), [0, 0, 7, 7, 6, 6, 11]);
    let flat = scenario(REGIONS, "[group]\nhelpers = \"representatives\"\ntree = \"flat\"");
    assert_eq!(parents(&flat, 6..=7), [0, 0]);
}

#[test]
fn every_protocol_of_routed_networks_runs_on_it() {
    let calm = REGIONS.replace("p = 0.5, uplink_p = 0.25", "p = 0.05, uplink_p = 0.02");
    for protocol in ["srm", "lms", "pgm"] {
        let result = run(&calm, "[run]\nlinger = \"60 s\"", protocol);
        assert_eq!(samples(&result, "undelivered_share"), [0.0], "{protocol}");
        assert!(samples(&result, "losses")[0] > 0.0, "{protocol}");
    }
    for group in ["helpers = \"exchanges\"", "helpers = \"representatives\""] {
        let result = run(&calm, &format!("[group]\n{group}"), "test-tree");
        assert_eq!(samples(&result, "undelivered_share"), [0.0], "{group}");
    }
}

#[test]
fn wrong_regions_are_refused_by_their_key() {
    let one = "regions = [{ round_trip = \"1 ms\" }]";
    for (network, rest, what) in [
        (one, "", "`group.receivers` is required"),
        (one, "[group]\nreceivers = 70000", "`group.receivers` is more than 65000"),
        (one, "[group]\nreceivers = 0", "`network.topology` \"tree\" has no source or no receiver"),
        ("regions = []", "", "no source or no receiver"),
        (REGIONS, "[group]\nreceivers = 6", "is 6, but the topology \"tree\" has 7"),
        ("regions = [{ endpoints = 1 }]", "", "round_trip"),
        ("regions = [{ round_trip = \"1 ms\", loss = 1 }]", "", "unknown field `loss`"),
        ("regions = [{ round_trip = \"2 h\", endpoints = 1 }]", "", "`network.regions` has a round trip"),
        ("regions = [{ round_trip = \"1 ms\", endpoints = 70000 }]", "", "70000 endpoints at one exchange"),
        ("fanout = \"2\"\nregions = []", "", "`network.fanout` is said by network.regions"),
        ("link_delay = \"1 ms\"\nregions = []", "", "`network.link_delay` is said"),
        (one, "[group]\nhelpers = \"exchange\"\nreceivers = 2", "is neither a number of helpers"),
    ] {
        let error = parse(network, rest, "test-tree").expect_err("it is refused");
        assert!(error.contains(what), "{network} {rest}: {error}");
    }
    let lan = "name = \"x\"\n[network]\nkind = \"lan\"\n[group]\nreceivers = 2\nhelpers = \"exchanges\"\n[protocol]\n\
               name = \"test-tree\"\n[workload]\nmessages = 1\nmessage_bytes = 100\n";
    let error = ScenarioFile::parse_with("x.toml", lan, Inputs::default(), PROTOCOLS)
        .expect_err("a lan has none")
        .to_string();
    assert!(error.contains("`group.helpers` belongs to kind = \"graph\""), "{error}");
}
