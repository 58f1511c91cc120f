//! Sessions that are followed by a catch-up session, for receivers that join late, are too slow or stood still.

use std::collections::BTreeSet;
use std::net::IpAddr;

use carillon_core::{
    AddressBook, Addresses, AssociationId, Config, Dest, Duration, GroupId, Machine as _, NodeId,
    NumberedAddresses, Seeds, Time,
};
use carillon_proto::{REGISTRY, find};
use carillon_session::{
    EarlierSessions, Gather, MemberOutcome, ReceiverFailure, ReceiverPhase, ReceiverSession,
    ReceiverSessionConfig, SenderPhase, SenderSession, SenderSessionConfig, Slow,
};
use carillon_testkit::is_long_tier;
use carillon_wire::carillon::Packet::Data;
use carillon_wire::session::{
    Body, DatagramSizes, Invite, Name, Packet, RefuseReason, Settings, State, Text,
};

use super::harness::*;
use super::outcomes;

const NEXT: AssociationId = AssociationId(8);

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

/// Settings of a session that is followed by another one, with a protocol that expels no member.
fn config(receivers: usize, slow: Slow) -> SenderSessionConfig {
    let mut config = sender_config(Gather::Count(receivers));
    config.config.set(config.protocol.parameters, "limit", "1000000").expect("a setting");
    (config.job.further, config.slow) = (true, slow);
    // As large as messages of a real network.
    config.max_payload = 1400;
    config
}

fn world(names: &[&str], slow: Slow, messages: u64) -> World {
    let mut world = World::new(sender_with(config(names.len(), slow)), messages);
    for name in names {
        world.join(receiver(name));
    }
    world
}

/// The session that follows, for these.
fn follow(world: &mut World, awaited: &[&str], only: Option<&[&str]>, former: EarlierSessions) {
    let gather = Gather::Again { awaited: set(awaited), only: only.map(set), settle: Duration::from_secs(1) };
    let mut next = SenderSessionConfig { association: NEXT, ..config(1, Slow::Lane) };
    next.job.earlier = former;
    let mut session = SenderSession::new(SenderSessionConfig { gather, ..next }, Seeds::new(2).node(SENDER))
        .expect("the settings are good");
    session.start(world.now);
    world.sender = session;
    world.messages = world.total;
}

fn later() -> ReceiverPhase {
    ReceiverPhase::Failed(ReceiverFailure::Refused(RefuseReason::Later, String::new()))
}

#[test]
fn who_comes_late_waits_and_is_served_as_soon_as_it_is_there() {
    for only in [None, Some(&["a", "late"][..]), Some(&["a"][..])] {
        let mut world = world(&["a"], Slow::Lane, 300);
        world.run(ms(300));
        let late = world.join(receiver("late"));
        world.run_until(ms(60_000), |world| world.sender.phase() == SenderPhase::Finished);
        assert_eq!(world.sender.wanting(), &set(&["late"]));
        assert_eq!(world.phase(late), ReceiverPhase::Seeking);
        assert!(world.peers[late].session.is_served_later());
        let before = world.now;
        follow(&mut world, &["late"], only, EarlierSessions::default());
        world.run_until(before + Duration::from_millis(400), |world| {
            world.sender.phase() == SenderPhase::Running
        });
        if only == Some(&["a"][..]) {
            assert_eq!(world.sender.phase(), SenderPhase::Gathering);
            assert_eq!(world.sender.unserved()[0].name, "late");
            continue;
        }
        // Not after the second that it would wait for others.
        assert_eq!(world.sender.phase(), SenderPhase::Running);
        let end = world.now + Duration::from_secs(60);
        world.run_until(end, |world| world.sender.phase() == SenderPhase::Finished);
        assert_eq!(outcomes(&world), [("late", &MemberOutcome::Verified)]);
    }
}

/// Number of messages of a session that a late receiver overhears.
const MESSAGES: u32 = 8_000;

/// A session of one receiver that takes two seconds.
fn two_seconds() -> World {
    of_carillon_with(&["a"], Slow::Lane, u64::from(MESSAGES), &[("rate", "48 Mbit/s")])
}

#[test]
fn receiver_of_catch_up_session_overhears_data() {
    for overhears in [true, false] {
        let mut world = two_seconds();
        world.run_until(ms(5_000), |world| {
            world.phase(0) == ReceiverPhase::Running && world.peers[0].got > 100
        });
        let config = ReceiverSessionConfig { protocols: REGISTRY, overhears, ..receiver_config("late") };
        let late = world.join(ReceiverSession::new(config, Seeds::new(1).part("late")));
        let mut heard = 0;
        for _ in 0..600 {
            world.run_until(world.now + Duration::from_millis(100), |_| false);
            let overheard = std::iter::from_fn(|| world.peers[late].session.poll_overheard());
            heard += overheard.inspect(|(session, _)| assert_eq!(*session, ASSOCIATION)).count();
            if world.sender.phase() == SenderPhase::Finished {
                break;
            }
        }
        assert!(world.peers[late].session.is_served_later(), "{:?}", world.phase(late));
        // Not what came before it did.
        assert_eq!((1_000..MESSAGES as usize).contains(&heard), overhears, "{heard} of {MESSAGES}");
        assert_eq!(heard == 0, !overhears);
        let former = world.sender.earlier();
        assert_eq!(former.sessions(), [ASSOCIATION]);
    }
}

#[test]
fn nobody_but_the_sender_of_that_session_is_overheard() {
    let mut world = two_seconds();
    world.run_until(ms(5_000), |world| world.phase(0) == ReceiverPhase::Running && world.peers[0].got > 100);
    let config = ReceiverSessionConfig { protocols: REGISTRY, overhears: true, ..receiver_config("late") };
    let late = world.join(ReceiverSession::new(config, Seeds::new(1).part("late")));
    world.run_until(world.now + Duration::from_secs(1), |_| false);
    let now = world.now;
    let session = &mut world.peers[late].session;
    assert!(std::iter::from_fn(|| session.poll_overheard()).count() > 0);
    let mut hears = |source, association| {
        let mut packet = Vec::new();
        let (sequence, payload) = (MESSAGES - 1, b"forged");
        Data { sequence, index: 0, length: 1, count: 0, payload }.emit(association, &mut packet);
        give_to(session, now, source, Dest::group(GROUP), &packet);
        session.poll_overheard().is_some()
    };
    assert!(!hears(NodeId(77), ASSOCIATION) && !hears(SENDER, NEXT));
    // As if the sender had sent it: then it would have been heard.
    assert!(hears(SENDER, ASSOCIATION));
}

#[test]
fn damaged_receiver_is_served_by_catch_up_session() {
    for further in [true, false] {
        let mut config = config(2, Slow::Lane);
        config.job.further = further;
        let mut world = World::new(sender_with(config), 300);
        for name in ["a", "b"] {
            world.join(receiver(name));
        }
        world.run_until(ms(5_000), |world| world.peers[1].got > 100);
        let now = world.now;
        world.peers[1].session.report_damaged(now, 7, "f differs".to_owned());
        world.run_until(ms(60_000), |world| world.sender.phase() == SenderPhase::Finished);
        let failed = MemberOutcome::Failed("f differs".to_owned());
        assert_eq!(outcomes(&world), [("a", &MemberOutcome::Verified), ("b", &failed)]);
        assert_eq!(world.phase(1), ReceiverPhase::Finished);
        assert_eq!(world.sender.wanting(), &if further { set(&["b"]) } else { BTreeSet::new() });
        if !further {
            continue;
        }
        let former = world.sender.earlier();
        follow(&mut world, &["b"], Some(&["b"]), former);
        let config = ReceiverSessionConfig {
            returning: Some(ReceiverFailure::Damaged("f differs".to_owned())),
            ..receiver_config("b")
        };
        world.join(ReceiverSession::new(config, Seeds::new(1).part("b")));
        let end = world.now + Duration::from_secs(60);
        world.run_until(end, |world| world.sender.phase() == SenderPhase::Finished);
        assert_eq!(outcomes(&world), [("b", &MemberOutcome::Verified)]);
    }
}

#[test]
fn straggler_is_set_aside_only_with_catch_up_session() {
    // A message each 300 ms, in which the others could have a hundred.
    for (slow, further, given_up) in [
        (Slow::Lane, true, true),
        (Slow::Lane, false, false),
        (Slow::Wait, true, false),
        (Slow::Drop, true, false),
    ] {
        let mut settings = config(3, slow);
        settings.job.further = further;
        let mut world = World::new(sender_with(settings), 1000);
        for name in ["a", "b", "c"] {
            world.join(receiver(name));
        }
        answers_each(&mut world, 3, Duration::from_millis(300));
        world.run_until(ms(10_000), |world| lost(world, "c").is_some());
        let reason = lost(&world, "c");
        assert_eq!(reason.is_some(), given_up, "{slow:?} {further}: {reason:?} at {}", world.now);
        if let Some(reason) = reason {
            assert!(reason.starts_with("kept most of the others waiting for"), "{reason}");
            assert!((ms(1500)..ms(3500)).contains(&world.now), "{}", world.now);
        }
    }
}

/// A session of `carillon` with these receivers, which another one follows.
fn of_carillon(names: &[&str], slow: Slow, messages: u64) -> World {
    of_carillon_with(names, slow, messages, &[])
}

fn of_carillon_with(names: &[&str], slow: Slow, messages: u64, set: &[(&str, &str)]) -> World {
    let carillon = find("carillon").expect("it is registered");
    let mut settings = config(names.len(), slow);
    (settings.config, settings.protocol) = (Config::defaults(carillon.parameters), carillon);
    for (key, value) in set {
        settings.config.set(carillon.parameters, key, value).expect("a setting");
    }
    let mut world = World::new(sender_with(settings), messages);
    for name in names {
        let config = ReceiverSessionConfig { protocols: REGISTRY, ..receiver_config(name) };
        world.join(ReceiverSession::new(config, Seeds::new(1).part(name)));
    }
    world
}

/// Reasons for which receivers of `carillon` were expelled: six that all lose 2 %, some of them behind a port that
/// passes one packet per millisecond.
fn behind_ports(slow: &[u32]) -> Vec<Option<String>> {
    let names = ["a", "b", "c", "d", "e", "f"];
    // Five times as fast as those ports.
    let mut world = of_carillon_with(&names, Slow::Lane, 10_000, &[("rate", "60 Mbit/s")]);
    world.seed(5, 0.02);
    world.ports = slow
        .iter()
        .map(|&node| (NodeId(node), Port { each: Duration::from_millis(1), room: 100, free: Time::ZERO }))
        .collect();
    world.run_until(ms(8_000), |world| world.sender.phase() == SenderPhase::Finished);
    names.map(|name| lost(&world, name)).into()
}

#[test]
fn silent_member_is_expelled_early_and_served_later() {
    let all = [
        (Slow::Lane, 1000, 750..1500),
        (Slow::Wait, 1000, 5000..5010),
        (Slow::Lane, 0, 750..1500),
        (Slow::Drop, 1000, 5000..5010),
    ];
    for (slow, had, long) in all.into_iter().take(if is_long_tier() { 4 } else { 1 }) {
        let mut world = of_carillon(&["a", "b", "c"], slow, 60_000);
        world.seed(5, 0.05);
        world.run_until(ms(8_000), |world| {
            world.phase(1) == ReceiverPhase::Running && world.peers[1].got >= had
        });
        let since = world.now;
        world.peers[1].dead = true;
        world.run_until(ms(20_000), |world| lost(world, "b").is_some());
        let reason = lost(&world, "b").expect("it is given up");
        assert!(reason.starts_with("silent for"), "{slow:?} {had}: {reason}");
        let after = world.now.since(since).as_millis();
        assert!(long.contains(&after), "{slow:?} {had}: {reason}, after {after} ms");
        if slow != Slow::Lane {
            continue;
        }
        // It had stood still, and the session goes on.
        world.pause = Some((100, world.now + Duration::from_secs(2)));
        world.peers[1].dead = false;
        let now = world.now;
        world.peers[1].session.handle_timeout(now);
        let end = world.now + Duration::from_millis(1500);
        world.run_until(end, |world| matches!(world.phase(1), ReceiverPhase::Failed(_)));
        assert_eq!((world.phase(1), world.sender.wanting()), (later(), &set(&["b"])), "{had}");
    }
}

#[test]
fn silence_is_detected_later_without_polls() {
    let mut world = world(&["a", "b", "c"], Slow::Lane, 100_000);
    world.run(ms(1000));
    world.peers[1].dead = true;
    world.run_until(ms(20_000), |world| lost(world, "b").is_some());
    let reason = lost(&world, "b").expect("it is given up");
    assert!(reason.starts_with("kept most of the others waiting for"), "{reason}");
}

#[test]
fn receivers_behind_slow_ports_are_set_aside_unless_all_are() {
    let slow = [&[3][..], &[1, 2, 3, 4, 5, 6], &[1, 2, 3, 4], &[]];
    for slow in slow.into_iter().take(if is_long_tier() { 4 } else { 1 }) {
        let set_aside = if slow.len() < 6 { slow } else { &[] };
        let reasons = behind_ports(slow);
        let is_right =
            |(at, reason): (usize, &Option<String>)| reason.is_some() == set_aside.contains(&(at as u32 + 1));
        assert!(reasons.iter().enumerate().all(is_right), "{slow:?}: {reasons:?}");
        // A trial shows it before they keep the others waiting.
        assert!(reasons.iter().flatten().all(|reason| reason.starts_with("took ")), "{slow:?}: {reasons:?}");
    }
}

#[test]
fn where_most_are_slow_alike_nobody_is_given_up_for_it() {
    let mut world = world(&["a", "b", "c"], Slow::Lane, 1000);
    let mut last = [ms(500); 4];
    world.lose = Box::new(move |now, source, _, bytes| {
        let Some(last) = last.get_mut(source.index()).filter(|_| source.0 >= 2) else { return false };
        if now < ms(500) || super::kind(bytes).is_some() {
            return false;
        }
        let lost = now.since(*last) < Duration::from_millis(300);
        *last = if lost { *last } else { now };
        lost
    });
    world.run(ms(10_000));
    assert_eq!((lost(&world, "b"), lost(&world, "c")), (None, None));
}

#[test]
fn who_is_heard_again_is_told_whether_it_is_served() {
    for (slow, phase, wanting) in [
        (Slow::Lane, later(), set(&["b"])),
        (Slow::Drop, ReceiverPhase::Failed(ReceiverFailure::Expelled), set(&[])),
    ] {
        let mut world = world(&["a", "b", "c"], slow, 100_000);
        world.run(ms(1000));
        world.peers[1].dead = true;
        world.run_until(ms(20_000), |world| lost(world, "b").is_some());
        let missed: Vec<String> = world.sender.missed().map(|(name, ..)| name.to_owned()).collect();
        assert_eq!(missed, ["b"]);
        // It stands still for so long that its timers tell.
        let end = world.now.max(ms(8000));
        world.run(end);
        world.peers[1].dead = false;
        let now = world.now;
        world.peers[1].session.handle_timeout(now);
        let end = world.now + Duration::from_secs(2);
        world.run_until(end, |world| world.phase(1) == phase);
        assert_eq!(world.phase(1), phase, "{slow:?}");
        assert_eq!(world.sender.wanting(), &wanting);
    }
}

#[test]
fn one_that_got_nothing_is_not_missed() {
    let mut world = world(&["a", "b"], Slow::Lane, 1000);
    // What the session says arrives, and nothing of the protocol.
    world.lose = Box::new(|_, _, to, bytes| to.0 == 2 && super::kind(bytes).is_none());
    world.run_until(ms(20_000), |world| lost(world, "b").is_some());
    assert_eq!(world.sender.missed().count(), 0);
    world.run_until(ms(60_000), |world| world.sender.phase() == SenderPhase::Finished);
    assert!(world.sender.wanting().is_empty());
}

#[test]
fn a_receiver_that_was_not_running_gives_nobody_up_for_it() {
    let mut world = world(&["a", "b"], Slow::Wait, 100_000);
    world.run(ms(1000));
    world.peers[1].dead = true;
    // Longer than it waits for a sender that is silent, and shorter than the sender waits for it.
    world.run(ms(5900));
    let asleep = world.now + Duration::from_secs(4);
    let outbox = wake(&mut world.peers[1].session, asleep);
    assert_eq!(world.peers[1].session.phase(), ReceiverPhase::Running, "{:?}", outbox.events);
    // This was the pause. A member that is silent from now on is expelled.
    let outbox = wake(&mut world.peers[1].session, asleep + Duration::from_millis(5500));
    let silent = ReceiverPhase::Failed(ReceiverFailure::SenderSilent);
    assert_eq!(world.peers[1].session.phase(), silent, "{:?}", outbox.events);
}

#[test]
fn one_that_had_everything_reports_to_the_session_that_follows() {
    let mut world = world(&["a", "b", "c"], Slow::Lane, 300);
    // Nothing of it arrives from some time on, and it gets everything.
    // Nor does it hear that the session is over: it would not report then.
    let is_farewell = |bytes: &[u8]| {
        Packet::parse(bytes).is_ok_and(
            |packet| matches!(packet.body, Body::Invite(invite) if invite.state == State::Finished),
        )
    };
    world.lose = Box::new(move |now, source, to, bytes| {
        (source.0 == 2 && (ms(300)..ms(4_000)).contains(&now)) || (to.0 == 2 && is_farewell(bytes))
    });
    world.run_until(ms(60_000), |world| world.sender.phase() == SenderPhase::Finished);
    assert!(lost(&world, "b").is_some());
    world.peers[1].got = world.total;
    let now = world.now;
    world.peers[1].session.report(now, world.total * 10, Ok(()));
    let former = world.sender.earlier();
    follow(&mut world, &["b"], None, former);
    world.run_until(ms(15_000), |world| world.sender.reported_since().count() > 0);
    assert_eq!(world.sender.reported_since().map(|(name, _)| name).collect::<Vec<_>>(), ["b"]);
    let end = world.now + Duration::from_millis(100);
    world.run(end);
    assert!(
        world.log.iter().any(|line| line.contains(" n0 ") && line.contains("report ack")),
        "{:#?}",
        world.log
    );
}

/// To the next session, in this name.
fn next_invitation(name: &str) -> Vec<u8> {
    let invite = Invite {
        state: State::Gathering,
        protocol: Name::new("repeat").expect("a name"),
        sender: Name::new(name).expect("a name"),
        reason: Text::default(),
        max_payload: 100,
        settings: Settings::default(),
        progress_interval: 0,
        relays: false,
        sizes: DatagramSizes::default(),
        job: None,
        asks: false,
        job_name: None,
    };
    let mut bytes = Vec::new();
    Packet { association: NEXT, body: Body::Invite(invite) }.emit(&mut bytes);
    bytes
}

#[test]
fn new_invitation_ends_session_only_after_silence() {
    let mut world = world(&["a", "b"], Slow::Wait, 100_000);
    world.run(ms(1000));
    let bytes = next_invitation("source");
    for _ in 0..20 {
        world.inject(SENDER, NodeId(2), &bytes);
        let end = world.now + Duration::from_millis(100);
        world.run(end);
        assert_eq!(world.phase(1), ReceiverPhase::Running);
    }
    world.sender_dead = true;
    let end = world.now + Duration::from_millis(1500);
    world.run(end);
    world.inject(SENDER, NodeId(2), &bytes);
    let end = world.now + Duration::from_millis(10);
    world.run(end);
    assert_eq!(world.phase(1), later());
}

/// The sender and node 8 are processes of one host, node 9 is elsewhere.
#[derive(Debug)]
struct OneHost;

impl AddressBook for OneHost {
    fn of_node(&self, node: NodeId) -> Option<IpAddr> {
        Some(NumberedAddresses::node(if node == NodeId(8) { SENDER } else { node }).into())
    }

    fn node_at(&self, _: IpAddr) -> Option<NodeId> {
        None
    }

    fn of_group(&self, group: GroupId) -> IpAddr {
        NumberedAddresses::group(group).into()
    }
}

/// A restarted sender has another port. Two senders of one name may be active at once, and then neither may disturb
/// the other.
#[test]
fn restarted_sender_is_followed_once_old_one_is_gone() {
    // Inviting nodes with their names, the time in tenths of a second from which the sender is dead, and the time
    // until which it is not received though it lives.
    for (node, name, dead, deaf, follows) in [
        (8, "source", 10, 0, Some(30..=33)),
        (8, "source", 99, 0, None),
        (8, "other", 10, 0, None),
        (9, "source", 10, 0, None),
        // For a while nothing at all was heard.
        (8, "source", 99, 35, None),
        // Twice for so long that one may doubt.
        (8, "source", 99, 1, None),
    ] {
        let mut config = sender_config(Gather::Count(1));
        config.member_timeout = Duration::from_secs(60);
        config.config.set(config.protocol.parameters, "limit", "1000000").expect("a setting");
        let mut world = World::new(sender_with(config), 100_000);
        let mut config = receiver_config("a");
        config.network.addresses = Addresses::new(OneHost);
        world.join(ReceiverSession::new(config, Seeds::new(1).part("a")));
        let bytes = next_invitation(name);
        world.lose = Box::new(move |now, _, _, _| match deaf {
            1 => [500..2000, 2100..3800].iter().any(|gone| ms(gone.start) < now && now < ms(gone.end)),
            _ => now > ms(500) && now < ms(deaf * 100),
        });
        let mut left = None;
        for tenth in 0..45u64 {
            world.run(ms(tenth * 100));
            world.sender_dead |= tenth >= dead;
            if tenth >= 5 && tenth % 2 == 0 && tenth >= deaf {
                world.inject(NodeId(node), NodeId(1), &bytes);
            }
            if left.is_none() && world.phase(0) == later() {
                left = Some(tenth);
            }
        }
        let as_wished = match (&left, &follows) {
            (Some(left), Some(follows)) => follows.contains(left),
            (None, None) => true,
            _ => false,
        };
        assert!(as_wished, "{node} {name} {dead} {deaf}: {left:?}, {:?}", world.phase(0));
    }
}

#[test]
fn one_that_may_return_fails_as_it_did_unless_it_is_invited() {
    let returning = |name: &str| {
        let mut config = receiver_config(name);
        config.returning = Some(ReceiverFailure::Expelled);
        ReceiverSession::new(config, Seeds::new(1).part(name))
    };
    let mut world = World::new(sender_with(config(1, Slow::Lane)), 10);
    world.sender_dead = true;
    let mut session = returning("b");
    session.start(world.now);
    let peer = world.join(session);
    world.run(ms(4900));
    assert_eq!(world.phase(peer), ReceiverPhase::Seeking);
    world.run(ms(5100));
    assert_eq!(world.phase(peer), ReceiverPhase::Failed(ReceiverFailure::Expelled));

    let mut world = World::new(sender_with(config(1, Slow::Lane)), 10);
    let mut session = returning("b");
    session.start(world.now);
    world.join(session);
    world.run_until(ms(20_000), |world| world.sender.phase() == SenderPhase::Finished);
    assert_eq!(outcomes(&world), [("b", &MemberOutcome::Verified)]);
}
