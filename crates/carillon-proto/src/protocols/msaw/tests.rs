//! Transcripts in virtual time, one rule each. Clauses refer to Segovia 1996.

use carillon_core::{AssociationId, DropReason, Event, MessageId, NodeId, OfferError, Outcome, Role};
use carillon_testkit::{ASSOCIATION, MachineFixture, bits};
use carillon_wire::msaw::{HEADER_LEN, Packet};

use super::{ENTRY, UNICAST_ENTRY};

/// Timeouts of 10 000 bit times after a transmission.
const CONSTANT: &[(&str, &str)] = &[("timeout_method", "constant"), ("timeout", "10000 bit")];

fn sender(receivers: u32, settings: &[(&str, &str)]) -> MachineFixture {
    MachineFixture::new(&ENTRY, Role::Sender, receivers, &[CONSTANT, settings].concat(), HEADER_LEN, 1)
}

fn receiver(settings: &[(&str, &str)]) -> MachineFixture {
    MachineFixture::new(&ENTRY, Role::Receiver, 3, settings, HEADER_LEN, 1)
}

fn ack(sequence: u8) -> Vec<u8> {
    bytes(ASSOCIATION, Packet::Ack { sequence })
}

fn data(sequence: u8, payload: &str) -> Vec<u8> {
    bytes(ASSOCIATION, Packet::Data { sequence, payload: payload.as_bytes() })
}

fn bytes(association: AssociationId, packet: Packet<'_>) -> Vec<u8> {
    let mut buf = Vec::new();
    packet.emit(association, &mut buf);
    buf
}

fn completed(bench: &mut MachineFixture) -> Vec<(u64, Outcome)> {
    let completed = bench.events().into_iter().filter_map(|event| match event {
        Event::Completed { message, outcome, .. } => Some((message.0, outcome)),
        _ => None,
    });
    completed.collect()
}

/// Segovia 1996, section 2.5.
#[test]
fn next_message_alternates_number_after_all_acknowledge() {
    let mut sender = sender(2, &[]);
    assert_eq!(sender.offer("a"), Ok(0));
    assert_eq!(sender.sent(), ["msaw data seq 0 len 1 to all"]);
    assert_eq!(sender.offer("b"), Err(OfferError::Full));
    sender.at(100).receive(1, &ack(0));
    assert_eq!(sender.offer("b"), Err(OfferError::Full));
    sender.at(200).receive(2, &ack(0));
    assert_eq!(completed(&mut sender), [(0, Outcome::Acknowledged)]);
    assert_eq!(sender.timer(), None);
    assert_eq!(sender.offer("bb"), Ok(1));
    assert_eq!(sender.sent(), ["msaw data seq 1 len 2 to all"]);
    assert_eq!(sender.timer(), Some(10_200));
    sender.at(300).receive(2, &ack(1)).receive(1, &ack(1));
    assert_eq!(sender.offer("ccc"), Ok(2));
    assert_eq!(sender.sent(), ["msaw data seq 0 len 3 to all"]);
}

/// Segovia 1996, section 2.5.
#[test]
fn sender_finishes_after_last_acknowledgment() {
    let mut sender = sender(1, &[]);
    sender.offer("a").unwrap();
    sender.finish();
    assert!(!sender.is_finished());
    assert_eq!(sender.offer("b"), Err(OfferError::Finished));
    sender.receive(1, &ack(0));
    assert!(sender.is_finished());
    assert_eq!(sender.at(1_000_000).sent().len(), 1);
}

/// Segovia 1996, section 2.5.2.
#[test]
fn timeout_multicasts_message_again() {
    let mut sender = sender(3, &[]);
    sender.offer("a").unwrap();
    sender.at(500).receive(1, &ack(0)).receive(2, &ack(0)).at(9_999);
    assert_eq!(sender.sent(), ["msaw data seq 0 len 1 to all"]);
    sender.at(10_000);
    assert_eq!(sender.sent(), ["msaw data seq 0 len 1 to all"]);
    assert_eq!(sender.timer(), Some(20_000));
    let events = sender.events();
    assert!(events.contains(&Event::TimerFired { timer: "retransmission" }));
    assert!(events.contains(&Event::RepairSent { message: MessageId(0), bytes: HEADER_LEN as u32 + 1 }));
    // Acknowledgments from before the retransmission still count.
    sender.receive(3, &ack(0));
    assert_eq!(completed(&mut sender), [(0, Outcome::Acknowledged)]);
}

/// Segovia 1996, section 2.5.
#[test]
fn unicast_retransmission_goes_to_missing_receivers() {
    let mut sender = sender(3, &[("retransmission", "unicast")]);
    sender.offer("a").unwrap();
    assert_eq!(sender.sent(), ["msaw data seq 0 len 1 to all"]);
    sender.at(500).receive(2, &ack(0)).at(10_000);
    let mut again = sender.sent();
    again.sort();
    assert_eq!(again, ["msaw data seq 0 len 1 to n1", "msaw data seq 0 len 1 to n3"]);
    sender.at(11_000).receive(1, &ack(0)).at(20_000);
    assert_eq!(sender.sent(), ["msaw data seq 0 len 1 to n3"]);
    assert_eq!(completed(&mut sender), []);
    sender.receive(3, &ack(0));
    assert_eq!(completed(&mut sender), [(0, Outcome::Acknowledged)]);
    assert_eq!(sender.timer(), None);
}

/// Segovia 1996, section 2.5: the next message follows.
#[test]
fn message_is_discarded_beyond_retransmission_limit() {
    for retransmission in ["multicast", "unicast"] {
        let mut sender = sender(2, &[("retransmission_limit", "2"), ("retransmission", retransmission)]);
        sender.offer("a").unwrap();
        sender.receive(1, &ack(0)).at(39_999);
        // Counts 0, 1 and 2 do not exceed the limit of 2: sent again three times.
        assert_eq!(sender.sent().len(), 1 + 3, "{retransmission}");
        assert_eq!(completed(&mut sender), []);
        sender.at(40_000);
        assert_eq!(completed(&mut sender), [(0, Outcome::Failed)]);
        assert_eq!(sender.timer(), None);
        assert_eq!(sender.offer("b"), Ok(1));
        assert_eq!(sender.sent(), ["msaw data seq 1 len 1 to all"]);
        // The receiver that missed the message is still a member.
        sender.receive(1, &ack(1)).receive(2, &ack(1));
        assert_eq!(completed(&mut sender), [(1, Outcome::Acknowledged)]);
    }
}

#[test]
fn expel_removes_failing_receiver_and_continues() {
    for retransmission in ["multicast", "unicast"] {
        let settings =
            [("retransmission_limit", "0"), ("past_limit", "expel"), ("retransmission", retransmission)];
        let mut sender = sender(2, &settings);
        sender.offer("a").unwrap();
        sender.receive(1, &ack(0)).at(20_000);
        let events = sender.events();
        assert!(events.contains(&Event::MemberLost { member: NodeId(2) }), "{events:?}");
        let outcome = Event::Completed { message: MessageId(0), outcome: Outcome::Acknowledged, window: 1 };
        assert!(events.contains(&outcome), "{events:?}");
        sender.offer("b").unwrap();
        sender.receive(1, &ack(1));
        assert_eq!(completed(&mut sender), [(1, Outcome::Acknowledged)]);
        // Without a receiver left, messages complete at once and nothing is sent.
        sender.offer("c").unwrap();
        sender.at(60_000).sent();
        assert_eq!(completed(&mut sender), [(2, Outcome::Acknowledged)]);
        sender.offer("d").unwrap();
        assert_eq!(completed(&mut sender), [(3, Outcome::Acknowledged)]);
        assert_eq!(sender.sent(), [""; 0]);
    }
}

/// Segovia 1996, section 2.5: an acknowledgment counts if it is "the current one, and from a member".
#[test]
fn foreign_or_stale_acknowledgments_are_ignored() {
    let mut sender = sender(2, &[]);
    sender.receive(1, &ack(0));
    assert_eq!(sender.drops(), [DropReason::OutOfWindow]);
    sender.offer("a").unwrap();
    sender.events();
    for (from, bytes, reason) in [
        (9, ack(0), DropReason::NotAMember),
        (0, ack(0), DropReason::NotAMember),
        (1, ack(1), DropReason::OutOfWindow),
        (1, bytes(AssociationId(2), Packet::Ack { sequence: 0 }), DropReason::Foreign),
        (1, data(0, "a"), DropReason::Foreign),
        (1, b"nonsense".to_vec(), DropReason::Malformed),
        (1, Vec::new(), DropReason::Malformed),
        (1, ack(0)[..HEADER_LEN - 1].to_vec(), DropReason::Malformed),
    ] {
        sender.receive(from, &bytes);
        assert_eq!(sender.drops(), [reason], "{bytes:?} from {from}");
    }
    sender.receive(1, &ack(0));
    assert_eq!(sender.drops(), []);
    sender.receive(1, &ack(0));
    assert_eq!(sender.drops(), [DropReason::Duplicate]);
    assert_eq!(sender.timer(), Some(10_000));
    assert_eq!(sender.sent().len(), 1);
}

/// Segovia 1996, section 4.4: the formula is d + a r + i + increment.
#[test]
fn formula_timeout_sums_its_terms() {
    let settings = [("timeout_method", "formula"), ("timeout", "1000 bit"), ("ack_wait", "6000 bit")];
    let mut sender = MachineFixture::new(&ENTRY, Role::Sender, 3, &settings, HEADER_LEN, 1);
    sender.offer("any length").unwrap();
    assert_eq!(sender.timer(), Some(12_144 + 3 * 512 + 6_000 + 1_000));
    // The unicast equivalent has one receiver at a time.
    let mut sender = MachineFixture::new(&UNICAST_ENTRY, Role::Sender, 3, &settings, HEADER_LEN, 1);
    sender.offer("any length").unwrap();
    assert_eq!(sender.timer(), Some(12_144 + 512 + 6_000 + 1_000));
}

/// RFC 6298, sections 2 and 3.
#[test]
fn adaptive_timeout_ignores_retransmitted_messages() {
    let mut sender = sender(1, &[("timeout_method", "adaptive"), ("timeout_min", "100 bit")]);
    sender.offer("a").unwrap();
    assert_eq!(sender.timer(), Some(10_000));
    sender.at(1_000).receive(1, &ack(0));
    sender.offer("b").unwrap();
    assert_eq!(sender.timer(), Some(1_000 + 3_000));
    // Expired: the timeout doubles.
    sender.at(4_000);
    assert_eq!(sender.timer(), Some(4_000 + 6_000));
    // Karn: no sample, but the doubling is over.
    sender.at(9_000).receive(1, &ack(1));
    sender.offer("c").unwrap();
    assert_eq!(sender.timer(), Some(9_000 + 3_000));
}

/// Segovia 1996, section 2.4.
#[test]
fn unicast_sends_to_each_receiver_in_turn() {
    let mut sender = MachineFixture::new(&UNICAST_ENTRY, Role::Sender, 2, CONSTANT, HEADER_LEN, 1);
    sender.offer("a").unwrap();
    assert_eq!(sender.sent(), ["msaw data seq 0 len 1 to n1"]);
    sender.receive(2, &ack(0));
    assert_eq!(sender.drops(), [DropReason::OutOfWindow]);
    sender.at(100).receive(1, &ack(0));
    assert_eq!(sender.sent(), ["msaw data seq 0 len 1 to n2"]);
    assert_eq!(completed(&mut sender), []);
    assert_eq!(sender.offer("b"), Err(OfferError::Full));
    sender.at(200).receive(2, &ack(0));
    assert_eq!(completed(&mut sender), [(0, Outcome::Acknowledged)]);
    sender.offer("b").unwrap();
    assert_eq!(sender.sent(), ["msaw data seq 1 len 1 to n1"]);
}

#[test]
fn unicast_continues_after_first_receiver_is_expelled() {
    let settings = [CONSTANT, &[("retransmission_limit", "0"), ("past_limit", "expel")]].concat();
    let mut sender = MachineFixture::new(&UNICAST_ENTRY, Role::Sender, 2, &settings, HEADER_LEN, 1);
    sender.offer("a").unwrap();
    sender.at(20_000).receive(2, &ack(0));
    assert!(sender.events().contains(&Event::MemberLost { member: NodeId(1) }));
    sender.sent();
    assert_eq!(sender.offer("b"), Ok(1));
    assert_eq!(sender.sent(), ["msaw data seq 1 len 1 to n2"]);
    assert_eq!(completed(&mut sender), []);
    sender.receive(2, &ack(1));
    assert_eq!(completed(&mut sender), [(1, Outcome::Acknowledged)]);
}

#[test]
fn wait_repeats_message_until_receivers_are_expelled() {
    for retransmission in ["multicast", "unicast"] {
        let limit = ("retransmission_limit", "0");
        let mut sender = sender(3, &[("retransmission", retransmission), limit, ("past_limit", "wait")]);
        sender.offer("a").unwrap();
        assert_eq!(sender.awaited(1..=3), [1, 2, 3]);
        sender.receive(1, &ack(0));
        assert_eq!(sender.awaited(1..=3), [2, 3]);
        sender.at(10_000 * 1000);
        assert!(sender.sent().len() >= 1000, "{retransmission}: asked again at each timeout");
        sender.expel(2);
        sender.at(10_000 * 1010);
        assert!(sender.sent().iter().all(|line| !line.ends_with("n2")), "nothing more for one that is gone");
        assert_eq!((sender.awaited(1..=3), completed(&mut sender)), (vec![3], vec![]));
        sender.expel(3);
        assert_eq!(completed(&mut sender), [(0, Outcome::Acknowledged)]);
        assert_eq!((sender.awaited(1..=3), sender.timer()), (vec![], None));
    }
}

#[test]
fn unicast_awaits_current_receiver() {
    let settings = [CONSTANT, &[("retransmission_limit", "0"), ("past_limit", "wait")]].concat();
    let mut sender = MachineFixture::new(&UNICAST_ENTRY, Role::Sender, 2, &settings, HEADER_LEN, 1);
    sender.offer("a").unwrap();
    assert_eq!(sender.awaited(1..=2), [1]);
    sender.at(10_000 * 1000);
    assert_eq!(sender.awaited(1..=2), [1]);
    sender.expel(1);
    assert_eq!(sender.awaited(1..=2), [2]);
    sender.receive(2, &ack(0));
    assert_eq!(completed(&mut sender), [(0, Outcome::Acknowledged)]);
    assert_eq!(sender.awaited(1..=2), [0; 0]);
}

/// Segovia 1996, section 2.5.
#[test]
fn duplicate_is_acknowledged_but_delivered_once() {
    let mut receiver = receiver(&[]);
    receiver.receive(0, &data(0, "a"));
    assert_eq!(receiver.sent(), ["msaw ack seq 0 to n0"]);
    let delivery = receiver.take().expect("the message is there");
    assert_eq!(
        (delivery.source, delivery.message, &delivery.payload[..]),
        (NodeId(0), MessageId(0), &b"a"[..])
    );
    // The acknowledgment was lost: the message comes again.
    receiver.events();
    receiver.receive(0, &data(0, "a"));
    assert_eq!(receiver.sent(), ["msaw ack seq 0 to n0"]);
    assert_eq!(receiver.drops(), [DropReason::Duplicate]);
    assert_eq!(receiver.take(), None);
    receiver.receive(0, &data(1, "b"));
    assert_eq!(receiver.sent(), ["msaw ack seq 1 to n0"]);
    assert_eq!(receiver.take().map(|delivery| delivery.message), Some(MessageId(1)));
}

/// Segovia 1996, section 2.5: the receiver has a single buffer.
#[test]
fn message_without_room_is_not_acknowledged() {
    let mut receiver = receiver(&[]);
    receiver.receive(0, &data(0, "a"));
    receiver.sent();
    receiver.receive(0, &data(1, "b"));
    assert_eq!(receiver.sent(), [""; 0]);
    assert_eq!(receiver.drops(), [DropReason::BufferFull]);
    assert_eq!(receiver.take().map(|delivery| delivery.payload), Some("a".into()));
    receiver.receive(0, &data(1, "b"));
    assert_eq!(receiver.sent(), ["msaw ack seq 1 to n0"]);
    assert_eq!(receiver.take().map(|delivery| delivery.payload), Some("b".into()));
}

#[test]
fn receiver_accepts_only_its_sender_and_session() {
    let mut receiver = receiver(&[]);
    for (from, bytes, reason) in [
        (2, data(0, "a"), DropReason::NotAMember),
        (0, bytes(AssociationId(2), Packet::Data { sequence: 0, payload: b"a" }), DropReason::Foreign),
        (0, ack(0), DropReason::Foreign),
        (0, data(0, "")[..HEADER_LEN - 1].to_vec(), DropReason::Malformed),
        (0, b"\xca\x01\x01\x01\0\0\0\x01\x02".to_vec(), DropReason::Malformed),
    ] {
        receiver.receive(from, &bytes);
        assert_eq!(receiver.drops(), [reason], "{bytes:?} from {from}");
    }
    assert_eq!(receiver.sent(), [""; 0]);
    assert_eq!(receiver.take(), None);
}

/// Segovia 1996, section 2.5.1: both limits are included.
#[test]
fn random_wait_is_0_to_r_bit_times() {
    let mut receiver = receiver(&[("ack_wait", "5 bit")]);
    let mut seen = [0; 6];
    for round in 0..600u64 {
        receiver.at(1_000 * round).receive(0, &data((round % 2) as u8, "a")).take();
        let [(transmit, _)] = &receiver.datagrams()[..] else { panic!("one acknowledgment") };
        let departure = transmit.departure.expect("it waits");
        let wait = (0..6).find(|wait| departure == bits(1_000 * round + wait)).expect("0 to 5 bit times");
        seen[wait as usize] += 1;
    }
    assert!(seen.iter().all(|&count| (60..=140).contains(&count)), "{seen:?}");
    // R = 0 means no wait.
    let mut receiver = self::receiver(&[]);
    receiver.receive(0, &data(0, "a"));
    assert_eq!(receiver.datagrams()[0].0.departure, None);
}

/// Segovia 1996, section 3.6: the parameter is ACKPKTSIZE.
#[test]
fn acknowledgment_is_padded_to_link_size() {
    for (size, len) in [("64", 64 - 18), ("0", HEADER_LEN), ("27", HEADER_LEN), ("28", HEADER_LEN + 1)] {
        let mut receiver = receiver(&[("ack_bytes", size)]);
        receiver.receive(0, &data(0, "a"));
        assert_eq!(receiver.datagrams()[0].1.len(), len, "{size}");
    }
}

/// Rules 3 and 4 of the driving contract.
#[test]
fn late_timers_fire_in_order() {
    let mut sender = sender(3, &[("retransmission", "unicast"), ("retransmission_limit", "0")]);
    sender.offer("a").unwrap();
    assert_eq!(sender.timer(), Some(10_000));
    sender.at(19_999);
    assert_eq!(sender.sent().len(), 1 + 3);
    assert_eq!(sender.timer(), Some(20_000));
    sender.at(20_000);
    assert_eq!(completed(&mut sender), [(0, Outcome::Failed)]);
    assert_eq!(sender.timer(), None);
}

/// An adaptive wait that starts at 1000 bit times.
const ADAPTIVE: &[(&str, &str)] = &[("ack_wait_method", "adaptive"), ("ack_wait", "1000 bit")];

#[test]
fn adaptive_wait_is_answer_spread_divided_by_1_15() {
    let mut sender = sender(3, ADAPTIVE);
    sender.offer("a").expect("the first message");
    assert_eq!(sender.sent(), ["msaw timed seq 0 wait 100000 ns len 1 to all"], "1000 bit at 10 Mbit/s");
    assert_eq!(sender.timer(), Some(11_000), "the timeout, and the wait");
    for (at, receiver) in [(500, 2), (900, 1), (500 + 2_300, 3)] {
        sender.at(at).receive(receiver, &ack(0));
    }
    sender.offer("b").expect("all have acknowledged");
    assert_eq!(sender.sent(), ["msaw timed seq 1 wait 200000 ns len 1 to all"], "2300 bit / 1.15");
    // A retransmitted message contributes only answers from before the retransmission.
    sender.at(3_300).receive(1, &ack(1));
    sender.at(2_800 + 12_000);
    assert_eq!(sender.sent(), ["msaw timed seq 1 wait 200000 ns len 1 to all"]);
    sender.at(15_000).receive(2, &ack(1));
    sender.at(16_000).receive(3, &ack(1));
    sender.offer("c").expect("all have acknowledged");
    assert_eq!(sender.sent(), ["msaw timed seq 0 wait 200000 ns len 1 to all"]);
    // A message without an answer before its retransmission contributes nothing, however spread its answers are.
    sender.at(16_000 + 12_000);
    assert_eq!(sender.sent(), ["msaw timed seq 0 wait 200000 ns len 1 to all"]);
    sender.at(28_500).receive(1, &ack(0)).receive(2, &ack(0));
    sender.at(32_000).receive(3, &ack(0));
    sender.offer("d").expect("all have acknowledged");
    assert_eq!(sender.sent(), ["msaw timed seq 1 wait 200000 ns len 1 to all"]);
}

#[test]
fn receiver_draws_from_announced_wait() {
    let departures = |settings: &[(&str, &str)], ack_wait: u32| -> Vec<u64> {
        let mut receiver = receiver(settings);
        (0..64)
            .map(|message: u64| {
                let sequence = (message & 1) as u8;
                receiver.receive(0, &bytes(ASSOCIATION, Packet::Timed { sequence, ack_wait, payload: b"x" }));
                receiver.take().expect("a message");
                let (transmit, _) = receiver.datagrams().pop().expect("an acknowledgment");
                transmit.departure.map_or(0, |at| at.since(bits(0)).as_nanos() as u64)
            })
            .collect()
    };
    let told = departures(ADAPTIVE, 5_000_000);
    assert!(told.iter().all(|&nanos| nanos <= 5_000_000) && told.iter().any(|&nanos| nanos > 4_000_000));
    assert!(departures(ADAPTIVE, 0).iter().all(|&nanos| nanos == 0));
    assert!(departures(&[], 5_000_000).iter().all(|&nanos| nanos == 0), "it was not to be told");
}
