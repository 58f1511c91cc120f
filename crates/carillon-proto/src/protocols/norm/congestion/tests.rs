//! Tests of congestion control: the receiver that limits the rate, answers to probes, and shares of a bottleneck.

use std::collections::VecDeque;
use std::time::Duration;

use carillon_core::{
    BitRate, Dest, GroupId, Machine, NodeId, PlainKind, PortId, Received, Scope, Time, drain,
};
use carillon_wire::norm::{
    Body, Congestion, Extensions, Object, Packet, Position, ProbeNode, SenderState, decode_rate, encode_rate,
};

use super::super::plain::PLAIN;
use super::super::world::{SENDER, Sent, config, context};
use super::super::{ENTRY, timing::Timing};
use super::feedback::Reaction;
use super::{Feedback, GroupRate};
use crate::plain::{PlainLimits, PlainNews, PlainReceiver, StreamPiece};

fn at(millis: u64) -> Time {
    Time::ZERO + Duration::from_millis(millis)
}

fn rate() -> GroupRate {
    let most = (BitRate::mbps(80), 1000);
    let rate = GroupRate::new(&config(&[("congestion", "equation")]), most, Duration::from_millis(50));
    rate.expect("valid").expect("it is on")
}

fn state(rate: f64, flags: u8) -> Congestion {
    let flags = flags | Congestion::MEASURED;
    Congestion { sequence: 1, flags, rtt: 0, loss: 655, rate: encode_rate(rate) }
}

fn bytes(rate: &GroupRate) -> f64 {
    decode_rate(rate.code())
}

fn is_near(one: f64, other: f64) -> bool {
    (one - other).abs() <= other * 0.01
}

/// RFC 4654, 2.4: the receiver with the lowest rate limits the group. A lower rate counts at once, a higher one of the
/// limiting receiver by a packet for each round-trip time.
#[test]
fn slowest_receiver_limits_the_rate() {
    let (mut rate, trip) = (rate(), Some(Duration::from_millis(50)));
    assert!(is_near(bytes(&rate), 80_000.0), "four packets of 1000 bytes in 50 ms");
    rate.on_answer(at(100), 7, state(50_000.0, 0), trip);
    rate.on_answer(at(100), 8, state(90_000.0, 0), trip);
    assert_eq!((rate.limiting(), is_near(bytes(&rate), 50_000.0)), (Some(7), true));
    rate.on_answer(at(150), 8, state(60_000.0, 0), trip);
    assert!(is_near(bytes(&rate), 50_000.0), "another receiver raises nothing");
    rate.on_answer(at(150), 7, state(900_000.0, 0), trip);
    assert_eq!(rate.limiting(), Some(8), "it is the slower one now");
    rate.on_answer(at(200), 8, state(800_000.0, 0), trip);
    assert!(is_near(bytes(&rate), 50_000.0 + 2.0 * 20_000.0), "{}", bytes(&rate));
    let nodes: Vec<_> = ProbeNode::each(&rate.nodes()).collect();
    let roles = nodes.iter().map(|node| (node.node, node.flags)).collect::<Vec<_>>();
    assert_eq!(nodes.len(), 2);
    assert_eq!(roles[0].1, Congestion::LIMITING | Congestion::MEASURED, "{roles:?}");
    // Silence halves the rate.
    let before = bytes(&rate);
    rate.on_probe(at(5000), Duration::from_secs(1));
    assert!(rate.limiting().is_none() && is_near(bytes(&rate), before / 2.0));
}

/// Before the first loss the rate at most doubles with each answer. The number of receivers that are followed is
/// bounded, and forged ones cannot replace slower ones.
#[test]
fn rate_doubles_at_the_start_and_few_receivers_are_kept() {
    let (mut rate, trip) = (rate(), Some(Duration::from_millis(50)));
    let starts = Congestion::STARTING;
    rate.on_answer(at(50), 7, state(1e6, starts), trip);
    assert!(is_near(bytes(&rate), 160_000.0));
    rate.on_answer(at(100), 7, state(200_000.0, starts), trip);
    assert!(is_near(bytes(&rate), 200_000.0));
    for id in 100..200 {
        rate.on_answer(at(100), id, state(5e6, starts), trip);
    }
    assert_eq!((rate.limiting(), ProbeNode::each(&rate.nodes()).count()), (Some(7), 4));
}

/// Receives a symbol in a packet of 1000 bytes.
fn receive(feedback: &mut Feedback, millis: u64, sequence: u16, timing: &Timing) {
    let (sender, object) = (SenderState::default(), Object { id: 0, flags: Object::STREAM });
    let position = Position::Rs8 { block: 0, symbol: 0 };
    let body = Body::Data { sender, object, position, payload: &[0; 980] };
    let packet = Packet { sequence, source: 1, body, extensions: Extensions::default() };
    feedback.on_packet(at(millis), &packet, timing);
}

/// RFC 5740, 5.5.2: the limiting receiver answers at once, others only if they allow less.
#[test]
fn receivers_answer_when_they_limit_or_allow_less() {
    let (build, settings) = (context(NodeId(3), 1 << 20), config(&[("grtt", "50 ms")]));
    let timing = Timing::new(&build, &settings);
    let mut feedback = Feedback::default();
    assert!(feedback.extension(&timing).is_empty(), "without a probe there is nothing to say");
    // 1000 bytes each 10 ms: 100 000 bytes a second.
    for number in 0..100 {
        receive(&mut feedback, 10 * u64::from(number), number, &timing);
    }
    let nodes = |node, rate: f64| {
        let mut bytes = Vec::new();
        let flags = Congestion::LIMITING | Congestion::MEASURED;
        ProbeNode { node, flags, rtt: 148, rate: encode_rate(rate) }.push(&mut bytes);
        bytes
    };
    assert_eq!(feedback.on_probe(1, &[], 5, &timing), Reaction::Wait);
    assert_eq!(feedback.on_probe(2, &nodes(9, 1e6), 5, &timing), Reaction::Wait);
    assert_eq!(feedback.on_probe(3, &nodes(9, 150_000.0), 5, &timing), Reaction::Silence);
    assert_eq!(feedback.on_probe(4, &nodes(5, 150_000.0), 5, &timing), Reaction::Answer);
    let extension = feedback.extension(&timing);
    let state = Extensions::new(&extension).expect("whole").congestion().expect("it is");
    let all = Congestion::LIMITING | Congestion::MEASURED | Congestion::STARTING;
    assert_eq!((state.sequence, state.flags, state.rtt, state.loss), (4, all, 148, 0));
    assert!((180_000.0..220_000.0).contains(&decode_rate(state.rate)), "twice the receive rate");
    // One packet of twenty is lost: TCP would be far slower.
    let mut number = 100;
    for time in 100..1000 {
        number += if time % 20 == 0 { 2 } else { 1 };
        receive(&mut feedback, 10 * time, number, &timing);
    }
    assert_eq!(feedback.on_probe(5, &nodes(9, 150_000.0), 5, &timing), Reaction::Wait);
}

/// A sender and its receiver behind a bottleneck that all sessions share.
struct Session {
    sender: Box<dyn Machine>,
    receiver: PlainReceiver,
    received: u64,
}

impl Session {
    fn new(number: u32) -> Session {
        let settings = config(&[("congestion", "equation"), ("feedback", "unicast"), ("rate", "100 Mbit/s")]);
        let mut build = context(SENDER, usize::MAX);
        build.association = carillon_core::AssociationId(100 + number);
        build.max_payload = 1000;
        let sender = (PLAIN.sender)(PlainKind::Messages, &build, &settings).expect("valid");
        let build =
            carillon_core::BuildContext { max_payload: 1000, ..context(NodeId(10 + number), 8 << 20) };
        let receiver = PlainReceiver::new(&ENTRY, &build, &settings, PlainLimits::default());
        let mut session = Session { sender, receiver: receiver.expect("valid"), received: 0 };
        session.sender.start(Time::ZERO);
        session.receiver.start(Time::ZERO);
        session
    }

    /// Offers all that there is room for, and takes what both have to send: from the sender, and from the receiver.
    fn settle(&mut self, now: Time, fired: bool) -> [Vec<(Dest, Vec<u8>)>; 2] {
        let piece = || StreamPiece { start: Some(0), ends: false, content: vec![0; 1000].into() };
        while self.sender.as_sender().expect("a sender").offer(now, piece().into_message()).is_ok() {}
        let mut sent = [Sent::fired(fired), Sent::fired(fired)];
        drain(&mut *self.sender, now, &mut Vec::new(), &mut sent[0]);
        drain(&mut self.receiver, now, &mut Vec::new(), &mut sent[1]);
        while self.receiver.poll_notice().is_some() {}
        while let Some(news) = self.receiver.poll_news() {
            if let PlainNews::Message { payload, .. } = news {
                self.received += payload.len() as u64;
            }
        }
        drain(&mut self.receiver, now, &mut Vec::new(), &mut sent[1]);
        sent.map(|sent| sent.packets)
    }
}

/// Two sessions share a bottleneck of 4 Mbit/s with a queue of 30 packets: each gets a fair part, and together they use
/// most of it.
#[test]
fn two_sessions_share_a_bottleneck() {
    let (rate, delay) = (BitRate::mbps(4), Duration::from_millis(20));
    let mut sessions = [Session::new(0), Session::new(1)];
    // Time of arrival, session, direction and bytes.
    let mut flight: VecDeque<(Time, usize, bool, Vec<u8>)> = VecDeque::new();
    let (mut now, mut free, mut lost) = (Time::ZERO, Time::ZERO, 0);
    let (mut fired, mut half) = (false, [0; 2]);
    let end = Time::ZERO + Duration::from_secs(60);
    while now < end {
        for (number, session) in sessions.iter_mut().enumerate() {
            let [data, answers] = session.settle(now, fired);
            for (_, bytes) in data {
                if free.since(now) > rate.time_for_bytes(30 * 1068) {
                    lost += 1;
                    continue;
                }
                free = free.max(now) + rate.time_for_bytes(bytes.len() as u64 + 28);
                flight.push_back((free + delay, number, true, bytes));
            }
            flight.extend(answers.into_iter().map(|(_, bytes)| (now + delay, number, false, bytes)));
        }
        flight.make_contiguous().sort_by_key(|flying| flying.0);
        let timeouts = sessions
            .iter()
            .flat_map(|session| [session.sender.poll_timeout(), session.receiver.poll_timeout()])
            .flatten();
        let next = timeouts.chain(flight.front().map(|flying| flying.0)).min().expect("a next step");
        now = now.max(next);
        fired = false;
        for session in &mut sessions {
            for machine in [&mut *session.sender, &mut session.receiver as &mut dyn Machine] {
                if machine.poll_timeout().is_some_and(|at| at <= now) {
                    machine.handle_timeout(now);
                    fired = true;
                }
            }
        }
        while flight.front().is_some_and(|flying| flying.0 <= now) {
            let (_, number, forward, bytes) = flight.pop_front().expect("it is there");
            let destination = if forward { Dest::group(GroupId(0)) } else { Dest::Node(SENDER) };
            let source = if forward { SENDER } else { NodeId(10 + number as u32) };
            let bytes = bytes.into();
            let (ingress, scope) = (PortId(0), Scope::GLOBAL);
            let received = Received { source, destination: &destination, ingress, scope, bytes: &bytes };
            match forward {
                true => sessions[number].receiver.handle_datagram(now, received),
                false => sessions[number].sender.handle_datagram(now, received),
            }
        }
        if now < Time::ZERO + Duration::from_secs(30) {
            half = [0, 1].map(|number| sessions[number].received);
        }
    }
    let rates = [0, 1].map(|number| (sessions[number].received - half[number]) as f64 * 8.0 / 30e6);
    let (low, high) = (rates[0].min(rates[1]), rates[0].max(rates[1]));
    assert!(low * 3.0 > high, "a fair part: {rates:?} Mbit/s, {lost} lost");
    assert!(low + high > 2.0, "most of the bottleneck: {rates:?} Mbit/s, {lost} lost");
}
