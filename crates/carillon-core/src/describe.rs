//! Self-description of a protocol beyond its constructor: packet format and states.
//!
//! Viewers, suites and the documentation read these descriptions from the registry, so that none of them names a
//! protocol.

use std::collections::BTreeMap;
use std::fmt::Display;

use crate::MessageId;

/// Packet format of a protocol.
#[derive(Debug)]
pub struct Format {
    /// Name of the format, in fuzz targets.
    pub name: &'static str,
    /// Parses a datagram; returns the packet as text and as emitted bytes, or the parse error as text.
    pub read: fn(&[u8]) -> Result<ParsedPacket, String>,
    /// Summary of a datagram for viewers; `None` if the datagram is no packet of the format.
    pub summary: fn(&[u8]) -> Option<PacketSummary>,
    /// Kinds of the packets by name, in traces and in summaries. A name that stands for packets of several kinds is
    /// left out. A test compares the list with the golden packets.
    pub kinds: &'static [(&'static str, PacketKind)],
}

impl Format {
    /// Name of a datagram's packet type: the second word of its text, after the name of the format. `None` if the
    /// datagram is no packet of the format.
    pub fn packet_name(&self, datagram: &[u8]) -> Option<String> {
        let packet = (self.read)(datagram).ok()?;
        packet.line.split_whitespace().nth(1).map(str::to_owned)
    }

    /// Map of [`Format::kinds`].
    pub fn kinds_by_name(&self) -> BTreeMap<String, PacketKind> {
        self.kinds.iter().map(|&(name, kind)| (name.to_owned(), kind)).collect()
    }
}

/// Name, kind and message of a packet: as much as a viewer needs to draw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketSummary {
    /// Name of the packet in the protocol's source, such as `odata`.
    pub name: &'static str,
    /// Kind of the packet.
    pub kind: PacketKind,
    /// Number of the one message that the packet carries or concerns, as it stands in the packet. Most formats count
    /// modulo 2^32.
    pub message: Option<MessageId>,
}

impl PacketSummary {
    /// Packet without the number of a single message.
    pub const fn new(name: &'static str, kind: PacketKind) -> Self {
        PacketSummary { name, kind, message: None }
    }

    /// Packet that carries or concerns one message.
    pub fn about(name: &'static str, kind: PacketKind, message: impl Into<u64>) -> Self {
        PacketSummary { name, kind, message: Some(MessageId(message.into())) }
    }
}

/// Kind of a packet, the same in all protocols.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PacketKind {
    /// Data. Many formats do not tell a first transmission from a retransmission; the network's mark of originals
    /// ([`Transmit::original`](crate::Transmit)) does.
    Data,
    /// Retransmission, or coded packet that replaces lost ones.
    Repair,
    /// Request for missing messages.
    Request,
    /// Acknowledgment, or status of a receiver that confirms messages.
    Acknowledgment,
    /// Anything else, such as polls, heartbeats, routing state and agreements.
    Control,
}

impl PacketKind {
    /// List of all kinds.
    pub const VARIANTS: [PacketKind; 5] = [
        PacketKind::Data,
        PacketKind::Repair,
        PacketKind::Request,
        PacketKind::Acknowledgment,
        PacketKind::Control,
    ];

    /// Name of the kind in recordings.
    pub const fn name(self) -> &'static str {
        match self {
            PacketKind::Data => "data",
            PacketKind::Repair => "repair",
            PacketKind::Request => "request",
            PacketKind::Acknowledgment => "acknowledgment",
            PacketKind::Control => "control",
        }
    }
}

/// Packet that a [`Format`] has parsed from a datagram and emitted again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParsedPacket {
    /// Packet as one line of text.
    pub line: String,
    /// Bytes of the packet, emitted again.
    pub bytes: Vec<u8>,
    /// Length in bytes that the packet reports (`wire_len`).
    pub wire_len: usize,
    /// Permitted difference between the datagram and the emitted bytes.
    pub remainder: Remainder,
}

impl ParsedPacket {
    /// Pairs a parsed packet with the bytes that it emits.
    pub fn new(packet: &impl Display, bytes: Vec<u8>, wire_len: usize, remainder: Remainder) -> Self {
        ParsedPacket { line: packet.to_string(), bytes, wire_len, remainder }
    }
}

/// Permitted difference between a datagram and the packet parsed from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remainder {
    /// No difference: the emitted bytes equal the datagram.
    Empty,
    /// Padding after the packet.
    Padding,
    /// Fields at any place that the format does not know or computes itself.
    UnknownFields,
}

/// State machine of a protocol: states and transitions, drawn on the protocol's page. A suite watches every machine
/// and reports transitions that are not declared.
#[derive(Clone, Copy, Debug)]
pub struct States {
    /// Owner of the states, such as `sender` or `receiver, for a missing message`.
    pub of: &'static str,
    /// Transitions: source state or [`ANY_STATE`], target state, and cause. [`PSEUDO_STATE`] is the initial and final
    /// state.
    pub transitions: &'static [(&'static str, &'static str, &'static str)],
}

/// Initial and final pseudo-state of a diagram, as Mermaid writes it.
pub const PSEUDO_STATE: &str = "[*]";

/// Source of a transition that every state has.
pub const ANY_STATE: &str = "Any";

/// State in which a machine currently is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObservedState {
    /// Owner of the state: [`States::of`].
    pub of: &'static str,
    /// Number of the instance where a machine has many, such as a message or a member.
    pub about: u64,
    /// Name of the state.
    pub state: &'static str,
    /// Counter that changes when the machine has left the state and re-entered it.
    pub turn: u64,
}

impl States {
    /// Returns the declared transition from one state to another. A transition that names both states takes
    /// precedence over one from [`ANY_STATE`].
    pub fn transition(&self, from: &str, to: &str) -> Option<(&'static str, &'static str)> {
        let declared = |from: &str| {
            let found = self.transitions.iter().find(|transition| transition.0 == from && transition.1 == to);
            found.map(|&(from, to, _)| (from, to))
        };
        declared(from).or_else(|| if from == PSEUDO_STATE { None } else { declared(ANY_STATE) })
    }

    /// Returns true if a state is declared.
    pub fn has(&self, state: &str) -> bool {
        self.transitions.iter().any(|(from, to, _)| *from == state || *to == state)
    }

    /// Renders the diagram in Mermaid syntax, for a page.
    pub fn mermaid(&self) -> String {
        let mut text = String::from("stateDiagram-v2\n");
        for (from, to, why) in self.transitions {
            let why = if why.is_empty() { String::new() } else { format!(": {why}") };
            text += &format!("    {from} --> {to}{why}\n");
        }
        text
    }
}
