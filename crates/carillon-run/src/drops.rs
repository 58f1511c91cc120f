//! Single losses, as in the evaluation of LMS, SRM and PGM: one packet at a time, far apart, each on
//! one link of the multicast tree.

use carillon_core::{GroupId, MessageId, NodeId};
use carillon_sim::graph::{DeliveryTree, Graph, PathTree, SingleLoss};

use crate::scenario::{DropPlaces, Drops, RoutedNetwork};

/// A link of the multicast tree, in the direction of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The link.
    pub link: u32,
    /// Its upper end.
    pub from: NodeId,
}

/// The links of the tree of the source where packets are lost, in turn: those to receivers in the
/// order of the receivers, otherwise branch by branch. Where timers adapt, the order tells: members
/// learn from losses near each other.
pub fn places(network: &RoutedNetwork, drops: &Drops) -> Vec<Place> {
    let topology = &network.topology;
    let source = network.source();
    let paths = PathTree::new(topology, source, |_| true);
    let last = |receiver: NodeId| {
        let link = topology.link_at(receiver, paths.port(receiver)?)?;
        Some(Place { link, from: topology.links()[link as usize].other(receiver) })
    };
    let tree = || {
        let tree = DeliveryTree::new(topology, &paths, &topology.receivers);
        let (mut links, mut stack) = (Vec::new(), vec![source]);
        while let Some(node) = stack.pop() {
            for &port in tree.downstream(node) {
                let Some(link) = topology.link_at(node, port) else { continue };
                links.push(Place { link, from: node });
                stack.push(topology.links()[link as usize].other(node));
            }
        }
        links
    };
    let mut places = match drops.places {
        DropPlaces::Source => tree().into_iter().filter(|place| place.from == source).collect(),
        DropPlaces::EachReceiver => {
            topology.receivers.iter().filter_map(|&receiver| last(receiver)).collect()
        }
        DropPlaces::EachLink => tree(),
    };
    places.retain(|place| network.is_of_kind(place.link, drops.kind));
    places
}

/// Messages from one loss to the next, at this many a second.
pub fn stride(drops: &Drops, messages_per_second: f64) -> u64 {
    ((drops.apart.as_secs_f64() * messages_per_second).round() as u64).max(1)
}

/// Tells the network what it is to lose: at each place as often as wanted before the next.
pub fn arm(graph: &mut Graph, network: &RoutedNetwork, drops: &Drops, stride: u64) {
    let places = places(network, drops);
    let all = places.iter().flat_map(|place| (0..drops.times).map(move |_| place));
    for (number, place) in (0_u64..).zip(all) {
        let message = MessageId(drops.first + number * stride);
        graph.lose(place.link, place.from, SingleLoss { source: network.source(), message });
    }
}

/// The group all members of a run share.
pub const GROUP: GroupId = GroupId(0);
