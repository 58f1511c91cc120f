//! What a protocol says of itself beyond how it is built: packets, promises, states. Suites, fuzz targets and
//! documentation ask for it, so that none of them knows a protocol by name.

use std::fmt::Display;

use crate::{AssociationId, Config, Duration, Input, Parameter, Rng};

/// A packet format.
#[derive(Debug)]
pub struct Format {
    /// Its name, in fuzz targets.
    pub name: &'static str,
    /// Makes a datagram of this format from fuzzed decisions, most of them such as an attentive neighbour
    /// would send in this session.
    pub fuzzed: fn(&mut Input<'_>, AssociationId, &mut Vec<u8>),
    /// Parses a datagram, and emits and shows what was read.
    pub read: fn(&[u8]) -> Result<ParsedPacket, String>,
    /// One packet of each type.
    pub golden: &'static [Golden],
}

/// What a format makes of a datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParsedPacket {
    /// The packet in a line.
    pub line: String,
    /// The packet emitted again.
    pub bytes: Vec<u8>,
    /// How long it says it is.
    pub wire_len: usize,
    /// What may differ from the datagram that was read.
    pub remainder: Remainder,
}

impl ParsedPacket {
    /// A packet that was read, emitted again as these bytes.
    pub fn new(packet: &impl Display, bytes: Vec<u8>, wire_len: usize, remainder: Remainder) -> Self {
        ParsedPacket { line: packet.to_string(), bytes, wire_len, remainder }
    }
}

/// What a datagram may have that is not part of its packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remainder {
    /// Nothing: the packet is all of it.
    Empty,
    /// Padding behind the packet.
    Padding,
    /// Fields that this format does not know or puts in by itself, anywhere.
    UnknownFields,
}

/// The bytes of a packet, which never change.
#[derive(Clone, Copy, Debug)]
pub struct Golden {
    /// As it is shown.
    pub line: &'static str,
    /// In hexadecimal digits; blanks between them mean nothing.
    pub hex: &'static str,
}

/// What a member that lies says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forgery {
    /// It lacks nothing before the last message that it has.
    Complete,
    /// It has so many messages more than it has.
    Ahead(u32),
    /// It has room for whatever there is.
    UnlimitedRoom,
}

/// Makes of a packet in which a member says what it has the one that a liar would send; leaves others as they are.
pub type FeedbackForger = fn(Forgery, &mut [u8]);

/// What a protocol promises of its deliveries, beyond what the traits say.
#[derive(Clone, Copy, Debug)]
pub enum DeliveryGuarantee {
    /// One sender learns from each receiver what has arrived: all that live get everything, and who does not
    /// is named.
    Acknowledged {
        /// Over links that keep the order of datagrams and do not duplicate them only: its sequence numbers
        /// are as few as its window allows. Over other links it has to end, no more.
        in_order: bool,
        /// After the sender has finished, each receiver still sends at most one datagram in every such time;
        /// `None` is none at all.
        idle_feedback: Option<Duration>,
    },
    /// Members are peers, and all that live get everything.
    Peers {
        /// How many crashes a group of so many nodes survives, with settings for them.
        crashes: fn(nodes: u32) -> u32,
    },
    /// Receivers ask for what they miss, and get it while somebody has it.
    ByRequest {
        /// Packets without a message that nodes may originate in a second, for each node of the network,
        /// whatever is lost: heartbeats and session messages, and requests for what is missing.
        control_per_node_and_second: f64,
        /// The request that routers repeat in their own name until it is confirmed, if they do.
        repeated_by_routers: Option<&'static str>,
    },
    /// Nothing is repaired. What is delivered is right and in order, each message once; what is missing in
    /// between is told.
    BestEffort,
}

/// Where a suite tries a protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrialNetwork {
    /// Links of a few milliseconds, infinitely fast.
    Links,
    /// An Ethernet on which a frame takes more than a millisecond.
    Ethernet,
    /// Routed networks where a round trip takes at most a fifth of a second.
    Routed,
    /// Processes of one machine, which may stop for a while at any time.
    Loopback,
}

/// What a suite is about to do with a group. A protocol draws settings with which it keeps its promise there
/// ([`ProtocolEntry::trial`](crate::ProtocolEntry::trial)).
#[derive(Debug)]
pub struct Trial<'a> {
    /// Where.
    pub network: TrialNetwork,
    /// Members of the group, its senders too.
    pub nodes: u32,
    /// Peers that are going to crash.
    pub crashes: u32,
    /// Datagrams are lost.
    pub is_lossy: bool,
    /// After so many attempts a sender is to give up; `None` if nobody who lives is to be given up.
    pub max_attempts: Option<u32>,
    /// Who is given up is a member no more; otherwise it misses what it was given up for.
    pub expels: bool,
    /// What settings are drawn from.
    pub rng: &'a mut Rng,
    parameters: &'static [Parameter],
    config: Config,
}

impl<'a> Trial<'a> {
    /// A trial of this many nodes where things get lost, nobody crashes, and nobody is given up.
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
    /// If the protocol does not take it.
    pub fn set(&mut self, key: &str, value: impl Display) -> &mut Self {
        let result = self.config.set(self.parameters, key, &value.to_string());
        result.unwrap_or_else(|error| panic!("{error}"));
        self
    }

    /// Sets a parameter to one of these.
    pub fn pick(&mut self, key: &str, values: &[&str]) -> &mut Self {
        let at = self.rng.below(values.len() as u64) as usize;
        self.set(key, values[at])
    }

    /// Sets a count to one from `from` on, below `from + span`.
    pub fn count(&mut self, key: &str, from: u64, span: u64) -> &mut Self {
        let value = from + self.rng.below(span);
        self.set(key, value)
    }

    /// Sets a span of time to one from `from` milliseconds on, below `from + span`.
    pub fn ms(&mut self, key: &str, from: u64, span: u64) -> &mut Self {
        let value = from + self.rng.below(span);
        self.set(key, format_args!("{value} ms"))
    }

    /// Whether something happens that happens so often.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.rng.chance(probability)
    }

    /// The settings.
    pub fn into_config(self) -> Config {
        self.config
    }
}

/// A machine's states and what leads from one to another, as its page draws it. A suite watches every machine and
/// holds it to them.
#[derive(Clone, Copy, Debug)]
pub struct States {
    /// What has them: `sender`, or `receiver, for a missing message`.
    pub of: &'static str,
    /// From a state, or [`ANY_STATE`], to a state, and why. [`PSEUDO_STATE`] is where it begins and ends.
    pub transitions: &'static [(&'static str, &'static str, &'static str)],
    /// Of these, from a state and to a state, those that no run of the suite takes, and why not.
    pub rare: &'static [(&'static str, &'static str, &'static str)],
}

/// Where a diagram of states begins and ends.
pub const PSEUDO_STATE: &str = "[*]";

/// From any state.
pub const ANY_STATE: &str = "Any";

/// A state that a machine is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObservedState {
    /// Whose: [`States::of`].
    pub of: &'static str,
    /// Which one of them, where a machine has many: a message, a member.
    pub about: u64,
    /// The state.
    pub state: &'static str,
    /// Another number after something that has led from the state back to it.
    pub turn: u64,
}

impl States {
    /// The transition that leads from one state to the other: one that names both before one from any.
    pub fn transition(&self, from: &str, to: &str) -> Option<(&'static str, &'static str)> {
        let declared = |from: &str| {
            let found = self.transitions.iter().find(|transition| transition.0 == from && transition.1 == to);
            found.map(|&(from, to, _)| (from, to))
        };
        declared(from).or_else(|| if from == PSEUDO_STATE { None } else { declared(ANY_STATE) })
    }

    /// Whether a state is declared.
    pub fn has(&self, state: &str) -> bool {
        self.transitions.iter().any(|(from, to, _)| *from == state || *to == state)
    }

    /// The diagram, for a page.
    pub fn mermaid(&self) -> String {
        let mut text = String::from("stateDiagram-v2\n");
        for (from, to, why) in self.transitions {
            let why = if why.is_empty() { String::new() } else { format!(": {why}") };
            text += &format!("    {from} --> {to}{why}\n");
        }
        text
    }
}
