//! Receiver of plain sessions: sources of other implementations, which send no invitation.
//!
//! The first datagram of an unknown source opens a machine of the protocol for it. The machine is dropped when the
//! source has ended or stays silent. All of this is bounded, because any host may claim to be any number of sources:
//! the number of machines, the memory of each, and the bytes that their requests send (`RequestBudget`).
//!
//! Packets of one source may come from several ports. A source is therefore known by its host address and its
//! [`SourceKey`], and its requests go to the port of the group at that address, as the standards of encapsulated
//! protocols demand.

mod budget;
#[cfg(all(test, feature = "flute"))]
mod file_tests;
mod named_file;
mod stream_piece;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::net::IpAddr;
use std::ops::Bound;
use std::time::Duration;

use bytes::Bytes;
use carillon_core::{
    AddressBook, Addresses, BuildContext, Config, ConfigError, Delivery, Dest, DropReason, Event, Events,
    GroupId, Machine, MessageId, NodeId, Notice, PlainSessions, ProtocolEntry, Received, Receiver, SourceKey,
    Time, Timers, Transmit,
};

use budget::RequestBudget;
pub use named_file::NamedFile;
pub use stream_piece::StreamPiece;

/// Bounds of a [`PlainReceiver`].
#[derive(Clone, Debug)]
pub struct PlainLimits {
    /// Maximum number of sources at a time. Each has the memory of [`BuildContext::memory`].
    pub sources: usize,
    /// Time without a datagram after which a source is dropped.
    pub silence: Duration,
    /// Addresses of hosts from which sources are received; all if it is empty.
    pub from: Vec<IpAddr>,
}

impl Default for PlainLimits {
    fn default() -> Self {
        PlainLimits { sources: MAX_SOURCES, silence: SILENCE, from: Vec::new() }
    }
}

/// Name of a source: its host address, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PlainSource {
    /// Address of its host.
    pub address: IpAddr,
    /// Its number in the protocol.
    pub key: SourceKey,
}

impl fmt::Display for PlainSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.address, self.key)
    }
}

/// News about a source, for the application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlainNews {
    /// The source was heard for the first time.
    Opened(PlainSource),
    /// Message of the source.
    Message {
        /// The source.
        source: PlainSource,
        /// Number of the message, or of its first packet. Numbers of consecutive messages need not be consecutive.
        number: u64,
        /// The message; in protocols with a stream a [`StreamPiece`].
        payload: Bytes,
    },
    /// File of the source, in protocols that send files.
    File {
        /// The source.
        source: PlainSource,
        /// The file.
        file: NamedFile,
    },
    /// The source is no longer received.
    Closed {
        /// The source.
        source: PlainSource,
        /// Number of packets that could not be recovered.
        lost: u64,
        /// True if the source has announced its end and all before it was received, or is lost for good.
        ended: bool,
    },
}

/// Receiver of all plain sources of a group.
#[derive(Debug)]
pub struct PlainReceiver {
    plain: &'static PlainSessions,
    config: Config,
    context: BuildContext,
    limits: PlainLimits,
    sources: BTreeMap<PlainSource, Reception>,
    /// Source that sent last: all take turns.
    turn: Option<PlainSource>,
    timers: Timers<Timer>,
    news: VecDeque<PlainNews>,
    events: Events,
}

/// Reception of one source.
#[derive(Debug)]
struct Reception {
    /// The machine; `None` after the end, while late repetitions may still arrive.
    machine: Option<Box<dyn Machine>>,
    /// Node at the port where the source receives requests. It stands for all its ports.
    node: NodeId,
    heard: Time,
    /// Time at which the machine was dropped.
    ended: Option<Time>,
    /// True after the source has announced its end.
    ends: bool,
    lost: u64,
    budget: RequestBudget,
}

/// Timers of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// The source may have been silent for too long.
    Silence(PlainSource),
    /// The budget of requests is renewed.
    Budget(PlainSource),
}

/// Addresses of a machine: nodes upstream are reached at the port of the group.
#[derive(Debug)]
struct Encapsulated(Addresses);

impl AddressBook for Encapsulated {
    fn of_node(&self, node: NodeId) -> Option<IpAddr> {
        self.0.of_node(node)
    }

    fn node_at(&self, address: IpAddr) -> Option<NodeId> {
        self.0.listener_at(address)
    }

    fn of_group(&self, group: GroupId) -> IpAddr {
        self.0.of_group(group)
    }
}

impl PlainReceiver {
    /// Creates a receiver. `context` describes its node; the sender in it has no meaning.
    ///
    /// Fails if the protocol has no plain sessions, or if a setting is not valid.
    pub fn new(
        protocol: &'static ProtocolEntry,
        context: &BuildContext,
        config: &Config,
        limits: PlainLimits,
    ) -> Result<Self, ConfigError> {
        let plain = protocol.plain.ok_or_else(|| no_plain_sessions(protocol))?;
        // A machine of any source shows whether the settings are valid.
        (plain.receiver)(SourceKey(0), context, config)?;
        Ok(PlainReceiver {
            plain,
            config: config.clone(),
            context: BuildContext {
                addresses: Addresses::new(Encapsulated(context.addresses.clone())),
                ..context.clone()
            },
            limits,
            sources: BTreeMap::new(),
            turn: None,
            timers: Timers::new(),
            news: VecDeque::new(),
            events: Events::default(),
        })
    }

    /// Returns the next news. Messages of one source come in order.
    pub fn poll_news(&mut self) -> Option<PlainNews> {
        if let Some(news) = self.news.pop_front() {
            return Some(news);
        }
        for (&source, reception) in &mut self.sources {
            let Some(receiver) = reception.machine.as_mut().and_then(|machine| machine.as_receiver()) else {
                continue;
            };
            if let Some(Delivery { message: MessageId(number), payload, .. }) = receiver.poll_delivery() {
                return Some(message(self.plain, source, number, payload));
            }
            if (reception.ends || self.plain.completes) && receiver.is_complete() {
                reception.machine = None;
                reception.ended = Some(reception.heard);
                self.timers.cancel(Timer::Budget(source));
                return Some(PlainNews::Closed { source, lost: reception.lost, ended: true });
            }
        }
        None
    }

    /// Number of sources in the table.
    pub fn sources(&self) -> usize {
        self.sources.len()
    }

    /// Opens the machine of a new source. Returns false if there is no room for it.
    fn open(&mut self, now: Time, source: PlainSource) -> bool {
        if self.sources.len() >= self.limits.sources && !self.replace_a_source(now) {
            return false;
        }
        let Some(node) = self.context.addresses.node_at(source.address) else { return false };
        let name = format!("plain.{source}");
        let context =
            BuildContext { sender: node, seeds: self.context.seeds.part(&name), ..self.context.clone() };
        let Ok(mut machine) = (self.plain.receiver)(source.key, &context, &self.config) else { return false };
        machine.start(now);
        let reception = Reception {
            machine: Some(machine),
            node,
            heard: now,
            ended: None,
            ends: false,
            lost: 0,
            budget: RequestBudget::default(),
        };
        self.sources.insert(source, reception);
        self.timers.arm(Timer::Silence(source), now + self.limits.silence);
        self.news.push_back(PlainNews::Opened(source));
        true
    }

    /// Makes room by dropping the source that has been silent longest, if that is long enough.
    fn replace_a_source(&mut self, now: Time) -> bool {
        let Some((&source, reception)) = self.sources.iter().min_by_key(|(_, reception)| reception.heard)
        else {
            return false;
        };
        let is_idle = now.since(reception.heard) >= REPLACEABLE_SILENCE;
        if is_idle {
            self.close(source);
        }
        is_idle
    }

    /// Drops a source.
    fn close(&mut self, source: PlainSource) {
        self.timers.cancel(Timer::Silence(source));
        self.timers.cancel(Timer::Budget(source));
        let Some(reception) = self.sources.remove(&source) else { return };
        let Some(mut machine) = reception.machine else { return };
        while let Some(Delivery { message: MessageId(number), payload, .. }) =
            machine.as_receiver().and_then(|receiver| receiver.poll_delivery())
        {
            self.news.push_back(message(self.plain, source, number, payload));
        }
        self.news.push_back(PlainNews::Closed { source, lost: reception.lost, ended: false });
    }

    /// Passes one datagram to the machine of its source, in the name of the node that stands for it.
    fn pass(&mut self, now: Time, datagram: Received<'_>) -> Result<(), DropReason> {
        let packet = (self.plain.read)(datagram.bytes, &self.config).ok_or(DropReason::Foreign)?;
        let address = self.context.addresses.of_node(datagram.source).ok_or(DropReason::NotAMember)?;
        if !self.limits.from.is_empty() && !self.limits.from.contains(&address) {
            return Err(DropReason::NotAMember);
        }
        if packet.is_request {
            return self.pass_request(now, packet.source, datagram);
        }
        let source = PlainSource { address, key: packet.source };
        let is_another = self.sources.get(&source).is_some_and(|reception| {
            let since = reception.ended.map(|ended| now.since(ended));
            packet.opens && since.zip(self.plain.reopens_after).is_some_and(|(since, after)| since >= after)
        });
        if is_another {
            self.sources.remove(&source);
        }
        if !self.sources.contains_key(&source) {
            if !packet.opens {
                return Err(DropReason::NotAMember);
            }
            if !self.open(now, source) {
                return Err(DropReason::BufferFull);
            }
        }
        let Some(reception) = self.sources.get_mut(&source) else { return Ok(()) };
        reception.heard = now;
        let Some(machine) = &mut reception.machine else { return Err(DropReason::Redundant) };
        reception.budget.earn(datagram.bytes.len());
        reception.ends |= packet.ends;
        machine.handle_datagram(now, Received { source: reception.node, ..datagram });
        Ok(())
    }

    /// Passes the request of another receiver to the machine of its source, which may have any address.
    fn pass_request(&mut self, now: Time, key: SourceKey, datagram: Received<'_>) -> Result<(), DropReason> {
        let is_to_group = matches!(datagram.destination, Dest::Group { .. });
        let of_source = self.sources.iter_mut().filter(|(source, _)| is_to_group && source.key == key);
        let mut machines = of_source.filter_map(|(_, reception)| reception.machine.as_mut()).peekable();
        machines.peek().ok_or(DropReason::NotAMember)?;
        machines.for_each(|machine| machine.handle_datagram(now, datagram));
        Ok(())
    }

    fn on_timer(&mut self, now: Time, timer: Timer) {
        match timer {
            Timer::Silence(source) => {
                let Some(reception) = self.sources.get(&source) else { return };
                let end = reception.heard + self.limits.silence;
                match end > now {
                    true => self.timers.arm(timer, end),
                    false => self.close(source),
                }
            }
            Timer::Budget(source) => {
                if let Some(reception) = self.sources.get_mut(&source) {
                    reception.budget.renew();
                }
            }
        }
    }
}

impl Reception {
    /// Lets the machine send within its budget.
    fn send(
        &mut self,
        now: Time,
        source: PlainSource,
        timers: &mut Timers<Timer>,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let machine = self.machine.as_mut()?;
        if !self.budget.has_rest() {
            // A silent source earns nothing more.
            let renewal = Timer::Budget(source);
            if timers.armed(renewal).is_none() && now.since(self.heard) < BUDGET_SILENCE {
                timers.arm(renewal, now + RequestBudget::RENEWAL);
            }
            return None;
        }
        let transmit = machine.poll_transmit(now, buf)?;
        self.budget.spend(buf.len());
        Some(transmit)
    }
}

impl Machine for PlainReceiver {
    fn handle_datagram(&mut self, now: Time, datagram: Received<'_>) {
        if let Err(reason) = self.pass(now, datagram) {
            self.events.dropped(reason);
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        let machines = self.sources.values_mut().filter_map(|reception| reception.machine.as_mut());
        let due = machines.filter(|machine| machine.poll_timeout().is_some_and(|at| at <= now));
        due.for_each(|machine| machine.handle_timeout(now));
        while let Some(timer) = self.timers.expire(now) {
            self.on_timer(now, timer);
        }
    }

    fn poll_timeout(&self) -> Option<Time> {
        let machines = self.sources.values().filter_map(|reception| reception.machine.as_ref());
        machines.filter_map(|machine| machine.poll_timeout()).chain(self.timers.next()).min()
    }

    fn poll_transmit(&mut self, now: Time, buf: &mut Vec<u8>) -> Option<Transmit> {
        use Bound::{Excluded, Included, Unbounded};
        let (after, to) = self.turn.map_or((Unbounded, Unbounded), |turn| (Excluded(turn), Included(turn)));
        for range in [(after, Unbounded), (Unbounded, to)] {
            for (&source, reception) in self.sources.range_mut(range) {
                if let Some(transmit) = reception.send(now, source, &mut self.timers, buf) {
                    self.turn = Some(source);
                    return Some(transmit);
                }
            }
        }
        None
    }

    fn poll_event(&mut self) -> Option<Event> {
        let mut machines = self.sources.values_mut().filter_map(|reception| reception.machine.as_mut());
        self.events.pop().or_else(|| machines.find_map(|machine| machine.poll_event()))
    }

    fn poll_notice(&mut self) -> Option<Notice> {
        self.sources.values_mut().find_map(|reception| {
            let notice = reception.machine.as_mut()?.poll_notice()?;
            reception.lost += u64::from(matches!(notice, Notice::LossFinal { .. }));
            Some(notice)
        })
    }

    /// Number of messages that all machines keep.
    fn held(&self) -> Option<u64> {
        let machines = self.sources.values().filter_map(|reception| reception.machine.as_ref());
        Some(machines.filter_map(|machine| machine.held()).sum())
    }

    fn as_receiver(&mut self) -> Option<&mut dyn Receiver> {
        Some(self)
    }
}

/// News of a message.
fn message(plain: &PlainSessions, source: PlainSource, number: u64, payload: Bytes) -> PlainNews {
    match plain.contents.has_files() && !StreamPiece::is_piece(&payload) {
        true => PlainNews::File { source, file: NamedFile::parse(payload).unwrap_or_default() },
        false => PlainNews::Message { source, number, payload },
    }
}

/// Messages of all sources, for hosts that do not read the other news.
impl Receiver for PlainReceiver {
    fn poll_delivery(&mut self) -> Option<Delivery> {
        loop {
            let (source, message, payload) = match self.poll_news()? {
                PlainNews::Message { source, number, payload } => (source, MessageId(number), payload),
                PlainNews::File { source, file } => (source, MessageId(0), file.content),
                PlainNews::Opened(_) | PlainNews::Closed { .. } => continue,
            };
            let source = self.sources.get(&source).map_or(self.context.sender, |reception| reception.node);
            return Some(Delivery { source, message, payload });
        }
    }
}

/// Error for a protocol without plain sessions.
pub fn no_plain_sessions(protocol: &ProtocolEntry) -> ConfigError {
    let with: Vec<_> = crate::REGISTRY
        .iter()
        .chain(crate::PLAIN_ONLY)
        .filter(|entry| entry.plain.is_some())
        .map(|entry| entry.name)
        .collect();
    let (name, with) = (protocol.name, with.join(", "));
    ConfigError::Conflict(format!("the protocol \"{name}\" has no plain sessions; these have: {with}"))
}

/// Default maximum number of sources.
const MAX_SOURCES: usize = 16;
/// Default time without a datagram after which a source is dropped. ZeroMQ announces an idle source every 30 s.
const SILENCE: Duration = Duration::from_secs(60);
/// Time without a datagram after which a new source may replace this one.
const REPLACEABLE_SILENCE: Duration = Duration::from_secs(5);
/// Time without a datagram after which the budget of requests is not renewed.
const BUDGET_SILENCE: Duration = Duration::from_secs(10);
