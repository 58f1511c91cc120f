//! Packets for the dissector: of every kind, and invalid ones.

use carillon_core::{AssociationId, Format, Seeds};
use carillon_testkit::format_tests;
use carillon_testkit::fuzz::Input;
use carillon_wire::session::{
    Attachment, Body, Cookie, DatagramSizes, DistanceTo, Distances, HoldingsPart, Identity, Invite, JobId,
    ListId, MemberRole, Name, Nonce, Origin, Packet, Padding, Peer, PeerList, Proof, RefuseReason, Release,
    RosterPage, Settings, State, Terms, Text, Verdict, WIRE_VERSION, is_hidden,
};
use carillon_wire::{carillon, rra};

const ASSOCIATION: AssociationId = AssociationId(0x0102_0304);
const NONCE: Nonce = Nonce(0x8122_3344_5566_7788);
const FORMATS: [&Format; 2] = [&carillon::FORMAT, &rra::FORMAT];

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Golden packets of the wire formats.
pub fn golden() -> Vec<Vec<u8>> {
    let all = FORMATS.iter().flat_map(|format| format_tests(format).golden);
    all.map(|golden| super::bytes(&golden.hex.replace(' ', ""))).collect()
}

/// Valid packets with random field values.
pub fn fuzzed(count: usize) -> Vec<Vec<u8>> {
    let mut rng = Seeds::new(7).stream("dissector.fuzzed");
    let one = |at: usize| {
        let format = FORMATS[at % FORMATS.len()];
        let decisions: Vec<u8> = (0..64 + rng.below(200)).map(|_| rng.below(256) as u8).collect();
        let mut packet = Vec::new();
        (format_tests(format).fuzzed)(&mut Input::new(&decisions), ASSOCIATION, &mut packet);
        packet
    };
    (0..count).map(one).filter(|packet| super::shown(packet).is_some_and(|read| read.is_ok())).collect()
}

/// Packets with some bytes changed, removed or added.
pub fn mutated(good: &[Vec<u8>], count: usize) -> Vec<Vec<u8>> {
    let mut rng = Seeds::new(8).stream("dissector.mutated");
    let one = |_| {
        let mut packet = good[rng.below(good.len() as u64) as usize].clone();
        for _ in 0..1 + rng.below(4) {
            let len = packet.len().max(1) as u64;
            // Most changes are behind the envelope, since a packet with a changed envelope is refused early.
            let at =
                (if rng.chance(0.9) { 8 + rng.below(len.saturating_sub(8).max(1)) } else { rng.below(len) })
                    as usize;
            match rng.below(5) {
                0 => packet.truncate(1 + at),
                1 => packet.extend((0..rng.below(20)).map(|_| rng.below(256) as u8)),
                2 => packet.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << rng.below(8)),
                3 => packet
                    .iter_mut()
                    .skip(at)
                    .take(1)
                    .for_each(|byte| *byte = [0, 1, 0x7f, 0x80, 0xff][rng.below(5) as usize]),
                _ => packet.iter_mut().skip(at).take(1).for_each(|byte| *byte = rng.below(256) as u8),
            }
        }
        packet
    };
    (0..count).map(one).filter(|packet| !packet.is_empty()).collect()
}

/// Random bytes, some of which begin like packets.
pub fn random_bytes(count: usize) -> Vec<Vec<u8>> {
    let mut rng = Seeds::new(9).stream("dissector.random");
    let one = |_| {
        let mut packet: Vec<u8> = (0..1 + rng.below(120)).map(|_| rng.below(256) as u8).collect();
        let begin: [&[u8]; 5] = [&[], &[0xCA, 3, 0], &[0xCA, 1, 50], &[0xCA, 1, 3], &[0x5E, 0x10]];
        for (byte, other) in packet.iter_mut().zip(begin[rng.below(5) as usize]) {
            *byte = *other;
        }
        if let Some(kind) = packet.get_mut(3).filter(|_| rng.chance(0.8)) {
            *kind %= 24;
        }
        packet
    };
    (0..count).map(one).collect()
}

/// Session packets of every kind, with all optional fields.
pub fn every_session_packet() -> Vec<Vec<u8>> {
    let name = |text| Name::new(text).expect("a name");
    let text = |text| Text::new(text).expect("a text");
    let mut list = Vec::new();
    let peer =
        |identity, part, gone, parent, name| Peer { identity: Identity(identity), part, gone, parent, name };
    PeerList::encode(
        [
            peer(u64::MAX, MemberRole::Offers, false, 0, name("é 漢字")),
            peer(2, MemberRole::Receives, true, 3, name("b")),
            peer(3, MemberRole::Helps, false, 0, name("h")),
            peer(4, MemberRole::ReceivesAndHelps, false, 3, name("both")),
        ],
        &mut list,
    );
    let peers = PeerList::new(&list).expect("members");
    let mut far = Vec::new();
    Distances::encode(
        [DistanceTo { rank: 3, micros: 120 }, DistanceTo { rank: 1023, micros: u32::MAX }],
        &mut far,
    );
    let invite = |state, settings, reason| {
        Body::Invite(Invite {
            state,
            max_payload: 1400,
            progress_interval: 500,
            relays: state == State::Running,
            sizes: if state == State::Gathering {
                DatagramSizes { longest: 8972, least: 1252 }
            } else {
                DatagramSizes::default()
            },
            protocol: name("mbap"),
            sender: name("the sender"),
            settings: Settings::new(settings).expect("settings"),
            reason,
            job: (state == State::Running).then_some(JobId([7; 16])),
            asks: state == State::Closing,
            job_name: (state == State::Closing).then(|| name("nightly")),
        })
    };
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
    let join = |part, attached| Body::Join {
        nonce: NONCE,
        receive_buffer: 4 << 20,
        part,
        largest: 0x2310,
        name: name("a"),
        attached: Attachment::new(attached).expect("so many"),
        cookie: (part == MemberRole::Offers).then_some(Cookie(0xfedc_ba98_7654_3210)),
        origin: (part == MemberRole::Helps).then_some(Origin {
            process: 5,
            place: u64::MAX,
            resumes: true,
            is_done: true,
        }),
        list: (part == MemberRole::Receives).then_some(ListId([9; 16])),
    };
    let (nonce, terms) = (NONCE, Terms(0xfedc_ba98_7654_3210));
    let mut bodies = vec![
        invite(State::Gathering, "k=1\nw=a=b\nlast=", Text::default()),
        join(MemberRole::Receives, &[]),
        join(MemberRole::Offers, &[1, 2, 0]),
        join(MemberRole::Helps, &[7; 288]),
        join(MemberRole::ReceivesAndHelps, &[]),
        Body::Challenge { nonce, cookie: Cookie(7) },
        Body::Welcome { nonce, member: 3, terms },
        Body::Progress { nonce, bytes: u64::MAX },
        Body::Report { nonce, bytes: 12, verdict: Verdict::Verified, text: Text::default() },
        Body::Report { nonce, bytes: 9, verdict: Verdict::Failed, text: text("disk full") },
        Body::Report { nonce, bytes: 7, verdict: Verdict::Damaged, text: text("f differs") },
        Body::ReportAck { nonce },
        Body::Leave { nonce, text: text("ça suffit") },
        Body::Roster(RosterPage { edition: 3, total: 9, first: 5, peers }),
        Body::Present { proof: Proof(5) },
        Body::Ready { nonce, edition: 4 },
        Body::Decline { name: name("c"), text: text("too small") },
        Body::Ask { nonce },
        Body::Measure { edition: 4 },
        Body::Probe { token: 8 },
        Body::Echo { token: u64::MAX },
        Body::Distances { nonce, edition: 1, distances: Distances::new(&far).expect("distances") },
        Body::Distances { nonce, edition: 1, distances: Distances::default() },
        Body::Size(Padding::default()),
        Body::Size(Padding(1464)),
        Body::Holdings { nonce, part: HoldingsPart::new(1, 2000, 7, &[5; 1100]).expect("a part") },
        Body::HoldingsAck { nonce, question: 1, bytes: 1107 },
    ];
    bodies.extend(states.map(|state| invite(state, "", text("why"))));
    bodies.extend(states.map(|state| Body::Answer { nonce, state, terms, text: text("") }));
    bodies.extend(reasons.map(|reason| Body::Refuse { nonce, reason, text: text("because") }));
    let emit = |body| {
        let mut bytes = Vec::new();
        Packet { association: ASSOCIATION, body }.emit(&mut bytes);
        bytes
    };
    bodies.into_iter().map(emit).collect()
}

/// Bytes from hexadecimal digits, followed by others.
fn with(head: &str, rest: &[&[u8]]) -> Vec<u8> {
    [&super::bytes(&head.replace(' ', ""))[..], &rest.concat()].concat()
}

/// Values at the limits of their ranges, on both sides.
pub fn edges() -> Vec<Vec<u8>> {
    let with =
        |head: &str, rest: &[&[u8]]| [&super::bytes(&head.replace(' ', ""))[..], &rest.concat()].concat();
    let leave = |text: &[u8]| with("ca030008 01020304 1122334455667788", &[&[text.len() as u8], text]);
    let mut packets = Vec::new();
    // Texts: characters at the limits of the escaped ranges, and bytes that are not UTF-8.
    let is_edge = |code: &u32| {
        let hidden = |code: u32| char::from_u32(code).is_none_or(is_hidden);
        [code.saturating_sub(1), code + 1].into_iter().any(|other| hidden(other) != hidden(*code))
    };
    let edges = (0..=u32::from(char::MAX)).filter(is_edge).filter_map(char::from_u32);
    packets.extend(edges.map(|c| leave(c.to_string().as_bytes())));
    let wrong: [&[u8]; 20] = [
        b"\xc0\x80",
        b"\xc1\xbf",
        b"\xc2\xa1",
        b"\xe0\x80\x80",
        b"\xe0\x9f\xbf",
        b"\xe0\xa0\x80",
        b"\xed\x9f\xbf",
        b"\xed\xa0\x80",
        b"\xed\xbf\xbf",
        b"\xee\x80\x80",
        b"\xf0\x8f\xbf\xbf",
        b"\xf0\x90\x80\x80",
        b"\xf4\x8f\xbf\xbf",
        b"\xf4\x90\x80\x80",
        b"\xf5\x80\x80\x80",
        b"\x80",
        b"\xff",
        b"\xe2\x82",
        b"a\xc3",
        b"\xc3a",
    ];
    packets.extend(wrong.map(leave));
    packets.extend([0, 1, 128, 129, 255].map(|len| leave(&vec![b'x'; len])));
    let Release { major, minor, patch } = Release::CURRENT;
    let opening = |wire: u16| [&wire.to_be_bytes()[..], &[major, minor, patch]].concat();
    let ours = opening(WIRE_VERSION);
    let later = opening(WIRE_VERSION + 1);
    for len in [0u16, 1, 64, 65] {
        // DECLINE, JOIN with and without extensions.
        let name = [&[len as u8][..], &vec![b'n'; len.into()]].concat();
        packets.push(with("ca03000c 01020304", &[&ours, &name, &[0]]));
        packets.push(with("ca03000c 01020304", &[&later, &name, &[0]]));
        let join: [&[u8]; 3] =
            [&ours, &name, &super::bytes("11223344556677880040000000 05dc".replace(' ', "").as_str())];
        let join = join.concat();
        packets.push(with("ca030002 01020304", &[&join]));
        for kind in [0u8, 1, 2, 3, 4, 0x7f, 0x80, 0xff] {
            for attached in [0u16, 1, 8, 288, 289] {
                let bytes = vec![7; attached.into()];
                let extension = [&[kind][..], &attached.to_be_bytes(), &bytes].concat();
                packets.push(with("ca030002 01020304", &[&join, &extension]));
                packets.push(with("ca030002 01020304", &[&join, &extension, &extension]));
                packets.push(with("ca03000c 01020304", &[&ours, &name, &[0], &extension]));
            }
        }
        for part in 0..6 {
            let nonce = super::bytes("112233445566778800400000");
            packets.push(with("ca030002 01020304", &[&ours, &name, &nonce, &[part, 0, 0]]));
        }
    }
    let invite = |lens: [u8; 4], payload: u32, settings: &[u8], rest: &[&[u8]]| {
        let head: [&[u8]; 6] =
            [&ours, b"\x01s", &lens, &payload.to_be_bytes(), &(settings.len() as u16).to_be_bytes(), &[0, 5]];
        with("ca030001 01020304", &[&head.concat(), &rest.concat()])
    };
    for settings in ["", "=", "a=", "=a", "a", "a=1\n", "a=1\nb=2", "a=1\n\nb=2", "a=1\n=2", "a=\u{7f}", "\n"]
    {
        for payload in [0u32, 1] {
            let settings = settings.as_bytes();
            packets.push(invite([0, 1, 0, 0], payload, settings, &[&[0; 4], b"p", settings]));
        }
    }
    for len in [900usize, 901] {
        let settings = [&vec![b'='; len - 1][..], b"x"].concat();
        packets.push(invite([0, 1, 0, 1], 1, &settings, &[&[0, 2, 0, 1], b"p", &settings]));
        let settings = [b"x", &vec![b'='; len - 1][..]].concat();
        packets.push(invite([0, 1, 0, 1], 1, &settings, &[&[0, 2, 0, 1], b"p", &settings]));
    }
    for (longest, least) in
        [(0u16, 0u16), (0, 1), (1, 0), (1, 1), (1, 2), (u16::MAX, 1), (u16::MAX, u16::MAX)]
    {
        packets.push(invite([0, 1, 0, 0], 1, b"", &[&longest.to_be_bytes(), &least.to_be_bytes(), b"p"]));
    }
    for last in [0, 1, 255] {
        packets.push(with("ca030013 01020304 0000", &[&[last]]));
    }
    // Rosters, distances, states.
    for (total, first, count) in
        [(0u16, 0u16, 1u16), (1, 0, 1), (1, 1, 1), (1024, 1023, 1), (1025, 0, 1), (9, 0, 0), (9, 0, 2)]
    {
        for flags in 0..=32u8 {
            for parent in [0u16, 1, 1023, 1024] {
                let parent = if flags & 8 == 0 { Vec::new() } else { parent.to_be_bytes().to_vec() };
                let rest: [&[u8]; 7] = [
                    &total.to_be_bytes(),
                    &first.to_be_bytes(),
                    &count.to_be_bytes(),
                    &[0; 8],
                    &[flags],
                    &parent,
                    b"\x01a",
                ];
                packets.push(with("ca030009 01020304 00000001", &rest));
            }
        }
    }
    for (count, rank) in [(0u8, 0u16), (1, 1023), (1, 1024), (180, 5), (181, 5), (255, 5)] {
        let each = [&rank.to_be_bytes()[..], &[0, 0, 0, 9]].concat().repeat(count.into());
        packets.push(with("ca030012 01020304 1122334455667788 00000001", &[&[count], &each]));
    }
    for value in 0..=8 {
        packets.push(with("ca03000e 01020304 1122334455667788", &[&[value], &[0; 8], &[0]]));
        packets.push(with("ca030004 01020304 1122334455667788", &[&[value, 0]]));
        packets.push(with("ca030006 01020304 1122334455667788 0000000000000001", &[&[value, 0]]));
    }
    packets.extend(blocks());
    packets
}

/// Packets of blocks with values at the limits of their ranges, and random lists of positions.
fn blocks() -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    let halves = [0u16, 1, 2, 3, 5, 4096, 16_383, 16_384, 16_385, 65_535];
    for one in halves {
        for other in halves {
            let (one, other) = (&one.to_be_bytes()[..], &other.to_be_bytes()[..]);
            packets.push(with("ca013201 01020304 00000007", &[one, other, &[0, 0], b"xyz"]));
            packets.push(with("ca013202 01020304 00000007 0008", &[one, other, &[0; 4], b"abcd"]));
            packets.push(with("ca013202 01020304 00000007", &[one, &[0, 1], other, &[0; 4], b"abc"]));
            let status = "ca013204 01020304 00000001 00000000 00000003 00000004 0001 00000007 0000";
            packets.push(with(status, &[one, &other[1..], &[0]]));
        }
    }
    for (blocks, asked, question) in
        [(64u16, 64u16, 1u8), (65, 0, 1), (0, 65, 1), (0, 1, 0), (0, 0, 0), (1, 1, 9)]
    {
        let list = [&[0, 0, 0, 1, 0, 3, 0, 0][..]].concat().repeat(blocks.into());
        let names = vec![1; 4 * usize::from(asked)];
        let rest: [&[u8]; 6] =
            [&[question], &[0; 8], &blocks.to_be_bytes(), &asked.to_be_bytes(), &list, &names];
        packets.push(with("ca013203 01020304 00000007 00000001 000000", &rest));
    }
    for words in [0u16, 1, 127, 128, 129, 255, 256] {
        let map = vec![3; 8 * usize::from(words)];
        let status = "ca013204 01020304 00000001 00000000 00000003 00000004 0001 00000007 0000 0001 00";
        packets.push(with(status, &[&words.to_be_bytes()[1..], &map]));
        packets
            .push(with("ca010302 01020304 00000001 00000002 00000003 0004", &[&words.to_be_bytes(), &map]));
    }
    let mut rng = Seeds::new(10).stream("dissector.places");
    for _ in 0..6000 {
        let length = [0u16, 1, 2, 3, 15, 16, 17, 18, 33, 100, 1000, 16_384, 16_385][rng.below(13) as usize];
        let (mask, len) = (rng.below(256) as u8, rng.below(20));
        let list: Vec<u8> =
            (0..len).map(|_| if rng.chance(0.1) { 0xff } else { rng.below(256) as u8 & mask }).collect();
        let count = rng.below(18) as u8;
        packets.push(with("ca013205 01020304 00000007", &[&length.to_be_bytes(), &[0, 0, count], &list]));
    }
    // Gaps that use all bits of a list.
    for (length, count) in [(16_384u16, 10u8), (16_384, 2), (17, 16), (2000, 12)] {
        for ones in 100..136usize {
            let mut list = vec![0u8; 18];
            (0..ones).for_each(|at| list[at / 8] |= 0x80 >> (at % 8));
            packets.push(with("ca013205 01020304 00000007", &[&length.to_be_bytes(), &[0, 0, count], &list]));
        }
    }
    packets
}
