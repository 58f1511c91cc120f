//! Random packets and random bytes.

use carillon_core::AssociationId;
use carillon_wire::session::{
    Attachment, Body, Cookie, DatagramSizes, DistanceTo, Distances, HoldingsPart, Identity, Invite, ListId,
    MAX_PEERS, MemberRole, Name, Nonce, Opening, Packet, Padding, Peer, PeerList, Proof, RefuseReason,
    RosterPage, Settings, State, Terms, Text, Verdict,
};
use proptest::prelude::*;

fn name() -> impl Strategy<Value = String> {
    "[ -~é]{1,64}".prop_map(|text| Name::clean(&text, "x"))
}

fn text() -> impl Strategy<Value = String> {
    "[ -~é]{0,128}".prop_map(|text| Text::clean(&text))
}

fn settings() -> impl Strategy<Value = String> {
    proptest::collection::vec(("[a-z_]{1,12}", "[ -~]{0,20}"), 0..20).prop_map(Settings::encode)
}

prop_compose! {
    /// Draws a packet of any type, as bytes.
    fn any_packet()(
        kind in 0usize..21,
        association: u32,
        nonce: u64,
        count: u64,
        number: u32,
        flag: bool,
        state in 0usize..6,
        reason in 0usize..7,
        name in name(),
        attached in proptest::collection::vec(any::<u8>(), 0..=Attachment::MAX_LEN),
        other in name(),
        text in text(),
        settings in settings(),
    ) -> Vec<u8> {
        let nonce = Nonce(nonce);
        let states = [
            State::Gathering,
            State::Assembling,
            State::Running,
            State::Closing,
            State::Finished,
            State::Aborted,
        ];
        let reasons = [
            RefuseReason::AlreadyStarted,
            RefuseReason::NameTaken,
            RefuseReason::NotExpected,
            RefuseReason::Full,
            RefuseReason::Expelled,
            RefuseReason::Nonce,
            RefuseReason::Later,
            RefuseReason::Done,
        ];
        let (name, text) = (Name::new(&name).unwrap(), Text::new(&text).unwrap());
        let mut list = Vec::new();
        let gone = number & 1 == 1;
        let parts = [MemberRole::Receives, MemberRole::Offers, MemberRole::Helps, MemberRole::ReceivesAndHelps];
        let part = parts[usize::from(flag) + 2 * usize::from(number & 2 == 2)];
        let parent = (number >> 8) as u16 % MAX_PEERS as u16;
        let peer = Peer { identity: Identity(nonce.0), part, gone, parent, name };
        let peers = 1 + PeerList::encode(std::iter::repeat_n(peer, count as usize % 20), &mut list);
        if list.is_empty() {
            PeerList::encode([peer], &mut list);
        }
        let answer = [&attached[..], &[7]].concat();
        let mut far = Vec::new();
        let one = DistanceTo { rank: number as u16 % MAX_PEERS as u16, micros: number };
        Distances::encode(std::iter::repeat_n(one, count as usize % 5), &mut far);
        let body = match kind {
            8 => Body::Roster(RosterPage {
                edition: number,
                total: (peers + reason) as u16,
                first: reason as u16,
                peers: PeerList::new(&list).unwrap(),
            }),
            9 => Body::Present { proof: Proof(nonce.0) },
            10 => Body::Ready { nonce, edition: number },
            11 => Body::Ask { nonce },
            12 => Body::Answer { nonce, state: states[state], terms: Terms(count), text },
            13 => Body::Decline { name, text },
            14 => Body::Measure { edition: number },
            15 => Body::Probe { token: count },
            16 => Body::Echo { token: count },
            19 => Body::Holdings { nonce, part: HoldingsPart::new(number, attached.len() as u32 + 1, 0, &answer).unwrap() },
            20 => Body::HoldingsAck { nonce, question: number, bytes: count as u32 },
            18 => Body::Size(Padding(number as usize % 1000)),
            17 => Body::Distances { nonce, edition: number, distances: Distances::new(&far).unwrap() },
            0 => Body::Invite(Invite {
                state: states[state],
                max_payload: number.max(1),
                progress_interval: number as u16,
                relays: flag,
                sizes: DatagramSizes { longest: number as u16 | 1, least: (number as u16 | 1).min(count as u16 % 9000 + 1) },
                protocol: Name::new(&other).unwrap(),
                sender: name,
                settings: Settings::new(&settings).unwrap(),
                reason: text, job: None, asks: flag, job_name: flag.then_some(name) }),
            1 => {
                let attached = Attachment::new(&attached).unwrap();
                let part = [MemberRole::Receives, MemberRole::Offers, MemberRole::Helps][number as usize % 3];
                Body::Join { nonce, receive_buffer: number, part, largest: number as u16, name, attached, cookie: flag.then_some(Cookie(count)), origin: None, list: flag.then_some(ListId([number as u8; 16])) }
            }
            2 => Body::Welcome { nonce, member: number, terms: Terms(count) },
            3 => Body::Refuse { nonce, reason: reasons[reason], text },
            4 => Body::Progress { nonce, bytes: count },
            5 => Body::Report { nonce, bytes: count, verdict: if flag { Verdict::Verified } else { Verdict::Damaged }, text },
            6 => Body::ReportAck { nonce },
            _ => Body::Leave { nonce, text },
        };
        let packet = Packet { association: AssociationId(association), body };
        let mut bytes = Vec::new();
        packet.emit(&mut bytes);
        assert_eq!(Packet::parse(&bytes), Ok(packet));
        assert_eq!(packet.wire_len(), bytes.len());
        bytes
    }
}

/// Checks that emitting a parsed packet gives the same bytes, or the same packet where releases and unknown
/// extensions are lost.
fn canonical(bytes: &[u8]) {
    if let Ok(packet) = Packet::parse(bytes) {
        let mut again = Vec::new();
        packet.emit(&mut again);
        if Opening::peek(bytes).is_none() {
            assert_eq!(again, bytes);
        }
        assert_eq!(Packet::parse(&again), Ok(packet));
        assert!(again.len() <= bytes.len());
        assert!(!packet.to_string().contains('\n'));
    }
}

proptest! {
    #[test]
    fn emitted_packets_parse_back(bytes in any_packet()) {
        canonical(&bytes);
        prop_assert!(bytes.len() <= 1200, "an invitation fits the smallest datagram of IPv6");
        prop_assert!(!carillon_wire::xtp::is_packet(&bytes), "it would be taken for one that goes right over IP");
    }

    #[test]
    fn parsed_packets_are_emitted_byte_for_byte(
        bytes in any_packet(), at: prop::sample::Index, value: u8, len: prop::sample::Index
    ) {
        let mut changed = bytes.clone();
        let at = at.index(changed.len());
        changed[at] = value;
        canonical(&changed);
        canonical(&changed[..len.index(changed.len())]);
    }

    #[test]
    fn no_bytes_make_the_parser_panic(
        packet_type in 0u8..20, rest in proptest::collection::vec(any::<u8>(), 0..200)
    ) {
        canonical(&rest);
        canonical(&[&[0xCA, 3, 0, packet_type, 0, 0, 0, 7], &rest[..]].concat());
    }
}
