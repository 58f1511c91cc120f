//! A running sender: its events and its report.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Instant;

use carillon_core::{Duration, NodeId, Observer, ProtocolEntry, Seeds, Time};
use carillon_net::{DriveError, Driver};
use carillon_session::{JobId, Member, MemberOutcome, SenderPhase, SenderSession};

use super::options::SendOptions;
use super::series::Series;
use crate::files::Outgoing;
use crate::network::detached;
use crate::publisher::{INTERVAL, Publisher};
use crate::report::{Deleted, HelperReport, Omissions, Outcome, ReceiverReport, SentCounts, UnservedReport};
use crate::report::{Preview, PreviewedReceiver};
use crate::run_loop::Run;
use crate::tally::Tally;
use crate::{LocalError, SendEvent, SendReport};

/// Properties determined when the sender was opened.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// The protocol.
    pub protocol: &'static ProtocolEntry,
    /// True if it receives the group until the start, to detect other senders, although its protocol needs no
    /// multicast.
    pub eavesdrops: bool,
    /// Maximum bytes in flight, if the protocol has a window.
    pub window_bytes: Option<u64>,
    /// Maximum bytes of a datagram.
    pub datagram: usize,
    /// True if a catch-up session can send the data again.
    pub goes_again: bool,
    /// True if the sessions of the job continue a live stream, so that late receivers are served.
    pub series: bool,
}

/// A running sender, for [`run_to_end`](crate::run_loop::run_to_end).
pub struct SendRun<O: Observer> {
    pub(super) driver: Driver<SenderSession, Outgoing, Tally<O>>,
    pub(super) facts: Facts,
    /// Members reported as joined.
    pub(super) joined: BTreeMap<NodeId, String>,
    /// Times at which members were found to be expelled or to have left.
    gone: BTreeMap<NodeId, Time>,
    /// Unserved endpoints reported so far.
    unserved: BTreeSet<(NodeId, String)>,
    rivals: usize,
    started: bool,
    /// Number of receivers without data that events have named.
    unreached: usize,
    events: Vec<SendEvent>,
    pub(super) error: Option<LocalError>,
    /// Publishes snapshots for monitoring.
    pub(super) publisher: Option<Publisher>,
    pub(super) next: Next,
    /// Results of the earlier sessions.
    pub(super) earlier: Option<Earlier>,
    /// Start of this session.
    pub(super) since: Option<Instant>,
    pub(super) quits: bool,
    /// Receivers of a live stream, and interruptions of it for late ones.
    pub(super) series: Series,
}

/// Parts for a catch-up session.
#[derive(Debug)]
pub(super) struct Next {
    pub job: JobId,
    pub options: SendOptions,
    pub name: String,
    pub seeds: Seeds,
}

/// Results of earlier sessions.
#[derive(Debug)]
pub(super) struct Earlier {
    pub report: SendReport,
    /// Start of the first of them.
    pub since: Option<Instant>,
    /// Expelled receivers that may return, each with its deadline, and true if it was set aside as a straggler.
    pub missed: BTreeMap<String, (Instant, bool)>,
    /// Number of receivers that waited for this session.
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
        if self.driver.application().is_previewed() && !self.quits {
            self.quit(DRY_RUN);
        }
        self.look_for_the_missed(now);
        self.look_for_the_late();
        // Joins are reported before the start, so that the list is complete then.
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
            // A failure before the start reports no missing receivers.
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
            series: Series::default(),
        }
    }

    /// Returns the events since the last call.
    pub fn take_events(&mut self) -> Vec<SendEvent> {
        std::mem::take(&mut self.events)
    }

    /// Returns the error of the contents, once; it aborted the session.
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

    /// Properties determined when the sender was opened.
    pub fn facts(&self) -> Facts {
        self.facts
    }

    /// Returns the observer at the end.
    pub fn into_observer(self) -> O {
        self.driver.into_parts().3.inner
    }

    /// Time from the first message to `at`.
    pub fn since_start(&self, at: Time) -> Duration {
        self.driver.application().started().map_or(Duration::ZERO, |started| at.since(started))
    }

    /// Progress as an event.
    pub fn progress(&self) -> SendEvent {
        let outgoing = self.driver.application();
        SendEvent::Progress {
            phase: self.driver.machine().phase(),
            bytes: outgoing.bytes(),
            total: outgoing.manifest().bytes(),
        }
    }

    /// Preview of an update, once it is complete: each receiver with what it has, and each file that would be sent with
    /// the indices of the receivers that are missing it.
    pub fn preview(&self) -> Option<Preview> {
        let (session, outgoing) = (self.driver.machine(), self.driver.application());
        if !outgoing.is_previewed() {
            return None;
        }
        let members: Vec<&Member> =
            session.members().iter().filter(|member| member.part.receives()).collect();
        let receivers = members.iter().map(|member| PreviewedReceiver {
            name: member.name.clone(),
            address: self.address(member.node),
            had: outgoing.presence(member.node),
            deletes: deletes(outgoing, member.node),
        });
        let nodes: Vec<NodeId> = members.iter().map(|member| member.node).collect();
        Some(Preview { receivers: receivers.collect(), files: outgoing.missing(&nodes) })
    }

    /// Result of this session so far.
    pub(super) fn report_of_this(&self) -> SendReport {
        let (session, outgoing) = (self.driver.machine(), self.driver.application());
        let end = |member: &Member| member.finished.or(self.gone.get(&member.node).copied());
        // The total time is that of the slowest receiver, and goodput is measured by the verified ones.
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
            path: self.address(member.node).and_then(|member| self.driver.endpoint().path(member)),
            sends: member.part.offers(),
            attached: detached(&member.attached).1.to_owned(),
            bytes: member.bytes + self.series.earlier_bytes(&member.name),
            stream: self.series.place(&member.name, outgoing.messages()),
            had: outgoing.presence(member.node),
            deletes: deletes(outgoing, member.node),
            repairs: told.then_some(member.repairs),
            loss: standing.path.map(|path| path.total_loss()),
            time: end(member).map(|at| self.since_start(at)),
            waited: member.waited,
            outcome: Outcome::from(&member.outcome),
        });
        let (missing, more_missing) = session.missing_receivers();
        let missing = missing.into_iter().map(|name| missing_report(name, told.then_some(0)));
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
            sent: SentCounts {
                repairs: self.driver.observer().repairs,
                datagrams_sent: stats.datagrams_sent,
                bytes_sent: stats.bytes_sent,
            },
            receivers: receivers.chain(missing).collect(),
            helpers: helpers.collect(),
            unserved: unserved.collect(),
            more_unserved: session.more_unserved(),
            more_missing: more_missing as u64,
            rivals: session.rivals().iter().map(|one| (one.name.clone(), self.address(one.node))).collect(),
            omitted: Omissions {
                withdrawn: outgoing.withdrawn().to_vec(),
                skipped: outgoing.manifest().skipped().to_vec(),
                excluded: outgoing.manifest().excluded(),
                followed_out: outgoing.manifest().followed_out().to_vec(),
            },
            failure: session.failure().map(ToOwned::to_owned),
            waits: self.facts.protocol.delivery.waits,
            silent: self.next.options.is_silent(),
            sessions: 1,
            messages: outgoing.messages(),
            unable: outgoing.unable().to_vec(),
        }
    }

    fn address(&self, node: NodeId) -> Option<SocketAddr> {
        self.driver.endpoint().peer(node)
    }

    /// Reports members that left without a result.
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

    /// Reports receivers that are set aside because the datagrams of this session do not reach them.
    fn note_unreached(&mut self) {
        let session = self.driver.machine();
        let Some(shorter) = session.falls_back() else { return };
        let datagram = shorter.datagram.saturating_add(self.driver.endpoint().seal_bytes() as u16);
        let event = |name: &str| SendEvent::Unreached { name: name.to_owned(), datagram };
        let events: Vec<_> = session.unreached().skip(self.unreached).map(event).collect();
        self.unreached += events.len();
        self.events.extend(events);
    }

    /// Reports other senders and unserved endpoints.
    fn note_others(&mut self) {
        let (session, endpoint) = (self.driver.machine(), self.driver.endpoint());
        for rival in session.rivals().iter().skip(self.rivals) {
            let address = endpoint.peer(rival.node);
            self.events.push(SendEvent::Rival { name: rival.name.clone(), address });
        }
        self.rivals = session.rivals().len();
        for one in session.unserved() {
            // Strangers can invent any number of names.
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

/// Row of a receiver that never joined.
fn missing_report(name: String, repairs: Option<u64>) -> ReceiverReport {
    ReceiverReport {
        name,
        address: None,
        path: None,
        sends: false,
        attached: Vec::new(),
        bytes: 0,
        stream: None,
        had: None,
        deletes: None,
        repairs,
        loss: None,
        time: None,
        waited: Duration::ZERO,
        outcome: Outcome::Missing,
    }
}

/// Entries that a receiver deletes, if it said so.
fn deletes(outgoing: &Outgoing, node: NodeId) -> Option<Deleted> {
    outgoing.deletions(node).map(|deletions| Deleted::new(deletions.count, &deletions.names))
}

/// Returns true if the protocol attributes repairs to receivers; otherwise only the total counts.
pub(super) fn repairs_are_told(total: u64, members: &[Member]) -> bool {
    total == 0 || members.iter().any(|member| member.repairs > 0)
}

/// Reason by which a dry run ends.
pub const DRY_RUN: &str = "dry run: nothing is sent";
/// Maximum number of unserved endpoints reported as events; the report has the rest.
const MAX_UNSERVED_EVENTS: usize = 64;
