//! Tests of the reformation phase and of its causes. `blocks::reformation` defines the phases.

use std::time::Duration;

use carillon_core::{Event, NodeId, Note, Value};
use carillon_testkit::{Group, Link, sampling_step};
use carillon_wire::chang_maxemchuk::Body;
use carillon_wire::reformation::{Ballot, Packet, Ranks};

use super::super::ENTRY;
use super::site::{Site, ack, msg, repair};

fn ballot(number: u32, coordinator: u8) -> Ballot {
    Ballot { number, coordinator }
}

fn ranks(ranks: &[usize]) -> Ranks {
    ranks.iter().copied().collect()
}

/// Vote of a site that has `length` entries of the first list's order.
fn vote(ballot: Ballot, length: u64) -> Packet<'static> {
    Packet::Vote { ballot, accepted: 0, length, members: Ranks::below(3), joiners: Ranks::default() }
}

fn start(ballot: Ballot, length: u64, members: &[usize]) -> Packet<'static> {
    Packet::Start { ballot, base: 0, length, members: ranks(members), joiners: Ranks::default(), state: &[] }
}

/// The proposal of a list of all sites that goes on with the order of list `base`.
fn start_of(ballot: Ballot, base: u32, length: u64) -> Packet<'static> {
    Packet::Start { ballot, base, length, members: Ranks::below(3), joiners: Ranks::default(), state: &[] }
}

#[test]
fn source_unanswered_r_times_starts_reformation() {
    let mut site = Site::new(1, &[]);
    site.offer("a").unwrap();
    let sent = site.at(399);
    assert_eq!(sent, vec!["view 0 msg 1:0 len 1 to all"; 3]);
    let sent = site.at(500);
    assert!(sent.iter().any(|packet| packet == "invite 1.1 to all"), "{sent:?}");
}

#[test]
fn transfer_unanswered_r_times_starts_reformation() {
    let mut site = Site::new(0, &[]);
    site.receive(2, msg(2, 0, "a"));
    assert_eq!(site.at(119).len(), 3);
    let sent = site.at(200);
    assert!(sent.iter().any(|packet| packet == "invite 1.0 to all"), "{sent:?}");
}

#[test]
fn a_site_that_cannot_accept_yet_but_asks_is_not_suspected() {
    let mut site = Site::new(0, &[]);
    site.receive(2, msg(2, 0, "a"));
    for at in (80..2000).step_by(80) {
        let sent = site.at(at);
        assert!(!sent.iter().any(|packet| packet.contains("invite")), "{sent:?}");
        site.receive(1, Body::Retrans { from: 0, below: 1 });
    }
}

/// Choice: neither a source nor the one that passed the token on is there to find the failure.
/// A site that waits for a commit asks the token site and, without an answer, starts the reformation.
#[test]
fn unanswered_commit_question_starts_reformation() {
    let mut site = Site::new(2, &[]);
    site.receive(0, msg(0, 0, "a"));
    site.receive(0, ack(0, (0, 0), (0, 1)));
    assert!(site.at(99).is_empty());
    assert_eq!(site.at(300), vec!["view 0 retrans 1..2 to rank 1"; 3]);
    let sent = site.at(500);
    assert!(sent.iter().any(|packet| packet == "invite 1.2 to all"), "{sent:?}");
    assert!(site.take().is_empty());
}

/// Choice: the answer to that question.
#[test]
fn asked_token_site_confirms_its_position() {
    let mut site = Site::new(1, &[]);
    site.receive(0, msg(0, 0, "a"));
    site.receive(0, ack(0, (0, 0), (0, 1)));
    let question = Body::Retrans { from: 1, below: 2 };
    assert_eq!(site.receive(2, question), ["view 0 confirm site 1 below 1 to rank 2"]);
    let mut asker = Site::new(2, &[]);
    asker.receive(0, msg(0, 0, "a"));
    asker.receive(0, ack(0, (0, 0), (0, 1)));
    asker.at(100);
    asker.receive(1, Body::Confirm { site: 1, below: 1 });
    assert_eq!(asker.take(), ["0:0 a"]);
    assert!(asker.at(10_000).is_empty());
}

/// A site that has voted neither acknowledges, accepts nor sends anything in the old token list.
#[test]
fn voter_is_silent_in_old_list() {
    let mut site = Site::new(1, &[]);
    let sent = site.agree(2, Packet::Invite { ballot: ballot(1, 2) });
    assert_eq!(sent, ["vote 1.2 accepted 0 length 0 members {0 1 2} joiners {} to rank 2"]);
    assert!(site.offer("b").unwrap().is_empty(), "no messages are multicast");
    site.receive(0, msg(0, 0, "a"));
    assert!(site.receive(0, ack(0, (0, 0), (0, 1))).is_empty());
    assert!(site.at(100).is_empty());
    assert!(site.take().is_empty());
}

/// The token site fails in the middle of a stream: what it acknowledged and some site holds keeps its
/// place, the rest is acknowledged by the coordinator, the first token site of the new list.
/// After a failure of the token site the longest log continues, and its messages are committed.
#[test]
fn longest_log_survives_token_site_failure() {
    let mut site = Site::new(1, &[]);
    site.offer("b").unwrap();
    assert_eq!(site.at(399).len(), 3);
    let sent = site.at(480);
    assert_eq!(sent.last().map(String::as_str), Some("invite 1.1 to all"), "{sent:?}");
    // Site 0 acknowledged a message of site 2, passed the token on, and failed; site 2 received the transfer.
    let invited = ballot(1, 1);
    assert!(site.agree(2, vote(invited, 1)).is_empty(), "site 0 may vote yet");
    let sent = site.at(700);
    assert!(sent.iter().any(|packet| packet == "view 1 retrans 0..1 to rank 2"), "{sent:?}");
    let sent = site.receive_in(2, 1, repair(0, (2, 0), (0, 1), "a"));
    assert_eq!(sent, ["start 1.1 base 0 length 1 members {1 2} joiners {} state 24 to all"]);
    assert!(site.take().is_empty(), "not all are ready");
    let sent = site.agree(2, Packet::Ready { ballot: invited });
    let active = ["active 1.1 to rank 2", "active 1.1 to all"];
    assert!(active.contains(&sent[0].as_str()), "{sent:?}");
    assert_eq!(sent[1..], ["view 1 ack 1 of 1:0 token 1 to 2 to all"]);
    assert_eq!(site.take(), ["2:0 a"]);
    let lost: Vec<Event> =
        site.events().into_iter().filter(|event| matches!(event, Event::MemberLost { .. })).collect();
    assert_eq!(lost, [Event::MemberLost { member: NodeId(5) }]);
    site.receive_in(2, 1, Body::Confirm { site: 2, below: 2 });
    assert_eq!(site.take(), ["1:0 b"]);
}

/// Choice: a reformation does not wait for a departed site.
#[test]
fn departed_site_is_removed_when_others_vote() {
    let mut site = Site::new(1, &[]);
    site.receive(2, msg(2, 0, "a"));
    site.receive(0, ack(0, (2, 0), (0, 1)));
    site.expel(0);
    let sent = site.at(50);
    assert_eq!(sent.last().map(String::as_str), Some("invite 1.1 to all"), "{sent:?}");
    let invited = ballot(1, 1);
    assert!(site.agree(0, vote(invited, 9)).is_empty(), "its vote does not count");
    let sent = site.agree(2, vote(invited, 1));
    assert_eq!(sent, ["start 1.1 base 0 length 1 members {1 2} joiners {} state 24 to all"]);
    site.agree(2, Packet::Ready { ballot: invited });
    site.agree(2, Packet::Installed { ballot: invited });
    assert_eq!(site.take(), ["2:0 a"]);
    // It is not taken in again.
    assert!(site.agree(0, Packet::Join { lost: true }).is_empty());
    assert!(!site.at(5_000).iter().any(|packet| packet.contains("invite")));
}

/// Choice: a list does not stay if its coordinator did not know that one of its sites has left.
#[test]
fn a_list_with_a_site_that_has_left_is_replaced() {
    let mut site = Site::new(2, &[]);
    let view = ballot(1, 1);
    assert_eq!(site.agree(1, start(view, 0, &[0, 1, 2])), ["ready 1.1 to rank 1"]);
    assert!(site.expel(0).is_empty());
    assert_eq!(site.agree(1, Packet::Active { ballot: view }), ["installed 1.1 to rank 1"]);
    assert!(site.at(50).contains(&"invite 2.2 to all".to_owned()));
}

/// Choice: nor does one that begins anew believe a site that has left.
#[test]
fn restarted_site_knows_departed_members() {
    let mut site = cut_out();
    site.expel(0);
    site.agree(1, start_of(ballot(2, 1), 1, 4));
    assert_eq!(
        site.receive_in(1, 2, Body::Purged { below: 3 }),
        ["join lost to all"],
        "no other site has it"
    );
    let (view, members, joiners) = (ballot(3, 0), ranks(&[0, 1, 2]), ranks(&[2]));
    let anew = Packet::Start { ballot: view, base: 1, length: 9, members, joiners, state: &[0; 24] };
    assert!(site.agree(0, anew).is_empty());
    let view = ballot(4, 1);
    let anew = Packet::Start { ballot: view, base: 1, length: 9, members, joiners, state: &[0; 24] };
    assert_eq!(site.agree(1, anew), ["ready 4.1 to rank 1"]);
}

/// Choice: two of three have left; the last says so and goes on asking.
#[test]
fn site_without_majority_reports_it() {
    let mut site = Site::new(1, &[]);
    site.offer("b").unwrap();
    site.expel(0);
    site.expel(2);
    let invites = site.at(20_000).iter().filter(|packet| packet.contains("invite")).count();
    assert!(invites > 10, "{invites}");
    let fields = vec![("votes", Value::Count(1)), ("nodes", Value::Count(3))];
    let note = Event::Note(Box::new(Note { name: "no_quorum", fields }));
    assert!(site.events().iter().filter(|event| **event == note).count() > 3);
    assert!(site.take().is_empty() && !site.is_finished());
}

/// A site that holds what the new list drops forgets it, and its source sends it again.
#[test]
fn entry_that_no_voter_holds_loses_its_timestamp() {
    let mut site = Site::new(2, &[("resilience", "2")]);
    site.offer("c").unwrap();
    site.receive(0, msg(0, 0, "a"));
    site.receive(0, ack(0, (0, 0), (0, 1)));
    site.receive(1, ack(1, (2, 0), (1, 2)));
    site.sent();
    let view = ballot(3, 1);
    assert_eq!(site.agree(1, start(view, 1, &[1, 2])), ["ready 3.1 to rank 1"]);
    let sent = site.agree(1, Packet::Active { ballot: view });
    assert_eq!(sent, ["installed 3.1 to rank 1", "view 3 msg 2:0 len 1 to all"]);
    assert_eq!(site.take(), ["0:0 a"]);
    // In the new list it gets a new place. That has two sites, so L is 1.
    site.receive_in(1, 3, ack(1, (2, 0), (1, 2)));
    assert_eq!(site.take(), ["2:0 c"]);
}

/// The list is in force when all have what goes on: a repair that comes late does not say that.
#[test]
fn a_site_that_is_ready_waits_for_the_list_to_be_in_force() {
    let mut site = Site::new(2, &[]);
    let view = ballot(1, 1);
    assert_eq!(site.agree(1, start(view, 1, &[1, 2])), ["view 1 retrans 0..1 to rank 1"]);
    assert_eq!(site.receive_in(1, 1, repair(0, (0, 0), (0, 1), "a")), ["ready 1.1 to rank 1"]);
    site.receive_in(1, 1, repair(0, (0, 0), (0, 1), "a"));
    site.receive_in(1, 1, Body::Retrans { from: 0, below: 1 });
    assert!(site.take().is_empty());
    // Any packet of the coordinator in the new list shows that the list is in force.
    site.receive_in(1, 1, msg(1, 0, "b"));
    assert_eq!(site.take(), ["0:0 a"]);
}

#[test]
fn a_packet_of_an_older_list_is_dropped() {
    let mut site = Site::new(2, &[("resilience", "0")]);
    site.agree(1, start(ballot(1, 1), 0, &[1, 2]));
    site.agree(1, Packet::Active { ballot: ballot(1, 1) });
    site.receive(0, msg(0, 0, "a"));
    site.receive(0, ack(0, (0, 0), (0, 1)));
    assert!(site.take().is_empty());
}

/// Choice: an excluded site learns of the new list and asks to join it.
#[test]
fn excluded_live_site_asks_to_rejoin() {
    let mut site = Site::new(0, &[]);
    let sent = site.agree(1, Packet::Active { ballot: ballot(1, 1) });
    assert_eq!(sent, ["join to all"]);
    site.receive_in(1, 1, msg(1, 0, "b"));
    assert!(site.take().is_empty());
}

/// "During the reformation phase, no messages are multicast": no acknowledgments either, in any phase and for any
/// coordinator.
#[test]
fn no_list_packet_is_multicast_during_reformation() {
    let multicast = |sent: &[String]| {
        let of_list = |packet: &&String| packet.starts_with("view") && packet.ends_with("to all");
        sent.iter().filter(of_list).cloned().collect::<Vec<String>>()
    };
    let nothing: [String; 0] = [];
    // Each phase receives messages to acknowledge, the token, and messages of its own application.
    let mut number = 0;
    let mut disturb = |site: &mut Site, view: u32| {
        let mut sent = site.receive_in(2, view, msg(2, number, "a"));
        sent.extend(site.receive(2, msg(2, number, "a")));
        sent.extend(site.receive(0, ack(number, (2, number), (0, 1))));
        sent.extend(site.offer("b").unwrap());
        number += 1;
        sent
    };
    let mut site = Site::new(1, &[("window", "64"), ("retries", "6")]);
    assert!(!multicast(&site.offer("b").unwrap()).is_empty());
    site.expel(0);
    let sent = site.at(50);
    assert!(sent.iter().any(|packet| packet == "invite 1.1 to all"), "{sent:?}");
    assert_eq!(multicast(&disturb(&mut site, 0)), nothing, "inviting");
    assert_eq!(multicast(&site.at(120)), nothing, "inviting");
    let invited = ballot(1, 1);
    let sent = site.agree(2, vote(invited, 1));
    assert_eq!(sent, ["view 1 retrans 0..1 to rank 2"], "collecting");
    assert_eq!(multicast(&disturb(&mut site, 0)), nothing, "collecting");
    assert_eq!(multicast(&site.at(200)), nothing, "collecting");
    let sent = site.receive_in(2, 1, repair(0, (2, 0), (0, 1), "a"));
    assert!(sent[0].starts_with("start 1.1"), "{sent:?}");
    assert_eq!(multicast(&sent), nothing, "starting");
    assert_eq!(multicast(&disturb(&mut site, 0)), nothing, "starting");
    assert_eq!(multicast(&site.at(300)), nothing, "starting");
    // Another's ballot: voted, accepting, ready.
    let other = ballot(4, 2);
    let mut sent = site.agree(2, Packet::Invite { ballot: other });
    sent.extend(disturb(&mut site, 0));
    let members = ranks(&[1, 2]);
    let start =
        Packet::Start { ballot: other, base: 1, length: 2, members, joiners: Ranks::default(), state: &[] };
    sent.extend(site.agree(2, start));
    assert!(sent.contains(&"view 4 retrans 1..2 to rank 2".to_owned()), "{sent:?}");
    sent.extend(disturb(&mut site, 0));
    sent.extend(site.receive_in(2, 4, repair(1, (2, 1), (2, 1), "a")));
    assert_eq!(sent.last().map(String::as_str), Some("ready 4.2 to rank 2"));
    sent.extend(disturb(&mut site, 0));
    sent.extend(site.at(400));
    assert_eq!(multicast(&sent), nothing, "voted, accepting, ready");
    // It was only put off.
    assert!(!multicast(&site.agree(2, Packet::Active { ballot: other })).is_empty());
}

/// Choice: the site fetches the missing entries and delivers them before newer ones.
#[test]
fn a_site_that_was_cut_out_and_returns_fetches_its_backlog() {
    let mut site = cut_out();
    let returned = ballot(2, 1);
    let sent = site.agree(1, Packet::Invite { ballot: returned });
    assert_eq!(sent, ["vote 2.1 accepted 0 length 2 members {0 1 2} joiners {} to rank 1"]);
    let start = start_of(returned, 1, 4);
    // From where its own log is committed: the rest may have another order there, and has.
    assert_eq!(site.agree(1, start), ["view 2 retrans 1..4 to rank 1"]);
    assert!(site.receive_in(1, 2, repair(3, (1, 1), (1, 0), "y")).is_empty());
    assert!(site.receive_in(1, 2, repair(2, (0, 1), (0, 1), "c")).is_empty());
    assert_eq!(site.receive_in(1, 2, repair(1, (1, 0), (1, 0), "x")), ["ready 2.1 to rank 1"]);
    assert!(site.take().is_empty());
    assert_eq!(site.agree(1, Packet::Active { ballot: returned }), ["installed 2.1 to rank 1"]);
    assert_eq!(site.take(), ["1:0 x", "0:1 c", "1:1 y"]);
    let lost = site.events().into_iter().any(|event| matches!(event, Event::LossFound { .. }));
    assert!(!lost, "it has everything");
}

/// Choice: a member that has accepted the list supplies entries that its coordinator does not have. Before it
/// accepts, its order may differ.
#[test]
fn accepting_member_supplies_entries_missing_at_coordinator() {
    let mut site = Site::new(0, &[]);
    site.receive(1, msg(1, 0, "a"));
    let view = ballot(1, 1);
    let question = Body::Retrans { from: 0, below: 1 };
    site.agree(1, Packet::Invite { ballot: view });
    assert!(site.receive_in(2, 1, question).is_empty(), "voted");
    assert_eq!(site.receive_in(1, 1, question), ["view 1 repair 0 of 1:0 token 0 to 1 len 1 to rank 1"]);
    assert_eq!(site.agree(1, start(view, 1, &[0, 1, 2])), ["ready 1.1 to rank 1"]);
    assert_eq!(site.receive_in(2, 1, question), ["view 1 repair 0 of 1:0 token 0 to 1 len 1 to rank 2"]);
}

/// Choice: purged entries are lost to the site, which reports the loss and joins as a site without a log.
#[test]
fn site_with_purged_backlog_reports_loss_and_joins_empty() {
    let nothing: [String; 0] = [];
    let mut site = cut_out();
    let (returned, all) = (ballot(2, 1), ranks(&[0, 1, 2]));
    let start = start_of(returned, 1, 4);
    site.agree(1, start);
    site.events();
    // Site 0 is a member too and may hold it: it may be the coordinator that has lost what it knew.
    assert_eq!(site.receive_in(1, 2, Body::Purged { below: 3 }), ["view 2 retrans 1..4 to rank 0"]);
    assert_eq!(site.receive_in(1, 2, Body::Purged { below: 3 }), nothing, "that one is not asked");
    assert_eq!(site.receive_in(0, 2, Body::Purged { below: 2 }), ["join lost to all"]);
    let lost = site.events().into_iter().filter(|event| matches!(event, Event::LossFound { .. })).count();
    assert_eq!(lost, 3, "of each source something may be");
    let numbers: Vec<u8> = [7u64, 2, 0].iter().flat_map(|number| number.to_be_bytes()).collect();
    let ballot = ballot(3, 1);
    let joiners = ranks(&[2]);
    let start = Packet::Start { ballot, base: 1, length: 9, members: all, joiners, state: &numbers };
    assert_eq!(site.agree(1, start), ["ready 3.1 to rank 1"]);
    site.agree(1, Packet::Active { ballot });
    site.receive_in(0, 3, msg(0, 7, "new"));
    site.receive_in(1, 3, ack(9, (0, 7), (1, 2)));
    // It accepts the token, and passes it on to site 0, which does.
    assert_eq!(site.at(20), ["view 3 ack 10 of nothing token 2 to 0 to all"]);
    site.receive_in(0, 3, Body::Confirm { site: 0, below: 11 });
    assert_eq!(site.take(), ["0:7 new"]);
}

/// Site 2 with one message committed and one that only has a place, as it learns that there is a list
/// without it.
fn cut_out() -> Site {
    let mut site = Site::new(2, &[("resilience", "2")]);
    site.receive(0, msg(0, 0, "a"));
    site.receive(0, ack(0, (0, 0), (0, 1)));
    site.receive(0, msg(0, 1, "c"));
    site.receive(1, ack(1, (0, 1), (1, 2)));
    assert_eq!(site.take(), ["0:0 a"]);
    site.sent();
    assert_eq!(site.agree(1, Packet::Active { ballot: ballot(1, 1) }), ["join to all"]);
    site
}

/// Whole groups, in which sites fail one after the other and the token site is among them.
#[test]
fn group_of_five_survives_two_failed_token_sites() {
    for seed in (0..20).step_by(sampling_step(3)) {
        let link = Link { delay: Duration::from_millis(1), ..Link::losing(0.02) };
        let group = Group::new(&ENTRY, seed).receivers(4).senders(5).messages(40).all_links(link);
        let group = group.set("resilience", "2").set("message_timeout", "40 ms").set("retries", "6");
        // At one millisecond a hop the token is at each site every few milliseconds: the failures
        // hit the token site, its predecessor and its successor in turn.
        let first = Duration::from_micros(20_000 + 777 * seed);
        let second = Duration::from_micros(20_500 + 1_333 * seed);
        let report = group.crash(NodeId((seed % 5) as u32), first);
        let report = report.crash(NodeId(((seed + 1) % 5) as u32), second).run();
        report.check_reliable().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let lost = report.count(|_, event| matches!(event, Event::MemberLost { .. }));
        assert!(lost >= 6, "seed {seed}: three sites miss two each, {lost}");
    }
}

/// L = 0 is the source's own protocol: it survives no failure, but delivers nothing wrong.
#[test]
fn without_resilience_a_group_stops_when_a_site_fails() {
    let group = Group::new(&ENTRY, 1).receivers(2).senders(3).messages(50).limit(Duration::from_secs(20));
    let report = group.set("resilience", "0").crash(NodeId(1), Duration::from_millis(5)).run();
    assert!(report.finished.is_none());
    report.check_safety().unwrap();
    let first = report.receivers[0].deliveries.len();
    assert!((1..150).contains(&first), "{first}");
}
