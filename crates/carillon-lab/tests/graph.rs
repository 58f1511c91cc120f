//! Scenarios on routed networks: resolved values, and errors.

use carillon_core::{NetworkKind, NoObserver};
use carillon_lab::inputs;
use carillon_lab::plan::Plan;
use carillon_lab::run::{RunResult, run_one};
use carillon_lab::scenario::ScenarioFile;
use carillon_lab::topologies;
use carillon_sim::graph::Topology;

fn text(network: &str, loss: &str, workload: &str) -> String {
    let loss = if loss.is_empty() { String::new() } else { format!("[loss]\n{loss}\n") };
    format!(
        "name = \"x\"\n[network]\nkind = \"graph\"\n{network}\n{loss}[protocol]\nname = \"rra\"\n\
         timeout_method = \"constant\"\ntimeout = \"2 s\"\ntimeout_max = \"2 s\"\n\
         [workload]\nmessage_bytes = 1000\n{workload}\n"
    )
}

fn run(text: &str) -> RunResult {
    let file = ScenarioFile::parse("x.toml", text).unwrap();
    run_one(&Plan::new(&file).unwrap().runs[0], &mut NoObserver).unwrap()
}

fn samples<'a>(result: &'a RunResult, metric: &str) -> &'a [f64] {
    &result.samples.iter().find(|(name, _)| *name == metric).unwrap().1
}

#[test]
fn a_delivery_takes_what_its_links_take() {
    // Height 2: three links of 10 ms to each of 4 leaves; 1000 bytes take 16/3 ms at 1.5 Mbit/s.
    let result = run(&text("topology = \"binary-tree\"\nheight = 2", "", "messages = 1"));
    let expected = 3.0 * (0.010 + 1000.0 * 8.0 / 1.5e6);
    let latencies = samples(&result, "delivery_latency_s");
    assert_eq!(latencies.len(), 4);
    assert!(latencies.iter().all(|latency| (latency - expected).abs() < 1e-6), "{latencies:?}");
    assert_eq!(samples(&result, "losses"), [0.0]);
}

#[test]
fn one_loss_strikes_at_each_place_and_repairs_pass() {
    for (places, losses) in [("source", 1.0), ("each-receiver", 4.0), ("each-link", 7.0)] {
        let result = run(&text(
            "topology = \"binary-tree\"\nheight = 2",
            &format!("drop_one = \"{places}\"\napart = \"10 s\"\nfirst = 3"),
            "rate = \"1 packet/s\"",
        ));
        assert_eq!(samples(&result, "losses"), [losses], "{places}");
        assert_eq!(samples(&result, "undelivered_share"), [0.0], "{places}");
    }
    let twice = "drop_one = \"source\"\ntimes = 3";
    let result = run(&text("topology = \"binary-tree\"", twice, "rate = \"1 packet/s\""));
    assert_eq!(samples(&result, "losses"), [3.0]);
}

#[test]
fn one_packet_is_lost_whichever_protocol_promises_to_mark_it() {
    for entry in carillon_proto::REGISTRY.iter().filter(|entry| entry.networks.contains(&NetworkKind::Graph))
    {
        // After 20 s every member knows the members it has to know.
        let text = format!(
            "name = \"x\"\n[network]\nkind = \"graph\"\ntopology = \"binary-tree\"\nheight = 2\n[loss]\n\
             drop_one = \"each-receiver\"\napart = \"5 s\"\n[protocol]\nname = \"{}\"\n[workload]\n\
             message_bytes = 1000\nrate = \"1 packet/s\"\n",
            entry.name
        );
        let file = ScenarioFile::parse("x.toml", &text);
        if !entry.study.marks_originals {
            assert!(file.is_err_and(|error| error.to_string().contains("loss.drop_one")), "{}", entry.name);
            continue;
        }
        assert_eq!(samples(&run(&text), "losses"), [4.0], "{}", entry.name);
    }
}

#[test]
fn the_shipped_topologies_are_whole() {
    assert_eq!(topologies::names().count(), 21);
    for name in topologies::names() {
        let (edges, roles) = topologies::find(name).unwrap();
        let topology = Topology::parse(edges, roles).unwrap();
        assert!(topology.is_connected(), "{name}");
        let receivers = name.split("-r").nth(1).map(|number| number.parse().unwrap());
        assert_eq!(topology.receivers.len(), receivers.unwrap_or(topology.receivers.len()), "{name}");
    }
    let file = ScenarioFile::parse("x", &text("topology = \"btree-h3\"", "", "messages = 1")).unwrap();
    let plan = Plan::new(&file).unwrap();
    let generated =
        ScenarioFile::parse("x", &text("topology = \"binary-tree\"", "", "messages = 1")).unwrap();
    let of = |plan: &Plan| plan.runs[0].scenario.network.graph().unwrap().topology.links().to_vec();
    assert_eq!(of(&plan), of(&Plan::new(&generated).unwrap()), "the same tree, measured and made");
}

#[test]
fn a_file_is_found_beside_the_scenario() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("mine.edges"), "0 1 5\n1 2 5\n").unwrap();
    let scenario = folder.path().join("x.toml");
    let text = text("topology = \"mine.edges\"", "", "messages = 1");
    let parse = || inputs::parse(scenario.to_str().unwrap(), &text);
    let error = parse().unwrap_err().to_string();
    assert!(error.contains("mine.roles"), "{error}");
    std::fs::write(folder.path().join("mine.roles"), "nodes 3\nsource 0\nreceiver 2\n").unwrap();
    let file = parse().unwrap();
    assert_eq!(Plan::new(&file).unwrap().runs[0].scenario.receivers, 1);
    // A key set from outside does not move the folder.
    assert!(file.with("workload.messages", "2").is_ok());
    std::fs::write(folder.path().join("mine.edges"), "0 1 5\n1 7 5\n").unwrap();
    assert!(parse().unwrap_err().to_string().contains("mine.edges: line 2: node 7"));
}

#[test]
fn a_file_of_gt_itm_is_known_by_its_content() {
    let alt = "GRAPH (#nodes #edges id uu vv ww xx yy zz):\n3 4 ts 10\n\n\
        VERTICES (index name u v w x y z):\n0 T:0.0 0 0\n1 S:0.0/0.0 1 1\n2 S:0.0/0.1 1 2\n\n\
        EDGES (from-node to-node length a b):\n0 1 7 1\n1 2 3 1\n";
    let graph_base = "* GraphBase graph (util_types ZZZIIZIZIZZZZZ,4V,6A)\n\"ts\",3,4,10\n* Vertices\n\
        \"T:0.0\",A0,0,0\n\"S:0.0/0.0\",A2,1,1\n\"S:0.0/0.1\",A3,1,2\n\"\",0,0,0\n* Arcs\n\
        V1,0,7,1\nV0,0,7,1\nV2,A1,3,1\nV1,0,3,1\n0,0,0,0\n0,0,0,0\n* Checksum 382086729\n";
    let folder = tempfile::tempdir().unwrap();
    let scenario = folder.path().join("x.toml");
    let parse = |name: &str, content: &str| {
        std::fs::write(folder.path().join(name), content).unwrap();
        let network = format!("topology = \"{name}\"\nhost_delay = \"2 ms\"\n[group]\nreceivers = 2");
        let file = inputs::parse(scenario.to_str().unwrap(), &text(&network, "", "messages = 1"))?;
        let plan = Plan::new(&file)?;
        Ok::<_, Box<dyn std::error::Error>>(plan.runs[0].scenario.network.graph().unwrap().topology.clone())
    };
    let expected = parse("mine.alt", alt).unwrap();
    assert_eq!(expected.edges().lines().take(2).collect::<Vec<_>>(), ["0 1 7", "1 2 3"]);
    assert_eq!((expected.nodes(), expected.receivers.len()), (6, 2));
    for (name, content) in
        [("mine.gb", graph_base), ("mine.alt", graph_base), ("mine.edges", graph_base), ("mine.gb", alt)]
    {
        assert_eq!(parse(name, content).unwrap(), expected, "{name}");
    }
    for (content, problem) in [
        (graph_base.replace("V1,0,7,1", "V1,0,8,1"), "mine.gb: line 15: the checksum of the lines before is"),
        (graph_base.replace("4V", "5V"), "mine.gb: line 8: 4 vertices stand here"),
        (
            "0 1 7\n".to_owned(),
            "mine.gb: line 1: expected `GRAPH (#nodes #edges ...):` or `* GraphBase graph",
        ),
    ] {
        let error = parse("mine.gb", &content).unwrap_err().to_string();
        assert!(error.contains(problem), "{error}");
    }
}

#[test]
fn hosts_are_placed_on_files_of_other_tools() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("map.intra"), "a b 3\nb a 3\nc d 4\nd c 4\nd e 5\ne d 5\n").unwrap();
    std::fs::write(
        folder.path().join("net.gml"),
        "graph [ node [ id 1 ] node [ id 2 ] edge [ source 1 target 2 ] ]",
    )
    .unwrap();
    let scenario = folder.path().join("x.toml");
    let parse = |network: &str| {
        let network = format!("{network}\n[group]\nreceivers = 2");
        let file = inputs::parse(scenario.to_str().unwrap(), &text(&network, "", "messages = 1"))?;
        let plan = Plan::new(&file)?;
        Ok::<_, Box<dyn std::error::Error>>(plan.runs[0].scenario.network.graph().unwrap().topology.clone())
    };
    let largest = parse("topology = \"map.intra\"\ncomponent = \"largest\"\nhost_delay = \"2 ms\"").unwrap();
    assert_eq!(largest.edges().lines().take(2).collect::<Vec<_>>(), ["0 1 4", "1 2 5"]);
    assert_eq!((largest.nodes(), largest.receivers.len(), &largest.names[0][..]), (6, 2, "c"));
    let gml = parse("topology = \"net.gml\"\nlink_delay = \"7 ms\"").unwrap();
    assert_eq!(gml.edges().lines().next(), Some("0 1 7"));
    for (network, problem) in [
        (
            "topology = \"map.intra\"",
            "is not connected: 3 of its 5 nodes reach each other; component = \"largest\"",
        ),
        ("topology = \"net.gml\"\nrouters = 3", "`network.routers` belongs to topology"),
        ("topology = \"random\"\ncomponent = \"largest\"", "`network.component` belongs to a topology file"),
        ("topology = \"no.gml\"", "cannot read"),
        ("topology = \"net.gml\"\ncomponent = \"some\"", "unknown variant `some`"),
    ] {
        let error = parse(network).unwrap_err().to_string();
        assert!(error.contains(problem), "{network}: {error}");
    }
}

/// Messages take another path while a link is down. Without one, or until routes change, they wait for the recovery.
#[test]
fn links_fail_and_recover() {
    let folder = tempfile::tempdir().unwrap();
    // The way over node 3 is longer.
    std::fs::write(folder.path().join("net.edges"), "0 1 5\n1 2 5\n1 3 10\n3 2 10\n2 4 5 - 9 0\n").unwrap();
    std::fs::write(folder.path().join("net.roles"), "nodes 5\nsource 0\nreceiver 4\nname 1 A-B\nname 2 C\n")
        .unwrap();
    let scenario = folder.path().join("x.toml");
    let parse = |keys: &str| {
        let network = format!("topology = \"net.edges\"\n{keys}");
        let workload = "messages = 20\nrate = \"10 packet/s\"";
        let file = inputs::parse(scenario.to_str().unwrap(), &text(&network, "", workload))?;
        let plan = Plan::new(&file)?;
        let result = run_one(&plan.runs[0], &mut NoObserver)?;
        let latencies =
            result.samples.iter().find(|(name, _)| **name == *"delivery_latency_s").unwrap().1.clone();
        Ok::<_, Box<dyn std::error::Error>>(latencies)
    };
    let most = |keys: &str| parse(keys).unwrap().into_iter().fold(0.0, f64::max);
    let usual = most("");
    let failure =
        |link: &str| format!("[[network.failure]]\nlink = \"{link}\"\nfrom = \"500 ms\"\nto = \"1 s\"\n");
    // Fifteen milliseconds more, and one more packet time.
    let around = most(&failure("A-B-C"));
    assert!((around - usual - 0.015).abs() < 0.01, "{around} {usual}");
    // Routes still lead to the failed link, so that messages wait for its recovery.
    let late = most(&format!("convergence = \"10 s\"\n{}", failure("1-2")));
    assert!(late > 0.4, "{late}");
    assert!(most(&failure("2-4")) > 0.4, "there is no other path");
    for (keys, problem) in [
        (failure("1-0-2"), "`network.failure`"),
        (failure("0-4"), "is no link of the topology: node 0 has links to 1"),
        (failure("0>1"), "give both ends"),
        (failure("0-1").replace("1 s", "100 ms"), "`to` must be later than `from`"),
        (failure("0-1").replace("link", "links"), "unknown field `links`"),
        ("convergence = \"1 s\"".to_owned(), "belongs to network.failure"),
    ] {
        let error = parse(&keys).unwrap_err().to_string();
        assert!(error.contains(problem), "{keys}: {error}");
    }
}

#[test]
fn wrong_keys_are_refused_by_name() {
    let tree = "topology = \"binary-tree\"";
    for (network, loss, workload, expected) in [
        ("", "", "messages = 1", "`network.topology` is missing"),
        ("topology = \"nowhere\"", "", "messages = 1", "neither a file"),
        ("topology = \"no.edges\"", "", "messages = 1", "cannot read no.edges"),
        ("topology = \"random\"", "", "messages = 1", "`group.receivers` is required"),
        (
            "topology = \"binary-tree\"\nplane = \"1 ms\"",
            "",
            "messages = 1",
            "`network.plane` belongs to topology",
        ),
        (
            "topology = \"binary-tree\"\nheight = 21",
            "",
            "messages = 1",
            "`network.height` is 21: give 1 to 20",
        ),
        ("topology = \"tree\"\nfanout = \"10 x\"", "", "messages = 1", "`network.fanout` says"),
        (
            "topology = \"binary-tree\"\nbackoff = \"inclusive\"",
            "",
            "messages = 1",
            "belongs to kind = \"lan\"",
        ),
        (tree, "model = \"bernoulli\"", "messages = 1", "`loss.p` is missing"),
        (tree, "p = 0.1", "messages = 1", "`loss.model` is missing"),
        (tree, "model = \"bernoulli\"\np = 0.1\nto_bad = 0.1", "messages = 1", "belongs to model"),
        (tree, "model = \"gilbert-elliott\"\nto_bad = 0.1", "messages = 1", "`loss.to_good` is missing"),
        (tree, "times = 2", "messages = 1", "`loss.times` belongs to drop_one"),
        (tree, "links = \"stub-stub\"", "messages = 1", "`loss.links` requires topology"),
        (tree, "drop_one = \"source\"", "", "`workload.rate` is missing"),
        (tree, "drop_one = \"source\"", "rate = \"10 packet/s\"\nmessages = 30", "1 losses need 70"),
        (tree, "", "", "`workload.messages` is missing"),
        (tree, "", "messages = 1\nmessage_bytes = 9019", "duplicate key"),
    ] {
        let error = ScenarioFile::parse("x.toml", &text(network, loss, workload)).unwrap_err().to_string();
        assert!(error.contains(expected), "{network} {loss} {workload}: {error}");
    }
}

#[test]
fn a_transit_stub_network_loses_on_the_links_it_is_told() {
    let counts = ["all", "transit-transit", "transit-stub", "stub-stub"].map(|links| {
        let network = "topology = \"transit-stub\"\n[group]\nreceivers = 20";
        let loss = format!("drop_one = \"each-link\"\nlinks = \"{links}\"");
        let file = ScenarioFile::parse("x", &text(network, &loss, "rate = \"10 packet/s\"")).unwrap();
        let plan = Plan::new(&file).unwrap();
        let graph = plan.runs[0].scenario.network.graph().unwrap();
        carillon_lab::drops::places(graph, &graph.drops.unwrap()).len()
    });
    // The links of hosts are of no kind.
    assert_eq!(counts[0], counts[1] + counts[2] + counts[3] + 21, "{counts:?}");
    assert!(counts.iter().all(|&count| count > 0), "{counts:?}");
}

#[test]
fn bursts_and_single_losses_of_the_same_seed_are_the_same() {
    let bursty = text(
        "topology = \"binary-tree\"",
        "model = \"gilbert-elliott\"\nto_bad = 0.01\nto_good = 0.5",
        "messages = 50\nrate = \"1 packet/s\"",
    );
    let (one, other) = (run(&bursty), run(&bursty));
    assert_eq!(one.samples.len(), other.samples.len());
    for ((name, a), (_, b)) in one.samples.iter().zip(&other.samples) {
        assert_eq!(a, b, "{name}");
    }
    assert!(samples(&one, "losses")[0] > 0.0);
}

#[test]
fn a_scheme_is_swapped_by_one_word() {
    let text = |protocol: &str| {
        format!(
            "name = \"x\"\n[network]\nkind = \"graph\"\ntopology = \"rand0-r5\"\n[loss]\ndrop_one = \"each-link\"\n\
             [protocol]\nname = \"{protocol}\"\n[workload]\nmessage_bytes = 1000\nrate = \"10 packet/s\"\nstart = \"4 s\"\n"
        )
    };
    // ns-2 sees 21 recoveries from 15 losses.
    for protocol in ["lms", "srm", "pgm"] {
        let result = run(&text(protocol));
        assert_eq!(samples(&result, "losses"), [15.0], "{protocol}");
        assert_eq!(samples(&result, "recovery_latency_s").len(), 21, "{protocol}");
        assert_eq!(samples(&result, "undelivered_share"), [0.0], "{protocol}");
    }
}

#[test]
fn many_sources_share_a_group_of_srm() {
    let text = "name = \"x\"\n[network]\nkind = \"graph\"\ntopology = \"rand0-r20\"\n[loss]\nmodel = \"bernoulli\"\n\
                p = 0.01\n[group]\nsenders = 5\n[protocol]\nname = \"srm\"\n[workload]\nmessages = 40\n\
                message_bytes = 1000\nrate = \"5 packet/s\"\nstart = \"4 s\"\n[run]\nlinger = \"60 s\"\n";
    let result = run(text);
    assert_eq!(samples(&result, "undelivered_share"), [0.0]);
    assert_eq!(samples(&result, "delivery_latency_s").len(), 5 * 40 * 20);
    assert!(samples(&result, "losses")[0] > 20.0);
}

/// Measurements of ns-2's agents for a configuration, topology and place of loss: the named columns, where they have
/// values.
fn measured(config: &str, topology: &str, place: &str, columns: &[&str]) -> Vec<Option<f64>> {
    const PATH: &str =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/published/papadopoulos-ns2.csv");
    let mut reader = csv::Reader::from_path(PATH).unwrap();
    let headers = reader.headers().unwrap().clone();
    let place = match place {
        "each-receiver" => "receivers",
        "each-link" => "links",
        other => other,
    };
    let mut rows = reader.records().map(Result::unwrap);
    let row = rows.find(|row| (&row[0], &row[1], &row[2]) == (config, topology, place)).unwrap();
    let number =
        |column: &&str| row[headers.iter().position(|header| header == *column).unwrap()].parse().ok();
    columns.iter().map(number).collect()
}

#[test]
fn where_nothing_is_random_recovery_is_that_of_ns2() {
    // Their column, our metric, and what theirs is ours times.
    let numbers = [
        ("lat_ms_avg", "recovery_latency_s", 1e3),
        ("lat_avg", "normalized_recovery_latency", 1.0),
        ("latprop_avg", "normalized_recovery_latency_propagation", 1.0),
        ("exposure", "exposure", 1.0),
        ("rdata", "repeated_retransmissions", 1.0),
    ];
    let columns = numbers.map(|(column, ..)| column);
    let lms = "name = \"lms\"";
    let pgm = "name = \"pgm\"\nnak_bo_ivl = \"0 ms\"\nrdata_delay = \"0 ms\"\nne_nak_rpt_rte = \"1 s\"";
    // Requests of PGM have other sizes there.
    for (config, protocol, apart, tolerance) in [("lms", lms, "2.5 s", 0.002), ("pgm0", pgm, "4 s", 0.015)] {
        for topology in ["btree-h3", "rand0-r20", "ts0-r20", "ts2-r5"] {
            for place in ["source", "each-receiver", "each-link"] {
                let result = run(&format!(
                    "name = \"x\"\n[network]\nkind = \"graph\"\ntopology = \"{topology}\"\n[loss]\n\
                     drop_one = \"{place}\"\napart = \"{apart}\"\n[protocol]\n{protocol}\n[workload]\n\
                     message_bytes = 1000\nrate = \"10 packet/s\"\n"
                ));
                let theirs = measured(config, topology, place, &columns);
                for ((column, metric, scale), theirs) in numbers.into_iter().zip(theirs) {
                    let Some(theirs) = theirs else { continue };
                    let values = samples(&result, metric);
                    let mean = values.iter().sum::<f64>() / values.len() as f64 * scale;
                    assert!(
                        (mean - theirs).abs() <= tolerance * theirs,
                        "{config} {topology} {place} {column}: {mean:.4} here, {theirs:.4} in ns-2"
                    );
                }
            }
        }
    }
}
