//! Assembling: a member among peers, or in a session with helpers, learns the roster and where the others are.
//!
//! The organiser sends the roster. Each member sends PRESENT, by which the others learn its node. A member that has
//! the whole roster and has received from all members in it builds the protocol's machine and reports that it is
//! ready. The machine starts when the organiser says that all are ready, or when another member has begun.

use std::sync::Arc;

use carillon_core::{DropReason, Duration, Event, NodeId, ObservedState, States, Time, Timers};
use carillon_wire::session::{Identity, MAX_PEERS, RosterPage};

use super::ReceiverSession;
use super::hosted::Offering;
use super::outbox::Pending;
use super::peers::Peers;
use super::probing::Probing;
use super::state::{ReceiverPhase, Timer};
use crate::session::{LOCAL_NODE, observed};

/// Declared states.
pub(super) const STATES: States = States {
    of: "receiver, roster",
    transitions: &[
        ("[*]", "None", ""),
        ("None", "Waiting", "INVITE of a protocol of peers or with helpers"),
        ("Waiting", "Learning", "ROSTER: PRESENT at intervals"),
        ("Waiting", "Ready", "the whole ROSTER, after PRESENT of all others"),
        ("Learning", "Ready", "the whole ROSTER, and PRESENT of all others: READY at intervals"),
        ("Ready", "Learning", "ROSTER of a new edition"),
        ("Ready", "Started", "ANSWER running"),
        ("Any", "None", "another sender gets a turn"),
    ],
};

/// Agreement of a member with the others.
#[derive(Debug)]
pub(super) struct Assembling {
    /// Other members, in a protocol with peers or helpers.
    pub peers: Option<Box<Peers>>,
    pub probing: Probing,
    /// Wait after the next PRESENT.
    wait: Duration,
    pub timers: Timers<Timer>,
}

impl Assembling {
    pub fn new(probing: Probing) -> Self {
        Assembling { peers: None, probing, wait: PRESENT_WAIT_MIN, timers: Timers::new() }
    }

    /// Begins to send PRESENT at this time.
    fn present_from(&mut self, at: Time) {
        self.wait = PRESENT_WAIT_MIN;
        self.timers.arm(Timer::Present, at);
    }

    /// Schedules the PRESENT after the one that is sent now.
    pub fn present_again(&mut self, now: Time, delay: Duration) {
        self.timers.arm(Timer::Present, now + self.wait + delay);
        self.wait = (self.wait * 2).min(PRESENT_WAIT_MAX);
    }

    /// Schedules the READY after the one that is sent now.
    pub fn ready_again(&mut self, now: Time) {
        self.timers.arm(Timer::Ready, now + READY_INTERVAL);
    }

    /// Ends the exchange.
    pub fn end(&mut self) {
        self.timers.clear();
    }

    pub fn observe(&self) -> [ObservedState; 2] {
        let roster = match &self.peers {
            None => "None",
            Some(peers) if peers.ready.is_some() => "Ready",
            Some(peers) if !peers.members().is_empty() => "Started",
            Some(peers) if peers.edition() > 0 => "Learning",
            Some(_) => "Waiting",
        };
        [observed(&STATES, roster), self.probing.observe()]
    }
}

impl ReceiverSession {
    /// Handles the PRESENT of another member.
    pub(super) fn on_present(&mut self, now: Time, source: NodeId, identity: Identity) {
        let Some(peers) = &mut self.assembling.peers else { return };
        let known = peers.heard.contains_key(&identity.0);
        // Once complete, the roster decides which identities exist.
        let complete = !peers.roster.is_empty() && peers.roster.iter().all(Option::is_some);
        let listed = || peers.roster.iter().flatten().any(|entry| entry.identity == identity.0);
        if known {
            return self.events.dropped(DropReason::Duplicate);
        }
        if complete && !listed() {
            return self.events.dropped(DropReason::NotAMember);
        }
        // A node is one member. A node that claims a second identity lies about one of them.
        if source == peers.context.sender || peers.heard.values().any(|&node| node == source) {
            return self.events.dropped(DropReason::NotAMember);
        }
        if peers.heard.len() >= MAX_PEERS && !listed() {
            return self.events.dropped(DropReason::BufferFull);
        }
        peers.heard.insert(identity.0, source);
        self.get_ready(now);
    }

    /// Handles a page of the roster.
    pub(super) fn on_roster(&mut self, now: Time, page: &RosterPage<'_>) {
        let Some(peers) = &mut self.assembling.peers else {
            return self.events.dropped(DropReason::NotAMember);
        };
        match self.phase {
            ReceiverPhase::Joining | ReceiverPhase::Assembling => {
                let edition = peers.edition();
                if let Err(reason) = peers.read(page) {
                    return self.events.dropped(reason);
                }
                if peers.edition() != edition {
                    self.assembling.timers.cancel(Timer::Ready);
                    self.outbox.cancel(&[Pending::Ready]);
                }
                self.begin_presence(now);
                self.get_ready(now);
            }
            ReceiverPhase::Running | ReceiverPhase::Reporting | ReceiverPhase::Finished => {
                // A page after the start brings no new members and only announces lost ones.
                if page.edition != peers.edition() {
                    return self.events.dropped(DropReason::OutOfOrder);
                }
                let places = peers.members().iter().skip(page.first.into()).zip(page.peers.iter());
                let gone: Vec<NodeId> = places
                    // This member learns of its own expulsion by a packet to itself.
                    .filter(|(member, peer)| peer.gone && member.node != LOCAL_NODE)
                    .filter(|(member, _)| member.lost.is_none())
                    .map(|(member, _)| member.node)
                    .collect();
                for node in gone {
                    self.lose(now, node);
                }
            }
            ReceiverPhase::Seeking | ReceiverPhase::Failed(_) => {}
        }
    }

    /// Begins to send PRESENT at intervals until the start.
    pub(super) fn begin_presence(&mut self, now: Time) {
        let told = self.assembling.peers.as_ref().is_some_and(|peers| peers.edition() > 0);
        let is_present = self.assembling.timers.armed(Timer::Present).is_some();
        if told && self.phase == ReceiverPhase::Assembling && !is_present {
            self.assembling.present_from(now + self.random.answer_delay());
        }
    }

    /// Reports that this member is ready, if it is.
    pub(super) fn get_ready(&mut self, now: Time) {
        if self.phase != ReceiverPhase::Assembling {
            return;
        }
        match self.assembling.peers.as_mut().map(|peers| peers.complete()) {
            Some(Ok(true)) => {
                self.outbox.schedule(Pending::Ready);
                self.assembling.ready_again(now);
            }
            Some(Err(failure)) => self.fail(failure),
            Some(Ok(false)) | None => {}
        }
    }

    /// Starts the machine, since all members are ready.
    pub(super) fn start(&mut self, now: Time) {
        if self.phase != ReceiverPhase::Assembling {
            return;
        }
        let Some(machine) = self.assembling.peers.as_mut().and_then(|peers| peers.ready.take()) else {
            return;
        };
        self.hosted.machine = Some(machine);
        if let Some(peers) = &self.assembling.peers {
            self.hosted.budget.serve(peers.children(), peers.others());
        }
        self.joining.end();
        self.assembling.end();
        self.outbox.cancel(&[Pending::Join, Pending::Present, Pending::Ready]);
        self.set_phase(ReceiverPhase::Running);
        self.with_inner(|inner| inner.start(now));
        self.feed_early(now);
        // A member that offers no messages has finished from the beginning.
        if self.hosted.offering != Offering::Open || !self.config.part.offers() {
            self.with_inner(|inner| {
                if let Some(sender) = inner.as_sender() {
                    sender.finish(now);
                }
            });
        }
    }

    /// Marks a member as lost, since the organiser says so. The protocol need not wait for it.
    fn lose(&mut self, now: Time, node: NodeId) {
        if let Some(peers) = &mut self.assembling.peers
            && peers.lose(node, "left, or given up by the organiser")
        {
            let next = peers.table.without(node).map(Arc::new);
            if let Some(next) = &next {
                peers.table = next.clone();
                self.hosted.budget.serve(peers.children(), peers.others());
            }
            self.events.push(Event::MemberLost { member: node });
            self.with_inner(|inner| {
                if let Some(sender) = inner.as_sender() {
                    sender.expel(now, node);
                }
                if let Some(next) = next {
                    inner.update_helpers(now, &next);
                }
            });
        }
    }
}

/// Wait between the first two PRESENTs; it doubles at each PRESENT.
const PRESENT_WAIT_MIN: Duration = Duration::from_millis(50);
/// Upper bound of the wait between PRESENTs.
const PRESENT_WAIT_MAX: Duration = Duration::from_millis(400);
/// Interval between READYs.
const READY_INTERVAL: Duration = Duration::from_millis(200);
