//! Steps of a member among others: PRESENT, the roster, and the start of the machine.

use std::sync::Arc;

use carillon_core::{DropReason, Event, NodeId, Time};
use carillon_wire::session::{Identity, MAX_PEERS, RosterPage};

use super::ReceiverSession;
use super::hosted::Offering;
use super::outbox::Pending;
use super::state::{ReceiverPhase, Timer};
use crate::LOCAL_NODE;

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
