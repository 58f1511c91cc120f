//! Tests of the adaptive timers, step by step as in ns-2.35.

use super::super::recovery::MAX_C1;
use super::member::Member;
use crate::blocks::AdaptiveDelay;

fn pair(first: f64, second: f64) -> AdaptiveDelay {
    AdaptiveDelay::new(first, second, 0.1)
}

/// Simulates a loss in a group of ten, with a number of duplicates and a delay. Returns the two constants.
fn period(pair: &mut AdaptiveDelay, duplicates: u32, delay: f64) -> (f64, f64) {
    pair.adapt(MAX_C1, 10.0);
    pair.mark_period();
    (0..duplicates).for_each(|_| pair.count_duplicate());
    pair.on_delay(delay);
    let round = |value: f64| (value * 1000.0).round() / 1000.0;
    (round(pair.first), round(pair.second))
}

#[test]
fn first_loss_clamps_the_constants() {
    assert_eq!(period(&mut pair(3.0, 0.5), 0, 0.5), (2.0, 1.0));
    assert_eq!(period(&mut pair(0.1, 50.0), 0, 0.5), (0.5, 10.0));
}

#[test]
fn many_duplicates_lengthen_the_wait() {
    let mut pair = pair(1.0, 2.0);
    assert_eq!(period(&mut pair, 3, 0.5), (1.0, 2.0));
    assert_eq!(period(&mut pair, 3, 0.5), (1.1, 2.5));
    assert_eq!(period(&mut pair, 0, 0.5), (1.2, 3.0));
    // The average is 3, smoothed twice with 3; from then on it falls to three quarters at each look and at each end.
    assert_eq!(period(&mut pair, 0, 0.5), (1.3, 3.5));
    assert_eq!(period(&mut pair, 0, 0.5), (1.4, 4.0));
    assert_eq!(period(&mut pair, 0, 0.5), (1.4, 4.0), "below 1 - epsilon, above a quarter, no long delay");
}

#[test]
fn few_duplicates_and_long_delays_shorten_the_wait() {
    let mut pair = pair(1.0, 2.0);
    assert_eq!(period(&mut pair, 0, 1.5), (1.0, 2.0));
    assert_eq!(period(&mut pair, 0, 1.5), (0.95, 1.9));
    assert_eq!(period(&mut pair, 0, 0.1), (0.9, 1.8));
    // (3 * 1.5 + 0.1) / 4 is still above 1; the next value is (3 * 1.15 + 0.1) / 4.
    assert_eq!(period(&mut pair, 0, 0.1), (0.85, 1.7));
    assert_eq!(period(&mut pair, 0, 0.1), (0.8, 1.7));
}

#[test]
fn sending_shortens_the_wait_and_skips_one_adaptation() {
    let mut pair = pair(1.0, 2.0);
    period(&mut pair, 5, 0.5);
    pair.on_sending(MAX_C1);
    assert_eq!(period(&mut pair, 5, 0.5), (0.9, 1.9), "duplicates are not looked at");
    assert_eq!(period(&mut pair, 5, 0.5), (1.0, 2.4));
}

#[test]
fn minimum_above_maximum_applies_from_below_only() {
    // log10 2 = 0.3 is below the minimum of 0.5.
    let mut low = pair(0.2, 1.0);
    low.adapt(0.3, 2.0);
    assert_eq!(low.first, 0.5);
    let mut high = pair(0.6, 1.0);
    high.adapt(0.3, 2.0);
    assert_eq!(high.first, 0.3);
}

#[test]
fn first_requester_shortens_its_wait() {
    let mut member = Member::new(&[("timers", "adaptive")]);
    let mut waits = Vec::new();
    for loss in 0..40_u64 {
        let start = loss * 10_000;
        member.at(start);
        member.data(2 * loss as u32 + 1);
        let wait = (1..100).find(|ms| !member.at(start + ms).is_empty()).expect("a request");
        member.repair(2, 2 * loss as u32, 0);
        waits.push(wait);
    }
    let mean = |waits: &[u64]| waits.iter().sum::<u64>() as f64 / waits.len() as f64;
    // The wait falls from between 2 d and 4 d to between 0.5 d and 1.5 d.
    assert!((20..=40).contains(&waits[0]), "{waits:?}");
    assert!(waits[20..].iter().all(|wait| (5..=16).contains(wait)), "{waits:?}");
    assert!(mean(&waits[30..]) < 13.0, "{waits:?}");
}

#[test]
fn adaptive_back_off_triples_with_constants_of_the_loss() {
    let mut member = Member::new(&[("timers", "adaptive"), ("c2_percent", "100")]);
    member.data(1);
    let times: Vec<u64> = (0..3000).filter(|&ms| !member.at(ms).is_empty()).collect();
    // The first wait is in [2, 3] d; the next ones are 3, 9 and 27 times that, although C1 fell with the first
    // request.
    let waits: Vec<u64> =
        std::iter::once(times[0]).chain(times.windows(2).map(|two| two[1] - two[0])).collect();
    for (wait, factor) in waits.iter().zip([1, 3, 9, 27]) {
        assert!((20 * factor..=30 * factor + 1).contains(wait), "{waits:?}");
    }
}
