//! What a parent makes of responses, and of those that are absent.

use std::collections::BTreeSet;

use carillon_core::{DropReason, Time};

use super::{Again, Parent, Recovery};
use crate::blocks::{PastLimit, ReceiverMap};

/// What a child says of itself, in full numbers.
#[derive(Clone, Debug)]
pub(crate) struct Response {
    /// RESP.TS: when the poll was sent.
    pub at: Time,
    /// RESP.W.LE.
    pub left: u64,
    /// One past RESP.W.HR.
    pub highest: u64,
    /// S, as far as the child has memory.
    pub size: u64,
    /// RESP.W.
    pub map: ReceiverMap,
}

impl Response {
    /// The same of the messages before this one.
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
    /// A response has come. One that says what cannot be is not believed, as if it had not come.
    pub fn on_response(&mut self, now: Time, index: usize, response: &Response) -> Result<(), DropReason> {
        let Some(child) = self.children.get_mut(index).filter(|child| child.live) else {
            return Err(DropReason::NotAMember);
        };
        let cut;
        let response = match self.rules.ahead {
            true => {
                cut = response.before(self.sent);
                &cut
            }
            false => response,
        };
        let Response { at, left, highest, size, ref map } = *response;
        // It cannot have what was not sent, nor have consumed what it has not.
        if map.end() > self.sent || highest > self.sent || left > map.next() || size == 0 {
            return Err(DropReason::OutOfWindow);
        }
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
        // All that it has room for has come, and nothing of it is consumed.
        let child = &self.children[index];
        if child.limit() <= self.sent && child.map.next() >= child.limit() {
            self.full.insert(index);
        } else {
            self.full.remove(&index);
        }
        match self.rules.consumed && child.left < child.map.next() {
            true => self.behind.insert(index),
            false => self.behind.remove(&index),
        };
        self.count(now, index, at, old);
        Ok(())
    }

    /// Counts what is news of a child, and does what is to be done about it.
    fn count(&mut self, now: Time, index: usize, at: Time, (old, old_highest): (ReceiverMap, u64)) {
        let start = self.messages.start();
        let child = &mut self.children[index];
        child.resent = child.resent.split_off(&child.map.next().max(start));
        let mut left = self.budget.left(index, self.sent);
        let from = old.next().max(start);
        for number in from..self.sent {
            let Some(message) = self.messages.get_mut(number) else { break };
            let (had, has) = (old.has(number), child.map.has(number));
            let (lacked, lacks) = (number < old_highest && !had, child.nacks(number));
            message.acked += usize::from(has && !had);
            message.nacked += usize::from(lacks);
            message.nacked -= usize::from(lacked);
            if !lacks {
                continue;
            }
            match message.recovery {
                Recovery::NoNack => {
                    message.recovery = Recovery::Collection;
                    self.collecting.insert(number);
                }
                Recovery::Collection => {}
                Recovery::Retransmitted => {
                    let resent = message.resent.max(child.resent.get(&number).copied());
                    // A poll before the retransmission: an obsolete negative acknowledgment.
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

    /// The recovery actions of all messages that are collected, up to this one.
    pub(super) fn decide_all(&mut self, now: Time, end: u64) {
        for number in self.collecting.range(..end).copied().collect::<Vec<_>>() {
            self.decide(now, number);
        }
    }

    /// Enough is known of who lacks a message, perhaps.
    fn decide(&mut self, now: Time, number: u64) {
        let (from, live) = (self.multicast_from(), self.live);
        let Some(message) = self.messages.get_mut(number) else { return };
        if message.nacked > 0 && message.nacked as f64 >= from {
            message.resent = Some(now);
            self.again.insert(number, Again::All);
        } else {
            let told = message.acked + message.nacked;
            if told + self.absentees.len() < live {
                return;
            }
            let silent = self.absentees.iter().filter(|&&index| {
                let child = &self.children[index];
                !child.map.has(number) && !child.nacks(number) && child.is_repolled(number)
            });
            if told + silent.count() < live {
                return;
            }
            let lacking: BTreeSet<usize> = (0..self.children.len())
                .filter(|&index| self.children[index].live && self.children[index].nacks(number))
                .collect();
            for &index in &lacking {
                self.children[index].resent.insert(number, now);
            }
            if !lacking.is_empty() {
                self.again.insert(number, Again::Some(lacking));
            }
        }
        message_state(self, number);
        self.collecting.remove(&number);
    }

    /// What is due of what is waited for.
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
                end = end.max(about);
                self.absentees.insert(index);
                let child = &self.children[index];
                let is_over = child.absent >= self.rules.absent_polls;
                // An inner node is given up by time, whatever becomes of silent members: others wait for it.
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

    /// A poll with priority.
    fn ask_again(&mut self, now: Time, index: usize) {
        let (children, unknown) = (&self.children, self.rules.round_trip);
        self.plan.plan_again(now, index, |other| children[other].distance(unknown));
    }

    /// When there is something to do.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.polls.deadline().into_iter().chain(self.wake).min()
    }
}

/// It is sent again: from now on whoever lacks it gets it at once.
fn message_state(parent: &mut Parent, number: u64) {
    if let Some(message) = parent.messages.get_mut(number) {
        message.recovery = Recovery::Retransmitted;
    }
}
