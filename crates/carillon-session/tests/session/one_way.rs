//! Receivers that send nothing, and senders that wait for no receiver.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use carillon_core::{Config, Duration, Seeds};
use carillon_proto::{REGISTRY, find};
use carillon_session::{
    Gather, MemberOutcome, ReceiverFailure, ReceiverPhase, ReceiverSession, ReceiverSessionConfig,
    SenderPhase, SenderSession, SenderSessionConfig,
};

use super::harness::*;
use super::outcomes;

const BEGINS: Duration = Duration::from_millis(500);

fn silent(name: &str) -> ReceiverSession {
    let config = ReceiverSessionConfig { protocols: REGISTRY, silent: true, ..receiver_config(name) };
    ReceiverSession::new(config, Seeds::new(1).part(name))
}

/// World with a sender of this protocol and settings, and a count of the datagrams of all others.
fn world(protocol: &str, gather: Gather, set: &[(&str, &str)]) -> (World, Arc<AtomicUsize>) {
    let protocol = find(protocol).expect("it is registered");
    let mut config = SenderSessionConfig { gather, protocol, ..sender_config(Gather::Count(1)) };
    config.config = Config::defaults(protocol.parameters);
    for (key, value) in set {
        config.config.set(protocol.parameters, key, value).expect("a setting");
    }
    config.max_payload = 1000;
    let mut world = World::new(sender_with(config), 2000);
    let said = Arc::new(AtomicUsize::new(0));
    let counted = said.clone();
    world.lose = Box::new(move |_, from, _, _| {
        if from != SENDER {
            counted.fetch_add(1, Ordering::Relaxed);
        }
        from != SENDER
    });
    (world, said)
}

const ONE_WAY: &[(&str, &str)] = &[("feedback", "none"), ("rate", "20 Mbit/s"), ("redundancy", "30 %")];

#[test]
fn redundancy_serves_silent_receivers() {
    for begins in [BEGINS, Duration::ZERO] {
        let (mut world, said) = world("carillon", Gather::Silent(begins), ONE_WAY);
        world.seed(2, 0.1);
        for name in ["a", "b", "c"] {
            world.join(silent(name));
        }
        world.run_until(ms(30_000), |world| world.sender.phase() == SenderPhase::Finished);
        assert_eq!(world.sender.phase(), SenderPhase::Finished, "{:?}", world.sender.failure());
        assert_eq!((outcomes(&world).len(), said.load(Ordering::Relaxed)), (0, 0));
        let there: Vec<_> = world.peers.iter().map(|peer| (peer.got, peer.session.phase())).collect();
        // One that did not hear of it in time, where there was none, has nothing.
        let missed = there.iter().filter(|one| **one == (0, ReceiverPhase::Seeking)).count();
        let complete = there.iter().filter(|one| **one == (2000, ReceiverPhase::Finished)).count();
        assert!(complete + missed == 3 && (missed == 0 || begins.is_zero()), "{there:?}");
    }
}

#[test]
fn who_joins_such_a_session_is_a_member_as_ever() {
    let (mut world, _) = world("carillon", Gather::Silent(BEGINS), ONE_WAY);
    world.lose = Box::new(|_, _, _, _| false);
    let config = ReceiverSessionConfig { protocols: REGISTRY, ..receiver_config("a") };
    world.join(ReceiverSession::new(config, Seeds::new(1).part("a")));
    world.join(silent("b"));
    world.run_until(ms(30_000), |world| world.sender.phase() == SenderPhase::Finished);
    assert_eq!(outcomes(&world), [("a", &MemberOutcome::Verified)]);
    assert_eq!((world.peers[1].got, world.phase(1)), (2000, ReceiverPhase::Finished));
}

#[test]
fn a_sender_that_waits_for_answers_does_not_go_one_way() {
    for (protocol, refused) in [("carillon", true), ("rra", true), ("erramilli-singh", true), ("pgm", false)]
    {
        let protocol = find(protocol).expect("it is registered");
        let gather = Gather::Silent(BEGINS);
        let config = SenderSessionConfig::new(ASSOCIATION, "source", GROUP, protocol, 1000);
        let made = SenderSession::new(SenderSessionConfig { gather, ..config }, Seeds::new(1));
        assert_eq!(made.is_err(), refused, "{}", protocol.name);
    }
}

/// Anybody may invite to anything: that ends nothing, and neither does one that invites and then sends nothing.
#[test]
fn silent_receiver_skips_useless_sessions() {
    let (mut world, said) = world("carillon", Gather::Count(1), &[]);
    world.join(silent("a"));
    world.run(ms(2_000));
    assert_eq!(world.phase(0), ReceiverPhase::Seeking);
    let unfit = world.peers[0].session.unsuitable_sender();
    assert!(unfit.is_some_and(|(name, why)| name == "source" && why.contains("--one-way")), "{unfit:?}");
    assert_eq!(said.load(Ordering::Relaxed), 0);

    for (messages, phase) in
        [(0, ReceiverPhase::Seeking), (10, ReceiverPhase::Failed(ReceiverFailure::SenderSilent))]
    {
        let (mut world, said) = self::world("carillon", Gather::Silent(BEGINS), ONE_WAY);
        world.join(silent("a"));
        world.run_until(ms(10_000), |world| {
            world.phase(0) == ReceiverPhase::Running && world.peers[0].got >= messages
        });
        world.sender_dead = true;
        world.run(ms(60_000));
        assert_eq!(world.phase(0), phase, "after {messages} messages");
        assert_eq!(said.load(Ordering::Relaxed), 0);
    }
}
