//! Requirements of metrics: the events and the network without which a metric does not exist. A missing metric is
//! left out, never reported as zero.

use crate::scenario::Scenario;

/// Requirement of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Senders come to know what has arrived: `completed`.
    Completions,
    /// Receivers ask for what they miss: `loss_found`, `requested`, `loss_repaired`, `loss_final`.
    Requests,
    /// First transmissions are marked, so that their losses are: `frame_lost`.
    Originals,
    /// Separate events of each delivery: `offered`, `delivered`.
    EachDelivery,
    /// A shared Ethernet.
    Lan,
    /// A routed network.
    Graph,
    /// A parent and its children, or several.
    Parents,
    /// A parent with a limited input rate (`network.implosion_rate`).
    Implosion,
    /// A unicast equivalent of the protocol.
    UnicastEquivalent,
    /// A protocol that has this timer measured.
    Timer(&'static str),
    /// Nodes say how many messages they keep.
    Held,
    /// A helper that dies.
    Death,
    /// A scenario that measures each receiver.
    Receivers,
    /// A scenario that measures each node.
    Nodes,
    /// A scenario that measures the queue of the source.
    Queues,
    /// Competing traffic.
    Competitor,
    /// Helpers that do not deliver.
    Helpers,
    /// Routers with machines of the protocol.
    Relays,
}

impl Need {
    /// Text of the requirement in the documentation.
    pub fn text(self) -> &'static str {
        match self {
            Need::Completions => "senders that learn of completion (`completed`)",
            Need::Requests => {
                "receivers that send requests (`loss_found`, `requested`, `loss_repaired`, `loss_final`)"
            }
            Need::Originals => "marked first transmissions (`frame_lost`)",
            Need::EachDelivery => {
                "`offered` and `delivered`, without `loss.drop_one`, 10 million deliveries a run at most"
            }
            Need::Lan => "lan",
            Need::Graph => "graph",
            Need::Parents => "star, or graph with helpers",
            Need::Implosion => "`network.implosion_rate`",
            Need::UnicastEquivalent => "a unicast equivalent",
            Need::Timer(_) => "a protocol that reports this timer (`timer_fired`)",
            Need::Held => "simulated nodes that report their buffers",
            Need::Death => "`group.helper_dies`",
            Need::Receivers => "`run.measure = [\"receivers\"]`",
            Need::Nodes => "`run.measure = [\"nodes\"]`, simulated nodes",
            Need::Queues => "`run.measure = [\"queues\"]`, a simulated graph",
            Need::Competitor => "`competitor.kind`",
            Need::Helpers => "helpers that do not deliver",
            Need::Relays => "a protocol with relays at routers",
        }
    }

    /// Returns true if runs of a scenario satisfy the requirement, judged by its network and by the protocol's
    /// declared properties.
    pub(super) fn is_given(self, scenario: &Scenario) -> bool {
        match self {
            Need::Completions => scenario.protocol.confirms(&scenario.config),
            Need::Requests => scenario.protocol.shows_losses(&scenario.config),
            Need::Originals => scenario.protocol.study.marks_originals,
            Need::EachDelivery | Need::Held => true,
            Need::Death => scenario.death.is_some(),
            Need::Receivers => scenario.measurements.receivers,
            Need::Nodes => scenario.measurements.nodes,
            Need::Queues => scenario.measurements.queues && scenario.network.graph().is_some(),
            Need::Competitor => scenario.competitor.is_some(),
            Need::Helpers => scenario.only_helping().next().is_some(),
            Need::Relays => !scenario.relays().is_empty(),
            Need::Lan => scenario.network.lan().is_some(),
            Need::Graph => scenario.network.graph().is_some(),
            Need::Parents => scenario.has_parents(),
            Need::Implosion => scenario.network.graph().is_some_and(|graph| graph.input.is_some()),
            Need::UnicastEquivalent => scenario.protocol.study.unicast_equivalent.is_some(),
            Need::Timer(name) => scenario.protocol.study.timers.contains(&name),
        }
    }
}
