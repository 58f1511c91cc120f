//! Self-description of a protocol beyond its constructor: packet format, delivery guarantee, states, and settings for
//! trials.
//!
//! Suites, fuzz targets and the documentation read these descriptions from the registry, so that none of them names a
//! protocol.

use std::collections::BTreeMap;
use std::fmt::Display;

use crate::{AssociationId, Config, Duration, Input, MessageId, Order, Parameter, Rng};

/// Packet format of a protocol.
#[derive(Debug)]
pub struct Format {
    /// Name of the format, in fuzz targets.
    pub name: &'static str,
    /// Makes a datagram of this format from fuzzed decisions. Most of these datagrams are plausible in this session,
    /// as from an attacker that has overheard it.
    pub fuzzed: fn(&mut Input<'_>, AssociationId, &mut Vec<u8>),
    /// Parses a datagram; returns the packet as text and as emitted bytes, or the parse error as text.
    pub read: fn(&[u8]) -> Result<ParsedPacket, String>,
    /// Summary of a datagram for viewers; `None` if the datagram is no packet of the format.
    pub summary: fn(&[u8]) -> Option<PacketSummary>,
    /// Golden vectors: one packet of each type.
    pub golden: &'static [Golden],
}

impl Format {
    /// Name of a datagram's packet type: the second word of its text, after the name of the format. `None` if the
    /// datagram is no packet of the format.
    pub fn packet_name(&self, datagram: &[u8]) -> Option<String> {
        let packet = (self.read)(datagram).ok()?;
        packet.line.split_whitespace().nth(1).map(str::to_owned)
    }

    /// Kinds of the packets by name, in traces and in summaries, from the golden packets. A name that stands for
    /// packets of several kinds is left out.
    pub fn kinds(&self) -> BTreeMap<String, PacketKind> {
        let mut kinds: BTreeMap<String, Option<PacketKind>> = BTreeMap::new();
        for datagram in self.golden.iter().map(Golden::bytes) {
            let Some(summary) = (self.summary)(&datagram) else { continue };
            for name in [Some(summary.name.to_owned()), self.packet_name(&datagram)].into_iter().flatten() {
                let kind = kinds.entry(name).or_insert(Some(summary.kind));
                *kind = kind.filter(|kind| *kind == summary.kind);
            }
        }
        kinds.into_iter().filter_map(|(name, kind)| Some((name, kind?))).collect()
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

/// Golden vector: text and bytes of a packet, which never change.
#[derive(Clone, Copy, Debug)]
pub struct Golden {
    /// Packet as one line of text.
    pub line: &'static str,
    /// Bytes of the packet in hexadecimal digits; blanks between them are ignored.
    pub hex: &'static str,
}

impl Golden {
    /// Bytes of the packet.
    pub fn bytes(&self) -> Vec<u8> {
        let digits: Vec<u8> = self.hex.chars().filter_map(|digit| Some(digit.to_digit(16)? as u8)).collect();
        digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect()
    }
}

/// False claim of a dishonest member in its feedback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forgery {
    /// Claims every message before the last one that the member has.
    Complete,
    /// Claims this many messages more than the member has.
    Ahead(u32),
    /// Claims unlimited buffer space.
    UnlimitedRoom,
}

/// Turns a packet with a member's feedback into the forged one in place; leaves other packets unchanged.
pub type FeedbackForger = fn(Forgery, &mut [u8]);

/// Delivery guarantee of a protocol, beyond the contract of the traits.
#[derive(Clone, Copy, Debug)]
pub enum DeliveryGuarantee {
    /// Positive acknowledgments to one sender: every live receiver gets everything, and the sender names each receiver
    /// that did not.
    Acknowledged {
        /// True if the protocol is correct only over links that neither reorder nor duplicate datagrams, since its
        /// sequence space is as small as its window allows. Over other links it only has to terminate.
        in_order: bool,
        /// Interval in which each receiver sends at most one datagram after the sender has finished; `None` if it
        /// sends none.
        idle_feedback: Option<Duration>,
    },
    /// Members are peers, and every live peer gets everything.
    Peers {
        /// Number of crashes that a group of `nodes` nodes survives with suitable settings.
        crashes: fn(nodes: u32) -> u32,
    },
    /// Receivers request missing messages and get each one as long as any live node has it.
    ByRequest {
        /// Maximum number of control packets (heartbeats, session messages, requests) per second and node of the
        /// network, at any loss rate.
        control_per_node_and_second: f64,
        /// Name of the request that routers repeat in their own name until it is confirmed, if the protocol has one.
        repeated_by_routers: Option<&'static str>,
    },
    /// No repair: delivered messages are unaltered, in order and unique, and receivers report each gap.
    BestEffort,
}

/// Delivery service of one message, in a protocol in which senders choose it for each message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageService {
    /// False if the message may be lost.
    pub is_reliable: bool,
    /// Order in which it is delivered: total among the messages with total order; in the order of its source after all
    /// reliable messages of the source that are not delivered on arrival; or on arrival.
    pub order: Order,
    /// Number of crashes that its delivery survives: if no more members crash, every live member delivers what any
    /// member has delivered. Without crashes, and for messages of live senders, delivery does not depend on it.
    pub crashes: u32,
}

/// Network on which a suite tries a protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrialNetwork {
    /// Links with delays of a few milliseconds and unlimited rate.
    Links,
    /// Ethernet on which a frame takes more than a millisecond.
    Ethernet,
    /// Routed networks with round-trip times of at most 200 ms.
    Routed,
    /// Processes of one machine, each of which may be suspended for a while at any time.
    Loopback,
}

/// Conditions of one suite run. A protocol draws settings with which its guarantee holds under them
/// ([`ProtocolEntry::trial`](crate::ProtocolEntry::trial)).
#[derive(Debug)]
pub struct Trial<'a> {
    /// Network of the run.
    pub network: TrialNetwork,
    /// Number of members of the group, senders included.
    pub nodes: u32,
    /// Number of peers that will crash.
    pub crashes: u32,
    /// True if datagrams are lost.
    pub is_lossy: bool,
    /// Number of unanswered attempts after which a sender must expel a member; `None` if no live member may be
    /// expelled.
    pub max_attempts: Option<u32>,
    /// True if a member that misses a failed message is expelled; false if it remains a member.
    pub expels: bool,
    /// Random stream from which settings are drawn.
    pub rng: &'a mut Rng,
    parameters: &'static [Parameter],
    config: Config,
}

impl<'a> Trial<'a> {
    /// Describes a lossy run of this many nodes in which no node crashes and no member is expelled.
    pub fn new(
        parameters: &'static [Parameter],
        network: TrialNetwork,
        nodes: u32,
        rng: &'a mut Rng,
    ) -> Self {
        let config = Config::defaults(parameters);
        Trial {
            network,
            nodes,
            crashes: 0,
            is_lossy: true,
            max_attempts: None,
            expels: false,
            rng,
            parameters,
            config,
        }
    }

    /// Sets a parameter.
    ///
    /// # Panics
    ///
    /// Panics if the protocol does not take the value.
    pub fn set(&mut self, key: &str, value: impl Display) -> &mut Self {
        let result = self.config.set(self.parameters, key, &value.to_string());
        result.unwrap_or_else(|error| panic!("{error}"));
        self
    }

    /// Sets a parameter to one of these values, at random.
    pub fn pick(&mut self, key: &str, values: &[&str]) -> &mut Self {
        let at = self.rng.below(values.len() as u64) as usize;
        self.set(key, values[at])
    }

    /// Sets a count to a random value in `from..from + span`.
    pub fn count(&mut self, key: &str, from: u64, span: u64) -> &mut Self {
        let value = from + self.rng.below(span);
        self.set(key, value)
    }

    /// Sets a time to a random number of milliseconds in `from..from + span`.
    pub fn ms(&mut self, key: &str, from: u64, span: u64) -> &mut Self {
        let value = from + self.rng.below(span);
        self.set(key, format_args!("{value} ms"))
    }

    /// Returns true with this probability.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.rng.chance(probability)
    }

    /// Returns the drawn settings.
    pub fn into_config(self) -> Config {
        self.config
    }
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
    /// Transitions that no run of the suite takes: source, target, and the reason.
    pub rare: &'static [(&'static str, &'static str, &'static str)],
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
