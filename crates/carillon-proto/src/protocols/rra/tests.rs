//! One rule each; the rules are those of docs/protocols/rra.md.

use bytes::Bytes;
use carillon_core::{
    AssociationId, BitRate, BuildContext, Config, Dest, Event, GroupId, Machine, NodeId, PortId, Received,
    Receiver, Scope, Seeds, Sender, Time,
};
use carillon_wire::rra::{Asks, Packet};

use super::{ENTRY, RraReceiver, RraSender};

const SENDER: NodeId = NodeId(0);
const ASSOCIATION: AssociationId = AssociationId(7);
const ASKS: Option<Asks> = Some(Asks { acker: 1, question: 5 });

fn at(micros: u64) -> Time {
    Time::from_nanos(micros * 1000)
}

fn parts(receivers: u32, settings: &[(&str, &str)]) -> (RraSender, Vec<RraReceiver>) {
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

/// Gives a datagram to a receiver and its answers to the sender; returns how many there were.
fn answer(
    sender: &mut RraSender,
    receivers: &mut [RraReceiver],
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
fn receivers_acknowledge_by_turns_and_only_when_named() {
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
fn a_message_is_complete_when_all_have_acknowledged_past_it() {
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
fn what_an_acknowledgment_lacks_is_sent_again_before_anything_new() {
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
    // The first receiver misses message 1.
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
fn a_receiver_that_does_not_answer_is_asked_again_and_then_expelled() {
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
    // Once, and again while the count had not exceeded 1.
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
fn a_receiver_skips_what_the_sender_no_longer_holds() {
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
fn a_first_that_lies_beyond_the_window_is_no_packet_of_this_session() {
    let (_, mut receivers) = parts(1, &[("window", "8")]);
    for (sequence, first) in [(3, 4), (20, 12)] {
        let mut buf = Vec::new();
        Packet::Data { sequence, first, asks: ASKS, payload: b"x" }.emit(ASSOCIATION, &mut buf);
        give(&mut receivers[0], at(0), SENDER, &Bytes::from(buf));
        assert!(sent(&mut receivers[0], at(0)).is_empty());
    }
}
