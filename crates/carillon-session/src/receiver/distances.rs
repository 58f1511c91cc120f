//! Distance measurements of a member during assembling. On request of the sender, each member probes the helpers and
//! the sender a few times, and reports the minimum round-trip times.

use carillon_core::{Dest, DropReason, NodeId, Time, Transmit};
use carillon_wire::session::{Body, Distances, Packet};

use super::ReceiverSession;
use super::state::{ReceiverPhase, Timer};
use crate::LOCAL_NODE;

impl ReceiverSession {
    /// Handles the sender's request to measure.
    pub(super) fn on_measure(&mut self, now: Time, edition: u32) {
        let Some(peers) = self.assembling.peers.as_ref().filter(|_| self.phase == ReceiverPhase::Assembling)
        else {
            return self.events.dropped(DropReason::OutOfOrder);
        };
        let members = peers.members();
        // A member that does not know the whole roster yet gets the request again.
        if edition != peers.edition() || members.is_empty() || self.assembling.probing.edition == edition {
            return;
        }
        let helps = |(rank, node): &(u16, NodeId)| {
            *node != LOCAL_NODE && (*rank == 0 || members[usize::from(*rank)].part.helps())
        };
        let ranks = (0_u16..).zip(members.iter().map(|member| member.node));
        self.assembling.probing.begin(edition, ranks.filter(helps));
        let at = now + self.random.answer_delay();
        self.assembling.timers.arm(Timer::Probe, at);
    }

    pub(super) fn on_probe_timer(&mut self, now: Time) {
        if let Some(at) = self.assembling.probing.on_timer(now) {
            self.assembling.timers.arm(Timer::Probe, at);
        }
    }

    /// Handles a probe of a node that measures its distance to this member.
    pub(super) fn on_probe(&mut self, source: NodeId, token: u64) {
        let known = self.invited.as_ref().is_some_and(|invited| invited.sender == source)
            || self.assembling.peers.as_ref().is_some_and(|peers| peers.is_heard(source));
        let open = self.phase == ReceiverPhase::Assembling
            && self.assembling.probing.echoes.len() < MAX_PENDING_ECHOES;
        match known && open {
            // The answer is as long as the probe, so it cannot amplify an attack.
            true => self.assembling.probing.echoes.push_back((source, token)),
            false => self.events.dropped(DropReason::NotAMember),
        }
    }

    pub(super) fn on_echo(&mut self, now: Time, source: NodeId, token: u64) {
        match self.assembling.probing.on_echo(now, source, token) {
            Err(reason) => self.events.dropped(reason),
            Ok(()) if self.assembling.probing.is_done() => _ = self.assembling.timers.cancel(Timer::Probe),
            Ok(()) => {}
        }
    }

    /// Writes the next packet for distance measurement, if one is due.
    pub(super) fn due_probing(&mut self, now: Time, buf: &mut Vec<u8>) -> Option<Transmit> {
        let invited = self.invited.as_ref().filter(|_| self.phase == ReceiverPhase::Assembling)?;
        let (association, sender) = (invited.association, invited.sender);
        let mut list = Vec::new();
        let (to, body) = if let Some((node, token)) = self.assembling.probing.echoes.pop_front() {
            (node, Body::Echo { token })
        } else if let Some((node, token)) = self.assembling.probing.probe(now) {
            (node, Body::Probe { token })
        } else if let Some(distances) = self.assembling.probing.take_report() {
            Distances::encode(distances, &mut list);
            let (nonce, edition) = (self.random.nonce, self.assembling.probing.edition);
            (sender, Body::Distances { nonce, edition, distances: Distances::new(&list)? })
        } else {
            return None;
        };
        Packet { association, body }.emit(buf);
        Some(Transmit::now(Dest::Node(to)))
    }
}

/// Maximum number of answers waiting to be sent.
const MAX_PENDING_ECHOES: usize = 64;
