//! Tests of the rules in `docs/protocols/rra.md`, one each.

use bytes::Bytes;
use carillon_core::{
    AssociationId, BitRate, BuildContext, Config, Dest, Event, GroupId, Machine, NodeId, PortId, Received,
    Receiver, Scope, Seeds, Sender, Time,
};
use carillon_wire::rra::{AckRequest, Packet};

use super::{ENTRY, RraReceiver, RraSender};
use crate::blocks::Player;

const SENDER: NodeId = NodeId(0);
const ASSOCIATION: AssociationId = AssociationId(7);
const ASKS: Option<AckRequest> = Some(AckRequest { acker: 1, question: 5 });

fn at(micros: u64) -> Time {
    Time::from_nanos(micros * 1000)
}

fn parts(receivers: u32, settings: &[(&str, &str)]) -> (Player<RraSender>, Vec<Player<RraReceiver>>) {
    let mut config = Config::defaults(ENTRY.parameters);
    config.set(ENTRY.parameters, "timeout_method", "constant").unwrap();
    config.set(ENTRY.parameters, "timeout", "10 ms").unwrap();
    for (key, value) in settings {
        config.set(ENTRY.parameters, key, value).unwrap();
    }
    let context = |node| BuildContext {
        association: ASSOCIATION,
        node,
        sender: SENDER,
        members: (1..=receivers).map(NodeId).collect(),
        helpers: Default::default(),
        identities: Default::default(),
        addresses: Default::default(),
        group: GroupId(0),
        seeds: Seeds::new(1),
        bit_rate: BitRate::mbps(10),
        link_overhead: 18,
        max_payload: 100,
        memory: usize::MAX,
        rejoining: false,
    };
    let sender = RraSender::new(&context(SENDER), &config).unwrap();
    (sender, (1..=receivers).map(|node| RraReceiver::new(&context(NodeId(node)), &config)).collect())
}

fn sent(machine: &mut dyn Machine, now: Time) -> Vec<Bytes> {
    let mut all = Vec::new();
    let mut buf = Vec::new();
    while machine.poll_transmit(now, &mut buf).is_some() {
        all.push(Bytes::from(std::mem::take(&mut buf)));
    }
    while machine.poll_event().is_some() {}
    all
}

fn give(machine: &mut dyn Machine, now: Time, source: NodeId, bytes: &Bytes) {
    let destination = Dest::group(GroupId(0));
    let scope = Scope::GLOBAL;
    machine.handle_datagram(
        now,
        Received { source, destination: &destination, ingress: PortId(0), scope, bytes },
    );
}

fn shown(datagrams: &[Bytes]) -> Vec<String> {
    datagrams.iter().map(|bytes| Packet::parse(bytes).unwrap().1.to_string()).collect()
}

/// Passes a datagram to a receiver and its answers to the sender. Returns the number of answers.
fn answer(
    sender: &mut Player<RraSender>,
    receivers: &mut [Player<RraReceiver>],
    index: usize,
    bytes: &Bytes,
    now: Time,
) -> usize {
    give(&mut receivers[index], now, SENDER, bytes);
    let acks = sent(&mut receivers[index], now);
    for ack in &acks {
        give(sender, now, NodeId(index as u32 + 1), ack);
    }
    acks.len()
}

#[test]
fn receivers_acknowledge_in_turn_when_polled() {
    let (mut sender, mut receivers) = parts(3, &[]);
    for _ in 0..4 {
        sender.offer(at(0), Bytes::from_static(b"x")).unwrap();
    }
    for turn in 0..4 {
        let out = sent(&mut sender, at(turn));
        assert_eq!(shown(&out).len(), 1, "one question at a time");
        let asked = turn as usize % 3;
        for index in 0..3 {
            let answers = answer(&mut sender, &mut receivers, index, &out[0], at(turn));
            assert_eq!(answers, usize::from(index == asked));
        }
    }
}

#[test]
fn message_completes_after_acknowledgments_of_all() {
    let (mut sender, mut receivers) = parts(2, &[]);
    sender.offer(at(0), Bytes::from_static(b"x")).unwrap();
    sender.finish(at(0));
    let data = sent(&mut sender, at(0));
    assert_eq!(shown(&data), ["rra data seq 0 first 0 acker 0x1 question 1 len 1"]);
    answer(&mut sender, &mut receivers, 0, &data[0], at(1));
    answer(&mut sender, &mut receivers, 1, &data[0], at(1));
    assert!(!sender.is_finished(), "the second receiver has not been asked");
    let poll = sent(&mut sender, at(1));
    assert_eq!(shown(&poll), ["rra poll seq 0 first 0 acker 0x2 question 2"]);
    answer(&mut sender, &mut receivers, 1, &poll[0], at(2));
    assert!(sender.is_finished());
    assert_eq!(sender.poll_timeout(), None);
}

#[test]
fn missing_messages_are_repaired_before_new_ones() {
    let (mut sender, mut receivers) = parts(2, &[("burst", "3")]);
    for _ in 0..4 {
        sender.offer(at(0), Bytes::from_static(b"x")).unwrap();
    }
    let burst = sent(&mut sender, at(0));
    assert_eq!(
        shown(&burst),
        [
            "rra data seq 0 first 0 len 1",
            "rra data seq 1 first 0 len 1",
            "rra data seq 2 first 0 acker 0x1 question 1 len 1"
        ]
    );
    // The first receiver is missing message 1.
    assert_eq!(answer(&mut sender, &mut receivers, 0, &burst[0], at(1)), 0);
    assert_eq!(answer(&mut sender, &mut receivers, 0, &burst[2], at(1)), 1);
    assert_eq!(shown(&sent(&mut sender, at(2))), ["rra data seq 1 first 0 acker 0x1 question 2 len 1"]);
    assert_eq!(receivers[0].poll_delivery().map(|d| d.message.0), Some(0));
    assert_eq!(receivers[0].poll_delivery(), None, "messages are delivered in order");
    answer(&mut sender, &mut receivers, 0, &burst[1], at(3));
    let rest = [receivers[0].poll_delivery(), receivers[0].poll_delivery()];
    assert_eq!(rest.map(|d| d.map(|d| d.message.0)), [Some(1), Some(2)]);
}

#[test]
fn silent_receiver_is_polled_again_then_expelled() {
    let (mut sender, mut receivers) = parts(2, &[("retransmission_limit", "1"), ("past_limit", "expel")]);
    sender.offer(at(0), Bytes::from_static(b"x")).unwrap();
    sender.finish(at(0));
    let mut asked = 0;
    let mut now = at(0);
    loop {
        asked += sent(&mut sender, now).len();
        now = sender.poll_timeout().unwrap();
        sender.handle_timeout(now);
        let mut lost = false;
        while let Some(event) = sender.poll_event() {
            lost |= matches!(event, Event::MemberLost { member: NodeId(1) });
        }
        if lost {
            break;
        }
    }
    // Once, and twice again until the count exceeds the limit of 1.
    assert_eq!(asked, 3);
    let poll = sent(&mut sender, now);
    assert_eq!(shown(&poll), ["rra poll seq 0 first 0 acker 0x2 question 4"]);
    let message = [Packet::Data { sequence: 0, first: 0, asks: None, payload: b"x" }].map(|packet| {
        let mut buf = Vec::new();
        packet.emit(ASSOCIATION, &mut buf);
        Bytes::from(buf)
    });
    give(&mut receivers[1], now, SENDER, &message[0]);
    answer(&mut sender, &mut receivers, 1, &poll[0], now);
    assert!(sender.is_finished());
}

#[test]
fn receiver_skips_messages_before_first() {
    let (_, mut receivers) = parts(1, &[]);
    let mut buf = Vec::new();
    Packet::Data { sequence: 5, first: 4, asks: ASKS, payload: b"x" }.emit(ASSOCIATION, &mut buf);
    give(&mut receivers[0], at(0), SENDER, &Bytes::from(buf));
    assert_eq!(
        shown(&sent(&mut receivers[0], at(0))),
        ["rra ack expected 4 question 5 arrived 1 room 256 map 0x1"]
    );
}

#[test]
fn first_beyond_the_window_is_malformed() {
    let (_, mut receivers) = parts(1, &[("window", "8")]);
    for (sequence, first) in [(3, 4), (20, 12)] {
        let mut buf = Vec::new();
        Packet::Data { sequence, first, asks: ASKS, payload: b"x" }.emit(ASSOCIATION, &mut buf);
        give(&mut receivers[0], at(0), SENDER, &Bytes::from(buf));
        assert!(sent(&mut receivers[0], at(0)).is_empty());
    }
}

/// Sender and receivers with the settings of `carillon send`, except for the window.
fn several(receivers: u32, more: &[(&str, &str)]) -> (Player<RraSender>, Vec<Player<RraReceiver>>) {
    let mut settings = vec![
        ("questions", "64"),
        ("flow_control", "path"),
        ("burst", "4"),
        ("past_limit", "wait"),
        ("timeout_method", "adaptive"),
        ("timeout", "50 ms"),
    ];
    settings.extend_from_slice(more);
    parts(receivers, &settings)
}

fn questions(datagrams: &[Bytes]) -> Vec<(usize, AckRequest)> {
    let asks = |bytes: &Bytes| match Packet::parse(bytes).unwrap().1 {
        Packet::Data { asks, .. } => asks,
        Packet::Poll { asks, .. } => Some(asks),
        Packet::Ack { .. } => None,
    };
    datagrams.iter().enumerate().filter_map(|(at, bytes)| Some((at, asks(bytes)?))).collect()
}

#[test]
fn concurrent_polls_allow_a_first_window_in_flight() {
    let (mut sender, _) = several(2, &[]);
    for _ in 0..200 {
        sender.offer(at(0), Bytes::from_static(b"x")).unwrap();
    }
    let out = sent(&mut sender, at(0));
    // Every fourth packet polls, and 128 packets may be in flight.
    assert_eq!(out.len(), 128);
    let ackers: Vec<u32> = questions(&out).iter().map(|(_, asks)| asks.acker).collect();
    let by_turns: Vec<u32> = (0..32).map(|question| 1 + question % 2).collect();
    assert_eq!(ackers, by_turns);
}

/// An answer covers packets sent before its poll, so that a repair in flight is not sent twice.
#[test]
fn answer_covers_packets_before_its_poll_only() {
    let (mut sender, mut receivers) = several(1, &[("burst", "2")]);
    for _ in 0..6 {
        sender.offer(at(0), Bytes::from_static(b"x")).unwrap();
    }
    let out = sent(&mut sender, at(0));
    assert_eq!(questions(&out).len(), 3);
    // Message 1 is lost, and the poll in it; both later answers report the loss.
    let mut acks = Vec::new();
    for bytes in [&out[0], &out[2], &out[3], &out[4], &out[5]] {
        give(&mut receivers[0], at(1), SENDER, bytes);
        acks.extend(sent(&mut receivers[0], at(1)));
    }
    assert_eq!(acks.len(), 2);
    give(&mut sender, at(2), NodeId(1), &acks[0]);
    let repair = sent(&mut sender, at(2));
    assert_eq!(shown(&repair), ["rra data seq 1 first 1 acker 0x1 question 4 len 1"]);
    // The later answer is older than the repair and requests no more.
    give(&mut sender, at(3), NodeId(1), &acks[1]);
    assert!(sent(&mut sender, at(3)).is_empty());
    give(&mut receivers[0], at(4), SENDER, &repair[0]);
    let ack = sent(&mut receivers[0], at(4));
    give(&mut sender, at(5), NodeId(1), &ack[0]);
    sender.finish(at(5));
    assert!(sender.is_finished());
}

#[test]
fn unpolled_receivers_are_polled_after_idle_delay() {
    let (mut sender, mut receivers) = several(3, &[]);
    sender.offer(at(0), Bytes::from_static(b"x")).unwrap();
    let out = sent(&mut sender, at(0));
    assert_eq!(shown(&out), ["rra data seq 0 first 0 len 1"]);
    let quiet = sender.poll_timeout().unwrap();
    assert_eq!(quiet, at(1000));
    sender.handle_timeout(quiet);
    let polls = sent(&mut sender, quiet);
    let asked = questions(&polls);
    assert_eq!(asked.len(), 3);
    for (at, asks) in asked {
        let index = asks.acker as usize - 1;
        give(&mut receivers[index], quiet, SENDER, &out[0]);
        assert_eq!(answer(&mut sender, &mut receivers, index, &polls[at], quiet), 1);
    }
    sender.finish(quiet);
    assert!(sender.is_finished());
    assert_eq!(sender.poll_timeout(), None);
}

#[test]
fn full_receiver_stops_the_sender_until_it_has_room() {
    let (mut sender, mut receivers) = several(1, &[("window", "8"), ("burst", "1")]);
    let mut now = at(0);
    let mut offered = 0;
    let mut step = |now: Time, sender: &mut Player<RraSender>, receivers: &mut [Player<RraReceiver>]| {
        while sender.offer(now, Bytes::from_static(b"x")).is_ok() {
            offered += 1;
        }
        sender.handle_timeout(now);
        for bytes in sent(sender, now) {
            answer(sender, receivers, 0, &bytes, now);
        }
        offered
    };
    for _ in 0..20 {
        now = Time::from_nanos(now.as_nanos() + 5_000_000);
        step(now, &mut sender, &mut receivers);
    }
    // Eight messages fill the receiver and eight more wait at the sender; polls ask for room.
    assert_eq!(step(now, &mut sender, &mut receivers), 16);
    for _ in 0..8 {
        assert!(receivers[0].poll_delivery().is_some());
    }
    for _ in 0..5 {
        now = Time::from_nanos(now.as_nanos() + 5_000_000);
        step(now, &mut sender, &mut receivers);
    }
    assert_eq!(step(now, &mut sender, &mut receivers), 24);
}

#[test]
fn polls_of_full_receiver_back_off_exponentially() {
    let (mut sender, mut receivers) = several(1, &[("window", "8"), ("burst", "1")]);
    let mut now = at(0);
    // The back-off restarts after the receiver had room.
    for _ in 0..2 {
        let mut asked = Vec::new();
        while asked.len() < 8 {
            while sender.offer(now, Bytes::from_static(b"x")).is_ok() {}
            let packets = sent(&mut sender, now);
            if packets.is_empty() {
                now = sender.poll_timeout().expect("it will ask again").max(now);
                sender.handle_timeout(now);
                continue;
            }
            for bytes in &packets {
                answer(&mut sender, &mut receivers, 0, bytes, now);
            }
            asked.push(now);
        }
        let gaps: Vec<_> = asked.windows(2).map(|two| two[1].since(two[0]).as_micros()).collect();
        assert_eq!(gaps, [500, 1000, 2000, 4000, 8000, 10_000, 10_000]);
        while receivers[0].poll_delivery().is_some() {}
        // The next poll learns of the room.
        assert!(sent(&mut sender, now).is_empty());
        now = sender.poll_timeout().expect("it will ask again");
        sender.handle_timeout(now);
        for bytes in sent(&mut sender, now) {
            answer(&mut sender, &mut receivers, 0, &bytes, now);
        }
    }
}

#[test]
fn silent_receiver_is_polled_without_end_at_bounded_rate() {
    let (mut sender, mut receivers) = several(2, &[("window", "200")]);
    let mut now = at(0);
    let mut sent_ever = 0;
    for _ in 0..3000 {
        while sender.offer(now, Bytes::from_static(b"x")).is_ok() {}
        for bytes in sent(&mut sender, now) {
            sent_ever += 1;
            answer(&mut sender, &mut receivers, 0, &bytes, now);
        }
        now = sender.poll_timeout().unwrap_or(now).max(Time::from_nanos(now.as_nanos() + 1_000_000));
        sender.handle_timeout(now);
    }
    let got = std::iter::from_fn(|| receivers[0].poll_delivery()).count();
    assert_eq!(got, 200, "the window was sent to the one that lives");
    // 200 messages, and at most one poll per 250 ms.
    let seconds = now.as_nanos() / 1_000_000_000;
    assert!(sent_ever < 220 + 5 * seconds, "{sent_ever} in {seconds} s");
    assert!(sender.awaits(NodeId(2)) && !sender.awaits(NodeId(1)));
    sender.expel(now, NodeId(2));
    assert!(!sender.awaits(NodeId(2)));
    assert!(sender.offer(now, Bytes::from_static(b"x")).is_ok());
}

#[test]
fn unsolicited_answer_is_ignored() {
    let (mut sender, mut receivers) = several(2, &[("burst", "1")]);
    sender.offer(at(0), Bytes::from_static(b"x")).unwrap();
    let out = sent(&mut sender, at(0));
    give(&mut receivers[0], at(0), SENDER, &out[0]);
    let ack = sent(&mut receivers[0], at(0)).remove(0);
    // Another receiver claims the answer.
    give(&mut sender, at(1), NodeId(2), &ack);
    assert!(sender.awaits(NodeId(2)));
    give(&mut sender, at(1), NodeId(1), &ack);
    assert!(!sender.awaits(NodeId(1)));
    // A repeated answer is ignored.
    give(&mut sender, at(1), NodeId(1), &ack);
    assert!(sender.awaits(NodeId(2)));
}

#[test]
fn repair_budget_limits_receiver_that_claims_all_missing() {
    let (mut sender, mut receivers) = several(2, &[("window", "64")]);
    let (mut now, mut packets) = (at(0), 0);
    for _ in 0..20_000 {
        while sender.offer(now, Bytes::from_static(b"x")).is_ok() {}
        for bytes in sent(&mut sender, now) {
            packets += 1;
            answer(&mut sender, &mut receivers, 0, &bytes, now);
            let Some((_, asks)) = questions(&[bytes]).pop().filter(|(_, asks)| asks.acker == 2) else {
                continue;
            };
            let mut forged = Vec::new();
            let received = carillon_wire::map::Map::new(&[0; 8]);
            let room = u16::MAX;
            Packet::Ack { expected: 0, question: asks.question, arrived: packets, room, received }
                .emit(ASSOCIATION, &mut forged);
            give(&mut sender, now, NodeId(2), &Bytes::from(forged));
        }
        now = Time::from_nanos(now.as_nanos() + 1_000_000);
        sender.handle_timeout(now);
    }
    // 64 unacknowledged messages and their repairs; the rest are polls, one per round.
    assert!(packets < 64 + 1024 + 9 * 64 + 20_100, "{packets}");
    let (mut polls, mut data) = (0, 0);
    for _ in 0..100 {
        now = Time::from_nanos(now.as_nanos() + 1_000_000);
        sender.handle_timeout(now);
        for bytes in sent(&mut sender, now) {
            match Packet::parse(&bytes).unwrap().1 {
                Packet::Poll { .. } => polls += 1,
                _ => data += 1,
            }
        }
    }
    assert!(polls > 0 && data == 0, "{polls} polls, {data} messages");
}
