//! Routes of least total delay (Dijkstra 1959), as unicast routing with full knowledge of the links.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;

use carillon_core::{NodeId, PortId};

use super::topology::Topology;

/// Shortest paths from every node to one, the root.
///
/// Ties in delay fall to the path with fewer links, then to the one with the lower-numbered next node, so that routes
/// depend on nothing else.
#[derive(Clone, Debug)]
pub struct PathTree {
    root: NodeId,
    /// Port of each node towards the root.
    port: Vec<Option<PortId>>,
    delay: Vec<Duration>,
}

impl PathTree {
    /// Computes the paths to this root over the links that are up.
    pub fn new(topology: &Topology, root: NodeId, is_up: impl Fn(u32) -> bool) -> Self {
        let nodes = topology.nodes();
        let mut port = vec![None; nodes];
        let mut best = vec![(Duration::MAX, u32::MAX); nodes];
        let mut settled = vec![false; nodes];
        let mut heap = BinaryHeap::new();
        best[root.index()] = (Duration::ZERO, 0);
        heap.push(Reverse((Duration::ZERO, 0_u32, root)));
        while let Some(Reverse((delay, hops, node))) = heap.pop() {
            if std::mem::replace(&mut settled[node.index()], true) {
                continue;
            }
            for (_, number, link) in topology.ports(node).filter(|&(_, number, _)| is_up(number)) {
                let other = link.other(node);
                let path = (delay + link.delay, hops + 1);
                // Nodes settle in the order of (delay, hops, number), so the first best path stays.
                if path < best[other.index()] {
                    best[other.index()] = path;
                    port[other.index()] = topology.port_on(other, number);
                    heap.push(Reverse((path.0, path.1, other)));
                }
            }
        }
        PathTree { root, port, delay: best.into_iter().map(|(delay, _)| delay).collect() }
    }

    /// Computes the paths to this root over all links.
    pub(super) fn of_all_links(topology: &Topology, root: NodeId) -> Self {
        match topology.is_tree() {
            true => PathTree::in_tree(topology, root, |_| true),
            false => PathTree::new(topology, root, |_| true),
        }
    }

    /// Computes the paths to this root in a tree, where each node has one path: without a search for the best.
    fn in_tree(topology: &Topology, root: NodeId, is_up: impl Fn(u32) -> bool) -> Self {
        let nodes = topology.nodes();
        let mut port = vec![None; nodes];
        let mut delays = vec![Duration::MAX; nodes];
        delays[root.index()] = Duration::ZERO;
        let mut reached = vec![root];
        while let Some(node) = reached.pop() {
            let delay = delays[node.index()];
            for (_, number, link) in topology.ports(node).filter(|&(_, number, _)| is_up(number)) {
                let other = link.other(node);
                if delays[other.index()] == Duration::MAX {
                    delays[other.index()] = delay + link.delay;
                    port[other.index()] = topology.port_on(other, number);
                    reached.push(other);
                }
            }
        }
        PathTree { root, port, delay: delays }
    }

    /// Port of a node towards the root; `None` at the root and without a path.
    pub fn port(&self, node: NodeId) -> Option<PortId> {
        self.port[node.index()]
    }

    /// Propagation delay of the path; `None` without a path.
    pub fn delay(&self, node: NodeId) -> Option<Duration> {
        Some(self.delay[node.index()]).filter(|&delay| delay < Duration::MAX)
    }

    /// Root of the tree.
    pub fn root(&self) -> NodeId {
        self.root
    }
}

/// Routes between all nodes, computed on demand.
#[derive(Debug)]
pub enum Routes {
    /// Routes in a tree, where each pair has one path: a table of the size of the tree serves all pairs.
    Tree(TreeRoutes),
    /// Port of each node towards each destination so far.
    ///
    /// A node with one link has no entry, because the path to it is the path to its neighbour and one more hop.
    /// Otherwise the table of a large group, which hangs on few routers, would grow with its square.
    Graph(BTreeMap<NodeId, Vec<Option<PortId>>>),
}

impl Routes {
    /// Routes of a topology with all links up.
    pub fn new(topology: &Topology) -> Self {
        match topology.is_tree() {
            true => Routes::Tree(TreeRoutes::new(topology)),
            false => Routes::Graph(BTreeMap::new()),
        }
    }

    /// Port by which `node` sends to `to`; `None` for itself and without a path.
    pub fn port(
        &mut self,
        topology: &Topology,
        is_up: impl Fn(u32) -> bool,
        node: NodeId,
        to: NodeId,
    ) -> Option<PortId> {
        match self {
            Routes::Tree(tree) => {
                tree.port(node, to).filter(|&port| topology.link_at(node, port).is_some_and(is_up))
            }
            Routes::Graph(tables) => {
                // The path to a node with one link ends with that link.
                let (near, last) = match only_link(topology, to) {
                    Some(link) => (topology.links()[link as usize].other(to), Some(link)),
                    None => (to, None),
                };
                if node == to || last.is_some_and(|link| !is_up(link)) {
                    return None;
                }
                if let Some(link) = last.filter(|_| node == near) {
                    return topology.port_on(near, link);
                }
                tables.entry(near).or_insert_with(|| PathTree::new(topology, near, is_up).port)[node.index()]
            }
        }
    }

    /// Computes the paths from every node to this root.
    pub(super) fn paths(&self, topology: &Topology, root: NodeId, is_up: impl Fn(u32) -> bool) -> PathTree {
        match self {
            Routes::Tree(_) => PathTree::in_tree(topology, root, is_up),
            Routes::Graph(_) => PathTree::new(topology, root, is_up),
        }
    }

    /// Forgets all routes after a link went down or came up.
    pub fn forget(&mut self) {
        if let Routes::Graph(tables) = self {
            tables.clear();
        }
    }
}

/// Link of a node that has only one.
fn only_link(topology: &Topology, node: NodeId) -> Option<u32> {
    let mut ports = topology.ports(node);
    ports.next().filter(|_| ports.len() == 0).map(|(_, link, _)| link)
}

/// Routes in a tree: down to the child above the destination, or up.
#[derive(Debug)]
pub struct TreeRoutes {
    /// Preorder number of each node. The subtree of a node has the numbers in its `first..end`.
    first: Vec<u32>,
    end: Vec<u32>,
    up: Vec<Option<PortId>>,
    /// Children of each node, in ascending order: the `first` of each and its port.
    children: Vec<Vec<(u32, PortId)>>,
}

impl TreeRoutes {
    fn new(topology: &Topology) -> Self {
        let nodes = topology.nodes();
        let mut routes = TreeRoutes {
            first: vec![0; nodes],
            end: vec![0; nodes],
            up: vec![None; nodes],
            children: vec![Vec::new(); nodes],
        };
        let mut count = 1;
        // Port of each node on the path that is visited next; depth first without recursion.
        let mut way = vec![(NodeId(0), 0_u16)];
        while let Some((node, at)) = way.last_mut() {
            let (node, port) = (*node, PortId(*at));
            *at += 1;
            let Some(link) = topology.link_at(node, port) else {
                routes.end[node.index()] = count;
                way.pop();
                continue;
            };
            if routes.up[node.index()] == Some(port) {
                continue;
            }
            let child = topology.links()[link as usize].other(node);
            routes.first[child.index()] = count;
            routes.up[child.index()] = topology.port_on(child, link);
            routes.children[node.index()].push((count, port));
            count += 1;
            way.push((child, 0));
        }
        routes
    }

    fn port(&self, node: NodeId, to: NodeId) -> Option<PortId> {
        if node == to {
            return None;
        }
        // The destination is below this node if its preorder number is in the range of the subtree.
        let (here, there) = (node.index(), self.first[to.index()]);
        if (self.first[here]..self.end[here]).contains(&there) {
            let children = &self.children[here];
            let below = children.partition_point(|&(first, _)| first <= there);
            return below.checked_sub(1).map(|at| children[at].1);
        }
        self.up[here]
    }
}

/// Multicast tree: the reverse paths from the members of a group to a source, pruned to them.
#[derive(Clone, Debug)]
pub struct DeliveryTree {
    nodes: Vec<TreeNode>,
    /// Forwarding ports, node by node.
    downstream: Vec<PortId>,
}

/// Node of the tree, with everything that forwarding a packet needs. It is small, since each source has a tree and a
/// packet visits its nodes in no order: most visits miss the cache.
#[derive(Clone, Copy, Debug)]
struct TreeNode {
    /// Index of its first port in `downstream`; the highest bit says whether the node is a member.
    first: u32,
    /// Number of its ports in `downstream`.
    ports: u16,
    /// Port towards the source; `NO_PORT` without one.
    upstream: u16,
}

const _: () = assert!(size_of::<TreeNode>() == 8);

/// Flag of members in `TreeNode::first`.
const MEMBER: u32 = 1 << 31;

/// Number of no port: a node has fewer links.
const NO_PORT: u16 = u16::MAX;

impl DeliveryTree {
    /// Builds the tree of a source for these members.
    pub fn new(topology: &Topology, paths: &PathTree, members: &[NodeId]) -> Self {
        let nodes = topology.nodes();
        // Follow the reverse path of each member up to the part of the tree that exists already.
        let mut on_tree = vec![false; nodes];
        on_tree[paths.root().index()] = true;
        let mut edges: Vec<(NodeId, PortId)> = Vec::new();
        for &member in members {
            let mut node = member;
            while !on_tree[node.index()] {
                let Some(link) = paths.port(node).and_then(|port| topology.link_at(node, port)) else {
                    break;
                };
                on_tree[node.index()] = true;
                let above = topology.links()[link as usize].other(node);
                edges.extend(topology.port_on(above, link).map(|port| (above, port)));
                node = above;
            }
        }
        let hears = |node| {
            let upstream = paths.port(node).map_or(NO_PORT, |port| port.0);
            TreeNode { first: 0, ports: 0, upstream }
        };
        let mut nodes: Vec<TreeNode> = (0..nodes as u32).map(NodeId).map(hears).collect();
        // Counted by node, the ports of a node form one range.
        edges.iter().for_each(|(node, _)| nodes[node.index()].ports += 1);
        let mut end = 0;
        for node in &mut nodes {
            node.first = end;
            end += u32::from(std::mem::take(&mut node.ports));
        }
        let mut downstream = vec![PortId(0); edges.len()];
        for (node, port) in edges {
            let node = &mut nodes[node.index()];
            downstream[node.first as usize + usize::from(node.ports)] = port;
            node.ports += 1;
        }
        for node in nodes.iter().filter(|node| node.ports > 1) {
            let first = node.first as usize;
            downstream[first..first + usize::from(node.ports)].sort_unstable();
        }
        members.iter().for_each(|member| nodes[member.index()].first |= MEMBER);
        DeliveryTree { nodes, downstream }
    }

    /// Port of a node towards the source. Reverse-path forwarding accepts packets from no other.
    pub fn upstream(&self, node: NodeId) -> Option<PortId> {
        let upstream = self.nodes[node.index()].upstream;
        (upstream != NO_PORT).then_some(PortId(upstream))
    }

    /// Returns true if a node is a member.
    pub fn is_member(&self, node: NodeId) -> bool {
        self.nodes[node.index()].first & MEMBER != 0
    }

    /// Forwarding ports of a node in ascending order.
    pub fn downstream(&self, node: NodeId) -> &[PortId] {
        let TreeNode { first, ports, .. } = self.nodes[node.index()];
        let first = (first & !MEMBER) as usize;
        &self.downstream[first..first + usize::from(ports)]
    }
}

#[cfg(test)]
mod tests {
    use carillon_core::{Rng, Seeds};

    use super::super::topology::Link;
    use super::*;

    const UP: fn(u32) -> bool = |_| true;

    fn graph(nodes: usize, links: &[(u32, u32, u64)]) -> Topology {
        let mut topology = Topology::new(nodes);
        for &(a, b, millis) in links {
            let ends = [NodeId(a), NodeId(b)];
            topology.add_link(Link::new(ends, Duration::from_millis(millis)));
        }
        topology
    }

    /// Nodes on the path.
    fn way(topology: &Topology, routes: &mut Routes, from: u32, to: u32) -> Vec<u32> {
        let (mut node, mut way) = (NodeId(from), vec![from]);
        while let Some(port) = routes.port(topology, UP, node, NodeId(to)) {
            let link = topology.link_at(node, port).expect("a route has a link");
            node = topology.links()[link as usize].other(node);
            way.push(node.0);
            assert!(way.len() <= topology.nodes(), "a loop: {way:?}");
        }
        way
    }

    #[test]
    fn ties_in_delay_fall_to_fewest_links_then_lowest_number() {
        let topology =
            graph(5, &[(0, 1, 5), (1, 2, 5), (0, 2, 11), (0, 3, 10), (3, 4, 10), (0, 4, 20), (2, 4, 10)]);
        let mut routes = Routes::new(&topology);
        assert_eq!(way(&topology, &mut routes, 0, 2), [0, 1, 2], "10 ms against 11");
        assert_eq!(way(&topology, &mut routes, 4, 0), [4, 0], "one link of 20 ms against two");
        let equal = graph(4, &[(0, 2, 5), (0, 1, 5), (2, 3, 5), (1, 3, 5)]);
        assert_eq!(way(&equal, &mut Routes::new(&equal), 3, 0), [3, 1, 0]);
    }

    #[test]
    fn in_a_tree_the_table_and_the_search_agree() {
        let mut rng: Rng = Seeds::new(7).stream("tree");
        for nodes in [2_u32, 3, 10, 60] {
            let links: Vec<_> =
                (1..nodes).map(|node| (rng.below(node.into()) as u32, node, 1 + rng.below(9))).collect();
            let topology = graph(nodes as usize, &links);
            let mut table = Routes::new(&topology);
            assert!(matches!(table, Routes::Tree(_)));
            let mut search = Routes::Graph(BTreeMap::new());
            for from in 0..nodes {
                for to in 0..nodes {
                    assert_eq!(way(&topology, &mut table, from, to), way(&topology, &mut search, from, to));
                }
                let down = rng.below(u64::from(nodes)) as u32;
                let paths = table.paths(&topology, NodeId(from), |link| link != down);
                let searched = search.paths(&topology, NodeId(from), |link| link != down);
                assert_eq!((paths.port, paths.delay), (searched.port, searched.delay));
            }
        }
    }

    #[test]
    fn nodes_with_one_link_are_reached_over_their_neighbour() {
        let mut rng: Rng = Seeds::new(11).stream("leaves");
        for round in 0..20 {
            // A ring of routers with chords and leaves; delays of 1 to 3 cause ties.
            let (routers, leaves) = (3 + rng.below(6) as u32, 1 + rng.below(8) as u32);
            let mut links: Vec<_> = (0..routers).map(|n| (n, (n + 1) % routers, 1 + rng.below(3))).collect();
            links.push((0, routers / 2 + 1, 1 + rng.below(3)));
            links.extend(
                (0..leaves).map(|n| (rng.below(routers.into()) as u32, routers + n, 1 + rng.below(3))),
            );
            let topology = graph((routers + leaves) as usize, &links);
            let down = rng.below(links.len() as u64 + 1) as u32;
            let is_up = |link: u32| link != down;
            let mut routes = Routes::new(&topology);
            assert!(matches!(routes, Routes::Graph(_)));
            for to in (0..routers + leaves).map(NodeId) {
                let paths = PathTree::new(&topology, to, is_up);
                for from in (0..routers + leaves).map(NodeId) {
                    let port = routes.port(&topology, is_up, from, to);
                    assert_eq!(port, paths.port(from), "round {round}: {from} to {to}, link {down} down");
                }
            }
            let Routes::Graph(tables) = routes else { unreachable!("seen above") };
            assert!(tables.keys().all(|node| node.0 < routers), "no table of a leaf");
        }
    }

    #[test]
    fn links_that_are_down_are_not_used() {
        let topology = graph(3, &[(0, 1, 1), (1, 2, 1), (0, 2, 9)]);
        let mut routes = Routes::new(&topology);
        assert_eq!(routes.port(&topology, |link| link != 1, NodeId(0), NodeId(2)), Some(PortId(1)));
        routes.forget();
        assert_eq!(routes.port(&topology, |_| false, NodeId(0), NodeId(2)), None);
    }

    #[test]
    fn a_delivery_tree_has_the_branches_of_its_members_only() {
        //     0 - 1 - 2        3 and 4 hang on 1 and 2; 4 is no member.
        //         |   |
        //         3   4
        let topology = graph(5, &[(0, 1, 1), (1, 2, 1), (1, 3, 1), (2, 4, 1)]);
        let paths = PathTree::new(&topology, NodeId(0), UP);
        let tree = DeliveryTree::new(&topology, &paths, &[NodeId(3), NodeId(2), NodeId(0)]);
        assert_eq!(tree.downstream(NodeId(0)), [PortId(0)]);
        assert_eq!(tree.downstream(NodeId(1)), [PortId(1), PortId(2)]);
        assert_eq!(tree.downstream(NodeId(2)), []);
        assert_eq!(tree.upstream(NodeId(3)), Some(PortId(0)));
        assert_eq!(tree.upstream(NodeId(0)), None);
        assert_eq!(paths.delay(NodeId(4)), Some(Duration::from_millis(3)));
    }
}
