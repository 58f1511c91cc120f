//! Tests of one rule of the paper each, by its section.

use std::time::Duration;

use super::*;
use crate::blocks::{PastLimit, ReceiverMap};
use crate::protocols::pf::config::CongestionRule;

const MS: Duration = Duration::from_millis(1);

/// The paper's simulation, with other children and windows.
fn rules(window: u64, mtr: f64) -> Rules {
    Rules {
        window,
        gap: MS,
        epoch: 10 * MS,
        quota: 15,
        multicast_ratio: mtr,
        round_trip: 4 * MS,
        round_trip_max: Duration::from_secs(2),
        timeout_min: Duration::ZERO,
        absent_polls: 3,
        past_limit: PastLimit::Expel,
        rate: Some(carillon_core::BitRate::mbps(1000)),
        packet: 125_000,
        burst: Duration::ZERO,
        repair_budget: 0,
        congestion: CongestionRule::None,
        consumed: false,
        helper_timeout: Duration::MAX,
        ahead: false,
    }
}

fn at(millis: u64) -> Time {
    Time::from_nanos(millis * 1_000_000)
}

/// Parent with `messages` messages to send.
fn parent(children: usize, messages: u64, rules: Rules) -> Parent {
    let mut parent = Parent::new(rules, children);
    for _ in 0..messages {
        parent.push(Bytes::from_static(b"x"));
    }
    parent
}

/// Packets sent until a time, each as early as possible.
fn run(parent: &mut Parent, from: u64, until: u64) -> Vec<Sending> {
    let mut all = Vec::new();
    for now in (from..=until).map(at) {
        parent.handle_timeout(now);
        all.extend(std::iter::from_fn(|| parent.poll_sending(now)));
    }
    all
}

/// Response to the poll of a time, from a child that has the given messages, consumed those in order, and knows of
/// all before `highest`.
fn response(asked: Time, highest: u64, has: impl IntoIterator<Item = u64>) -> Response {
    let mut map = ReceiverMap::default();
    has.into_iter().for_each(|number| map.insert(number));
    Response { at: asked, left: map.next(), highest, size: 65_536, map }
}

/// Time of the first poll of a child in these packets.
fn asked(sent: &[Sending], child: usize) -> Time {
    sent.iter().find(|sending| sending.asked.contains(&child)).expect("it was asked").at
}

fn again(sent: &[Sending]) -> Vec<(u64, To)> {
    let repairs = sent.iter().filter(|sending| sending.again);
    repairs.filter_map(|sending| Some((sending.message?, sending.to))).collect()
}

#[test]
fn section_2_2_the_effective_window_of_figure_1_is_1() {
    let mut parent = parent(2, 120, rules(10, 0.2));
    parent.messages = Numbered::starting_at(97);
    for _ in 97..110 {
        parent.push(Bytes::new());
    }
    parent.sent = 106;
    for (index, left) in [98, 97].into_iter().enumerate() {
        parent.set_limit(index, Some((left, 10)));
    }
    assert_eq!([0, 1].map(|index| parent.children[index].limit - parent.sent), [2, 1]);
    assert_eq!(parent.effective_window(), 1);
    parent.sent += 1;
    assert!(!parent.has_new(), "the window is closed");
}

/// Section 2.2.
#[test]
fn packets_are_paced_within_the_window() {
    let mut parent = parent(1, 9, rules(5, 0.2));
    let sent = run(&mut parent, 0, 7);
    let data: Vec<_> = sent.iter().filter(|s| s.message.is_some()).map(|s| s.at).collect();
    assert_eq!(data, [0, 1, 2, 3, 4].map(at));
}

#[test]
fn section_2_3_the_default_quota_is_15() {
    use carillon_core::{AssociationId, BitRate, BuildContext, Config, GroupId, NodeId, Seeds};
    let context = BuildContext {
        association: AssociationId(1),
        node: NodeId(0),
        sender: NodeId(0),
        members: [NodeId(1)].into(),
        helpers: Default::default(),
        identities: Default::default(),
        addresses: Default::default(),
        group: GroupId(0),
        seeds: Seeds::new(1),
        bit_rate: BitRate::mbps(10),
        link_overhead: 0,
        max_payload: 100,
        memory: usize::MAX,
        rejoining: false,
    };
    let parameters = super::super::ENTRY.parameters;
    let mut config = Config::defaults(parameters);
    assert_eq!(Rules::new(&context, &config).map(|rules| rules.quota), Ok(15));
    config.set(parameters, "response_rate", "50").unwrap();
    assert!(Rules::new(&context, &config).is_err(), "an epoch without a response");
}

/// Section 2.3: the last message is polled too.
#[test]
fn each_child_is_polled_once_per_cycle() {
    let mut parent = parent(20, 3, rules(64, 0.2));
    let sent = run(&mut parent, 0, 30);
    let mut all: Vec<usize> = sent.iter().flat_map(|sending| sending.asked.iter().copied()).collect();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 20);
    for child in 0..20 {
        let last = sent.iter().rfind(|sending| sending.asked.contains(&child)).unwrap();
        assert_eq!(last.last, 2, "every child is asked about the last message");
    }
    // The first epoch's responses were asked for at once, by the first packet.
    assert_eq!(sent[0].asked.len(), 15);
}

/// Section 2.3: at most one gap passes between the planned and the actual time of a poll.
#[test]
fn poll_delayed_by_more_than_one_gap_is_planned_anew() {
    // Each repair polls child 1. Its responses come in epoch 1.
    for (repairs, epochs) in [(1, [2, 0]), (2, [2, 1])] {
        let mut parent = parent(2, 3, rules(64, 1.5));
        let sent = run(&mut parent, 0, 3);
        (0..2).for_each(|child| {
            parent.on_response(at(4), child, &response(asked(&sent, child), 1, [0])).unwrap()
        });
        parent.plan.clear();
        let before = [1, 2].map(|epoch| parent.plan.expected(epoch));
        // The response to a poll of now would still come in epoch 1, that to a poll of 16 ms in epoch 2.
        parent.plan.plan(at(14), 0, 5 * MS);
        (1..=repairs).for_each(|number| _ = parent.again.insert(number, Again::Some([1].into())));
        let polls = run(&mut parent, 14, 14 + repairs);
        assert_eq!((polls.len() as u64, asked(&polls, 0)), (repairs + 1, at(14 + repairs)));
        let planned = [1, 2].map(|epoch| parent.plan.expected(epoch) - before[epoch as usize - 1]);
        assert_eq!(planned, epochs, "{repairs}");
    }
}

/// Section 2.5: when all have reported, messages that enough children miss are multicast, others unicast.
#[test]
fn threshold_chooses_multicast_or_unicast_repair() {
    for (lacking, to) in [(1, vec![To::Child(0)]), (2, vec![To::All])] {
        let mut parent = parent(10, 3, rules(64, 0.2));
        let sent = run(&mut parent, 0, 7);
        for child in 0..10 {
            let has: Vec<u64> = if child < lacking { vec![0, 2] } else { vec![0, 1, 2] };
            parent.on_response(at(7), child, &response(asked(&sent, child), 3, has)).unwrap();
            let told = child == 9;
            let decided = parent.messages.get(1).is_some_and(|m| m.recovery == Recovery::Retransmitted);
            assert_eq!(decided, told || lacking == 2 && child >= 1, "{lacking} {child}");
        }
        let expected: Vec<_> = to.iter().map(|&to| (1, to)).collect();
        assert_eq!(again(&run(&mut parent, 8, 8)), expected);
    }
}

/// Section 2.5.
#[test]
fn nack_from_before_retransmission_is_obsolete() {
    let mut parent = parent(4, 12, Rules { absent_polls: 99, ..rules(64, 0.5) });
    let sent = run(&mut parent, 0, 6);
    let first = asked(&sent, 2);
    for child in [2, 3] {
        parent.on_response(at(6), child, &response(first, 3, [0, 2])).unwrap();
    }
    let repair = run(&mut parent, 7, 7);
    assert_eq!(again(&repair), [(1, To::All)]);
    // A poll between: its response does not know of the repair.
    let between =
        parent.children[2].asked.iter().find(|asked| asked.at < repair[0].at).expect("asked again").at;
    parent.on_response(at(9), 2, &response(between, 5, [0, 2, 3, 4])).unwrap();
    assert_eq!(again(&run(&mut parent, 8, 9)), []);
    // One after it does.
    let after =
        parent.children[2].asked.iter().find(|asked| asked.at >= repair[0].at).expect("asked again").at;
    parent.on_response(at(12), 2, &response(after, 8, [0, 2, 3, 4, 5, 6, 7])).unwrap();
    assert_eq!(again(&run(&mut parent, 10, 12)), [(1, To::Child(2))]);
}

/// Section 2.4: recovery does not wait for silent children.
#[test]
fn silent_child_is_polled_again_and_then_expelled() {
    let mut parent = parent(10, 2, rules(64, 0.2));
    let sent = run(&mut parent, 0, 5);
    for child in 1..10 {
        let has: &[u64] = if child == 1 { &[1] } else { &[0, 1] };
        let _ = parent.on_response(at(5), child, &response(asked(&sent, child), 2, has.iter().copied()));
    }
    assert_eq!(again(&run(&mut parent, 6, 6)), [], "child 0 has not told");
    // Its time is twice the greatest round trip, 8 ms; then it is judged to be silent.
    let late = run(&mut parent, 7, 11);
    assert_eq!(again(&late), [(0, To::Child(1))]);
    assert!(late.iter().any(|sending| sending.asked.contains(&0)), "it is asked again");
    run(&mut parent, 12, 80);
    assert!(parent.take_lost().contains(&0));
    assert!(parent.on_response(at(80), 0, &response(at(0), 1, [0])).is_err(), "it was expelled");
}

#[test]
fn section_3_the_missing_poll_table_counts_and_forgives() {
    let mut child = Child::new(64, CongestionRule::None);
    let ask = |child: &mut Child, poll: u64| {
        child.asked.push_back(child::OutstandingPoll { poll, at: at(poll), end: 1, absent: false });
    };
    (1..=4).for_each(|poll| ask(&mut child, poll));
    assert!(child.miss(1) && child.miss(2) && !child.miss(2));
    assert_eq!(child.absent, 2);
    let mut equal = child.clone();
    assert_eq!(
        (equal.answer(at(2)).map(|polls| polls.len()), equal.absent),
        (Some(0), 1),
        "the last absent one: one less"
    );
    let mut smaller = child.clone();
    assert_eq!((smaller.answer(at(1)).is_some(), smaller.absent), (true, 1), "an earlier one: one");
    assert_eq!(
        (child.answer(at(4)).map(|polls| polls.len()), child.absent),
        (Some(2), 0),
        "a later one: none"
    );
    assert_eq!(child.answer(at(3)), None, "it says no more than the one after it");
}

/// Responses about messages that were not sent are dropped, and windows are limited to the agreed size. Here a
/// distant child that received nothing at first is polled more often than the list keeps.
#[test]
fn a_poll_among_many_unanswered_ones_may_be_answered() {
    let mut child = Child::new(64, CongestionRule::None);
    for poll in 1..=100 {
        child.asked.push_back(child::OutstandingPoll { poll, at: at(10 * poll), end: 1, absent: false });
        assert!(child.miss(poll));
    }
    assert!(child.asked.len() <= 16);
    let mut answered = child.clone();
    assert!(answered.answer(at(505)).is_some() && answered.silent_since.is_none());
    assert!(answered.answer(at(505)).is_none() && answered.answer(at(400)).is_none());
    assert!(answered.answer(at(510)).is_some(), "a later one may be answered yet");
    for other in [at(5), at(15), at(985), at(1010)] {
        assert!(child.clone().answer(other).is_none(), "{other}: it was not asked then");
    }
    assert!(child.answer(at(1000)).is_some());
    assert!(child.answer(at(500)).is_none(), "it has answered a later one");
}

/// The helper has lost its own parent, and learns late of the new one.
#[test]
fn distant_helper_is_not_expelled_early() {
    let limit = Duration::from_secs(2);
    let mut parent = parent(1, 3, Rules { helper_timeout: limit, ..rules(64, 0.2) });
    parent.set_helper(0);
    let mut polls = Vec::new();
    for now in 0..4000 {
        polls.extend(
            run(&mut parent, now, now).iter().filter(|sent| !sent.asked.is_empty()).map(|sent| sent.at),
        );
        // Deaf for 200 ms, and 100 ms each way away.
        let heard = polls.iter().rev().find(|&&poll| poll >= at(200) && poll + 200 * MS == at(now));
        if let Some(&poll) = heard {
            _ = parent.on_response(at(now), 0, &response(poll, 0, []));
        }
    }
    assert!(parent.take_lost().is_empty());
}

#[test]
fn impossible_responses_are_dropped() {
    let mut parent = parent(2, 9, rules(5, 0.2));
    let sent = run(&mut parent, 0, 6);
    let (poll, good) = (asked(&sent, 0), |has: u64| response(asked(&sent, 0), 5, 0..has));
    let lies = [
        good(6),
        response(poll, 5, [7]),
        Response { highest: 6, ..good(5) },
        Response { left: 5, ..good(4) },
        Response { size: 0, ..good(5) },
        Response { at: at(999), ..good(5) },
        Response { at: poll + MS / 2, ..good(5) },
    ];
    for lie in lies {
        assert!(parent.on_response(at(7), 0, &lie).is_err(), "{lie:?}");
    }
    assert_eq!((parent.acknowledged(0), parent.effective_window()), (Some(0), 0));
    assert!(parent.on_response(at(7), 2, &good(5)).is_err(), "unknown child");
    parent.on_response(at(7), 0, &Response { size: u64::MAX, ..good(5) }).unwrap();
    assert_eq!(parent.children[0].limit, 10, "S is what was agreed");
    assert_eq!(parent.effective_window(), 0, "the other has no room");
}

/// Messages that only the departed child missed are complete.
#[test]
fn departed_child_is_not_awaited() {
    let mut parent = parent(3, 2, rules(64, 0.2));
    let sent = run(&mut parent, 0, 6);
    for child in 0..2 {
        parent.on_response(at(6), child, &response(asked(&sent, child), 2, [0, 1])).unwrap();
    }
    assert!(parent.pop_complete().is_none() && parent.awaits(2));
    parent.remove(2);
    assert!(parent.pop_complete().is_some() && parent.pop_complete().is_some());
    assert_eq!((parent.poll_timeout(), parent.plan.len()), (None, 0), "no child is polled");
}

#[test]
fn full_child_is_polled_until_it_has_room() {
    let mut parent = parent(1, 9, rules(4, 0.2));
    let sent = run(&mut parent, 0, 8);
    let last = sent.iter().rfind(|sending| !sending.asked.is_empty()).unwrap();
    let full = Response { left: 0, ..response(last.at, 4, 0..4) };
    parent.on_response(at(9), 0, &full).unwrap();
    while parent.pop_complete().is_some() {}
    let polls = run(&mut parent, 10, 20);
    assert!(polls.iter().all(|sending| sending.message.is_none()) && !polls.is_empty(), "{polls:?}");
    let poll = polls.last().unwrap().at;
    parent.on_response(at(21), 0, &response(poll, 4, 0..4)).unwrap();
    assert_eq!(run(&mut parent, 22, 22)[0].message, Some(4));
}

/// Answers the newest poll of the only child, with the messages that it has, and takes complete ones.
fn report(parent: &mut Parent, now: u64, highest: u64, has: impl IntoIterator<Item = u64>) {
    let poll = parent.children[0].asked.back().expect("the child was asked").at;
    parent.on_response(at(now), 0, &response(poll, highest, has)).unwrap();
    while parent.pop_complete().is_some() {}
}

/// Numbers of the new messages in these packets.
fn new(sent: &[Sending]) -> Vec<u64> {
    sent.iter().filter(|sending| !sending.again).filter_map(|sending| sending.message).collect()
}

#[test]
fn congestion_window_doubles_and_a_loss_halves_it() {
    let rules = Rules { congestion: CongestionRule::Window, round_trip: 20 * MS, ..rules(64, 0.2) };
    let mut parent = parent(1, 40, rules);
    let mut sent = 0;
    for (round, size) in [1, 2, 4, 8].into_iter().enumerate() {
        let start = 100 * round as u64;
        assert_eq!(new(&run(&mut parent, start, start + 20)).len(), size);
        sent += size as u64;
        report(&mut parent, start + 20, sent, 0..sent);
    }
    assert_eq!(new(&run(&mut parent, 400, 430)).len(), 16);
    // Message 15 is missing: the window of 16 is halved, and has grown by one for the 15 messages that have arrived.
    report(&mut parent, 430, 31, 16..31);
    let repair = run(&mut parent, 431, 432);
    assert_eq!((new(&repair), again(&repair)), (vec![], vec![(15, To::All)]));
    assert_eq!(parent.children[0].congestion_limit() - 15, 9);
    run(&mut parent, 433, 480);
    report(&mut parent, 480, 31, 15..31);
    assert_eq!(parent.children[0].congestion_limit() - 31, 9);
}

/// An unanswered poll says nothing of the messages (section 2.4).
#[test]
fn second_unanswered_poll_starts_congestion_window_anew() {
    let rules = Rules { congestion: CongestionRule::Window, absent_polls: 99, ..rules(64, 0.2) };
    let mut parent = parent(1, 40, rules);
    for (round, sent) in [1, 3, 7].into_iter().enumerate() {
        let start = 100 * round as u64;
        run(&mut parent, start, start + 5);
        report(&mut parent, start + 5, sent, 0..sent);
    }
    let room = |parent: &Parent| parent.children[0].congestion_limit() - 7;
    assert_eq!(room(&parent), 8);
    while parent.children[0].absent < 1 {
        let now = parent.poll_timeout().map_or(0, |at| at.as_nanos() / 1_000_000);
        run(&mut parent, now + 1, now + 1);
    }
    assert_eq!(room(&parent), 8);
    while parent.children[0].absent < 2 {
        let now = parent.poll_timeout().map_or(0, |at| at.as_nanos() / 1_000_000);
        run(&mut parent, now + 1, now + 1);
    }
    assert_eq!(room(&parent), 1);
}

#[test]
fn reported_congestion_window_does_not_limit_its_own_parent() {
    let rules = Rules { congestion: CongestionRule::Reported, ..rules(64, 0.2) };
    let mut parent = parent(2, 9, rules);
    assert_eq!((parent.reported_window(), parent.effective_window()), (Some(1), 64));
    parent.set_limit(1, Some((0, 1)));
    (0..9).for_each(|_| parent.children[0].on_arrived());
    assert_eq!(parent.reported_window(), Some(1), "a child reports less");
    parent.remove(1);
    assert_eq!(parent.reported_window(), Some(10));
}
