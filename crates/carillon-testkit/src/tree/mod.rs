//! Tree protocol for tests of helpers, in no product's registry. Each node sends its parent a cumulative
//! acknowledgment for itself and its subtree, and the parent repairs.

mod branch;
mod node;
mod packet;
mod sender;

use carillon_core::{
    About, BuildContext, Config, ConfigError, DeliveryProperties, HeaderBytes, Helpers, Kind, Machine,
    PacketProperties, Parameter, ProtocolEntry, Role,
};

use node::TreeNode;
use packet::HEADER_LEN;
pub(crate) use packet::{FORMAT, emit};
use sender::TreeSender;

/// Registry entry of the protocol.
pub static TREE: ProtocolEntry = ProtocolEntry {
    name: "test-tree",
    about: About {
        family: "test",
        summary: "acknowledgments are gathered along a tree of helpers, which repair",
        reference: "none",
    },
    roles: &[Role::Sender, Role::Receiver, Role::Helper],
    helpers: Helpers::Optional,
    delivery: DeliveryProperties { confirmed: true, waits: true, ..ProtocolEntry::PLAIN.delivery },
    packets: PacketProperties {
        header_bytes: |_| HeaderBytes::all(HEADER_LEN),
        format: &FORMAT,
        ..ProtocolEntry::PLAIN.packets
    },
    parameters: PARAMETERS,
    build,
    ..ProtocolEntry::PLAIN
};

const PARAMETERS: &[Parameter] = &[
    Parameter {
        former: None,
        name: "window",
        kind: Kind::Count { min: 1, max: 1000 },
        default: "8",
        doc: "messages that not all have",
    },
    Parameter {
        former: None,
        name: "limit",
        kind: Kind::Count { min: 1, max: 1_000_000 },
        default: "50",
        doc: "repairs in vain",
    },
    Parameter { former: None, name: "wait", kind: Kind::Span, default: "20 ms", doc: "time between them" },
];

fn build(role: Role, context: &BuildContext, config: &Config) -> Result<Box<dyn Machine>, ConfigError> {
    Ok(match role {
        Role::Sender => Box::new(TreeSender::new(context, config)),
        Role::Receiver | Role::Helper => Box::new(TreeNode::new(role, context, config)),
        Role::Peer | Role::Relay => return Err(ConfigError::no_such_role(role)),
    })
}
