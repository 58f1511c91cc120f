//! Packets of PF and FF: round trips, arbitrary bytes, and sets of children.

use carillon_core::AssociationId;
use carillon_wire::ff;
use carillon_wire::map::Map;
use carillon_wire::pf::{ChildSet, MAX_CHILDREN_LEN, Packet, Poll, Resp};
use proptest::prelude::*;

proptest! {
    #[test]
    fn child_set_round_trips_in_the_shorter_code(near in any::<bool>(), numbers in prop::collection::btree_set(any::<u32>(), 0..200), other in any::<u32>()) {
        let base = if near { 300 } else { u32::MAX };
        let numbers: std::collections::BTreeSet<u32> = numbers.into_iter().map(|number| number % base).collect();
        let numbers: Vec<u32> = numbers.into_iter().collect();
        let mut buf = Vec::new();
        let set = ChildSet::encode(&numbers, &mut buf);
        prop_assert!(set.iter().eq(numbers.iter().copied()));
        prop_assert_eq!(ChildSet::parse(set.bytes()), Ok(set));
        prop_assert!(set.bytes().len() <= 1 + 5 * numbers.len());
        if near && !numbers.is_empty() {
            prop_assert!(set.bytes().len() <= 3 + 300 / 8 + 1, "a bit each: {}", set.bytes().len());
        }
        for number in numbers.iter().copied().chain([other, 0, u32::MAX]) {
            prop_assert_eq!(set.contains(number), numbers.binary_search(&number).is_ok());
        }
    }

    #[test]
    fn emitted_packets_parse_back(kind in 0..4u8, (seq, first, last) in any::<(u32, u32, u32)>(), time in any::<u64>(), size in any::<u32>(), children in prop::collection::btree_set(any::<u32>(), 0..20), payload in prop::collection::vec(any::<u8>(), 0..64)) {
        let children: Vec<u32> = children.into_iter().collect();
        let mut set = Vec::new();
        let poll = Poll { time, last, children: ChildSet::encode(&children, &mut set) };
        let packet = match kind {
            0 => Packet::Data { seq, first, poll: None, payload: &payload },
            1 => Packet::Data { seq, first, poll: Some(poll), payload: &payload },
            2 => Packet::Poll { first, poll },
            _ => Packet::Resp(Resp { time, last, left: first, expected: seq, highest: last, size, received: Map::new(&payload) }),
        };
        let mut buf = Vec::new();
        packet.emit(AssociationId(first), &mut buf);
        prop_assert_eq!(buf.len(), packet.wire_len());
        prop_assert_eq!(Packet::parse(&buf), Ok((AssociationId(first), packet)));
        for len in 0..buf.len() - payload.len() * usize::from(kind < 2) {
            prop_assert!(Packet::parse(&buf[..len]).is_err() || (kind > 1 && len >= packet.wire_len()));
        }
        let packet = if kind & 1 == 0 { ff::Packet::Data { seq, first, time, payload: &payload } } else { ff::Packet::Ack { seq, time } };
        buf.clear();
        packet.emit(AssociationId(first), &mut buf);
        prop_assert_eq!(buf.len(), packet.wire_len());
        prop_assert_eq!(ff::Packet::parse(&buf), Ok((AssociationId(first), packet)));
    }

    #[test]
    fn any_bytes_parse_or_are_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..96), near in any::<bool>()) {
        if near && bytes.len() >= 4 {
            bytes[..3].copy_from_slice(&[0xCA, 1, 30]);
            bytes[3] %= 5;
        }
        if let Ok((association, packet)) = Packet::parse(&bytes) {
            let mut again = Vec::new();
            packet.emit(association, &mut again);
            prop_assert_eq!(&again[..], &bytes[..packet.wire_len()]);
        }
        if let Ok(set) = ChildSet::parse(&bytes) {
            let numbers: Vec<u32> = set.iter().collect();
            prop_assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]));
            prop_assert!(numbers.iter().all(|&number| set.contains(number)));
        }
    }
}

#[test]
fn invalid_child_sets_are_refused() {
    for bytes in [
        &[2u8, 1][..],
        &[0, 0x80],
        &[0, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F],
        &[1],
        &[1, 0xFF, 0xFF, 0xFF, 0xFF, 0x0F, 3],
    ] {
        assert!(ChildSet::parse(bytes).is_err(), "{bytes:?}");
    }
    let mut packet = vec![0xCA, 1, 30, 2];
    packet.resize(8 + 16, 0);
    packet.extend_from_slice(&((MAX_CHILDREN_LEN + 1) as u16).to_be_bytes());
    packet.resize(packet.len() + MAX_CHILDREN_LEN + 1, 0);
    assert!(Packet::parse(&packet).is_err(), "more children than a packet may name");
}
