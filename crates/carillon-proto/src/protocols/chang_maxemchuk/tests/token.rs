//! The token site, and the site that is next.

use carillon_wire::chang_maxemchuk::Body;

use super::site::{Site, ack, msg, repair, transfer};

#[test]
fn the_first_site_acknowledges_with_a_timestamp_and_passes_the_token_on() {
    let mut site = Site::new(0, &[]);
    assert_eq!(site.hear(2, msg(2, 0, "a")), ["view 0 ack 0 of 2:0 token 0 to 1 to all"]);
    assert!(Site::new(1, &[]).hear(2, msg(2, 0, "a")).is_empty(), "only the token site does");
}

#[test]
fn the_token_stays_until_so_many_acknowledgments_were_given() {
    let mut site = Site::new(0, &[("transfer_every", "2")]);
    assert_eq!(site.hear(2, msg(2, 0, "a")), ["view 0 ack 0 of 2:0 token 0 to 0 to all"]);
    assert_eq!(site.hear(1, msg(1, 0, "b")), ["view 0 ack 1 of 1:0 token 0 to 1 to all"]);
}

#[test]
fn a_duplicate_is_discarded_but_its_acknowledgment_is_repeated() {
    let mut site = Site::new(0, &[]);
    site.hear(2, msg(2, 0, "a"));
    assert_eq!(site.hear(2, msg(2, 0, "a")), ["view 0 ack 0 of 2:0 token 0 to 1 to rank 2"]);
}

#[test]
fn who_has_passed_the_token_on_repairs_but_does_not_acknowledge() {
    let mut site = Site::new(0, &[]);
    site.hear(2, msg(2, 0, "a"));
    assert!(site.hear(1, msg(1, 0, "b")).is_empty());
    let request = Body::Retrans { from: 0, below: 1 };
    assert_eq!(site.hear(1, request), ["view 0 repair 0 of 2:0 token 0 to 1 len 1 to rank 1"]);
    // The message it could not acknowledge is here when the next site does.
    assert!(site.hear(1, ack(1, (1, 0), (1, 2))).is_empty());
    assert_eq!(site.take(), ["2:0 a"]);
}

#[test]
fn the_next_site_accepts_the_token_only_when_it_lacks_nothing() {
    let mut site = Site::new(1, &[]);
    site.hear(0, msg(0, 1, "discarded: the one before it is not here"));
    site.sent();
    assert_eq!(site.hear(0, ack(0, (2, 0), (0, 1))), ["view 0 retrans 0..1 to rank 0"]);
    assert!(site.hear(0, msg(0, 0, "b")).is_empty(), "it cannot acknowledge yet");
    let sent = site.hear(0, repair(0, (2, 0), (0, 1), "a"));
    assert_eq!(sent, ["view 0 ack 1 of 0:0 token 1 to 2 to all"]);
}

#[test]
fn it_accepts_with_a_confirmation_if_there_is_nothing_to_acknowledge_or_commit() {
    let mut site = Site::new(1, &[]);
    site.hear(2, msg(2, 0, "a"));
    assert!(site.hear(0, ack(0, (2, 0), (0, 1))).is_empty());
    assert!(site.at(9).is_empty());
    assert_eq!(site.at(10), ["view 0 confirm site 1 below 1 to all"]);
    assert!(site.at(10_000).is_empty());
    assert!(site.is_finished());
}

#[test]
fn it_accepts_with_a_transfer_while_there_is_something_to_commit() {
    let mut site = Site::new(1, &[("resilience", "2")]);
    site.hear(2, msg(2, 0, "a"));
    site.hear(0, ack(0, (2, 0), (0, 1)));
    assert_eq!(site.at(10), ["view 0 ack 1 of nothing token 1 to 2 to all"]);
}

#[test]
fn a_transfer_is_repeated_until_it_is_accepted() {
    let shows = [ack(1, (2, 1), (1, 2)), Body::Confirm { site: 1, below: 1 }, transfer(1, (1, 2))];
    for shown in shows {
        let mut site = Site::new(0, &[]);
        site.hear(2, msg(2, 0, "a"));
        site.hear(2, msg(2, 1, "b"));
        assert_eq!(site.at(60), vec!["view 0 ack 0 of 2:0 token 0 to 1 to all"; 2]);
        site.hear(1, shown);
        let quiet = site.at(120).iter().all(|packet| !packet.contains("ack 0"));
        assert!(quiet, "{shown:?}");
    }
}

#[test]
fn a_confirmation_is_repeated_to_the_site_that_lacks_it() {
    let mut site = Site::new(1, &[]);
    site.hear(2, msg(2, 0, "a"));
    site.hear(0, ack(0, (2, 0), (0, 1)));
    site.at(10);
    let repeated = site.hear(0, ack(0, (2, 0), (0, 1)));
    assert_eq!(repeated, ["view 0 confirm site 1 below 1 to rank 0"]);
}

#[test]
fn a_confirmation_of_less_does_not_accept_the_token() {
    let mut site = Site::new(0, &[]);
    site.hear(2, msg(2, 0, "a"));
    site.hear(1, Body::Confirm { site: 1, below: 0 });
    assert_eq!(site.at(30), ["view 0 ack 0 of 2:0 token 0 to 1 to all"]);
    assert!(site.take().is_empty());
}

/// Choice: `tail = "confirm"`.
#[test]
fn the_token_goes_around_an_idle_group_once() {
    let mut site = Site::new(1, &[("tail", "confirm")]);
    site.hear(2, msg(2, 0, "a"));
    site.hear(0, ack(0, (2, 0), (0, 1)));
    assert_eq!(site.at(10), ["view 0 confirm site 1 below 1 to all"]);
    assert!(site.at(209).is_empty());
    assert_eq!(site.at(210), ["view 0 ack 1 of nothing token 1 to 2 to all"]);
    site.hear(2, transfer(2, (2, 0)));
    // The third transfer is the last that is needed: whoever has the token now keeps it.
    site.hear(0, Body::Confirm { site: 0, below: 3 });
    assert!(site.at(10_000).is_empty());
    assert!(site.is_finished());
}

/// Choice: the sources take turns.
#[test]
fn no_source_waits_for_ever_for_another() {
    let mut next = Site::new(1, &[("transfer_every", "2"), ("window", "3")]);
    next.hear(2, msg(2, 0, "a"));
    next.hear(2, msg(2, 1, "b"));
    next.hear(0, msg(0, 0, "c"));
    let sent = next.hear(0, transfer(0, (0, 1)));
    let expected = ["view 0 ack 1 of 2:0 token 1 to 1 to all", "view 0 ack 2 of 0:0 token 1 to 2 to all"];
    assert_eq!(sent, expected);
}

/// Choice: "buffers may be purged" when the token has gone around.
#[test]
fn what_the_token_has_gone_around_all_sites_since_is_kept_no_more() {
    let mut site = Site::new(0, &[]);
    site.hear(2, msg(2, 0, "a"));
    site.hear(1, transfer(1, (1, 2)));
    let request = Body::Retrans { from: 0, below: 1 };
    assert_eq!(site.hear(2, request), ["view 0 repair 0 of 2:0 token 0 to 1 len 1 to rank 2"]);
    site.hear(2, transfer(2, (2, 0)));
    assert_eq!(site.hear(2, request), ["view 0 purged below 1 to rank 2"]);
}

#[test]
fn who_has_the_token_is_waited_for_as_long_as_messages_wait_for_it() {
    let mut site = Site::new(2, &[]);
    assert_eq!(site.awaited(), [0; 0]);
    site.offer("a").unwrap();
    assert_eq!(site.awaited(), [0]);
    site.hear(0, ack(0, (2, 0), (0, 1)));
    assert_eq!(site.awaited(), [1], "it is to accept the token");
    site.hear(1, Body::Confirm { site: 1, below: 1 });
    assert_eq!(site.awaited(), [0; 0], "the message is committed");
    assert_eq!(site.take(), ["2:0 a"]);
}

#[test]
fn who_told_of_what_is_lacking_is_waited_for() {
    let mut site = Site::new(0, &[]);
    site.hear(2, msg(2, 0, "a"));
    site.hear(1, Body::Confirm { site: 1, below: 1 });
    site.offer("b").unwrap();
    assert_eq!(site.awaited(), [1], "it has the token");
    site.hear(2, transfer(2, (2, 0)));
    assert_eq!(site.awaited(), [2], "it knows what the other has given");
}
