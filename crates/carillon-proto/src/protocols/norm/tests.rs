//! Tests of the rules of RFC 5740 and RFC 5401, one each. A millisecond is 10 000 bit times.

use std::time::Duration;

use carillon_core::{AssociationId, DropReason, Event, Role, Seeds, Time};
use carillon_testkit::{ASSOCIATION, MachineFixture};
use carillon_wire::norm::{
    Body, Command, Extensions, Form, Item, Object, Packet, Position, Request, Requests, Response,
    SenderState, Stamp, StreamHeader, decode_grtt, encode_grtt,
};

use super::config::HEADER_LEN;
use super::grtt::{GroupRoundTrip, random_backoff};
use super::identity::instance;
use super::{ENTRY, repairs::Wants};

const MS: u64 = 10_000;
/// A round-trip time of 10 ms, blocks of four symbols with three of parity, and little else.
const SETTINGS: &[(&str, &str)] =
    &[("block", "4"), ("parity", "3"), ("grtt", "10 ms"), ("backoff_factor", "4"), ("probe_max", "1 h")];

fn machine(role: Role, settings: &[(&str, &str)]) -> MachineFixture {
    let settings: Vec<_> = SETTINGS.iter().chain(settings).copied().collect();
    let mut bench = MachineFixture::new(&ENTRY, role, 2, &settings, HEADER_LEN, 1);
    // The fixture drains a machine after its first call, and the datagram itself is dropped.
    bench.receive(99, b"").drops();
    bench.datagrams();
    bench
}

/// Sender that has sent these messages.
fn sender(messages: u64, settings: &[(&str, &str)]) -> MachineFixture {
    let mut bench = machine(Role::Sender, settings);
    for number in 0..messages {
        assert_eq!(bench.offer("abc"), Ok(number));
    }
    bench.at(MS);
    bench.datagrams();
    bench.events();
    bench
}

/// Packets sent, each as its type, and block and symbol of a symbol.
fn sent(bench: &mut MachineFixture) -> Vec<String> {
    let datagrams = bench.datagrams();
    let name = |(_, bytes): &(_, Vec<u8>)| {
        let packet = Packet::parse(bytes).expect("a machine sends packets");
        match packet.body {
            Body::Data { object, position, .. } => {
                let (block, symbol) = position.split(8);
                format!("{block}.{symbol}{}", ["", " repair", "", " explicit"][usize::from(object.flags & 3)])
            }
            Body::Nack { requests, .. } => format!("nack{requests}"),
            _ => packet.name().to_owned(),
        }
    };
    let all: Vec<String> = datagrams.iter().map(name).collect();
    all.into_iter().filter(|name| name != "cc").collect()
}

/// Packet of the sender, with a round-trip time of 10 ms and K = 4.
fn from_sender(body: impl FnOnce(SenderState) -> Body<'static>) -> Vec<u8> {
    let grtt = encode_grtt(Duration::from_millis(10));
    let state = SenderState { instance: instance(ASSOCIATION), grtt, backoff: 4, group_size: 0 };
    emitted(1, body(state))
}

fn emitted(source: u32, body: Body<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    Packet { sequence: 0, source, body, extensions: Extensions::default() }.emit(&mut bytes);
    bytes
}

fn at(block: u32, symbol: u8) -> Position {
    Position::Rs8 { block, symbol }
}

fn data(number: u32) -> Vec<u8> {
    let mut symbol = Vec::new();
    StreamHeader { length: 1, message_start: 1, offset: number }.emit(&mut symbol);
    symbol.push(number as u8);
    let payload: &'static [u8] = symbol.leak();
    let object = Object { id: 0, flags: Object::STREAM };
    from_sender(|sender| Body::Data { sender, object, position: at(number / 4, (number % 4) as u8), payload })
}

fn command(command: Command<'static>) -> Vec<u8> {
    from_sender(|sender| Body::Command { sender, command })
}

fn flush(block: u32, symbol: u8) -> Vec<u8> {
    command(Command::Flush { object: 0, position: at(block, symbol), nodes: Default::default() })
}

/// NACK of a receiver for these symbols.
fn nack(receiver: u32, symbols: &[(u32, u8)], echo: Stamp) -> Vec<u8> {
    let mut list = Vec::new();
    let items = symbols.iter().map(|&(block, symbol)| Item { object: 0, position: at(block, symbol) });
    Requests::push(&mut list, Form::Items, Request::SEGMENT, items);
    let response = Response { sender: 1, instance: instance(ASSOCIATION), echo };
    emitted(receiver + 1, Body::Nack { response, requests: Requests::new(&list).expect("just written") })
}

fn bare_nack(receiver: u32, symbols: &[(u32, u8)]) -> Vec<u8> {
    nack(receiver, symbols, Stamp::default())
}

/// RFC 5740, 5.4: the sender collects NACKs for (K + 1) GRTT, and then sends as much fresh parity as the worst receiver
/// misses, before new data.
#[test]
fn worst_receiver_decides_on_parity_of_a_block() {
    let mut bench = sender(9, &[]);
    bench
        .at(10 * MS)
        .receive(1, &bare_nack(1, &[(0, 4)]))
        .receive(2, &bare_nack(2, &[(0, 4), (0, 5), (1, 4)]));
    bench.at(60 * MS);
    assert!(!sent(&mut bench).iter().any(|name| name.contains("repair")));
    bench.offer("abc").expect("room");
    bench.at(63 * MS);
    let repairs: Vec<_> = sent(&mut bench).into_iter().filter(|name| name != "flush").collect();
    assert_eq!(repairs, ["2.1", "0.4 repair", "0.5 repair", "1.4 repair"]);
}

/// RFC 5740, 5.4: during the hold-off, late NACKs count only for later blocks than the one being repaired.
#[test]
fn late_requests_are_ignored_until_the_hold_off_ends() {
    let mut bench = sender(8, &[]);
    bench.at(10 * MS).receive(1, &bare_nack(1, &[(0, 4)])).at(63 * MS);
    bench.datagrams();
    bench.drops();
    bench.receive(2, &bare_nack(2, &[(0, 4)]));
    assert_eq!(bench.drops(), [DropReason::Redundant]);
    bench.at(200 * MS).receive(2, &bare_nack(2, &[(0, 4)])).at(300 * MS);
    let repairs: Vec<_> = sent(&mut bench).into_iter().filter(|name| name != "flush").collect();
    assert_eq!(repairs, ["0.5 repair"], "parity that nobody has seen");
}

/// RFC 5740, 5.4: once all parity was sent, requested symbols are repeated.
#[test]
fn symbols_are_repeated_when_parity_is_exhausted() {
    let mut bench = sender(4, &[]);
    bench.at(10 * MS).receive(1, &bare_nack(1, &[(0, 4), (0, 5), (0, 6), (0, 2)])).at(70 * MS);
    let repairs: Vec<_> = sent(&mut bench).into_iter().filter(|name| name != "flush").collect();
    let explicit = ["0.2 explicit", "0.4 explicit", "0.5 explicit", "0.6 explicit"];
    assert_eq!(repairs[..3], ["0.4 repair", "0.5 repair", "0.6 repair"]);
    assert_eq!(repairs[3..], explicit);
}

/// RFC 5740, 5.3: a block that was not sent as a whole has no parity.
#[test]
fn messages_of_an_incomplete_block_are_repeated() {
    let mut bench = sender(2, &[]);
    bench.at(10 * MS).receive(1, &bare_nack(1, &[(0, 1)])).at(70 * MS);
    let repairs: Vec<_> = sent(&mut bench).into_iter().filter(|name| name != "flush").collect();
    assert_eq!(repairs, ["0.1 explicit"]);
}

/// RFC 5740, 5.3: FLUSH repeats robust_factor times after the last data, and EOT ends the session.
#[test]
fn flush_repeats_and_eot_ends() {
    let mut bench = sender(2, &[("robust_factor", "3")]);
    bench.finish();
    bench.at(500 * MS);
    assert_eq!(sent(&mut bench), ["flush", "flush", "flush", "eot"]);
    assert!(bench.is_finished());
}

/// RFC 5740, 5.2: requests for what the sender no longer keeps are answered with a SQUELCH, once in two round trips.
#[test]
fn requests_before_the_cache_are_squelched() {
    let mut bench = sender(8, &[("cache", "4"), ("cache_time", "0 s")]);
    bench.receive(1, &bare_nack(1, &[(0, 1)])).receive(2, &bare_nack(2, &[(0, 1)]));
    assert_eq!(sent(&mut bench), ["squelch"]);
}

#[test]
fn automatic_parity_follows_each_block() {
    let mut bench = machine(Role::Sender, &[("auto_parity", "2")]);
    for number in 0..5 {
        assert_eq!(bench.offer("abc"), Ok(number));
    }
    bench.at(MS);
    assert_eq!(sent(&mut bench), ["0.0", "0.1", "0.2", "0.3", "0.4", "0.5", "1.0"]);
}

/// RFC 5740, 5.3: a receiver requests at the boundary of a block, parity as much as it misses, after a random wait.
#[test]
fn missing_symbols_are_requested_at_the_block_boundary() {
    let mut bench = machine(Role::Receiver, &[]);
    for number in [0, 2, 3] {
        bench.receive(0, &data(number));
    }
    bench.at(200 * MS);
    assert_eq!(sent(&mut bench), [""; 0], "the block may still go on");
    bench.receive(0, &data(4)).at(300 * MS);
    assert_eq!(sent(&mut bench), ["nack items 0x01 [object 0 block 0 symbol 4]"]);
    let numbers: Vec<_> = std::iter::from_fn(|| bench.take()).map(|delivery| delivery.message.0).collect();
    assert_eq!(numbers, [0]);
    let requested = |event: &Event| matches!(event, Event::Requested { .. });
    assert_eq!(bench.events().iter().filter(|event| requested(event)).count(), 1);
}

/// RFC 5740, 5.3: another receiver's NACK for as many symbols suppresses the own one; the process then holds off.
#[test]
fn request_of_another_receiver_suppresses_the_own_one() {
    for (others, suppressed) in
        [(&[(0, 4), (0, 5)][..], true), (&[(0, 4)], false), (&[(1, 4), (1, 5)], false)]
    {
        let mut bench = machine(Role::Receiver, &[]);
        for number in [0, 2, 5] {
            bench.receive(0, &data(number));
        }
        bench.receive(2, &bare_nack(2, others)).at(60 * MS);
        assert_eq!(sent(&mut bench).is_empty(), suppressed, "{others:?}");
        let event = |event: &Event| matches!(event, Event::RequestSuppressed { .. });
        assert_eq!(bench.events().iter().any(event), suppressed);
    }
}

/// RFC 5510: any symbols as many as sources restore a block.
#[test]
fn parity_restores_any_message() {
    let mut source = machine(Role::Sender, &[("auto_parity", "3")]);
    for number in 0..4 {
        source.offer(&"x".repeat(number)).expect("room");
    }
    source.at(MS);
    let symbols: Vec<_> = source.datagrams().into_iter().map(|(_, bytes)| bytes).collect();
    let is_data = |bytes: &&Vec<u8>| matches!(Packet::parse(bytes).map(|p| p.body), Ok(Body::Data { .. }));
    let symbols: Vec<_> = symbols.iter().filter(is_data).collect();
    assert_eq!(symbols.len(), 7);
    for kept in [[0, 4, 5, 6], [1, 3, 4, 6], [0, 1, 2, 5]] {
        let mut bench = machine(Role::Receiver, &[]);
        for at in kept {
            bench.receive(0, symbols[at]);
        }
        let lengths: Vec<_> =
            std::iter::from_fn(|| bench.take()).map(|message| message.payload.len()).collect();
        assert_eq!(lengths, [0, 1, 2, 3], "{kept:?}");
    }
}

/// RFC 5740, 5.3: FLUSH reveals losses at the end; explicit symbols are requested there.
#[test]
fn flush_reveals_tail_losses() {
    let mut bench = machine(Role::Receiver, &[]);
    bench.receive(0, &data(0)).receive(0, &flush(0, 2)).at(100 * MS);
    assert_eq!(
        sent(&mut bench),
        ["nack ranges 0x01 [object 0 block 0 symbol 1] [object 0 block 0 symbol 2]"]
    );
}

/// RFC 5740, 5.2: a SQUELCH ends the requests for earlier messages.
#[test]
fn squelch_gives_messages_up() {
    let mut bench = machine(Role::Receiver, &[]);
    bench.receive(0, &data(5)).receive(0, &flush(1, 1));
    bench.receive(0, &command(Command::Squelch { object: 0, position: at(1, 0), invalid: &[] })).at(300 * MS);
    let lost = |event: &Event| matches!(event, Event::LossFinal { .. });
    assert_eq!(bench.events().iter().filter(|event| lost(event)).count(), 4);
    assert!(sent(&mut bench).iter().all(|nack| nack.contains("block 1 symbol 0")), "message 4 is still kept");
}

/// RFC 5401, 4.2.5: a longer answer counts at once; a shorter one lowers the value by a tenth for each probe.
#[test]
fn group_round_trip_rises_at_once_and_falls_slowly() {
    let ms = Duration::from_millis;
    let mut grtt = GroupRoundTrip::new(ms(10), ms(1), ms(1000));
    let answer = |micros| Stamp { seconds: 0, microseconds: micros };
    grtt.on_answer(Time::ZERO + ms(100), answer(50_000));
    assert!(grtt.value() >= ms(50) && grtt.value() < ms(55), "{:?}", grtt.value());
    grtt.on_probe();
    // The peak of that interval was the value itself.
    assert!(grtt.value() >= ms(50));
    grtt.on_answer(Time::ZERO + ms(200), answer(199_000));
    grtt.on_probe();
    assert!(grtt.value() < ms(50) && grtt.value() >= ms(45), "{:?}", grtt.value());
    let before = grtt.value();
    // No answer, one from the future, and none to a probe change nothing.
    grtt.on_answer(Time::ZERO, answer(5));
    grtt.on_answer(Time::ZERO + ms(900), Stamp::default());
    grtt.on_probe();
    assert_eq!(grtt.value(), before);
}

/// NACKs return the time of the last probe, and how long it was held.
#[test]
fn sender_learns_the_round_trip_time_from_a_nack() {
    let mut bench = sender(4, &[("grtt", "1 ms")]);
    bench.at(100 * MS).receive(1, &nack(1, &[(0, 4)], Stamp { seconds: 0, microseconds: 60_000 }));
    bench.at(900 * MS);
    let grtt = bench.datagrams().iter().rev().find_map(|(_, bytes)| match Packet::parse(bytes).ok()?.body {
        Body::Command { sender, .. } => Some(decode_grtt(sender.grtt)),
        _ => None,
    });
    assert!(grtt.is_some_and(|grtt| grtt >= Duration::from_millis(40)), "{grtt:?}");
}

/// RFC 5401, 4.2.2: waits stay within K GRTT, and early ones are rare in a large group.
#[test]
fn random_waits_are_long_in_large_groups() {
    let mut rng = Seeds::new(1).stream("norm");
    let longest = Duration::from_millis(100);
    let mut mean = |size| {
        let waits: Vec<f64> =
            (0..2000).map(|_| random_backoff(longest, size, &mut rng).as_secs_f64()).collect();
        assert!(waits.iter().all(|&wait| (0.0..=0.1).contains(&wait)));
        waits.iter().sum::<f64>() / waits.len() as f64
    };
    // The mean of the distribution is T (1 / (1 - e^-L) - 1 / L) with L = ln(size) + 1.
    for (size, expected) in [(1, 0.0582), (100, 0.0825), (10_000, 0.0902)] {
        let found = mean(size);
        assert!((found - expected).abs() < 0.003, "{size}: {found}");
    }
    assert_eq!(random_backoff(Duration::ZERO, 10, &mut rng), Duration::ZERO);
}

/// Requests that are written are read as the same, in as many packets as they need.
#[test]
fn requests_survive_a_round_trip() {
    let shape = super::config::Shape { block: 8, parity: 4 };
    let mut wants = Wants::default();
    wants.insert(3, [0, 1, 2, 5], false);
    wants.insert(40_000, [9, 10], true);
    let (bytes, all) = wants.write(0, 1000);
    let requests = Requests::new(&bytes).expect("just written");
    let again = Wants::read(requests, shape, 20_000, 10);
    assert!(all && wants.is_covered_by(&again));
    assert_eq!(again.blocks().collect::<Vec<_>>(), [3, 40_000]);
    let (bytes, all) = wants.write(0, 40);
    assert!(!all && bytes.len() <= 40);
    // However many blocks a forged range names, few are read.
    let mut forged = Vec::new();
    let item = |block| Item { object: 0, position: at(block, 255) };
    Requests::push(&mut forged, Form::Ranges, Request::BLOCK, [item(0), item(4_000_000)]);
    let read = Wants::read(Requests::new(&forged).expect("just written"), shape, 0, 10);
    assert_eq!(read.blocks().count(), 10);
}

/// Packets of other senders, other instances and receivers are counted as dropped.
#[test]
fn foreign_packets_are_dropped() {
    let mut bench = machine(Role::Receiver, &[]);
    let other = SenderState { instance: instance(AssociationId(77)), ..SenderState::default() };
    let object = Object { id: 0, flags: Object::STREAM };
    let foreign = Body::Data { sender: other, object, position: at(0, 0), payload: &[0; 8] };
    bench.receive(0, &emitted(1, foreign)).receive(2, &data(0)).receive(0, &data(0)[..15]);
    assert_eq!(bench.drops(), [DropReason::Foreign, DropReason::NotAMember, DropReason::Malformed]);
}
