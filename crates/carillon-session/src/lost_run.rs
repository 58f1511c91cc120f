//! Runs of data packets that a member does not receive although it receives shorter packets.
//!
//! A path that carries no long datagrams passes the polls of the sender, which are short, and none of its data. The
//! sender therefore compares two numbers in each answer of a member: the data packets sent when it was polled, and
//! those that have arrived. Random loss makes no long runs: at 50 % one of 64 packets has a probability of 2^-64.

use carillon_core::PathMeasure;

/// Number of consecutive lost data packets that show that their length is the cause.
const MIN_LOST_PACKETS: u64 = 64;
/// Minimum run of a member that is set aside for another reason: no harm is done if it is not the cause.
const SUSPECT_LOST_PACKETS: u64 = 16;
/// Number of ticks in which the member has to answer during the run.
const MIN_ANSWERED_TICKS: u32 = 2;
/// Maximum number of consecutive unanswered polls at such a tick: where polls are lost too, length is not the cause.
const MAX_UNANSWERED_POLLS: u32 = 1;

/// The data packets that were sent to a member since one last arrived.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LostRun {
    /// Data packets that had arrived when the run began, and had been sent when that was known.
    arrived: u64,
    sent: u64,
    /// Data packets sent in the run.
    length: u64,
    /// Ticks of the run in which the member has answered.
    answered_ticks: u32,
}

impl LostRun {
    /// Records the measurement of the path at a tick. `unanswered` is the number of polls since the last answer.
    pub fn note(&mut self, path: &PathMeasure, unanswered: u32) {
        // Any arrival ends the run and begins a new one.
        if path.arrived != self.arrived {
            *self = LostRun { arrived: path.arrived, sent: path.sent, ..LostRun::default() };
            return;
        }
        let length = path.sent.saturating_sub(self.sent);
        // The number of packets sent grows only with a new answer, so a tick without one does not count.
        if length > self.length {
            self.length = length;
            self.answered_ticks += u32::from(unanswered <= MAX_UNANSWERED_POLLS);
        }
    }

    /// Returns true if the run may have the same cause. Used for a member that is set aside for another reason.
    pub fn is_suspect(&self) -> bool {
        self.length >= SUSPECT_LOST_PACKETS && self.answered_ticks > 0
    }

    /// Number of data packets in the run, if it shows that packets of their length do not reach the member.
    pub fn unreached(&self) -> Option<u64> {
        let shows = self.length >= MIN_LOST_PACKETS && self.answered_ticks >= MIN_ANSWERED_TICKS;
        shows.then_some(self.length)
    }
}

#[cfg(test)]
mod tests {
    use carillon_core::Duration;

    use super::*;

    fn path(sent: u64, arrived: u64) -> PathMeasure {
        PathMeasure {
            sent,
            arrived,
            loss: 0.0,
            round_trip: None,
            window: 0,
            has_room: true,
            queued: Duration::ZERO,
            blocked: Duration::ZERO,
        }
    }

    /// Result after these ticks, each with packets sent, packets arrived and unanswered polls.
    fn unreached(ticks: &[(u64, u64, u32)]) -> Option<u64> {
        let mut run = LostRun::default();
        ticks.iter().for_each(|&(sent, arrived, unanswered)| run.note(&path(sent, arrived), unanswered));
        run.unreached()
    }

    #[test]
    fn shows_a_run_of_64_packets_over_two_answered_ticks() {
        assert_eq!(unreached(&[(63, 0, 0), (64, 0, 0)]), Some(64));
        assert_eq!(unreached(&[(62, 0, 0), (63, 0, 0)]), None);
        assert_eq!(unreached(&[(128, 0, 0)]), None);
        assert_eq!(unreached(&[(100, 100, 0), (163, 100, 0), (164, 100, 1)]), Some(64));
    }

    #[test]
    fn begins_anew_when_a_packet_arrives() {
        assert_eq!(unreached(&[(63, 0, 0), (64, 1, 0), (128, 1, 0)]), None);
        assert_eq!(unreached(&[(63, 0, 0), (64, 0, 0), (65, 1, 0)]), None);
    }

    #[test]
    fn counts_no_tick_without_an_answer_or_with_lost_polls() {
        // No new answer.
        assert_eq!(unreached(&[(100, 0, 0), (100, 0, 0), (100, 0, 0)]), None);
        // Polls are lost too.
        assert_eq!(unreached(&[(100, 0, 2), (200, 0, 3), (300, 0, 0)]), None);
    }
}
