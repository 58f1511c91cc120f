//! Sessions with helpers in virtual time: helpers are gathered, members learn their places, and lost helpers are
//! replaced. The protocol is the small tree of the testkit.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use carillon_core::{ConfigError, Duration, NodeId, Seeds, Sender as _};
use carillon_session::{
    Gather, HelperOptions, HelperSelection, MemberOutcome, ReceiverFailure, ReceiverPhase, ReceiverSession,
    ReceiverSessionConfig, SenderPhase, SenderSession, SenderSessionConfig, Slow,
};
use carillon_testkit::TREE;
use carillon_wire::Envelope;
use carillon_wire::session::{Body, MemberRole, Packet, Peer, PeerList, RosterPage, State};

use super::harness::*;

fn config(gather: Gather, helping: HelperSelection) -> SenderSessionConfig {
    let config = SenderSessionConfig::new(ASSOCIATION, "source", GROUP, &TREE, 100);
    let helpers = HelperOptions { wanted: helping, fanout: Some(1), ..HelperOptions::default() };
    SenderSessionConfig { gather, helpers, ..config }
}

fn helper(name: &str) -> ReceiverSession {
    let config = ReceiverSessionConfig { part: MemberRole::Helps, ..receiver_config(name) };
    ReceiverSession::new(config, Seeds::new(1).part(name))
}

/// A receiver that is willing to help.
fn willing(name: &str) -> ReceiverSession {
    let config = ReceiverSessionConfig { part: MemberRole::ReceivesAndHelps, ..receiver_config(name) };
    ReceiverSession::new(config, Seeds::new(1).part(name))
}

fn names(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

/// Role that a forged table gives to a member of this role.
fn other(part: MemberRole) -> MemberRole {
    if part.helps() { MemberRole::Receives } else { MemberRole::Helps }
}

/// Three receivers, nodes 1 to 3, and two helpers in a chain, nodes 4 and 5.
fn group(messages: u64) -> World {
    let mut world = World::new(sender_with(config(Gather::Count(3), HelperSelection::Count(2))), messages);
    ["a", "b", "c"].into_iter().for_each(|name| _ = world.join(receiver(name)));
    ["h", "i"].into_iter().for_each(|name| _ = world.join(helper(name)));
    world
}

fn over(world: &World) -> bool {
    let ended = |peer: &super::harness::Peer| {
        peer.dead || matches!(peer.session.phase(), ReceiverPhase::Finished | ReceiverPhase::Failed(_))
    };
    world.sender.is_finished() && world.peers.iter().all(ended)
}

/// Asserts that all receivers have everything, in order, and that the sender knows it.
fn complete(world: &World, messages: u64) {
    assert_eq!(world.sender.phase(), SenderPhase::Finished, "{:#?}", world.log);
    for member in world.sender.members().iter().filter(|member| member.part.receives()) {
        assert_eq!(member.outcome, MemberOutcome::Verified, "{}: {:#?}", member.name, world.log);
    }
    for peer in &world.peers[..3] {
        assert_eq!((peer.session.phase(), peer.got), (ReceiverPhase::Finished, messages));
        let numbers: Vec<&str> = peer.order.iter().map(|text| &text[6..]).collect();
        assert!(numbers.is_sorted_by(|one, next| one > next), "in order, each once: {numbers:?}");
    }
}

/// Number of protocol packets between each pair of nodes.
type Talk = Rc<RefCell<BTreeMap<(NodeId, NodeId), usize>>>;

fn overheard(world: &mut World) -> Talk {
    let talk = Talk::default();
    let told = talk.clone();
    world.lose = Box::new(move |_, from, to, bytes| {
        if Envelope::parse(bytes).is_ok_and(|(envelope, _)| envelope.protocol != 0) {
            *told.borrow_mut().entry((from, to)).or_default() += 1;
        }
        false
    });
    talk
}

/// The ranks and parents of the first roster that was told, by name.
fn told(world: &World) -> BTreeMap<String, String> {
    let page = world.log.iter().find(|line| line.contains(" roster ")).expect("a roster was told");
    let words: Vec<&str> = page.split(' ').collect();
    let names = words.iter().enumerate().filter(|(_, word)| word.starts_with('"'));
    names
        .map(|(at, name)| {
            let rest = words[at + 1..].iter().take_while(|word| !word.starts_with('"'));
            (name.trim_matches('"').to_owned(), rest.copied().collect::<Vec<_>>().join(" "))
        })
        .collect()
}

#[test]
fn everybody_turns_to_whom_the_roster_says() {
    let mut world = group(50);
    world.seed(1, 0.0);
    let talk = overheard(&mut world);
    world.run_until(ms(20_000), over);
    complete(&world, 50);
    let roster = told(&world);
    let upper = if roster["h"].contains("turns") { NodeId(5) } else { NodeId(4) };
    let lower = if upper == NodeId(4) { NodeId(5) } else { NodeId(4) };
    assert!(["a", "b", "c"].iter().all(|name| roster[*name].contains("turns to")), "{roster:?}");
    let talk = talk.borrow();
    let spoke = |from, to| talk.get(&(from, to)).is_some_and(|count| *count > 0);
    assert!(spoke(upper, SENDER) && spoke(lower, upper));
    assert!((1..=3).map(NodeId).all(|node| spoke(node, lower) && !spoke(node, SENDER)), "{talk:?}");
    assert!(!spoke(lower, SENDER));
    // Helpers report nothing, and are released at the end.
    for peer in &world.peers[3..] {
        assert_eq!((peer.session.phase(), peer.got), (ReceiverPhase::Finished, 0));
    }
    assert!(!world.log.iter().any(|line| line.contains("n4 session") && line.contains(" report ")));
}

/// A pure helper is not asked whether it is done: only the sender's end notices tell it.
#[test]
fn helper_that_misses_end_announcements_still_ends() {
    let mut world = group(10);
    let mut lost = 0;
    world.lose = Box::new(move |_, _, to, bytes| {
        let farewell = Packet::parse(bytes).is_ok_and(
            |packet| matches!(packet.body, Body::Invite(invite) if invite.state == State::Finished),
        );
        let loses = farewell && to == NodeId(4) && lost < 5;
        lost += u32::from(loses);
        loses
    });
    world.run_until(ms(20_000), over);
    complete(&world, 10);
    assert_eq!(world.peers[3].session.phase(), ReceiverPhase::Finished);
    assert!(world.now < ms(2000), "{}", world.now);
}

#[test]
fn everything_arrives_where_a_tenth_is_lost() {
    for seed in 0..8 {
        let mut world = group(50);
        world.seed(seed, 0.1);
        world.run_until(ms(60_000), over);
        complete(&world, 50);
    }
}

#[test]
fn a_helper_that_dies_is_done_without() {
    // One of them is the upper one, the other the lower.
    for victim in [3, 4] {
        let mut world = group(200);
        world.seed(victim as u64, 0.02);
        world.run_until(ms(60_000), |world| world.peers[0].got > 50);
        world.peers[victim].dead = true;
        world.run_until(ms(60_000), over);
        complete(&world, 200);
        let gone: Vec<&str> = world
            .sender
            .members()
            .iter()
            .filter(|member| matches!(member.outcome, MemberOutcome::Lost(_)))
            .map(|member| member.name.as_str())
            .collect();
        assert_eq!(gone, [["h", "i"][victim - 3]], "it is lost, and nobody else");
    }
}

#[test]
fn both_may_die_one_after_the_other() {
    let mut world = group(200);
    for (victim, got) in [(4, 40), (3, 120)] {
        world.run_until(ms(60_000), |world| world.peers[0].got > got);
        world.peers[victim].dead = true;
    }
    world.run_until(ms(120_000), over);
    complete(&world, 200);
}

/// A receiver that dies delays its helper, and through it the sender, only until it is expelled; the helper stays.
#[test]
fn a_receiver_that_dies_takes_no_helper_along() {
    let mut settings = config(Gather::Count(3), HelperSelection::Count(2));
    // The helper itself expels no member.
    settings.config.set(TREE.parameters, "limit", "1000000").expect("a setting");
    let mut world = World::new(sender_with(settings), 200);
    ["a", "b", "c"].into_iter().for_each(|name| _ = world.join(receiver(name)));
    ["h", "i"].into_iter().for_each(|name| _ = world.join(helper(name)));
    world.run_until(ms(60_000), |world| world.peers[0].got > 50);
    world.peers[2].dead = true;
    world.run_until(ms(60_000), over);
    let outcome = |name: &str| {
        world.sender.members().iter().find(|member| member.name == name).expect("a member").outcome.clone()
    };
    assert_eq!((outcome("a"), outcome("b")), (MemberOutcome::Verified, MemberOutcome::Verified));
    assert!(matches!(outcome("c"), MemberOutcome::Lost(_)));
    assert_eq!((outcome("h"), outcome("i")), (MemberOutcome::Active, MemberOutcome::Active));
}

/// A member that lost its helper lags for a while, and is left to a catch-up session only if it stays slow.
#[test]
fn who_has_lost_its_helper_is_not_slow_for_it() {
    let mut settings = config(Gather::Count(3), HelperSelection::Count(1));
    settings.config.set(TREE.parameters, "limit", "1000000").expect("a setting");
    (settings.job.further, settings.slow, settings.max_payload) = (true, Slow::Lane, 1400);
    let timeout = settings.member_timeout;
    let mut world = World::new(sender_with(settings), 1000);
    ["a", "b", "c"].into_iter().for_each(|name| _ = world.join(receiver(name)));
    world.join(helper("h"));
    // A message each 300 ms, in which the others could have a hundred.
    answers_each(&mut world, 3, Duration::from_millis(300));
    world.run_until(ms(60_000), |world| world.peers[0].got > 8);
    world.peers[3].dead = true;
    world.run_until(ms(60_000), |world| lost(world, "h").is_some());
    let helper_lost = world.now;
    world.run_until(ms(60_000), |world| lost(world, "c").is_some());
    assert!(lost(&world, "c").is_some_and(|reason| reason.starts_with("kept most of the others waiting")));
    assert!(world.now >= helper_lost + timeout, "after {:?}", world.now.since(helper_lost));
}

fn unserved(world: &World) -> Vec<String> {
    world.sender.unserved().iter().map(|one| format!("{} {}", one.name, one.reason)).collect()
}

#[test]
fn nobody_helps_who_was_not_let() {
    let set = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<BTreeSet<_>>();
    // No helpers at all, one of a name, and one more than there is room for.
    for (helping, good) in [
        (HelperSelection::Nobody, &[][..]),
        (HelperSelection::Names(set(&["h"])), &["h"]),
        (HelperSelection::Count(1), &["h"]),
    ] {
        let gather = match helping {
            HelperSelection::Count(_) => Gather::Count(3),
            _ => Gather::Names(set(&["a", "b", "c"])),
        };
        let mut world = World::new(sender_with(config(gather, helping.clone())), 20);
        good.iter().for_each(|name| _ = world.join(helper(name)));
        let stranger = world.join(helper("x"));
        // A receiver cannot take a helper's name either.
        let thief = world.join(receiver(if good.is_empty() { "y" } else { "h" }));
        world.peers[thief].dead = helping == HelperSelection::Count(1);
        world.run(ms(150));
        let first = ["a", "b", "c"].map(|name| world.join(receiver(name)))[0];
        world.run_until(ms(20_000), |world| world.sender.is_finished());
        let helpers: Vec<&str> = world
            .sender
            .members()
            .iter()
            .filter(|member| member.part.helps())
            .map(|member| member.name.as_str())
            .collect();
        let served = if helping == HelperSelection::Count(1) { helpers.len() == 1 } else { helpers == good };
        assert!(served, "{helping:?}: {helpers:?}");
        assert_eq!(world.sender.phase(), SenderPhase::Finished, "{helping:?}: {:#?}", world.log);
        assert_eq!(world.peers[first].got, 20);
        if helping != HelperSelection::Count(1) {
            assert!(
                matches!(world.phase(stranger), ReceiverPhase::Failed(ReceiverFailure::Refused(..))),
                "{helping:?}: {:?}",
                world.phase(stranger)
            );
            assert!(unserved(&world).iter().any(|line| line.starts_with("x ")), "{:?}", unserved(&world));
            assert!(matches!(world.phase(thief), ReceiverPhase::Failed(ReceiverFailure::Refused(..))));
        }
    }
}

#[test]
fn what_makes_no_sense_is_refused_with_a_reason() {
    let refused = |config: SenderSessionConfig| match SenderSession::new(config, Seeds::new(1)) {
        Err(ConfigError::Conflict(text)) => text,
        other => panic!("{other:?}"),
    };
    let mut none = sender_config(Gather::Count(1));
    none.helpers.wanted = HelperSelection::Count(1);
    assert_eq!(refused(none), "the protocol \"repeat\" has no helpers");
    assert_eq!(
        refused(config(Gather::Names(names(&["a"])), HelperSelection::Count(1))),
        "a session that expects its receivers by name has to name its helpers too"
    );
    assert!(
        refused(config(Gather::Count(1), HelperSelection::Names(names(&[""]))))
            .contains("a name is 1 to 64 bytes")
    );
    assert!(
        refused(config(Gather::Count(1), HelperSelection::Count(5000)))
            .starts_with("5000 helpers are more than")
    );
}

/// Three receivers of which the first is willing to help.
fn designated(config: SenderSessionConfig, messages: u64) -> World {
    let mut world = World::new(sender_with(config), messages);
    world.join(willing("a"));
    ["b", "c"].into_iter().for_each(|name| _ = world.join(receiver(name)));
    world
}

#[test]
fn designated_receiver_serves_the_others() {
    let by_name = config(Gather::Names(names(&["a", "b", "c"])), HelperSelection::Names(names(&["a"])));
    for config in [config(Gather::Count(3), HelperSelection::Count(1)), by_name] {
        let mut world = designated(config, 50);
        world.seed(3, 0.1);
        let talk = overheard(&mut world);
        world.run_until(ms(60_000), over);
        complete(&world, 50);
        let roster = told(&world);
        assert!(roster["a"].contains("receives and helps"), "{roster:?}");
        assert!(["b", "c"].iter().all(|name| roster[*name].contains("turns to")), "{roster:?}");
        let talk = talk.borrow();
        let spoke = |from, to| talk.contains_key(&(NodeId(from), to));
        assert!(spoke(2, NodeId(1)) && spoke(3, NodeId(1)) && spoke(1, SENDER), "{talk:?}");
        assert!(!spoke(2, SENDER) && !spoke(3, SENDER), "{talk:?}");
    }
}

#[test]
fn a_designated_receiver_that_dies_takes_nothing_with_it() {
    for seed in 0..4 {
        let mut world = designated(config(Gather::Count(3), HelperSelection::Count(1)), 200);
        world.seed(seed, 0.05);
        world.run_until(ms(60_000), |world| world.peers[1].got > 50);
        world.peers[0].dead = true;
        world.run_until(ms(60_000), over);
        let outcomes: Vec<bool> =
            world.sender.members().iter().map(|member| member.outcome == MemberOutcome::Verified).collect();
        assert_eq!(outcomes.iter().filter(|verified| **verified).count(), 2, "{:#?}", world.sender.members());
        assert!(world.peers[1..].iter().all(|peer| peer.got == 200), "seed {seed}");
    }
}

#[test]
fn who_is_willing_to_help_and_is_not_let_receives() {
    let mut without = World::new(sender(Gather::Count(3)), 20);
    without.join(willing("a"));
    ["b", "c"].into_iter().for_each(|name| _ = without.join(receiver(name)));
    for mut world in [designated(config(Gather::Count(3), HelperSelection::Nobody), 20), without] {
        world.run_until(ms(20_000), over);
        complete(&world, 20);
        assert!(world.sender.members().iter().all(|member| member.part == MemberRole::Receives));
    }
    // A member that is expected to help and to receive has to do both.
    let by_name = || config(Gather::Names(names(&["a", "b"])), HelperSelection::Names(names(&["a"])));
    for one in [receiver("a"), helper("a")] {
        let mut world = World::new(sender_with(by_name()), 5);
        let (one, _) = (world.join(one), world.join(receiver("b")));
        world.run(ms(2_000));
        assert!(
            matches!(world.phase(one), ReceiverPhase::Failed(ReceiverFailure::Refused(..))),
            "{:?}",
            world.phase(one)
        );
        assert_eq!(world.sender.missing(), ["a"]);
    }
}

#[test]
fn a_protocol_without_helpers_has_none() {
    let mut world = World::new(sender(Gather::Count(1)), 5);
    let helper = world.join(helper("h"));
    world.run(ms(300));
    let ReceiverPhase::Failed(ReceiverFailure::BadInvitation(reason)) = world.phase(helper) else {
        panic!("{:?}", world.phase(helper))
    };
    assert_eq!(reason, "the protocol \"repeat\" has no helpers");
    // The receiver is served all the same.
    world.join(receiver("a"));
    world.run_until(ms(5_000), |world| world.sender.is_finished());
    assert_eq!(world.sender.members().len(), 1);
    assert_eq!(world.sender.members()[0].outcome, MemberOutcome::Verified);
}

/// Roster with forged entries: helpers below each other, a member below a node that does not help, a member that is
/// made a helper against its will, and one below an unused rank.
#[test]
fn a_table_that_lies_is_thrown_away() {
    for lie in 0..4_usize {
        let mut world = group(30);
        let (heard, caught) = (Rc::new(RefCell::new(Vec::new())), Rc::new(RefCell::new(0)));
        let (page, count) = (heard.clone(), caught.clone());
        // What the sender tells reaches none but liars, for a while.
        world.lose = Box::new(move |now, from, _, bytes| {
            let roster = matches!(Packet::parse(bytes).map(|packet| packet.body), Ok(Body::Roster(_)));
            if roster && from == SENDER && now < ms(700) {
                *page.borrow_mut() = bytes.to_vec();
                *count.borrow_mut() += 1;
                return true;
            }
            false
        });
        world.run_until(ms(500), |_| *caught.borrow() > 0);
        let bytes = heard.borrow().clone();
        let Ok(Packet { body: Body::Roster(true_page), .. }) = Packet::parse(&bytes) else {
            panic!("no roster was told: {:#?}", world.log)
        };
        let helpers: Vec<u16> = (0..)
            .zip(true_page.peers.iter())
            .filter(|(_, peer)| peer.part.helps())
            .map(|(rank, _)| rank)
            .collect();
        let receiver =
            (1..).zip(true_page.peers.iter().skip(1)).find(|(_, peer)| !peer.part.helps()).expect("one").0;
        let twisted = (0_u16..).zip(true_page.peers.iter()).map(|(rank, peer)| match lie {
            0 if rank == helpers[0] => Peer { parent: helpers[1], ..peer },
            0 if rank == helpers[1] => Peer { parent: helpers[0], ..peer },
            1 if rank > 0 && !peer.part.helps() && rank != receiver => Peer { parent: receiver, ..peer },
            2 if rank > 0 => Peer { part: other(peer.part), parent: 0, ..peer },
            3 if rank > 0 && !peer.part.helps() => Peer { parent: 900, ..peer },
            _ => peer,
        });
        let mut list = Vec::new();
        PeerList::encode(twisted.collect::<Vec<_>>(), &mut list);
        let body = Body::Roster(RosterPage { peers: PeerList::new(&list).expect("a page"), ..true_page });
        let mut forged = Vec::new();
        Packet { association: ASSOCIATION, body }.emit(&mut forged);
        for beat in 0..15 {
            (1..=5).for_each(|node| world.inject(SENDER, NodeId(node), &forged));
            world.run(ms(500 + 10 * beat));
        }
        assert!(
            world.peers.iter().all(|peer| peer.session.phase() == ReceiverPhase::Assembling),
            "lie {lie}"
        );
        world.run_until(ms(20_000), over);
        complete(&world, 30);
    }
}
