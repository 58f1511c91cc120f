//! Send window of a sender, with the progress of each receiver.
//!
//! The window holds each message until every receiver has acknowledged it. Acknowledgments are cumulative. A counter
//! at each message holds the number of receivers that stand at it, so that the cost of an acknowledgment depends
//! neither on the size of the group nor on the distance it covers.

use bytes::Bytes;
use carillon_core::{Events, MessageId, NodeId, OfferError, Outcome, Time};

use super::{FixedWindow, FlowControl, Members, Numbered};

/// A message in the window.
#[derive(Debug)]
pub struct Slot {
    /// Payload of the message.
    pub payload: Bytes,
    /// Time of the first transmission, and the number of outstanding messages at that time.
    pub sent: Option<(Time, u32)>,
    /// True if the message is to be sent, for the first time or again.
    pub due: bool,
    /// Time of the last retransmission.
    pub resent: Option<Time>,
    /// Number of retransmissions.
    pub retransmissions: u32,
    /// Transmit order number of the last packet with this message, if the sender counts its packets.
    pub serial: u64,
    /// True if the sender gave up delivery of the message to some receiver.
    pub failed: bool,
    /// Number of receivers for which this is the first unacknowledged message.
    standing: usize,
}

impl Slot {
    /// Records a transmission with this number of outstanding messages. Returns true if it is a retransmission.
    pub fn on_send(&mut self, now: Time, outstanding: u32) -> bool {
        self.due = false;
        let again = self.sent.is_some();
        // Round-trip samples use the time of the first transmission, and only of messages that were never retransmitted
        // (Karn and Partridge 1987).
        if again {
            self.retransmissions = self.retransmissions.saturating_add(1);
            self.resent = Some(now);
        } else {
            self.sent = Some((now, outstanding));
        }
        again
    }
}

/// Outstanding messages, and the acknowledgment vector of the receivers.
///
/// Segovia 1996 recomputes the minimum over the whole vector at each acknowledgment. Counters per message avoid that.
#[derive(Debug)]
pub struct AckWindow {
    /// Receivers of the group, including expelled ones.
    members: Members,
    /// Capacity in messages.
    room: FixedWindow,
    /// Messages from the first one that is not complete to the last one offered.
    slots: Numbered<Slot>,
    /// Lower bound of the first due message: the search starts here.
    due_from: u64,
    /// True if no more messages will be offered.
    finished: bool,
    /// Acknowledgment vector: for each receiver, the sequence number after its last acknowledged message.
    vector: Vec<u64>,
    /// Number of receivers that are not expelled.
    live: usize,
    /// Number of these that have acknowledged all messages.
    done: usize,
    /// First message of the current block, if a block must be complete before the next one begins.
    block: Option<u64>,
}

/// Entry of an expelled receiver in the vector: it acknowledges everything from now on.
const EXPELLED: u64 = u64::MAX;

impl AckWindow {
    /// Creates an empty window for these receivers with this capacity.
    pub fn new(members: Members, room: FixedWindow) -> Self {
        let (vector, live) = (vec![0; members.len()], members.len());
        // Each receiver has acknowledged all of the zero messages in the empty window.
        let (slots, done) = (Numbered::default(), live);
        AckWindow { members, room, slots, due_from: 0, finished: false, vector, live, done, block: None }
    }

    /// Makes the window advance block by block: it accepts no message of the next block before all of the current one
    /// are complete.
    #[must_use]
    pub fn by_blocks(mut self) -> Self {
        self.block = Some(self.start());
        self
    }

    /// Forgets all acknowledgments of outstanding messages.
    pub fn reset(&mut self) {
        let start = self.start();
        self.vector.iter_mut().filter(|next| **next != EXPELLED).for_each(|next| *next = start);
        self.slots.iter_mut().for_each(|slot| slot.standing = 0);
        // This order matters: in an empty window, the counter at the start is `done` itself.
        (self.done, *self.standing(start)) = (0, self.live);
    }

    /// Sets the capacity. Messages beyond it stay in the window.
    pub fn set_room(&mut self, room: FixedWindow) {
        self.room = room;
    }

    /// Adds a message at the end and returns its sequence number. Fails if the window is full or finished.
    pub fn offer(&mut self, payload: Bytes) -> Result<u64, OfferError> {
        if self.finished {
            return Err(OfferError::Finished);
        }
        if self.is_full() {
            return Err(OfferError::Full);
        }
        // Receivers that had everything miss this message now. They all stand at it.
        let slot = Slot {
            payload,
            sent: None,
            due: true,
            resent: None,
            retransmissions: 0,
            serial: 0,
            failed: false,
            standing: std::mem::take(&mut self.done),
        };
        Ok(self.slots.push(slot))
    }

    /// Declares that no more messages will be offered.
    pub fn finish(&mut self) {
        self.finished = true;
    }

    /// Records that receiver `index` has everything up to `message`. Returns true if that is new.
    pub fn acknowledge(&mut self, index: usize, message: u64) -> bool {
        // A receiver may stand before the window, where messages were removed without its acknowledgment.
        let from = self.vector[index].max(self.start());
        if message < from || message >= self.end() {
            return false;
        }
        // Move the receiver from its old position to the new one: two counters change, whatever the distance.
        *self.standing(from) -= 1;
        *self.standing(message + 1) += 1;
        self.vector[index] = message + 1;
        true
    }

    /// Marks all sent messages from this one on as due (go-back-N). Returns their number.
    pub fn go_back_to(&mut self, number: u64) -> u32 {
        let skip = number.saturating_sub(self.start()) as usize;
        let mut count = 0;
        // The search for due messages must not begin behind these messages.
        self.due_from = self.due_from.min(number);
        // Messages that are due already, or were never sent, are no additional repetition.
        for slot in self.slots.iter_mut().skip(skip).filter(|slot| slot.sent.is_some() && !slot.due) {
            slot.due = true;
            count += 1;
        }
        count
    }

    /// Expels a node if it is a member. Returns its index.
    pub fn expel_node(&mut self, node: NodeId) -> Option<usize> {
        let index = self.index_of(node)?;
        self.expel(index);
        Some(index)
    }

    /// Expels all receivers that have not acknowledged the whole window.
    pub fn expel_missing(&mut self, events: &mut Events) {
        // Collect the receivers first, since each expulsion changes the vector.
        for (index, _) in self.missing().collect::<Vec<_>>() {
            self.expel(index);
            events.member_lost(self.node(index));
        }
    }

    /// Treats the messages before `end` as acknowledged by a receiver that will not get them, and marks them as
    /// failed.
    pub fn skip(&mut self, index: usize, end: u64) {
        let from = self.vector[index].max(self.start());
        for number in from..end {
            // A message counts as failed as soon as one receiver does not get it.
            if let Some(slot) = self.slots.get_mut(number) {
                slot.failed = true;
            }
        }
        // Nothing is skipped if the receiver has acknowledged these messages. The test also guards the subtraction at
        // message 0.
        if end > from {
            self.acknowledge(index, end - 1);
        }
    }

    /// Removes a receiver from the count.
    pub fn expel(&mut self, index: usize) {
        // A receiver is expelled at most once. Its entry would otherwise be subtracted from a counter that does not
        // include it.
        *self.standing(self.vector[index].max(self.start())) -= 1;
        self.vector[index] = EXPELLED;
        self.live -= 1;
    }

    /// Receivers that have not acknowledged the first message.
    pub fn missing_first(&self) -> Vec<usize> {
        // The entry of an expelled receiver lies beyond any window, so it is not listed.
        let missing = |&(_, &next): &(usize, &u64)| next <= self.start();
        self.vector.iter().enumerate().filter(missing).map(|(index, _)| index).collect()
    }

    /// Returns true if the first message was sent and this receiver has not acknowledged it.
    pub fn awaits(&self, node: NodeId) -> bool {
        // A message that was not sent yet waits for the sender and not for the receiver.
        let lacks = |index: usize| self.vector[index] <= self.start();
        self.first().is_some_and(|slot| slot.sent.is_some()) && self.members.index_of(node).is_some_and(lacks)
    }

    /// Receivers that have not acknowledged the whole window, each with its number of missing messages.
    pub fn missing(&self) -> impl Iterator<Item = (usize, u32)> {
        // The subtraction saturates to 0 for expelled receivers.
        let messages = |next: u64| self.end().saturating_sub(next.max(self.start())) as u32;
        let missing = self.vector.iter().map(move |&next| messages(next)).enumerate();
        missing.filter(|&(_, messages)| messages > 0)
    }

    /// Removes the first message if every receiver has acknowledged it.
    pub fn pop_acknowledged(&mut self) -> Option<(u64, Slot)> {
        if self.slots.first()?.standing > 0 { None } else { self.pop() }
    }

    /// Removes the first message if every receiver has acknowledged it, and records the outcome.
    pub fn complete_first(&mut self, events: &mut Events) -> Option<(u64, Slot)> {
        let popped = self.pop_acknowledged()?;
        record(events, &popped);
        Some(popped)
    }

    /// Removes the first message regardless of acknowledgments, and records that it failed.
    pub fn fail_first(&mut self, events: &mut Events) -> Option<(u64, Slot)> {
        let (number, slot) = self.pop()?;
        let popped = (number, Slot { failed: true, ..slot });
        record(events, &popped);
        Some(popped)
    }

    /// Removes the first message.
    pub fn pop(&mut self) -> Option<(u64, Slot)> {
        let popped = self.slots.pop()?;
        // The receivers that stood at the removed message now stand at the next one.
        *self.standing(self.start()) += popped.1.standing;
        // The block is complete, so that messages of the next one may be offered.
        if self.is_empty() && self.block.is_some() {
            self.block = Some(self.start());
        }
        Some(popped)
    }

    /// Messages in order.
    pub fn slots_mut(&mut self) -> impl Iterator<Item = &mut Slot> {
        // The caller may mark any message as due, so that the search starts over.
        self.due_from = self.start();
        self.slots.iter_mut()
    }

    /// Number of messages to be retransmitted.
    pub fn due_again(&self) -> u32 {
        self.slots.iter().filter(|slot| slot.due && slot.sent.is_some()).count() as u32
    }

    /// First message that is due.
    pub fn first_due(&mut self) -> Option<(u64, &mut Slot)> {
        // Search from the bound, and remember where the search ended.
        let mut number = self.due_from.max(self.start());
        while self.slots.get(number).is_some_and(|slot| !slot.due) {
            number += 1;
        }
        self.due_from = number;
        self.slots.get_mut(number).map(|slot| (number, slot))
    }

    /// Message with this sequence number.
    pub fn get(&self, number: u64) -> Option<&Slot> {
        self.slots.get(number)
    }

    /// Mutable message with this sequence number.
    pub fn get_mut(&mut self, number: u64) -> Option<&mut Slot> {
        // The caller may mark this message as due.
        self.due_from = self.due_from.min(number);
        self.slots.get_mut(number)
    }

    /// Sequence number after the last message that a receiver has acknowledged.
    pub fn acknowledged_below(&self, index: usize) -> u64 {
        self.vector[index]
    }

    /// First message of the window.
    pub fn first(&self) -> Option<&Slot> {
        self.slots.first()
    }

    /// Sequence number of the first message in the window.
    pub fn start(&self) -> u64 {
        self.slots.start()
    }

    /// Sequence number after the last message in the window.
    pub fn end(&self) -> u64 {
        self.slots.end()
    }

    /// Index of a receiver that is not expelled.
    pub fn index_of(&self, node: NodeId) -> Option<usize> {
        self.members.index_of(node).filter(|&index| !self.is_expelled(index))
    }

    /// Receivers of the group, including expelled ones.
    pub fn members(&self) -> &Members {
        &self.members
    }

    /// Node of the receiver with this index.
    pub fn node(&self, index: usize) -> NodeId {
        self.members.node(index)
    }

    /// Returns true if the window is full.
    pub fn is_full(&self) -> bool {
        // With blocks, the capacity counts from the start of the block and does not move on within it.
        self.end() >= self.room.limit(self.block.unwrap_or_else(|| self.start()))
    }

    /// Returns true if all messages are complete and no more will be offered.
    pub fn is_finished(&self) -> bool {
        self.finished && self.is_empty()
    }

    /// Returns true if no more messages will be offered.
    pub fn is_closed(&self) -> bool {
        self.finished
    }

    /// Number of outstanding messages.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Returns true if no message is outstanding.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Returns true if a receiver was expelled.
    pub fn is_expelled(&self, index: usize) -> bool {
        self.vector[index] == EXPELLED
    }

    /// Counter of receivers for which this is the first unacknowledged message.
    fn standing(&mut self, number: u64) -> &mut usize {
        match self.slots.get_mut(number) {
            Some(slot) => &mut slot.standing,
            // Only the number after the last message has no slot: callers pass no number before the window.
            None => &mut self.done,
        }
    }
}

/// Reports the completion of a message, with the number of outstanding messages at its first transmission.
fn record(events: &mut Events, (number, slot): &(u64, Slot)) {
    // A message that was never sent can complete too, once all receivers are expelled.
    let outcome = if slot.failed { Outcome::Failed } else { Outcome::Acknowledged };
    let window = slot.sent.map_or(0, |(_, window)| window);
    events.completed(MessageId(*number), outcome, window);
}

#[cfg(test)]
mod tests {
    use carillon_core::Seeds;

    use super::*;

    /// Model of the window with plain lists.
    #[derive(Debug)]
    struct Message {
        due: bool,
        sent: bool,
        /// Acknowledged by receiver.
        has: Vec<bool>,
    }

    const RECEIVERS: usize = 5;

    #[test]
    fn window_agrees_with_lists_under_random_operations() {
        let mut rng = Seeds::new(1).stream("ack-window");
        let nodes: Vec<NodeId> = (3..).take(RECEIVERS).map(NodeId).collect();
        let mut window = AckWindow::new(Members::new(nodes.into()), FixedWindow(20));
        let (mut start, mut model) = (0, std::collections::VecDeque::<Message>::new());
        let mut live = [true; RECEIVERS];
        for _ in 0..20_000 {
            let receiver = rng.below(RECEIVERS as u64) as usize;
            let number = start + rng.below(22);
            let place = (number - start) as usize;
            match rng.below(100) {
                0..30 => {
                    let taken = window.offer(Bytes::new());
                    assert_eq!(taken.is_ok(), model.len() < 20);
                    if taken.is_ok() {
                        model.push_back(Message {
                            due: true,
                            sent: false,
                            has: live.map(|live| !live).into(),
                        });
                    }
                }
                30..60 => {
                    let due = model.iter().position(|message| message.due);
                    let found = window.first_due();
                    assert_eq!(found.as_ref().map(|(number, _)| (number - start) as usize), due);
                    if let (Some((_, slot)), Some(due)) = (found, due) {
                        (slot.due, slot.sent) = (false, Some((Time::ZERO, 0)));
                        (model[due].due, model[due].sent) = (false, true);
                    }
                }
                60..85 if live[receiver] => {
                    let end = model.iter().take_while(|message| message.has[receiver]).count();
                    let news = place >= end && place < model.len();
                    assert_eq!(window.acknowledge(receiver, number), news);
                    if news {
                        model.iter_mut().take(place + 1).for_each(|message| message.has[receiver] = true);
                    }
                }
                85..90 => {
                    let mut again = 0;
                    for message in model.iter_mut().skip(place).filter(|message| message.sent && !message.due)
                    {
                        (message.due, again) = (true, again + 1);
                    }
                    assert_eq!(window.go_back_to(number), again);
                }
                90..95 => {
                    if let Some(slot) = window.get_mut(number) {
                        (slot.due, model[place].due) = (true, true);
                    }
                }
                95 => {
                    window.slots_mut().for_each(|slot| slot.due = true);
                    model.iter_mut().for_each(|message| message.due = true);
                }
                96 if rng.below(50) == 0 && live[receiver] => {
                    window.expel(receiver);
                    live[receiver] = false;
                    model.iter_mut().for_each(|message| message.has[receiver] = true);
                }
                96 if rng.below(10) == 0 => {
                    window.reset();
                    model.iter_mut().for_each(|message| message.has = live.map(|live| !live).into());
                }
                97 if rng.below(4) == 0 && live[receiver] => {
                    let end = (number + 1).min(start + model.len() as u64);
                    window.skip(receiver, end);
                    model
                        .iter_mut()
                        .take((end - start) as usize)
                        .for_each(|message| message.has[receiver] = true);
                }
                97 => {
                    assert_eq!(window.pop().is_some(), !model.is_empty());
                    start += u64::from(model.pop_front().is_some());
                }
                _ => {
                    let done = model.front().is_some_and(|first| first.has.iter().all(|&has| has));
                    assert_eq!(window.pop_acknowledged().map(|(number, _)| number), done.then_some(start));
                    if done {
                        model.pop_front();
                        start += 1;
                    }
                }
            }
            assert_eq!((window.start(), window.len()), (start, model.len()));
            let again = model.iter().filter(|message| message.due && message.sent).count();
            assert_eq!(window.due_again() as usize, again);
            let lacks = |receiver: usize| model.iter().filter(|message| !message.has[receiver]).count();
            let missing: Vec<_> =
                (0..RECEIVERS).map(|at| (at, lacks(at) as u32)).filter(|(_, lacks)| *lacks > 0).collect();
            assert_eq!(window.missing().collect::<Vec<_>>(), missing);
        }
        assert!(live.contains(&false), "nobody was expelled");
    }
}
