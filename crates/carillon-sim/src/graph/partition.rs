//! Partition of a network, so that several threads can simulate one world.

use std::sync::Arc;
use std::time::Duration;

use carillon_core::NodeId;

use super::routes::PathTree;
use super::topology::Topology;

/// Part of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PartId(pub u16);

impl PartId {
    /// Index in lists of all parts.
    pub fn index(self) -> usize {
        self.0.into()
    }
}

/// Partition of a network into parts of about the same number of nodes. The first one has the source.
///
/// A packet takes at least the delay of its link, so no part can affect another one sooner than the shortest delay
/// between two parts, the lookahead. For that time each part runs by itself.
#[derive(Clone, Debug)]
pub struct Partition(Arc<Parts>);

#[derive(Debug)]
struct Parts {
    parts: u16,
    lookahead: Duration,
    /// Part of each node.
    part_of: Vec<PartId>,
    /// Index of each node among those of its part.
    place: Vec<u32>,
    /// Nodes of each part, in ascending order.
    nodes: Vec<Vec<NodeId>>,
}

impl Partition {
    /// Divides a network into at most `parts` parts, by the subtrees below the source in its tree of shortest paths.
    /// `None` if a division is impossible or its lookahead is shorter than `least_lookahead`. Links with delays that
    /// vary look nothing ahead.
    pub fn new(
        topology: &Topology,
        source: NodeId,
        parts: usize,
        least_lookahead: Duration,
        varies: impl Fn(u32) -> bool,
    ) -> Option<Partition> {
        let part_of = divide(topology, source, parts)?;
        let used = part_of.iter().max()?.0 + 1;
        let across = (0..).zip(topology.links()).filter(|(_, link)| {
            let [a, b] = link.ends;
            part_of[a.index()] != part_of[b.index()]
        });
        let delays = across.map(|(number, link)| if varies(number) { Duration::ZERO } else { link.delay });
        let lookahead = delays.min()?;
        if used < 2 || lookahead < least_lookahead {
            return None;
        }
        let mut nodes = vec![Vec::new(); used.into()];
        let place = (0..).map(NodeId).zip(&part_of).map(|(node, part)| {
            let those: &mut Vec<NodeId> = &mut nodes[part.index()];
            those.push(node);
            those.len() as u32 - 1
        });
        let place = place.collect();
        Some(Partition(Arc::new(Parts { parts: used, lookahead, part_of, place, nodes })))
    }

    /// The parts.
    pub fn parts(&self) -> impl Iterator<Item = PartId> + use<> {
        (0..self.0.parts).map(PartId)
    }

    /// Part of a node.
    pub fn part_of(&self, node: NodeId) -> PartId {
        self.0.part_of[node.index()]
    }

    /// Nodes of a part, in ascending order.
    pub fn nodes_of(&self, part: PartId) -> &[NodeId] {
        &self.0.nodes[part.index()]
    }

    /// Index of a node among those of its part.
    pub(crate) fn place(&self, node: NodeId) -> usize {
        self.0.place[node.index()] as usize
    }

    /// Time for which each part runs by itself.
    pub fn lookahead(&self) -> Duration {
        self.0.lookahead
    }
}

/// Finds the part of each node. Large subtrees are divided at their roots, which belong to the first part; the others
/// go to the smallest part, largest first.
fn divide(topology: &Topology, source: NodeId, parts: usize) -> Option<Vec<PartId>> {
    let nodes = topology.nodes();
    let paths = PathTree::of_all_links(topology, source);
    let parent_of = |node: NodeId| {
        let link = topology.link_at(node, paths.port(node)?)?;
        Some(topology.links()[link as usize].other(node))
    };
    let mut children = vec![Vec::new(); nodes];
    let mut order = vec![source];
    for node in (0..nodes as u32).map(NodeId) {
        if let Some(parent) = parent_of(node) {
            children[parent.index()].push(node);
        } else if node != source {
            return None;
        }
    }
    let mut next = 0;
    while let Some(&node) = order.get(next) {
        order.extend(&children[node.index()]);
        next += 1;
    }
    let mut size = vec![1_usize; nodes];
    for &node in order.iter().rev() {
        if let Some(parent) = parent_of(node) {
            size[parent.index()] += size[node.index()];
        }
    }
    // The largest subtree that is not divided.
    let largest = nodes / (SUBTREES_PER_PART * parts.max(1)) + 1;
    let mut part_of = vec![PartId(0); nodes];
    let mut whole = Vec::new();
    let mut divided = vec![source];
    while let Some(node) = divided.pop() {
        for &child in &children[node.index()] {
            match size[child.index()] > largest && !children[child.index()].is_empty() {
                true => divided.push(child),
                false => whole.push(child),
            }
        }
    }
    whole.sort_by_key(|&root| (std::cmp::Reverse(size[root.index()]), root));
    let mut sizes = vec![0; parts.clamp(1, u16::MAX.into())];
    sizes[0] = nodes - whole.iter().map(|root| size[root.index()]).sum::<usize>();
    for root in whole {
        let (smallest, of) = sizes.iter_mut().enumerate().min_by_key(|(at, of)| (**of, *at))?;
        *of += size[root.index()];
        let mut below = vec![root];
        while let Some(node) = below.pop() {
            part_of[node.index()] = PartId(smallest as u16);
            below.extend(&children[node.index()]);
        }
    }
    Some(part_of)
}

/// Number of subtrees for each part at least, so that the parts are about equal.
const SUBTREES_PER_PART: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Link;

    /// Tree with these children on each level, and links of 10 ms.
    fn tree(fanout: &[u32]) -> Topology {
        let mut topology = Topology::new(1);
        let mut level = vec![NodeId(0)];
        for &children in fanout {
            let mut next = Vec::new();
            for &parent in &level {
                for _ in 0..children {
                    let child = topology.add_node();
                    topology.add_link(Link::new([parent, child], Duration::from_millis(10)));
                    next.push(child);
                }
            }
            level = next;
        }
        topology
    }

    fn constant(_: u32) -> bool {
        false
    }

    #[test]
    fn parts_are_subtrees_of_about_the_same_size() {
        let topology = tree(&[10, 10, 10]);
        for parts in 2..9 {
            let partition = Partition::new(&topology, NodeId(0), parts, Duration::ZERO, constant).unwrap();
            assert_eq!(partition.parts().count(), parts);
            assert_eq!(partition.part_of(NodeId(0)), PartId(0));
            assert_eq!(partition.lookahead(), Duration::from_millis(10));
            let sizes = || partition.parts().map(|part| partition.nodes_of(part).len());
            assert_eq!(sizes().sum::<usize>(), topology.nodes());
            let (least, most) = (sizes().min().unwrap(), sizes().max().unwrap());
            assert!(most - least <= topology.nodes() / parts / 4, "{parts} parts of {least} to {most} nodes");
            for part in partition.parts() {
                for (place, &node) in partition.nodes_of(part).iter().enumerate() {
                    assert_eq!((partition.part_of(node), partition.place(node)), (part, place));
                }
            }
        }
    }

    #[test]
    fn networks_without_lookahead_are_not_divided() {
        let least = Duration::from_millis(1);
        let divide = |topology: &Topology, varies: fn(u32) -> bool| {
            Partition::new(topology, NodeId(0), 2, least, varies).is_some()
        };
        assert!(divide(&tree(&[2, 2]), constant));
        assert!(!divide(&tree(&[2, 2]), |_| true), "delays that vary look nothing ahead");
        assert!(!divide(&tree(&[]), constant), "a node has no parts");
        let mut near = Topology::new(3);
        for other in 1..3 {
            near.add_link(Link::new([NodeId(0), NodeId(other)], Duration::from_micros(10)));
        }
        assert!(!divide(&near, constant));
        let mut apart = tree(&[2, 2]);
        apart.add_node();
        assert!(!divide(&apart, constant), "a node without a path to the source");
    }

    /// A short link between two parts limits the lookahead, even if no shortest path uses it.
    #[test]
    fn every_link_between_parts_counts() {
        let mut topology = tree(&[2, 5]);
        for (a, b) in [(3, 8), (4, 9), (5, 10), (6, 11), (7, 12)] {
            topology.add_link(Link::new([NodeId(a), NodeId(b)], Duration::from_micros(3)));
        }
        let partition = Partition::new(&topology, NodeId(0), 2, Duration::ZERO, constant).unwrap();
        assert!(partition.lookahead() <= Duration::from_millis(10));
        let crosses = topology.links().iter().any(|link| {
            let [a, b] = link.ends;
            link.delay < Duration::from_millis(1) && partition.part_of(a) != partition.part_of(b)
        });
        assert_eq!(partition.lookahead() < Duration::from_millis(1), crosses);
    }
}
