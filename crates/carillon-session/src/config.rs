//! Configuration of sender and receiver sessions.

mod receiver;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::str::FromStr;

use carillon_core::{
    Addresses, AssociationId, BitRate, Config, ConfigError, Duration, GroupId, Helper, HelperTable, Helpers,
    NodeId, Parameter, ProtocolEntry, Role,
};
use carillon_wire::session::{Attachment, MAX_PEERS, Name, Nonce, Settings};

use super::demands;
use super::job::JobId;
use super::ledger::Ledger;

pub use receiver::{ReceiverOrigin, ReceiverSessionConfig};

/// Default of [`SenderSessionConfig::heartbeat`].
pub const DEFAULT_HEARTBEAT: Duration = Duration::from_millis(200);
/// Default of [`SenderSessionConfig::member_timeout`].
pub const DEFAULT_MEMBER_TIMEOUT: Duration = Duration::from_secs(5);
/// Default of [`SenderSessionConfig::min_rate`].
pub const DEFAULT_MIN_RATE: BitRate = match BitRate::new(16_000) {
    Some(rate) => rate,
    None => panic!("it is above zero"),
};
/// Default of [`SenderSessionConfig::max_members`].
pub const DEFAULT_MAX_MEMBERS: usize = 4096;
/// Default of [`ReceiverSessionConfig::silence`].
pub const DEFAULT_SILENCE: Duration = Duration::from_secs(5);
/// Default of [`ReceiverSessionConfig::receive_buffer`].
pub const DEFAULT_RECEIVE_BUFFER: u32 = 16 << 20;

/// Default of [`ReceiverSessionConfig::memory`].
pub const DEFAULT_MEMORY: usize = 64 << 20;
/// Maximum length of [`ReceiverSessionConfig::attached`] in bytes.
pub const MAX_ATTACHED: usize = Attachment::MAX_LEN;

/// Configuration of a [`SenderSession`](super::SenderSession).
#[derive(Clone, Debug)]
pub struct SenderSessionConfig {
    /// Number of the session, drawn at random by the host.
    pub association: AssociationId,
    /// Name of the sender: 1 to 64 bytes without control characters.
    pub name: String,
    /// Multicast group.
    pub group: GroupId,
    /// Protocol that carries the messages.
    pub protocol: &'static ProtocolEntry,
    /// Settings of the protocol.
    pub config: Config,
    /// Condition that ends the gathering of receivers.
    pub gather: Gather,
    /// Limits of gathering.
    pub limits: GatherLimits,
    /// Interval between invitations: while gathering, and as a heartbeat afterwards.
    pub heartbeat: Duration,
    /// Silence timeout of a member. A member that is awaited and acknowledges nothing for this time is expelled too.
    pub member_timeout: Duration,
    /// Minimum goodput of a member that the sender waits for most of the time. A slower member is expelled.
    pub min_rate: Option<BitRate>,
    /// Treatment of stragglers.
    pub slow: Slow,
    /// Job of the session, and its other sessions.
    pub job: JobConfig,
    /// Maximum payload of a message in bytes.
    pub max_payload: u32,
    /// Sizes in bytes of the datagrams shown while gathering, longest first, for `max_payload`. The session uses the
    /// largest size that reaches all members, and a receiver that the last one does not reach cannot join. If empty,
    /// all sizes are assumed to arrive. Not for sessions with a roster.
    /// [`SenderSession::max_payload`](super::SenderSession::max_payload) gives the resulting payload once the session
    /// runs.
    pub sizes: Vec<u16>,
    /// Size in bytes of the datagrams of the catch-up session, for members that longer datagrams do not reach. None if
    /// datagrams cannot be shorter.
    pub fallback: Option<u16>,
    /// Properties of the network.
    pub network: NetworkProperties,
    /// Maximum number of members.
    pub max_members: usize,
    /// Helpers of the protocol among the members.
    pub helpers: HelperOptions,
    /// Host that a receiver of this name must have. Names that are not listed may have any.
    pub hosts: BTreeMap<String, IpAddr>,
    /// Maximum number of bytes of other nodes' messages that the protocol's machine may hold.
    pub memory: usize,
}

/// Helpers of the protocol, and the tree that they make.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HelperOptions {
    /// Members that may join as helpers of the protocol. The session starts once they have joined.
    pub wanted: HelperSelection,
    /// Maximum number of helpers below the sender and below each helper. None puts all helpers below the sender.
    pub fanout: Option<usize>,
    /// True if each member turns to its nearest helper, by the round-trip times measured before the session runs.
    pub nearest: bool,
    /// Helper of each member by name: a receiver or another helper. Members that are not listed get the places that
    /// remain.
    pub under: BTreeMap<String, String>,
    /// True if routers of the protocol may help, which are no members. Any node that claims to be one is accepted.
    pub relays: bool,
}

/// Properties of the network between the members of a session.
#[derive(Clone, Debug)]
pub struct NetworkProperties {
    /// Rate of the interface.
    pub bit_rate: BitRate,
    /// Bytes that the network adds to a datagram.
    pub link_overhead: u32,
    /// Network addresses of the nodes and the group, for protocols with addresses in their packets. The session's own
    /// node is [`LOCAL_NODE`](super::LOCAL_NODE).
    pub addresses: Addresses,
}

impl Default for NetworkProperties {
    fn default() -> Self {
        NetworkProperties { bit_rate: BitRate::mbps(1000), link_overhead: 0, addresses: Addresses::default() }
    }
}

/// Job that a session belongs to.
#[derive(Clone, Debug, Default)]
pub struct JobConfig {
    /// Identity, drawn at random by the host. All sessions of the job have the same.
    pub id: JobId,
    /// Name of the job, by which receivers can choose it: 1 to 64 bytes.
    pub name: Option<String>,
    /// True if a catch-up session follows. Late receivers are then told to wait for it instead of being refused, and
    /// so are expelled ones unless `slow` is [`Slow::Drop`].
    pub further: bool,
    /// True if a catch-up session serves the members that this session sets aside because they slow the others down.
    pub lanes: bool,
    /// Relation of its sessions.
    pub kind: JobKind,
    /// Earlier sessions of the job: its receivers, and members that may still report.
    pub earlier: EarlierSessions,
    /// True if the application asks the members for their holdings before it sends.
    pub asks: bool,
    /// Names of the demands that receivers must permit ([`Demand`](super::Demand)); others decline the invitation.
    pub demands: Vec<&'static str>,
    /// Number of bytes that the application will offer, if it knows. Near the end the sender does not try whether a
    /// member could receive faster than the others, since the trial would cost more than it could gain.
    pub total_bytes: Option<u64>,
}

/// Relation of the sessions of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JobKind {
    /// Sessions that can send all data again.
    #[default]
    Repeating,
    /// Sessions that continue a live stream. Late receivers are served only if they say that they can resume, and no
    /// member is set aside.
    Series,
}

impl JobConfig {
    /// Returns true if the sessions of the job continue a live stream.
    pub(super) fn is_series(&self) -> bool {
        self.kind == JobKind::Series
    }
}

/// Limits of gathering receivers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GatherLimits {
    /// Time after which gathering ends in any case. The session starts with the receivers that have joined, and is
    /// aborted if there are none.
    pub limit: Option<Duration>,
    /// Time from the first join until gathering ends with [`Gather::Count`] and [`Gather::Names`], with the receivers
    /// that have joined by then.
    pub wait: Option<Duration>,
    /// True if the session is aborted rather than started without a receiver or helper that it waits for.
    pub all_or_nothing: bool,
}

/// Applies settings that a protocol declares for itself.
fn own<'a>(
    protocol: &'static ProtocolEntry,
    config: &'a mut Config,
) -> impl FnMut(&'static (&'static str, &'static str)) + 'a {
    move |(key, value)| {
        let set = config.set(protocol.parameters, key, value);
        // The settings are constants of the protocol's entry, so a bad value is a mistake in the program.
        set.unwrap_or_else(|error| panic!("the settings of a protocol are valid: {error}"));
    }
}

impl SenderSessionConfig {
    /// Creates the configuration of a session with this protocol and its delivery settings, for messages of
    /// `max_payload` bytes. The session starts when one receiver has joined.
    ///
    /// # Panics
    ///
    /// Panics if the protocol's delivery settings are not valid.
    pub fn new(
        association: AssociationId,
        name: impl Into<String>,
        group: GroupId,
        protocol: &'static ProtocolEntry,
        max_payload: u32,
    ) -> Self {
        let mut config = Config::defaults(protocol.parameters);
        protocol.settings.delivery.iter().for_each(own(protocol, &mut config));
        SenderSessionConfig {
            association,
            name: name.into(),
            group,
            protocol,
            config,
            gather: Gather::Count(1),
            heartbeat: DEFAULT_HEARTBEAT,
            member_timeout: DEFAULT_MEMBER_TIMEOUT,
            min_rate: Some(DEFAULT_MIN_RATE),
            slow: Slow::Lane,
            max_payload,
            sizes: Vec::new(),
            fallback: None,
            max_members: DEFAULT_MAX_MEMBERS,
            hosts: BTreeMap::new(),
            helpers: HelperOptions::default(),
            network: NetworkProperties::default(),
            job: JobConfig::default(),
            limits: GatherLimits::default(),
            memory: DEFAULT_MEMORY,
        }
    }

    /// Applies the settings that the protocol declares for live messages.
    ///
    /// # Panics
    ///
    /// Panics if these are not valid.
    #[must_use]
    pub fn live(mut self) -> Self {
        self.protocol.settings.live.iter().for_each(own(self.protocol, &mut self.config));
        self
    }

    /// Sets the parameters that depend on the host: the member timeout, a window of `window` messages that fits the
    /// receivers' buffers, and a path that can use `path` bytes. Settings of a user are applied after this. Fails if
    /// a value is out of range.
    pub fn set_host_values(&mut self, window: u64, path: u64) -> Result<(), ConfigError> {
        for &(key, value) in self.protocol.settings.host {
            // Each value passes through its text form, so its range is checked as for a user's setting.
            let text = value.text(window, self.max_payload.into(), path, self.member_timeout);
            self.config.set(self.protocol.parameters, key, &text)?;
        }
        Ok(())
    }

    /// Maximum payload with which all packets fit datagrams of this size.
    pub fn payload_in(&self, datagram: usize) -> u32 {
        // The longest header decides, since every packet of the protocol has to fit.
        datagram.saturating_sub((self.protocol.packets.header_bytes)(&self.config).max) as u32
    }

    /// Returns true if the members are peers, of which several may offer messages.
    pub(super) fn has_peers(&self) -> bool {
        self.protocol.roles.contains(&Role::Peer)
    }

    /// Returns true if the members learn of each other before the session runs: they are peers, or some help others.
    pub(super) fn has_roster(&self) -> bool {
        self.has_peers() || self.protocol.helpers != Helpers::None
    }

    /// Returns true if routers may help, which are no members and send to them.
    pub(super) fn lets_relays_in(&self) -> bool {
        self.helpers.relays && self.protocol.roles.contains(&Role::Relay)
    }

    /// Time for which a member, or all members, may make no progress while the sender waits.
    pub(super) fn stall_timeout(&self) -> Duration {
        self.member_timeout.saturating_mul(STALL_TIMEOUTS)
    }

    /// Interval between keepalives of a member. It fits at least eight times into the member timeout, so that some
    /// may be lost, and grows with the number of members.
    pub(super) fn progress_interval(&self, members: usize) -> Duration {
        // A small group sends 20 keepalives in each timeout. In a larger group the spacing limits the load of the
        // sender to 1000 packets a second, as long as 8 keepalives fit into a timeout.
        let (few, many) = (self.member_timeout / 20, self.member_timeout / 8);
        (PROGRESS_SPACING * u32::try_from(members).unwrap_or(u32::MAX)).clamp(few, many)
    }

    /// Maximum number of members. With a roster, its capacity bounds them, and the sender takes one place of it.
    pub(super) fn member_limit(&self) -> usize {
        if self.has_roster() { self.max_members.min(MAX_PEERS - 1) } else { self.max_members }
    }

    /// Settings as invitations carry them. Fails if the configuration contradicts itself.
    pub(super) fn check(&self) -> Result<String, ConfigError> {
        let conflict = |text: String| Err(ConfigError::Conflict(text));
        // Names go into packets, so they must fit the wire format.
        if Name::new(&self.name).is_none() {
            return conflict(format!("the sender's name {:?} is not {NAME_RULE}", self.name));
        }
        if let Some(name) = self.job.name.as_deref().filter(|name| Name::new(name).is_none()) {
            return conflict(format!("the job's name {name:?} is not {NAME_RULE}"));
        }
        if Name::new(self.protocol.name).is_none() {
            return conflict(format!("the protocol's name {:?} is not {NAME_RULE}", self.protocol.name));
        }
        self.check_gathering()?;
        self.check_helpers()?;
        // A zero interval would make a timer fire again at the same instant, without end.
        if self.heartbeat.is_zero() || self.member_timeout.is_zero() || self.max_members == 0 {
            return conflict(
                "the heartbeat, the members' timeout and their number are above zero".to_owned(),
            );
        }
        if self.limits.limit.is_some_and(|limit| limit.is_zero()) || self.max_payload == 0 {
            return conflict("the limit of gathering and the largest payload are above zero".to_owned());
        }
        // Invitations state the first size as the longest and the last as the shortest. Each must have room for a
        // message, since the session may have to use it.
        let descend = self.sizes.is_sorted_by(|one, next| one > next);
        if !descend || self.sizes.last().is_some_and(|&least| self.payload_in(least.into()) == 0) {
            return conflict("sizes of datagrams become less, and each has room for a message".to_owned());
        }
        // The JOIN states which datagrams of the sender arrived. Paths between members are not tried, and a silent
        // receiver sends no JOIN.
        if !self.sizes.is_empty() && (self.has_roster() || matches!(self.gather, Gather::Silent(_))) {
            return conflict("a session one way or among peers has one size of datagrams: no receiver reports which sizes arrive".to_owned());
        }
        // Invitations carry the settings as text, which shares one datagram with the other fields.
        let name = |name: &'static str| {
            let parameter = self.protocol.parameters.iter().find(|parameter| parameter.name == name);
            parameter.map_or(name, Parameter::name_on_the_wire)
        };
        let own = self.config.iter().map(|(key, value)| (name(key).to_owned(), value.to_string()));
        let settings = Settings::encode(own.chain(demands::settings(&self.job.demands)));
        if Settings::new(&settings).is_none() {
            return conflict(format!("the settings do not fit into {} bytes", Settings::MAX_LEN));
        }
        Ok(settings)
    }
}

impl SenderSessionConfig {
    fn check_gathering(&self) -> Result<(), ConfigError> {
        let conflict = |text: String| Err(ConfigError::Conflict(text));
        // A condition that holds without receivers would start a session with nothing to do. A count above the limit
        // would never be reached.
        match &self.gather {
            Gather::Count(0) => return conflict("a session with 0 receivers has nothing to do".to_owned()),
            Gather::Names(names) if names.is_empty() => {
                return conflict("a session that expects no receivers has nothing to do".to_owned());
            }
            Gather::Names(names) if names.iter().any(|name| Name::new(name).is_none()) => {
                return conflict(format!("the expected receivers {names:?}: a name is {NAME_RULE}"));
            }
            Gather::Count(count) if *count > self.member_limit() => {
                return conflict(format!("{count} receivers are more than {}", self.member_limit()));
            }
            Gather::Names(names) if names.len() > self.member_limit() => {
                return conflict(format!("{} receivers are more than {}", names.len(), self.member_limit()));
            }
            // A limit within the waiting time would leave one of the two without effect.
            Gather::Wait(wait) | Gather::Silent(wait)
                if self.limits.limit.is_some_and(|limit| limit <= *wait) =>
            {
                return conflict(format!("gathering for {wait:?} passes its own limit"));
            }
            // Without answers the session would complete before anything was sent.
            Gather::Silent(_) if self.has_roster() || self.protocol.confirms(&self.config) => {
                let name = self.protocol.name;
                return conflict(format!(
                    "no receiver of a one-way session answers, and {name} with these settings waits for answers"
                ));
            }
            Gather::Count(_)
            | Gather::Names(_)
            | Gather::Wait(_)
            | Gather::Silent(_)
            | Gather::Settle(_)
            | Gather::Quiet(_)
            | Gather::Again { .. } => {}
        }
        Ok(())
    }

    fn check_helpers(&self) -> Result<(), ConfigError> {
        let (name, count) = (self.protocol.name, self.helpers.wanted.count());
        let wrong = match (self.protocol.helpers, &self.helpers.wanted, &self.gather) {
            (Helpers::None, _, _) if count > 0 => Some(format!("the protocol \"{name}\" has no helpers")),
            (Helpers::Required(least), _, _) if !self.protocol.helpers.allow(count) => {
                Some(format!("the protocol \"{name}\" needs {least} helpers at least"))
            }
            _ if count > 0 && self.has_peers() => Some(format!(
                "a session of the protocol \"{name}\", whose members are peers, gathers no helpers"
            )),
            // Otherwise the first unnamed member could take the place of a helper.
            (_, HelperSelection::Count(1..), Gather::Names(_)) => {
                Some("a session that expects its receivers by name has to name its helpers too".to_owned())
            }
            (_, HelperSelection::Names(names), _) if names.iter().any(|name| Name::new(name).is_none()) => {
                Some(format!("the helpers {names:?}: a name is {NAME_RULE}"))
            }
            _ if count > self.member_limit() => {
                Some(format!("{count} helpers are more than {}", self.member_limit()))
            }
            _ => self.placement_error(),
        };
        wrong.map_or(Ok(()), |wrong| Err(ConfigError::Conflict(wrong)))
    }
}

impl SenderSessionConfig {
    /// Error in the assignment of members to helpers, if any.
    fn placement_error(&self) -> Option<String> {
        for (child, helper) in &self.helpers.under {
            // A name that no helper may have would leave the member without its configured place.
            if !self.helpers.wanted.allows(helper) {
                return Some(format!(
                    "{child:?} is to turn to {helper:?}, which is not expected as a helper"
                ));
            }
            // Follow the parents upwards. A path without a cycle has at most as many links as the map has entries.
            let mut at = helper;
            for _ in 0..self.helpers.under.len() {
                if at == child {
                    return Some(format!("the helper {child:?} turns to itself by way of others"));
                }
                let Some(next) = self.helpers.under.get(at) else { break };
                at = next;
            }
        }
        None
    }
}

/// Helper table with as many helpers as the protocol requires, to try settings with.
pub(super) fn trial_table(protocol: &ProtocolEntry) -> HelperTable {
    let Helpers::Required(least) = protocol.helpers else { return HelperTable::default() };
    let helper = |index| Helper { node: NodeId(FIRST_TRIAL_NODE - index), parent: None, delivers: false };
    HelperTable::new((0..least).map(helper).collect(), []).unwrap_or_default()
}

/// Members that earlier sessions expelled after everything was sent. They may report yet: a member that was suspended
/// may have all data in its socket.
#[derive(Clone, Debug, Default)]
pub struct EarlierSessions {
    /// Names of these members, by session, node and nonce.
    pub(super) members: BTreeMap<(AssociationId, NodeId, Nonce), String>,
    /// Earlier sessions in order.
    pub(super) sessions: Vec<AssociationId>,
    /// Receivers of the job.
    pub(super) ledger: Ledger,
}

impl EarlierSessions {
    /// Earlier sessions of the job, in order.
    pub fn sessions(&self) -> &[AssociationId] {
        &self.sessions
    }
}

/// Treatment of members that keep the others waiting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Slow {
    /// Wait for them while they are alive.
    Wait,
    /// Set them aside, if a catch-up session follows that serves them.
    #[default]
    Lane,
    /// Expel them, and do not serve them any longer.
    Drop,
}

impl Slow {
    /// Name of the variant.
    pub fn name(self) -> &'static str {
        match self {
            Slow::Wait => "wait",
            Slow::Lane => "lane",
            Slow::Drop => "drop",
        }
    }
}

/// A text that a setting does not take. The caller can change the setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected {expected}")]
pub struct UnknownWord {
    /// Texts that the setting takes.
    pub expected: &'static str,
}

impl FromStr for Slow {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        match text {
            "wait" => Ok(Slow::Wait),
            "lane" => Ok(Slow::Lane),
            "drop" => Ok(Slow::Drop),
            _ => Err(UnknownWord { expected: "wait, lane or drop" }),
        }
    }
}

/// Members that may join as helpers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum HelperSelection {
    /// No helpers.
    #[default]
    Nobody,
    /// This number of helpers with any names.
    Count(usize),
    /// Helpers with these names.
    Names(BTreeSet<String>),
}

impl HelperSelection {
    /// Number of helpers.
    pub fn count(&self) -> usize {
        match self {
            HelperSelection::Nobody => 0,
            HelperSelection::Count(count) => *count,
            HelperSelection::Names(names) => names.len(),
        }
    }

    /// Returns true if a member of this name may be a helper.
    pub(super) fn allows(&self, name: &str) -> bool {
        match self {
            HelperSelection::Nobody => false,
            // The caller compares the number of helpers that have joined.
            HelperSelection::Count(count) => *count > 0,
            HelperSelection::Names(names) => names.contains(name),
        }
    }
}

/// Condition that ends the gathering of receivers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gather {
    /// This number of receivers has joined.
    Count(usize),
    /// Every receiver with these names has joined. Others are refused.
    Names(BTreeSet<String>),
    /// This time has passed and at least one receiver has joined.
    Wait(Duration),
    /// This time has passed, even if no receiver has joined. Receivers may listen without ever sending
    /// ([`ReceiverSessionConfig::silent`]).
    Silent(Duration),
    /// This time has passed since the first receiver joined.
    Settle(Duration),
    /// The condition of `Settle`, or an earlier one: the receivers that were there before the sender have joined, and
    /// none has asked to join for a quiet time. The earlier one holds only if a catch-up session
    /// ([`JobConfig::further`]) serves late receivers.
    Quiet(Duration),
    /// Condition of a catch-up session: all awaited receivers have joined, or a time has passed since the first did.
    Again {
        /// Names of the receivers that are known to be present.
        awaited: BTreeSet<String>,
        /// Names that may join; none admits all names.
        only: Option<BTreeSet<String>>,
        /// Time from the first join.
        settle: Duration,
    },
}

/// First node number for trial helpers. Hosts number no nodes from here downwards.
const FIRST_TRIAL_NODE: u32 = u32::MAX - 1;
/// Member timeouts for which a closing member may make no progress.
const STALL_TIMEOUTS: u32 = 12;
/// Interval between PROGRESS packets of all members together, as far as the member timeout permits.
const PROGRESS_SPACING: Duration = Duration::from_millis(1);
/// Rule for names in error messages.
const NAME_RULE: &str = "1 to 64 bytes of text without control characters";
