//! Lists of members in the total order.

use std::time::Duration;

use carillon_core::{Event, NodeId};
use carillon_testkit::{Group, Report, sampling_step};
use carillon_wire::reformation;
use carillon_wire::rmp::{Batch, Body, Datagram, Item, Quality, Slot};

use super::super::ENTRY;
use super::fixture::{Member, ack, data};

const MS: Duration = Duration::from_millis(1);

fn ranks(ranks: &[usize]) -> reformation::Ranks {
    ranks.iter().copied().collect()
}

/// "A member that is gone is removed by a list: the next slot after which the token skips it."
#[test]
fn token_site_lists_the_members_without_one_that_is_gone() {
    let mut member = Member::new(1, &[]);
    assert!(member.expel(2).is_empty(), "it waits for the token");
    let sent = ack(&mut member, 0, (0, 1), &[]);
    assert_eq!(sent, ["new-list 1 token 1 to 0 of list {0 1} to all"]);
    // A packet of the former member counts no longer.
    assert!(member.receive(2, data(2, 0, Quality::TotallyOrdered)).is_empty());
    ack(&mut member, 2, (0, 1), &[(0, 0)]);
    assert!(member.take().is_empty());
}

/// "Elsewhere the member, the token site or the leader is removed by a reformation."
#[test]
fn member_with_the_token_is_removed_by_a_reformation() {
    for (rank, gone, settings) in [(1, 0, &[][..]), (0, 2, &[("lists", "reformation")])] {
        let mut member = Member::new(rank, settings);
        member.expel(gone);
        let sent: Vec<String> = (1..200).flat_map(|ms| member.at(ms)).collect();
        assert!(sent.iter().any(|packet| packet.starts_with("invite")), "{sent:?}");
    }
}

/// "If the list does not come, a reformation removes the member."
#[test]
fn member_that_no_list_removes_is_removed_by_a_reformation() {
    let mut member = Member::new(1, &[]);
    member.expel(2);
    let sent: Vec<String> = (1..900).flat_map(|ms| member.at(ms)).collect();
    assert!(sent.iter().any(|packet| packet.starts_with("invite")), "{sent:?}");
}

/// "A member accepts a list only if one member changes and the token passes on in the new list."
#[test]
fn list_with_other_changes_is_refused() {
    for (members, next) in [(&[0, 1, 2][..], 1), (&[0], 0), (&[1, 2], 1), (&[0, 1], 0)] {
        let mut member = Member::new(1, &[]);
        let list = Body::Ack { timestamp: 0, site: 0, next, batch: Batch::List(ranks(members)) };
        member.receive(0, list);
        let sent = member.receive(0, Body::Nack { site: 1, with_data: false, from: 0, below: 1 });
        assert!(sent.iter().all(|packet| !packet.starts_with("new-list")), "{members:?}: {sent:?}");
    }
}

/// "The leader sends a new member the place at which it begins, and the list."
#[test]
fn new_member_is_welcomed_with_the_state_before_its_list() {
    let mut leader = Member::new(0, &[]);
    leader.offer("m");
    leader.expel(2);
    let list = Body::Ack { timestamp: 1, site: 1, next: 0, batch: Batch::List(ranks(&[0, 1])) };
    leader.receive(1, list);
    assert_eq!(leader.take(), ["0:0"]);
    // The same node may not come back in the session: the host knows that it is gone.
    let join = || Datagram::Reformation(reformation::Packet::Join { lost: true });
    assert!(leader.receive_packet(2, join()).is_empty());
    // Another group, in which the node left by a reformation and is not gone.
    let mut outside = Member::rejoining(2, &[]);
    outside.at(0);
    let numbers: Vec<u8> = [1, 0, 0u64].iter().flat_map(|number| number.to_be_bytes()).collect();
    let members = ranks(&[0, 1, 2]);
    let sent = outside.receive(0, Body::Welcome { timestamp: 1, members, numbers: &numbers });
    assert_eq!(sent, ["nack to 0 1..2 to all"]);
    // It takes no other slot for its list.
    let slot = Slot { timestamp: 1, site: 1, next: 2, item: Item::Null };
    outside.receive(0, Body::Repair { slot, message: None });
    let list = Body::Ack { timestamp: 1, site: 1, next: 2, batch: Batch::List(members) };
    outside.receive(0, list);
    assert_eq!(outside.at(100).first().map(String::as_str), Some("confirm site 2 below 2 to all"));
}

/// Run of five members, of which four send forty messages, one every 100 ms. The last one crashes and comes back
/// without its state after the others have noticed.
fn restarted(lists: &str, crash: u64, seed: u64) -> Report {
    let group = Group::new(&ENTRY, seed).receivers(4).senders(4).messages(40).interval(100 * MS);
    let group = group.set("lists", lists).set("retries", "5").set("qos", "total");
    let group = group.crash(NodeId(4), Duration::from_millis(crash));
    group.restart(NodeId(4), Duration::from_millis(crash + 2500)).limit(Duration::from_secs(60)).run()
}

/// Number of messages that each live member has delivered before the restarted one joined.
fn before_join(report: &Report) -> Vec<usize> {
    let of = |node: u32| {
        let own = report.events.iter().filter(|event| event.node == NodeId(node));
        let own: Vec<_> = own.map(|event| &event.event).collect();
        let joined = own.iter().position(|event| matches!(event, Event::MemberJoined { .. }));
        let before = &own[..joined.expect("the member joins")];
        before.iter().filter(|event| matches!(event, Event::Delivered { .. })).count()
    };
    (0..4).map(of).collect()
}

/// "Every member has the same list at the same place in the order."
#[test]
fn all_members_see_a_join_between_the_same_messages() {
    for crash in (0..200).step_by(sampling_step(67)) {
        let report = restarted("ordered", crash, crash);
        report.check_reliable().unwrap_or_else(|error| panic!("{crash} ms: {error}"));
        let lists = report.count(|_, event| matches!(event, Event::ControlSent { packet: "new-list", .. }));
        assert!(lists > 0, "{crash} ms");
        let welcomes = report.count(|_, event| matches!(event, Event::ControlSent { packet: "welcome", .. }));
        assert!(welcomes > 0, "{crash} ms");
        let before = before_join(&report);
        assert!(before.iter().all(|&count| count == before[0]), "{crash} ms: {before:?}");
        let rejoined = &report.rejoined[0];
        assert!(!rejoined.deliveries.is_empty(), "{crash} ms");
    }
}
