//! The rules of the thesis (III.C.5 and V.A.2) and of `docs/protocols/xtp.md`, one at a time.

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

/// What went out: its format, its first byte, its number, and whether it asks.
fn shown(bench: &mut MachineFixture) -> Vec<String> {
    let datagrams = bench.datagrams();
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

/// One that has been opened by its receivers and has sent these.
fn opened(receivers: u32, settings: &[(&str, &str)], messages: &[&str]) -> MachineFixture {
    let all: Vec<(&str, &str)> = [("calls", "100")].into_iter().chain(settings.iter().copied()).collect();
    let mut bench = sender(receivers, &all);
    for &message in messages {
        bench.offer(message).expect("there is room");
    }
    assert_eq!(shown(&mut bench), ["first 0 sync 1 sreq"]);
    for receiver in 1..=receivers {
        assert_eq!(shown(&mut bench), Vec::<String>::new(), "not all have answered");
        bench.receive(receiver, &tcntl(KEY));
    }
    bench
}

#[test]
fn sreq_in_first_gathers_the_group_and_data_wait_for_all() {
    let mut bench = opened(3, &[], &["abc", "de"]);
    assert_eq!(shown(&mut bench), ["data 0 sync 1", "data 3 sync 2 sreq"]);
    assert_eq!(bench.awaited([1, 2, 3]), [1, 2, 3]);
    bench.receive(1, &cntl(5, 2)).receive(2, &cntl(5, 2)).receive(3, &cntl(3, 1));
    assert_eq!(bench.awaited([1, 2, 3]), [3]);
}

#[test]
fn a_key_that_was_not_given_and_one_that_changes_say_nothing() {
    let mut bench = opened(1, &[], &["abc"]);
    shown(&mut bench);
    let common = Common { rseq: 3, alloc: 9, echo: 2 };
    for key in [key_of(ASSOCIATION), (key_of(ASSOCIATION) ^ 1) | RTN, RTN | 12_345_678, 0] {
        bench.receive(1, &status(key, 0, Body::Cntl(common)));
    }
    bench.receive(1, &tcntl(KEY + 1));
    assert_eq!(bench.awaited([1]), [1]);
    assert_eq!(bench.drops().len(), 5);
}

#[test]
fn go_back_n_sends_the_packet_in_error_and_all_later_ones() {
    let mut bench = opened(2, &[], &["aa", "bb", "cc", "dd"]);
    assert_eq!(shown(&mut bench).len(), 4);
    // The second is lost at one receiver, which the third tells; the other has all.
    bench.receive(2, &cntl(8, 2)).receive(1, &nak(2, 1));
    assert_eq!(shown(&mut bench), ["data 2 sync 3", "data 4 sync 3", "data 6 sync 4 sreq"]);
    // What tells of nothing newer does not have it sent once more.
    bench.receive(1, &nak(2, 2));
    assert_eq!(shown(&mut bench), Vec::<String>::new());
    bench.receive(1, &cntl(4, 4));
    assert_eq!(shown(&mut bench), ["data 4 sync 5", "data 6 sync 6 sreq"]);
}

#[test]
fn the_last_packet_asks_before_the_next_message_has_no_room_however_short_it_is() {
    let mut bench = sender(1, &[("sreq", "window"), ("calls", "100")]);
    bench.offer("aa").expect("there is room");
    // Room for two packets: behind a message of a packet and a byte, less than a packet is left.
    let handover = Handover { common: Common { rseq: 0, alloc: 2 + 2896, echo: 1 }, xkey: KEY };
    let traffic = Traffic { service: 6, form: TrafficForm::Null([0; 4]) };
    bench.receive(1, &status(key_of(ASSOCIATION) | RTN, 0, Body::Tcntl(handover, traffic)));
    assert_eq!(shown(&mut bench), ["first 0 sync 1 sreq", "data 0 sync 1"], "there is room for more like it");
    bench.offer(&"a".repeat(1449)).expect("there is room");
    assert_eq!(shown(&mut bench), ["data 2 sync 1", "data 1450 sync 2 sreq"]);
}

#[test]
fn selective_retransmission_sends_what_is_missing_alone() {
    let mut bench = opened(1, &[("error_control", "selective")], &["aa", "bb", "cc", "dd"]);
    assert_eq!(shown(&mut bench).len(), 4);
    let mut room = Vec::new();
    let common = Common { rseq: 0, alloc: 1 << 20, echo: 2 };
    let spans = Spans::of([(2, 4), (6, 8)], &mut room);
    bench.receive(1, &status(key_of(ASSOCIATION) | RTN, 0, Body::Ecntl(common, spans)));
    assert_eq!(shown(&mut bench), ["data 0 sync 3", "data 4 sync 4 sreq"]);
}

#[test]
fn no_data_go_out_during_the_synchronizing_handshake_and_its_timer_backs_off() {
    let mut bench = opened(1, &[("handshake", "thesis"), ("wtimer", "100 ms"), ("ctimeout", "1 s")], &["aa"]);
    shown(&mut bench);
    // FIRST was answered at once; a bit time is 100 ns, and WTIMER 10 ms at least.
    bench.at(100_000);
    assert_eq!(shown(&mut bench), ["cntl 2 sync 3 sreq"]);
    bench.offer("bb").expect("there is room");
    assert_eq!(shown(&mut bench), Vec::<String>::new());
    bench.at(299_000);
    assert_eq!(shown(&mut bench), Vec::<String>::new());
    bench.at(300_000);
    assert_eq!(shown(&mut bench), ["cntl 2 sync 4 sreq"]);
    bench.receive(1, &cntl(0, 4));
    assert_eq!(shown(&mut bench), ["data 0 sync 5", "data 2 sync 6 sreq"]);
}

#[test]
fn wtimer_is_started_with_every_request() {
    for handshake in ["repaired", "thesis"] {
        let settings = [("handshake", handshake), ("wtimer", "100 ms"), ("wtimer_min", "100 ms")];
        let mut bench = opened(1, &settings, &["aa"]);
        assert_eq!(shown(&mut bench), ["data 0 sync 2 sreq"]);
        bench.at(600_000).offer("bb").expect("there is room");
        assert_eq!(shown(&mut bench), ["data 2 sync 3 sreq"]);
        // The answer to the second is not late, and tells of the first too.
        bench.at(1_100_000);
        assert_eq!(shown(&mut bench), Vec::<String>::new(), "{handshake}");
        bench.at(1_600_000);
        assert_eq!(shown(&mut bench), ["cntl 4 sync 4 sreq"], "{handshake}");
    }
}

#[test]
fn when_what_was_to_ask_need_not_go_and_nothing_else_may_it_is_asked_after_a_while() {
    let settings =
        [("error_control", "selective"), ("window", "1"), ("rate", "1 Mbit/s"), ("burst", "1 byte")];
    let mut bench = sender(1, &[&settings[..], &[("calls", "9")]].concat());
    let message = "a".repeat(1448);
    (0..3).for_each(|_| _ = bench.offer(&message).expect("there is room"));
    let (key, mut room) = (key_of(ASSOCIATION) | RTN, Vec::new());
    let common = |echo| Common { rseq: 0, alloc: 1 << 20, echo };
    let handover = Handover { common: common(1), xkey: KEY };
    bench.receive(
        1,
        &status(key, 0, Body::Tcntl(handover, Traffic { service: 6, form: TrafficForm::Null([0; 4]) })),
    );
    bench.at(200_000);
    assert_eq!(shown(&mut bench), ["first 0 sync 1 sreq", "data 0 sync 1", "data 1448 sync 2 sreq"]);
    // Both are lost, and the first goes again; that the second has come after all is told before it can.
    bench.receive(1, &status(key, 0, Body::Cntl(common(2))));
    assert_eq!(shown(&mut bench), Vec::<String>::new(), "the rate");
    bench.at(250_000);
    assert_eq!(shown(&mut bench), ["data 0 sync 3"]);
    bench.receive(1, &status(key, 0, Body::Ecntl(common(2), Spans::of([(1448, 2896)], &mut room))));
    let asked = bench.timer().expect("it is asked, or CTIMER runs out");
    bench.at(asked + 1);
    assert_eq!(shown(&mut bench), ["cntl 2896 sync 4 sreq"]);
    assert!(asked < 1_250_000, "WTIMER after it went out, and not CTIMER: {asked}");
    bench.receive(1, &cntl(2896, 4)).at(asked + 20_000);
    assert_eq!(shown(&mut bench), ["data 2896 sync 5 sreq"]);
}

#[test]
fn who_has_no_room_is_asked_again_ever_more_rarely_as_what_it_says_may_be_lost() {
    let mut bench = sender(1, &[("calls", "9"), ("wtimer_max", "1 s")]);
    for message in ["aa", "bb"] {
        bench.offer(message).expect("there is room");
    }
    let common = |rseq, echo| Common { rseq, alloc: 2, echo };
    let (key, traffic) = (key_of(ASSOCIATION) | RTN, Traffic { service: 6, form: TrafficForm::Null([0; 4]) });
    bench.receive(1, &status(key, 0, Body::Tcntl(Handover { common: common(0, 1), xkey: KEY }, traffic)));
    assert_eq!(shown(&mut bench), ["first 0 sync 1 sreq", "data 0 sync 2 sreq"]);
    bench.receive(1, &status(key, 0, Body::Cntl(common(2, 2))));
    let mut asked = Vec::new();
    for tenth in 1..=100 {
        bench.at(tenth * 1_000_000);
        for line in shown(&mut bench) {
            asked.push(tenth);
            let sync = line.split(' ').nth(3).and_then(|sync| sync.parse().ok()).expect("a number");
            bench.receive(1, &status(key, 0, Body::Cntl(common(2, sync))));
        }
    }
    assert!((5..=150).contains(&asked.len()), "in ten seconds {asked:?}");
    bench.receive(1, &cntl(2, 2));
    assert_eq!(shown(&mut bench).first().map(|line| line.starts_with("data 2 ")), Some(true));
}

#[test]
fn ctimeout_ends_it_for_those_that_have_not_answered_and_names_them() {
    for (handshake, loses) in [("thesis", true), ("repaired", true)] {
        let settings = [("handshake", handshake), ("ctimeout", "200 ms")];
        let mut bench = opened(2, &settings, &["aa"]);
        shown(&mut bench);
        bench.receive(1, &cntl(2, 2));
        for at in 1..60 {
            bench.at(at * 100_000);
            shown(&mut bench);
            if bench.awaited([1, 2]).is_empty() {
                break;
            }
            // The first answers whatever it is asked.
            bench.receive(1, &cntl(2, 2));
        }
        assert_eq!(bench.awaited([1, 2]).is_empty(), loses);
        bench.finish();
        assert!(bench.is_finished(), "{handshake}");
    }
}

/// A FIRST of this machine.
fn first_of(datagrams: &[(carillon_core::Transmit, Vec<u8>)]) -> Packet<'_> {
    let [(_, bytes)] = datagrams else { panic!("one packet, not {}", datagrams.len()) };
    Packet::parse(bytes).expect("what it sends is right")
}

const OVER: u32 = option::RCLOSE | option::WCLOSE | option::END;

#[test]
fn a_datagram_goes_in_first_and_nobody_is_waited_for() {
    let mut bench = sender(2, &[("maxdata", "1468"), ("paradigm", "datagram"), ("calls", "9")]);
    bench.offer("abc").expect("there is room");
    let sent = bench.datagrams();
    let packet = first_of(&sent);
    assert_eq!((packet.name(), packet.options & OVER, packet.has(option::SREQ)), ("first", OVER, false));
    assert_eq!(packet.data().expect("it carries data").bytes, b"abc");
    assert_eq!((bench.timer(), bench.awaited([1, 2])), (None, vec![]));
    // What somebody says all the same is not looked at, and what comes next goes at once.
    bench.offer("").expect("there is room");
    assert_eq!(shown(&mut bench), ["first 3 sync 0"]);
    bench.finish();
    assert!(bench.is_finished() && bench.datagrams().is_empty());
}

#[test]
fn a_message_that_does_not_fit_first_is_refused() {
    for paradigm in ["datagram", "acknowledged-datagram", "transaction"] {
        let mut bench = sender(1, &[("paradigm", paradigm), ("maxdata", "1468")]);
        let error = bench.offer(&"a".repeat(1469)).unwrap_err();
        assert_eq!(error, carillon_core::OfferError::TooLarge { len: 1469, max: 1468 });
    }
}

#[test]
fn an_acknowledged_datagram_goes_again_until_all_have_answered_and_then_the_next() {
    let mut bench = sender(
        2,
        &[("maxdata", "1468"), ("paradigm", "acknowledged-datagram"), ("calls", "9"), ("wtimer", "100 ms")],
    );
    bench.offer("abc").expect("there is room");
    bench.offer("de").expect("there is room");
    assert_eq!(shown(&mut bench), ["first 0 sync 1 sreq"]);
    let answer = |rseq, echo| {
        let common = Common { rseq, alloc: 1 << 20, echo };
        status(key_of(ASSOCIATION) | RTN, OVER, Body::Cntl(common))
    };
    bench.receive(1, &answer(3, 1));
    assert_eq!((shown(&mut bench), bench.awaited([1, 2])), (vec![], vec![2]));
    bench.at(1_000_000);
    assert_eq!(shown(&mut bench), ["first 0 sync 2 sreq"]);
    bench.receive(2, &answer(3, 2));
    assert_eq!(shown(&mut bench), ["first 3 sync 3 sreq"]);
    bench.receive(1, &answer(5, 3)).receive(2, &answer(5, 3));
    bench.finish();
    // Nothing is left to be closed.
    assert!(bench.is_finished() && bench.datagrams().is_empty() && bench.timer().is_none());
}

#[test]
fn a_transaction_waits_for_responses_and_closes() {
    let mut bench = sender(2, &[("maxdata", "1468"), ("paradigm", "transaction"), ("calls", "9")]);
    bench.offer("abc").expect("there is room");
    bench.offer("de").expect("there is room");
    let sent = bench.datagrams();
    assert!(first_of(&sent).has(option::DREQ | option::WCLOSE));
    let response = |seq, echo| {
        let data = carillon_wire::xtp::Data { tag: Some(*b"no bytes"), bytes: &[0] };
        let (key, options) = (key_of(ASSOCIATION) | RTN, option::RCLOSE | option::WCLOSE | option::EOM);
        let mut bytes = Vec::new();
        Packet { key, options, sort: 0, sync: echo, seq, body: Body::Data(data) }.emit(&mut bytes);
        bytes
    };
    // That it has come is no response.
    bench.receive(1, &response(0, 1)).receive(2, &cntl(0, 1));
    assert_eq!(bench.awaited([1, 2]), [2]);
    assert_eq!(shown(&mut bench), Vec::<String>::new());
    bench.receive(2, &response(0, 1));
    assert_eq!(shown(&mut bench), ["cntl 3 sync 1", "first 3 sync 2"], "END, and the next request");
    // A response to the first says nothing of the second.
    bench.receive(1, &response(0, 2)).receive(2, &response(0, 2));
    assert_eq!(bench.awaited([1, 2]), [1, 2]);
}

#[test]
fn a_receiver_answers_a_datagram_however_often_it_comes_and_delivers_it_once() {
    let mut bench = MachineFixture::new(
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
    // (what comes, what is answered: rseq, echo and whether its end is over, and what is delivered)
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
        bench.receive(0, &bytes);
        let sent = bench.datagrams();
        let said = sent.first().map(|(_, bytes)| {
            let packet = Packet::parse(bytes).expect("what it sends is right");
            let status = packet.status().expect("it says what it has");
            (status.rseq, status.echo, packet.options & OVER == OVER)
        });
        assert_eq!((said, sent.len()), (answer, usize::from(answer.is_some())), "{bytes:?}");
        let taken = bench.take().map(|delivery| String::from_utf8(delivery.payload.to_vec()).expect("text"));
        assert_eq!(taken.as_deref(), delivered);
    }
}

#[test]
fn a_receiver_of_a_transaction_responds_once_its_user_has_taken_the_request() {
    let mut bench = MachineFixture::new(
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
    bench.receive(0, &request);
    assert_eq!(shown(&mut bench), Vec::<String>::new());
    // Asked again it says that it lives, and that its user has not taken it.
    bench.receive(0, &request);
    let sent = bench.datagrams();
    let status = first_of(&sent).status().expect("it says what it has");
    assert_eq!((status.rseq, status.echo, first_of(&sent).options & OVER), (0, 4, 0));
    bench.take().expect("it has come");
    for _ in 0..2 {
        let sent = bench.datagrams();
        let packet = first_of(&sent);
        assert_eq!((packet.name(), packet.seq, packet.sync), ("data", 0, 4));
        assert!(packet.has(option::RCLOSE) && packet.has(option::WCLOSE));
        bench.receive(0, &request);
    }
}

#[test]
fn first_carries_the_first_data_of_a_stream_if_it_is_to() {
    let mut bench = sender(1, &[("data_in_first", "true"), ("calls", "9")]);
    bench.offer("abc").expect("there is room");
    bench.offer("de").expect("there is room");
    let sent = bench.datagrams();
    assert_eq!(first_of(&sent).data().expect("it carries data").bytes, b"abc");
    // It was lost with FIRST, and FIRST has come again without the answer to it.
    bench.at(6_000_000);
    assert_eq!(shown(&mut bench), ["first 0 sync 2 sreq"]);
    let common = Common { rseq: 3, alloc: 1 << 20, echo: 2 };
    let traffic = Traffic { service: 6, form: TrafficForm::Null([0; 4]) };
    let handover = Handover { common, xkey: KEY };
    bench.receive(1, &status(key_of(ASSOCIATION) | RTN, 0, Body::Tcntl(handover, traffic)));
    assert_eq!(shown(&mut bench), ["data 3 sync 3 sreq"]);
}
