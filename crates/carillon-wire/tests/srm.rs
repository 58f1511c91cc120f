//! Packets of SRM: round trips, golden bytes, and arbitrary bytes.

use carillon_core::AssociationId;
use carillon_wire::ParseError;
use carillon_wire::srm::{
    Answer, Data, ENTRY_LEN, Entries, Entry, HEADER_LEN, Packet, REQUEST_LEN, Request, SESSION_LEN, Session,
};
use proptest::prelude::*;

fn round_trip(packet: Packet<'_>) -> Vec<u8> {
    let mut buf = Vec::new();
    packet.emit(AssociationId(9), &mut buf);
    assert_eq!(buf.len(), packet.wire_len());
    assert_eq!(Packet::parse(&buf), Ok((AssociationId(9), packet)));
    buf
}

/// Checks that no proper prefix of a packet parses.
fn no_prefix_parses(bytes: &[u8], fixed: usize) {
    for len in 0..fixed {
        assert!(matches!(Packet::parse(&bytes[..len]), Err(ParseError::Truncated { .. })), "{len}");
    }
}

proptest! {
    #[test]
    fn messages_and_requests_come_back(from in any::<u32>(), source in any::<u32>(), sequence in any::<u32>(), round in any::<u8>(), scope in any::<u8>(), again in any::<u8>(), distance_us in any::<u32>(), requester in any::<u32>(), payload in prop::collection::vec(any::<u8>(), 0..64)) {
        let data = Data { from, source, sequence, payload: &payload };
        let bytes = round_trip(Packet::Data(data));
        no_prefix_parses(&bytes, HEADER_LEN);
        let answer = Answer { round, scope, again, distance_us, requester };
        let repair = round_trip(Packet::Repair { data, answer });
        no_prefix_parses(&repair, HEADER_LEN);
        prop_assert_eq!(repair.len(), bytes.len(), "a repair is as long as what it repairs");
        let request = Packet::Request(Request { from, source, sequence, round, scope, distance_us });
        let mut bytes = round_trip(request);
        no_prefix_parses(&bytes, REQUEST_LEN);
        bytes.extend_from_slice(&payload);
        prop_assert_eq!(Packet::parse(&bytes), Ok((AssociationId(9), request)), "padding");
        prop_assert_eq!(request.sender(), from);
    }

    #[test]
    fn sessions_come_back_and_each_entry_is_found(words in prop::array::uniform5(any::<u32>()), members in prop::collection::btree_set(any::<u32>(), 0..20), split in any::<prop::sample::Index>(), padding in 0..20usize) {
        let entry = |&member: &u32| Entry { member, next: member ^ 1, came_us: member ^ 2, sent_us: member ^ 3 };
        let entries: Vec<_> = members.iter().map(|member| entry(member).to_bytes()).collect();
        let (sources, others) = entries.split_at(split.index(entries.len() + 1));
        let (sources, others) = (Entries::new(sources), Entries::new(others));
        let [from, number, clock_us, next, oldest] = words;
        let session = Session { from, number, clock_us, next, oldest, sources, others };
        let mut bytes = round_trip(Packet::Session(session));
        prop_assert_eq!(bytes.len(), SESSION_LEN + ENTRY_LEN * members.len());
        no_prefix_parses(&bytes, bytes.len());
        for member in &members {
            prop_assert_eq!(sources.of(*member).or_else(|| others.of(*member)), Some(entry(member)));
        }
        prop_assert!(sources.iter().chain(others.iter()).eq(members.iter().map(entry)));
        bytes.resize(bytes.len() + padding, 7);
        prop_assert_eq!(Packet::parse(&bytes), Ok((AssociationId(9), Packet::Session(session))));
    }

    #[test]
    fn any_bytes_parse_or_are_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..96), near in any::<bool>()) {
        if near && bytes.len() >= 4 {
            bytes[..3].copy_from_slice(&[0xCA, 1, 8]);
            bytes[3] %= 6;
        }
        if let Ok((association, packet)) = Packet::parse(&bytes) {
            let mut again = Vec::new();
            packet.emit(association, &mut again);
            prop_assert_eq!(&again[..], &bytes[..packet.wire_len()]);
        }
    }
}

#[test]
fn a_session_is_as_long_as_in_ns_2() {
    // The size in ns-2: (1 + 4 G) integers and a header of four, with G known members, the sender included.
    for group in [1, 2, 21, 129] {
        assert_eq!(SESSION_LEN + ENTRY_LEN * (group - 1), 4 * (1 + 4 * group) + 16);
    }
}

#[test]
fn counts_beyond_the_datagram_are_refused() {
    let session = Session {
        from: 1,
        number: 1,
        clock_us: 1,
        next: 0,
        oldest: 0,
        sources: Entries::default(),
        others: Entries::default(),
    };
    let mut bytes = round_trip(Packet::Session(session));
    for at in [28, 32] {
        bytes[at] = 0xFF;
        assert!(matches!(Packet::parse(&bytes), Err(ParseError::Truncated { .. })));
    }
}

#[test]
fn data_has_no_answer_and_a_spare_byte_is_zero() {
    let data = Data { from: 1, source: 1, sequence: 2, payload: b"!" };
    let answer = Answer { round: 0, scope: 0, again: 0, distance_us: 0, requester: 0 };
    for packet in [Packet::Data(data), Packet::Repair { data, answer }] {
        let mut bytes = round_trip(packet);
        bytes[23] = 1;
        assert_eq!(Packet::parse(&bytes), Err(ParseError::Field { field: "zero", value: 1 }));
    }
    let mut bytes = round_trip(Packet::Data(data));
    bytes[20] = 3;
    assert_eq!(Packet::parse(&bytes), Err(ParseError::Field { field: "round", value: 3 }));
}

#[test]
fn golden_bytes() {
    let data = Data { from: 0x01020304, source: 0x01020304, sequence: 0x05060708, payload: b"!" };
    let answer = Answer { round: 2, scope: 255, again: 3, distance_us: 20_000, requester: 6 };
    let source = [Entry { member: 2, next: 7, came_us: 0x0A0B0C0D, sent_us: 1 }.to_bytes()];
    let other = [Entry { member: 3, next: 0, came_us: 2, sent_us: 4 }.to_bytes()];
    let (sources, others) = (Entries::new(&source), Entries::new(&other));
    let session = Session { from: 1, number: 9, clock_us: 1_000_000, next: 6, oldest: 5, sources, others };
    let request = Request { from: 3, source: 1, sequence: 5, round: 1, scope: 4, distance_us: 30_000 };
    let golden: [(Packet<'_>, &[u8], &str); 4] = [
        (
            Packet::Data(data),
            &[
                0xCA, 1, 8, 1, 0, 0, 0, 9, 1, 2, 3, 4, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                0, 0, b'!',
            ],
            "srm data from 16909060 seq 84281096 len 1",
        ),
        (
            Packet::Repair { data: Data { from: 2, source: 1, sequence: 5, payload: b"!" }, answer },
            &[
                0xCA, 1, 8, 4, 0, 0, 0, 9, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 5, 2, 255, 3, 0, 0, 0, 0x4E,
                0x20, 0, 0, 0, 6, b'!',
            ],
            "srm repair from 2 source 1 seq 5 for 6 round 2 distance 20000 us scope 255 again 3 len 1",
        ),
        (
            Packet::Session(session),
            &[
                0xCA, 1, 8, 2, 0, 0, 0, 9, 0, 0, 0, 1, 0, 0, 0, 9, 0, 0x0F, 0x42, 0x40, 0, 0, 0, 6, 0, 0, 0,
                5, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 7, 10, 11, 12, 13, 0, 0, 0, 1, 0, 0, 0, 3, 0,
                0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 4,
            ],
            "srm session 9 from 1 at 1000000 us next 6 oldest 5 knows 1 sources 1 others",
        ),
        (
            Packet::Request(request),
            &[0xCA, 1, 8, 3, 0, 0, 0, 9, 0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0, 5, 1, 4, 0, 0, 0x75, 0x30],
            "srm request from 3 source 1 seq 5 round 1 distance 30000 us scope 4",
        ),
    ];
    for (packet, bytes, line) in golden {
        assert_eq!(round_trip(packet), bytes, "{line}");
        assert_eq!(packet.to_string(), line);
    }
}
