//! Tests of the rules of the thesis (III.C.5 and V.A.2) and of `docs/protocols/xtp.md`, one each.

use carillon_core::Role;
use carillon_testkit::{ASSOCIATION, MachineFixture};
use carillon_wire::xtp::{
    Body, Common, HEADER_LEN, Handover, Packet, RTN, Spans, Traffic, TrafficForm, key_of, option,
};

use super::ENTRY;

const KEY: u64 = 77;

fn sender(receivers: u32, settings: &[(&str, &str)]) -> MachineFixture {
    MachineFixture::new(&ENTRY, Role::Sender, receivers, settings, HEADER_LEN, 1)
}

/// Takes the packets sent: format, offset, sync number, and SREQ.
fn shown(fixture: &mut MachineFixture) -> Vec<String> {
    let datagrams = fixture.datagrams();
    let line = |bytes: &[u8]| {
        let packet = Packet::parse(bytes).expect("what it sends is right");
        let asks = if packet.has(option::SREQ) { " sreq" } else { "" };
        format!("{} {} sync {}{asks}", packet.name(), packet.seq, packet.sync)
    };
    datagrams.iter().map(|(_, bytes)| line(bytes)).collect()
}

fn status(key: u64, options: u32, body: Body<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    Packet { key, options, sort: 0, sync: 0, seq: 0, body }.emit(&mut bytes);
    bytes
}

fn cntl(rseq: u64, echo: u32) -> Vec<u8> {
    let common = Common { rseq, alloc: 1 << 20, echo };
    status(key_of(ASSOCIATION) | RTN, 0, Body::Cntl(common))
}

fn nak(rseq: u64, echo: u32) -> Vec<u8> {
    let common = Common { rseq, alloc: 1 << 20, echo };
    status(key_of(ASSOCIATION) | RTN, option::FASTNAK, Body::Cntl(common))
}

fn tcntl(xkey: u64) -> Vec<u8> {
    let common = Common { rseq: 0, alloc: 1 << 20, echo: 1 };
    let traffic = Traffic { service: 6, form: TrafficForm::Null([0; 4]) };
    status(key_of(ASSOCIATION) | RTN, 0, Body::Tcntl(Handover { common, xkey }, traffic))
}

/// Sender that its receivers have opened, with these messages offered.
fn opened(receivers: u32, settings: &[(&str, &str)], messages: &[&str]) -> MachineFixture {
    let all: Vec<(&str, &str)> = [("calls", "100"), ("segmentation", "messages")]
        .into_iter()
        .chain(settings.iter().copied())
        .collect();
    let mut fixture = sender(receivers, &all);
    for &message in messages {
        fixture.offer(message).expect("there is room");
    }
    assert_eq!(shown(&mut fixture), ["first 0 sync 1 sreq"]);
    for receiver in 1..=receivers {
        assert_eq!(shown(&mut fixture), Vec::<String>::new(), "not all have answered");
        fixture.receive(receiver, &tcntl(KEY));
    }
    fixture
}

#[test]
fn data_wait_until_all_have_answered_first() {
    let mut fixture = opened(3, &[], &["abc", "de"]);
    assert_eq!(shown(&mut fixture), ["data 0 sync 1", "data 3 sync 2 sreq"]);
    assert_eq!(fixture.awaited([1, 2, 3]), [1, 2, 3]);
    fixture.receive(1, &cntl(5, 2)).receive(2, &cntl(5, 2)).receive(3, &cntl(3, 1));
    assert_eq!(fixture.awaited([1, 2, 3]), [3]);
}

#[test]
fn packets_with_unknown_or_changed_key_are_dropped() {
    let mut fixture = opened(1, &[], &["abc"]);
    shown(&mut fixture);
    let common = Common { rseq: 3, alloc: 9, echo: 2 };
    for key in [key_of(ASSOCIATION), (key_of(ASSOCIATION) ^ 1) | RTN, RTN | 12_345_678, 0] {
        fixture.receive(1, &status(key, 0, Body::Cntl(common)));
    }
    fixture.receive(1, &tcntl(KEY + 1));
    assert_eq!(fixture.awaited([1]), [1]);
    assert_eq!(fixture.drops().len(), 5);
}

#[test]
fn go_back_n_sends_the_packet_in_error_and_all_later_ones() {
    let mut fixture = opened(2, &[], &["aa", "bb", "cc", "dd"]);
    assert_eq!(shown(&mut fixture).len(), 4);
    // The second packet is lost at one receiver, which the third reveals; the other has all.
    fixture.receive(2, &cntl(8, 2)).receive(1, &nak(2, 1));
    assert_eq!(shown(&mut fixture), ["data 2 sync 3", "data 4 sync 3", "data 6 sync 4 sreq"]);
    // A status about nothing newer causes no further retransmission.
    fixture.receive(1, &nak(2, 2));
    assert_eq!(shown(&mut fixture), Vec::<String>::new());
    fixture.receive(1, &cntl(4, 4));
    assert_eq!(shown(&mut fixture), ["data 4 sync 5", "data 6 sync 6 sreq"]);
}

/// Takes the data packets sent: offset, tag and bytes.
fn data_sent(fixture: &mut MachineFixture) -> Vec<(u64, Option<[u8; 8]>, Vec<u8>)> {
    let datagrams = fixture.datagrams();
    let all = datagrams.iter().filter_map(|(_, bytes)| {
        let packet = Packet::parse(bytes).expect("what it sends is right");
        let Body::Data(data) = packet.body else { return None };
        Some((packet.seq, data.tag, data.bytes.to_vec()))
    });
    all.collect()
}

/// "The retransmitted data may be piggy-backed onto previously scheduled packets (filling in the available space in
/// each packet)" (IV.E.1.a).
#[test]
fn retransmissions_fill_packets_with_the_data_behind_them() {
    let settings = [("segmentation", "repairs")];
    let mut fixture = opened(1, &settings, &["aa", "bb", "cc", "dd"]);
    assert_eq!(data_sent(&mut fixture).len(), 4, "what was not sent before has packets of its own");
    fixture.receive(1, &nak(2, 1));
    let tag = [b'e', b'n', 0, 2, 0, 2, 0, 2];
    assert_eq!(data_sent(&mut fixture), [(2, Some(tag), b"bbccdd".to_vec())]);
}

#[test]
fn stream_fills_packets_up_to_maxdata() {
    let settings = [("segmentation", "stream"), ("maxdata", "20 byte")];
    let mut fixture = opened(1, &settings, &["aaa", "bbbbb", "c", "ddddd"]);
    // Eight bytes of the packet are for the tag, which can list two ends of any distance.
    let tag = |first, spacing, count| Some([b'e', b'n', 0, first, 0, spacing, 0, count]);
    let sent = [(0, tag(3, 5, 2), b"aaabbbbbc".to_vec()), (9, None, b"ddddd".to_vec())];
    assert_eq!(data_sent(&mut fixture), sent);
}

#[test]
fn sreq_is_set_before_the_window_closes() {
    let mut fixture = sender(1, &[("sreq", "window"), ("calls", "100")]);
    fixture.offer("aa").expect("there is room");
    // Room for two packets: behind a message of one packet and a byte, less than a packet is left.
    let handover = Handover { common: Common { rseq: 0, alloc: 2 + 2896, echo: 1 }, xkey: KEY };
    let traffic = Traffic { service: 6, form: TrafficForm::Null([0; 4]) };
    fixture.receive(1, &status(key_of(ASSOCIATION) | RTN, 0, Body::Tcntl(handover, traffic)));
    assert_eq!(
        shown(&mut fixture),
        ["first 0 sync 1 sreq", "data 0 sync 1"],
        "there is room for more like it"
    );
    fixture.offer(&"a".repeat(1449)).expect("there is room");
    assert_eq!(shown(&mut fixture), ["data 2 sync 1", "data 1450 sync 2 sreq"]);
}

#[test]
fn selective_retransmission_sends_missing_data_only() {
    let mut fixture = opened(1, &[("error_control", "selective")], &["aa", "bb", "cc", "dd"]);
    assert_eq!(shown(&mut fixture).len(), 4);
    let mut room = Vec::new();
    let common = Common { rseq: 0, alloc: 1 << 20, echo: 2 };
    let spans = Spans::of([(2, 4), (6, 8)], &mut room);
    fixture.receive(1, &status(key_of(ASSOCIATION) | RTN, 0, Body::Ecntl(common, spans)));
    assert_eq!(shown(&mut fixture), ["data 0 sync 3", "data 4 sync 4 sreq"]);
}

#[test]
fn synchronizing_handshake_blocks_data_and_backs_off() {
    let mut fixture =
        opened(1, &[("handshake", "thesis"), ("wtimer", "100 ms"), ("ctimeout", "1 s")], &["aa"]);
    shown(&mut fixture);
    // FIRST was answered at once; a bit time is 100 ns, and WTIMER is at least 10 ms.
    fixture.at(100_000);
    assert_eq!(shown(&mut fixture), ["cntl 2 sync 3 sreq"]);
    fixture.offer("bb").expect("there is room");
    assert_eq!(shown(&mut fixture), Vec::<String>::new());
    fixture.at(299_000);
    assert_eq!(shown(&mut fixture), Vec::<String>::new());
    fixture.at(300_000);
    assert_eq!(shown(&mut fixture), ["cntl 2 sync 4 sreq"]);
    fixture.receive(1, &cntl(0, 4));
    assert_eq!(shown(&mut fixture), ["data 0 sync 5", "data 2 sync 6 sreq"]);
}

#[test]
fn wtimer_restarts_with_every_request() {
    for handshake in ["repaired", "thesis"] {
        let settings = [("handshake", handshake), ("wtimer", "100 ms"), ("wtimer_min", "100 ms")];
        let mut fixture = opened(1, &settings, &["aa"]);
        assert_eq!(shown(&mut fixture), ["data 0 sync 2 sreq"]);
        fixture.at(600_000).offer("bb").expect("there is room");
        assert_eq!(shown(&mut fixture), ["data 2 sync 3 sreq"]);
        // The answer to the second request is in time and covers the first.
        fixture.at(1_100_000);
        assert_eq!(shown(&mut fixture), Vec::<String>::new(), "{handshake}");
        fixture.at(1_600_000);
        assert_eq!(shown(&mut fixture), ["cntl 4 sync 4 sreq"], "{handshake}");
    }
}

/// The packet that was to carry SREQ is no longer needed, and the sender is blocked: the pause timer requests status.
#[test]
fn blocked_sender_without_request_asks_after_wtimer() {
    let settings =
        [("error_control", "selective"), ("window", "1"), ("rate", "1 Mbit/s"), ("burst", "1 byte")];
    let mut fixture = sender(1, &[&settings[..], &[("calls", "9")]].concat());
    let message = "a".repeat(1448);
    (0..3).for_each(|_| _ = fixture.offer(&message).expect("there is room"));
    let (key, mut room) = (key_of(ASSOCIATION) | RTN, Vec::new());
    let common = |echo| Common { rseq: 0, alloc: 1 << 20, echo };
    let handover = Handover { common: common(1), xkey: KEY };
    fixture.receive(
        1,
        &status(key, 0, Body::Tcntl(handover, Traffic { service: 6, form: TrafficForm::Null([0; 4]) })),
    );
    fixture.at(200_000);
    assert_eq!(shown(&mut fixture), ["first 0 sync 1 sreq", "data 0 sync 1", "data 1448 sync 2 sreq"]);
    // Both are lost and the first is resent; a status of the second arrives before its retransmission.
    fixture.receive(1, &status(key, 0, Body::Cntl(common(2))));
    assert_eq!(shown(&mut fixture), Vec::<String>::new(), "the rate");
    fixture.at(250_000);
    assert_eq!(shown(&mut fixture), ["data 0 sync 3"]);
    fixture.receive(1, &status(key, 0, Body::Ecntl(common(2), Spans::of([(1448, 2896)], &mut room))));
    let asked = fixture.timer().expect("it is asked, or CTIMER runs out");
    fixture.at(asked + 1);
    assert_eq!(shown(&mut fixture), ["cntl 2896 sync 4 sreq"]);
    assert!(asked < 1_250_000, "WTIMER after it went out, and not CTIMER: {asked}");
    fixture.receive(1, &cntl(2896, 4)).at(asked + 20_000);
    assert_eq!(shown(&mut fixture), ["data 2896 sync 5 sreq"]);
}

#[test]
fn polls_of_full_receiver_back_off() {
    let mut fixture = sender(1, &[("calls", "9"), ("wtimer_max", "1 s")]);
    for message in ["aa", "bb"] {
        fixture.offer(message).expect("there is room");
    }
    let common = |rseq, echo| Common { rseq, alloc: 2, echo };
    let (key, traffic) = (key_of(ASSOCIATION) | RTN, Traffic { service: 6, form: TrafficForm::Null([0; 4]) });
    fixture.receive(1, &status(key, 0, Body::Tcntl(Handover { common: common(0, 1), xkey: KEY }, traffic)));
    assert_eq!(shown(&mut fixture), ["first 0 sync 1 sreq", "data 0 sync 2 sreq"]);
    fixture.receive(1, &status(key, 0, Body::Cntl(common(2, 2))));
    let mut asked = Vec::new();
    for tenth in 1..=100 {
        fixture.at(tenth * 1_000_000);
        for line in shown(&mut fixture) {
            asked.push(tenth);
            let sync = line.split(' ').nth(3).and_then(|sync| sync.parse().ok()).expect("a number");
            fixture.receive(1, &status(key, 0, Body::Cntl(common(2, sync))));
        }
    }
    assert!((5..=150).contains(&asked.len()), "in ten seconds {asked:?}");
    fixture.receive(1, &cntl(2, 2));
    assert_eq!(shown(&mut fixture).first().map(|line| line.starts_with("data 2 ")), Some(true));
}

#[test]
fn ctimeout_abandons_silent_receivers() {
    for (handshake, loses) in [("thesis", true), ("repaired", true)] {
        let settings = [("handshake", handshake), ("ctimeout", "200 ms")];
        let mut fixture = opened(2, &settings, &["aa"]);
        shown(&mut fixture);
        fixture.receive(1, &cntl(2, 2));
        for at in 1..60 {
            fixture.at(at * 100_000);
            shown(&mut fixture);
            if fixture.awaited([1, 2]).is_empty() {
                break;
            }
            // The first receiver answers every request.
            fixture.receive(1, &cntl(2, 2));
        }
        assert_eq!(fixture.awaited([1, 2]).is_empty(), loses);
        fixture.finish();
        assert!(fixture.is_finished(), "{handshake}");
    }
}

/// The only packet sent, parsed.
fn first_of(datagrams: &[(carillon_core::Transmit, Vec<u8>)]) -> Packet<'_> {
    let [(_, bytes)] = datagrams else { panic!("one packet, not {}", datagrams.len()) };
    Packet::parse(bytes).expect("what it sends is right")
}

const CLOSING_BITS: u32 = option::RCLOSE | option::WCLOSE | option::END;

#[test]
fn datagram_goes_in_first_without_answer() {
    let mut fixture = sender(2, &[("maxdata", "1468"), ("paradigm", "datagram"), ("calls", "9")]);
    fixture.offer("abc").expect("there is room");
    let sent = fixture.datagrams();
    let packet = first_of(&sent);
    assert_eq!(
        (packet.name(), packet.options & CLOSING_BITS, packet.has(option::SREQ)),
        ("first", CLOSING_BITS, false)
    );
    assert_eq!(packet.data().expect("it carries data").bytes, b"abc");
    assert_eq!((fixture.timer(), fixture.awaited([1, 2])), (None, vec![]));
    // Answers are ignored, and the next message leaves at once.
    fixture.offer("").expect("there is room");
    assert_eq!(shown(&mut fixture), ["first 3 sync 0"]);
    fixture.finish();
    assert!(fixture.is_finished() && fixture.datagrams().is_empty());
}

#[test]
fn message_longer_than_first_is_refused() {
    for paradigm in ["datagram", "acknowledged-datagram", "transaction"] {
        let mut fixture = sender(1, &[("paradigm", paradigm), ("maxdata", "1468")]);
        let error = fixture.offer(&"a".repeat(1469)).unwrap_err();
        assert_eq!(error, carillon_core::OfferError::TooLarge { len: 1469, max: 1468 });
    }
}

#[test]
fn acknowledged_datagram_repeats_until_all_answer() {
    let mut fixture = sender(
        2,
        &[("maxdata", "1468"), ("paradigm", "acknowledged-datagram"), ("calls", "9"), ("wtimer", "100 ms")],
    );
    fixture.offer("abc").expect("there is room");
    fixture.offer("de").expect("there is room");
    assert_eq!(shown(&mut fixture), ["first 0 sync 1 sreq"]);
    let answer = |rseq, echo| {
        let common = Common { rseq, alloc: 1 << 20, echo };
        status(key_of(ASSOCIATION) | RTN, CLOSING_BITS, Body::Cntl(common))
    };
    fixture.receive(1, &answer(3, 1));
    assert_eq!((shown(&mut fixture), fixture.awaited([1, 2])), (vec![], vec![2]));
    fixture.at(1_000_000);
    assert_eq!(shown(&mut fixture), ["first 0 sync 2 sreq"]);
    fixture.receive(2, &answer(3, 2));
    assert_eq!(shown(&mut fixture), ["first 3 sync 3 sreq"]);
    fixture.receive(1, &answer(5, 3)).receive(2, &answer(5, 3));
    fixture.finish();
    // No association is left to close.
    assert!(fixture.is_finished() && fixture.datagrams().is_empty() && fixture.timer().is_none());
}

#[test]
fn transaction_awaits_responses_and_closes() {
    let mut fixture = sender(2, &[("maxdata", "1468"), ("paradigm", "transaction"), ("calls", "9")]);
    fixture.offer("abc").expect("there is room");
    fixture.offer("de").expect("there is room");
    let sent = fixture.datagrams();
    assert!(first_of(&sent).has(option::DREQ | option::WCLOSE));
    let response = |seq, echo| {
        let data = carillon_wire::xtp::Data { tag: Some(*b"no bytes"), bytes: &[0] };
        let (key, options) = (key_of(ASSOCIATION) | RTN, option::RCLOSE | option::WCLOSE | option::EOM);
        let mut bytes = Vec::new();
        Packet { key, options, sort: 0, sync: echo, seq, body: Body::Data(data) }.emit(&mut bytes);
        bytes
    };
    // An acknowledgment is no response.
    fixture.receive(1, &response(0, 1)).receive(2, &cntl(0, 1));
    assert_eq!(fixture.awaited([1, 2]), [2]);
    assert_eq!(shown(&mut fixture), Vec::<String>::new());
    fixture.receive(2, &response(0, 1));
    assert_eq!(shown(&mut fixture), ["cntl 3 sync 1", "first 3 sync 2"], "END, and the next request");
    // A response to the first request does not answer the second.
    fixture.receive(1, &response(0, 2)).receive(2, &response(0, 2));
    assert_eq!(fixture.awaited([1, 2]), [1, 2]);
}

#[test]
fn repeated_datagram_is_answered_and_delivered_once() {
    let mut fixture = MachineFixture::new(
        &ENTRY,
        Role::Receiver,
        1,
        &[("maxdata", "1468"), ("paradigm", "acknowledged-datagram")],
        HEADER_LEN,
        1,
    );
    let first = |seq, sync, text: &'static str, service| {
        let data = carillon_wire::xtp::Data::plain(text.as_bytes());
        let traffic = Traffic { service, form: TrafficForm::Null([0; 4]) };
        let body = Body::First(carillon_wire::xtp::Address::NULL, traffic, data);
        let mut bytes = Vec::new();
        let options = option::SREQ | option::WCLOSE | option::EOM;
        Packet { key: key_of(ASSOCIATION), options, sort: 0, sync, seq, body }.emit(&mut bytes);
        bytes
    };
    // Packet received; rseq, echo and END of the answer; and the message delivered.
    let rules = [
        (first(0, 1, "abc", 2), Some((3, 1, true)), Some("abc")),
        (first(0, 2, "abc", 2), Some((3, 2, true)), None),
        (first(0, 3, "abc", 6), None, None),
        (first(9, 3, "late", 2), Some((3, 3, false)), None),
        (first(3, 4, "de", 2), Some((5, 4, true)), Some("de")),
        (first(1, 5, "bcde", 2), Some((5, 5, true)), None),
        (first(2, 6, "cdefg", 2), Some((5, 6, false)), None),
    ];
    for (bytes, answer, delivered) in rules {
        fixture.receive(0, &bytes);
        let sent = fixture.datagrams();
        let said = sent.first().map(|(_, bytes)| {
            let packet = Packet::parse(bytes).expect("what it sends is right");
            let status = packet.status().expect("it says what it has");
            (status.rseq, status.echo, packet.options & CLOSING_BITS == CLOSING_BITS)
        });
        assert_eq!((said, sent.len()), (answer, usize::from(answer.is_some())), "{bytes:?}");
        let taken =
            fixture.take().map(|delivery| String::from_utf8(delivery.payload.to_vec()).expect("text"));
        assert_eq!(taken.as_deref(), delivered);
    }
}

#[test]
fn transaction_response_waits_for_the_user() {
    let mut fixture = MachineFixture::new(
        &ENTRY,
        Role::Receiver,
        1,
        &[("maxdata", "1468"), ("paradigm", "transaction")],
        HEADER_LEN,
        1,
    );
    let mut request = Vec::new();
    let traffic = Traffic { service: 3, form: TrafficForm::Null([0; 4]) };
    let data = carillon_wire::xtp::Data::plain(b"abc");
    let body = Body::First(carillon_wire::xtp::Address::NULL, traffic, data);
    let options = option::DREQ | option::WCLOSE | option::EOM;
    Packet { key: key_of(ASSOCIATION), options, sort: 0, sync: 4, seq: 0, body }.emit(&mut request);
    fixture.receive(0, &request);
    assert_eq!(shown(&mut fixture), Vec::<String>::new());
    // Asked again, it answers that its user has not read the request.
    fixture.receive(0, &request);
    let sent = fixture.datagrams();
    let status = first_of(&sent).status().expect("it says what it has");
    assert_eq!((status.rseq, status.echo, first_of(&sent).options & CLOSING_BITS), (0, 4, 0));
    fixture.take().expect("it has come");
    for _ in 0..2 {
        let sent = fixture.datagrams();
        let packet = first_of(&sent);
        assert_eq!((packet.name(), packet.seq, packet.sync), ("data", 0, 4));
        assert!(packet.has(option::RCLOSE) && packet.has(option::WCLOSE));
        fixture.receive(0, &request);
    }
}

#[test]
fn first_carries_data_with_data_in_first() {
    let mut fixture = sender(1, &[("data_in_first", "true"), ("calls", "9")]);
    fixture.offer("abc").expect("there is room");
    fixture.offer("de").expect("there is room");
    let sent = fixture.datagrams();
    assert_eq!(first_of(&sent).data().expect("it carries data").bytes, b"abc");
    // The data is lost with FIRST, which is repeated without an answer.
    fixture.at(6_000_000);
    assert_eq!(shown(&mut fixture), ["first 0 sync 2 sreq"]);
    let common = Common { rseq: 3, alloc: 1 << 20, echo: 2 };
    let traffic = Traffic { service: 6, form: TrafficForm::Null([0; 4]) };
    let handover = Handover { common, xkey: KEY };
    fixture.receive(1, &status(key_of(ASSOCIATION) | RTN, 0, Body::Tcntl(handover, traffic)));
    assert_eq!(shown(&mut fixture), ["data 3 sync 3 sreq"]);
}

/// The sender of a multicast does not know how many will answer FIRST.
#[test]
fn multicast_collects_answers_to_first_before_it_sends_data() {
    let settings = |service| [("group_wait", "250 ms"), ("service", service)];
    let mut fixture = opened(1, &settings("6"), &["aa"]);
    assert_eq!(shown(&mut fixture), Vec::<String>::new());
    fixture.at(2_499_999);
    assert_eq!(shown(&mut fixture), Vec::<String>::new());
    fixture.at(2_500_000);
    assert_eq!(shown(&mut fixture), ["data 0 sync 2 sreq"]);
    let mut unicast = opened(1, &settings("4"), &["aa"]);
    assert_eq!(shown(&mut unicast), ["data 0 sync 2 sreq"], "it knows its receiver");
}

#[test]
fn calls_wait_for_room_in_the_send_buffer() {
    let mut fixture = opened(1, &[("buffer", "6000 byte")], &["a"]);
    let message = "b".repeat(1000);
    let offered = (0..1000).take_while(|_| fixture.offer(&message).is_ok()).count();
    assert!((5..1000).contains(&offered));
    shown(&mut fixture);
    fixture.receive(1, &cntl(1001, 2));
    fixture.offer(&message).expect("a thousand bytes were acknowledged");
}

#[test]
fn receiver_divides_a_packet_at_the_ends_in_its_tag() {
    let mut fixture = MachineFixture::new(&ENTRY, Role::Receiver, 1, &[], HEADER_LEN, 1);
    let traffic = Traffic { service: 6, form: TrafficForm::Null([0; 4]) };
    let first = Body::First(carillon_wire::xtp::Address::NULL, traffic, carillon_wire::xtp::Data::default());
    let packet = |options, seq, body| {
        let mut bytes = Vec::new();
        Packet { key: key_of(ASSOCIATION), options, sort: 0, sync: 1, seq, body }.emit(&mut bytes);
        bytes
    };
    fixture.receive(0, &packet(option::SREQ, 0, first));
    let data = |tag, bytes| Body::Data(carillon_wire::xtp::Data { tag, bytes });
    let ends = |first, spacing, count| Some([b'e', b'n', 0, first, 0, spacing, 0, count]);
    // A forged tag with an end beyond the packet.
    fixture.receive(0, &packet(option::EOM, 0, data(ends(2, 9, 2), b"aabbbc")));
    assert_eq!(fixture.drops().len(), 1);
    fixture.receive(0, &packet(0, 0, data(None, b"a")));
    fixture.receive(0, &packet(option::EOM, 0, data(ends(2, 3, 2), b"aabbbc")));
    let taken = std::iter::from_fn(|| fixture.take().map(|delivery| delivery.payload.to_vec()));
    assert_eq!(taken.collect::<Vec<_>>(), [b"aa".to_vec(), b"bbb".to_vec(), b"c".to_vec()]);
}
