//! Cookies: a receiver has a place only after an answer from its address.
//!
//! Anybody can write any address on a JOIN. So the sender answers the first one with a CHALLENGE and forgets both; the cookie
//! in it is a keyed hash of the receiver's address, its nonce and the time. A JOIN with the cookie shows that the
//! CHALLENGE was received at that address. The key is drawn for each session. A CHALLENGE is shorter than any JOIN, so
//! that nobody is sent more than was sent in its name, and it is not counted among the answers to strangers.

use carillon_core::{DropReason, Duration, NodeId, Time};
use carillon_wire::session::{Cookie, Nonce};

use super::SenderSession;
use super::packets::MAX_STRANGERS;
use super::state::Reply;

impl SenderSession {
    /// The cookie of a receiver in a time slot.
    pub(super) fn cookie(&self, node: NodeId, nonce: Nonce, slot: u64) -> Cookie {
        // Where there are addresses the number of a node that is not answered may change.
        let place = self.config.addresses.of_node(node);
        let place = place.map_or_else(|| node.0.to_string(), |address| address.to_string());
        let of = self.cookies.part(&format!("{place} {} {slot}", nonce.0));
        Cookie(of.stream("session.cookie").bits())
    }

    /// Whether a JOIN has the cookie of this time slot or of the one before.
    pub(super) fn is_answered(&self, now: Time, node: NodeId, nonce: Nonce, cookie: Option<Cookie>) -> bool {
        let slot = slot(now);
        cookie.is_some_and(|cookie| {
            [slot, slot.wrapping_sub(1)].into_iter().any(|slot| self.cookie(node, nonce, slot) == cookie)
        })
    }

    /// Asks a receiver to join again with a cookie.
    pub(super) fn challenge(&mut self, now: Time, node: NodeId, nonce: Nonce) {
        if self.replies.len() < self.config.max_members + MAX_STRANGERS || self.replies.contains_key(&node) {
            self.replies.insert(node, Reply::Challenge(nonce, slot(now)));
        } else {
            self.events.dropped(DropReason::BufferFull);
        }
    }

    /// Whether one address has as many places as it may have.
    pub(super) fn has_too_many_at(&self, node: NodeId) -> bool {
        let limit = (self.config.max_members / MAX_SHARE).max(1);
        let Some(address) = self.config.addresses.of_node(node).filter(|_| self.roster.receivers() >= limit)
        else {
            return false;
        };
        let is_there = |other: NodeId| self.config.addresses.of_node(other) == Some(address);
        self.roster.members().iter().filter(|member| is_there(member.node)).count() >= limit
    }
}

fn slot(now: Time) -> u64 {
    now.since(Time::ZERO).as_secs() / SLOT.as_secs()
}

/// A cookie is good for one to two slots.
const SLOT: Duration = Duration::from_secs(8);
/// One address has one place in so many at most: it may be a host of many receivers, or one that wants all places.
const MAX_SHARE: usize = 2;
