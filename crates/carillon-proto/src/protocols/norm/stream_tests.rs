//! Streams of plain sessions between a sender and receivers in memory.

use std::time::Duration;

use carillon_core::{
    Bytes, Dest, GroupId, Machine, NodeId, PlainKind, PortId, Received, Rng, Scope, Seeds, SourceKey, Time,
    drain,
};
use carillon_wire::norm::{Body, Command, Extensions, Object, Packet, Position, SenderState, Transmission};

use super::plain::NormPlainReceiver;
use super::world::{SENDER, Sent, World, config, context};

const BLOCKS: &[(&str, &str)] = &[("stream_block", "8"), ("parity", "4"), ("cache_time", "1 s")];

/// Offers messages of up to three pieces while there is room, and runs until all have ended. Returns the pieces.
fn stream(world: &mut World, messages: u64, seed: u64) -> Vec<(Option<u16>, Bytes)> {
    let mut rng = Seeds::new(seed).stream("stream");
    let mut pieces = Vec::new();
    for _ in 0..messages {
        for part in 0..1 + rng.below(3) {
            let mut content = vec![0; 1 + rng.below(200) as usize];
            rng.fill(&mut content);
            pieces.push((if part == 0 { Some(0) } else { None }, Bytes::from(content)));
        }
    }
    world.start();
    for (start, content) in &pieces {
        while !world.offer_piece(*start, content) {
            world.step();
        }
    }
    world.finish();
    while world.ends.iter().any(Vec::is_empty) {
        world.step();
    }
    pieces
}

/// RFC 5740, 4.2.1: a stream of messages longer than the buffer arrives through losses, with the places where messages
/// begin.
/// The sender of a stream may name its receivers too. It ends once they have confirmed the end of the stream.
#[test]
fn named_receivers_confirm_a_stream() {
    for loss in [0, 10] {
        let mut world = World::expecting(&[11, 12], PlainKind::Messages, (2, loss), 2, &[]);
        (0..50).for_each(|number| assert!(world.offer_piece(Some(0), &[number; 100])));
        world.finish();
        world.run();
        assert_eq!(world.ends, [[(0, true)], [(0, true)]]);
        assert!(!world.awaits(11) && !world.awaits(12));
        let flushes = world.sent.get("flush").copied().unwrap_or_default();
        assert!(flushes > 0 && (loss > 0 || flushes < 10), "{flushes} flushes at {loss} %");
    }
}

#[test]
fn streams_arrive_through_losses_in_a_bounded_buffer() {
    for (seed, loss) in [(1, 0), (2, 5), (3, 10)] {
        let settings = [BLOCKS, &[("stream_buffer", "20000")]].concat();
        let mut world = World::new(PlainKind::Messages, 2, loss, seed, &settings);
        let sent = stream(&mut world, 300, seed);
        for pieces in &world.pieces {
            let came: Vec<_> = pieces.iter().map(|(_, piece)| (piece.start, piece.content.clone())).collect();
            assert!(came == sent, "{loss} %: {} of {} pieces", came.len(), sent.len());
            let short = pieces.iter().all(|(_, piece)| piece.ends == (piece.content.len() < 200));
            assert!(short, "a symbol that is not full was flushed");
        }
        assert_eq!(world.ends, [[(0, true)], [(0, true)]]);
        assert_eq!(world.sent.contains_key("repair_adv"), loss > 0, "{:?}", world.sent);
        assert!(world.sender.as_sender().expect("a sender").is_finished());
    }
}

/// RFC 5740, 5.2: a receiver that joins late begins with the block that it hears, and nothing before it is lost.
#[test]
fn late_receiver_begins_with_the_block_that_it_hears() {
    let mut world = World::new(PlainKind::Messages, 1, 0, 1, &[BLOCKS, &[("backlog", "0")]].concat());
    world.start();
    for number in 0..30 {
        assert!(world.offer_piece(Some(0), &[number; 9]));
    }
    while world.sent.get("data").is_none_or(|&sent| sent < 30) {
        world.step();
    }
    // What was sent so far arrives nowhere.
    world.lose_all();
    for number in 30..60 {
        assert!(world.offer_piece(Some(0), &[number; 9]));
    }
    world.finish();
    while world.ends[0].is_empty() {
        world.step();
    }
    let firsts: Vec<u8> = world.pieces[0].iter().map(|(_, piece)| piece.content[0]).collect();
    // Symbols 24 to 31 are the fourth block, of which the sender still has everything.
    assert_eq!(firsts, (24..60).collect::<Vec<u8>>());
    assert_eq!(world.ends[0], [(0, true)]);
}

/// A message of whole symbols alone ends with the FLUSH that follows.
#[test]
fn flush_ends_a_message_of_full_symbols() {
    let mut world = World::new(PlainKind::Messages, 1, 0, 1, BLOCKS);
    world.start();
    assert!(world.offer_piece(Some(0), &[1; 200]) && world.offer_piece(None, &[2; 200]));
    while world.pieces[0].len() < 3 {
        world.step();
    }
    let ends: Vec<_> = world.pieces[0].iter().map(|(number, piece)| (*number, piece.ends)).collect();
    assert_eq!(ends, [(0, false), (1, false), (2, true)]);
    assert!(world.pieces[0][2].1.content.is_empty() && world.ends[0].is_empty());
}

/// Every packet states a buffer that is large enough for the blocks that a receiver keeps, and the last symbol has no
/// bytes and no start.
#[test]
fn packets_state_the_buffer_and_the_end() {
    let settings = [BLOCKS, &[("stream_buffer", "8000")]].concat();
    let mut world = World::new(PlainKind::Messages, 1, 0, 1, &settings);
    world.keeps_packets = true;
    stream(&mut world, 3, 1);
    let data = world.packets.iter().filter_map(|(dest, bytes)| {
        let packet = Packet::parse(bytes).expect("a packet");
        assert!(matches!(dest, Dest::Group { .. }));
        match packet.body {
            Body::Data { payload, .. } => {
                Some((packet.extensions.transmission(5).expect("sizes").size, payload.to_vec()))
            }
            _ => None,
        }
    });
    let data: Vec<_> = data.collect();
    assert!(data.iter().all(|&(size, _)| size == 5 * 8 * 200), "five blocks of 8 symbols");
    assert_eq!(data.last().expect("data").1[..4], [0; 4]);
}

/// Packet with fields of a stranger, some of them plausible.
fn forged(rng: &mut Rng) -> Vec<u8> {
    let mut few = |limits: &[u64]| {
        let limit = limits[rng.below(limits.len() as u64) as usize];
        rng.below(limit)
    };
    let sender = SenderState { instance: 1, grtt: 20, backoff: 2, group_size: 1 };
    let position = Position::Rs8 { block: few(&[4, 100, 1 << 24]) as u32, symbol: few(&[8, 256]) as u8 };
    let (segment, block, parity) =
        (few(&[2, 64, 65_536]) as u16, few(&[2, 8, 256]) as u16, few(&[2, 8, 256]) as u16);
    let size = few(&[2, 1 << 20, 1 << 40]);
    let transmission = Transmission { size, segment, block, parity, bits: 8 };
    let object = few(&[1, 2, 65_536]) as u16;
    let flags = if few(&[5]) == 0 { few(&[64]) as u8 } else { Object::STREAM };
    let mut payload = vec![0; few(&[4, 60]) as usize];
    payload.iter_mut().for_each(|byte| *byte = few(&[2, 16, 256]) as u8);
    let mut extensions = Vec::new();
    if few(&[8]) > 0 {
        Extensions::push_rs8(&mut extensions, transmission);
    }
    let command = match few(&[3]) {
        0 => Command::Flush { object, position, nodes: Default::default() },
        1 => Command::Squelch { object, position, invalid: &[] },
        _ => Command::Probe { sequence: 1, sent: Default::default(), nodes: &[1; 16] },
    };
    let body = match few(&[6]) {
        0 => Body::Command { sender, command },
        1 => Body::Info { sender, object: Object { id: object, flags }, fec_id: 5, payload: &payload },
        _ => Body::Data { sender, object: Object { id: object, flags }, position, payload: &payload },
    };
    let (sequence, mut bytes) = (few(&[65_536]) as u16, Vec::new());
    let extensions = Extensions::new(&extensions).expect("just written");
    Packet { sequence, source: 7, body, extensions }.emit(&mut bytes);
    bytes
}

/// Forged packets of a source cost no more than the memory of a source, and its receiver goes on.
#[test]
fn forged_streams_are_bounded() {
    const MEMORY: usize = 1 << 16;
    let mut rng = Seeds::new(7).stream("forged");
    let (settings, mut streams) = (config(&[("feedback", "unicast")]), 0);
    for seed in 0..60 {
        let build = carillon_core::BuildContext { seeds: Seeds::new(seed), ..context(NodeId(2), MEMORY) };
        let mut receiver =
            NormPlainReceiver::new(SourceKey(7 << 16 | 1), &build, &settings).expect("valid settings");
        let (mut now, mut pieces) = (Time::ZERO, 0);
        for _ in 0..400 {
            let received = Received {
                source: SENDER,
                destination: &Dest::group(GroupId(0)),
                ingress: PortId(0),
                scope: Scope::GLOBAL,
                bytes: &forged(&mut rng).into(),
            };
            now += Duration::from_millis(rng.below(200));
            receiver.handle_timeout(now);
            receiver.handle_datagram(now, received);
            drain(&mut receiver, now, &mut Vec::new(), &mut Sent::fired(true));
            while receiver.poll_notice().is_some() {}
            // A symbol takes some bytes of memory besides its own.
            assert!(receiver.held().is_none_or(|held| held <= MEMORY as u64 / 128));
            while receiver.as_receiver().is_some_and(|receiver| receiver.poll_delivery().is_some()) {
                pieces += 1;
            }
        }
        streams += u64::from(pieces > 0);
    }
    assert!(streams > 20, "{streams} sources deliver something");
}
