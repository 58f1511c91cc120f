//! What a protocol says of itself, and how its machines are built.
//!
//! The command line, the laboratory, and the conformance suite know protocols only through their
//! [`ProtocolEntry`].

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use crate::{
    Addresses, AssociationId, BitRate, Boast, DataSize, Format, GroupId, HelperTable, Helpers, Machine,
    NodeId, Probability, Promise, Seeds, Span, States, Trial,
};

/// A protocol: its description and its constructor.
#[derive(Debug)]
pub struct ProtocolEntry {
    /// Its name in scenario files and on the command line.
    pub name: &'static str,
    /// Its family: who detects loss, and how.
    pub family: &'static str,
    /// One line.
    pub summary: &'static str,
    /// The source it implements.
    pub reference: &'static str,
    /// The roles its machines play.
    pub roles: &'static [Role],
    /// The order in which its members deliver.
    pub order: Order,
    /// Whether a sender comes to know which of its messages have arrived. If not, receivers ask for
    /// what they miss and nobody says that all is well: the sender completes nothing, and is finished
    /// once everything has gone out. Then they record each loss found, asked for, and repaired or given up.
    pub confirmed: bool,
    /// The parameter of a confirmed protocol, and its value, with which nobody answers the sender, so that it comes to know nothing.
    pub one_way: Option<(&'static str, &'static str)>,
    /// Whether, with the settings for delivery, a sender keeps its messages until all members have them, and says for whom it waits
    /// ([`Sender::awaits`](crate::Sender::awaits)). If not, it goes on without those who fall behind: nobody
    /// holds the others up, and who is behind by more than the sender keeps misses the rest.
    pub waits: bool,
    /// Whether its senders mark the first transmission of each message
    /// ([`Events::data_sent`](crate::Events::data_sent)): experiments that lose one packet need that.
    pub marks_originals: bool,
    /// What it does with helpers that are addressed.
    pub helpers: Helpers,
    /// What its data packets add to a payload, with these settings.
    pub header_bytes: fn(&Config) -> HeaderBytes,
    /// The networks it runs on.
    pub networks: &'static [NetworkKind],
    /// Its parameters.
    pub parameters: &'static [Parameter],
    /// Settings that differ from the defaults when it carries `send` and `recv`, as `key = value`.
    pub delivery_settings: &'static [(&'static str, &'static str)],
    /// Parameters that follow what the host of a delivery knows, and what they follow.
    pub host_settings: &'static [(&'static str, HostValue)],
    /// Its packet format.
    pub format: &'static Format,
    /// How its packets go right over IP, if they can.
    pub raw_ip: Option<RawIp>,
    /// What a member that lies makes of what it says of itself, if suites are to try that.
    pub boast: Option<Boast>,
    /// Whether members send each other messages by order of somebody else, so that any of them can give others wrong ones.
    pub orders_members: bool,
    /// What it promises.
    pub promise: Promise,
    /// Draws settings with which it keeps its promise in a trial.
    pub trial: fn(&mut Trial<'_>),
    /// The states of its machines, as its page draws them.
    pub states: &'static [States],
    /// Timers that are measured: its machines record each expiry of them ([`Event::TimerFired`](crate::Event::TimerFired)).
    pub timers: &'static [&'static str],
    /// Its unicast equivalent, the measure of relative throughput.
    pub unicast_equivalent: Option<UnicastEquivalent>,
    /// Builds the machine of one role at one node.
    pub build: Build,
}

/// Which packets go right over IP, and how they are known there.
#[derive(Clone, Copy, Debug)]
pub struct RawIp {
    /// The number of the protocol over IP (IANA).
    pub protocol: u8,
    /// Whether a datagram is a packet of the protocol.
    pub carries: fn(&[u8]) -> bool,
}

/// The unicast equivalent of a protocol, and what a comparison with it has to know.
#[derive(Clone, Copy, Debug)]
pub struct UnicastEquivalent {
    /// The protocol that does the same to one receiver after the other.
    pub protocol: &'static str,
    /// Bytes of an acknowledgment on the link, with these settings.
    pub ack_bytes: fn(&Config) -> u64,
    /// Messages that share an acknowledgment, with these settings.
    pub window: fn(&Config) -> u64,
}

impl ProtocolEntry {
    /// What most protocols say alike: without helpers, on all networks, first transmissions are marked, parameters are taken as
    /// they are, and there is no unicast equivalent. The rest each entry has to say itself; here it is empty.
    pub const PLAIN: ProtocolEntry = ProtocolEntry {
        name: "",
        family: "",
        summary: "",
        reference: "",
        roles: &[],
        order: Order::Source,
        confirmed: false,
        one_way: None,
        waits: false,
        marks_originals: true,
        helpers: Helpers::None,
        header_bytes: |_| HeaderBytes::all(0),
        networks: &[NetworkKind::Lan, NetworkKind::Graph, NetworkKind::Udp],
        parameters: &[],
        delivery_settings: &[],
        host_settings: &[],
        format: &Format { name: "", fuzzed: |_, _, _| {}, read: |_| Err(String::new()), golden: &[] },
        raw_ip: None,
        boast: None,
        orders_members: false,
        promise: Promise::BestEffort,
        trial: |_| {},
        states: &[],
        timers: &[],
        unicast_equivalent: None,
        build: |role, _, _| Err(ConfigError::no_such_role(role)),
    };

    /// Whether a sender with these settings comes to know what has arrived.
    pub fn confirms(&self, settings: &Config) -> bool {
        self.confirmed && self.one_way.is_none_or(|(key, value)| settings.choice(key) != value)
    }

    /// Whether what is lost comes in the end, as long as somebody has it.
    pub fn repairs(&self) -> bool {
        !matches!(self.promise, Promise::BestEffort)
    }
}

/// What data packets of a protocol add to a payload, envelope included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderBytes {
    /// Bytes that the packet adds with which a message first comes: a scenario gives the size of that one.
    pub data: usize,
    /// Bytes that whichever packet adds most adds: a repair may say more. By this a host chooses payloads
    /// that fit its datagrams.
    pub most: usize,
}

impl HeaderBytes {
    /// All packets with a message add so much.
    pub const fn all(bytes: usize) -> Self {
        HeaderBytes { data: bytes, most: bytes }
    }
}

/// What a parameter follows when the protocol carries `send` and `recv`: something that only the host
/// knows. A user who sets the parameter is obeyed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostValue {
    /// As many messages as fit the receivers' buffers, for a [`Kind::Count`]; within these bounds.
    Window {
        /// As many as this however small the buffers.
        min: u64,
        /// No more than this however large.
        max: u64,
    },
    /// The same for a protocol that finds out by itself how much the path carries, and fills the receivers'
    /// buffers only where it carries more.
    Flight {
        /// As many as this however small the buffers.
        min: u64,
        /// No more than this however large.
        max: u64,
    },
    /// As many messages as make this many bytes, for a [`Kind::Count`]: what a sender keeps until all have it.
    Bytes(u64),
    /// The same where the sender goes on meanwhile as far as the path carries: fewer where there is no path to fill.
    Outstanding(u64),
    /// The time after which a silent member is given up, for a [`Kind::Span`].
    MemberTimeout,
}

impl HostValue {
    /// As a setting, where so many messages fit the receivers' buffers, of so many bytes each, the path has use for so many bytes,
    /// and who is silent is given up after so long.
    pub fn text(self, window: u64, message: u64, path: u64, member_timeout: Duration) -> String {
        let messages = |bytes: u64| (bytes / message.max(1)).max(1).to_string();
        match self {
            HostValue::Window { min, max } | HostValue::Flight { min, max } => {
                window.clamp(min, max).to_string()
            }
            HostValue::Bytes(bytes) => messages(bytes),
            HostValue::Outstanding(bytes) => messages(bytes.min(path)),
            HostValue::MemberTimeout => format!("{} us", member_timeout.as_micros()),
        }
    }
}

/// Builds the machine of one role at one node.
pub type Build = fn(Role, &BuildContext, &Config) -> Result<Box<dyn Machine>, ConfigError>;

/// What a machine is in its protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Offers messages to the group.
    Sender,
    /// Delivers messages of the group.
    Receiver,
    /// Both: any of its members may offer messages.
    Peer,
    /// Stands on the path between them and helps: a router of the protocol.
    Relay,
    /// Is addressed by others and helps: it keeps messages for them and speaks for them, and neither offers nor delivers
    /// any. A receiver that also helps has the role of a receiver.
    Helper,
}

/// The order in which the members of a group deliver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Messages of one source in the order they were offered; those of two sources as they come. A
    /// member does not deliver its own.
    Source,
    /// One order of all messages at all members: a member delivers its own in their place.
    Total,
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Order::Source => "of each source",
            Order::Total => "total",
        })
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Role::Sender => "sender",
            Role::Receiver => "receiver",
            Role::Peer => "peer",
            Role::Relay => "relay",
            Role::Helper => "helper",
        })
    }
}

/// The kinds of network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NetworkKind {
    /// One shared Ethernet, simulated.
    Lan,
    /// Routers and hosts joined by links, simulated.
    Graph,
    /// UDP/IP multicast, real.
    Udp,
}

impl fmt::Display for NetworkKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NetworkKind::Lan => "lan",
            NetworkKind::Graph => "graph",
            NetworkKind::Udp => "udp",
        })
    }
}

/// What a machine is told about its place in the run.
#[derive(Clone, Debug)]
pub struct BuildContext {
    /// The session it belongs to.
    pub association: AssociationId,
    /// The node it runs at.
    pub node: NodeId,
    /// The node of the sender. Among peers, the first of the members.
    pub sender: NodeId,
    /// The receivers, ascending; empty at a receiver whose host does not know the others. Among
    /// peers all of them, this node too, in an order that is the same everywhere: the position of a
    /// peer in it is its rank.
    pub members: Arc<[NodeId]>,
    /// Who turns to which helper; the same at every node. Empty without helpers.
    pub helpers: Arc<HelperTable>,
    /// What names nodes on the wire, for protocols that name them.
    pub identities: Identities,
    /// The network addresses of nodes and groups, for protocols whose packets carry them.
    pub addresses: Addresses,
    /// The group they share.
    pub group: GroupId,
    /// The node's random streams.
    pub seeds: Seeds,
    /// The rate of its interface: the unit of bit times.
    pub bit_rate: BitRate,
    /// Bytes the network adds to a datagram: what a packet size includes beyond the datagram.
    pub link_overhead: u32,
    /// The payload the application will put into each message, at most.
    pub max_payload: u32,
    /// Bytes of messages that this machine may hold because others sent them: what it keeps out of order,
    /// for the application, and for others. What does not fit is as good as lost.
    pub memory: usize,
    /// Whether this node was a member before, and has lost all it knew.
    pub rejoining: bool,
}

impl BuildContext {
    /// How many messages of others fit the memory, each as large as a datagram of this session gets: at
    /// most as many as were asked for, and one in any case.
    pub fn most_messages(&self, wanted: u64) -> u64 {
        let each = Self::longest_datagram(self.max_payload).saturating_add(BESIDE);
        wanted.min((self.memory / each) as u64).max(1)
    }

    /// The longest datagram that a session whose messages have up to so many bytes needs. A host that has
    /// a budget of memory lets no longer one in.
    pub fn longest_datagram(max_payload: u32) -> usize {
        (max_payload as usize).saturating_add(MOST_HEADERS).max(LEAST_DATAGRAM)
    }

    /// The same where each of the other members may send, and has a share of its own.
    pub fn most_messages_of_each(&self, wanted: u64) -> u64 {
        let others = self.members.len().saturating_sub(1).max(1) as u64;
        if self.memory == usize::MAX {
            wanted
        } else {
            wanted.min(self.most_messages(u64::MAX) / others).max(1)
        }
    }

    /// The rank of this node among the members, if it is one of them.
    pub fn rank(&self) -> Option<usize> {
        // Most lists are ascending; looking through a long one for each of its members takes too long.
        let found = self.members.binary_search(&self.node).ok();
        found.or_else(|| self.members.iter().position(|&member| member == self.node))
    }
}

/// What the headers of any protocol add to a payload, at most.
const MOST_HEADERS: usize = 256;
/// Datagrams that carry no message may be as long as this.
const LEAST_DATAGRAM: usize = 2048;
/// What it takes to keep a message, beside itself.
const BESIDE: usize = 128;

/// What names nodes in packets: numbers on which the sender and each receiver agree. Their
/// [`NodeId`]s will not do where each process numbers its peers by itself.
///
/// The default is for networks where all agree on `NodeId`s, as in the simulator.
#[derive(Clone, Debug, Default)]
pub struct Identities(Option<(u64, Arc<[u64]>)>);

impl Identities {
    /// The number of this node, and those of the members in their order.
    pub fn agreed(own: u64, members: Arc<[u64]>) -> Self {
        Identities(Some((own, members)))
    }

    /// The number that names `node`, the one they are asked at.
    pub fn own(&self, node: NodeId) -> u64 {
        self.0.as_ref().map_or(node.0.into(), |(own, _)| *own)
    }

    /// The number that names the member `node` of this rank.
    pub fn member(&self, rank: usize, node: NodeId) -> u64 {
        self.0.as_ref().map_or(node.0.into(), |(_, members)| members[rank])
    }
}

/// One parameter of a protocol.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Its name: the source's own, in snake case.
    pub name: &'static str,
    /// What values it takes.
    pub kind: Kind,
    /// Its default, as it would be written.
    pub default: &'static str,
    /// What it does and where the default comes from.
    pub doc: &'static str,
}

/// Lists one behind the other, of `N` entries in all: what a protocol shares with others, and what is its own.
///
/// # Panics
///
/// If they are not as many, or the first list is empty.
pub const fn joined<T: Copy, const N: usize>(lists: &[&[T]]) -> [T; N] {
    let mut all = [lists[0][0]; N];
    let (mut list, mut count) = (0, 0);
    while list < lists.len() {
        let mut at = 0;
        while at < lists[list].len() {
            all[count] = lists[list][at];
            (at, count) = (at + 1, count + 1);
        }
        list += 1;
    }
    assert!(count == N, "as many as are joined");
    all
}

impl Parameter {
    /// A whole number within these bounds, both included.
    pub const fn count(name: &'static str, (min, max): (u64, u64), default: &'static str) -> Self {
        Parameter { name, kind: Kind::Count { min, max }, default, doc: "" }
    }

    /// A data size of so many bytes, both bounds included.
    pub const fn size(name: &'static str, (min, max): (u64, u64), default: &'static str) -> Self {
        Parameter { name, kind: Kind::Size { min, max }, default, doc: "" }
    }

    /// A rate, which may be none.
    pub const fn rate(name: &'static str, default: &'static str) -> Self {
        Parameter { name, kind: Kind::Rate, default, doc: "" }
    }

    /// A span of time.
    pub const fn span(name: &'static str, default: &'static str) -> Self {
        Parameter { name, kind: Kind::Span, default, doc: "" }
    }

    /// A probability.
    pub const fn probability(name: &'static str, default: &'static str) -> Self {
        Parameter { name, kind: Kind::Probability, default, doc: "" }
    }

    /// Yes or no.
    pub const fn switch(name: &'static str, default: &'static str) -> Self {
        Parameter { name, kind: Kind::Switch, default, doc: "" }
    }

    /// One of these words.
    pub const fn choice(name: &'static str, words: &'static [&'static str], default: &'static str) -> Self {
        Parameter { name, kind: Kind::Choice(words), default, doc: "" }
    }

    /// The same, and what it does.
    pub const fn doc(self, doc: &'static str) -> Self {
        Parameter { doc, ..self }
    }
}

/// The values a parameter takes.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// A whole number within bounds, both included.
    Count {
        /// The least.
        min: u64,
        /// The greatest.
        max: u64,
    },
    /// A data size in bytes within bounds, both included.
    Size {
        /// The least.
        min: u64,
        /// The greatest.
        max: u64,
    },
    /// A rate; a number alone is bytes in a second, and 0 none.
    Rate,
    /// A span of time.
    Span,
    /// A probability.
    Probability,
    /// Yes or no.
    Switch,
    /// One of these words.
    Choice(&'static [&'static str]),
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Count { min, max } => write!(f, "a whole number from {min} to {max}"),
            Kind::Size { min, max } => write!(f, "a data size from {min} to {max} byte"),
            Kind::Rate => {
                f.write_str("a rate such as \"10 Mbit/s\"; a number alone: bytes in a second; 0: none")
            }
            Kind::Span => f.write_str("a span of time such as \"20 ms\" or \"6000 bit\""),
            Kind::Probability => f.write_str("a probability from 0 to 1"),
            Kind::Switch => f.write_str("true or false"),
            Kind::Choice(words) => {
                f.write_str("one of ")?;
                for (i, word) in words.iter().enumerate() {
                    write!(f, "{}\"{word}\"", if i > 0 { ", " } else { "" })?;
                }
                Ok(())
            }
        }
    }
}

/// The value of a parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Setting {
    /// For [`Kind::Count`].
    Count(u64),
    /// For [`Kind::Size`].
    Size(DataSize),
    /// For [`Kind::Rate`].
    Rate(Option<BitRate>),
    /// For [`Kind::Span`].
    Span(Span),
    /// For [`Kind::Probability`].
    Probability(Probability),
    /// For [`Kind::Switch`].
    Switch(bool),
    /// For [`Kind::Choice`].
    Choice(&'static str),
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Setting::Count(count) => count.fmt(f),
            Setting::Size(size) => size.fmt(f),
            Setting::Rate(Some(rate)) => rate.fmt(f),
            Setting::Rate(None) => f.write_str("0"),
            Setting::Span(span) => span.fmt(f),
            Setting::Probability(p) => p.fmt(f),
            Setting::Switch(on) => on.fmt(f),
            Setting::Choice(word) => f.write_str(word),
        }
    }
}

/// A configuration that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// No such parameter.
    #[error("unknown parameter `{key}`; valid are: {valid}")]
    UnknownKey {
        /// What was written.
        key: String,
        /// What could have been.
        valid: String,
    },
    /// A value that the parameter does not take.
    #[error("`{key} = {value}`: expected {expected}")]
    BadValue {
        /// The parameter.
        key: String,
        /// What was written.
        value: String,
        /// What could have been.
        expected: String,
    },
    /// Values that do not go together.
    #[error("{0}")]
    Conflict(String),
}

impl ConfigError {
    /// What the constructor of a protocol says to a role that it does not have.
    pub fn no_such_role(role: Role) -> Self {
        ConfigError::Conflict(format!("this protocol has no {role}"))
    }
}

/// The settings of one protocol: every parameter has a value of its kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Config(BTreeMap<&'static str, Setting>);

impl Config {
    /// Every parameter at its default.
    pub fn defaults(parameters: &'static [Parameter]) -> Self {
        let parse = |p: &'static Parameter| {
            p.parse(p.default).unwrap_or_else(|error| panic!("the default of a parameter is valid: {error}"))
        };
        Config(parameters.iter().map(|p| (p.name, parse(p))).collect())
    }

    /// Sets one parameter from text.
    pub fn set(
        &mut self,
        parameters: &'static [Parameter],
        key: &str,
        value: &str,
    ) -> Result<(), ConfigError> {
        let Some(parameter) = parameters.iter().find(|p| p.name == key) else {
            let names: Vec<_> = parameters.iter().map(|p| p.name).collect();
            return Err(ConfigError::UnknownKey { key: key.to_owned(), valid: names.join(", ") });
        };
        self.0.insert(parameter.name, parameter.parse(value)?);
        Ok(())
    }

    /// The same with the values that another protocol's settings give to parameters of these names.
    pub fn with(mut self, other: &Config) -> Self {
        for (name, setting) in other.iter() {
            if let Some(own) = self.0.get_mut(name) {
                *own = setting;
            }
        }
        self
    }

    /// All settings by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, Setting)> + '_ {
        self.0.iter().map(|(&name, &setting)| (name, setting))
    }

    /// The value of a count.
    ///
    /// # Panics
    ///
    /// Like the other accessors, if the protocol declared no such parameter of this kind.
    pub fn count(&self, name: &str) -> u64 {
        match self.0.get(name) {
            Some(Setting::Count(count)) => *count,
            _ => undeclared(name, "count"),
        }
    }

    /// The value of a data size.
    pub fn size(&self, name: &str) -> DataSize {
        match self.0.get(name) {
            Some(Setting::Size(size)) => *size,
            _ => undeclared(name, "size"),
        }
    }

    /// The value of a rate.
    pub fn rate(&self, name: &str) -> Option<BitRate> {
        match self.0.get(name) {
            Some(Setting::Rate(rate)) => *rate,
            _ => undeclared(name, "rate"),
        }
    }

    /// The value of a span of time.
    pub fn span(&self, name: &str) -> Span {
        match self.0.get(name) {
            Some(Setting::Span(span)) => *span,
            _ => undeclared(name, "span"),
        }
    }

    /// The value of a probability.
    pub fn probability(&self, name: &str) -> Probability {
        match self.0.get(name) {
            Some(Setting::Probability(p)) => *p,
            _ => undeclared(name, "probability"),
        }
    }

    /// The value of a switch.
    pub fn switch(&self, name: &str) -> bool {
        match self.0.get(name) {
            Some(Setting::Switch(on)) => *on,
            _ => undeclared(name, "switch"),
        }
    }

    /// The value of a choice.
    pub fn choice(&self, name: &str) -> &'static str {
        match self.0.get(name) {
            Some(Setting::Choice(word)) => word,
            _ => undeclared(name, "choice"),
        }
    }
}

impl Parameter {
    /// The value written as `text`, if the parameter takes it.
    pub fn parse(&self, text: &str) -> Result<Setting, ConfigError> {
        let value = match self.kind {
            Kind::Count { min, max } => {
                text.parse().ok().filter(|n| (min..=max).contains(n)).map(Setting::Count)
            }
            Kind::Size { min, max } => text
                .parse()
                .map(DataSize)
                .or_else(|_| text.parse::<DataSize>())
                .ok()
                .filter(|size| (min..=max).contains(&size.0))
                .map(Setting::Size),
            Kind::Rate => match text.parse::<u64>() {
                Ok(bytes) => bytes.checked_mul(8).map(BitRate::new).map(Setting::Rate),
                Err(_) => text.parse().ok().map(|rate| Setting::Rate(Some(rate))),
            },
            Kind::Span => text.parse().ok().map(Setting::Span),
            Kind::Probability => text.parse().ok().map(Setting::Probability),
            Kind::Switch => text.parse().ok().map(Setting::Switch),
            Kind::Choice(words) => words.iter().find(|word| **word == text).map(|word| Setting::Choice(word)),
        };
        value.ok_or_else(|| ConfigError::BadValue {
            key: self.name.to_owned(),
            value: text.to_owned(),
            expected: self.kind.to_string(),
        })
    }
}

fn undeclared(name: &str, kind: &str) -> ! {
    panic!("the protocol reads a {kind} `{name}` that its entry does not declare")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_host_knows_is_a_setting() {
        let text = |value: HostValue, path| value.text(20, 1000, path, Duration::from_secs(5));
        assert_eq!(text(HostValue::Window { min: 30, max: 40 }, u64::MAX), "30");
        assert_eq!(text(HostValue::Flight { min: 1, max: 10 }, u64::MAX), "10");
        assert_eq!(text(HostValue::Bytes(50_000), 10_000), "50");
        assert_eq!(text(HostValue::Outstanding(50_000), 10_000), "10");
        assert_eq!(text(HostValue::Outstanding(50_000), u64::MAX), "50");
        assert_eq!(text(HostValue::Outstanding(50_000), 10), "1");
        assert_eq!(text(HostValue::MemberTimeout, 0), "5000000 us");
    }
}
