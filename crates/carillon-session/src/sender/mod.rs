//! Sender side of a session.

use std::collections::BTreeSet;

use bytes::Bytes;
use carillon_core::{
    ConfigError, Dest, Duration, Event, Events, NodeId, ObservedState, Received, Seeds, Span, States, Time,
};
use carillon_wire::session::{Identity, State, Text};

use super::config::{Gather, HelperSelection, SenderSessionConfig, trial_table};
use super::roster::{self, Member, MemberOutcome, Roster};
use super::unserved::UnservedReason;
use super::{lag, secret, trial};

mod announcing;
mod answering;
mod arrivals;
mod aside;
mod assembling;
mod catch_up;
mod catch_up_steps;
mod cookies;
mod distances;
mod driving;
mod gathering;
mod gathering_steps;
mod holdings;
mod holdings_steps;
mod hosted;
mod hosted_steps;
mod joining;
mod measured;
mod offering;
mod packets;
mod peers;
mod pulse;
mod releases;
mod rivals;
mod sending;
mod sizes;
mod sizes_steps;
mod state;
mod unreached;
mod watch;
mod watching;

#[cfg(test)]
mod tests;

pub(super) use holdings::HoldingsReceived;
pub use sizes::Shortened;
pub use state::{Rival, SenderPhase};

use announcing::Announcing;
use answering::Answering;
use assembling::Assembling;
use catch_up::CatchUp;
use gathering::Gathering;
use hosted::Hosted;
use sending::Sending;
use state::{Reply, Timer};
use watching::Watching;

/// States of the machines that make a [`SenderSession`].
pub const SENDER_STATES: &[States] = &[
    state::STATES,
    gathering::STATES,
    assembling::STATES,
    measured::STATES,
    announcing::STATES,
    roster::STATES,
    lag::STATES,
    trial::STATES,
    catch_up::STATES,
];

/// Session at a sender: it gathers receivers, sends through the protocol's machine, and collects reports.
///
/// Among peers it is also a member and a [`Receiver`](carillon_core::Receiver), and the host takes its deliveries.
///
/// Invitations begin with [`start`](carillon_core::Machine::start). Until gathering ends,
/// [`offer`](carillon_core::Sender::offer) returns [`OfferError::Full`](carillon_core::OfferError::Full).
#[derive(Debug)]
pub struct SenderSession {
    config: SenderSessionConfig,
    phase: SenderPhase,
    /// Members.
    roster: Roster,
    /// Packets to the group.
    announcing: Announcing,
    /// Packets to single nodes.
    answering: Answering,
    /// Condition of the start.
    gathering: Gathering,
    /// Agreement of the members, if they know each other.
    assembling: Assembling,
    /// Machine of the protocol.
    hosted: Hosted,
    /// Data of the application.
    sending: Sending,
    /// Observation of the members.
    watching: Watching,
    /// Receivers across the sessions of the job.
    catch_up: CatchUp,
    events: Events,
}

impl SenderSession {
    /// Creates a session that will gather. Fails if the settings are invalid; the protocol's own settings are tried
    /// by building its sender for one member.
    pub fn new(config: SenderSessionConfig, seeds: Seeds) -> Result<Self, ConfigError> {
        let settings = config.check()?;
        // The name separates the random streams of several senders with the same seed.
        let named = seeds.part("session").part(&config.name);
        let identity = Identity(named.stream("session.identity").bits());
        let session = SenderSession {
            phase: SenderPhase::Gathering,
            roster: Roster::default(),
            announcing: Announcing::new(settings),
            answering: Answering::new(named.part("cookies")),
            gathering: Gathering::default(),
            assembling: Assembling::default(),
            hosted: Hosted::new(named.part("protocol"), identity),
            sending: Sending::new(config.max_payload),
            watching: Watching::default(),
            catch_up: CatchUp::new(config.job.earlier.ledger.clone()),
            events: Events::default(),
            config,
        };
        // Report invalid settings at once, and not when the members have joined.
        session.build(&[(NodeId(0), 0)], trial_table(session.config.protocol))?;
        Ok(session)
    }

    /// Aborts the session: announces the reason three times, a heartbeat apart, and then is [`SenderPhase::Aborted`].
    /// Does nothing once the session is over. Drain the session afterwards.
    pub fn abort(&mut self, now: Time, reason: &str) {
        if self.is_over() {
            return;
        }
        self.leave_out_unanswered(now);
        let reason = Text::clean(reason);
        // A member that has reported keeps its result.
        for index in self.roster.active().collect::<Vec<_>>() {
            self.roster.set_outcome(index, MemberOutcome::Failed(format!("session aborted: {reason}")));
        }
        self.announcing.failure = Some(reason);
        self.announce_end(State::Aborted, self.config.heartbeat);
    }

    /// Phase of the session.
    pub fn phase(&self) -> SenderPhase {
        self.phase
    }

    /// Members in order of joining.
    pub fn members(&self) -> &[Member] {
        self.roster.members()
    }

    /// Expected names that have not joined.
    pub fn missing(&self) -> Vec<String> {
        let helpers = match &self.config.helpers.wanted {
            HelperSelection::Names(names) => Some(names),
            HelperSelection::Nobody | HelperSelection::Count(_) => None,
        };
        let helpers = helpers.into_iter().flatten().filter(|name| !self.roster.has_name(name)).cloned();
        let names: BTreeSet<String> = self.missing_receivers().0.into_iter().chain(helpers).collect();
        names.into_iter().collect()
    }

    /// Receivers that the session waits for, or runs without: the expected names that have not joined, and the number
    /// of further receivers if only their number is known.
    pub fn missing_receivers(&self) -> (Vec<String>, usize) {
        match &self.config.gather {
            Gather::Names(names) => {
                (names.iter().filter(|name| !self.roster.has_name(name)).cloned().collect(), 0)
            }
            Gather::Count(count) => (Vec::new(), count.saturating_sub(self.roster.receivers())),
            Gather::Wait(_)
            | Gather::Silent(_)
            | Gather::Settle(_)
            | Gather::Quiet(_)
            | Gather::Again { .. } => (Vec::new(), 0),
        }
    }

    /// Sets the number of bytes that the offered data have beyond the messages, because members have them already or
    /// need not get them.
    pub fn note_unsent(&mut self, bytes: u64) {
        self.sending.unsent = bytes;
    }

    /// Number of repairs that the protocol has sent.
    pub fn repairs(&self) -> u64 {
        self.hosted.repairs
    }

    /// Other senders heard on the group.
    pub fn rivals(&self) -> &[Rival] {
        &self.answering.rivals
    }

    /// Reason for the abortion of the session, if it was aborted.
    pub fn failure(&self) -> Option<&str> {
        self.announcing.failure.as_deref()
    }

    /// Number of the session.
    pub fn association(&self) -> carillon_core::AssociationId {
        self.config.association
    }

    /// Packet of a member with its token replaced by the association again.
    fn opened(&self, index: usize, datagram: &Received<'_>) -> Option<Bytes> {
        let unicast = matches!(datagram.destination, Dest::Node(_));
        if self.config.lets_relays_in() {
            // Routers read the packets that pass them, so members use no token.
            return Some(datagram.bytes.clone());
        }
        match unicast {
            true => secret::unseal(self.config.association, self.roster.record(index).token, datagram.bytes),
            // Only peers send multicast packets of the protocol.
            false => self.config.has_peers().then(|| datagram.bytes.clone()),
        }
    }

    /// States of the machines that make the session.
    fn observe(&self, tell: &mut dyn FnMut(ObservedState)) {
        tell(self.phase.observe());
        tell(self.gathering.observe());
        self.assembling.observe(self.phase, self.is_measuring()).into_iter().for_each(&mut *tell);
        tell(self.announcing.observe(self.phase));
        self.roster.observe().for_each(&mut *tell);
        tell(self.watching.pulse.trials.observe());
        self.observe_receivers().for_each(tell);
    }

    fn is_over(&self) -> bool {
        self.announcing.end.is_some() || matches!(self.phase, SenderPhase::Finished | SenderPhase::Aborted)
    }

    /// Sends an invitation now and arms the timer for the next one.
    fn invite(&mut self, now: Time) {
        self.announcing.invite(now, self.phase, self.config.heartbeat, &self.config.sizes);
    }

    fn set_phase(&mut self, phase: SenderPhase) {
        if self.phase != phase {
            self.phase = phase;
            self.announcing.on_phase();
            self.events.push(Event::StateChanged { state: phase.name() });
        }
    }

    /// Performs the steps that have become possible. Called after every change.
    fn advance(&mut self, now: Time) {
        if self.is_over() {
            return;
        }
        if self.phase == SenderPhase::Gathering && self.is_gathered() {
            match self.config.has_roster() {
                true => self.assemble(now),
                false => self.run(now),
            }
        }
        if self.phase == SenderPhase::Assembling {
            self.go_on_assembling(now);
        }
        // `with_inner` only collects losses, as it cannot call the machine again from inside.
        while let Some(lost) = self.hosted.lost.pop() {
            self.update_helpers(now, lost);
        }
        // The session is aborted only if nothing is delivered until the timer fires.
        if std::mem::take(&mut self.hosted.too_few) && self.phase == SenderPhase::Running {
            self.await_progress(now);
        }
        if self.phase == SenderPhase::Running {
            let inner = self.hosted.machine.as_mut().and_then(|machine| machine.as_sender());
            // Verified members count too: with them the session closes once the protocol has finished.
            let nobody = self.roster.active_count() + self.roster.verified_count() == 0;
            if nobody && !matches!(self.config.gather, Gather::Silent(_)) {
                // No member is left.
                self.announce_end(State::Finished, END_ANNOUNCEMENT_INTERVAL);
            } else if self.sending.finishing
                && inner.is_none_or(|inner| inner.is_finished())
                && !(self.config.has_peers() && self.roster.awaits_offers())
            {
                self.close(now);
            } else if self.all_have_reported() && self.watching.timers.armed(Timer::Rest).is_none() {
                self.watching.timers.arm(Timer::Rest, now + PEER_ENDING_TIME);
            }
        }
        if self.phase == SenderPhase::Closing && !self.is_over() && self.roster.active_count() == 0 {
            self.announce_end(State::Finished, END_ANNOUNCEMENT_INTERVAL);
        }
    }

    /// Returns true if no peer waits for further messages.
    fn all_have_reported(&self) -> bool {
        let waits = self.roster.active_count() > 0 || self.roster.awaits_offers();
        self.sending.finishing && self.config.has_peers() && !waits
    }

    fn run(&mut self, now: Time) {
        let members = match &self.assembling.assembly {
            Some(assembly) => self.ranked(assembly).collect(),
            None => self.roster.identities().collect::<Vec<_>>(),
        };
        let table =
            self.assembling.assembly.as_ref().map(|assembly| assembly.table.clone()).unwrap_or_default();
        // The list of members is final now, so the datagram size is settled before the machine is built with it.
        self.settle_sizes();
        match self.build(&members, table) {
            Ok(machine) => self.hosted.machine = Some(machine),
            Err(error) => return self.abort(now, &error.to_string()),
        }
        // Timers of the earlier phases end here. `heard` arms the silence timers below.
        self.stop_timers();
        self.watching.made_progress = false;
        self.set_phase(SenderPhase::Running);
        self.leave_out_unanswered(now);
        self.invite(now);
        for index in 0..self.roster.members().len() {
            self.heard(now, index);
        }
        self.begin_watch(now);
        self.with_inner(|inner| inner.start(now));
        // The application may finish before the session runs.
        if self.sending.finishing {
            self.finish_inner(now);
        }
    }

    fn finish_inner(&mut self, now: Time) {
        let finished = self.with_inner(|inner| inner.as_sender().map(|sender| sender.finish(now)));
        // This member waits only for the others from now on, so messages must make progress.
        if finished.is_some() && self.config.has_peers() {
            self.watching.await_progress(now + self.config.stall_timeout());
        }
    }

    /// Arms the stall timer: messages must make progress from now on.
    fn await_progress(&mut self, now: Time) {
        if !self.watching.awaits_progress() {
            self.watching.made_progress = false;
            self.watching.await_progress(now + self.config.stall_timeout());
        }
    }

    /// Handles a stall. Live members that receive no packets of the protocol, or too few members, would otherwise
    /// block the group forever.
    fn on_standstill_timeout(&mut self, now: Time) {
        let done = self.with_inner(|inner| inner.as_sender().is_none_or(|sender| sender.is_finished()));
        if self.phase != SenderPhase::Running || done != Some(false) {
            // Other members' streams are still awaited, and may be idle.
            return;
        }
        let limit = self.config.stall_timeout();
        if std::mem::take(&mut self.watching.made_progress) {
            // Members wait only if this one has finished or is blocked. Otherwise the protocol itself repeats what
            // they miss.
            if self.sending.finishing || self.watching.pulse.blocked {
                self.watching.await_progress(now + limit);
            }
        } else {
            self.abort(
                now,
                &format!("nothing got through for {}: too few members may be left", Span::Time(limit)),
            );
        }
    }

    fn close(&mut self, now: Time) {
        self.watching.timers.cancel(Timer::Standstill);
        self.set_phase(SenderPhase::Closing);
        self.invite(now);
        for index in 0..self.roster.members().len() {
            let member = &self.roster.members()[index];
            let (node, bytes) = (member.node, member.bytes);
            match member.outcome {
                // The time limit for the report begins now.
                MemberOutcome::Active => self.roster.record_mut(index).mark = (bytes, now),
                // The member reported early and stayed, to send further acknowledgments.
                MemberOutcome::Verified if !self.config.has_peers() => {
                    self.answering.replies.insert(node, Reply::ReportAck);
                }
                MemberOutcome::Verified | MemberOutcome::Failed(_) | MemberOutcome::Lost(_) => {}
            }
        }
    }

    fn announce_end(&mut self, state: State, spacing: Duration) {
        self.stop_timers();
        // The machine is dropped below, so its undelivered messages are kept for the application.
        if self.config.has_peers() {
            let mut next = || self.with_inner(|inner| inner.as_receiver()?.poll_delivery()).flatten();
            self.hosted.left_over = std::iter::from_fn(&mut next).collect();
        }
        // Reports show the paths after the end, so their last measurements are kept.
        self.note_paths();
        self.hosted.machine = None;
        if self.config.has_peers() {
            // No member needs another any longer.
            let verified = |member: &&Member| member.outcome == MemberOutcome::Verified;
            let nodes = self.roster.members().iter().filter(verified).map(|member| member.node);
            self.answering.replies.extend(nodes.map(|node| (node, Reply::ReportAck)));
        }
        self.announcing.announce_end(state, spacing, self.roster.helpers() > 0);
        self.set_phase(SenderPhase::Closing);
    }
}

/// Interval between the announcements of a successful end: just long enough that one burst of losses does not take all
/// of them.
const END_ANNOUNCEMENT_INTERVAL: Duration = Duration::from_millis(10);
/// Time that a protocol of peers has for its own end after all members have reported.
const PEER_ENDING_TIME: Duration = Duration::from_secs(1);
