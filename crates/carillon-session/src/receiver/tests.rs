//! Machines of a receiver under random calls: each keeps to its declared states, and agrees with a model.

use carillon_core::{Duration, ObservedState, PSEUDO_STATE, Rng, Seeds, States, Time, Timers};
use carillon_wire::session::{Cookie, State, Verdict};

use super::claim::{self, Claim, Step};
use super::joining::{self, Joining};
use super::liveness::{self, Liveness};
use super::random::RandomValues;
use super::reporting::{self, Reporting};
use super::state::Timer;

/// Number of random calls in each test.
const CALLS: u64 = 20_000;

/// Follows the states of a machine.
struct Watched {
    states: States,
    at: &'static str,
    taken: usize,
}

impl Watched {
    fn new(states: States) -> Self {
        Watched { states, at: PSEUDO_STATE, taken: 0 }
    }

    fn observe(&mut self, seen: ObservedState) {
        if seen.state != self.at {
            let declared = self.states.transition(self.at, seen.state);
            assert!(declared.is_some(), "{}: from {} to {}", self.states.of, self.at, seen.state);
            (self.at, self.taken) = (seen.state, self.taken + 1);
        }
    }
}

fn rng(name: &str) -> Rng {
    Seeds::new(7).stream(name)
}

fn random_values() -> RandomValues {
    let seeds = Seeds::new(1);
    RandomValues::new(seeds.stream("delay"), seeds.part("nonce"), seeds.part("process"))
}

/// Lets the time pass, to the next timer in half of the cases. Returns the timer that fires.
fn pass(now: &mut Time, rng: &mut Rng, timers: &mut Timers<Timer>) -> Option<Timer> {
    let step = *now + Duration::from_millis(rng.below(200));
    *now = if rng.chance(0.5) { timers.next().unwrap_or(step).max(*now) } else { step };
    timers.expire(*now)
}

/// No more bytes are sent before the admission than the invitations and challenges allow.
#[test]
fn joining_sends_no_more_than_it_was_sent() {
    let (mut rng, mut now) = (rng("joining"), Time::ZERO);
    let (mut joining, mut watched) = (Joining::default(), Watched::new(joining::STATES));
    let (mut received, mut sent, mut joins) = (0, 0, 0);
    watched.observe(joining.observe());
    for _ in 0..CALLS {
        let bytes = rng.below(300) as usize;
        let is_asking = matches!(watched.at, "Asking" | "Answering");
        match (rng.below(8), watched.at) {
            (0, _) => {
                joining.end();
                assert_eq!(joining.timers.next(), None);
            }
            (1, "Idle") => {
                joining.on_invitation(now, bytes);
                joining.ask(now + Duration::from_millis(1));
                (received, sent) = (bytes, 0);
            }
            (2, _) if is_asking => {
                joining.add_credit(bytes);
                received += bytes;
            }
            (3, _) if is_asking => {
                joining.on_challenge(now, Cookie(rng.below(9)), true);
                received += 72;
            }
            (4, _) if is_asking => joining.on_welcome(now),
            (5, "Admitted") => joining.keep(now, true),
            _ => {
                if let Some(Timer::Join) = pass(&mut now, &mut rng, &mut joining.timers) {
                    match watched.at {
                        "Admitted" => _ = joining.on_member_timer(now, State::Gathering),
                        _ => {
                            joining.ask_again(now, Duration::ZERO);
                            if joining.spend(bytes) {
                                (sent, joins) = (sent + bytes, joins + 1);
                            }
                        }
                    }
                }
            }
        }
        watched.observe(joining.observe());
        assert!(sent <= received, "{sent} bytes sent, {received} received");
    }
    assert!(joins > 100 && watched.taken > 1000, "{joins} JOINs, {} transitions", watched.taken);
}

/// The sender is silent exactly if no packet came for the timeout, and is asked only without a packet with the nonce.
#[test]
fn liveness_agrees_with_the_times_of_the_last_packets() {
    let timeout = Duration::from_secs(5);
    let (mut rng, mut now) = (rng("liveness"), Time::ZERO);
    let (mut liveness, mut watched) = (Liveness::new(timeout, true), Watched::new(liveness::STATES));
    let (mut heard, mut proven, mut asked) = (None, Time::ZERO, 0);
    watched.observe(liveness.observe()[0]);
    for _ in 0..CALLS {
        match (rng.below(20), heard) {
            (0, None) => {
                liveness.begin(now);
                liveness.await_confirmation(now);
                (heard, proven) = (Some(now), now);
            }
            (1..9, Some(_)) => {
                liveness.heard(now);
                heard = Some(now);
            }
            (9, Some(_)) if rng.chance(0.1) => {
                liveness.authenticated(now);
                (heard, proven) = (Some(now), now);
            }
            _ => match pass(&mut now, &mut rng, &mut liveness.timers) {
                Some(Timer::Silence) => {
                    assert!(heard.is_some_and(|heard| now.since(heard) >= timeout));
                    liveness.end();
                    heard = None;
                }
                Some(Timer::Confirm) if liveness.on_unconfirmed(now) => {
                    assert!(now.since(proven) >= timeout, "asked {:?} after a proof", now.since(proven));
                    asked += 1;
                }
                Some(Timer::Confirm) => {
                    liveness.end();
                    heard = None;
                }
                _ => {}
            },
        }
        assert_eq!(liveness.silence(now), heard.map(|heard| now.since(heard)));
        watched.observe(liveness.observe()[0]);
    }
    assert!(asked > 50 && watched.taken > 100, "{asked} queries, {} transitions", watched.taken);
}

/// An announced end counts after six queries without an answer, unless the sender was heard after the first of them.
#[test]
fn claim_counts_after_six_unanswered_queries() {
    let (mut rng, mut now) = (rng("claim"), Time::ZERO);
    let (mut claim, mut watched) = (Claim::default(), Watched::new(claim::STATES));
    let (mut queries, mut contradicted, mut accepted, mut dropped) = (0, false, 0, 0);
    watched.observe(claim.observe());
    for _ in 0..CALLS {
        match rng.below(12) {
            0 => {
                if claim.begin(State::Finished, "") {
                    claim.ask(now);
                    (queries, contradicted) = (0, false);
                }
            }
            1 if rng.chance(0.2) => {
                claim.contradict();
                contradicted |= queries > 1;
            }
            2 if rng.chance(0.2) => {
                claim.settle();
                assert_eq!(claim.timers.next(), None);
            }
            _ => {
                if pass(&mut now, &mut rng, &mut claim.timers).is_some() {
                    match claim.on_timer(now) {
                        Step::Ask => queries += 1,
                        Step::Accept(claimed) => {
                            assert_eq!((claimed.state, queries, contradicted), (State::Finished, 6, false));
                            accepted += 1;
                        }
                        Step::Drop => {
                            assert_eq!((queries, contradicted), (6, true));
                            dropped += 1;
                        }
                    }
                }
            }
        }
        watched.observe(claim.observe());
    }
    assert!(accepted > 20 && dropped > 20, "{accepted} accepted, {dropped} dropped");
}

/// At most five PROGRESS follow one heartbeat, and none the report, which repeats until it is acknowledged.
#[test]
fn reporting_sends_five_progress_at_most_and_one_result() {
    let (mut rng, mut now, mut random) = (rng("reporting"), Time::ZERO, random_values());
    let (mut reports, mut acknowledged) = (0, 0);
    for run in 0..CALLS / 100 {
        let mut reporting = Reporting::default();
        let mut watched = [Watched::new(reporting::STATES), Watched::new(reporting::PROGRESS_STATES)];
        let mut progress = 0;
        for (watched, seen) in watched.iter_mut().zip(reporting.observe()) {
            watched.observe(seen);
        }
        for call in 0..100 {
            match rng.below(30) {
                0 if reporting.outcome().is_none() => {
                    reporting.schedule_progress(now, 250, &mut random);
                    progress = 0;
                }
                1 if call > 50 && reporting.outcome().is_none() => {
                    let verdict = if run % 2 == 0 { Verdict::Verified } else { Verdict::Failed };
                    reporting.conclude(9, verdict, "why");
                    reporting.repeat(now);
                }
                2 => {
                    let is_open = reporting.outcome().is_some() && !reporting.is_acknowledged();
                    assert_eq!(reporting.acknowledge(), is_open);
                    if is_open {
                        reporting.end();
                        acknowledged += 1;
                    }
                }
                _ => match pass(&mut now, &mut rng, &mut reporting.timers) {
                    Some(Timer::Progress) => {
                        progress += 1;
                        assert!(reporting.outcome().is_none() && progress <= 5, "{progress} PROGRESS");
                        reporting.on_progress_timer(now, &mut random);
                    }
                    Some(Timer::Report) => {
                        assert!(!reporting.is_acknowledged());
                        reports += 1;
                        reporting.repeat(now);
                    }
                    _ => {}
                },
            }
            for (watched, seen) in watched.iter_mut().zip(reporting.observe()) {
                watched.observe(seen);
            }
        }
    }
    assert!(reports > 100 && acknowledged > 20, "{reports} REPORTs, {acknowledged} acknowledged");
}
