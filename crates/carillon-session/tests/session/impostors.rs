//! Forged identities, and senders that are received late; the bounds are those of docs/explanation/security.md.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use carillon_core::{AssociationId, Dest, DropReason, Duration, NodeId};
use carillon_session::{
    Gather, MemberOutcome, ReceiverPhase, ReceiverSession, SenderPhase, SenderSessionConfig,
};
use carillon_wire::session::{
    Attachment, Body, DatagramSizes, Identity, Invite, MemberRole, Name, Nonce, Packet, Peer, PeerList,
    RosterPage, Settings, State, Text,
};

use super::harness::*;
use super::toy::TOY;
use super::{kind, names, outcomes};

fn packet(association: u32, body: Body<'_>) -> Vec<u8> {
    let mut buf = Vec::new();
    Packet { association: AssociationId(association), body }.emit(&mut buf);
    buf
}

fn join(nonce: u64, name: &str) -> Vec<u8> {
    let name = Name::new(name).unwrap();
    packet(
        ASSOCIATION.0,
        Body::Join {
            nonce: Nonce(nonce),
            receive_buffer: 1,
            part: MemberRole::Receives,
            largest: 0,
            name,
            attached: Attachment::default(),
            cookie: None,
            origin: None,
            list: None,
        },
    )
}

fn false_invitation(association: u32) -> Vec<u8> {
    let invite = Invite {
        state: State::Gathering,
        max_payload: 100,
        progress_interval: 250,
        relays: false,
        sizes: DatagramSizes::default(),
        protocol: Name::new("repeat").unwrap(),
        sender: Name::new("nobody").unwrap(),
        settings: Settings::default(),
        reason: Text::default(),
        job: None,
        asks: false,
        job_name: None,
    };
    packet(association, Body::Invite(invite))
}

/// A receiver that has given a sender up for others that invite is still its member: it goes back.
#[test]
fn sender_with_lost_answers_is_retried_among_false_ones() {
    for every in [20, 150, 1000] {
        let mut world = World::new(sender(Gather::Wait(Duration::from_secs(4))), 5);
        world.join(receiver("a"));
        world.lose =
            Box::new(|now, _, _, bytes| now < ms(1500) && matches!(kind(bytes), Some(Body::Welcome { .. })));
        for round in 0..(10_000 / every) {
            world.run_until(ms(650 + round * every), |_| false);
            world.inject(NodeId(66), NodeId(1), &false_invitation(1000 + round as u32));
        }
        world.run(ms(30_000));
        assert_eq!(outcomes(&world), [("a", &MemberOutcome::Verified)], "every {every} ms");
    }
}

/// The receiver ends up with the terms that the sender itself stated by unicast, whichever forged invitation came
/// first.
#[test]
fn forged_invitation_is_dropped_at_welcome() {
    let invite = |state, settings, max_payload| {
        let model = false_invitation(7);
        let Ok(Body::Invite(invite)) = Packet::parse(&model).map(|packet| packet.body) else { panic!() };
        let settings = Settings::new(settings).unwrap();
        packet(7, Body::Invite(Invite { state, settings, max_payload, ..invite }))
    };
    let truth = invite(State::Gathering, "limit=5", 100);
    let asked = |machine: &mut ReceiverSession, at| {
        let sent = wake(machine, at).sent;
        match Packet::parse(&sent[0].1).unwrap().body {
            Body::Join { nonce, .. } | Body::Ask { nonce } => nonce,
            other => panic!("{other:?}"),
        }
    };
    // Other settings; a setting that there is not; messages that are too large.
    for (settings, max_payload, asks) in
        [("limit=6", 100, false), ("x=1", 100, true), ("limit=5", 1 << 30, true)]
    {
        let lie = invite(State::Gathering, settings, max_payload);
        let mut machine = receiver("a");
        give(&mut machine, ms(0), SENDER, &lie);
        let nonce = asked(&mut machine, ms(21));
        let terms = terms_of(&truth);
        let answer = match asks {
            true => Body::Answer { nonce, state: State::Gathering, terms, text: Text::default() },
            false => Body::Welcome { nonce, member: 0, terms },
        };
        give(&mut machine, ms(22), SENDER, &packet(7, answer));
        assert_eq!(machine.phase(), ReceiverPhase::Joining);
        // The lie is not heard any more.
        assert_eq!(give(&mut machine, ms(23), SENDER, &lie).drops(DropReason::NotAMember), 1);
        give(&mut machine, ms(24), SENDER, &truth);
        assert_eq!((machine.phase(), machine.max_payload()), (ReceiverPhase::Joining, Some(100)));
        assert_eq!(asked(&mut machine, ms(45)), nonce);
        give(&mut machine, ms(46), SENDER, &packet(7, Body::Welcome { nonce, member: 0, terms }));
        assert_eq!(machine.phase(), ReceiverPhase::Running);
        let end = invite(State::Finished, "limit=6", 100);
        assert_eq!(give(&mut machine, ms(47), SENDER, &end).drops(DropReason::NotAMember), 1);
    }
}

/// A node that invites without pause under new numbers, before the sender does, keeps a receiver from the sender only
/// briefly.
#[test]
fn a_sender_is_found_among_false_ones_that_are_there_first() {
    for every in [2, 20, 150] {
        for seed in 1..=20 {
            let mut world = World::new(sender(Gather::Wait(Duration::from_secs(4))), seed);
            world.join(receiver("a"));
            world.inject(NodeId(66), NodeId(1), &false_invitation(999));
            for round in 0..(1500 / every) {
                world.run_until(ms(1 + round * every), |_| false);
                world.inject(NodeId(66), NodeId(1), &false_invitation(1000 + round as u32));
            }
            assert_eq!(world.sender.members().len(), 1, "every {every} ms, seed {seed}");
            world.run(ms(30_000));
            assert_eq!(outcomes(&world), [("a", &MemberOutcome::Verified)], "every {every} ms, seed {seed}");
        }
    }
}

/// A query on the side is no longer than the packet that caused it, and only a sender's own answer counts.
#[test]
fn query_to_ignored_sender_is_no_longer_than_invitation() {
    let mut machine = receiver(&"a receiver with a long name ".repeat(3)[..64]);
    let (mut got, mut sent) = (0, 0);
    for round in 0..2000 {
        // Two that take turns, neither of which answers; one forges the answer of the other.
        let node = NodeId(66 + round as u32 % 2);
        let invite = false_invitation(20 + round as u32 % 2);
        got += invite.len();
        let at = ms(round * 10);
        let nonce = Nonce(round);
        let forged =
            packet(21 - round as u32 % 2, Body::Welcome { nonce, member: 0, terms: terms_of(&invite) });
        for bytes in [invite, forged] {
            let outbox = give(&mut machine, at, node, &bytes);
            sent += outbox.sent.iter().map(|(_, bytes)| bytes.len()).sum::<usize>();
        }
        sent += wake(&mut machine, at).sent.iter().map(|(_, bytes)| bytes.len()).sum::<usize>();
    }
    assert!(sent > 0 && sent <= got, "{sent} bytes for {got}");
    assert!(matches!(machine.phase(), ReceiverPhase::Joining | ReceiverPhase::Seeking));
}

/// JOIN in another's name: that one gets no more bytes than were sent, and its place is free again when it has
/// not been heard for the member timeout.
#[test]
fn place_of_forged_address_becomes_free_again() {
    let mut machine = sender(Gather::Count(2));
    let victim = NodeId(50);
    let forged = join(1, "a");
    let told = give(&mut machine, ms(0), victim, &forged);
    let to_victim = told.sent.iter().filter(|(to, _)| *to == Dest::Node(victim));
    let told: usize = to_victim.map(|(_, bytes)| bytes.len()).sum();
    assert_eq!((forged.len(), told), (30, 28), "as docs/explanation/security.md says");
    assert_eq!(machine.members().len(), 1);
    for at in (100..=5100).step_by(100) {
        wake(&mut machine, ms(at));
    }
    assert_eq!((machine.members().len(), machine.unserved().len()), (0, 1));
    give(&mut machine, ms(5200), NodeId(1), &join(2, "a"));
    give(&mut machine, ms(5200), NodeId(2), &join(3, "b"));
    assert_eq!((machine.members().len(), machine.phase()), (2, SenderPhase::Running));
}

/// The first receiver that joins and answers under an expected name has the place, for that session: the other is named,
/// and the session is over when the first has been silent for the member timeout. One that does not answer has nothing.
#[test]
fn expected_name_is_taken_only_after_answer() {
    for answers in [false, true] {
        let mut world = World::new(sender(names(&["a"])), 5);
        match answers {
            false => world.inject(NodeId(66), SENDER, &join(1, "a")),
            true => drop(give(&mut world.sender, ms(0), NodeId(66), &join(1, "a"))),
        }
        world.run(ms(5));
        world.join(receiver("a"));
        world.run(ms(20_000));
        assert!(world.now <= ms(20_000) && world.sender.phase() == SenderPhase::Finished);
        let left_out = world.sender.unserved().iter().map(|one| (one.node, one.name.as_str()));
        let left_out: Vec<_> = left_out.collect();
        match answers {
            false => {
                assert_eq!((outcomes(&world), left_out), (vec![("a", &MemberOutcome::Verified)], vec![]))
            }
            true => {
                assert!(matches!(outcomes(&world)[..], [("a", MemberOutcome::Lost(_))]));
                assert_eq!(left_out, [(NodeId(1), "a")], "and it is named");
            }
        }
    }
}

/// Forged rosters in the organiser's name, while members learn of each other and while they run: such a session ends,
/// and no member with missing data is reported as complete.
#[test]
fn forged_rosters_end_in_time_and_verify_nothing_false() {
    for gone in [false, true] {
        for edition in [1, 2, u32::MAX] {
            for begins in [30, 600, 1500] {
                let mut config = SenderSessionConfig::new(ASSOCIATION, "source", GROUP, &TOY, 100);
                config.gather = Gather::Count(3);
                let mut world = World::new(sender_with(config), 40);
                let told = Rc::new(RefCell::new(BTreeSet::new()));
                let listener = told.clone();
                world.lose = Box::new(move |_, _, _, bytes| {
                    if let Some(Body::Roster(page)) = kind(bytes) {
                        listener.borrow_mut().extend(page.peers.iter().map(|peer| peer.identity.0));
                    }
                    false
                });
                ["a", "b", "c"].into_iter().for_each(|name| _ = world.join(receiver(name)));
                for beat in 0..20 {
                    world.run_until(ms(begins + beat * 10), |_| false);
                    let identities = told.borrow().clone();
                    let peer = |&identity: &u64| Peer {
                        identity: Identity(identity),
                        part: MemberRole::Receives,
                        gone,
                        parent: 0,
                        name: Name::new("x").unwrap(),
                    };
                    let mut list = Vec::new();
                    let all = [1, 2, 3, 4].iter().chain(&identities).take(4 + identities.len());
                    PeerList::encode(all.map(peer), &mut list);
                    let total = (4 + identities.len()) as u16;
                    let peers = PeerList::new(&list).unwrap();
                    let page = RosterPage { edition, total, first: 0, peers };
                    world.inject(SENDER, NodeId(1), &packet(ASSOCIATION.0, Body::Roster(page)));
                }
                world.run(ms(200_000));
                let what =
                    format!("gone {gone}, edition {edition}, from {begins} ms: {:?}", outcomes(&world));
                assert!(
                    matches!(world.sender.phase(), SenderPhase::Finished | SenderPhase::Aborted),
                    "{what}"
                );
                for (peer, member) in world.peers.iter().zip(world.sender.members()) {
                    assert!(member.outcome != MemberOutcome::Verified || peer.got == 40, "{what}");
                }
                let unhurt = world.sender.members()[1..].iter();
                assert!(unhurt.clone().all(|member| member.outcome == MemberOutcome::Verified), "{what}");
            }
        }
    }
}
