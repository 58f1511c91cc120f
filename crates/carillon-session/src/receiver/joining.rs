//! Joining: the times at which a receiver sends JOIN, and the bytes that it may send before it is admitted.
//!
//! An invited receiver asks for membership at growing intervals. The sender answers with a challenge, and the receiver
//! repeats the JOIN with its cookie at once. A member repeats its JOIN as a keepalive while the sender gathers, since
//! it sends nothing else then.

use carillon_core::{Duration, ObservedState, States, Time, Timers};
use carillon_wire::session::{Cookie, State};

use super::state::Timer;
use crate::observed;

/// States of joining.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum JoiningState {
    /// No JOIN is scheduled.
    #[default]
    Idle,
    /// The receiver asks, and its address has not been challenged.
    Asking,
    /// The receiver asks with the cookie of a challenge.
    Answering,
    /// The receiver is a member.
    Admitted,
}

/// Declared states.
pub(super) const STATES: States = States {
    of: "receiver, joining",
    transitions: &[
        ("[*]", "Idle", ""),
        ("Idle", "Asking", "INVITE: JOIN after a random delay, then at growing intervals"),
        ("Asking", "Answering", "CHALLENGE: JOIN with its cookie at once"),
        ("Answering", "Asking", "INVITE of another sender, which gets its turn"),
        ("Asking", "Admitted", "WELCOME: JOIN each second while the sender gathers"),
        ("Answering", "Admitted", "WELCOME: JOIN each second while the sender gathers"),
        ("Idle", "Admitted", "INVITE gathering: the sender still gathers"),
        ("Any", "Idle", "the session runs or is over, or another sender gets a turn"),
    ],
};

/// Schedule of the JOINs in the present session.
#[derive(Debug, Default)]
pub(super) struct Joining {
    state: JoiningState,
    /// Time since which the present sender is asked.
    pub since: Time,
    /// Time of the last invitation that said the sender gathers.
    gathering: Time,
    /// Bytes that may be sent in answer to invitations before the sender admits the receiver.
    credit: usize,
    /// Cookie that the sender expects in the JOIN.
    pub cookie: Option<Cookie>,
    /// Number of challenges answered at once.
    challenges: u32,
    /// Number of JOINs sent since the wait was shortest.
    asked: u32,
    /// Number of JOINs that this receiver sent to the group.
    knocks: u32,
    /// Number of JOINs that other receivers sent to the group.
    other_knocks: u32,
    /// Wait after the next JOIN.
    wait: Duration,
    pub timers: Timers<Timer>,
}

impl Joining {
    /// Begins with a new invitation of `credit` bytes.
    pub fn on_invitation(&mut self, now: Time, credit: usize) {
        *self = Joining { since: now, gathering: now, credit, ..Joining::default() };
    }

    /// Asks for membership from this time on.
    pub fn ask(&mut self, at: Time) {
        self.state = JoiningState::Asking;
        (self.asked, self.wait) = (0, JOIN_WAIT_MIN);
        self.timers.arm(Timer::Join, at);
    }

    /// Adds the bytes of a further invitation. Each one allows as many bytes in answer, so that a forged address is no
    /// amplifier.
    pub fn add_credit(&mut self, bytes: usize) {
        self.credit = (self.credit + bytes).min(MAX_CREDIT);
    }

    /// Returns true if a JOIN of this length may be sent before the admission, and counts it as sent.
    pub fn spend(&mut self, bytes: usize) -> bool {
        let rest = self.credit.checked_sub(bytes);
        self.credit = rest.unwrap_or(self.credit);
        rest.is_some()
    }

    /// Keeps the cookie of a challenge. Returns true if a JOIN is due at once, which is so only if the receiver still
    /// `wants` to join.
    pub fn on_challenge(&mut self, now: Time, cookie: Cookie, wants: bool) -> bool {
        let is_new = self.cookie.replace(cookie) != Some(cookie);
        if self.state == JoiningState::Asking {
            self.state = JoiningState::Answering;
        }
        if !is_new || !wants || self.challenges >= MAX_CHALLENGES {
            // The cookie goes out with the next scheduled JOIN.
            return false;
        }
        self.challenges += 1;
        // The sender exists, so it gets time to answer before another one has its turn.
        if self.challenges == 1 {
            self.since = now;
        }
        // The answer may be three times as long as the challenge (RFC 9000, section 8.1).
        self.add_credit(CHALLENGE_CREDIT);
        true
    }

    /// Sends the next JOIN at this time, if it would have waited longer.
    pub fn ask_by(&mut self, at: Time) {
        if self.timers.armed(Timer::Join).is_some_and(|next| next > at) {
            self.timers.arm(Timer::Join, at);
            (self.asked, self.wait) = (0, JOIN_WAIT_MIN);
        }
    }

    /// Records the admission.
    pub fn on_welcome(&mut self, now: Time) {
        self.state = JoiningState::Admitted;
        self.timers.arm(Timer::Join, now + JOIN_WAIT_MAX);
    }

    /// Records that the sender still gathers: a member repeats its JOIN, so that it does not start without this one.
    pub fn keep(&mut self, now: Time, is_busy: bool) {
        self.gathering = now;
        if is_busy && self.timers.armed(Timer::Join).is_none() {
            self.on_welcome(now);
        }
    }

    /// Handles the timer of a member. Returns true if a JOIN is due; none if the sender has not
    /// gathered for a while.
    pub fn on_member_timer(&mut self, now: Time, state: State) -> Option<bool> {
        // A stranger could have announced that gathering ended.
        if now.since(self.gathering) >= GATHERING_TIMEOUT {
            return None;
        }
        let gathers = state == State::Gathering;
        self.timers.arm(Timer::Join, now + if gathers { JOIN_WAIT_MAX } else { GATHERING_CHECK_INTERVAL });
        Some(gathers)
    }

    /// Puts the next JOIN off.
    pub fn put_off(&mut self, now: Time) {
        self.timers.arm(Timer::Join, now + JOIN_WAIT_MIN);
    }

    /// Schedules the JOIN after the one that is sent now.
    pub fn ask_again(&mut self, now: Time, delay: Duration) {
        self.timers.arm(Timer::Join, now + self.wait + delay);
        self.asked = self.asked.saturating_add(1);
        // The wait doubles, so that many unanswered receivers do not flood the sender.
        if self.asked > 1 {
            self.wait = (self.wait * 2).min(JOIN_WAIT_MAX);
        }
    }

    /// Records a JOIN that another receiver sent to the group.
    pub fn on_knock(&mut self) {
        self.other_knocks = self.other_knocks.saturating_add(1);
    }

    /// Returns true if the next JOIN is to go to the group too, and counts it. The sender has not answered the earlier
    /// ones: the host may still wait for the sender's link address, which takes a second if the first request for it
    /// is lost. In a large group few receivers do so.
    pub fn knock(&mut self) -> bool {
        let is_unanswered = self.state == JoiningState::Asking && self.asked >= FIRST_KNOCK;
        let knocks = is_unanswered && self.knocks < MAX_KNOCKS && self.other_knocks < ENOUGH_KNOCKS;
        self.knocks += u32::from(knocks);
        knocks
    }

    /// Ends joining: the session runs or is over.
    pub fn end(&mut self) {
        self.state = JoiningState::Idle;
        self.timers.clear();
    }

    pub fn observe(&self) -> ObservedState {
        observed(
            &STATES,
            match self.state {
                JoiningState::Idle => "Idle",
                JoiningState::Asking => "Asking",
                JoiningState::Answering => "Answering",
                JoiningState::Admitted => "Admitted",
            },
        )
    }
}

/// Wait between the first JOINs; from the third one on it doubles at each JOIN. Four JOINs fit into the shortest quiet
/// time of a sender.
const JOIN_WAIT_MIN: Duration = Duration::from_millis(25);
/// Number of JOINs without an answer before one goes to the group too.
const FIRST_KNOCK: u32 = 2;
/// Number of JOINs that a receiver sends to the group.
const MAX_KNOCKS: u32 = 3;
/// Number of JOINs of other receivers to the group after which a receiver sends none.
const ENOUGH_KNOCKS: u32 = 8;
/// Upper bound of the wait between JOINs.
const JOIN_WAIT_MAX: Duration = Duration::from_secs(1);
/// Time after its last gathering invitation for which a sender still counts as gathering.
const GATHERING_TIMEOUT: Duration = Duration::from_millis(1500);
/// Interval at which to check whether the sender gathers again.
const GATHERING_CHECK_INTERVAL: Duration = Duration::from_millis(250);
/// Maximum number of bytes sent at once in answer to invitations.
const MAX_CREDIT: usize = 2048;
/// Bytes that may be sent for a challenge of 24 bytes.
const CHALLENGE_CREDIT: usize = 3 * 24;
/// Maximum number of challenges of one session that are answered at once.
const MAX_CHALLENGES: u32 = 4;
