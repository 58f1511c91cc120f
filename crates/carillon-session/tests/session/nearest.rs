//! Trees by measured distance, in virtual time: before the start each member measures how far it is from the helpers and from
//! the sender, and turns to the nearest.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use carillon_core::{Duration, NodeId, Seeds, Sender as _};
use carillon_session::{
    Gather, HelperOptions, HelperSelection, Member, MemberOutcome, ReceiverPhase, ReceiverSession,
    ReceiverSessionConfig, SenderSessionConfig,
};
use carillon_testkit::TREE;
use carillon_wire::Envelope;
use carillon_wire::session::{Body, DistanceTo, Distances, MemberRole, Nonce, Packet};

use super::harness::*;

/// Receivers a to d are nodes 1 to 4, helpers e to g nodes 5 to 7.
const NAMES: [&str; 7] = ["a", "b", "c", "d", "e", "f", "g"];

/// Positions on a line, in milliseconds from the sender. g is behind f.
const PLACES: [u64; 8] = [0, 38, 42, 95, 3, 40, 60, 100];

fn way(from: NodeId, to: NodeId) -> Duration {
    let place = |node: NodeId| PLACES.get(node.index()).copied().unwrap_or_default();
    Duration::from_millis(1 + place(from).abs_diff(place(to)))
}

fn config() -> SenderSessionConfig {
    let config = SenderSessionConfig::new(ASSOCIATION, "source", GROUP, &TREE, 100);
    SenderSessionConfig {
        gather: Gather::Count(4),
        helpers: HelperOptions {
            wanted: HelperSelection::Count(3),
            nearest: true,
            ..HelperOptions::default()
        },
        ..config
    }
}

fn member(name: &str) -> ReceiverSession {
    let part = if name < "e" { MemberRole::Receives } else { MemberRole::Helps };
    let config = ReceiverSessionConfig { part, ..receiver_config(name) };
    ReceiverSession::new(config, Seeds::new(1).part(name))
}

fn group(config: SenderSessionConfig, messages: u64) -> World {
    let mut world = World::new(sender_with(config), messages);
    world.way = way;
    NAMES.iter().for_each(|name| _ = world.join(member(name)));
    world
}

fn over(world: &World) -> bool {
    let ended = |peer: &Peer| {
        peer.dead || matches!(peer.session.phase(), ReceiverPhase::Finished | ReceiverPhase::Failed(_))
    };
    world.sender.is_finished() && world.peers.iter().all(ended)
}

/// Parent of each member by the last roster before the start; "" is the sender.
fn turns(world: &World) -> BTreeMap<String, String> {
    let pages: Vec<&String> = world.log.iter().filter(|line| line.contains(" roster ")).collect();
    let edition =
        |line: &str| line.split("edition ").nth(1).and_then(|rest| rest.split(' ').next()).map(str::to_owned);
    let last = edition(pages.last().expect("a roster was told"));
    let page = pages.iter().find(|line| edition(line) == last).expect("it is there");
    let words: Vec<&str> = page.split(' ').collect();
    let at: Vec<usize> = (0..words.len()).filter(|&at| words[at].starts_with('"')).collect();
    let name = |rank: usize| words[at[rank]].trim_matches('"').to_owned();
    let parent = |rank: usize| {
        let end = at.get(rank + 1).copied().unwrap_or(words.len());
        let to = words[at[rank]..end].iter().skip_while(|word| **word != "to").nth(1);
        to.map_or_else(String::new, |to| name(to.parse().expect("a rank")))
    };
    (1..at.len()).map(|rank| (name(rank), parent(rank))).collect()
}

fn expected(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|&(one, other)| (one.to_owned(), other.to_owned())).collect()
}

fn all_have(world: &World, receivers: &[usize], messages: u64) {
    for &receiver in receivers {
        let peer = &world.peers[receiver - 1];
        assert_eq!(
            (peer.session.phase(), peer.got),
            (ReceiverPhase::Finished, messages),
            "{receiver}: {:#?}",
            world.log
        );
    }
}

#[test]
fn members_and_helpers_turn_to_nearest_helper() {
    let wanted = [("a", "e"), ("b", "e"), ("c", "g"), ("d", ""), ("e", ""), ("f", "e"), ("g", "f")];
    for seed in 0..8 {
        let mut world = group(config(), 40);
        world.seed(seed, if seed == 0 { 0.0 } else { 0.1 });
        world.run_until(ms(60_000), over);
        all_have(&world, &[1, 2, 3, 4], 40);
        // d stands beside the sender, and has no reason to go by a helper.
        assert_eq!(turns(&world), expected(&wanted), "seed {seed}");
    }
}

#[test]
fn without_the_switch_nobody_is_asked() {
    let mut config = config();
    config.helpers.nearest = false;
    let mut world = group(config, 20);
    world.run_until(ms(60_000), over);
    all_have(&world, &[1, 2, 3, 4], 20);
    let of_distances =
        |line: &String| ["measure", "probe", "echo", "distances"].iter().any(|word| line.contains(word));
    assert!(!world.log.iter().any(of_distances));
}

#[test]
fn of_helpers_that_are_about_as_near_each_has_its_share() {
    let mut world = group(config(), 20);
    world.way = |_, _| Duration::from_millis(7);
    world.run_until(ms(60_000), over);
    let turns = turns(&world);
    let children = |helper: &str| turns.values().filter(|to| *to == helper).count();
    let mut shares = ["e", "f", "g"].map(children);
    shares.sort_unstable();
    assert_eq!((children(""), shares), (3, [1, 1, 2]), "{turns:?}");
}

#[test]
fn fanout_and_placement_are_respected() {
    // f and g are near e, and not so near each other.
    fn ways(from: NodeId, to: NodeId) -> Duration {
        let millis = match (from.min(to).0, from.max(to).0) {
            (5, 6 | 7) => 4,
            (6, 7) => 10,
            (0, helper @ 5..) => 30 + helper,
            _ => 20,
        };
        Duration::from_millis(millis.into())
    }
    for (fanout, of_g) in [(None, "e"), (Some(1), "f")] {
        let under = [("d".to_owned(), "g".to_owned())].into();
        let mut config = config();
        (config.helpers.fanout, config.helpers.under) = (fanout, under);
        let mut world = group(config, 20);
        world.way = ways;
        world.run_until(ms(60_000), over);
        all_have(&world, &[1, 2, 3, 4], 20);
        let turns = turns(&world);
        assert_eq!(
            (&*turns["e"], &*turns["f"], &*turns["g"], &*turns["d"]),
            ("", "e", of_g, "g"),
            "{turns:?}"
        );
    }
}

#[test]
fn member_without_measurement_delays_start_boundedly() {
    let mut world = group(config(), 20);
    // c is of a release that knows nothing of it.
    world.lose = Box::new(|_, from, to, bytes| {
        let about_distances = Packet::parse(bytes).is_ok_and(|packet| {
            matches!(packet.body, Body::Measure { .. } | Body::Probe { .. } | Body::Distances { .. })
        });
        about_distances && (from == NodeId(3) || to == NodeId(3))
    });
    world.run_until(ms(60_000), over);
    all_have(&world, &[1, 2, 3, 4], 20);
    let turns = turns(&world);
    assert_eq!(
        (&*turns["a"], &*turns["c"], &*turns["g"]),
        ("e", "", "f"),
        "the others have their places: {turns:?}"
    );
    let started = world.log.iter().find(|line| line.contains("invite running")).expect("it starts");
    let at: u64 = started.split(' ').next().and_then(|at| at.parse().ok()).expect("a time");
    assert!(at < 6_500, "{started}");
}

#[test]
fn a_helper_that_dies_before_the_start_is_chosen_by_nobody() {
    let mut world = group(config(), 20);
    world.run_until(ms(20_000), |world| world.log.iter().any(|line| line.contains(" measure ")));
    world.peers[4].dead = true;
    world.run_until(ms(60_000), over);
    all_have(&world, &[1, 2, 3, 4], 20);
    let turns = turns(&world);
    assert_eq!((&*turns["a"], &*turns["b"], &*turns["c"], &*turns["f"]), ("f", "f", "g", ""), "{turns:?}");
}

/// The parent of a lost helper, the nearest towards the sender, serves the helper's children.
#[test]
fn children_of_lost_helper_turn_to_its_parent() {
    // g with its child c, and f with its child g.
    for (victim, orphan, next) in [(7, NodeId(3), NodeId(6)), (6, NodeId(7), NodeId(5))] {
        let mut world = group(config(), 200);
        world.run_until(ms(60_000), |world| world.peers[0].got > 50);
        world.peers[victim - 1].dead = true;
        let talk = Rc::new(RefCell::new(BTreeSet::new()));
        let told = talk.clone();
        world.lose = Box::new(move |_, from, to, bytes| {
            if Envelope::parse(bytes).is_ok_and(|(envelope, _)| envelope.protocol != 0) {
                told.borrow_mut().insert((from, to));
            }
            false
        });
        world.run_until(ms(90_000), over);
        all_have(&world, &[1, 2, 3, 4], 200);
        let lost = |member: &&Member| matches!(member.outcome, MemberOutcome::Lost(_));
        let lost: Vec<&str> =
            world.sender.members().iter().filter(lost).map(|member| &*member.name).collect();
        assert_eq!(lost, [NAMES[victim - 1]], "it is lost, and nobody else");
        assert!(talk.borrow().contains(&(orphan, next)), "{victim}: {:?}", talk.borrow());
    }
}

#[test]
fn what_strangers_and_liars_say_of_distances_moves_nobody() {
    let mut world = group(config(), 20);
    world.run_until(ms(20_000), |world| world.log.iter().any(|line| line.contains(" measure ")));
    let mut list = Vec::new();
    Distances::encode([0, 1, 5, 900].map(|rank| DistanceTo { rank, micros: 1 }), &mut list);
    let distances = Distances::new(&list).expect("distances");
    for (from, edition) in [(NodeId(1), 1), (NodeId(99), 1), (NodeId(99), 2)] {
        let mut bytes = Vec::new();
        let body = Body::Distances { nonce: Nonce(5), edition, distances };
        Packet { association: ASSOCIATION, body }.emit(&mut bytes);
        world.inject(from, SENDER, &bytes);
        // Answers without a question, and questions from unknown nodes.
        for body in [Body::Echo { token: 7 }, Body::Probe { token: 7 }] {
            let mut bytes = Vec::new();
            Packet { association: ASSOCIATION, body }.emit(&mut bytes);
            (0..=7).for_each(|to| world.inject(NodeId(99), NodeId(to), &bytes));
        }
    }
    world.run_until(ms(60_000), over);
    all_have(&world, &[1, 2, 3, 4], 20);
    let turns = turns(&world);
    assert_eq!((&*turns["a"], &*turns["c"], &*turns["d"]), ("e", "g", ""), "{turns:?}");
    assert!(
        !world.log.iter().any(|line| line.contains("echo 0000000000000007")),
        "strangers are not answered"
    );
}
