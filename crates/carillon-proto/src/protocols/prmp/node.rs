//! Node below the root: a child of its parent, and the parent of its own children, if any.

use std::sync::Arc;

use carillon_core::{
    BuildContext, Config, ConfigError, Delivery, Dest, DropReason, HelperTable, NodeId, Received, Role, Time,
    Transmit,
};
use carillon_wire::pf::Packet;

use super::branch::{Branch, SOLE_CHILD_ID};
use crate::blocks::{MachineContext, Part, Player};
use crate::protocols::pf::intake::{Intake, MODULUS};

/// Receiver, inner node, or both.
#[derive(Debug)]
pub struct PrmpNode {
    node: NodeId,
    intake: Intake,
    upstream: NodeId,
    table: Arc<HelperTable>,
    delivers: bool,
    /// Children of this node, if it is a helper.
    branch: Option<Box<Branch>>,
    /// First message that the application has not taken.
    taken: u64,
    /// First message that the node has not consumed; its parent keeps it for this node.
    consumed: u64,
}

impl PrmpNode {
    /// Creates a node of the tree; fails if a setting is invalid.
    pub fn new(role: Role, build: &BuildContext, settings: &Config) -> Result<Player<Self>, ConfigError> {
        let helps = role == Role::Helper || build.helpers.is_helper(build.node);
        let branch = match helps {
            true => Some(Box::new(Branch::new(build, settings, build.helpers.children(build.node))?)),
            false => None,
        };
        Ok(PrmpNode {
            node: build.node,
            intake: Intake::new(SOLE_CHILD_ID, build.max_messages(settings.count("window"))),
            upstream: build.helpers.parent(build.node).unwrap_or(build.sender),
            table: build.helpers.clone(),
            delivers: role == Role::Receiver,
            branch,
            taken: 0,
            consumed: 0,
        }
        .play(build))
    }

    /// Handles a message or a poll from a node above.
    fn take(&mut self, context: &mut MachineContext, packet: Packet<'_>, datagram: &Received<'_>) {
        let expected = (self.intake.window.expected() % MODULUS) as u32;
        let is_mine = datagram.source == self.upstream;
        let is_addressed = is_mine && matches!(datagram.destination, Dest::Node(_));
        // Only the parent may poll a node, or discard messages for it.
        let packet = match packet {
            Packet::Data { seq, first, poll, payload } if is_mine => {
                Packet::Data { seq, first, poll: poll.filter(|_| is_addressed), payload }
            }
            Packet::Data { seq, payload, .. } => {
                // A packet of another node carries a message only; its bounds and polls concern other children.
                Packet::Data { seq, first: expected.min(seq), poll: None, payload }
            }
            packet if is_addressed => packet,
            _ => return context.events.dropped(DropReason::Redundant),
        };
        let before = self.intake.window.expected();
        let message = match self.intake.on_packet(&packet) {
            Ok(message) => message,
            Err(reason) => return context.events.dropped(reason),
        };
        if let Some(skipped) = message.skipped {
            context.events.loss_found(context.sender, before);
            // The subtree skips the same messages.
            (self.taken, self.consumed) = (self.taken.max(skipped.range.end), skipped.range.end);
            if let Some(branch) = &mut self.branch {
                branch.parent.skip_to(skipped.range.end);
            }
            for (number, payload) in skipped.survivors {
                self.intake.window.fetched();
                if self.delivers {
                    context.deliver_sent(number, payload);
                }
            }
        }
        let Packet::Data { payload, .. } = packet else { return context.received("poll", message.number) };
        let missed = !self.intake.window.early().is_empty();
        let begin = datagram.bytes.len() - payload.len();
        match self.intake.keep(message.number, datagram.bytes.slice(begin..)) {
            Err(reason) => context.events.dropped(reason),
            Ok(()) => {
                context.received("data", message.number);
                if self.delivers && message.number > self.intake.window.expected() && !missed {
                    context.events.loss_found(context.sender, self.intake.window.expected());
                }
            }
        }
        // An inner node passes messages on in order, to its branch and to its own application.
        while let Some((number, payload)) = self.intake.window.pop() {
            if let Some(branch) = &mut self.branch {
                branch.parent.push(payload.clone());
            }
            if self.delivers {
                context.deliver_sent(number, payload);
            }
        }
        self.settle(context);
    }

    /// Consumes messages that the application has taken and all nodes below have.
    fn settle(&mut self, context: &mut MachineContext) {
        let mut done = if self.delivers { self.taken } else { self.intake.window.expected() };
        if let Some(branch) = &mut self.branch {
            branch.report_lost(context);
            // LE of an inner node follows the slowest node below, which closes windows level by level.
            while branch.parent.pop_complete().is_some() {}
            done = done.min(branch.parent.messages().start());
        }
        while self.consumed < done && self.intake.window.waiting() > 0 {
            self.intake.window.fetched();
            self.consumed += 1;
        }
    }
}

impl Part for PrmpNode {
    type Timer = ();

    const ROLE: Role = Role::Receiver;

    fn held(&self) -> Option<u64> {
        Some(
            self.intake.window.held()
                + self.branch.as_ref().map_or(0, |branch| branch.parent.messages().len() as u64),
        )
    }

    fn delivers(&self) -> bool {
        self.delivers
    }

    fn handle_datagram(&mut self, context: &mut MachineContext, datagram: Received<'_>) {
        let Some(packet) = context.of_session(Packet::parse(datagram.bytes)) else { return };
        let source = datagram.source;
        match (packet, &mut self.branch) {
            (Packet::Resp(resp), Some(branch)) => {
                branch.on_resp(context, source, &resp);
                self.settle(context);
            }
            (Packet::Resp(_), None) => context.events.dropped(DropReason::Foreign),
            (packet, _) => {
                match source == self.upstream || source == context.sender || self.table.is_helper(source) {
                    true => self.take(context, packet, &datagram),
                    false => context.events.dropped(DropReason::NotAMember),
                }
            }
        }
    }

    fn handle_timeout(&mut self, context: &mut MachineContext) {
        if let Some(branch) = &mut self.branch {
            branch.parent.handle_timeout(context.now);
            self.settle(context);
        }
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.branch.as_ref()?.parent.poll_timeout()
    }

    fn poll_transmit(&mut self, context: &mut MachineContext, buf: &mut Vec<u8>) -> Option<Transmit> {
        if let Some(window) = self.branch.as_ref().and_then(|branch| branch.parent.reported_window()) {
            self.intake.report_window(window);
        }
        let left = self.intake.left();
        if let Some(last) = self.intake.response(left, |packet| packet.emit(context.association, buf)) {
            context.control("resp", last);
            return Some(Transmit::now(Dest::Node(self.upstream)));
        }
        self.branch.as_mut()?.poll_transmit(context, false, buf)
    }

    fn poll_delivery(&mut self, context: &mut MachineContext) -> Option<Delivery> {
        let delivery = context.poll_delivery()?;
        self.taken = self.taken.max(delivery.message.0 + 1);
        self.settle(context);
        Some(delivery)
    }

    fn update_helpers(&mut self, context: &mut MachineContext, table: &Arc<HelperTable>) {
        if table.edition() <= self.table.edition() {
            return;
        }
        self.table = table.clone();
        self.upstream = table.parent(self.node).unwrap_or(context.sender);
        if let Some(branch) = &mut self.branch {
            branch.update_helpers(context.now, table, &table.children(self.node));
            self.settle(context);
        }
    }
}
