//! The rules of the thesis (III.C.5 and V.A.2) and of `docs/protocols/xtp.md`, one at a time.

use carillon_core::Role;
use carillon_testkit::{ASSOCIATION, Bench};
use carillon_wire::xtp::{
    Body, Common, HEADER_LEN, Handover, Packet, RTN, Spans, Traffic, TrafficForm, key_of, option,
};

use super::ENTRY;

const KEY: u64 = 77;

fn sender(receivers: u32, settings: &[(&str, &str)]) -> Bench {
    Bench::new(&ENTRY, Role::Sender, receivers, settings, HEADER_LEN, 1)
}

/// What went out: its format, its first byte, its number, and whether it asks.
fn shown(bench: &mut Bench) -> Vec<String> {
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
fn opened(receivers: u32, settings: &[(&str, &str)], messages: &[&str]) -> Bench {
    let all: Vec<(&str, &str)> = [("calls", "100")].into_iter().chain(settings.iter().copied()).collect();
    let mut bench = sender(receivers, &all);
    for &message in messages {
        bench.offer(message).expect("there is room");
    }
    assert_eq!(shown(&mut bench), ["first 0 sync 1 sreq"]);
    for receiver in 1..=receivers {
        assert_eq!(shown(&mut bench), Vec::<String>::new(), "not all have answered");
        bench.hear(receiver, &tcntl(KEY));
    }
    bench
}

#[test]
fn sreq_in_first_gathers_the_group_and_data_wait_for_all() {
    let mut bench = opened(3, &[], &["abc", "de"]);
    assert_eq!(shown(&mut bench), ["data 0 sync 1", "data 3 sync 2 sreq"]);
    assert_eq!(bench.awaited([1, 2, 3]), [1, 2, 3]);
    bench.hear(1, &cntl(5, 2)).hear(2, &cntl(5, 2)).hear(3, &cntl(3, 1));
    assert_eq!(bench.awaited([1, 2, 3]), [3]);
}

#[test]
fn a_key_that_was_not_given_and_one_that_changes_say_nothing() {
    let mut bench = opened(1, &[], &["abc"]);
    shown(&mut bench);
    let common = Common { rseq: 3, alloc: 9, echo: 2 };
    for key in [key_of(ASSOCIATION), (key_of(ASSOCIATION) ^ 1) | RTN, RTN | 12_345_678, 0] {
        bench.hear(1, &status(key, 0, Body::Cntl(common)));
    }
    bench.hear(1, &tcntl(KEY + 1));
    assert_eq!(bench.awaited([1]), [1]);
    assert_eq!(bench.drops().len(), 5);
}

#[test]
fn go_back_n_sends_the_packet_in_error_and_all_later_ones() {
    let mut bench = opened(2, &[], &["aa", "bb", "cc", "dd"]);
    assert_eq!(shown(&mut bench).len(), 4);
    // The second is lost at one receiver, which the third tells; the other has all.
    bench.hear(2, &cntl(8, 2)).hear(1, &nak(2, 1));
    assert_eq!(shown(&mut bench), ["data 2 sync 3", "data 4 sync 3", "data 6 sync 4 sreq"]);
    // What tells of nothing newer does not have it sent once more.
    bench.hear(1, &nak(2, 2));
    assert_eq!(shown(&mut bench), Vec::<String>::new());
    bench.hear(1, &cntl(4, 4));
    assert_eq!(shown(&mut bench), ["data 4 sync 5", "data 6 sync 6 sreq"]);
}

#[test]
fn selective_retransmission_sends_what_is_missing_alone() {
    let mut bench = opened(1, &[("error_control", "selective")], &["aa", "bb", "cc", "dd"]);
    assert_eq!(shown(&mut bench).len(), 4);
    let mut room = Vec::new();
    let common = Common { rseq: 0, alloc: 1 << 20, echo: 2 };
    let spans = Spans::of([(2, 4), (6, 8)], &mut room);
    bench.hear(1, &status(key_of(ASSOCIATION) | RTN, 0, Body::Ecntl(common, spans)));
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
    bench.hear(1, &cntl(0, 4));
    assert_eq!(shown(&mut bench), ["data 0 sync 5", "data 2 sync 6 sreq"]);
}

#[test]
fn ctimeout_ends_it_for_those_that_have_not_answered_and_names_them() {
    for (handshake, loses) in [("thesis", true), ("repaired", true)] {
        let settings = [("handshake", handshake), ("ctimeout", "200 ms")];
        let mut bench = opened(2, &settings, &["aa"]);
        shown(&mut bench);
        bench.hear(1, &cntl(2, 2));
        for at in 1..60 {
            bench.at(at * 100_000);
            shown(&mut bench);
            if bench.awaited([1, 2]).is_empty() {
                break;
            }
            // The first answers whatever it is asked.
            bench.hear(1, &cntl(2, 2));
        }
        assert_eq!(bench.awaited([1, 2]).is_empty(), loses);
        bench.finish();
        assert!(bench.is_finished(), "{handshake}");
    }
}
