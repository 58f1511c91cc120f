//! The network of a scenario, every value known.

use std::sync::Arc;
use std::time::Duration;

use carillon_core::{BitRate, NodeId};
use carillon_sim::LanConfig;
use carillon_sim::graph::generate::Domain;
use carillon_sim::graph::{GraphConfig, LossModel, Outage, Topology};
use carillon_sim::loss::LossSection;

/// The network of a scenario.
#[derive(Clone, Debug)]
pub enum ScenarioNetwork {
    /// A shared Ethernet or radio.
    Lan(LanConfig),
    /// Routers and hosts joined by links.
    Graph(RoutedNetwork),
}

impl ScenarioNetwork {
    /// The rate of an interface: the unit of bit times.
    pub fn bit_rate(&self) -> BitRate {
        match self {
            ScenarioNetwork::Lan(lan) => lan.bit_rate,
            ScenarioNetwork::Graph(graph) => graph.config.rate,
        }
    }

    /// Bytes it adds to a datagram.
    pub fn overhead(&self) -> u32 {
        match self {
            ScenarioNetwork::Lan(lan) => lan.frame_overhead,
            ScenarioNetwork::Graph(graph) => graph.config.overhead,
        }
    }

    /// The least packet, headers included.
    pub fn min_packet(&self) -> u32 {
        match self {
            ScenarioNetwork::Lan(lan) => lan.min_frame,
            ScenarioNetwork::Graph(graph) => graph.config.overhead,
        }
    }

    /// Nodes of `count` receivers.
    pub(super) fn receivers(&self, count: u32) -> Vec<NodeId> {
        match self {
            ScenarioNetwork::Lan(_) => (1..=count).map(NodeId).collect(),
            ScenarioNetwork::Graph(graph) => graph.topology.receivers.clone(),
        }
    }

    /// The shared medium, if it is one.
    pub fn lan(&self) -> Option<&LanConfig> {
        match self {
            ScenarioNetwork::Lan(lan) => Some(lan),
            ScenarioNetwork::Graph(_) => None,
        }
    }

    /// The routed network, if it is one.
    pub fn graph(&self) -> Option<&RoutedNetwork> {
        match self {
            ScenarioNetwork::Lan(_) => None,
            ScenarioNetwork::Graph(graph) => Some(graph),
        }
    }
}

/// A routed network and what it loses.
#[derive(Clone, Debug)]
pub struct RoutedNetwork {
    /// Its nodes and links.
    pub topology: Arc<Topology>,
    /// Domains of its routers, if known; routers are the first nodes.
    pub domains: Arc<[Domain]>,
    /// Settings of all links.
    pub config: GraphConfig,
    /// Loss model of the links.
    pub loss: LossModel,
    /// Which links lose any.
    pub lossy: LinkKind,
    /// Losses of single packets, if there are any.
    pub drops: Option<Drops>,
    /// Settings of each link that differ from `config`, for stars and trees of regions; otherwise empty.
    pub own: Arc<[OwnLink]>,
    /// Outages of links.
    pub outages: Outages,
    /// True for a star.
    pub is_star: bool,
    /// Limited input of a parent (the source or a helper); `None` if unlimited.
    pub input: Option<Input>,
}

/// Outages of links, and the time after which routes change.
#[derive(Clone, Debug, Default)]
pub struct Outages {
    /// Outages in the order of the file.
    pub all: Arc<[Outage]>,
    /// Time from each failure and recovery until routes change.
    pub convergence: Duration,
}

/// Settings of one link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OwnLink {
    /// The standard deviation of its delay.
    pub deviation: Duration,
    /// Loss model of this link; `None` for that of all links.
    pub loss: Option<LossModel>,
}

/// The input buffer of a parent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Input {
    /// Time to process one packet: the reciprocal of the implosion threshold rate.
    pub interval: Duration,
    /// Packets that wait at most; more are lost.
    pub places: usize,
}

/// Loss section and the places where it loses packets.
#[derive(Clone, Debug, PartialEq)]
pub struct PlacedLoss {
    /// Section, shared by all its places.
    pub section: Arc<LossSection>,
    /// Places.
    pub place: LossPlace,
}

/// Places of a loss section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LossPlace {
    /// Both directions of all links of a kind, except the links with a loss of their own.
    Kind(LinkKind),
    /// Directions of links, each by the link and the end that sends.
    Links(Vec<(u32, NodeId)>),
    /// Interfaces of nodes, on arrival.
    Receivers(Vec<NodeId>),
}

/// Kinds of links, by the domains of their ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LinkKind {
    /// Links of every kind.
    #[default]
    All,
    /// To a node from which no other is reached, and that is not the source.
    Last,
    /// Links of every other kind.
    Shared,
    /// Between two transit routers.
    TransitTransit,
    /// Between a transit router and a stub domain.
    TransitStub,
    /// Within a stub domain.
    StubStub,
}

/// Packets that are lost, one after the other: each the first transmission of a message on one link of
/// its way; repairs pass.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drops {
    /// Places of the losses.
    pub places: DropPlaces,
    /// Kind of the links among them that lose packets.
    pub kind: LinkKind,
    /// Number of losses at each place.
    pub times: u32,
    /// Time between two losses.
    pub apart: Duration,
    /// The message that is lost first.
    pub first: u64,
}

/// Places of single losses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropPlaces {
    /// On the link of the source.
    Source,
    /// On the last link to each receiver in turn.
    EachReceiver,
    /// On each link of the multicast tree in turn.
    EachLink,
}

impl RoutedNetwork {
    /// Returns true if a link is of a kind.
    pub fn is_of_kind(&self, link: u32, kind: LinkKind) -> bool {
        let ends = self.topology.links()[link as usize].ends;
        let leads_nowhere = |end: &NodeId| *end != self.source() && self.topology.ports(*end).len() == 1;
        let is_last = || ends.iter().any(leads_nowhere);
        let [a, b] = ends.map(|end| self.domains.get(end.index()));
        match kind {
            LinkKind::All => true,
            LinkKind::Last => is_last(),
            LinkKind::Shared => !is_last(),
            LinkKind::TransitTransit => (a, b) == (Some(&Domain::Transit), Some(&Domain::Transit)),
            LinkKind::StubStub => (a, b) == (Some(&Domain::Stub), Some(&Domain::Stub)),
            LinkKind::TransitStub => {
                let pair = (a, b);
                pair == (Some(&Domain::Transit), Some(&Domain::Stub))
                    || pair == (Some(&Domain::Stub), Some(&Domain::Transit))
            }
        }
    }

    /// Loss model of a link, if it has one.
    pub fn loss_of(&self, link: u32) -> Option<LossModel> {
        self.own_loss_of(link).or_else(|| self.is_of_kind(link, self.lossy).then_some(self.loss))
    }

    /// Loss model that a link has of its own.
    fn own_loss_of(&self, link: u32) -> Option<LossModel> {
        let own = self.own.get(link as usize).and_then(|own| own.loss);
        own.or_else(|| self.topology.links()[link as usize].loss.map(LossModel::Bernoulli))
    }

    /// Directions of the links at a place, each by the link and the end that sends.
    pub fn directions(&self, place: &LossPlace) -> Vec<(u32, NodeId)> {
        match place {
            LossPlace::Receivers(_) => Vec::new(),
            LossPlace::Links(directions) => directions.clone(),
            LossPlace::Kind(kind) => (0_u32..)
                .zip(self.topology.links())
                .filter(|(link, _)| self.own_loss_of(*link).is_none() && self.is_of_kind(*link, *kind))
                .flat_map(|(link, of)| of.ends.map(|end| (link, end)))
                .collect(),
        }
    }

    /// The node that sends first.
    pub fn source(&self) -> NodeId {
        self.topology.sources.first().copied().unwrap_or(NodeId(0))
    }
}
