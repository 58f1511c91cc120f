//! The sender: the parent of all.

use bytes::Bytes;
use carillon_core::{
    BuildContext, Config, ConfigError, Dest, DropReason, Event, Identities, InState, MessageId, NodeId,
    OfferError, Received, Role, Time, Transmit, expand,
};
use carillon_wire::pf::{ChildSet, Packet, Poll, Resp};

use super::config::Rules;
use super::describe::DESCRIBED;
use super::intake::{MODULUS, stamp};
use super::parent::{Parent, Response, Sending, To};
use crate::blocks::{Members, Part, Player, ReceiverMap, Scene};

/// Sends messages to its children, and polls them so that their responses come no faster than it can take them in.
#[derive(Debug)]
pub struct PfSender {
    members: Members,
    identities: Identities,
    parent: Parent,
    finished: bool,
    /// Names of the children that a packet asks, and how they are written: kept for their room.
    names: (Vec<u32>, Vec<u8>),
}

impl PfSender {
    /// A sender to the members of the context.
    pub fn new(context: &BuildContext, settings: &Config) -> Result<Player<Self>, ConfigError> {
        let rules = Rules::new(context, settings)?;
        Ok(PfSender {
            members: Members::new(context.members.clone()),
            identities: context.identities.clone(),
            parent: Parent::new(rules, context.members.len()),
            finished: false,
            names: Default::default(),
        }
        .play(context))
    }

    fn on_resp(&mut self, scene: &mut Scene, source: NodeId, resp: &Resp<'_>) {
        let Some(index) = self.members.index_of(source) else {
            return scene.events.dropped(DropReason::NotAMember);
        };
        let Some(response) = read(&self.parent, index, resp) else {
            return scene.events.dropped(DropReason::OutOfWindow);
        };
        match self.parent.on_response(scene.now, index, &response) {
            Err(reason) => return scene.events.dropped(reason),
            Ok(()) => scene.received("resp", response.map.next().saturating_sub(1)),
        }
        self.advance(scene);
    }

    fn emit(&mut self, scene: &mut Scene, sending: &Sending, buf: &mut Vec<u8>) -> Option<Transmit> {
        let PfSender { members, identities, parent, names: (names, written), .. } = self;
        names.clear();
        names.extend(sending.asked.iter().map(|&index| identities.member(index, members.node(index)) as u32));
        let poll = poll(sending, names, written);
        let to = match sending.to {
            To::All => scene.to_group(),
            To::Child(index) => Transmit::now(Dest::Node(members.node(index))),
        };
        emit(parent, scene, sending, poll, to, buf)
    }
}

/// A response in full numbers; none that can be true if they are too far apart.
pub(crate) fn read(parent: &Parent, index: usize, resp: &Resp<'_>) -> Option<Response> {
    let child = parent.child(index)?;
    let expected = expand(resp.expected.into(), MODULUS, child.map.next());
    let [left, highest] = [resp.left, resp.highest].map(|number| expand(number.into(), MODULUS, expected));
    Some(Response {
        at: Time::from_nanos(resp.time),
        left,
        highest,
        size: resp.size.into(),
        map: ReceiverMap::new(expected, resp.received.words()),
    })
}

/// What a packet asks, if it asks anybody.
pub(crate) fn poll<'a>(sending: &Sending, names: &mut [u32], written: &'a mut Vec<u8>) -> Option<Poll<'a>> {
    names.sort_unstable();
    let last = (sending.last % MODULUS) as u32;
    let children = ChildSet::encode(names, written);
    (!names.is_empty()).then_some(Poll { time: stamp(sending.at), last, children })
}

/// Emits what a parent sends, and records it as this node's own.
fn emit(
    parent: &Parent,
    scene: &mut Scene,
    sending: &Sending,
    poll: Option<Poll<'_>>,
    to: Transmit,
    buf: &mut Vec<u8>,
) -> Option<Transmit> {
    let first = (parent.messages().start() % MODULUS) as u32;
    let Some(number) = sending.message else {
        Packet::Poll { first, poll: poll? }.emit(scene.association, buf);
        scene.control("poll", sending.last);
        return Some(to);
    };
    let payload = &parent.messages().get(number)?.payload;
    let seq = (number % MODULUS) as u32;
    Packet::Data { seq, first, poll, payload }.emit(scene.association, buf);
    Some(scene.events.data_sent(to, MessageId(number), buf.len(), sending.again))
}

impl Part for PfSender {
    type Timer = ();

    const ROLE: Role = Role::Sender;

    fn held(&self) -> Option<u64> {
        Some(self.parent.messages().len() as u64)
    }

    fn handle_datagram(&mut self, scene: &mut Scene, datagram: Received<'_>) {
        match scene.of_session(Packet::parse(datagram.bytes)) {
            None => {}
            Some(Packet::Resp(resp)) => self.on_resp(scene, datagram.source, &resp),
            Some(_) => scene.events.dropped(DropReason::Foreign),
        }
    }

    fn handle_timeout(&mut self, scene: &mut Scene) {
        self.parent.handle_timeout(scene.now);
        self.advance(scene);
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.parent.poll_timeout()
    }

    fn poll_transmit(&mut self, scene: &mut Scene, buf: &mut Vec<u8>) -> Option<Transmit> {
        loop {
            let sending = self.parent.poll_sending(scene.now);
            for (index, messages) in self.parent.take_needs() {
                scene.events.repair_needed(self.members.node(index), messages);
            }
            let sending = sending?;
            if let Some(transmit) = self.emit(scene, &sending, buf) {
                return Some(transmit);
            }
        }
    }

    fn tell_states(&self, _scene: &Scene, tell: &mut dyn FnMut(InState)) {
        let messages = self.parent.messages();
        for (number, message) in (messages.start()..).zip(messages.iter()) {
            tell(InState { of: DESCRIBED.states[0].of, about: number, state: message.state(), turn: 0 });
        }
    }

    fn offer(&mut self, scene: &mut Scene, payload: Bytes) -> Result<MessageId, OfferError> {
        if self.finished {
            return Err(OfferError::Finished);
        }
        if self.parent.is_full() {
            return Err(OfferError::Full);
        }
        let number = self.parent.push(payload);
        // With nobody left to acknowledge, the message is with all children at once.
        self.advance(scene);
        Ok(MessageId(number))
    }

    fn finish(&mut self, _scene: &mut Scene) {
        self.finished = true;
    }

    fn advance(&mut self, scene: &mut Scene) {
        for index in self.parent.take_lost() {
            scene.events.push(Event::TimerFired { timer: "absent" });
            scene.events.member_lost(self.members.node(index));
        }
        while let Some((number, outcome, window)) = self.parent.pop_complete() {
            scene.events.completed(MessageId(number), outcome, window);
        }
    }

    fn expel(&mut self, scene: &mut Scene, member: NodeId) {
        if let Some(index) = self.members.index_of(member) {
            self.parent.remove(index);
            self.advance(scene);
        }
    }

    fn awaits(&self, _scene: &Scene, member: NodeId) -> bool {
        self.members.index_of(member).is_some_and(|index| self.parent.awaits(index))
    }

    fn acknowledged(&self, _scene: &Scene, member: NodeId) -> Option<u64> {
        self.parent.acknowledged(self.members.index_of(member)?)
    }

    fn is_finished(&self) -> bool {
        self.finished && self.parent.messages().is_empty()
    }
}
