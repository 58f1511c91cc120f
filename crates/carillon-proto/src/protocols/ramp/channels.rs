//! Channels of the sender, one to each receiver.

use std::time::Duration;

use carillon_core::Time;
use carillon_wire::ramp::Service;

use super::config::Settings;
use crate::blocks::{FailureTimeout, MeasuredTimeout, Minimum, MissedPolls};

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
    /// Time at which that answer is overdue.
    overdue_at: Time,
    /// Time in which the receiver answers flagged packets, by message number, and CONNECTs, without one.
    timeout: MeasuredTimeout<Option<u64>>,
    missed: MissedPolls,
    /// True if the receiver was heard since the last check of idle mode.
    heard: bool,
}

impl Channel {
    /// Returns true if the sender waits for this receiver.
    pub fn is_awaited(&self) -> bool {
        self.service == Service::SenderReliable && !self.is_closed
    }

    /// Begins the wait for an answer.
    fn owe(&mut self, now: Time) {
        (self.owes_since, self.overdue_at) = (Some(now), now + self.timeout.current());
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

/// Channels by index of the member, and the least values over all of them, which each answer of a large group needs.
#[derive(Debug)]
pub(super) struct Channels {
    all: Vec<Channel>,
    patience: FailureTimeout,
    /// First missing messages of the awaited channels.
    nexts: Minimum,
    /// First messages without room of the awaited channels.
    limits: Minimum,
    /// Times in nanoseconds at which the answers that open channels owe are overdue.
    debts: Minimum,
    awaited: usize,
    /// Number of awaited channels that owe an answer.
    awaited_debts: usize,
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
            overdue_at: Time::ZERO,
            timeout: settings.response(),
            missed: MissedPolls::default(),
            heard: false,
        };
        let mut channels = Channels {
            all: (0..members).map(channel).collect(),
            patience: settings.patience,
            nexts: Minimum::default(),
            limits: Minimum::default(),
            debts: Minimum::default(),
            awaited: 0,
            awaited_debts: 0,
        };
        (0..members).for_each(|index| channels.count(index, true));
        channels
    }

    /// The channel to a member.
    pub fn channel(&self, index: usize) -> &Channel {
        &self.all[index]
    }

    /// Channels with the indices of their members.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &Channel)> {
        self.all.iter().enumerate()
    }

    /// Records a packet of a receiver with its progress. Both numbers never move back, since packets overtake each
    /// other.
    pub fn on_status(&mut self, index: usize, next: u64, limit: u64) {
        self.change(index, |channel| {
            channel.next = channel.next.max(next);
            channel.limit = channel.limit.max(limit);
            channel.missed.heard();
            (channel.is_connected, channel.owes_since, channel.heard) = (true, None, true);
        });
    }

    /// Number of channels that the sender waits for.
    pub fn awaited(&self) -> usize {
        self.awaited
    }

    /// First message that an awaited receiver is missing.
    pub fn first_missing(&self) -> Option<u64> {
        self.nexts.get()
    }

    /// First message for which an awaited receiver has no room.
    pub fn limit(&self) -> Option<u64> {
        self.limits.get()
    }

    /// Closes a channel.
    pub fn close(&mut self, index: usize) {
        self.change(index, |channel| channel.is_closed = true);
    }

    /// Records that a CONNECT was sent to a member.
    pub fn connect(&mut self, now: Time, index: usize) {
        self.request(now, index, None);
    }

    /// Records that a packet with the ACK flag and this number was sent to one member, or to all.
    pub fn ask(&mut self, now: Time, only: Option<usize>, number: u64) {
        let indices = only.map_or(0..self.all.len(), |only| only..only + 1);
        for index in indices {
            if self.all[index].is_awaited() {
                self.request(now, index, Some(number));
            }
        }
    }

    /// Records the answer of a member to a flagged packet of this number, or to a CONNECT.
    pub fn on_answer(&mut self, now: Time, index: usize, number: Option<u64>) {
        self.all[index].timeout.on_answer(now, number);
    }

    /// Longest timeout of the awaited receivers; `first` without any.
    pub fn longest_timeout(&self, first: Duration) -> Duration {
        let awaited = self.all.iter().filter(|channel| channel.is_awaited());
        awaited.map(|channel| channel.timeout.current()).max().unwrap_or(first)
    }

    /// Returns true if an awaited receiver owes an answer.
    pub fn has_debts(&self) -> bool {
        self.awaited_debts > 0
    }

    /// Earliest time at which an answer is overdue.
    pub fn overdue_at(&self) -> Option<Time> {
        self.debts.get().map(Time::from_nanos)
    }

    /// Counts the overdue answers. Returns the indices of receivers to ask again, and of failed ones.
    pub fn overdue(&mut self, now: Time) -> (Vec<usize>, Vec<usize>) {
        let (mut again, mut failed) = (Vec::new(), Vec::new());
        let patience = self.patience;
        for index in 0..self.all.len() {
            let channel = &self.all[index];
            if channel.is_closed || channel.owes_since.is_none() || now < channel.overdue_at {
                continue;
            }
            let gone = self.change(index, |channel| {
                let gone = channel.missed.missed(patience, channel.timeout.current());
                channel.timeout.on_expiry();
                channel.owe(now);
                gone
            });
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
        self.change(index, |channel| {
            // The receiver cannot report the room that the skipped messages have left.
            let room = channel.limit.saturating_sub(channel.next).max(1);
            channel.next = channel.next.max(next);
            channel.limit = channel.limit.max(channel.next + room);
            channel.missed.heard();
        });
    }

    /// Records that a packet that a member is to answer was sent.
    fn request(&mut self, now: Time, index: usize, number: Option<u64>) {
        self.all[index].timeout.on_request(now, number);
        if self.all[index].owes_since.is_none() {
            self.change(index, |channel| channel.owe(now));
        }
    }

    /// Changes a channel, and keeps the least values right.
    fn change<T>(&mut self, index: usize, act: impl FnOnce(&mut Channel) -> T) -> T {
        self.count(index, false);
        let result = act(&mut self.all[index]);
        self.count(index, true);
        debug_assert!(self.all.len() > MAX_CHECKED_CHANNELS || self.is_consistent(), "{self:?}");
        result
    }

    /// Returns true if the least values are those of the channels.
    fn is_consistent(&self) -> bool {
        let awaited = || self.all.iter().filter(|channel| channel.is_awaited());
        let open = self.all.iter().filter(|channel| !channel.is_closed && channel.owes_since.is_some());
        let debts = open.map(|channel| channel.overdue_at);
        self.awaited == awaited().count()
            && self.awaited_debts == awaited().filter(|channel| channel.owes_since.is_some()).count()
            && self.nexts.get() == awaited().map(|channel| channel.next).min()
            && self.limits.get() == awaited().map(|channel| channel.limit).min()
            && self.debts.get() == debts.min().map(Time::as_nanos)
    }

    /// Adds the values of a channel to the least ones, or removes them.
    fn count(&mut self, index: usize, is_added: bool) {
        let Channel { next, limit, owes_since, overdue_at, is_closed, .. } = self.all[index];
        let is_awaited = self.all[index].is_awaited();
        let note = |minimum: &mut Minimum, number| match is_added {
            true => minimum.insert(number),
            false => minimum.remove(number),
        };
        let number = |count: &mut usize| *count = if is_added { *count + 1 } else { *count - 1 };
        if is_awaited {
            note(&mut self.nexts, next);
            note(&mut self.limits, limit);
            number(&mut self.awaited);
        }
        if owes_since.is_some() && !is_closed {
            note(&mut self.debts, overdue_at.as_nanos());
            if is_awaited {
                number(&mut self.awaited_debts);
            }
        }
    }
}

/// Maximum number of channels for which builds with debug assertions check the least values after each change.
const MAX_CHECKED_CHANNELS: usize = 64;
