//! Tests of views: membership and leadership of the group.

use carillon_core::{DropReason, Event, NodeId};
use carillon_wire::reformation::{Ballot, Packet, Ranks};
use carillon_wire::sequencer::Body;

use super::fixture::{MEMBERS, Member, context, ordered, request};

const NO_PACKETS: [&str; 0] = [];
const BALLOT: Ballot = Ballot { number: 1, coordinator: 1 };

fn start(length: u64, state: &[u8]) -> Packet<'_> {
    let members: Ranks = [1, 2, 3].into_iter().collect();
    Packet::Start { ballot: BALLOT, base: 0, length, members, joiners: Ranks::default(), state }
}

/// State of the order after the members have sent this many messages each.
fn state(numbers: [u64; 4]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_be_bytes()).collect()
}

#[test]
fn voter_ignores_the_old_view() {
    let mut member = Member::new(2, &[("resilience", "1")]);
    member.receive(0, ordered(0, 1, 0, 0));
    member.take_all();
    let sent = member.agree(1, Packet::Invite { ballot: BALLOT });
    assert_eq!(sent, ["vote 1.1 accepted 0 length 1 members {0 1 2 3} joiners {} to rank 1"]);
    member.events();
    assert_eq!(member.receive(0, ordered(1, 2, 0, 1)), NO_PACKETS);
    assert_eq!(member.drops(), [DropReason::OutOfWindow]);
    assert_eq!(member.take_all(), [], "it may have told that it has one message only");
    member.offer("a").unwrap();
    assert_eq!(member.sent(), NO_PACKETS);
}

#[test]
fn member_fetches_missing_log_and_delivers_after_install() {
    let mut member = Member::new(2, &[("resilience", "1")]);
    member.receive(0, ordered(0, 1, 0, 0));
    member.take_all();
    member.agree(1, Packet::Invite { ballot: BALLOT });
    assert_eq!(member.agree(1, start(2, &[])), ["fetch view 1 order 1 to rank 1"]);
    let fetched = |message| Body::Fetched { order: 1, source: 3, message, payload: b"m" };
    assert_eq!(member.receive_in(1, 3, fetched(9)), NO_PACKETS, "not from the coordinator");
    assert_eq!(member.receive_in(1, 1, fetched(0)), ["ready 1.1 to rank 1"]);
    assert_eq!(member.take_all(), []);
    assert_eq!(member.agree(1, Packet::Active { ballot: BALLOT }), ["installed 1.1 to rank 1"]);
    assert_eq!(member.take_all(), [(3, 0)]);
    assert!(member.events().contains(&Event::MemberLost { member: MEMBERS[0] }));
}

#[test]
fn unaccepted_message_outside_log_is_resubmitted() {
    let mut member = Member::new(2, &[("resilience", "1")]);
    member.offer("a").unwrap();
    member.receive(0, ordered(0, 0, 2, 0));
    member.sent();
    member.agree(1, Packet::Invite { ballot: BALLOT });
    assert_eq!(member.agree(1, start(0, &[])), ["ready 1.1 to rank 1"]);
    let sent = member.agree(1, Packet::Active { ballot: BALLOT });
    assert_eq!(sent, ["installed 1.1 to rank 1", "request view 1 ack 0 message 0 len 1 to rank 1"]);
    assert_eq!(member.take_all(), []);
    member.receive_in(1, 1, ordered(0, 1, 3, 0));
    member.receive_in(1, 1, ordered(1, 2, 2, 0));
    assert_eq!(member.take_all(), [(3, 0), (2, 0)]);
}

#[test]
fn packet_of_new_view_installs_it_at_ready_member() {
    let mut member = Member::new(2, &[("resilience", "1")]);
    member.agree(1, Packet::Invite { ballot: BALLOT });
    member.agree(1, start(0, &[]));
    let sent = member.receive_in(1, 1, ordered(0, 1, 3, 0));
    assert_eq!(sent, ["installed 1.1 to rank 1", "ack view 1 ack 1 to rank 1"]);
    assert_eq!(member.take_all(), [(3, 0)]);
}

/// A late answer to a FETCH does not show that the view is installed at a majority.
#[test]
fn ready_member_delivers_only_after_install() {
    let mut member = Member::new(2, &[("resilience", "1")]);
    member.agree(1, Packet::Invite { ballot: BALLOT });
    assert_eq!(member.agree(1, start(3, &[])).len(), 3, "it asks for all three at once");
    // The first two messages were purged, which both FETCHes are answered with.
    let state = state([1, 0, 0, 1]);
    let gone = Body::Gone { order: 2, state: &state };
    member.receive_in(1, 1, gone);
    let fetched = Body::Fetched { order: 2, source: 3, message: 1, payload: b"m" };
    assert_eq!(member.receive_in(1, 1, fetched), ["ready 1.1 to rank 1"]);
    assert_eq!(member.receive_in(1, 1, gone), NO_PACKETS);
    assert_eq!(member.receive_in(1, 1, fetched), NO_PACKETS);
    let served = member.receive_in(1, 1, Body::Fetch { order: 2 });
    assert_eq!(served, ["fetched view 1 order 2 source 3 message 1 len 1 to rank 1"]);
    assert_eq!(member.take_all(), []);
    assert_eq!(member.agree(1, Packet::Active { ballot: BALLOT }), ["installed 1.1 to rank 1"]);
    assert_eq!(member.take_all(), [(3, 1)]);
}

#[test]
fn silent_sequencer_is_replaced() {
    let mut member = Member::new(1, &[("resilience", "1"), ("tries", "2")]);
    member.offer("a").unwrap();
    let sent = member.at(800);
    assert!(sent.contains(&"invite 1.1 to all".to_owned()), "{sent:?}");
    let vote = Packet::Vote {
        ballot: BALLOT,
        accepted: 0,
        length: 0,
        members: Ranks::below(4),
        joiners: Ranks::default(),
    };
    member.agree(2, vote);
    member.agree(3, vote);
    let sent = member.at(1_000);
    let line = "start 1.1 base 0 length 0 members {1 2 3} joiners {} state 32 to all";
    assert!(sent.contains(&line.to_owned()), "{sent:?}");
    member.agree(2, Packet::Ready { ballot: BALLOT });
    let sent = member.agree(3, Packet::Ready { ballot: BALLOT });
    assert_eq!(sent[0], "active 1.1 to all");
    assert!(sent[1].starts_with("ordered view 1 order 0"), "{sent:?}");
}

#[test]
fn expelled_member_gets_no_vote() {
    let mut member = Member::new(1, &[("resilience", "1"), ("vote_interval", "20 ms")]);
    assert_eq!(member.expel(0), NO_PACKETS);
    assert_eq!(member.at(20), ["invite 1.1 to all"]);
    let members = Ranks::below(4);
    let vote = Packet::Vote { ballot: BALLOT, accepted: 0, length: 0, members, joiners: Ranks::default() };
    assert_eq!(member.agree(0, vote), NO_PACKETS);
    assert_eq!(member.agree(2, vote), NO_PACKETS);
    let sent = member.agree(3, vote);
    assert_eq!(sent, ["start 1.1 base 0 length 0 members {1 2 3} joiners {} state 32 to all"]);
    // After another expulsion, two of four are no majority.
    member.expel(3);
    let sent = member.at(10_000);
    assert!(!sent.iter().any(|packet| packet.contains("active")), "{sent:?}");
    let too_few = |event: &Event| matches!(event, Event::Note(note) if note.name == "no_quorum");
    assert!(member.events().iter().any(too_few));
}

#[test]
fn coordinator_takes_over_longest_log() {
    let mut member = Member::new(1, &[("resilience", "1"), ("tries", "2")]);
    member.offer("a").unwrap();
    member.at(800);
    let members = Ranks::below(4);
    let vote =
        |length| Packet::Vote { ballot: BALLOT, accepted: 0, length, members, joiners: Ranks::default() };
    member.agree(2, vote(1));
    member.agree(3, vote(0));
    let sent = member.at(1_000);
    assert!(sent.contains(&"fetch view 1 order 0 to rank 2".to_owned()), "{sent:?}");
    // The coordinator's own message, which is already ordered.
    let sent = member.receive_in(1, 2, Body::Fetched { order: 0, source: 1, message: 0, payload: b"a" });
    assert_eq!(sent, ["start 1.1 base 0 length 1 members {1 2 3} joiners {} state 32 to all"]);
    member.agree(2, Packet::Ready { ballot: BALLOT });
    assert_eq!(member.agree(3, Packet::Ready { ballot: BALLOT }), ["active 1.1 to all"]);
    assert_eq!(member.take_all(), [(1, 0)]);
}

#[test]
fn restarted_member_joins_and_skips_earlier_messages() {
    let mut member = Member::of(context(2, true), &[("resilience", "1")]);
    assert_eq!(member.sent(), ["join lost to all"]);
    assert_eq!(member.agree(1, Packet::Invite { ballot: BALLOT }), NO_PACKETS, "it does not vote");
    let members = Ranks::below(4);
    let joiners: Ranks = [2].into_iter().collect();
    let state = state([5, 0, 3, 1]);
    let start = Packet::Start { ballot: BALLOT, base: 0, length: 9, members, joiners, state: &state };
    assert_eq!(member.agree(1, start), ["ready 1.1 to rank 1"]);
    member.agree(1, Packet::Active { ballot: BALLOT });
    member.receive_in(1, 1, ordered(9, 10, 0, 5));
    assert_eq!(member.take_all(), [(0, 5)]);
}

#[test]
fn joiner_as_sequencer_knows_ordered_messages() {
    let settings = [("resilience", "1"), ("tries", "2"), ("alive_interval", "100 ms")];
    let mut member = Member::of(context(2, true), &settings);
    let members = Ranks::below(4);
    let joiners: Ranks = [2].into_iter().collect();
    let state = state([5, 0, 3, 1]);
    let start = Packet::Start { ballot: BALLOT, base: 0, length: 9, members, joiners, state: &state };
    member.agree(1, start);
    member.agree(1, Packet::Active { ballot: BALLOT });
    // Rank 1 falls silent.
    let ballot = Ballot { number: 2, coordinator: 2 };
    let sent = member.at(400);
    assert!(sent.contains(&"invite 2.2 to all".to_owned()), "{sent:?}");
    for rank in [0, 3] {
        member.agree(rank, Packet::Vote { ballot, accepted: 1, length: 9, members, joiners });
    }
    member.at(600);
    for rank in [0, 3] {
        member.agree(rank, Packet::Ready { ballot });
    }
    member.sent();
    let sent = member.receive_in(2, 0, request(9, 5));
    assert_eq!(sent, ["ordered view 2 order 9 accepted 9 purge 9 source 0 message 5 len 1 to all"]);
    assert_eq!(
        member.receive_in(2, 3, request(9, 0)),
        ["alive view 2 next 10 accepted 9 purge 9 wanted {} to rank 3"]
    );
}

#[test]
fn tentative_message_of_old_view_is_fetched_again() {
    let mut member = Member::new(2, &[("resilience", "1")]);
    member.receive(0, ordered(0, 0, 2, 0));
    member.agree(1, Packet::Active { ballot: BALLOT });
    let ballot = Ballot { number: 2, coordinator: 1 };
    member.agree(1, Packet::Invite { ballot });
    let (members, joiners) = (Ranks::below(4), Ranks::default());
    let start = Packet::Start { ballot, base: 1, length: 1, members, joiners, state: &[] };
    assert_eq!(member.agree(1, start), ["fetch view 2 order 0 to rank 1"], "another message may be there");
    member.receive_in(2, 1, Body::Fetched { order: 0, source: 3, message: 0, payload: b"m" });
    member.agree(1, Packet::Active { ballot });
    assert_eq!(member.take_all(), [(3, 0)]);
}

#[test]
fn removed_member_learns_of_newer_view_and_joins() {
    let mut member = Member::new(2, &[("resilience", "1")]);
    let sent = member.receive_in(1, 1, ordered(7, 8, 3, 0));
    assert_eq!(sent, ["alivereq view 0 ack 0 to rank 1"]);
    assert_eq!(member.agree(1, Packet::Active { ballot: BALLOT }), ["join to all"]);
    let ballot = Ballot { number: 2, coordinator: 1 };
    let sent = member.agree(1, Packet::Invite { ballot });
    assert_eq!(sent, ["vote 2.1 accepted 0 length 0 members {0 1 2 3} joiners {} to rank 1"]);
    let (members, joiners) = (Ranks::below(4), Ranks::default());
    let start = Packet::Start { ballot, base: 1, length: 6, members, joiners, state: &[] };
    assert_eq!(member.agree(1, start).len(), 4, "it fetches what it missed");
    // The first four messages were purged.
    let state = state([1, 2, 0, 1]);
    let sent = member.receive_in(2, 1, Body::Gone { order: 4, state: &state });
    assert_eq!(sent, ["fetch view 2 order 4 to rank 1", "fetch view 2 order 5 to rank 1"][..sent.len()]);
    member.receive_in(2, 1, Body::Fetched { order: 4, source: 0, message: 1, payload: b"m" });
    let sent = member.receive_in(2, 1, Body::Fetched { order: 5, source: 3, message: 1, payload: b"m" });
    assert_eq!(sent, ["ready 2.1 to rank 1"]);
    member.agree(1, Packet::Active { ballot });
    assert_eq!(member.take_all(), [(0, 1), (3, 1)]);
    assert!(member.events().iter().any(|event| matches!(event, Event::LossFound { .. })));
}

#[test]
fn packet_of_older_view_is_answered_with_current_view() {
    let mut leader = Member::new(1, &[("resilience", "1"), ("tries", "2")]);
    leader.offer("a").unwrap();
    leader.at(800);
    let vote = Packet::Vote {
        ballot: BALLOT,
        accepted: 0,
        length: 0,
        members: Ranks::below(4),
        joiners: Ranks::default(),
    };
    leader.agree(2, vote);
    leader.agree(3, vote);
    leader.at(1_000);
    leader.agree(2, Packet::Ready { ballot: BALLOT });
    leader.agree(3, Packet::Ready { ballot: BALLOT });
    leader.sent();
    assert_eq!(leader.receive_in(0, 0, request(0, 0)), ["active 1.1 to rank 0"]);
}

#[test]
fn basic_form_has_no_votes() {
    let mut member = Member::new(1, &[]);
    assert_eq!(member.agree(2, Packet::Invite { ballot: Ballot { number: 1, coordinator: 2 } }), NO_PACKETS);
    assert_eq!(member.agree(2, Packet::Join { lost: true }), NO_PACKETS);
    assert_eq!(member.drops(), [DropReason::OutOfWindow; 2]);
}

#[test]
fn packets_of_non_members_are_dropped() {
    let mut member = Member::new(1, &[]);
    member.receive_packet(
        NodeId(77),
        carillon_wire::sequencer::Packet::Normal { view: 0, body: ordered(0, 1, 2, 0) },
    );
    member.receive_bytes(MEMBERS[0], vec![1, 2, 3]);
    assert_eq!(member.drops(), [DropReason::NotAMember, DropReason::Malformed]);
}
