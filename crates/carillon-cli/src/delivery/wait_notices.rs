//! Notices of a receiver when nothing happens: each is printed once, after a few seconds.

use std::net::SocketAddr;
use std::time::Instant;

use carillon_core::{Duration, Time};
use carillon_net::{Endpoint, SendFailure};
use carillon_proto::find;
use carillon_session::ReceiverPhase;
use carillon_transfer::files::shown;
use carillon_transfer::{ReceiveRun, SubscriptionState, hears_group};
use carillon_wire::session::OtherRelease;

use super::{
    EndpointContext, Evidence, Watch, explain, host, listed, reported_by_network, unroutable_sources,
};

/// Detects that a receiver waits without result.
#[derive(Debug)]
pub struct WaitNotices {
    place: EndpointContext,
    /// Kind of the current wait, and its start.
    waiting: Option<(Wait, Time)>,
    told: Vec<Wait>,
    /// Senders that do not answer and were reported, and the number that the session has counted.
    silent: Vec<String>,
    /// Sender that invites, and its address.
    inviting: Option<(String, SocketAddr)>,
    counted: u64,
    /// True after the notice that a catch-up session follows.
    later: bool,
    /// Number of sessions without this receiver that were reported or passed over.
    passed_by: u64,
    /// Senders with sessions that exclude this receiver, with the reported reason and its time.
    refusals: Vec<(String, String, Instant)>,
    listening: bool,
    /// Packets that the system had dropped for lack of a route to their source, at the start.
    unroutable: Option<u64>,
    /// Other releases that were reported.
    releases: Vec<OtherRelease>,
    /// True after the notice that all members must be sources.
    told_members: bool,
}

/// Kind of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    /// Wait for an invitation.
    Invitation,
    /// Wait for the answer to a join.
    Welcome,
    /// Wait for the contents of a file.
    Data,
}

impl WaitNotices {
    /// Creates the detector of a receiver at this endpoint.
    pub fn new(endpoint: &Endpoint) -> WaitNotices {
        WaitNotices {
            place: EndpointContext::of(endpoint),
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
            told_members: false,
        }
    }

    /// Notes that the endpoint has another interface or address.
    pub fn moved(&mut self, endpoint: &Endpoint) {
        self.place = EndpointContext::of(endpoint);
    }

    /// Checks the state of the run; returns a notice if one is due.
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
            && self.releases.len() < MAX_REPORTED_SENDERS
        {
            self.releases.push(other.release);
            return Some(self.place.other_release(other, driver.endpoint().peer(other.node)));
        }
        let machine = driver.machine();
        let waits = machine.is_served_later() && machine.phase() == ReceiverPhase::Seeking;
        if waits && !std::mem::replace(&mut self.later, waits) {
            return Some("a session is running: a catch-up session will serve this receiver".to_owned());
        }
        if let Some(line) = self.passed_by(run) {
            return Some(line);
        }
        if let Some(line) = self.lacks_members(run) {
            return Some(line);
        }
        let session = run.driver().machine();
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
        if now.since(since) < NOTICE_DELAY {
            return None;
        }
        if wait != Wait::Welcome {
            self.told.push(wait);
        }
        let driver = run.driver();
        let session = driver.machine();
        let name = session.sender_name().unwrap_or("the sender");
        Some(match wait {
            Wait::Invitation => self.uninvited(run),
            Wait::Welcome => {
                let failure = address.and_then(|address| driver.endpoint().send_failure(address.ip()));
                return self.does_not_answer(name, address, failure.as_ref());
            }
            Wait::Data => self.place.no_data(name, session.max_payload().unwrap_or_default()),
        })
    }
}

impl WaitNotices {
    /// Notice that members multicast to each other in this session, while the receiver has named its sources.
    fn lacks_members(&mut self, run: &ReceiveRun<Watch>) -> Option<String> {
        let (session, sources) = (run.driver().machine(), run.driver().endpoint().sources());
        let protocol = find(session.protocol()?)?;
        if self.told_members || sources.is_empty() || !hears_group(protocol) {
            return None;
        }
        self.told_members = true;
        Some(format!(
            "members of {} multicast to each other, and --source names {}: name all members, or leave it out",
            protocol.name,
            listed(sources)
        ))
    }

    /// Notice that no sender invites this receiver, with the evidence for the cause.
    fn uninvited(&self, run: &ReceiveRun<Watch>) -> String {
        let driver = run.driver();
        let session = driver.machine();
        if let Some(line) = driver.endpoint().subscription().and_then(without_copies) {
            return line;
        }
        let mut heard = driver.observer().inner.strangers(driver.endpoint());
        let passed_over = session.unlisted_sender().map(shown);
        heard.extend(passed_over.map(|name| format!("{name} invites, but --from or --job does not list it")));
        heard.extend(
            session.unsuitable_sender().map(|(name, why)| format!("{} invites, but {why}", shown(name))),
        );
        self.place.uninvited(&heard, &Evidence::of(driver.endpoint(), self.unroutable))
    }

    /// Reason for which an invited receiver is not in a session. The number of notices is limited, since anyone can
    /// invite without end.
    fn passed_by(&mut self, run: &ReceiveRun<Watch>) -> Option<String> {
        let session = run.driver().machine().missed_session();
        let count = session.map_or(0, |session| session.count);
        let is_new = std::mem::replace(&mut self.passed_by, count) != count;
        let session = session.filter(|_| is_new)?;
        let (now, reason) = (Instant::now(), explain(&session.failure, true));
        self.refusals.retain(|(_, _, told)| now.duration_since(*told) < REFUSAL_INTERVAL);
        let is_told =
            self.refusals.iter().any(|(sender, why, _)| *sender == session.sender && *why == reason);
        if is_told || self.refusals.len() >= MAX_REPORTED_SENDERS {
            return None;
        }
        self.refusals.push((session.sender.clone(), reason.clone(), now));
        let sender = host(&session.sender, run.driver().endpoint().peer(session.node));
        Some(format!("not in the session of {sender}: {reason}; waiting for another one"))
    }

    /// Notice about a sender that does not answer: once for each sender, and for few senders, since anyone can invite
    /// without end.
    fn does_not_answer(
        &mut self,
        name: &str,
        address: Option<SocketAddr>,
        failure: Option<&SendFailure>,
    ) -> Option<String> {
        if self.silent.len() >= MAX_REPORTED_SENDERS || self.silent.iter().any(|told| told == name) {
            return None;
        }
        self.silent.push(name.to_owned());
        let probed = || reported_by_network(self.place.open_address()?, address?);
        let failure = failure.copied().or_else(probed);
        Some(self.place.unanswered(name, address, failure.as_ref()))
    }
}

/// Notice of a receiver that gets no unicast copies although it asks for them.
fn without_copies(state: SubscriptionState) -> Option<String> {
    let SubscriptionState { server, .. } = state;
    if state.full {
        return Some(format!(
            "{server} has no place for another receiver by unicast (256 in all): put a relay there"
        ));
    }
    (!state.answered).then(|| {
        format!(
            "{server} does not answer requests for unicast copies, still asking: is `carillon send` running there, \
             without --unicast-rate 0? does a firewall let UDP to port {} in? with --key-file, is it the same key?",
            server.port()
        )
    })
}

fn awaited(run: &ReceiveRun<Watch>) -> Option<Wait> {
    let (session, incoming) = (run.driver().machine(), run.driver().application());
    match session.phase() {
        // A receiver without an answer has received an invitation.
        ReceiverPhase::Seeking
            if session.unanswered().is_none()
                && !session.is_served_later()
                && !session.is_returning()
                && session.missed_session().is_none()
                && !session.has_seen_done_job() =>
        {
            Some(Wait::Invitation)
        }
        ReceiverPhase::Joining => Some(Wait::Welcome),
        // A stream may pause for any time; a file has contents immediately.
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

/// Maximum number of unresponsive senders that are reported.
const MAX_REPORTED_SENDERS: usize = 8;
/// Interval within which a sender's refusal is not reported again for the same reason.
const REFUSAL_INTERVAL: Duration = Duration::from_secs(60);
/// Time without progress after which a notice is due.
const NOTICE_DELAY: Duration = Duration::from_secs(3);
