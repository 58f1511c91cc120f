//! Places of losses: links by name, kind or distance from the source, and receivers.

use carillon_core::NodeId;
use carillon_sim::graph::{PathTree, Topology};

use super::document::{Loss, Ranges, Words, range_of};
use crate::scenario::network::{LinkKind, LossPlace};

/// Key and description of an error.
type Problem = (&'static str, String);

/// The kinds of links, by name.
const KINDS: &[(&str, LinkKind)] = &[
    ("all", LinkKind::All),
    ("last", LinkKind::Last),
    ("shared", LinkKind::Shared),
    ("transit-transit", LinkKind::TransitTransit),
    ("transit-stub", LinkKind::TransitStub),
    ("stub-stub", LinkKind::StubStub),
];

/// Keys that say where a section loses packets.
pub(super) const PLACE_KEYS: &[&str] = &["links", "hops", "receivers"];

/// Kind of links of a section, if it states no other place.
pub(super) fn kind(loss: &Loss) -> Option<LinkKind> {
    match &loss.links {
        _ if loss.hops.is_some() || loss.receivers.is_some() => None,
        None => Some(LinkKind::All),
        Some(Words(words)) => match &words[..] {
            [word] => KINDS.iter().find(|(name, _)| name == word).map(|(_, kind)| *kind),
            _ => None,
        },
    }
}

/// Links of a section that are not given by a kind, on a routed network.
pub(super) fn links(loss: &Loss, topology: &Topology) -> Result<LossPlace, Problem> {
    let both_ways = |link: u32| topology.links()[link as usize].ends.map(|end| (link, end));
    if let Some(hops) = &loss.hops {
        let links = links_at(topology, hops);
        if links.is_empty() {
            return Err(("hops", "is farther from the source than any link; the first link has 1".into()));
        }
        return Ok(LossPlace::Links(links.into_iter().flat_map(both_ways).collect()));
    }
    let Some(Words(words)) = &loss.links else { return Ok(LossPlace::Kind(LinkKind::All)) };
    let mut found = Vec::new();
    for word in words {
        found.extend(named(topology, word).map_err(|what| ("links", what))?);
    }
    Ok(LossPlace::Links(found))
}

/// Directions of the links between two nodes: `"a-b"` both, `"a>b"` the one from a to b.
pub(in crate::scenario) fn named(topology: &Topology, word: &str) -> Result<Vec<(u32, NodeId)>, String> {
    // A name may itself contain the separator, so every place to split is tried.
    let separator = if word.contains('>') { '>' } else { '-' };
    let is_directed = separator == '>';
    let splits: Vec<(&str, &str)> =
        word.match_indices(separator).map(|(at, _)| (&word[..at], &word[at + 1..])).collect();
    let nodes = |text: &str| nodes_named(topology, text.trim());
    let pairs: Vec<(NodeId, NodeId)> = splits
        .iter()
        .flat_map(|(a, b)| nodes(a).into_iter().flat_map(move |a| nodes(b).into_iter().map(move |b| (a, b))))
        .collect();
    let (a, b) = match (&pairs[..], &splits[..]) {
        (&[pair], _) => pair,
        ([], []) => {
            let kinds: Vec<&str> = KINDS.iter().map(|(name, _)| *name).collect();
            return Err(format!(
                "\"{word}\" is neither a link such as \"0-1\" or \"0>1\", nor one of {}",
                kinds.join(", ")
            ));
        }
        ([], [(a, b), ..]) => {
            let unknown = if nodes(a).is_empty() { a } else { b };
            let last = topology.nodes() - 1;
            return Err(format!(
                "\"{word}\": \"{}\" is no node of the topology: give 0 to {last}, or a node's name",
                unknown.trim()
            ));
        }
        _ => return Err(format!("\"{word}\" can mean several pairs of nodes: give their numbers")),
    };
    let between: Vec<u32> =
        topology.ports(a).filter(|(_, _, link)| link.other(a) == b).map(|(_, link, _)| link).collect();
    if between.is_empty() {
        let others: Vec<String> =
            topology.ports(a).take(LISTED).map(|(_, _, link)| link.other(a).0.to_string()).collect();
        let others = match others.is_empty() {
            true => format!("node {} has no links", a.0),
            false => format!("node {} has links to {}", a.0, others.join(", ")),
        };
        return Err(format!("\"{word}\" is no link of the topology: {others}"));
    }
    let from: &[NodeId] = if is_directed { &[a] } else { &[a, b] };
    Ok(between.into_iter().flat_map(|link| from.iter().map(move |&end| (link, end))).collect())
}

/// Nodes with this number, or else with this name.
fn nodes_named(topology: &Topology, text: &str) -> Vec<NodeId> {
    match text.parse::<u32>().ok().filter(|&number| (number as usize) < topology.nodes()) {
        Some(number) => vec![NodeId(number)],
        None if text.is_empty() => Vec::new(),
        None => {
            let named = (0_u32..).zip(&topology.names).filter(|(_, name)| *name == text);
            named.map(|(node, _)| NodeId(node)).collect()
        }
    }
}

/// Maximum number of nodes listed in an error.
const LISTED: usize = 10;

/// Links at these distances from the source. A link has the distance of its nearer end plus 1, along the paths of
/// least delay.
fn links_at(topology: &Topology, hops: &Ranges) -> Vec<u32> {
    let source = topology.sources.first().copied().unwrap_or(NodeId(0));
    let paths = PathTree::new(topology, source, |_| true);
    let mut distance: Vec<Option<u64>> = vec![None; topology.nodes()];
    distance[source.index()] = Some(0);
    for node in (0..topology.nodes() as u32).map(NodeId) {
        // Follow the path to the first node with a known distance, then number it backwards.
        let (mut path, mut at) = (Vec::new(), node);
        while distance[at.index()].is_none() {
            path.push(at);
            let link = paths.port(at).and_then(|port| topology.link_at(at, port));
            let Some(link) = link else { break };
            at = topology.links()[link as usize].other(at);
        }
        if let Some(known) = distance[at.index()] {
            for (steps, on_path) in (1..).zip(path.into_iter().rev()) {
                distance[on_path.index()] = Some(known + steps);
            }
        }
    }
    let of_link = |ends: [NodeId; 2]| ends.iter().filter_map(|end| distance[end.index()]).min();
    (0..)
        .zip(topology.links())
        .filter(|(_, link)| of_link(link.ends).is_some_and(|nearer| hops.contains(nearer + 1)))
        .map(|(link, _)| link)
        .collect()
}

/// Receivers that these words name by node, in their order. `topology` has the names of nodes, if there are any.
pub(in crate::scenario) fn receivers(
    words: &Words,
    receivers: &[NodeId],
    topology: Option<&Topology>,
) -> Result<Vec<NodeId>, Problem> {
    let mut found: Vec<NodeId> = Vec::new();
    for word in &words.0 {
        let these: Vec<NodeId> = match (&word[..], range_of(word)) {
            ("all", _) => receivers.to_vec(),
            ("first", _) => receivers.first().copied().into_iter().collect(),
            ("last", _) => receivers.last().copied().into_iter().collect(),
            (_, Some((from, to))) => {
                let is_in = |node: &&NodeId| {
                    let number = u64::from(node.0);
                    from <= number && to.is_none_or(|to| number <= to)
                };
                receivers.iter().filter(is_in).copied().collect()
            }
            (word, None) => {
                let named = topology.map(|topology| nodes_named(topology, word)).unwrap_or_default();
                named.into_iter().filter(|node| receivers.contains(node)).collect()
            }
        };
        if these.is_empty() {
            let (first, last) = (receivers.first(), receivers.last());
            let range = first.zip(last).map(|(first, last)| format!(" {} to {}", first.0, last.0));
            let what = format!(
                "\"{word}\" names no receiver: give the number or name of a node with a receiver (they are nodes{}), a range such as \"2..4\", \"all\", \"first\" or \"last\"",
                range.unwrap_or_default()
            );
            return Err(("receivers", what));
        }
        found.extend(these);
    }
    let mut seen = std::collections::BTreeSet::new();
    if let Some(twice) = found.iter().find(|node| !seen.insert(**node)) {
        return Err(("receivers", format!("names the receiver at node {} twice", twice.0)));
    }
    Ok(found)
}
