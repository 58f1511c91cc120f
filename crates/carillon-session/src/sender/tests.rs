//! Machines of a sender under random calls: each keeps to its declared states, and agrees with a model.

use carillon_core::{Duration, NodeId, ObservedState, PSEUDO_STATE, Rng, Seeds, States, Time};
use carillon_wire::session::State;

use super::announcing::{self, Announcing};
use super::arrivals::Arrivals;
use super::gathering::{self, Gathering};
use super::state::{Pending, SenderPhase, Timer};
use super::watching::{AwakeClock, Watching};
use crate::config::Gather;

/// Number of random calls in each test.
const CALLS: u64 = 20_000;
const HEARTBEAT: Duration = Duration::from_millis(200);

fn rng(name: &str) -> Rng {
    Seeds::new(7).stream(name)
}

/// Returns the state after checking that the transition to it is declared.
fn follow(states: &States, from: &'static str, seen: ObservedState) -> &'static str {
    let is_declared = from == seen.state || states.transition(from, seen.state).is_some();
    assert!(is_declared, "{}: from {from} to {}", states.of, seen.state);
    seen.state
}

/// The invitations of a phase follow at 25, 50, 100 and then 200 ms, and the end is announced three times, or six with
/// helpers.
#[test]
fn invitations_follow_at_doubling_intervals_and_end_is_repeated() {
    for has_helpers in [false, true] {
        let mut announcing = Announcing::new(String::new());
        let mut state = follow(&announcing::STATES, PSEUDO_STATE, announcing.observe(SenderPhase::Gathering));
        for phase in [SenderPhase::Gathering, SenderPhase::Running] {
            announcing.on_phase();
            let (mut now, mut gaps) = (Time::ZERO, Vec::new());
            for _ in 0..6 {
                announcing.invite(now, phase, HEARTBEAT, &[1400, 500]);
                assert_eq!(announcing.on_invite_sent(now), None);
                let next = announcing.timers.next().expect("the next invitation");
                gaps.push(next.since(now).as_millis());
                now = next;
            }
            assert_eq!(gaps, [25, 50, 100, 200, 200, 200]);
            assert_eq!(announcing.pending.contains(&Pending::Size), phase == SenderPhase::Gathering);
            announcing.pending.clear();
        }
        announcing.timers.clear();
        announcing.announce_end(State::Aborted, HEARTBEAT, has_helpers);
        state = follow(&announcing::STATES, state, announcing.observe(SenderPhase::Closing));
        let (mut now, mut count) = (Time::ZERO, 0);
        loop {
            count += 1;
            match announcing.on_invite_sent(now) {
                None => now = announcing.timers.next().expect("the next announcement"),
                Some(end) => break assert_eq!(end, State::Aborted),
            }
            assert_eq!(announcing.timers.expire(now), Some(Timer::Invite));
        }
        assert_eq!(count, if has_helpers { 6 } else { 3 });
        follow(&announcing::STATES, state, announcing.observe(SenderPhase::Aborted));
    }
}

/// The waiting time runs from the last first join, and a zero time is over at once.
#[test]
fn gathering_waits_from_the_first_join() {
    let (mut rng, mut now) = (rng("gathering"), Time::ZERO);
    let mut settled = 0;
    for _ in 0..CALLS / 20 {
        let mut gathering = Gathering::default();
        let mut state = follow(&gathering::STATES, PSEUDO_STATE, gathering.observe());
        gathering.begin(now, &Gather::Settle(HEARTBEAT), None);
        let mut over = None;
        for _ in 0..20 {
            match rng.below(4) {
                0 => {
                    let time = Duration::from_millis(rng.below(3) * 100);
                    gathering.on_first_join(now, time);
                    over = Some(now + time);
                }
                1 if rng.chance(0.1) => gathering.end(),
                _ => {
                    now += Duration::from_millis(rng.below(100));
                    if gathering.timers.expire(now).is_some() {
                        assert!(over.is_some_and(|over| over <= now));
                        gathering.on_wait_over();
                        settled += 1;
                    }
                }
            }
            state = match gathering.observe().state {
                // A new first join may follow the closing in this test alone.
                _ if state == "Closed" => break,
                _ => follow(&gathering::STATES, state, gathering.observe()),
            };
        }
    }
    assert!(settled > 100, "{settled} waits");
}

/// The start is put off by each request, to the end of its quiet time and never beyond the waiting time.
#[test]
fn quiet_start_is_put_off_within_the_waiting_time() {
    let mut rng = rng("quiet");
    let (mut sooner, mut at_limit) = (0, 0);
    for _ in 0..CALLS / 20 {
        let mut gathering = Gathering::default();
        let mut now = Time::ZERO;
        let ms = Duration::from_millis;
        gathering.begin(now, &Gather::Quiet(ms(2000)), None);
        let round_trip = ms(rng.below(50));
        gathering.arrivals.on_challenged(now, NodeId(1));
        now += round_trip;
        gathering.arrivals.on_answered(now, NodeId(1));
        assert!(gathering.arrivals.was_waiting(now, HEARTBEAT));
        assert!(!gathering.arrivals.was_waiting(now + ms(1000), HEARTBEAT));
        gathering.on_first_join(now, ms(2000));
        let limit = now + ms(2000);
        assert!(!gathering.await_quiet(Some(now)), "the quiet start is not permitted yet");
        gathering.permit_quiet_start();
        while gathering.timers.expire(now).is_none() {
            gathering.arrivals.on_challenged(now, NodeId(2));
            assert_eq!(gathering.arrivals.quiet_until(Duration::ZERO), None, "the node has not answered");
            gathering.arrivals.on_answered(now, NodeId(2));
            let quiet = gathering.arrivals.quiet_time(Duration::ZERO);
            assert!(quiet >= ms(190) + 4 * round_trip);
            assert!(gathering.await_quiet(gathering.arrivals.quiet_until(Duration::ZERO)));
            let start = gathering.starts_at();
            assert_eq!(start, Some((now + quiet).min(limit)));
            now += ms(rng.below(600));
        }
        match now < limit {
            true => sooner += 1,
            false => at_limit += 1,
        }
        gathering.on_wait_over();
        assert!(!gathering.await_quiet(Some(now)), "a request after the start puts nothing off");
    }
    assert!(sooner > 10 && at_limit > 0, "{sooner} and {at_limit}");
}

/// The round-trip time runs from the first CHALLENGE, so a lost one makes it longer; forged requests are bounded.
#[test]
fn round_trip_of_arrivals_is_the_longest_from_a_first_challenge() {
    let (mut arrivals, ms) = (Arrivals::default(), |millis| Time::ZERO + Duration::from_millis(millis));
    arrivals.begin(Time::ZERO);
    let base = arrivals.quiet_time(Duration::ZERO);
    arrivals.on_challenged(ms(1), NodeId(1));
    arrivals.on_challenged(ms(26), NodeId(1));
    arrivals.on_answered(ms(31), NodeId(1));
    assert_eq!(arrivals.quiet_time(Duration::ZERO), base + Duration::from_millis(4 * 30));
    arrivals.on_challenged(ms(40), NodeId(2));
    arrivals.on_answered(ms(42), NodeId(2));
    assert_eq!(arrivals.quiet_time(Duration::ZERO), base + Duration::from_millis(4 * 30));
    assert_eq!(arrivals.quiet_time(Duration::from_secs(4)), Duration::from_secs(1));
    // A repetition within a round trip may have crossed the answer. A later one shows that the answer was lost.
    arrivals.on_repeated(Duration::from_millis(35));
    assert_eq!(arrivals.quiet_time(Duration::ZERO), base + Duration::from_millis(4 * 30));
    arrivals.on_repeated(Duration::from_millis(950));
    assert_eq!(arrivals.quiet_time(Duration::ZERO), base + Duration::from_millis(4 * 30), "a keepalive");
    arrivals.on_repeated(Duration::from_millis(45));
    assert!(arrivals.quiet_time(Duration::ZERO) > base + Duration::from_millis(4 * 30 + 200));
    let mut late = Arrivals::default();
    late.on_challenged(ms(40), NodeId(1));
    late.on_answered(ms(42), NodeId(1));
    assert!(
        late.quiet_time(Duration::ZERO) > base + Duration::from_millis(4 * 2 + 200),
        "the first INVITE was lost"
    );
    let mut flooded = Arrivals::default();
    (0..1000).for_each(|node| flooded.on_challenged(ms(1), NodeId(node)));
    flooded.on_answered(ms(9), NodeId(999));
    assert!(!flooded.was_waiting(ms(9), HEARTBEAT), "without a round-trip time the sender waits");
}

/// The clock of a sender stands exactly for the part of a pause beyond a heartbeat, if the pause exceeds two.
#[test]
fn clock_stands_while_the_sender_is_suspended() {
    let (mut rng, mut now, mut awake) = (rng("clock"), Time::ZERO, Time::ZERO);
    let mut clock = AwakeClock::default();
    clock.note(now, HEARTBEAT);
    for _ in 0..CALLS {
        let pause = Duration::from_millis(if rng.chance(0.1) { rng.below(5000) } else { rng.below(300) });
        now += pause;
        awake += if pause > 2 * HEARTBEAT { HEARTBEAT } else { pause };
        clock.note(now, HEARTBEAT);
        assert_eq!(clock.awake(now), awake);
    }
}

/// A silence timer is armed once, however many packets come, and each member has its own.
#[test]
fn silence_timer_is_armed_once_for_each_member() {
    let mut watching = Watching::default();
    let second = |count| Time::ZERO + Duration::from_secs(count);
    watching.await_packet(NodeId(1), second(5));
    watching.await_packet(NodeId(1), second(9));
    watching.await_packet(NodeId(2), second(7));
    assert_eq!(watching.timers.first(), Some((second(5), Timer::MemberSilent(NodeId(1)))));
    watching.stop_waiting(NodeId(1));
    assert_eq!(watching.timers.first(), Some((second(7), Timer::MemberSilent(NodeId(2)))));
    watching.await_progress(second(6));
    assert!(watching.awaits_progress());
}
