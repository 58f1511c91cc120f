//! Session packets: golden bytes, round trips, and arbitrary bytes.

use carillon_core::AssociationId;
use carillon_wire::ParseError;
use carillon_wire::session::{
    Attachment, Body, Cookie, DatagramSizes, DistanceTo, Distances, EarlierBody, EarlierPacket, HoldingsPart,
    Identity, Invite, JobId, ListId, MAX_PEERS, MemberRole, Name, Nonce, Opening, Origin, OtherRelease,
    Packet, Padding, Peer, PeerList, Proof, RefuseReason, Release, RosterPage, Settings, State, Terms, Text,
    Verdict, WIRE_VERSION, emit_answer, emit_notices,
};
use proptest::prelude::*;

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

/// Passes each golden packet with its bytes and its line to `check`.
pub fn each_golden(check: &mut dyn FnMut(Body<'_>, &str, &str)) {
    check(
        Body::Invite(Invite {
            state: State::Running,
            max_payload: 1400,
            progress_interval: 500,
            relays: false,
            sizes: DatagramSizes::default(),
            protocol: Name::new("mbap").unwrap(),
            sender: Name::new("src").unwrap(),
            settings: Settings::new("k=1\nw=2").unwrap(),
            reason: Text::default(),
            job: None,
            asks: false,
            job_name: None,
        }),
        "ca030001 01020304  OPENING 03 737263  01 04 00 00 00000578 0007 01f4 0000 0000 6d626170 6b3d310a773d32",
        "session a16909060 invite running from \"src\" protocol mbap max payload 1400 progress 500 ms k=1 w=2",
    );
    check(
        Body::Invite(Invite {
            state: State::Gathering,
            max_payload: 8937,
            progress_interval: 500,
            relays: false,
            sizes: DatagramSizes { longest: 8972, least: 1252 },
            protocol: Name::new("mbap").unwrap(),
            sender: Name::new("s").unwrap(),
            settings: Settings::default(),
            reason: Text::default(),
            job: None,
            asks: false,
            job_name: None,
        }),
        "ca030001 01020304  OPENING 01 73  00 04 00 00 000022e9 0000 01f4 230c 04e4 6d626170",
        "session a16909060 invite gathering from \"s\" protocol mbap max payload 8937 progress 500 ms \
         datagrams 1252 to 8972",
    );
    check(
        Body::Join {
            nonce: NONCE,
            receive_buffer: 0x0001_0000,
            part: MemberRole::Receives,
            largest: 0,
            name: Name::new("zoë").unwrap(),
            attached: Attachment::default(),
            cookie: None,
            origin: None,
            list: None,
        },
        "ca030002 01020304  OPENING 04 7a6fc3ab  1122334455667788 00010000 00 0000",
        "session a16909060 join 1122334455667788 \"zoë\" receive buffer 65536",
    );
    check(
        Body::Join {
            nonce: NONCE,
            receive_buffer: 0x0001_0000,
            part: MemberRole::Offers,
            largest: 0,
            name: Name::new("a").unwrap(),
            attached: Attachment::new(&[0, 0xFF, 7]).unwrap(),
            cookie: None,
            origin: None,
            list: None,
        },
        "ca030002 01020304  OPENING 01 61  1122334455667788 00010000 01 0000  02 0003 00ff07",
        "session a16909060 join 1122334455667788 \"a\" receive buffer 65536 offers attached 3 bytes",
    );
    check(
        Body::Welcome { nonce: NONCE, member: 5, terms: Terms(0xAB) },
        "ca030003 01020304  1122334455667788 00000005 00000000000000ab",
        "session a16909060 welcome 1122334455667788 member 5 terms 00000000000000ab",
    );
    check(
        Body::Refuse { nonce: NONCE, reason: RefuseReason::NameTaken, text: Text::new("no").unwrap() },
        "ca030004 01020304  1122334455667788 02 02 6e6f",
        "session a16909060 refuse 1122334455667788 name taken (no)",
    );
    check(
        Body::Progress { nonce: NONCE, bytes: 9 },
        "ca030005 01020304  1122334455667788 0000000000000009",
        "session a16909060 progress 1122334455667788 bytes 9",
    );
    check(
        Body::Report {
            nonce: NONCE,
            bytes: 9,
            verdict: Verdict::Failed,
            text: Text::new("disk full").unwrap(),
        },
        "ca030006 01020304  1122334455667788 0000000000000009 00 09 6469736b2066756c6c",
        "session a16909060 report 1122334455667788 failed bytes 9 (disk full)",
    );
    check(
        Body::ReportAck { nonce: NONCE },
        "ca030007 01020304  1122334455667788",
        "session a16909060 report ack 1122334455667788",
    );
    check(
        Body::Leave { nonce: NONCE, text: Text::default() },
        "ca030008 01020304  1122334455667788 00",
        "session a16909060 leave 1122334455667788",
    );
    let mut list = Vec::new();
    let peer = |identity, offers, gone, name| Peer {
        identity: Identity(identity),
        part: if offers { MemberRole::Offers } else { MemberRole::Receives },
        gone,
        parent: 0,
        name: Name::new(name).unwrap(),
    };
    assert_eq!(PeerList::encode([peer(1, true, false, "a"), peer(2, false, true, "é")], &mut list), 2);
    check(
        Body::Roster(RosterPage { edition: 3, total: 9, first: 7, peers: PeerList::new(&list).unwrap() }),
        "ca030009 01020304  00000003 0009 0007 0002 0000000000000001 01 01 61 0000000000000002 02 02 c3a9",
        "session a16909060 roster edition 3 from 7 of 9: \
         0000000000000001 \"a\" offers 0000000000000002 \"é\" gone",
    );
    // A helper, its child, and a designated receiver.
    let mut list = Vec::new();
    let helper = Peer { part: MemberRole::Helps, ..peer(1, false, false, "h") };
    let member = Peer { parent: 7, ..peer(2, false, false, "a") };
    let both = Peer { part: MemberRole::ReceivesAndHelps, ..peer(3, false, false, "b") };
    PeerList::encode([helper, member, both], &mut list);
    check(
        Body::Roster(RosterPage { edition: 1, total: 10, first: 7, peers: PeerList::new(&list).unwrap() }),
        "ca030009 01020304  00000001 000a 0007 0003 0000000000000001 04 01 68 0000000000000002 08 0007 01 61 \
         0000000000000003 14 01 62",
        "session a16909060 roster edition 1 from 7 of 10: \
         0000000000000001 \"h\" helps 0000000000000002 \"a\" turns to 7 \
         0000000000000003 \"b\" receives and helps",
    );
    check(
        Body::Join {
            nonce: NONCE,
            receive_buffer: 0x0001_0000,
            part: MemberRole::Helps,
            largest: 0x2310,
            name: Name::new("h").unwrap(),
            attached: Attachment::default(),
            cookie: None,
            origin: None,
            list: None,
        },
        "ca030002 01020304  OPENING 01 68  1122334455667788 00010000 02 2310",
        "session a16909060 join 1122334455667788 \"h\" receive buffer 65536 helps largest datagram 8976",
    );
    check(
        Body::Join {
            nonce: NONCE,
            receive_buffer: 1,
            part: MemberRole::Receives,
            largest: 0,
            name: Name::new("a").unwrap(),
            attached: Attachment::default(),
            cookie: Some(Cookie(0x99AA_BBCC_DDEE_FF00)),
            origin: None,
            list: None,
        },
        "ca030002 01020304  OPENING 01 61  1122334455667788 00000001 00 0000  03 0008 99aabbccddeeff00",
        "session a16909060 join 1122334455667788 \"a\" receive buffer 1 cookie 99aabbccddeeff00",
    );
    check(
        Body::Join {
            nonce: NONCE,
            receive_buffer: 1,
            part: MemberRole::Receives,
            largest: 0,
            name: Name::new("a").unwrap(),
            attached: Attachment::default(),
            cookie: None,
            origin: Some(Origin { process: 5, place: 6, resumes: true, is_done: true }),
            list: None,
        },
        "ca030002 01020304  OPENING 01 61  1122334455667788 00000001 00 0000  \
         04 0011 0000000000000005 0000000000000006 03",
        "session a16909060 join 1122334455667788 \"a\" receive buffer 1 process 0000000000000005 place \
         0000000000000006 resumes done",
    );
    check(
        Body::Invite(Invite {
            state: State::Gathering,
            max_payload: 1400,
            progress_interval: 500,
            relays: false,
            sizes: DatagramSizes::default(),
            protocol: Name::new("mbap").unwrap(),
            sender: Name::new("s").unwrap(),
            settings: Settings::default(),
            reason: Text::default(),
            job: Some(JobId([0xab; 16])),
            asks: false,
            job_name: None,
        }),
        "ca030001 01020304  OPENING 01 73  00 04 00 00 00000578 0000 01f4 0000 0000 6d626170 \
         01 0010 abababababababababababababababab",
        "session a16909060 invite gathering from \"s\" protocol mbap max payload 1400 progress 500 ms \
         job abababababababababababababababab",
    );
    check(
        Body::Invite(Invite {
            state: State::Gathering,
            max_payload: 1400,
            progress_interval: 500,
            relays: false,
            sizes: DatagramSizes::default(),
            protocol: Name::new("mbap").unwrap(),
            sender: Name::new("s").unwrap(),
            settings: Settings::default(),
            reason: Text::default(),
            job: None,
            asks: true,
            job_name: None,
        }),
        "ca030001 01020304  OPENING 01 73  00 04 00 00 00000578 0000 01f4 0000 0000 6d626170 05 0000",
        "session a16909060 invite gathering from \"s\" protocol mbap max payload 1400 progress 500 ms asks",
    );
    check(
        Body::Invite(Invite {
            state: State::Gathering,
            max_payload: 1400,
            progress_interval: 500,
            relays: false,
            sizes: DatagramSizes::default(),
            protocol: Name::new("mbap").unwrap(),
            sender: Name::new("s").unwrap(),
            settings: Settings::default(),
            reason: Text::default(),
            job: None,
            asks: false,
            job_name: Name::new("é"),
        }),
        "ca030001 01020304  OPENING 01 73  00 04 00 00 00000578 0000 01f4 0000 0000 6d626170 06 0002 c3a9",
        "session a16909060 invite gathering from \"s\" protocol mbap max payload 1400 progress 500 ms job name \"é\"",
    );
    check(
        Body::Join {
            nonce: NONCE,
            receive_buffer: 1,
            part: MemberRole::Receives,
            largest: 0,
            name: Name::new("a").unwrap(),
            attached: Attachment::default(),
            cookie: None,
            origin: None,
            list: Some(ListId([0xcd; 16])),
        },
        "ca030002 01020304  OPENING 01 61  1122334455667788 00000001 00 0000  \
         05 0010 cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd",
        "session a16909060 join 1122334455667788 \"a\" receive buffer 1 list cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd",
    );
    check(
        Body::Holdings { nonce: NONCE, part: HoldingsPart::new(2, 259, 256, &[1, 2, 3]).unwrap() },
        "ca030015 01020304  1122334455667788 00000002 00000103 00000100 010203",
        "session a16909060 holdings 1122334455667788 question 2 offset 256 length 3 of 259",
    );
    check(
        Body::HoldingsAck { nonce: NONCE, question: 2, bytes: 259 },
        "ca030016 01020304  1122334455667788 00000002 00000103",
        "session a16909060 holdings ack 1122334455667788 question 2 bytes 259",
    );
    check(
        Body::Challenge { nonce: NONCE, cookie: Cookie(0x99AA_BBCC_DDEE_FF00) },
        "ca030014 01020304  1122334455667788 99aabbccddeeff00",
        "session a16909060 challenge 1122334455667788 cookie 99aabbccddeeff00",
    );
    check(
        Body::Present { proof: Proof(NONCE.0) },
        "ca03000a 01020304  1122334455667788",
        "session a16909060 present 1122334455667788",
    );
    check(
        Body::Ready { nonce: NONCE, edition: 3 },
        "ca03000b 01020304  1122334455667788 00000003",
        "session a16909060 ready 1122334455667788 edition 3",
    );
    check(
        Body::Decline { name: Name::new("b").unwrap(), text: Text::new("came after the start").unwrap() },
        "ca03000c 01020304  OPENING 01 62  14 63616d6520616674657220746865207374617274",
        "session a16909060 decline \"b\" (came after the start)",
    );
    check(
        Body::Ask { nonce: NONCE },
        "ca03000d 01020304  1122334455667788",
        "session a16909060 ask 1122334455667788",
    );
    check(
        Body::Answer {
            nonce: NONCE,
            state: State::Aborted,
            terms: Terms(0xAB),
            text: Text::new("no").unwrap(),
        },
        "ca03000e 01020304  1122334455667788 04 00000000000000ab 02 6e6f",
        "session a16909060 answer 1122334455667788 aborted terms 00000000000000ab (no)",
    );
    check(Body::Measure { edition: 3 }, "ca03000f 01020304  00000003", "session a16909060 measure edition 3");
    check(
        Body::Probe { token: NONCE.0 },
        "ca030010 01020304  1122334455667788",
        "session a16909060 probe 1122334455667788",
    );
    check(
        Body::Echo { token: NONCE.0 },
        "ca030011 01020304  1122334455667788",
        "session a16909060 echo 1122334455667788",
    );
    let mut list = Vec::new();
    let far = [(0, 41_000), (4, 900)].map(|(rank, micros)| DistanceTo { rank, micros });
    Distances::encode(far, &mut list);
    check(
        Body::Distances { nonce: NONCE, edition: 3, distances: Distances::new(&list).unwrap() },
        "ca030012 01020304  1122334455667788 00000003 02  0000 0000a028  0004 00000384",
        "session a16909060 distances 1122334455667788 edition 3 0: 41000 us 4: 900 us",
    );
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
