//! Watching: timers by which a sender judges its members, in the time in which it ran itself.

use carillon_core::{Duration, NodeId, Time, Timers};

use super::pulse::Pulse;
use super::state::Timer;

/// Observation of the members.
#[derive(Debug, Default)]
pub(super) struct Watching {
    /// Time in which the session ran.
    pub clock: AwakeClock,
    /// Activity of the sender itself, for fair judgment of members.
    pub pulse: Pulse,
    /// True if messages made progress since the stall timer was armed.
    pub made_progress: bool,
    pub timers: Timers<Timer>,
}

/// Clock that stands while the sender is suspended: a suspended sender hears no member, which is not their fault.
#[derive(Debug, Default)]
pub(super) struct AwakeClock {
    /// Time of the last call of the session.
    called: Option<Time>,
    /// Total time for which the session was not called (suspended).
    asleep: Duration,
}

impl AwakeClock {
    /// Records the time of a call. The host calls the session at each heartbeat at least.
    pub fn note(&mut self, now: Time, heartbeat: Duration) {
        let gap = self.called.replace(now).map_or(Duration::ZERO, |called| now.since(called));
        if gap > 2 * heartbeat {
            self.asleep += gap - heartbeat;
        }
    }

    /// Time in which the session ran, without suspensions.
    pub fn awake(&self, now: Time) -> Time {
        Time::from_nanos(now.as_nanos().saturating_sub(self.asleep.as_nanos() as u64))
    }
}

impl Watching {
    /// Arms the silence timer of a member, unless it is armed. It checks the time of the last packet when it fires, so
    /// it need not be armed again for each one.
    pub fn await_packet(&mut self, member: NodeId, until: Time) {
        let timer = Timer::MemberSilent(member);
        if self.timers.armed(timer).is_none() {
            self.timers.arm(timer, until);
        }
    }

    /// Stops the silence timer of a member.
    pub fn stop_waiting(&mut self, member: NodeId) {
        self.timers.cancel(Timer::MemberSilent(member));
    }

    /// Messages must make progress until this time.
    pub fn await_progress(&mut self, until: Time) {
        self.timers.arm(Timer::Standstill, until);
    }

    /// Returns true if messages have to make progress.
    pub fn awaits_progress(&self) -> bool {
        self.timers.armed(Timer::Standstill).is_some()
    }
}
