//! Parts of a node of a run: its machine, its application, and its numbering of the other nodes.

use std::sync::Arc;

use carillon_core::{
    Addresses, Application, AssociationId, BuildContext, ConfigError, GroupId, HelperTable, Identities,
    Machine, NodeId, ProtocolEntry, Role, Seeds, Time,
};
use carillon_proto::ManySources;
use carillon_sim::applications::{Sink, Source};

use super::error::RunError;
use super::settled::SettledCount;
use crate::scenario::Scenario;

/// Numbering of a host: how it numbers itself and the other nodes of the run.
#[derive(Clone, Debug)]
pub struct Numbering {
    /// Itself.
    pub node: NodeId,
    /// The sender.
    pub sender: NodeId,
    /// The members: the receivers, or all peers.
    pub members: Arc<[NodeId]>,
    /// Table of helpers: the parent of each node.
    pub helpers: Arc<HelperTable>,
    /// Identities in packets.
    pub identities: Identities,
}

impl Numbering {
    /// Numbering of the simulator, where all hosts agree; created from the sender's view.
    pub(super) fn global(scenario: &Scenario, members: Arc<[NodeId]>) -> Self {
        // The numbers of the run name the nodes in packets too.
        Numbering {
            node: scenario.sender(),
            sender: scenario.sender(),
            members,
            helpers: scenario.helpers.clone(),
            identities: Identities::default(),
        }
    }

    /// Numbering of the host of `node`, where `local` maps a node of the run to the host's own number.
    pub fn with(scenario: &Scenario, node: NodeId, local: impl Fn(NodeId) -> NodeId) -> Self {
        let members = scenario.members();
        Numbering {
            node: local(node),
            sender: local(scenario.sender()),
            identities: Identities::agreed(
                node.0.into(),
                members.iter().map(|member| u64::from(member.0)).collect(),
            ),
            members: members.iter().map(|&member| local(member)).collect(),
            helpers: scenario.helpers.renumbered(local).into(),
        }
    }
}

/// Machine of a node, and its application; a node that only helps has none.
pub type NodeParts = (Box<dyn Machine>, Option<Box<dyn Application>>);

/// Builds the machine and the application of a node.
pub fn build_node(
    scenario: &Scenario,
    seeds: &Seeds,
    payload: u32,
    node: NodeId,
    numbering: &Numbering,
    settled: &SettledCount,
) -> Result<NodeParts, ConfigError> {
    let sink = Sink::counting(numbering.node, settled.0.clone());
    let sink = if scenario.calls_take_time() { sink.one_by_one() } else { sink };
    let sink: Box<dyn Application> =
        match scenario.reader.as_ref().filter(|reader| reader.nodes.binary_search(&node).is_ok()) {
            Some(reader) => Box::new(sink.pacing(reader.burst, reader.pause, Time::ZERO + reader.start)),
            None => Box::new(sink),
        };
    let workload = &scenario.workload;
    let start = Time::ZERO + workload.start;
    let last = workload.last_payload(payload);
    let source = |messages| {
        let source = Source::new(messages, payload as usize, workload.interval).ending_with(last);
        let source = source.in_bursts(workload.burst).starting(start);
        if scenario.calls_take_time() { source.one_by_one() } else { source }
    };
    let context = context(scenario, &seeds.node(node), payload, numbering);
    if scenario.only_helps(node) {
        return Ok((build(scenario, Role::Helper, &context)?, None));
    }
    let (role, application): (_, Box<dyn Application>) = if scenario.is_among_peers() {
        let messages = if scenario.is_sending(node) { workload.messages } else { 0 };
        (Role::Peer, Box::new((source(messages), sink)))
    } else if node == scenario.sender() {
        (Role::Sender, Box::new(source(workload.messages)))
    } else {
        (Role::Receiver, sink)
    };
    Ok((build(scenario, role, &context)?, Some(application)))
}

pub(super) fn context(
    scenario: &Scenario,
    seeds: &Seeds,
    payload: u32,
    numbering: &Numbering,
) -> BuildContext {
    BuildContext {
        association: AssociationId(1),
        node: numbering.node,
        sender: numbering.sender,
        members: numbering.members.clone(),
        helpers: numbering.helpers.clone(),
        identities: numbering.identities.clone(),
        addresses: Addresses::default(),
        group: GroupId(0),
        seeds: seeds.clone(),
        bit_rate: scenario.network.bit_rate(),
        link_overhead: scenario.network.overhead(),
        max_payload: payload,
        memory: usize::MAX,
        rejoining: false,
    }
}

pub(super) fn build(
    scenario: &Scenario,
    role: Role,
    context: &BuildContext,
) -> Result<Box<dyn Machine>, ConfigError> {
    if scenario.has_many_sources() && role != Role::Relay {
        return Ok(Box::new(ManySources::new(scenario.protocol, role, context, &scenario.config)?));
    }
    let ProtocolEntry { build, .. } = scenario.protocol;
    build(role, context, &scenario.config)
}

/// The payload that makes a frame of the size the workload asks for.
pub fn payload_bytes(scenario: &Scenario) -> Result<u32, RunError> {
    let header = (scenario.protocol.packets.header_bytes)(&scenario.config).data as u32;
    let headers = header + scenario.network.overhead();
    let message_bytes = scenario.workload.message_bytes;
    message_bytes.checked_sub(headers).ok_or(RunError::NoRoom { message_bytes, headers })
}
