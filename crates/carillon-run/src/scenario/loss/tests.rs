use carillon_core::{Event, Observer, Time};
use proptest::prelude::*;

use super::*;
use crate::plan::Plan;
use crate::run::{Unsupervised, simulate};
use crate::scenario::{Inputs, Scenario};

/// Scenario on a binary tree of height 2: node 0 is the source, 1 to 3 are routers, 4 to 7 receive.
fn tree(losses: &str) -> Result<Scenario, String> {
    let text = format!(
        "name = \"x\"\n[network]\nkind = \"graph\"\ntopology = \"binary-tree\"\nheight = 2\nlink_rate = \"10 Mbit/s\"\n\
         {losses}\n[protocol]\nname = \"pgm\"\n[workload]\nmessages = 400\nmessage_bytes = 200\nrate = \"100 packet/s\"\n"
    );
    scenario(&text)
}

fn lan(losses: &str) -> Result<Scenario, String> {
    scenario(&format!(
        "name = \"x\"\n[network]\nkind = \"lan\"\n{losses}\n[group]\nreceivers = 4\n[protocol]\nname = \"pgm\"\n\
         [workload]\nmessages = 400\nmessage_bytes = 200\nrate = \"100 packet/s\"\n"
    ))
}

fn scenario(text: &str) -> Result<Scenario, String> {
    scenario_with(text, &[])
}

/// Scenario that names these files, given by name and content.
fn scenario_with(text: &str, files: &[(&str, &str)]) -> Result<Scenario, String> {
    let contents = files.iter().map(|(name, content)| ((*name).to_owned(), content.as_bytes().into()));
    let inputs = Inputs::given(contents.collect());
    let file = ScenarioFile::parse_with("x.toml", text, inputs, carillon_proto::REGISTRY);
    let file = file.map_err(|error| error.to_string())?;
    let plan = Plan::new(&file).map_err(|error| error.to_string())?;
    Ok(plan.runs[0].scenario.clone())
}

fn error(scenario: Result<Scenario, String>) -> String {
    scenario.expect_err("the scenario is wrong")
}

/// Time of each loss, and the node that did not get the packet.
#[derive(Default)]
struct Lost(Vec<(u64, NodeId)>);

impl Observer for Lost {
    fn event(&mut self, time: Time, _: NodeId, event: &Event) {
        if let Event::FrameLost { receiver: Some(node), .. } = event {
            self.0.push((time.as_nanos(), *node));
        }
    }
}

/// Number of packets lost on the way to each node, of 8.
fn lost(scenario: Result<Scenario, String>) -> Vec<usize> {
    let scenario = scenario.unwrap_or_else(|error| panic!("{error}"));
    let run = crate::plan::Run { scenario, point: 0, replication: 0, seeds: carillon_core::Seeds::new(3) };
    let mut lost = Lost::default();
    simulate(&run, &mut lost, &mut Unsupervised).unwrap_or_else(|error| panic!("{error}"));
    (0..8).map(|node| lost.0.iter().filter(|(_, at)| at.0 == node).count()).collect()
}

const EVERYTHING: &str = "[[loss]]\nmodel = \"chosen\"\npackets = \"0..399\"\n";

#[test]
fn chosen_packets_are_lost_at_their_place_alone() {
    let at = |place: &str| lost(tree(&format!("{EVERYTHING}{place}\n")));
    assert_eq!(at("links = \"1-0\""), [0, 400, 0, 0, 0, 0, 0, 0]);
    assert_eq!(at("links = \"0>1\""), [0, 400, 0, 0, 0, 0, 0, 0]);
    assert_eq!(at("links = \"1>0\""), [0; 8], "the data goes the other way");
    assert_eq!(at("links = [\"2-4\", \"3>7\"]"), [0, 0, 0, 0, 400, 0, 0, 400]);
    assert_eq!(at("links = \"last\""), [0, 0, 0, 0, 400, 400, 400, 400]);
    assert_eq!(at("links = \"shared\""), [0, 400, 0, 0, 0, 0, 0, 0]);
    assert_eq!(at("hops = 2"), [0, 0, 400, 400, 0, 0, 0, 0]);
    assert_eq!(at("hops = \"3..\""), [0, 0, 0, 0, 400, 400, 400, 400]);
    assert_eq!(at("receivers = [4, \"last\"]"), [0, 0, 0, 0, 400, 0, 0, 400]);
    assert_eq!(at("receivers = \"5..6\""), [0, 0, 0, 0, 0, 400, 400, 0]);
    let on_lan = lost(lan(&format!("{EVERYTHING}receivers = [\"first\", 3]")));
    assert_eq!(on_lan, [0, 400, 0, 400, 0, 0, 0, 0]);
}

#[test]
fn chosen_packets_end_or_repeat() {
    let chosen =
        |keys: &str| lost(tree(&format!("[[loss]]\nmodel = \"chosen\"\n{keys}\nreceivers = 5\n")))[5];
    assert_eq!(chosen("packets = [0, \"7..9\", \"8..12\", 399]"), 8);
    assert_eq!(chosen("packets = 9\nrepeat = true"), 40, "every tenth message");
    assert_eq!(chosen("packets = 400"), 0, "there is no such message");
}

/// A list of one section gives the results of a table.
#[test]
fn one_listed_section_equals_a_table() {
    for keys in ["model = \"bernoulli\"\np = 0.05", "model = \"uniform\"\none_in = 10"] {
        for network in [tree, lan] {
            let (table, list) =
                (lost(network(&format!("[loss]\n{keys}"))), lost(network(&format!("[[loss]]\n{keys}"))));
            assert_eq!(table, list);
            assert!(table.iter().sum::<usize>() > 0);
        }
    }
}

/// A protocol without repairs transmits alike whatever is lost, and thus shows the fates themselves.
#[test]
fn further_section_changes_no_fate_of_another() {
    let first = "[[loss]]\nmodel = \"bernoulli\"\np = 0.1\nlinks = \"last\"\n";
    let second = "[[loss]]\nname = \"burst\"\nmodel = \"two-level\"\ncongested_p = 0.5\ncalm_time = \"1 s\"\ncongested_time = \"200 ms\"\nlinks = \"2-4\"\n";
    let third = "[[loss]]\nname = \"odd\"\nmodel = \"uniform\"\none_in = 9\nlinks = \"3>7\"\n";
    let all = |sections: &[&str]| {
        let text = sections.concat();
        let scenario = tree(&text).unwrap_or_else(|error| panic!("{error}"));
        let protocol =
            carillon_proto::REGISTRY.iter().find(|entry| !entry.delivery.repairs).expect("a protocol");
        let config = carillon_core::Config::defaults(protocol.parameters);
        let scenario = Scenario { protocol, config, ..scenario };
        let run =
            crate::plan::Run { scenario, point: 0, replication: 0, seeds: carillon_core::Seeds::new(3) };
        let mut lost = Lost::default();
        simulate(&run, &mut lost, &mut Unsupervised).unwrap_or_else(|error| panic!("{error}"));
        lost.0.into_iter().collect::<std::collections::BTreeSet<_>>()
    };
    let (one, two, three) = (all(&[first]), all(&[second]), all(&[third]));
    assert!([&one, &two, &three].iter().all(|fates| fates.len() > 20));
    let union: std::collections::BTreeSet<_> = one.iter().chain(&two).chain(&three).copied().collect();
    assert!(all(&[first, second, third]) == union, "a section changed a fate of another");
    assert!(all(&[first, third, second]) == union, "named sections can move");
}

#[test]
fn own_loss_of_a_link_replaces_sections_by_kind_only() {
    let star = |losses: &str| {
        scenario(&format!(
            "name = \"x\"\n[network]\nkind = \"star\"\nchildren = [{{ latency = \"1 ms\", p = 0 }}, {{ latency = \"1 ms\" }}]\n\
             {losses}\n[group]\nreceivers = 4\n[protocol]\nname = \"pgm\"\n[workload]\nmessages = 400\nmessage_bytes = 200\nrate = \"100 packet/s\"\n"
        ))
    };
    assert_eq!(lost(star(EVERYTHING)), [0, 0, 400, 0, 400, 0, 0, 0]);
    assert_eq!(lost(star(&format!("{EVERYTHING}hops = 1"))), [0, 400, 400, 400, 400, 0, 0, 0]);
}

#[test]
fn loss_file_decides_for_each_packet_and_receiver() {
    let rows = "# rows\n0 0 1 0\n\n0,1,1,0\n1 0 0 0 # end\n";
    let losses = "[[loss]]\nmodel = \"file\"\nfile = \"l.txt\"\n";
    let read = |rows: &str, losses: &str| {
        let text = format!(
            "name = \"x\"\n[network]\nkind = \"graph\"\ntopology = \"binary-tree\"\nheight = 2\n{losses}\n\
             [protocol]\nname = \"pgm\"\n[workload]\nmessages = 30\nmessage_bytes = 200\nrate = \"100 packet/s\"\n"
        );
        scenario_with(&text, &[("l.txt", rows)])
    };
    assert_eq!(lost(read(rows, losses)), [0, 0, 0, 0, 1, 1, 2, 0]);
    assert_eq!(lost(read(rows, &format!("{losses}repeat = true"))), [0, 0, 0, 0, 10, 10, 20, 0]);
    assert!(
        error(read(rows, &format!("{losses}receivers = \"4..6\"")))
            .contains("has 4 columns, but the section covers 3")
    );
    assert!(error(read(rows, &format!("{losses}hops = 1"))).contains("a loss file names receivers"));
    assert!(
        error(read("0 0 1 0\n0 0 2 0\n", losses))
            .contains("l.txt: line 2, column 5: `2` is neither 0 (received) nor 1 (lost)")
    );
}

#[test]
fn places_are_named_by_the_names_of_nodes() {
    let edges = "0 1 1\n1 2 1\n1 3 1\n";
    let roles =
        "nodes 4\nsource 0\nreceiver 2\nreceiver 3\nname 1 Aix-les-Bains\nname 2 San Jose\nname 3 Bains\n";
    let at = |place: &str| {
        let text = format!(
            "name = \"x\"\n[network]\nkind = \"graph\"\ntopology = \"n.edges\"\n{EVERYTHING}{place}\n\
             [protocol]\nname = \"pgm\"\n[workload]\nmessages = 10\nmessage_bytes = 200\nrate = \"100 packet/s\"\n"
        );
        scenario_with(&text, &[("n.edges", edges), ("n.roles", roles)])
    };
    assert_eq!(lost(at("links = \"Aix-les-Bains-San Jose\"")), [0, 0, 10, 0, 0, 0, 0, 0]);
    assert_eq!(lost(at("links = \"Aix-les-Bains>3\"")), [0, 0, 0, 10, 0, 0, 0, 0]);
    assert_eq!(lost(at("receivers = \"San Jose\"")), [0, 0, 10, 0, 0, 0, 0, 0]);
    assert!(error(at("links = \"Aix-Bains\"")).contains("\"Aix\" is no node of the topology"));
    assert!(error(at("receivers = \"Aix-les-Bains\"")).contains("names no receiver"));
}

#[test]
fn errors_name_section_line_and_valid_values() {
    let second =
        |keys: &str| error(tree(&format!("[[loss]]\nmodel = \"bernoulli\"\np = 0\n[[loss]]\n{keys}")));
    let cases = [
        ("model = \"chosen\"", "x.toml:10: `loss.2.packets` is missing"),
        ("model = \"chosen\"\npackets = \"5..\"", "x.toml:12: `loss.2.packets` has a number without an end"),
        ("model = \"two-level\"", "`loss.2.congested_p` is missing"),
        ("model = \"bernoulli\"\np = 0\nburst = 2", "`loss.2.burst` belongs to model = \"two-level\""),
        (
            "model = \"bernoulli\"\np = 0\nlinks = \"3-4\"",
            "\"3-4\" is no link of the topology: node 3 has links to 1, 6, 7",
        ),
        (
            "model = \"bernoulli\"\np = 0\nlinks = \"last\"\nhops = 2",
            "`loss.2.hops` says where packets are lost, as links does",
        ),
        ("model = \"bernoulli\"\np = 0\nreceivers = [5, 5]", "names the receiver at node 5 twice"),
        ("model = \"bernoulli\"\np = 0\nreceivers = 1", "\"1\" names no receiver"),
        ("p = 0.1", "`loss.2.model` is missing"),
        ("drop_one = \"source\"\nhops = 1", "`loss.2.drop_one` goes with links of a kind"),
    ];
    for (keys, expected) in cases {
        let error = second(keys);
        assert!(error.contains(expected), "{keys}: {error}");
    }
    let on_lan = error(lan("[[loss]]\nmodel = \"bernoulli\"\np = 0\nhops = 1"));
    assert!(on_lan.contains("`loss.1.hops` belongs to kind = \"graph\""), "{on_lan}");
}

#[test]
fn keys_of_sections_are_set_and_swept() {
    let text = "name = \"x\"\n[network]\nkind = \"lan\"\n[[loss]]\nmodel = \"bernoulli\"\np = 0\n[[loss]]\nname = \"b\"\nmodel = \"bernoulli\"\np = 0\n\
                [group]\nreceivers = 4\n[protocol]\nname = \"pgm\"\n[workload]\nmessages = 4\nmessage_bytes = 200\n[sweep]\n\"loss.1.p\" = [0.1, 0.2]\n\"loss.b.p\" = [0.3]\n";
    let file = ScenarioFile::parse("x.toml", text).unwrap_or_else(|error| panic!("{error}"));
    let losses = |file: &ScenarioFile| -> Vec<(f64, f64)> {
        let runs = Plan::new(file).unwrap_or_else(|error| panic!("{error}")).runs;
        let lan = |run: &crate::plan::Run| run.scenario.network.lan().expect("a LAN").clone();
        runs.iter().map(lan).map(|lan| (lan.loss.value(), lan.further_loss[0].0.value())).collect()
    };
    assert_eq!(losses(&file), [(0.1, 0.3), (0.2, 0.3)]);
    assert_eq!(
        losses(&file.with("loss.2.p", "0.5").expect("a key")),
        [(0.1, 0.3), (0.2, 0.3)],
        "swept by its name"
    );
    assert_eq!(losses(&file.with("loss.b.p", "0.5").expect("a key")), [(0.1, 0.5), (0.2, 0.5)]);
    for key in ["loss.p", "loss.0.p", "loss.3.p", "loss.c.p"] {
        let error = file.with(key, "0.5").expect_err("no such section").to_string();
        assert!(error.contains("names none of the 2 sections [[loss]]: write `loss.1.p`"), "{error}");
    }
}

/// A row of fates with some way to separate them.
fn rows() -> impl Strategy<Value = (usize, Vec<bool>, String)> {
    (1..9_usize, 1..20_usize, "[ \t,]{0,2}").prop_flat_map(|(columns, rows, between)| {
        proptest::collection::vec(any::<bool>(), columns * rows).prop_map(move |fates| {
            let row = |row: &[bool]| {
                row.iter().map(|&lost| if lost { "1" } else { "0" }).collect::<Vec<_>>().join(&between)
            };
            let text: Vec<String> = fates.chunks(columns).map(row).collect();
            (columns, fates.clone(), text.join("\n"))
        })
    })
}

proptest! {
    #[test]
    fn loss_file_gives_the_fates_of_its_text((columns, fates, text) in rows()) {
        let file = LossFile::parse(text.as_bytes());
        prop_assert_eq!(file.clone(), Ok(LossFile { columns, fates: fates.clone() }));
        let second: Vec<bool> = fates.chunks(columns).map(|row| row[columns - 1]).collect();
        let file = file.expect("it was read");
        prop_assert_eq!(file.column(columns - 1).collect::<Vec<_>>(), second);
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Err(error) = LossFile::parse(&bytes) {
            prop_assert!(error.to_string().contains("row") || error.to_string().contains("neither"), "{}", error);
        }
    }

    #[test]
    fn any_place_is_found_or_refused(links in "\\PC{0,12}", hops in "[0-9.\\- ]{0,8}") {
        for key in [format!("links = {links:?}"), format!("hops = {hops:?}"), format!("receivers = {links:?}")] {
            let _ = tree(&format!("[[loss]]\nmodel = \"bernoulli\"\np = 0\n{key}"));
        }
    }
}
