//! Common part of every end that joins a session: receiver, helper, further sender.

use carillon_core::{Application, Duration, NodeId, Observer, ProtocolEntry, Seeds, Time};
use carillon_monitor::Snapshot;
use carillon_net::{DriveError, Driver, Endpoint, GROUP};
use carillon_session::{
    LOCAL_NODE, MemberRole, ReceiverFailure, ReceiverPhase, ReceiverSession, ReceiverSessionConfig,
    RefuseReason,
};

use crate::Error;
use crate::network::random;
use crate::publisher::{INTERVAL, Publisher};
use crate::tally::Tally;

/// Session settings of an end of this name at this endpoint. Its nonces are seeded by the system.
pub(crate) fn config(
    name: &str,
    part: MemberRole,
    protocols: &'static [&'static ProtocolEntry],
    endpoint: &Endpoint,
) -> Result<ReceiverSessionConfig, Error> {
    let mut config = ReceiverSessionConfig::new(name, GROUP, protocols);
    config.part = part;
    config.receive_buffer = u32::try_from(endpoint.receive_buffer()).unwrap_or(u32::MAX);
    config.max_datagram = u32::try_from(endpoint.max_datagram()).unwrap_or(u32::MAX);
    config.secret = Some(random()?);
    config.network.addresses = endpoint.addresses(LOCAL_NODE);
    Ok(config)
}

/// An end that joins a session, with its driver.
pub(crate) struct Participant<A, O>
where
    A: Application<ReceiverSession>,
    O: Observer,
{
    pub driver: Driver<ReceiverSession, A, Tally<O>>,
    /// Phase of the session after the last update.
    pub phase: ReceiverPhase,
    /// True once the endpoint keeps the addresses of the other members.
    kept: bool,
    /// True once [`update`](Self::update) has reported the final member list.
    told: bool,
    announced: bool,
    /// Publishes snapshots for monitoring.
    publisher: Option<Publisher>,
}

impl<A, O> Participant<A, O>
where
    A: Application<ReceiverSession>,
    O: Observer,
{
    pub fn new(
        config: ReceiverSessionConfig,
        endpoint: Endpoint,
        seeds: &Seeds,
        application: A,
        observer: O,
    ) -> Self {
        let session = ReceiverSession::new(config, seeds.clone());
        let driver = Driver::new(endpoint, Box::new(session), application, Tally::new(observer));
        let phase = ReceiverPhase::Seeking;
        Participant { driver, phase, kept: false, told: false, announced: false, publisher: None }
    }

    /// Sets the publisher of snapshots, used a few times a second and at the end.
    pub fn published(self, publisher: Option<Publisher>) -> Self {
        Participant { publisher, ..self }
    }

    /// Publishes a snapshot if one is due; `complete` adds the fields of the particular role.
    pub fn publish(&mut self, complete: impl FnOnce(&Self, Time, &mut Publisher, &mut Snapshot)) {
        let Some(mut publisher) = self.publisher.take() else { return };
        let now = self.driver.now();
        if publisher.is_due(now) || self.is_over() {
            let session = self.driver.machine();
            let mut snapshot = publisher.begin(&self.driver, self.is_over());
            snapshot.protocol = session.protocol().map(ToOwned::to_owned);
            snapshot.organiser = session.sender_name().map(ToOwned::to_owned);
            snapshot.phase = Some((self.phase.name(), ReceiverPhase::NAMES));
            complete(self, now, &mut publisher, &mut snapshot);
            publisher.put(snapshot);
        }
        self.publisher = Some(publisher);
    }

    /// Maximum wait of a step.
    pub fn max_wait(&self) -> Duration {
        if self.publisher.is_some() { INTERVAL } else { Duration::MAX }
    }

    pub fn step(&mut self, wait: Duration) -> Result<(), DriveError> {
        self.driver.step(wait)
    }

    /// Updates the state after a step. Returns true once, when the member list and the assignment to helpers are
    /// final. From then on the endpoint keeps the members' addresses.
    pub fn update(&mut self) -> bool {
        self.phase = self.driver.machine().phase();
        if self.driver.machine().roster().is_empty() {
            return false;
        }
        if !std::mem::replace(&mut self.kept, true) {
            self.keep_peers();
        }
        // Earlier rosters may be replaced, with other members assigned to this helper.
        let is_running = self.driver.machine().has_tree();
        is_running && !std::mem::replace(&mut self.told, true)
    }

    fn keep_peers(&mut self) {
        let now = self.driver.now();
        let nodes: Vec<NodeId> = self.driver.machine().roster().iter().map(|peer| peer.node).collect();
        for node in nodes {
            if let Some(address) = self.driver.endpoint().peer(node) {
                // The address is known, so the table has room for it.
                let _ = self.driver.endpoint_mut().keep_peer(now, address);
            }
        }
    }

    /// Returns name of the sender and member number, once, after admission.
    pub fn newly_joined(&mut self) -> Option<(String, u32)> {
        let session = self.driver.machine();
        let joined = session.sender_name().map(ToOwned::to_owned).zip(session.member_number());
        joined.filter(|_| !std::mem::replace(&mut self.announced, true))
    }

    /// Returns true after admission was reported.
    pub fn has_joined(&self) -> bool {
        self.announced
    }

    pub fn is_over(&self) -> bool {
        matches!(self.phase, ReceiverPhase::Finished | ReceiverPhase::Failed(_))
    }

    /// The organiser may still have to be notified of a failure.
    pub fn needs_final_step(&self) -> bool {
        matches!(self.phase, ReceiverPhase::Failed(_))
    }

    pub fn quit(&mut self, reason: &str) {
        let now = self.driver.now();
        self.driver.machine_mut().leave(now, reason);
        self.phase = self.driver.machine().phase();
    }

    /// Returns true if it ended because another member has its name.
    pub fn name_is_taken(&self) -> bool {
        let taken = ReceiverFailure::Refused(RefuseReason::NameTaken, String::new());
        self.phase == ReceiverPhase::Failed(taken)
    }

    /// Result of the session.
    pub fn outcome(&self) -> Result<(), String> {
        match &self.phase {
            ReceiverPhase::Finished => Ok(()),
            ReceiverPhase::Failed(ReceiverFailure::Left(reason)) => Err(reason.clone()),
            ReceiverPhase::Failed(failure) => Err(failure.to_string()),
            _ => Err("the session is not over".to_owned()),
        }
    }

    /// Names and reasons of lost members.
    pub fn lost(&self) -> Vec<(String, String)> {
        let members = self.driver.machine().roster().iter();
        members.filter_map(|peer| Some((peer.name.clone(), peer.lost.clone()?))).collect()
    }

    /// Names of the members that it serves.
    pub fn served(&self) -> Vec<String> {
        self.driver.machine().children().iter().map(|member| member.name.clone()).collect()
    }
}

/// Implements [`Run`](crate::run_loop::Run) through the participant, except `update`.
macro_rules! run_by_participant {
    () => {
        fn step(&mut self, wait: carillon_core::Duration) -> Result<(), carillon_net::DriveError> {
            self.participant.step(wait)
        }

        fn is_over(&self) -> bool {
            self.participant.is_over()
        }

        fn needs_final_step(&self) -> bool {
            self.participant.needs_final_step()
        }

        fn quit(&mut self, reason: &str) {
            self.participant.quit(reason);
        }
    };
}
pub(crate) use run_by_participant;
