//! Routed networks: routers and hosts; links with a rate, a delay and a queue; unicast routes and multicast trees;
//! relays at any node.

mod crossings;
pub mod generate;
pub mod gt_itm;
pub mod import;
mod input;
mod link;
mod network;
mod outage;
mod packet;
mod partition;
mod pending;
mod pending_events;
pub mod regions;
mod routes;
mod topology;

pub use crossings::Crossings;
pub(crate) use crossings::{Crossing, PacketCopies};
pub use network::{Graph, GraphConfig};
pub use outage::Outage;
pub use partition::{PartId, Partition};
pub use routes::{DeliveryTree, PathTree, Routes, TreeRoutes};
pub use topology::{Link, RolesOrEdges, Topology, TopologyError};

pub use crate::loss::{LossModel, SingleLoss};
