//! The token site, and the site that is next.

use carillon_wire::chang_maxemchuk::Body;

use super::site::{Site, ack, msg, repair, transfer};

#[test]
fn first_site_gives_timestamp_and_passes_token() {
    let mut site = Site::new(0, &[]);
    assert_eq!(site.receive(2, msg(2, 0, "a")), ["view 0 ack 0 of 2:0 token 0 to 1 to all"]);
    assert!(Site::new(1, &[]).receive(2, msg(2, 0, "a")).is_empty(), "only the token site does");
}

/// The token stays until its site has given `token_acknowledgments` acknowledgments.
#[test]
fn token_stays_for_configured_acknowledgments() {
    let mut site = Site::new(0, &[("transfer_every", "2")]);
    assert_eq!(site.receive(2, msg(2, 0, "a")), ["view 0 ack 0 of 2:0 token 0 to 0 to all"]);
    assert_eq!(site.receive(1, msg(1, 0, "b")), ["view 0 ack 1 of 1:0 token 0 to 1 to all"]);
}

#[test]
fn duplicate_is_discarded_and_acknowledgment_repeated() {
    let mut site = Site::new(0, &[]);
    site.receive(2, msg(2, 0, "a"));
    assert_eq!(site.receive(2, msg(2, 0, "a")), ["view 0 ack 0 of 2:0 token 0 to 1 to rank 2"]);
}

#[test]
fn previous_token_site_repairs_without_acknowledging() {
    let mut site = Site::new(0, &[]);
    site.receive(2, msg(2, 0, "a"));
    assert!(site.receive(1, msg(1, 0, "b")).is_empty());
    let request = Body::Retrans { from: 0, below: 1 };
    assert_eq!(site.receive(1, request), ["view 0 repair 0 of 2:0 token 0 to 1 len 1 to rank 1"]);
    // The message it could not acknowledge is here when the next site does.
    assert!(site.receive(1, ack(1, (1, 0), (1, 2))).is_empty());
    assert_eq!(site.take(), ["2:0 a"]);
}

#[test]
fn next_site_accepts_token_only_without_gaps() {
    let mut site = Site::new(1, &[]);
    site.receive(0, msg(0, 1, "discarded: the one before it is not here"));
    site.sent();
    assert_eq!(site.receive(0, ack(0, (2, 0), (0, 1))), ["view 0 retrans 0..1 to rank 0"]);
    assert!(site.receive(0, msg(0, 0, "b")).is_empty(), "it cannot acknowledge yet");
    let sent = site.receive(0, repair(0, (2, 0), (0, 1), "a"));
    assert_eq!(sent, ["view 0 ack 1 of 0:0 token 1 to 2 to all"]);
}

/// A site without anything to acknowledge or commit accepts the token with a confirmation.
#[test]
fn idle_site_accepts_token_with_confirmation() {
    let mut site = Site::new(1, &[]);
    site.receive(2, msg(2, 0, "a"));
    assert!(site.receive(0, ack(0, (2, 0), (0, 1))).is_empty());
    assert!(site.at(9).is_empty());
    assert_eq!(site.at(10), ["view 0 confirm site 1 below 1 to all"]);
    assert!(site.at(10_000).is_empty());
    assert!(site.is_finished());
}

#[test]
fn uncommitted_messages_make_site_accept_with_transfer() {
    let mut site = Site::new(1, &[("resilience", "2")]);
    site.receive(2, msg(2, 0, "a"));
    site.receive(0, ack(0, (2, 0), (0, 1)));
    assert_eq!(site.at(10), ["view 0 ack 1 of nothing token 1 to 2 to all"]);
}

#[test]
fn a_transfer_is_repeated_until_it_is_accepted() {
    let shows = [ack(1, (2, 1), (1, 2)), Body::Confirm { site: 1, below: 1 }, transfer(1, (1, 2))];
    for shown in shows {
        let mut site = Site::new(0, &[]);
        site.receive(2, msg(2, 0, "a"));
        site.receive(2, msg(2, 1, "b"));
        assert_eq!(site.at(60), vec!["view 0 ack 0 of 2:0 token 0 to 1 to all"; 2]);
        site.receive(1, shown);
        let quiet = site.at(120).iter().all(|packet| !packet.contains("ack 0"));
        assert!(quiet, "{shown:?}");
    }
}

#[test]
fn confirmation_is_repeated_to_site_that_missed_it() {
    let mut site = Site::new(1, &[]);
    site.receive(2, msg(2, 0, "a"));
    site.receive(0, ack(0, (2, 0), (0, 1)));
    site.at(10);
    let repeated = site.receive(0, ack(0, (2, 0), (0, 1)));
    assert_eq!(repeated, ["view 0 confirm site 1 below 1 to rank 0"]);
}

#[test]
fn older_confirmation_does_not_accept_token() {
    let mut site = Site::new(0, &[]);
    site.receive(2, msg(2, 0, "a"));
    site.receive(1, Body::Confirm { site: 1, below: 0 });
    assert_eq!(site.at(30), ["view 0 ack 0 of 2:0 token 0 to 1 to all"]);
    assert!(site.take().is_empty());
}

/// Choice: `tail = "confirm"`.
#[test]
fn the_token_goes_around_an_idle_group_once() {
    let mut site = Site::new(1, &[("tail", "confirm")]);
    site.receive(2, msg(2, 0, "a"));
    site.receive(0, ack(0, (2, 0), (0, 1)));
    assert_eq!(site.at(10), ["view 0 confirm site 1 below 1 to all"]);
    assert!(site.at(209).is_empty());
    assert_eq!(site.at(210), ["view 0 ack 1 of nothing token 1 to 2 to all"]);
    site.receive(2, transfer(2, (2, 0)));
    // The third transfer is the last that is needed: whoever has the token now keeps it.
    site.receive(0, Body::Confirm { site: 0, below: 3 });
    assert!(site.at(10_000).is_empty());
    assert!(site.is_finished());
}

/// Choice: the sources take turns.
#[test]
fn no_source_waits_for_ever_for_another() {
    let mut next = Site::new(1, &[("transfer_every", "2"), ("window", "3")]);
    next.receive(2, msg(2, 0, "a"));
    next.receive(2, msg(2, 1, "b"));
    next.receive(0, msg(0, 0, "c"));
    let sent = next.receive(0, transfer(0, (0, 1)));
    let expected = ["view 0 ack 1 of 2:0 token 1 to 1 to all", "view 0 ack 2 of 0:0 token 1 to 2 to all"];
    assert_eq!(sent, expected);
}

/// Choice: "buffers may be purged" when the token has gone around.
#[test]
fn entry_is_discarded_after_a_full_token_round() {
    let mut site = Site::new(0, &[]);
    site.receive(2, msg(2, 0, "a"));
    site.receive(1, transfer(1, (1, 2)));
    let request = Body::Retrans { from: 0, below: 1 };
    assert_eq!(site.receive(2, request), ["view 0 repair 0 of 2:0 token 0 to 1 len 1 to rank 2"]);
    site.receive(2, transfer(2, (2, 0)));
    assert_eq!(site.receive(2, request), ["view 0 purged below 1 to rank 2"]);
}

/// The expelled member is awaited while it holds the token and messages wait for their timestamps.
#[test]
fn token_site_is_awaited_while_messages_wait() {
    let mut site = Site::new(2, &[]);
    assert_eq!(site.awaited(), [0; 0]);
    site.offer("a").unwrap();
    assert_eq!(site.awaited(), [0]);
    site.receive(0, ack(0, (2, 0), (0, 1)));
    assert_eq!(site.awaited(), [1], "it is to accept the token");
    site.receive(1, Body::Confirm { site: 1, below: 1 });
    assert_eq!(site.awaited(), [0; 0], "the message is committed");
    assert_eq!(site.take(), ["2:0 a"]);
}

#[test]
fn informant_of_missing_entries_is_awaited() {
    let mut site = Site::new(0, &[]);
    site.receive(2, msg(2, 0, "a"));
    site.receive(1, Body::Confirm { site: 1, below: 1 });
    site.offer("b").unwrap();
    assert_eq!(site.awaited(), [1], "it has the token");
    site.receive(2, transfer(2, (2, 0)));
    assert_eq!(site.awaited(), [2], "it knows what the other has given");
}
