//! Tests of GT-ITM's files: both forms of a graph give the same topology, and errors name the line and the problem.

mod writer;

use carillon_sim::graph::generate::Domain;
use carillon_sim::graph::gt_itm::{parse, recognises};
use proptest::prelude::*;
use writer::{Graph, sealed};

/// Example written by hand; its checksum is from another program.
const EXAMPLE: &str = "\
* GraphBase graph (util_types ZZZIIZIZIZZIII,5V,8A)
\"transtub(0,2,0,0,{1,12,3,0.500,1.000,0.000},{1,20,3,0.600,1.000,0.000},{2,30,\\
3,0.420,1.000,0.000})\",3,6,12,1,3,0
* Vertices
\"T:0.0\",A2,5,7
\"S:0.0/0.0\",A4,11,
3
\"S:0.0/1.0\",A5,9,2
\"\",0,0,0
\"\",0,0,0
* Arcs
V1,0,7,2
V0,0,7,2
V2,A0,6,2
V0,0,6,2
V2,A1,13,1
V1,A3,13,1
0,0,0,0
0,0,0,0
* Checksum 462102304
";

fn edges(text: &str) -> String {
    parse(text).expect("a topology").0.edges()
}

fn error(text: &str) -> String {
    parse(text).expect_err("it is wrong").to_string()
}

/// Error of the example with `from` replaced and the checksum updated.
fn wrong(from: &str, to: &str) -> String {
    assert!(EXAMPLE.contains(from), "{from:?} is replaced");
    error(&sealed(&EXAMPLE.replacen(from, to, 1)))
}

fn example() -> Graph {
    let names = ["T:0.0", "S:0.0/0.0", "S:0.0/1.0"].map(str::to_owned).to_vec();
    Graph { name: "an example".into(), names, edges: vec![(0, 1, 7), (0, 2, 6), (1, 2, 13)] }
}

#[test]
fn a_graph_base_file_is_read() {
    let (topology, domains) = parse(EXAMPLE).expect("a topology");
    assert_eq!(topology.edges(), "0 2 6\n0 1 7\n1 2 13\n");
    assert_eq!(domains, [Domain::Transit, Domain::Stub, Domain::Stub]);
    assert_eq!(topology.nodes(), 3, "vertices behind the graph's own are no nodes");
    let flat = parse(&sealed(&EXAMPLE.replace("T:0.0", "0"))).expect("a topology");
    assert_eq!(flat.1, [], "a flat graph has no domains");
}

#[test]
fn both_forms_of_the_example_are_one_topology() {
    assert_eq!(parse(&example().graph_base()), parse(EXAMPLE));
    assert_eq!(parse(&example().alt()), parse(EXAMPLE));
}

#[test]
fn a_file_is_recognised_by_its_content() {
    assert!(recognises(EXAMPLE) && recognises(&example().alt()));
    let remarks = format!("* Made by hand\n*\n{EXAMPLE}");
    assert!(recognises(&remarks));
    assert_eq!(edges(&remarks), edges(EXAMPLE));
    assert!(!recognises("0 1 7\n") && !recognises("") && !recognises("* a remark\n0 1 7\n"));
    assert!(!recognises(&format!("0 1 7\n{EXAMPLE}")));
}

#[test]
fn crlf_lines_and_text_after_the_checksum_are_accepted() {
    assert_eq!(edges(&EXAMPLE.replace('\n', "\r\n")), edges(EXAMPLE));
    assert_eq!(edges(&EXAMPLE.replace(",7\n", ",7  \n")), edges(EXAMPLE), "blanks at the end");
    assert_eq!(edges(&format!("{EXAMPLE}> WARNING: some trouble\n")), edges(EXAMPLE));
    assert_eq!(edges(EXAMPLE.trim_end()), edges(EXAMPLE));
}

#[test]
fn the_checksum_is_that_of_the_lines() {
    let damaged = EXAMPLE.replacen("V1,0,7", "V1,0,8", 1).replacen("V0,0,7", "V0,0,8", 1);
    let is = sealed(&damaged);
    let is = is.lines().last().unwrap().trim_start_matches("* Checksum ");
    assert_eq!(
        error(&damaged),
        format!(
            "line 20: the checksum of the lines before is {is}, not 462102304: the file is damaged (`* Checksum -1` leaves it unchecked)"
        )
    );
    let unchecked = damaged.replace("Checksum 462102304", "Checksum -1");
    assert_eq!(edges(&unchecked), "0 2 6\n0 1 8\n1 2 13\n");
}

#[test]
fn utility_fields_of_every_type_are_passed_over() {
    let text = "* GraphBase graph (util_types IZAVSZSVZISVAZ,2V,3A)\n\
        \"kinds\",2,2,-7,\"a \\\n\
        text\",V1,A2\n\
        * Vertices\n\
        \"one\",A0,-5,A1,V1,\"* \"\n\
        \"two\",A1,0,0,1,\"\"\n\
        * Arcs\n\
        V1,0,3,\"\",V0\n\
        V0,0,3,\"x,y\",1\n\
        0,0,0,\"\",0\n\
        * Checksum 0\n";
    assert_eq!(edges(&sealed(text)), "0 1 3\n");
}

#[test]
fn strings_go_on_over_lines_up_to_4095_characters() {
    for length in [1, 76, 77, 78, 79, 80, 4095] {
        let graph = Graph { name: "n".repeat(length), names: vec!["S".repeat(length); 2], ..example() };
        let graph = Graph { edges: vec![(0, 1, 5)], ..graph };
        let text = graph.graph_base();
        assert!(text.lines().all(|line| line.len() < 80));
        let (topology, domains) = parse(&text).expect("a topology");
        assert_eq!((topology.edges().as_str(), domains), ("0 1 5\n", vec![Domain::Stub; 2]), "{length}");
    }
    let graph = Graph { name: "n".repeat(4096), ..example() };
    let problem = error(&graph.graph_base());
    assert!(
        problem.starts_with("line 54: expected the graph's name of at most 4095 characters"),
        "{problem}"
    );
}

#[test]
fn loops_are_dropped_and_the_last_parallel_edge_counts() {
    let graph = Graph { edges: vec![(0, 1, 7), (2, 2, 4), (0, 2, 6), (1, 2, 13), (1, 0, 9)], ..example() };
    assert_eq!(edges(&graph.graph_base()), "0 1 9\n0 2 6\n1 2 13\n");
    assert_eq!(edges(&graph.alt()), edges(&graph.graph_base()));
}

#[test]
fn a_wrong_header_is_refused() {
    let expected =
        "expected `* GraphBase graph (util_types `, 14 letters of ZIVSA, and two counts: `,24V,102A)`";
    for (from, to) in [
        ("ZZZIIZIZIZZIII", "ZZZIIZIZIZZII"),
        ("ZZZIIZIZIZZIII", "ZZZIIZIZIZZIIII"),
        ("ZZZIIZIZIZZIII", "ZZZIIZIZIZZIIG"),
        ("5V,8A)", "5V,8A"),
        ("5V,8A)", "5V)"),
        ("5V,8A)", "-5V,8A)"),
        ("5V,8A)", "5V,99999999999999999999A)"),
    ] {
        assert_eq!(wrong(from, to), format!("line 1: {expected}"), "{to}");
    }
    assert_eq!(error(&format!("* one\n*\nhere\n{EXAMPLE}")), format!("line 3: {expected}"));
    let ends = "expected a line `* GraphBase graph (util_types ...`, but the file ends here";
    assert_eq!(error("* one\n* two\n"), format!("line 2: {ends}"));
}

#[test]
fn counts_of_the_header_are_no_reason_to_take_memory() {
    assert_eq!(
        wrong("5V,8A", "1000000000000V,8A"),
        "line 11: 5 vertices stand here: expected 1000000000000, as the header counts them"
    );
    assert_eq!(
        wrong("5V,8A", "5V,18446744073709551615A"),
        "line 20: 8 arcs stand here: expected 18446744073709551615, as the header counts them"
    );
    assert_eq!(
        wrong("5V,8A", "4V,8A"),
        "line 10: expected the line `* Arcs` behind the vertices that the header counts"
    );
    assert_eq!(
        wrong("5V,8A", "5V,7A"),
        "line 19: expected the line `* Checksum` behind the arcs that the header counts"
    );
    assert_eq!(wrong(")\",3,6", ")\",6,6"), "line 3: the graph has 6 vertices: expected 1 to 5");
    assert_eq!(wrong(")\",3,6", ")\",0,6"), "line 3: the graph has 0 vertices: expected 1 to 5");
    assert_eq!(wrong(")\",3,6", ")\",-3,6"), "line 3: the graph has -3 vertices: expected 1 to 5");
    let many = EXAMPLE.replace("5V,8A", "1000000V,8A").replace(")\",3,6", ")\",65537,6");
    assert_eq!(error(&many), "line 3: the graph has 65537 vertices: expected 1 to 65536");
}

#[test]
fn wrong_records_are_refused() {
    for (from, to, problem) in [
        (
            "\"transtub",
            "transtub",
            "line 2: expected the graph's name in double quotes, found `transtub(0,2,0,0,{1,`",
        ),
        (
            ")\",3",
            ",3",
            "line 3: expected the graph's name to end with a double quote, or its line with a backslash, found `3,0.420,1.000,0.000}`",
        ),
        ("* Vertices", "* Vertex", "line 4: expected the line `* Vertices` behind the record of the graph"),
        ("1,3,0\n", "1,3\n", "line 3: expected a utility field behind a comma, found nothing"),
        ("1,3,0\n", "1,3,0,0\n", "line 3: expected the record to end before `,0`"),
        ("A2,5", "V2,5", "line 5: expected a vertex's first arc as `A` and a number, or 0, found `V2,5,7`"),
        ("A2,5", "1,5", "line 5: expected a vertex's first arc as `A` and a number, or 0, found `1,5,7`"),
        (
            "A2,5",
            "A8,5",
            "line 5: expected a vertex's first arc as `A` and a number below 8, or 0, found `A8,5,7`",
        ),
        (
            "A2,5",
            "A,5",
            "line 5: expected a vertex's first arc as `A` and a number below 8, or 0, found `A,5,7`",
        ),
        ("11,\n3", "11,\nx\t", "line 7: expected a utility field as a whole number, found `x?`"),
        (
            "V1,0,7",
            "V5,0,7",
            "line 12: expected an arc's tip as `V` and a number below 5, or 0, found `V5,0,7,2`",
        ),
        ("V1,0,7", "2,0,7", "line 12: expected an arc's tip as `V` and a number, or 0, found `2,0,7,2`"),
        ("V1,0,7,2", "V1,0,-,2", "line 12: expected an arc's length as a whole number, found `-,2`"),
        (
            "V1,0,7,2",
            "V1,0,99999999999999999999,2",
            "line 12: expected an arc's length as a whole number, found `99999999999999999999`",
        ),
    ] {
        assert_eq!(wrong(from, to), problem);
    }
    let unknown = EXAMPLE.replace("* Checksum ", "* Checksum x");
    assert_eq!(error(&unknown), "line 20: expected `* Checksum` and a number");
    let cut = EXAMPLE.find("V2,A0").unwrap();
    assert_eq!(
        error(&EXAMPLE[..cut]),
        "line 13: 2 arcs stand here: expected 8, as the header counts them, but the file ends here"
    );
    assert_eq!(
        error(&EXAMPLE[..cut + 6]),
        "line 14: expected an arc's length as a whole number, found nothing, but the file ends here"
    );
}

#[test]
fn wrong_graphs_are_refused() {
    for (from, to, problem) in [
        // The checksum of each file is right; only the graph is wrong.
        ("V2,A0,6", "V2,A2,6", "line 14: A2 is in a list of arcs already: expected another, or 0"),
        (
            "\"S:0.0/0.0\",A4",
            "\"S:0.0/0.0\",A0",
            "line 6: A0 is in a list of arcs already: expected another, or 0",
        ),
        (
            "V2,A0,6",
            "V4,A0,6",
            "line 14: an arc of V0 does not lead to a vertex of the graph: expected V0 to V2",
        ),
        (
            "V2,A0,6",
            "0,A0,6",
            "line 14: an arc of V0 does not lead to a vertex of the graph: expected V0 to V2",
        ),
        ("V1,0,7", "V1,0,-7", "line 12: an arc is -7 long: expected 0 to 1000000000"),
        ("V1,0,7", "V1,0,1000000001", "line 12: an arc is 1000000001 long: expected 0 to 1000000000"),
        (
            "V0,0,7",
            "V0,0,8",
            "line 12: an arc of length 7 joins V0 and V1 in one direction only: expected one of that length each way",
        ),
        (
            "V2,A1,13",
            "V2,0,13",
            "line 12: an arc of length 7 joins V0 and V1 in one direction only: expected one of that length each way",
        ),
    ] {
        assert_eq!(wrong(from, to), problem, "{to}");
    }
}

/// Graphs of up to 80 vertices, with the kinds of edges that generators may leave.
fn graphs() -> impl Strategy<Value = Graph> {
    let names = prop_oneof!["[TS]:[0-9.]{1,8}", "[0-9]{1,4}", "[A-Za-z0-9:./]{1,200}"];
    (1_usize..80, "[ -!#-\\[\\]-~]{0,300}")
        .prop_flat_map(move |(nodes, name)| {
            let edges = prop::collection::vec((0..nodes, 0..nodes, 0_i64..2000), 0..200);
            (Just(name), prop::collection::vec(names.clone(), nodes), edges)
        })
        .prop_map(|(name, names, edges)| Graph { name, names, edges })
}

/// Checks that a file is valid, or that its error is one line and names an existing line.
fn one_line_or_good(text: &str) {
    if let Err(error) = parse(text) {
        assert!(error.line <= text.lines().count(), "{error}: line {}", error.line);
        assert!(!error.to_string().contains(char::is_control), "{error:?}");
    }
}

proptest! {
    #[test]
    fn both_forms_of_a_graph_give_the_same_topology(graph in graphs()) {
        let read = parse(&graph.graph_base()).expect("a topology");
        prop_assert_eq!(read, parse(&graph.alt()).expect("a topology"));
    }

    #[test]
    fn any_text_is_read_or_refused(text in any::<String>(), start in 0..4_usize) {
        let starts = ["", "* GraphBase graph (util_types ", "GRAPH (", EXAMPLE];
        one_line_or_good(&format!("{}{text}", starts[start]));
    }

    #[test]
    fn changed_files_are_read_or_refused(
        graph in graphs(),
        alt in any::<bool>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0..6), 1..6),
    ) {
        let mut text = if alt { graph.alt() } else { graph.graph_base().replace("Checksum ", "Checksum -") }.into_bytes();
        for (at, other, change) in changes {
            let (at, other) = (at.index(text.len()), other.index(text.len()));
            match change {
                0 => text[at] = text[other],
                1 => text[at] = b"0123456789,\"\\\nAV*- "[other % 19],
                2 => drop(text.remove(at)),
                3 => text.insert(at, text[other]),
                4 => drop(text.drain(at.min(other)..at.max(other))),
                _ => {
                    let part = text[at.min(other)..at.max(other)].to_vec();
                    drop(text.splice(at..at, part));
                }
            }
            if text.is_empty() {
                break;
            }
        }
        one_line_or_good(&String::from_utf8_lossy(&text));
    }
}
