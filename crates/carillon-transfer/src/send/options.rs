//! Options of a sender, and the session settings derived from them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use carillon_core::{BitRate, Duration, Helpers, ProtocolEntry, Role};
use carillon_monitor::Monitor;
use carillon_net::{Endpoint, GROUP};
use carillon_proto::{REGISTRY, find};
use carillon_session::{Gather, HelperOptions, LOCAL_NODE, SenderSessionConfig, Slow};
use carillon_wire::envelope::drawn_association;

use crate::Error;
use crate::files::{History, Manifest, PIECE_BYTES, Update};
use crate::network::random;

/// Options of a sender, apart from contents and network.
#[derive(Clone, Debug)]
pub struct SendOptions {
    /// The protocol, by its name in the registry.
    pub protocol: String,
    /// Parameters of the protocol.
    pub settings: Vec<(String, String)>,
    /// Condition for the start of the transfer.
    pub gather: Gather,
    /// Required addresses of receivers, by name.
    pub hosts: BTreeMap<String, IpAddr>,
    /// Helpers of the protocol to wait for, and the tree that they make.
    pub helpers: HelperOptions,
    /// Time from the first join until the start without receivers that `gather` still waits for; by default
    /// `join_timeout` applies.
    pub wait: Option<Duration>,
    /// Time until the transfer starts without the missing receivers; it fails if none has joined.
    pub join_timeout: Duration,
    /// Fails instead of starting without expected receivers or helpers.
    pub all_or_nothing: bool,
    /// Silence after which a receiver is expelled; also the time without acknowledgment while it is waited for.
    pub timeout: Duration,
    /// Minimum rate of a receiver that is waited for most of the time, below which it is expelled.
    pub min_rate: Option<BitRate>,
    /// Maximum send rate, headers included.
    pub rate: Option<BitRate>,
    /// Maximum bytes of a datagram.
    pub datagram: Option<u32>,
    /// Receives snapshots of the sender's state.
    pub monitor: Option<Monitor>,
    /// Treatment of receivers that keep the others waiting.
    pub slow: Slow,
    /// Maximum number of catch-up sessions for receivers that came late, or were expelled and returned. Requires
    /// files and a protocol with a single sender that waits for its receivers.
    pub rounds: u32,
    /// Serves receivers that join a live stream late, or are started again: they continue with the oldest message of
    /// this history, or from now with [`History::EMPTY`]. `None` refuses them. Requires a protocol with a single
    /// sender that waits for its receivers, and `rounds` above 0. A stream of bytes has no boundaries at which a late
    /// receiver could begin.
    pub history: Option<History>,
    /// Name of the job, for receivers that take part in certain jobs only
    /// ([`ReceiveOptions::jobs`](crate::ReceiveOptions::jobs)): 1 to 64 bytes.
    pub job_name: Option<String>,
    /// Sends only what a receiver is missing; requires files and a protocol with a single sender that waits for its
    /// receivers.
    pub update: Option<Update>,
}

impl Default for SendOptions {
    fn default() -> Self {
        SendOptions {
            protocol: DEFAULT_PROTOCOL.to_owned(),
            settings: Vec::new(),
            gather: Gather::Quiet(GATHER_WAIT),
            hosts: BTreeMap::new(),
            helpers: HelperOptions::default(),
            wait: None,
            join_timeout: Duration::from_secs(60),
            all_or_nothing: false,
            timeout: Duration::from_secs(5),
            min_rate: Some(carillon_session::DEFAULT_MIN_RATE),
            rate: None,
            datagram: None,
            monitor: None,
            slow: Slow::Lane,
            rounds: DEFAULT_ROUNDS,
            history: None,
            job_name: None,
            update: None,
        }
    }
}

impl SendOptions {
    /// The protocol.
    pub fn entry(&self) -> Result<&'static ProtocolEntry, Error> {
        entry(&self.protocol)
    }

    /// Returns true if the sender learns which data was delivered.
    pub(crate) fn confirms(&self) -> Result<bool, Error> {
        let entry = self.entry()?;
        let last = |key| self.settings.iter().rev().find(|(set, _)| set == key);
        let is_one_way =
            entry.delivery.one_way.is_some_and(|one| last(one.key).is_some_and(|(_, set)| set == one.value));
        Ok(entry.delivery.confirmed && !is_one_way)
    }

    /// Sends at this rate without waiting for receivers, with more redundancy than usual loss needs, after a delay in
    /// which receivers that send nothing ([`ReceiveOptions::one_way`](crate::ReceiveOptions::one_way)) learn of the
    /// session. Explicit settings keep precedence.
    pub fn go_one_way(&mut self, rate: BitRate, begins_after: Duration) -> Result<(), Error> {
        let entry = self.entry()?;
        let one = entry.delivery.one_way.ok_or(Error::NotOneWay(entry.name))?;
        let (redundancy, rest) = one.redundancy;
        let own = [(one.key, one.value), (one.rate, &*rate.to_string()), (redundancy, rest)]
            .map(|(key, value)| (key.to_owned(), value.to_owned()));
        self.settings.splice(0..0, own);
        self.gather = Gather::Silent(begins_after);
        Ok(())
    }

    /// Returns true if the sender waits for no receiver.
    pub(super) fn is_silent(&self) -> bool {
        matches!(self.gather, Gather::Silent(_))
    }

    /// Returns true if a catch-up session can send the data again. That is impossible for streams, without
    /// acknowledgments, and with several senders or a tree of helpers.
    pub(super) fn can_go_again(&self, protocol: &ProtocolEntry, manifest: &Manifest) -> bool {
        self.can_follow(protocol) && manifest.id().is_some()
    }

    /// Returns true if the protocol permits that another session follows: it waits for its receivers, and needs no
    /// other members.
    pub(super) fn can_follow(&self, protocol: &ProtocolEntry) -> bool {
        let alone = !hears_group(protocol) && !matches!(protocol.helpers, Helpers::Required(_));
        protocol.delivery.waits && alone
    }

    /// Returns true if receivers that were set aside get a catch-up session, even after the last round for late ones.
    pub(super) fn has_lanes(&self) -> bool {
        self.rounds > 0 || matches!(self.gather, Gather::Again { .. })
    }

    /// Options of a catch-up session, for `awaited` receivers or others that join `within` this time. It `counts` as
    /// one of the rounds unless it serves only receivers that were set aside.
    pub(super) fn further(&self, awaited: BTreeSet<String>, within: Duration, counts: bool) -> SendOptions {
        let only = match &self.gather {
            Gather::Names(names) => Some(names.clone()),
            Gather::Again { only, .. } => only.clone(),
            Gather::Count(_) | Gather::Wait(_) | Gather::Silent(_) | Gather::Settle(_) | Gather::Quiet(_) => {
                None
            }
        };
        SendOptions {
            gather: Gather::Again { awaited, only, settle: FURTHER_SETTLE },
            rounds: self.rounds.saturating_sub(counts.into()),
            join_timeout: within,
            helpers: HelperOptions { relays: self.helpers.relays, ..HelperOptions::default() },
            ..self.clone()
        }
    }

    /// Maximum bytes of a machine's datagram, without the seal. `usual` applies unless a size is configured.
    pub(super) fn datagram(&self, endpoint: &Endpoint, usual: usize) -> usize {
        let most = self.datagram.map_or(usual, |bytes| bytes as usize);
        endpoint.max_datagram().min(most.saturating_sub(endpoint.seal_bytes()))
    }

    /// Settings of the session, for live messages or files.
    pub(super) fn configure(
        &self,
        name: &str,
        protocol: &'static ProtocolEntry,
        endpoint: &Endpoint,
        live: bool,
        needed: u32,
    ) -> Result<SenderSessionConfig, Error> {
        let usual = if endpoint.interface().loopback { LOOPBACK_DATAGRAM } else { usize::MAX };
        let datagram = self.datagram(endpoint, usual);
        let association = drawn_association(random()? as u32);
        let mut config = SenderSessionConfig::new(association, name, GROUP, protocol, datagram as u32);
        config = if live { config.live() } else { config };
        config.member_timeout = self.timeout;
        config.heartbeat = config.heartbeat.min((self.timeout / 10).max(MIN_HEARTBEAT));
        config.min_rate = self.min_rate;
        config.slow = self.slow;
        // Data in flight must fit the receivers' socket buffers, for which this host's buffer is the estimate.
        let room = endpoint.receive_buffer().min(WINDOW_BYTES) / datagram;
        let path = if endpoint.interface().loopback { LOOPBACK_BYTES } else { u64::MAX };
        config.set_host_values(room as u64, path)?;
        for (key, value) in &self.settings {
            config.config.set(protocol.parameters, key, value).map_err(|source| Error::Setting {
                key: key.clone(),
                value: value.clone(),
                source,
            })?;
        }
        config.gather = match &self.gather {
            // Across routers, receivers may be much farther than the first one that answers.
            Gather::Quiet(wait) if endpoint.hops() > 1 => Gather::Settle(*wait),
            gather => gather.clone(),
        };
        config.hosts = self.hosts.clone();
        config.job.name = self.job_name.clone();
        config.helpers = self.helpers.clone();
        if self.helpers.relays && !protocol.roles.contains(&Role::Relay) {
            return Err(Error::NoRelays(protocol.name));
        }
        if self.helpers.relays && endpoint.seal_bytes() > 0 {
            return Err(Error::SealedRelays);
        }
        config.limits.limit = Some(self.join_timeout).filter(|_| !self.is_silent());
        config.limits.wait = self.wait;
        config.limits.all_or_nothing = self.all_or_nothing;
        config.network.addresses = endpoint.addresses(LOCAL_NODE);
        config.network.bit_rate = self.rate.unwrap_or(config.network.bit_rate);
        config.max_payload = config.payload_in(datagram);
        config.sizes = self.sizes(protocol, endpoint, datagram, needed, &config);
        config.fallback = self.fallback(protocol, endpoint, datagram, needed, &config);
        Ok(config)
    }
}

/// The protocol of this name.
pub(crate) fn entry(name: &str) -> Result<&'static ProtocolEntry, Error> {
    find(name).ok_or_else(|| {
        let known: Vec<_> = REGISTRY.iter().map(|entry| entry.name).collect();
        Error::UnknownProtocol { name: name.to_owned(), known: known.join(", ") }
    })
}

/// Returns true if senders with this protocol receive the group, as peers do.
pub fn hears_group(protocol: &ProtocolEntry) -> bool {
    protocol.roles.contains(&Role::Peer)
}

/// Default time from the first join until the start, without a number or list of receivers.
pub const GATHER_WAIT: Duration = Duration::from_secs(2);
/// Default number of catch-up sessions; each serves receivers that the previous one missed or expelled.
pub const DEFAULT_ROUNDS: u32 = 3;
/// Time for further receivers to join a catch-up session after the first: waiting ones join at once.
const FURTHER_SETTLE: Duration = Duration::from_secs(1);
/// Default protocol.
pub const DEFAULT_PROTOCOL: &str = "carillon";
/// Maximum datagram on loopback, in bytes; the limit of loopback is 64 KiB (see `docs/explanation/delivery.md`).
const LOOPBACK_DATAGRAM: usize = PIECE_BYTES + 512;
/// Maximum outstanding bytes on loopback: there is no path to fill, and data in the processor's cache is hashed
/// faster.
const LOOPBACK_BYTES: u64 = 4 << 20;
/// Maximum bytes in flight for protocols with a fixed window.
const WINDOW_BYTES: usize = 2 << 20;
/// Minimum heartbeat interval, for short timeouts.
const MIN_HEARTBEAT: Duration = Duration::from_millis(20);
