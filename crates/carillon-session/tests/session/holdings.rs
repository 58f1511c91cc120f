//! Questions of a sender's application about the holdings of its members, and their answers.

use carillon_core::{Dest, Duration, NodeId, Seeds};
use carillon_session::{
    Gather, HoldingsPart, JobConfig, ListId, ReceiverPhase, ReceiverSession, ReceiverSessionConfig,
    SenderSession, SenderSessionConfig,
};
use carillon_wire::session::{
    Attachment, Body, DatagramSizes, Invite, MemberRole, Name, Nonce, Packet, Settings, State, Text,
};

use super::harness::*;

const LIST: ListId = ListId([7; 16]);

fn bytes(body: Body<'_>) -> Vec<u8> {
    let mut buf = Vec::new();
    Packet { association: ASSOCIATION, body }.emit(&mut buf);
    buf
}

fn join(nonce: u64, name: &str, list: Option<ListId>) -> Vec<u8> {
    let name = Name::new(name).unwrap();
    let (attached, part) = (Attachment::default(), MemberRole::Receives);
    let nonce = Nonce(nonce);
    bytes(Body::Join {
        nonce,
        receive_buffer: 1,
        part,
        largest: 0,
        name,
        attached,
        cookie: None,
        origin: None,
        list,
    })
}

fn part(nonce: u64, question: u32, total: u32, offset: u32, part: &[u8]) -> Vec<u8> {
    let part = HoldingsPart::new(question, total, offset, part).expect("a part");
    bytes(Body::Holdings { nonce: Nonce(nonce), part })
}

/// A sender that asks, with members 1 (answers) and 2 (does not), running.
fn asking() -> SenderSession {
    let config = sender_config(Gather::Count(2));
    let mut sender =
        sender_with(SenderSessionConfig { job: JobConfig { asks: true, ..config.job.clone() }, ..config });
    give(&mut sender, ms(1), NodeId(1), &join(11, "a", Some(LIST)));
    give(&mut sender, ms(1), NodeId(2), &join(12, "b", None));
    sender
}

fn acknowledged(outbox: &Outbox) -> Vec<(u32, u32)> {
    let packets = outbox.sent.iter().filter_map(|(_, bytes)| Packet::parse(bytes).ok());
    let acks = packets.filter_map(|packet| match packet.body {
        Body::HoldingsAck { question, bytes, .. } => Some((question, bytes)),
        _ => None,
    });
    acks.collect()
}

#[test]
fn answer_is_complete_without_gaps_only() {
    let mut sender = asking();
    let tell = |sender: &mut SenderSession, node, bytes: &[u8]| {
        acknowledged(&give(sender, ms(50), NodeId(node), bytes))
    };
    assert_eq!(sender.members()[0].list, Some(LIST));
    assert_eq!(tell(&mut sender, 1, &part(11, 1, 5, 0, b"ab")), [(1, 2)]);
    // Behind a gap, repeated, and of another length.
    assert_eq!(tell(&mut sender, 1, &part(11, 1, 5, 3, b"de")), [(1, 2)]);
    assert_eq!(tell(&mut sender, 1, &part(11, 1, 5, 0, b"ab")), [(1, 2)]);
    assert_eq!(tell(&mut sender, 1, &part(11, 1, 6, 2, b"cd")), []);
    assert_eq!(sender.holdings(NodeId(1), 1), None);
    assert_eq!(tell(&mut sender, 1, &part(11, 1, 5, 2, b"cde")), [(1, 5)]);
    assert_eq!(sender.holdings(NodeId(1), 1), Some(&b"abcde"[..]));
    assert_eq!(sender.holdings(NodeId(1), 2), None);
    // The answer to a new question replaces it, and late parts of the former one change nothing.
    assert_eq!(tell(&mut sender, 1, &part(11, 2, 1, 0, b"x")), [(2, 1)]);
    assert_eq!(tell(&mut sender, 1, &part(11, 1, 5, 0, b"ab")), []);
    assert_eq!(sender.holdings(NodeId(1), 2), Some(&b"x"[..]));
}

#[test]
fn only_members_that_can_answer_do() {
    let mut sender = asking();
    for (node, nonce) in [(1, 12), (2, 11), (2, 12), (9, 11), (9, 5)] {
        let outbox = give(&mut sender, ms(50), NodeId(node), &part(nonce, 1, 1, 0, b"x"));
        assert_eq!(acknowledged(&outbox), [], "node {node} with nonce {nonce}");
    }
    assert!((1..=9).all(|node| sender.holdings(NodeId(node), 1).is_none()));
    // A nonce in a packet to the group is no secret.
    give_to(&mut sender, ms(50), NodeId(1), Dest::group(GROUP), &part(11, 1, 1, 0, b"x"));
    assert_eq!(sender.holdings(NodeId(1), 1), None);
}

/// A running member of a sender that asks or does not, and its nonce.
fn member(asks: bool) -> (ReceiverSession, Nonce) {
    let invitation = bytes(Body::Invite(Invite {
        state: State::Gathering,
        max_payload: 100,
        progress_interval: 500,
        relays: false,
        sizes: DatagramSizes::default(),
        protocol: Name::new("repeat").unwrap(),
        sender: Name::new("source").unwrap(),
        settings: Settings::new("limit=5\nwait=20 ms").unwrap(),
        reason: Text::default(),
        job: None,
        asks,
        job_name: None,
    }));
    let config = ReceiverSessionConfig { list: Some(LIST), ..receiver_config("a") };
    let mut machine = ReceiverSession::new(config, Seeds::new(1));
    give(&mut machine, ms(0), SENDER, &invitation);
    let sent = wake(&mut machine, ms(21)).sent;
    let Body::Join { nonce, list, .. } = Packet::parse(&sent[0].1).unwrap().body else { panic!("{sent:?}") };
    assert_eq!(list, asks.then_some(LIST), "senders that do not ask learn nothing");
    give(
        &mut machine,
        ms(22),
        SENDER,
        &bytes(Body::Welcome { nonce, member: 0, terms: terms_of(&invitation) }),
    );
    assert_eq!(machine.phase(), ReceiverPhase::Running);
    (machine, nonce)
}

/// Offsets and lengths of the parts.
fn parts(outbox: &Outbox) -> Vec<(u32, usize)> {
    let packets = outbox.sent.iter().filter_map(|(_, bytes)| Packet::parse(bytes).ok());
    let parts = packets.filter_map(|packet| match packet.body {
        Body::Holdings { part, .. } => Some((part.offset, part.bytes.len())),
        _ => None,
    });
    parts.collect()
}

#[test]
fn long_answer_is_sent_in_a_window_and_repeated() {
    let (mut machine, nonce) = member(true);
    machine.answer_holdings(ms(100), 1, vec![9; 10_000]);
    let first = parts(&wake(&mut machine, ms(121)));
    assert_eq!((first.len(), first[0], first[7]), (8, (0, 1100), (7700, 1100)));
    let ack = |question, bytes_so_far| bytes(Body::HoldingsAck { nonce, question, bytes: bytes_so_far });
    // An acknowledgment opens the window; others are ignored.
    assert_eq!(parts(&give(&mut machine, ms(130), SENDER, &ack(2, 1100))), []);
    assert_eq!(parts(&give(&mut machine, ms(130), SENDER, &ack(1, 10_001))), []);
    assert_eq!(parts(&give(&mut machine, ms(130), SENDER, &ack(1, 2200))), [(8800, 1100), (9900, 100)]);
    // The rest is lost, and sent again from the first byte that is missing.
    let again = parts(&wake(&mut machine, ms(331)));
    assert_eq!((again[0], again.len()), ((2200, 1100), 8));
    give(&mut machine, ms(340), SENDER, &ack(1, 10_000));
    let silent = wake(&mut machine, ms(340) + Duration::from_secs(2));
    assert_eq!(parts(&silent), [], "everything is acknowledged");
}

#[test]
fn answer_ends_with_the_session() {
    let (mut machine, _) = member(true);
    machine.answer_holdings(ms(100), 1, vec![9; 10]);
    machine.report(ms(101), 0, Err("no".to_owned()));
    let (mut outside, _) = member(false);
    outside.leave(ms(101), "away");
    outside.answer_holdings(ms(102), 1, vec![9; 10]);
    for at in (120..2000).step_by(100) {
        assert_eq!(parts(&wake(&mut outside, ms(at))), []);
    }
    machine.leave(ms(2000), "away");
    assert_eq!(parts(&wake(&mut machine, ms(2300))), []);
}
