//! Unicast equivalent of a multicast protocol: the same protocol is run to each receiver in turn.
//!
//! Segovia 1996, section 2.4 and equations 4.2 and 4.10: r separate runs to one receiver each, one at a time, so that
//! there is no contention. One block of messages (as many as the window holds) goes to the first receiver and is
//! acknowledged, then to the second, and so on.

use bytes::Bytes;
use carillon_core::{
    BuildContext, Event, Events, Machine, MessageId, NodeId, Notice, ObservedState, OfferError, Outcome,
    Received, Sender, Time, Transmit,
};

use super::{Members, Recipients};

/// Sender that runs single-receiver senders one after the other over each block of messages.
#[derive(Debug)]
pub struct SerialUnicast<S> {
    members: Members,
    /// Sender to each member.
    legs: Vec<S>,
    /// True for members that were expelled.
    expelled: Vec<bool>,
    /// Index of the leg that sends now.
    active: usize,
    /// Block that all legs send before the next one begins.
    block: Vec<Bytes>,
    /// Maximum number of messages per block.
    block_size: usize,
    /// Number of messages of the block that the active leg has completed.
    done: usize,
    /// True for messages of the block that a leg gave up.
    failed: Vec<bool>,
    /// Number of messages of earlier blocks.
    completed: u64,
    finished: bool,
    events: Events,
}

impl<S: Sender> SerialUnicast<S> {
    /// Creates a sender with a leg for each member and blocks of `block_size` messages.
    pub fn new(members: Members, block_size: usize, leg: impl FnMut(usize) -> S) -> Self {
        let legs = (0..members.len()).map(leg).collect();
        SerialUnicast {
            expelled: vec![false; members.len()],
            members,
            legs,
            active: 0,
            block: Vec::new(),
            block_size,
            done: 0,
            failed: Vec::new(),
            completed: 0,
            finished: false,
            events: Events::default(),
        }
    }

    /// Creates a sender to the members of a context, with a leg for each.
    pub fn to_members(context: &BuildContext, block_size: usize, leg: impl Fn(Recipients) -> S) -> Self {
        let members = Members::new(context.members.clone());
        Self::new(members, block_size, |index| leg(Recipients::one(context.members[index])))
    }

    /// First leg with a member that was not expelled: the block grows while this leg is active. A leg without its
    /// member would complete each message at once and end the block.
    fn first(&self) -> usize {
        self.expelled.iter().position(|&expelled| !expelled).unwrap_or(self.legs.len())
    }

    /// Collects notices and events of the active leg. Activates the next leg when this one has completed the block.
    fn collect(&mut self, now: Time) {
        while let Some(leg) = self.legs.get_mut(self.active) {
            while let Some(notice) = leg.poll_notice() {
                match notice {
                    // A leg completes its messages in order, so its number of completions gives the index in the
                    // block.
                    Notice::Completed { outcome, .. } => {
                        self.failed[self.done] |= outcome == Outcome::Failed;
                        self.done += 1;
                    }
                    other => self.events.notify(other),
                }
            }
            // A message counts as completed only when all receivers have it.
            let of_all = |event: &Event| !matches!(event, Event::Completed { .. });
            std::iter::from_fn(|| leg.poll_event()).filter(of_all).for_each(|event| self.events.push(event));
            // Wait until the active leg has completed each message of the block.
            if self.block.is_empty() || self.done < self.block.len() {
                return;
            }
            self.done = 0;
            self.active += 1;
            match self.legs.get_mut(self.active) {
                Some(next) => {
                    for payload in &self.block {
                        next.offer(now, payload.clone()).expect("an idle leg has room for a whole block");
                    }
                }
                None => self.complete_block(),
            }
        }
    }

    fn complete_block(&mut self) {
        let window = self.block.len() as u32;
        for &failed in &self.failed {
            // A message fails if any receiver did not acknowledge it.
            let outcome = if failed { Outcome::Failed } else { Outcome::Acknowledged };
            self.events.completed(MessageId(self.completed), outcome, window);
            self.completed += 1;
        }
        self.block.clear();
        self.failed.clear();
        self.active = self.first();
    }
}

impl<S: Sender> Machine for SerialUnicast<S> {
    fn start(&mut self, now: Time) {
        self.legs.iter_mut().for_each(|leg| leg.start(now));
    }

    fn report_states(&self, now: Time, tell: &mut dyn FnMut(ObservedState)) {
        // Observers tell the legs apart by their index.
        for (about, leg) in (0..).zip(&self.legs) {
            leg.report_states(now, &mut |state| tell(ObservedState { about, ..state }));
        }
    }

    fn handle_datagram(&mut self, now: Time, datagram: Received<'_>) {
        match self.members.index_of(datagram.source) {
            Some(index) => {
                self.legs[index].handle_datagram(now, datagram);
                if index != self.active {
                    // An inactive leg has nothing outstanding and only reports why it drops the packet.
                    while let Some(event) = self.legs[index].poll_event() {
                        self.events.push(event);
                    }
                }
            }
            None => self.events.dropped(carillon_core::DropReason::NotAMember),
        }
        self.collect(now);
    }

    fn handle_timeout(&mut self, now: Time) {
        if let Some(leg) = self.legs.get_mut(self.active) {
            leg.handle_timeout(now);
        }
        self.collect(now);
    }

    fn poll_timeout(&self) -> Option<Time> {
        // The other legs have nothing outstanding, and thus no deadline.
        self.legs.get(self.active).and_then(Machine::poll_timeout)
    }

    fn poll_transmit(&mut self, now: Time, buf: &mut Vec<u8>) -> Option<Transmit> {
        self.legs.get_mut(self.active)?.poll_transmit(now, buf)
    }

    fn poll_event(&mut self) -> Option<Event> {
        // Events of the active leg while transmitting. Completions come only with datagrams and timeouts, which
        // `collect` has handled.
        self.events.pop().or_else(|| self.legs.get_mut(self.active)?.poll_event())
    }

    fn poll_notice(&mut self) -> Option<Notice> {
        self.events.pop_notice().or_else(|| self.legs.get_mut(self.active)?.poll_notice())
    }

    fn as_sender(&mut self) -> Option<&mut dyn Sender> {
        Some(self)
    }
}

impl<S: Sender> Sender for SerialUnicast<S> {
    fn offer(&mut self, now: Time, payload: Bytes) -> Result<MessageId, OfferError> {
        if self.finished {
            return Err(OfferError::Finished);
        }
        // A later leg sends the block as its first receiver got it, so no message may join it then.
        if self.block.len() == self.block_size || self.active != self.first() {
            return Err(OfferError::Full);
        }
        let id = MessageId(self.completed + self.block.len() as u64);
        match self.legs.get_mut(self.active) {
            Some(leg) => {
                leg.offer(now, payload.clone())?;
                self.block.push(payload);
                self.failed.push(false);
                // A leg with an expelled receiver completes at once.
                self.collect(now);
            }
            None => {
                // Without receivers, every message is complete at once.
                self.block.push(payload);
                self.failed.push(false);
                self.complete_block();
            }
        }
        Ok(id)
    }

    fn finish(&mut self, _now: Time) {
        self.finished = true;
    }

    fn expel(&mut self, now: Time, member: NodeId) {
        if let Some(index) = self.members.index_of(member) {
            self.expelled[index] = true;
            self.legs[index].expel(now, member);
            // The active leg may have waited for this member alone. The next leg then begins.
            self.collect(now);
            if self.block.is_empty() {
                self.active = self.first();
            }
        }
    }

    fn awaits(&self, member: NodeId) -> bool {
        // The other legs have nothing outstanding.
        self.legs.get(self.active).is_some_and(|leg| leg.awaits(member))
    }

    fn acknowledged(&self, member: NodeId) -> Option<u64> {
        let index = self.members.index_of(member)?;
        // Legs before the active one have completed the block, and legs after it have not begun.
        let of_block = match index.cmp(&self.active) {
            std::cmp::Ordering::Less => self.block.len(),
            std::cmp::Ordering::Equal => self.done,
            std::cmp::Ordering::Greater => 0,
        };
        Some(self.completed + of_block as u64)
    }

    fn is_finished(&self) -> bool {
        self.finished && self.block.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use carillon_core::{AssociationId, BitRate, BuildContext, Config, GroupId, NodeId, Role, Seeds};

    use super::*;

    #[test]
    fn block_length_survives_loss_of_first_receiver() {
        let entry = crate::find("bap").expect("the registry has it");
        let members: Arc<[NodeId]> = [NodeId(1), NodeId(2)].into();
        let context = BuildContext {
            association: AssociationId(7),
            node: NodeId(0),
            sender: NodeId(0),
            members,
            helpers: Default::default(),
            identities: Default::default(),
            addresses: Default::default(),
            group: GroupId(0),
            seeds: Seeds::new(1),
            bit_rate: BitRate::mbps(1000),
            link_overhead: 0,
            max_payload: 100,
            memory: usize::MAX,
            rejoining: false,
        };
        let mut config = Config::defaults(entry.parameters);
        config.set(entry.parameters, "window", "4").expect("a setting");
        for at_once in [true, false] {
            let mut machine = (entry.build)(Role::Sender, &context, &config).expect("a sender");
            machine.start(Time::ZERO);
            let sender = machine.as_sender().expect("it is one");
            let offer = |sender: &mut dyn Sender| sender.offer(Time::ZERO, Bytes::from_static(b"x"));
            if !at_once {
                // Expel in the middle of its turn.
                offer(sender).expect("room");
            }
            sender.expel(Time::ZERO, NodeId(1));
            let already = u32::from(!at_once);
            for number in already..4 {
                assert!(offer(sender).is_ok(), "message {number}");
            }
            assert_eq!(offer(sender), Err(OfferError::Full));
            let mut sent = 0;
            while sender.poll_transmit(Time::ZERO, &mut Vec::new()).is_some_and(|transmit| {
                assert_eq!(transmit.dest, carillon_core::Dest::Node(NodeId(2)));
                true
            }) {
                sent += 1;
            }
            assert_eq!(sent, 4);
            sender.expel(Time::ZERO, NodeId(2));
            for _ in 0..10 {
                offer(sender).expect("with nobody left all is with all");
            }
        }
    }
}
