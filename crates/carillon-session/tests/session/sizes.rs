//! Agreement on the datagram size while the sender gathers.

use carillon_core::{ConfigError, Dest, Seeds, Time};
use carillon_session::{
    Gather, MemberOutcome, ReceiverFailure, ReceiverPhase, ReceiverSession, ReceiverSessionConfig,
    SenderPhase, SenderSession, SenderSessionConfig, Shortened,
};
use carillon_wire::session::{
    Attachment, Body, DatagramSizes, Invite, MemberRole, Name, Nonce, Packet, Padding, Settings, State,
    Terms, Text,
};
use proptest::prelude::*;

use super::harness::*;

/// Sizes of the largest datagrams: a message of 100 bytes, and smaller ones.
const SIZES: [u16; 3] = [116, 90, 60];

fn bytes(body: Body<'_>) -> Vec<u8> {
    let mut buf = Vec::new();
    Packet { association: ASSOCIATION, body }.emit(&mut buf);
    buf
}

fn invite(sizes: DatagramSizes) -> Vec<u8> {
    bytes(Body::Invite(Invite {
        state: State::Gathering,
        max_payload: 100,
        progress_interval: 500,
        relays: false,
        sizes,
        protocol: Name::new("repeat").unwrap(),
        sender: Name::new("source").unwrap(),
        settings: Settings::default(),
        reason: Text::default(),
        job: None,
        asks: false,
        job_name: None,
    }))
}

fn size(bytes_in_all: usize) -> Vec<u8> {
    bytes(Body::Size(Padding(bytes_in_all - 8)))
}

const SHOWN: DatagramSizes = DatagramSizes { longest: 116, least: 60 };

/// The largest that each JOIN that goes out says, and when, with an invitation each 100 ms and these datagrams shown behind each.
fn joins(machine: &mut ReceiverSession, shown: &[usize]) -> Vec<(Time, u16)> {
    let mut joins = Vec::new();
    for turn in 0..12 {
        let mut note = |now, outbox: Outbox| {
            joins.extend(outbox.sent.iter().filter_map(|(_, bytes)| match Packet::parse(bytes).ok()?.body {
                Body::Join { largest, .. } => Some((now, largest)),
                _ => None,
            }));
        };
        let at = ms(100 * turn);
        note(at, give(machine, at, SENDER, &invite(SHOWN)));
        for &len in shown {
            note(at, give(machine, at, SENDER, &size(len)));
        }
        for later in (1..100).step_by(3) {
            let at = ms(100 * turn + later);
            note(at, wake(machine, at));
        }
    }
    joins
}

#[test]
fn receiver_joins_once_largest_datagram_arrived() {
    let first = |shown: &[usize], interface| {
        let config = ReceiverSessionConfig { max_datagram: interface, ..receiver_config("a") };
        joins(&mut ReceiverSession::new(config, Seeds::new(1)), shown)[0]
    };
    for (shown, interface, says, at_once) in [
        (&[90, 116][..], 1500, 116, true),
        // No longer one gets through its interface.
        (&[60, 90], 90, 90, true),
        (&[90, 60], 1500, 90, false),
        (&[60], 100, 60, false),
    ] {
        let (at, largest) = first(shown, interface);
        assert_eq!(largest, says, "{shown:?}");
        assert_eq!(at <= ms(25), at_once, "{shown:?}: {at:?}");
        assert!(at_once || (ms(700)..=ms(725)).contains(&at), "{shown:?}: {at:?}");
    }
}

/// A longer datagram arrived in fragments, as a stranger's may; data do not.
#[test]
fn a_receiver_says_no_more_than_its_interface_carries() {
    let config = ReceiverSessionConfig { max_datagram: 100, ..receiver_config("a") };
    let mut machine = ReceiverSession::new(config, Seeds::new(1));
    let joins = joins(&mut machine, &[116]);
    assert!(!joins.is_empty() && joins.iter().all(|(_, largest)| *largest == 100), "{joins:?}");
}

#[test]
fn what_was_said_once_stands() {
    let mut machine = receiver("a");
    assert_eq!(joins(&mut machine, &[90])[0].1, 90);
    give(&mut machine, ms(1200), SENDER, &size(116));
    let later = joins(&mut machine, &[116]);
    assert!(later.iter().all(|(_, largest)| *largest == 90), "{later:?}");
}

#[test]
fn who_has_seen_not_even_the_least_says_so() {
    let mut machine = receiver("a");
    assert_eq!(joins(&mut machine, &[59]), []);
    // The receiver asks whether a sender confirms the size.
    let asked = wake(&mut machine, ms(2500));
    let [(_, ask)] = &asked.sent[..] else { panic!("{:?}", asked.packets()) };
    let Body::Ask { nonce } = Packet::parse(ask).unwrap().body else { panic!("{:?}", asked.packets()) };
    let terms = terms_of(&invite(SHOWN));
    let answer = Body::Answer { nonce, state: State::Gathering, terms, text: Text::default() };
    let why = "datagrams of 60 bytes do not reach the receiver";
    let said = give(&mut machine, ms(2501), SENDER, &bytes(answer)).packets();
    assert!(said[0].contains(&format!("decline \"a\" ({why})")), "{said:?}");
    assert_eq!(machine.phase(), ReceiverPhase::Failed(ReceiverFailure::BadInvitation(why.to_owned())));
}

/// Another sender invites meanwhile, and answers when it is asked: neither keeps a receiver from the other for ever.
#[test]
fn receiver_does_not_alternate_between_senders() {
    let other = carillon_core::NodeId(9);
    let renumbered = |mut bytes: Vec<u8>| {
        bytes[4..8].copy_from_slice(&8u32.to_be_bytes());
        bytes
    };
    let mut machine = receiver("a");
    let mut asked = Vec::new();
    for turn in 0..16 {
        let at = ms(200 * turn);
        let mut outboxes =
            vec![give(&mut machine, at, SENDER, &invite(SHOWN)), give(&mut machine, at, SENDER, &size(90))];
        outboxes.push(give(&mut machine, ms(200 * turn + 50), other, &renumbered(invite(SHOWN))));
        outboxes.push(give(&mut machine, ms(200 * turn + 50), other, &renumbered(size(90))));
        outboxes.extend((51..200).step_by(10).map(|later| wake(&mut machine, ms(200 * turn + later))));
        for (dest, bytes) in outboxes.into_iter().flat_map(|outbox| outbox.sent) {
            let Ok(Packet { association, body }) = Packet::parse(&bytes) else { continue };
            match body {
                Body::Join { largest, .. } => asked.push((association, largest)),
                Body::Ask { nonce } => {
                    let terms = terms_of(&invite(SHOWN));
                    let body = Body::Answer { nonce, state: State::Gathering, terms, text: Text::default() };
                    let mut answer = Vec::new();
                    Packet { association, body }.emit(&mut answer);
                    let Dest::Node(node) = dest else { panic!("it asks one") };
                    give(&mut machine, ms(200 * turn + 199), node, &answer);
                }
                _ => {}
            }
        }
    }
    assert_eq!(asked.first(), Some(&(ASSOCIATION, 90)), "{asked:?}");
}

#[test]
fn a_stranger_shows_nothing() {
    let mut machine = receiver("a");
    for turn in 0..5 {
        let at = ms(100 * turn);
        give(&mut machine, at, SENDER, &invite(SHOWN));
        give(&mut machine, at, carillon_core::NodeId(9), &size(116));
        let own = carillon_core::Dest::Node(carillon_session::LOCAL_NODE);
        give_to(&mut machine, at, SENDER, own, &size(116));
        assert!(wake(&mut machine, ms(100 * turn + 99)).sent.is_empty());
    }
}

fn shows(gather: Gather, sizes: &[u16]) -> SenderSessionConfig {
    SenderSessionConfig { sizes: sizes.to_owned(), ..sender_config(gather) }
}

fn all_verified(world: &World) -> bool {
    world.sender.members().iter().all(|member| member.outcome == MemberOutcome::Verified)
}

#[test]
fn datagrams_are_no_longer_than_what_comes_to_all() {
    for (carries, datagram) in [(116, 116), (115, 90), (90, 90), (75, 60)] {
        let mut world = World::new(sender_with(shows(Gather::Count(3), &SIZES)), 20);
        for name in ["a", "b", "c"] {
            world.join(receiver(name));
        }
        // Invitations of this test are longer than its shorter datagrams.
        let is_invitation = |bytes: &[u8]| matches!(super::kind(bytes), Some(Body::Invite(_)));
        world.lose =
            Box::new(move |_, _, to, bytes| to.0 == 2 && bytes.len() > carries && !is_invitation(bytes));
        world.run(ms(20_000));
        assert!(world.sender.phase() == SenderPhase::Finished && all_verified(&world), "{carries}");
        let shortened =
            (datagram < 116).then(|| Shortened { datagram: datagram as u16, member: "b".to_owned() });
        assert_eq!(world.sender.shortened(), shortened.as_ref());
        assert_eq!(world.sender.max_payload() as usize, datagram - 16);
    }
}

#[test]
fn who_gets_not_even_the_least_keeps_nobody_from_the_rest() {
    let mut world =
        World::new(sender_with(shows(Gather::Wait(carillon_core::Duration::from_secs(3)), &SIZES)), 5);
    for name in ["a", "b"] {
        world.join(receiver(name));
    }
    // Invitations of this test are longer than its least datagram.
    world.lose = Box::new(|_, _, to, bytes| to.0 == 2 && bytes.len() > 59 && bytes[3] != 1);
    world.run(ms(20_000));
    assert_eq!(world.sender.members().len(), 1);
    assert!(all_verified(&world) && world.sender.max_payload() == 100);
    let unserved: Vec<String> =
        world.sender.unserved().iter().map(|one| format!("{} {}", one.name, one.reason)).collect();
    assert_eq!(unserved, ["b datagrams of 60 bytes do not reach the receiver"]);
}

#[test]
fn nobody_makes_them_shorter_than_the_least() {
    let mut machine = sender_with(shows(Gather::Count(1), &SIZES));
    let join = bytes(Body::Join {
        nonce: Nonce(1),
        receive_buffer: 1,
        part: MemberRole::Receives,
        largest: 1,
        name: Name::new("a").unwrap(),
        attached: Attachment::default(),
        cookie: None,
        origin: None,
        list: None,
    });
    let sent = give(&mut machine, ms(1), carillon_core::NodeId(1), &join).packets();
    assert!(sent.iter().any(|text| text.contains("invite running")), "{sent:?}");
    assert_eq!(machine.shortened(), Some(&Shortened { datagram: 60, member: "a".to_owned() }));
    assert_eq!(machine.max_payload(), 44);
}

#[test]
fn each_size_is_shown_in_its_turn_and_the_longest_last() {
    let mut machine = sender_with(shows(Gather::Count(1), &SIZES));
    let mut shown = Vec::new();
    for now in (0..2000).map(ms) {
        let sent = wake(&mut machine, now).sent;
        let of_size =
            |bytes: &Vec<u8>| matches!(Packet::parse(bytes).map(|packet| packet.body), Ok(Body::Size(_)));
        let sizes: Vec<usize> =
            sent.iter().map(|(_, bytes)| bytes).filter(|bytes| of_size(bytes)).map(Vec::len).collect();
        assert!(sizes.is_empty() || of_size(&sent[sent.len() - 1].1), "{sizes:?}");
        if !sizes.is_empty() {
            shown.push(sizes);
        }
    }
    assert_eq!(shown[..4], [[90, 116], [60, 116], [90, 116], [60, 116]]);
    // Sizes are not measured after the end, nor in a running session.
    machine.abort(ms(2000), "enough");
    let end = Outbox::drain(&mut machine, ms(2000)).packets();
    assert!(end.iter().all(|text| !text.contains("size")), "{end:?}");
}

#[test]
fn sizes_that_make_no_sense_are_refused() {
    let second = carillon_core::Duration::from_secs(1);
    for (sizes, gather) in [
        (&[116, 116][..], Gather::Count(1)),
        (&[90, 116], Gather::Count(1)),
        (&[116, 16], Gather::Count(1)),
        (&[116], Gather::Silent(second)),
    ] {
        let made = SenderSession::new(shows(gather, sizes), Seeds::new(1));
        assert!(matches!(made, Err(ConfigError::Conflict(_))), "{sizes:?}");
    }
    let terms = |sizes| terms_of(&invite(sizes));
    assert!(
        terms(SHOWN) != terms(DatagramSizes::default()) && terms(SHOWN) != Terms(0),
        "they are part of the terms"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases / 2))]

    /// Everything that the sender transmits gets through, and all members have everything, whatever else is lost.
    /// With more loss a receiver may miss the smallest size four times in a row, and declines.
    #[test]
    fn all_are_served_whatever_each_port_carries(
        seed: u64, ports in proptest::collection::vec(56usize..200, 1..6), loss in 0.0f64..0.1
    ) {
        let mut config = shows(Gather::Count(ports.len()), &SIZES);
        // A receiver may learn late that it was admitted.
        config.config.set(config.protocol.parameters, "limit", "1000").expect("a setting");
        let mut world = World::new(sender_with(config), 20);
        world.seed(seed, loss);
        for number in 0..ports.len() {
            world.join(receiver(&format!("r{number}")));
        }
        let least = ports.iter().map(|port| (*port).max(60)).min().unwrap_or(60);
        // Invitations, which are as long here as datagrams, come to all.
        world.lose = Box::new(move |_, from, to, bytes| {
            let invites = matches!(Packet::parse(bytes).map(|packet| packet.body), Ok(Body::Invite(_)));
            from == SENDER && !invites && bytes.len() > ports[to.index() - 1].max(60)
        });
        world.run_until(ms(120_000), |world| world.sender.phase() == SenderPhase::Finished);
        prop_assert!(world.sender.phase() == SenderPhase::Finished && all_verified(&world), "{:?}", world.sender.members());
        prop_assert!(world.sender.max_payload() as usize + 16 <= least.min(116));
    }
}
