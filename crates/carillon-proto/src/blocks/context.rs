//! Context that the parts of a machine share.
//!
//! A machine consists of parts (sender, window, membership, …), each with its own state. Whatever they have in common
//! is here: time, timers, recorded events, the group, and the queue to the application. Every handler of a part
//! receives the context as an argument.

use std::sync::Arc;

use carillon_core::{
    AssociationId, BuildContext, ConfigError, Delivery, Dest, DropReason, Event, Events, GroupId,
    InlineQueue, MessageId, NodeId, Note, Time, Timers, Transmit, Value,
};
use carillon_wire::reformation::Ranks;

use super::reformation::{To, View};

/// Shared state of the parts of a machine.
#[derive(Debug)]
pub struct MachineContext<K = ()> {
    /// Time of the present call.
    pub now: Time,
    /// Identifier of the session.
    pub association: AssociationId,
    /// Multicast group.
    pub group: GroupId,
    /// Sender, in a protocol with a single one.
    pub sender: NodeId,
    /// Index of this node among the members; the number of members if it is none.
    pub rank: usize,
    /// Members in ascending order.
    pub nodes: Arc<[NodeId]>,
    /// Timers of all parts.
    pub timers: Timers<K>,
    /// Recorded events, and notices to the host.
    pub events: Events,
    /// Messages that the application has not taken.
    deliveries: InlineQueue<Delivery, 1>,
}

impl<K: Ord + Copy> MachineContext<K> {
    /// Creates the context of the node in `build`.
    pub fn new(build: &BuildContext) -> Self {
        MachineContext {
            // The player sets the time before each call of a part.
            now: Time::ZERO,
            association: build.association,
            group: build.group,
            sender: build.sender,
            // An index beyond the list, which no member has.
            rank: build.rank().unwrap_or(build.members.len()),
            nodes: build.members.clone(),
            timers: Timers::new(),
            events: Events::default(),
            deliveries: InlineQueue::default(),
        }
    }

    /// Creates the context of a member. Fails if the node is not a member, or if there are more than `most` members.
    pub fn of_member(build: &BuildContext, most: usize) -> Result<Self, ConfigError> {
        let context = MachineContext::new(build);
        match context.rank < context.nodes.len() && context.nodes.len() <= most {
            true => Ok(context),
            false => {
                // The limit is the capacity of the fields and bit sets in which the packets carry ranks.
                let reason = format!("this node must be one of at most {most} members");
                Err(ConfigError::Conflict(reason))
            }
        }
    }

    /// Checks a parsed packet: returns it if it is valid and of this session, and records a drop otherwise.
    #[inline]
    pub fn of_session<P, E>(&mut self, parsed: Result<(AssociationId, P), E>) -> Option<P> {
        self.events.of_session(parsed, self.association)
    }

    /// Checks a parsed packet like `of_session`, and also that the session's sender sent it.
    #[inline]
    pub fn of_sender<P, E>(&mut self, from: NodeId, parsed: Result<(AssociationId, P), E>) -> Option<P> {
        let packet = self.of_session(parsed)?;
        // A member that knows the session could otherwise send messages in the sender's name.
        if from != self.sender {
            self.events.dropped(DropReason::NotAMember);
            return None;
        }
        Some(packet)
    }

    /// Delivers a message of the member with this index to the application.
    pub fn deliver(&mut self, rank: usize, number: u64, payload: bytes::Bytes) {
        self.deliver_from(self.nodes[rank], number, payload);
    }

    /// Delivers a message of the session's sender to the application.
    #[inline]
    pub fn deliver_sent(&mut self, number: u64, payload: bytes::Bytes) {
        self.deliver_from(self.sender, number, payload);
    }

    #[inline]
    fn deliver_from(&mut self, source: NodeId, number: u64, payload: bytes::Bytes) {
        let message = MessageId(number);
        self.deliveries.push_back(Delivery { source, message, payload });
        self.events.push(Event::Delivered { source, message });
    }

    /// Takes the next message for the application.
    #[inline]
    pub fn poll_delivery(&mut self) -> Option<Delivery> {
        self.deliveries.pop_front()
    }

    /// Records a received packet.
    pub fn received(&mut self, packet: &'static str, number: u64) {
        self.events.received(packet, number);
    }

    /// Records the transmission of a packet without a message.
    pub fn control(&mut self, packet: &'static str, number: u64) {
        self.events.control(packet, number);
    }

    /// Records that `messages` messages from `first` on will never arrive, without naming each.
    pub fn unrecoverable(&mut self, source: Option<NodeId>, first: u64, messages: u64) {
        // One note for all of them: a forged number may skip billions of messages, and an event for each would take too
        // much time and memory.
        let source = source.map(|node| ("source", Value::Count(node.0.into())));
        let run = [("first", Value::Count(first)), ("messages", Value::Count(messages))];
        let fields = source.into_iter().chain(run).collect();
        self.events.push(Event::Note(Box::new(Note { name: "unrecoverable", fields })));
    }

    /// Records the transmission of a message, a retransmission or a forwarded message, and builds its datagram
    /// header.
    pub fn data_sent(
        &mut self,
        to: To,
        message: (usize, u64),
        bytes: usize,
        again: bool,
        repair: bool,
    ) -> Transmit {
        let (transmit, (source, number)) = (self.transmit(to), message);
        // Only own messages are original transmissions or repairs of this node, of which the host is notified.
        if source == self.rank {
            return self.events.data_sent(transmit, MessageId(number), bytes, again);
        }
        // A message of another member: a repair, or an ordered message that the sequencer sends for its source.
        let (source, message, bytes) = (self.nodes[source], MessageId(number), bytes as u32);
        self.events.push(Event::Forwarded { source, message, bytes, repair });
        transmit
    }

    /// Reports the difference between the members before and those of a new view to the host.
    pub fn on_view(&mut self, before: &Ranks, view: &View) {
        // A member of the old view did not vote for the new one, or is gone for good. This node can find its own
        // removal in the order when it returns. It is not lost to itself.
        for gone in before.without(&view.members).iter().filter(|&rank| rank != self.rank) {
            self.events.member_lost(self.nodes[gone]);
        }
        // A joiner may have been a member before. It lost its state, so that it counts as a new one.
        let come = view.members.without(before).or(&view.joiners);
        for rank in come.iter().filter(|&rank| rank != self.rank) {
            self.events.push(Event::MemberJoined { member: self.nodes[rank] });
        }
    }

    /// Datagram header for immediate departure.
    pub fn transmit(&self, to: To) -> Transmit {
        Transmit::now(match to {
            To::Group => Dest::group(self.group),
            To::Rank(rank) => Dest::Node(self.nodes[rank]),
        })
    }

    /// Datagram header to the whole group.
    pub fn to_group(&self) -> Transmit {
        self.transmit(To::Group)
    }

    /// Index of a member.
    pub fn rank_of(&self, node: NodeId) -> Option<usize> {
        self.nodes.iter().position(|&member| member == node)
    }

    /// Number of messages that the application has not taken.
    pub fn waiting(&self) -> usize {
        self.deliveries.len()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::VecDeque;

    use bytes::Bytes;
    use carillon_core::{BitRate, Notice, Rng, Seeds};
    use carillon_wire::reformation::Ballot;

    use super::*;

    /// Build context of this node in a group with the nodes 10 to 15.
    pub(in crate::blocks) fn build_context(node: u32) -> BuildContext {
        BuildContext {
            association: AssociationId(7),
            node: NodeId(node),
            sender: NodeId(1),
            members: (10..16).map(NodeId).collect(),
            helpers: Default::default(),
            identities: Default::default(),
            addresses: Default::default(),
            group: GroupId(3),
            seeds: Seeds::new(1),
            bit_rate: BitRate::mbps(10),
            link_overhead: 0,
            max_payload: 100,
            memory: usize::MAX,
            rejoining: false,
        }
    }

    fn told(context: &mut MachineContext) -> (Vec<Event>, Vec<Notice>) {
        let events = std::iter::from_fn(|| context.events.pop()).collect();
        (events, std::iter::from_fn(|| context.events.pop_notice()).collect())
    }

    #[test]
    fn rank_is_that_of_own_node() {
        for node in 0..30 {
            let (context, place) =
                (MachineContext::<()>::new(&build_context(node)), (10..16).position(|member| member == node));
            assert_eq!(Some(context.rank).filter(|&rank| rank < 6), place);
            assert_eq!(context.rank_of(NodeId(node)), place);
            assert_eq!(MachineContext::<()>::of_member(&build_context(node), 6).is_ok(), place.is_some());
            assert!(
                MachineContext::<()>::of_member(&build_context(node), 5).is_err(),
                "the group is too large"
            );
        }
    }

    #[test]
    fn foreign_packets_are_dropped() {
        let mut context = MachineContext::<()>::new(&build_context(12));
        let ours = |packet: u8| Ok::<_, ()>((AssociationId(7), packet));
        assert_eq!((context.of_session(ours(5)), context.of_sender(NodeId(1), ours(6))), (Some(5), Some(6)));
        assert_eq!(context.of_sender(NodeId(11), ours(6)), None);
        assert_eq!(context.of_sender(NodeId(1), Ok::<_, ()>((AssociationId(8), 6))), None);
        assert_eq!(context.of_sender(NodeId(11), Err::<(AssociationId, u8), _>(())), None);
        let reasons = [DropReason::NotAMember, DropReason::Foreign, DropReason::Malformed];
        assert_eq!(told(&mut context).0, reasons.map(|reason| Event::Dropped { reason }));
    }

    #[test]
    fn events_agree_with_model_under_random_operations() {
        let mut rng = Seeds::new(1).stream("context");
        let mut context = MachineContext::<()>::new(&build_context(12));
        let mut waiting = VecDeque::new();
        for number in 0..20_000 {
            let (rank, message, payload) =
                (rng.below(6) as usize, MessageId(number), Bytes::from(number.to_string()));
            let source = NodeId(10 + rank as u32);
            match rng.below(4) {
                0 => {
                    context.deliver(rank, number, payload.clone());
                    waiting.push_back(Delivery { source, message, payload });
                    assert_eq!(told(&mut context), (vec![Event::Delivered { source, message }], vec![]));
                }
                1 => {
                    context.deliver_sent(number, payload.clone());
                    waiting.push_back(Delivery { source: NodeId(1), message, payload });
                    let delivered = Event::Delivered { source: NodeId(1), message };
                    assert_eq!(told(&mut context), (vec![delivered], vec![]));
                }
                2 => assert_eq!(context.poll_delivery(), waiting.pop_front()),
                _ => {
                    let (again, repair, to_all) = (rng.below(2) == 0, rng.below(2) == 0, rng.below(2) == 0);
                    let to = if to_all { To::Group } else { To::Rank(rank) };
                    let transmit = context.data_sent(to, (rank, number), 90, again, repair);
                    let dest = if to_all { Dest::group(GroupId(3)) } else { Dest::Node(source) };
                    // Only the node's own messages count as original transmissions and notify the host.
                    let own = rank == 2;
                    assert_eq!((transmit.dest, transmit.departure), (dest, None));
                    assert_eq!(transmit.original, (own && !again).then_some(message));
                    let event = match (own, again) {
                        (true, true) => Event::RepairSent { message, bytes: 90 },
                        (true, false) => Event::Sent { message, bytes: 90 },
                        (false, _) => Event::Forwarded { source, message, bytes: 90, repair },
                    };
                    let notices = own.then_some(Notice::Sent { message, repair: again });
                    assert_eq!(told(&mut context), (vec![event], notices.into_iter().collect()));
                }
            }
            assert_eq!(context.waiting(), waiting.len());
        }
    }

    #[test]
    fn view_change_names_lost_and_joined_members() {
        let mut rng = Seeds::new(2).stream("context");
        let mut context = MachineContext::<()>::new(&build_context(12));
        let some = |rng: &mut Rng| (0..6).filter(|_| rng.below(2) == 0).collect::<Ranks>();
        for _ in 0..2_000 {
            let (before, members) = (some(&mut rng), some(&mut rng));
            let joiners: Ranks = some(&mut rng).iter().filter(|&rank| members.contains(rank)).collect();
            context.on_view(&before, &View { ballot: Ballot::default(), members, joiners });
            let node = |rank| NodeId(10 + rank as u32);
            let gone = (0..6).filter(|&rank| rank != 2 && before.contains(rank) && !members.contains(rank));
            let gone: Vec<_> = gone.map(|rank| Notice::MemberLost { member: node(rank) }).collect();
            let come = (0..6).filter(|&rank| {
                rank != 2 && (members.contains(rank) && !before.contains(rank) || joiners.contains(rank))
            });
            let come: Vec<_> = come.map(|rank| Event::MemberJoined { member: node(rank) }).collect();
            let (events, notices) = told(&mut context);
            assert_eq!((notices.len(), &notices), (gone.len(), &gone));
            assert_eq!(events[gone.len()..], come);
        }
    }
}
