//! Tree with different regions: the source, a backbone, local exchanges at any depth, and endpoints at each exchange
//! (Paul, Sabnani and Kristol, "Multicast transport protocols for high speed networks", ICNP 1994, figures 1 and 2).

use std::collections::VecDeque;
use std::time::Duration;

use carillon_core::{BitRate, NodeId};

use super::topology::{Link, Topology};
use crate::loss::LossModel;

/// Region: a local exchange and everything behind it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Region {
    /// Delay of the link from the exchange above, or from the backbone.
    pub uplink_delay: Duration,
    /// Delay of the link of each endpoint.
    pub endpoint_delay: Duration,
    /// Rate of the region's links, its uplink included; `None` is the network's rate.
    pub rate: Option<BitRate>,
    /// Loss model of the uplink; `None` is that of the network.
    pub uplink_loss: Option<LossModel>,
    /// Loss model of the endpoints' links; `None` is that of the network.
    pub endpoint_loss: Option<LossModel>,
    /// Number of endpoints at the exchange itself; they receive.
    pub endpoints: u32,
    /// Regions below the exchange.
    pub regions: Vec<Region>,
}

/// Builds a tree of regions and returns it with the loss model of each link.
///
/// The source is node 0 and the backbone node 1, on a link without delay. Local exchanges follow level by level, and
/// then the endpoints, exchange by exchange.
///
/// # Panics
///
/// Panics if a node has more than 65 536 links.
pub fn regional_tree(regions: &[Region]) -> (Topology, Vec<Option<LossModel>>) {
    let (source, backbone) = (NodeId(0), NodeId(1));
    let mut topology = Topology::new(2);
    let mut losses = vec![None];
    topology.add_link(Link::new([source, backbone], Duration::ZERO));
    let mut level: VecDeque<(NodeId, &Region)> = regions.iter().map(|region| (backbone, region)).collect();
    let mut exchanges = Vec::new();
    while let Some((above, region)) = level.pop_front() {
        let exchange = topology.add_node();
        topology.add_link(Link { rate: region.rate, ..Link::new([above, exchange], region.uplink_delay) });
        losses.push(region.uplink_loss);
        level.extend(region.regions.iter().map(|below| (exchange, below)));
        exchanges.push((exchange, region));
    }
    for (exchange, region) in exchanges {
        for _ in 0..region.endpoints {
            let endpoint = topology.add_node();
            let ends = [exchange, endpoint];
            topology.add_link(Link { rate: region.rate, ..Link::new(ends, region.endpoint_delay) });
            losses.push(region.endpoint_loss);
            topology.receivers.push(endpoint);
        }
    }
    topology.sources = vec![source];
    (topology, losses)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaf(millis: u64, endpoints: u32) -> Region {
        Region { uplink_delay: Duration::from_millis(millis), endpoints, ..Region::default() }
    }

    #[test]
    fn exchanges_come_level_by_level_and_endpoints_behind_them() {
        let loss = Some(LossModel::None);
        let inner = Region { regions: vec![leaf(3, 2), leaf(4, 1)], ..leaf(2, 1) };
        let lossy = Region { uplink_loss: loss, rate: Some(BitRate::mbps(100)), ..leaf(5, 2) };
        let (tree, losses) = regional_tree(&[inner, lossy]);
        assert!(tree.is_tree());
        assert_eq!((tree.sources[0], tree.receivers.clone()), (NodeId(0), (6..12).map(NodeId).collect()));
        assert_eq!(
            tree.edges().lines().collect::<Vec<_>>(),
            // The source, two exchanges, the two below the first; their endpoints.
            [
                "0 1 0",
                "1 2 2",
                "1 3 5 100",
                "2 4 3",
                "2 5 4",
                "2 6 0",
                "3 7 0 100",
                "3 8 0 100",
                "4 9 0",
                "4 10 0",
                "5 11 0"
            ]
        );
        assert_eq!(losses.len(), tree.links().len());
        assert_eq!(losses.iter().position(Option::is_some), Some(2));
    }

    #[test]
    fn tree_without_regions_has_two_nodes() {
        let (tree, losses) = regional_tree(&[]);
        assert_eq!((tree.nodes(), tree.receivers.len(), losses.len()), (2, 0, 1));
    }
}
