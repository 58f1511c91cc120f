//! Tests of the polling list.

use super::*;
use crate::blocks::TimeoutMethod;
use crate::blocks::congestion::{CONTROLLERS, ControlSettings};

fn list(members: usize, by_path: bool) -> PollingList {
    let ms = Duration::from_millis;
    let timeout = RetransmissionTimeout::with(TimeoutMethod::Constant, ms(20), ms(1), ms(1000));
    PollingList::new(members, timeout, control(members), by_path)
}

fn control(receivers: usize) -> Box<dyn CongestionControl> {
    (CONTROLLERS[0].build)(&ControlSettings { receivers, flight: 1000, rate: None }).expect("the default")
}

fn at(millis: u64) -> Time {
    Time::from_nanos(millis * 1_000_000)
}

fn question(list: &PollingList, index: usize) -> OutstandingPoll {
    let mark = list.member(index).path.mark();
    OutstandingPoll { index, message: 7, serial: 0, end: 0, at: Time::ZERO, mark }
}

fn answer(list: &PollingList, index: usize) -> Answer {
    Answer { asked: Time::ZERO, then: list.member(index).path.mark(), serial: 0, since: 0, arrived: 0 }
}

#[test]
fn answering_members_take_equal_turns() {
    let mut list = list(5, false);
    list.on_poll(Time::ZERO, 2);
    assert!(list.on_no_answer(Time::ZERO, &question(&list, 2)));
    list.remove(4);
    let turns: Vec<_> = (0..6).filter_map(|_| list.next_turn(|_, _| true)).collect();
    assert_eq!((turns, list.live()), (vec![0, 1, 3, 0, 1, 3], 4));
    assert_eq!(list.next_repeated(), Some((2, 7)), "it is asked again by itself");
    list.on_poll(Time::ZERO, 2);
    assert_eq!(list.next_repeated(), None);
    list.on_answer(Time::ZERO, 2, 1, answer(&list, 2), 50);
    assert_eq!((list.next_turn(|index, _| index == 2), list.room()), (Some(2), 50));
}

#[test]
fn answer_is_not_overdue_within_round_trip() {
    let ms = Duration::from_millis;
    let mut list =
        PollingList::new(1, RetransmissionTimeout::adaptive(ms(50), ms(2), ms(250)), control(1), true);
    list.on_poll(Time::ZERO, 0);
    list.on_answer(at(600), 0, 1, answer(&list, 0), u64::MAX);
    assert!(list.member(0).timeout.current() > ms(600), "{:?}", list.member(0).timeout);
}

#[test]
fn near_member_does_not_bound_far_members_window() {
    let mut list = list(2, true);
    // 100 000 packets a second to two receivers, 1 ms and 100 ms away.
    for (index, millis, packets) in [(0, 1, 100), (1, 100, 10_000)] {
        list.on_poll(Time::ZERO, index);
        let then = list.member(index).path.mark();
        let arrived = packets as u32;
        let answer = Answer { asked: Time::ZERO, then, serial: packets, since: packets, arrived };
        list.on_answer(Time::from_nanos(millis * 1_000_000), index, 1, answer, u64::MAX);
    }
    let now = Time::from_nanos(101_000_000);
    let [near, far] = [0, 1].map(|index| OutstandingPoll { serial: 10_000, ..question(&list, index) });
    (0..2).for_each(|index| list.on_poll(now, index));
    assert!(list.is_full(now, 14_000, [&far]), "as if it were near");
    for (serial, open, holder) in
        [(14_000, &[&far][..], None), (14_000, &[&far, &near], Some(0)), (60_000, &[&far], Some(1))]
    {
        assert_eq!(list.is_held(now, serial, open.iter().copied()), holder.is_some());
        assert_eq!(list.held_since.map(|(index, _)| index), holder);
    }
}

/// Two flows on a link of 1 Mbit/s, with answers after seconds, once sent 100 000 packets at one instant.
#[test]
fn silence_of_all_members_limits_the_rate() {
    let mut list = list(2, true);
    for index in 0..2 {
        list.on_poll(at(0), index);
        list.on_answer(at(100), index, 1, answer(&list, index), u64::MAX);
    }
    let poll = OutstandingPoll { at: at(100), ..question(&list, 0) };
    for index in 0..2 {
        // Two polls each; the first one expires.
        list.on_poll(at(100), index);
        list.on_poll(at(110), index);
        assert!(!list.on_no_answer(at(400), &OutstandingPoll { index, ..poll }));
    }
    let open = [0, 1].map(|index| OutstandingPoll { at: at(110), index, ..poll });
    let (now, more) = (at(10_000), 1 << 20);
    assert!(!list.is_held(at(450), 0, &open) && !list.is_unheard(), "they are not silent yet");
    let known = list.rate();
    for open in [&open[..], &[]] {
        assert!(!list.is_held(now, more, open) && !list.is_full(now, more, open), "none is waited for");
        let rate = list.rate().expect("a limit");
        // A window in each round trip of 100 ms, in packets of 1000 bytes.
        let window = BitRate::new(list.window() * 10 * 8 * 1000).unwrap();
        assert!(list.is_unheard() && rate == known.map_or(window, |known| known.min(window)), "{rate:?}");
    }
    // One of them answers, so that its path limits the sender again.
    list.on_answer(now, 1, 1, answer(&list, 1), u64::MAX);
    assert!(!list.is_held(now, more, &open[..1]) && !list.is_unheard());
}

#[test]
fn held_time_counts_only_after_path_filled() {
    let mut list = list(2, true);
    list.hold(at(10), Some(0));
    list.hold(at(20), None);
    assert_eq!(list.member(0).held, Duration::ZERO, "it is still being found out");
    for answers in 1..20 {
        let answer = Answer { asked: at(answers), serial: answers * 10, since: 10, ..answer(&list, 0) };
        list.on_answer(at(answers + 1), 0, 0, Answer { arrived: answers as u32 * 10, ..answer }, u64::MAX);
    }
    assert!(list.control.limit(0) != Limit::Search);
    list.hold(at(30), Some(0));
    list.hold(at(45), Some(1));
    list.hold(at(60), None);
    list.hold(at(90), None);
    assert_eq!([0, 1].map(|index| list.member(index).held.as_millis()), [15, 0]);
}

#[test]
fn initial_window_holds_until_first_answer() {
    let mut list = list(2, true);
    let late = question(&list, 0);
    let late = OutstandingPoll { serial: 120, ..late };
    for repeat in 0..10 {
        let now = Time::from_nanos(repeat * 50_000_000);
        list.on_poll(now, 0);
        assert!(!list.is_full(now, 10, [&late]));
        assert!(list.is_full(now, 128, [&late]), "at the repeat {repeat}");
        list.on_no_answer(now, &late);
    }
    let now = Time::from_nanos(600_000_000);
    list.on_poll(now, 0);
    list.on_poll(now, 1);
    list.on_answer(now, 1, 1, answer(&list, 1), 1000);
    assert!(!list.is_full(now, 128, [&late]), "the other one is silent");
}

#[test]
fn never_answering_member_stops_holding_others_up() {
    let mut list = list(2, true);
    list.on_poll(at(0), 1);
    list.on_answer(at(0), 1, 1, answer(&list, 1), 1000);
    let unheard = |list: &PollingList, now: u64| OutstandingPoll { at: at(now), ..question(list, 0) };
    // A poll every 10 ms with a timeout of 50 ms keeps one outstanding all the time.
    let mut held = Vec::new();
    for now in (0..700).step_by(10) {
        list.on_poll(at(now), 0);
        if now >= 50 {
            let expired = unheard(&list, now - 50);
            assert!(!list.on_no_answer(at(now), &expired));
        }
        let open = unheard(&list, now);
        held.push(list.is_held(at(now), 128, [&open]));
        assert_eq!(list.member(0).unanswered as u64, now / 50, "{now} ms");
    }
    assert_eq!(held.iter().filter(|held| **held).count(), 50, "for half a second");
    assert_eq!(list.member(0).repeats, 0);
    list.on_answer(at(700), 0, 1, answer(&list, 0), 1000);
    assert_eq!(list.member(0).unanswered, 0);
}

#[test]
fn counts_agree_with_model_under_random_operations() {
    let mut rng = carillon_core::Seeds::new(1).stream("polling-list");
    let (mut list, mut open, mut repeats) = (list(4, true), [0u32; 4], [0u32; 4]);
    let (mut limits, mut gone, mut now) = ([u64::MAX; 4], [false; 4], Time::ZERO);
    for _ in 0..5_000 {
        now += Duration::from_millis(1);
        let index = rng.below(4) as usize;
        match rng.below(8) {
            _ if gone[index] => {}
            0..=2 => {
                list.on_poll(now, index);
                open[index] += 1;
            }
            3..=4 if open[index] > 0 => {
                let closed = 1 + rng.below(open[index].into()) as u32;
                limits[index] = rng.below(100);
                list.on_answer(now, index, closed, answer(&list, index), limits[index]);
                (open[index], repeats[index]) = (open[index] - closed, 0);
            }
            5..=6 if open[index] > 0 => {
                let question = question(&list, index);
                open[index] -= 1;
                repeats[index] += u32::from(open[index] == 0);
                assert_eq!(list.on_no_answer(now, &question), open[index] == 0);
            }
            7 if rng.below(1000) == 0 && index > 0 => {
                list.remove(index);
                (gone[index], open[index]) = (true, 0);
            }
            _ => {}
        }
        let live = || (0..4).filter(|&index| !gone[index]);
        assert!(live().all(|index| list.member(index).repeats == repeats[index]));
        assert_eq!(Some(list.room()), live().map(|index| limits[index]).min());
        assert_eq!(list.live(), live().count());
        let unasked = list.next_unpolled(|_, _| true);
        let may = |index: usize| !gone[index] && open[index] == 0 && repeats[index] == 0;
        assert_eq!(unasked.is_some(), (0..4).any(may));
        assert!(unasked.is_none_or(may));
        assert!(list.window() <= 1000);
    }
}
