//! Announcements: what a sender says to the group, and when.
//!
//! The sender invites at each heartbeat, and more often at the beginning of a phase, since a member that misses the
//! first invitations would hold the others up. At the end it announces the result several times, as nothing
//! acknowledges it.

use std::collections::BTreeSet;

use carillon_core::{Duration, ObservedState, States, Time, Timers};
use carillon_wire::session::State;

use super::sizes::Showing;
use super::state::{Pending, SenderPhase, Timer};
use crate::observed;

/// Declared states of the end.
pub(super) const STATES: States = States {
    of: "sender, announcement of the end",
    transitions: &[
        ("[*]", "None", ""),
        ("None", "Announcing", "no member left, all have reported, or abort: INVITE with the end"),
        ("Announcing", "Announced", "the last of several INVITEs"),
    ],
};

/// Packets to the group.
#[derive(Debug)]
pub(super) struct Announcing {
    /// Settings as invitations carry them.
    pub settings: String,
    /// Packets to send.
    pub pending: BTreeSet<Pending>,
    /// Number of invitations.
    invitations: u32,
    /// Number of invitations in this phase.
    invited: u32,
    /// Interval of the invitations before a start that follows a quiet time.
    interval: Option<Duration>,
    /// Number of the next notice to earlier releases.
    pub next_notice: usize,
    /// Datagrams shown to find the size that reaches all members.
    pub showing: Showing,
    /// Announcements of the end that are left to send; none before the end.
    pub end: Option<EndNotices>,
    /// Reason for the abortion.
    pub failure: Option<String>,
    pub timers: Timers<Timer>,
}

/// Last invitations, which announce the end of the session.
#[derive(Clone, Copy, Debug)]
pub(super) struct EndNotices {
    pub state: State,
    /// Number of announcements left to send.
    pub left: u32,
    /// Time between two announcements.
    pub spacing: Duration,
}

impl Announcing {
    pub fn new(settings: String) -> Self {
        Announcing {
            settings,
            pending: BTreeSet::new(),
            invitations: 0,
            invited: 0,
            interval: None,
            next_notice: 0,
            showing: Showing::default(),
            end: None,
            failure: None,
            timers: Timers::new(),
        }
    }

    /// Sends an invitation now and arms the timer for the next one. While gathering, datagrams of the `sizes` follow.
    pub fn invite(&mut self, now: Time, phase: SenderPhase, heartbeat: Duration, sizes: &[u16]) {
        self.pending.insert(Pending::Invite);
        let soon = QUICK_INVITATIONS.saturating_sub(self.invited);
        self.invited = self.invited.saturating_add(1);
        self.invitations = self.invitations.wrapping_add(1);
        if phase == SenderPhase::Gathering {
            self.showing.begin(sizes);
            self.pending.insert(Pending::Size);
        }
        // Notices begin with the first invitation, as a session may start with the first receiver. They continue
        // later, as more receivers may come.
        if phase <= SenderPhase::Running && self.invitations % NOTICE_EVERY == 1 {
            self.next_notice = 0;
            self.pending.insert(Pending::Notice);
        }
        let interval = heartbeat / (1 << soon);
        self.timers.arm(Timer::Invite, now + self.interval.map_or(interval, |short| short.min(interval)));
    }

    /// Sends the next invitations of the phase at this interval, or sooner.
    pub fn invite_each(&mut self, now: Time, interval: Duration) {
        self.interval = Some(interval);
        if self.timers.armed(Timer::Invite).is_some_and(|next| next > now + interval) {
            self.timers.arm(Timer::Invite, now + interval);
        }
    }

    /// Begins a phase. Its first invitations follow each other more quickly.
    pub fn on_phase(&mut self) {
        self.invited = 0;
        self.end_short_interval();
    }

    /// Ends the effect of [`invite_each`](Self::invite_each).
    pub fn end_short_interval(&mut self) {
        self.interval = None;
    }

    /// Returns true if the quick invitations of the phase are over.
    pub fn is_regular(&self) -> bool {
        self.invited > QUICK_INVITATIONS
    }

    /// Announces the end. With helpers there are more announcements: reporting receivers are answered individually,
    /// while helpers only get these.
    pub fn announce_end(&mut self, state: State, spacing: Duration, has_helpers: bool) {
        let left = if has_helpers { 2 * END_ANNOUNCEMENTS } else { END_ANNOUNCEMENTS };
        self.end = Some(EndNotices { state, left, spacing });
        self.pending.remove(&Pending::Roster);
        self.pending.insert(Pending::Invite);
    }

    /// Counts an announcement of the end that is sent now. Returns the announced state after the last one.
    pub fn on_invite_sent(&mut self, now: Time) -> Option<State> {
        let end = self.end.as_mut()?;
        // Nothing acknowledges the announcements of the end, so there are several.
        end.left -= 1;
        if end.left > 0 {
            self.timers.arm(Timer::Invite, now + end.spacing);
            return None;
        }
        self.end.take().map(|end| end.state)
    }

    pub fn observe(&self, phase: SenderPhase) -> ObservedState {
        observed(
            &STATES,
            match phase {
                SenderPhase::Finished | SenderPhase::Aborted => "Announced",
                _ if self.end.is_some() => "Announcing",
                _ => "None",
            },
        )
    }
}

/// Number of invitations after the first of a phase that come sooner than a heartbeat, at doubling intervals.
const QUICK_INVITATIONS: u32 = 3;
/// Interval of notices to earlier releases, in invitations.
const NOTICE_EVERY: u32 = 5;
/// Number of announcements of the end; doubled in sessions with helpers.
const END_ANNOUNCEMENTS: u32 = 3;
