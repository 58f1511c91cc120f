//! Tree protocol for tests of helpers, in no product's registry. Each node sends its parent a cumulative
//! acknowledgment for itself and its subtree, and the parent repairs.

mod branch;
mod node;
mod sender;

use carillon_core::{
    About, AssociationId, BuildContext, Config, ConfigError, DeliveryProperties, Format, HeaderBytes,
    Helpers, Kind, Machine, PacketKind, PacketProperties, PacketSummary, Parameter, ParsedPacket,
    ProtocolEntry, Remainder, Role,
};
use carillon_wire::Envelope;

use node::TreeNode;
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

pub(crate) static FORMAT: Format = Format { name: "test-tree", read, summary, kinds: &[] };

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

fn read(bytes: &[u8]) -> Result<ParsedPacket, String> {
    let (packet_type, association, number) = parse(bytes).ok_or("it is none")?;
    let mut again = Vec::new();
    let payload = bytes.get(HEADER_LEN..).unwrap_or_default();
    emit(association, packet_type, number, payload, &mut again);
    let line = format!("type {packet_type} number {number}");
    Ok(ParsedPacket::new(&line, again, bytes.len(), Remainder::Empty))
}

fn summary(bytes: &[u8]) -> Option<PacketSummary> {
    let (packet_type, _, number) = parse(bytes)?;
    Some(match packet_type {
        DATA => PacketSummary::about("data", PacketKind::Data, number),
        _ => PacketSummary::new("ack", PacketKind::Acknowledgment),
    })
}

const PROTOCOL: u8 = 202;
/// Packet type of the sender, or of a repairing helper: the message's number and its payload.
const DATA: u8 = 1;
/// Packet type to the parent: the node and its subtree have all messages below this number.
const ACK: u8 = 2;
const HEADER_LEN: usize = Envelope::LEN + 8;

pub(crate) fn emit(
    association: AssociationId,
    packet_type: u8,
    number: u64,
    payload: &[u8],
    buf: &mut Vec<u8>,
) {
    Envelope { protocol: PROTOCOL, packet_type, association }.emit(buf);
    buf.extend_from_slice(&number.to_be_bytes());
    buf.extend_from_slice(payload);
}

/// Parses type, session and number of a packet.
fn parse(bytes: &[u8]) -> Option<(u8, AssociationId, u64)> {
    let (envelope, rest) = Envelope::parse_for(PROTOCOL, bytes).ok()?;
    let number = rest.first_chunk::<8>()?;
    let fits = matches!(envelope.packet_type, DATA) || envelope.packet_type == ACK && rest.len() == 8;
    fits.then_some((envelope.packet_type, envelope.association, u64::from_be_bytes(*number)))
}
