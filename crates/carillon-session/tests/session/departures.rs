//! Two of five members leave a session of a protocol that agrees on membership: more than its resilience. The members
//! that stay are not disturbed.

use carillon_core::{Duration, Event, NodeId, ProtocolEntry, Seeds, Sender as _};
use carillon_proto::find;
use carillon_session::{
    Gather, MemberOutcome, MemberRole, ReceiverFailure, ReceiverPhase, ReceiverSession,
    ReceiverSessionConfig, SenderPhase, SenderSessionConfig,
};
use carillon_testkit::is_long_tier;

use super::harness::*;

const NAMES: [&str; 2] = ["chang-maxemchuk", "sequencer"];
const MEMBERS: [&str; 4] = ["two", "alice", "bob", "carol"];
const MESSAGES: u64 = 60;

/// The organiser and one more offer messages, three only receive. A resilience of 1. All were given the same seed: what
/// they draw at random, not to speak at once, differs all the same.
fn group(name: &str) -> World {
    let entry = find(name).unwrap();
    let mut config = SenderSessionConfig {
        gather: Gather::Count(4),
        ..SenderSessionConfig::new(ASSOCIATION, "source", GROUP, entry, 100)
    };
    config.config.set(entry.parameters, "resilience", "1").unwrap();
    config.config.set(entry.parameters, "window", "4").unwrap();
    let mut world = World::new(sender_with(config), MESSAGES);
    let protocols: &'static [&'static ProtocolEntry] = Box::leak(Box::new([entry]));
    for name in MEMBERS {
        let offers = name == "two";
        let config = ReceiverSessionConfig {
            part: if offers { MemberRole::Offers } else { MemberRole::Receives },
            ..ReceiverSessionConfig::new(name, GROUP, protocols)
        };
        let peer = world.join(ReceiverSession::new(config, Seeds::new(1)));
        world.peers[peer].offers = if offers { MESSAGES } else { 0 };
    }
    world
}

/// Runs until so long after the session has begun to run.
fn run_for(world: &mut World, span: u64) {
    world.run_until(ms(1000), |world| world.sender.phase() == SenderPhase::Running);
    assert_eq!(world.sender.phase(), SenderPhase::Running);
    world.run_until(world.now + Duration::from_millis(span), |_| false);
}

fn leave(world: &mut World, peers: &[usize]) {
    for &peer in peers {
        let now = world.now;
        world.peers[peer].session.leave(now, "no time");
    }
}

fn over(world: &World) -> bool {
    let ended =
        |peer: &Peer| matches!(peer.session.phase(), ReceiverPhase::Finished | ReceiverPhase::Failed(_));
    world.sender.is_finished() && world.peers.iter().all(ended)
}

fn outcome(world: &World, peer: usize) -> &MemberOutcome {
    let member = world.sender.members().iter().find(|member| member.name == MEMBERS[peer]);
    &member.expect("it is a member").outcome
}

/// Returns true if this member has everything that the organiser has. A sender may not have waited for the last
/// messages of the others: the organiser and the first member.
fn agrees(world: &World, peer: usize) -> bool {
    let (organiser, order) = (&world.sender_order, &world.peers[peer].order);
    let of_source = |order: &[String]| order.iter().filter(|text| text.starts_with("source")).count() as u64;
    // The last messages of a sender that has left are not awaited here.
    let rest = organiser.get(order.len()..).unwrap_or_default();
    let only_of_two = rest.iter().all(|text| text.starts_with("two"));
    let same = order.starts_with(organiser) || (organiser.starts_with(order) && (peer == 0 || only_of_two));
    same && of_source(organiser) == MESSAGES
}

fn no_quorum(events: &[Event]) -> usize {
    events.iter().filter(|event| matches!(event, Event::Note(note) if note.name == "no_quorum")).count()
}

/// The organiser and the others have everything of the members that stay, in one order, whichever members leave.
#[test]
fn two_of_five_leave_at_once_and_the_others_finish() {
    for name in NAMES {
        for at in (0..80).step_by(if is_long_tier() { 4 } else { 28 }) {
            for gone in [[0, 1], [1, 2], [2, 3], [0, 3]] {
                let mut world = group(name);
                run_for(&mut world, at);
                leave(&mut world, &gone);
                world.run_until(ms(60_000), over);
                let end = format!("{name}, {gone:?} at {at} ms: {:?} at {}", world.sender.phase(), world.now);
                assert_eq!(world.sender.phase(), SenderPhase::Finished, "{end}");
                // A member that is silent without a word would have been waited for that long.
                assert!(world.now < ms(5000), "{end}");
                for peer in 0..4 {
                    match gone.contains(&peer) {
                        // It may have had everything already.
                        true => assert!(
                            matches!(
                                outcome(&world, peer),
                                MemberOutcome::Failed(_) | MemberOutcome::Verified
                            ),
                            "{end}"
                        ),
                        false => {
                            assert_eq!(*outcome(&world, peer), MemberOutcome::Verified, "{end}");
                            assert!(
                                agrees(&world, peer),
                                "{end} {:?} {:?}",
                                world.sender_order,
                                world.peers[peer].order
                            );
                            let of_two =
                                world.peers[peer].order.iter().filter(|text| text.starts_with("two"));
                            assert!(gone.contains(&0) || of_two.count() as u64 == MESSAGES, "{end}");
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn with_losses_too() {
    for name in NAMES {
        for seed in 0..if is_long_tier() { 20 } else { 6 } {
            let mut world = group(name);
            world.seed(seed, 0.1);
            world.run_until(ms(60_000), |world| world.sender_order.len() > 20);
            let pair = [[0, 1], [1, 2], [2, 3], [0, 3]][seed as usize % 4];
            leave(&mut world, &pair);
            world.run_until(ms(120_000), over);
            assert_eq!(world.sender.phase(), SenderPhase::Finished, "{name}, seed {seed}");
            for peer in (0..4).filter(|peer| !pair.contains(peer)) {
                assert!(agrees(&world, peer), "{name}, seed {seed}");
            }
        }
    }
}

/// Three of five leave: the remaining members report that they are too few, and the organiser aborts.
#[test]
fn when_too_few_are_left_they_say_so_and_the_session_ends() {
    for name in NAMES {
        let mut world = group(name);
        run_for(&mut world, 20);
        leave(&mut world, &[1, 2, 3]);
        world.run_until(ms(50_000), |_| false);
        assert!(no_quorum(&world.sender_events) + no_quorum(&world.peers[0].events) > 3, "{name}");
        world.run_until(ms(200_000), over);
        assert_eq!(world.sender.phase(), SenderPhase::Aborted, "{name}");
        let reason = world.sender.failure().unwrap_or_default();
        assert!(reason.contains("too few members may be left"), "{name}: {reason}");
        assert!(world.now < ms(125_000), "{name}: {}", world.now);
        let phase = world.phase(0);
        assert!(matches!(phase, ReceiverPhase::Failed(ReceiverFailure::Aborted(_))), "{name}: {phase:?}");
    }
}

/// A member that the organiser no longer receives, though the others do, is not admitted again.
#[test]
fn one_that_is_given_up_though_it_lives_stays_out() {
    for name in NAMES {
        let mut world = group(name);
        world.pause = Some((10, ms(20_000)));
        run_for(&mut world, 20);
        world.lose = Box::new(|_, from, to, _| from == NodeId(3) && to == SENDER);
        world.run_until(ms(60_000), over);
        assert_eq!(world.sender.phase(), SenderPhase::Finished, "{name}");
        assert!(matches!(outcome(&world, 2), MemberOutcome::Lost(_)), "{name}");
        for peer in [0, 1, 3] {
            assert!(agrees(&world, peer), "{name}");
        }
        assert!(world.now < ms(20_000) + Duration::from_secs(5), "{name}: {}", world.now);
    }
}

/// Three of five leave one after another when no member offers anything more: the end needs no majority.
#[test]
fn when_all_others_have_reported_too_few_may_be_left_to_agree() {
    for name in NAMES {
        for apart in (0..60).step_by(if is_long_tier() { 3 } else { 12 }) {
            let mut world = group(name);
            world.peers[1..].iter_mut().for_each(|peer| peer.then = Then::Nothing);
            run_for(&mut world, 0);
            world.run_until(ms(60_000), |world| *outcome(world, 0) == MemberOutcome::Verified);
            for peer in 1..4 {
                let now = world.now;
                world.peers[peer].session.report(now, 1, Err("no room".to_owned()));
                world.run_until(now + Duration::from_millis(apart), |_| false);
            }
            world.run_until(ms(200_000), over);
            let end = format!("{name}, {apart} ms: {:?} at {}", world.sender.failure(), world.now);
            assert_eq!(world.sender.phase(), SenderPhase::Finished, "{end}");
            assert!(world.now < ms(8000), "{end}");
        }
    }
}
