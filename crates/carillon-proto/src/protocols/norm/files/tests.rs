//! Files between a sender and receivers in memory, with losses and a delay.

use std::time::Duration;

use carillon_core::{
    Bytes, Dest, DropReason, GroupId, Machine, NodeId, PlainKind, PortId, Received, Rng, Scope, Seeds,
    SourceKey, Time, drain,
};
use carillon_wire::norm::{Body, Command, Packet, SenderState};

use super::code::Code;
use super::geometry::{Geometry, Shape};
use super::needs::Needs;
use super::*;
use crate::plain::NamedFile;
use crate::protocols::norm::identity::source_key;
use crate::protocols::norm::plain::NormPlainReceiver;
use crate::protocols::norm::world::{SENDER, Sent, World, config, context};

fn content(length: usize, rng: &mut Rng) -> Vec<u8> {
    let mut content = vec![0; length];
    rng.fill(&mut content);
    content
}

#[test]
fn files_arrive_through_losses_with_their_names() {
    for (seed, loss) in [(1, 0), (2, 5), (3, 5), (4, 20)] {
        let auto = if seed == 3 { "2" } else { "0" };
        let mut world = World::new(
            PlainKind::Files,
            2,
            loss,
            seed,
            &[("block", "16"), ("parity", "4"), ("auto_parity", auto)],
        );
        let mut rng = Seeds::new(seed).stream("content");
        let mut expected = Vec::new();
        for (number, length) in [0, 1, 208, 209, 30_000, 70_001].into_iter().enumerate() {
            let (name, content) = (format!("file:///a%20b/{number}"), content(length, &mut rng));
            world.offer(&name, &content);
            expected.push((name, Bytes::from(content)));
        }
        world.finish();
        world.run();
        for files in &mut world.files {
            files.sort();
            assert!(
                *files == expected,
                "{loss} %: {:?}",
                files.iter().map(|file| &file.0).collect::<Vec<_>>()
            );
        }
        assert_eq!(world.ends, [[(0, true)], [(0, true)]]);
        assert!(world.sender.as_sender().expect("a sender").is_finished());
        let repairs = world.sent.contains_key("repair_adv");
        assert_eq!(repairs, loss > 0, "{:?}", world.sent);
    }
}

/// Blocks of more than 255 symbols have the code over 16 bits.
#[test]
fn long_blocks_arrive_through_losses() {
    let settings = [("block", "400"), ("parity", "60"), ("auto_parity", "3")];
    for (seed, loss) in [(1, 0), (2, 5), (3, 20)] {
        let mut world = World::new(PlainKind::Files, 2, loss, seed, &settings);
        let mut rng = Seeds::new(seed).stream("content");
        let files: Vec<Vec<u8>> =
            [0, 3, 81_601].into_iter().map(|length| content(length, &mut rng)).collect();
        files.iter().for_each(|file| world.offer("file:///f", file));
        world.finish();
        world.run();
        for received in &world.files {
            let mut lengths: Vec<usize> = received.iter().map(|(_, content)| content.len()).collect();
            lengths.sort_unstable();
            assert_eq!(lengths, [0, 3, 81_601], "{loss} %");
            assert!(received.iter().all(|(_, content)| files.iter().any(|file| file == content)));
        }
        assert_eq!(world.ends, [[(0, true)], [(0, true)]]);
    }
}

/// The information of the last file is repeated with the first FLUSH commands: another program that lost all packets of
/// a file without bytes begins with none of them.
#[test]
fn information_of_last_file_is_repeated() {
    let mut world = World::new(PlainKind::Files, 1, 0, 1, &[]);
    world.offer("file:///empty", &[]);
    world.finish();
    world.run();
    let sent = |name| world.sent.get(name).copied();
    assert_eq!((sent("info"), sent("flush"), sent("data")), (Some(5), Some(20), None), "{:?}", world.sent);
    assert_eq!((world.files[0].len(), &world.ends[0][..]), (1, &[(0, true)][..]));
}

/// A block of another implementation: RFC 5510, with the sources that it does not have as zeros.
#[test]
fn recorded_parity_of_a_short_block_is_recomputed() {
    let symbols = recorded(include_str!("../../../../tests/vectors/norm-short-block.txt"));
    // 200 symbols in 13 blocks, of which the last 8 have 15.
    let shape = Shape { code: Code::Rs8, block: 16, parity: 4 };
    let geometry = Geometry::new(200 * 40, 40, shape).expect("sizes");
    assert_eq!((geometry.blocks(), geometry.sources(4), geometry.sources(6)), (13, 16, 15));
    let known: Vec<_> = (0..15).zip(symbols.iter().map(|symbol| &symbol[..])).collect();
    assert_eq!(geometry.restore(6, &known, &[15, 16]), symbols[15..17]);
    let others: Vec<_> = (2..17).zip(symbols[2..].iter().map(|symbol| &symbol[..])).collect();
    assert_eq!(geometry.restore(6, &others, &[1]), symbols[1..2]);
}

/// Block over 16 bits with 200 of 300 symbols, the first eight bytes of each.
#[test]
fn recorded_parity_over_words_is_recomputed() {
    let symbols = recorded(include_str!("../../../../tests/vectors/norm-words-block.txt"));
    let shape = Shape { code: Code::Rs(16), block: 300, parity: 64 };
    let geometry = Geometry::new(400 * 8, 8, shape).expect("sizes");
    assert_eq!((geometry.blocks(), geometry.sources(0), symbols.len()), (2, 200, 208));
    let some = |numbers: std::ops::Range<u16>| {
        numbers.map(|number| (number, &symbols[usize::from(number)][..])).collect::<Vec<_>>()
    };
    let parity: Vec<u16> = (200..208).collect();
    assert_eq!(geometry.restore(0, &some(0..200), &parity), symbols[200..]);
    assert_eq!(geometry.restore(0, &some(8..208), &[0, 7, 3]), [0, 7, 3].map(|at: usize| &symbols[at][..]));
}

/// Symbols of a file with a number and the bytes in each line.
fn recorded(text: &str) -> Vec<Vec<u8>> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let digits = line.split_once(' ').expect("a number and digits").1.as_bytes();
            let pairs = digits.chunks(2).map(|pair| std::str::from_utf8(pair).expect("digits"));
            pairs.map(|pair| u8::from_str_radix(pair, 16).expect("digits")).collect()
        })
        .collect()
}

#[test]
fn requests_are_read_as_they_were_written() {
    for (code, high) in [(Code::Rs8, 254), (Code::Rs(8), 254), (Code::Rs(16), 1000)] {
        requests_are_read(code, high);
    }
}

/// Writes and reads requests with a symbol of a high number.
fn requests_are_read(code: Code, high: u16) {
    let mut needs = Needs::default();
    needs.infos.insert(3);
    needs.objects.insert(4);
    needs.blocks.entry((5, 0)).or_default().whole = true;
    let need = needs.blocks.entry((5, 7)).or_default();
    (need.symbols, need.erasures) = ([1, 2, 3, high].into(), 4);
    let (bytes, all) = needs.write(1000, code);
    let requests = carillon_wire::norm::Requests::new(&bytes).expect("requests");
    let read = Needs::read(requests, 4, code);
    assert!(all && needs.is_covered_by(&read) && read.is_covered_by(&needs), "{read:?}");
    assert_eq!(read.infos, [3, 4].into());
    let read = read.blocks.get(&(5, 7)).map(|need| need.symbols.clone());
    assert_eq!(read, Some([1, 2, 3, high].into()));
    assert!(!needs.write(40, code).1);
}

/// Requests that receivers multicast suppress those of others, and everything arrives.
#[test]
fn requests_of_others_suppress_own_ones() {
    let nacks = |feedback| {
        let settings = [("feedback", feedback), ("block", "16"), ("parity", "4"), ("backoff_factor", "8")];
        let mut world = World::new(PlainKind::Files, 8, 3, 5, &settings);
        world.offer("file:///f", &[7; 60_000]);
        world.finish();
        world.run();
        assert!(world.files.iter().all(|files| files[0].1 == vec![7; 60_000]));
        (world.nacks, world.suppressed)
    };
    let (alone, together) = (nacks("unicast"), nacks("multicast"));
    assert!(together.1 > 5, "{alone:?}, {together:?}");
}

/// A sender that names its receivers ends as soon as all have confirmed everything, and else after its last FLUSH.
#[test]
fn sender_ends_when_all_named_receivers_have_confirmed() {
    let settings = [("block", "16"), ("parity", "4")];
    for loss in [0, 5] {
        let mut flushes = Vec::new();
        for names in [&[][..], &[11, 12], &[11, 99]] {
            let mut world = World::expecting(names, PlainKind::Files, (2, loss), 3, &settings);
            for number in 0..3 {
                world.offer("file:///f", &[number; 5000]);
            }
            world.finish();
            world.run();
            assert_eq!(world.ends, [[(0, true)], [(0, true)]], "{names:?} at {loss} %");
            let awaited: Vec<u32> = [11, 12, 99].into_iter().filter(|&name| world.awaits(name)).collect();
            let absent: &[u32] = if names.contains(&99) { &[99] } else { &[] };
            assert_eq!(awaited, absent, "{names:?}");
            flushes.push(world.sent.get("flush").copied().unwrap_or_default());
        }
        assert!(flushes[0] >= 20 && flushes[2] >= 20, "{loss} %: {flushes:?}");
        assert!(loss > 0 || flushes[1] < 10, "{flushes:?}");
    }
}

/// RFC 5740, 5.5.3: a receiver that the sender names acknowledges a FLUSH once it has everything.
#[test]
fn named_receiver_acknowledges_a_flush() {
    let settings = config(&[("node_id", "11")]);
    let mut sender = NormFileSender::new(&context(SENDER, usize::MAX), &settings).expect("valid");
    let mut packets = Sent::default();
    sender.start(Time::ZERO);
    let offering = sender.as_sender().expect("a sender");
    let file = NamedFile { name: "file:///f".to_owned(), content: Bytes::from_static(b"content") };
    offering.offer(Time::ZERO, file.into_message()).expect("room");
    drain(&mut sender, Time::ZERO, &mut Vec::new(), &mut packets);
    let Ok(Packet { source, body: Body::Data { sender: state, object, position, .. }, .. }) =
        Packet::parse(&packets.packets.last().expect("data").1)
    else {
        panic!("the last packet is data");
    };
    let nodes = [0, 0, 0, 9, 0, 0, 0, 11];
    let nodes = carillon_wire::norm::Nodes::new(&nodes).expect("two nodes");
    let mut flush = Vec::new();
    let command = Command::Flush { object: object.id, position, nodes };
    let body = Body::Command { sender: state, command };
    Packet { sequence: 9, source, body, extensions: Default::default() }.emit(&mut flush);
    let key = source_key(source, state);
    let mut receiver = NormPlainReceiver::new(key, &context(NodeId(2), 1 << 20), &settings).expect("valid");
    let mut answers = Sent::default();
    for bytes in packets.packets.iter().map(|(_, bytes)| bytes).chain([&flush]) {
        receiver.handle_datagram(
            Time::ZERO,
            Received {
                source: SENDER,
                destination: &Dest::group(GroupId(0)),
                ingress: PortId(0),
                scope: Scope::GLOBAL,
                bytes: &bytes.clone().into(),
            },
        );
        drain(&mut receiver, Time::ZERO, &mut Vec::new(), &mut answers);
    }
    let [(_, answer)] = &answers.packets[..] else { panic!("one answer: {:?}", answers.packets) };
    let answer = Packet::parse(answer).expect("a packet");
    assert_eq!((answer.source, answer.name()), (11, "ack"));
    let Body::Ack { kind, payload, .. } = answer.body else { panic!("an acknowledgment") };
    assert_eq!((kind, payload), (2, &[5, 0, 0, 0, 0, 0, 0, 0][..]));
}

/// A source that falls silent without EOT has ended after `end_wait`, however long its round-trip time.
#[test]
fn silent_source_ends_whatever_it_announced() {
    let settings = config(&[("end_wait", "4 s")]);
    let key = SourceKey(7 << 16 | 1);
    let mut receiver = NormPlainReceiver::new(key, &context(NodeId(2), 1 << 20), &settings).expect("valid");
    let (mut extensions, mut buf) = (Vec::new(), Vec::new());
    let transmission =
        carillon_wire::norm::Transmission { size: 4, segment: 4, block: 4, parity: 0, bits: 8 };
    carillon_wire::norm::Extensions::push_rs8(&mut extensions, transmission);
    let grtt = carillon_wire::norm::encode_grtt(Duration::from_secs(2));
    let sender = SenderState { instance: 1, grtt, backoff: 1, group_size: 1 };
    let object = carillon_wire::norm::Object { id: 0, flags: carillon_wire::norm::Object::FILE };
    let position = carillon_wire::norm::Position::Rs8 { block: 0, symbol: 0 };
    let body = Body::Data { sender, object, position, payload: b"four" };
    let extensions = carillon_wire::norm::Extensions::new(&extensions).expect("extensions");
    Packet { sequence: 0, source: 7, body, extensions }.emit(&mut buf);
    let received = Received {
        source: SENDER,
        destination: &Dest::group(GroupId(0)),
        ingress: PortId(0),
        scope: Scope::GLOBAL,
        bytes: &buf.into(),
    };
    receiver.handle_datagram(Time::ZERO, received);
    let mut now = Time::ZERO;
    while !receiver.as_receiver().expect("one").is_complete() {
        drain(&mut receiver, now, &mut Vec::new(), &mut Sent::fired(true));
        now = receiver.poll_timeout().expect("it waits for the end");
        receiver.handle_timeout(now);
    }
    assert!(now <= Time::ZERO + Duration::from_secs(5), "{now:?}");
}

/// A source that states a size beyond the memory, or that skips objects, costs no more than its packets.
#[test]
fn forged_sizes_lose_files_and_nothing_else() {
    let settings = config(&[]);
    let build = context(NodeId(2), 1 << 20);
    let key = SourceKey(7 << 16 | 1);
    let mut receiver = NormPlainReceiver::new(key, &build, &settings).expect("valid");
    let mut buf = Vec::new();
    let mut sent = Sent::default();
    for (object, size) in [(0, 1 << 21), (1, 4), (900, 4), (40_000, 4)] {
        let mut extensions = Vec::new();
        let transmission =
            carillon_wire::norm::Transmission { size, segment: 4, block: 4, parity: 0, bits: 8 };
        carillon_wire::norm::Extensions::push_rs8(&mut extensions, transmission);
        buf.clear();
        let sender = SenderState { instance: 1, grtt: 50, backoff: 1, group_size: 1 };
        let object = carillon_wire::norm::Object { id: object, flags: carillon_wire::norm::Object::FILE };
        let position = carillon_wire::norm::Position::Rs8 { block: 0, symbol: 0 };
        let body = Body::Data { sender, object, position, payload: b"four" };
        let extensions = carillon_wire::norm::Extensions::new(&extensions).expect("extensions");
        Packet { sequence: 0, source: 7, body, extensions }.emit(&mut buf);
        let bytes = Bytes::copy_from_slice(&buf);
        let received = Received {
            source: SENDER,
            destination: &Dest::group(GroupId(0)),
            ingress: PortId(0),
            scope: Scope::GLOBAL,
            bytes: &bytes,
        };
        receiver.handle_datagram(Time::ZERO, received);
        drain(&mut receiver, Time::ZERO, &mut Vec::new(), &mut sent);
    }
    let delivered = std::iter::from_fn(|| receiver.as_receiver().expect("one").poll_delivery()).count();
    assert_eq!((sent.lost, delivered, &sent.dropped[..]), (1, 2, &[DropReason::OutOfWindow][..]));
}
