//! Cookies: a receiver gets a place only after it has answered from its address.
//!
//! A JOIN may carry a forged address. The sender therefore answers the first one with a CHALLENGE and keeps no state
//! (RFC 4987, section 3.6, and RFC 9000, section 8.1, do the same). Its cookie is a keyed hash of the receiver's
//! address, its nonce and the time. A JOIN with the cookie proves that the CHALLENGE arrived at that address. The key
//! is drawn for each session. A CHALLENGE is shorter than any JOIN, so it cannot amplify an attack, and it does not
//! count among the answers to strangers.

use carillon_core::{DropReason, Duration, NodeId, Time};
use carillon_wire::session::{Cookie, Nonce};

use super::SenderSession;
use super::packets::MAX_STRANGERS;
use super::state::Reply;

impl SenderSession {
    /// Cookie of a receiver in a time slot.
    pub(super) fn cookie(&self, node: NodeId, nonce: Nonce, slot: u64) -> Cookie {
        // With addresses, the number of an unanswered node may change, so the address identifies it.
        let place = self.config.network.addresses.of_node(node);
        let place = place.map_or_else(|| node.0.to_string(), |address| address.to_string());
        let of = self.answering.cookies.part(&format!("{place} {} {slot}", nonce.0));
        Cookie(of.stream("session.cookie").bits())
    }

    /// Returns true if a JOIN has the cookie of this time slot or of the previous one.
    pub(super) fn is_answered(&self, now: Time, node: NodeId, nonce: Nonce, cookie: Option<Cookie>) -> bool {
        // The time slot may change while the JOIN is in flight.
        let slot = slot(now);
        cookie.is_some_and(|cookie| {
            [slot, slot.wrapping_sub(1)].into_iter().any(|slot| self.cookie(node, nonce, slot) == cookie)
        })
    }

    /// Asks a receiver to repeat its JOIN with a cookie.
    pub(super) fn challenge(&mut self, now: Time, node: NodeId, nonce: Nonce) {
        if self.answering.replies.len() < self.config.max_members + MAX_STRANGERS
            || self.answering.replies.contains_key(&node)
        {
            self.answering.replies.insert(node, Reply::Challenge(nonce, slot(now)));
        } else {
            self.events.dropped(DropReason::BufferFull);
        }
    }

    /// Returns true if an address has as many members as it may have.
    pub(super) fn has_too_many_at(&self, node: NodeId) -> bool {
        let limit = (self.config.max_members / MAX_SHARE).max(1);
        let Some(address) =
            self.config.network.addresses.of_node(node).filter(|_| self.roster.receivers() >= limit)
        else {
            return false;
        };
        let is_there = |other: NodeId| self.config.network.addresses.of_node(other) == Some(address);
        self.roster.members().iter().filter(|member| is_there(member.node)).count() >= limit
    }
}

fn slot(now: Time) -> u64 {
    now.since(Time::ZERO).as_secs() / SLOT.as_secs()
}

/// Duration of a time slot. A cookie is valid for one to two slots.
const SLOT: Duration = Duration::from_secs(8);
/// Divisor of the number of members that bounds the members at one address: a host may run many receivers, or try to
/// take all places.
const MAX_SHARE: usize = 2;
