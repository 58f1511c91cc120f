//! Generated topologies: regular trees, stars, and the random models of GT-ITM (Zegura, Calvert and Bhattacharjee,
//! "How to model an internetwork", INFOCOM 1996), on which LMS, SRM and PGM were compared.

use std::time::Duration;

use carillon_core::{BitRate, NodeId, Rng};

use super::topology::{Link, Topology};

/// Binary tree: node 0 is the source, node 1 the root below it, and node i has the children 2 i and 2 i + 1. The
/// leaves, `height` levels below the root, receive.
pub fn binary_tree(height: u32, delay: Duration) -> Topology {
    let leaves = 1_u32 << height;
    let mut topology = Topology::new(2 * leaves as usize);
    for node in 1..2 * leaves {
        let ends = [NodeId(if node == 1 { 0 } else { node / 2 }), NodeId(node)];
        topology.add_link(Link::new(ends, delay));
    }
    topology.sources = vec![NodeId(0)];
    topology.receivers = (leaves..2 * leaves).map(NodeId).collect();
    topology
}

/// Tree of levels: the source, node 0, has `fanout[0]` children, each of which has `fanout[1]`, and so on; the leaves
/// receive. Nodes are numbered level by level.
pub fn level_tree(fanout: &[u32], delay: Duration) -> Topology {
    let mut topology = Topology::new(1);
    let mut level = vec![NodeId(0)];
    for &children in fanout {
        let mut next = Vec::with_capacity(level.len() * children as usize);
        for &parent in &level {
            for _ in 0..children {
                let child = topology.add_node();
                topology.add_link(Link::new([parent, child], delay));
                next.push(child);
            }
        }
        level = next;
    }
    topology.sources = vec![NodeId(0)];
    topology.receivers = level;
    topology
}

/// Star: a parent, node 0, and a child for each of these links with its delay and, if given, its own rate; the
/// children receive.
///
/// # Panics
///
/// Panics if there are more than 65 536 links.
pub fn star(links: &[(Duration, Option<BitRate>)]) -> Topology {
    let mut topology = Topology::new(1);
    for &(delay, rate) in links {
        let child = topology.add_node();
        topology.add_link(Link { rate, ..Link::new([NodeId(0), child], delay) });
        topology.receivers.push(child);
    }
    topology.sources = vec![NodeId(0)];
    topology
}

/// Model for the links of a flat random graph.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum EdgeModel {
    /// Joins each pair with this probability, at any distance (GT-ITM's pure random method).
    Pure(f64),
    /// Joins each pair with probability alpha exp(-d / (beta L)) at distance d, where L is the diagonal of the plane
    /// (Waxman, "Routing of multipoint connections", 1988).
    Waxman {
        /// Density of links.
        alpha: f64,
        /// Share of long links.
        beta: f64,
    },
}

/// Flat random graph: nodes at random places of a square plane with a side of `side` milliseconds of propagation,
/// joined at random. The graph is drawn again until it is connected.
///
/// # Errors
///
/// Fails if a hundred graphs in a row are not connected: the links are too few.
pub fn flat_random(nodes: usize, side: f64, model: EdgeModel, rng: &mut Rng) -> Result<Topology, TooSparse> {
    for _ in 0..ATTEMPTS {
        let mut topology = Topology::new(nodes);
        let places: Vec<[f64; 2]> = (0..nodes).map(|_| [rng.unit() * side, rng.unit() * side]).collect();
        for b in 1..nodes {
            for a in 0..b {
                let distance = || libm::hypot(places[a][0] - places[b][0], places[a][1] - places[b][1]);
                let probability = match model {
                    EdgeModel::Pure(p) => p,
                    EdgeModel::Waxman { alpha, beta } => {
                        alpha * libm::exp(-distance() / (beta * side * std::f64::consts::SQRT_2))
                    }
                };
                if rng.chance(probability.clamp(0.0, 1.0)) {
                    let ends = [NodeId(a as u32), NodeId(b as u32)];
                    topology.add_link(Link::new(ends, millis(distance())));
                }
            }
        }
        if topology.is_connected() {
            return Ok(topology);
        }
    }
    Err(TooSparse)
}

/// Error of random graphs that are never connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooSparse;

impl std::fmt::Display for TooSparse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{ATTEMPTS} random graphs in a row were not connected; raise the probability of a link")
    }
}

impl std::error::Error for TooSparse {}

const ATTEMPTS: usize = 100;

/// Parameters of a transit-stub network: a transit domain with stub domains at its routers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TransitStub {
    /// Number of routers in the transit domain.
    pub transit: usize,
    /// Number of stub domains at each of them.
    pub stubs: usize,
    /// Number of routers in a stub domain.
    pub stub_nodes: usize,
    /// Probability of a link between two routers, in the transit domain and in a stub domain.
    pub probability: [f64; 2],
    /// Ranges of delays in milliseconds: between transit routers, from a transit router to a stub, within a stub.
    pub delays: [(f64, f64); 3],
}

impl Default for TransitStub {
    /// Parameters of the evaluation of LMS, SRM and PGM: 1 x 4 x (1 + 3 x 8) = 100 routers.
    fn default() -> Self {
        TransitStub {
            transit: 4,
            stubs: 3,
            stub_nodes: 8,
            probability: [0.6, 0.42],
            delays: [(20.0, 50.0), (5.0, 15.0), (1.0, 5.0)],
        }
    }
}

/// Kind of a node in a transit-stub network. Loss models are assigned by the kinds of a link's ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Domain {
    /// Router of the transit domain.
    Transit,
    /// Router of a stub domain.
    Stub,
}

impl TransitStub {
    /// Generates a network of this shape: transit routers first, then the stub domains one after the other.
    ///
    /// # Errors
    ///
    /// Fails if a hundred domains in a row are not connected.
    pub fn generate(&self, rng: &mut Rng) -> Result<(Topology, Vec<Domain>), TooSparse> {
        let mut topology = Topology::new(0);
        let mut kinds = Vec::new();
        let [within_transit, to_stub, within_stub] = self.delays;
        let first = domain(&mut topology, self.transit, self.probability[0], within_transit, rng)?;
        kinds.resize(topology.nodes(), Domain::Transit);
        for transit in 0..self.transit {
            for _ in 0..self.stubs {
                let stub = domain(&mut topology, self.stub_nodes, self.probability[1], within_stub, rng)?;
                kinds.resize(topology.nodes(), Domain::Stub);
                let gateway = NodeId(stub.0 + rng.below(self.stub_nodes as u64) as u32);
                let ends = [NodeId(first.0 + transit as u32), gateway];
                topology.add_link(Link::new(ends, between(to_stub, rng)));
            }
        }
        Ok((topology, kinds))
    }
}

/// Adds a connected random domain; returns its first node.
fn domain(
    topology: &mut Topology,
    nodes: usize,
    probability: f64,
    delays: (f64, f64),
    rng: &mut Rng,
) -> Result<NodeId, TooSparse> {
    let inside = flat_random(nodes, 1.0, EdgeModel::Pure(probability), rng)?;
    let first = NodeId(topology.nodes() as u32);
    for _ in 0..nodes {
        topology.add_node();
    }
    for link in inside.links() {
        let ends = link.ends.map(|end| NodeId(first.0 + end.0));
        topology.add_link(Link::new(ends, between(delays, rng)));
    }
    Ok(first)
}

/// Attaches a source and receivers to random nodes among `places`, each a host of its own behind a link of this
/// delay. The source is the first new node.
pub fn place(topology: &mut Topology, places: &[NodeId], receivers: usize, delay: Duration, rng: &mut Rng) {
    let mut host = |topology: &mut Topology| {
        let at = places[rng.below(places.len() as u64) as usize];
        let host = topology.add_node();
        topology.add_link(Link::new([at, host], delay));
        host
    };
    topology.sources = vec![host(topology)];
    topology.receivers = (0..receivers).map(|_| host(topology)).collect();
}

fn between((least, most): (f64, f64), rng: &mut Rng) -> Duration {
    millis(least + rng.unit() * (most - least))
}

fn millis(millis: f64) -> Duration {
    Duration::from_nanos((millis * 1e6).round() as u64)
}

#[cfg(test)]
mod tests {
    use carillon_core::Seeds;

    use super::*;

    fn rng(seed: u64) -> Rng {
        Seeds::new(seed).stream("topology")
    }

    #[test]
    fn a_binary_tree_is_numbered_like_a_heap() {
        let tree = binary_tree(3, Duration::from_millis(10));
        assert_eq!(tree.nodes(), 16);
        assert!(tree.is_tree());
        assert_eq!(tree.edges().lines().take(3).collect::<Vec<_>>(), ["0 1 10", "1 2 10", "1 3 10"]);
        assert_eq!(tree.receivers, (8..16).map(NodeId).collect::<Vec<_>>());
    }

    #[test]
    fn a_tree_of_levels_has_its_children() {
        let tree = level_tree(&[2, 3], Duration::from_millis(1));
        assert_eq!(tree.nodes(), 9);
        assert!(tree.is_tree());
        assert_eq!(tree.receivers, (3..9).map(NodeId).collect::<Vec<_>>());
        assert_eq!(
            tree.edges().lines().skip(2).collect::<Vec<_>>(),
            ["1 3 1", "1 4 1", "1 5 1", "2 6 1", "2 7 1", "2 8 1"]
        );
    }

    #[test]
    fn a_flat_graph_has_the_links_its_probability_says() {
        let graph = flat_random(100, 50.0, EdgeModel::Pure(0.1), &mut rng(1)).expect("it holds together");
        // 4950 pairs: 495 links expected, with a deviation of 21.
        assert!((410..580).contains(&graph.links().len()), "{}", graph.links().len());
        let longest = Duration::from_nanos((50.0 * std::f64::consts::SQRT_2 * 1e6) as u64);
        assert!(graph.links().iter().all(|link| link.delay <= longest));
        let again = flat_random(100, 50.0, EdgeModel::Pure(0.1), &mut rng(1)).expect("the same");
        assert_eq!(again.links(), graph.links());
        assert_eq!(flat_random(20, 50.0, EdgeModel::Pure(0.0), &mut rng(1)).err(), Some(TooSparse));
        let waxman = EdgeModel::Waxman { alpha: 0.9, beta: 0.3 };
        let graph = flat_random(60, 50.0, waxman, &mut rng(2)).expect("it holds together");
        let mean = |links: &[Link]| {
            links.iter().map(|link| link.delay.as_secs_f64()).sum::<f64>() / links.len() as f64
        };
        assert!(mean(graph.links()) < 0.022, "short links prevail: the mean distance is 26 ms");
    }

    #[test]
    fn a_transit_stub_network_has_its_domains() {
        let (mut topology, kinds) = TransitStub::default().generate(&mut rng(3)).expect("it holds together");
        assert_eq!(topology.nodes(), 100);
        assert_eq!(kinds.iter().filter(|&&kind| kind == Domain::Transit).count(), 4);
        let stubs: Vec<NodeId> = (4..100).map(NodeId).collect();
        place(&mut topology, &stubs, 20, Duration::from_millis(1), &mut rng(4));
        assert_eq!(topology.nodes(), 121);
        assert_eq!((topology.sources[0], topology.receivers.len()), (NodeId(100), 20));
        assert!(topology.is_connected());
        for link in topology.links() {
            let kind = |node: NodeId| kinds.get(node.index());
            let millis = link.delay.as_secs_f64() * 1e3;
            let range = match link.ends.map(kind) {
                [Some(Domain::Transit), Some(Domain::Transit)] => 20.0..=50.0,
                [Some(Domain::Stub), Some(Domain::Stub)] => 1.0..=5.0,
                [Some(_), Some(_)] => 5.0..=15.0,
                _ => 1.0..=1.0,
            };
            assert!(range.contains(&millis), "{link:?}");
        }
    }
}
