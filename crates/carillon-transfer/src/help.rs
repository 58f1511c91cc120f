//! A helper: it keeps what is sent, and repairs for those who turn to it.

use carillon_core::{
    Application, Bytes, Dest, Duration, Event, NoObserver, Observer, ProtocolEntry, Role, Seeds, Time,
    TraceEvent,
};
use carillon_net::{DriveError, Driver, Endpoint, GROUP};
use carillon_proto::REGISTRY;
use carillon_proto::session::{
    LOCAL_NODE, ReceiverFailure, ReceiverPhase, ReceiverSession, ReceiverSessionConfig,
};

use crate::conduct::{Run, conduct};
use crate::end::End;
use crate::handle::{Abort, Handle, Teller, spawn};
use crate::network::random;
use crate::peers::keep_peers;
use crate::receive::is_taken;
use crate::{Error, HelpEvent, HelpReport};

/// Helps in one transfer of this protocol, whose sender lets it ([`End::helpers`]): a designated receiver, a local
/// exchange, an inner node of a tree.
pub fn help(protocol: impl Into<String>) -> Helping {
    End::new(ToHelp { options: HelpOptions { protocol: protocol.into(), ..HelpOptions::default() } })
}

/// A helper before it begins. Made by [`help`].
pub type Helping = End<ToHelp>;

/// How a helper helps.
#[derive(Debug)]
pub struct ToHelp {
    options: HelpOptions,
}

/// How a helper helps: what can be said apart from where.
#[derive(Clone, Debug)]
pub struct HelpOptions {
    /// The protocol, by its name in the registry.
    pub protocol: String,
    /// A sender that has not been heard for this long is given up.
    pub timeout: Duration,
    /// Sessions that it cannot be in are let pass, and it waits for the next one.
    pub keep_seeking: bool,
}

impl Default for HelpOptions {
    fn default() -> Self {
        HelpOptions { protocol: String::new(), timeout: Duration::from_secs(5), keep_seeking: true }
    }
}

impl End<ToHelp> {
    /// Gives the sender up when it has not been heard for this long; five seconds if nothing is said.
    #[must_use]
    pub fn timeout(mut self, time: Duration) -> Self {
        self.what.options.timeout = time;
        self
    }

    /// Helps, in this thread, until the transfer is over.
    pub fn run(self) -> Result<HelpReport, Error> {
        self.go(&Abort::default(), &Teller::silent())
    }

    /// Helps in a thread of its own.
    #[must_use]
    pub fn start(self) -> Handle<HelpEvent, HelpReport> {
        spawn("carillon-help", move |abort, teller| self.go(abort, teller))
    }

    fn go(self, abort: &Abort, teller: &Teller<HelpEvent>) -> Result<HelpReport, Error> {
        let End { network, what: ToHelp { options } } = self;
        let bound = network.open(true, 1, None)?;
        let (mut endpoint, mut name, mut second) = (bound.endpoint, network.name(), network.second_name());
        loop {
            let mut run = options.open(&name, endpoint, &bound.seeds, NoObserver)?;
            conduct(&mut run, |run| -> Result<_, Error> {
                run.take_events().into_iter().for_each(|event| teller.tell(event));
                Ok(abort.wish("the helper was aborted"))
            })?;
            match second.take().filter(|_| run.name_is_taken() && !abort.is_wished()) {
                None => return Ok(run.report()),
                Some(other) => (name, endpoint) = (other, run.into_parts().0),
            }
        }
    }
}

impl HelpOptions {
    /// The protocol: one that has helpers.
    pub fn entry(&self) -> Result<&'static ProtocolEntry, Error> {
        self.find().map(|entries| entries[0])
    }

    /// The one protocol of the registry that it knows.
    fn find(&self) -> Result<&'static [&'static ProtocolEntry], Error> {
        let helps = |entry: &ProtocolEntry| entry.roles.contains(&Role::Helper);
        let at = REGISTRY.iter().position(|entry| entry.name == self.protocol && helps(entry));
        at.map(|at| &REGISTRY[at..=at]).ok_or_else(|| {
            let known: Vec<_> =
                REGISTRY.iter().filter(|entry| helps(entry)).map(|entry| entry.name).collect();
            Error::NoHelpers { name: self.protocol.clone(), known: known.join(", ") }
        })
    }

    /// A helper of this name that is ready to run, observed.
    pub fn open<O: Observer>(
        &self,
        name: &str,
        endpoint: Endpoint,
        seeds: &Seeds,
        observer: O,
    ) -> Result<HelpRun<O>, Error> {
        let mut config = ReceiverSessionConfig::new(name, GROUP, self.find()?);
        config.silence = self.timeout;
        config.receive_buffer = u32::try_from(endpoint.receive_buffer()).unwrap_or(u32::MAX);
        config.max_datagram = u32::try_from(endpoint.max_datagram()).unwrap_or(u32::MAX);
        config.keep_seeking = self.keep_seeking;
        config.helps = true;
        config.secret = Some(random()?);
        config.addresses = endpoint.addresses(LOCAL_NODE);
        let session = ReceiverSession::new(config, seeds.clone());
        let driver = Driver::new(endpoint, Box::new(session), Nothing, Repairs { sent: 0, inner: observer });
        Ok(HelpRun {
            driver,
            phase: ReceiverPhase::Seeking,
            joined: false,
            serving: false,
            events: Vec::new(),
        })
    }
}

/// A helper has no application.
struct Nothing;

impl Application<ReceiverSession> for Nothing {
    fn poll(&mut self, _now: Time, _machine: &mut ReceiverSession) -> bool {
        false
    }
}

/// Counts repairs, and passes everything on.
struct Repairs<O> {
    sent: u64,
    inner: O,
}

impl<O: Observer> Observer for Repairs<O> {
    fn event(&mut self, event: &TraceEvent) {
        self.sent += u64::from(matches!(event.event, Event::Forwarded { repair: true, .. }));
        self.inner.event(event);
    }

    fn datagram(&mut self, time: Time, from: carillon_core::NodeId, to: &Dest, bytes: &Bytes) {
        self.inner.datagram(time, from, to, bytes);
    }
}

/// A helper under way, for [`conduct`](crate::conduct::conduct).
pub struct HelpRun<O: Observer> {
    driver: Driver<ReceiverSession, Nothing, Repairs<O>>,
    /// As of the last look.
    phase: ReceiverPhase,
    joined: bool,
    serving: bool,
    events: Vec<HelpEvent>,
}

impl<O: Observer> Run for HelpRun<O> {
    fn step(&mut self, wait: Duration) -> Result<(), DriveError> {
        self.driver.step(wait)
    }

    fn look(&mut self) {
        self.phase = self.driver.machine().phase();
        let session = self.driver.machine();
        if !self.joined
            && let (Some(sender), Some(_)) = (session.sender_name(), session.member_number())
        {
            self.joined = true;
            self.events.push(HelpEvent::Joined { sender: sender.to_owned() });
        }
        if !self.serving && !session.roster().is_empty() {
            self.serving = true;
            self.events.push(HelpEvent::Serving { members: self.served() });
            keep_peers(&mut self.driver);
        }
    }

    fn is_over(&self) -> bool {
        matches!(self.phase, ReceiverPhase::Finished | ReceiverPhase::Failed(_))
    }

    /// The sender may still have to be told.
    fn has_last_words(&self) -> bool {
        matches!(self.phase, ReceiverPhase::Failed(_))
    }

    fn quit(&mut self, reason: &str) {
        let now = self.driver.now();
        self.driver.machine_mut().leave(now, reason);
        self.phase = self.driver.machine().phase();
    }
}

impl<O: Observer> HelpRun<O> {
    /// What has happened since this was last asked.
    pub fn take_events(&mut self) -> Vec<HelpEvent> {
        std::mem::take(&mut self.events)
    }

    /// How far the session is.
    pub fn phase(&self) -> &ReceiverPhase {
        &self.phase
    }

    /// Whether it has failed because another member has its name.
    pub fn name_is_taken(&self) -> bool {
        is_taken(&self.phase)
    }

    /// Whether it has helped, or tried to: a sender has let it in.
    pub fn has_joined(&self) -> bool {
        self.joined
    }

    /// The sockets and the observer, for the next transfer.
    pub fn into_parts(self) -> (Endpoint, O) {
        let (endpoint, _, _, observer) = self.driver.into_parts();
        (endpoint, observer.inner)
    }

    /// Those who turn to it.
    fn served(&self) -> Vec<String> {
        self.driver.machine().children().iter().map(|member| member.name.clone()).collect()
    }

    /// What has become of it so far.
    pub fn report(&self) -> HelpReport {
        let (session, stats) = (self.driver.machine(), self.driver.stats());
        let lost = session.roster().iter().filter_map(|one| Some((one.name.clone(), one.lost.clone()?)));
        HelpReport {
            sender: session.sender_name().map(ToOwned::to_owned),
            outcome: match &self.phase {
                ReceiverPhase::Finished => Ok(()),
                ReceiverPhase::Failed(ReceiverFailure::Left(reason)) => Err(reason.clone()),
                ReceiverPhase::Failed(failure) => Err(failure.to_string()),
                _ => Err("the session is not over".to_owned()),
            },
            served: self.served(),
            repairs: self.driver.observer().sent,
            lost: lost.collect(),
            datagrams_received: stats.datagrams_received,
            datagrams_sent: stats.datagrams_sent,
            bytes_sent: stats.bytes_sent,
        }
    }
}
