//! The root of the tree.

use std::sync::Arc;

use bytes::Bytes;
use carillon_core::{
    BuildContext, Config, ConfigError, DropReason, HelperTable, InState, MessageId, NodeId, OfferError,
    Received, Role, Time, Transmit,
};
use carillon_wire::pf::Packet;

use super::branch::Branch;
use crate::blocks::{Part, Player, Scene};

/// Sends messages to its children, and they to theirs.
#[derive(Debug)]
pub struct PrmpSender {
    branch: Branch,
    finished: bool,
}

impl PrmpSender {
    /// A sender to the members of the context.
    pub fn new(context: &BuildContext, settings: &Config) -> Result<Player<Self>, ConfigError> {
        let children = context.helpers.children_of_sender(&context.members);
        Ok(PrmpSender { branch: Branch::new(context, settings, children)?, finished: false }.play(context))
    }
}

impl Part for PrmpSender {
    type Timer = ();

    const ROLE: Role = Role::Sender;

    fn held(&self) -> Option<u64> {
        Some(self.branch.parent.messages().len() as u64)
    }

    fn handle_datagram(&mut self, scene: &mut Scene, datagram: Received<'_>) {
        match scene.of_session(Packet::parse(datagram.bytes)) {
            None => {}
            Some(Packet::Resp(resp)) => {
                self.branch.on_resp(scene, datagram.source, &resp);
                self.advance(scene);
            }
            Some(_) => scene.events.dropped(DropReason::Foreign),
        }
    }

    fn handle_timeout(&mut self, scene: &mut Scene) {
        self.branch.parent.handle_timeout(scene.now);
        self.advance(scene);
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.branch.parent.poll_timeout()
    }

    fn poll_transmit(&mut self, scene: &mut Scene, buf: &mut Vec<u8>) -> Option<Transmit> {
        self.branch.poll_transmit(scene, true, buf)
    }

    fn tell_states(&self, _scene: &Scene, tell: &mut dyn FnMut(InState)) {
        let messages = self.branch.parent.messages();
        for (number, message) in (messages.start()..).zip(messages.iter()) {
            tell(InState { of: super::ENTRY.states[0].of, about: number, state: message.state(), turn: 0 });
        }
    }

    fn offer(&mut self, scene: &mut Scene, payload: Bytes) -> Result<MessageId, OfferError> {
        if self.finished {
            return Err(OfferError::Finished);
        }
        if self.branch.parent.is_full() {
            return Err(OfferError::Full);
        }
        let number = self.branch.parent.push(payload);
        self.advance(scene);
        Ok(MessageId(number))
    }

    fn finish(&mut self, _scene: &mut Scene) {
        self.finished = true;
    }

    fn advance(&mut self, scene: &mut Scene) {
        self.branch.tell(scene);
        while let Some((number, outcome, window)) = self.branch.parent.pop_complete() {
            scene.events.completed(MessageId(number), outcome, window);
        }
    }

    fn expel(&mut self, scene: &mut Scene, member: NodeId) {
        self.branch.expel(member);
        self.advance(scene);
    }

    fn retable(&mut self, scene: &mut Scene, table: &Arc<HelperTable>) {
        if table.edition() > self.branch.table.edition() {
            self.branch.retable(scene.now, table, &table.children_of_sender(&scene.nodes));
            self.advance(scene);
        }
    }

    fn awaits(&self, _scene: &Scene, member: NodeId) -> bool {
        self.branch.index_of(member).is_some_and(|index| self.branch.parent.awaits(index))
    }

    fn acknowledged(&self, _scene: &Scene, member: NodeId) -> Option<u64> {
        self.branch.parent.acknowledged(self.branch.index_of(member)?)
    }

    fn is_finished(&self) -> bool {
        self.finished && self.branch.parent.messages().is_empty()
    }
}
