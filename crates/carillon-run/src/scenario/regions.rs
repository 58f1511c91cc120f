//! Tree of regions with different links, as described by the keys of a scenario.

use std::sync::Arc;
use std::time::Duration;

use carillon_core::{BitRate, Span};
use carillon_sim::graph::regions::{self, regional_tree};
use carillon_sim::graph::{LossModel, Topology};

use super::document::{Network, Region};
use super::network::OwnLink;

/// Key and description of an error.
type Problem = (&'static str, String);

/// Builds the tree of these regions for `receivers` receivers, or for as many as the regions state.
pub(super) fn tree(
    network: &Network,
    regions: &[Region],
    receivers: Option<u32>,
) -> Result<(Topology, Arc<[OwnLink]>), Problem> {
    let bad = |what: String| Err((KEY, what));
    let (mut said, mut open) = (0_u64, 0_u64);
    let mut rest: Vec<&[Region]> = vec![regions];
    while let Some(level) = rest.pop() {
        if level.len() > MAX_PORTS as usize {
            return bad(format!("has {} regions side by side: give {MAX_PORTS} at most", level.len()));
        }
        for region in level {
            let far = |span: &Span| span.at(network.rate()) > MAX_ROUND_TRIP;
            if [Some(region.round_trip), region.local_round_trip].iter().flatten().any(far) {
                return bad(format!("has a round trip of more than {} s", MAX_ROUND_TRIP.as_secs()));
            }
            match region.endpoints {
                Some(endpoints) if endpoints > MAX_PORTS => {
                    return bad(format!(
                        "has {endpoints} endpoints at one exchange: give {MAX_PORTS} at most"
                    ));
                }
                Some(endpoints) => said += u64::from(endpoints),
                None => open += u64::from(is_open(region)),
            }
            rest.push(&region.regions);
        }
    }
    let dealt = match (receivers, open) {
        (_, 0) => 0,
        (Some(receivers), _) => u64::from(receivers).saturating_sub(said),
        (None, _) => {
            let what = "is required: there are regions that do not say how many endpoints they have";
            return Err(("group.receivers", what.into()));
        }
    };
    if open > 0 && (dealt > open * u64::from(MAX_PORTS) || said + dealt > u64::from(u32::MAX)) {
        return Err(("group.receivers", format!("is more than {MAX_PORTS} endpoints at an exchange")));
    }
    let deal =
        ReceiverAllocation { rate: network.rate(), least: dealt / open.max(1), more: dealt % open.max(1) };
    let (topology, losses) = regional_tree(&deal.regions(regions, &mut 0));
    let own = losses.into_iter().map(|loss| OwnLink { deviation: Duration::ZERO, loss }).collect();
    Ok((topology, own))
}

/// Returns true if the region states no size and is therefore allotted receivers.
fn is_open(region: &Region) -> bool {
    region.endpoints.is_none() && region.regions.is_empty()
}

/// Allocation of receivers to regions without a stated number: `least` each, and one more for the first `more`
/// regions.
struct ReceiverAllocation {
    rate: BitRate,
    least: u64,
    more: u64,
}

impl ReceiverAllocation {
    /// Resolves the regions; `open` counts the regions that were already allotted receivers. Recursion is bounded, as
    /// the TOML parser limits the nesting of a file.
    fn regions(&self, regions: &[Region], open: &mut u64) -> Vec<regions::Region> {
        let one_way = |span: Span| span.at(self.rate) / 2;
        let mut known = |region: &Region| {
            let dealt = if is_open(region) {
                *open += 1;
                self.least + u64::from(*open <= self.more)
            } else {
                0
            };
            regions::Region {
                uplink_delay: one_way(region.round_trip),
                endpoint_delay: region.local_round_trip.map_or(DEFAULT_LOCAL_ROUND_TRIP / 2, one_way),
                rate: region.rate,
                uplink_loss: region.uplink_p.map(LossModel::Bernoulli),
                endpoint_loss: region.p.map(LossModel::Bernoulli),
                endpoints: region.endpoints.unwrap_or(dealt as u32),
                regions: self.regions(&region.regions, open),
            }
        };
        regions.iter().map(&mut known).collect()
    }
}

const KEY: &str = "network.regions";

/// Maximum number of regions or endpoints below a node, bounded by its ports; one of them leads up.
const MAX_PORTS: u32 = 65_000;

/// Default round-trip time between an exchange and an endpoint.
const DEFAULT_LOCAL_ROUND_TRIP: Duration = Duration::from_millis(1);

const MAX_ROUND_TRIP: Duration = Duration::from_secs(3600);
