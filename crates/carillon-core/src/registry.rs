//! Registry entry of a protocol: its description and the constructor of its machines.
//!
//! The command line, the laboratory, and the conformance suite know protocols only through their [`ProtocolEntry`]. A
//! new protocol adds one entry and changes none of them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::{
    Addresses, AssociationId, BitRate, Config, ConfigError, Format, GroupId, HelperTable, Helpers, Machine,
    NodeId, Parameter, Role, Seeds, States,
};

/// Protocol: description and constructor.
#[derive(Debug)]
pub struct ProtocolEntry {
    /// Name in scenario files and on the command line.
    pub name: &'static str,
    /// Description for readers.
    pub about: About,
    /// Roles that its machines play.
    pub roles: &'static [Role],
    /// Use of addressed helpers.
    pub helpers: Helpers,
    /// Networks on which it runs.
    pub networks: &'static [NetworkKind],
    /// Order and completeness of delivery.
    pub delivery: DeliveryProperties,
    /// Needs of a session around it.
    pub session: SessionProperties,
    /// Plain sessions, as other implementations of the protocol's standard hold them; `None` if there are none.
    pub plain: Option<&'static PlainSessions>,
    /// Packets and their transport.
    pub packets: PacketProperties,
    /// Parameters.
    pub parameters: &'static [Parameter],
    /// Values of parameters for `send` and `recv`.
    pub settings: DefaultSettings,
    /// Observations that experiments make.
    pub study: StudyProperties,
    /// Constructor of the machine of one role at one node.
    pub build: Build,
}

/// Description of a protocol for readers.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// Protocol family: the side that detects loss, and the method.
    pub family: &'static str,
    /// Summary in one line.
    pub summary: &'static str,
    /// Source that it implements: paper or RFC.
    pub reference: &'static str,
}

/// Order and completeness of delivery by a protocol.
#[derive(Clone, Copy, Debug)]
pub struct DeliveryProperties {
    /// Order in which its members deliver.
    pub order: Order,
    /// Parameter and value that switch to delivery on arrival, if the protocol has such a mode.
    pub unordered_with: Option<(&'static str, &'static str)>,
    /// True if a sender learns which of its messages have arrived.
    ///
    /// Otherwise receivers request missing messages, and no acknowledgment confirms delivery: the sender completes no
    /// message and is finished once everything has been transmitted. Receivers then record each loss that they find,
    /// request, and repair or abandon.
    pub confirmed: bool,
    /// True if lost messages are repaired as long as a live node has them.
    pub repairs: bool,
    /// True if, with the settings for delivery, a sender keeps each message until all members have it and reports for
    /// which members it waits ([`Sender::awaits`](crate::Sender::awaits)).
    ///
    /// Otherwise it goes on without stragglers: no member delays the others, and one that lags by more than the
    /// sender keeps misses the rest.
    pub waits: bool,
    /// Unidirectional (one-way) mode of a confirmed protocol, if it has one: the sender then learns nothing.
    pub one_way: Option<OneWay>,
}

/// Needs of a session around the machines of a protocol.
#[derive(Clone, Copy, Debug)]
pub struct SessionProperties {
    /// Settings with which a silent non-member overhears a session, if the protocol's senders can
    /// [withhold](crate::Sender::withhold) those messages in a later session.
    pub overheard_with: Option<&'static [(&'static str, &'static str)]>,
    /// True if the sender is a member of the group too, since receivers multicast what concerns it.
    pub sender_hears_group: bool,
    /// Reader of the association of a datagram, if a group may have several sources, each with an association of its
    /// own.
    pub many_sources: Option<AssociationReader>,
}

/// Packets of a protocol and their transport.
#[derive(Clone, Copy, Debug)]
pub struct PacketProperties {
    /// Packet format.
    pub format: &'static Format,
    /// Bytes that data packets add to a payload, with these settings.
    pub header_bytes: fn(&Config) -> HeaderBytes,
    /// Transport directly over IP, if the protocol has one.
    pub raw_ip: Option<RawIp>,
}

/// Values of a protocol's parameters for `send` and `recv`.
#[derive(Clone, Copy, Debug)]
pub struct DefaultSettings {
    /// Settings that differ from the defaults, as key and value.
    pub delivery: &'static [(&'static str, &'static str)],
    /// Settings for live messages that differ from `delivery`.
    pub live: &'static [(&'static str, &'static str)],
    /// Parameters that the host of a delivery derives from its own knowledge, with the rule for each.
    pub host: &'static [(&'static str, HostValue)],
}

/// Observations of a protocol that experiments make.
#[derive(Clone, Copy, Debug)]
pub struct StudyProperties {
    /// State machines, as its page draws them.
    pub states: &'static [States],
    /// Names of measured timers: the machines record each expiry as [`Event::TimerFired`](crate::Event::TimerFired).
    pub timers: &'static [&'static str],
    /// True if senders mark the first transmission of each message ([`Events::data_sent`](crate::Events::data_sent));
    /// experiments that lose a single packet need the mark.
    pub marks_originals: bool,
    /// True if receivers of a confirmed protocol record losses as those of an unconfirmed one do: each loss that they
    /// find, request, and repair or abandon.
    pub records_losses: bool,
    /// Unicast equivalent, the reference of relative throughput.
    pub unicast_equivalent: Option<UnicastEquivalent>,
}

/// Reader of the association of a datagram; `None` if it has none.
pub type AssociationReader = fn(&[u8]) -> Option<AssociationId>;

/// Plain sessions: without the opening exchange of Carillon, and with messages that are the application's bytes. They
/// interoperate with other implementations of the protocol's standard.
#[derive(Debug)]
pub struct PlainSessions {
    /// Settings that differ from `delivery_settings`, as key and value.
    pub settings: &'static [(&'static str, &'static str)],
    /// Parameter with the protocol's own port, which is not that of UDP; `None` if it has none.
    pub port: Option<&'static str>,
    /// Parameter with the time for which a sender stays after its last message; `None` if nothing comes back.
    pub linger: Option<&'static str>,
    /// Parameter with the time of day at the start, in seconds since 1900 (NTP), which the host sets.
    pub clock: Option<&'static str>,
    /// Parameter with the rate of a sender, if it has a low default that the rate of the host is to replace.
    pub rate: Option<&'static str>,
    /// Contents: messages, files, or both.
    pub contents: PlainContents,
    /// True if a sender can name receivers that are to confirm everything. They are then the members of its context, by
    /// the identifiers of the protocol, and it [awaits](crate::Sender::awaits) those that have not.
    pub confirms: bool,
    /// True if a receiver knows by itself that its source has ended: it is then
    /// [complete](crate::Receiver::is_complete).
    pub completes: bool,
    /// Time after the end of a source after which another one may have its number; `None`: never.
    pub reopens_after: Option<Duration>,
    /// Default memory of the receiver of a source, in bytes.
    pub source_memory: usize,
    /// Reader of a datagram before any machine handles it; `None` if no source sends it.
    pub read: fn(&[u8], &Config) -> Option<PlainPacket>,
    /// Constructor of a sender.
    pub sender: Build<PlainKind>,
    /// Constructor of the receiver of one source.
    pub receiver: Build<SourceKey>,
}

/// Contents of the plain sessions of a protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlainContents {
    /// Messages, each in packets of its own.
    Messages,
    /// Named files.
    Files,
    /// Named files, or a stream of bytes in which messages begin.
    FilesOrStream,
}

impl PlainContents {
    /// Returns true if files are sent.
    pub fn has_files(self) -> bool {
        self != PlainContents::Messages
    }

    /// Returns true if messages without names are sent.
    pub fn has_messages(self) -> bool {
        self != PlainContents::Files
    }

    /// Returns true if messages travel in a stream.
    pub fn has_stream(self) -> bool {
        self == PlainContents::FilesOrStream
    }
}

/// Contents of one sender of a plain session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlainKind {
    /// Messages without names.
    Messages,
    /// Named files.
    Files,
}

/// Number by which a standard distinguishes the sources of a host, such as the transport session identifier of PGM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourceKey(pub u64);

impl fmt::Display for SourceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Contents of a source's datagram that a host reads before any machine handles it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlainPacket {
    /// The source.
    pub source: SourceKey,
    /// True if reception may begin with this packet.
    pub opens: bool,
    /// True if the source announces its end.
    pub ends: bool,
    /// True if another receiver sent it, to the group: a request to the source, of which all learn.
    pub is_request: bool,
}

/// Transport of packets directly over IP.
#[derive(Clone, Copy, Debug)]
pub struct RawIp {
    /// Protocol number in the IP header (IANA).
    pub protocol: u8,
    /// Returns true if a datagram is a packet of the protocol.
    pub carries: fn(&[u8]) -> bool,
}

/// Unicast equivalent of a protocol, with the figures that a comparison needs.
#[derive(Clone, Copy, Debug)]
pub struct UnicastEquivalent {
    /// Name of the protocol that serves the same receivers one after the other.
    pub protocol: &'static str,
    /// Bytes of an acknowledgment on the link, with these settings.
    pub ack_bytes: fn(&Config) -> u64,
    /// Number of messages that share an acknowledgment, with these settings.
    pub window: fn(&Config) -> u64,
}

/// Unidirectional (one-way) mode: delivery without feedback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OneWay {
    /// Parameter that switches to the one-way mode.
    pub key: &'static str,
    /// Value of that parameter in the one-way mode.
    pub value: &'static str,
    /// Parameter that then sets the sending rate.
    pub rate: &'static str,
    /// Parameter of the repair overhead and its default, as a share of the messages.
    pub redundancy: (&'static str, &'static str),
}

impl ProtocolEntry {
    /// Base of registry entries: no helpers, all networks, repairs, marked originals, no unicast equivalent. Every
    /// entry must set the remaining fields, which are empty here.
    pub const PLAIN: ProtocolEntry = ProtocolEntry {
        name: "",
        about: About { family: "", summary: "", reference: "" },
        roles: &[],
        helpers: Helpers::None,
        networks: &[NetworkKind::Lan, NetworkKind::Graph, NetworkKind::Udp],
        delivery: DeliveryProperties {
            order: Order::Source,
            unordered_with: None,
            confirmed: false,
            repairs: true,
            waits: false,
            one_way: None,
        },
        session: SessionProperties { overheard_with: None, sender_hears_group: false, many_sources: None },
        plain: None,
        packets: PacketProperties {
            format: &Format { name: "", read: |_| Err(String::new()), summary: |_| None, kinds: &[] },
            header_bytes: |_| HeaderBytes::all(0),
            raw_ip: None,
        },
        parameters: &[],
        settings: DefaultSettings { delivery: &[], live: &[], host: &[] },
        study: StudyProperties {
            states: &[],
            timers: &[],
            marks_originals: true,
            records_losses: false,
            unicast_equivalent: None,
        },
        build: |role, _, _| Err(ConfigError::no_such_role(role)),
    };

    /// Returns true if a sender with these settings learns what has arrived.
    pub fn confirms(&self, settings: &Config) -> bool {
        self.delivery.confirmed
            && self.delivery.one_way.is_none_or(|one| settings.choice(one.key) != one.value)
    }

    /// Returns true if receivers record each loss that they find, request, and repair or abandon, with these settings.
    pub fn shows_losses(&self, settings: &Config) -> bool {
        self.study.records_losses || !self.confirms(settings)
    }

    /// Order in which members with these settings deliver.
    pub fn order_with(&self, settings: &Config) -> Order {
        match self.delivery.unordered_with {
            Some((key, value)) if settings.choice(key) == value => Order::Arrival,
            _ => self.delivery.order,
        }
    }
}

/// Bytes that data packets of a protocol add to a payload, envelope included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderBytes {
    /// Header bytes of the packet that first carries a message. Scenarios give the size of that packet.
    pub data: usize,
    /// Header bytes of the longest data packet, which may be a repair. A host chooses payloads by it, so that every
    /// packet fits a datagram.
    pub max: usize,
}

impl HeaderBytes {
    /// Header of one size for all data packets.
    pub const fn all(bytes: usize) -> Self {
        HeaderBytes { data: bytes, max: bytes }
    }
}

/// Source of a parameter's value for `send` and `recv`, where only the host knows it. A user's explicit setting takes
/// precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostValue {
    /// Number of messages that fit the receivers' buffers, within these bounds; for a
    /// [`Kind::Count`](crate::Kind::Count).
    Window {
        /// Minimum, for buffers of any size.
        min: u64,
        /// Maximum.
        max: u64,
    },
    /// Like `Window`, for a protocol with congestion control: it fills the receivers' buffers only where the path
    /// carries as much.
    AdaptiveWindow {
        /// Minimum, for buffers of any size.
        min: u64,
        /// Maximum.
        max: u64,
    },
    /// Number of messages that amount to this many bytes, which a sender keeps until all members have them; for a
    /// [`Kind::Count`](crate::Kind::Count).
    Bytes(u64),
    /// Like `Bytes`, but no more than the path can hold in flight.
    Outstanding(u64),
    /// Time after which a silent member is expelled; for a [`Kind::Span`](crate::Kind::Span).
    MemberTimeout,
}

impl HostValue {
    /// Formats the value as a setting.
    ///
    /// `window` is the number of messages that fit the receivers' buffers, `message` the bytes of a message, `path`
    /// the bytes that the path can hold, and `member_timeout` the time after which a silent member is expelled.
    pub fn text(self, window: u64, message: u64, path: u64, member_timeout: Duration) -> String {
        let messages = |bytes: u64| (bytes / message.max(1)).max(1).to_string();
        match self {
            HostValue::Window { min, max } | HostValue::AdaptiveWindow { min, max } => {
                window.clamp(min, max).to_string()
            }
            HostValue::Bytes(bytes) => messages(bytes),
            // More than the path holds would only wait in queues.
            HostValue::Outstanding(bytes) => messages(bytes.min(path)),
            HostValue::MemberTimeout => format!("{} us", member_timeout.as_micros()),
        }
    }
}

/// Constructor of the machine of one role at one node, or of another one that `R` describes.
pub type Build<R = Role> = fn(R, &BuildContext, &Config) -> Result<Box<dyn Machine>, ConfigError>;

/// Order in which the members of a group deliver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Per source, in the order of offers; unordered between sources. A member does not deliver its own messages.
    Source,
    /// Total order of all messages at all members; a member delivers its own in their place.
    Total,
    /// Arrival order: every message once, as soon as it is received.
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

/// Kind of network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NetworkKind {
    /// Simulated shared Ethernet.
    Lan,
    /// Simulated routers and hosts, joined by links.
    Graph,
    /// UDP/IP multicast on real networks.
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

/// Place of a machine in the run, given to its constructor.
#[derive(Clone, Debug)]
pub struct BuildContext {
    /// Session of the machine.
    pub association: AssociationId,
    /// Node of the machine.
    pub node: NodeId,
    /// Node of the sender; among peers, the first member.
    pub sender: NodeId,
    /// Receivers in ascending order; empty at a receiver that does not know the others.
    ///
    /// Among peers it lists every member, this node included, in the same order everywhere: the position of a peer is
    /// its rank.
    pub members: Arc<[NodeId]>,
    /// Helper table, the same at every node; empty without helpers.
    pub helpers: Arc<HelperTable>,
    /// Numbers that name nodes on the wire.
    pub identities: Identities,
    /// Network addresses of nodes and groups, for packets that carry them.
    pub addresses: Addresses,
    /// Group of the session.
    pub group: GroupId,
    /// Random streams of the node.
    pub seeds: Seeds,
    /// Rate of the node's interface, which defines the bit time.
    pub bit_rate: BitRate,
    /// Bytes that the network adds to a datagram; a packet size includes them.
    pub link_overhead: u32,
    /// Maximum payload of a message, in bytes.
    pub max_payload: u32,
    /// Memory budget for messages of others, in bytes: those kept out of order, for the application, and for other
    /// nodes. The machine drops messages beyond it.
    pub memory: usize,
    /// True if the node was a member before and has lost its state.
    pub rejoining: bool,
}

impl BuildContext {
    /// Number of messages of others that fit the memory budget at the maximum datagram size, at most `wanted` and at
    /// least 1.
    pub fn max_messages(&self, wanted: u64) -> u64 {
        let each = Self::max_datagram_len(self.max_payload).saturating_add(MESSAGE_OVERHEAD);
        wanted.min((self.memory / each) as u64).max(1)
    }

    /// Longest datagram of a session with this maximum payload, in bytes. A host with a memory budget admits no
    /// longer one.
    pub fn max_datagram_len(max_payload: u32) -> usize {
        (max_payload as usize).saturating_add(MAX_HEADER_BYTES).max(MIN_DATAGRAM_LIMIT)
    }

    /// Like [`max_messages`](Self::max_messages) for each of the other members, where any of them may send and has an
    /// equal share.
    pub fn max_messages_per_member(&self, wanted: u64) -> u64 {
        let others = self.members.len().saturating_sub(1).max(1) as u64;
        if self.memory == usize::MAX {
            wanted
        } else {
            wanted.min(self.max_messages(u64::MAX) / others).max(1)
        }
    }

    /// Rank of this node among the members; `None` if it is not a member.
    pub fn rank(&self) -> Option<usize> {
        // Most lists are ascending, and a linear search for each member of a large group is too slow.
        let found = self.members.binary_search(&self.node).ok();
        found.or_else(|| self.members.iter().position(|&member| member == self.node))
    }
}

/// Maximum header bytes of any protocol, by which the longest datagram of a session is bounded.
const MAX_HEADER_BYTES: usize = 256;
/// Minimum bound of a datagram's length: datagrams without a message may be as long as this, in bytes.
const MIN_DATAGRAM_LIMIT: usize = 2048;
/// Memory overhead of a stored message, in bytes.
const MESSAGE_OVERHEAD: usize = 128;

/// Numbers that name nodes in packets and on which the sender and every receiver agree.
///
/// [`NodeId`]s cannot serve where each process numbers its peers itself. The default is for networks where all nodes
/// agree on `NodeId`s, as in the simulator.
#[derive(Clone, Debug, Default)]
pub struct Identities(Option<(u64, Arc<[u64]>)>);

impl Identities {
    /// Identities from the number of this node and those of the members, in their order.
    pub fn agreed(own: u64, members: Arc<[u64]>) -> Self {
        Identities(Some((own, members)))
    }

    /// Number that names `node`, which must be the node of this context.
    pub fn own(&self, node: NodeId) -> u64 {
        self.0.as_ref().map_or(node.0.into(), |(own, _)| *own)
    }

    /// Number that names the member `node` of this rank.
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
