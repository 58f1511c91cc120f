//! The sending side: a message, its announcement, a silence; now and then a poll.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use carillon_core::{
    BuildContext, Config, DropReason, Event, InState, MessageId, NodeId, OfferError, Outcome, Received, Role,
    Time, Transmit, expand,
};
use carillon_wire::msaw::Packet;

use super::MODULUS;
use crate::blocks::{AckWindow, FixedWindow, Members, Part, PastLimit, Player, RetransmissionTimeout};
use crate::protocols::msaw::config::SenderConfig;
use crate::protocols::msaw::describe::NAK_SENDER;

type Scene = crate::blocks::Scene<Timer>;

/// Sends one message at a time and waits for someone to miss it; holds it until all have confirmed.
#[derive(Debug)]
pub struct NakSender {
    config: SenderConfig,
    /// Messages that not all have confirmed: at most a poll interval of them.
    window: AckWindow,
    /// How long negative acknowledgments have to come.
    wait: Duration,
    phase: Phase,
    /// What follows the messages that are due.
    announcement: Option<Announcement>,
    /// How many announcements and polls there were.
    rounds: u64,
    /// For each message held, the round that followed when it was last sent: a request that answers
    /// to an earlier one was made before that.
    resent: VecDeque<u64>,
    /// When the first poll of this window was sent.
    polled: Option<Time>,
    /// How often the poll was repeated without any news.
    repeats: u32,
    timeout: RetransmissionTimeout,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The next message may come.
    Ready,
    /// A message was sent; those that miss it have their time to say so.
    Waiting,
    /// All are asked.
    Polling,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Announcement {
    Announce,
    Poll,
}

/// The sender's timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// Nobody has asked for the last message.
    Silence,
    /// The application has nothing to send: what is outstanding is to be confirmed.
    Idle,
    /// The poll has not been answered by all.
    Poll,
}

impl NakSender {
    /// A sender to the members of the context.
    pub fn new(context: &BuildContext, config: SenderConfig, settings: &Config) -> Player<Self> {
        let room = FixedWindow(settings.count("poll_interval"));
        NakSender {
            window: AckWindow::new(Members::new(context.members.clone()), room),
            // A timer for this very moment would fire again and again.
            wait: (config.retransmission.first_answer() + settings.span("nak_wait").at(context.bit_rate))
                .max(Duration::from_nanos(1)),
            phase: Phase::Ready,
            announcement: None,
            rounds: 0,
            resent: VecDeque::new(),
            polled: None,
            repeats: 0,
            timeout: RetransmissionTimeout::new(&config.retransmission),
            config,
        }
        .play(context)
    }

    /// A receiver has everything before `below`.
    fn on_answer(&mut self, scene: &mut Scene, source: NodeId, sequence: u8, missing: Option<u8>) {
        let Some(index) = self.window.index_of(source) else {
            return scene.events.dropped(DropReason::NotAMember);
        };
        let start = self.window.start();
        let rank = (u64::from(sequence) + MODULUS - start % MODULUS) % MODULUS;
        let below = start + rank + u64::from(missing.is_none());
        if below > self.window.end() {
            return scene.events.dropped(DropReason::OutOfWindow);
        }
        let packet = if missing.is_some() { "nak" } else { "ack" };
        scene.events.received(packet, start + rank);
        if below > start && self.window.acknowledge(index, below - 1) {
            self.repeats = 0;
            self.advance(scene);
        }
        // It is no silence.
        if scene.timers.armed(Timer::Silence).is_some() {
            scene.timers.arm(Timer::Silence, scene.now + self.wait);
        }
        if let Some(round) = missing {
            self.go_back(scene, source, below, round);
        }
    }

    /// Everything from `wanted` on is sent again, unless it was for someone else after that round.
    fn go_back(&mut self, scene: &mut Scene, member: NodeId, wanted: u64, round: u8) {
        let round = expand(round.into(), MODULUS, self.rounds);
        let index = wanted.saturating_sub(self.window.start()) as usize;
        let asked_before = self.resent.get(index).is_some_and(|&resent| round < resent);
        let Some(slot) = self.window.get_mut(wanted) else { return };
        // Past the limit the poll decides what becomes of it.
        if asked_before || self.config.retransmission.is_exceeded(slot.retransmissions) {
            return;
        }
        let messages = self.window.go_back_to(wanted);
        if messages > 0 {
            scene.events.repair_needed(member, messages);
        }
    }

    fn advance(&mut self, scene: &mut Scene) {
        while let Some((number, slot)) = self.window.pop_acknowledged() {
            self.resent.pop_front();
            let (message, outcome) = (MessageId(number), Outcome::Acknowledged);
            scene.events.completed(message, outcome, 1);
            if slot.sent.is_none() {
                // Nobody is left to send it to.
                self.announcement = None;
                self.phase = Phase::Ready;
            }
        }
        if self.window.is_empty() && self.phase == Phase::Polling {
            match self.polled {
                Some(polled) if self.repeats == 0 => self.timeout.on_sample(scene.now.since(polled)),
                _ => self.timeout.on_recovery(),
            }
            self.next_may_come(scene);
        }
    }

    fn next_may_come(&mut self, scene: &mut Scene) {
        scene.timers.clear();
        self.phase = Phase::Ready;
        self.announcement = None;
        self.polled = None;
        self.repeats = 0;
    }

    fn poll_all(&mut self, scene: &mut Scene) {
        if !self.window.is_empty() {
            scene.timers.clear();
            self.phase = Phase::Polling;
            self.announcement = Some(Announcement::Poll);
        }
    }

    /// The poll was repeated too often without news.
    fn give_up(&mut self, scene: &mut Scene) {
        if self.config.retransmission.past_limit == PastLimit::Expel {
            self.window.expel_missing(&mut scene.events);
            return self.advance(scene);
        }
        self.resent.clear();
        while let Some((number, _)) = self.window.pop() {
            scene.events.completed(MessageId(number), Outcome::Failed, 1);
        }
        self.next_may_come(scene);
    }
}

impl Part for NakSender {
    type Timer = Timer;

    const ROLE: Role = Role::Sender;

    fn tell_states(&self, _scene: &Scene, tell: &mut dyn FnMut(InState)) {
        let (state, turn) = match self.phase {
            Phase::Ready => ("Ready", 0),
            Phase::Waiting => ("Waiting", self.rounds),
            Phase::Polling => ("Polling", self.rounds),
        };
        tell(InState { of: NAK_SENDER.of, about: 0, state, turn });
    }

    fn handle_datagram(&mut self, scene: &mut Scene, datagram: Received<'_>) {
        let Some(packet) = scene.of_session(Packet::parse(datagram.bytes)) else { return };
        match packet {
            Packet::AckUpTo { sequence } => self.on_answer(scene, datagram.source, sequence, None),
            Packet::Nak { sequence, round } => {
                self.on_answer(scene, datagram.source, sequence, Some(round));
            }
            _ => scene.events.dropped(DropReason::Foreign),
        }
    }

    fn on_timer(&mut self, scene: &mut Scene, timer: Timer) {
        match timer {
            Timer::Silence => {
                self.phase = Phase::Ready;
                if self.window.is_closed() {
                    self.poll_all(scene);
                } else {
                    scene.timers.arm(Timer::Idle, scene.now + self.wait);
                }
            }
            Timer::Idle => self.poll_all(scene),
            Timer::Poll => {
                scene.events.push(Event::TimerFired { timer: "poll" });
                self.timeout.on_expiry();
                self.repeats = self.repeats.saturating_add(1);
                if self.config.retransmission.is_exceeded(self.repeats) {
                    self.give_up(scene);
                }
                self.poll_all(scene);
            }
        }
    }

    fn poll_transmit(&mut self, scene: &mut Scene, buf: &mut Vec<u8>) -> Option<Transmit> {
        let full = self.window.is_full();
        if let Some((number, slot)) = self.window.first_due() {
            slot.due = false;
            let sequence = (number % MODULUS) as u8;
            Packet::Numbered { sequence, payload: &slot.payload }.emit(scene.association, buf);
            let first = slot.sent.is_none();
            if first {
                slot.sent = Some((scene.now, 1));
            } else {
                slot.retransmissions = slot.retransmissions.saturating_add(1);
            }
            let transmit = scene.events.data_sent(scene.to_group(), MessageId(number), buf.len(), !first);
            let index = (number - self.window.start()) as usize;
            if let Some(resent) = self.resent.get_mut(index) {
                *resent = self.rounds;
            }
            // It is announced again after what is sent again.
            scene.timers.clear();
            self.announcement = Some(match self.phase {
                Phase::Polling => Announcement::Poll,
                _ if full => Announcement::Poll,
                _ => Announcement::Announce,
            });
            return Some(transmit);
        }
        let (first, last) = (self.window.start(), self.window.end().checked_sub(1)?);
        let (sequence, first) = ((last % MODULUS) as u8, (first % MODULUS) as u8);
        let announcement = self.announcement.take().filter(|_| !self.window.is_empty())?;
        let round = (self.rounds % MODULUS) as u8;
        self.rounds += 1;
        let (packet, name) = match announcement {
            Announcement::Announce => {
                self.phase = Phase::Waiting;
                scene.timers.arm(Timer::Silence, scene.now + self.wait);
                (Packet::Announce { sequence, first, round }, "announce")
            }
            Announcement::Poll => {
                self.phase = Phase::Polling;
                self.polled.get_or_insert(scene.now);
                scene.timers.arm(Timer::Poll, scene.now + self.timeout.current());
                (Packet::Poll { sequence, first, round }, "poll")
            }
        };
        packet.emit(scene.association, buf);
        scene.events.control(name, last);
        Some(scene.to_group())
    }

    fn window(&self) -> Option<&AckWindow> {
        Some(&self.window)
    }

    fn offer(&mut self, scene: &mut Scene, payload: Bytes) -> Result<MessageId, OfferError> {
        if self.phase != Phase::Ready && !self.window.is_closed() {
            return Err(OfferError::Full);
        }
        let number = self.window.offer(payload)?;
        self.resent.push_back(0);
        scene.timers.clear();
        self.phase = Phase::Waiting;
        // With nobody left to acknowledge, the message is with all receivers at once.
        self.advance(scene);
        Ok(MessageId(number))
    }

    fn finish(&mut self, scene: &mut Scene) {
        self.window.finish();
        if self.phase == Phase::Ready {
            self.poll_all(scene);
        }
    }

    fn expel(&mut self, scene: &mut Scene, member: NodeId) {
        if self.window.expel_node(member).is_some() {
            self.advance(scene);
        }
    }
}
