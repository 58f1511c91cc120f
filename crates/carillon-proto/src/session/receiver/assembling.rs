//! Assembling: a member among peers, or in a session with helpers, learns the roster and where the others are.
//!
//! The organiser sends the roster. Each member sends PRESENT, by which the others learn its node. A member that has
//! the whole roster and has received from all members in it builds the protocol's machine and reports that it is
//! ready. The machine starts when the organiser says that all are ready, or when another member has begun.

use std::sync::Arc;

use carillon_core::{DropReason, Event, NodeId, Time};
use carillon_wire::session::{Identity, MAX_PEERS, RosterPage};

use super::state::{ReceiverPhase, Timer};
use super::{PRESENT_WAIT_MIN, READY_INTERVAL, ReceiverSession};
use crate::session::LOCAL_NODE;

impl ReceiverSession {
    /// Handles the PRESENT of another member.
    pub(super) fn on_present(&mut self, now: Time, source: NodeId, identity: Identity) {
        let Some(peers) = &mut self.peers else { return };
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
        let Some(peers) = &mut self.peers else { return self.events.dropped(DropReason::NotAMember) };
        match self.phase {
            ReceiverPhase::Joining | ReceiverPhase::Assembling => {
                let edition = peers.edition();
                if let Err(reason) = peers.read(page) {
                    return self.events.dropped(reason);
                }
                if peers.edition() != edition {
                    self.timers.cancel(Timer::Ready);
                    self.ready_due = false;
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
        let told = self.peers.as_ref().is_some_and(|peers| peers.edition() > 0);
        if told && self.phase == ReceiverPhase::Assembling && self.timers.armed(Timer::Present).is_none() {
            self.present_wait = PRESENT_WAIT_MIN;
            let delay = self.random_delay();
            self.timers.arm(Timer::Present, now + delay);
        }
    }

    /// Reports that this member is ready, if it is.
    pub(super) fn get_ready(&mut self, now: Time) {
        if self.phase != ReceiverPhase::Assembling {
            return;
        }
        match self.peers.as_mut().map(|peers| peers.complete()) {
            Some(Ok(true)) => {
                self.ready_due = true;
                self.timers.arm(Timer::Ready, now + READY_INTERVAL);
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
        let Some(machine) = self.peers.as_mut().and_then(|peers| peers.ready.take()) else { return };
        self.inner = Some(machine);
        if let Some(peers) = &self.peers {
            self.budget.serve(peers.children(), peers.others());
        }
        for timer in [Timer::Join, Timer::Present, Timer::Ready, Timer::Probe] {
            self.timers.cancel(timer);
        }
        (self.join_due, self.present_due, self.ready_due) = (false, false, false);
        self.set_phase(ReceiverPhase::Running);
        self.with_inner(|inner| inner.start(now));
        self.feed_early(now);
        // A member that offers no messages has finished from the beginning.
        if self.finishing || !self.config.part.offers() {
            self.with_inner(|inner| {
                if let Some(sender) = inner.as_sender() {
                    sender.finish(now);
                }
            });
        }
    }

    /// Marks a member as lost, since the organiser says so. The protocol need not wait for it.
    fn lose(&mut self, now: Time, node: NodeId) {
        if let Some(peers) = &mut self.peers
            && peers.lose(node, "left, or given up by the organiser")
        {
            let next = peers.table.without(node).map(Arc::new);
            if let Some(next) = &next {
                peers.table = next.clone();
                self.budget.serve(peers.children(), peers.others());
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
