//! Routed networks: routers and hosts, links with a rate, a delay and a queue, unicast routes and
//! multicast trees.

mod routes;
mod topology;

pub use routes::{DeliveryTree, PathTree, Routes, TreeRoutes};
pub use topology::{Link, RolesOrEdges, Topology, TopologyError};
