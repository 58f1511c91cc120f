//! Negative acknowledgments, repairs and flow control.

use carillon_core::Event;
use carillon_wire::rmp::{Body, Id, Item, Message, Quality, Slot};

use super::fixture::{Member, ack};

fn nack(site: u16, with_data: bool, from: u64, below: u64) -> Body<'static> {
    Body::Nack { site, with_data, from, below }
}

/// "A NACK of another member for the same slots suppresses it."
#[test]
fn nack_waits_and_is_suppressed_by_that_of_another() {
    let mut member = Member::new(1, &[("nack_delay", "20 ms")]);
    assert!(ack(&mut member, 1, (0, 2), &[]).is_empty(), "it waits at random");
    assert!(member.receive(2, nack(0, false, 0, 1)).is_empty());
    assert!(member.events().iter().any(|event| matches!(event, Event::RequestSuppressed { .. })));
    assert!(member.at(29).is_empty());
    assert_eq!(member.at(30), ["nack to 0 0..1 to all"], "not answered in time");
}

/// "With `source` or `token-site`, NACKs and repairs are unicast."
#[test]
fn destination_of_nacks_is_selectable() {
    for (policy, to) in [("multicast", "all"), ("source", "rank 1"), ("token-site", "rank 0")] {
        let mut member = Member::new(2, &[("nack", policy)]);
        let site = if policy == "source" { 1 } else { 0 };
        let sent = ack(&mut member, 0, (0, 1), &[(1, 0)]);
        if policy == "multicast" {
            assert_eq!(sent, ["nack to 0 0..1 with data to all"]);
        } else {
            assert_eq!(sent, [format!("nack to {site} 0..1 with data to {to}")]);
        }
    }
}

/// "Repairs then go to the group, each at most once in half a `request_timeout`."
#[test]
fn repair_goes_to_the_group_once_in_a_while() {
    let mut member = Member::new(0, &[]);
    member.offer("m");
    let repair = "repair 0 token 0 to 1 of 0:0 number 0 total len 1 to all";
    assert_eq!(member.receive(2, nack(0, true, 0, 1)), [repair]);
    assert!(member.receive(1, nack(0, true, 0, 1)).is_empty());
    member.at(15);
    assert_eq!(member.receive(1, nack(0, true, 0, 1)), [repair]);
    assert!(member.receive(1, nack(2, true, 0, 1)).is_empty(), "another member shall answer");
    assert_eq!(member.receive(1, nack(0, false, 0, 1)), ["ack 0 token 0 to 1 of 0:0 to all"]);
}

/// "The window of a source grows by one with each message that gets a slot", "A NACK halves it, and a timeout sets it
/// to one message".
#[test]
fn window_grows_with_slots_and_is_cut_by_losses() {
    let data_of = |sent: Vec<String>| {
        let data = sent.iter().filter(|packet| packet.starts_with("data"));
        data.map(|packet| packet.split(' ').nth(1).unwrap().to_owned()).collect::<Vec<_>>()
    };
    let mut member = Member::new(2, &[]);
    let sent = (0..32).flat_map(|_| member.offer("m")).collect();
    assert_eq!(data_of(sent), ["2:0"], "slow start begins with one message");
    assert_eq!(data_of(ack(&mut member, 0, (0, 1), &[(2, 0)])), ["2:1", "2:2"]);
    // The token arrives here, and orders both messages in flight.
    assert_eq!(data_of(ack(&mut member, 1, (1, 2), &[])), ["2:3", "2:4", "2:5", "2:6"]);
    // The cut leaves a window of two, which the two messages without a slot fill.
    let requested = Id { source: 2, sequence: 4 };
    assert_eq!(data_of(member.receive(0, Body::NackData(requested))), ["2:4"], "repeated, and nothing new");
    assert_eq!(data_of(ack(&mut member, 4, (0, 1), &[(2, 3), (2, 4)])), Vec::<String>::new());
    let repeated = data_of(member.at(90));
    assert!(repeated.starts_with(&["2:5".to_owned()]), "{repeated:?}");
}

/// "Measured: the time in which a request is answered."
#[test]
fn measured_repair_time_decides_when_nack_is_repeated() {
    for (timeouts, at) in [("measured", 80), ("fixed", 50)] {
        let mut member = Member::new(2, &[("timeouts", timeouts)]);
        assert_eq!(ack(&mut member, 0, (0, 1), &[(0, 0)]), ["nack to 0 0..1 with data to all"]);
        member.at(20);
        let id = Id { source: 0, sequence: 0 };
        let slot = Slot { timestamp: 0, site: 0, next: 1, item: Item::Message(id) };
        let message = Message { id, quality: Quality::TotallyOrdered, number: 0, payload: b"m" };
        // The first sample: 20 + 4 x 10 ms.
        member.receive(0, Body::Repair { slot, message: Some(message) });
        let nack = "nack to 1 1..2 with data to all".to_owned();
        assert_eq!(ack(&mut member, 1, (1, 2), &[(1, 0)])[0], nack);
        let repeated = |sent: Vec<String>| sent.contains(&nack);
        assert_eq!([at - 1, at].map(|at| repeated(member.at(at))), [false, true], "{timeouts}");
    }
}
