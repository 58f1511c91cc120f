//! JOINs with addresses that do not answer take no place.

use carillon_core::{Dest, NodeId, Time};
use carillon_session::{Gather, ReceiverPhase, SenderPhase, SenderSession, SenderSessionConfig};
use carillon_wire::session::{
    Attachment, Body, Cookie, DatagramSizes, Invite, MemberRole, Name, Nonce, Packet, Settings, State, Text,
};

use super::harness::*;
use super::{kind, names};

const GHOSTS: u32 = 5000;

fn join(nonce: u64, name: &str, cookie: Option<Cookie>) -> Vec<u8> {
    let (name, attached) = (Name::new(name).unwrap(), Attachment::default());
    let (nonce, part) = (Nonce(nonce), MemberRole::Receives);
    let body = Body::Join {
        nonce,
        receive_buffer: 1,
        part,
        largest: 0,
        name,
        attached,
        cookie,
        origin: None,
        list: None,
    };
    let mut bytes = Vec::new();
    Packet { association: ASSOCIATION, body }.emit(&mut bytes);
    bytes
}

fn invite() -> Vec<u8> {
    let body = Body::Invite(Invite {
        job: None,
        asks: false,
        job_name: None,
        state: State::Gathering,
        max_payload: 100,
        progress_interval: 500,
        relays: false,
        sizes: DatagramSizes::default(),
        protocol: Name::new("repeat").unwrap(),
        sender: Name::new("source").unwrap(),
        settings: Settings::new("limit=5\nwait=20 ms").unwrap(),
        reason: Text::default(),
    });
    let mut bytes = Vec::new();
    Packet { association: ASSOCIATION, body }.emit(&mut bytes);
    bytes
}

/// Hands over a JOIN in the name of a node that does not receive the answer.
fn ghost(machine: &mut SenderSession, now: Time, node: u32, bytes: &[u8]) -> Outbox {
    give_unanswered(machine, now, NodeId(node), &Dest::Node(carillon_core::NodeId(0)), bytes)
}

#[test]
fn ghosts_take_no_place_and_leave_nothing_behind() {
    for gather in [Gather::Count(2), Gather::Wait(std::time::Duration::from_secs(60)), names(&["r1", "r2"])] {
        let mut machine = sender(gather);
        for node in 0..GHOSTS {
            let bytes = join(node.into(), &format!("r{node}"), None);
            let sent = ghost(&mut machine, ms(1 + u64::from(node) / 10), 10 + node, &bytes).sent;
            let told: Vec<_> = sent.iter().filter(|(to, _)| *to == Dest::Node(NodeId(10 + node))).collect();
            let [(_, answer)] = told[..] else { panic!("{sent:?}") };
            assert!(answer.len() <= bytes.len() && matches!(kind(answer), Some(Body::Challenge { .. })));
        }
        assert!(machine.members().is_empty() && machine.unserved().is_empty());
        assert_eq!((machine.more_unserved(), machine.phase()), (0, SenderPhase::Gathering));
        // Whoever answers has a place at once, under any of the names.
        let welcome = give(&mut machine, ms(600), NodeId(1), &join(1, "r1", None)).packets();
        assert!(welcome.iter().any(|text| text.contains("welcome")), "{welcome:?}");
        give(&mut machine, ms(600), NodeId(2), &join(2, "r2", None));
        assert_eq!(machine.members().len(), 2);
    }
}

#[test]
fn a_late_ghost_causes_no_further_session() {
    let mut config = sender_config(Gather::Count(1));
    config.job.further = true;
    let mut machine = sender_with(config);
    give(&mut machine, ms(1), NodeId(1), &join(1, "r1", None));
    wake(&mut machine, ms(500));
    assert_ne!(machine.phase(), SenderPhase::Gathering);
    ghost(&mut machine, ms(501), 2, &join(2, "late", None));
    assert!(machine.wanting().is_empty() && machine.unserved().is_empty());
    give(&mut machine, ms(502), NodeId(2), &join(2, "late", None));
    assert_eq!(machine.wanting().iter().collect::<Vec<_>>(), ["late"]);
}

#[test]
fn a_cookie_counts_for_one_address_nonce_and_time() {
    let mut machine = sender(Gather::Count(9));
    let sent = ghost(&mut machine, ms(1000), 1, &join(7, "a", None)).sent;
    let Some(Body::Challenge { cookie, .. }) = kind(&sent[0].1) else { panic!("{sent:?}") };
    let is_welcomed = |machine: &mut SenderSession, now, node, bytes: &[u8]| {
        let welcomed = ghost(machine, now, node, bytes).packets().iter().any(|text| text.contains("welcome"));
        assert_eq!(machine.members().is_empty(), !welcomed);
        welcomed
    };
    assert!(!is_welcomed(&mut machine, ms(1001), 1, &join(8, "a", Some(cookie))), "another nonce");
    assert!(!is_welcomed(&mut machine, ms(1001), 2, &join(7, "a", Some(cookie))), "another address");
    assert!(!is_welcomed(&mut machine, ms(1001), 1, &join(7, "a", Some(Cookie(cookie.0 ^ 1)))));
    assert!(!is_welcomed(&mut machine, ms(17_000), 1, &join(7, "a", Some(cookie))), "too late");
    let sent = ghost(&mut machine, ms(20_000), 1, &join(7, "a", None)).sent;
    let cookie = sent.iter().find_map(|(_, bytes)| match kind(bytes) {
        Some(Body::Challenge { cookie, .. }) => Some(cookie),
        _ => None,
    });
    assert!(is_welcomed(&mut machine, ms(27_000), 1, &join(7, "a", cookie)), "one slot later");
    // Another session has other cookies.
    let config = SenderSessionConfig { name: "other".to_owned(), ..sender_config(Gather::Count(9)) };
    let mut other = sender_with(config);
    assert!(!is_welcomed(&mut other, ms(20_001), 1, &join(7, "a", cookie)));
}

/// A member that is there keeps its place, whoever says that it was started anew.
#[test]
fn a_ghost_does_not_take_a_members_place() {
    let mut machine = sender(Gather::Count(9));
    give(&mut machine, ms(1), NodeId(1), &join(1, "a", None));
    ghost(&mut machine, ms(60_000), 1, &join(2, "b", None));
    assert_eq!(machine.members().iter().map(|member| &member.name).collect::<Vec<_>>(), ["a"]);
}

#[test]
fn a_receiver_answers_challenges_at_once_but_not_for_ever() {
    let mut machine = receiver("a");
    give(&mut machine, ms(0), SENDER, &invite());
    let sent = wake(&mut machine, ms(21)).sent;
    let Some(Body::Join { nonce, cookie: None, .. }) = kind(&sent[0].1) else { panic!("{sent:?}") };
    let challenge = |nonce, cookie| {
        let mut bytes = Vec::new();
        Packet { association: ASSOCIATION, body: Body::Challenge { nonce, cookie: Cookie(cookie) } }
            .emit(&mut bytes);
        bytes
    };
    let joins = |sent: &[(Dest, Vec<u8>)]| {
        let cookies = sent.iter().filter_map(|(_, bytes)| match kind(bytes) {
            Some(Body::Join { cookie, .. }) => Some(cookie),
            _ => None,
        });
        cookies.collect::<Vec<_>>()
    };
    let other = challenge(Nonce(nonce.0 ^ 1), 1);
    assert!(joins(&give(&mut machine, ms(22), SENDER, &other).sent).is_empty(), "another nonce");
    let stranger = give(&mut machine, ms(22), NodeId(9), &challenge(nonce, 1)).sent;
    assert!(joins(&stranger).is_empty(), "another address");
    assert_eq!(joins(&give(&mut machine, ms(22), SENDER, &challenge(nonce, 1)).sent), [Some(Cookie(1))]);
    assert!(joins(&give(&mut machine, ms(22), SENDER, &challenge(nonce, 1)).sent).is_empty(), "once more");
    let all: usize = (2..100)
        .map(|cookie| joins(&give(&mut machine, ms(23), SENDER, &challenge(nonce, cookie)).sent).len())
        .sum();
    assert!(all < 5, "{all} JOINs for 98 challenges");
    let mut welcome = Vec::new();
    let terms = terms_of(&invite());
    Packet { association: ASSOCIATION, body: Body::Welcome { nonce, member: 0, terms } }.emit(&mut welcome);
    give(&mut machine, ms(24), SENDER, &welcome);
    assert_eq!(machine.phase(), ReceiverPhase::Running);
}
