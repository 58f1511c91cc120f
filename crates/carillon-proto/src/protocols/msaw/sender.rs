//! The sending side of stop-and-wait.

use bytes::Bytes;
use carillon_core::{
    BuildContext, Dest, DropReason, Event, InState, MessageId, NodeId, OfferError, Outcome, Received, Role,
    Time, Transmit,
};
use carillon_wire::msaw::Packet;

use super::config::SenderConfig;
use super::describe::ACK_SENDER;
use crate::blocks::{Addressed, AnswerTimer, MemberSet, Members, Part, PastLimit, Player, Recipients};

type Scene = crate::blocks::Scene<Timer>;

/// Sends one message at a time and waits until every receiver has acknowledged it.
#[derive(Debug)]
pub struct MsawSender {
    config: SenderConfig,
    members: Members,
    /// Where messages go the first time: the group, or the one receiver of a unicast run.
    data_dest: Dest,
    /// The message in transit.
    current: Option<Current>,
    /// Messages offered so far; the lowest bit of a message's number is its sequence number.
    offered: u64,
    /// Receivers that have acknowledged the current message, were given up for it, or expelled.
    settled: MemberSet,
    expelled: MemberSet,
    timer: AnswerTimer,
    finished: bool,
}

#[derive(Debug)]
struct Current {
    message: MessageId,
    payload: Bytes,
    first_sent: Option<Time>,
    /// What is to be sent next.
    due: Due,
    /// Retransmissions so far: of the message, or of each receiver with unicast retransmission.
    counts: Vec<u32>,
    failed: bool,
}

#[derive(Debug)]
enum Due {
    Nothing,
    /// To all.
    All,
    /// To these receivers, last first.
    Some(Vec<usize>),
}

/// The sender's timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// The whole group has had time to acknowledge: retransmit, or give up.
    Message,
    /// This receiver has had time to acknowledge: the same for it alone.
    Receiver(u32),
}

impl MsawSender {
    /// A sender to these.
    pub fn new(context: &BuildContext, mut config: SenderConfig, to: Recipients) -> Player<Self> {
        let Recipients { members, dest } = to;
        config.retransmission = config.retransmission.for_receivers(members.len() as u32);
        MsawSender {
            timer: AnswerTimer::new(&config.retransmission),
            settled: MemberSet::empty(members.len()),
            expelled: MemberSet::empty(members.len()),
            config,
            members,
            data_dest: dest,
            current: None,
            offered: 0,
            finished: false,
        }
        .play(context)
    }

    fn on_ack(&mut self, scene: &mut Scene, source: NodeId, sequence: u8) {
        let Some(index) = self.members.index_of(source) else {
            return scene.events.dropped(DropReason::NotAMember);
        };
        let Some(current) = &mut self.current else {
            return scene.events.dropped(DropReason::OutOfWindow);
        };
        if u64::from(sequence) != current.message.0 & 1 {
            return scene.events.dropped(DropReason::OutOfWindow);
        }
        if !self.settled.insert(index) {
            return scene.events.dropped(DropReason::Duplicate);
        }
        scene.events.received("ack", current.message);
        // Karn's rule: an answer to a message that was sent twice says nothing.
        let undisturbed = current.counts.iter().all(|&count| count == 0);
        if let Some(sent) = current.first_sent.filter(|_| undisturbed) {
            self.timer.on_answer(scene.now.since(sent));
        }
        if self.config.addressed == Addressed::Unicast {
            scene.timers.cancel(Timer::Receiver(index as u32));
            if let Due::Some(list) = &mut current.due {
                list.retain(|&due| due != index);
            }
        }
        self.complete_if_settled(scene);
    }

    fn give_up(&mut self, scene: &mut Scene, index: usize) {
        if self.settled.insert(index) && self.config.retransmission.past_limit == PastLimit::Expel {
            self.expelled.insert(index);
            scene.events.member_lost(self.members.node(index));
        }
    }

    fn complete_if_settled(&mut self, scene: &mut Scene) {
        if self.settled.len() < self.members.len() {
            return;
        }
        let Some(current) = self.current.take() else { return };
        scene.timers.clear();
        self.timer.on_round_end();
        match current.first_sent {
            Some(sent) if current.counts.iter().all(|&count| count == 0) => {
                self.timer.timeout_mut().on_sample(scene.now.since(sent));
            }
            _ => self.timer.timeout_mut().on_recovery(),
        }
        let outcome = if current.failed && self.config.retransmission.past_limit == PastLimit::Skip {
            Outcome::Failed
        } else {
            Outcome::Acknowledged
        };
        scene.events.completed(current.message, outcome, 1);
    }
}

impl Part for MsawSender {
    type Timer = Timer;

    const ROLE: Role = Role::Sender;

    fn held(&self) -> Option<u64> {
        Some(u64::from(self.current.is_some()))
    }

    fn tell_states(&self, _scene: &Scene, tell: &mut dyn FnMut(InState)) {
        let (state, turn) = match &self.current {
            Some(current) => {
                let again: u64 = current.counts.iter().map(|&count| u64::from(count)).sum();
                ("Waiting", self.settled.len() as u64 + again)
            }
            None => ("Idle", 0),
        };
        tell(InState { of: ACK_SENDER.of, about: 0, state, turn });
    }

    fn handle_datagram(&mut self, scene: &mut Scene, datagram: Received<'_>) {
        let Some(packet) = scene.of_session(Packet::parse(datagram.bytes)) else { return };
        match packet {
            Packet::Ack { sequence } => self.on_ack(scene, datagram.source, sequence),
            _ => scene.events.dropped(DropReason::Foreign),
        }
    }

    /// Section 2.5: the count "does not exceed the maximum": the message is sent again, else the
    /// failure is noted and the next message has its turn.
    fn on_timer(&mut self, scene: &mut Scene, timer: Timer) {
        let Some(current) = &mut self.current else { return };
        let slot = match timer {
            Timer::Message => 0,
            Timer::Receiver(index) => index as usize,
        };
        self.timer.timeout_mut().on_expiry();
        self.timer.on_round_end();
        scene.events.push(Event::TimerFired { timer: "retransmission" });
        if !self.config.retransmission.is_exceeded(current.counts[slot]) {
            current.counts[slot] = current.counts[slot].saturating_add(1);
            let missing = match timer {
                Timer::Message => 0..self.members.len(),
                Timer::Receiver(_) => slot..slot + 1,
            };
            for index in missing.filter(|&index| !self.settled.contains(index)) {
                scene.events.repair_needed(self.members.node(index), 1);
            }
            match (timer, &mut current.due) {
                (Timer::Message, due) => *due = Due::All,
                (Timer::Receiver(_), Due::Some(list)) => list.push(slot),
                (Timer::Receiver(_), due) => *due = Due::Some(vec![slot]),
            }
            return;
        }
        current.failed = true;
        match timer {
            Timer::Message => {
                for index in 0..self.members.len() {
                    self.give_up(scene, index);
                }
            }
            Timer::Receiver(_) => self.give_up(scene, slot),
        }
        self.complete_if_settled(scene);
    }

    fn poll_transmit(&mut self, scene: &mut Scene, buf: &mut Vec<u8>) -> Option<Transmit> {
        let current = self.current.as_mut()?;
        let dest = match &mut current.due {
            Due::Nothing => return None,
            Due::All => {
                current.due = Due::Nothing;
                self.data_dest.clone()
            }
            Due::Some(list) => Dest::Node(self.members.node(list.pop()?)),
        };
        let sequence = (current.message.0 & 1) as u8;
        let payload = &current.payload[..];
        let packet = match self.timer.ack_wait_nanos() {
            Some(ack_wait) => Packet::Timed { sequence, ack_wait, payload },
            None => Packet::Data { sequence, payload },
        };
        packet.emit(scene.association, buf);
        let message = current.message;
        let first = current.first_sent.is_none();
        current.first_sent.get_or_insert(scene.now);
        let deadline = self.timer.deadline(scene.now);
        match (self.config.addressed, &dest) {
            (Addressed::Multicast, _) => scene.timers.arm(Timer::Message, deadline),
            (Addressed::Unicast, Dest::Node(node)) if !first => {
                if let Some(index) = self.members.index_of(*node) {
                    scene.timers.arm(Timer::Receiver(index as u32), deadline);
                }
            }
            (Addressed::Unicast, _) => {
                for index in (0..self.members.len()).filter(|&index| !self.settled.contains(index)) {
                    scene.timers.arm(Timer::Receiver(index as u32), deadline);
                }
            }
        }
        Some(scene.events.data_sent(Transmit::now(dest), message, buf.len(), !first))
    }

    fn offer(&mut self, scene: &mut Scene, payload: Bytes) -> Result<MessageId, OfferError> {
        if self.finished {
            return Err(OfferError::Finished);
        }
        if self.current.is_some() {
            return Err(OfferError::Full);
        }
        let message = MessageId(self.offered);
        self.offered += 1;
        self.settled.clone_from(&self.expelled);
        let counts = match self.config.addressed {
            Addressed::Multicast => vec![0],
            Addressed::Unicast => vec![0; self.members.len()],
        };
        self.current =
            Some(Current { message, payload, first_sent: None, due: Due::All, counts, failed: false });
        // With nobody left to acknowledge, the message is with all receivers at once.
        self.complete_if_settled(scene);
        Ok(message)
    }

    fn finish(&mut self, _scene: &mut Scene) {
        self.finished = true;
    }

    fn expel(&mut self, scene: &mut Scene, member: NodeId) {
        let Some(index) = self.members.index_of(member) else { return };
        self.expelled.insert(index);
        self.settled.insert(index);
        scene.timers.cancel(Timer::Receiver(index as u32));
        if let Some(Current { due: Due::Some(list), .. }) = &mut self.current {
            list.retain(|&due| due != index);
        }
        self.complete_if_settled(scene);
    }

    fn awaits(&self, _scene: &Scene, member: NodeId) -> bool {
        let sent = self.current.as_ref().is_some_and(|current| current.first_sent.is_some());
        sent && self.members.index_of(member).is_some_and(|index| !self.settled.contains(index))
    }

    fn is_finished(&self) -> bool {
        self.finished && self.current.is_none()
    }
}
