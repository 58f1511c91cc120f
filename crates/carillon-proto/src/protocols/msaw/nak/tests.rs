//! Transcripts of stop-and-wait with negative acknowledgments: one rule each, in virtual time.

use carillon_core::{DropReason, Event, OfferError, Outcome, Role};
use carillon_testkit::{ASSOCIATION, MachineFixture};
use carillon_wire::msaw::{HEADER_LEN, Packet};

use crate::protocols::msaw::{ENTRY, UNICAST_ENTRY};

/// Polls at every third message. A frame of d = 12 144 and an acknowledgment of a = 512 bit times:
/// the silence is 13 656 long, and a poll of two receivers may take 100 000.
const SETTINGS: &[(&str, &str)] = &[
    ("feedback", "nak"),
    ("poll_interval", "3"),
    ("timeout_method", "constant"),
    ("timeout", "100000 bit"),
    ("retransmission_limit", "1"),
];
const SILENCE: u64 = 12_144 + 512 + 1_000;

fn sender(settings: &[(&str, &str)]) -> MachineFixture {
    MachineFixture::new(&ENTRY, Role::Sender, 2, &[SETTINGS, settings].concat(), HEADER_LEN, 1)
}

fn receiver() -> MachineFixture {
    MachineFixture::new(&ENTRY, Role::Receiver, 2, &[SETTINGS, &[("ack_bytes", "0")]].concat(), HEADER_LEN, 1)
}

fn bytes(packet: Packet<'_>) -> Vec<u8> {
    let mut buf = Vec::new();
    packet.emit(ASSOCIATION, &mut buf);
    buf
}

fn nak(sequence: u8, round: u8) -> Vec<u8> {
    bytes(Packet::Nak { sequence, round })
}

fn up_to(sequence: u8) -> Vec<u8> {
    bytes(Packet::AckUpTo { sequence })
}

fn numbered(sequence: u8) -> Vec<u8> {
    bytes(Packet::Numbered { sequence, payload: b"x" })
}

fn completed(bench: &mut MachineFixture) -> Vec<(u64, Outcome)> {
    let completed = bench.events().into_iter().filter_map(|event| match event {
        Event::Completed { message, outcome, .. } => Some((message.0, outcome)),
        _ => None,
    });
    completed.collect()
}

/// Offers the next message as soon as it may come.
fn offer_at(sender: &mut MachineFixture, time: u64) {
    sender.at(time);
    sender.offer("x").expect("the silence is over");
}

#[test]
fn message_is_announced_and_next_follows_silence() {
    let mut sender = sender(&[]);
    sender.offer("x").unwrap();
    let sent = ["msaw numbered seq 0 len 1 to all", "msaw announce seq 0 first 0 round 0 to all"];
    assert_eq!(sender.sent(), sent);
    assert_eq!(sender.timer(), Some(SILENCE));
    assert_eq!(sender.at(SILENCE - 1).offer("x"), Err(OfferError::Full));
    offer_at(&mut sender, SILENCE);
    let sent = ["msaw numbered seq 1 len 1 to all", "msaw announce seq 1 first 0 round 1 to all"];
    assert_eq!(sender.sent(), sent);
    assert_eq!(completed(&mut sender), [], "silence proves nothing");
}

#[test]
fn receiver_requests_missing_message_and_sender_goes_back() {
    let mut sender = sender(&[]);
    sender.offer("x").unwrap();
    offer_at(&mut sender, SILENCE);
    sender.sent();
    sender.at(SILENCE + 13_000).receive(2, &nak(0, 1));
    let sent = [
        "msaw numbered seq 0 len 1 to all",
        "msaw numbered seq 1 len 1 to all",
        "msaw announce seq 1 first 0 round 2 to all",
    ];
    assert_eq!(sender.sent(), sent);
    assert_eq!(sender.timer(), Some(SILENCE + 13_000 + SILENCE));
}

#[test]
fn a_request_made_before_the_repair_is_not_answered_again() {
    let mut sender = sender(&[]);
    sender.offer("x").unwrap();
    sender.at(13_000).receive(1, &nak(0, 0));
    assert_eq!(sender.sent().len(), 4);
    // The other receiver asked for the same, in the same round.
    sender.at(13_600).receive(2, &nak(0, 0));
    assert_eq!(sender.sent(), [""; 0]);
    assert_eq!(sender.timer(), Some(13_600 + SILENCE), "it is no silence");
    // It missed the repair too: the round says so.
    sender.at(26_000).receive(2, &nak(0, 1));
    assert_eq!(sender.sent().len(), 2);
}

#[test]
fn every_third_message_is_polled_and_completed() {
    let mut sender = sender(&[]);
    sender.offer("x").unwrap();
    offer_at(&mut sender, SILENCE);
    offer_at(&mut sender, 2 * SILENCE);
    assert_eq!(sender.sent().last().unwrap(), "msaw poll seq 2 first 0 round 2 to all");
    sender.receive(1, &up_to(2));
    assert_eq!(completed(&mut sender), []);
    assert_eq!(sender.offer("x"), Err(OfferError::Full));
    sender.receive(2, &up_to(2));
    assert_eq!(completed(&mut sender), [0, 1, 2].map(|message| (message, Outcome::Acknowledged)));
    sender.offer("x").expect("all is confirmed");
}

#[test]
fn remainder_is_polled_when_idle_or_finished() {
    for finish in [false, true] {
        let mut sender = sender(&[]);
        sender.offer("x").unwrap();
        sender.sent();
        if finish {
            sender.finish();
            sender.at(SILENCE);
        } else {
            assert_eq!(sender.at(2 * SILENCE - 1).sent(), [""; 0]);
            sender.at(2 * SILENCE);
        }
        assert_eq!(sender.sent(), ["msaw poll seq 0 first 0 round 1 to all"]);
        sender.receive(1, &up_to(0)).receive(2, &up_to(0));
        assert_eq!(completed(&mut sender), [(0, Outcome::Acknowledged)]);
        assert_eq!((sender.is_finished(), sender.timer()), (finish, None));
    }
}

#[test]
fn an_unanswered_poll_is_repeated_up_to_the_limit() {
    for (past_limit, outcome) in [("skip", Outcome::Failed), ("expel", Outcome::Acknowledged)] {
        let mut sender = sender(&[("past_limit", past_limit), ("poll_interval", "1")]);
        sender.offer("x").unwrap();
        sender.receive(1, &up_to(0));
        sender.sent();
        sender.at(100_000);
        assert_eq!(sender.sent(), ["msaw poll seq 0 first 0 round 1 to all"]);
        sender.at(200_000);
        assert_eq!(completed(&mut sender), [(0, outcome)]);
        assert_eq!(sender.sent(), [""; 0]);
        sender.offer("x").expect("the next has its turn");
        // Skipped messages will not arrive; `first` tells the receiver.
        assert!(sender.sent().iter().any(|line| line.contains("first 1")));
    }
}

#[test]
fn wait_repeats_poll_until_silent_receiver_is_expelled() {
    let mut sender = sender(&[("past_limit", "wait"), ("poll_interval", "1")]);
    sender.offer("x").unwrap();
    assert_eq!(sender.awaited(1..=2), [1, 2]);
    sender.receive(1, &up_to(0));
    assert_eq!(sender.awaited(1..=2), [2]);
    sender.sent();
    sender.at(100_000 * 100);
    assert!(sender.sent().len() >= 100);
    assert_eq!(completed(&mut sender), []);
    sender.expel(2);
    assert_eq!(completed(&mut sender), [(0, Outcome::Acknowledged)]);
    assert_eq!(sender.awaited(1..=2), [0; 0]);
}

#[test]
fn receiver_answers_only_gaps_and_polls() {
    let mut receiver = receiver();
    receiver
        .receive(0, &numbered(0))
        .receive(0, &bytes(Packet::Announce { sequence: 0, first: 0, round: 0 }));
    assert_eq!(receiver.sent(), [""; 0]);
    receiver.take().unwrap();
    receiver.receive(0, &bytes(Packet::Announce { sequence: 1, first: 0, round: 7 }));
    assert_eq!(receiver.sent(), ["msaw nak seq 1 round 7 to n0"]);
    receiver.receive(0, &numbered(2));
    assert_eq!(receiver.drops(), [DropReason::OutOfOrder]);
    receiver.receive(0, &numbered(1)).receive(0, &bytes(Packet::Poll { sequence: 1, first: 0, round: 8 }));
    assert_eq!(receiver.sent(), ["msaw ack up to seq 1 to n0"]);
}

#[test]
fn receiver_skips_messages_sender_discarded() {
    let mut receiver = receiver();
    receiver.receive(0, &bytes(Packet::Announce { sequence: 5, first: 5, round: 0 }));
    assert!(receiver.events().iter().any(|event| matches!(event, Event::LossFound { .. })));
    assert_eq!(receiver.sent(), ["msaw nak seq 5 round 0 to n0"]);
    receiver.receive(0, &numbered(5));
    assert_eq!(receiver.take().unwrap().message.0, 5);
}

#[test]
fn nak_mode_requires_group_repair_and_constant_wait() {
    let build = |entry: &carillon_core::ProtocolEntry, settings: &[(&str, &str)]| {
        let mut config = carillon_core::Config::defaults(entry.parameters);
        for (key, value) in settings {
            config.set(entry.parameters, key, value).unwrap();
        }
        let context = carillon_core::BuildContext {
            association: ASSOCIATION,
            node: carillon_core::NodeId(0),
            sender: carillon_core::NodeId(0),
            members: [carillon_core::NodeId(1)].into(),
            helpers: Default::default(),
            identities: Default::default(),
            addresses: Default::default(),
            group: carillon_core::GroupId(0),
            seeds: carillon_core::Seeds::new(1),
            bit_rate: carillon_core::BitRate::mbps(10),
            link_overhead: 0,
            max_payload: 100,
            memory: usize::MAX,
            rejoining: false,
        };
        (entry.build)(Role::Sender, &context, &config).map(|_| ()).map_err(|error| error.to_string())
    };
    assert!(build(&ENTRY, &[("feedback", "nak")]).is_ok());
    assert!(
        build(&ENTRY, &[("feedback", "nak"), ("retransmission", "unicast")]).unwrap_err().contains("group")
    );
    let adaptive = [("feedback", "nak"), ("ack_wait_method", "adaptive")];
    assert!(build(&ENTRY, &adaptive).unwrap_err().contains("feedback = \"ack\""));
    assert!(build(&UNICAST_ENTRY, &[("feedback", "nak")]).is_err());
}
