//! Examination of the members at each tick: which of them the sender waits for, and which for too long.

use carillon_core::{BitRate, Duration, NodeId, Span, Time};
use carillon_wire::session::MemberRole;

use super::SenderSession;
use super::state::{SenderPhase, Timer};
use crate::config::Slow;
use crate::lag::{
    Behind, LANE_WINDOW, LagTracker, MAX_HELD_TICKS, MIN_AWAITED_TICKS, Others, PACE_WINDOW, PathBound,
    Standing, TICKS_PER_TIMEOUT, Tick,
};
use crate::roster::MemberOutcome;

/// Observation of a member at a tick.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    /// Index of the member.
    pub index: usize,
    /// True if the protocol waits for the member.
    pub awaited: bool,
    /// Messages that the member has acknowledged.
    pub acknowledged: u64,
    /// Number of consecutive polls that the member has not answered.
    unanswered: u32,
}

impl SenderSession {
    /// Records the time of a call, which comes before everything else.
    pub(super) fn note_time(&mut self, now: Time) {
        self.watching.clock.note(now, self.config.heartbeat);
    }

    /// Time in which the session ran, without suspensions.
    pub(super) fn awake(&self, now: Time) -> Time {
        self.watching.clock.awake(now)
    }

    /// State of each member, in order.
    pub fn standings(&self, now: Time) -> impl Iterator<Item = Standing> + '_ {
        let awake = self.awake(now);
        (0..self.roster.members().len()).map(move |index| {
            let record = self.roster.record(index);
            let LagTracker { awaited, path, .. } = record.lag;
            Standing { silent: awake.since(record.heard), awaited, path }
        })
    }

    /// Returns true if the protocol refused the last message offered.
    pub fn is_blocked(&self) -> bool {
        self.watching.pulse.blocked
    }

    /// Records the protocol's path measurements while its machine exists.
    pub(super) fn note_paths(&mut self) {
        let Some(sender) = self.hosted.machine.as_mut().and_then(|inner| inner.as_sender()) else { return };
        for index in 0..self.roster.members().len() {
            let path = sender.measured(self.roster.members()[index].node);
            let lag = &mut self.roster.record_mut(index).lag;
            lag.path = path.or(lag.path);
        }
    }

    fn tick(&self) -> Duration {
        (self.config.member_timeout / TICKS_PER_TIMEOUT).max(Duration::from_nanos(1))
    }

    /// Begins to examine the members.
    pub(super) fn begin_watch(&mut self, now: Time) {
        self.watching.pulse.ticked = Some(self.awake(now));
        self.watching.timers.arm(Timer::Watch, now + self.tick());
    }

    /// Examines the members: which of them the sender waits for, and which for too long.
    pub(super) fn watch(&mut self, now: Time) {
        self.watching.timers.arm(Timer::Watch, now + self.tick());
        self.note_paths();
        let awake = self.awake(now);
        let elapsed =
            self.watching.pulse.ticked.replace(awake).map_or(Duration::ZERO, |then| awake.since(then));
        if self.phase == SenderPhase::Closing {
            return self.watch_reports(now, elapsed);
        }
        // The delay by the sender's own rate limit is no fault of a member.
        let own = std::mem::take(&mut self.watching.pulse.own);
        let quiet = self.watching.pulse.sent
            == std::mem::replace(&mut self.watching.pulse.sent_before, self.watching.pulse.sent);
        // Keep the completed messages of each tick in the window, to compute the goodput of awaited members.
        if self.watching.pulse.history.len() == PACE_WINDOW as usize {
            self.watching.pulse.history.pop_front();
        }
        self.watching.pulse.history.push_back(self.watching.pulse.completed);
        let members: Vec<(usize, NodeId)> = (0..self.roster.members().len())
            .filter(|&index| self.is_needed(index))
            .map(|index| (index, self.roster.members()[index].node))
            .collect();
        let completed = self.watching.pulse.completed;
        let bounding = self.bounding(&members, elapsed);
        let Some(sender) = self.hosted.machine.as_mut().and_then(|inner| inner.as_sender()) else { return };
        let see = |(index, node)| Seen {
            index,
            awaited: sender.awaits(node),
            acknowledged: sender.acknowledged(node).unwrap_or(completed),
            unanswered: sender.unanswered(node),
        };
        let seen: Vec<Seen> = members.into_iter().map(see).collect();
        // The median shows the progress that is usual in the group.
        let mut acknowledged: Vec<u64> = seen.iter().map(|seen| seen.acknowledged).collect();
        acknowledged.sort_unstable();
        let usual = acknowledged.get(acknowledged.len() / 2).copied().unwrap_or_default();
        // A member that has as much as any other and more than one of them is not behind, even if most have less.
        let (least, most) = (acknowledged.first().copied(), acknowledged.last().copied());
        let leads = |acknowledged: u64| least < most && Some(acknowledged) == most;
        let tick = Tick {
            counted: elapsed.saturating_sub(own),
            quiet,
            wanting: self.watching.pulse.blocked || self.sending.finishing,
            others: Others::new(seen.iter().filter(|seen| !seen.awaited).count(), seen.len()),
            usual,
            is_known: true,
        };
        // A member is behind if most others have at least three quarters more of the messages in flight.
        let under_way = self.watching.pulse.sent.saturating_sub(completed);
        // Nothing is known of a member that was not polled yet.
        let asks = seen.iter().any(|seen| self.roster.record(seen.index).lag.path.is_some());
        for &Seen { index, awaited, acknowledged, unanswered } in &seen {
            let lag = &mut self.roster.record_mut(index).lag;
            let has_answered = lag.path.is_some_and(|path| path.sent != lag.answered_before);
            let answers = has_answered && lag.path.is_some_and(|path| path.has_room);
            let is_known = !asks || has_answered || unanswered > 0;
            lag.answered_before = lag.path.map_or(0, |path| path.sent);
            let behind = match usual.saturating_sub(acknowledged) {
                _ if leads(acknowledged) => Behind::No,
                _ if bounding == Some(index) => Behind::Bounds,
                lag if answers && lag < (under_way / 4 * 3).max(1) => Behind::No,
                _ => Behind::IfAwaited,
            };
            lag.note(Tick { is_known, ..tick }, awaited, behind, acknowledged);
            lag.keeps_waiting = tick.holds(awaited) && unanswered >= MIN_UNANSWERED_POLLS;
            if let Some(path) = &lag.path {
                lag.lost_run.note(path, unanswered);
            }
            self.roster.member_mut(index).waited = self.roster.record(index).lag.waited();
        }
        self.judge(now, awake, &seen);
        // Members expelled above take no part in a trial.
        let seen: Vec<Seen> = seen.into_iter().filter(|seen| self.is_needed(seen.index)).collect();
        self.try_fastest(now, awake, elapsed, &seen);
        self.release_verified(now, self.tick());
    }

    /// Expels or sets aside members that are too slow. It comes after all members were examined, so that their order
    /// does not matter.
    fn judge(&mut self, now: Time, awake: Time, seen: &[Seen]) {
        for &Seen { index, .. } in seen {
            // A member that the datagrams do not reach looks slow too, so this check comes first.
            if self.set_aside_unreached(now, awake, index) {
                continue;
            }
            if let Some((reason, is_aside)) = self.too_slow(awake, index) {
                if is_aside {
                    self.note_aside(index);
                    self.watching.pulse.trials.note_aside();
                }
                self.give_up(now, index, reason);
            }
        }
    }

    /// Member with the path that alone [bounded](Bound::alone) the sending since the last tick.
    fn bounding(&mut self, members: &[(usize, NodeId)], elapsed: Duration) -> Option<usize> {
        let mut bounds = Vec::with_capacity(members.len());
        for &(index, _) in members {
            let lag = &mut self.roster.record_mut(index).lag;
            let Some(path) = lag.path else { continue };
            // `blocked` is a total, so the difference belongs to this tick.
            let held = path.blocked.saturating_sub(std::mem::replace(&mut lag.held_before, path.blocked));
            let round_trip = path.round_trip.unwrap_or_default();
            bounds.push(PathBound { index, held, queued: path.queued, round_trip });
        }
        PathBound::alone(&bounds, elapsed)
    }

    /// Returns true if a member was silent for longer than a live member is.
    pub(super) fn is_silent(&self, awake: Time, index: usize) -> bool {
        awake.since(self.roster.record(index).heard) >= self.tick() * SILENT_TICKS
    }

    /// Reason to expel a member before its silence timeout, and true if it is only set aside.
    fn too_slow(&self, awake: Time, index: usize) -> Option<(String, bool)> {
        if self.config.slow == Slow::Wait {
            return None;
        }
        let lag = &self.roster.record(index).lag;
        let receives = self.roster.members()[index].part == MemberRole::Receives;
        let lanes = self.sets_aside() && receives;
        // Absent: it leaves polls unanswered and is silent, while most others wait for it.
        if lanes && lag.keeps_waiting && self.is_silent(awake, index) {
            let silent = awake.since(self.roster.record(index).heard).as_secs_f64();
            return Some((format!("silent for {silent:.1} s while most of the others waited"), false));
        }
        // Members below a lost helper miss the repairs that it would have sent: they are late once, and not slow.
        let orphaned =
            self.watching.pulse.helper_lost.is_some_and(|at| awake.since(at) < self.config.member_timeout);
        // The member loses nothing: a catch-up session begins where it stands.
        let left_behind = lag.left_behind().filter(|_| lanes && self.may_go_on(index) && !orphaned);
        if let Some(behind) = left_behind {
            let (behind, window) = (self.tick() * behind, self.tick() * LANE_WINDOW);
            let (behind, window) = (behind.as_secs_f64(), Span::Time(window));
            return Some((format!("kept most of the others waiting for {behind:.1} s of {window}"), true));
        }
        let (timeout, window) = (self.config.member_timeout, self.tick() * PACE_WINDOW);
        // A helper answers for the members below it, so a silent one of them must be expelled before the helper is.
        let patience = if self.roster.members()[index].part.helps() { 2 * timeout } else { timeout };
        if lag.stalled.0 >= patience {
            let lost = lag.lost_run.unreached().map(|lost| {
                let bytes = self.longest_datagram();
                format!(": received none of {lost} packets of up to {bytes} bytes, but answers")
            });
            let lost = lost.unwrap_or_default();
            return Some((format!("acknowledged nothing for {}{lost}", Span::Time(patience)), false));
        }
        // Keeps others waiting: it stalled the sender in half of the window.
        let held = lag.held();
        if held >= MAX_HELD_TICKS {
            let held = (self.tick() * held).as_secs_f64();
            return Some((
                format!("kept the others waiting for {held:.1} s of {}", Span::Time(window)),
                false,
            ));
        }
        // Too slow: the sender waited for it in three quarters of the window, with too little goodput.
        let oldest = self
            .watching
            .pulse
            .history
            .front()
            .filter(|_| self.watching.pulse.history.len() == PACE_WINDOW as usize)?;
        if lag.awaited_for() < MIN_AWAITED_TICKS {
            return None;
        }
        // Small messages count as full ones, since a slow path bounds their number too.
        let bytes = (self.watching.pulse.completed - oldest).saturating_mul(self.sending.max_payload.into());
        self.below_least(bytes, window).map(|reason| (reason, false))
    }

    /// Reason to expel a member if these bytes in this time are below the minimum rate.
    fn below_least(&self, bytes: u64, time: Duration) -> Option<String> {
        let time_text = Span::Time(time);
        if bytes == 0 {
            return Some(format!("made no progress for {time_text}"));
        }
        let rate = BitRate::new((bytes as f64 * 8.0 / time.as_secs_f64()) as u64);
        // A slow sender expects no more than a share of its own rate.
        let least = BitRate::new(
            self.config.min_rate?.bps().min(self.config.network.bit_rate.bps() / MIN_RATE_DIVISOR),
        )?;
        let made = rate.map_or_else(|| "less than 1 bit/s".to_owned(), rounded);
        (rate < Some(least)).then(|| format!("made {made} of at least {} for {time_text}", rounded(least)))
    }

    /// Waits for reports: a member must make progress, as it states itself.
    fn watch_reports(&mut self, now: Time, elapsed: Duration) {
        let (awake, window) = (self.awake(now), self.tick() * PACE_WINDOW);
        // A member that does this share in this time will be done before long.
        let enough = (self.sending.offered_bytes / PROGRESS_STEPS).max(1);
        let reporting = self.roster.active().filter(|&index| self.roster.members()[index].part.receives());
        for index in reporting.collect::<Vec<_>>() {
            let bytes = self.roster.members()[index].bytes;
            self.roster.member_mut(index).waited += elapsed;
            let record = self.roster.record_mut(index);
            let (before, since) = *record.pace.get_or_insert((bytes, awake));
            if awake.since(since) < window {
                continue;
            }
            record.pace = Some((bytes, awake));
            let slow = self.below_least(bytes - before, window).filter(|_| bytes - before < enough);
            if let Some(reason) = slow {
                self.give_up(now, index, reason);
            }
        }
    }

    /// Returns true if the session still needs or awaits this member.
    pub(super) fn is_needed(&self, index: usize) -> bool {
        match self.roster.members()[index].outcome {
            MemberOutcome::Active => true,
            // The protocol may still wait for it.
            MemberOutcome::Verified => {
                let kept = self.config.has_peers() || self.phase == SenderPhase::Running;
                kept && !self.roster.record(index).expelled
            }
            MemberOutcome::Failed(_) | MemberOutcome::Lost(_) => false,
        }
    }
}

/// Rate in its largest unit, as a whole number.
fn rounded(rate: BitRate) -> String {
    let bps = rate.bps();
    let unit = [1_000_000_000, 1_000_000, 1_000].into_iter().find(|&unit| bps >= 10 * unit).unwrap_or(1);
    BitRate::new(bps / unit * unit).unwrap_or(rate).to_string()
}

/// Number of consecutive unanswered polls that show an absent member. With a loss of a fifth in both directions, a
/// live member leaves as many unanswered in one of three thousand cases. The polls are sent at growing intervals, and
/// more rarely on long paths.
const MIN_UNANSWERED_POLLS: u32 = 8;
/// Number of silent ticks after which a member with that many unanswered polls is expelled and served later. It is
/// longer than a system suspends a process.
const SILENT_TICKS: u32 = 3;
/// Divisor of the sender's own rate that bounds the minimum rate.
const MIN_RATE_DIVISOR: u64 = 8;
/// Divisor of all bytes offered: this share counts as progress, and as enough of it in each window.
pub(super) const PROGRESS_STEPS: u64 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_told_in_whole_numbers() {
        let texts: Vec<String> = [999, 12_345, 16_000, 1_234_567, 99_000_000]
            .into_iter()
            .map(|bps| rounded(BitRate::new(bps).expect("above zero")))
            .collect();
        assert_eq!(texts, ["999 bit/s", "12 kbit/s", "16 kbit/s", "1234 kbit/s", "99 Mbit/s"]);
    }
}
