//! Helpers of a scenario: their nodes and their tree.
//!
//! On a LAN, helpers that are not receivers are stations numbered after the receivers. On a routed network they are
//! located at routers, like local exchanges and repair servers. No link is added, so that every protocol runs on the
//! same network. The router keeps forwarding packets.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use carillon_core::{Helper, HelperTable, Helpers, NodeId, ProtocolEntry};
use carillon_sim::graph::{DeliveryTree, PathTree, Topology};

use super::group::{HelperSelection, Tree};
use super::network::ScenarioNetwork;

/// Key and description of an error.
type Problem = (&'static str, String);

/// The table of a scenario.
pub(super) fn table(
    protocol: &ProtocolEntry,
    network: &ScenarioNetwork,
    receivers: &[NodeId],
    who: Option<&HelperSelection>,
    tree: Option<&Tree>,
) -> Result<HelperTable, Problem> {
    let place = Places::of(network);
    let regions = match who {
        Some(HelperSelection::Exchanges | HelperSelection::Representatives) => {
            place.regions(receivers).map_err(|what| ("group.helpers", what))?
        }
        _ => BTreeMap::new(),
    };
    let count = match who {
        None => 0,
        Some(HelperSelection::Count(count)) => *count as usize,
        Some(HelperSelection::Nodes(nodes)) => nodes.len(),
        Some(HelperSelection::Exchanges | HelperSelection::Representatives) => regions.len(),
    };
    let name = protocol.name;
    let bad = |what: String| Err(("group.helpers", what));
    match protocol.helpers {
        Helpers::None if count > 0 => return bad(format!("is {count}: \"{name}\" has no helpers")),
        Helpers::Required(least) if !protocol.helpers.allow(count) => {
            return bad(format!("is {count}: \"{name}\" needs {least} at least"));
        }
        _ if count > MAX_HELPERS => return bad(format!("is {count}: give {MAX_HELPERS} at most")),
        _ => {}
    }
    if count == 0 {
        return match tree {
            Some(_) => Err(("group.tree", "requires helpers, and there are none (`group.helpers`)".into())),
            None => Ok(HelperTable::default()),
        };
    }
    let helpers = match who {
        Some(HelperSelection::Nodes(nodes)) => place.named(nodes, receivers),
        Some(HelperSelection::Exchanges) => Ok(regions.keys().copied().collect()),
        Some(HelperSelection::Representatives) => Ok(regions.values().copied().collect()),
        _ => place.chosen(count, receivers),
    };
    let helpers = helpers.map_err(|what| ("group.helpers", what))?;
    let default = if network.graph().is_some() { Tree::Path } else { Tree::Flat };
    let tree = tree.unwrap_or(&default);
    let table = match tree {
        Tree::Flat => Ok(HelperTable::balanced(&helpers, receivers, helpers.len())),
        Tree::Fanout(fanout) => Ok(HelperTable::balanced(&helpers, receivers, *fanout)),
        Tree::Path if who == Some(&HelperSelection::Representatives) => {
            place.along(&helpers, &regions, receivers)
        }
        Tree::Path => {
            let at = helpers.iter().map(|&helper| (helper, helper)).collect();
            place.along(&helpers, &at, receivers)
        }
        Tree::Parents(parents) => given(&helpers, receivers, parents),
    };
    table.map_err(|what| ("group.tree", what))
}

/// The tree of this list.
fn given(helpers: &[NodeId], receivers: &[NodeId], parents: &[usize]) -> Result<HelperTable, String> {
    let others: Vec<NodeId> = receivers.iter().copied().filter(|node| !helpers.contains(node)).collect();
    let (least, most) = (helpers.len(), helpers.len() + others.len());
    if parents.len() != least && parents.len() != most {
        return Err(format!(
            "has {} numbers: give {least}, one for each helper, or {most}, one for each receiver that is no helper too",
            parents.len()
        ));
    }
    let to = |&number: &usize| match number.checked_sub(1) {
        None => Ok(None),
        Some(index) => match helpers.get(index) {
            Some(&helper) => Ok(Some(helper)),
            None => Err(format!("names helper {number}: there are {least}, and 0 is the sender")),
        },
    };
    let parents = parents.iter().map(to).collect::<Result<Vec<_>, _>>()?;
    let entry = |(&node, &parent): (&NodeId, _)| Helper { node, parent, delivers: receivers.contains(&node) };
    let entries: Vec<Helper> = helpers.iter().zip(&parents).map(entry).collect();
    let members: Vec<(NodeId, NodeId)> = match parents.get(least..) {
        Some(own) if !own.is_empty() => {
            others.iter().zip(own).filter_map(|(&member, &to)| Some((member, to?))).collect()
        }
        // As where the tree is made by a rule: to the helpers that no other turns to, in turn.
        _ => {
            let is_leaf = |node: &&NodeId| entries.iter().all(|entry| entry.parent != Some(**node));
            let leaves: Vec<NodeId> = helpers.iter().filter(is_leaf).copied().collect();
            others.iter().zip(leaves.iter().cycle()).map(|(&member, &leaf)| (member, leaf)).collect()
        }
    };
    HelperTable::new(entries, members).map_err(|error| error.to_string())
}

/// Candidate locations of helpers.
enum Places<'a> {
    Lan,
    Graph { topology: &'a Topology, paths: Box<PathTree> },
}

impl<'a> Places<'a> {
    fn of(network: &'a ScenarioNetwork) -> Self {
        match network {
            ScenarioNetwork::Lan(_) => Places::Lan,
            ScenarioNetwork::Graph(graph) => {
                let topology: &Topology = &graph.topology;
                let paths = Box::new(PathTree::new(topology, graph.source(), |_| true));
                Places::Graph { topology, paths }
            }
        }
    }

    /// Chooses `count` helpers: stations after the receivers, or the branching routers of the multicast tree. Routers
    /// with the most receivers behind them come first.
    fn chosen(&self, count: usize, receivers: &[NodeId]) -> Result<Vec<NodeId>, String> {
        let Places::Graph { topology, paths } = self else {
            return Ok((0..count as u32).map(|index| NodeId(receivers.len() as u32 + 1 + index)).collect());
        };
        let mut behind = vec![0_u64; topology.nodes()];
        for &receiver in receivers {
            way(topology, paths, receiver).for_each(|node| behind[node.index()] += 1);
        }
        let tree = DeliveryTree::new(topology, paths, receivers);
        let hosts: BTreeSet<NodeId> = receivers.iter().copied().chain([paths.root()]).collect();
        let nodes = (0..topology.nodes() as u32).map(NodeId);
        let mut routers: Vec<NodeId> =
            nodes.filter(|&node| tree.downstream(node).len() > 1 && !hosts.contains(&node)).collect();
        if count > routers.len() {
            let most = routers.len();
            return Err(format!(
                "is {count}: the multicast tree branches at {most} routers; give fewer, or a list of nodes"
            ));
        }
        routers.sort_by_key(|node| (std::cmp::Reverse(behind[node.index()]), *node));
        routers.truncate(count);
        Ok(routers)
    }

    /// These nodes, if helpers can be there.
    fn named(&self, nodes: &[u32], receivers: &[NodeId]) -> Result<Vec<NodeId>, String> {
        let helpers: Vec<NodeId> = nodes.iter().copied().map(NodeId).collect();
        let known: BTreeSet<NodeId> = helpers.iter().copied().collect();
        if known.len() < helpers.len() {
            return Err("names a node twice".into());
        }
        let apart = helpers.iter().filter(|node| !receivers.contains(node));
        match self {
            Places::Lan => {
                let first = receivers.len() as u32 + 1;
                let next = first + apart.clone().count() as u32;
                if let Some(NodeId(node)) = apart.copied().find(|node| !(first..next).contains(&node.0)) {
                    return Err(format!(
                        "names node {node}: receivers are 1 to {}, and those that only help follow without a gap",
                        first - 1
                    ));
                }
            }
            Places::Graph { topology, paths } => {
                let fits = |node: NodeId| node.index() < topology.nodes() && node != paths.root();
                if let Some(NodeId(node)) = apart.copied().find(|&node| !fits(node)) {
                    let (last, source) = (topology.nodes() - 1, paths.root().0);
                    return Err(format!(
                        "names node {node}: nodes are 0 to {last}, and {source} is the source"
                    ));
                }
            }
        }
        Ok(helpers)
    }

    /// Maps each router with attached receivers to the nearest of them to the source; of equally near ones to the
    /// lowest number. A receiver attached to the source itself belongs to no region.
    fn regions(&self, receivers: &[NodeId]) -> Result<BTreeMap<NodeId, NodeId>, String> {
        let Places::Graph { topology, paths } = self else {
            return Err("belongs to kind = \"graph\": a lan has no regions".into());
        };
        let mut regions: BTreeMap<NodeId, (Duration, NodeId)> = BTreeMap::new();
        for &receiver in receivers {
            let Some(port) = paths.port(receiver) else { continue };
            let Some(link) = topology.link_at(receiver, port).map(|link| topology.links()[link as usize])
            else {
                continue;
            };
            let router = link.other(receiver);
            if router == paths.root() {
                continue;
            }
            let nearest = (link.delay, receiver);
            regions.entry(router).and_modify(|known| *known = nearest.min(*known)).or_insert(nearest);
        }
        let nearest = |(router, (_, receiver))| (router, receiver);
        Ok(regions.into_iter().map(nearest).collect())
    }

    /// Builds the tree along the paths: the parent of a node is the helper of the last of these places on its path
    /// from the sender.
    fn along(
        &self,
        helpers: &[NodeId],
        at: &BTreeMap<NodeId, NodeId>,
        receivers: &[NodeId],
    ) -> Result<HelperTable, String> {
        let Places::Graph { topology, paths } = self else {
            return Err("is \"path\": a lan has none; it belongs to kind = \"graph\"".into());
        };
        let delivers: BTreeSet<NodeId> = receivers.iter().copied().collect();
        let known: BTreeSet<NodeId> = helpers.iter().copied().collect();
        let above = |node: NodeId| {
            way(topology, paths, node).filter_map(|above| at.get(&above).copied()).find(|&to| to != node)
        };
        let entry = |&node: &NodeId| Helper { node, parent: above(node), delivers: delivers.contains(&node) };
        let members = receivers.iter().filter(|node| !known.contains(node));
        let members = members.filter_map(|&node| Some((node, above(node)?)));
        HelperTable::new(helpers.iter().map(entry).collect(), members).map_err(|error| error.to_string())
    }
}

/// The nodes above this one on its way from the root, the nearest first.
fn way<'a>(
    topology: &'a Topology,
    paths: &'a PathTree,
    node: NodeId,
) -> impl Iterator<Item = NodeId> + use<'a> {
    std::iter::successors(Some(node), move |&node| {
        let link = topology.link_at(node, paths.port(node)?)?;
        Some(topology.links()[link as usize].other(node))
    })
    .skip(1)
}

/// Maximum number of helpers of a scenario: each node keeps a little state for each. A larger scenario would consist
/// of helpers only.
const MAX_HELPERS: usize = 10_000;
