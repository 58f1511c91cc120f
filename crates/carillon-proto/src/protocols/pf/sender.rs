//! Sender, the parent of all receivers.

use bytes::Bytes;
use carillon_core::{
    BuildContext, Config, ConfigError, Dest, DropReason, Event, Identities, MessageId, NodeId, ObservedState,
    OfferError, Received, Role, Time, Transmit, expand,
};
use carillon_wire::pf::{ChildSet, Packet, Poll, Resp};

use super::config::Rules;
use super::intake::{MODULUS, stamp};
use super::parent::{Parent, Response, Sending, To};
use super::states::STATES;
use crate::blocks::{MachineContext, Members, Part, Player, ReceiverMap};

/// Sender that polls its children so that their responses arrive no faster than it can process them.
#[derive(Debug)]
pub struct PfSender {
    members: Members,
    identities: Identities,
    parent: Parent,
    finished: bool,
    /// Buffers for the identifiers of polled children and their encoding, reused to avoid allocations.
    names: (Vec<u32>, Vec<u8>),
}

impl PfSender {
    /// Creates a sender to the members of `build`; fails if a setting is invalid.
    pub fn new(build: &BuildContext, settings: &Config) -> Result<Player<Self>, ConfigError> {
        let rules = Rules::new(build, settings)?;
        Ok(PfSender {
            members: Members::new(build.members.clone()),
            identities: build.identities.clone(),
            parent: Parent::new(rules, build.members.len()),
            finished: false,
            names: Default::default(),
        }
        .play(build))
    }

    fn on_resp(&mut self, context: &mut MachineContext, source: NodeId, resp: &Resp<'_>) {
        let Some(index) = self.members.index_of(source) else {
            return context.events.dropped(DropReason::NotAMember);
        };
        let Some(response) = read(&self.parent, index, resp) else {
            return context.events.dropped(DropReason::OutOfWindow);
        };
        match self.parent.on_response(context.now, index, &response) {
            Err(reason) => return context.events.dropped(reason),
            Ok(()) => context.received("resp", response.map.next().saturating_sub(1)),
        }
        self.advance(context);
    }

    fn emit(
        &mut self,
        context: &mut MachineContext,
        sending: &Sending,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let PfSender { members, identities, parent, names: (names, written), .. } = self;
        names.clear();
        names.extend(sending.asked.iter().map(|&index| identities.member(index, members.node(index)) as u32));
        let poll = poll(sending, names, written);
        let to = match sending.to {
            To::All => context.to_group(),
            To::Child(index) => Transmit::now(Dest::Node(members.node(index))),
        };
        emit(parent, context, sending, poll, to, buf)
    }
}

/// Expands a response to full sequence numbers; `None` from an unknown child.
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

/// Builds the poll of a packet; `None` if it names no child.
pub(crate) fn poll<'a>(sending: &Sending, names: &mut [u32], written: &'a mut Vec<u8>) -> Option<Poll<'a>> {
    names.sort_unstable();
    let last = (sending.last % MODULUS) as u32;
    let children = ChildSet::encode(names, written);
    (!names.is_empty()).then_some(Poll { time: stamp(sending.at), last, children })
}

/// Emits a packet of a parent, and records it as sent by this node.
fn emit(
    parent: &Parent,
    context: &mut MachineContext,
    sending: &Sending,
    poll: Option<Poll<'_>>,
    to: Transmit,
    buf: &mut Vec<u8>,
) -> Option<Transmit> {
    let first = (parent.messages().start() % MODULUS) as u32;
    let Some(number) = sending.message else {
        Packet::Poll { first, poll: poll? }.emit(context.association, buf);
        context.control("poll", sending.last);
        return Some(to);
    };
    let payload = &parent.messages().get(number)?.payload;
    let seq = (number % MODULUS) as u32;
    Packet::Data { seq, first, poll, payload }.emit(context.association, buf);
    Some(context.events.data_sent(to, MessageId(number), buf.len(), sending.again))
}

impl Part for PfSender {
    type Timer = ();

    const ROLE: Role = Role::Sender;

    fn held(&self) -> Option<u64> {
        Some(self.parent.messages().len() as u64)
    }

    fn handle_datagram(&mut self, context: &mut MachineContext, datagram: Received<'_>) {
        match context.of_session(Packet::parse(datagram.bytes)) {
            None => {}
            Some(Packet::Resp(resp)) => self.on_resp(context, datagram.source, &resp),
            Some(_) => context.events.dropped(DropReason::Foreign),
        }
    }

    fn handle_timeout(&mut self, context: &mut MachineContext) {
        self.parent.handle_timeout(context.now);
        self.advance(context);
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.parent.poll_timeout()
    }

    fn poll_transmit(&mut self, context: &mut MachineContext, buf: &mut Vec<u8>) -> Option<Transmit> {
        loop {
            let sending = self.parent.poll_sending(context.now);
            for (index, messages) in self.parent.take_needs() {
                context.events.repair_needed(self.members.node(index), messages);
            }
            let sending = sending?;
            if let Some(transmit) = self.emit(context, &sending, buf) {
                return Some(transmit);
            }
        }
    }

    fn report_states(&self, _context: &MachineContext, tell: &mut dyn FnMut(ObservedState)) {
        let messages = self.parent.messages();
        for (number, message) in (messages.start()..).zip(messages.iter()) {
            tell(ObservedState { of: STATES[0].of, about: number, state: message.state(), turn: 0 });
        }
    }

    fn offer(&mut self, context: &mut MachineContext, payload: Bytes) -> Result<MessageId, OfferError> {
        if self.finished {
            return Err(OfferError::Finished);
        }
        if self.parent.is_full() {
            return Err(OfferError::Full);
        }
        let number = self.parent.push(payload);
        // Without a live child the message is complete at once.
        self.advance(context);
        Ok(MessageId(number))
    }

    fn finish(&mut self, _context: &mut MachineContext) {
        self.finished = true;
    }

    /// Reports lost children and completed messages.
    fn advance(&mut self, context: &mut MachineContext) {
        for index in self.parent.take_lost() {
            context.events.push(Event::TimerFired { timer: "absent" });
            context.events.member_lost(self.members.node(index));
        }
        while let Some((number, outcome, window)) = self.parent.pop_complete() {
            context.events.completed(MessageId(number), outcome, window);
        }
    }

    fn expel(&mut self, context: &mut MachineContext, member: NodeId) {
        if let Some(index) = self.members.index_of(member) {
            self.parent.remove(index);
            self.advance(context);
        }
    }

    fn awaits(&self, _context: &MachineContext, member: NodeId) -> bool {
        self.members.index_of(member).is_some_and(|index| self.parent.awaits(index))
    }

    fn acknowledged(&self, _context: &MachineContext, member: NodeId) -> Option<u64> {
        self.parent.acknowledged(self.members.index_of(member)?)
    }

    fn is_finished(&self) -> bool {
        self.finished && self.parent.messages().is_empty()
    }
}
