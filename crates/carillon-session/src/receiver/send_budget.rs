//! Limits on the traffic that a receiver can be made to send.
//!
//! A forged request must not turn a receiver into an amplifier. Bytes sent through the protocol are limited to a
//! multiple of the bytes received (RFC 9000, section 8.1, uses the same factor 3) and of the bytes its own application
//! offered.

use std::collections::VecDeque;

use bytes::Bytes;
use carillon_core::{Dest, NodeId, Received};

/// Budget of bytes sent through the protocol.
#[derive(Debug, Default)]
pub(super) struct SendBudget {
    received: u64,
    offered: u64,
    sent: u64,
    /// Number of members that turn to this one: each may need all data this one received.
    children: u64,
    /// Number of other members: each may need all data this one offers.
    others: u64,
}

impl SendBudget {
    /// Adds bytes received from the sender or another member.
    pub fn earn(&mut self, bytes: usize) {
        self.received = self.received.saturating_add(bytes as u64);
    }

    /// Adds a message that the own application offered.
    pub fn offer(&mut self, bytes: usize) {
        self.offered = self.offered.saturating_add(bytes as u64 + MESSAGE_OVERHEAD);
    }

    /// Sets the number of members that turn to this one, and of all others.
    pub fn serve(&mut self, children: usize, others: usize) {
        (self.children, self.others) = (children as u64, others as u64);
    }

    /// Returns true if this many bytes may be sent, and counts them as sent.
    pub fn spend(&mut self, bytes: usize) -> bool {
        let sent = self.sent.saturating_add(bytes as u64);
        // Each child may need everything that this member received, and each other member everything that it offers.
        let received = self.received.saturating_mul(AMPLIFICATION_LIMIT * (1 + self.children));
        let offered = self.offered.saturating_mul(AMPLIFICATION_LIMIT * (1 + self.others));
        let may = sent <= received.saturating_add(offered).saturating_add(INITIAL_ALLOWANCE);
        if may {
            self.sent = sent;
        }
        may
    }
}

/// Datagrams received before the machine was started, kept for it up to a bound.
#[derive(Debug, Default)]
pub(super) struct EarlyDatagrams {
    datagrams: VecDeque<(NodeId, bool, Bytes)>,
    bytes: usize,
}

impl EarlyDatagrams {
    /// Keeps a copy of a datagram. Returns false if there is no room.
    pub fn keep(&mut self, datagram: &Received<'_>) -> bool {
        let len = datagram.bytes.len();
        let room = self.bytes + len <= MAX_EARLY_BYTES && self.datagrams.len() < MAX_EARLY_DATAGRAMS;
        if room {
            self.bytes += len;
            let unicast = matches!(datagram.destination, Dest::Node(_));
            let bytes = Bytes::copy_from_slice(datagram.bytes);
            self.datagrams.push_back((datagram.source, unicast, bytes));
        }
        room
    }

    /// Takes the oldest datagram: source, true if it was sent by unicast, and bytes.
    pub fn pop(&mut self) -> Option<(NodeId, bool, Bytes)> {
        let oldest = self.datagrams.pop_front()?;
        self.bytes -= oldest.2.len();
        Some(oldest)
    }

    /// Returns true if no datagram is kept.
    pub fn is_empty(&self) -> bool {
        self.datagrams.is_empty()
    }
}

/// Maximum ratio of bytes sent to bytes received or offered, per recipient.
const AMPLIFICATION_LIMIT: u64 = 3;
/// Bytes that a message costs beyond its payload: headers, and control packets about it.
const MESSAGE_OVERHEAD: u64 = 64;
/// Bytes that may be sent before any were received.
const INITIAL_ALLOWANCE: u64 = 64 << 10;
/// Maximum number of bytes kept before the start.
const MAX_EARLY_BYTES: usize = 1 << 20;
/// Maximum number of datagrams kept before the start.
const MAX_EARLY_DATAGRAMS: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    /// The limit to the byte: 64 KiB, 3 per byte received and as much per child, and 3 per byte offered and as much
    /// per other member.
    #[test]
    fn what_may_be_sent_follows_what_came_and_what_is_offered() {
        // Exactly this many more bytes, and none after.
        let spends = |budget: &mut SendBudget, bytes| {
            !budget.spend(bytes + 1) && budget.spend(bytes) && !budget.spend(1)
        };
        let mut budget = SendBudget::default();
        assert!(spends(&mut budget, 64 << 10));
        budget.earn(1000);
        assert!(spends(&mut budget, 3 * 1000));
        budget.serve(2, 9);
        assert!(spends(&mut budget, 3 * 1000 * 2), "for those that turn to it");
        budget.offer(36);
        assert!(spends(&mut budget, 3 * (36 + 64) * 10), "for all the others");
    }
}
