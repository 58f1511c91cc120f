//! Passing of the token.

use carillon_wire::rmp::{Body, Quality};

use super::fixture::{Member, ack, data};

/// "The token site gives each message that it holds and that has no slot the next slot of the order, all in one ACK."
#[test]
fn token_site_orders_all_that_it_holds_in_one_ack() {
    let mut member = Member::new(1, &[]);
    for number in 0..2 {
        member.receive(0, data(0, number, Quality::TotallyOrdered));
        member.receive(2, data(2, number, Quality::TotallyOrdered));
    }
    let sent = ack(&mut member, 0, (0, 1), &[(0, 0)]);
    assert_eq!(sent, ["ack 1 token 1 to 2 of 2:0 0:1 2:1 to all"], "sources take turns");
    assert_eq!(member.take(), ["0:0", "2:0", "0:1", "2:1"]);
}

/// "The next site accepts the token when it holds all slots and messages before."
#[test]
fn site_without_a_message_does_not_accept_the_token() {
    let mut member = Member::new(1, &[]);
    let sent = ack(&mut member, 0, (0, 1), &[(0, 0)]);
    assert_eq!(sent, ["nack to 0 0..1 with data to all"]);
    assert_eq!(member.at(10), Vec::<String>::new());
    let sent = member.receive(0, data(0, 0, Quality::TotallyOrdered));
    assert!(sent.is_empty());
    assert_eq!(member.at(12), ["confirm site 1 below 1 to all"], "accepted, and nothing to order");
}

/// "Until then the last token site repeats its ACK."
#[test]
fn ack_is_repeated_until_the_token_is_accepted() {
    let mut member = Member::new(0, &[]);
    assert_eq!(
        member.offer("m"),
        ["data 0:0 number 0 total len 1 to all", "ack 0 token 0 to 1 of 0:0 to all"]
    );
    assert_eq!(member.at(30), ["ack 0 token 0 to 1 of 0:0 to all"]);
    member.receive(1, Body::Confirm { site: 1, below: 1 });
    assert_eq!(member.at(100), Vec::<String>::new());
}

/// "In an idle group, after `idle_interval`, which doubles with each round."
#[test]
fn null_acks_slow_down_in_an_idle_group() {
    let mut member = Member::new(0, &[("max_idle_interval", "40 ms")]);
    member.offer("m");
    let (mut now, mut slot, mut waits) = (0, 1, Vec::new());
    for _ in 0..5 {
        // The others pass the token on at once.
        ack(&mut member, slot, (1, 2), &[]);
        ack(&mut member, slot + 1, (2, 0), &[]);
        let accepted = now;
        loop {
            now += 1;
            if member.at(now).iter().any(|packet| packet.starts_with("null-ack")) {
                break;
            }
        }
        waits.push(now - accepted);
        slot += 3;
    }
    // 2 ms until the confirmation, then 20 ms after one round.
    assert_eq!(waits, [22, 42, 42, 42, 42]);
}

/// "If a message waits for resilience, after `confirm_timeout`."
#[test]
fn token_moves_on_for_resilience() {
    let mut member = Member::new(1, &[("idle_interval", "100 ms")]);
    member.receive(0, data(0, 0, Quality::TotallyResilient));
    ack(&mut member, 0, (0, 1), &[(0, 0)]);
    assert_eq!(member.at(2), ["null-ack 1 token 1 to 2 of null to all"]);
    assert!(member.take().is_empty());
    member.receive(2, Body::Confirm { site: 2, below: 2 });
    assert_eq!(member.take(), ["0:0"], "two further members have accepted the token");
}

/// "Measured: the time in which the next site accepts the token."
#[test]
fn measured_acceptance_decides_when_ack_is_repeated() {
    for (timeouts, at) in [("measured", 80), ("fixed", 50)] {
        let mut member = Member::new(0, &[("timeouts", timeouts)]);
        member.offer("m");
        member.at(20);
        // The first sample: 20 + 4 x 10 ms.
        member.receive(1, Body::Confirm { site: 1, below: 1 });
        ack(&mut member, 1, (1, 2), &[]);
        ack(&mut member, 2, (2, 0), &[]);
        member.offer("m");
        let repeated = |sent: Vec<String>| sent.iter().any(|packet| packet.starts_with("ack 3"));
        assert_eq!([at - 1, at].map(|at| repeated(member.at(at))), [false, true], "{timeouts}");
    }
}
