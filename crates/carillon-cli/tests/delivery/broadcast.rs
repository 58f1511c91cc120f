//! `--broadcast`: delivery on a network that passes no multicast.

use std::fs;

use super::sealed::write_keys;
use super::support::{in_parallel, wait_until};
use crate::netns::process::Running;
use crate::netns::{Host, Net};

/// Drops everything to multicast groups that arrives at a host.
const MULTICAST: &str = "ip daddr 224.0.0.0/4";

fn receive(host: &Host<'_>, name: &str, options: &str) -> Running {
    host.carillon(&format!("recv --name {name} --out {name} {options}")).start()
}

fn assert_same(net: &Net, case: &str, names: &[&str]) {
    let file = fs::read(net.path("f")).expect("a file");
    for name in names {
        let copy = fs::read(net.path(name).join("f"));
        assert!(copy.is_ok_and(|copy| copy == file), "{case}: {name} has another file");
    }
}

/// Options of all ends.
const CASES: [&str; 4] = ["", "--key-file key", "--protocol pgm", "--protocol srm"];

/// Two receivers on hosts of their own, one on the host of the sender, and loss: by multicast nothing is delivered, by
/// broadcast everything.
#[test]
fn broadcasts_deliver_where_multicast_does_not() {
    in_parallel(2, &CASES, |case| {
        let Some(net) = Net::new(2) else { return };
        net.file("f", 1_500_000);
        write_keys(net.directory());
        for host in net.hosts() {
            host.firewall_in(MULTICAST);
            host.lose_in(0.05);
        }
        // The protocol is the sender's choice.
        let both = if case.starts_with("--protocol") { "" } else { case };
        let start = |options: &str| {
            let options = format!("{both} {options}");
            [(net.receiver(1), "r1"), (net.receiver(2), "r2"), (net.sender(), "local")]
                .map(|(host, name)| receive(&host, name, &options))
        };
        let send = |options: &str| {
            net.sender().carillon(&format!("send f --expect r1,r2,local {case} {options}")).start().end()
        };
        if case.is_empty() {
            let receiving = start("");
            send("--join-timeout 2").expect(1);
            drop(receiving);
            net.hosts().for_each(|host| assert!(!net.path(host.name()).join("f").exists()));
        }
        let receiving = start("--broadcast");
        let sent = send("--broadcast --join-timeout 20");
        assert_eq!(sent.code, Some(0), "{case}: {}{}", sent.out, sent.err);
        receiving.into_iter().for_each(|one| drop(one.end().expect(0)));
        assert_same(&net, case, &["r1", "r2", "local"]);
    });
}

/// A receiver that starts late gets everything in a catch-up session, and a service continues in its new network after
/// a change of its address.
#[test]
fn late_receivers_and_services_get_broadcasts() {
    let Some(net) = Net::new(2) else { return };
    net.file("f", 6_000_000);
    net.hosts().for_each(|host| host.firewall_in(MULTICAST));
    let service = receive(&net.receiver(1), "r1", "--broadcast --keep-going --overwrite");
    let sender = net
        .sender()
        .carillon("send f --broadcast --receivers 1 --rate 20Mbit/s --join-timeout 20 --json")
        .start();
    wait_until("it starts", || sender.out().contains("\"progress\""));
    let late = receive(&net.receiver(2), "r2", "--broadcast");
    let sent = sender.end().expect(0);
    late.end().expect(0);
    assert_same(&net, "late", &["r1", "r2"]);
    assert_eq!(sent.events("report").pop().expect("a report")["sessions"], 2, "{}", sent.out);
    for host in [net.sender(), net.receiver(1)] {
        let number = host.address().octets()[3];
        host.shell(&format!("ip addr flush dev eth0; ip addr add 10.78.4.{number}/22 dev eth0"));
    }
    wait_until("the service has moved", || service.err().contains("the broadcasts to 10.78.7.255:7654"));
    fs::remove_file(net.path("r1/f")).expect("the first copy");
    net.sender().carillon("send f --broadcast --expect r1 --join-timeout 20").run().expect(0);
    assert_same(&net, "moved", &["r1"]);
    service.signal("TERM");
    service.end().expect(0);
}

/// The second receiver has another broadcast address, and gets unicast copies. Seals name the broadcasts alike.
#[test]
fn receiver_of_copies_shares_the_key_of_broadcasts() {
    let Some(net) = Net::new(2) else { return };
    net.file("f", 1_000_000);
    write_keys(net.directory());
    net.hosts().for_each(|host| host.firewall_in(MULTICAST));
    net.receiver(2).shell("ip addr flush dev eth0; ip addr add 10.77.0.12/25 dev eth0");
    let near = receive(&net.receiver(1), "r1", "--broadcast --key-file key");
    let far = receive(&net.receiver(2), "r2", "--broadcast --key-file key --from 10.77.0.1");
    let sent =
        net.sender().carillon("send f --broadcast --key-file key --expect r1,r2 --json").run().expect(0);
    drop((near.end().expect(0), far.end().expect(0)));
    assert_same(&net, "copies", &["r1", "r2"]);
    let report = sent.events("report").pop().expect("a report");
    let mut paths = report["receivers"].as_array().expect("receivers").iter().map(|one| &one["path"]);
    assert!(paths.any(|path| path == "unicast"), "{}", sent.out);
}

/// Ends that receive nothing say what to check; loopback and IPv6 have no broadcasts.
#[test]
fn broadcasts_that_do_not_arrive_are_explained() {
    let Some(net) = Net::new(1) else { return };
    net.file("f", 1000);
    let host = net.receiver(1);
    host.firewall_in("udp dport 7654");
    let receiving = receive(&host, "r1", "--broadcast");
    let sent = net.sender().carillon("send f --broadcast --join-timeout 4").run().expect(1);
    let asks = "Is 10.77.0.255 the broadcast address there too";
    assert!(sent.err.contains("recv --broadcast") && sent.err.contains(asks), "{}", sent.err);
    wait_until("a notice", || {
        receiving.err().contains("nothing was received. Is `carillon send --broadcast`")
    });
    assert!(receiving.err().contains(asks), "{}", receiving.err());
    let six = host.carillon("recv --broadcast --group [ff15::77]:7654").run().expect(2);
    assert!(six.err.contains("IPv6 has no broadcast"), "{}", six.err);
    let lo = host.carillon("recv --broadcast --interface lo").run().expect(2);
    assert!(lo.err.contains("interface lo has no IPv4 broadcast address"), "{}", lo.err);
}
