//! Transmitter: the next packet of a parent.

use carillon_core::Time;

use super::child::OutstandingPoll;
use super::{Again, Parent, Sending, To};

/// Head of the transmission queue, in which retransmissions precede new messages.
#[derive(Clone, Copy, Debug)]
enum Head {
    Again(u64),
    New,
    Poll,
}

impl Parent {
    /// Returns the next packet, if one may leave now.
    pub fn poll_sending(&mut self, now: Time) -> Option<Sending> {
        loop {
            // Unicast copies of the present transmission leave before anything else.
            while let Some(sending) = self.burst.pop_front() {
                if sending.message.is_none_or(|number| self.messages.get(number).is_some()) {
                    return Some(sending);
                }
            }
            self.wake = None;
            let head = self.head(now)?;
            if let Some(at) = self.pace.ready_at(now) {
                self.wake = Some(at);
                return None;
            }
            // Section 2.3 allows one gap between the planned and the actual time of a poll. Unicast retransmissions
            // take longer, so late polls are planned anew.
            let (children, unknown) = (&self.children, self.rules.round_trip);
            self.plan.plan_late_anew(now, self.rules.gap, |index| children[index].distance(unknown));
            match head {
                Head::Again(number) => self.send_again(now, number),
                Head::New => self.send_new(now),
                Head::Poll => self.poll(now),
            }
            // All copies of a transmission together count as one packet for the gap IPG.
            if !self.burst.is_empty() {
                self.pace.spend(now, self.rules.packet);
            }
        }
    }

    /// Returns true if a new message may be sent.
    pub fn has_new(&self) -> bool {
        self.sent < self.messages.end() && self.effective_window() > 0
    }

    fn head(&mut self, now: Time) -> Option<Head> {
        // Retransmissions go first, then new messages, then polls.
        if let Some((&number, _)) = self.again.first_key_value() {
            return Some(Head::Again(number));
        }
        if self.has_new() {
            return Some(Head::New);
        }
        // A closed window opens only by responses: poll the children that close it.
        if self.sent < self.messages.end() {
            self.plan_full(now);
        }
        if !self.messages.is_empty() {
            self.plan_behind(now);
        }
        // NPT: one gap after the first planned poll, so that one packet polls all children of this interval.
        let at = self.plan.next()? + self.rules.gap;
        if at > now {
            self.wake = Some(at);
            return None;
        }
        Some(Head::Poll)
    }

    /// Plans polls of the full children that close the window.
    fn plan_full(&mut self, now: Time) {
        self.plan_idle(now, self.full.iter().copied().collect());
    }

    /// Plans polls of the children that have everything but have not consumed it.
    fn plan_behind(&mut self, now: Time) {
        self.plan_idle(now, self.behind.iter().copied().collect());
    }

    /// Plans polls of the given children that have no poll planned or outstanding.
    fn plan_idle(&mut self, now: Time, children: Vec<usize>) {
        for index in children {
            if !self.plan.is_planned(index) && !self.children[index].is_awaited() {
                let distance = self.distance(index);
                self.plan.plan(now, index, distance);
            }
        }
    }

    fn send_again(&mut self, now: Time, number: u64) {
        let some = match self.again.remove(&number) {
            // Few children: unicast. The count is checked again, because children may have left meanwhile.
            Some(Again::Some(some)) if (some.len() as f64) < self.multicast_from() => some,
            _ => {
                if let Some(message) = self.messages.get_mut(number) {
                    message.resent = Some(now);
                }
                let missing = self.children.iter().enumerate();
                let missing = missing.filter(|(_, child)| child.live && !child.map.has(number));
                let before = self.needs.len();
                self.needs.extend(missing.map(|(index, _)| (index, 1)));
                if self.needs.len() == before {
                    // All children have received it meanwhile.
                    return;
                }
                let asked = self.ask_all(now);
                self.transmit(now, Some(number), true, To::All, asked);
                return;
            }
        };
        // Some children have received it meanwhile, late or from another node.
        for index in
            some.into_iter().filter(|&index| !self.children[index].map.has(number)).collect::<Vec<_>>()
        {
            let distance = self.distance(index);
            self.plan.plan(now, index, distance);
            self.children[index].resent.insert(number, now);
            self.needs.push((index, 1));
            let asked = if self.plan.is_due(now, index) { vec![index] } else { vec![] };
            self.transmit(now, Some(number), true, To::Child(index), asked);
        }
    }

    fn send_new(&mut self, now: Time) {
        let (number, window) = (self.sent, self.messages.len() as u32);
        self.sent += 1;
        if let Some(message) = self.messages.get_mut(number) {
            message.first_sent = Some((now, window));
        }
        let asked = self.ask_all(now);
        self.transmit(now, Some(number), false, To::All, asked);
    }

    fn poll(&mut self, now: Time) {
        let asked: Vec<usize> = self.plan.due(now).take(MAX_POLLED_ALONE).collect();
        // A poll of many children is cheaper as one multicast.
        if asked.len() as f64 >= self.multicast_from() {
            self.transmit(now, None, true, To::All, asked);
        } else {
            for index in asked {
                self.transmit(now, None, true, To::Child(index), vec![index]);
            }
        }
    }

    /// Plans a poll for each child without one, and returns the children to poll now.
    fn ask_all(&mut self, now: Time) -> Vec<usize> {
        let (children, unknown) = (&self.children, self.rules.round_trip);
        self.plan.plan_all(now, |index| children[index].distance(unknown));
        self.plan.due(now).take(MAX_POLLED_WITH_MESSAGE).collect()
    }

    /// Adds a packet to the present transmission, and awaits the responses of the polled children.
    fn transmit(&mut self, now: Time, message: Option<u64>, again: bool, to: To, asked: Vec<usize>) {
        let unknown = self.rules.round_trip;
        let (poll, end) = (self.polls.next(), self.sent);
        let mut farthest = std::time::Duration::ZERO;
        for &index in &asked {
            self.plan.take(index);
            let child = &mut self.children[index];
            farthest = farthest.max(child.distance(unknown));
            // Exact growth: most children have one outstanding poll, and there are many children.
            child.asked.reserve_exact(1);
            child.asked.push_back(OutstandingPoll { poll, at: now, end, absent: false });
        }
        if !asked.is_empty() {
            // TO.EXP: twice the longest round-trip time of the polled children.
            self.polls.push(asked.clone(), now + (farthest * 2).max(self.rules.timeout_min));
        }
        let last = self.sent.saturating_sub(1);
        self.burst.push_back(Sending { message, again, to, asked, at: now, last });
    }
}

/// Maximum number of children that a packet with a message polls: their identifiers take at most five bytes each, and
/// must fit beside the message.
const MAX_POLLED_WITH_MESSAGE: usize = 40;
/// Maximum number of children that a poll without a message names.
const MAX_POLLED_ALONE: usize = 256;
