//! Sessions of peers in virtual time: one order of the messages of many senders.

use std::collections::BTreeMap;

use carillon_core::{DropReason, Duration, NodeId, Role, Seeds, Sender as _, Time};
use carillon_proto::REGISTRY;
use carillon_session::{
    Gather, MemberOutcome, ReceiverFailure, ReceiverPhase, ReceiverSession, ReceiverSessionConfig,
    SenderPhase, SenderSessionConfig,
};
use carillon_wire::session::{
    Attachment, Body, DatagramSizes, Identity, Invite, MemberRole, Name, Nonce, Packet, Peer as RosterPeer,
    PeerList, Proof, RosterPage, Settings, State, Text,
};
use proptest::prelude::*;

use super::harness::*;
use super::toy::TOY;

fn organiser(members: usize) -> SenderSessionConfig {
    let gather = Gather::Count(members);
    SenderSessionConfig { gather, ..SenderSessionConfig::new(ASSOCIATION, "source", GROUP, &TOY, 100) }
}

/// The organiser and one more offer messages, two only receive.
fn group(messages: u64) -> World {
    let mut world = World::new(sender_with(organiser(3)), messages);
    world.join_offering("two", messages);
    world.join(receiver("alice"));
    world.join(receiver("bob"));
    world
}

fn over(world: &World) -> bool {
    let ended = |peer: &Peer| {
        peer.dead || matches!(peer.session.phase(), ReceiverPhase::Finished | ReceiverPhase::Failed(_))
    };
    (world.sender_dead || world.sender.is_finished()) && world.peers.iter().all(ended)
}

fn outcome<'w>(world: &'w World, name: &str) -> &'w MemberOutcome {
    let member = world.sender.members().iter().find(|member| member.name == name);
    &member.expect("it is a member").outcome
}

/// Every live member has everything of the two senders in the organiser's order, and knows so.
fn complete(world: &World, messages: u64) -> Result<(), TestCaseError> {
    prop_assert_eq!(world.sender.phase(), SenderPhase::Finished, "{:#?}", world.log);
    prop_assert_eq!(world.sender_order.len() as u64, 2 * messages);
    for peer in world.peers.iter().filter(|peer| !peer.dead) {
        prop_assert_eq!(peer.session.phase(), ReceiverPhase::Finished, "{:#?}", world.log);
        prop_assert_eq!(&peer.order, &world.sender_order);
    }
    for name in ["two", "alice", "bob"] {
        prop_assert_eq!(outcome(world, name), &MemberOutcome::Verified, "{}", name);
    }
    Ok(())
}

#[test]
fn all_deliver_everything_of_all_in_one_order() {
    let mut world = group(5);
    world.run_until(ms(10_000), over);
    complete(&world, 5).unwrap();
    assert!(world.peers.iter().all(|peer| peer.session.report_acknowledged()));
    assert!(world.now < ms(500), "{}", world.now);
}

#[test]
fn whoever_leaves_last_has_the_others_acknowledged_before() {
    // One that has everything stays as long as another one needs it.
    let mut world = group(40);
    world.lose = Box::new(|now, _, to, _| to == NodeId(2) && now > ms(60) && now < ms(2000));
    world.run_until(ms(1900), |_| false);
    let acknowledged = world.peers.iter().any(|peer| peer.session.report_acknowledged());
    assert!(!acknowledged, "alice is still missing something");
    world.run_until(ms(10_000), over);
    complete(&world, 40).unwrap();
}

#[test]
fn the_loss_of_any_one_datagram_changes_nothing() {
    let mut world = group(3);
    let total = std::rc::Rc::new(std::cell::Cell::new(0));
    let count = total.clone();
    world.lose = Box::new(move |_, _, _, _| {
        count.set(count.get() + 1);
        false
    });
    world.run_until(ms(10_000), over);
    assert!(total.get() > 50, "{}", total.get());
    for lost in 1..=total.get() {
        let mut world = group(3);
        let mut number = 0;
        world.lose = Box::new(move |_, _, _, _| {
            number += 1;
            number == lost
        });
        world.run_until(ms(10_000), over);
        complete(&world, 3).unwrap();
        assert!(world.now < ms(3000), "datagram {lost}: {}", world.now);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases / 2))]

    #[test]
    fn peers_agree_on_order_despite_loss_and_duplicates(
        seed: u64, loss in 0.0..0.3, repeats in 0.0..0.3
    ) {
        let mut world = group(4);
        world.seed(seed, loss);
        world.repeats = repeats;
        world.run_until(ms(60_000), over);
        complete(&world, 4)?;
    }
}

/// Messages of a member's own application are not bounded by the bytes that it received.
#[test]
fn member_offers_more_than_organiser() {
    // 600 are within what a member may send without having heard anything.
    const OFFERED_MESSAGES: u64 = 1500;
    for entry in REGISTRY.iter().copied().filter(|entry| entry.roles.contains(&Role::Peer)) {
        let gather = Gather::Count(3);
        let config = SenderSessionConfig::new(ASSOCIATION, "source", GROUP, entry, 1400);
        let mut config = SenderSessionConfig { gather, ..config };
        config.set_host_values(64, 1 << 20).expect("messages are not very short");
        let mut world = World::new(sender_with(config), 1);
        for (name, part) in
            [("two", MemberRole::Offers), ("alice", MemberRole::Receives), ("bob", MemberRole::Receives)]
        {
            let config = ReceiverSessionConfig { part, ..ReceiverSessionConfig::new(name, GROUP, REGISTRY) };
            let peer = world.join(ReceiverSession::new(config, Seeds::new(1).part(name)));
            world.peers[peer].offers = if part.offers() { OFFERED_MESSAGES } else { 0 };
        }
        world.seed(7, 0.2);
        world.run_until(ms(600_000), over);
        assert_eq!(world.sender.phase(), SenderPhase::Finished, "{}", entry.name);
        for name in ["two", "alice", "bob"] {
            assert_eq!(outcome(&world, name), &MemberOutcome::Verified, "{}: {name}", entry.name);
        }
        let all = |peer: &Peer| peer.order.len() as u64 == 1 + OFFERED_MESSAGES;
        assert!(world.peers[1..].iter().all(all), "{}: the receivers have everything", entry.name);
    }
}

#[test]
fn a_roster_of_many_pages_is_learned_under_loss() {
    let mut world = World::new(sender_with(organiser(60)), 1);
    for number in 0..60 {
        let name = format!("{number:064}");
        world.join(ReceiverSession::new(
            ReceiverSessionConfig::new(name, GROUP, PROTOCOLS),
            Seeds::new(number),
        ));
    }
    world.seed(5, 0.1);
    world.run_until(ms(60_000), over);
    assert_eq!(world.sender.phase(), SenderPhase::Finished);
    assert!(world.peers.iter().all(|peer| peer.session.phase() == ReceiverPhase::Finished));
    let pages = |page: &str| world.log.iter().any(|line| line.contains(page));
    assert!(pages("from 0 of 61") && pages("from 46 of 61"), "several pages");
    let names: Vec<_> = world.peers[7].session.peers().iter().map(|peer| peer.name.as_str()).collect();
    assert_eq!((names.len(), names[0]), (61, "source"));
    assert!(world.peers.iter().all(|peer| peer.session.peers().len() == 61), "all of them");
}

/// Kills a member at each of many moments: the others get everything that is to be had.
#[test]
fn crashed_receiver_is_named_and_others_finish() {
    for at in (0..300).step_by(7) {
        let mut world = group(30);
        world.run_until(ms(at), |_| false);
        world.peers[2].dead = true;
        world.run_until(ms(60_000), over);
        let end = format!("killed at {at} ms: {:?} at {}", world.sender.phase(), world.now);
        if world.sender.phase() == SenderPhase::Gathering {
            assert!(at <= 21, "{end}");
            continue;
        }
        assert_eq!(world.sender.phase(), SenderPhase::Finished, "{end}");
        assert_eq!(world.sender_order.len(), 60, "{end}");
        for (peer, name) in world.peers[..2].iter().zip(["two", "alice"]) {
            assert_eq!(peer.order, world.sender_order, "{end}");
            assert_eq!(*outcome(&world, name), MemberOutcome::Verified, "{end}");
        }
        assert!(matches!(outcome(&world, "bob"), MemberOutcome::Lost(_) | MemberOutcome::Verified), "{end}");
        assert!(world.now < ms(20_000), "{end}");
    }
}

#[test]
fn messages_of_crashed_sender_stay_in_order() {
    for at in (30..130).step_by(5) {
        let mut world = group(40);
        world.run_until(ms(at), |_| false);
        world.peers[0].dead = true;
        world.run_until(ms(60_000), over);
        let end = format!("killed at {at} ms");
        assert_eq!(world.sender.phase(), SenderPhase::Finished, "{end}");
        assert!(matches!(outcome(&world, "two"), MemberOutcome::Lost(_)), "{end}");
        for peer in &world.peers[1..] {
            assert_eq!(peer.session.phase(), ReceiverPhase::Finished, "{end}");
            assert_eq!(peer.order, world.sender_order, "{end}");
            let lost = peer.session.peers().iter().find(|other| other.name == "two");
            // One that did not become ready was never among them.
            assert!(lost.is_none_or(|two| two.lost.is_some()), "{end}");
        }
        let of_source = world.sender_order.iter().filter(|text| text.starts_with("source")).count();
        assert_eq!(of_source, 40, "{end}");
    }
}

#[test]
fn when_the_organiser_dies_all_say_so_within_the_silence() {
    for at in (0..200).step_by(11) {
        let mut world = group(80);
        world.run_until(ms(at), |_| false);
        world.sender_dead = true;
        world.run_until(ms(30_000), over);
        for peer in &world.peers {
            let silent = ReceiverPhase::Failed(ReceiverFailure::SenderSilent);
            // A peer that was not admitted yet waits for another sender.
            let never_joined = peer.session.phase() == ReceiverPhase::Seeking;
            assert!(peer.session.phase() == silent || (at <= 22 && never_joined), "killed at {at} ms");
            // What came, came in order.
            assert!(peer.order.iter().zip(&world.sender_order).all(|(one, other)| one == other));
        }
        assert!(world.now <= ms(at + 5100) || at <= 22, "killed at {at} ms: {}", world.now);
    }
}

#[test]
fn one_that_cannot_hear_another_is_left_out_and_told() {
    let mut world = group(3);
    // bob hears everyone but alice.
    world.lose = Box::new(|_, from, to, _| from == NodeId(2) && to == NodeId(3));
    world.run_until(ms(30_000), over);
    let reason = "did not hear all the others within 5 s";
    assert_eq!(*outcome(&world, "bob"), MemberOutcome::Lost(reason.to_owned()));
    assert_eq!(world.phase(2), ReceiverPhase::Failed(ReceiverFailure::Expelled));
    assert_eq!(*outcome(&world, "alice"), MemberOutcome::Verified);
    let names: Vec<_> = world.peers[1].session.peers().iter().map(|peer| peer.name.as_str()).collect();
    assert!(!names.contains(&"bob") && names.len() == 3, "{names:?}");
    assert_eq!(world.peers[1].order, world.sender_order);
}

#[test]
fn nobody_is_left_out_because_all_of_them_were_not_running() {
    for at in (0..200).step_by(3) {
        let mut world = group(3);
        world.run_until(ms(at), over);
        world.halt(Duration::from_secs(12));
        world.run_until(ms(40_000), over);
        for name in ["two", "alice", "bob"] {
            assert_eq!(*outcome(&world, name), MemberOutcome::Verified, "halted at {at} ms");
        }
    }
}

#[test]
fn when_the_protocol_stands_still_the_organiser_gives_up() {
    let mut world = group(40);
    // alice lives, but no packet of the protocol reaches her.
    world.lose =
        Box::new(|now, _, to, bytes| now > ms(60) && to == NodeId(2) && Packet::parse(bytes).is_err());
    // What is still to be offered may take any time.
    world.pause = Some((1, ms(200_000)));
    world.run_until(ms(50_000), |_| false);
    assert_eq!(world.sender.phase(), SenderPhase::Running);
    world.messages = 0;
    world.sender.finish(ms(50_000));
    world.run_until(ms(200_000), over);
    assert_eq!(world.sender.phase(), SenderPhase::Aborted);
    assert!(world.sender.failure().is_some_and(|reason| reason.contains("nothing got through for 60 s")));
    assert!(world.now < ms(50_000 + 2 * 60_000 + 1000), "{}", world.now);
    let aborted =
        |peer: &Peer| matches!(peer.session.phase(), ReceiverPhase::Failed(ReceiverFailure::Aborted(_)));
    assert!(world.peers.iter().all(aborted));
}

#[test]
fn one_that_nobody_hears_is_left_out_and_not_those_who_miss_it() {
    let mut world = group(3);
    // alice is heard until she is a member, and then no more.
    world.lose = Box::new(|_, from, _, bytes| {
        let join = |packet: Packet<'_>| matches!(packet.body, Body::Join { .. });
        from == NodeId(2) && !Packet::parse(bytes).is_ok_and(join)
    });
    world.run_until(ms(30_000), over);
    assert_eq!(*outcome(&world, "alice"), MemberOutcome::Lost("silent for 5 s".to_owned()));
    for (peer, name) in [(0, "two"), (2, "bob")] {
        assert_eq!(*outcome(&world, name), MemberOutcome::Verified);
        assert_eq!(world.peers[peer].order, world.sender_order);
    }
    assert_eq!(world.sender_order.len(), 6);
}

#[test]
fn member_without_welcome_repeats_join_at_assembly() {
    let mut world = group(3);
    world.lose = Box::new(|now, _, to, bytes| {
        let welcome = |packet: Packet<'_>| matches!(packet.body, Body::Welcome { .. });
        now < ms(900) && to == NodeId(2) && Packet::parse(bytes).is_ok_and(welcome)
    });
    // By itself it would ask at 700 ms and then not before 1500.
    world.run(ms(1300));
    assert_ne!(world.peers[1].session.phase(), ReceiverPhase::Joining);
    world.run_until(ms(10_000), over);
    complete(&world, 3).unwrap();
    assert_eq!(
        world.sender.members()[world.peers[1].session.member_number().unwrap() as usize].name,
        "alice"
    );
}

#[test]
fn second_sender_learns_of_multi_sender_protocols() {
    let mut world = World::new(sender(Gather::Count(1)), 1);
    let two = world.join_offering("two", 1);
    world.run(ms(100));
    let ReceiverPhase::Failed(failure) = world.phase(two) else { panic!("{:?}", world.phase(two)) };
    assert!(
        failure.to_string().contains("the protocol \"repeat\" has one sender; several have: toy"),
        "{failure}"
    );
}

#[test]
fn a_member_with_the_name_of_the_organiser_gets_another_one() {
    let mut world = World::new(sender_with(organiser(1)), 1);
    world.join(receiver("source"));
    world.run(ms(100));
    assert!(world.sender.members()[0].name.starts_with("source@"), "{:?}", world.sender.members());
}

fn emit(body: Body<'_>) -> Vec<u8> {
    let mut buf = Vec::new();
    Packet { association: ASSOCIATION, body }.emit(&mut buf);
    buf
}

fn invite(state: State) -> Vec<u8> {
    emit(Body::Invite(Invite {
        state,
        max_payload: 100,
        progress_interval: 500,
        relays: false,
        sizes: DatagramSizes::default(),
        protocol: Name::new("toy").unwrap(),
        sender: Name::new("source").unwrap(),
        settings: Settings::default(),
        reason: Text::default(),
        job: None,
        asks: false,
        job_name: None,
    }))
}

/// Members by identity, in order of rank; a small number is a proof from which it is derived.
fn roster(edition: u32, identities: &[u64]) -> Vec<u8> {
    let mut list = Vec::new();
    let peer = |&identity: &u64| RosterPeer {
        identity: Identity(if identity < 1 << 32 { named(identity) } else { identity }),
        part: MemberRole::Offers,
        gone: false,
        parent: 0,
        name: Name::new("x").unwrap(),
    };
    PeerList::encode(identities.iter().map(peer), &mut list);
    let total = identities.len() as u16;
    emit(Body::Roster(RosterPage { edition, total, first: 0, peers: PeerList::new(&list).unwrap() }))
}

fn present(proof: u64) -> Vec<u8> {
    emit(Body::Present { proof: Proof(proof) })
}

/// Answer of the organiser to a member that asks for the state.
fn running(nonce: Nonce) -> Vec<u8> {
    emit(Body::Answer {
        nonce,
        state: State::Running,
        terms: terms_of(&invite(State::Gathering)),
        text: Text::default(),
    })
}

/// A member that has been welcomed, its nonce, and what names it in the group.
fn assembling() -> (ReceiverSession, Nonce, Identity) {
    let mut machine = receiver("a");
    give(&mut machine, ms(0), SENDER, &invite(State::Gathering));
    let sent = wake(&mut machine, ms(21)).sent;
    let Body::Join { nonce, .. } = Packet::parse(&sent[0].1).unwrap().body else { panic!("no JOIN") };
    give(
        &mut machine,
        ms(22),
        SENDER,
        &emit(Body::Welcome { nonce, member: 0, terms: terms_of(&invite(State::Gathering)) }),
    );
    assert_eq!(machine.phase(), ReceiverPhase::Assembling);
    let identity = Identity(identity(nonce.0));
    (machine, nonce, identity)
}

#[test]
fn member_is_ready_with_roster_after_all_are_heard() {
    let (mut machine, nonce, own) = assembling();
    let ready = |outbox: Outbox| outbox.packets().iter().any(|text| text.contains("ready"));
    assert!(!ready(give(&mut machine, ms(30), NodeId(5), &present(5))), "nobody told the roster");
    assert!(!ready(give(&mut machine, ms(31), SENDER, &roster(1, &[9, own.0, 5, 6]))), "6 is missing");
    // Only the organiser announces the roster, and no node is two members.
    let other = give(&mut machine, ms(32), NodeId(5), &roster(2, &[9, own.0]));
    assert_eq!(other.drops(DropReason::NotAMember), 1);
    assert_eq!(give(&mut machine, ms(32), NodeId(5), &present(6)).drops(DropReason::NotAMember), 1);
    assert_eq!(give(&mut machine, ms(32), SENDER, &present(6)).drops(DropReason::NotAMember), 1);
    assert_eq!(give(&mut machine, ms(32), NodeId(7), &present(7)).drops(DropReason::NotAMember), 1);
    assert!(ready(give(&mut machine, ms(33), NodeId(6), &present(6))));
    assert_eq!(give(&mut machine, ms(34), NodeId(8), &present(6)).drops(DropReason::Duplicate), 1);
    let nodes: Vec<NodeId> = machine.peers().iter().map(|peer| peer.node).collect();
    assert_eq!(nodes, [SENDER, carillon_session::LOCAL_NODE, NodeId(5), NodeId(6)]);
    // A new edition makes it ready once more; an old one is of no use any more.
    assert!(ready(give(&mut machine, ms(40), SENDER, &roster(2, &[9, own.0, 6]))));
    assert_eq!(machine.peers().len(), 3);
    let old = give(&mut machine, ms(41), SENDER, &roster(1, &[9, own.0, 5, 6]));
    assert_eq!(old.drops(DropReason::OutOfOrder), 1);
    assert_eq!(machine.phase(), ReceiverPhase::Assembling);
    // That all are ready everybody could say: it asks the organiser.
    let asks = give(&mut machine, ms(50), SENDER, &invite(State::Running)).packets();
    assert_eq!(machine.phase(), ReceiverPhase::Assembling);
    assert!(asks.iter().any(|text| text.contains(" ask ")), "{asks:?}");
    give(&mut machine, ms(72), SENDER, &running(nonce));
    assert_eq!(machine.phase(), ReceiverPhase::Running);
    // A running session adds and removes no member.
    let late = give(&mut machine, ms(51), SENDER, &roster(3, &[9, own.0]));
    assert_eq!((late.drops(DropReason::OutOfOrder), machine.peers().len()), (1, 3));
}

#[test]
fn a_start_without_it_is_the_end_if_the_organiser_says_so() {
    for with in [false, true] {
        let (mut machine, nonce, own) = assembling();
        give(&mut machine, ms(30), SENDER, &roster(1, &[9, if with { own.0 } else { 4 }, 5]));
        give(&mut machine, ms(31), SENDER, &invite(State::Running));
        assert_eq!(machine.phase(), ReceiverPhase::Assembling, "anybody may have said so");
        give(&mut machine, ms(32), SENDER, &running(Nonce(nonce.0 ^ 1)));
        assert_eq!(machine.phase(), ReceiverPhase::Assembling);
        give(&mut machine, ms(33), SENDER, &running(nonce));
        assert_eq!(machine.phase(), ReceiverPhase::Failed(ReceiverFailure::Expelled));
    }
}

/// Announced identities: each member learns them, but only the owner can show the proof.
#[test]
fn stranger_cannot_use_identity_of_roster() {
    let (mut machine, _, own) = assembling();
    let ready = |outbox: &Outbox| outbox.packets().iter().any(|text| text.contains("ready"));
    give(&mut machine, ms(30), SENDER, &roster(1, &[9, own.0, 5]));
    let forged = give(&mut machine, ms(31), NodeId(66), &present(named(5)));
    assert!(forged.drops(DropReason::NotAMember) == 1 && !ready(&forged));
    assert!(ready(&give(&mut machine, ms(32), NodeId(5), &present(5))));
    assert_eq!(give(&mut machine, ms(33), NodeId(66), &present(5)).drops(DropReason::Duplicate), 1);
}

#[test]
fn a_flood_of_forged_presents_is_bounded_and_keeps_nobody_out() {
    let (mut machine, _, own) = assembling();
    let mut dropped = 0;
    for forged in 10..5000 {
        let outbox = give(&mut machine, ms(30), NodeId(forged), &present(forged.into()));
        dropped += outbox.drops(DropReason::BufferFull);
    }
    assert_eq!(dropped, 4990 - carillon_wire::session::MAX_PEERS);
    give(&mut machine, ms(31), SENDER, &roster(1, &[9, own.0, 9999]));
    let ready = give(&mut machine, ms(32), NodeId(9999), &present(9999)).packets();
    assert!(ready.iter().any(|text| text.contains("ready")), "{ready:?}");
}

/// A forged PRESENT from a member's address, received before the roster, is discarded when the roster arrives.
#[test]
fn a_false_present_from_a_members_address_does_not_keep_it_out() {
    let (mut machine, _, own) = assembling();
    give(&mut machine, ms(30), NodeId(5), &present(77));
    give(&mut machine, ms(31), SENDER, &roster(1, &[9, own.0, 5]));
    let ready = give(&mut machine, ms(32), NodeId(5), &present(5)).packets();
    assert!(ready.iter().any(|text| text.contains("ready")), "{ready:?}");
}

#[test]
fn ready_counts_from_members_for_the_present_edition_only() {
    let mut machine = sender_with(organiser(2));
    let join = |nonce, name| {
        let name = Name::new(name).unwrap();
        emit(Body::Join {
            nonce: Nonce(nonce),
            receive_buffer: 1,
            part: MemberRole::Receives,
            largest: 0,
            name,
            attached: Attachment::default(),
            cookie: None,
            origin: None,
            list: None,
        })
    };
    give(&mut machine, ms(0), NodeId(1), &join(1, "a"));
    give(&mut machine, ms(1), NodeId(2), &join(2, "b"));
    assert_eq!(machine.phase(), SenderPhase::Assembling);
    let ready = |nonce, edition| emit(Body::Ready { nonce: Nonce(nonce), edition });
    give(&mut machine, ms(2), NodeId(1), &ready(1, 1));
    for (node, nonce, edition) in [(1, 1, 1), (2, 2, 0), (2, 2, 2), (2, 1, 1), (3, 2, 1)] {
        give(&mut machine, ms(3), NodeId(node), &ready(nonce, edition));
        assert_eq!(machine.phase(), SenderPhase::Assembling, "{node} {nonce} {edition}");
    }
    let stranger = give(&mut machine, ms(3), NodeId(4), &ready(7, 1)).packets();
    assert_eq!(stranger, ["session a7 refuse 0000000000000007 already started"]);
    give(&mut machine, ms(4), NodeId(2), &ready(2, 1));
    assert_eq!(machine.phase(), SenderPhase::Running);
}

#[test]
fn departures_while_assembling_cause_new_edition() {
    let mut machine = sender_with(organiser(2));
    for (node, name) in [(1, "a"), (2, "b")] {
        let name = Name::new(name).unwrap();
        let join = Body::Join {
            nonce: Nonce(node.into()),
            receive_buffer: 1,
            part: MemberRole::Receives,
            largest: 0,
            name,
            attached: Attachment::default(),
            cookie: None,
            origin: None,
            list: None,
        };
        give(&mut machine, ms(1), NodeId(node), &emit(join));
    }
    let leave = |nonce| emit(Body::Leave { nonce: Nonce(nonce), text: Text::default() });
    let told = give(&mut machine, ms(2), NodeId(1), &leave(1)).packets();
    assert!(told.iter().any(|text| text.contains("roster edition 2 from 0 of 2")), "{told:?}");
    give(&mut machine, ms(3), NodeId(2), &leave(2));
    assert_eq!(machine.failure(), Some("no member is left"));
}

proptest! {
    #[test]
    fn hostile_bytes_neither_stop_nor_misorder_a_session_of_peers(
        seed: u64,
        junk in proptest::collection::vec(
            (0u64..400, 0u32..4, 0u32..6, 1u8..16, proptest::collection::vec(any::<u8>(), 0..40)), 0..40
        )
    ) {
        let mut world = group(3);
        world.seed(seed, 0.05);
        let mut by_time: BTreeMap<u64, Vec<_>> = BTreeMap::new();
        for (at, to, from, packet_type, rest) in junk {
            by_time.entry(at).or_default().push((to, from, packet_type, rest));
        }
        for (at, packets) in by_time {
            world.run_until(ms(at), |_| false);
            for (to, from, packet_type, rest) in packets {
                // From strangers: a member can disturb its own session.
                let from = NodeId(100 + from);
                let bytes = [&[0xCA, 3, 0, packet_type, 0, 0, 0, 7], &rest[..]].concat();
                world.inject(from, NodeId(to), &bytes);
            }
        }
        world.run_until(ms(60_000), over);
        complete(&world, 3)?;
    }
}

#[test]
fn a_silent_stream_holds_a_session_of_peers_open() {
    let mut world = group(2);
    // The organiser's application pauses for half a minute before its last message.
    world.pause = Some((1, ms(30_000)));
    world.run_until(ms(29_000), |_| false);
    assert_eq!(world.sender.phase(), SenderPhase::Running);
    let busy = |phase| matches!(phase, ReceiverPhase::Running | ReceiverPhase::Reporting);
    assert!(world.peers.iter().all(|peer| busy(peer.session.phase())), "{:#?}", world.log.last());
    world.run_until(ms(40_000), over);
    complete(&world, 2).unwrap();
    assert!(world.now >= Time::ZERO + Duration::from_secs(30));
}
