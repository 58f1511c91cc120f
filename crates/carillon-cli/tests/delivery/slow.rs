//! Sessions in which most members are slow.

use std::time::{Duration, Instant};

use carillon_testkit::is_long_or_skipped;

use crate::netns::Net;

/// The ports of two of three members pass eight datagrams a second from the start of the transfer. Alone the third
/// member needs about 2 s.
#[test]
fn two_slow_receivers_do_not_hold_the_third() {
    let Some(net) = Net::new(3) else { return };
    net.file("f", 4_000_000);
    net.receiver(3).rate_in(20.0);
    let mut receiving: Vec<_> = net
        .receivers()
        .map(|host| host.carillon(&format!("recv --name {0} --out {0}", host.name())).start())
        .collect();
    let sender = net.sender().carillon("send f --receivers 3 --json").start();
    let start = Instant::now();
    while sender.out().matches("\"event\":\"joined\"").count() < 3 {
        assert!(start.elapsed() < Duration::from_secs(20), "it does not start: {}", sender.err());
        std::thread::sleep(Duration::from_millis(10));
    }
    for number in [1, 2] {
        net.receiver(number).firewall_in("meta l4proto udp limit rate over 8/second burst 1 packets");
    }
    // The limit is three times as long: the third member completes within 6 s, while the others have almost nothing.
    let third = receiving.pop().expect("three receivers");
    third.end_within(Duration::from_secs(12)).expect(0);
    let copy = std::fs::read(net.path("r3/f")).expect("a copy");
    assert!(copy == std::fs::read(net.path("f")).expect("a file"));
    assert!(receiving.iter_mut().all(|one| !one.is_over()) && !std::fs::exists(net.path("r1/f")).unwrap());
}

/// Members that were set aside while alive are served after the others, after any time: they are silent because the
/// sender told them to wait. The others take longer than the three timeouts for which a sender waits for a silent
/// member. The receivers have a long timeout of their own, since hardly any packet of the sender reaches them.
#[test]
fn members_set_aside_are_served_after_the_others() {
    if !is_long_or_skipped() {
        return;
    }
    let Some(net) = Net::new(3) else { return };
    net.file("f", 36_000_000);
    net.receiver(3).rate_in(16.0);
    let mut receiving: Vec<_> = net
        .receivers()
        .map(|host| host.carillon(&format!("recv --name {0} --out {0} --timeout 60", host.name())).start())
        .collect();
    let sender = net.sender().carillon("send f --receivers 3 --json").start();
    let start = Instant::now();
    while sender.out().matches("\"event\":\"joined\"").count() < 3 {
        assert!(start.elapsed() < Duration::from_secs(20), "it does not start: {}", sender.err());
        std::thread::sleep(Duration::from_millis(10));
    }
    for number in [1, 2] {
        net.receiver(number).firewall_in("meta l4proto udp limit rate over 8/second burst 1 packets");
    }
    receiving.pop().expect("three receivers").end_within(Duration::from_secs(60)).expect(0);
    for number in [1, 2] {
        net.receiver(number).no_firewall();
    }
    let sent = sender.end_within(Duration::from_secs(60)).expect(0);
    assert!(sent.out.contains("\"event\":\"further\""), "no catch-up session: {}", sent.out);
    for one in receiving {
        one.end_within(Duration::from_secs(10)).expect(0);
    }
    let file = std::fs::read(net.path("f")).expect("a file");
    assert!(["r1/f", "r2/f"].iter().all(|copy| std::fs::read(net.path(copy)).expect("a copy") == file));
}
