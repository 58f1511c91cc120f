//! A further sender: it joins a session that another end organises.

use std::ffi::OsString;
use std::io::Read;
use std::path::PathBuf;

use carillon_core::{BitRate, Duration, Observer, Seeds, Time};
use carillon_monitor::Monitor;
use carillon_net::{Driver, Endpoint};
use carillon_proto::REGISTRY;
use carillon_session::{MemberRole, ReceiverFailure, ReceiverPhase, ReceiverSession};

use crate::end::End;
use crate::files::{Contribution, Manifest, Outgoing, Selection, Symlinks};
use crate::handle::{AbortSignal, EventSink, Handle, spawn};
use crate::network::attached;
use crate::participant::{self, Participant, run_by_participant};
use crate::publisher::Publisher;
use crate::roster::RosterWatch;
use crate::run_loop::{Run, UNLIMITED_STEP, run_to_end_within};
use crate::send::{Acknowledged, Source};
use crate::tally::Tally;
use crate::{Error, JoinEvent, JoinReport, LocalError};

/// Sends files and directories in a session that another one organises, of a protocol of peers.
pub fn join<P: Into<PathBuf>>(paths: impl IntoIterator<Item = P>) -> Joining {
    End::new(ToJoin::new(Source::Paths(paths.into_iter().map(Into::into).collect())))
}

/// Sends what a reader yields as one file of this name, in a session that another end organises.
pub fn join_reader(name: &str, reader: impl Read + Send + 'static) -> Joining {
    End::new(ToJoin::new(Source::Reader(name.to_owned(), Box::new(reader))))
}

/// Sends each line that a reader yields as a message, in a session that another end organises.
pub fn join_lines(reader: impl Read + Send + 'static) -> Joining {
    End::new(ToJoin::new(Source::Lines(Box::new(reader))))
}

/// A further sender before it begins. Made by [`join`], [`join_reader`] and [`join_lines`].
pub type Joining = End<ToJoin>;

/// Contents and options of a further sender.
#[derive(Debug)]
pub struct ToJoin {
    source: Source,
    selection: Selection,
    hops: u8,
    options: JoinOptions,
}

impl ToJoin {
    fn new(source: Source) -> Self {
        ToJoin::with(source, 1, JoinOptions::default())
    }

    pub(crate) fn with(source: Source, hops: u8, options: JoinOptions) -> Self {
        ToJoin { source, selection: Selection::default(), hops, options }
    }
}

/// Options of a further sender, apart from contents and network.
#[derive(Clone, Debug)]
pub struct JoinOptions {
    /// Time to look for an organiser.
    pub join_timeout: Duration,
    /// Silence after which it abandons the organiser.
    pub timeout: Duration,
    /// Maximum send rate, headers included.
    pub rate: Option<BitRate>,
    /// Bytes that the organiser's program receives with the name, at most 256.
    pub attached: Vec<u8>,
    /// Receives snapshots of this sender's state.
    pub monitor: Option<Monitor>,
}

impl Default for JoinOptions {
    fn default() -> Self {
        JoinOptions {
            join_timeout: Duration::from_secs(60),
            timeout: Duration::from_secs(5),
            rate: None,
            attached: Vec::new(),
            monitor: None,
        }
    }
}

impl End<ToJoin> {
    /// Sets the hop limit of datagrams. Default: 1, the local network.
    #[must_use]
    pub fn hops(mut self, hops: u8) -> Self {
        self.what.hops = hops;
        self
    }

    /// Sets the time to look for an organiser, after which joining fails. Default: one minute.
    #[must_use]
    pub fn join_timeout(mut self, time: Duration) -> Self {
        self.what.options.join_timeout = time;
        self
    }

    /// Sets the silence after which it abandons the organiser. Default: 5 s.
    #[must_use]
    pub fn timeout(mut self, time: Duration) -> Self {
        self.what.options.timeout = time;
        self
    }

    /// Sets the maximum send rate, headers included.
    #[must_use]
    pub fn rate(mut self, rate: BitRate) -> Self {
        self.what.options.rate = Some(rate);
        self
    }

    /// Sends snapshots of this sender's state to this monitor, a few times a second.
    #[must_use]
    pub fn monitor(mut self, monitor: Monitor) -> Self {
        self.what.options.monitor = Some(monitor);
        self
    }

    /// Sets the name of the single file at the receivers.
    #[must_use]
    pub fn named(mut self, name: impl Into<OsString>) -> Self {
        self.what.selection.rename = Some(name.into());
        self
    }

    /// Sets the treatment of symbolic links in directories.
    #[must_use]
    pub fn symlinks(mut self, symlinks: Symlinks) -> Self {
        self.what.selection.symlinks = symlinks;
        self
    }

    /// Attaches at most 256 bytes that the organiser's program receives with the name, in
    /// [`SendEvent::Joined`](crate::SendEvent::Joined).
    #[must_use]
    pub fn attach(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.what.options.attached = bytes.into();
        self
    }

    /// Sends in this thread and returns the report.
    pub fn run(self) -> Result<JoinReport, Error> {
        self.go(&AbortSignal::default(), &EventSink::silent())
    }

    /// Sends in a thread of its own.
    #[must_use]
    pub fn start(self) -> Handle<JoinEvent, JoinReport> {
        spawn("carillon-join", move |abort, teller| self.go(abort, teller))
    }

    fn go(self, abort: &AbortSignal, teller: &EventSink<JoinEvent>) -> Result<JoinReport, Error> {
        let End { network, what: ToJoin { source, selection, hops, options } } = self;
        let feed = source.feed();
        let (manifest, stream) = source.list(&selection)?;
        let bound = network.open(true, hops, options.rate)?;
        let (mut endpoint, mut seeds, mut name) = (bound.endpoint, bound.seeds, network.name());
        let mut second = network.second_name();
        let mut contribution = Contribution::new(manifest, stream, endpoint.group(), endpoint.waker());
        loop {
            let mut run = options.open(&name, endpoint, &seeds, contribution, Acknowledged(feed.clone()))?;
            abort.set_waker(run.driver().endpoint().waker());
            let mut roll = RosterWatch::default();
            run_to_end_within(&mut run, UNLIMITED_STEP, |run| -> Result<_, Error> {
                if let Some((organiser, member)) = run.participant.newly_joined() {
                    teller.tell(JoinEvent::Joined { organiser, member });
                }
                if *run.phase() == ReceiverPhase::Running {
                    let session = run.driver().machine();
                    let members = roll.members(session).into_iter();
                    members.for_each(|members| teller.tell(JoinEvent::Started { members }));
                    let gone = roll.gone(session).into_iter();
                    gone.for_each(|(name, reason)| teller.tell(JoinEvent::Gone { name, reason }));
                }
                if teller.is_due() {
                    teller.send_if_room(JoinEvent::Progress { bytes: run.bytes() });
                }
                Ok(abort.wish("aborted"))
            })?;
            match second.take().filter(|_| run.name_is_taken() && !abort.is_requested()) {
                None => {
                    return match run.take_error() {
                        Some(error) => Err(error.into()),
                        None => Ok(run.report()),
                    };
                }
                Some(other) => {
                    name = other;
                    let begun;
                    (endpoint, _, begun) = run.into_parts();
                    let manifest = begun.ok_or_else(|| {
                        Error::Died("the session ended while it was being joined".to_owned())
                    })?;
                    contribution = Contribution::new(manifest, stream, endpoint.group(), endpoint.waker());
                    seeds = seeds.part("again");
                }
            }
        }
    }
}

impl JoinOptions {
    /// A further sender of this name that is ready to run, observed.
    pub fn open<O: Observer>(
        &self,
        name: &str,
        endpoint: Endpoint,
        seeds: &Seeds,
        contribution: Contribution,
        observer: O,
    ) -> Result<JoinRun<O>, Error> {
        let mut config = participant::config(name, MemberRole::Offers, REGISTRY, &endpoint)?;
        config.silence = self.timeout;
        config.network.bit_rate = self.rate.unwrap_or(config.network.bit_rate);
        config.attached = attached(None, &self.attached)?;
        let publisher = Publisher::new(&self.monitor, "joined_sender", name);
        let participant =
            Participant::new(config, endpoint, seeds, contribution, observer).published(publisher);
        Ok(JoinRun { participant, join_timeout: self.join_timeout })
    }
}

/// A running further sender, for [`run_to_end`](crate::run_loop::run_to_end).
pub struct JoinRun<O: Observer> {
    participant: Participant<Contribution, O>,
    join_timeout: Duration,
}

impl<O: Observer> Run for JoinRun<O> {
    run_by_participant!();

    /// Limits steps while an organiser is being searched for.
    fn max_wait(&self) -> Duration {
        match self.phase() {
            ReceiverPhase::Seeking => {
                self.join_timeout.saturating_sub(self.participant.driver.now().since(Time::ZERO))
            }
            _ => Duration::MAX,
        }
        .min(self.participant.max_wait())
    }

    fn update(&mut self) {
        self.participant.update();
        let (now, phase) = (self.participant.driver.now(), self.phase());
        if *phase == ReceiverPhase::Seeking && now.since(Time::ZERO) >= self.join_timeout {
            self.quit(NO_SESSION);
        }
        self.participant.publish(|participant, now, publisher, snapshot| {
            let outgoing = participant.driver.application().outgoing();
            snapshot.amounts.size = outgoing.and_then(|outgoing| outgoing.manifest().bytes());
            let is_running = participant.phase == ReceiverPhase::Running;
            publisher.progress(now, snapshot, outgoing.map_or(0, Outgoing::bytes), is_running);
        });
    }
}

impl<O: Observer> JoinRun<O> {
    /// Phase of the session.
    pub fn phase(&self) -> &ReceiverPhase {
        &self.participant.phase
    }

    /// The driver.
    pub fn driver(&self) -> &Driver<ReceiverSession, Contribution, Tally<O>> {
        &self.participant.driver
    }

    /// The driver, to be observed or traced.
    pub fn driver_mut(&mut self) -> &mut Driver<ReceiverSession, Contribution, Tally<O>> {
        &mut self.participant.driver
    }

    /// Returns the error of the contents, once.
    pub fn take_error(&mut self) -> Option<LocalError> {
        self.participant.driver.application_mut().take_error()
    }

    /// The sockets, the observer, and the manifest if none of it was sent.
    pub fn into_parts(self) -> (Endpoint, O, Option<Manifest>) {
        let (endpoint, _, contribution, observer) = self.participant.driver.into_parts();
        (endpoint, observer.inner, contribution.into_manifest())
    }

    /// Returns true if it failed because another member has its name.
    pub fn name_is_taken(&self) -> bool {
        self.participant.name_is_taken()
    }

    /// Returns true if no organiser was found.
    pub fn found_no_session(&self) -> bool {
        matches!(&self.participant.phase, ReceiverPhase::Failed(ReceiverFailure::Left(why)) if why == NO_SESSION)
    }

    /// Result so far.
    pub fn report(&self) -> JoinReport {
        let (session, contribution) =
            (self.participant.driver.machine(), self.participant.driver.application());
        let withdrawn = contribution.outgoing().map_or(&[][..], Outgoing::withdrawn);
        let outcome = match self.participant.outcome() {
            Ok(()) if !withdrawn.is_empty() => Err(format!("not delivered: {}", withdrawn.join(", "))),
            outcome => outcome,
        };
        let stats = self.participant.driver.stats();
        JoinReport {
            organiser: session.sender_name().map(ToOwned::to_owned),
            outcome,
            acknowledged: session.report_acknowledged(),
            bytes: self.bytes(),
            time: Duration::from_secs_f64(contribution.seconds()),
            lost: self.participant.lost(),
            datagrams_sent: stats.datagrams_sent,
            bytes_sent: stats.bytes_sent,
        }
    }

    /// Bytes of files given to the protocol.
    pub fn bytes(&self) -> u64 {
        self.participant.driver.application().outgoing().map_or(0, Outgoing::bytes)
    }
}

/// Reason for leaving when there is no session.
const NO_SESSION: &str = "no session";
