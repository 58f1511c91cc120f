//! Tests of the rules in `docs/protocols/ramp.md`, one each. A millisecond is 10 000 bit times.

use carillon_core::{BitRate, DropReason, Event, Role};
use carillon_testkit::{ASSOCIATION, MachineFixture};
use carillon_wire::ramp::{Flags, HEADER_LEN, Packet, Service, Spans, Status};

use super::ENTRY;
use super::rate::AdaptiveRate;
use crate::blocks::RateControl;

const MS: u64 = 10_000;

/// Fixture of a sender with connected receivers.
fn sender(receivers: u32, settings: &[(&str, &str)]) -> MachineFixture {
    let mut bench = MachineFixture::new(&ENTRY, Role::Sender, receivers, settings, HEADER_LEN, 1);
    // The fixture drains a machine after its first call, and the datagram itself is dropped.
    bench.receive(99, b"").drops();
    for receiver in 1..=receivers {
        bench.receive(
            receiver,
            &bytes(Packet::Accept { status: status(0), service: Service::SenderReliable }),
        );
    }
    bench.datagrams();
    bench
}

fn receiver(settings: &[(&str, &str)]) -> MachineFixture {
    MachineFixture::new(&ENTRY, Role::Receiver, 1, settings, HEADER_LEN, 1)
}

fn status(next: u32) -> Status {
    Status { next, limit: next + 64 }
}

fn bytes(packet: Packet<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    packet.emit(ASSOCIATION, &mut bytes);
    bytes
}

fn data(sequence: u32, flags: Flags) -> Vec<u8> {
    bytes(Packet::Data { sequence, flags, payload: b"x" })
}

fn idle(next: u32, flags: Flags) -> Vec<u8> {
    bytes(Packet::Idle { next, flags })
}

fn ack(next: u32, sequence: u32) -> Vec<u8> {
    bytes(Packet::Ack { status: status(next), sequence })
}

fn resend(next: u32, spans: &[(u32, u16)]) -> Vec<u8> {
    let mut encoded = Vec::new();
    Spans::encode(spans.iter().copied(), &mut encoded);
    bytes(Packet::Resend { status: status(next), spans: Spans::new(&encoded) })
}

const ACK: Flags = Flags { ack: true, idle_mode: false, end: false };
const IDLE_MODE: Flags = Flags { ack: false, idle_mode: true, end: false };
const PLAIN: Flags = Flags { ack: false, idle_mode: false, end: false };

/// Sent packets as text, each with `to all` or the number of its addressee.
fn sent(bench: &mut MachineFixture) -> Vec<String> {
    let line = |(transmit, bytes): &(carillon_core::Transmit, Vec<u8>)| {
        let to = match transmit.dest {
            carillon_core::Dest::Node(node) => format!("{}", node.0),
            _ => "all".to_owned(),
        };
        format!("{to}: {}", Packet::parse(bytes).expect("own packet").1)
    };
    bench.datagrams().iter().map(line).collect()
}

/// The channel opens with CONNECT and ACCEPT; a CONNECT without an answer is repeated.
#[test]
fn connect_is_repeated_until_accepted() {
    let mut bench =
        MachineFixture::new(&ENTRY, Role::Sender, 2, &[("receiver_reliable", "1")], HEADER_LEN, 1);
    bench.receive(99, b"");
    assert_eq!(
        sent(&mut bench),
        ["1: ramp connect next 0 sender-reliable", "2: ramp connect next 0 receiver-reliable"]
    );
    bench.receive(1, &bytes(Packet::Accept { status: status(0), service: Service::SenderReliable }));
    bench.at(51 * MS);
    assert_eq!(sent(&mut bench), ["2: ramp connect next 0 receiver-reliable"]);
}

/// Johnstone, II.E.4.a: the first message of a burst has the ACK flag, and one Idle ends the burst.
#[test]
fn burst_begins_with_ack_flag_and_ends_with_one_idle() {
    let mut bench = sender(1, &[]);
    bench.offer("a").unwrap();
    bench.offer("b").unwrap();
    bench.at(1);
    assert_eq!(sent(&mut bench), ["all: ramp data seq 0 ack len 1", "all: ramp data seq 1 len 1"]);
    bench.receive(1, &ack(2, 0));
    bench.at(9 * MS).offer("c").unwrap();
    bench.at(9 * MS + 1);
    assert_eq!(sent(&mut bench), ["all: ramp data seq 2 len 1"], "the burst goes on within the gap");
    bench.at(500 * MS);
    assert_eq!(sent(&mut bench), ["all: ramp idle next 3"], "one Idle, then silence");
    bench.offer("d").unwrap();
    bench.at(501 * MS);
    assert_eq!(sent(&mut bench), ["all: ramp data seq 3 ack len 1"]);
    bench.at(513 * MS).offer("e").unwrap();
    let lines = sent(&mut bench);
    assert_eq!(
        lines.last().map(String::as_str),
        Some("all: ramp data seq 4 ack len 1"),
        "a pause ends a burst"
    );
}

/// Johnstone, II.E.4.a: without an ACK the sender retransmits the data, and closes the channel after several times.
#[test]
fn unanswered_message_is_retransmitted_and_channel_closed() {
    let mut bench = sender(2, &[("response_limit", "2"), ("timeouts", "fixed")]);
    bench.offer("a").unwrap();
    bench.at(1).receive(1, &ack(1, 0));
    bench.datagrams();
    bench.at(60 * MS);
    assert_eq!(sent(&mut bench), ["all: ramp idle next 1", "2: ramp data seq 0 ack len 1"]);
    bench.at(110 * MS);
    assert_eq!(sent(&mut bench), ["2: ramp data seq 0 ack len 1"]);
    bench.events();
    bench.at(200 * MS);
    assert!(bench.events().iter().any(|event| matches!(event, Event::MemberLost { .. })));
    bench.finish();
    assert!(bench.is_finished(), "the sender no longer waits for the closed channel");
    bench.datagrams();
    bench.receive(2, &ack(1, 0));
    assert_eq!(bench.drops(), [DropReason::NotAMember]);
}

/// Johnstone, II.E.4.b: in idle mode no message has the flag, and Idles follow in a fixed interval until the next one.
#[test]
fn idle_mode_sends_idles_until_next_burst() {
    let mut bench = sender(1, &[("mode", "idle")]);
    bench.offer("a").unwrap();
    bench.at(250 * MS);
    let expected = ["all: ramp data seq 0 idle-mode len 1", "all: ramp idle next 1 idle-mode"];
    assert_eq!(sent(&mut bench), [expected[0], expected[1], expected[1], expected[1]]);
}

/// Johnstone, II.E.4.b: the sender closes the channel of a receiver with missing Idles; here after a tolerant
/// count.
#[test]
fn channel_closes_after_missing_receiver_idles() {
    let mut bench = sender(2, &[("mode", "idle"), ("response_limit", "2")]);
    bench.offer("a").unwrap();
    for turn in 1..=6 {
        bench.at(turn * 100 * MS - MS).receive(1, &bytes(Packet::ReceiverIdle(status(1))));
    }
    let lost: Vec<u32> = bench
        .events()
        .iter()
        .filter_map(|event| match event {
            Event::MemberLost { member } => Some(member.0),
            _ => None,
        })
        .collect();
    assert_eq!(lost, [2]);
}

/// Johnstone, II.E.4.b: a receiver that gets nothing sends Respond, and closes the channel without a reaction.
#[test]
fn receiver_responds_to_silence_and_closes() {
    let mut bench = receiver(&[("response_limit", "2")]);
    bench.receive(0, &data(0, IDLE_MODE));
    bench.at(340 * MS);
    let lines = sent(&mut bench);
    let count = |lines: &[String], name: &str| lines.iter().filter(|line| line.contains(name)).count();
    assert_eq!((count(&lines, "receiver_idle"), count(&lines, "respond")), (3, 1), "{lines:?}");
    bench.at(2_000 * MS);
    let lines = sent(&mut bench);
    assert_eq!(count(&lines, "respond"), 1, "{lines:?}");
    assert_eq!(bench.timer(), None, "the channel is closed");
    bench.receive(0, &idle(2, IDLE_MODE));
    assert_eq!(sent(&mut bench), ["0: ramp resend next 1 limit 64 1+1"], "it opens again");
}

/// Johnstone, II.E.4.b: the sender reacts to Respond.
#[test]
fn respond_is_answered_by_idle_to_the_receiver() {
    let mut bench = sender(2, &[("mode", "idle")]);
    bench.receive(2, &bytes(Packet::Respond(status(0))));
    assert_eq!(sent(&mut bench), ["2: ramp idle next 0 idle-mode"]);
}

/// RFC 1458, 4.2.3.1: a receiver requests the span of missing packets at once, and an Idle shows the last loss.
#[test]
fn gap_and_idle_cause_requests_at_once() {
    let mut bench = receiver(&[("timeouts", "fixed")]);
    bench.receive(0, &data(0, ACK));
    assert_eq!(sent(&mut bench), ["0: ramp ack seq 0 next 1 limit 64"]);
    bench.receive(0, &data(4, PLAIN));
    assert_eq!(sent(&mut bench), ["0: ramp resend next 1 limit 64 1+3"]);
    bench.receive(0, &idle(6, PLAIN));
    assert_eq!(sent(&mut bench), ["0: ramp resend next 1 limit 64 5+1"]);
    bench.at(51 * MS);
    assert_eq!(sent(&mut bench), ["0: ramp resend next 1 limit 64 1+3"], "the timer began with this request");
    bench.at(102 * MS);
    assert_eq!(sent(&mut bench), ["0: ramp resend next 1 limit 64 1+3 5+1"]);
}

/// Carillon's: the first value of the timeout is the parameter, and then the measured time decides.
#[test]
fn measured_repairs_decide_when_requests_are_repeated() {
    let mut bench = receiver(&[("timeout_min", "1 ms")]);
    // The first repair comes after 80 ms, and the request was repeated after 50 ms: it gives no sample.
    bench.receive(0, &data(0, PLAIN)).receive(0, &data(2, PLAIN));
    let times = |bench: &mut MachineFixture, range: std::ops::Range<u64>| {
        let asks = |bench: &mut MachineFixture, at| {
            bench.at(at * MS);
            sent(bench).iter().any(|line| line.contains("resend"))
        };
        range.filter(|&at| asks(bench, at)).collect::<Vec<_>>()
    };
    assert_eq!(times(&mut bench, 0..80), [0, 50]);
    bench.receive(0, &data(1, PLAIN));
    // The timeout has doubled. The next repair comes after 80 ms too, and is the first sample: 80 + 4 x 40 ms.
    bench.receive(0, &data(4, PLAIN));
    assert_eq!(times(&mut bench, 80..160), [80]);
    bench.receive(0, &data(3, PLAIN));
    bench.receive(0, &data(6, PLAIN));
    assert_eq!(times(&mut bench, 160..500), [160, 399]);
}

/// Carillon's: the same at the sender, for each receiver by itself.
#[test]
fn measured_answers_decide_when_flagged_data_are_repeated() {
    let mut bench = sender(2, &[("timeout_min", "5 ms"), ("burst_gap", "1 ms"), ("response_limit", "100")]);
    // Receiver 2 answers at once, and receiver 1 after 10 ms.
    for number in 0..20 {
        let start = u64::from(number) * 100;
        bench.at(start * MS).offer("a").unwrap();
        bench.at(start * MS + 1).receive(2, &ack(number + 1, number));
        bench.at((start + 10) * MS).receive(1, &ack(number + 1, number));
    }
    bench.at(2000 * MS).offer("a").unwrap();
    bench.at(2000 * MS + 1).datagrams();
    let repeated = |bench: &mut MachineFixture, at: u64| -> Vec<u32> {
        bench.at(at * MS);
        sent(bench)
            .iter()
            .filter_map(|line| line.split_once(": ramp data seq 20 ack")?.0.parse().ok())
            .collect()
    };
    let none: Vec<u32> = Vec::new();
    assert_eq!([2004, 2006, 2010].map(|at| repeated(&mut bench, at)), [none.clone(), vec![2], none]);
    assert!(repeated(&mut bench, 2030).contains(&1));
}

/// RFC 1458, 4.2.3.1: at the end of the hold timer a message with more requests than the threshold is multicast.
#[test]
fn hold_timer_decides_between_unicast_and_multicast() {
    let mut bench = sender(3, &[("mcast_thresh", "1"), ("hold", "10 ms"), ("timeouts", "fixed")]);
    for message in ["a", "b", "c"] {
        bench.offer(message).unwrap();
    }
    bench.at(1);
    bench.datagrams();
    bench.receive(1, &resend(0, &[(0, 2)])).receive(2, &resend(1, &[(1, 1)]));
    assert_eq!(sent(&mut bench), Vec::<String>::new(), "the timer runs");
    bench.at(10 * MS + 1);
    let repairs: Vec<String> = sent(&mut bench).into_iter().filter(|line| line.contains("data")).collect();
    assert_eq!(repairs, ["1: ramp data seq 0 len 1", "all: ramp data seq 1 len 1"]);
}

/// RFC 1458, 4.2.3.1: the hold timer grows when requests rise, and shrinks when they fall.
#[test]
fn hold_timer_follows_number_of_requests() {
    let mut bench = sender(1, &[("hold", "10 ms"), ("hold_step", "2 ms"), ("response_timeout", "10 s")]);
    for message in ["a", "b", "c"] {
        bench.offer(message).unwrap();
    }
    bench.at(1).datagrams();
    // Requested spans, and the hold time in milliseconds: 10, 12 after a rise, 14 after a rise, 12 after a fall.
    let periods: [(&[(u32, u16)], u64); 4] =
        [(&[(0, 1)], 10), (&[(0, 2)], 12), (&[(0, 1)], 14), (&[(0, 1)], 12)];
    for (turn, (spans, hold)) in (1..).zip(periods) {
        let start = turn * 50 * MS;
        bench.at(start).datagrams();
        bench.receive(1, &resend(0, spans));
        let repairs = |bench: &mut MachineFixture| {
            sent(bench).iter().filter(|line| line.contains("data")).count() as u64
        };
        bench.at(start + hold * MS - 1);
        assert_eq!(repairs(&mut bench), 0, "period {turn}");
        bench.at(start + hold * MS + 1);
        assert_eq!(
            repairs(&mut bench),
            spans.iter().map(|span| u64::from(span.1)).sum::<u64>(),
            "period {turn}"
        );
    }
}

/// RFC 1458, 4.2.3.1: data that are no longer buffered get a NAK, and the receiver does not wait for them.
#[test]
fn request_for_old_message_gets_nak() {
    let settings = [("window", "1"), ("buffer", "2"), ("hold", "0 ms"), ("receiver_reliable", "1")];
    let mut bench = sender(2, &settings);
    for number in 0..4 {
        bench.offer("a").unwrap();
        bench.at(1 + u64::from(number)).receive(1, &ack(number + 1, number));
    }
    bench.datagrams();
    bench.receive(2, &resend(0, &[(0, 1)]));
    assert_eq!(sent(&mut bench), ["2: ramp nak oldest 2"]);

    let mut bench = receiver(&[]);
    bench.receive(0, &data(3, PLAIN)).receive(0, &bytes(Packet::Nak { oldest: 3 }));
    assert_eq!(bench.take().map(|delivery| delivery.message.0), Some(3));
}

/// A receiver-reliable member requests repairs, but the sender neither asks it nor waits for it.
#[test]
fn sender_does_not_wait_for_receiver_reliable_member() {
    let mut bench = sender(2, &[("receiver_reliable", "1"), ("hold", "0 ms")]);
    bench.offer("a").unwrap();
    bench.at(1);
    assert_eq!(bench.awaited([1, 2]), [1]);
    bench.receive(1, &ack(1, 0)).datagrams();
    bench.receive(2, &resend(0, &[(0, 1)]));
    assert_eq!(sent(&mut bench), ["2: ramp data seq 0 len 1"]);
    let mut bench = receiver(&[]);
    bench.receive(0, &bytes(Packet::Connect { next: 0, service: Service::ReceiverReliable, flags: PLAIN }));
    bench.receive(0, &data(0, ACK));
    assert_eq!(sent(&mut bench), ["0: ramp accept next 0 limit 64 receiver-reliable"], "no ACK");
}

/// An unreliable member requests nothing and delivers what arrives.
#[test]
fn unreliable_member_skips_losses() {
    let mut bench = receiver(&[]);
    bench.receive(0, &bytes(Packet::Connect { next: 0, service: Service::Unreliable, flags: PLAIN }));
    bench.receive(0, &data(0, ACK)).receive(0, &data(2, PLAIN)).datagrams();
    assert_eq!(
        [bench.take(), bench.take()].map(|taken| taken.map(|message| message.message.0)),
        [Some(0), Some(2)]
    );
    let found = bench.events().into_iter().filter(|event| matches!(event, Event::LossFound { .. })).count();
    assert_eq!(found, 1, "the skipped gap is reported as a loss");
    bench.at(1_000 * MS);
    assert_eq!(sent(&mut bench), Vec::<String>::new());
}

/// A packet that reports new room may be lost. The sender asks again, although every message is confirmed.
#[test]
fn sender_without_room_asks_until_it_gets_some() {
    let mut bench = sender(1, &[]);
    bench.offer("a").unwrap();
    bench.at(1).datagrams();
    // The fixture's receivers had room for 64 messages: these fill it.
    for number in 1..64 {
        bench.offer(&number.to_string()).unwrap();
    }
    bench.at(2);
    assert_eq!(bench.datagrams().len(), 63);
    let full = |next| bytes(Packet::Ack { status: Status { next, limit: 64 }, sequence: 0 });
    bench.receive(1, &full(64));
    bench.offer("z").unwrap();
    bench.at(60 * MS);
    let lines = sent(&mut bench);
    assert!(lines.contains(&"all: ramp idle next 64 ack".to_owned()), "{lines:?}");
    assert!(!lines.iter().any(|line| line.contains("data")), "{lines:?}");
    bench.receive(1, &ack(64, 0));
    bench.at(120 * MS);
    assert!(sent(&mut bench).iter().any(|line| line.starts_with("all: ramp data seq 64")));
}

/// A skipped receiver cannot report room for later messages. It keeps the room that it had.
#[test]
fn skipped_receiver_keeps_its_room() {
    let mut bench = sender(1, &[("response_limit", "2"), ("past_limit", "skip"), ("window", "2")]);
    for round in 0..3 {
        for message in ["a", "b"] {
            bench.offer(message).unwrap();
        }
        bench.at((1 + round * 1_000) * MS + 1);
        let lines = sent(&mut bench);
        let data = lines.iter().filter(|line| line.starts_with("all: ramp data")).count();
        assert_eq!(data, 2, "round {round}: {lines:?}");
        bench.at((900 + round * 1_000) * MS);
        bench.datagrams();
    }
    bench.finish();
    bench.at(4_000 * MS);
    assert!(bench.is_finished());
}

/// A finished sender asks for confirmation of the last burst, since no later burst does.
#[test]
fn finished_sender_asks_until_all_confirm() {
    let mut bench = sender(1, &[]);
    bench.offer("a").unwrap();
    bench.offer("b").unwrap();
    bench.at(1).receive(1, &ack(1, 0)).datagrams();
    bench.finish();
    bench.at(2);
    assert_eq!(sent(&mut bench), ["all: ramp idle next 2 ack end"]);
    bench.receive(1, &ack(1, 2));
    assert!(!bench.is_finished());
    bench.at(60 * MS);
    assert!(sent(&mut bench).contains(&"all: ramp idle next 2 ack end".to_owned()));
    bench.receive(1, &ack(2, 2));
    assert!(bench.is_finished());
}

/// RFC 1458, 4.2.3.2: the increase is always smaller than the smallest decrease, and more requests decrease more.
#[test]
fn rate_rises_less_than_it_falls() {
    let top = BitRate::mbps(100);
    let bps = |rate: &AdaptiveRate| rate.rate().expect("a rate").bps();
    let mut rate = AdaptiveRate::new(Some(top), Some(BitRate::mbps(1)), 63, 16);
    let mut last = top.bps();
    for requested in [1, 2, 4, 8, 63] {
        let before = bps(&rate);
        assert!(rate.on_requested(requested));
        let decrease = before - bps(&rate);
        assert_eq!(bps(&rate), before * 63 / (63 + requested));
        let changes = (0..16).filter(|_| rate.on_sent()).count();
        let increase = bps(&rate) - before * 63 / (63 + requested);
        assert_eq!(changes, 1);
        assert!(increase > 0 && increase < before / 64, "{increase} of {decrease}");
        assert!(bps(&rate) < last);
        last = bps(&rate);
    }
    for _ in 0..1_000 {
        rate.on_requested(63);
    }
    assert_eq!(bps(&rate), 1_000_000, "it never falls below its minimum");
}
