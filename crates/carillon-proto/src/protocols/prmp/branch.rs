//! Branch of the tree: a parent with the addresses of its children.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use carillon_core::{
    BuildContext, Config, ConfigError, Dest, Event, HelperTable, InlineQueue, MessageId, NodeId, Time,
    Transmit,
};
use carillon_wire::pf::{ChildSet, Packet, Poll, Resp};

use crate::blocks::MachineContext;
use crate::protocols::pf::config::{CongestionRule, Rules};
use crate::protocols::pf::intake::{MODULUS, stamp};
use crate::protocols::pf::parent::{Parent, Sending, To};
use crate::protocols::pf::sender::read;

/// Parent with its children, which are helpers or members.
#[derive(Debug)]
pub(super) struct Branch {
    pub parent: Parent,
    pub table: Arc<HelperTable>,
    nodes: Vec<NodeId>,
    index: BTreeMap<NodeId, usize>,
    /// True if the sender multicasts to all, and inner nodes send only repairs.
    from_root: bool,
    /// Lost helpers, until the table has new parents for their children.
    orphaning: BTreeSet<NodeId>,
    /// Packets of the present transmission.
    out: InlineQueue<OutgoingPacket, 1>,
    written: Vec<u8>,
}

/// Packet to one child, or to the whole group.
#[derive(Clone, Copy, Debug)]
struct OutgoingPacket {
    to: Option<usize>,
    message: Option<u64>,
    again: bool,
    /// POLL.TS and POLL.SEQ.
    poll: Option<(Time, u64)>,
}

impl Branch {
    /// Creates the branch of a node with these children; fails if a setting is invalid.
    pub fn new(build: &BuildContext, settings: &Config, nodes: Vec<NodeId>) -> Result<Self, ConfigError> {
        let from_root = settings.choice("data") == "root";
        let rules = Rules::new(build, settings)?;
        let rules = Rules {
            consumed: settings.choice("reliability") == "end",
            ahead: true,
            helper_timeout: settings.span("helper_timeout").at(build.bit_rate),
            congestion: match rules.congestion {
                // An inner node does not send the root's messages, so it cannot slow down by itself.
                CongestionRule::Window if from_root && build.node != build.sender => CongestionRule::Reported,
                rule => rule,
            },
            ..rules
        };
        let mut parent = Parent::new(rules, nodes.len());
        let helpers: BTreeSet<NodeId> = build.helpers.helpers().iter().map(|helper| helper.node).collect();
        for (index, _) in nodes.iter().enumerate().filter(|(_, node)| helpers.contains(node)) {
            parent.set_helper(index);
        }
        Ok(Branch {
            parent,
            table: build.helpers.clone(),
            index: nodes.iter().copied().zip(0..).collect(),
            nodes,
            from_root,
            orphaning: BTreeSet::new(),
            out: InlineQueue::default(),
            written: Vec::new(),
        })
    }

    /// Handles a response of a child.
    pub fn on_resp<T: Ord + Copy>(
        &mut self,
        context: &mut MachineContext<T>,
        source: NodeId,
        resp: &Resp<'_>,
    ) {
        use carillon_core::DropReason::{NotAMember, OutOfWindow};
        let Some(&index) = self.index.get(&source) else {
            return context.events.dropped(NotAMember);
        };
        let Some(response) = read(&self.parent, index, resp) else {
            return context.events.dropped(OutOfWindow);
        };
        match self.parent.on_response(context.now, index, &response) {
            Err(reason) => context.events.dropped(reason),
            Ok(()) => context.received("resp", response.map.next().saturating_sub(1)),
        }
    }

    /// Reports lost children. Messages that the children of a lost helper may be missing are kept until their new
    /// parent is known.
    pub fn report_lost<T: Ord + Copy>(&mut self, context: &mut MachineContext<T>) {
        for index in self.parent.take_lost() {
            let node = self.nodes[index];
            self.hold_for(node);
            context.events.member_lost(node);
        }
    }

    /// Holds all messages until the children of a lost helper have a new parent.
    fn hold_for(&mut self, node: NodeId) {
        if self.table.is_helper(node) {
            self.orphaning.insert(node);
            self.parent.hold(true);
        }
    }

    /// Stops waiting for a member that is gone.
    pub fn expel(&mut self, member: NodeId) {
        if let Some(&index) = self.index.get(&member) {
            if self.parent.child(index).is_some() {
                self.hold_for(member);
            }
            self.parent.remove(index);
        }
    }

    /// Applies a new table with the children of this node.
    pub fn update_helpers(&mut self, now: Time, table: &Arc<HelperTable>, children: &[NodeId]) {
        self.table = table.clone();
        // New children start without a known state and are polled for it.
        for &node in children {
            if !self.index.contains_key(&node) {
                self.index.insert(node, self.nodes.len());
                self.nodes.push(node);
                self.parent.adopt(now);
                if table.is_helper(node) {
                    self.parent.set_helper(self.nodes.len() - 1);
                }
            }
        }
        // Children that have left are no longer awaited.
        let gone: Vec<usize> =
            self.index.iter().filter(|(node, _)| !children.contains(node)).map(|(_, &index)| index).collect();
        gone.into_iter().for_each(|index| self.parent.remove(index));
        // A table may concern other nodes, and still contain the lost helper.
        self.orphaning.retain(|node| children.contains(node));
        self.parent.hold(!self.orphaning.is_empty());
    }

    /// Index of a child.
    pub fn index_of(&self, node: NodeId) -> Option<usize> {
        self.index.get(&node).copied()
    }

    /// Returns the next packet. Only the root marks the first packet of a message as its original.
    pub fn poll_transmit<T: Ord + Copy>(
        &mut self,
        context: &mut MachineContext<T>,
        is_root: bool,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        loop {
            while let Some(out) = self.out.pop_front() {
                if let Some(transmit) = self.emit(context, is_root, out, buf) {
                    return Some(transmit);
                }
            }
            let sending = self.parent.poll_sending(context.now);
            for (index, messages) in self.parent.take_needs() {
                context.events.repair_needed(self.nodes[index], messages);
            }
            let sending = sending?;
            self.spread(is_root, &sending);
        }
    }

    /// Splits a transmission into packets for single children, because the children of a node have no group address.
    fn spread(&mut self, is_root: bool, sending: &Sending) {
        let Sending { message, again, to, ref asked, at, last } = *sending;
        let poll = |index: &usize| asked.contains(index).then_some((at, last));
        let to_all = matches!(to, To::All) && message.is_some();
        if to_all && self.from_root && (is_root || !again) {
            // All nodes receive the root's multicast; an inner node adds only its polls.
            if is_root {
                self.out.push_back(OutgoingPacket { to: None, message, again, poll: None });
            }
            let polls = asked.iter().map(|&index| OutgoingPacket {
                to: Some(index),
                message: None,
                again: true,
                poll: Some((at, last)),
            });
            self.out.extend(polls);
            return;
        }
        // A retransmission goes only to the children that are missing the message.
        let is_missing = |index: &usize| {
            !again
                || message.is_none_or(|number| {
                    self.parent.child(*index).is_some_and(|child| !child.map.has(number))
                })
        };
        let to: Vec<usize> = match to {
            To::Child(index) => vec![index],
            To::All if to_all => self.parent.live_children().filter(is_missing).collect(),
            To::All => asked.clone(),
        };
        // Polled children that do not get the message get a poll alone.
        let others = asked.iter().filter(|index| !to.contains(index));
        let others = others.map(|&index| OutgoingPacket {
            to: Some(index),
            message: None,
            again: true,
            poll: Some((at, last)),
        });
        let (mut again, others) = (again, others.collect::<Vec<_>>());
        for index in &to {
            self.out.push_back(OutgoingPacket { to: Some(*index), message, again, poll: poll(index) });
            // The first copy is the original.
            again |= is_root;
        }
        self.out.extend(others);
    }

    fn emit<T: Ord + Copy>(
        &mut self,
        context: &mut MachineContext<T>,
        is_root: bool,
        out: OutgoingPacket,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let to = match out.to {
            None => Transmit::now(Dest::group(context.group)),
            Some(index) => {
                self.parent.child(index)?;
                Transmit::now(Dest::Node(self.nodes[index]))
            }
        };
        // A poll by unicast needs no real identifier.
        let children = ChildSet::encode(&[SOLE_CHILD_ID], &mut self.written);
        let poll =
            out.poll.map(|(at, last)| Poll { time: stamp(at), last: (last % MODULUS) as u32, children });
        let first = (self.parent.messages().start() % MODULUS) as u32;
        let Some(message) =
            out.message.and_then(|number| Some((number, self.parent.messages().get(number)?)))
        else {
            Packet::Poll { first, poll: poll? }.emit(context.association, buf);
            context.control("poll", out.poll?.1);
            return Some(to);
        };
        let (number, message) = message;
        let seq = (number % MODULUS) as u32;
        Packet::Data { seq, first, poll, payload: &message.payload }.emit(context.association, buf);
        let (source, bytes) = (context.sender, buf.len());
        // Only the root is the source of a message; other nodes forward it.
        if is_root {
            return Some(context.events.data_sent(to, MessageId(number), bytes, out.again));
        }
        let (message, bytes) = (MessageId(number), bytes as u32);
        context.events.push(Event::Forwarded { source, message, bytes, repair: out.again });
        Some(to)
    }
}

/// Identifier in polls, which go to one child each.
pub(super) const SOLE_CHILD_ID: u32 = 0;
