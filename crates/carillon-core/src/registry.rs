//! What a protocol says of itself, and how its machines are built.
//!
//! The command line, the laboratory, and the conformance suite know protocols only through their
//! [`ProtocolEntry`].

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::{
    Addresses, AssociationId, BitRate, Config, ConfigError, DeliveryGuarantee, FeedbackForger, Format,
    GroupId, HelperTable, Helpers, Machine, NodeId, Parameter, Role, Seeds, States, Trial,
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
    /// The parameter, and its value, with which they deliver each message as soon as it is there.
    pub unordered_with: Option<(&'static str, &'static str)>,
    /// Whether a sender comes to know which of its messages have arrived. If not, receivers ask for
    /// what they miss and nobody says that all is well: the sender completes nothing, and is finished
    /// once everything has gone out. Then they record each loss found, asked for, and repaired or given up.
    pub confirmed: bool,
    /// How a confirmed protocol does without answers, if it can: then its sender comes to know nothing.
    pub one_way: Option<OneWay>,
    /// Whether, with the settings for delivery, a sender keeps its messages until all members have them, and says for whom it waits
    /// ([`Sender::awaits`](crate::Sender::awaits)). If not, it goes on without those who fall behind: nobody
    /// holds the others up, and who is behind by more than the sender keeps misses the rest.
    pub waits: bool,
    /// Settings with which a receiver that is no member, and says nothing, makes of a session what goes by, of a protocol whose senders can
    /// [withhold](crate::Sender::withhold) that in another one.
    pub overheard_with: Option<&'static [(&'static str, &'static str)]>,
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
    /// Settings that differ from these when what it carries there are live messages.
    pub live_settings: &'static [(&'static str, &'static str)],
    /// Parameters that follow what the host of a delivery knows, and what they follow.
    pub host_settings: &'static [(&'static str, HostValue)],
    /// Its packet format.
    pub format: &'static Format,
    /// How its packets go right over IP, if they can.
    pub raw_ip: Option<RawIp>,
    /// What a member that lies makes of what it says of itself, if suites are to try that.
    pub forge_feedback: Option<FeedbackForger>,
    /// Whether members send each other messages by order of somebody else, so that any of them can give others wrong ones.
    pub orders_members: bool,
    /// What it promises.
    pub guarantee: DeliveryGuarantee,
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

/// How a protocol does without answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OneWay {
    /// The parameter, and its value, with which nobody answers.
    pub key: &'static str,
    /// See `key`.
    pub value: &'static str,
    /// The parameter that says then how fast it sends.
    pub rate: &'static str,
    /// That for how much goes out beyond the messages, and how much that is if nobody says so.
    pub redundancy: (&'static str, &'static str),
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
        unordered_with: None,
        confirmed: false,
        one_way: None,
        waits: false,
        overheard_with: None,
        marks_originals: true,
        helpers: Helpers::None,
        header_bytes: |_| HeaderBytes::all(0),
        networks: &[NetworkKind::Lan, NetworkKind::Graph, NetworkKind::Udp],
        parameters: &[],
        delivery_settings: &[],
        live_settings: &[],
        host_settings: &[],
        format: &Format { name: "", fuzzed: |_, _, _| {}, read: |_| Err(String::new()), golden: &[] },
        raw_ip: None,
        forge_feedback: None,
        orders_members: false,
        guarantee: DeliveryGuarantee::BestEffort,
        trial: |_| {},
        states: &[],
        timers: &[],
        unicast_equivalent: None,
        build: |role, _, _| Err(ConfigError::no_such_role(role)),
    };

    /// Whether a sender with these settings comes to know what has arrived.
    pub fn confirms(&self, settings: &Config) -> bool {
        self.confirmed && self.one_way.is_none_or(|one| settings.choice(one.key) != one.value)
    }

    /// The order in which members with these settings deliver.
    pub fn order_with(&self, settings: &Config) -> Order {
        match self.unordered_with {
            Some((key, value)) if settings.choice(key) == value => Order::Arrival,
            _ => self.order,
        }
    }

    /// Whether what is lost comes in the end, as long as somebody has it.
    pub fn repairs(&self) -> bool {
        !matches!(self.guarantee, DeliveryGuarantee::BestEffort)
    }
}

/// What data packets of a protocol add to a payload, envelope included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderBytes {
    /// Bytes that the packet adds with which a message first comes: a scenario gives the size of that one.
    pub data: usize,
    /// Bytes that whichever packet adds most adds: a repair may say more. By this a host chooses payloads
    /// that fit its datagrams.
    pub max: usize,
}

impl HeaderBytes {
    /// All packets with a message add so much.
    pub const fn all(bytes: usize) -> Self {
        HeaderBytes { data: bytes, max: bytes }
    }
}

/// What a parameter follows when the protocol carries `send` and `recv`: something that only the host
/// knows. A user who sets the parameter is obeyed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostValue {
    /// As many messages as fit the receivers' buffers, for a [`Kind::Count`](crate::Kind::Count); within these bounds.
    Window {
        /// As many as this however small the buffers.
        min: u64,
        /// No more than this however large.
        max: u64,
    },
    /// The same for a protocol that finds out by itself how much the path carries, and fills the receivers'
    /// buffers only where it carries more.
    AdaptiveWindow {
        /// As many as this however small the buffers.
        min: u64,
        /// No more than this however large.
        max: u64,
    },
    /// As many messages as make this many bytes, for a [`Kind::Count`](crate::Kind::Count): what a sender keeps until all have it.
    Bytes(u64),
    /// The same where the sender goes on meanwhile as far as the path carries: fewer where there is no path to fill.
    Outstanding(u64),
    /// The time after which a silent member is given up, for a [`Kind::Span`](crate::Kind::Span).
    MemberTimeout,
}

impl HostValue {
    /// As a setting, where so many messages fit the receivers' buffers, of so many bytes each, the path has use for so many bytes,
    /// and who is silent is given up after so long.
    pub fn text(self, window: u64, message: u64, path: u64, member_timeout: Duration) -> String {
        let messages = |bytes: u64| (bytes / message.max(1)).max(1).to_string();
        match self {
            HostValue::Window { min, max } | HostValue::AdaptiveWindow { min, max } => {
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

/// The order in which the members of a group deliver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Messages of one source in the order they were offered; those of two sources as they come. A
    /// member does not deliver its own.
    Source,
    /// One order of all messages at all members: a member delivers its own in their place.
    Total,
    /// Each message once, as soon as it is there.
    Arrival,
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Order::Source => "of each source",
            Order::Total => "total",
            Order::Arrival => "of arrival",
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
    pub fn max_messages(&self, wanted: u64) -> u64 {
        let each = Self::max_datagram_len(self.max_payload).saturating_add(MESSAGE_OVERHEAD);
        wanted.min((self.memory / each) as u64).max(1)
    }

    /// The longest datagram that a session whose messages have up to so many bytes needs. A host that has
    /// a budget of memory lets no longer one in.
    pub fn max_datagram_len(max_payload: u32) -> usize {
        (max_payload as usize).saturating_add(MAX_HEADER_BYTES).max(MIN_DATAGRAM_LIMIT)
    }

    /// The same where each of the other members may send, and has a share of its own.
    pub fn max_messages_per_member(&self, wanted: u64) -> u64 {
        let others = self.members.len().saturating_sub(1).max(1) as u64;
        if self.memory == usize::MAX {
            wanted
        } else {
            wanted.min(self.max_messages(u64::MAX) / others).max(1)
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
const MAX_HEADER_BYTES: usize = 256;
/// Datagrams that carry no message may be as long as this.
const MIN_DATAGRAM_LIMIT: usize = 2048;
/// What it takes to keep a message, beside itself.
const MESSAGE_OVERHEAD: usize = 128;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_values_become_settings() {
        let text = |value: HostValue, path| value.text(20, 1000, path, Duration::from_secs(5));
        assert_eq!(text(HostValue::Window { min: 30, max: 40 }, u64::MAX), "30");
        assert_eq!(text(HostValue::AdaptiveWindow { min: 1, max: 10 }, u64::MAX), "10");
        assert_eq!(text(HostValue::Bytes(50_000), 10_000), "50");
        assert_eq!(text(HostValue::Outstanding(50_000), 10_000), "10");
        assert_eq!(text(HostValue::Outstanding(50_000), u64::MAX), "50");
        assert_eq!(text(HostValue::Outstanding(50_000), 10), "1");
        assert_eq!(text(HostValue::MemberTimeout, 0), "5000000 us");
    }
}
