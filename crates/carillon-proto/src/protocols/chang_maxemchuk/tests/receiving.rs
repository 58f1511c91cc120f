//! Tests of ordering, requests and commits at every site, and of the source.

use carillon_core::{DropReason, Event, MessageId, OfferError};
use carillon_wire::chang_maxemchuk::{Body, Id};

use super::site::{Site, ack, msg, repair, transfer};

#[test]
fn message_is_delivered_after_l_token_transfers() {
    for (resilience, needed) in [("0", 0), ("1", 1), ("2", 2)] {
        let mut site = Site::new(2, &[("resilience", resilience)]);
        site.receive(0, msg(0, 0, "a"));
        site.receive(0, ack(0, (0, 0), (0, 1)));
        assert_eq!(site.take().len(), usize::from(needed == 0), "L = {resilience}");
        // The transfer that comes with the acknowledgment counts when it is accepted, as this shows.
        site.receive(1, transfer(1, (1, 2)));
        // The second one is to this site, which accepts it.
        assert_eq!(site.take().len(), usize::from(needed > 0), "L = {resilience}");
    }
    let mut site = Site::new(0, &[("resilience", "2")]);
    site.receive(2, msg(2, 0, "a"));
    site.receive(1, transfer(1, (1, 2)));
    assert!(site.take().is_empty(), "one transfer is accepted");
    site.receive(2, Body::Confirm { site: 2, below: 2 });
    assert_eq!(site.take(), ["2:0 a"]);
}

#[test]
fn messages_are_delivered_in_the_order_of_timestamps() {
    let mut site = Site::new(2, &[("resilience", "0")]);
    site.receive(1, msg(1, 0, "second"));
    site.receive(0, msg(0, 0, "first"));
    site.receive(1, ack(1, (1, 0), (1, 2)));
    assert!(site.take().is_empty(), "timestamp 0 is missing");
    site.receive(0, ack(0, (0, 0), (0, 1)));
    assert_eq!(site.take(), ["0:0 first", "1:0 second"]);
}

#[test]
fn missing_acknowledgment_is_requested_repeatedly() {
    let mut site = Site::new(2, &[]);
    site.receive(0, msg(0, 0, "a"));
    assert_eq!(site.receive(1, transfer(1, (1, 2))), ["view 0 retrans 0..1 to rank 1"]);
    assert!(site.at(19).is_empty());
    assert_eq!(site.at(20), ["view 0 retrans 0..1 to rank 1"]);
    site.receive(1, repair(0, (0, 0), (0, 1), "a"));
    assert!(!site.at(1000).iter().any(|packet| packet.contains("retrans 0")));
}

#[test]
fn acknowledgment_of_missing_message_triggers_request() {
    let mut site = Site::new(2, &[]);
    assert_eq!(site.receive(0, ack(0, (1, 0), (0, 1))), ["view 0 retrans 0..1 to rank 0"]);
}

/// Choice: a site requests only missing entries, not everything after the gap.
#[test]
fn entries_beyond_a_gap_are_not_requested() {
    let mut site = Site::new(2, &[]);
    site.receive(1, msg(1, 0, "b"));
    assert_eq!(site.receive(1, ack(1, (1, 0), (1, 2))), ["view 0 retrans 0..1 to rank 1"]);
    assert_eq!(site.at(20), ["view 0 retrans 0..1 to rank 1"]);
}

#[test]
fn an_old_acknowledgment_is_discarded() {
    let mut site = Site::new(2, &[("resilience", "0")]);
    site.receive(0, msg(0, 0, "a"));
    site.receive(0, ack(0, (0, 0), (0, 1)));
    site.drops();
    assert!(site.receive(0, ack(0, (0, 0), (0, 1))).is_empty());
    assert_eq!(site.drops(), [DropReason::Duplicate]);
    assert_eq!(site.take().len(), 1);
}

/// A message beyond a gap of its source is discarded, and the missing message is requested.
#[test]
fn early_message_is_discarded_and_gap_requested() {
    let mut site = Site::new(2, &[]);
    assert_eq!(site.receive(1, msg(1, 1, "b")), ["view 0 retrans 1:0 to rank 0"]);
    // Choice: the next request goes to the source, which must have the acknowledgment.
    assert_eq!(site.at(20), ["view 0 retrans 1:0 to rank 1"]);
    assert_eq!(site.drops()[0], DropReason::OutOfOrder);
    let mut source = Site::new(0, &[]);
    source.receive(1, msg(1, 0, "a"));
    let request = Body::RetransMessage(Id { source: 1, number: 0 });
    assert_eq!(source.receive(2, request), ["view 0 repair 0 of 1:0 token 0 to 1 len 1 to rank 2"]);
}

/// The one before it is here, though its acknowledgment is not.
#[test]
fn a_message_that_follows_one_that_has_come_is_not_ahead() {
    let mut site = Site::new(2, &[("resilience", "0")]);
    site.receive(1, msg(1, 0, "a"));
    assert!(site.receive(1, msg(1, 1, "b")).is_empty());
    assert_eq!(site.receive(1, ack(1, (1, 1), (1, 2))), ["view 0 retrans 0..1 to rank 1"]);
    site.receive(0, ack(0, (1, 0), (0, 1)));
    assert_eq!(site.take(), ["1:0 a", "1:1 b"]);
}

#[test]
fn a_source_stops_and_waits() {
    let mut site = Site::new(1, &[]);
    assert_eq!(site.offer("a").unwrap(), ["view 0 msg 1:0 len 1 to all"]);
    assert_eq!(site.offer("b"), Err(OfferError::Full));
    site.receive(0, ack(0, (1, 0), (0, 1)));
    assert!(site.offer("b").is_ok());
}

#[test]
fn source_repeats_unacknowledged_message() {
    let mut site = Site::new(1, &[]);
    site.offer("a").unwrap();
    assert!(site.at(99).is_empty());
    assert_eq!(site.at(200), vec!["view 0 msg 1:0 len 1 to all"; 2]);
    let repeats = site.events().iter().filter(|event| matches!(event, Event::RepairSent { .. })).count();
    assert_eq!(repeats, 2);
    site.receive(0, ack(0, (1, 0), (0, 1)));
    assert!(!site.at(1000).iter().any(|packet| packet.contains("msg")));
}

#[test]
fn a_message_completes_at_its_source_when_it_is_delivered() {
    let completed = |site: &mut Site| {
        let of = |event: &Event| matches!(event, Event::Completed { message: MessageId(0), .. });
        site.events().iter().any(of)
    };
    let mut site = Site::new(2, &[]);
    site.offer("a").unwrap();
    site.receive(0, ack(0, (2, 0), (0, 1)));
    assert!(!completed(&mut site) && !site.is_finished());
    site.receive(1, Body::Confirm { site: 1, below: 1 });
    assert!(completed(&mut site) && site.is_finished());
}

/// Choice: a site with a slow application does not accept the token, and shows that it is alive.
#[test]
fn the_token_waits_for_a_slow_application() {
    let mut site = Site::new(1, &[("buffer", "1"), ("resilience", "0")]);
    site.receive(2, msg(2, 0, "a"));
    site.receive(0, ack(0, (2, 0), (0, 1)));
    assert!(site.receive(2, msg(2, 1, "b")).is_empty());
    assert_eq!(site.drops().last(), Some(&DropReason::BufferFull));
    assert_eq!(site.receive(0, ack(0, (2, 0), (0, 1))), ["view 0 confirm site 1 below 0 to all"]);
    assert_eq!(site.take(), ["2:0 a"]);
    assert_eq!(site.receive(2, msg(2, 1, "b")), ["view 0 ack 1 of 2:1 token 1 to 2 to all"]);
}

#[test]
fn only_the_site_that_has_the_token_gives_timestamps() {
    for forged in [
        ack(0, (1, 0), (1, 2)),
        ack(0, (1, 0), (0, 2)),
        ack(0, (1, 0), (0, 0)),
        transfer(0, (0, 0)),
        ack(0, (1, 1), (0, 1)),
    ] {
        let mut site = Site::new(2, &[("resilience", "0"), ("window", "2")]);
        site.receive(1, msg(1, 0, "a"));
        site.receive(1, forged);
        assert!(site.take().is_empty(), "{forged:?}");
        site.receive(0, ack(0, (1, 0), (0, 1)));
        assert_eq!(site.take(), ["1:0 a"], "{forged:?}");
    }
}

#[test]
fn a_message_comes_from_its_source() {
    let mut site = Site::new(0, &[]);
    assert!(site.receive(1, msg(2, 0, "a")).is_empty());
    assert_eq!(site.drops(), [DropReason::NotAMember]);
}
