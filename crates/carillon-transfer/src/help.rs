//! Helpers: members that store the sent data and repair losses of other members.

use carillon_core::{Application, Duration, NoObserver, Observer, ProtocolEntry, Role, Seeds, Time};
use carillon_monitor::Monitor;
use carillon_net::Endpoint;
use carillon_proto::REGISTRY;
use carillon_session::{MemberRole, ReceiverPhase, ReceiverSession};

use crate::end::End;
use crate::handle::{AbortSignal, EventSink, Handle, spawn};
use crate::participant::{self, Participant, run_by_participant};
use crate::publisher::Publisher;
use crate::run_loop::{Run, run_to_end};
use crate::{Error, HelpEvent, HelpReport};

/// Helps in one transfer of this protocol, if its sender permits helpers ([`End::helpers`]). The role depends on the
/// protocol: designated receiver, local exchange, inner node of a tree.
pub fn help(protocol: impl Into<String>) -> Helping {
    End::new(ToHelp { options: HelpOptions { protocol: protocol.into(), ..HelpOptions::default() } })
}

/// A helper before it begins. Made by [`help`].
pub type Helping = End<ToHelp>;

/// Settings of a helper with its role.
#[derive(Debug)]
pub struct ToHelp {
    options: HelpOptions,
}

/// Options of a helper, apart from the network.
#[derive(Clone, Debug)]
pub struct HelpOptions {
    /// The protocol, by its name in the registry.
    pub protocol: String,
    /// Silence after which the helper abandons the sender.
    pub timeout: Duration,
    /// Ignores sessions that it cannot join and waits for the next one.
    pub keep_seeking: bool,
    /// Receives snapshots of the helper's state.
    pub monitor: Option<Monitor>,
}

impl Default for HelpOptions {
    fn default() -> Self {
        HelpOptions {
            protocol: String::new(),
            timeout: Duration::from_secs(5),
            keep_seeking: true,
            monitor: None,
        }
    }
}

impl End<ToHelp> {
    /// Sets the silence after which the helper abandons the sender. Default: 5 s.
    #[must_use]
    pub fn timeout(mut self, time: Duration) -> Self {
        self.what.options.timeout = time;
        self
    }

    /// Sends snapshots of the helper's state to this monitor, a few times a second.
    #[must_use]
    pub fn monitor(mut self, monitor: Monitor) -> Self {
        self.what.options.monitor = Some(monitor);
        self
    }

    /// Helps, in this thread, until the transfer is over.
    pub fn run(self) -> Result<HelpReport, Error> {
        self.go(&AbortSignal::default(), &EventSink::silent())
    }

    /// Helps in a thread of its own.
    #[must_use]
    pub fn start(self) -> Handle<HelpEvent, HelpReport> {
        spawn("carillon-help", move |abort, teller| self.go(abort, teller))
    }

    fn go(self, abort: &AbortSignal, teller: &EventSink<HelpEvent>) -> Result<HelpReport, Error> {
        let End { network, what: ToHelp { options } } = self;
        let bound = network.open(true, 1, None)?;
        let (mut endpoint, mut name, mut second) = (bound.endpoint, network.name(), network.second_name());
        loop {
            let mut run = options.open(&name, endpoint, &bound.seeds, NoObserver)?;
            run_to_end(&mut run, |run| -> Result<_, Error> {
                run.take_events().into_iter().for_each(|event| teller.tell(event));
                Ok(abort.wish("the helper was aborted"))
            })?;
            match second.take().filter(|_| run.name_is_taken() && !abort.is_requested()) {
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

    /// Looks up the protocol in the registry.
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
        let mut config = participant::config(name, MemberRole::Helps, self.find()?, &endpoint)?;
        config.silence = self.timeout;
        config.keep_seeking = self.keep_seeking;
        let publisher = Publisher::new(&self.monitor, "helper", name);
        let participant = Participant::new(config, endpoint, seeds, Nothing, observer).published(publisher);
        Ok(HelpRun { participant, events: Vec::new() })
    }
}

/// Empty application of a helper.
struct Nothing;

impl Application<ReceiverSession> for Nothing {
    fn poll(&mut self, _now: Time, _machine: &mut ReceiverSession) -> bool {
        false
    }
}

/// A running helper, for [`run_to_end`](crate::run_loop::run_to_end).
pub struct HelpRun<O: Observer> {
    participant: Participant<Nothing, O>,
    events: Vec<HelpEvent>,
}

impl<O: Observer> Run for HelpRun<O> {
    run_by_participant!();

    fn max_wait(&self) -> Duration {
        self.participant.max_wait()
    }

    fn update(&mut self) {
        let told = self.participant.update();
        if let Some((sender, _)) = self.participant.newly_joined() {
            self.events.push(HelpEvent::Joined { sender });
        }
        if told {
            self.events.push(HelpEvent::Serving { members: self.participant.served() });
        }
        self.participant.publish(|participant, _, _, snapshot| snapshot.serves = Some(participant.served()));
    }
}

impl<O: Observer> HelpRun<O> {
    /// Returns the events since the last call.
    pub fn take_events(&mut self) -> Vec<HelpEvent> {
        std::mem::take(&mut self.events)
    }

    /// Phase of the session.
    pub fn phase(&self) -> &ReceiverPhase {
        &self.participant.phase
    }

    /// The endpoint, for following network changes.
    pub fn endpoint_mut(&mut self) -> &mut Endpoint {
        self.participant.driver.endpoint_mut()
    }

    /// Returns true if it failed because another member has its name.
    pub fn name_is_taken(&self) -> bool {
        self.participant.name_is_taken()
    }

    /// Returns true if a sender has admitted it.
    pub fn has_joined(&self) -> bool {
        self.participant.has_joined()
    }

    /// The sockets and the observer, for the next transfer.
    pub fn into_parts(self) -> (Endpoint, O) {
        let (endpoint, _, _, observer) = self.participant.driver.into_parts();
        (endpoint, observer.inner)
    }

    /// Result so far.
    pub fn report(&self) -> HelpReport {
        let (session, stats) = (self.participant.driver.machine(), self.participant.driver.stats());
        HelpReport {
            sender: session.sender_name().map(ToOwned::to_owned),
            outcome: self.participant.outcome(),
            served: self.participant.served(),
            repairs: self.participant.driver.observer().repairs,
            lost: self.participant.lost(),
            datagrams_received: stats.datagrams_received,
            datagrams_sent: stats.datagrams_sent,
            bytes_sent: stats.bytes_sent,
        }
    }
}
