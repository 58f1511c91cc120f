//! Loss recovery of a parent from responses and timeouts (sections 2.4 and 2.5).

use std::collections::BTreeSet;

use carillon_core::{DropReason, Time};

use super::{Again, Parent, Recovery};
use crate::blocks::{PastLimit, ReceiverMap};

/// State of a child from a response, in full sequence numbers.
#[derive(Clone, Debug)]
pub(crate) struct Response {
    /// RESP.TS: sending time of the poll.
    pub at: Time,
    /// RESP.W.LE.
    pub left: u64,
    /// First number beyond RESP.W.HR.
    pub highest: u64,
    /// S, limited by the child's memory.
    pub size: u64,
    /// RESP.W: messages that the child has.
    pub map: ReceiverMap,
}

impl Response {
    /// Restricts the response to messages before `end`.
    fn before(&self, end: u64) -> Response {
        let mut map = ReceiverMap::new(self.map.next().min(end), []);
        (map.next()..self.map.end().min(end))
            .filter(|&number| self.map.has(number))
            .for_each(|number| map.insert(number));
        Response {
            at: self.at,
            left: self.left.min(map.next()),
            highest: self.highest.min(end),
            size: self.size,
            map,
        }
    }
}

impl Parent {
    /// Applies a response. An impossible response is refused and changes nothing.
    pub fn on_response(&mut self, now: Time, index: usize, response: &Response) -> Result<(), DropReason> {
        let Some(child) = self.children.get_mut(index).filter(|child| child.live) else {
            return Err(DropReason::NotAMember);
        };
        let cut;
        // With `ahead`, a child may have received messages from another node that this parent has not sent yet.
        let response = match self.rules.ahead {
            true => {
                cut = response.before(self.sent);
                &cut
            }
            false => response,
        };
        let Response { at, left, highest, size, ref map } = *response;
        // A child cannot have messages that were not sent, or have consumed messages that it does not have.
        if map.end() > self.sent || highest > self.sent || left > map.next() || size == 0 {
            return Err(DropReason::OutOfWindow);
        }
        // Only the first response to a poll counts, and it gives a round-trip sample.
        let Some(answered) = child.answer(at) else { return Err(DropReason::OutOfWindow) };
        child.round_trip.on_sample(now.since(at).min(self.rules.round_trip_max));
        let old = (child.map.clone(), child.highest);
        child.map = child.map.or(map);
        child.highest = child.highest.max(highest);
        let size = size.min(self.rules.window);
        if !child.asked.iter().any(|asked| asked.absent) {
            self.absentees.remove(&index);
        }
        answered.into_iter().for_each(|poll| self.polls.on_answer(poll));
        self.set_limit(index, Some((left, size)));
        // The child is full: every message that it has room for has arrived, and none is consumed.
        let child = &self.children[index];
        if child.buffer_limit() <= self.sent && child.map.next() >= child.buffer_limit() {
            self.full.insert(index);
        } else {
            self.full.remove(&index);
        }
        // Children with unconsumed messages are polled again, because consumption causes no response by itself.
        match self.rules.consumed && child.left < child.map.next() {
            true => self.behind.insert(index),
            false => self.behind.remove(&index),
        };
        self.count(now, index, at, old);
        self.update_limit(index);
        Ok(())
    }

    /// Updates the counts of each message by the difference between old and new state, and starts recovery.
    fn count(&mut self, now: Time, index: usize, at: Time, (old, old_highest): (ReceiverMap, u64)) {
        let start = self.messages.start();
        let child = &mut self.children[index];
        // Retransmission times before the first missing message are obsolete.
        child.resent = child.resent.split_off(&child.map.next().max(start));
        let mut left = self.budget.left(index, self.sent);
        let from = old.next().max(start);
        for number in from..self.sent {
            let Some(message) = self.messages.get_mut(number) else { break };
            let (had, has) = (old.has(number), child.map.has(number));
            let (was_missing, is_missing) = (number < old_highest && !had, child.nacks(number));
            message.acked += usize::from(has && !had);
            if has && !had {
                child.on_arrived();
            }
            if is_missing && !was_missing {
                child.on_missing(number, self.sent);
            }
            message.nacked += usize::from(is_missing);
            message.nacked -= usize::from(was_missing);
            if !is_missing {
                continue;
            }
            // Recovery actions of section 2.5.1, by the state of the message.
            match message.recovery {
                Recovery::NoNack => {
                    message.recovery = Recovery::Collection;
                    self.collecting.insert(number);
                }
                Recovery::Collection => {}
                Recovery::Retransmitted => {
                    let resent = message.resent.max(child.resent.get(&number).copied());
                    // A poll sent before the retransmission gives an obsolete negative acknowledgment (section 2.5).
                    if resent.is_some_and(|resent| at < resent) || left == 0 {
                        continue;
                    }
                    left -= 1;
                    self.budget.spend(index, 1);
                    child.resent.insert(number, now);
                    match self.again.entry(number).or_insert_with(|| Again::Some(BTreeSet::new())) {
                        Again::All => {}
                        Again::Some(to) => {
                            to.insert(index);
                        }
                    }
                }
            }
        }
        self.decide_all(now, self.sent);
    }

    /// Takes the recovery decision for all collected messages before `end`.
    pub(super) fn decide_all(&mut self, now: Time, end: u64) {
        for number in self.collecting.range(..end).copied().collect::<Vec<_>>() {
            self.decide(now, number);
        }
    }

    /// Decides the recovery of a message once enough children have responded: multicast from MTR x NC missing
    /// children on, else unicast.
    fn decide(&mut self, now: Time, number: u64) {
        let (from, live) = (self.multicast_from(), self.live);
        let Some(message) = self.messages.get_mut(number) else { return };
        if message.nacked > 0 && message.nacked as f64 >= from {
            message.resent = Some(now);
            self.again.insert(number, Again::All);
        } else {
            let reported = message.acked + message.nacked;
            if reported + self.absentees.len() < live {
                return;
            }
            // Silent children count as responded once every poll about this message has timed out (section 2.4).
            let silent = self.absentees.iter().filter(|&&index| {
                let child = &self.children[index];
                !child.map.has(number) && !child.nacks(number) && child.is_repolled(number)
            });
            if reported + silent.count() < live {
                return;
            }
            let missing: BTreeSet<usize> = (0..self.children.len())
                .filter(|&index| self.children[index].live && self.children[index].nacks(number))
                .collect();
            for &index in &missing {
                self.children[index].resent.insert(number, now);
            }
            if !missing.is_empty() {
                self.again.insert(number, Again::Some(missing));
            }
        }
        message_state(self, number);
        self.collecting.remove(&number);
    }

    /// Handles expired polls: repeats them, or expels or skips the child past the limit.
    pub fn handle_timeout(&mut self, now: Time) {
        self.wake = self.wake.filter(|&wake| wake > now);
        while let Some((poll, expired)) = self.polls.expire(now) {
            let mut end = 0;
            for index in expired.children {
                let child = &mut self.children[index];
                let about = child.asked.iter().find(|asked| asked.poll == poll).map_or(0, |asked| asked.end);
                if !child.live || !child.miss(poll) {
                    continue;
                }
                child.on_absent(self.sent);
                self.update_limit(index);
                end = end.max(about);
                self.absentees.insert(index);
                let child = &self.children[index];
                let is_over = child.absent >= self.rules.absent_polls;
                // An inner node is expelled after a silence, independently of the setting for members: its subtree
                // waits for it.
                let silent = child.silent_since.filter(|_| child.helps).map(|since| now.since(since));
                match self.rules.past_limit {
                    _ if silent.is_some_and(|silent| silent >= self.rules.helper_timeout) => {
                        self.remove(index);
                        self.lost.push(index);
                    }
                    _ if self.children[index].helps => self.ask_again(now, index),
                    PastLimit::Expel if is_over => {
                        self.remove(index);
                        self.lost.push(index);
                    }
                    PastLimit::Skip if is_over => self.skip(index),
                    _ => self.ask_again(now, index),
                }
            }
            self.decide_all(now, end);
        }
    }

    /// Plans a poll with priority.
    fn ask_again(&mut self, now: Time, index: usize) {
        let (children, unknown) = (&self.children, self.rules.round_trip);
        self.plan.plan_again(now, index, |other| children[other].distance(unknown));
    }

    /// Earliest deadline of a poll or of the next packet.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.polls.deadline().into_iter().chain(self.wake).min()
    }
}

/// Marks a message as retransmitted: from now on a child that misses it gets it at once.
fn message_state(parent: &mut Parent, number: u64) {
    if let Some(message) = parent.messages.get_mut(number) {
        message.recovery = Recovery::Retransmitted;
    }
}
