//! Transcripts in virtual time, one rule each. Clauses refer to Segovia 1996.

use carillon_core::{AssociationId, DropReason, Event, MessageId, NodeId, OfferError, Outcome, Role};
use carillon_testkit::{ASSOCIATION, MachineFixture};
use carillon_wire::mbap::{HEADER_LEN, Packet};

use super::{ENTRY, UNICAST_ENTRY};

mod requests;

/// Windows of 3; packet timeouts of 100 000 bit times and acknowledgment delays of 20 000.
const SETTINGS: &[(&str, &str)] = &[
    ("window", "3"),
    ("timeout_method", "constant"),
    ("timeout", "100000 bit"),
    ("ack_timeout", "20000 bit"),
];

fn sender(receivers: u32, settings: &[(&str, &str)]) -> MachineFixture {
    MachineFixture::new(&ENTRY, Role::Sender, receivers, &[SETTINGS, settings].concat(), HEADER_LEN, 1)
}

fn receiver(settings: &[(&str, &str)]) -> MachineFixture {
    MachineFixture::new(&ENTRY, Role::Receiver, 3, &[SETTINGS, settings].concat(), HEADER_LEN, 1)
}

fn ack(sequence: u16) -> Vec<u8> {
    bytes(ASSOCIATION, Packet::Ack { sequence })
}

fn data(sequence: u16) -> Vec<u8> {
    bytes(ASSOCIATION, Packet::Data { sequence, payload: b"x" })
}

fn bytes(association: AssociationId, packet: Packet<'_>) -> Vec<u8> {
    let mut buf = Vec::new();
    packet.emit(association, &mut buf);
    buf
}

fn offer(sender: &mut MachineFixture, messages: usize) {
    for _ in 0..messages {
        sender.offer("x").expect("there is room in the window");
    }
}

fn completed(bench: &mut MachineFixture) -> Vec<(u64, Outcome)> {
    let completed = bench.events().into_iter().filter_map(|event| match event {
        Event::Completed { message, outcome, .. } => Some((message.0, outcome)),
        _ => None,
    });
    completed.collect()
}

/// The lines of data packets with these numbers.
fn to_all(sequences: &[u16]) -> Vec<String> {
    sequences.iter().map(|sequence| format!("mbap data seq {sequence} len 1 to all")).collect()
}

/// Segovia 1996, section 2.6.
#[test]
fn window_of_n_messages_is_sent_at_once() {
    let mut sender = sender(2, &[]);
    offer(&mut sender, 3);
    assert_eq!(sender.sent(), to_all(&[0, 1, 2]));
    assert_eq!(sender.offer("x"), Err(OfferError::Full));
    assert_eq!(sender.timer(), Some(100_000));
}

/// Segovia 1996, section 2.6.
#[test]
fn the_packet_timer_restarts_with_each_message_sent() {
    let mut sender = sender(2, &[]);
    offer(&mut sender, 1);
    sender.at(500);
    offer(&mut sender, 1);
    assert_eq!(sender.timer(), Some(100_500));
}

/// Segovia 1996, section 2.6.
#[test]
fn the_window_advances_when_all_have_acknowledged() {
    let mut sender = sender(2, &[]);
    offer(&mut sender, 3);
    sender.sent();
    sender.at(100).receive(1, &ack(2));
    assert_eq!(completed(&mut sender), []);
    assert_eq!(sender.offer("x"), Err(OfferError::Full));
    sender.at(200).receive(2, &ack(2));
    assert_eq!(completed(&mut sender), [0, 1, 2].map(|message| (message, Outcome::Acknowledged)));
    assert_eq!(sender.timer(), None);
    offer(&mut sender, 3);
    assert_eq!(sender.sent(), to_all(&[3, 4, 5]));
}

/// Segovia 1996, section 2.6: "The lowest rank" decides.
#[test]
fn partial_acknowledgment_advances_to_slowest_receiver() {
    let mut sender = sender(3, &[]);
    offer(&mut sender, 3);
    sender.sent();
    sender.receive(1, &ack(2)).receive(2, &ack(0));
    assert_eq!(completed(&mut sender), []);
    sender.receive(3, &ack(1));
    assert_eq!(completed(&mut sender), [(0, Outcome::Acknowledged)]);
    assert_eq!(sender.timer(), Some(100_000));
    offer(&mut sender, 1);
    assert_eq!(sender.sent(), to_all(&[3]));
    assert_eq!(sender.offer("x"), Err(OfferError::Full));
    // What the others had acknowledged before still counts.
    sender.receive(2, &ack(2));
    assert_eq!(completed(&mut sender), [(1, Outcome::Acknowledged)]);
    sender.receive(3, &ack(2));
    assert_eq!(completed(&mut sender), [(2, Outcome::Acknowledged)]);
}

/// The reading under which a window dies.
const RESETTING_VECTOR: &[(&str, &str)] = &[
    ("ack_vector", "reset"),
    ("ack_repeat", "duplicate"),
    ("next_messages", "after-all"),
    ("retransmission_limit", "2"),
];

/// Segovia 1996, section 2.6: with the acknowledgment vector reset and repetitions taken for duplicates, a partly
/// acknowledged window never completes.
#[test]
fn reset_vector_discards_partly_acknowledged_window() {
    let mut sender = sender(2, RESETTING_VECTOR);
    offer(&mut sender, 3);
    sender.sent();
    sender.receive(1, &ack(2)).receive(2, &ack(0));
    assert_eq!(completed(&mut sender), [(0, Outcome::Acknowledged)]);
    // Nothing of the next window before this one is done with.
    assert_eq!(sender.offer("x"), Err(OfferError::Full));
    sender.receive(2, &ack(2)).receive(1, &ack(2));
    assert_eq!(completed(&mut sender), [], "what the first repeats is a duplicate");
    for round in 1..=3 {
        sender.at(round * 100_000);
        assert_eq!(sender.sent(), to_all(&[1, 2]), "round {round}");
        sender.receive(1, &ack(2)).receive(2, &ack(2));
    }
    sender.at(400_000);
    assert_eq!(completed(&mut sender), [(1, Outcome::Failed), (2, Outcome::Failed)]);
    offer(&mut sender, 3);
    assert_eq!(sender.offer("x"), Err(OfferError::Full));
    assert_eq!(sender.sent(), to_all(&[3, 4, 5]));
}

#[test]
fn each_option_alone_leaves_the_window_alive() {
    for left_out in &RESETTING_VECTOR[..2] {
        let options: Vec<_> = RESETTING_VECTOR.iter().filter(|option| *option != left_out).copied().collect();
        let mut sender = sender(2, &options);
        offer(&mut sender, 3);
        sender.sent();
        sender.receive(1, &ack(2)).receive(2, &ack(0)).receive(2, &ack(2)).receive(1, &ack(2));
        assert_eq!(completed(&mut sender).len(), 3, "without {left_out:?}");
    }
}

/// Segovia 1996, section 2.6.
#[test]
fn packet_timer_may_start_at_last_departure() {
    let mut sender = sender(2, &[("packet_timer", "departure")]);
    offer(&mut sender, 1);
    let first = sender.timer().expect("the timer runs");
    offer(&mut sender, 2);
    assert_eq!(first, 100_000);
    let behind = sender.timer().expect("the timer runs") - first;
    assert!(behind > 0 && behind.is_multiple_of(2), "two messages leave before the third: {behind}");
}

/// Segovia 1996, section 2.6.
#[test]
fn timeout_sends_active_window_again() {
    let mut sender = sender(2, &[]);
    offer(&mut sender, 3);
    sender.receive(1, &ack(0)).receive(2, &ack(0));
    sender.sent();
    sender.at(100_000);
    assert_eq!(sender.sent(), to_all(&[1, 2]));
    assert_eq!(sender.timer(), Some(200_000));
    sender.at(200_000);
    assert_eq!(sender.sent(), to_all(&[1, 2]));
}

/// Segovia 1996, section 2.6.
#[test]
fn numbers_go_round_modulo_2n() {
    let mut sender = sender(1, &[]);
    let mut receiver = receiver(&[]);
    for window in 0..7u16 {
        offer(&mut sender, 3);
        let sent = sender.datagrams();
        let sequences: Vec<_> = (0..3).map(|i| (window * 3 + i) % 6).collect();
        assert_eq!(
            sent.iter().map(|(_, bytes)| bytes.clone()).collect::<Vec<_>>(),
            sequences.iter().map(|&s| data(s)).collect::<Vec<_>>()
        );
        for (_, bytes) in &sent {
            receiver.receive(0, bytes);
            let delivery = receiver.take().expect("the next message");
            assert_eq!(delivery.source, NodeId(0));
        }
        let acks = receiver.datagrams();
        assert_eq!(acks.len(), 1);
        sender.receive(1, &acks[0].1);
        let first = u64::from(window) * 3;
        assert_eq!(
            completed(&mut sender),
            [first, first + 1, first + 2].map(|message| (message, Outcome::Acknowledged))
        );
    }
}

/// Segovia 1996, section 2.6.
#[test]
fn acknowledgments_outside_window_are_ignored() {
    let mut sender = sender(1, &[]);
    offer(&mut sender, 3);
    sender.receive(1, &ack(2));
    offer(&mut sender, 2);
    // The window is 3, 4: numbers 0 to 2 are old, 5 was not sent, 6 and above do not exist.
    sender.events();
    for sequence in [0, 1, 2, 5, 6, 9, u16::MAX] {
        sender.receive(1, &ack(sequence));
        assert_eq!(sender.drops(), [DropReason::OutOfWindow], "{sequence}");
    }
    sender.receive(1, &ack(3));
    assert_eq!(completed(&mut sender), [(3, Outcome::Acknowledged)]);
}

/// Segovia 1996, section 2.6: "Not a duplicate" is the condition.
#[test]
fn repeated_or_lower_acknowledgment_is_ignored() {
    let mut sender = sender(2, &[]);
    offer(&mut sender, 3);
    sender.receive(1, &ack(1));
    sender.events();
    for sequence in [0, 1] {
        sender.receive(1, &ack(sequence));
        assert_eq!(sender.drops(), [DropReason::Duplicate]);
    }
    sender.receive(2, &ack(2));
    assert_eq!(completed(&mut sender), [0, 1].map(|message| (message, Outcome::Acknowledged)));
}

#[test]
fn acknowledgments_of_others_are_ignored() {
    let mut sender = sender(2, &[]);
    offer(&mut sender, 3);
    sender.events();
    for (from, bytes, reason) in [
        (9, ack(0), DropReason::NotAMember),
        (0, ack(0), DropReason::NotAMember),
        (1, bytes(AssociationId(2), Packet::Ack { sequence: 0 }), DropReason::Foreign),
        (1, data(0), DropReason::Foreign),
        (1, ack(0)[..HEADER_LEN - 1].to_vec(), DropReason::Malformed),
        (1, Vec::new(), DropReason::Malformed),
    ] {
        sender.receive(from, &bytes);
        assert_eq!(sender.drops(), [reason], "{bytes:?} from {from}");
    }
    assert_eq!(sender.timer(), Some(100_000));
}

/// Segovia 1996, section 2.6.
#[test]
fn messages_are_discarded_beyond_retransmission_limit() {
    let mut sender = sender(2, &[("retransmission_limit", "1")]);
    offer(&mut sender, 2);
    sender.receive(1, &ack(1)).at(299_999);
    // Counts 0 and 1 do not exceed the limit of 1: the window is sent again twice.
    assert_eq!(sender.sent(), to_all(&[0, 1, 0, 1, 0, 1]));
    sender.at(300_000);
    assert_eq!(completed(&mut sender), [(0, Outcome::Failed), (1, Outcome::Failed)]);
    assert_eq!(sender.timer(), None);
    offer(&mut sender, 1);
    assert_eq!(sender.sent(), to_all(&[2]));
}

#[test]
fn expel_removes_failing_receiver_and_continues() {
    let mut sender = sender(3, &[("retransmission_limit", "0"), ("past_limit", "expel")]);
    offer(&mut sender, 3);
    sender.receive(1, &ack(1)).receive(2, &ack(2)).at(200_000);
    let events = sender.events();
    assert!(events.contains(&Event::MemberLost { member: NodeId(3) }), "{events:?}");
    assert!(!events.contains(&Event::MemberLost { member: NodeId(1) }), "{events:?}");
    let outcome = |message| Event::Completed {
        message: MessageId(message),
        outcome: Outcome::Acknowledged,
        window: message as u32 + 1,
    };
    assert!(events.contains(&outcome(0)) && events.contains(&outcome(1)), "{events:?}");
    assert!(!events.contains(&outcome(2)), "{events:?}");
    // It is a member no more.
    sender.receive(3, &ack(2));
    assert_eq!(sender.drops(), [DropReason::NotAMember]);
    sender.receive(1, &ack(2));
    assert_eq!(completed(&mut sender), [(2, Outcome::Acknowledged)]);
    // Without a receiver left, messages complete at once and nothing is sent.
    offer(&mut sender, 1);
    sender.at(1_000_000).sent();
    sender.events();
    offer(&mut sender, 1);
    assert_eq!(completed(&mut sender), [(4, Outcome::Acknowledged)]);
    assert_eq!(sender.sent(), [""; 0]);
    sender.finish();
    assert!(sender.is_finished());
}

/// Segovia 1996, section 3.5: the sample header has 115680; the formula is d n + a r + i + t + increment.
#[test]
fn formula_timeout_equals_published_example() {
    let settings = [
        ("window", "1"),
        ("timeout_method", "formula"),
        ("timeout", "1000 bit"),
        ("ack_timeout", "95000 bit"),
        ("ack_wait", "6000 bit"),
    ];
    let mut sender = MachineFixture::new(&ENTRY, Role::Sender, 3, &settings, HEADER_LEN, 1);
    offer(&mut sender, 1);
    assert_eq!(sender.timer(), Some(115_680));
    // d counts once for each message of the window, a once for the one receiver of a unicast run.
    for (entry, receivers) in [(&ENTRY, 3), (&UNICAST_ENTRY, 1)] {
        let settings = [&settings[..], &[("window", "10")]].concat();
        let mut sender = MachineFixture::new(entry, Role::Sender, 3, &settings, HEADER_LEN, 1);
        offer(&mut sender, 1);
        assert_eq!(sender.timer(), Some(12_144 * 10 + 512 * receivers + 6_000 + 95_000 + 1_000));
    }
}

/// RFC 6298, sections 2 and 3.
#[test]
fn adaptive_timeout_ignores_retransmitted_windows() {
    let settings = [("timeout_method", "adaptive"), ("timeout_min", "100 bit"), ("window", "1")];
    let mut sender = sender(1, &settings);
    offer(&mut sender, 1);
    assert_eq!(sender.timer(), Some(100_000));
    sender.at(1_000).receive(1, &ack(0));
    offer(&mut sender, 1);
    assert_eq!(sender.timer(), Some(1_000 + 3_000));
    sender.at(4_000);
    assert_eq!(sender.timer(), Some(4_000 + 6_000));
    sender.at(9_000).receive(1, &ack(1));
    offer(&mut sender, 1);
    assert_eq!(sender.timer(), Some(9_000 + 3_000));
}

/// Segovia 1996, section 2.4.
#[test]
fn unicast_sends_window_to_each_receiver_in_turn() {
    let mut sender = MachineFixture::new(&UNICAST_ENTRY, Role::Sender, 2, SETTINGS, HEADER_LEN, 1);
    let window = |node| (0..3).map(|s| format!("mbap data seq {s} len 1 to n{node}")).collect::<Vec<_>>();
    offer(&mut sender, 3);
    assert_eq!(sender.sent(), window(1));
    sender.at(100).receive(1, &ack(2));
    assert_eq!(sender.sent(), window(2));
    assert_eq!(completed(&mut sender), []);
    assert_eq!(sender.offer("x"), Err(OfferError::Full));
    sender.at(200).receive(2, &ack(2));
    assert_eq!(completed(&mut sender), [0, 1, 2].map(|message| (message, Outcome::Acknowledged)));
}

/// Segovia 1996, section 2.6.
#[test]
fn receiver_acknowledges_after_n_messages() {
    let mut receiver = receiver(&[]);
    for (sequence, acks) in [(0, 0), (1, 0), (2, 1), (3, 0), (4, 0), (5, 1)] {
        receiver.receive(0, &data(sequence));
        assert_eq!(receiver.take().map(|delivery| delivery.message), Some(MessageId(u64::from(sequence))));
        let expected = vec![format!("mbap ack seq {sequence} to n0"); acks];
        assert_eq!(receiver.sent(), expected);
    }
}

/// Segovia 1996, section 2.6: duplicates are discarded in the same way.
#[test]
fn unexpected_message_is_discarded_without_answer() {
    let mut receiver = receiver(&[]);
    receiver.receive(0, &data(0));
    receiver.events();
    for sequence in [0, 2, 3, 4, 5] {
        receiver.receive(0, &data(sequence));
        assert_eq!(receiver.drops(), [DropReason::OutOfOrder]);
    }
    receiver.receive(0, &data(6));
    assert_eq!(receiver.drops(), [DropReason::Malformed]);
    assert_eq!(receiver.sent(), [""; 0]);
    assert_eq!(receiver.take().map(|delivery| delivery.message), Some(MessageId(0)));
    assert_eq!(receiver.take(), None);
    // They do not restart the timer either.
    assert_eq!(receiver.timer(), Some(20_000));
}

/// Segovia 1996, section 2.6.
#[test]
fn acknowledgment_timer_acknowledges_and_restarts() {
    let mut receiver = receiver(&[]);
    assert_eq!(receiver.timer(), None);
    receiver.receive(0, &data(0));
    assert_eq!(receiver.timer(), Some(20_000));
    receiver.at(5_000).receive(0, &data(1));
    assert_eq!(receiver.timer(), Some(25_000));
    receiver.at(24_999);
    assert_eq!(receiver.sent(), [""; 0]);
    for round in 0..3 {
        receiver.at(25_000 + 20_000 * round);
        assert_eq!(receiver.sent(), ["mbap ack seq 1 to n0"]);
    }
    // The acknowledgment covered all counted messages: a full window has n messages again.
    for sequence in [2, 3] {
        receiver.receive(0, &data(sequence)).take();
        receiver.take();
        assert_eq!(receiver.sent(), [""; 0]);
    }
    receiver.take();
    receiver.receive(0, &data(4));
    assert_eq!(receiver.sent(), ["mbap ack seq 4 to n0"]);
}

/// Segovia 1996, section 2.6.
#[test]
fn timer_after_full_window_follows_setting() {
    for (ack_timer, timer) in [("restart", Some(20_000)), ("until-full-window", None)] {
        let mut receiver = receiver(&[("ack_timer", ack_timer)]);
        for sequence in 0..3 {
            receiver.receive(0, &data(sequence)).take();
        }
        assert_eq!(receiver.sent(), ["mbap ack seq 2 to n0"]);
        assert_eq!(receiver.timer(), timer, "{ack_timer}");
        receiver.receive(0, &data(3)).take();
        assert_eq!(receiver.timer(), Some(20_000));
    }
}

/// Segovia 1996, section 2.6.
#[test]
fn message_without_room_counts_as_lost() {
    let mut receiver = receiver(&[]);
    for sequence in 0..3 {
        receiver.receive(0, &data(sequence));
    }
    assert_eq!(receiver.sent(), ["mbap ack seq 2 to n0"]);
    receiver.events();
    receiver.receive(0, &data(3));
    assert_eq!(receiver.drops(), [DropReason::BufferFull]);
    assert_eq!(receiver.take().map(|delivery| delivery.message), Some(MessageId(0)));
    receiver.receive(0, &data(3));
    assert_eq!(receiver.drops(), []);
    let rest: Vec<_> = std::iter::from_fn(|| receiver.take()).map(|delivery| delivery.message.0).collect();
    assert_eq!(rest, [1, 2, 3]);
}

#[test]
fn receiver_accepts_only_its_sender_and_session() {
    let mut receiver = receiver(&[]);
    for (from, bytes, reason) in [
        (2, data(0), DropReason::NotAMember),
        (0, bytes(AssociationId(2), Packet::Data { sequence: 0, payload: b"x" }), DropReason::Foreign),
        (0, ack(0), DropReason::Foreign),
        (0, data(0)[..HEADER_LEN - 1].to_vec(), DropReason::Malformed),
    ] {
        receiver.receive(from, &bytes);
        assert_eq!(receiver.drops(), [reason], "{bytes:?} from {from}");
    }
    assert_eq!(receiver.take(), None);
    assert_eq!(receiver.timer(), None);
}

/// Segovia 1996, sections 2.5.1 and 3.6.
#[test]
fn acknowledgments_wait_randomly_and_are_padded() {
    let settings = [("window", "1"), ("ack_wait", "3 bit"), ("ack_bytes", "100")];
    let mut receiver = receiver(&settings);
    let mut waits = std::collections::BTreeSet::new();
    for round in 0..100u64 {
        receiver.receive(0, &data((round % 2) as u16)).take();
        for (transmit, bytes) in receiver.datagrams() {
            assert_eq!(bytes.len(), 100 - 18);
            waits.insert(transmit.departure.map(carillon_core::Time::as_nanos));
        }
    }
    assert_eq!(waits, [0, 100, 200, 300].map(Some).into());
}
