//! The sender, or the one of several that organises.

mod further;
mod run;
mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::Read;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use carillon_core::{
    AssociationId, BitRate, Duration, Event, Helpers, HostValue, NodeId, Notice, Observer, ProtocolEntry,
    Role, Seeds, Setting, Time,
};
use carillon_net::{Driver, Endpoint, GROUP};
use carillon_proto::session::{
    Former, Gather, Helping, LOCAL_NODE, SenderSession, SenderSessionConfig, Slow,
};
use carillon_proto::{REGISTRY, find};

use crate::conduct::{UNTIL_WOKEN, Wish, conduct_within};
use crate::end::End;
use crate::files::{Feed, Manifest, Outgoing, PIECE_BYTES, SigningKey, Symlinks};
use crate::handle::{Abort, Handle, Teller, spawn};
use crate::monitor::{Monitor, Publisher};
use crate::network::{Bound, random};
use crate::tally::Tally;
use crate::{Error, LocalError, SendEvent, SendReport};

use further::Next;

pub use run::{Facts, SendRun};

/// What a sender sends.
pub(crate) enum Source {
    /// Files and directories; `-` is the standard input.
    Paths(Vec<PathBuf>),
    /// What a reader gives, as a file of this name.
    Reader(String, Box<dyn Read + Send>),
    /// Each line of a reader at once, as a message of its own.
    Lines(Box<dyn Read + Send>),
    /// The messages of a program.
    Feed(Arc<Feed>),
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Paths(paths) => f.debug_tuple("Paths").field(paths).finish(),
            Source::Reader(name, _) => f.debug_tuple("Reader").field(name).finish(),
            Source::Lines(_) => f.write_str("Lines"),
            Source::Feed(_) => f.write_str("Feed"),
        }
    }
}

impl Source {
    /// What is to be sent, and whether it is a live stream.
    pub(crate) fn list(
        self,
        rename: Option<&str>,
        symlinks: Symlinks,
    ) -> Result<(Manifest, bool), LocalError> {
        match self {
            Source::Paths(paths) => Ok((Manifest::list(&paths, rename, symlinks)?, false)),
            Source::Reader(name, reader) => Ok((Manifest::reader(rename.unwrap_or(&name), reader)?, false)),
            Source::Lines(reader) => Ok((Manifest::reader("stream", reader)?, true)),
            Source::Feed(feed) => Ok((Manifest::feed(feed), true)),
        }
    }

    /// Where a program's messages come from.
    pub(crate) fn feed(&self) -> Option<Arc<Feed>> {
        if let Source::Feed(feed) = self { Some(feed.clone()) } else { None }
    }
}

/// Tells a program's feed what the protocol is done with.
pub(crate) struct Acknowledged(pub Option<Arc<Feed>>);

impl Observer for Acknowledged {
    fn event(&mut self, _time: Time, _node: NodeId, _event: &Event) {}

    fn notice(&mut self, _: Time, _: NodeId, notice: &Notice) {
        if let (Some(feed), Notice::Completed { .. }) = (&self.0, notice) {
            feed.done();
        }
    }
}

/// Sends files and directories to every receiver of a group.
pub fn send<P: Into<PathBuf>>(paths: impl IntoIterator<Item = P>) -> Sending {
    End::new(ToSend::new(Source::Paths(paths.into_iter().map(Into::into).collect())))
}

/// Sends what a reader gives, as one file of this name.
pub fn send_reader(name: &str, reader: impl Read + Send + 'static) -> Sending {
    End::new(ToSend::new(Source::Reader(name.to_owned(), Box::new(reader))))
}

/// Sends each line that a reader gives at once, as a message of its own, until the reader ends.
pub fn send_lines(reader: impl Read + Send + 'static) -> Sending {
    End::new(ToSend::new(Source::Lines(Box::new(reader))))
}

/// A sender before it begins. Made by [`send`], [`send_reader`] and [`send_lines`].
pub type Sending = End<ToSend>;

/// What a sender sends, to whom, and how.
#[derive(Debug)]
pub struct ToSend {
    source: Source,
    rename: Option<String>,
    symlinks: Symlinks,
    signing: Option<SigningKey>,
    hops: u8,
    options: SendOptions,
}

impl ToSend {
    fn new(source: Source) -> Self {
        ToSend::with(source, 1, SendOptions::default())
    }

    pub(crate) fn with(source: Source, hops: u8, options: SendOptions) -> Self {
        ToSend { source, rename: None, symlinks: Symlinks::default(), signing: None, hops, options }
    }
}

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
    pub helping: Helping,
    /// How many helpers turn to the sender, and to each helper; without it all turn to the sender.
    pub fanout: Option<usize>,
    /// Each turns to the nearest helper, by the time there and back that is measured before the transfer starts.
    pub nearest: bool,
    /// To which helper a receiver or a helper turns, by names; the others have the places that are left.
    pub under: BTreeMap<String, String>,
    /// Gathering is given up after this time.
    pub join_timeout: Duration,
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
            helping: Helping::Nobody,
            fanout: None,
            nearest: false,
            under: BTreeMap::new(),
            join_timeout: Duration::from_secs(60),
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

impl End<ToSend> {
    /// Router hops that datagrams may travel: 1, the default, stays on this network.
    #[must_use]
    pub fn hops(mut self, hops: u8) -> Self {
        self.what.hops = hops;
        self
    }

    /// The protocol, by its name in the registry.
    #[must_use]
    pub fn protocol(mut self, name: impl Into<String>) -> Self {
        self.what.options.protocol = name.into();
        self
    }

    /// Sets a parameter of the protocol.
    #[must_use]
    pub fn set(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.what.options.settings.push((key.into(), value.into()));
        self
    }

    /// Starts when so many receivers have joined; further senders count too.
    #[must_use]
    pub fn receivers(mut self, count: usize) -> Self {
        self.what.options.gather = Gather::Count(count);
        self
    }

    /// Starts when the receivers of these names have joined, and lets in no others.
    #[must_use]
    pub fn expect<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.what.options.gather = Gather::Names(names.into_iter().map(Into::into).collect());
        self
    }

    /// Lets the receiver of this name in from this address only.
    #[must_use]
    pub fn from_host(mut self, name: impl Into<String>, host: IpAddr) -> Self {
        self.what.options.hosts.insert(name.into(), host);
        self
    }

    /// Starts this long after the first receiver has joined. The default, with two seconds.
    #[must_use]
    pub fn wait(mut self, time: Duration) -> Self {
        self.what.options.gather = Gather::Settle(time);
        self
    }

    /// Gives up when the receivers have not joined within this time; a minute if nothing is said.
    #[must_use]
    pub fn join_timeout(mut self, time: Duration) -> Self {
        self.what.options.join_timeout = time;
        self
    }

    /// Gives a receiver up that was not heard for this long, or is waited for and acknowledges nothing; five
    /// seconds if nothing is said.
    #[must_use]
    pub fn timeout(mut self, time: Duration) -> Self {
        self.what.options.timeout = time;
        self
    }

    /// Gives a receiver up that is waited for most of the time and lets less than this through; `None` for none.
    #[must_use]
    pub fn min_rate(mut self, rate: Option<BitRate>) -> Self {
        self.what.options.min_rate = rate;
        self
    }

    /// Sends at most this fast, headers included.
    #[must_use]
    pub fn rate(mut self, rate: BitRate) -> Self {
        self.what.options.rate = Some(rate);
        self
    }

    /// Sends datagrams of at most this many bytes.
    #[must_use]
    pub fn datagram(mut self, bytes: u32) -> Self {
        self.what.options.datagram = Some(bytes);
        self
    }

    /// Tells this monitor, a few times a second, what the sender and its receivers look like.
    #[must_use]
    pub fn monitor(mut self, monitor: Monitor) -> Self {
        self.what.options.monitor = Some(monitor);
        self
    }

    /// What becomes of receivers that keep the others waiting; [`Slow::Lane`] if nothing is said.
    #[must_use]
    pub fn slow(mut self, slow: Slow) -> Self {
        self.what.options.slow = slow;
        self
    }

    /// Serves those who come late, or are given up and are heard again, in so many further sessions at most: three if
    /// nothing is said.
    #[must_use]
    pub fn rounds(mut self, rounds: u32) -> Self {
        self.what.options.rounds = rounds;
        self
    }

    /// Lets routers of the protocol help.
    #[must_use]
    pub fn relays(mut self) -> Self {
        self.what.options.relays = true;
        self
    }

    /// Starts when so many helpers have joined too ([`help`](crate::help()), `carillon relay`), of a protocol that has some.
    #[must_use]
    pub fn helpers(mut self, count: usize) -> Self {
        self.what.options.helping = Helping::Count(count);
        self
    }

    /// Starts when the helpers of these names have joined too, and lets in no other helpers.
    #[must_use]
    pub fn expect_helpers<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.what.options.helping = Helping::Names(names.into_iter().map(Into::into).collect());
        self
    }

    /// So many helpers turn to the sender, and to each helper; without it all turn to the sender.
    #[must_use]
    pub fn fanout(mut self, helpers: usize) -> Self {
        self.what.options.fanout = Some(helpers);
        self
    }

    /// Each member turns to the nearest helper, by the time there and back that is measured before the transfer starts.
    #[must_use]
    pub fn nearest(mut self) -> Self {
        self.what.options.nearest = true;
        self
    }

    /// The member of this name, a receiver or a helper, turns to that helper.
    #[must_use]
    pub fn under(mut self, member: impl Into<String>, helper: impl Into<String>) -> Self {
        self.what.options.under.insert(member.into(), helper.into());
        self
    }

    /// The name that the one file has at the receivers.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.what.rename = Some(name.into());
        self
    }

    /// What becomes of symbolic links in directories.
    #[must_use]
    pub fn symlinks(mut self, symlinks: Symlinks) -> Self {
        self.what.symlinks = symlinks;
        self
    }

    /// Signs the files with this key, so that receivers who trust it ([`End::trust`]) take them from nobody else.
    #[must_use]
    pub fn sign(mut self, key: SigningKey) -> Self {
        self.what.signing = Some(key);
        self
    }

    /// Sends, in this thread, and says what became of every receiver.
    pub fn run(self) -> Result<SendReport, Error> {
        self.go(&Abort::default(), &Teller::silent())
    }

    /// Sends in a thread of its own. What is wrong with the files, the settings or the network before anything
    /// is sent is told by [`Handle::wait`] too.
    #[must_use]
    pub fn start(self) -> Handle<SendEvent, SendReport> {
        spawn("carillon-send", move |abort, teller| self.go(abort, teller))
    }

    fn go(self, abort: &Abort, teller: &Teller<SendEvent>) -> Result<SendReport, Error> {
        let End { network, what: ToSend { source, rename, symlinks, signing, hops, options } } = self;
        let protocol = options.entry()?;
        let feed = source.feed();
        let (mut manifest, stream) = source.list(rename.as_deref(), symlinks)?;
        if let Some(key) = signing {
            if stream {
                return Err(Error::SignedStream);
            }
            manifest = manifest.signed(key);
        }
        let bound = network.open(hears_group(protocol), hops, options.rate)?;
        let opened = options.open(&network.name(), bound, manifest, stream)?;
        abort.heard_by(opened.endpoint().waker());
        let mut run = opened.with(Acknowledged(feed));
        loop {
            conduct_within(&mut run, UNTIL_WOKEN, |run| -> Result<Wish, Error> {
                for event in run.take_events() {
                    teller.tell(event);
                }
                if teller.is_due() {
                    teller.tell_if_room(run.progress());
                }
                Ok(abort.wish("the sender was aborted"))
            })?;
            run.take_events().into_iter().for_each(|event| teller.tell(event));
            if !run.is_wanted() {
                break;
            }
            run = run.again()?;
        }
        match run.take_error() {
            Some(error) => Err(error.into()),
            None => Ok(run.report()),
        }
    }
}

/// Whether senders with this protocol hear the group: peers hear each other.
pub fn hears_group(protocol: &ProtocolEntry) -> bool {
    protocol.roles.contains(&Role::Peer)
}

/// A sender that is ready to run.
pub struct OpenSend {
    endpoint: Endpoint,
    session: SenderSession,
    outgoing: Outgoing,
    facts: Facts,
    publisher: Option<Publisher>,
    next: Next,
}

impl OpenSend {
    /// The sockets.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Ready to run, observed.
    pub fn with<O: Observer>(self, observer: O) -> SendRun<O> {
        let tally = Tally::new(observer);
        let driver = Driver::new(self.endpoint, Box::new(self.session), self.outgoing, tally);
        SendRun::new(driver, self.facts, self.next).published(self.publisher)
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
            entry.one_way.is_some_and(|(key, value)| last(key).is_some_and(|(_, set)| set == value));
        Ok(entry.confirmed && !is_one_way)
    }

    /// Makes the session on these sockets; `stream` sends each line of the input as a message.
    pub fn open(
        &self,
        name: &str,
        bound: Bound,
        manifest: Manifest,
        stream: bool,
    ) -> Result<OpenSend, Error> {
        self.open_on(name, bound.endpoint, bound.seeds, Arc::new(manifest), stream, Former::default())
    }

    fn open_on(
        &self,
        name: &str,
        mut endpoint: Endpoint,
        seeds: Seeds,
        manifest: Arc<Manifest>,
        stream: bool,
        former: Former,
    ) -> Result<OpenSend, Error> {
        let protocol = self.entry()?;
        if endpoint.is_raw() && protocol.raw_ip.is_none() {
            return Err(Error::NotOverIp(protocol.name));
        }
        // To hear of other senders, as long as there is nothing else to hear; it can do without.
        let eavesdrops = !hears_group(protocol) && endpoint.listen().is_ok();
        let mut config = self.configure(name, protocol, &endpoint)?;
        let goes_again = self.can_go_again(protocol, &manifest);
        config.further = self.rounds > 0 && goes_again;
        config.former = former;
        // A window that the protocol fills whatever the path carries.
        let is_window = |key: &str| {
            let mut settings = protocol.host_settings.iter();
            settings.any(|(name, value)| *name == key && matches!(value, HostValue::Window { .. }))
        };
        let window_bytes = match config.config.iter().find(|(key, _)| is_window(key)) {
            Some((_, Setting::Count(window))) => Some(window * u64::from(config.max_payload)),
            _ => None,
        };
        let datagram = self.datagram(&endpoint, usize::MAX) + endpoint.seal_bytes();
        let outgoing = match stream {
            true => Outgoing::stream(manifest, config.max_payload as usize, endpoint.waker()),
            false => Outgoing::new(manifest, config.max_payload as usize, endpoint.waker()),
        };
        let outgoing = outgoing?;
        let next = Next { options: self.clone(), name: name.to_owned(), seeds: seeds.part("next") };
        let session = SenderSession::new(config, seeds)?;
        let facts = Facts { protocol, eavesdrops, window_bytes, datagram, goes_again };
        let publisher = Publisher::new(&self.monitor, "sender", name);
        Ok(OpenSend { endpoint, session, outgoing, facts, next, publisher })
    }

    /// Whether what is sent can be sent once more, to some: what is gone from a pipe cannot, and where nobody says what it has,
    /// or there are several senders or a tree of helpers, nobody is missed.
    fn can_go_again(&self, protocol: &ProtocolEntry, manifest: &Manifest) -> bool {
        let alone = !hears_group(protocol) && !matches!(protocol.helpers, Helpers::Required(_));
        protocol.waits && alone && manifest.id().is_some()
    }

    /// A further session, for those who are wanting, or for whoever comes within this time.
    fn further(&self, awaited: BTreeSet<String>, within: Duration) -> SendOptions {
        let only = match &self.gather {
            Gather::Names(names) => Some(names.clone()),
            Gather::Again { only, .. } => only.clone(),
            Gather::Count(_) | Gather::Wait(_) | Gather::Settle(_) => None,
        };
        SendOptions {
            gather: Gather::Again { awaited, only, settle: FURTHER_SETTLE },
            rounds: self.rounds.saturating_sub(1),
            join_timeout: within,
            helping: Helping::Nobody,
            fanout: None,
            nearest: false,
            under: BTreeMap::new(),
            ..self.clone()
        }
    }

    /// Bytes of the longest datagram that a machine may send, where so many leave if nothing is said.
    fn datagram(&self, endpoint: &Endpoint, usual: usize) -> usize {
        let most = self.datagram.map_or(usual, |bytes| bytes as usize);
        endpoint.max_datagram().min(most.saturating_sub(endpoint.seal_bytes()))
    }

    /// What the session is told.
    fn configure(
        &self,
        name: &str,
        protocol: &'static ProtocolEntry,
        endpoint: &Endpoint,
    ) -> Result<SenderSessionConfig, Error> {
        let usual = if endpoint.interface().loopback { LOOPBACK_DATAGRAM } else { usize::MAX };
        let datagram = self.datagram(endpoint, usual);
        let association = AssociationId(random()? as u32);
        let mut config = SenderSessionConfig::new(association, name, GROUP, protocol, datagram as u32);
        config.member_timeout = self.timeout;
        config.heartbeat = config.heartbeat.min((self.timeout / 10).max(SHORTEST_HEARTBEAT));
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
        config.gather_limit = Some(self.join_timeout);
        config.addresses = endpoint.addresses(LOCAL_NODE);
        config.bit_rate = self.rate.unwrap_or(config.bit_rate);
        config.max_payload = config.payload_in(datagram);
        Ok(config)
    }
}

/// Further sessions of those who say nothing: each serves whoever came late in the one before, and is given up by it.
pub const DEFAULT_ROUNDS: u32 = 3;
/// Who was given up and is not heard may come back for so many member timeouts since it was heard last.
const RETURN_TIMEOUTS: u32 = 3;
/// Those who are known to be there join a further session at once.
const FURTHER_SETTLE: Duration = Duration::from_secs(1);
/// The protocol of those who choose none.
pub const DEFAULT_PROTOCOL: &str = "carillon";
/// The largest datagram on loopback, whose own limit is 64 KiB: see `docs/delivery.md`.
const LOOPBACK_DATAGRAM: usize = PIECE_BYTES + 512;
/// Outstanding there, at most: no path is to be filled, and what is still in a processor's cache is hashed and written sooner.
const LOOPBACK_BYTES: u64 = 4 << 20;
/// Bytes under way, at most.
const WINDOW_BYTES: usize = 2 << 20;
/// However short the timeout, heartbeats are no more frequent.
const SHORTEST_HEARTBEAT: Duration = Duration::from_millis(20);
