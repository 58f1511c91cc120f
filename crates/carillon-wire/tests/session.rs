//! Session packets: golden bytes, round trips, and arbitrary bytes.

mod golden;
mod random;

use carillon_core::AssociationId;
use carillon_wire::ParseError;
use carillon_wire::session::{
    Attachment, Body, DatagramSizes, DistanceTo, Distances, EarlierBody, EarlierPacket, Identity, Invite,
    MAX_PEERS, MemberRole, Name, Nonce, Opening, OtherRelease, Packet, Padding, Peer, PeerList, RefuseReason,
    Release, RosterPage, Settings, State, Text, Verdict, WIRE_VERSION, emit_answer, emit_notices,
};
pub use golden::each_golden;

const ASSOCIATION: AssociationId = AssociationId(0x0102_0304);
const NONCE: Nonce = Nonce(0x1122_3344_5566_7788);

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().filter_map(|digit| digit.to_digit(16)).collect();
    digits.chunks(2).map(|pair| (pair[0] * 16 + pair[1]) as u8).collect()
}

pub fn emitted(body: Body<'_>) -> Vec<u8> {
    let packet = Packet { association: ASSOCIATION, body };
    let mut bytes = Vec::new();
    packet.emit(&mut bytes);
    assert_eq!(bytes.len(), packet.wire_len());
    bytes
}

fn golden(body: Body<'_>, bytes: &str, display: &str) {
    let packet = Packet { association: ASSOCIATION, body };
    let emitted = emitted(body);
    let Release { major, minor, patch } = Release::CURRENT;
    let opening = hex(&WIRE_VERSION.to_be_bytes()) + &hex(&[major, minor, patch]);
    assert_eq!(hex(&emitted), bytes.replace(' ', "").replace("OPENING", &opening));
    assert_eq!(Packet::parse(&emitted), Ok(packet));
    assert_eq!(packet.to_string(), display);
    // Offset at which an extension of a JOIN begins and a JOIN without one ends.
    let whole = match body {
        Body::Join { list: Some(_), .. } => Some(emitted.len() - 3 - 16),
        Body::Invite(Invite { job_name: Some(name), .. }) => Some(emitted.len() - 3 - name.len()),
        Body::Invite(Invite { asks: true, .. }) => Some(emitted.len() - 3),
        Body::Join { origin: Some(_), .. } => Some(emitted.len() - 3 - 17),
        Body::Invite(Invite { job: Some(_), .. }) => Some(emitted.len() - 3 - 16),
        Body::Join { cookie: Some(_), .. } => Some(emitted.len() - 3 - 8),
        Body::Join { attached, .. } if !attached.bytes().is_empty() => {
            Some(emitted.len() - 3 - attached.bytes().len())
        }
        _ => None,
    };
    // The part of an answer extends to the end of its packet.
    let fixed = match body {
        Body::Holdings { part, .. } => emitted.len() - part.bytes.len() + 1,
        _ => emitted.len(),
    };
    for len in (0..fixed).filter(|&len| Some(len) != whole) {
        assert!(Packet::parse(&emitted[..len]).is_err(), "{len} bytes of {display}");
    }
    let extra = [&emitted[..], &[0]].concat();
    assert!(Packet::parse(&extra).is_err(), "{display} with a byte more");
}

#[test]
fn golden_bytes() {
    each_golden(&mut golden);
}

#[test]
fn size_packet_has_the_requested_length() {
    for len in [8, 9, 1472, 65_507] {
        let mut bytes = emitted(Body::Size(Padding(len - 8)));
        assert_eq!(bytes.len(), len);
        let packet = Packet::parse(&bytes).unwrap();
        assert_eq!(packet.to_string(), format!("session a16909060 size {len}"));
        if let Some(last) = bytes[8..].last_mut() {
            *last = 7;
            assert_eq!(Packet::parse(&bytes), Err(ParseError::Field { field: "padding", value: 7 }));
        }
    }
}

#[test]
fn invalid_rosters_are_refused() {
    let mut list = Vec::new();
    let peer = Peer {
        identity: Identity(NONCE.0),
        part: MemberRole::Offers,
        gone: false,
        parent: 0,
        name: Name::new("x").unwrap(),
    };
    PeerList::encode([peer], &mut list);
    let page = RosterPage { edition: 1, total: 1, first: 0, peers: PeerList::new(&list).unwrap() };
    let good = emitted(Body::Roster(page));
    let with = |at: usize, value: &[u8]| {
        let mut bytes = good.clone();
        bytes[at..at + value.len()].copy_from_slice(value);
        match Packet::parse(&bytes) {
            Err(ParseError::Field { field, value }) => (field, value),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(with(12, &[0, 0]), ("total", 0));
    assert_eq!(with(12, &(MAX_PEERS as u16 + 1).to_be_bytes()), ("total", MAX_PEERS as u64 + 1));
    assert_eq!(with(14, &[0, 1]), ("first", 1), "one member of rank 1 where there is one in all");
    assert_eq!(with(16, &[0, 2]), ("count", 2));
    assert_eq!(with(26, &[16]), ("flags", 16), "who receives says so only where it helps");
    assert_eq!(with(26, &[5]), ("flags", 5), "who offers does not help");
    assert_eq!(with(26, &[32]), ("flags", 32));
    assert_eq!(with(26, &[8, 0, 0]), ("parent", 0), "who turns to the organiser does not say so");
    assert_eq!(with(26, &[8, 4, 0]), ("parent", 1024));
    assert_eq!(with(28, b"\n"), ("name", 10));
    assert!(Packet::parse(&good[..18]).is_err(), "a page of nobody");
    assert_eq!(PeerList::new(&[]), None);
    assert_eq!(PeerList::new(&list.repeat(200)), None, "more than fits a page");
}

#[test]
fn invalid_distances_are_refused_and_excess_is_cut() {
    let mut list = Vec::new();
    Distances::encode((0..999).map(|rank| DistanceTo { rank, micros: 7 }), &mut list);
    let distances = Distances::new(&list).unwrap();
    assert_eq!(distances.iter().count(), Distances::MAX_ENTRIES);
    let good = emitted(Body::Distances { nonce: NONCE, edition: 1, distances });
    assert!(good.len() <= 1200);
    let strange = [&good[..20], &[1, 4, 0, 0, 0, 0, 0]].concat();
    assert_eq!(Packet::parse(&strange), Err(ParseError::Field { field: "rank", value: 1024 }));
    let more = [&good[..20], &[181], &[0; 6 * 181]].concat();
    assert_eq!(Packet::parse(&more), Err(ParseError::Field { field: "count", value: 181 }));
}

#[test]
fn a_page_takes_as_many_members_as_fit_a_datagram() {
    let name = "n".repeat(64);
    let peer = Peer {
        identity: Identity(NONCE.0),
        part: MemberRole::Offers,
        gone: false,
        parent: 0,
        name: Name::new(&name).unwrap(),
    };
    let mut list = Vec::new();
    assert_eq!(PeerList::encode(std::iter::repeat_n(peer, 100), &mut list), 15);
    let peers = PeerList::new(&list).unwrap();
    assert_eq!((peers.len(), peers.iter().count()), (15, 15));
    assert!(peers.iter().all(|other| other == peer));
    let page = Body::Roster(RosterPage { edition: 1, total: 100, first: 85, peers });
    assert!(emitted(page).len() <= 1200);
}

#[test]
fn fields_with_impossible_values_are_named() {
    let field = |bytes: &[u8]| match Packet::parse(bytes) {
        Err(ParseError::Field { field, value }) => (field, value),
        other => panic!("{other:?}"),
    };
    let invite = emitted(Body::Invite(Invite {
        state: State::Gathering,
        max_payload: 1,
        progress_interval: 0,
        relays: true,
        sizes: DatagramSizes::default(),
        protocol: Name::new("p").unwrap(),
        sender: Name::new("s").unwrap(),
        settings: Settings::new("k=v").unwrap(),
        reason: Text::default(),
        job: None,
        asks: false,
        job_name: None,
    }));
    let with = |at: usize, value: u8| {
        let mut bytes = invite.clone();
        bytes[at] = value;
        bytes
    };
    assert_eq!(field(&with(14, b'\n')), ("name", 10));
    assert_eq!(field(&with(15, 9)), ("state", 9));
    assert_eq!(field(&with(18, 2)), ("relays", 2));
    assert_eq!(field(&with(22, 0)), ("max_payload", 0));
    assert_eq!(field(&with(28, 1)), ("least", 0));
    assert_eq!(field(&with(30, 1)), ("least", 1));
    assert_eq!(field(&with(31, 0x07)), ("protocol", 7));
    assert_eq!(field(&with(31, 0xFF)), ("protocol", 0xFF));
    assert_eq!(field(&with(33, b'-')), ("settings", 3));
    assert_eq!(field(&with(32, b'=')).0, "settings", "an empty key");
    assert_eq!(Packet::parse(&with(3, 99)), Err(ParseError::Type(99)));
    assert_eq!(Packet::parse(&with(1, 1)), Err(ParseError::Magic(0xCA01)), "the first version");
    assert_eq!(Packet::parse(&with(9, 4)), Err(ParseError::WireVersion(4)));
    let mut refuse =
        emitted(Body::Refuse { nonce: NONCE, reason: RefuseReason::Full, text: Text::default() });
    refuse[16] = 0;
    assert_eq!(field(&refuse), ("reason", 0));
    let mut report =
        emitted(Body::Report { nonce: NONCE, bytes: 0, verdict: Verdict::Verified, text: Text::default() });
    report[24] = 3;
    assert_eq!(field(&report), ("verdict", 3));
    // Empty and too long names.
    let join = emitted(Body::Join {
        nonce: NONCE,
        receive_buffer: 1,
        part: MemberRole::Offers,
        largest: 0,
        name: Name::new("x").unwrap(),
        attached: Attachment::default(),
        cookie: None,
        origin: None,
        list: None,
    });
    let mut stranger = join.clone();
    stranger[27] = 4;
    assert_eq!(field(&stranger), ("part", 4));
    // The length of an attachment must be 1 to the maximum and match its bytes.
    let attached = |len: u16, bytes: usize| {
        let tail = [2].into_iter().chain(len.to_be_bytes()).chain(vec![1; bytes]);
        join.iter().copied().chain(tail).collect::<Vec<u8>>()
    };
    assert!(Packet::parse(&attached(288, 288)).is_ok());
    assert_eq!(field(&attached(0, 0)), ("attached", 0));
    assert_eq!(field(&attached(289, 289)), ("attached", 289));
    assert!(Packet::parse(&attached(4, 3)).is_err() && Packet::parse(&attached(4, 5)).is_err());
    assert!(Attachment::new(&[0; 289]).is_none());
    let named = |len: u8, bytes: usize| [&join[..13], &[len], &vec![b'x'; bytes], &join[15..]].concat();
    assert_eq!(field(&named(0, 0)), ("name", 0));
    assert_eq!(field(&named(65, 65)), ("name", 65));
    // A length that points beyond the datagram.
    let short = &named(65, 65)[..30];
    assert_eq!(Packet::parse(short), Err(ParseError::Truncated { have: 30, need: 79 }));
}

/// Hidden characters, which end a line, move the cursor, or reverse the text, would let a name from the network write
/// anything on a terminal.
#[test]
fn no_text_has_hidden_characters() {
    for c in [
        '\n',
        '\u{1b}',
        '\u{7f}',
        '\u{9b}',
        '\u{200f}',
        '\u{202e}',
        '\u{2066}',
        '\u{2028}',
        '\u{feff}',
        '\u{e0041}',
    ] {
        let text = format!("a{c}b");
        assert_eq!(Name::new(&text), None, "{c:?}");
        assert_eq!(Text::new(&text), None, "{c:?}");
        assert_eq!(Settings::new(&format!("k=v{c}")), None, "{c:?}");
        assert_eq!(Name::clean(&text, "x"), "a b", "{c:?}");
        assert_eq!(Text::clean(&text), "a b", "{c:?}");
    }
    assert!(Name::new("नमस्ते\u{200d} zoë").is_some(), "joiners stay");
}

/// Releases from before wire versions drop every packet of this one, so notices use their formats.
#[test]
fn notices_to_earlier_releases_are_invitations_of_theirs() {
    let fixed = [
        "ca010001 01020304  00 1e 03 00 00000001 0000",
        "ca020001 01020304  00 1e 03 00 00000001 0000 0000 00",
    ];
    let sized = fixed[1].to_owned() + "0000 0000";
    for (number, begin) in [fixed[0], fixed[1], &sized].into_iter().enumerate() {
        let mut bytes = Vec::new();
        assert!(emit_notices(number, ASSOCIATION, Name::new("src").unwrap(), &mut bytes));
        let texts = hex(b"of a newer release of carillon") + &hex(b"src");
        assert_eq!(hex(&bytes), begin.replace(' ', "") + &texts);
        assert!(Packet::parse(&bytes).is_err());
        assert_eq!(EarlierPacket::parse(&bytes).map(|packet| packet.body), Some(EarlierBody::Notice));
    }
    assert!(!emit_notices(3, ASSOCIATION, Name::new("src").unwrap(), &mut Vec::new()));
}

/// The bytes are those of release 0.1.0 with session version 2.
#[test]
fn answers_of_earlier_releases_are_understood() {
    let parsed = |body: &str| {
        let bytes: Vec<u8> = unhex(body);
        EarlierPacket::parse(&bytes)
            .map(|packet| (packet.version, packet.association, format!("{:?}", packet.body)))
    };
    let named = |body: EarlierBody<'_>| Some((2, ASSOCIATION, format!("{body:?}")));
    assert_eq!(parsed("ca02000d010203041122334455667788"), named(EarlierBody::Ask(NONCE)));
    let decline = EarlierBody::Decline { name: Name::new("b").unwrap(), text: Text::new("no").unwrap() };
    assert_eq!(parsed("ca02000c01020304010262 6e6f"), named(decline));
    assert_eq!(parsed("ca02000201020304"), named(EarlierBody::Other));
    assert_eq!(parsed("ca03000201020304"), None);
    // INVITE of version 1, and of version 2 with all its fields: settings "k=1", no reason.
    let invite = named(EarlierBody::Invite(Name::new("src"))).map(|(_, session, body)| (session, body));
    for begin in [
        "ca010001 01020304 02 01 03 00 00000578 0003",
        "ca020001 01020304 02 01 03 00 00000578 0003 01f4 00 0000 0000",
    ] {
        let bytes = unhex(&(begin.to_owned() + &hex(b"psrck=1")));
        let packet = EarlierPacket::parse(&bytes).unwrap();
        assert_eq!(Some((packet.association, format!("{:?}", packet.body))), invite);
    }
    let mut answer = Vec::new();
    emit_answer(ASSOCIATION, Name::new("src").unwrap(), NONCE, &mut answer);
    assert_eq!(
        hex(&answer),
        "ca02000e010203041122334455667788".to_owned() + "00" + "56110cb92a012a79" + "00"
    );
}

/// Every release reads the sender's name and release, with any bytes behind the opening.
#[test]
fn openings_of_other_wire_versions_are_named() {
    for packet_type in [1u8, 2, 12] {
        let mut bytes = vec![0xca, 3, 0, packet_type, 1, 2, 3, 4];
        bytes.extend_from_slice(&[0x00, 0x09, 7, 8, 9, 2, b's', b'1']);
        bytes.extend_from_slice(&[0xff; 40]);
        let release = Release { major: 7, minor: 8, patch: 9 };
        assert_eq!(Packet::parse(&bytes), Err(ParseError::WireVersion(9)));
        let other = OtherRelease::Version { release, wire: 9 };
        assert_eq!(Opening::other_release(&bytes), Some(other));
        assert_eq!(other.to_string(), "release 7.8.9 with wire version 9");
        let (association, opening) = Opening::peek(&bytes).expect("an opening");
        assert_eq!((association, &*opening.name), (ASSOCIATION, "s1"));
    }
    assert_eq!(Opening::other_release(&[0xca, 2, 0, 1]), Some(OtherRelease::Earlier(2)));
    assert_eq!(Opening::other_release(&[0xca, 1, 2, 1]), None, "another protocol");
}

/// A later release of the same wire version can add fields.
#[test]
fn unknown_extensions_are_skipped_and_critical_ones_refused() {
    let join = Body::Join {
        nonce: NONCE,
        receive_buffer: 1,
        part: MemberRole::Receives,
        largest: 0,
        name: Name::new("a").unwrap(),
        attached: Attachment::new(b"x").unwrap(),
        cookie: None,
        origin: None,
        list: None,
    };
    let invite = Body::Invite(Invite {
        state: State::Running,
        max_payload: 1400,
        progress_interval: 500,
        relays: false,
        sizes: DatagramSizes::default(),
        protocol: Name::new("mbap").unwrap(),
        sender: Name::new("src").unwrap(),
        settings: Settings::default(),
        reason: Text::default(),
        job: None,
        asks: false,
        job_name: None,
    });
    let decline = Body::Decline { name: Name::new("a").unwrap(), text: Text::default() };
    for body in [join, invite, decline] {
        let bytes = emitted(body);
        for (more, fits) in [
            (&[0x70, 0, 2, 5, 5][..], true),
            (&[0x70, 0, 0, 0x71, 0, 0], true),
            (&[0xf0, 0, 2, 5, 5], false),
            (&[0x71, 0, 0, 0x70, 0, 0], false),
            (&[0x70, 0, 3, 5, 5], false),
        ] {
            let parsed = Packet::parse(&[&bytes[..], more].concat()).map(|packet| packet.body == body);
            assert_eq!(parsed.ok(), fits.then_some(true), "{more:?}");
        }
    }
}

#[test]
fn texts_are_cleaned_to_fit() {
    assert_eq!(Name::clean(" a\tb\u{85}", "f"), " a b");
    assert_eq!(Name::clean("\n", "fallback"), "fallback");
    let long = "é".repeat(60);
    assert_eq!(Name::clean(&long, "f").len(), 64);
    assert!(Text::new(&Text::clean(&long.repeat(9))).is_some());
    assert_eq!(Settings::encode([("a", 1), ("b", 2)]), "a=1\nb=2");
    assert!(Settings::new(&"k=v\n".repeat(300)).is_none());
    let pairs: Vec<_> = Settings::new("a=1=2\nb=").unwrap().pairs().collect();
    assert_eq!(pairs, [("a", "1=2"), ("b", "")]);
}
