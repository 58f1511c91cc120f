//! What is sent, and in which order.

use carillon_core::{Dest, Event, MessageId, Time, Transmit};
use carillon_wire::reformation::Ranks;
use carillon_wire::sequencer::{Body, Packet, Report, Status};

use super::log::Entry;
use super::peer::{SequencerPeer, Timer};
use crate::blocks::reformation::To;

impl SequencerPeer {
    /// The next packet, if there is one.
    pub(super) fn next_packet(&mut self, now: Time, buf: &mut Vec<u8>) -> Option<Transmit> {
        if let Some((to, packet)) = self.reformation.poll_transmit(self.reception.contiguous()) {
            let message = MessageId(self.reception.contiguous());
            self.events.push(Event::ControlSent { packet: packet.name(), message });
            Packet::Reformation(packet).emit(self.association, buf);
            return Some(self.transmit(to));
        }
        if let Some(transmit) = self.transfer(now, buf) {
            return Some(transmit);
        }
        if !self.reformation.takes_part() {
            return None;
        }
        if let Some(rank) = self.newer.take() {
            let ack = self.reception.contiguous();
            let body = Body::Report { kind: Report::AliveReq, ack: ack as u32 };
            let view = self.reformation.view().number();
            return Some(self.control(view, body, ack, To::Rank(rank), buf));
        }
        match self.leader.is_some() {
            true => self.lead(now, buf),
            false => self.follow(now, buf),
        }
    }

    /// FETCH, and the answers to it.
    fn transfer(&mut self, now: Time, buf: &mut Vec<u8>) -> Option<Transmit> {
        let view = self.reformation.promised().number;
        if let Some((place, rank)) = self.serve.pop_first() {
            return Some(self.answer(view, place, rank, true, buf));
        }
        let (from, place) = self.to_fetch()?;
        if let Some(fetching) = &mut self.fetching {
            fetching.asked = place + 1;
        }
        if self.timers.armed(Timer::Fetch).is_none() {
            self.timers.arm(Timer::Fetch, now + self.settings.retrans_interval);
        }
        let body = Body::Fetch { order: place as u32 };
        Some(self.control(view, body, place, To::Rank(from), buf))
    }

    /// A message that was asked for, or that it is gone.
    fn answer(&mut self, view: u32, place: u64, rank: usize, between: bool, buf: &mut Vec<u8>) -> Transmit {
        let to = To::Rank(rank);
        if place >= self.reception.log().held_from()
            && let Some((entry, payload)) = self.reception.log().get(place)
        {
            let Entry { source, message, .. } = *entry;
            let payload = payload.clone();
            let (low, source_rank) = (message as u32, source as u8);
            let body = match between {
                true => Body::Fetched {
                    order: place as u32,
                    source: source_rank,
                    message: low,
                    payload: &payload,
                },
                false => self.ordered(place, source_rank, low, Some(&payload)),
            };
            Packet::Normal { view, body }.emit(self.association, buf);
            let transmit = self.transmit(to);
            return self.sent(transmit, source, message, buf.len(), true);
        }
        let first = self.reception.log().held_from();
        let state = self.state_at(first);
        let body = Body::Gone { order: first as u32, state: &state };
        self.control(view, body, first, to, buf)
    }

    /// The sequencer's packets.
    fn lead(&mut self, now: Time, buf: &mut Vec<u8>) -> Option<Transmit> {
        let view = self.reformation.view().number();
        let leader = self.leader.as_mut()?;
        if let Some((place, rank)) = leader.due.repairs.pop_first() {
            return Some(self.answer(view, place, rank, false, buf));
        }
        if let Some(place) = leader.send_next() {
            // The packet says what is accepted.
            leader.due.accept = false;
            return self.multicast(now, view, place, buf);
        }
        if let Some(rank) = leader.due.alive.iter().next() {
            leader.due.alive.remove(rank);
            return Some(self.status(Status::Alive, Ranks::default(), To::Rank(rank), buf));
        }
        if std::mem::take(&mut leader.due.phase2) {
            leader.due.accept = false;
            let missing = leader.phase2_missing();
            return Some(self.status(Status::Phase2, missing, To::Group, buf));
        }
        if std::mem::take(&mut leader.due.phase1) {
            let behind = leader.behind();
            if !behind.is_empty() {
                leader.due.accept = false;
                return Some(self.status(Status::Phase1, behind, To::Group, buf));
            }
        }
        if std::mem::take(&mut leader.due.accept) {
            return Some(self.status(Status::Accept, Ranks::default(), To::Group, buf));
        }
        None
    }

    /// A message in its place, to all.
    fn multicast(&mut self, now: Time, view: u32, place: u64, buf: &mut Vec<u8>) -> Option<Transmit> {
        let (entry, payload) = self.reception.log().get(place)?;
        let Entry { source, message, .. } = *entry;
        let payload = payload.clone();
        // BB: the others have it from its source.
        let short = source != self.rank && payload.len() >= self.settings.large;
        let body = self.ordered(place, source as u8, message as u32, (!short).then_some(&payload));
        let name = body.name();
        Packet::Normal { view, body }.emit(self.association, buf);
        let mut transmit = self.transmit(To::Group);
        match short {
            true => self.events.push(Event::ControlSent { packet: name, message: MessageId(message) }),
            false => transmit = self.sent(transmit, source, message, buf.len(), false),
        }
        self.commit();
        self.quiet_since = now;
        Some(transmit)
    }

    /// A member's packets.
    fn follow(&mut self, now: Time, buf: &mut Vec<u8>) -> Option<Transmit> {
        let view = self.reformation.view().number();
        let leader = To::Rank(self.reformation.view().leader());
        let has = self.reception.contiguous();
        let ack = has as u32;
        // An acknowledgment that waits rides on whatever goes to the sequencer anyway.
        if let Some(place) = self.next_to_ask(now) {
            self.follower.asked.insert(place, now);
            self.on_reported(has);
            return Some(self.control(view, Body::Retrans { ack, order: place as u32 }, place, leader, buf));
        }
        if let Some(number) = self.outbox.first_due() {
            let outstanding = self.outbox.len() as u32;
            let message = self.outbox.get_mut(number)?;
            message.due = false;
            let first = message.sent.is_none();
            message.sent.get_or_insert(outstanding);
            let payload = message.payload.clone();
            let broadcast = payload.len() >= self.settings.large;
            let body = Body::Request { ack, message: number as u32, broadcast, payload: &payload };
            Packet::Normal { view, body }.emit(self.association, buf);
            let transmit = self.transmit(if broadcast { To::Group } else { leader });
            let transmit = self.events.data_sent(transmit, MessageId(number), buf.len(), !first);
            self.on_reported(has);
            return Some(transmit);
        }
        let kind = self.follower.report.take()?;
        self.follower.reported = has;
        Some(self.control(view, Body::Report { kind, ack }, has, leader, buf))
    }

    /// An acknowledgment rode on another packet: it need not go alone.
    fn on_reported(&mut self, has: u64) {
        self.follower.reported = has;
        if matches!(self.follower.report, Some(Report::Ack | Report::Dummy | Report::AckCommit)) {
            self.follower.report = None;
        }
    }

    fn ordered<'a>(&self, place: u64, source: u8, message: u32, payload: Option<&'a [u8]>) -> Body<'a> {
        let leader = self.leader.as_ref();
        let accepted = leader.map_or(0, |leader| leader.accepted()) as u32;
        let purge = leader.map_or(0, |leader| leader.purge()) as u32;
        Body::Ordered { order: place as u32, accepted, purge, source, message, payload }
    }

    fn status(&mut self, kind: Status, wanted: Ranks, to: To, buf: &mut Vec<u8>) -> Transmit {
        let (next, accepted, purge) = match &self.leader {
            Some(leader) => (leader.next(), leader.accepted(), leader.purge()),
            None => (0, 0, 0),
        };
        let (view, next_low) = (self.reformation.view().number(), next as u32);
        let body =
            Body::Status { kind, next: next_low, accepted: accepted as u32, purge: purge as u32, wanted };
        self.control(view, body, next, to, buf)
    }

    fn control(&mut self, view: u32, body: Body<'_>, message: u64, to: To, buf: &mut Vec<u8>) -> Transmit {
        self.events.push(Event::ControlSent { packet: body.name(), message: MessageId(message) });
        Packet::Normal { view, body }.emit(self.association, buf);
        self.transmit(to)
    }

    /// A packet with a message goes out: its own, or another member's.
    fn sent(&mut self, to: Transmit, source: usize, number: u64, bytes: usize, repair: bool) -> Transmit {
        let message = MessageId(number);
        if source == self.rank {
            let outstanding = self.outbox.len() as u32;
            let first = match self.outbox.get_mut(number) {
                Some(own) => own.sent.replace(outstanding).is_none(),
                None => false,
            };
            return self.events.data_sent(to, message, bytes, !first);
        }
        let source = self.members[source];
        self.events.push(Event::Forwarded { source, message, bytes: bytes as u32, repair });
        to
    }

    fn transmit(&self, to: To) -> Transmit {
        Transmit::now(match to {
            To::Group => Dest::group(self.group),
            To::Rank(rank) => Dest::Node(self.members[rank]),
        })
    }
}
