//! Unserved receivers and other senders are remembered by name and reason.

use carillon_core::{AssociationId, Dest, Machine as _, NodeId, Seeds, Time};
use carillon_session::{Gather, MemberOutcome, ReceiverSession, ReceiverSessionConfig, SenderPhase};
use carillon_wire::session::{
    Attachment, Body, DatagramSizes, Invite, MemberRole, Name, Nonce, Packet, Settings, State, Text,
};

use super::harness::*;
use super::{names, outcomes};

fn unserved(world: &World) -> Vec<String> {
    world.sender.unserved().iter().map(|one| format!("{} {}", one.name, one.reason)).collect()
}

fn patient(name: &str) -> ReceiverSession {
    let mut config = receiver_config(name);
    config.keep_seeking = true;
    ReceiverSession::new(config, Seeds::new(9))
}

#[test]
fn late_receivers_are_named_whether_they_go_on_seeking_or_not() {
    let mut world = World::new(sender(Gather::Count(1)), 1000);
    world.join(receiver("a"));
    world.run(ms(300));
    world.join(receiver("late"));
    world.join(patient("patient"));
    world.run(ms(2000));
    let mut late = unserved(&world);
    late.sort();
    assert_eq!(late, ["late came after the start", "patient came after the start"]);
    assert_eq!(world.sender.more_unserved(), 0);
    // It asks whether that is true, and then to be admitted, once, and not at each heartbeat.
    let said =
        |what: &str| world.log.iter().filter(|line| line.contains(" n3 ") && line.contains(what)).count();
    assert_eq!((said(" ask "), said(" join ")), (1, 2), "with the cookie: {:#?}", world.log);
}

#[test]
fn refused_receivers_are_named_until_they_are_let_in() {
    let mut world = World::new(sender(names(&["a", "b"])), 2);
    world.join(receiver("a"));
    world.join(receiver("stranger"));
    world.join(ReceiverSession::new(receiver_config("a"), Seeds::new(5)));
    world.run(ms(500));
    let sorted = |world: &World| {
        let mut all = unserved(world);
        all.sort();
        all
    };
    let stranger = "stranger refused: its name is not expected";
    assert_eq!(sorted(&world), [stranger]);
    world.join(receiver("b"));
    world.run(ms(5000));
    // A receiver with an expected name is admitted, and counts once.
    let all = outcomes(&world);
    assert!(all.len() == 3 && all.iter().all(|(_, outcome)| **outcome == MemberOutcome::Verified), "{all:?}");
    assert_eq!(sorted(&world), [stranger]);
}

#[test]
fn absent_receivers_are_named_until_they_return() {
    let mut world = World::new(sender(Gather::Count(3)), 1);
    for name in ["leaves", "dies"] {
        world.join(receiver(name));
    }
    world.run(ms(300));
    let now = world.now;
    world.peers[0].session.leave(now, "no room");
    world.peers[1].dead = true;
    world.run(ms(6000));
    let left = "leaves left before the start: no room";
    assert_eq!(unserved(&world), [left, "dies joined, then was silent for 5 s before the start"]);
    world.join(receiver("dies"));
    world.run(ms(7000));
    assert_eq!(unserved(&world), [left]);
}

#[test]
fn a_receiver_whose_interface_is_too_small_says_so() {
    let mut world = World::new(sender(Gather::Count(1)), 1);
    let mut small = receiver_config("small");
    small.max_datagram = 99;
    world.join(ReceiverSession::new(small, Seeds::new(5)));
    world.run(ms(500));
    let why = "small the receiver's interface takes datagrams of 99 bytes, not 100: send with --datagram 99";
    assert_eq!(unserved(&world), [why]);
    assert_eq!(world.sender.phase(), SenderPhase::Gathering);
}

#[test]
fn a_receiver_that_is_started_anew_after_its_report_is_not_late() {
    let mut world = World::new(sender(Gather::Count(2)), 5);
    world.join(receiver("a"));
    let other = world.join(receiver("b"));
    // It never gets done, so that the sender waits for it.
    world.peers[other].then = Then::Nothing;
    world.run_until(ms(3000), |world| world.sender.phase() == SenderPhase::Closing);
    world.run(world.now + carillon_core::Duration::from_millis(400));
    assert_eq!(outcomes(&world)[0], ("a", &MemberOutcome::Verified));
    world.join(patient("a"));
    world.join(patient("c"));
    world.run(world.now + carillon_core::Duration::from_millis(1000));
    assert_eq!(unserved(&world), ["c came after the start"]);
}

fn foreign_invite(state: State) -> Vec<u8> {
    let mut buf = Vec::new();
    let body = Body::Invite(Invite {
        state,
        max_payload: 100,
        progress_interval: 500,
        relays: false,
        sizes: DatagramSizes::default(),
        protocol: Name::new("repeat").unwrap(),
        sender: Name::new("rival").unwrap(),
        settings: Settings::default(),
        reason: Text::default(),
        job: None,
        asks: false,
        job_name: None,
    });
    Packet { association: AssociationId(1234), body }.emit(&mut buf);
    buf
}

#[test]
fn another_sender_on_the_group_is_named_and_told_three_times() {
    let mut machine = sender(Gather::Count(1));
    let mut answers = 0;
    for round in 0..10 {
        let out = give(&mut machine, ms(round), NodeId(8), &foreign_invite(State::Running));
        let to_rival = out.sent.iter().filter(|(to, _)| *to == Dest::Node(NodeId(8)));
        answers += to_rival.inspect(|(_, bytes)| assert!(bytes.len() <= 3 * 40)).count();
    }
    assert_eq!(answers, 3);
    let rivals: Vec<_> = machine.rivals().iter().map(|rival| (&*rival.name, rival.node)).collect();
    assert_eq!(rivals, [("rival", NodeId(8))]);
}

#[test]
fn who_names_senders_joins_no_other_and_says_nothing_to_it() {
    for (from, joins) in
        [(&[][..], true), (&["rival"], true), (&["source"], false), (&["source", "rival"], true)]
    {
        let from = from.iter().copied().map(ToOwned::to_owned).collect();
        let config = ReceiverSessionConfig { from, ..receiver_config("a") };
        let mut machine = ReceiverSession::new(config, Seeds::new(1));
        machine.start(Time::ZERO);
        let (mut said, mut joined) = (0, false);
        let states = [State::Gathering, State::Running, State::Closing].into_iter().cycle();
        for (at, state) in states.take(30).enumerate() {
            let invite = foreign_invite(state);
            said += give(&mut machine, ms(100 * at as u64), NodeId(8), &invite).sent.len();
            joined |= machine.sender_name().is_some();
        }
        assert_eq!((said > 0, joined), (joins, joins));
        assert_eq!(machine.unlisted_sender(), (!joins).then_some("rival"));
    }
}

#[test]
fn started_sender_notes_rival_without_answer() {
    let mut machine = sender(Gather::Count(1));
    let mut join = Vec::new();
    let body = Body::Join {
        nonce: Nonce(1),
        receive_buffer: 1,
        part: MemberRole::Receives,
        largest: 0,
        name: Name::new("a").unwrap(),
        attached: Attachment::default(),
        cookie: None,
        origin: None,
        list: None,
    };
    Packet { association: ASSOCIATION, body }.emit(&mut join);
    give(&mut machine, ms(0), NodeId(1), &join);
    assert_eq!(machine.phase(), SenderPhase::Running);
    let out = give(&mut machine, ms(1), NodeId(8), &foreign_invite(State::Gathering));
    assert!(out.sent.iter().all(|(to, _)| *to != Dest::Node(NodeId(8))));
    assert_eq!(machine.rivals().len(), 1);
}

#[test]
fn ended_session_is_no_rival_and_rivals_are_bounded() {
    let mut machine = sender(Gather::Count(1));
    give(&mut machine, ms(0), NodeId(8), &foreign_invite(State::Finished));
    assert_eq!(machine.rivals().len(), 0);
    let mut decline = Vec::new();
    let text = Text::new("came after the start").unwrap();
    let body = Body::Decline { name: Name::new("x").unwrap(), text };
    Packet { association: ASSOCIATION, body }.emit(&mut decline);
    for node in 1..1000 {
        give(&mut machine, ms(1), NodeId(node), &foreign_invite(State::Running));
        give(&mut machine, ms(1), NodeId(node), &decline);
    }
    assert_eq!((machine.rivals().len(), machine.unserved().len()), (8, 64));
}
