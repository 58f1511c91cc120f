//! How long datagrams may be to reach all members.
//!
//! Of the network between nobody knows what it carries: a switch drops what is too long for it without a word, and so does a tunnel. So the sender
//! shows datagrams of several sizes while it gathers, each member says which was the largest that came to it, and when the session begins none
//! is longer than what has come to all. RFC 8899 does the same on one path, with probes that are answered one by one.

use std::collections::VecDeque;

use carillon_core::{Dest, Transmit};
use carillon_wire::Envelope;
use carillon_wire::session::{Body, DatagramSizes, Packet, Padding};

use super::SenderSession;
use super::state::SenderPhase;
use crate::session::config::SenderSessionConfig;
use crate::session::roster::{Member, MemberOutcome};

/// What is to be shown.
#[derive(Debug, Default)]
pub(super) struct Showing {
    due: VecDeque<u16>,
    /// Whose turn it is of those that are not the longest.
    turn: usize,
}

/// That not all datagrams can be as long as they might.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortened {
    /// Bytes of a datagram, at most.
    pub datagram: u16,
    /// A member to whom no longer one comes.
    pub member: String,
}

impl Showing {
    /// An invitation goes out, and with it by turns one of the others, and the longest. This last: what hosts hand over together, equal ones and a shorter
    /// one behind them, is let through whole by some virtual networks that drop one as long by itself.
    pub fn begin(&mut self, sizes: &[u16]) {
        self.due.clear();
        let Some((longest, others)) = sizes.split_first() else { return };
        if !others.is_empty() {
            self.due.push_back(others[self.turn % others.len()]);
            self.turn += 1;
        }
        self.due.push_back(*longest);
    }
}

impl SenderSessionConfig {
    /// What invitations say of the datagrams that are shown.
    pub(super) fn shown(&self) -> DatagramSizes {
        match (self.sizes.first(), self.sizes.last()) {
            (Some(&longest), Some(&least)) => DatagramSizes { longest, least },
            _ => DatagramSizes::default(),
        }
    }
}

impl SenderSession {
    /// The largest payload of a message; once the session runs, one whose packets reach all members.
    pub fn max_payload(&self) -> u32 {
        self.max_payload
    }

    /// Why datagrams are shorter than they might be, if they are.
    pub fn shortened(&self) -> Option<&Shortened> {
        self.shortened.as_ref()
    }

    /// The next datagram that is to be shown.
    pub(super) fn emit_size(&mut self, buf: &mut Vec<u8>) -> Option<Transmit> {
        if self.phase != SenderPhase::Gathering || self.farewell.is_some() {
            self.showing.due.clear();
        }
        let padding = Padding(usize::from(self.showing.due.pop_front()?).saturating_sub(Envelope::LEN));
        Packet { association: self.config.association, body: Body::Size(padding) }.emit(buf);
        Some(Transmit::now(Dest::group(self.config.group)))
    }

    /// Nobody more joins: messages are as long as all can take.
    pub(super) fn settle_sizes(&mut self) {
        let DatagramSizes { longest, least } = self.config.shown();
        let takes_part = |member: &&Member| member.part.receives() && member.outcome == MemberOutcome::Active;
        let members = self.roster.members().iter().filter(takes_part);
        let Some(member) = members.min_by_key(|member| member.largest) else { return };
        // Whoever says less than what it could join with does not make them shorter than that.
        let datagram = member.largest.max(least);
        if datagram < longest {
            self.shortened = Some(Shortened { datagram, member: member.name.clone() });
            self.max_payload = self.max_payload.min(self.config.payload_in(datagram.into()));
        }
    }
}
