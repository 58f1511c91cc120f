//! Golden bytes of each session packet.

use carillon_wire::session::{
    Attachment, Body, Cookie, DatagramSizes, DistanceTo, Distances, HoldingsPart, Identity, Invite, JobId,
    ListId, MemberRole, Name, Origin, Peer, PeerList, Proof, RefuseReason, RosterPage, Settings, State,
    Terms, Text, Verdict,
};

use super::NONCE;

/// Passes each golden packet with its bytes and its line to `check`.
pub fn each_golden(check: &mut dyn FnMut(Body<'_>, &str, &str)) {
    invitations(check);
    requests_to_join(check);
    join_extensions(check);
    feedback(check);
    questions(check);
    rosters(check);
    measurements(check);
}

/// Invitations.
fn invitations(check: &mut dyn FnMut(Body<'_>, &str, &str)) {
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
    let plain = Invite {
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
        job_name: None,
    };
    check(
        Body::Invite(Invite { job: Some(JobId([0xab; 16])), ..plain }),
        "ca030001 01020304  OPENING 01 73  00 04 00 00 00000578 0000 01f4 0000 0000 6d626170 \
         01 0010 abababababababababababababababab",
        "session a16909060 invite gathering from \"s\" protocol mbap max payload 1400 progress 500 ms \
         job abababababababababababababababab",
    );
    check(
        Body::Invite(Invite { asks: true, ..plain }),
        "ca030001 01020304  OPENING 01 73  00 04 00 00 00000578 0000 01f4 0000 0000 6d626170 05 0000",
        "session a16909060 invite gathering from \"s\" protocol mbap max payload 1400 progress 500 ms asks",
    );
    check(
        Body::Invite(Invite { job_name: Name::new("é"), ..plain }),
        "ca030001 01020304  OPENING 01 73  00 04 00 00 00000578 0000 01f4 0000 0000 6d626170 06 0002 c3a9",
        "session a16909060 invite gathering from \"s\" protocol mbap max payload 1400 progress 500 ms job name \"é\"",
    );
}

/// JOIN, with each role.
fn requests_to_join(check: &mut dyn FnMut(Body<'_>, &str, &str)) {
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
}

/// JOIN, with each extension.
fn join_extensions(check: &mut dyn FnMut(Body<'_>, &str, &str)) {
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
}

/// Answers to JOIN, and feedback of members.
fn feedback(check: &mut dyn FnMut(Body<'_>, &str, &str)) {
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
}

/// Questions and answers.
fn questions(check: &mut dyn FnMut(Body<'_>, &str, &str)) {
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
}

/// Rosters.
fn rosters(check: &mut dyn FnMut(Body<'_>, &str, &str)) {
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
}

/// Measurements of distances.
fn measurements(check: &mut dyn FnMut(Body<'_>, &str, &str)) {
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
