//! Attacks by other nodes of the network.

use carillon_core::{
    ConfigError, Dest, DropReason, Duration, Event, Machine, NodeId, PortId, Seeds, Sender as _, Time,
};
use carillon_session::{
    Gather, LOCAL_NODE, MemberOutcome, ReceiverFailure, ReceiverPhase, ReceiverSession,
    ReceiverSessionConfig, SenderPhase, SenderSession, SenderSessionConfig,
};
use carillon_wire::lms;
use carillon_wire::session::{
    Attachment, Body, DatagramSizes, Invite, MemberRole, Name, Nonce, Packet, RefuseReason, Settings, State,
    Terms, Text, Verdict,
};
use proptest::prelude::*;

use super::harness::*;

fn bytes(body: Body<'_>) -> Vec<u8> {
    let mut buf = Vec::new();
    Packet { association: ASSOCIATION, body }.emit(&mut buf);
    buf
}

fn invite(state: State, protocol: &str, settings: &str, max_payload: u32) -> Vec<u8> {
    bytes(Body::Invite(Invite {
        state,
        max_payload,
        progress_interval: 500,
        relays: false,
        sizes: DatagramSizes::default(),
        protocol: Name::new(protocol).unwrap(),
        sender: Name::new("source").unwrap(),
        settings: Settings::new(settings).unwrap(),
        reason: Text::default(),
        job: None,
        asks: false,
        job_name: None,
    }))
}

fn join(nonce: u64, name: &str) -> Vec<u8> {
    bytes(Body::Join {
        nonce: Nonce(nonce),
        receive_buffer: 1,
        part: MemberRole::Receives,
        largest: 0,
        name: Name::new(name).unwrap(),
        attached: Attachment::default(),
        cookie: None,
        origin: None,
        list: None,
    })
}

/// A receiver that has sent its JOIN, and its nonce.
fn joining() -> (ReceiverSession, Nonce) {
    let mut machine = receiver("a");
    give(&mut machine, ms(0), SENDER, &invite(State::Gathering, "repeat", "limit=5\nwait=20 ms", 100));
    let sent = wake(&mut machine, ms(21)).sent;
    match Packet::parse(&sent[0].1).unwrap().body {
        Body::Join { nonce, .. } => (machine, nonce),
        other => panic!("{other:?} instead of JOIN"),
    }
}

/// Lets a receiver that is invited like this in; returns its nonce.
fn welcome(machine: &mut ReceiverSession, invitation: &[u8]) -> Nonce {
    give(machine, ms(0), SENDER, invitation);
    let sent = wake(machine, ms(21)).sent;
    let Body::Join { nonce, .. } = Packet::parse(&sent[0].1).unwrap().body else { panic!("{sent:?}") };
    give(machine, ms(22), SENDER, &bytes(Body::Welcome { nonce, member: 0, terms: terms_of(invitation) }));
    assert_eq!(machine.phase(), ReceiverPhase::Running);
    nonce
}

#[test]
fn a_forged_welcome_is_dropped_and_counted() {
    let (mut machine, nonce) = joining();
    let terms = terms_of(&invite(State::Gathering, "repeat", "limit=5\nwait=20 ms", 100));
    let welcome = |nonce| bytes(Body::Welcome { nonce, member: 3, terms });
    let wrong_nonce = give(&mut machine, ms(30), SENDER, &welcome(Nonce(nonce.0 ^ 1)));
    assert_eq!(wrong_nonce.drops(DropReason::NotAMember), 1);
    let wrong_source = give(&mut machine, ms(30), NodeId(9), &welcome(nonce));
    assert_eq!(wrong_source.drops(DropReason::NotAMember), 1);
    assert_eq!(machine.phase(), ReceiverPhase::Joining);
    give(&mut machine, ms(30), SENDER, &welcome(nonce));
    assert_eq!((machine.phase(), machine.member_number()), (ReceiverPhase::Running, Some(3)));
}

#[test]
fn only_the_sender_that_invited_can_end_a_receiver() {
    let (mut machine, nonce) = joining();
    let other = NodeId(9);
    give(&mut machine, ms(30), other, &invite(State::Aborted, "repeat", "", 100));
    give(&mut machine, ms(30), other, &invite(State::Finished, "repeat", "", 100));
    let expelled =
        |nonce| bytes(Body::Refuse { nonce, reason: RefuseReason::Expelled, text: Text::default() });
    give(&mut machine, ms(30), other, &expelled(nonce));
    give(&mut machine, ms(30), SENDER, &expelled(Nonce(nonce.0 ^ 1)));
    assert_eq!(machine.phase(), ReceiverPhase::Joining);
    // Nor do strangers keep a dead sender alive.
    for at in (100..4900).step_by(100) {
        give(&mut machine, ms(at), other, &invite(State::Running, "repeat", "", 100));
        wake(&mut machine, ms(at));
    }
    wake(&mut machine, ms(5030));
    // It was never admitted: another sender may come.
    assert_eq!(machine.phase(), ReceiverPhase::Seeking);
    assert_eq!(machine.unanswered(), Some(("source", 1)));
}

#[test]
fn other_sessions_are_ignored_once_joined() {
    let (mut machine, _) = joining();
    let mut other = invite(State::Gathering, "repeat", "", 100);
    other[7] ^= 1;
    assert_eq!(give(&mut machine, ms(30), SENDER, &other).drops(DropReason::Foreign), 1);
    assert_eq!(machine.association(), Some(ASSOCIATION));
}

#[test]
fn an_invitation_that_cannot_be_accepted_says_why() {
    for (protocol, settings, max_payload, why) in [
        ("nonsense", "", 100, "does not know the protocol \"nonsense\""),
        ("repeat", "limit=0", 100, "`limit = 0`: expected a whole number from 1 to 1000000"),
        ("repeat", "colour=red", 100, "unknown parameter `colour`"),
        ("repeat", "", u32::MAX, "do not fit the receive buffer of 16777216 bytes"),
    ] {
        let packet = invite(State::Gathering, protocol, settings, max_payload);
        for keep_seeking in [false, true] {
            let mut machine = ReceiverSession::new(
                ReceiverSessionConfig { keep_seeking, ..receiver_config("a") },
                Seeds::new(1),
            );
            give(&mut machine, ms(0), SENDER, &packet);
            // Anybody may have said that, in the name of anybody: it asks.
            let asked = wake(&mut machine, ms(21)).sent;
            let Body::Ask { nonce } = Packet::parse(&asked[0].1).unwrap().body else { panic!("{asked:?}") };
            assert_eq!((asked.len(), asked[0].1.len()), (1, 16));
            let answer = Body::Answer {
                nonce,
                state: State::Gathering,
                terms: terms_of(&packet),
                text: Text::default(),
            };
            let told = give(&mut machine, ms(22), SENDER, &bytes(answer)).packets();
            assert!(told.len() == 3 && told[0].contains("decline \"a\""), "{told:?}");
            match machine.phase() {
                ReceiverPhase::Failed(failure @ ReceiverFailure::BadInvitation(_)) if !keep_seeking => {
                    assert!(failure.to_string().contains(why), "{failure}");
                }
                phase => assert_eq!((phase, keep_seeking), (ReceiverPhase::Seeking, true)),
            }
            assert_eq!(machine.poll_timeout(), None);
            // And does not ask again.
            give(&mut machine, ms(30), SENDER, &packet);
            assert_eq!(machine.poll_timeout(), None);
        }
    }
}

#[test]
fn the_same_join_gets_the_same_welcome_even_when_running() {
    let mut machine = sender(Gather::Count(2));
    give(&mut machine, ms(0), NodeId(1), &join(1, "a"));
    let first = give(&mut machine, ms(1), NodeId(2), &join(2, "b")).packets();
    assert_eq!(machine.phase(), SenderPhase::Running);
    let again = give(&mut machine, ms(2), NodeId(2), &join(2, "b")).packets();
    assert!(first.contains(&again[0]), "{first:?} {again:?}");
    assert_eq!(again.len(), 1);
    assert!(again[0].starts_with("session a7 welcome 0000000000000002 member 1 "), "{again:?}");
    let anew = give(&mut machine, ms(3), NodeId(2), &join(3, "b")).packets();
    assert_eq!(anew, ["session a7 refuse 0000000000000003 already started"]);
    assert_eq!(machine.members().len(), 2);
}

#[test]
fn a_receiver_started_anew_while_gathering_takes_its_own_place() {
    let mut machine = sender(Gather::Count(2));
    give(&mut machine, ms(0), NodeId(1), &join(1, "a"));
    // A member that was received just now is still alive: another node uses its address.
    assert_eq!(give(&mut machine, ms(1), NodeId(1), &join(2, "a")).drops(DropReason::NotAMember), 1);
    let anew = give(&mut machine, ms(2600), NodeId(1), &join(2, "a")).packets();
    let anew: Vec<_> = anew.iter().filter(|text| text.contains("welcome")).collect();
    assert_eq!(anew.len(), 1);
    assert!(anew[0].starts_with("session a7 welcome 0000000000000002 member 1 "), "{anew:?}");
    assert_eq!(machine.members().len(), 1);
    assert_eq!(machine.phase(), SenderPhase::Gathering);
}

#[test]
fn foreign_or_early_reports_are_ignored() {
    let mut machine = sender(Gather::Count(1));
    let report = |nonce| {
        bytes(Body::Report {
            nonce: Nonce(nonce),
            bytes: u64::MAX,
            verdict: Verdict::Verified,
            text: Text::default(),
        })
    };
    give(&mut machine, ms(0), NodeId(1), &join(1, "a"));
    assert_eq!(give(&mut machine, ms(1), NodeId(1), &report(2)).drops(DropReason::NotAMember), 1);
    assert_eq!(give(&mut machine, ms(1), NodeId(2), &report(1)).drops(DropReason::NotAMember), 1);
    assert_eq!(give(&mut machine, ms(1), NodeId(1), &report(1)).drops(DropReason::OutOfWindow), 1);
    assert_eq!(machine.members()[0].outcome, MemberOutcome::Active);
    machine.finish(ms(2));
    give(&mut machine, ms(2), NodeId(1), &report(1));
    assert_eq!(machine.members()[0].outcome, MemberOutcome::Verified);
    // No member has more than was sent.
    assert_eq!(machine.members()[0].bytes, 0);
}

#[test]
fn where_routers_help_strangers_may_ask_and_no_more() {
    let lms = carillon_proto::find("lms").unwrap();
    let mut config = SenderSessionConfig::new(ASSOCIATION, "source", GROUP, lms, 100);
    config.helpers.relays = true;
    let mut machine = SenderSession::new(config, Seeds::new(1)).unwrap();
    machine.start(ms(0));
    give(&mut machine, ms(0), NodeId(1), &join(1, "a"));
    machine.offer(ms(1), bytes::Bytes::from_static(b"message")).unwrap();
    wake(&mut machine, ms(2));
    let lms_packet = |packet: lms::Packet<'_>| {
        let mut buf = Vec::new();
        packet.emit(ASSOCIATION, &mut buf);
        buf
    };
    let point = lms::TurningPoint { address: [10, 0, 0, 10].into(), interface: PortId(3) };
    let request = lms_packet(lms::Packet::Req(lms::Request {
        turning_point: Some(point),
        direct: false,
        past: 0,
        hops_left: 9,
        lo: 0,
        hi: 0,
        attempt: 0,
    }));
    let router = NodeId(9);
    let answered = give(&mut machine, ms(3), router, &request);
    let answered = [answered, wake(&mut machine, ms(4))].map(|outbox| outbox.sent).concat();
    let (dest, _) = answered.iter().find(|(dest, _)| matches!(dest, Dest::Node(_))).expect("a DMCAST");
    assert_eq!(*dest, Dest::Node(router), "10.0.0.10 is the router's address");

    // A receiver takes nothing but requests from others than its sender.
    let mut machine =
        ReceiverSession::new(ReceiverSessionConfig::new("a", GROUP, carillon_proto::REGISTRY), Seeds::new(2));
    let mut helped = invite(State::Gathering, "lms", "", 100);
    // Behind the envelope, the opening, the sender's name and three bytes.
    helped[8 + 6 + "source".len() + 3] = 1;
    let _ = welcome(&mut machine, &helped);
    let data = lms_packet(lms::Packet::Data(lms::Data { sequence: 0, oldest: 0, payload: b"forged" }));
    assert_eq!(give(&mut machine, ms(23), router, &data).drops(DropReason::NotAMember), 1);
    let asked = give(&mut machine, ms(23), router, &request).events;
    assert!(asked.iter().any(|event| matches!(event, Event::Received { packet: "req", .. })), "{asked:?}");
    // Nor do routers keep a dead sender alive.
    for at in (100..=5200).step_by(100) {
        give(&mut machine, ms(at), router, &request);
    }
    assert_eq!(machine.phase(), ReceiverPhase::Failed(ReceiverFailure::SenderSilent));
}

#[test]
fn packets_of_strangers_do_not_reach_the_protocol() {
    let mut machine = sender(Gather::Count(1));
    give(&mut machine, ms(0), NodeId(1), &join(1, "a"));
    let outbox = give(&mut machine, ms(1), NodeId(2), b"anything");
    assert_eq!(outbox.events, [Event::Dropped { reason: DropReason::NotAMember }]);
    let outbox = give(&mut machine, ms(1), NodeId(1), b"anything");
    // The protocol's own verdict.
    assert_eq!(outbox.events, [Event::Dropped { reason: DropReason::Malformed }]);
}

#[test]
fn an_expelled_member_is_told_at_most_once_a_heartbeat() {
    let mut config = sender_config(Gather::Count(2));
    config.config.set(super::protocol::REPEAT.parameters, "limit", "1").unwrap();
    let mut machine = sender_with(config);
    give(&mut machine, ms(0), NodeId(1), &join(1, "a"));
    give(&mut machine, ms(0), NodeId(2), &join(2, "b"));
    machine.offer(ms(1), "x".into()).unwrap();
    let sent = Outbox::drain(&mut machine, ms(1)).sent;
    // "a" acknowledges message 0, "b" does not.
    let mut ack = sent[0].1[..16].to_vec();
    ack[3] = 2;
    give(&mut machine, ms(2), NodeId(1), &ack);
    wake(&mut machine, ms(21));
    assert_eq!(machine.members()[1].outcome, MemberOutcome::Lost("stopped acknowledging".to_owned()));
    let mut told = 0;
    for at in 22..422 {
        told += give(&mut machine, ms(at), NodeId(2), &ack)
            .packets()
            .iter()
            .filter(|packet| packet.ends_with("expelled"))
            .count();
    }
    assert_eq!(told, 2);
}

#[test]
fn a_flood_of_joins_before_a_drain_is_bounded() {
    let mut config = sender_config(Gather::Count(4));
    config.max_members = 4;
    let mut machine = sender_with(config);
    Outbox::drain(&mut machine, ms(0));
    let destination = Dest::Node(LOCAL_NODE);
    for node in 1..10_000 {
        let bytes = join(u64::from(node), &format!("r{}", node.min(2))).into();
        machine.handle_datagram(
            ms(1),
            carillon_core::Received {
                source: NodeId(node),
                destination: &destination,
                ingress: carillon_core::PortId(0),
                scope: carillon_core::Scope::GLOBAL,
                bytes: &bytes,
            },
        );
    }
    let outbox = Outbox::drain(&mut machine, ms(1));
    assert_eq!(outbox.sent.len(), 4 + 64);
    assert_eq!(outbox.drops(DropReason::BufferFull), 9_999 - 68);
}

#[test]
fn settings_that_make_no_sense_are_refused_at_construction() {
    let bad = |config| match SenderSession::new(config, Seeds::new(1)) {
        Err(ConfigError::Conflict(text)) => text,
        other => panic!("{other:?}"),
    };
    assert!(bad(sender_config(Gather::Count(0))).contains("0 receivers"));
    assert!(bad(sender_config(Gather::Names([].into()))).contains("expects no receivers"));
    assert!(bad(sender_config(Gather::Names(["a\nb".to_owned()].into()))).contains("a name is"));
    assert!(bad(sender_config(Gather::Count(5000))).contains("more than 4096"));
    let mut config = sender_config(Gather::Wait(Duration::from_secs(2)));
    config.limits.limit = Some(Duration::from_secs(2));
    assert!(bad(config).contains("its own limit"));
    let mut config = sender_config(Gather::Count(1));
    config.heartbeat = Duration::ZERO;
    assert!(bad(config).contains("heartbeat"));
    let mut config = sender_config(Gather::Count(1));
    config.name = "x".repeat(65);
    assert!(bad(config).contains("1 to 64 bytes"));
    // What only the protocol can know comes out when it is built for the members.
    let mut world = World::new(sender(Gather::Count(101)), 1);
    for i in 0..101 {
        world.join(receiver(&format!("r{i}")));
    }
    world.run(ms(3000));
    assert_eq!(world.sender.failure(), Some("repeat serves 100 members at most"));
    assert!(matches!(world.phase(0), ReceiverPhase::Failed(ReceiverFailure::Aborted(_))));
}

/// Packets that are nearly right: a good one with some bytes changed and an end cut off.
fn nearly_right() -> impl Strategy<Value = Vec<u8>> {
    let text = || "[ -~]{0,40}";
    let good = prop_oneof![
        (0u64..3, "[a-c]{1,2}").prop_map(|(nonce, name)| join(nonce, &name)),
        (0u64..3, 0u32..3, any::<u64>()).prop_map(|(nonce, member, terms)| {
            bytes(Body::Welcome { nonce: Nonce(nonce), member, terms: Terms(terms) })
        }),
        (0u64..3, any::<u64>())
            .prop_map(|(nonce, count)| bytes(Body::Progress { nonce: Nonce(nonce), bytes: count })),
        (0u64..3, any::<u64>(), 0usize..3, text()).prop_map(|(nonce, count, verdict, text)| {
            let text = Text::new(&text).unwrap();
            let verdict = [Verdict::Failed, Verdict::Verified, Verdict::Damaged][verdict];
            bytes(Body::Report { nonce: Nonce(nonce), bytes: count, verdict, text })
        }),
        (0u64..3).prop_map(|nonce| bytes(Body::ReportAck { nonce: Nonce(nonce) })),
        (0u64..3, text()).prop_map(|(nonce, text)| {
            bytes(Body::Leave { nonce: Nonce(nonce), text: Text::new(&text).unwrap() })
        }),
        (0usize..5, 1u32..200).prop_map(|(state, max)| {
            let states = [State::Gathering, State::Running, State::Closing, State::Finished, State::Aborted];
            invite(states[state], "repeat", "limit=5\nwait=20 ms", max)
        }),
        proptest::collection::vec(any::<u8>(), 0..80),
    ];
    (good, proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..2), 0usize..3).prop_map(
        |(mut bytes, changes, cut)| {
            for (at, value) in changes {
                if !bytes.is_empty() {
                    let at = at.index(bytes.len());
                    bytes[at] = value;
                }
            }
            bytes.truncate(bytes.len().saturating_sub(if cut == 2 { 1 } else { 0 }));
            bytes
        },
    )
}

fn torment(machine: &mut dyn Machine, steps: &[(u64, u32, Vec<u8>)]) {
    let mut now = Time::ZERO;
    Outbox::drain(machine, now);
    for (wait, source, bytes) in steps {
        let arrival = now + Duration::from_millis(*wait);
        while let Some(at) = machine.poll_timeout().filter(|at| *at <= arrival) {
            now = at;
            wake(machine, now);
        }
        now = arrival;
        give(machine, now, NodeId(*source), bytes);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2 * ProptestConfig::default().cases))]

    #[test]
    fn arbitrary_bytes_never_break_a_session(
        steps in proptest::collection::vec((0u64..3000, 0u32..4, nearly_right()), 0..40),
        finish: bool,
    ) {
        let mut machine = sender(Gather::Count(2));
        if finish {
            machine.offer(Time::ZERO, "x".into()).unwrap_err();
            machine.finish(Time::ZERO);
        }
        torment(&mut machine, &steps);
        prop_assert!(machine.members().len() <= 3);
        let mut machine = receiver("a");
        torment(&mut machine, &steps);
prop_assert!(machine.poll_event().is_none());
    }
}
