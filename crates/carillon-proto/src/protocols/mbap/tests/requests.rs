//! Requests and selective repair (chapter 5).

use carillon_core::{DropReason, Outcome};
use carillon_testkit::{ASSOCIATION, MachineFixture};
use carillon_wire::mbap::Packet;

use super::{ack, bytes, completed, data, offer, receiver, sender, to_all};

/// Setting for negative acknowledgments (chapter 5).
const NAK: (&str, &str) = ("feedback", "nak");

fn nak(sequence: u16) -> Vec<u8> {
    bytes(ASSOCIATION, Packet::Nak { sequence })
}

fn poll(sequence: u16) -> Vec<u8> {
    bytes(ASSOCIATION, Packet::Poll { sequence, payload: b"x" })
}

#[test]
fn gap_is_requested_once_until_sender_goes_back() {
    let mut receiver = receiver(&[NAK, ("ack_bytes", "0")]);
    receiver.receive(0, &data(0)).receive(0, &data(2));
    assert_eq!(receiver.sent(), ["mbap nak seq 1 to n0"]);
    // The next shows nothing new; the same again shows that the repair is lost too.
    receiver.receive(0, &data(3));
    assert_eq!(receiver.sent(), [""; 0]);
    receiver.receive(0, &data(2));
    assert_eq!(receiver.sent(), ["mbap nak seq 1 to n0"]);
    receiver.receive(0, &data(1)).receive(0, &data(2));
    assert_eq!(receiver.sent(), ["mbap ack seq 2 to n0"]);
    assert_eq!(receiver.timer(), None, "the sender asks, if it wants to know");
}

#[test]
fn poll_is_always_answered() {
    let mut receiver = receiver(&[NAK, ("ack_bytes", "0")]);
    receiver.receive(0, &data(0)).receive(0, &poll(0));
    assert_eq!(receiver.sent(), ["mbap ack seq 0 to n0"]);
    receiver.receive(0, &poll(2)).receive(0, &poll(2));
    assert_eq!(receiver.sent(), ["mbap nak seq 1 to n0", "mbap nak seq 1 to n0"]);
    receiver.receive(0, &poll(1));
    assert_eq!(receiver.sent(), ["mbap ack seq 1 to n0"]);
}

#[test]
fn request_acknowledges_prefix_and_sender_goes_back() {
    let mut sender = sender(2, &[NAK]);
    offer(&mut sender, 3);
    sender.sent();
    sender.at(30_000).receive(1, &ack(2)).receive(2, &nak(1));
    assert_eq!(completed(&mut sender), [(0, Outcome::Acknowledged)]);
    assert_eq!(sender.sent(), to_all(&[1, 2]));
    // The same request, made before the repair could arrive: n d + a r = 37 456 bit times.
    sender.at(60_000).receive(2, &nak(1));
    assert_eq!(sender.sent(), [""; 0]);
    sender.at(70_000).receive(2, &nak(1));
    assert_eq!(sender.sent(), to_all(&[1, 2]));
}

#[test]
fn without_news_the_last_message_polls_up_to_the_limit() {
    for (past_limit, outcome) in [("skip", Outcome::Failed), ("expel", Outcome::Acknowledged)] {
        let limit = ("retransmission_limit", "1");
        let mut sender = sender(2, &[NAK, limit, ("past_limit", past_limit)]);
        offer(&mut sender, 2);
        sender.receive(1, &ack(1));
        sender.sent();
        sender.at(100_000);
        assert_eq!(sender.sent(), ["mbap poll seq 1 len 1 to all"]);
        sender.at(200_000);
        assert_eq!(sender.sent(), [""; 0]);
        assert_eq!(completed(&mut sender), [(0, outcome), (1, outcome)]);
    }
}

#[test]
fn wait_repeats_window_until_receiver_is_expelled() {
    for feedback in ["ack", "nak"] {
        let limit = ("retransmission_limit", "0");
        let mut sender = sender(2, &[("feedback", feedback), limit, ("past_limit", "wait")]);
        offer(&mut sender, 2);
        assert_eq!(sender.awaited(1..=2), [1, 2]);
        sender.receive(1, &ack(1));
        assert_eq!(sender.awaited(1..=2), [2]);
        sender.sent();
        sender.at(100_000 * 1000);
        assert!(sender.sent().len() >= 1000, "{feedback}: asked again at each timeout");
        assert_eq!(completed(&mut sender), []);
        sender.expel(2);
        assert_eq!(completed(&mut sender), [(0, Outcome::Acknowledged), (1, Outcome::Acknowledged)]);
        assert_eq!(sender.awaited(1..=2), [0; 0]);
        assert_eq!(sender.timer(), None);
    }
}

#[test]
fn a_request_is_nothing_to_a_sender_without_them() {
    let mut sender = sender(2, &[]);
    offer(&mut sender, 3);
    sender.sent();
    sender.receive(1, &nak(1));
    assert_eq!(sender.drops(), [DropReason::OutOfWindow]);
    assert_eq!(sender.sent(), [""; 0]);
}

#[test]
fn an_adaptive_wait_counts_answers_to_the_whole_window() {
    let mut sender = sender(2, &[("ack_wait_method", "adaptive"), ("ack_wait", "1000 bit")]);
    let timed = |sequences: [u16; 3], wait: u32| {
        sequences.map(|sequence| format!("mbap timed seq {sequence} wait {wait} ns len 1 to all"))
    };
    offer(&mut sender, 3);
    assert_eq!(sender.sent(), timed([0, 1, 2], 100_000));
    assert_eq!(sender.timer(), Some(101_000), "the timeout, and the wait");
    // A part of the window: an acknowledgment that was delayed, and no answer to it.
    sender.at(100).receive(1, &ack(1));
    sender.at(1_000).receive(1, &ack(2));
    sender.at(1_000 + 2_300).receive(2, &ack(2));
    offer(&mut sender, 3);
    assert_eq!(sender.sent(), timed([3, 4, 5], 200_000), "2300 bit / 1.15");
}

const SELECTIVE: &[(&str, &str)] =
    &[("feedback", "nak"), ("repair", "selective"), ("window", "8"), ("ack_bytes", "0")];

fn taken(receiver: &mut MachineFixture) -> Vec<u64> {
    std::iter::from_fn(|| receiver.take()).map(|delivery| delivery.message.0).collect()
}

/// The other messages of the window are kept meanwhile.
#[test]
fn selective_repair_requests_each_missing_message_once() {
    let mut receiver = receiver(SELECTIVE);
    receiver.receive(0, &data(0));
    assert!(receiver.sent().is_empty());
    receiver.receive(0, &data(3));
    assert_eq!(receiver.sent(), ["mbap nak seq 1 to n0", "mbap nak seq 2 to n0"]);
    receiver.receive(0, &data(4));
    assert!(receiver.sent().is_empty());
    receiver.receive(0, &data(2));
    receiver.receive(0, &data(1));
    assert_eq!(taken(&mut receiver), [0, 1, 2, 3, 4]);
    // A quarter of the window has arrived, so it slides.
    assert_eq!(receiver.sent(), ["mbap ack seq 4 to n0"]);
}

#[test]
fn selective_repair_poll_requests_all_missing_again() {
    let mut receiver = receiver(SELECTIVE);
    receiver.receive(0, &data(0));
    receiver.receive(0, &data(3));
    receiver.sent();
    receiver.receive(0, &poll(5));
    let answers =
        ["mbap ack seq 0 to n0", "mbap nak seq 1 to n0", "mbap nak seq 2 to n0", "mbap nak seq 4 to n0"];
    assert_eq!(receiver.sent(), answers);
    // What it has is no news, and is answered too.
    receiver.receive(0, &poll(0));
    assert_eq!(receiver.sent(), answers);
    // A number beyond twice the window no sender gives.
    receiver.receive(0, &poll(16));
    assert_eq!(
        (receiver.sent(), receiver.drops()),
        (vec![], vec![DropReason::Duplicate, DropReason::Malformed])
    );
}

#[test]
fn selective_repair_sends_only_requested_messages() {
    let mut sender = sender(2, SELECTIVE);
    offer(&mut sender, 5);
    sender.sent();
    sender.at(50_000);
    sender.receive(1, &nak(2));
    assert_eq!(sender.sent(), to_all(&[2]));
    // The other one asks too, and has it already.
    sender.receive(2, &nak(2));
    assert!(sender.sent().is_empty());
    // A request acknowledges none of the messages before it.
    sender.receive(2, &ack(4));
    assert!(completed(&mut sender).is_empty());
    sender.receive(1, &ack(4));
    assert_eq!(completed(&mut sender).len(), 5);
}

#[test]
fn selective_repair_reserves_room_for_next_message() {
    let mut receiver = receiver(&[SELECTIVE, &[("window", "3")]].concat());
    // The application takes nothing: message 0 waits for it.
    for sequence in [0, 2, 3] {
        receiver.receive(0, &data(sequence));
    }
    assert_eq!(receiver.drops(), [DropReason::BufferFull]);
    receiver.receive(0, &data(1));
    assert!(receiver.drops().is_empty());
    assert_eq!(taken(&mut receiver), [0, 1, 2]);
    receiver.receive(0, &data(3));
    assert_eq!(taken(&mut receiver), [3]);
}

/// A lost repair is sent again even if a window takes long.
#[test]
fn selective_repair_repeats_lost_repair() {
    // A window takes longer than the timeout.
    let short = &[("timeout", "20000 bit"), ("window", "200")];
    let mut sender = sender(2, &[SELECTIVE, short].concat());
    offer(&mut sender, 5);
    sender.sent();
    sender.at(1_000);
    sender.receive(1, &nak(2));
    assert_eq!(sender.sent(), to_all(&[2]));
    sender.at(15_000);
    sender.receive(1, &nak(2));
    assert!(sender.sent().is_empty(), "it may be on its way");
    sender.at(21_000);
    sender.sent();
    sender.receive(1, &nak(2));
    assert_eq!(sender.sent(), to_all(&[2]));
}
