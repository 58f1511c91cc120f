//! Sessions in virtual time, over a protocol that merely repeats until acknowledged.

#[path = "session/departures.rs"]
mod departures;
#[path = "session/further.rs"]
mod further;
#[path = "session/gathering.rs"]
mod gathering;
#[path = "session/ghosts.rs"]
mod ghosts;
#[path = "session/harness.rs"]
mod harness;
#[path = "session/helpers.rs"]
mod helpers;
#[path = "session/holdings.rs"]
mod holdings;
#[path = "session/hostile.rs"]
mod hostile;
#[path = "session/identities.rs"]
mod identities;
#[path = "session/impostors.rs"]
mod impostors;
#[path = "session/jobs.rs"]
mod jobs;
#[path = "session/nearest.rs"]
mod nearest;
#[path = "session/one_way.rs"]
mod one_way;
#[path = "session/outbox.rs"]
mod outbox;
#[path = "session/peers.rs"]
mod peers;
#[path = "session/protocol.rs"]
mod protocol;
#[path = "session/quiet.rs"]
mod quiet;
#[path = "session/ratios.rs"]
mod ratios;
#[path = "session/recorded.rs"]
mod recorded;
#[path = "session/releases.rs"]
mod releases;
#[path = "session/series.rs"]
mod series;
#[path = "session/silence.rs"]
mod silence;
#[path = "session/sizes.rs"]
mod sizes;
#[path = "session/strangers.rs"]
mod strangers;
#[path = "session/toy.rs"]
mod toy;
#[path = "session/unreached.rs"]
mod unreached;
#[path = "session/unserved.rs"]
mod unserved;

use std::collections::BTreeSet;

use carillon_core::{Duration, Event, Machine as _, NodeId, OfferError, Sender as _};
use carillon_session::{
    Gather, JobId, MemberOutcome, ReceiverFailure, ReceiverPhase, ReceiverSession, ReceiverSessionConfig,
    SenderPhase, SenderSessionConfig,
};
use carillon_wire::session::{Body, Packet, State};
use proptest::prelude::*;

use harness::*;

fn kind(bytes: &[u8]) -> Option<Body<'_>> {
    Packet::parse(bytes).ok().map(|packet| packet.body)
}

fn outcomes(world: &World) -> Vec<(&str, &MemberOutcome)> {
    world.sender.members().iter().map(|member| (member.name.as_str(), &member.outcome)).collect()
}

fn names(names: &[&str]) -> Gather {
    Gather::Names(names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>())
}

/// A receiver that misses the first invitation of a state delays the others until it is repeated.
#[test]
fn a_state_is_said_again_soon_after_it_has_begun() {
    let mut sender = sender(Gather::Count(1));
    let (mut now, mut said) = (ms(0), Vec::new());
    while now <= ms(600) {
        let outbox = Outbox::drain(&mut sender, now);
        if outbox.sent.iter().any(|(_, bytes)| matches!(kind(bytes), Some(Body::Invite(_)))) {
            said.push(now);
        }
        now = sender.poll_timeout().expect("it goes on inviting");
        sender.handle_timeout(now);
    }
    assert_eq!(said, [0, 25, 75, 175, 375, 575].map(ms));
}

#[test]
fn a_session_without_loss_is_this_exchange() {
    let mut world = World::new(sender(Gather::Count(1)), 2);
    world.join(receiver("alice"));
    world.run(ms(3000));
    let invite = |state: &str| {
        format!(
            "invite {state} from \"source\" protocol repeat max payload 100 progress 250 ms limit=50 wait=20 ms job {}",
            JobId::default()
        )
    };
    // The nonce and the random delay before JOIN are the receiver's own.
    let (join_at, nonce) = {
        let join: Vec<_> = world.log[1].split(' ').collect();
        (join[0].parse::<u64>().unwrap(), join[5].to_owned())
    };
    let cookie = world.log[2].rsplit(' ').next().unwrap_or_default();
    assert!((1..=21).contains(&join_at), "{join_at}");
    let origin = world.log[1].split_once(" process ").map(|(_, origin)| format!("process {origin}")).unwrap();
    let terms = "72b7a9cd3975accb";
    let expected = [
        format!("0 n0 session a7 {}", invite("gathering")),
        format!("{join_at} n1 session a7 join {nonce} \"alice\" receive buffer 16777216 {origin}"),
        format!("{} n0 session a7 challenge {nonce} cookie {cookie}", join_at + 1),
        format!(
            "{} n1 session a7 join {nonce} \"alice\" receive buffer 16777216 cookie {cookie} {origin}",
            join_at + 2
        ),
        format!("{} n0 session a7 welcome {nonce} member 0 terms {terms}", join_at + 3),
        format!("{} n0 session a7 {}", join_at + 3, invite("running")),
        // Two messages and their acknowledgments pass here; the last one travels with the report.
        format!("{} n1 session a7 report {nonce} verified bytes 20", join_at + 6),
        format!("{} n0 session a7 {}", join_at + 7, invite("closing")),
        format!("{} n0 session a7 report ack {nonce}", join_at + 7),
        format!("{} n0 session a7 {}", join_at + 7, invite("finished")),
        format!("{} n0 session a7 {}", join_at + 17, invite("finished")),
        format!("{} n0 session a7 {}", join_at + 27, invite("finished")),
    ];
    assert_eq!(world.log, expected, "{:#?}", world.log);
    assert_eq!(world.phase(0), ReceiverPhase::Finished);
    assert!(world.peers[0].session.report_acknowledged());
    assert_eq!(world.sender.phase(), SenderPhase::Finished);
    let member = &world.sender.members()[0];
    assert_eq!((member.bytes, member.outcome.clone()), (20, MemberOutcome::Verified));
    assert!(member.finished > Some(member.joined));
}

proptest! {
    #[test]
    fn session_completes_at_forty_percent_loss(
        seed: u64, loss in 0.0..0.4, receivers in 1usize..6, messages in 1u64..6, gather in 0..3
    ) {
        let all: BTreeSet<String> = (0..receivers).map(|i| format!("r{i}")).collect();
        let gather = match gather {
            0 => Gather::Count(receivers),
            1 => Gather::Names(all.clone()),
            // Long enough that everyone has joined even so: a JOIN a second, after the first ones.
            _ => Gather::Wait(Duration::from_secs(25)),
        };
        let mut config = sender_config(gather);
        // Five consecutive losses are too frequent to stay unnoticed here.
        config.member_timeout = Duration::from_secs(60);
        config.config.set(protocol::REPEAT.parameters, "limit", "1000").unwrap();
        let mut world = World::new(sender_with(config), messages);
        for name in &all {
            world.join(receiver(name));
        }
        world.seed(seed, loss);
        world.run_until(ms(120_000), |world| {
            world.sender.is_finished()
                && world.peers.iter().all(|peer| peer.session.phase() == ReceiverPhase::Finished)
        });
        for peer in &world.peers {
            prop_assert_eq!(peer.session.phase(), ReceiverPhase::Finished);
            prop_assert_eq!(peer.got, messages);
        }
        prop_assert_eq!(world.sender.phase(), SenderPhase::Finished);
        let verified: BTreeSet<String> = world
            .sender
            .members()
            .iter()
            .filter(|member| member.outcome == MemberOutcome::Verified)
            .map(|member| member.name.clone())
            .collect();
        prop_assert_eq!(verified, all);
    }
}

#[test]
fn every_protocol_of_the_registry_can_be_carried() {
    for entry in carillon_proto::REGISTRY.iter().filter(|entry| entry.delivery.repairs) {
        let mut config = SenderSessionConfig::new(ASSOCIATION, "source", GROUP, entry, 100);
        config.gather = Gather::Count(3);
        let mut world = World::new(sender_with(config), 50);
        for name in ["a", "b", "c"] {
            let config = ReceiverSessionConfig::new(name, GROUP, carillon_proto::REGISTRY);
            world.join(ReceiverSession::new(config, carillon_core::Seeds::new(2).part(name)));
        }
        world.seed(1, 0.1);
        world.run(ms(60_000));
        let all = outcomes(&world);
        assert_eq!(all.len(), 3, "{}", entry.name);
        assert!(all.iter().all(|(_, o)| **o == MemberOutcome::Verified), "{}: {all:?}", entry.name);
        assert!(world.peers.iter().all(|peer| peer.got == 50));
    }
}

#[test]
fn nobody_waits_for_a_receiver_that_says_it_leaves() {
    for entry in carillon_proto::REGISTRY {
        let mut config = SenderSessionConfig::new(ASSOCIATION, "source", GROUP, entry, 100);
        config.gather = Gather::Count(2);
        // A sender that waits for no receiver would have sent a few messages before a receiver could leave, and all
        // of them if its window has room.
        let takes_many = entry.settings.delivery.iter().any(|(key, _)| *key == "calls");
        let messages =
            if (entry.delivery.confirmed && !takes_many) || !entry.delivery.repairs { 200 } else { 5000 };
        let has_room = |(_, value): &&(&str, &str)| value.parse().is_ok_and(|room: u64| room > 200);
        for name in ["window", "calls"] {
            if entry.settings.delivery.iter().filter(|(key, _)| *key == name).any(|set| has_room(&set)) {
                config.config.set(entry.parameters, name, "16").expect("a setting");
            }
        }
        let mut world = World::new(sender_with(config), messages);
        for name in ["leaves", "stays"] {
            let config = ReceiverSessionConfig::new(name, GROUP, carillon_proto::REGISTRY);
            world.join(ReceiverSession::new(config, carillon_core::Seeds::new(2).part(name)));
        }
        world.run_until(ms(5000), |world| world.peers[0].got >= 3);
        let left = world.now;
        world.peers[0].session.leave(left, "disk full");
        world.run_until(ms(60_000), |world| world.sender.is_finished());
        // Well below the seconds after which the protocol itself gives up a silent receiver.
        let took = world.now - left;
        assert!(took < Duration::from_secs(2), "{}: {took:?}", entry.name);
        let failed = MemberOutcome::Failed("left: disk full".to_owned());
        assert_eq!(
            outcomes(&world),
            [("leaves", &failed), ("stays", &MemberOutcome::Verified)],
            "{}",
            entry.name
        );
        assert_eq!(world.peers[1].got, messages, "{}", entry.name);
    }
}

#[test]
fn a_killed_receiver_is_lost_and_the_others_finish() {
    let mut world = World::new(sender(Gather::Count(3)), 10);
    for name in ["a", "b", "c"] {
        world.join(receiver(name));
    }
    world.run_until(ms(5000), |world| world.peers[1].got == 3);
    world.peers[1].dead = true;
    world.run_until(ms(20_000), |world| world.sender.is_finished());
    let lost = MemberOutcome::Lost("stopped acknowledging".to_owned());
    let find = |name: &str| world.sender.members().iter().find(|m| m.name == name).unwrap().outcome.clone();
    assert_eq!((find("a"), find("b"), find("c")), (MemberOutcome::Verified, lost, MemberOutcome::Verified));
    assert_eq!(world.phase(0), ReceiverPhase::Finished);
    assert_eq!(world.phase(2), ReceiverPhase::Finished);
    assert_eq!(world.peers[2].got, 10);
    assert!(world.sender_events.contains(&Event::MemberLost { member: NodeId(2) }));
}

#[test]
fn a_member_silent_while_closing_is_lost_after_the_timeout() {
    let mut world = World::new(sender(Gather::Count(2)), 3);
    world.join(receiver("a"));
    world.join(receiver("b"));
    world.peers[1].then = Then::Nothing;
    world.run_until(ms(5000), |world| world.sender.phase() == SenderPhase::Closing);
    world.peers[1].dead = true;
    let closing = world.now;
    world.run_until(ms(20_000), |world| world.sender.is_finished());
    let took = world.now - closing;
    assert!((Duration::from_secs(5)..Duration::from_millis(5050)).contains(&took), "{took:?}");
    let member = world.sender.members().iter().find(|member| member.name == "b").unwrap();
    assert_eq!(member.outcome, MemberOutcome::Lost("silent for 5 s".to_owned()));
}

#[test]
fn stuck_member_does_not_delay_end() {
    let mut world = World::new(sender(Gather::Count(1)), 3);
    world.join(receiver("a"));
    world.peers[0].then = Then::Nothing;
    world.run_until(ms(100_000), |world| world.sender.is_finished());
    assert!((ms(20_000)..ms(20_500)).contains(&world.now), "{}", world.now);
    assert_eq!(outcomes(&world), [("a", &MemberOutcome::Lost("made no progress for 20 s".to_owned()))]);
    world.run(ms(100_000));
    assert_eq!(world.phase(0), ReceiverPhase::Failed(ReceiverFailure::Expelled));
}

#[test]
fn a_slow_application_is_waited_for_while_it_gets_on() {
    let mut world = World::new(sender(Gather::Count(1)), 3);
    world.join(receiver("a"));
    world.peers[0].then = Then::Nothing;
    for bytes in 1..=20 {
        world.run(ms(10_000 * bytes));
        world.peers[0].session.progress(bytes);
    }
    let now = world.now;
    world.peers[0].session.report(now, 30, Ok(()));
    world.run(ms(210_000));
    assert_eq!(outcomes(&world), [("a", &MemberOutcome::Verified)]);
}

#[test]
fn receivers_of_a_killed_sender_say_so_within_the_silence() {
    let mut world = World::new(sender(Gather::Count(2)), 1000);
    world.join(receiver("a"));
    world.join(receiver("b"));
    world.run_until(ms(5000), |world| world.peers[0].got == 5);
    world.sender_dead = true;
    let killed = world.now;
    let silent = ReceiverPhase::Failed(ReceiverFailure::SenderSilent);
    world.run_until(ms(60_000), |world| world.phase(0) == silent && world.phase(1) == silent);
    assert_eq!(world.phase(0), silent);
    assert!(world.now - killed <= Duration::from_millis(5001), "{:?}", world.now - killed);
}

#[test]
fn a_sender_that_dies_while_gathering_is_noticed() {
    let mut world = World::new(sender(Gather::Count(2)), 1);
    world.join(receiver("a"));
    world.run(ms(1000));
    assert_eq!(world.phase(0), ReceiverPhase::Running);
    world.sender_dead = true;
    world.run(ms(6100));
    assert_eq!(world.phase(0), ReceiverPhase::Failed(ReceiverFailure::SenderSilent));
}

#[test]
fn an_expelled_member_is_told_and_its_packets_go_no_further() {
    let mut world = World::new(sender(Gather::Count(2)), 400);
    world.join(receiver("a"));
    world.join(receiver("b"));
    // The protocol's acknowledgments of b are lost until b has been given up.
    world.lose = Box::new(|now, from, _, bytes| {
        from == NodeId(2) && kind(bytes).is_none() && (ms(200)..ms(1500)).contains(&now)
    });
    world.run_until(ms(20_000), |world| matches!(world.phase(1), ReceiverPhase::Failed(_)));
    assert_eq!(world.phase(1), ReceiverPhase::Failed(ReceiverFailure::Expelled));
    // Given up after 50 repetitions; the next sign that it lives is answered.
    assert!((ms(1200)..ms(1600)).contains(&world.now), "{}", world.now);
    world.run(ms(30_000));
    assert_eq!(outcomes(&world).iter().filter(|(_, o)| **o == MemberOutcome::Verified).count(), 1);
    assert_eq!(world.peers[0].got, 400);
}

#[test]
fn a_lost_member_that_has_everything_after_all_is_verified() {
    let mut world = World::new(sender(Gather::Count(2)), 3);
    world.join(receiver("a"));
    world.join(receiver("b"));
    world.peers[0].then = Then::Nothing;
    // The acknowledgments and the first reports of b are lost.
    world.lose = Box::new(|now, from, _, bytes| {
        from == NodeId(2) && now < ms(2000) && !matches!(kind(bytes), Some(Body::Join { .. }))
    });
    world.run_until(ms(20_000), |world| world.sender.phase() == SenderPhase::Closing);
    let lost = MemberOutcome::Lost("stopped acknowledging".to_owned());
    assert!(outcomes(&world).contains(&("b", &lost)), "{:?}", outcomes(&world));
    world.run(ms(3000));
    assert_eq!(world.phase(1), ReceiverPhase::Finished);
    assert!(world.peers[1].session.report_acknowledged());
    assert!(outcomes(&world).contains(&("b", &MemberOutcome::Verified)));
}

#[test]
fn an_aborted_session_tells_everyone_three_times() {
    let mut world = World::new(sender(Gather::Count(2)), 1000);
    world.join(receiver("a"));
    world.join(receiver("b"));
    world.run(ms(300));
    let now = world.now;
    world.sender.abort(now, "interrupted\u{7}");
    // The first two are lost.
    world.lose = Box::new(move |now, _, _, _| now < ms(600));
    world.run(ms(690));
    assert_eq!(world.sender.phase(), SenderPhase::Closing);
    world.run(ms(1000));
    assert_eq!(world.sender.phase(), SenderPhase::Aborted);
    let told = ReceiverFailure::Aborted("interrupted".to_owned());
    assert_eq!(told.to_string(), "the sender aborted the session: interrupted");
    assert_eq!(world.phase(0), ReceiverPhase::Failed(told.clone()));
    assert_eq!(world.phase(1), ReceiverPhase::Failed(told));
    assert_eq!(world.log.iter().filter(|line| line.contains("invite aborted")).count(), 3);
    assert!(world.sender.is_finished());
    assert_eq!(world.sender.offer(now, "x".into()), Err(OfferError::Finished));
}

#[test]
fn a_failed_member_is_named_with_its_reason_and_may_go_at_once() {
    let mut world = World::new(sender(Gather::Count(2)), 3);
    world.join(receiver("a"));
    world.join(receiver("b"));
    world.peers[0].then = Then::Fail;
    world.run(ms(2000));
    assert_eq!(world.phase(0), ReceiverPhase::Finished);
    assert!(outcomes(&world).contains(&("a", &MemberOutcome::Failed("disk full".to_owned()))));
    assert!(outcomes(&world).contains(&("b", &MemberOutcome::Verified)));
    assert_eq!(world.sender.phase(), SenderPhase::Finished);
}

#[test]
fn a_session_whose_members_have_all_failed_is_over() {
    let mut world = World::new(sender(Gather::Count(1)), 1000);
    world.join(receiver("a"));
    world.run(ms(300));
    let now = world.now;
    world.peers[0].session.leave(now, "interrupted");
    world.run(ms(400));
    assert_eq!(outcomes(&world), [("a", &MemberOutcome::Failed("left: interrupted".to_owned()))]);
    assert_eq!(world.sender.phase(), SenderPhase::Finished);
    let left = ReceiverFailure::Left("interrupted".to_owned());
    assert_eq!(world.phase(0), ReceiverPhase::Failed(left));
}

#[test]
fn a_member_that_waits_long_for_the_others_stays_a_member() {
    let mut world = World::new(sender(Gather::Count(2)), 2);
    world.join(receiver("a"));
    world.run(ms(30_000));
    assert_eq!(world.sender.members()[0].number, 0);
    assert!(!world.sender_events.contains(&Event::MemberLost { member: NodeId(1) }));
    assert_eq!(world.phase(0), ReceiverPhase::Running);
    world.join(receiver("b"));
    world.run(ms(35_000));
    assert_eq!(outcomes(&world), [("a", &MemberOutcome::Verified), ("b", &MemberOutcome::Verified)]);
    // And once the session runs, joining is over.
    let last_join = world.log.iter().rposition(|line| line.contains(" join ")).unwrap();
    let running = world.log.iter().position(|line| line.contains("invite running")).unwrap();
    assert!(last_join < running, "{:#?}", world.log);
}

#[test]
fn verified_is_a_success_even_if_the_sender_never_confirms_it() {
    let mut world = World::new(sender(Gather::Count(1)), 2);
    world.join(receiver("a"));
    world.lose = Box::new(|_, from, _, bytes| {
        let over = |invite: &carillon_wire::session::Invite<'_>| invite.state == State::Finished;
        from == SENDER
            && match kind(bytes) {
                Some(Body::ReportAck { .. }) => true,
                Some(Body::Invite(invite)) => over(&invite),
                _ => false,
            }
    });
    world.run(ms(4000));
    assert_eq!(world.sender.phase(), SenderPhase::Finished);
    assert_eq!(world.phase(0), ReceiverPhase::Reporting);
    world.run(ms(6000));
    for l in &world.log {
        println!("{l}");
    }
    assert_eq!(world.phase(0), ReceiverPhase::Finished);
    assert!(!world.peers[0].session.report_acknowledged());
}

#[test]
fn verified_member_stays_while_protocol_needs_it() {
    let mut world = World::new(sender(Gather::Count(2)), 2);
    world.join(receiver("a"));
    world.join(receiver("b"));
    // The sender misses every acknowledgment of b for the last message for a while.
    world.lose = Box::new(|now, from, _, bytes| {
        from == NodeId(2) && kind(bytes).is_none() && bytes.last() == Some(&1) && now < ms(700)
    });
    world.run(ms(690));
    for peer in 0..2 {
        assert_eq!(world.phase(peer), ReceiverPhase::Reporting);
        assert_eq!(outcomes(&world)[peer].1, &MemberOutcome::Verified);
    }
    assert_eq!(world.sender.phase(), SenderPhase::Running);
    world.run(ms(3000));
    assert!(outcomes(&world).iter().all(|(_, outcome)| **outcome == MemberOutcome::Verified));
    assert!(world.peers.iter().all(|peer| peer.session.report_acknowledged()));
}
