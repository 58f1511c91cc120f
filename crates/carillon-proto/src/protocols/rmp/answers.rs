//! Pending answers of this member to requests of other members.

use std::collections::{BTreeSet, VecDeque};

use carillon_core::{Duration, Time, Transmit};
use carillon_wire::rmp::{Batch, Body, Ids, Item};

use super::context::Context;
use super::order::Order;
use super::slots::Message;
use super::token::Token;
use crate::blocks::reformation::To;

/// Requested slot, with its destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Request {
    to: To,
    timestamp: u64,
    /// True if the message goes with the slot; false for the acknowledgment alone.
    with_data: bool,
}

/// Pending answers. The queue keeps only requests; the answer is built when it is sent, so that it is current.
#[derive(Debug, Default)]
pub(super) struct Answers {
    requests: BTreeSet<Request>,
    /// Recent answers to the group, from the oldest one on.
    recent: VecDeque<(Request, Time)>,
    /// Members that asked for the position of this member.
    pub confirmations: BTreeSet<u16>,
    /// Members that requested slots which this member has purged.
    pub purged: BTreeSet<u16>,
    /// New members that are due a WELCOME.
    pub welcomes: BTreeSet<u16>,
    /// True while a confirmation to all members is due.
    pub announced: bool,
}

/// Maximum number of pending answers; it bounds the memory that requests can take.
const MAX_PENDING: usize = 4096;

impl Answers {
    /// Queues a slot. Drops the request if the queue is full, or if the group received the same answer within `hold`.
    pub fn queue(&mut self, now: Time, to: To, timestamp: u64, with_data: bool, hold: Duration) {
        let request = Request { to, timestamp, with_data };
        while self.recent.front().is_some_and(|&(_, at)| now.since(at) >= hold) {
            self.recent.pop_front();
        }
        let is_recent = self.recent.iter().any(|&(recent, _)| recent == request);
        if !is_recent && self.requests.len() < MAX_PENDING {
            self.requests.insert(request);
        }
    }

    /// Writes the next requested slot that is in the log.
    pub fn poll_slot(
        &mut self,
        context: &mut Context,
        order: &Order,
        view: u32,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        loop {
            let request = self.requests.pop_first()?;
            let Some(entry) = order.log.get(request.timestamp) else { continue };
            if request.to == To::Group && self.recent.len() < MAX_PENDING {
                self.recent.push_back((request, context.now));
            }
            if !request.with_data
                && let Some(below) = emit_ack(context, order, view, request.timestamp, buf)
            {
                // One acknowledgment answers the requests for all of its slots.
                self.requests.retain(|other| {
                    other.to != request.to
                        || other.with_data
                        || !(request.timestamp..below).contains(&other.timestamp)
                });
                return Some(context.transmit(request.to));
            }
            let message = entry.message.as_ref().map(Message::as_wire);
            context.emit(view, Body::Repair { slot: entry.slot, message }, buf);
            if let Some(message) = message {
                let id = (message.id.source.into(), message.number);
                return Some(context.data_sent(request.to, id, buf.len(), true, true));
            }
            context.control("repair", request.timestamp);
            return Some(context.transmit(request.to));
        }
    }

    /// Writes the next WELCOME: the state with which a new member begins. The list that admitted it follows.
    pub fn poll_welcome(
        &mut self,
        context: &mut Context,
        order: &Order,
        view: u32,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        loop {
            let rank = self.welcomes.pop_first()?;
            let Some(&timestamp) = order.lists.admitted.get(&rank) else { continue };
            let Some(Item::List(members)) = order.log.get(timestamp).map(|entry| entry.slot.item) else {
                continue;
            };
            let to = To::Rank(rank.into());
            self.queue(context.now, to, timestamp, false, Duration::ZERO);
            context.control("welcome", timestamp);
            let numbers = order.log.state_at(timestamp);
            context.emit(view, Body::Welcome { timestamp, members, numbers: &numbers }, buf);
            return Some(context.transmit(to));
        }
    }

    /// Returns the next answer to one member: a purge notice or a confirmation.
    pub fn poll(
        &mut self,
        context: &mut Context,
        order: &Order,
        token: &Token,
    ) -> Option<(u16, Body<'static>)> {
        // Purge notices come first: their addressee cannot continue without a new view.
        if let Some(site) = self.purged.pop_first() {
            let below = order.log.base();
            context.control("purged", below);
            return Some((site, Body::Purged { below }));
        }
        self.confirmations.pop_first().map(|site| (site, token.confirmation(context, order)))
    }
}

/// Writes the acknowledgment that begins at or contains a slot, from that slot on, and returns the slot after its
/// last one. Returns `None` if its end is not in the log.
pub(super) fn emit_ack(
    context: &mut Context,
    order: &Order,
    view: u32,
    timestamp: u64,
    buf: &mut Vec<u8>,
) -> Option<u64> {
    let first = order.log.get(timestamp)?.slot;
    let mut ids = Vec::new();
    let mut below = timestamp;
    let last = loop {
        let slot = order.log.get(below)?.slot;
        let has_message = matches!(slot.item, Item::Message(_));
        // A member that was alone never passed the token on, so that an empty slot may follow its messages.
        if !has_message && below > timestamp {
            break order.log.get(below - 1)?.slot;
        }
        below += 1;
        if let Item::Message(id) = slot.item {
            id.emit(&mut ids);
        }
        if !has_message || slot.next != slot.site || below - timestamp >= Ids::MAX as u64 {
            break slot;
        }
    };
    let batch = match first.item {
        Item::Null => Batch::Null,
        Item::List(members) => Batch::List(members),
        Item::Message(_) => Batch::Messages(Ids::new(&ids)),
    };
    let body = Body::Ack { timestamp, site: first.site, next: last.next, batch };
    context.control(body.name(), timestamp);
    context.emit(view, body, buf);
    Some(below)
}
