//! Sender, the root of the tree.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use carillon_core::{
    BuildContext, Config, Dest, DropReason, Event, Events, HelperTable, Machine, MessageId, NodeId,
    OfferError, Outcome, Received, Sender, Time, Transmit,
};

use super::branch::Branch;
use super::packet::{ACK, DATA, emit, parse};

/// Sender that multicasts to the group and keeps the messages that some child has not acknowledged.
#[derive(Debug)]
pub(super) struct TreeSender {
    context: BuildContext,
    table: Arc<HelperTable>,
    branch: Branch,
    window: usize,
    /// Messages that have not been sent yet.
    waiting: VecDeque<Bytes>,
    sent: u64,
    completed: u64,
    finished: bool,
    events: Events,
}

impl TreeSender {
    pub fn new(context: &BuildContext, config: &Config) -> Self {
        let mut branch = Branch::new(config.count("limit"), config.span("wait").at(context.bit_rate));
        branch.adopt(context.helpers.children_of_sender(&context.members), |_| true);
        TreeSender {
            context: context.clone(),
            table: context.helpers.clone(),
            branch,
            window: config.count("window") as usize,
            waiting: VecDeque::new(),
            sent: 0,
            completed: 0,
            finished: false,
            events: Events::default(),
        }
    }

    fn settle(&mut self, now: Time) {
        while self.completed < self.branch.base() {
            self.events.completed(MessageId(self.completed), Outcome::Acknowledged, 1);
            self.completed += 1;
        }
        self.branch.watch(now, self.sent);
    }
}

impl Machine for TreeSender {
    fn events(&mut self) -> Option<&mut Events> {
        Some(&mut self.events)
    }

    fn handle_datagram(&mut self, now: Time, datagram: Received<'_>) {
        match parse(datagram.bytes) {
            None => self.events.dropped(DropReason::Malformed),
            Some((packet, association, _)) if association != self.context.association || packet != ACK => {
                self.events.dropped(DropReason::Foreign);
            }
            Some((_, _, has)) => match self.branch.on_ack(datagram.source, has, self.sent) {
                Ok(_) => {
                    let message = MessageId(has.saturating_sub(1));
                    self.events.push(Event::Received { packet: "ack", message });
                    self.settle(now);
                }
                Err(reason) => self.events.dropped(reason),
            },
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        if self.branch.poll_timeout().is_none_or(|at| at > now) {
            return;
        }
        for member in self.branch.on_timeout(now, self.sent, |node| self.table.is_helper(node)) {
            self.events.member_lost(member);
        }
        self.settle(now);
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.branch.poll_timeout()
    }

    fn poll_transmit(&mut self, now: Time, buf: &mut Vec<u8>) -> Option<Transmit> {
        let association = self.context.association;
        if let Some((child, number, payload)) = self.branch.next_repair() {
            emit(association, DATA, number, &payload, buf);
            let transmit = Transmit::now(Dest::Node(child));
            return Some(self.events.data_sent(transmit, MessageId(number), buf.len(), true));
        }
        let payload = self.waiting.pop_front()?;
        let number = self.sent;
        emit(association, DATA, number, &payload, buf);
        self.sent += 1;
        self.branch.push(payload);
        let transmit = Transmit::now(Dest::group(self.context.group));
        let transmit = self.events.data_sent(transmit, MessageId(number), buf.len(), false);
        self.settle(now);
        Some(transmit)
    }

    fn update_helpers(&mut self, now: Time, table: &Arc<HelperTable>) {
        if table.edition() > self.table.edition() {
            self.table = table.clone();
            self.branch.adopt(table.children_of_sender(&self.context.members), |node| table.is_helper(node));
            self.settle(now);
        }
    }

    fn as_sender(&mut self) -> Option<&mut dyn Sender> {
        Some(self)
    }
}

impl Sender for TreeSender {
    fn offer(&mut self, _now: Time, payload: Bytes) -> Result<MessageId, OfferError> {
        if self.finished {
            return Err(OfferError::Finished);
        }
        if self.branch.len() + self.waiting.len() >= self.window {
            return Err(OfferError::Full);
        }
        let number = self.sent + self.waiting.len() as u64;
        self.waiting.push_back(payload);
        Ok(MessageId(number))
    }

    fn finish(&mut self, _now: Time) {
        self.finished = true;
    }

    fn expel(&mut self, now: Time, member: NodeId) {
        self.branch.expel(member);
        self.settle(now);
    }

    fn awaits(&self, member: NodeId) -> bool {
        self.branch.awaits(member, self.sent)
    }

    fn is_finished(&self) -> bool {
        self.finished && self.waiting.is_empty() && self.branch.len() == 0
    }
}
