//! Root of the tree.

use std::sync::Arc;

use bytes::Bytes;
use carillon_core::{
    BuildContext, Config, ConfigError, DropReason, HelperTable, MessageId, NodeId, ObservedState, OfferError,
    Received, Role, Time, Transmit,
};
use carillon_wire::pf::Packet;

use super::branch::Branch;
use super::states::STATES;
use crate::blocks::{MachineContext, Part, Player};

/// Sender that sends messages to its children, which forward or repair them.
#[derive(Debug)]
pub struct PrmpSender {
    branch: Branch,
    finished: bool,
}

impl PrmpSender {
    /// Creates a sender to the members of `build`; fails if a setting is invalid.
    pub fn new(build: &BuildContext, settings: &Config) -> Result<Player<Self>, ConfigError> {
        let children = build.helpers.children_of_sender(&build.members);
        Ok(PrmpSender { branch: Branch::new(build, settings, children)?, finished: false }.play(build))
    }
}

impl Part for PrmpSender {
    type Timer = ();

    const ROLE: Role = Role::Sender;

    fn held(&self) -> Option<u64> {
        Some(self.branch.parent.messages().len() as u64)
    }

    fn handle_datagram(&mut self, context: &mut MachineContext, datagram: Received<'_>) {
        match context.of_session(Packet::parse(datagram.bytes)) {
            None => {}
            Some(Packet::Resp(resp)) => {
                self.branch.on_resp(context, datagram.source, &resp);
                self.advance(context);
            }
            Some(_) => context.events.dropped(DropReason::Foreign),
        }
    }

    fn handle_timeout(&mut self, context: &mut MachineContext) {
        self.branch.parent.handle_timeout(context.now);
        self.advance(context);
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.branch.parent.poll_timeout()
    }

    fn poll_transmit(&mut self, context: &mut MachineContext, buf: &mut Vec<u8>) -> Option<Transmit> {
        self.branch.poll_transmit(context, true, buf)
    }

    fn report_states(&self, _context: &MachineContext, tell: &mut dyn FnMut(ObservedState)) {
        let messages = self.branch.parent.messages();
        for (number, message) in (messages.start()..).zip(messages.iter()) {
            tell(ObservedState { of: STATES[0].of, about: number, state: message.state(), turn: 0 });
        }
    }

    fn offer(&mut self, context: &mut MachineContext, payload: Bytes) -> Result<MessageId, OfferError> {
        if self.finished {
            return Err(OfferError::Finished);
        }
        if self.branch.parent.is_full() {
            return Err(OfferError::Full);
        }
        let number = self.branch.parent.push(payload);
        self.advance(context);
        Ok(MessageId(number))
    }

    fn finish(&mut self, _context: &mut MachineContext) {
        self.finished = true;
    }

    /// Reports lost children and completed messages.
    fn advance(&mut self, context: &mut MachineContext) {
        self.branch.report_lost(context);
        while let Some((number, outcome, window)) = self.branch.parent.pop_complete() {
            context.events.completed(MessageId(number), outcome, window);
        }
    }

    fn expel(&mut self, context: &mut MachineContext, member: NodeId) {
        self.branch.expel(member);
        self.advance(context);
    }

    fn update_helpers(&mut self, context: &mut MachineContext, table: &Arc<HelperTable>) {
        if table.edition() > self.branch.table.edition() {
            self.branch.update_helpers(context.now, table, &table.children_of_sender(&context.nodes));
            self.advance(context);
        }
    }

    fn awaits(&self, _context: &MachineContext, member: NodeId) -> bool {
        self.branch.index_of(member).is_some_and(|index| self.branch.parent.awaits(index))
    }

    fn acknowledged(&self, _context: &MachineContext, member: NodeId) -> Option<u64> {
        self.branch.parent.acknowledged(self.branch.index_of(member)?)
    }

    fn is_finished(&self) -> bool {
        self.finished && self.branch.parent.messages().is_empty()
    }
}
