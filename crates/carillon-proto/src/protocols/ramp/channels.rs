//! Channels of the sender, one to each receiver.

use std::time::Duration;

use carillon_core::Time;
use carillon_wire::ramp::Service;

use super::config::Settings;
use crate::blocks::{FailureTimeout, MissedPolls};

/// Channel to one receiver.
#[derive(Debug)]
pub(super) struct Channel {
    pub service: Service,
    /// First message that the receiver is missing.
    pub next: u64,
    /// First message for which the receiver has no room.
    pub limit: u64,
    pub is_connected: bool,
    pub is_closed: bool,
    /// Time of the first flagged packet, or of the CONNECT, that the receiver has not answered.
    pub owes_since: Option<Time>,
    missed: MissedPolls,
    /// True if the receiver was heard since the last check of idle mode.
    heard: bool,
}

impl Channel {
    /// Returns true if the sender waits for this receiver.
    pub fn is_awaited(&self) -> bool {
        self.service == Service::SenderReliable && !self.is_closed
    }

    /// Name of the state; `None` for a closed channel.
    pub fn state(&self) -> Option<&'static str> {
        match (self.is_closed, self.is_connected, self.owes_since) {
            (true, ..) => None,
            (_, false, _) => Some("Connecting"),
            (_, _, Some(_)) => Some("Owing"),
            _ => Some("Open"),
        }
    }
}

/// Channels by index of the member.
#[derive(Debug)]
pub(super) struct Channels {
    pub all: Vec<Channel>,
    patience: FailureTimeout,
}

impl Channels {
    /// Creates the channels to this number of members.
    pub fn new(settings: &Settings, members: usize) -> Self {
        let channel = |index| Channel {
            service: settings.service(index, members),
            next: 0,
            limit: settings.window,
            is_connected: false,
            is_closed: false,
            owes_since: None,
            missed: MissedPolls::default(),
            heard: false,
        };
        Channels { all: (0..members).map(channel).collect(), patience: settings.patience }
    }

    /// Records a packet of a receiver with its progress. Both numbers never move back, since packets overtake each
    /// other.
    pub fn on_status(&mut self, index: usize, next: u64, limit: u64) {
        let channel = &mut self.all[index];
        channel.next = channel.next.max(next);
        channel.limit = channel.limit.max(limit);
        channel.missed.heard();
        (channel.is_connected, channel.owes_since, channel.heard) = (true, None, true);
    }

    /// Channels that the sender waits for.
    pub fn awaited(&self) -> impl Iterator<Item = &Channel> {
        self.all.iter().filter(|channel| channel.is_awaited())
    }

    /// Records that a packet with the ACK flag was sent to one member, or to all.
    pub fn ask(&mut self, now: Time, only: Option<usize>) {
        for (index, channel) in self.all.iter_mut().enumerate() {
            if channel.is_awaited() && only.is_none_or(|only| only == index) {
                channel.owes_since.get_or_insert(now);
            }
        }
    }

    /// Returns true if an awaited receiver owes an answer.
    pub fn has_debts(&self) -> bool {
        self.awaited().any(|channel| channel.owes_since.is_some())
    }

    /// Earliest time at which an answer is overdue.
    pub fn overdue_at(&self, timeout: Duration) -> Option<Time> {
        let open = self.all.iter().filter(|channel| !channel.is_closed);
        open.filter_map(|channel| channel.owes_since).min().map(|since| since + timeout)
    }

    /// Counts the overdue answers. Returns the indices of receivers to ask again, and of failed ones.
    pub fn overdue(&mut self, now: Time, timeout: Duration) -> (Vec<usize>, Vec<usize>) {
        let (mut again, mut failed) = (Vec::new(), Vec::new());
        for (index, channel) in self.all.iter_mut().enumerate().filter(|(_, channel)| !channel.is_closed) {
            if channel.owes_since.is_none_or(|since| now.since(since) < timeout) {
                continue;
            }
            channel.owes_since = Some(now);
            let gone = channel.missed.missed(self.patience, timeout);
            if gone { &mut failed } else { &mut again }.push(index);
        }
        (again, failed)
    }

    /// Counts the receivers that sent nothing since the last check, one interval of idle mode ago. Returns the failed
    /// ones.
    pub fn silent(&mut self, interval: Duration) -> Vec<usize> {
        let mut failed = Vec::new();
        for (index, channel) in self.all.iter_mut().enumerate() {
            let heard = std::mem::take(&mut channel.heard);
            if channel.is_awaited()
                && channel.is_connected
                && !heard
                && channel.missed.missed(self.patience, interval)
            {
                failed.push(index);
            }
        }
        failed
    }

    /// Continues with a receiver after its missing messages before `next` were skipped.
    pub fn skip(&mut self, index: usize, next: u64) {
        let channel = &mut self.all[index];
        // The receiver cannot report the room that the skipped messages have left.
        let room = channel.limit.saturating_sub(channel.next).max(1);
        channel.next = channel.next.max(next);
        channel.limit = channel.limit.max(channel.next + room);
        channel.missed.heard();
    }
}
