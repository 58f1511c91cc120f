//! Random routed networks for tests.

use std::time::Duration;

use carillon_core::{NodeId, Rng};
use carillon_sim::graph::{Link, Topology};

/// Builds a random network of routers, with the sender (node 0) and the receivers (1 to r) attached to some of them
/// and delays of up to `longest`. Routers are the nodes after the receivers. `detours` is the number of links beyond
/// a tree, each of which makes a cycle.
pub fn random_network(
    receivers: u32,
    routers: u32,
    detours: u32,
    longest: Duration,
    rng: &mut Rng,
) -> Topology {
    let first = receivers + 1;
    let mut topology = Topology::new((first + routers) as usize);
    let join = |topology: &mut Topology, a: u32, b: u32, rng: &mut Rng| {
        let delay = Duration::from_nanos(100_000 + rng.below(longest.as_nanos() as u64));
        topology.add_link(Link::new([NodeId(a), NodeId(b)], delay));
    };
    // Each router joins an earlier one, which makes a tree.
    for router in 1..routers {
        let other = rng.below(router.into()) as u32;
        join(&mut topology, first + other, first + router, rng);
    }
    for host in 0..=receivers {
        let router = rng.below(routers.into()) as u32;
        join(&mut topology, first + router, host, rng);
    }
    // A further link within the tree makes a cycle.
    for _ in 0..detours {
        let (a, b) = (rng.below(routers.into()) as u32, rng.below(routers.into()) as u32);
        if a != b {
            join(&mut topology, first + a, first + b, rng);
        }
    }
    topology.sources = vec![NodeId(0)];
    topology.receivers = (1..=receivers).map(NodeId).collect();
    topology
}
