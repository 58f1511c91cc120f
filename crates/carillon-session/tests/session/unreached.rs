//! Members that long datagrams do not reach while the session runs: shrunk paths and forged sizes.

use std::collections::BTreeSet;

use carillon_core::{AssociationId, Config, Duration, Machine as _, NodeId, Seeds, Time};
use carillon_proto::{REGISTRY, find};
use carillon_session::{
    Gather, MemberOutcome, ReceiverFailure, ReceiverPhase, ReceiverSession, ReceiverSessionConfig,
    RefuseReason, SenderPhase, SenderSession, SenderSessionConfig, Shortened, Slow,
};
use carillon_testkit::is_long_tier;
use carillon_wire::carillon;
use carillon_wire::session::Body;

use super::harness::*;
use super::{kind, outcomes};

const MESSAGES: u64 = 4_000;
/// Size of datagrams that reach everybody.
const FALLBACK: u16 = 1252;
const NEXT: AssociationId = AssociationId(8);
/// A packet passes the port of each receiver in this time.
const PORT: Duration = Duration::from_millis(1);

fn settings(protocol: &str, gather: Gather, slow: Slow, fallback: Option<u16>) -> SenderSessionConfig {
    let protocol = find(protocol).expect("it is registered");
    let mut settings = sender_config(gather);
    (settings.config, settings.protocol) = (Config::defaults(protocol.parameters), protocol);
    protocol.settings.delivery.iter().for_each(|(key, value)| {
        settings.config.set(protocol.parameters, key, value).expect("a setting");
    });
    (settings.max_payload, settings.slow, settings.fallback) = (1400, slow, fallback);
    (settings.job.further, settings.job.lanes) = (true, true);
    settings
}

fn invited(name: &str, returning: Option<ReceiverFailure>) -> ReceiverSession {
    let receive_buffer = 1400 * 1000;
    let config =
        ReceiverSessionConfig { protocols: REGISTRY, returning, receive_buffer, ..receiver_config(name) };
    ReceiverSession::new(config, Seeds::new(1).part(name))
}

/// A session of this protocol with receivers `a`, `b`, …
fn world(config: SenderSessionConfig, receivers: usize) -> World {
    let mut world = World::new(sender_with(config), MESSAGES);
    for (name, node) in ["a", "b", "c"].into_iter().take(receivers).zip(1..) {
        world.join(invited(name, None));
        world.ports.insert(NodeId(node), Port { each: PORT, room: 200, free: Time::ZERO });
    }
    world
}

/// True for data packets of the first session: the next one sends shorter datagrams.
fn is_long(bytes: &[u8]) -> bool {
    matches!(
        carillon::Packet::parse(bytes),
        Ok((
            ASSOCIATION,
            carillon::Packet::Data { .. } | carillon::Packet::Repair { .. } | carillon::Packet::Xor { .. }
        ))
    )
}

/// Lets long datagrams miss these nodes from this time on.
fn shrink(world: &mut World, from: Time, nodes: &'static [u32]) {
    world.lose = Box::new(move |now, _, to, bytes| now >= from && nodes.contains(&to.0) && is_long(bytes));
}

fn wanting(world: &World) -> Vec<&str> {
    world.sender.wanting().iter().map(String::as_str).collect()
}

/// The next session of the job, as a host makes it.
fn follow(world: &mut World) {
    let awaited: BTreeSet<String> = world.sender.wanting().clone();
    let gather = Gather::Again { awaited, only: None, settle: Duration::from_secs(1) };
    let shorter = world.sender.falls_back().expect("it falls back");
    let config = SenderSessionConfig {
        association: NEXT,
        max_payload: u32::from(shorter.datagram) - 35,
        sizes: vec![shorter.datagram],
        ..settings("carillon", gather, Slow::Lane, None)
    };
    let mut session = SenderSession::new(config, Seeds::new(2).node(SENDER)).expect("the settings are good");
    session.start(world.now);
    for peer in &mut world.peers {
        if let ReceiverPhase::Failed(failure) = peer.session.phase() {
            assert_eq!(failure, ReceiverFailure::Refused(RefuseReason::Later, String::new()));
            peer.session = invited("b", Some(failure));
            peer.session.start(world.now);
            peer.got = 0;
        }
    }
    (world.sender, world.messages) = (session, world.total);
}

#[test]
fn unreached_member_is_served_with_shorter_datagrams() {
    // From the start, as after a forged SIZE, and in the middle.
    for (from, slow) in [(0, Slow::Lane), (1_000, Slow::Lane), (1_000, Slow::Wait), (1_000, Slow::Drop)] {
        let mut world = world(settings("carillon", Gather::Count(2), slow, Some(FALLBACK)), 2);
        shrink(&mut world, ms(from), &[2]);
        world.run_until(ms(60_000), |world| lost(world, "b").is_some());
        let reason = lost(&world, "b").expect("it is set aside");
        assert!(reason.starts_with("received none of ") && reason.ends_with(", but answers"), "{reason}");
        let took = world.now.since(ms(from));
        assert!(took < Duration::from_millis(1_200), "{from} {slow:?}: {took:?}");
        world.run_until(ms(60_000), |world| world.sender.phase() == SenderPhase::Finished);
        assert_eq!(outcomes(&world)[0], ("a", &MemberOutcome::Verified), "{from} {slow:?}");
        assert_eq!((wanting(&world), world.sender.wants_only_aside()), (vec!["b"], true));
        let shorter = Shortened { datagram: FALLBACK, member: "b".to_owned() };
        assert_eq!(world.sender.falls_back(), Some(shorter));
        world.run(world.now + Duration::from_millis(100));
        let start = world.now;
        follow(&mut world);
        world.run_until(ms(60_000), |world| world.sender.phase() == SenderPhase::Finished);
        assert_eq!(outcomes(&world), [("b", &MemberOutcome::Verified)], "{from} {slow:?}");
        assert!(world.now.since(start) < Duration::from_secs(7), "{:?}", world.now.since(start));
    }
}

#[test]
fn a_session_that_reaches_nobody_ends_and_another_serves_all() {
    let mut world = world(settings("carillon", Gather::Count(2), Slow::Lane, Some(FALLBACK)), 2);
    shrink(&mut world, ms(0), &[1, 2]);
    world.run_until(ms(60_000), |world| world.sender.phase() == SenderPhase::Finished);
    assert!(world.now < ms(1_500), "{}", world.now);
    assert_eq!((wanting(&world), world.sender.unreached().collect()), (vec!["a", "b"], vec!["a", "b"]));
    // The members are notified before the session is over.
    let refusals = world.log.iter().filter(|line| line.contains(" refuse ")).count();
    assert_eq!(refusals, 2, "{:#?}", world.log);
}

#[test]
fn unreached_member_is_expelled_without_shorter_datagrams() {
    // Whoever says how long datagrams are to be, and where they are as short as they can be.
    let shortest = 1400 + 35;
    for fallback in [None, Some(shortest)] {
        let config = settings("carillon", Gather::Count(1), Slow::Lane, fallback);
        let mut world = world(config, 1);
        shrink(&mut world, ms(0), &[1]);
        world.run_until(ms(60_000), |world| world.sender.phase() == SenderPhase::Finished);
        let reason = lost(&world, "a").expect("it is given up");
        let lost = reason.strip_prefix("acknowledged nothing for 5 s: received none of ");
        assert!(
            lost.is_some_and(|lost| lost.ends_with(" packets of up to 1435 bytes, but answers")),
            "{reason}"
        );
        assert_eq!((wanting(&world), world.sender.falls_back()), (vec![], None));
    }
}

/// A protocol that does not count what arrives: a member that is heard and acknowledges nothing.
#[test]
fn without_measured_paths_it_takes_a_member_timeout() {
    for (slow, seconds) in [(Slow::Lane, 5), (Slow::Wait, 20)] {
        let mut world = world(settings("mbap", Gather::Count(1), slow, Some(FALLBACK)), 1);
        world.lose = Box::new(|_, from, _, bytes| from == SENDER && kind(bytes).is_none());
        world.run_until(ms(100_000), |world| world.sender.phase() == SenderPhase::Finished);
        let late = world.now.since(ms(seconds * 1000));
        assert!(late < Duration::from_secs(2), "{slow:?}: {}", world.now);
        assert!(lost(&world, "a").is_some_and(|reason| reason.ends_with("but is heard")));
        assert_eq!(wanting(&world), ["a"]);
    }
}

#[test]
fn lossy_and_slow_members_are_not_taken_for_unreached() {
    for (seed, loss) in (1..=if is_long_tier() { 12 } else { 2 }).flat_map(|seed| [(seed, 0.2), (seed, 0.5)])
    {
        let mut world = world(settings("carillon", Gather::Count(3), Slow::Wait, Some(FALLBACK)), 3);
        world.total = 1_000;
        world.messages = 1_000;
        world.ports.insert(NodeId(2), Port { each: PORT * 20, room: 5, free: Time::ZERO });
        world.seed(seed, loss);
        world.run_until(ms(30_000), |world| world.sender.phase() == SenderPhase::Finished);
        assert_eq!(world.sender.unreached().count(), 0, "{seed} {loss}: {:?}", outcomes(&world));
    }
}

#[test]
fn a_member_that_misses_the_refusal_is_served_all_the_same() {
    let mut world = world(settings("carillon", Gather::Count(1), Slow::Lane, Some(FALLBACK)), 1);
    shrink(&mut world, ms(0), &[1]);
    world.lose =
        Box::new(|_, _, _, bytes| is_long(bytes) || matches!(kind(bytes), Some(Body::Refuse { .. })));
    world.run_until(ms(60_000), |world| world.sender.phase() == SenderPhase::Finished);
    assert_eq!(wanting(&world), ["a"]);
}
