//! Packets of LMS: round trips, golden bytes, and arbitrary bytes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use carillon_core::{AssociationId, PortId};
use carillon_wire::ParseError;
use carillon_wire::lms::{Data, Offer, Packet, Progress, Request, TurningPoint};
use proptest::prelude::*;

fn address() -> impl Strategy<Value = Option<IpAddr>> {
    prop_oneof![
        Just(None),
        any::<u32>().prop_map(|bits| Some(Ipv4Addr::from(bits).into())),
        // Other addresses would be parsed as none, or as one of IPv4.
        (1..u64::MAX, any::<u64>())
            .prop_map(|(high, low)| Some(Ipv6Addr::from(u128::from(high) << 64 | u128::from(low)).into())),
    ]
}

#[derive(Clone, Debug)]
struct Numbers {
    kind: u8,
    address: Option<IpAddr>,
    a: u32,
    b: u32,
    c: u32,
    time: u64,
    port: u16,
}

fn numbers() -> impl Strategy<Value = Numbers> {
    (0..9u8, address(), any::<u32>(), any::<u32>(), any::<u32>(), any::<u64>(), any::<u16>())
        .prop_map(|(kind, address, a, b, c, time, port)| Numbers { kind, address, a, b, c, time, port })
}

fn packet<'a>(numbers: &Numbers, payload: &'a [u8]) -> Packet<'a> {
    let Numbers { kind, address, a, b, c, time, port } = *numbers;
    let data = Data { sequence: a, oldest: b, payload };
    let progress = Progress { next: a, oldest: b };
    match kind {
        0 => Packet::SrcRefresh(Offer { cost: a, hops: port }),
        1 => Packet::Refresh(Offer { cost: a, hops: port }),
        2 => Packet::Leave,
        3 => Packet::Req(Request {
            turning_point: address.map(|address| TurningPoint { address, interface: PortId(port) }),
            direct: time & 1 == 1,
            past: (time >> 8) as u8,
            hops_left: (time >> 16) as u8,
            lo: a,
            hi: b,
            attempt: c,
        }),
        4 => Packet::Dmcast { interface: PortId(port), data },
        5 => Packet::Setup { previous: address, progress, timestamp: time },
        6 => Packet::Spm { previous: address, progress },
        7 => Packet::Data(data),
        _ => Packet::Repair(data),
    }
}

proptest! {
    #[test]
    fn emitted_packets_parse_back(numbers in numbers(), payload in prop::collection::vec(any::<u8>(), 0..64), padding in 0..8usize) {
        let packet = packet(&numbers, &payload);
        let mut buf = Vec::new();
        packet.emit(AssociationId(numbers.c), &mut buf);
        prop_assert_eq!(buf.len(), packet.wire_len());
        let has_payload = matches!(packet, Packet::Dmcast { .. } | Packet::Data(_) | Packet::Repair(_));
        let fixed = if has_payload { buf.len() - payload.len() } else { buf.len() };
        for len in 0..fixed {
            prop_assert!(Packet::parse(&buf[..len]).is_err());
        }
        if !has_payload {
            buf.resize(buf.len() + padding, 0);
        }
        prop_assert_eq!(Packet::parse(&buf), Ok((AssociationId(numbers.c), packet)));
    }

    #[test]
    fn any_bytes_parse_or_are_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..80), near in any::<bool>()) {
        if near && bytes.len() >= 4 {
            bytes[..3].copy_from_slice(&[0xCA, 1, 7]);
            bytes[3] %= 11;
        }
        if let Ok((association, packet)) = Packet::parse(&bytes) {
            let mut again = Vec::new();
            packet.emit(association, &mut again);
            prop_assert_eq!(&again[..], &bytes[..packet.wire_len()]);
        }
    }
}

#[test]
fn golden_bytes() {
    let v4 = IpAddr::from(Ipv4Addr::new(10, 0, 0, 9));
    let mapped = "00000000000000000000ffff0a000009";
    let none = "00000000000000000000000000000000";
    let progress = Progress { next: 5, oldest: 2 };
    let data = Data { sequence: 4, oldest: 2, payload: b"!" };
    let request =
        Request { turning_point: None, direct: false, past: 1, hops_left: 64, lo: 3, hi: 4, attempt: 2 };
    let turned = Request {
        turning_point: Some(TurningPoint { address: v4, interface: PortId(2) }),
        direct: true,
        ..request
    };
    let golden: [(Packet<'_>, String, &str); 10] = [
        (
            Packet::SrcRefresh(Offer { cost: 0, hops: 1 }),
            "ca01070100000007000000000001".to_owned(),
            "lms src_refresh cost 0 hops 1",
        ),
        (
            Packet::Refresh(Offer { cost: 3, hops: 2 }),
            "ca01070200000007000000030002".to_owned(),
            "lms refresh cost 3 hops 2",
        ),
        (Packet::Leave, "ca01070300000007".to_owned(), "lms leave"),
        (
            Packet::Req(request),
            format!("ca01070400000007{none}0000000140000000030000000400000002"),
            "lms req 3-4 attempt 2 past 1 hops left 64 turning point none",
        ),
        (
            Packet::Req(turned),
            format!("ca01070400000007{mapped}0002010140000000030000000400000002"),
            "lms req 3-4 attempt 2 past 1 hops left 64 turning point 10.0.0.9 p2 direct",
        ),
        (
            Packet::Dmcast { interface: PortId(2), data },
            "ca01070500000007000200000004000000022".to_owned() + "1",
            "lms dmcast on p2 seq 4 oldest 2 len 1",
        ),
        (
            Packet::Setup { previous: None, progress, timestamp: 258 },
            format!("ca01070600000007{none}00000005000000020000000000000102"),
            "lms setup next 5 oldest 2 time 258 ns previous none",
        ),
        (
            Packet::Spm { previous: Some(v4), progress },
            format!("ca01070700000007{mapped}0000000500000002"),
            "lms spm next 5 oldest 2 previous 10.0.0.9",
        ),
        (
            Packet::Data(data),
            "ca010708000000070000000000040000000221".to_owned(),
            "lms data seq 4 oldest 2 len 1",
        ),
        (
            Packet::Repair(data),
            "ca010709000000070000000000040000000221".to_owned(),
            "lms repair seq 4 oldest 2 len 1",
        ),
    ];
    for (packet, hex, line) in golden {
        let mut buf = Vec::new();
        packet.emit(AssociationId(7), &mut buf);
        let shown: String = buf.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(shown, hex, "{line}");
        assert_eq!(packet.to_string(), line);
    }
}

#[test]
fn fields_that_must_be_zero_are() {
    let parse = |hex: &str| {
        let bytes: Vec<u8> = (0..hex.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex digits"))
            .collect();
        Packet::parse(&bytes).map(|_| ())
    };
    let wrong = |field, value| Err(ParseError::Field { field, value });
    assert_eq!(parse("ca010708000000070001000000040000000221"), wrong("interface", 1));
    assert_eq!(parse("ca01070900000007ff00000000040000000221"), wrong("interface", 0xff00));
    let none = "0".repeat(32);
    assert_eq!(
        parse(&format!("ca01070400000007{none}0001000140000000030000000400000002")),
        wrong("interface", 1)
    );
    assert_eq!(
        parse(&format!("ca01070400000007{none}0000020140000000030000000400000002")),
        wrong("flags", 2)
    );
    assert_eq!(parse("ca01070a00000007"), Err(ParseError::Type(10)));
}
