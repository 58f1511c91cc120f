//! Datagram size that reaches all members.
//!
//! Switches and tunnels drop datagrams that are too long for them without a notice. While gathering, the sender
//! therefore shows datagrams of several sizes. Each member reports the largest that it received, and the session uses
//! none that is longer than the smallest of these. RFC 8899 does the same on a single path, with probes that are
//! acknowledged.

use std::collections::VecDeque;

use carillon_wire::session::DatagramSizes;

use crate::config::SenderSessionConfig;

/// Datagrams to show.
#[derive(Debug, Default)]
pub(super) struct Showing {
    pub due: VecDeque<u16>,
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
