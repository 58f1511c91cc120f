//! A further sender, in a session that another one organises.

use std::io::Read;
use std::path::PathBuf;

use carillon_core::{BitRate, Duration, NoObserver, Observer, Seeds, Time};
use carillon_net::{DriveError, Driver, Endpoint, GROUP};
use carillon_proto::REGISTRY;
use carillon_proto::session::{
    LOCAL_NODE, ReceiverFailure, ReceiverPhase, ReceiverSession, ReceiverSessionConfig,
};

use crate::conduct::{Run, conduct};
use crate::end::End;
use crate::files::{Contribution, Manifest, Outgoing, Symlinks};
use crate::handle::{Abort, Handle, Teller, spawn};
use crate::network::{attached, random};
use crate::peers::{keep_peers, lost};
use crate::receive::is_taken;
use crate::send::Source;
use crate::{Error, JoinEvent, JoinReport, LocalError};

/// Sends files and directories in a session that another one organises, of a protocol of peers.
pub fn join<P: Into<PathBuf>>(paths: impl IntoIterator<Item = P>) -> Joining {
    End::new(ToJoin::new(Source::Paths(paths.into_iter().map(Into::into).collect())))
}

/// Likewise, what a reader gives, as one file of this name.
pub fn join_reader(name: &str, reader: impl Read + Send + 'static) -> Joining {
    End::new(ToJoin::new(Source::Reader(name.to_owned(), Box::new(reader))))
}

/// Likewise, each line that a reader gives at once, as a message of its own.
pub fn join_lines(reader: impl Read + Send + 'static) -> Joining {
    End::new(ToJoin::new(Source::Lines(Box::new(reader))))
}

/// A further sender before it begins. Made by [`join`], [`join_reader`] and [`join_lines`].
pub type Joining = End<ToJoin>;

/// What a further sender sends, and how.
#[derive(Debug)]
pub struct ToJoin {
    source: Source,
    rename: Option<String>,
    symlinks: Symlinks,
    hops: u8,
    options: JoinOptions,
}

impl ToJoin {
    fn new(source: Source) -> Self {
        let (symlinks, options) = (Symlinks::default(), JoinOptions::default());
        ToJoin { source, rename: None, symlinks, hops: 1, options }
    }
}

/// How a further sender takes part: what can be said apart from what and where.
#[derive(Clone, Debug)]
pub struct JoinOptions {
    /// It looks for an organiser for this long.
    pub join_timeout: Duration,
    /// An organiser that is not heard for this long is given up.
    pub timeout: Duration,
    /// It sends at most this fast, headers included.
    pub rate: Option<BitRate>,
    /// What the organiser's program is told with the name, 256 bytes at most.
    pub attached: Vec<u8>,
}

impl Default for JoinOptions {
    fn default() -> Self {
        JoinOptions {
            join_timeout: Duration::from_secs(60),
            timeout: Duration::from_secs(5),
            rate: None,
            attached: Vec::new(),
        }
    }
}

impl End<ToJoin> {
    /// Router hops that datagrams may travel: 1, the default, stays on this network.
    #[must_use]
    pub fn hops(mut self, hops: u8) -> Self {
        self.what.hops = hops;
        self
    }

    /// Gives up when no organiser was found within this time; a minute if nothing is said.
    #[must_use]
    pub fn join_timeout(mut self, time: Duration) -> Self {
        self.what.options.join_timeout = time;
        self
    }

    /// Gives the organiser up when it has not been heard for this long; five seconds if nothing is said.
    #[must_use]
    pub fn timeout(mut self, time: Duration) -> Self {
        self.what.options.timeout = time;
        self
    }

    /// Sends at most this fast, headers included.
    #[must_use]
    pub fn rate(mut self, rate: BitRate) -> Self {
        self.what.options.rate = Some(rate);
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

    /// Has the organiser's program told this with the name, as [`SendEvent::Joined`](crate::SendEvent::Joined): at
    /// most 256 bytes.
    #[must_use]
    pub fn attach(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.what.options.attached = bytes.into();
        self
    }

    /// Sends, in this thread, and says what became of it.
    pub fn run(self) -> Result<JoinReport, Error> {
        self.go(&Abort::default(), &Teller::silent())
    }

    /// Sends in a thread of its own.
    #[must_use]
    pub fn start(self) -> Handle<JoinEvent, JoinReport> {
        spawn("carillon-join", move |abort, teller| self.go(abort, teller))
    }

    fn go(self, abort: &Abort, teller: &Teller<JoinEvent>) -> Result<JoinReport, Error> {
        let End { network, what: ToJoin { source, rename, symlinks, hops, options } } = self;
        let (manifest, stream) = source.list(rename.as_deref(), symlinks)?;
        let bound = network.open(true, hops, options.rate)?;
        let (mut endpoint, mut seeds, mut name) = (bound.endpoint, bound.seeds, network.name());
        let mut second = network.second_name();
        let mut contribution = Contribution::new(manifest, stream, endpoint.waker());
        loop {
            let mut run = options.open(&name, endpoint, &seeds, contribution, NoObserver)?;
            let mut announced = false;
            conduct(&mut run, |run| -> Result<_, Error> {
                let session = run.driver.machine();
                if let (false, Some(organiser), Some(member)) =
                    (announced, session.sender_name(), session.member_number())
                {
                    announced = true;
                    teller.tell(JoinEvent::Joined { organiser: organiser.to_owned(), member });
                }
                if teller.is_due() {
                    teller.tell_if_room(JoinEvent::Progress { bytes: run.bytes() });
                }
                Ok(abort.wish("aborted"))
            })?;
            match second.take().filter(|_| run.name_is_taken() && !abort.is_wished()) {
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
                    let manifest =
                        begun.ok_or_else(|| Error::Died("the session has changed its mind".to_owned()))?;
                    contribution = Contribution::new(manifest, stream, endpoint.waker());
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
        let mut config = ReceiverSessionConfig::new(name, GROUP, REGISTRY);
        config.silence = self.timeout;
        config.receive_buffer = u32::try_from(endpoint.receive_buffer()).unwrap_or(u32::MAX);
        config.max_datagram = u32::try_from(endpoint.max_datagram()).unwrap_or(u32::MAX);
        config.offers = true;
        config.bit_rate = self.rate.unwrap_or(config.bit_rate);
        config.attached = attached(&self.attached)?;
        config.secret = Some(random()?);
        config.addresses = endpoint.addresses(LOCAL_NODE);
        let session = ReceiverSession::new(config, seeds.clone());
        let driver = Driver::new(endpoint, Box::new(session), contribution, observer);
        let (phase, join_timeout) = (ReceiverPhase::Seeking, self.join_timeout);
        Ok(JoinRun { driver, join_timeout, phase, kept: false })
    }
}

/// A further sender under way, for [`conduct`](crate::conduct::conduct).
pub struct JoinRun<O: Observer> {
    driver: Driver<ReceiverSession, Contribution, O>,
    join_timeout: Duration,
    /// As of the last look.
    phase: ReceiverPhase,
    /// Whether the endpoint was told to keep the addresses of the other members.
    kept: bool,
}

impl<O: Observer> Run for JoinRun<O> {
    fn step(&mut self, wait: Duration) -> Result<(), DriveError> {
        self.driver.step(wait)
    }

    fn look(&mut self) {
        self.phase = self.driver.machine().phase();
        let now = self.driver.now();
        if self.phase == ReceiverPhase::Seeking && now.since(Time::ZERO) >= self.join_timeout {
            self.quit(NOBODY);
        }
        if !self.kept && !self.driver.machine().roster().is_empty() {
            self.kept = true;
            keep_peers(&mut self.driver);
        }
    }

    fn is_over(&self) -> bool {
        matches!(self.phase, ReceiverPhase::Finished | ReceiverPhase::Failed(_))
    }

    /// The organiser may still have to be told.
    fn has_last_words(&self) -> bool {
        matches!(self.phase, ReceiverPhase::Failed(_))
    }

    fn quit(&mut self, reason: &str) {
        let now = self.driver.now();
        self.driver.machine_mut().leave(now, reason);
        self.phase = self.driver.machine().phase();
    }
}

impl<O: Observer> JoinRun<O> {
    /// How far the session is.
    pub fn phase(&self) -> &ReceiverPhase {
        &self.phase
    }

    /// The driver.
    pub fn driver(&self) -> &Driver<ReceiverSession, Contribution, O> {
        &self.driver
    }

    /// The driver, to be observed or traced.
    pub fn driver_mut(&mut self) -> &mut Driver<ReceiverSession, Contribution, O> {
        &mut self.driver
    }

    /// What went wrong with what is sent, once.
    pub fn take_error(&mut self) -> Option<LocalError> {
        self.driver.application_mut().take_error()
    }

    /// The sockets, the observer, and what was to be sent, if nothing of it was.
    pub fn into_parts(self) -> (Endpoint, O, Option<Manifest>) {
        let (endpoint, _, contribution, observer) = self.driver.into_parts();
        (endpoint, observer, contribution.into_manifest())
    }

    /// Whether it has failed because another member has its name.
    pub fn name_is_taken(&self) -> bool {
        is_taken(&self.phase)
    }

    /// Whether nobody organised.
    pub fn found_nobody(&self) -> bool {
        matches!(&self.phase, ReceiverPhase::Failed(ReceiverFailure::Left(why)) if why == NOBODY)
    }

    /// What has become of it so far.
    pub fn report(&self) -> JoinReport {
        let (session, contribution) = (self.driver.machine(), self.driver.application());
        let withdrawn = contribution.outgoing().map_or(&[][..], Outgoing::withdrawn);
        let outcome = match &self.phase {
            ReceiverPhase::Finished if withdrawn.is_empty() => Ok(()),
            ReceiverPhase::Finished => Err(format!("not delivered: {}", withdrawn.join(", "))),
            ReceiverPhase::Failed(ReceiverFailure::Left(reason)) => Err(reason.clone()),
            ReceiverPhase::Failed(failure) => Err(failure.to_string()),
            _ => Err("the session is not over".to_owned()),
        };
        let stats = self.driver.stats();
        JoinReport {
            organiser: session.sender_name().map(ToOwned::to_owned),
            outcome,
            acknowledged: session.report_acknowledged(),
            bytes: self.bytes(),
            time: Duration::from_secs_f64(contribution.seconds()),
            lost: lost(session),
            datagrams_sent: stats.datagrams_sent,
            bytes_sent: stats.bytes_sent,
        }
    }

    /// Bytes of files given to the protocol.
    pub fn bytes(&self) -> u64 {
        self.driver.application().outgoing().map_or(0, Outgoing::bytes)
    }
}

/// Why it leaves if there is no session.
const NOBODY: &str = "no session";
