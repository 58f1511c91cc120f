//! A sender under way: what happens, told once, and what became of it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Instant;

use carillon_core::{Duration, NodeId, Observer, ProtocolEntry, Seeds, Time};
use carillon_net::{DriveError, Driver};
use carillon_proto::session::{JobId, Member, MemberOutcome, SenderPhase, SenderSession};

use super::options::SendOptions;
use crate::files::Outgoing;
use crate::monitor::{INTERVAL, Publisher};
use crate::network::detached;
use crate::report::{HelperReport, Outcome, ReceiverReport, UnservedReport};
use crate::run_loop::Run;
use crate::tally::Tally;
use crate::{LocalError, SendEvent, SendReport};

/// What was found out when it was opened.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// The protocol.
    pub protocol: &'static ProtocolEntry,
    /// Hears the group although its protocol need not, until the start: to hear of other senders.
    pub eavesdrops: bool,
    /// Bytes that may be under way, if the protocol has a window.
    pub window_bytes: Option<u64>,
    /// Bytes of the longest datagram.
    pub datagram: usize,
    /// What is sent can be sent once more, to those who lack it.
    pub goes_again: bool,
}

/// A sender under way, for [`run_to_end`](crate::run_loop::run_to_end).
pub struct SendRun<O: Observer> {
    pub(super) driver: Driver<SenderSession, Outgoing, Tally<O>>,
    pub(super) facts: Facts,
    /// The members told of so far.
    pub(super) joined: BTreeMap<NodeId, String>,
    /// When members were found to be given up or to have left.
    gone: BTreeMap<NodeId, Time>,
    /// Those who are not served, told of so far.
    unserved: BTreeSet<(NodeId, String)>,
    rivals: usize,
    started: bool,
    /// Number of receivers without data that events have named.
    unreached: usize,
    events: Vec<SendEvent>,
    pub(super) error: Option<LocalError>,
    /// Who is told what it looks like.
    pub(super) publisher: Option<Publisher>,
    pub(super) next: Next,
    /// What became of the sessions before.
    pub(super) earlier: Option<Earlier>,
    /// When this one started.
    pub(super) since: Option<Instant>,
    pub(super) quits: bool,
}

/// What a further session is made of.
#[derive(Debug)]
pub(super) struct Next {
    pub job: JobId,
    pub options: SendOptions,
    pub name: String,
    pub seeds: Seeds,
}

/// The sessions before.
#[derive(Debug)]
pub(super) struct Earlier {
    pub report: SendReport,
    /// When the first of them started.
    pub since: Option<Instant>,
    /// Who was given up in them and may come back, and until when.
    pub missed: BTreeMap<String, Instant>,
    /// How many were known to be there for this one.
    pub wanting: usize,
}

impl<O: Observer> Run for SendRun<O> {
    fn step(&mut self, wait: Duration) -> Result<(), DriveError> {
        self.driver.step(wait)
    }

    fn update(&mut self) {
        let now = self.driver.now();
        if self.error.is_none() && self.driver.application().has_failed() {
            self.error = self.driver.application_mut().take_error();
            let reason = self.error.as_ref().map_or_else(String::new, |error| error.to_string());
            self.driver.machine_mut().abort(now, &reason);
        }
        self.look_for_the_missed(now);
        // Whoever hears that it has started knows for whom.
        self.note_joined();
        if !self.started && self.driver.machine().phase() > SenderPhase::Gathering {
            self.started = true;
            self.since = Some(Instant::now());
            if self.facts.eavesdrops {
                self.driver.endpoint_mut().stop_listening();
            }
            if let Some(shortened) = self.driver.machine().shortened() {
                let seal = self.driver.endpoint().seal_bytes() as u16;
                let (datagram, name) = (shortened.datagram.saturating_add(seal), shortened.member.clone());
                self.events.push(SendEvent::Shorter { datagram, name });
            }
            // Not if it has failed while it gathered.
            if self.driver.machine().failure().is_none() {
                let (names, more) = self.driver.machine().missing_receivers();
                if !names.is_empty() || more > 0 {
                    let members = self.driver.machine().members().iter();
                    let joined = members.filter(|member| member.part.receives()).count();
                    self.events.push(SendEvent::Missing { names, more, joined });
                }
                self.events.push(SendEvent::Started);
            }
        }
        self.note_gone(now);
        self.note_unreached();
        self.note_others();
        self.publish(now);
    }

    fn max_wait(&self) -> Duration {
        if self.publisher.is_some() { INTERVAL } else { Duration::MAX }
    }

    fn is_over(&self) -> bool {
        matches!(self.driver.machine().phase(), SenderPhase::Finished | SenderPhase::Aborted)
    }

    fn needs_final_step(&self) -> bool {
        false
    }

    fn quit(&mut self, reason: &str) {
        self.quits = true;
        let now = self.driver.now();
        self.driver.machine_mut().abort(now, reason);
    }
}

impl<O: Observer> SendRun<O> {
    pub(super) fn new(driver: Driver<SenderSession, Outgoing, Tally<O>>, facts: Facts, next: Next) -> Self {
        SendRun {
            driver,
            facts,
            joined: BTreeMap::new(),
            gone: BTreeMap::new(),
            unserved: BTreeSet::new(),
            rivals: 0,
            started: false,
            unreached: 0,
            events: Vec::new(),
            error: None,
            publisher: None,
            next,
            earlier: None,
            since: None,
            quits: false,
        }
    }

    /// What has happened since this was last asked.
    pub fn take_events(&mut self) -> Vec<SendEvent> {
        std::mem::take(&mut self.events)
    }

    /// What went wrong with what is sent, once: the session was aborted because of it.
    pub fn take_error(&mut self) -> Option<LocalError> {
        self.error.take()
    }

    /// The driver, to be observed or traced.
    pub fn driver_mut(&mut self) -> &mut Driver<SenderSession, Outgoing, Tally<O>> {
        &mut self.driver
    }

    /// The driver.
    pub fn driver(&self) -> &Driver<SenderSession, Outgoing, Tally<O>> {
        &self.driver
    }

    /// What was found out when it was opened.
    pub fn facts(&self) -> Facts {
        self.facts
    }

    /// The observer, at the end.
    pub fn into_observer(self) -> O {
        self.driver.into_parts().3.inner
    }

    /// Since the first message went out.
    pub fn since_start(&self, at: Time) -> Duration {
        self.driver.application().started().map_or(Duration::ZERO, |started| at.since(started))
    }

    /// How far it is.
    pub fn progress(&self) -> SendEvent {
        let outgoing = self.driver.application();
        SendEvent::Progress {
            phase: self.driver.machine().phase(),
            bytes: outgoing.bytes(),
            total: outgoing.manifest().bytes(),
        }
    }

    /// What has become of this session so far.
    pub(super) fn report_of_this(&self) -> SendReport {
        let (session, outgoing) = (self.driver.machine(), self.driver.application());
        let end = |member: &Member| member.finished.or(self.gone.get(&member.node).copied());
        // The whole lasts as long as its longest row, and what was got is measured by those who got it.
        let last = session.members().iter().filter_map(end).max();
        let got = session.members().iter().filter(|member| member.outcome == MemberOutcome::Verified);
        let got = self.since_start(got.filter_map(|member| member.finished).max().unwrap_or_default());
        let told = repairs_are_told(self.driver.observer().repairs, session.members());
        let members = session.members().iter().zip(session.standings(self.driver.now()));
        let (helpers, receivers): (Vec<_>, Vec<_>) = members.partition(|(member, _)| !member.part.receives());
        let helpers = helpers.into_iter().map(|(member, _)| HelperReport {
            name: member.name.clone(),
            address: self.address(member.node),
            lost: Outcome::from(&member.outcome).reason().map(ToOwned::to_owned),
        });
        let receivers = receivers.into_iter().map(|(member, standing)| ReceiverReport {
            name: member.name.clone(),
            address: self.address(member.node),
            sends: member.part.offers(),
            attached: detached(&member.attached).1.to_owned(),
            bytes: member.bytes,
            repairs: told.then_some(member.repairs),
            loss: standing.path.map(|path| path.total_loss()),
            time: end(member).map(|at| self.since_start(at)),
            waited: member.waited,
            outcome: Outcome::from(&member.outcome),
        });
        let (missing, more_missing) = session.missing_receivers();
        let missing = missing.into_iter().map(|name| ReceiverReport {
            name,
            address: None,
            sends: false,
            attached: Vec::new(),
            bytes: 0,
            repairs: told.then_some(0),
            loss: None,
            time: None,
            waited: Duration::ZERO,
            outcome: Outcome::Missing,
        });
        let unserved = session.unserved().iter().map(|one| UnservedReport {
            name: one.name.clone(),
            address: self.address(one.node),
            reason: one.reason.clone(),
        });
        let (bytes, resumed) = (outgoing.bytes(), outgoing.resumed());
        let stats = self.driver.stats();
        SendReport {
            protocol: self.facts.protocol.name,
            files: outgoing.manifest().files(),
            bytes,
            resumed,
            time: self.since_start(last.unwrap_or_else(|| self.driver.now())),
            goodput: if got.is_zero() {
                0.0
            } else {
                bytes.saturating_sub(resumed) as f64 * 8.0 / got.as_secs_f64()
            },
            repairs: self.driver.observer().repairs,
            datagrams_sent: stats.datagrams_sent,
            bytes_sent: stats.bytes_sent,
            receivers: receivers.chain(missing).collect(),
            helpers: helpers.collect(),
            unserved: unserved.collect(),
            more_unserved: session.more_unserved(),
            more_missing: more_missing as u64,
            rivals: session.rivals().iter().map(|one| (one.name.clone(), self.address(one.node))).collect(),
            withdrawn: outgoing.withdrawn().to_vec(),
            skipped: outgoing.manifest().skipped().to_vec(),
            followed_out: outgoing.manifest().followed_out().to_vec(),
            failure: session.failure().map(ToOwned::to_owned),
            waits: self.facts.protocol.waits,
            silent: self.next.options.is_silent(),
            sessions: 1,
        }
    }

    fn address(&self, node: NodeId) -> Option<SocketAddr> {
        self.driver.endpoint().peer(node)
    }

    /// A member that does not report has an end all the same.
    fn note_gone(&mut self, now: Time) {
        let over = |member: &&Member| member.finished.is_none() && member.outcome != MemberOutcome::Active;
        let after = self.since_start(now);
        for member in self.driver.machine().members().iter().filter(over) {
            if self.gone.contains_key(&member.node) {
                continue;
            }
            self.gone.insert(member.node, now);
            self.events.push(SendEvent::Gone {
                name: member.name.clone(),
                after,
                waited: member.waited,
                outcome: Outcome::from(&member.outcome),
            });
        }
    }

    /// Tells which receivers are set aside because the datagrams of this session do not reach them.
    fn note_unreached(&mut self) {
        let session = self.driver.machine();
        let Some(shorter) = session.falls_back() else { return };
        let datagram = shorter.datagram.saturating_add(self.driver.endpoint().seal_bytes() as u16);
        let event = |name: &str| SendEvent::Unreached { name: name.to_owned(), datagram };
        let events: Vec<_> = session.unreached().skip(self.unreached).map(event).collect();
        self.unreached += events.len();
        self.events.extend(events);
    }

    /// Other senders, and who is not served.
    fn note_others(&mut self) {
        let (session, endpoint) = (self.driver.machine(), self.driver.endpoint());
        for rival in session.rivals().iter().skip(self.rivals) {
            let address = endpoint.peer(rival.node);
            self.events.push(SendEvent::Rival { name: rival.name.clone(), address });
        }
        self.rivals = session.rivals().len();
        for one in session.unserved() {
            // Strangers can make up as many as they like.
            if self.unserved.len() < MAX_UNSERVED_EVENTS
                && self.unserved.insert((one.node, one.reason.to_string()))
            {
                let (address, reason) = (endpoint.peer(one.node), one.reason.clone());
                self.events.push(SendEvent::Unserved { name: one.name.clone(), address, reason });
            }
        }
    }

    fn note_joined(&mut self) {
        let members = self.driver.machine().members();
        if self.driver.machine().phase() > SenderPhase::Running || members.len() == self.joined.len() {
            return;
        }
        let nodes: BTreeSet<NodeId> = members.iter().map(|member| member.node).collect();
        for (_, name) in self.joined.extract_if(.., |node, _| !nodes.contains(node)) {
            self.events.push(SendEvent::Left { name });
        }
        for member in members {
            if self.joined.insert(member.node, member.name.clone()).is_none() {
                let address = self.driver.endpoint().peer(member.node);
                let (name, attached) = (member.name.clone(), detached(&member.attached).1.to_owned());
                self.events.push(SendEvent::Joined { name, address, attached });
            }
        }
    }
}

/// Whether the protocol tells whom a repair was for: one that does not has them in the total only.
pub(super) fn repairs_are_told(total: u64, members: &[Member]) -> bool {
    total == 0 || members.iter().any(|member| member.repairs > 0)
}

/// Those who are not served, told of as it happens; the report has the rest.
const MAX_UNSERVED_EVENTS: usize = 64;
