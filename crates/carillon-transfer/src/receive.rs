//! The receiving end of a transfer.

mod builder;

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fmt;
use std::io::Write;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use carillon_core::{Duration, NoObserver, Observer, Seeds, Time};
use carillon_monitor::{Monitor, SenderView, Snapshot};
use carillon_net::{Driver, Endpoint};
use carillon_proto::REGISTRY;
use carillon_session::{
    Demand, DoneJobs, JobId, MemberRole, ReceiverFailure, ReceiverPhase, ReceiverSession, RefuseReason,
};

use crate::end::End;
use crate::files::{
    ARCHIVE_DEMAND, Accepted, DELETE_DEMAND, Finish, Incoming, Live, Messages, Output, Problem, SenderState,
    Sink, Target, Trust,
};
use crate::follow::{CHECK_INTERVAL, Follower, NetworkChange};
use crate::handle::{AbortSignal, EventSink, Handle, spawn};
use crate::network::{Bound, Network, attached, random};
use crate::participant::{self, Participant, run_by_participant};
use crate::publisher::Publisher;
use crate::report::{Deleted, SenderReport};
use crate::roster::RosterWatch;
use crate::run_loop::{Run, RunControl, run_to_end_within};
use crate::tally::Tally;
use crate::{Error, ReceiveEvent, ReceiveReport};

/// Destination of the received data.
enum Place {
    Directory(PathBuf),
    Device(PathBuf),
    Writer(Box<dyn Write + Send>),
    Messages(Box<dyn Messages>),
}

/// Receives one transfer of files into a directory.
pub fn receive(directory: impl Into<PathBuf>) -> Receiving {
    End::new(ToReceive::new(Place::Directory(directory.into())))
}

/// Receives one transfer of a single file and writes its contents to a block device, from its beginning on. The device
/// must not be in use, and everything is on it when the receiver ends.
pub fn receive_to_device(path: impl Into<PathBuf>) -> Receiving {
    End::new(ToReceive::new(Place::Device(path.into())))
}

/// Receives one transfer and writes the contents of its files to a writer, one after the other, as they arrive. The
/// digests are verified at the end of each file.
pub fn receive_to(writer: impl Write + Send + 'static) -> Receiving {
    End::new(ToReceive::new(Place::Writer(Box::new(writer))))
}

/// Receives the messages of live streams as they come.
pub fn receive_messages(to: impl Messages + 'static) -> Receiving {
    End::new(ToReceive::new(Place::Messages(Box::new(to))))
}

/// A receiver before it begins. Made by [`receive`], [`receive_to`] and [`receive_messages`].
pub type Receiving = End<ToReceive>;

/// Destination and options of a receiver.
#[derive(Debug)]
pub struct ToReceive {
    place: Place,
    overwrite: bool,
    in_place: bool,
    options: ReceiveOptions,
}

impl ToReceive {
    fn new(place: Place) -> Self {
        ToReceive { place, overwrite: false, in_place: false, options: ReceiveOptions::default() }
    }
}

/// Options of a receiver, apart from the network.
#[derive(Clone, Debug)]
pub struct ReceiveOptions {
    /// Silence after which it abandons the sender.
    pub timeout: Duration,
    /// Ignores sessions that it cannot join and waits for the next one.
    pub keep_seeking: bool,
    /// Names of the accepted senders; empty accepts any.
    pub from: BTreeSet<String>,
    /// Treatment of received files.
    pub files: FileOptions,
    /// Bytes that the sender's program receives with the name, at most 256.
    pub attached: Vec<u8>,
    /// Serves as a designated receiver, if the protocol has helpers and the sender permits it; otherwise only
    /// receives.
    pub helps: bool,
    /// Receives snapshots of the receiver's state.
    pub monitor: Option<Monitor>,
    /// Trusted signing keys, and the memory of accepted signatures.
    pub trust: Trust,
    /// Names of the jobs to take part in (`send --job`); empty means any job, also one without a name.
    pub jobs: BTreeSet<String>,
    /// Sends nothing, and accepts senders that do not wait for receivers
    /// ([`End::silent_receivers`](crate::End::silent_receivers)).
    pub one_way: bool,
    /// Failure of the previous session: the result, unless another session invites this receiver within `timeout`.
    pub returning: Option<ReceiverFailure>,
    /// Random number of this process, equal in all sessions of a receiver.
    pub process: Option<u64>,
    /// Jobs in which this receiver was verified, from earlier sessions ([`ReceiveRun::done_jobs`]).
    pub done: DoneJobs,
}

/// Treatment of received files.
#[derive(Clone, Debug, Default)]
pub struct FileOptions {
    /// Reports each completed file as an event.
    pub tell: bool,
    /// Function that is called when everything has arrived and is verified, before the sender learns of it. Its error
    /// is that of the transfer. The sender waits a minute for it, with its default timeout.
    pub finish: Option<Finish>,
    /// Writes everything to the disk before the transfer counts as verified.
    pub sync: bool,
    /// Lets senders delete files of the directory that they do not have (`send --delete`).
    pub allow_delete: bool,
    /// Part of archives that is accepted (`send --archive`).
    pub allow_archive: Accepted,
}

impl Default for ReceiveOptions {
    fn default() -> Self {
        ReceiveOptions {
            timeout: Duration::from_secs(5),
            keep_seeking: false,
            from: BTreeSet::new(),
            files: FileOptions::default(),
            attached: Vec::new(),
            helps: false,
            monitor: None,
            trust: Trust::default(),
            jobs: BTreeSet::new(),
            one_way: false,
            returning: None,
            process: None,
            done: DoneJobs::default(),
        }
    }
}

impl End<ToReceive> {
    /// Receives in this thread and returns the report.
    pub fn run(self) -> Result<ReceiveReport, Error> {
        self.go(&AbortSignal::default(), &EventSink::silent())
    }

    /// Receives in a thread of its own.
    #[must_use]
    pub fn start(mut self) -> Handle<ReceiveEvent, ReceiveReport> {
        self.what.options.files.tell = true;
        spawn("carillon-receive", move |abort, teller| self.go(abort, teller))
    }

    fn go(self, abort: &AbortSignal, teller: &EventSink<ReceiveEvent>) -> Result<ReceiveReport, Error> {
        let End { network, what: ToReceive { place, overwrite, in_place, options } } = self;
        let sink = match place {
            Place::Directory(path) => {
                let mut target = Target::directory(&path, overwrite)?;
                if in_place {
                    target.change_in_place();
                }
                Sink::Files(target)
            }
            Place::Device(path) => Sink::Files(Target::device(&path)?),
            Place::Writer(writer) => Sink::Files(Target::Output(Output::new("the writer", writer))),
            Place::Messages(to) => Sink::Live(Live::new(to)),
        };
        let Bound { endpoint, seeds, .. } = network.open(true, 1, None)?;
        Session { network, options, endpoint, seeds }.run(sink, &[abort], teller).0
    }
}

/// A session of a receiver, with everything it owns.
pub(crate) struct Session {
    pub network: Network,
    pub options: ReceiveOptions,
    pub endpoint: Endpoint,
    pub seeds: Seeds,
}

impl Session {
    /// Runs the session until its end or until the caller stops it. Returns the sockets unless the network failed.
    pub fn run(
        self,
        sink: Sink,
        aborts: &[&AbortSignal],
        teller: &EventSink<ReceiveEvent>,
    ) -> (Result<ReceiveReport, Error>, Option<Endpoint>) {
        match self.receive(sink, aborts, teller) {
            Ok((result, endpoint)) => (result, Some(endpoint)),
            Err(error) => (Err(error), None),
        }
    }

    fn receive(
        self,
        mut sink: Sink,
        aborts: &[&AbortSignal],
        teller: &EventSink<ReceiveEvent>,
    ) -> Result<(Result<ReceiveReport, Error>, Endpoint), Error> {
        let Session { network, mut options, mut endpoint, mut seeds } = self;
        options.process = Some(options.process.map_or_else(random, Ok)?);
        let (mut name, mut second) = (network.name(), network.second_name());
        let aborted = || aborts.iter().any(|abort| abort.is_requested());
        let mut follower = Follower::new(&network);
        loop {
            let mut run = options.open(&name, endpoint, &seeds, sink, NoObserver)?;
            aborts.iter().for_each(|abort| abort.set_waker(run.driver().endpoint().waker()));
            let mut moved = false;
            run_to_end_within(&mut run, CHECK_INTERVAL, |run| -> Result<_, Error> {
                run.take_events().into_iter().for_each(|event| teller.tell(event));
                if teller.is_due() && *run.phase() == ReceiverPhase::Running {
                    teller.send_if_room(run.progress());
                }
                let in_session = run.driver().machine().association().is_some();
                moved |= match follower.look(run.driver_mut().endpoint_mut(), in_session) {
                    None | Some(NetworkChange::Absent(_)) => false,
                    Some(NetworkChange::Present) => !in_session,
                    Some(NetworkChange::Moved) => true,
                };
                Ok(match (aborted(), moved) {
                    (true, _) => RunControl::Quit("the receiver was aborted"),
                    (false, true) if in_session => {
                        RunControl::Quit("the address of this receiver has changed")
                    }
                    (false, true) => RunControl::Drop,
                    (false, false) => RunControl::Continue,
                })
            })?;
            run.take_events().into_iter().for_each(|event| teller.tell(event));
            let later = (run.is_served_later() || moved && !run.is_over()) && !aborted();
            options.returning = run.returning();
            options.done = run.done_jobs();
            let other = second.take().filter(|_| run.name_is_taken() && !aborted());
            match other.or_else(|| later.then(|| name.clone())) {
                None => {
                    let result = match run.take_outcome() {
                        Err(Problem::Local(error)) => Err(error.into()),
                        Err(problem) => Ok(run.report(Err(problem.to_string()))),
                        Ok(()) => Ok(run.report(Ok(()))),
                    };
                    return Ok((result, run.into_parts().0));
                }
                Some(other) => {
                    name = other;
                    let there;
                    (endpoint, _, there) = run.into_parts();
                    sink = there
                        .ok_or_else(|| Error::Died("the writer of the received data has ended".to_owned()))?;
                    seeds = seeds.part("next");
                }
            }
        }
    }
}

impl ReceiveOptions {
    /// A receiver of this name that is ready to run, observed.
    pub fn open<O: Observer>(
        &self,
        name: &str,
        endpoint: Endpoint,
        seeds: &Seeds,
        mut sink: Sink,
        observer: O,
    ) -> Result<ReceiveRun<O>, Error> {
        if self.one_way && endpoint.seal_bytes() > 0 {
            return Err(Error::SealedOneWay);
        }
        let part = if self.helps { MemberRole::ReceivesAndHelps } else { MemberRole::Receives };
        let mut config = participant::config(name, part, REGISTRY, &endpoint)?;
        config.silence = self.timeout;
        config.keep_seeking = self.keep_seeking;
        config.from.clone_from(&self.from);
        config.jobs.clone_from(&self.jobs);
        config.silent = self.one_way;
        config.returning = self.returning.clone();
        let process = self.process.map_or_else(random, Ok)?;
        (config.origin.process, config.origin.place) = (Some(process), sink.place(process));
        config.origin.done = self.done.clone();
        let reached = sink.reached(!self.trust.keys.is_empty());
        let job = reached.filter(|_| self.returning.is_some() && matches!(sink, Sink::Live(_)));
        config.origin.continues =
            job.map(|point| JobId(point.transfer)).filter(|job| *job != JobId::default());
        config.list = sink.list().filter(|_| !self.one_way);
        sink.permit_deleting(self.files.allow_delete);
        sink.accept_archives(self.files.allow_archive);
        sink.sync_at_end(self.files.sync);
        let is_directory = matches!(sink, Sink::Files(Target::Directory(_)));
        let deletes = self.files.allow_delete && is_directory;
        let archives = self.files.allow_archive != Accepted::Nothing && is_directory;
        config.demands = vec![
            Demand { name: DELETE_DEMAND, refusal: (!deletes).then_some(NO_DELETING) },
            Demand { name: ARCHIVE_DEMAND, refusal: (!archives).then_some(NO_ARCHIVES) },
        ];
        config.origin.resumes = reached.is_some();
        config.attached = attached(reached, &self.attached)?;
        let is_live = matches!(sink, Sink::Live(_));
        // Where only signed data is accepted, unsigned data is not written.
        config.overhears = matches!(sink, Sink::Files(Target::Directory(_))) && self.trust.keys.is_empty();
        let group = endpoint.group();
        let mut incoming = Incoming::new(sink, endpoint.waker());
        self.trust.check()?;
        incoming = incoming.trust(self.trust.clone(), group).finishing(self.files.finish.clone());
        if self.files.tell {
            incoming = incoming.keep_completed();
        }
        let publisher = Publisher::new(&self.monitor, "receiver", name);
        let mut participant =
            Participant::new(config, endpoint, seeds, incoming, observer).published(publisher);
        if !is_live {
            participant.driver = participant.driver.gathering();
        }
        Ok(ReceiveRun {
            participant,
            roll: RosterWatch::default(),
            events: Vec::new(),
            goes_on: reached.is_some() && !is_live,
        })
    }
}

/// A running receiver, for [`run_to_end`](crate::run_loop::run_to_end).
pub struct ReceiveRun<O: Observer> {
    participant: Participant<Incoming, O>,
    roll: RosterWatch,
    events: Vec<ReceiveEvent>,
    /// True if an earlier attempt left data here.
    goes_on: bool,
}

impl<O: Observer> Run for ReceiveRun<O> {
    run_by_participant!();

    fn max_wait(&self) -> Duration {
        self.participant.max_wait()
    }

    fn update(&mut self) {
        let told = self.participant.update();
        if let Some((sender, member)) = self.participant.newly_joined() {
            self.events.push(ReceiveEvent::Joined { sender, member });
        }
        let members = if told { self.participant.served() } else { Vec::new() };
        if !members.is_empty() {
            self.events.push(ReceiveEvent::Serving { members });
        }
        let session = self.participant.driver.machine();
        self.events.extend(self.roll.members(session).map(|names| ReceiveEvent::Members { names }));
        let gone = self.roll.gone(session).into_iter();
        self.events.extend(gone.map(|(name, reason)| ReceiveEvent::Gone { name, reason }));
        if self.participant.driver.application().has_completed() {
            let files = self.participant.driver.application_mut().take_completed();
            self.events.extend(files.into_iter().map(|(sender, file)| ReceiveEvent::File {
                sender,
                path: path(&file.name),
                bytes: file.bytes,
                digest: *file.digest.as_bytes(),
            }));
        }
        self.participant.publish(complete);
    }
}

impl<O: Observer> ReceiveRun<O> {
    /// Returns the events since the last call.
    pub fn take_events(&mut self) -> Vec<ReceiveEvent> {
        std::mem::take(&mut self.events)
    }

    /// Returns true if an earlier attempt left data here. Both ends check that data first, which may delay new data.
    pub fn goes_on(&self) -> bool {
        self.goes_on
    }

    /// Phase of the session.
    pub fn phase(&self) -> &ReceiverPhase {
        &self.participant.phase
    }

    /// The driver.
    pub fn driver(&self) -> &Driver<ReceiverSession, Incoming, Tally<O>> {
        &self.participant.driver
    }

    /// The driver, to be observed or traced.
    pub fn driver_mut(&mut self) -> &mut Driver<ReceiverSession, Incoming, Tally<O>> {
        &mut self.participant.driver
    }

    /// The sockets, the observer and the destination, for the next transfer; `None` if a writer panicked.
    pub fn into_parts(self) -> (Endpoint, O, Option<Sink>) {
        let (endpoint, _, incoming, observer) = self.participant.driver.into_parts();
        (endpoint, observer.inner, incoming.into_sink())
    }

    /// Returns true if it failed because another member has its name.
    pub fn name_is_taken(&self) -> bool {
        self.participant.name_is_taken()
    }

    /// Returns true if it failed and a catch-up session of the sender may continue. Data written to a single output
    /// cannot be taken back.
    pub fn is_served_later(&self) -> bool {
        let later = ReceiverFailure::Refused(RefuseReason::Later, String::new());
        let is_later = self.participant.phase == ReceiverPhase::Failed(later) || self.returning().is_some();
        let incoming = self.participant.driver.application();
        if incoming.is_live() {
            return self.returning().is_some();
        }
        is_later && (incoming.can_repeat() || incoming.bytes() == 0)
    }

    /// Returns true if another session continues the live stream.
    pub fn is_continued(&self) -> bool {
        self.participant.driver.application().is_continued()
    }

    /// Reason why this session ended for it, if it was a member and may return in another session.
    pub fn returning(&self) -> Option<ReceiverFailure> {
        if let Some(reason) = self.participant.driver.application().damage() {
            return Some(ReceiverFailure::Damaged(reason.to_owned()));
        }
        let later = ReceiverFailure::Refused(RefuseReason::Later, String::new());
        if self.participant.driver.application().is_live() {
            // A stream that was interrupted is incomplete unless its sender goes on soon.
            let is_left = self.participant.driver.machine().is_left_for_other_job();
            let is_told = self.participant.phase == ReceiverPhase::Failed(later) && !is_left;
            let goes_on = self.is_continued() || is_told;
            return goes_on.then_some(ReceiverFailure::SenderSilent);
        }
        let got_on = self.participant.driver.application().bytes() > 0;
        let expelled = self.participant.phase == ReceiverPhase::Failed(ReceiverFailure::Expelled);
        (got_on && expelled).then_some(ReceiverFailure::Expelled)
    }

    /// Jobs in which this receiver was verified, for its next session.
    pub fn done_jobs(&self) -> DoneJobs {
        self.participant.driver.machine().done_jobs().clone()
    }

    /// Progress as an event.
    pub fn progress(&self) -> ReceiveEvent {
        let incoming = self.participant.driver.application();
        ReceiveEvent::Progress { bytes: incoming.bytes(), total: incoming.total() }
    }

    /// Result of the received data, or of the session if the data says none. Call once.
    pub fn take_outcome(&mut self) -> Result<(), Problem> {
        if self.is_continued() {
            return Err(Problem::Transfer(STREAM_GOES_ON.to_owned()));
        }
        let incomplete = || match &self.participant.phase {
            ReceiverPhase::Failed(_) => self.participant.outcome().err(),
            _ => None,
        };
        let incomplete = incomplete().unwrap_or_else(|| "the transfer is incomplete".to_owned());
        let result = self.participant.driver.application_mut().take_result();
        result.unwrap_or(Err(Problem::Transfer(incomplete)))
    }

    /// Report with this outcome.
    pub fn report(&self, outcome: Result<(), String>) -> ReceiveReport {
        let (session, incoming) = (self.participant.driver.machine(), self.participant.driver.application());
        let (messages, first, missed) = match incoming.sink() {
            Some(Sink::Live(live)) => (live.messages(), live.first(), live.missed()),
            _ => (0, 0, 0),
        };
        let senders = incoming.senders().map(|sender| SenderReport {
            name: sender.name.clone(),
            files: sender.files,
            bytes: sender.bytes,
            outcome: sender.result.clone(),
            signature: sender.signature,
        });
        ReceiveReport {
            sender: session.sender_name().map(ToOwned::to_owned),
            outcome,
            acknowledged: session.report_acknowledged(),
            files: incoming.files(),
            bytes: incoming.bytes(),
            resumed: incoming.resumed(),
            copied: incoming.copied(),
            deleted: incoming.deleted().map(|deleted| Deleted::new(deleted.count, &deleted.names)),
            time: Duration::from_secs_f64(incoming.seconds()),
            messages,
            first,
            missed,
            senders: senders.collect(),
            unstored: incoming.unstored().iter().map(|one| (path(&one.name), one.reason.clone())).collect(),
            losses: incoming.losses().cloned().collect(),
            partly_changed: incoming.partly_changed().iter().map(|name| path(name)).collect(),
            lost: self.participant.lost(),
            served: self.participant.served(),
            repairs: self.participant.driver.observer().repairs,
            datagrams_received: self.participant.driver.stats().datagrams_received,
        }
    }
}

/// Adds the receiver's own fields to a snapshot.
fn complete<O: Observer>(
    participant: &Participant<Incoming, O>,
    now: Time,
    publisher: &mut Publisher,
    snapshot: &mut Snapshot,
) {
    let (session, incoming) = (participant.driver.machine(), participant.driver.application());
    let sender = |sender: &SenderState| {
        let state = match &sender.result {
            None => "sending",
            Some(Ok(())) => "verified",
            Some(Err(_)) => "failed",
        };
        let mut view = SenderView::new(sender.name.clone(), state);
        (view.bytes, view.files) = (sender.bytes, sender.files.into());
        view
    };
    snapshot.senders = incoming.senders().map(sender).collect();
    snapshot.amounts.size = incoming.total();
    snapshot.serves = session.has_tree().then(|| participant.served());
    publisher.progress(now, snapshot, incoming.bytes(), participant.phase == ReceiverPhase::Running);
    // A receiver that found no session has not failed, and one with a taken name tries again.
    let failed = participant.is_over() && session.association().is_some() && !participant.name_is_taken();
    let ended = incoming.has_succeeded().or(failed.then_some(false)).filter(|_| participant.is_over());
    // A part of a stream is no transfer.
    let ended = ended.filter(|_| !incoming.is_continued());
    publisher.completed(snapshot, (!incoming.is_live()).then(|| incoming.files().into()), ended);
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Directory(path) => f.debug_tuple("Directory").field(path).finish(),
            Place::Device(path) => f.debug_tuple("Device").field(path).finish(),
            Place::Writer(_) => f.write_str("Writer"),
            Place::Messages(_) => f.write_str("Messages"),
        }
    }
}

/// Reason of a receiver that ended while its stream was interrupted.
pub const STREAM_GOES_ON: &str = "the stream goes on without this receiver";
/// Reason for declining a sender that wants to delete files.
const NO_DELETING: &str = "this receiver lets no sender delete files (recv --allow-delete)";
/// Reason for declining the sender of an archive.
const NO_ARCHIVES: &str = "this receiver accepts no archives (recv --allow-archive)";

fn path(name: &[u8]) -> PathBuf {
    OsStr::from_bytes(name).into()
}
