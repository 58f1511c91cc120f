//! Reporting: the progress and the result that a receiver tells the sender.
//!
//! A heartbeat of the sender schedules PROGRESS at the interval that it states. Some more follow without a heartbeat,
//! which may be lost. The application's result ends that: REPORT is repeated until the sender acknowledges it, and is
//! the keepalive from then on.

use carillon_core::{Duration, ObservedState, States, Time, Timers};
use carillon_wire::session::{Text, Verdict};

use super::random::RandomValues;
use super::state::Timer;
use crate::observed;

/// Declared states of the result.
pub(super) const STATES: States = States {
    of: "receiver, report",
    transitions: &[
        ("[*]", "Open", ""),
        ("Open", "Reporting", "the application reports: REPORT at intervals"),
        ("Open", "Ended", "the application of a silent receiver reports"),
        ("Reporting", "Acknowledged", "REPORT_ACK"),
        ("Reporting", "Ended", "the session is over without an acknowledgment"),
        ("Ended", "Acknowledged", "REPORT_ACK after the end"),
    ],
};

/// Declared states of the keepalive.
pub(super) const PROGRESS_STATES: States = States {
    of: "receiver, keepalive",
    transitions: &[
        ("[*]", "Idle", ""),
        ("Idle", "Scheduled", "INVITE running or closing: PROGRESS within the interval"),
        ("Scheduled", "Idle", "no heartbeat for five PROGRESS, or REPORT takes over, or the session is over"),
    ],
};

/// Result of the application.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Outcome {
    verdict: Verdict,
    /// Reason of a failure.
    reason: String,
}

/// Statements of a receiver to the sender.
#[derive(Debug, Default)]
pub(super) struct Reporting {
    /// Bytes that the application has processed.
    pub bytes: u64,
    /// Result that the application has reported.
    outcome: Option<Outcome>,
    /// True if the result is that of a part, so the receiver is not done with the job.
    pub is_part: bool,
    /// True if the sender has acknowledged the report.
    acknowledged: bool,
    /// Time of the last PROGRESS.
    progress_sent: Option<Time>,
    /// Number of PROGRESS packets left to send without another heartbeat.
    unsolicited: u32,
    /// Interval of these.
    interval: Duration,
    pub timers: Timers<Timer>,
}

impl Reporting {
    /// Records the result of the application, with the reason of a failure.
    pub fn conclude(&mut self, bytes: u64, verdict: Verdict, reason: &str) {
        self.bytes = bytes;
        self.outcome = Some(Outcome { verdict, reason: Text::clean(reason) });
        // The repeated REPORT is the keepalive from now on.
        self.timers.cancel(Timer::Progress);
    }

    /// Repeats the report after an interval.
    pub fn repeat(&mut self, now: Time) {
        self.timers.arm(Timer::Report, now + REPORT_INTERVAL);
    }

    /// Result of the application: verdict and reason.
    pub fn outcome(&self) -> Option<(Verdict, &str)> {
        self.outcome.as_ref().map(|outcome| (outcome.verdict, outcome.reason.as_str()))
    }

    /// Returns true if the application has verified its data.
    pub fn is_verified(&self) -> bool {
        self.outcome.as_ref().is_some_and(|outcome| outcome.verdict == Verdict::Verified)
    }

    /// Records the acknowledgment of the sender. Returns true if it is the first.
    pub fn acknowledge(&mut self) -> bool {
        let is_first = self.outcome.is_some() && !self.acknowledged;
        self.acknowledged |= is_first;
        is_first
    }

    /// Returns true if the sender has acknowledged the report.
    pub fn is_acknowledged(&self) -> bool {
        self.acknowledged
    }

    /// Schedules PROGRESS at the interval that the sender asks for. The first one is sent at a random time within the
    /// interval, so that the packets of many members do not arrive together.
    pub fn schedule_progress(&mut self, now: Time, millis: u16, random: &mut RandomValues) {
        // The interval comes from a packet that may be forged.
        self.interval = Duration::from_millis(millis.into()).clamp(PROGRESS_MIN, PROGRESS_MAX);
        self.unsolicited = MAX_UNSOLICITED_PROGRESS;
        if self.timers.armed(Timer::Progress).is_some() {
            return;
        }
        // Heartbeats may come more often than the interval, so the last PROGRESS decides.
        let at = match self.progress_sent {
            Some(sent) => now.max(sent + self.interval) + random.answer_delay(),
            None => now + random.within(self.interval),
        };
        self.timers.arm(Timer::Progress, at);
    }

    /// Handles the time of a PROGRESS, and schedules the next one. Their number without another heartbeat is bounded,
    /// so that a sender that is gone gets no endless stream of packets.
    pub fn on_progress_timer(&mut self, now: Time, random: &mut RandomValues) {
        self.progress_sent = Some(now);
        if self.unsolicited > 0 {
            self.unsolicited -= 1;
            self.timers.arm(Timer::Progress, now + self.interval + random.answer_delay());
        }
    }

    /// Ends the session.
    pub fn end(&mut self) {
        self.timers.clear();
    }

    pub fn observe(&self) -> [ObservedState; 2] {
        let repeats = self.timers.armed(Timer::Report).is_some();
        let report = match (&self.outcome, self.acknowledged) {
            (None, _) => "Open",
            (Some(_), true) => "Acknowledged",
            (Some(_), false) if repeats => "Reporting",
            (Some(_), false) => "Ended",
        };
        let scheduled = self.timers.armed(Timer::Progress).is_some();
        let keepalive = if scheduled { "Scheduled" } else { "Idle" };
        [observed(&STATES, report), observed(&PROGRESS_STATES, keepalive)]
    }
}

/// Interval between REPORTs.
const REPORT_INTERVAL: Duration = Duration::from_millis(200);
/// Lower bound of the PROGRESS interval, whatever the sender asks for.
const PROGRESS_MIN: Duration = Duration::from_millis(100);
/// Upper bound of the PROGRESS interval.
const PROGRESS_MAX: Duration = Duration::from_secs(10);
/// Number of PROGRESS packets sent after one heartbeat, so that a member stays alive if some heartbeats are lost.
const MAX_UNSOLICITED_PROGRESS: u32 = 4;
