//! Packets of the reformation: round trips, golden bytes, truncation, and arbitrary bytes.

use carillon_wire::reformation::{Ballot, KINDS, Packet, Ranks};
use proptest::prelude::*;

fn ranks() -> impl Strategy<Value = Ranks> {
    prop::collection::vec(0..Ranks::CAPACITY, 0..12).prop_map(|ranks| ranks.into_iter().collect())
}

fn ballot() -> impl Strategy<Value = Ballot> {
    (any::<u32>(), any::<u8>()).prop_map(|(number, coordinator)| Ballot { number, coordinator })
}

proptest! {
    #[test]
    fn emitted_packets_parse_back(kind in 0..8u8, ballot in ballot(), promised in ballot(), number in any::<u32>(), length in 0..1u64 << 62, members in ranks(), joiners in ranks(), state in prop::collection::vec(any::<u8>(), 0..32)) {
        let packet = match kind {
            0 => Packet::Invite { ballot },
            1 => Packet::Vote { ballot, accepted: number, length, members, joiners },
            2 => Packet::Refuse { ballot, promised },
            3 => Packet::Start { ballot, base: number, length, members, joiners, state: &state },
            4 => Packet::Ready { ballot },
            5 => Packet::Active { ballot },
            6 => Packet::Installed { ballot },
            _ => Packet::Join { lost: number & 1 == 1 },
        };
        let mut buf = Vec::new();
        packet.emit(&mut buf);
        prop_assert_eq!(buf.len(), packet.wire_len());
        prop_assert!(KINDS.contains(&packet.packet_type()));
        prop_assert_eq!(Packet::parse(packet.packet_type(), &buf), Ok(packet));
        let fixed = buf.len() - if kind == 3 { state.len() } else { 0 };
        for len in 0..fixed {
            prop_assert!(Packet::parse(packet.packet_type(), &buf[..len]).is_err());
        }
    }

    #[test]
    fn any_bytes_parse_or_are_refused(kind in 0x3f..0x49u8, bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        if let Ok(packet) = Packet::parse(kind, &bytes) {
            let mut again = Vec::new();
            packet.emit(&mut again);
            prop_assert_eq!(&again[..], &bytes[..packet.wire_len()]);
        }
    }

    #[test]
    fn a_set_of_ranks_is_a_set(ranks in prop::collection::btree_set(0..Ranks::CAPACITY, 0..40), gone in 0..Ranks::CAPACITY) {
        let mut set: Ranks = ranks.iter().copied().collect();
        prop_assert_eq!(set.iter().collect::<Vec<_>>(), ranks.iter().copied().collect::<Vec<_>>());
        prop_assert_eq!(set.len(), ranks.len());
        prop_assert_eq!(set.remove(gone), ranks.contains(&gone));
        prop_assert!(!set.contains(gone));
    }
}

#[test]
fn golden_bytes() {
    let ballot = Ballot { number: 1, coordinator: 2 };
    let golden: &[(Packet<'_>, &[u8])] = &[
        (Packet::Invite { ballot }, &[0, 0, 0, 1, 0, 2]),
        (
            Packet::Vote {
                ballot,
                accepted: 3,
                length: 4,
                members: [0, 2, 9].into_iter().collect(),
                joiners: Ranks::default(),
            },
            &[0, 0, 0, 1, 0, 2, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 4, 2, 5, 2, 0],
        ),
        (
            Packet::Refuse { ballot, promised: Ballot { number: 7, coordinator: 1 } },
            &[0, 0, 0, 1, 0, 2, 0, 0, 0, 7, 0, 1],
        ),
        (
            Packet::Start {
                ballot,
                base: 0,
                length: 5,
                members: [0, 1].into_iter().collect(),
                joiners: [1].into_iter().collect(),
                state: b"s",
            },
            &[0, 0, 0, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 1, 3, 1, 2, b's'],
        ),
        (Packet::Join { lost: true }, &[1]),
    ];
    for (packet, bytes) in golden {
        let mut buf = Vec::new();
        packet.emit(&mut buf);
        assert_eq!(&buf, bytes, "{packet}");
    }
}
