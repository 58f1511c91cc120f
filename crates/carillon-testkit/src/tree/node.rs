//! Receiver, helper, or both.

use std::collections::VecDeque;
use std::sync::Arc;

use carillon_core::{
    BuildContext, Config, Delivery, Dest, DropReason, Event, Events, HelperTable, Machine, MessageId, NodeId,
    Received, Receiver, Role, Time, Transmit,
};

use super::branch::Branch;
use super::packet::{ACK, DATA, HEADER_LEN, emit, parse};

/// Node that takes messages in order, and delivers them, keeps them for its children, or both.
#[derive(Debug)]
pub(super) struct TreeNode {
    context: BuildContext,
    table: Arc<HelperTable>,
    delivers: bool,
    /// Children; empty for a plain receiver. A helper may have none too.
    branch: Branch,
    helps: bool,
    most: usize,
    expected: u64,
    deliveries: VecDeque<Delivery>,
    ack_due: bool,
    events: Events,
}

impl TreeNode {
    pub fn new(role: Role, context: &BuildContext, config: &Config) -> Self {
        let mut branch = Branch::new(config.count("limit"), config.span("wait").at(context.bit_rate));
        branch.adopt(context.helpers.children(context.node), |_| true);
        TreeNode {
            context: context.clone(),
            table: context.helpers.clone(),
            delivers: role == Role::Receiver,
            branch,
            helps: role == Role::Helper || context.helpers.is_helper(context.node),
            most: context.max_messages(config.count("window")) as usize,
            expected: 0,
            deliveries: VecDeque::new(),
            ack_due: false,
            events: Events::default(),
        }
    }

    /// Number of the first message that this node or its subtree is missing.
    fn has(&self) -> u64 {
        if self.helps { self.branch.base() } else { self.expected }
    }

    fn on_data(&mut self, now: Time, number: u64, datagram: Received<'_>) {
        if datagram.source != self.context.sender && !self.table.is_helper(datagram.source) {
            return self.events.dropped(DropReason::NotAMember);
        }
        if number < self.expected {
            // The sender of an old message has missed an acknowledgment, so acknowledge again.
            self.ack_due = true;
            return self.events.dropped(DropReason::Duplicate);
        }
        if number > self.expected {
            return self.events.dropped(DropReason::OutOfOrder);
        }
        if self.deliveries.len() >= self.most || self.branch.len() >= self.most {
            return self.events.dropped(DropReason::BufferFull);
        }
        let (source, message) = (self.context.sender, MessageId(number));
        let payload = datagram.bytes.slice(HEADER_LEN..);
        self.expected += 1;
        self.ack_due = true;
        self.events.push(Event::Received { packet: "data", message });
        if self.helps {
            self.branch.push(payload.clone());
            self.branch.watch(now, self.expected);
        }
        if self.delivers {
            self.events.push(Event::Delivered { source, message });
            self.deliveries.push_back(Delivery { source, message, payload });
        }
    }

    fn on_ack(&mut self, now: Time, child: NodeId, has: u64) {
        // The child may have received a message that this node is missing.
        match self.branch.on_ack(child, has, u64::MAX) {
            Ok(gets_on) => {
                self.ack_due |= gets_on;
                let message = MessageId(has.saturating_sub(1));
                self.events.push(Event::Received { packet: "ack", message });
                self.branch.watch(now, self.expected);
            }
            Err(reason) => self.events.dropped(reason),
        }
    }
}

impl Machine for TreeNode {
    fn events(&mut self) -> Option<&mut Events> {
        Some(&mut self.events)
    }

    fn handle_datagram(&mut self, now: Time, datagram: Received<'_>) {
        match parse(datagram.bytes) {
            None => self.events.dropped(DropReason::Malformed),
            Some((_, association, _)) if association != self.context.association => {
                self.events.dropped(DropReason::Foreign);
            }
            Some((DATA, _, number)) => self.on_data(now, number, datagram),
            Some((_, _, has)) => self.on_ack(now, datagram.source, has),
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        if self.branch.poll_timeout().is_none_or(|at| at > now) {
            return;
        }
        let before = self.has();
        for member in self.branch.on_timeout(now, self.expected, |node| self.table.is_helper(node)) {
            self.events.member_lost(member);
        }
        self.ack_due |= self.has() > before;
        self.branch.watch(now, self.expected);
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.branch.poll_timeout()
    }

    fn poll_transmit(&mut self, _now: Time, buf: &mut Vec<u8>) -> Option<Transmit> {
        let association = self.context.association;
        if let Some((child, number, payload)) = self.branch.next_repair() {
            emit(association, DATA, number, &payload, buf);
            let (source, message, bytes) = (self.context.sender, MessageId(number), buf.len() as u32);
            self.events.push(Event::Forwarded { source, message, bytes, repair: true });
            return Some(Transmit::now(Dest::Node(child)));
        }
        if !std::mem::take(&mut self.ack_due) {
            return None;
        }
        let has = self.has();
        emit(association, ACK, has, &[], buf);
        self.events.push(Event::ControlSent { packet: "ack", message: MessageId(has.saturating_sub(1)) });
        let to = self.table.parent(self.context.node).unwrap_or(self.context.sender);
        Some(Transmit::now(Dest::Node(to)))
    }

    fn update_helpers(&mut self, now: Time, table: &Arc<HelperTable>) {
        if table.edition() <= self.table.edition() {
            return;
        }
        let (before, had) = (self.table.parent(self.context.node), self.has());
        self.table = table.clone();
        self.branch.adopt(table.children(self.context.node), |node| table.is_helper(node));
        self.branch.watch(now, self.expected);
        // The new parent does not know the state of this node yet.
        let is_new = table.parent(self.context.node) != before;
        self.ack_due |= (is_new && self.expected > 0) || self.has() > had;
    }

    fn as_receiver(&mut self) -> Option<&mut dyn Receiver> {
        if self.delivers { Some(self) } else { None }
    }
}

impl Receiver for TreeNode {
    fn poll_delivery(&mut self) -> Option<Delivery> {
        self.deliveries.pop_front()
    }
}
