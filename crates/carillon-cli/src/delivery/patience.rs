//! What a receiver says when nothing happens: once each, after a few seconds.

use std::net::SocketAddr;
use std::time::Instant;

use carillon_core::{Duration, Time};
use carillon_net::{Endpoint, SendFailure};
use carillon_proto::session::ReceiverPhase;
use carillon_transfer::ReceiveRun;
use carillon_transfer::files::shown;
use carillon_wire::session::OtherRelease;

use super::{Evidence, Watch, Whereabouts, explain, host, reported_by_network, unroutable_sources};

/// Notices that a receiver waits in vain.
#[derive(Debug)]
pub struct Patience {
    place: Whereabouts,
    /// What it is waiting for, and since when.
    waiting: Option<(Wait, Time)>,
    told: Vec<Wait>,
    /// Senders that do not answer: those told of, and how many the session has counted.
    silent: Vec<String>,
    /// The sender that invites, and its address.
    inviting: Option<(String, SocketAddr)>,
    counted: u64,
    /// Told that a further session is to come.
    later: bool,
    /// Number of sessions that it is not in, of those that were told of or passed over in silence.
    passed_by: u64,
    /// Senders whose sessions it is not in, with the reasons told and the time of that.
    refusals: Vec<(String, String, Instant)>,
    listening: bool,
    /// Packets that the system had dropped for want of a route to their source.
    unroutable: Option<u64>,
    /// Releases of senders that were told of.
    releases: Vec<OtherRelease>,
}

/// What a receiver can wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    /// An invitation.
    Invitation,
    /// An answer to its wish to join.
    Welcome,
    /// The contents of a file.
    Data,
}

impl Patience {
    /// Of a receiver at this endpoint.
    pub fn new(endpoint: &Endpoint) -> Patience {
        Patience {
            place: Whereabouts::of(endpoint),
            waiting: None,
            told: Vec::new(),
            silent: Vec::new(),
            inviting: None,
            counted: 0,
            later: false,
            passed_by: 0,
            refusals: Vec::new(),
            listening: false,
            unroutable: unroutable_sources(),
            releases: Vec::new(),
        }
    }

    /// The endpoint has another interface or address.
    pub fn moved(&mut self, endpoint: &Endpoint) {
        self.place = Whereabouts::of(endpoint);
    }

    /// Looks what is happening; returns what is to be said.
    pub fn look(&mut self, run: &mut ReceiveRun<Watch>) -> Option<String> {
        let driver = run.driver();
        let now = driver.now();
        let unanswered = driver.machine().unanswered();
        if let Some((name, count)) = unanswered.filter(|(_, count)| *count != self.counted) {
            self.counted = count;
            let name = name.to_owned();
            let address = self.inviting.as_ref().filter(|(by, _)| *by == name).map(|(_, address)| *address);
            let failure = address.and_then(|address| run.driver().endpoint().send_failure(address.ip()));
            if let Some(line) = self.does_not_answer(&name, address, failure.as_ref()) {
                return Some(line);
            }
        }
        let other = driver.machine().other_sender();
        if let Some(other) = other.filter(|other| !self.releases.contains(&other.release))
            && self.releases.len() < MOST_SILENT
        {
            self.releases.push(other.release);
            return Some(self.place.other_release(other, driver.endpoint().peer(other.node)));
        }
        let machine = driver.machine();
        let waits = machine.is_served_later() && machine.phase() == ReceiverPhase::Seeking;
        if waits && !std::mem::replace(&mut self.later, waits) {
            return Some(
                "a session runs already: a further one serves this receiver, please wait".to_owned(),
            );
        }
        if let Some(line) = self.passed_by(run) {
            return Some(line);
        }
        let session = driver.machine();
        let address = session.sender_node().and_then(|node| driver.endpoint().peer(node));
        if let (ReceiverPhase::Joining, Some(name), Some(address)) =
            (session.phase(), session.sender_name(), address)
        {
            self.inviting = Some((name.to_owned(), address));
        }
        let wait = awaited(run).filter(|wait| !self.told.contains(wait));
        let listening = wait == Some(Wait::Invitation);
        if self.listening != listening {
            self.listening = listening;
            let stats = run.driver().stats().clone();
            run.driver_mut().observer_mut().inner.listen(listening, &stats);
        }
        let Some(wait) = wait else {
            self.waiting = None;
            return None;
        };
        let since = match self.waiting {
            Some((same, since)) if same == wait => since,
            _ => now,
        };
        self.waiting = Some((wait, since));
        if now.since(since) < LONG {
            return None;
        }
        if wait != Wait::Welcome {
            self.told.push(wait);
        }
        let driver = run.driver();
        let session = driver.machine();
        let name = session.sender_name().unwrap_or("the sender");
        Some(match wait {
            Wait::Invitation => {
                let mut heard = driver.observer().inner.strangers(driver.endpoint());
                let passed_over = session.passed_over().map(shown);
                heard.extend(passed_over.map(|name| format!("{name} invites, which is none of --from")));
                heard
                    .extend(session.unfit().map(|(name, why)| format!("{} invites, and {why}", shown(name))));
                self.place.uninvited(&heard, &Evidence::of(driver.endpoint(), self.unroutable))
            }
            Wait::Welcome => {
                let failure = address.and_then(|address| driver.endpoint().send_failure(address.ip()));
                return self.does_not_answer(name, address, failure.as_ref());
            }
            Wait::Data => self.place.no_data(name, session.max_payload().unwrap_or_default()),
        })
    }
}

impl Patience {
    /// Why it is not in a session although it was invited, once in a while for each sender: anybody can invite without end.
    fn passed_by(&mut self, run: &ReceiveRun<Watch>) -> Option<String> {
        let session = run.driver().machine().passed_by();
        let count = session.map_or(0, |session| session.count);
        let is_new = std::mem::replace(&mut self.passed_by, count) != count;
        let session = session.filter(|_| is_new)?;
        let (now, reason) = (Instant::now(), explain(&session.failure));
        self.refusals.retain(|(_, _, told)| now.duration_since(*told) < REFUSAL_INTERVAL);
        let is_told =
            self.refusals.iter().any(|(sender, why, _)| *sender == session.sender && *why == reason);
        if is_told || self.refusals.len() >= MOST_SILENT {
            return None;
        }
        self.refusals.push((session.sender.clone(), reason.clone(), now));
        let sender = host(&session.sender, run.driver().endpoint().peer(session.node));
        Some(format!("not in the session of {sender}: {reason}; waiting for another one"))
    }

    /// Told once of each sender, and of few: anybody can invite without end.
    fn does_not_answer(
        &mut self,
        name: &str,
        address: Option<SocketAddr>,
        failure: Option<&SendFailure>,
    ) -> Option<String> {
        if self.silent.len() >= MOST_SILENT || self.silent.iter().any(|told| told == name) {
            return None;
        }
        self.silent.push(name.to_owned());
        let probed = || reported_by_network(self.place.open_address()?, address?);
        let failure = failure.copied().or_else(probed);
        Some(self.place.unanswered(name, address, failure.as_ref()))
    }
}

fn awaited(run: &ReceiveRun<Watch>) -> Option<Wait> {
    let (session, incoming) = (run.driver().machine(), run.driver().application());
    match session.phase() {
        // One that was not answered has heard a sender.
        ReceiverPhase::Seeking
            if session.unanswered().is_none()
                && !session.is_served_later()
                && !session.is_returning()
                && session.passed_by().is_none()
                && !session.has_heard_done() =>
        {
            Some(Wait::Invitation)
        }
        ReceiverPhase::Joining => Some(Wait::Welcome),
        // A stream may pause as long as it likes; a file has contents at once.
        ReceiverPhase::Running
            if session.has_started()
                && !run.goes_on()
                && incoming.bytes() == 0
                && incoming.total() != Some(0)
                && (incoming.senders().next().is_none() || incoming.total().is_some())
                && !incoming.is_live() =>
        {
            Some(Wait::Data)
        }
        _ => None,
    }
}

/// Senders that do not answer, told of.
const MOST_SILENT: usize = 8;
/// A sender's refusal is not told again for the same reason within this time.
const REFUSAL_INTERVAL: Duration = Duration::from_secs(60);
/// So long it waits before it says so.
const LONG: Duration = Duration::from_secs(3);
