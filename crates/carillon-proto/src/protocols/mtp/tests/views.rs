//! Transcripts of MTP-2.

use carillon_wire::mtp::{Body, Mark};

use super::fixture::{HEARTBEAT, Member, dally, data, eom, record};

const NO_PACKETS: [&str; 0] = [];

/// A message is accepted when the backup holds it too.
#[test]
fn master_accepts_when_the_backup_holds_the_message() {
    let mut master = Member::of_view(0, &[("announce", "prompt")]);
    master.receive(2, record(0, 0, ""), Body::TokenRequest);
    master.receive(2, record(0, 0, ""), eom());
    assert_eq!(master.take_all(), []);
    assert_eq!(master.receive(3, record(1, 0, ""), Body::Held(1)), NO_PACKETS, "it is no backup");
    assert_eq!(master.receive(1, record(1, 0, ""), Body::Held(1)), ["dally view 0 1.0 aaa to all"]);
    assert_eq!(master.take_all(), [(2, 0)]);
}

/// A backup reports each message that its log gets, and delivers after the decision.
#[test]
fn backup_reports_its_log() {
    let mut member = Member::of_view(1, &[]);
    assert_eq!(member.receive(2, record(0, 0, ""), eom()), ["held view 0 1.0 paa held 1 to rank 0"]);
    assert_eq!(member.take_all(), []);
    member.receive(0, record(1, 0, "a"), dally());
    assert_eq!(member.take_all(), [(2, 0)]);
}

/// The suspected master is asked by a packet of its own before an election.
#[test]
fn suspected_master_is_asked_before_the_election() {
    let mut member = Member::of_view(1, &[]);
    member.offer("a").unwrap();
    let mut asked = 0;
    let mut invited = 0;
    for beat in 1..=8 {
        let sent = member.at(beat * HEARTBEAT);
        asked += usize::from(invited == 0)
            * sent.iter().filter(|line| line.starts_with("ismember_request")).count();
        invited += sent.iter().filter(|line| line.starts_with("invite")).count();
    }
    assert!(asked >= 3 && invited > 0, "{asked} questions, {invited} invitations");
}

/// Tokens of higher streams are granted first.
#[test]
fn higher_stream_gets_its_token_first() {
    let settings = [("message_packets", "2"), ("streams", "2"), ("resilience", "0")];
    let mut master = Member::of_view(0, &settings);
    for message in 0..12 {
        master.receive(1, record(message, 0, ""), Body::TokenRequest);
        master.receive(1, record(message, 0, ""), data(Mark::Data, 0));
    }
    // All tokens are taken. Two requests wait.
    master.receive_stream(2, record(12, 0, ""), Body::TokenRequest, 0);
    master.receive_stream(3, record(12, 0, ""), Body::TokenRequest, 1);
    let sent = master.receive(1, record(0, 1, ""), data(Mark::EndOfMessage, 1));
    assert_eq!(sent, ["token_confirm view 0 12.0 ppp web 00000001 to rank 3"]);
}

/// A packet of another view is dropped.
#[test]
fn packet_of_another_view_is_dropped() {
    let mut member = Member::of_view(1, &[]);
    member.set_view(3);
    member.receive(2, record(0, 0, ""), eom());
    assert_eq!(member.drops(), [carillon_core::DropReason::OutOfWindow]);
}
