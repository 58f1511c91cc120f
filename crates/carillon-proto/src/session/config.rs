//! What sessions are told.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::str::FromStr;

use carillon_core::{
    Addresses, AssociationId, BitRate, Config, ConfigError, Duration, GroupId, Helper, HelperTable, Helpers,
    NodeId, ProtocolEntry, Role,
};
use carillon_wire::session::{Attachment, MAX_PEERS, MemberRole, Name, Nonce, Settings};

use super::job::{DoneJobs, JobId};
use super::ledger::Ledger;
use super::receiver::ReceiverFailure;

/// See [`SenderSessionConfig::heartbeat`].
pub const DEFAULT_HEARTBEAT: Duration = Duration::from_millis(200);
/// See [`SenderSessionConfig::member_timeout`].
pub const DEFAULT_MEMBER_TIMEOUT: Duration = Duration::from_secs(5);
/// See [`SenderSessionConfig::min_rate`].
pub const DEFAULT_MIN_RATE: BitRate = match BitRate::new(16_000) {
    Some(rate) => rate,
    None => panic!("it is above zero"),
};
/// See [`SenderSessionConfig::max_members`].
pub const DEFAULT_MAX_MEMBERS: usize = 4096;
/// See [`ReceiverSessionConfig::silence`].
pub const DEFAULT_SILENCE: Duration = Duration::from_secs(5);
/// See [`ReceiverSessionConfig::receive_buffer`].
pub const DEFAULT_RECEIVE_BUFFER: u32 = 16 << 20;

/// See [`ReceiverSessionConfig::memory`].
pub const DEFAULT_MEMORY: usize = 64 << 20;
/// See [`ReceiverSessionConfig::attached`].
pub const MAX_ATTACHED: usize = Attachment::MAX_LEN;

/// What a [`SenderSession`](super::SenderSession) is told.
#[derive(Clone, Debug)]
pub struct SenderSessionConfig {
    /// The session's number, drawn at random by the host.
    pub association: AssociationId,
    /// The sender's name: 1 to 64 bytes without control characters.
    pub name: String,
    /// The group.
    pub group: GroupId,
    /// The protocol that carries the messages.
    pub protocol: &'static ProtocolEntry,
    /// Its settings.
    pub config: Config,
    /// When gathering is over.
    pub gather: Gather,
    /// Gathering ends after this time: the session starts with the receivers that have joined, and is aborted if none has.
    pub gather_limit: Option<Duration>,
    /// With [`Gather::Count`] and [`Gather::Names`]: gathering ends this long after the first receiver has joined, with those that
    /// have joined by then.
    pub gather_wait: Option<Duration>,
    /// The session is aborted where it would start without somebody that `gather` or `helping` waits for.
    pub all_or_nothing: bool,
    /// Time between two invitations: while gathering, and as a sign of life afterwards.
    pub heartbeat: Duration,
    /// A member that is silent this long is lost, and so is one that is awaited and acknowledges nothing.
    pub member_timeout: Duration,
    /// A member that the sender waits for most of the time, and that lets less than this through, is
    /// lost.
    pub min_rate: Option<BitRate>,
    /// What becomes of members that keep the others waiting.
    pub slow: Slow,
    /// A further session follows: who comes late is told so instead of being refused for good, and so is who was given up
    /// unless `slow` is [`Slow::Drop`].
    pub further: bool,
    /// The job that this session belongs to, drawn at random by the host; the same in all sessions of the job.
    pub job: JobId,
    /// True if a catch-up session serves the members that this session sets aside because they slow the others down.
    pub lanes: bool,
    /// The sessions of the job before this one: the receivers of the job, and who may still report.
    pub former: Former,
    /// The largest payload of one message.
    pub max_payload: u32,
    /// Bytes of the datagrams that are shown while it gathers, the longest first, which `max_payload` makes: none is longer in the end than the largest that
    /// has come to all, and who has not had the last cannot take part. Without any all are taken to come through. Not where members know each other.
    /// How long messages may be then [`SenderSession::max_payload`](super::SenderSession::max_payload) says once the session runs.
    pub sizes: Vec<u16>,
    /// The rate of the interface.
    pub bit_rate: BitRate,
    /// Bytes the network adds to a datagram.
    pub link_overhead: u32,
    /// The network addresses of nodes and of the group, for protocols whose packets carry them; the
    /// session's own node is [`LOCAL_NODE`](super::LOCAL_NODE) in it.
    pub addresses: Addresses,
    /// The sender takes no more members than this.
    pub max_members: usize,
    /// Who may join as a helper of the protocol. The session starts when they have.
    pub helping: Helping,
    /// How many helpers turn to the sender, and to each helper; without it all turn to the sender.
    pub fanout: Option<usize>,
    /// Each turns to the nearest helper, by the time there and back that members measure before the session runs.
    pub nearest: bool,
    /// The helper to whom a member of this name turns, by the helper's name: a receiver or another helper. Those who are not in it have the
    /// places that are left.
    pub under: BTreeMap<String, String>,
    /// Let routers of the protocol help, which are no members. Whoever says that it is one is let in.
    pub relays: bool,
    /// The host a receiver of this name has to be at. Names that are not in it may be anywhere.
    pub hosts: BTreeMap<String, IpAddr>,
    /// Bytes of messages that the protocol's machine may hold because others sent them.
    pub memory: usize,
}

/// Sets what a protocol says of itself.
fn own<'a>(
    protocol: &'static ProtocolEntry,
    config: &'a mut Config,
) -> impl FnMut(&'static (&'static str, &'static str)) + 'a {
    move |(key, value)| {
        let set = config.set(protocol.parameters, key, value);
        set.unwrap_or_else(|error| panic!("the settings of a protocol are valid: {error}"));
    }
}

impl SenderSessionConfig {
    /// A session of this protocol with the settings it declares for delivery and defaults
    /// otherwise, for `max_payload` bytes in a message: starts when one receiver has joined.
    ///
    /// # Panics
    ///
    /// If the protocol's own delivery settings are not valid.
    pub fn new(
        association: AssociationId,
        name: impl Into<String>,
        group: GroupId,
        protocol: &'static ProtocolEntry,
        max_payload: u32,
    ) -> Self {
        let mut config = Config::defaults(protocol.parameters);
        protocol.delivery_settings.iter().for_each(own(protocol, &mut config));
        SenderSessionConfig {
            association,
            name: name.into(),
            group,
            protocol,
            config,
            gather: Gather::Count(1),
            gather_limit: None,
            gather_wait: None,
            all_or_nothing: false,
            heartbeat: DEFAULT_HEARTBEAT,
            member_timeout: DEFAULT_MEMBER_TIMEOUT,
            min_rate: Some(DEFAULT_MIN_RATE),
            slow: Slow::Lane,
            further: false,
            job: JobId::default(),
            lanes: false,
            former: Former::default(),
            max_payload,
            sizes: Vec::new(),
            bit_rate: BitRate::mbps(1000),
            link_overhead: 0,
            addresses: Addresses::default(),
            max_members: DEFAULT_MAX_MEMBERS,
            helping: Helping::Nobody,
            fanout: None,
            nearest: false,
            under: BTreeMap::new(),
            relays: false,
            hosts: BTreeMap::new(),
            memory: DEFAULT_MEMORY,
        }
    }

    /// What it carries are live messages: with the settings that the protocol declares for them.
    ///
    /// # Panics
    ///
    /// If these are not valid.
    #[must_use]
    pub fn live(mut self) -> Self {
        self.protocol.live_settings.iter().for_each(own(self.protocol, &mut self.config));
        self
    }

    /// Sets what the protocol wants to know of its host: the member timeout as it stands, that
    /// `window` messages fit the receivers' buffers, and that the path has use for `path` bytes. What a user says goes on top of that.
    pub fn set_host_values(&mut self, window: u64, path: u64) -> Result<(), ConfigError> {
        for &(key, value) in self.protocol.host_settings {
            let text = value.text(window, self.max_payload.into(), path, self.member_timeout);
            self.config.set(self.protocol.parameters, key, &text)?;
        }
        Ok(())
    }

    /// The longest payload whose packets all fit datagrams of so many bytes.
    pub fn payload_in(&self, datagram: usize) -> u32 {
        datagram.saturating_sub((self.protocol.header_bytes)(&self.config).max) as u32
    }

    /// Whether the members are peers, of whom several may offer messages.
    pub(super) fn has_peers(&self) -> bool {
        self.protocol.roles.contains(&Role::Peer)
    }

    /// Whether the members come to know each other before the session runs: they are peers, or some may help others.
    pub(super) fn has_roster(&self) -> bool {
        self.has_peers() || self.protocol.helpers != Helpers::None
    }

    /// Whether routers may help, which are no members and speak to them.
    pub(super) fn lets_relays_in(&self) -> bool {
        self.relays && self.protocol.roles.contains(&Role::Relay)
    }

    /// How long nothing may come of a member, or of all, while something is awaited.
    pub(super) fn standstill(&self) -> Duration {
        self.member_timeout.saturating_mul(STANDSTILL_TIMEOUTS)
    }

    /// Time between two signs of life of a member: at least eight of them in the member timeout, so that
    /// some may be lost; fewer with many members than with few.
    pub(super) fn progress_interval(&self, members: usize) -> Duration {
        let (few, many) = (self.member_timeout / 20, self.member_timeout / 8);
        (PROGRESS_SPACING * u32::try_from(members).unwrap_or(u32::MAX)).clamp(few, many)
    }

    /// The sender takes no more members than this. Those who know each other are bounded by their roster, in which the
    /// sender is one.
    pub(super) fn most_members(&self) -> usize {
        if self.has_roster() { self.max_members.min(MAX_PEERS - 1) } else { self.max_members }
    }

    /// The settings as invitations carry them, if a session can be held like this.
    pub(super) fn check(&self) -> Result<String, ConfigError> {
        let conflict = |text: String| Err(ConfigError::Conflict(text));
        if Name::new(&self.name).is_none() {
            return conflict(format!("the sender's name {:?} is not {NAME_RULE}", self.name));
        }
        if Name::new(self.protocol.name).is_none() {
            return conflict(format!("the protocol's name {:?} is not {NAME_RULE}", self.protocol.name));
        }
        match &self.gather {
            Gather::Count(0) => return conflict("a session with 0 receivers has nothing to do".to_owned()),
            Gather::Names(names) if names.is_empty() => {
                return conflict("a session that expects no receivers has nothing to do".to_owned());
            }
            Gather::Names(names) if names.iter().any(|name| Name::new(name).is_none()) => {
                return conflict(format!("the expected receivers {names:?}: a name is {NAME_RULE}"));
            }
            Gather::Count(count) if *count > self.most_members() => {
                return conflict(format!("{count} receivers are more than {}", self.most_members()));
            }
            Gather::Names(names) if names.len() > self.most_members() => {
                return conflict(format!("{} receivers are more than {}", names.len(), self.most_members()));
            }
            Gather::Wait(wait) | Gather::Silent(wait)
                if self.gather_limit.is_some_and(|limit| limit <= *wait) =>
            {
                return conflict(format!("gathering for {wait:?} passes its own limit"));
            }
            // With nobody to answer it would be done before anything went out.
            Gather::Silent(_) if self.has_roster() || self.protocol.confirms(&self.config) => {
                let name = self.protocol.name;
                return conflict(format!(
                    "one way nobody answers, and {name} with these settings waits for answers"
                ));
            }
            Gather::Count(_)
            | Gather::Names(_)
            | Gather::Wait(_)
            | Gather::Silent(_)
            | Gather::Settle(_)
            | Gather::Again { .. } => {}
        }
        self.check_helpers()?;
        if self.heartbeat.is_zero() || self.member_timeout.is_zero() || self.max_members == 0 {
            return conflict(
                "the heartbeat, the members' timeout and their number are above zero".to_owned(),
            );
        }
        if self.gather_limit.is_some_and(|limit| limit.is_zero()) || self.max_payload == 0 {
            return conflict("the limit of gathering and the largest payload are above zero".to_owned());
        }
        let descend = self.sizes.is_sorted_by(|one, next| one > next);
        if !descend || self.sizes.last().is_some_and(|&least| self.payload_in(least.into()) == 0) {
            return conflict("sizes of datagrams become less, and each has room for a message".to_owned());
        }
        if !self.sizes.is_empty() && (self.has_roster() || matches!(self.gather, Gather::Silent(_))) {
            return conflict("nobody says which datagrams come through".to_owned());
        }
        let settings = Settings::encode(self.config.iter());
        if Settings::new(&settings).is_none() {
            return conflict(format!("the settings do not fit into {} bytes", Settings::MAX_LEN));
        }
        Ok(settings)
    }
}

impl SenderSessionConfig {
    fn check_helpers(&self) -> Result<(), ConfigError> {
        let (name, count) = (self.protocol.name, self.helping.count());
        let wrong = match (self.protocol.helpers, &self.helping, &self.gather) {
            (Helpers::None, _, _) if count > 0 => Some(format!("the protocol \"{name}\" has no helpers")),
            (Helpers::Required(least), _, _) if !self.protocol.helpers.allow(count) => {
                Some(format!("the protocol \"{name}\" needs {least} helpers at least"))
            }
            _ if count > 0 && self.has_peers() => Some(format!(
                "a session of the protocol \"{name}\", whose members are peers, gathers no helpers"
            )),
            // Else whoever asks first would have a place that nobody was to have who is not named.
            (_, Helping::Count(1..), Gather::Names(_)) => {
                Some("a session that expects its receivers by name has to name its helpers too".to_owned())
            }
            (_, Helping::Names(names), _) if names.iter().any(|name| Name::new(name).is_none()) => {
                Some(format!("the helpers {names:?}: a name is {NAME_RULE}"))
            }
            _ if count > self.most_members() => {
                Some(format!("{count} helpers are more than {}", self.most_members()))
            }
            _ => self.misplaced(),
        };
        wrong.map_or(Ok(()), |wrong| Err(ConfigError::Conflict(wrong)))
    }
}

impl SenderSessionConfig {
    /// What is wrong with who is to turn to whom.
    fn misplaced(&self) -> Option<String> {
        for (child, helper) in &self.under {
            if !self.helping.allows(helper) {
                return Some(format!(
                    "{child:?} is to turn to {helper:?}, which is not expected as a helper"
                ));
            }
            let mut at = helper;
            for _ in 0..self.under.len() {
                if at == child {
                    return Some(format!("the helper {child:?} turns to itself by way of others"));
                }
                let Some(next) = self.under.get(at) else { break };
                at = next;
            }
        }
        None
    }
}

/// A table with as many helpers as the protocol needs, to try settings with.
pub(super) fn trial_table(protocol: &ProtocolEntry) -> HelperTable {
    let Helpers::Required(least) = protocol.helpers else { return HelperTable::default() };
    let helper = |index| Helper { node: NodeId(TRIAL - index), parent: None, delivers: false };
    HelperTable::new((0..least).map(helper).collect(), []).unwrap_or_default()
}

/// Those who were given up by sessions that had sent everything, and may report yet: one that stood still may have had
/// everything in its socket.
#[derive(Clone, Debug, Default)]
pub struct Former {
    /// Their names, by the session, where they are, and what nobody else knows.
    pub(super) members: BTreeMap<(AssociationId, NodeId, Nonce), String>,
    /// The sessions, in their order.
    pub(super) sessions: Vec<AssociationId>,
    /// All receivers of the job.
    pub(super) ledger: Ledger,
}

impl Former {
    /// The sessions before this one, in their order.
    pub fn sessions(&self) -> &[AssociationId] {
        &self.sessions
    }
}

/// What becomes of members that keep the others waiting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Slow {
    /// They are waited for as long as they are heard.
    Wait,
    /// They are given up as soon as that shows, if a further session follows, which serves them.
    #[default]
    Lane,
    /// They are given up, and not served any more.
    Drop,
}

impl Slow {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Slow::Wait => "wait",
            Slow::Lane => "lane",
            Slow::Drop => "drop",
        }
    }
}

impl FromStr for Slow {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "wait" => Ok(Slow::Wait),
            "lane" => Ok(Slow::Lane),
            "drop" => Ok(Slow::Drop),
            _ => Err("expected wait, lane or drop".to_owned()),
        }
    }
}

/// Who may join as a helper.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Helping {
    /// Nobody.
    Nobody,
    /// So many, whoever they are.
    Count(usize),
    /// Those of these names.
    Names(BTreeSet<String>),
}

impl Helping {
    /// How many they are.
    pub fn count(&self) -> usize {
        match self {
            Helping::Nobody => 0,
            Helping::Count(count) => *count,
            Helping::Names(names) => names.len(),
        }
    }

    /// Whether somebody of this name may be one.
    pub(super) fn allows(&self, name: &str) -> bool {
        match self {
            Helping::Nobody => false,
            Helping::Count(count) => *count > 0,
            Helping::Names(names) => names.contains(name),
        }
    }
}

/// When gathering is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gather {
    /// When this many receivers have joined.
    Count(usize),
    /// When receivers of all these names have joined; others are refused.
    Names(BTreeSet<String>),
    /// After this time, with those who have joined; if there is none, with the first who does.
    Wait(Duration),
    /// After this time, whoever has joined, if anybody: receivers may be there that never say anything
    /// ([`ReceiverSessionConfig::silent`]).
    Silent(Duration),
    /// This long after the first receiver has joined, with those who have joined by then.
    Settle(Duration),
    /// Of a session that goes on where another one ended: when all of these have joined, or this long after the first.
    Again {
        /// Those who are known to be there.
        awaited: BTreeSet<String>,
        /// Others are refused, but those of these names.
        only: Option<BTreeSet<String>>,
        /// How long after the first.
        settle: Duration,
    },
}

/// What a [`ReceiverSession`](super::ReceiverSession) is told.
#[derive(Clone, Debug)]
pub struct ReceiverSessionConfig {
    /// The receiver's name: what cannot stand in a name of 64 bytes is replaced or cut off.
    pub name: String,
    /// The group.
    pub group: GroupId,
    /// The protocols it knows.
    pub protocols: &'static [&'static ProtocolEntry],
    /// A sender that is silent this long is gone.
    pub silence: Duration,
    /// Bytes it can hold for the application; no message may be larger.
    pub receive_buffer: u32,
    /// The largest datagram that its interface lets in; an invitation to larger messages is declined.
    pub max_datagram: u32,
    /// Bytes of messages that the protocol's machine may hold because others sent them.
    pub memory: usize,
    /// What its nonces are drawn from, where that is to be known to nobody: the streams of a run that
    /// can be repeated are no secret.
    pub secret: Option<u64>,
    /// The rate of the interface.
    pub bit_rate: BitRate,
    /// Bytes the network adds to a datagram.
    pub link_overhead: u32,
    /// The network addresses of nodes and of the group, for protocols whose packets carry them; the
    /// session's own node is [`LOCAL_NODE`](super::LOCAL_NODE) in it.
    pub addresses: Addresses,
    /// Ignore sessions that are under way, refuse this receiver, or invite to what it cannot do,
    /// and wait for another one.
    pub keep_seeking: bool,
    /// The senders that it listens to, by their names; to any if none is named.
    pub from: BTreeSet<String>,
    /// A session before this one has given it up: it fails so, unless another one invites it within `silence`.
    pub returning: Option<ReceiverFailure>,
    /// It never says anything, and follows the first session that it hears gathering and whose protocol needs no answers. What it hears is all
    /// that it knows: anybody may have sent it.
    pub silent: bool,
    /// Number of the process that speaks for the receiver: drawn at random, and the same in all its sessions. From it each job gets a
    /// number of its own.
    pub process: Option<u64>,
    /// Number of the place where the data goes, such as a digest of the directory's path: what another process puts there is this
    /// receiver's too.
    pub place: u64,
    /// The place has a part of an earlier transfer.
    pub resumes: bool,
    /// The jobs in which this receiver was verified: it does not join their sessions.
    pub done: DoneJobs,
    /// It keeps what goes by in sessions that it is not in, whose further sessions will serve it: its application polls for
    /// [that](super::ReceiverSession::poll_overheard).
    pub overhears: bool,
    /// What it does: receive; be a further sender, of a protocol with peers only; only help, of a protocol with helpers
    /// only and if the sender lets it; or receive, and help where it is let.
    pub part: MemberRole,
    /// What the sender's application is told with the name; more than [`MAX_ATTACHED`] bytes are not told.
    pub attached: Vec<u8>,
}

impl ReceiverSessionConfig {
    /// A receiver with defaults.
    pub fn new(
        name: impl Into<String>,
        group: GroupId,
        protocols: &'static [&'static ProtocolEntry],
    ) -> Self {
        ReceiverSessionConfig {
            name: name.into(),
            group,
            protocols,
            silence: DEFAULT_SILENCE,
            receive_buffer: DEFAULT_RECEIVE_BUFFER,
            max_datagram: u32::MAX,
            memory: DEFAULT_MEMORY,
            secret: None,
            bit_rate: BitRate::mbps(1000),
            link_overhead: 0,
            addresses: Addresses::default(),
            keep_seeking: false,
            from: BTreeSet::new(),
            returning: None,
            silent: false,
            process: None,
            place: 0,
            resumes: false,
            done: DoneJobs::default(),
            overhears: false,
            part: MemberRole::Receives,
            attached: Vec::new(),
        }
    }
}

/// No host numbers its nodes from here down.
const TRIAL: u32 = u32::MAX - 1;
/// A member that makes no progress while closing is given this many member timeouts.
const STANDSTILL_TIMEOUTS: u32 = 12;
/// Time between two PROGRESS of any members, as far as the member timeout lets them wait.
const PROGRESS_SPACING: Duration = Duration::from_millis(1);
const NAME_RULE: &str = "1 to 64 bytes of text without control characters";
