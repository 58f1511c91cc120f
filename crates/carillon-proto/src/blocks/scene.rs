//! Where the parts of a protocol act.

use std::collections::VecDeque;
use std::sync::Arc;

use carillon_core::{
    AssociationId, BuildContext, ConfigError, Delivery, Dest, DropReason, Event, Events, GroupId, MessageId,
    NodeId, Time, Timers, Transmit,
};
use carillon_wire::reformation::Ranks;

use super::reformation::{To, View};

/// What the parts of a machine share: the time, the timers, what is recorded, the group, and the way to the application.
#[derive(Debug)]
pub struct Scene<K = ()> {
    /// The time of the call that is being answered.
    pub now: Time,
    /// The session.
    pub association: AssociationId,
    /// The group.
    pub group: GroupId,
    /// The sender, of a protocol with one.
    pub sender: NodeId,
    /// This node's place among the members; beyond them if it is none.
    pub rank: usize,
    /// The members.
    pub nodes: Arc<[NodeId]>,
    /// The timers of all parts.
    pub timers: Timers<K>,
    /// What is recorded, and told to the host.
    pub events: Events,
    /// With the ranks of their sources.
    deliveries: VecDeque<(usize, Delivery)>,
}

impl<K: Ord + Copy> Scene<K> {
    /// Of the node of the context.
    pub fn new(context: &BuildContext) -> Self {
        Scene {
            now: Time::ZERO,
            association: context.association,
            group: context.group,
            sender: context.sender,
            rank: context.rank().unwrap_or(context.members.len()),
            nodes: context.members.clone(),
            timers: Timers::new(),
            events: Events::default(),
            deliveries: VecDeque::new(),
        }
    }

    /// The same of a node that is to be one of at most so many members.
    pub fn of_member(context: &BuildContext, most: usize) -> Result<Self, ConfigError> {
        let scene = Scene::new(context);
        match scene.rank < scene.nodes.len() && scene.nodes.len() <= most {
            true => Ok(scene),
            false => {
                let reason = format!("this node must be one of at most {most} members");
                Err(ConfigError::Conflict(reason))
            }
        }
    }

    /// The packet of a datagram if it could be read and is of this session; a drop otherwise.
    pub fn of_session<P, E>(&mut self, parsed: Result<(AssociationId, P), E>) -> Option<P> {
        self.events.of_session(parsed, self.association)
    }

    /// The same of the one sender.
    pub fn of_sender<P, E>(&mut self, from: NodeId, parsed: Result<(AssociationId, P), E>) -> Option<P> {
        let packet = self.of_session(parsed)?;
        if from != self.sender {
            self.events.dropped(DropReason::NotAMember);
            return None;
        }
        Some(packet)
    }

    /// A message of this member has its turn at the application.
    pub fn deliver(&mut self, rank: usize, number: u64, payload: bytes::Bytes) {
        self.deliver_from(self.nodes[rank], rank, number, payload);
    }

    /// The same of the one sender.
    pub fn deliver_sent(&mut self, number: u64, payload: bytes::Bytes) {
        self.deliver_from(self.sender, self.nodes.len(), number, payload);
    }

    fn deliver_from(&mut self, source: NodeId, rank: usize, number: u64, payload: bytes::Bytes) {
        let message = MessageId(number);
        self.deliveries.push_back((rank, Delivery { source, message, payload }));
        self.events.push(Event::Delivered { source, message });
    }

    /// The application takes its next message.
    pub fn poll_delivery(&mut self) -> Option<Delivery> {
        self.poll_delivery_of().map(|(_, delivery)| delivery)
    }

    /// The same, with the rank of its source.
    pub fn poll_delivery_of(&mut self) -> Option<(usize, Delivery)> {
        self.deliveries.pop_front()
    }

    /// A packet came in.
    pub fn received(&mut self, packet: &'static str, number: u64) {
        self.events.received(packet, number);
    }

    /// A packet without a message goes out.
    pub fn control(&mut self, packet: &'static str, number: u64) {
        self.events.control(packet, number);
    }

    /// A packet with a message in its place goes out: this node's own, as its first or again, or another's.
    pub fn data_sent(
        &mut self,
        to: To,
        message: (usize, u64),
        bytes: usize,
        again: bool,
        repair: bool,
    ) -> Transmit {
        let (transmit, (source, number)) = (self.transmit(to), message);
        if source == self.rank {
            return self.events.data_sent(transmit, MessageId(number), bytes, again);
        }
        let (source, message, bytes) = (self.nodes[source], MessageId(number), bytes as u32);
        self.events.push(Event::Forwarded { source, message, bytes, repair });
        transmit
    }

    /// Another view is in force than the one with these members: who is gone, and who has come.
    pub fn on_view(&mut self, before: &Ranks, view: &View) {
        for gone in before.without(&view.members).iter() {
            self.events.member_lost(self.nodes[gone]);
        }
        let come = view.members.without(before).or(&view.joiners);
        for rank in come.iter().filter(|&rank| rank != self.rank) {
            self.events.push(Event::MemberJoined { member: self.nodes[rank] });
        }
    }

    /// A datagram that leaves now.
    pub fn transmit(&self, to: To) -> Transmit {
        Transmit::now(match to {
            To::Group => Dest::group(self.group),
            To::Rank(rank) => Dest::Node(self.nodes[rank]),
        })
    }

    /// The same to the whole group.
    pub fn to_group(&self) -> Transmit {
        self.transmit(To::Group)
    }

    /// The rank of a member.
    pub fn rank_of(&self, node: NodeId) -> Option<usize> {
        self.nodes.iter().position(|&member| member == node)
    }

    /// How many messages the application has not taken.
    pub fn waiting(&self) -> usize {
        self.deliveries.len()
    }
}
