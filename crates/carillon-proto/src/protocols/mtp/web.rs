//! Membership of the web in MTP without an election: join, quit and banishment (RFC 1301, 3.1 and 3.3).

use std::collections::BTreeMap;

use carillon_core::{DropReason, Event, Transmit};
use carillon_wire::mtp::{Body, Packet, Reply, Terms, member_id};
use carillon_wire::reformation::Ranks;

use super::config::Settings;
use super::context::Context;
use super::frame::Frame;
use super::order::Order;
use crate::blocks::MissedPolls;
use crate::blocks::reformation::To;

/// Membership of one node.
#[derive(Debug)]
pub(super) struct Web {
    settings: Settings,
    /// Rank of the master.
    master: usize,
    standing: Standing,
    /// Join or quit request that is due.
    is_due: bool,
    /// Number of unanswered requests.
    tries: MissedPolls,
    /// At the master: members that have joined, that are expected to, and that wait for the confirm.
    joined: Ranks,
    expected: Ranks,
    newcomers: Ranks,
    /// At the master: identifier of each member's transport, and the message at which it began.
    admitted: BTreeMap<usize, (u32, u64)>,
    /// At the master: members to confirm.
    confirms: Ranks,
    /// Members to answer or to banish: rank, and true for a quit request.
    quits: Vec<(usize, bool)>,
}

/// Standing of a node in the web.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// This node is the master.
    Master,
    /// Asks the master to join.
    Joining,
    /// Member of the web.
    Member,
    /// Tells the master that it leaves, as a message is lost for it.
    Quitting,
    /// Has left the web, or has been banished, or the master has failed.
    Left,
}

impl Standing {
    /// Name for diagrams.
    pub fn name(self) -> &'static str {
        match self {
            Standing::Master => "Master",
            Standing::Joining => "Joining",
            Standing::Member => "Member",
            Standing::Quitting => "Quitting",
            Standing::Left => "Left",
        }
    }
}

impl Web {
    /// Creates the membership of a node before it has joined.
    pub fn new(context: &Context, settings: &Settings, is_rejoining: bool) -> Self {
        // The master takes the web's address first. All members agree on it before the session.
        let master = settings.master.min(context.nodes.len() - 1);
        let is_master = context.rank == master && !is_rejoining;
        let mut expected = Ranks::below(context.nodes.len());
        expected.remove(master);
        Web {
            settings: settings.clone(),
            master,
            standing: if is_master { Standing::Master } else { Standing::Joining },
            is_due: !is_master,
            tries: MissedPolls::default(),
            joined: Ranks::default(),
            expected: if is_master { expected } else { Ranks::default() },
            newcomers: Ranks::default(),
            admitted: BTreeMap::new(),
            confirms: Ranks::default(),
            quits: Vec::new(),
        }
    }

    /// Handles a join or quit packet.
    pub fn on_packet(&mut self, context: &mut Context, order: &mut Order, from: usize, packet: &Packet<'_>) {
        let message = order.near(packet.header.acceptance.message);
        match (self.standing, packet.body) {
            (Standing::Master, Body::Join(Reply::Request, terms)) => {
                self.on_join(context, (from, packet.header.source), terms);
            }
            (Standing::Master, Body::Quit(false, _)) => {
                self.forget(context, from);
                self.quits.push((from, true));
            }
            (Standing::Joining, Body::Join(Reply::Confirm, _)) if from == self.master => {
                self.standing = Standing::Member;
                self.tries.heard();
                order.begin_at(message);
            }
            (Standing::Joining, Body::Join(Reply::Deny, _)) if from == self.master => {
                self.standing = Standing::Left
            }
            // Banishment, or the master ends the web.
            (Standing::Member, Body::Quit(false, _)) if from == self.master => self.standing = Standing::Left,
            (Standing::Quitting, Body::Quit(..)) if from == self.master => self.standing = Standing::Left,
            _ => context.events.dropped(DropReason::OutOfWindow),
        }
        self.quits.truncate(MAX_QUITS);
    }

    /// Returns true if packets of this member are admitted. The master banishes a stranger (3.2.8).
    pub fn admits(&mut self, context: &mut Context, from: usize) -> bool {
        let admits = match self.standing {
            Standing::Master => self.joined.contains(from),
            Standing::Member | Standing::Quitting => true,
            Standing::Joining | Standing::Left => false,
        };
        // The request of a member that is expected to join may still arrive.
        let is_stranger = self.standing == Standing::Master && !admits && !self.expected.contains(from);
        if is_stranger && self.quits.len() < MAX_QUITS && !self.quits.contains(&(from, false)) {
            self.quits.push((from, false));
        }
        if !admits {
            context.events.dropped(DropReason::NotAMember);
        }
        admits
    }

    /// Handles a heartbeat: repeats requests and, at the master, stops expecting members that stay silent.
    pub fn on_heartbeat(&mut self, context: &mut Context) {
        let (patience, heartbeat) = (self.settings.patience, self.settings.heartbeat);
        match self.standing {
            Standing::Joining | Standing::Quitting => {
                self.is_due = true;
                if self.tries.missed(patience, heartbeat) {
                    self.standing = Standing::Left;
                }
            }
            Standing::Master if !self.expected.is_empty() && self.tries.missed(patience, heartbeat) => {
                for rank in std::mem::take(&mut self.expected).iter() {
                    context.events.member_lost(context.nodes[rank]);
                }
            }
            _ => {}
        }
    }

    /// Confirms newcomers if the master holds all tokens (3.1.2).
    pub fn poll(
        &mut self,
        context: &mut Context,
        order: &Order,
        frame: Frame,
        holds_all_tokens: bool,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        if let Some((rank, is_confirm)) = self.quits.pop() {
            let body = Body::Quit(is_confirm, member_id(context.association, rank));
            return Some(frame.control(context, order, To::Rank(rank), body, buf));
        }
        if holds_all_tokens && let Some(rank) = self.newcomers.iter().next() {
            self.newcomers.remove(rank);
            let is_late = !self.expected.remove(rank);
            if self.joined.insert(rank) && is_late {
                context.events.push(Event::MemberJoined { member: context.nodes[rank] });
            }
            if let Some((_, first)) = self.admitted.get_mut(&rank) {
                *first = order.next();
            }
            self.confirms.insert(rank);
        }
        if let Some(rank) = self.confirms.iter().next() {
            self.confirms.remove(rank);
            let first = self.admitted.get(&rank).map_or(order.next(), |&(_, first)| first);
            let body = Body::Join(Reply::Confirm, self.terms(context, 0));
            return Some(frame.control_at(context, order, To::Rank(rank), first, body, buf));
        }
        if !std::mem::take(&mut self.is_due) {
            return None;
        }
        match self.standing {
            Standing::Joining => {
                let body = Body::Join(Reply::Request, self.terms(context, 1));
                Some(frame.control(context, order, To::Group, body, buf))
            }
            Standing::Quitting => {
                let body = Body::Quit(false, member_id(context.association, context.rank));
                Some(frame.control(context, order, To::Rank(self.master), body, buf))
            }
            _ => None,
        }
    }

    /// Leaves the web after an unrecoverable loss.
    pub fn quit(&mut self) {
        if self.standing == Standing::Member {
            (self.standing, self.is_due) = (Standing::Quitting, true);
        }
    }

    /// Abandons the web, as its master has failed.
    pub fn abandon(&mut self) {
        self.standing = Standing::Left;
    }

    /// At the master: removes a member that has failed or left.
    pub fn forget(&mut self, context: &mut Context, rank: usize) {
        self.newcomers.remove(rank);
        let was_expected = self.expected.remove(rank);
        if self.joined.remove(rank) || was_expected {
            context.events.member_lost(context.nodes[rank]);
        }
    }

    /// Returns true if tokens may be granted: all expected members have joined, and no newcomer waits.
    pub fn may_grant(&self) -> bool {
        self.expected.is_empty() && self.newcomers.is_empty()
    }

    /// Returns true if the member was expected and has not joined.
    pub fn expects(&self, rank: usize) -> bool {
        self.expected.contains(rank)
    }

    /// Returns true if this node waits for an answer, or members are expected.
    pub fn waits(&self) -> bool {
        matches!(self.standing, Standing::Joining | Standing::Quitting) || !self.expected.is_empty()
    }

    /// Rank of the master.
    pub fn master(&self) -> usize {
        self.master
    }

    /// Returns true if a member has joined, as far as the master knows.
    pub fn knows(&self, rank: usize) -> bool {
        self.joined.contains(rank)
    }

    /// Standing of this node.
    pub fn standing(&self) -> Standing {
        self.standing
    }

    fn on_join(&mut self, context: &mut Context, (from, identifier): (usize, u32), terms: Terms) {
        if terms.web != context.association.0 {
            return context.events.dropped(DropReason::Foreign);
        }
        context.received("join_request", 0);
        // The same transport has missed the confirm, and begins where it was admitted. Another one is a newcomer.
        match self.admitted.get(&from) {
            Some(&(known, _)) if known == identifier && self.joined.contains(from) => {
                self.confirms.insert(from);
            }
            _ => {
                self.admitted.insert(from, (identifier, 0));
                self.newcomers.insert(from);
            }
        }
    }

    fn terms(&self, context: &Context, class: u8) -> Terms {
        Terms {
            class,
            reliability: 0,
            kind: 0,
            throughput: 0,
            data_unit: u16::MAX,
            web: context.association.0,
        }
    }
}

/// Maximum number of quit packets that wait.
const MAX_QUITS: usize = 64;
