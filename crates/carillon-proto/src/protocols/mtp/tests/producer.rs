//! Transcripts of a producer (rank 1).

use carillon_wire::mtp::Reply;

use super::fixture::{HEARTBEAT, Member, dally, join, nak, range, record, token};

const NO_PACKETS: [&str; 0] = [];

/// 3.1.1 and 3.2.5: a join request is repeated each heartbeat until the master answers.
#[test]
fn join_request_is_repeated_until_confirmed() {
    let mut member = Member::joining(1, &[]);
    let request = ["join_request 0.0 aaa class 1 throughput 0 unit 65535 to all"];
    assert_eq!(member.sent(), request);
    assert_eq!(member.at(HEARTBEAT), request);
    member.offer("a").unwrap();
    assert_eq!(member.sent(), NO_PACKETS, "nothing is sent before");
    let sent = member.receive(0, record(4, 0, ""), join(Reply::Confirm));
    assert_eq!(sent, ["token_request 4.0 ppp to rank 0"]);
}

/// 3.2.1: a token is requested each heartbeat, and the message carries its number.
#[test]
fn message_waits_for_its_token() {
    let mut member = Member::new(1, &[]);
    member.offer("a").unwrap();
    assert_eq!(member.sent(), ["token_request 0.0 aaa to rank 0"]);
    let again = member.at(HEARTBEAT);
    assert!(again.contains(&"token_request 0.0 aaa to rank 0".to_owned()), "{again:?}");
    assert_eq!(member.receive(0, record(3, 0, "paa"), token()), ["eom 3.0 paa len 5 to all"]);
}

/// 3.2.1: a repeated confirm of a token in use acts as a nak.
#[test]
fn repeated_confirm_repeats_the_message() {
    let mut member = Member::new(1, &[]);
    member.offer("a").unwrap();
    member.receive(0, record(0, 0, ""), token());
    assert_eq!(member.receive(0, record(0, 0, ""), token()), ["eom 0.0 aaa len 5 to all"]);
    // After the decision, the confirm is late.
    member.receive(0, record(1, 0, "a"), dally());
    assert_eq!(member.receive(0, record(0, 0, ""), token()), NO_PACKETS);
}

/// 3.2.2: a token that is not needed goes back with an empty packet.
#[test]
fn unneeded_token_is_cancelled() {
    let mut member = Member::new(1, &[]);
    assert_eq!(member.receive(0, record(0, 0, ""), token()), ["cancel 0.0 aaa to all"]);
}

/// 3.2.2: at most a window of packets per heartbeat, and the last one has eow.
#[test]
fn window_limits_the_packets_of_a_heartbeat() {
    let mut member = Member::new(1, &[("window", "2"), ("message_packets", "5")]);
    (0..5).for_each(|_| _ = member.offer("a").unwrap());
    member.sent();
    assert_eq!(
        member.receive(0, record(0, 0, ""), token()),
        ["data 0.0 aaa len 5 to all", "eow 0.1 aaa len 5 to all"]
    );
    let data = |lines: Vec<String>| lines.into_iter().filter(|line| line.contains("len")).collect::<Vec<_>>();
    assert_eq!(data(member.at(HEARTBEAT)), ["data 0.2 aaa len 5 to all", "eow 0.3 aaa len 5 to all"]);
    assert_eq!(data(member.at(2 * HEARTBEAT)), ["eom 0.4 aaa len 5 to all"]);
}

/// 3.2.6: repairs come first and count for the window.
#[test]
fn repairs_come_first_and_use_the_window() {
    let mut member = Member::new(1, &[("window", "2"), ("message_packets", "5")]);
    (0..5).for_each(|_| _ = member.offer("a").unwrap());
    member.receive(0, record(0, 0, ""), token());
    member.receive(2, record(1, 0, ""), nak(&range(0, 1, 1)));
    let data = |lines: Vec<String>| lines.into_iter().filter(|line| line.contains("len")).collect::<Vec<_>>();
    assert_eq!(data(member.at(HEARTBEAT)), ["data 0.1 aaa len 5 to all", "eow 0.2 aaa len 5 to all"]);
}

/// 3.2.6: several requests for a packet before its repair cause one repair.
#[test]
fn requests_of_several_members_before_the_repair_cause_one() {
    let mut member = Member::new(1, &[("window", "1")]);
    member.offer("a").unwrap();
    member.receive(0, record(0, 0, ""), token());
    for from in [2, 3] {
        assert_eq!(member.receive(from, record(1, 0, ""), nak(&range(0, 0, u16::MAX))), NO_PACKETS);
    }
    let sent = member.at(HEARTBEAT);
    assert_eq!(sent.iter().filter(|line| line.starts_with("eom 0.0")).count(), 1, "{sent:?}");
}

/// 3.2.6: data is refused `retention` heartbeats after it was sent. The record tells the decision.
#[test]
fn data_is_refused_after_the_retention() {
    let mut member = Member::new(1, &[]);
    member.offer("a").unwrap();
    member.receive(0, record(0, 0, ""), token());
    member.receive(0, record(1, 0, "a"), dally());
    assert_eq!(member.receive(2, record(1, 0, ""), nak(&range(0, 0, 0))), ["eom 0.0 aaa len 5 to all"]);
    member.at(3 * HEARTBEAT);
    let sent = member.receive(2, record(1, 0, ""), nak(&range(0, 0, 0)));
    assert_eq!(sent, ["nak_deny 1.0 aaa 0.0-0.65535 to rank 2"]);
}

/// The packets of a message are of one stream.
#[test]
fn streams_take_turns() {
    let mut member = Member::new(1, &[("streams", "2"), ("message_packets", "2")]);
    (0..5).for_each(|_| _ = member.offer("a").unwrap());
    let mut sent = Vec::new();
    for message in 0..3 {
        sent.extend(member.receive(0, record(message, 0, ""), token()));
    }
    let streams: Vec<bool> =
        sent.iter().filter(|line| line.contains("len")).map(|line| line.contains("stream 1")).collect();
    assert_eq!(streams, [false, false, true, true, false]);
}
