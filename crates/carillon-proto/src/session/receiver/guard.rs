//! What a receiver does for others, measured by what it has had from them.

use std::collections::VecDeque;

use bytes::Bytes;
use carillon_core::{Dest, NodeId, Received};

/// Bytes that went out through the protocol against bytes that came in from those it may come from, and what its own
/// application gave it for the others.
#[derive(Debug, Default)]
pub(super) struct Budget {
    received: u64,
    offered: u64,
    sent: u64,
    /// How many turn to this member: each may need what it received.
    children: u64,
    /// How many others there are: each may need what it offers.
    others: u64,
}

impl Budget {
    /// So many bytes came from the sender, or another member.
    pub fn earn(&mut self, bytes: usize) {
        self.received = self.received.saturating_add(bytes as u64);
    }

    /// Its own application offered a message of so many bytes: nobody made it do so.
    pub fn offer(&mut self, bytes: usize) {
        self.offered = self.offered.saturating_add(bytes as u64 + ABOUT_A_MESSAGE);
    }

    /// So many turn to this member now, of so many others.
    pub fn serve(&mut self, children: usize, others: usize) {
        (self.children, self.others) = (children as u64, others as u64);
    }

    /// Whether so many bytes may go out; if so, they count as sent.
    pub fn spend(&mut self, bytes: usize) -> bool {
        let sent = self.sent.saturating_add(bytes as u64);
        let received = self.received.saturating_mul(RATIO * (1 + self.children));
        let offered = self.offered.saturating_mul(RATIO * (1 + self.others));
        let may = sent <= received.saturating_add(offered).saturating_add(ALLOWANCE);
        if may {
            self.sent = sent;
        }
        may
    }
}

/// What came before the machine was set to work: kept for it, up to a bound.
#[derive(Debug, Default)]
pub(super) struct Early {
    datagrams: VecDeque<(NodeId, bool, Bytes)>,
    bytes: usize,
}

impl Early {
    /// Keeps a datagram, in memory of its own; returns whether there was room.
    pub fn keep(&mut self, datagram: &Received<'_>) -> bool {
        let len = datagram.bytes.len();
        let room = self.bytes + len <= EARLY_BYTES && self.datagrams.len() < EARLY_DATAGRAMS;
        if room {
            self.bytes += len;
            let unicast = matches!(datagram.destination, Dest::Node(_));
            let bytes = Bytes::copy_from_slice(datagram.bytes);
            self.datagrams.push_back((datagram.source, unicast, bytes));
        }
        room
    }

    /// The oldest of what was kept: source, whether it came by unicast, and the bytes.
    pub fn pop(&mut self) -> Option<(NodeId, bool, Bytes)> {
        let oldest = self.datagrams.pop_front()?;
        self.bytes -= oldest.2.len();
        Some(oldest)
    }

    /// Whether nothing is kept.
    pub fn is_empty(&self) -> bool {
        self.datagrams.is_empty()
    }
}

/// Bytes that a member may send through the protocol for each that it has received, of a helper as much again for each child;
/// for each that it offers, as much again for each other member; and before any.
const RATIO: u64 = 3;
/// What a message costs beside what it says: headers, and what the members tell each other of it.
const ABOUT_A_MESSAGE: u64 = 64;
const ALLOWANCE: u64 = 64 << 10;
/// What is kept of what comes before the welcome.
const EARLY_BYTES: usize = 1 << 20;
const EARLY_DATAGRAMS: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    /// To the last byte: 64 KiB, 3 for each received and as much again for each child, 3 for each offered and as much again
    /// for each of the others.
    #[test]
    fn what_may_be_sent_follows_what_came_and_what_is_offered() {
        // Exactly so many more, and no more after.
        let spends =
            |budget: &mut Budget, bytes| !budget.spend(bytes + 1) && budget.spend(bytes) && !budget.spend(1);
        let mut budget = Budget::default();
        assert!(spends(&mut budget, 64 << 10));
        budget.earn(1000);
        assert!(spends(&mut budget, 3 * 1000));
        budget.serve(2, 9);
        assert!(spends(&mut budget, 3 * 1000 * 2), "for those that turn to it");
        budget.offer(36);
        assert!(spends(&mut budget, 3 * (36 + 64) * 10), "for all the others");
    }
}
