//! Transcripts of the master (rank 0).

use carillon_core::{DropReason, Event};
use carillon_wire::mtp::{Body, Empty, Header, Mark, Packet, Reply, member_id};

use super::fixture::{HEARTBEAT, MEMBERS, Member, data, eom, join, nak, range, record};
use carillon_testkit::ASSOCIATION;

/// 3.2.1: the tokens are numbered in the order of the requests.
#[test]
fn requests_get_tokens_in_their_order() {
    let mut master = Member::new(0, &[]);
    assert_eq!(
        master.receive(2, record(0, 0, ""), Body::TokenRequest),
        ["token_confirm 0.0 aaa web 00000001 to rank 2"]
    );
    assert_eq!(
        master.receive(1, record(0, 0, ""), Body::TokenRequest),
        ["token_confirm 1.0 paa web 00000001 to rank 1"]
    );
}

/// 3.2.1: a member with a pending token gets the same token again.
#[test]
fn repeated_request_gets_the_pending_token_again() {
    let mut master = Member::new(0, &[]);
    for _ in 0..2 {
        let sent = master.receive(2, record(0, 0, ""), Body::TokenRequest);
        assert_eq!(sent, ["token_confirm 0.0 aaa web 00000001 to rank 2"]);
    }
    // The token is busy after data: the next request gets another one.
    master.receive(2, record(0, 0, ""), data(Mark::Data, 0));
    let sent = master.receive(2, record(0, 0, ""), Body::TokenRequest);
    assert_eq!(sent, ["token_confirm 1.0 paa web 00000001 to rank 2"]);
}

/// 2.2.6: no pending message may leave the acceptance record of 12 messages.
#[test]
fn thirteenth_token_waits_for_the_oldest_decision() {
    let mut master = Member::new(0, &[("message_packets", "2")]);
    for message in 0..12 {
        assert_eq!(master.receive(1, record(message, 0, ""), Body::TokenRequest).len(), 1, "{message}");
        master.receive(1, record(message, 0, ""), data(Mark::Data, 0));
    }
    assert_eq!(master.receive(1, record(12, 0, ""), Body::TokenRequest), [""; 0]);
    // The oldest message is complete.
    let sent = master.receive(1, record(0, 1, ""), data(Mark::EndOfMessage, 1));
    assert_eq!(sent, ["token_confirm 12.0 ppp web 00000001 to rank 1"]);
}

/// 3.2.2: the master rejects the message of a token that is given back unused.
#[test]
fn cancelled_token_is_rejected() {
    let mut master = Member::new(0, &[("announce", "prompt")]);
    master.receive(1, record(0, 0, ""), Body::TokenRequest);
    let sent = master.receive(1, record(0, 0, ""), Body::Empty(Empty::Cancel));
    assert_eq!(sent, ["dally 1.0 raa to all"]);
}

/// Only the holder may give a token back, and only before its data.
#[test]
fn cancel_of_another_member_or_after_data_is_ignored() {
    let mut master = Member::new(0, &[("announce", "prompt"), ("message_packets", "2")]);
    master.receive(1, record(0, 0, ""), Body::TokenRequest);
    assert_eq!(master.receive(2, record(0, 0, ""), Body::Empty(Empty::Cancel)), [""; 0]);
    master.receive(1, record(0, 0, ""), data(Mark::Data, 0));
    assert_eq!(master.receive(1, record(0, 0, ""), Body::Empty(Empty::Cancel)), [""; 0]);
}

/// 3.1.2: a newcomer is confirmed while the master holds all tokens, and meanwhile none is granted.
#[test]
fn newcomer_waits_until_all_tokens_have_returned() {
    let mut master = Member::new(0, &[("announce", "prompt")]);
    master.receive(1, record(0, 0, ""), Body::TokenRequest);
    // Another transport of rank 2: it has lost its state.
    let header = Header {
        view: None,
        subchannel: 0,
        source: member_id(ASSOCIATION, 2 + 256),
        destination: 0,
        acceptance: record(0, 0, ""),
        heartbeat: HEARTBEAT as u32,
        window: 20,
        retention: 3,
    };
    let packet = Packet { header, body: join(Reply::Request) };
    assert_eq!(master.receive_packet(2, packet), [""; 0]);
    assert_eq!(master.receive(3, record(0, 0, ""), Body::TokenRequest), [""; 0]);
    let sent = master.receive(1, record(0, 0, ""), eom());
    let confirm = "join_confirm 1.0 aaa class 0 throughput 0 unit 65535 to rank 2";
    assert!(sent.contains(&confirm.to_owned()), "{sent:?}");
    assert!(sent.contains(&"token_confirm 1.0 aaa web 00000001 to rank 3".to_owned()), "{sent:?}");
}

/// 3.2.5: a repeated request of the same transport begins at the message of the first confirm.
#[test]
fn repeated_join_request_gets_the_same_confirm() {
    let mut master = Member::new(0, &[]);
    master.receive(1, record(0, 0, ""), Body::TokenRequest);
    master.receive(1, record(0, 0, ""), eom());
    let sent = master.receive(2, record(0, 0, ""), join(Reply::Request));
    assert_eq!(sent, ["join_confirm 0.0 aaa class 0 throughput 0 unit 65535 to rank 2"]);
}

/// 3.2.8: a packet of a member that is not in the web is answered with a quit request.
#[test]
fn stranger_is_banished() {
    let mut master = Member::new(0, &[]);
    master.receive(1, record(0, 0, ""), Body::Quit(false, member_id(ASSOCIATION, 1)));
    assert_eq!(master.drops(), []);
    let sent = master.receive(1, record(0, 0, ""), Body::TokenRequest);
    assert_eq!(sent, [format!("quit_request 0.0 aaa of {:08x} to rank 1", member_id(ASSOCIATION, 1))]);
    assert_eq!(master.drops(), [DropReason::NotAMember]);
}

/// 3.3.1: the master confirms a quit request.
#[test]
fn quit_is_confirmed() {
    let mut master = Member::new(0, &[]);
    let own = member_id(ASSOCIATION, 1);
    let sent = master.receive(1, record(0, 0, ""), Body::Quit(false, own));
    assert_eq!(sent, [format!("quit_confirm 0.0 aaa of {own:08x} to rank 1")]);
    assert!(master.events().contains(&Event::MemberLost { member: MEMBERS[1] }));
}

/// 3.2.1: the holder of a token that stays silent is asked, and its message is rejected after `retention` heartbeats.
#[test]
fn silent_holder_is_asked_and_then_removed() {
    let mut master = Member::new(0, &[("message_packets", "2")]);
    master.receive(1, record(0, 0, ""), Body::TokenRequest);
    master.receive(1, record(0, 0, ""), data(Mark::Data, 0));
    let own = member_id(ASSOCIATION, 1);
    let mut asked = 0;
    let mut sent = Vec::new();
    for beat in 1..=6 {
        sent = master.at(beat * HEARTBEAT);
        asked += sent.iter().filter(|line| line.starts_with("ismember_request")).count();
    }
    assert_eq!(asked, 3 + 1, "the retention, and the heartbeat in which it fails");
    assert!(master.events().contains(&Event::MemberLost { member: MEMBERS[1] }), "{own:08x}");
    assert_eq!(sent, ["dally 1.0 raa to all"]);
}

/// A holder that answers keeps its token.
#[test]
fn holder_that_answers_keeps_its_token() {
    let mut master = Member::new(0, &[("message_packets", "2")]);
    master.receive(1, record(0, 0, ""), Body::TokenRequest);
    master.receive(1, record(0, 0, ""), data(Mark::Data, 0));
    for beat in 1..=20 {
        master.at(beat * HEARTBEAT);
        master.receive(1, record(1, 0, ""), Body::Member(member_id(ASSOCIATION, 1), 0));
    }
    assert!(!master.events().iter().any(|event| matches!(event, Event::MemberLost { .. })));
}

/// 2.2.6: a member that has missed the decisions asks, and the record of the answer begins where it says.
#[test]
fn question_is_answered_with_decisions() {
    let mut master = Member::new(0, &[("message_packets", "1")]);
    for message in 0..20 {
        master.receive(1, record(message, 0, ""), Body::TokenRequest);
        master.receive(1, record(message, 0, ""), data(Mark::EndOfMessage, 0));
        master.take_all();
    }
    let sent = master.receive(2, record(2, 0, ""), Body::IsMember(member_id(ASSOCIATION, 0)));
    let own = member_id(ASSOCIATION, 0);
    assert_eq!(sent, [format!("ismember_confirm 14.0 aaa of {own:08x} age 0 to rank 2")]);
}

/// 3.2.6: the master repairs a message of another member in its name.
#[test]
fn master_repairs_for_other_members() {
    let mut master = Member::new(0, &[]);
    master.receive(1, record(0, 0, ""), Body::TokenRequest);
    master.receive(1, record(0, 0, ""), eom());
    master.sent();
    let sent = master.receive(2, record(1, 0, ""), nak(&range(0, 0, u16::MAX)));
    assert_eq!(sent, ["eom 0.0 aaa len 5 to all"]);
}

/// An idle web hibernates: its heartbeat is longer.
#[test]
fn idle_web_hibernates() {
    let mut master = Member::new(0, &[]);
    let beats = |lines: Vec<String>| lines.into_iter().filter(|line| line.starts_with("hibernate")).count();
    let all: Vec<usize> = (1..=5).map(|second| beats(master.at(second * 1000))).collect();
    assert_eq!(all[2..], [1, 1, 1]);
}

/// 3.4.3: the master answers questions about other members.
#[test]
fn question_about_another_member_is_answered() {
    let mut master = Member::new(0, &[]);
    let (known, strange) = (member_id(ASSOCIATION, 1), member_id(ASSOCIATION, 9));
    master.at(150);
    let sent = master.receive(2, record(0, 0, ""), Body::IsMember(known));
    assert_eq!(sent, [format!("ismember_confirm 0.0 aaa of {known:08x} age 150 to rank 2")]);
    let sent = master.receive(2, record(0, 0, ""), Body::IsMember(strange));
    assert_eq!(sent, [format!("ismember_deny 0.0 aaa of {strange:08x} to rank 2")]);
}
