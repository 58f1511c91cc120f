//! Datagram size that reaches all members.
//!
//! Switches and tunnels drop datagrams that are too long for them without a notice. While gathering, the sender
//! therefore shows datagrams of several sizes. Each member reports the largest that it received, and the session uses
//! none that is longer than the smallest of these. RFC 8899 does the same on a single path, with probes that are
//! acknowledged.

use std::collections::VecDeque;

use carillon_core::{Dest, Transmit};
use carillon_wire::Envelope;
use carillon_wire::session::{Body, DatagramSizes, Packet, Padding};

use super::SenderSession;
use super::state::SenderPhase;
use crate::session::config::SenderSessionConfig;
use crate::session::roster::{Member, MemberOutcome};

/// Datagrams to show.
#[derive(Debug, Default)]
pub(super) struct Showing {
    due: VecDeque<u16>,
    /// Index of the next size other than the largest.
    turn: usize,
}

/// Reduction of the datagram size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortened {
    /// Maximum size of a datagram in bytes.
    pub datagram: u16,
    /// Member that no longer datagram reaches.
    pub member: String,
}

impl Showing {
    /// Prepares the datagrams that follow an invitation: one of the shorter sizes in turn, then the largest. The
    /// largest is sent last: some virtual networks forward a batch of equal datagrams with a shorter one at its end,
    /// but drop a single one of that length.
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
    /// Sizes as invitations state them.
    pub(super) fn shown(&self) -> DatagramSizes {
        match (self.sizes.first(), self.sizes.last()) {
            (Some(&longest), Some(&least)) => DatagramSizes { longest, least },
            _ => DatagramSizes::default(),
        }
    }
}

impl SenderSession {
    /// Maximum payload of a message; once the session runs, with packets that reach all members.
    pub fn max_payload(&self) -> u32 {
        self.sending.max_payload
    }

    /// Reason why datagrams are shorter than configured, if they are.
    pub fn shortened(&self) -> Option<&Shortened> {
        self.sending.shortened.as_ref()
    }

    /// Writes the next datagram to show.
    pub(super) fn emit_size(&mut self, buf: &mut Vec<u8>) -> Option<Transmit> {
        // Gathering may have ended since the invitation.
        if self.phase != SenderPhase::Gathering || self.announcing.end.is_some() {
            self.announcing.showing.due.clear();
        }
        let padding =
            Padding(usize::from(self.announcing.showing.due.pop_front()?).saturating_sub(Envelope::LEN));
        Packet { association: self.config.association, body: Body::Size(padding) }.emit(buf);
        Some(Transmit::now(Dest::group(self.config.group)))
    }

    /// Sets the size of messages to the largest that all members can receive, as no more members join.
    pub(super) fn settle_sizes(&mut self) {
        let DatagramSizes { longest, least } = self.config.shown();
        let takes_part = |member: &&Member| member.part.receives() && member.outcome == MemberOutcome::Active;
        let members = self.roster.members().iter().filter(takes_part);
        let Some(member) = members.min_by_key(|member| member.largest) else { return };
        // A member cannot reduce the size below the one it had to receive to join.
        let datagram = member.largest.max(least);
        if datagram < longest {
            self.sending.shortened = Some(Shortened { datagram, member: member.name.clone() });
            self.sending.max_payload = self.sending.max_payload.min(self.config.payload_in(datagram.into()));
        }
    }
}
