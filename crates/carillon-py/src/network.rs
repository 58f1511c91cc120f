//! Nodes and links of the network of a scenario, for drawings.

use carillon_lab::scenario::{Scenario, ScenarioNetwork};

/// Returns the role of each node and the ends of each link. An Ethernet has a router in the place of its medium.
pub fn nodes_and_links(scenario: &Scenario) -> (Vec<&'static str>, Vec<(u32, u32)>) {
    match &scenario.network {
        ScenarioNetwork::Lan(_) => {
            let stations = 1 + scenario.receivers;
            let mut roles = vec!["receiver"; stations as usize];
            roles[0] = "source";
            roles.push("router");
            (roles, (0..stations).map(|station| (station, stations)).collect())
        }
        ScenarioNetwork::Graph(graph) => {
            let topology = &graph.topology;
            let mut roles = vec!["router"; topology.nodes()];
            for (nodes, role) in [(&topology.receivers, "receiver"), (&topology.sources, "source")] {
                nodes.iter().for_each(|node| roles[node.0 as usize] = role);
            }
            let links = topology.links().iter().map(|link| (link.ends[0].0, link.ends[1].0));
            (roles, links.collect())
        }
    }
}
