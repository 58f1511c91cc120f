//! The sending side of a node.

use std::collections::VecDeque;

use bytes::Bytes;
use carillon_core::{AssociationId, DropReason, Event, MessageId, OfferError, Outcome, Pace, Rng, Transmit};
use carillon_wire::erramilli_singh::{Packet, Progress};

use super::config::Settings;
use super::idle::{Announcement, Idle};
use super::peer::{Scene, Timer};
use super::repairs::{Repairs, To};
use super::window::BackWindow;
use crate::blocks::{Asked, Reach, RepairScope};

/// Sends messages, repeats what is asked for, and says how far it has come.
#[derive(Debug)]
pub(super) struct Source {
    association: AssociationId,
    rank: u16,
    settings: Settings,
    /// Whether this node may send messages at all.
    may_offer: bool,
    /// Messages not sent yet, at most B.
    waiting: VecDeque<Bytes>,
    window: BackWindow,
    repairs: Repairs,
    idle: Idle,
    /// No data packet before this.
    pace: Pace,
    /// No new message before this.
    choked: Pace,
    finished: bool,
    /// Messages below this are done with.
    completed: u64,
    /// When sanity messages begin.
    sanity: Rng,
}

impl Source {
    /// The sending side of the member of this rank.
    pub fn new(
        association: AssociationId,
        rank: u16,
        may_offer: bool,
        settings: Settings,
        sanity: Rng,
    ) -> Self {
        Source {
            association,
            rank,
            may_offer,
            waiting: VecDeque::new(),
            window: BackWindow::new(settings.b),
            repairs: Repairs::new(settings.repair_guard),
            idle: Idle::new(&settings),
            pace: Pace::default(),
            choked: Pace::default(),
            finished: false,
            completed: 0,
            sanity,
            settings,
        }
    }

    /// The node starts. Its first sanity message comes within T2, at random: nodes that start
    /// together would for ever send theirs at the same moments.
    pub fn start(&mut self, scene: &mut Scene<'_>) {
        let t2 = u64::try_from(self.settings.t2.as_nanos()).unwrap_or(u64::MAX);
        let phase = std::time::Duration::from_nanos(1 + self.sanity.below(t2));
        scene.timers.arm(Timer::Idle, scene.now + phase);
    }

    /// Takes a message, unless B are waiting, or this node may not send.
    pub fn offer(&mut self, payload: Bytes) -> Result<MessageId, OfferError> {
        if self.finished || !self.may_offer {
            return Err(OfferError::Finished);
        }
        if self.waiting.len() as u64 >= self.settings.b {
            return Err(OfferError::Full);
        }
        let number = self.window.next() + self.waiting.len() as u64;
        self.waiting.push_back(payload);
        Ok(MessageId(number))
    }

    /// No more messages will be offered.
    pub fn finish(&mut self, scene: &mut Scene<'_>) {
        self.finished = true;
        self.stay(scene);
    }

    /// Whether everything offered is done with.
    pub fn is_finished(&self) -> bool {
        self.finished && self.waiting.is_empty() && self.completed == self.window.next()
    }

    /// A receiver asks for a message.
    pub fn on_nak(&mut self, scene: &mut Scene<'_>, rank: usize, expected: u32) {
        let next = self.window.next();
        let Some(number) = self.settings.numbers.before(expected, next) else {
            return scene.events.dropped(DropReason::OutOfWindow);
        };
        scene.events.push(Event::Received { packet: "nak", message: MessageId(number) });
        self.stay(scene);
        let to = match self.settings.scope.reach(Asked::BY_ANYONE) {
            Reach::Requester => To::Member(rank),
            Reach::Group { .. } => To::All,
        };
        let oldest = self.window.oldest();
        if number < oldest {
            self.repairs.refuse(scene.now, to);
        }
        let end = if self.settings.go_back { next } else { number + 1 };
        for number in number.max(oldest)..end {
            self.repairs.ask(scene.now, number, to);
        }
    }

    /// A receiver asks for a pause. All members have agreed on T3: a longer one is cut.
    pub fn on_choke(&mut self, scene: &mut Scene<'_>, pause: std::time::Duration) {
        let last = MessageId(self.window.next().saturating_sub(1));
        scene.events.push(Event::Received { packet: "choke", message: last });
        self.choked.pause(scene.now, pause.min(self.settings.t3));
    }

    /// The interval of status or sanity messages is over.
    pub fn on_idle(&mut self) {
        self.idle.expire();
    }

    /// Nothing was asked for in a long time: whoever lives has everything that can be repaired.
    pub fn on_quiet(&mut self, scene: &mut Scene<'_>) {
        let busy = !self.waiting.is_empty() || !self.repairs.is_empty();
        if self.finished && !busy && self.idle.is_over() {
            while self.completed < self.window.next() {
                self.complete(scene);
            }
        }
    }

    /// Where it is in its series of status and sanity messages.
    pub fn state(&self) -> &'static str {
        if self.idle.is_over() { "Sanity" } else { "Status" }
    }

    /// The next packet, if there is one.
    pub fn poll(&mut self, scene: &mut Scene<'_>, buf: &mut Vec<u8>) -> Option<Transmit> {
        if let Some(to) = self.repairs.pop_refusal(scene.now) {
            return Some(self.announce(scene, Announcement::Status, to, buf));
        }
        if let Some((announcement, interval)) = self.idle.take() {
            scene.timers.arm(Timer::Idle, scene.now + interval);
            if announcement == Announcement::Status {
                // The quiet time counts from the last status message on.
                self.stay(scene);
            }
            return Some(self.announce(scene, announcement, To::All, buf));
        }
        self.poll_data(scene, buf)
    }

    /// The next data packet. Repairs go first, and a choke does not hold them back: what waits for
    /// them fills buffers too.
    fn poll_data(&mut self, scene: &mut Scene<'_>, buf: &mut Vec<u8>) -> Option<Transmit> {
        let due = match (self.repairs.is_empty(), self.waiting.is_empty()) {
            (false, _) => self.pace.ready_at(scene.now),
            (true, false) => self.pace.ready_at(scene.now).max(self.choked.ready_at(scene.now)),
            (true, true) => return None,
        };
        if let Some(due) = due {
            scene.timers.arm(Timer::Pace, due);
            return None;
        }
        if let Some((number, to)) = self.repairs.pop(scene.now) {
            return self.send(scene, number, to, true, buf);
        }
        let payload = self.waiting.pop_front()?;
        let (number, overwritten) = self.window.push(payload);
        if let Some(gone) = overwritten {
            self.repairs.forget(gone);
            if gone == self.completed {
                self.complete(scene);
            }
        }
        scene.timers.arm(Timer::Idle, scene.now + self.idle.restart());
        self.send(scene, number, To::All, false, buf)
    }

    /// Sends a message of the back window.
    fn send(
        &mut self,
        scene: &mut Scene<'_>,
        number: u64,
        to: To,
        repair: bool,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let sequence = self.settings.numbers.wire(number);
        let payload = self.window.get(number)?;
        Packet::Data { source: self.rank, sequence, payload }.emit(self.association, buf);
        let transmit = scene.transmit(to);
        let transmit = scene.events.data_sent(transmit, MessageId(number), buf.len(), repair);
        self.pace.pause(scene.now, self.settings.send_interval);
        self.stay(scene);
        Some(transmit)
    }

    /// Says how far this node has come.
    fn announce(
        &mut self,
        scene: &mut Scene<'_>,
        announcement: Announcement,
        to: To,
        buf: &mut Vec<u8>,
    ) -> Transmit {
        let next = self.window.next();
        let wire = self.settings.numbers.wire(next);
        let progress = Progress { source: self.rank, next: wire, held: self.window.held() as u32 };
        let (packet, name) = match announcement {
            Announcement::Status => (Packet::Status(progress), "status"),
            Announcement::Sanity => (Packet::Sanity(progress), "sanity"),
        };
        packet.emit(self.association, buf);
        let message = MessageId(next.saturating_sub(1));
        scene.events.push(Event::ControlSent { packet: name, message });
        scene.transmit(to)
    }

    /// The first message that is not done with is. Whether all have it is not known: nobody
    /// acknowledges.
    fn complete(&mut self, scene: &mut Scene<'_>) {
        let (message, outcome) = (MessageId(self.completed), Outcome::Acknowledged);
        self.completed += 1;
        scene.events.completed(message, outcome, 1);
    }

    /// Something happened: the quiet time starts again.
    fn stay(&mut self, scene: &mut Scene<'_>) {
        scene.timers.arm(Timer::Quiet, scene.now + self.settings.quiet);
    }
}
