//! Files that cannot be read, and their errors.

use super::read;

#[track_caller]
fn fails(name: &str, text: &str, expected: &str) {
    let error = read(name, text).map(|imported| imported.topology).expect_err("the file is broken");
    assert_eq!(error, expected, "{text}");
}

#[test]
fn broken_graphml_names_line_and_problem() {
    let graph =
        |inner: &str| format!("<graphml>\n<graph edgedefault=\"undirected\">\n{inner}\n</graph>\n</graphml>");
    for (text, expected) in [
        (
            "<graphml>\n<graph>\n</graphml>".to_owned(),
            "line 3: this is no XML: expected 'graph' tag, not 'graphml'",
        ),
        ("<svg/>".to_owned(), "line 1: this is no XML: expected 'svg' tag"),
        ("<graphml/>".to_owned(), "there is no <graph>"),
        (graph(""), "the file has no nodes"),
        (graph("<node/>"), "line 3: a <node> without id"),
        (graph("<node id=\"a\"/>\n<node id=\"a\"/>"), "line 4: a second node with the id \"a\""),
        (graph("<node id=\"a\"/>\n<edge source=\"a\"/>"), "line 4: an <edge> without target"),
        (
            graph("<node id=\"a\"/>\n<edge source=\"a\" target=\"b\"/>"),
            "line 4: target=\"b\" is the id of no node",
        ),
        (graph("<hyperedge/>"), "line 3: a <hyperedge>: expected links between two nodes"),
        (
            graph("<node id=\"a\"><graph/></node>"),
            "line 3: a <graph> in a <node>: nested graphs are not supported",
        ),
        (graph("</graph><graph>"), "line 3: a second <graph>: expected one"),
    ] {
        if text == "<svg/>" {
            fails("x.graphml", &text, "line 1: expected the element <graphml>, found <svg>");
        } else {
            fails("x.graphml", &text, expected);
        }
    }
    let keyed = |key: &str, value: &str| {
        format!(
            "<graphml><key id=\"k\" attr.name=\"{key}\"/><key id=\"l\" attr.name=\"Longitude\"/><graph>\n\
             <node id=\"a\"><data key=\"k\">{value}</data><data key=\"l\">0</data></node>\n\
             <edge source=\"a\" target=\"a\"><data key=\"k\">{value}</data></edge></graph></graphml>"
        )
    };
    fails(
        "x.graphml",
        &keyed("Latitude", "91"),
        "line 2: latitude 91 and longitude 0 of node \"a\": expected degrees, -90 to 90 and -180 to 180",
    );
    fails(
        "x.graphml",
        &keyed("delay", "fast"),
        "line 3: `fast` for delay or latency: expected milliseconds, such as 2.5",
    );
    fails(
        "x.graphml",
        &keyed("LinkSpeedRaw", "0"),
        "line 3: `0` for linkspeedraw: expected bits per second, such as 1e9",
    );
    // Entities could expand without end.
    let bomb = "<!DOCTYPE g [<!ENTITY a \"aaaa\">]><graphml>&a;</graphml>";
    assert!(read("x.graphml", bomb).is_err());
}

#[test]
fn broken_gml_names_line_and_problem() {
    for (text, expected) in [
        ("", "there is no `graph [ ... ]`"),
        ("graph 1", "line 1: expected a list: `graph [ ... ]`"),
        ("graph [\n]", "line 1: the graph has no `node [ ... ]`"),
        ("graph [\nnode [ id 1 ]", "line 1: the file ends in this list: expected `]`"),
        ("graph [\nnode [ label \"x ] ]", "line 2: a string without end: expected `\"`"),
        ("graph [\nnode [ label 1 ]\n]", "line 2: a node without `id`"),
        ("graph [\nnode [ id 1.5 ]\n]", "line 2: `id 1.5`: expected a whole number"),
        ("graph [\nnode [ id 1 ]\nnode [ id 1 ] ]", "line 3: a second node with `id 1`"),
        ("graph [\nnode [ id 1 ]\nedge [ source 1 ] ]", "line 3: an edge without `target`"),
        ("graph [\nnode [ id 1 ]\nedge [ source 1\ntarget 2 ] ]", "line 3: `target 2` is the id of no node"),
        ("graph [\nnode [ id ] ]", "line 2: expected a number, a string or a list behind `id`, found `]`"),
        ("graph [\nnode 5 ]", "line 2: expected a list: `node [ ... ]`"),
        ("graph [ directed 2 ]", "line 1: `directed 2`: expected 0 or 1"),
        ("graph [ ] ]", "line 1: expected a key, found `]`"),
        ("graph [ ]\ngraph [ ]", "line 2: a second `graph`: expected one"),
        (
            "graph [ node [ id 1 ]\nedge [ source 1 target 1 delay -1 ] ]",
            "line 2: `-1` is no delay: expected milliseconds, 0 to 1e9",
        ),
        (
            "graph [ node [ id 1 ]\nedge [ source 1 target 1 delay \"x\" ] ]",
            "line 2: expected a number behind `delay`",
        ),
        (
            "graph [ node [ id 1 Latitude 99 Longitude 0 ] ]",
            "line 1: latitude 99 and longitude 0 of node 1: expected degrees, -90 to 90 and -180 to 180",
        ),
    ] {
        fails("x.gml", text, expected);
    }
    fails("x.gml", &"a [ ".repeat(100_000), "line 1: lists are nested more than 32 deep");
}

#[test]
fn broken_brite_names_line_and_problem() {
    let file = |nodes: &str, edges: &str| {
        format!("Topology: ( 2 Nodes, 1 Edges )\nNodes: ( 2 )\n{nodes}\nEdges: ( 1 )\n{edges}\n")
    };
    let nodes = "0 1 1 1 1 -1 RT_NODE\n1 2 2 1 1 -1 RT_NODE";
    for (text, expected) in [
        (file(nodes, ""), "line 5: `Edges: ( 1 )`, but 0 follow: the file is not whole"),
        (file("0 1 1", "0 0 0 1 1 1"), "line 2: `Nodes: ( 2 )`, but 1 follow: the file is not whole"),
        (file("x 1 1", ""), "line 3: expected a node: `id x y indegree outdegree as type`"),
        (file("0 1 1\n0 1 1", ""), "line 4: a second node 0"),
        (file(nodes, "0 0 7 1 1 1"), "line 6: `7` is no node of the file"),
        (file(nodes, "0 0 1 1"), "line 6: expected an edge: `id from to length delay_ms bandwidth_mbps ...`"),
        (file(nodes, "0 0 1 1 1e10 1"), "line 6: `10000000000` is no delay: expected 0 to 1e9 ms"),
        (
            "Topology: ( 2 Nodes )\nNodes: ( many )".into(),
            "line 2: expected a number in parentheses, such as `Nodes: ( 20 )`",
        ),
        ("Topology: ( 2 Nodes )\nNodes: ( 0 )".into(), "a section `Edges: ( ... )` is missing"),
        (
            "Topology: ( 9 Nodes )\nNodes: ( 99999999999 )\nEdges: ( 0 )".into(),
            "line 2: `Nodes: ( 99999999999 )`, but 0 follow: the file is not whole",
        ),
    ] {
        fails("x.brite", &text, expected);
    }
}

#[test]
fn broken_rocketfuel_files_name_line_and_problem() {
    for (text, expected) in [
        ("", "the file has no nodes"),
        ("a b 1\na b", "line 2: expected `router router weight`, such as `Darwin1837 Perth4160 15`"),
        ("a b -1", "line 1: `-1` is no weight or latency: expected a number from 0 to 1e9"),
    ] {
        fails("x.intra", text, expected);
    }
    let form = "expected a router: `uid @location (neighbours) -> <uid> ... =name rn`";
    for (text, expected) in [
        ("", "the file has no nodes".to_owned()),
        ("1 @a (0) -> =x r0\nx", format!("line 2: {form}")),
        ("1 @a (0)", format!("line 1: {form}")),
        ("1 a (0) -> =x", format!("line 1: {form}")),
        ("1 @a -> =x\n1 @a -> =x", "line 2: a second router 1".into()),
        ("1 @a -> <2> =x", "line 1: the neighbour <2> is no router of the file".into()),
        ("1 @a -> <x> =x", "line 1: `<x>` is no neighbour, such as `<456>`".into()),
    ] {
        fails("x.cch", text, &expected);
    }
}
