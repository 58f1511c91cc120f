//! Slow members, however many, and fast ones: a receiver that could have everything has it within three times the time that
//! it needs alone, and some seconds.

use carillon_core::{AssociationId, Config, Duration, Machine as _, NodeId, Seeds, Time};
use carillon_proto::{REGISTRY, find};
use carillon_session::{
    EarlierSessions, Gather, JobConfig, MemberOutcome, ReceiverFailure, ReceiverPhase, ReceiverSession,
    ReceiverSessionConfig, RefuseReason, SenderPhase, SenderSession, SenderSessionConfig, Slow,
};
use carillon_testkit::is_long_tier;
use carillon_wire::carillon::{IncompleteBlocks, Packet, Status};

use super::harness::*;
use super::outcomes;

const MESSAGES: u64 = 4_000;
/// Interval at which the port of an honest receiver passes a packet.
const PORT: Duration = Duration::from_millis(1);
/// Messages that a receiver has room for.
const ROOM: u32 = 1000;
/// Time that an honest receiver needs alone.
const ALONE: Duration = Duration::from_millis(5_200);
/// Time in which members are set aside and others gathered anew.
const ALLOWANCE: Duration = Duration::from_secs(6);

/// Kinds of members.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// Behind a port that carries 1000 packets a second.
    Honest,
    /// Behind a port that carries ten packets a second.
    Slow,
    /// Says that this many packets arrive in a second.
    Acknowledges(u32),
    /// Answers this many questions in a second.
    Answers(u32),
    /// Slow in two of three seconds.
    Alternates(u32),
    /// Receives without a limit.
    Fast,
}

fn settings(association: AssociationId, gather: Gather, slow: Slow) -> SenderSessionConfig {
    let carillon = find("carillon").expect("it is registered");
    let mut settings = sender_config(gather);
    (settings.config, settings.protocol) = (Config::defaults(carillon.parameters), carillon);
    (settings.association, settings.max_payload, settings.slow) = (association, 1400, slow);
    (settings.job.further, settings.job.lanes) = (false, slow == Slow::Lane);
    settings
}

fn invited(name: &str, returning: Option<ReceiverFailure>) -> ReceiverSession {
    let receive_buffer = 1400 * ROOM;
    let config =
        ReceiverSessionConfig { protocols: REGISTRY, returning, receive_buffer, ..receiver_config(name) };
    ReceiverSession::new(config, Seeds::new(1).part(name))
}

/// Members of these kinds; each is named by its place.
fn world(kinds: &[Kind], slow: Slow) -> World {
    let session = settings(ASSOCIATION, Gather::Count(kinds.len()), slow);
    let mut world = World::new(sender_with(session), MESSAGES);
    for (index, kind) in kinds.iter().enumerate() {
        world.join(invited(&index.to_string(), None));
        let (each, room) = match kind {
            Kind::Honest => (PORT, 200),
            Kind::Slow => (Duration::from_millis(100), 20),
            Kind::Acknowledges(_) | Kind::Answers(_) | Kind::Alternates(_) | Kind::Fast => continue,
        };
        world.ports.insert(NodeId(index as u32 + 1), Port { each, room, free: Time::ZERO });
    }
    let mut answers: Vec<Option<Duration>> = Vec::new();
    answers.extend(kinds.iter().map(|kind| match kind {
        Kind::Answers(rate) => Some(Duration::from_secs(1) / *rate),
        _ => None,
    }));
    let mut answered = vec![ms(300); kinds.len()];
    world.lose = Box::new(move |now, from, _, bytes| {
        let Some(index) = from.index().checked_sub(1) else { return false };
        let is_status = matches!(Packet::parse(bytes), Ok((_, Packet::Status { .. })));
        let Some(each) = answers[index].filter(|_| is_status && now > ms(300)) else { return false };
        let is_lost = now.since(answered[index]) < each;
        answered[index] = if is_lost { answered[index] } else { now };
        is_lost
    });
    let kinds = kinds.to_vec();
    let mut claimed = vec![(0u32, 0u32, Time::ZERO); kinds.len()];
    world.alter = Some(Box::new(move |now, from, bytes| {
        let index = from.index().checked_sub(1)?;
        let (rate, is_slow) = match kinds[index] {
            Kind::Acknowledges(rate) => (rate, true),
            Kind::Alternates(rate) => (rate, now.as_nanos() / 1_000_000_000 % 3 < 2),
            Kind::Honest | Kind::Slow | Kind::Fast | Kind::Answers(_) => return None,
        };
        let Ok((association, Packet::Status { status, .. })) = Packet::parse(bytes) else { return None };
        let (expected, arrived, at) = &mut claimed[index];
        if status.arrived < *arrived {
            // Another session.
            (*expected, *arrived) = (0, 0);
        }
        let more = (now.since(*at).as_millis() as u32 * rate) / 1000;
        if is_slow && more == 0 {
            (*expected, *arrived) = (status.expected.min(*expected), status.arrived.min(*arrived));
        } else if is_slow {
            *at = now;
            (*expected, *arrived) =
                (status.expected.min(*expected + more), status.arrived.min(*arrived + more));
        } else {
            (*expected, *arrived) = (status.expected, status.arrived);
        }
        let status = Status { expected: *expected, arrived: *arrived, ..status };
        let mut altered = Vec::new();
        Packet::Status { status, lacking: IncompleteBlocks::new(&[], 0) }.emit(association, &mut altered);
        Some(altered)
    }));
    world
}

/// Runs sessions until all honest and fast receivers have everything: the time that they needed, and the sessions.
fn served(kinds: &[Kind], slow: Slow, limit: Duration) -> Option<(Duration, u32)> {
    let mut world = world(kinds, slow);
    let good: Vec<usize> =
        (0..kinds.len()).filter(|&index| matches!(kinds[index], Kind::Honest | Kind::Fast)).collect();
    let (mut sessions, mut verified) = (1, vec![false; kinds.len()]);
    while world.now < Time::ZERO + limit {
        let until = (world.now + Duration::from_millis(100)).min(Time::ZERO + limit);
        world.run_until(until, |world| world.sender.phase() == SenderPhase::Finished);
        for (name, outcome) in outcomes(&world) {
            let index: usize = name.parse().expect("a number");
            verified[index] |= *outcome == MemberOutcome::Verified;
        }
        wait_again(&mut world);
        if good.iter().all(|&index| verified[index]) {
            return Some((world.now.since(Time::ZERO), sessions));
        }
        if world.sender.phase() == SenderPhase::Finished {
            // Time for all members to learn their outcome.
            world.run(world.now + Duration::from_millis(300));
            let wanting = world.sender.wanting();
            assert!(wanting.is_empty() || world.sender.wants_only_aside(), "{wanting:?}");
            follow(&mut world, sessions, slow);
            sessions += 1;
        }
    }
    None
}

/// Starts the next session, for the members that were set aside.
fn follow(world: &mut World, number: u32, slow: Slow) {
    let left = world.peers.iter().enumerate().filter(|(_, peer)| peer.got < MESSAGES);
    let awaited = left.map(|(index, _)| index.to_string()).collect();
    let gather = Gather::Again { awaited, only: None, settle: Duration::from_secs(1) };
    let config = settings(AssociationId(100 + number), gather, slow);
    let job = JobConfig { earlier: EarlierSessions::default(), ..config.job };
    let config = SenderSessionConfig { job, ..config };
    let seeds = Seeds::new(u64::from(number)).node(SENDER);
    let mut session = SenderSession::new(config, seeds).expect("the settings are good");
    session.start(world.now);
    // It goes on where the last of them is.
    let goes_on = |peer: &&mut Peer| peer.got < MESSAGES;
    let had = world.peers.iter_mut().filter(goes_on).map(|peer| peer.got).min().unwrap_or_default();
    world.peers.iter_mut().filter(goes_on).for_each(|peer| peer.got = had);
    (world.sender, world.messages) = (session, world.total - had);
}

/// Receivers that a session has set aside wait for the next one.
fn wait_again(world: &mut World) {
    for (index, peer) in world.peers.iter_mut().enumerate() {
        if let ReceiverPhase::Failed(failure) = peer.session.phase() {
            let later = failure == ReceiverFailure::Refused(RefuseReason::Later, String::new());
            peer.session = invited(&index.to_string(), Some(failure).filter(|_| later));
            peer.session.start(world.now);
        }
    }
}

fn mixed(slow: usize, kind: Kind, honest: usize) -> Vec<Kind> {
    [vec![kind; slow], vec![Kind::Honest; honest]].concat()
}

#[track_caller]
fn is_in_time(kinds: &[Kind], allowance: Duration) {
    let limit = ALONE * 3 + allowance;
    let took = served(kinds, Slow::Lane, limit);
    assert!(took.is_some(), "{kinds:?}: not within {limit:?}");
}

#[test]
fn a_receiver_alone_needs_the_time_of_its_port() {
    let (took, _) = served(&[Kind::Honest], Slow::Lane, ALONE).expect("it is served");
    assert!(took >= PORT * MESSAGES as u32, "{took:?}");
}

#[test]
fn slow_members_of_any_number_do_not_hold_the_others() {
    let ratios = [(2, 1), (4, 3), (10, 1), (3, 1), (3, 2), (1, 1), (2, 3)];
    for (slow, honest) in ratios.into_iter().take(if is_long_tier() { 7 } else { 3 }) {
        is_in_time(&mixed(slow, Kind::Slow, honest), ALLOWANCE);
    }
    is_in_time(&mixed(2, Kind::Answers(3), 1), ALLOWANCE);
    is_in_time(&mixed(2, Kind::Acknowledges(3), 1), ALLOWANCE);
    is_in_time(&mixed(2, Kind::Acknowledges(100), 1), ALLOWANCE);
}

#[test]
fn members_that_are_slow_now_and_then_do_not_hold_the_others() {
    is_in_time(&mixed(2, Kind::Alternates(3), 1), ALLOWANCE * 2);
}

#[test]
fn fast_members_do_not_keep_honest_ones_from_being_served() {
    for fast in [1, 3] {
        is_in_time(&mixed(fast, Kind::Fast, 2), ALLOWANCE);
    }
}

#[test]
fn honest_ones_among_fast_and_slow_members_are_served() {
    let kinds = [mixed(3, Kind::Slow, 2), vec![Kind::Fast]].concat();
    is_in_time(&kinds, ALLOWANCE * 2);
}

#[test]
fn members_of_equal_speed_stay_in_one_session() {
    let (_, sessions) = served(&[Kind::Honest; 5], Slow::Lane, ALONE * 2).expect("all are served");
    assert_eq!(sessions, 1);
}

#[test]
fn slow_members_are_waited_for_if_that_is_asked_for() {
    let took = served(&mixed(2, Kind::Slow, 1), Slow::Wait, ALONE * 3 + ALLOWANCE);
    assert_eq!(took, None);
}
