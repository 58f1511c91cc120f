//! What the sequencer does.

use bytes::Bytes;
use carillon_core::{DropReason, Duration, Event, Time};
use carillon_wire::sequencer::Report;

use super::log::Entry;
use super::member::near;
use super::peer::SequencerPeer;

impl SequencerPeer {
    /// Gives places to the messages that wait for them, the members taking turns.
    pub(super) fn order_waiting(&mut self, now: Time) {
        let history = self.settings.history as u64;
        // One at a time: what has a place is sent before the next has one.
        while let Some(leader) = self.leader.as_mut().filter(|leader| leader.has_sent_all()) {
            if !leader.is_open() {
                return;
            }
            let waiting = leader.turns().find(|&source| {
                let number = leader.ordered(source);
                match source == self.rank {
                    true => self.outbox.get(number).is_some(),
                    false => self.reception.is_parked(source, number),
                }
            });
            let Some(source) = waiting else { return };
            if !leader.has_room(history) {
                self.quiet_since = now;
                return leader.begin_sync();
            }
            if !self.reception.has_room(leader.next()) {
                // Its own application is too slow.
                return;
            }
            let message = leader.ordered(source);
            let body = match source == self.rank {
                true => self.outbox.get(message).map(|message| message.payload.clone()),
                false => self.reception.unpark(source, message),
            };
            let place = leader.order(source);
            if source == self.rank {
                self.outbox.set_ordered(message);
            }
            self.reception.insert(place, Entry { source, message, body });
        }
    }

    /// A member wants a message ordered.
    pub(super) fn on_request(&mut self, from: usize, message: u64, payload: Bytes) {
        let Some(leader) = &self.leader else { return };
        let next = leader.ordered(from);
        if message >= next {
            if message - next < self.settings.window as u64 {
                self.reception.park(from, message, payload);
            } else {
                self.events.dropped(DropReason::OutOfWindow);
            }
            return;
        }
        // It has a place, which its source does not know: it asks for what it lacks when it learns how
        // far the order has come. Often the message is just on its way.
        self.events.dropped(DropReason::Duplicate);
        self.on_report(from, Report::AliveReq);
    }

    /// A member says that it has all messages before this one.
    pub(super) fn on_ack(&mut self, from: usize, ack: u32) {
        let ack = near(ack, self.reception.contiguous());
        let first = self.reception.log().held_from();
        let Some(leader) = &mut self.leader else { return };
        leader.on_ack(from, ack);
        if self.settings.resilience == 0 && ack >= first && leader.take_back(from) {
            self.events.push(Event::MemberJoined { member: self.members[from] });
        }
        self.commit();
    }

    /// Why a member says what it has.
    pub(super) fn on_report(&mut self, from: usize, kind: Report) {
        let Some(leader) = &mut self.leader else { return };
        match kind {
            Report::AckPhase2 => leader.on_phase2_ack(from),
            Report::AliveReq => _ = leader.due.alive.insert(from),
            Report::Ack | Report::Dummy | Report::AckCommit => {}
        }
    }

    /// A member lacks the message in this place.
    pub(super) fn repair(&mut self, place: u64, from: usize) {
        if let Some(leader) = &mut self.leader
            && place < leader.next()
        {
            leader.due.repairs.insert((place, from));
        }
    }

    /// Members have not been heard to have everything for long.
    pub(super) fn on_sync_timer(&mut self, now: Time) {
        let tries = self.settings.patience.tries(self.sync_interval());
        let Some(leader) = &mut self.leader else { return };
        self.quiet_since = now;
        for rank in leader.ask_again(tries).iter() {
            self.suspect(now, rank);
        }
    }

    /// How long the sequencer waits before it asks.
    pub(super) fn sync_interval(&self) -> Duration {
        match &self.leader {
            // Somebody waits for that.
            Some(leader) if leader.has_tentative() || !leader.is_open() => {
                self.settings.retrans_interval.min(self.settings.sync_interval)
            }
            _ => self.settings.sync_interval,
        }
    }

    /// Something new is ordered or accepted: the waiting begins again.
    pub(super) fn commit(&mut self) {
        let Some(leader) = &self.leader else { return };
        self.reception.learn(leader.next(), leader.accepted(), leader.purge());
        self.reception.tidy();
        self.deliver();
    }
}
