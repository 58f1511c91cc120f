//! Packets of Chang and Maxemchuk: round trips, golden bytes, and arbitrary bytes.

use carillon_core::AssociationId;
use carillon_wire::chang_maxemchuk::{Ack, Body, Datagram, Id, Packet};
use carillon_wire::reformation;
use proptest::prelude::*;

proptest! {
    #[test]
    fn emitted_packets_parse_back(
        kind in 0..8u8, view in any::<u32>(), timestamp in any::<u64>(), site in any::<u16>(), next in any::<u16>(),
        source in 0..0xffffu16, number in any::<u64>(), payload in prop::collection::vec(any::<u8>(), 0..64),
    ) {
        let id = Id { source, number };
        let ack = Ack { timestamp, site, next, message: (number % 3 > 0).then_some(id) };
        let payload = if (5..7).contains(&kind) && ack.message.is_none() { &[][..] } else { &payload[..] };
        let body = match kind {
            0 => Body::Msg { id, payload },
            1 => Body::Ack(ack),
            2 => Body::Confirm { site, below: timestamp },
            3 => Body::Retrans { from: timestamp, below: number },
            4 => Body::RetransMessage(id),
            7 => Body::Purged { below: number },
            _ => Body::Repair { ack, payload },
        };
        let packet = Packet { view, body };
        let mut buf = Vec::new();
        packet.emit(AssociationId(view), &mut buf);
        prop_assert_eq!(buf.len(), packet.wire_len());
        prop_assert_eq!(Packet::parse(&buf), Ok((AssociationId(view), packet)));
        prop_assert_eq!(Datagram::parse(&buf), Ok((AssociationId(view), Datagram::Normal(packet))));
        let tail = match body {
            Body::Msg { payload, .. } | Body::Repair { payload, .. } => payload.len(),
            _ => 0,
        };
        for len in 0..buf.len() - tail {
            prop_assert!(Packet::parse(&buf[..len]).is_err());
        }
    }

    #[test]
    fn any_bytes_parse_or_are_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..64), near in any::<bool>()) {
        if near && bytes.len() >= 4 {
            bytes[..3].copy_from_slice(&[0xCA, 1, 6]);
            bytes[3] %= 9;
            if bytes[3] == 8 { bytes[3] = 0x40 + bytes.len() as u8 % 8; }
        }
        if let Ok((association, packet)) = Datagram::parse(&bytes) {
            let mut again = Vec::new();
            packet.emit(association, &mut again);
            prop_assert_eq!(&again[..], &bytes[..packet.wire_len()]);
        }
    }
}

fn bytes(body: Body<'_>) -> Vec<u8> {
    let mut buf = Vec::new();
    Packet { view: 9, body }.emit(AssociationId(7), &mut buf);
    buf
}

const ACK: Ack = Ack { timestamp: 1, site: 2, next: 3, message: Some(Id { source: 4, number: 5 }) };

#[rustfmt::skip]
#[test]
fn golden_bytes() {
    assert_eq!(
        bytes(Body::Msg { id: Id { source: 4, number: 5 }, payload: b"!" }),
        [0xCA, 1, 6, 1, 0, 0, 0, 7, 0, 0, 0, 9, 0, 4, 0, 0, 0, 0, 0, 0, 0, 5, b'!']
    );
    let ack = [0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 1, 0, 2, 0, 3, 0, 4, 0, 0, 0, 0, 0, 0, 0, 5];
    assert_eq!(bytes(Body::Ack(ACK)), [&[0xCA, 1, 6, 2, 0, 0, 0, 7], &ack[..]].concat());
    assert_eq!(
        bytes(Body::Repair { ack: ACK, payload: b"!" }),
        [&[0xCA, 1, 6, 6, 0, 0, 0, 7], &ack[..], b"!"].concat()
    );
    assert_eq!(
        bytes(Body::Ack(Ack { message: None, ..ACK })),
        [0xCA, 1, 6, 2, 0, 0, 0, 7, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 1, 0, 2, 0, 3, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0]
    );
    assert_eq!(
        bytes(Body::Confirm { site: 2, below: 8 }),
        [0xCA, 1, 6, 3, 0, 0, 0, 7, 0, 0, 0, 9, 0, 2, 0, 0, 0, 0, 0, 0, 0, 8]
    );
    assert_eq!(
        bytes(Body::Retrans { from: 1, below: 8 }),
        [0xCA, 1, 6, 4, 0, 0, 0, 7, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 8]
    );
    assert_eq!(
        bytes(Body::RetransMessage(Id { source: 4, number: 5 })),
        [0xCA, 1, 6, 5, 0, 0, 0, 7, 0, 0, 0, 9, 0, 4, 0, 0, 0, 0, 0, 0, 0, 5]
    );
    assert_eq!(
        bytes(Body::Purged { below: 8 }),
        [0xCA, 1, 6, 7, 0, 0, 0, 7, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 8]
    );
    let mut join = Vec::new();
    Datagram::Reformation(reformation::Packet::Join { lost: true }).emit(AssociationId(7), &mut join);
    assert_eq!(join, [0xCA, 1, 6, 0x47, 0, 0, 0, 7, 1]);
}

#[test]
fn an_empty_acknowledgment_carries_nothing() {
    let empty = Ack { message: None, ..ACK };
    let mut repair = bytes(Body::Repair { ack: empty, payload: b"" });
    assert!(Packet::parse(&repair).is_ok());
    repair.push(0);
    assert!(Packet::parse(&repair).is_err(), "a payload of no message");
    let mut ack = bytes(Body::Ack(empty));
    *ack.last_mut().expect("it is not empty") = 1;
    assert!(Packet::parse(&ack).is_err(), "a number of no message");
}

#[test]
fn displays_one_line() {
    let shown = |body| Packet { view: 9, body }.to_string();
    assert_eq!(shown(Body::Ack(ACK)), "cm view 9 ack 1 of 4:5 token 2 to 3");
    assert_eq!(shown(Body::Ack(Ack { message: None, ..ACK })), "cm view 9 ack 1 of nothing token 2 to 3");
}
