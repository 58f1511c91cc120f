//! Tests of topology files of other tools: real files have the right numbers of nodes and links, and errors of broken
//! ones name the line and the problem.

#![expect(clippy::disallowed_methods, reason = "a test may read files")]

mod broken;

use std::path::Path;
use std::time::Duration;

use carillon_sim::graph::import::{Format, Imported};
use carillon_sim::graph::{Link, Topology};
use proptest::prelude::*;

/// Default delay in these tests.
const DEFAULT_DELAY: Duration = Duration::from_millis(10);

fn read(name: &str, text: &str) -> Result<Imported, String> {
    let format = Format::of(name, text).ok_or("the format is unknown")?;
    format.parse(text, DEFAULT_DELAY).map_err(|error| error.to_string())
}

fn topology(name: &str, text: &str) -> Topology {
    read(name, text).unwrap_or_else(|error| panic!("{name}: {error}")).topology
}

/// Lines of a table without comments, as words.
fn rows(table: &str) -> impl Iterator<Item = Vec<&str>> {
    let lines = table.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.split_whitespace().collect())
}

fn count(topology: &Topology) -> [String; 2] {
    [topology.nodes().to_string(), topology.links().len().to_string()]
}

#[test]
fn files_of_the_repository_have_their_nodes_and_links() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/simulator/import/files");
    let mut files = 0;
    for row in rows(include_str!("files/counts.txt")) {
        let [name, expected @ ..] = &row[..] else { panic!("{row:?}") };
        let text = std::fs::read_to_string(folder.join(name)).expect("a file");
        let Imported { topology, findings, .. } = read(name, &text).expect("a topology");
        assert_eq!(count(&topology), expected, "{name}");
        assert!(topology.is_connected() && topology.names.len() == topology.nodes(), "{name}");
        assert_eq!(findings.default_delays, 0, "{name}: all nodes have positions");
        files += 1;
    }
    assert_eq!(files, 25);
}

/// Reads the files of `public.txt` in the folder `CARILLON_TOPOLOGY_FILES`.
#[test]
fn public_files_have_their_nodes_and_links() {
    let Some(folder) = std::env::var_os("CARILLON_TOPOLOGY_FILES") else {
        eprintln!("skipped: CARILLON_TOPOLOGY_FILES names no folder with the files of public.txt");
        return;
    };
    for row in rows(include_str!("public.txt")) {
        let [name, bytes, expected @ ..] = &row[..] else { panic!("{row:?}") };
        let text = std::fs::read_to_string(Path::new(&folder).join(name)).expect("a file");
        assert_eq!(text.len().to_string(), *bytes, "{name} is another version");
        assert_eq!(count(&topology(name, &text)), expected, "{name}");
    }
}

#[test]
fn graphml_has_delays_rates_and_names() {
    let text = "<?xml version=\"1.0\"?>\n<graphml xmlns=\"http://graphml.graphdrawing.org/xmlns\">\n\
        <key id=\"a\" for=\"node\" attr.name=\"Latitude\"/><key id=\"b\" for=\"node\" attr.name=\"Longitude\"/>\n\
        <key id=\"c\" for=\"node\" attr.name=\"label\"/><key id=\"d\" for=\"edge\" attr.name=\"LinkSpeedRaw\"/>\n\
        <key id=\"e\" for=\"edge\" attr.name=\"delay\"/>\n\
        <graph edgedefault=\"undirected\"><edge source=\"x\" target=\"y\"><data key=\"d\">1e7</data></edge>\n\
        <edge source=\"y\" target=\"x\"><data key=\"e\">2.5</data></edge>\n\
        <edge source=\"z\" target=\"x\"/>\n\
        <node id=\"x\"><data key=\"a\">0</data><data key=\"b\">0</data><data key=\"c\">K&#246;ln &amp; Bonn</data></node>\n\
        <node id=\"y\"><data key=\"a\">0</data><data key=\"b\">1</data></node><node id=\"z\"/>\n</graph></graphml>";
    let topology = topology("x.graphml", text);
    assert_eq!(topology.edges(), "0 1 0.555975 10\n1 0 2.5\n2 0 10\n");
    assert_eq!(topology.names, ["Köln & Bonn", "y", "z"]);
}

#[test]
fn gml_has_delays_rates_and_names() {
    let text = "Creator \"a program\"\ngraph [\n  directed 1\n  node [ id 3 label \"A&amp;B\" Latitude 0.0 Longitude 0.0 ]\n\
        node [ id -7 Latitude 0 Longitude 1 graphics [ x 1 y 2 ] ]\n node [ id 5 ]\n\
        edge [ source 3 target -7 LinkSpeedRaw 10000000.0 ]\n edge [ source -7 target 3 ]\n\
        edge [ source -7 target 5 latency \"2.5\" ]\n edge [ source 5 target 5 ]\n]\n";
    let Imported { topology, findings, .. } = read("x.gml", text).expect("a topology");
    assert_eq!(topology.edges(), "0 1 0.555975 10\n1 2 2.5\n");
    assert_eq!(topology.names, ["A&B", "-7", "5"]);
    assert_eq!((findings.self_loops, findings.joined, findings.default_delays), (1, 1, 0));
}

#[test]
fn brite_has_delays_and_bandwidths() {
    let text = "Topology: ( 3 Nodes, 2 Edges )\nModel (1 - RTWaxman):  3 1000 100\n\nNodes: ( 3 )\n\
        0\t1\t3\t1\t1\t-1\tRT_NODE\n1\t0\t3\t2\t2\t-1\tRT_NODE\n2\t4\t3\t1\t1\t-1\tRT_NODE\n\n\nEdges: ( 2 )\n\
        0\t2\t1\t3.0\t\t\t1.25\t10.0\t-1\t-1\tE_RT\tU\n1\t0\t1\t-1\t-1\t-1.0\t-1\t-1\tE_AS\tU\n";
    assert_eq!(topology("x.brite", text).edges(), "2 1 1.25 10\n0 1 10\n");
    assert_eq!(Format::of("x.edges", text), Some(Format::Brite), "by the content");
}

#[test]
fn rocketfuel_lists_have_both_directions_of_a_link() {
    let text = "San+Jose,+CA471 Oak+Brook,+IL301 14.5\nOak+Brook,+IL301 San+Jose,+CA471 15\n\
        San+Jose,+CA471 San+Jose,+CA472 3\n";
    let Imported { topology, findings, .. } = read("weights.intra", text).expect("a topology");
    assert_eq!(topology.edges(), "0 1 14.5\n0 2 3\n");
    assert_eq!(topology.names[1], "Oak+Brook,+IL301");
    assert_eq!(findings.asymmetric, 1);
}

#[test]
fn rocketfuel_maps_have_the_routers_of_the_provider() {
    let text = "7 @Bangalore,+IN + bb (3) &41 -> <456> <9> {-17} =ekm-blr-stm1.bng.example r0\n\
        456 @Mumbai,+IN  (1) -> <7> <456> \t=203.197.33.209! r0\n9 @T (1) -> <7> =x r1\n-17 =62.197.128.1 r1\n";
    let Imported { topology, findings, .. } = read("map.txt", text).expect("a topology");
    assert_eq!(topology.edges(), "0 1 10\n0 2 10\n");
    assert_eq!(topology.names, ["7", "456", "9"]);
    assert_eq!((findings.self_loops, findings.default_delays), (1, 2));
}

#[test]
fn largest_component_keeps_names_and_links() {
    let text = "a b 1\nb a 1\nc d 2\nd c 2\nd e 3\n";
    let topology = topology("x.intra", text);
    assert!(!topology.is_connected());
    let largest = topology.part(&topology.largest_component());
    assert!(largest.is_connected());
    assert_eq!(largest.edges(), "0 1 2\n1 2 3\n");
    assert_eq!(largest.names, ["c", "d", "e"]);
}

/// Extensions that select each reader for any content.
const EXTENSIONS: [&str; 7] = ["gb", "alt", "graphml", "gml", "brite", "intra", "cch"];

/// Parts of files, so that random texts get past the first line.
fn text() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        prop::sample::select(vec![
            "graph",
            "[",
            "]",
            "node",
            "edge",
            "id",
            "source",
            "target",
            "label",
            "\"",
            "\n",
            " ",
            "#",
            "0",
            "1",
            "-1",
            "1e99",
            "nan",
            "Latitude",
            "delay",
            "directed",
            "<graphml>",
            "</graphml>",
            "<graph edgedefault=\"directed\">",
            "<node id=\"1\"/>",
            "<edge source=\"1\" target=\"1\"/>",
            "</graph>",
            "Topology: ( 1 Nodes, 1 Edges )",
            "Nodes: ( 1 )",
            "Edges: (",
            ")",
            "-> <1>",
            "@x",
            "a b 1",
            "{",
            "<",
            ">",
            "&#1;",
            "é",
        ])
        .prop_map(str::to_owned),
        any::<char>().prop_map(String::from),
        any::<i64>().prop_map(|number| number.to_string()),
    ];
    prop::collection::vec(word, 0..80).prop_map(|words| words.join(" "))
}

proptest! {
    /// Any text is a topology or an error in one line.
    #[test]
    fn any_text_is_a_topology_or_an_error(text in text(), extension in prop::sample::select(&EXTENSIONS[..])) {
        match read(&format!("x.{extension}"), &text) {
            Ok(imported) => {
                let nodes = imported.topology.nodes();
                prop_assert!(imported.topology.links().iter().flat_map(|link: &Link| link.ends).all(|end| end.index() < nodes));
            }
            Err(error) => prop_assert!(!error.contains(char::is_control), "{error:?}"),
        }
    }

    /// Any damage of one byte to a real file is a topology or an error in one line.
    #[test]
    fn damaged_files_are_topologies_or_errors(at in 0_usize..1945, byte in 32_u8..127) {
        for (name, text) in [("x.gml", include_str!("files/Nsfnet.gml")), ("x.graphml", include_str!("files/Abilene.graphml"))] {
            let mut bytes = text.as_bytes().to_vec();
            bytes[at] = byte;
            if let Ok(text) = String::from_utf8(bytes)
                && let Err(error) = read(name, &text)
            {
                prop_assert!(!error.contains(char::is_control), "{error:?}");
            }
        }
    }
}
