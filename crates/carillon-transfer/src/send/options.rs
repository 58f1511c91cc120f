//! How a sender sends, and what its session is told by that.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use carillon_core::{AssociationId, BitRate, Duration, Helpers, ProtocolEntry, Role};
use carillon_net::{Endpoint, GROUP};
use carillon_proto::session::{Gather, HelperSelection, LOCAL_NODE, SenderSessionConfig, Slow};
use carillon_proto::{REGISTRY, find};

use crate::Error;
use crate::files::{Manifest, PIECE_BYTES};
use crate::monitor::Monitor;
use crate::network::random;

/// How a sender sends: what can be said apart from what and where.
#[derive(Clone, Debug)]
pub struct SendOptions {
    /// The protocol, by its name in the registry.
    pub protocol: String,
    /// Parameters of the protocol.
    pub settings: Vec<(String, String)>,
    /// When the transfer starts.
    pub gather: Gather,
    /// Where receivers of these names have to be.
    pub hosts: BTreeMap<String, IpAddr>,
    /// Routers of the protocol may help.
    pub relays: bool,
    /// Who may help, of a protocol with helpers: the transfer starts when they are there.
    pub helping: HelperSelection,
    /// How many helpers turn to the sender, and to each helper; without it all turn to the sender.
    pub fanout: Option<usize>,
    /// Each turns to the nearest helper, by the time there and back that is measured before the transfer starts.
    pub nearest: bool,
    /// To which helper a receiver or a helper turns, by names; the others have the places that are left.
    pub under: BTreeMap<String, String>,
    /// Time from the first receiver's joining until the transfer starts without those that `gather` still waits for, by name or
    /// number; without it they have `join_timeout`.
    pub wait: Option<Duration>,
    /// Time until the transfer starts without receivers that have not joined; it fails if none has.
    pub join_timeout: Duration,
    /// The transfer fails where it would start without receivers or helpers that are expected.
    pub all_or_nothing: bool,
    /// A receiver that is not heard for this long, or is waited for and acknowledges nothing, is given up.
    pub timeout: Duration,
    /// A receiver that is waited for most of the time and lets less than this through is given up.
    pub min_rate: Option<BitRate>,
    /// It sends at most this fast, headers included.
    pub rate: Option<BitRate>,
    /// Bytes of a datagram, at most.
    pub datagram: Option<u32>,
    /// Where it is told what the sender looks like.
    pub monitor: Option<Monitor>,
    /// What becomes of receivers that keep the others waiting.
    pub slow: Slow,
    /// So many further sessions at most serve those who came late, or were given up and are heard again: files only, and with
    /// protocols of one sender that wait for their receivers.
    pub rounds: u32,
}

impl Default for SendOptions {
    fn default() -> Self {
        SendOptions {
            protocol: DEFAULT_PROTOCOL.to_owned(),
            settings: Vec::new(),
            gather: Gather::Settle(Duration::from_secs(2)),
            hosts: BTreeMap::new(),
            relays: false,
            helping: HelperSelection::Nobody,
            fanout: None,
            nearest: false,
            under: BTreeMap::new(),
            wait: None,
            join_timeout: Duration::from_secs(60),
            all_or_nothing: false,
            timeout: Duration::from_secs(5),
            min_rate: Some(carillon_proto::session::DEFAULT_MIN_RATE),
            rate: None,
            datagram: None,
            monitor: None,
            slow: Slow::Lane,
            rounds: DEFAULT_ROUNDS,
        }
    }
}

impl SendOptions {
    /// The protocol.
    pub fn entry(&self) -> Result<&'static ProtocolEntry, Error> {
        find(&self.protocol).ok_or_else(|| {
            let known: Vec<_> = REGISTRY.iter().map(|entry| entry.name).collect();
            Error::UnknownProtocol { name: self.protocol.clone(), known: known.join(", ") }
        })
    }

    /// Whether it comes to know what has arrived.
    pub(crate) fn confirms(&self) -> Result<bool, Error> {
        let entry = self.entry()?;
        let last = |key| self.settings.iter().rev().find(|(set, _)| set == key);
        let is_one_way =
            entry.one_way.is_some_and(|one| last(one.key).is_some_and(|(_, set)| set == one.value));
        Ok(entry.confirmed && !is_one_way)
    }

    /// Waits for nobody, and sends this fast, and some more than is lost as a rule, what nobody can ask for again; it begins after this time, in
    /// which receivers that never say anything ([`ReceiveOptions::one_way`](crate::ReceiveOptions::one_way)) hear of it. What is set
    /// otherwise stays so.
    pub fn go_one_way(&mut self, rate: BitRate, begins_after: Duration) -> Result<(), Error> {
        let entry = self.entry()?;
        let one = entry.one_way.ok_or(Error::NotOneWay(entry.name))?;
        let (redundancy, rest) = one.redundancy;
        let own = [(one.key, one.value), (one.rate, &*rate.to_string()), (redundancy, rest)]
            .map(|(key, value)| (key.to_owned(), value.to_owned()));
        self.settings.splice(0..0, own);
        self.gather = Gather::Silent(begins_after);
        Ok(())
    }

    /// Whether it waits for nobody.
    pub(super) fn is_silent(&self) -> bool {
        matches!(self.gather, Gather::Silent(_))
    }

    /// Whether what is sent can be sent once more, to some: what is gone from a pipe cannot, and where nobody says what it has,
    /// or there are several senders or a tree of helpers, nobody is missed.
    pub(super) fn can_go_again(&self, protocol: &ProtocolEntry, manifest: &Manifest) -> bool {
        let alone = !hears_group(protocol) && !matches!(protocol.helpers, Helpers::Required(_));
        protocol.waits && alone && manifest.id().is_some()
    }

    /// Whether receivers that are set aside have a further session, even if late ones do not any more.
    pub(super) fn has_lanes(&self) -> bool {
        self.rounds > 0 || matches!(self.gather, Gather::Again { .. })
    }

    /// A further session, for those who are wanting, or for whoever comes within this time. It `counts` as one of the
    /// rounds unless it serves only receivers that were set aside.
    pub(super) fn further(&self, awaited: BTreeSet<String>, within: Duration, counts: bool) -> SendOptions {
        let only = match &self.gather {
            Gather::Names(names) => Some(names.clone()),
            Gather::Again { only, .. } => only.clone(),
            Gather::Count(_) | Gather::Wait(_) | Gather::Silent(_) | Gather::Settle(_) => None,
        };
        SendOptions {
            gather: Gather::Again { awaited, only, settle: FURTHER_SETTLE },
            rounds: self.rounds.saturating_sub(counts.into()),
            join_timeout: within,
            helping: HelperSelection::Nobody,
            fanout: None,
            nearest: false,
            under: BTreeMap::new(),
            ..self.clone()
        }
    }

    /// Bytes of the longest datagram that a machine may send, where so many leave if nothing is said.
    pub(super) fn datagram(&self, endpoint: &Endpoint, usual: usize) -> usize {
        let most = self.datagram.map_or(usual, |bytes| bytes as usize);
        endpoint.max_datagram().min(most.saturating_sub(endpoint.seal_bytes()))
    }

    /// What the session is told, of live messages or of files.
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
        let association = AssociationId(random()? as u32);
        let mut config = SenderSessionConfig::new(association, name, GROUP, protocol, datagram as u32);
        config = if live { config.live() } else { config };
        config.member_timeout = self.timeout;
        config.heartbeat = config.heartbeat.min((self.timeout / 10).max(MIN_HEARTBEAT));
        config.min_rate = self.min_rate;
        config.slow = self.slow;
        // What is under way must fit the receivers' socket buffers, of which this one is a sample.
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
        config.gather = self.gather.clone();
        config.hosts = self.hosts.clone();
        config.relays = self.relays;
        config.helping = self.helping.clone();
        config.fanout = self.fanout;
        config.nearest = self.nearest;
        config.under = self.under.clone();
        if self.relays && !protocol.roles.contains(&Role::Relay) {
            return Err(Error::NoRelays(protocol.name));
        }
        if self.relays && endpoint.seal_bytes() > 0 {
            return Err(Error::SealedRelays);
        }
        config.gather_limit = Some(self.join_timeout).filter(|_| !self.is_silent());
        config.gather_wait = self.wait;
        config.all_or_nothing = self.all_or_nothing;
        config.addresses = endpoint.addresses(LOCAL_NODE);
        config.bit_rate = self.rate.unwrap_or(config.bit_rate);
        config.max_payload = config.payload_in(datagram);
        config.sizes = self.sizes(protocol, endpoint, datagram, needed, &config);
        config.fallback = self.fallback(protocol, endpoint, datagram, needed, &config);
        Ok(config)
    }
}

/// Whether senders with this protocol hear the group: peers hear each other.
pub fn hears_group(protocol: &ProtocolEntry) -> bool {
    protocol.roles.contains(&Role::Peer)
}

/// Further sessions of those who say nothing: each serves whoever came late in the one before, and is given up by it.
pub const DEFAULT_ROUNDS: u32 = 3;
/// Those who are known to be there join a further session at once.
const FURTHER_SETTLE: Duration = Duration::from_secs(1);
/// The protocol of those who choose none.
pub const DEFAULT_PROTOCOL: &str = "carillon";
/// The largest datagram on loopback, whose own limit is 64 KiB: see `docs/explanation/delivery.md`.
const LOOPBACK_DATAGRAM: usize = PIECE_BYTES + 512;
/// Outstanding there, at most: no path is to be filled, and what is still in a processor's cache is hashed and written sooner.
const LOOPBACK_BYTES: u64 = 4 << 20;
/// Bytes under way, at most.
const WINDOW_BYTES: usize = 2 << 20;
/// However short the timeout, heartbeats are no more frequent.
const MIN_HEARTBEAT: Duration = Duration::from_millis(20);
