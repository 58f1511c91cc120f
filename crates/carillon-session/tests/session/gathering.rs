//! Gathering: conditions of the start, limits, and receivers that come late or are refused.

use carillon_core::{Duration, NodeId, OfferError, Sender as _};
use carillon_session::{
    Gather, MemberOutcome, ReceiverFailure, ReceiverPhase, ReceiverSession, RefuseReason, SenderPhase,
};
use carillon_wire::session::Body;

use super::harness::*;
use super::{kind, names, outcomes};

#[test]
fn a_late_receiver_is_refused_or_seeks_on() {
    let mut world = World::new(sender(Gather::Count(1)), 1000);
    world.join(receiver("a"));
    world.run(ms(300));
    world.join(receiver("late"));
    let mut patient = receiver_config("patient");
    patient.keep_seeking = true;
    world.join(ReceiverSession::new(patient, carillon_core::Seeds::new(9)));
    world.run(ms(1000));
    let refused = ReceiverFailure::Refused(RefuseReason::AlreadyStarted, String::new());
    assert_eq!(refused.to_string(), "the session started without this receiver");
    assert_eq!(world.phase(1), ReceiverPhase::Failed(refused));
    assert_eq!(world.phase(2), ReceiverPhase::Seeking);
    assert_eq!(world.sender.members().len(), 1);
}

#[test]
fn a_join_that_comes_after_the_start_is_refused() {
    let mut world = World::new(sender(Gather::Count(1)), 1000);
    world.join(receiver("a"));
    world.join(receiver("b"));
    // Nothing of b arrives until the session runs.
    world.lose = Box::new(|now, from, _, _| from == NodeId(2) && now < ms(300));
    world.run(ms(290));
    assert_eq!(world.phase(1), ReceiverPhase::Joining);
    world.run(ms(1500));
    let refused = ReceiverFailure::Refused(RefuseReason::AlreadyStarted, String::new());
    assert_eq!(world.phase(1), ReceiverPhase::Failed(refused));
}

#[test]
fn a_receiver_of_another_name_is_told_so_after_the_start_too() {
    let mut world = World::new(sender(Gather::Names(["a".to_owned()].into())), 1000);
    world.join(receiver("a"));
    world.run(ms(300));
    assert_eq!(world.sender.phase(), SenderPhase::Running);
    world.join(receiver("b"));
    world.run(ms(1000));
    let refused = ReceiverFailure::Refused(RefuseReason::NotExpected, String::new());
    assert_eq!(world.phase(1), ReceiverPhase::Failed(refused));
}

#[test]
fn receivers_with_equal_names_get_unique_names() {
    let mut world = World::new(sender(Gather::Count(3)), 2);
    for seed in 1..=3 {
        world.join(ReceiverSession::new(receiver_config("twin"), carillon_core::Seeds::new(seed)));
    }
    world.run(ms(5000));
    let all: Vec<_> = outcomes(&world);
    assert!(all.iter().all(|(_, outcome)| **outcome == MemberOutcome::Verified), "{all:?}");
    let mut named: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
    named.sort_unstable();
    assert!(
        named.len() == 3 && named[0] == "twin" && named[1..].iter().all(|name| name.starts_with("twin@")),
        "{named:?}"
    );
    assert_eq!(world.sender.unserved(), []);
}

#[test]
fn unexpected_names_are_refused_and_missing_ones_named() {
    let mut world = World::new(sender(names(&["a", "b"])), 2);
    world.join(receiver("a"));
    world.join(receiver("stranger"));
    world.run(ms(500));
    assert_eq!(world.sender.missing(), ["b"]);
    let refused = ReceiverFailure::Refused(RefuseReason::NotExpected, String::new());
    assert_eq!(world.phase(1), ReceiverPhase::Failed(refused));
    assert_eq!(world.sender.offer(world.now, "x".into()), Err(OfferError::Full));
    world.join(receiver("b"));
    world.run(ms(5000));
    assert!(world.sender.missing().is_empty());
    assert_eq!(outcomes(&world), [("a", &MemberOutcome::Verified), ("b", &MemberOutcome::Verified)]);
}

#[test]
fn a_full_session_refuses() {
    let mut config = sender_config(Gather::Wait(Duration::from_secs(1)));
    config.max_members = 2;
    let mut world = World::new(sender_with(config), 1);
    for name in ["a", "b"] {
        world.join(receiver(name));
    }
    world.run(ms(500));
    world.join(receiver("c"));
    world.run(ms(5000));
    let refused = ReceiverFailure::Refused(RefuseReason::Full, String::new());
    assert_eq!(world.phase(2), ReceiverPhase::Failed(refused));
    assert_eq!(outcomes(&world).len(), 2);
    assert_eq!(world.sender.phase(), SenderPhase::Finished);
}

#[test]
fn a_waiting_session_without_receivers_starts_with_the_first() {
    let mut world = World::new(sender(Gather::Wait(Duration::from_secs(1))), 1);
    world.run(ms(3000));
    assert_eq!(world.sender.phase(), SenderPhase::Gathering);
    world.join(receiver("a"));
    world.run(ms(5000));
    assert_eq!(world.sender.phase(), SenderPhase::Finished);
    assert_eq!(outcomes(&world), [("a", &MemberOutcome::Verified)]);
}

#[test]
fn a_settling_session_starts_a_while_after_the_first_receiver() {
    let mut world = World::new(sender(Gather::Settle(Duration::from_secs(1))), 1);
    world.run(ms(3000));
    assert_eq!(world.sender.phase(), SenderPhase::Gathering);
    world.join(receiver("a"));
    world.run(ms(3700));
    assert_eq!(world.sender.phase(), SenderPhase::Gathering);
    world.join(receiver("b"));
    world.run(ms(6000));
    assert_eq!(world.sender.phase(), SenderPhase::Finished);
    assert_eq!(outcomes(&world), [("a", &MemberOutcome::Verified), ("b", &MemberOutcome::Verified)]);
}

/// Gathering past its limit: with all-or-nothing, and in a session that no receiver joined.
#[test]
fn gathering_past_its_limit_aborts_and_names_the_missing() {
    for (all_or_nothing, joins, why) in
        [(true, true, "b, c did not join within 2 s"), (false, false, "a, b, c did not join within 2 s")]
    {
        let mut config = sender_config(names(&["a", "b", "c"]));
        config.limits.limit = Some(Duration::from_secs(2));
        config.limits.all_or_nothing = all_or_nothing;
        let mut world = World::new(sender_with(config), 1);
        if joins {
            world.join(receiver("a"));
        }
        world.run(ms(3000));
        assert_eq!(world.sender.phase(), SenderPhase::Aborted);
        assert_eq!(world.sender.failure(), Some(why));
        if joins {
            assert_eq!(world.phase(0), ReceiverPhase::Failed(ReceiverFailure::Aborted(why.to_owned())));
        }
    }
}

#[test]
fn gathering_past_its_limit_starts_with_those_that_joined() {
    for (gather, missing) in [
        (names(&["a", "b", "c"]), (vec!["b".to_owned(), "c".to_owned()], 0)),
        (Gather::Count(3), (vec![], 2)),
    ] {
        let mut config = sender_config(gather);
        config.limits.limit = Some(Duration::from_secs(2));
        let mut world = World::new(sender_with(config), 1);
        world.join(receiver("a"));
        world.run(ms(1990));
        assert_eq!(world.sender.phase(), SenderPhase::Gathering);
        world.run(ms(3000));
        assert_eq!(outcomes(&world), [("a", &MemberOutcome::Verified)]);
        assert_eq!(world.sender.missing_receivers(), missing);
    }
}

#[test]
fn gathering_past_its_wait_starts_with_those_that_joined() {
    let mut config = sender_config(names(&["a", "b"]));
    config.limits.wait = Some(Duration::from_secs(1));
    let mut world = World::new(sender_with(config), 1);
    world.run(ms(5000));
    assert_eq!(world.sender.phase(), SenderPhase::Gathering, "nobody has joined");
    world.join(receiver("a"));
    world.run(ms(5900));
    assert_eq!(world.sender.phase(), SenderPhase::Gathering);
    world.run(ms(7000));
    assert_eq!(outcomes(&world), [("a", &MemberOutcome::Verified)]);
}

#[test]
fn receiver_lost_while_gathering_does_not_count() {
    let mut world = World::new(sender(Gather::Count(2)), 1);
    for name in ["leaves", "dies"] {
        world.join(receiver(name));
        world.run(world.now + Duration::from_millis(300));
        match name {
            "leaves" => {
                let now = world.now;
                world.peers[0].session.leave(now, "");
            }
            _ => world.peers[1].dead = true,
        }
    }
    world.run(ms(6000));
    assert_eq!(outcomes(&world), []);
    world.join(receiver("dies"));
    world.join(receiver("stays"));
    world.run(ms(12_000));
    assert_eq!(world.sender.phase(), SenderPhase::Finished);
    assert_eq!(outcomes(&world), [("dies", &MemberOutcome::Verified), ("stays", &MemberOutcome::Verified)]);
}

#[test]
fn a_welcome_that_is_lost_while_gathering_is_asked_for_again() {
    let mut world = World::new(sender(Gather::Count(1)), 5);
    world.join(receiver("a"));
    world.lose =
        Box::new(|now, _, _, bytes| matches!(kind(bytes), Some(Body::Welcome { .. })) && now < ms(500));
    world.run(ms(490));
    // Received data are kept, although their sender is not proven yet.
    assert_eq!((world.peers[0].session.member_number(), world.peers[0].got), (None, 0));
    world.run(ms(10_000));
    assert_eq!(outcomes(&world), [("a", &MemberOutcome::Verified)]);
    assert_eq!(world.phase(0), ReceiverPhase::Finished);
}
