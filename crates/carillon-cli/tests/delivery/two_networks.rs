//! Hosts with several interfaces: one session on two networks, and interfaces that go down.

use std::time::Duration;

use serde_json::Value;

use super::support::wait_until;
use crate::netns::process::{Ended, Running};
use crate::netns::{Host, Net};

const ETH0_AND_ETH1: &str = "--interface eth0 --interface eth1";

/// Adds a second network, on which the hosts `both` have `eth1` as well, and moves the hosts `moved` there. It has the
/// addresses 10.78.0.N and fd78::N.
fn second_network(net: &Net, both: &[&Host<'_>], moved: &[&Host<'_>]) {
    net.shell("ip link add other type bridge mcast_snooping 0; ip link set other up");
    for host in both {
        add_port(net, host, "other", "78");
    }
    for host in moved {
        net.shell(&format!("ip link set {} master other", host.name()));
        host.shell(&format!(
            "ip addr flush dev eth0 scope global; ip addr add 10.78.0.{0}/24 brd + dev eth0
             ip addr add fd78::{0}/64 dev eth0 nodad; ip route replace 224.0.0.0/4 dev eth0",
            last(host)
        ));
    }
}

/// Adds `eth1` to a host, on this bridge.
fn add_port(net: &Net, host: &Host<'_>, bridge: &str, network: &str) {
    let (name, namespace) = (host.name(), host.namespace());
    net.shell(&format!(
        "ip link add {name}-1 mtu 1500 type veth peer name eth1 netns {namespace}
         ip link set {name}-1 master {bridge}; ip link set {name}-1 up
         ethtool -K {name}-1 tx off sg off tso off gso off gro off >/dev/null 2>&1 || true"
    ));
    host.shell(&format!(
        "ethtool -K eth1 tx off sg off tso off gso off gro off >/dev/null 2>&1 || true
         ip addr add 10.{network}.0.{0}/24 brd + dev eth1; ip addr add fd{network}::{0}/64 dev eth1 nodad
         ip link set eth1 up",
        last(host)
    ));
}

fn last(host: &Host<'_>) -> u8 {
    host.address().octets()[3]
}

fn receive(host: &Host<'_>, options: &str) -> Running {
    host.carillon(&format!("recv --name {0} --out {0} {options}", host.name())).start()
}

fn assert_copies(net: &Net, names: &[&str]) {
    let file = std::fs::read(net.path("f")).expect("a file");
    for name in names {
        let copy = std::fs::read(net.path(name).join("f")).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(copy == file, "{name} has another file");
    }
}

/// Bytes that a host has sent on `eth0` and `eth1`.
fn bytes_out(host: &Host<'_>) -> [u64; 2] {
    ["eth0", "eth1"].map(|port| {
        let text = host.shell(&format!("cat /sys/class/net/{port}/statistics/tx_bytes"));
        text.trim().parse().expect("a number")
    })
}

fn outcomes(sent: &Ended) -> Vec<(String, String)> {
    let report = sent.events("report").pop().expect("a report");
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    let receivers = report["receivers"].as_array().expect("receivers").iter();
    let mut all: Vec<_> = receivers.map(|one| (text(&one["name"]), text(&one["outcome"]))).collect();
    all.sort();
    all
}

/// A receiver on each network, and one on both, all with loss. Each network carries one stream.
fn deliver_on_both(options: &str) {
    let Some(net) = Net::new(3) else { return };
    let bytes = 4_000_000;
    net.file("f", bytes);
    std::fs::write(net.path("key"), [b'k'; 40]).expect("a key");
    let [s, r1, r2, r3] = [net.sender(), net.receiver(1), net.receiver(2), net.receiver(3)];
    second_network(&net, &[&s, &r3], &[&r2]);
    [&r1, &r2, &r3].into_iter().for_each(|host| host.lose_in(0.05));
    let receiving =
        [receive(&r1, options), receive(&r2, options), receive(&r3, &format!("{ETH0_AND_ETH1} {options}"))];
    let before = bytes_out(&s);
    let sent = s
        .carillon(&format!("send f --receivers 3 --rate 40Mbit/s --json {ETH0_AND_ETH1} {options}"))
        .run()
        .expect(0);
    receiving.into_iter().for_each(|one| drop(one.end().expect(0)));
    assert_copies(&net, &["r1", "r2", "r3"]);
    let report = sent.events("report").pop().expect("a report");
    assert_eq!(report["sessions"], 1, "{report}");
    let repairs = report["repairs"].as_f64().expect("a count");
    let stream = bytes as f64 * 1.05 + repairs * 1500.0;
    for (port, (after, before)) in bytes_out(&s).into_iter().zip(before).enumerate() {
        let ratio = (after - before) as f64 / stream;
        assert!((0.9..1.12).contains(&ratio), "eth{port} carries {ratio} streams: {report}");
    }
    for receiver in report["receivers"].as_array().expect("receivers") {
        let loss = receiver["loss"].as_f64().unwrap_or(0.05);
        // The third one may have chosen the interface without loss.
        let least = if receiver["name"] == "r3" { 0.0 } else { 0.02 };
        assert!((least..0.09).contains(&loss), "{receiver}");
    }
}

#[test]
fn two_networks_have_one_session() {
    deliver_on_both("");
}

#[test]
fn two_networks_have_one_session_over_ipv6() {
    deliver_on_both("--group [ff15::4341]:7654");
}

#[test]
fn two_networks_have_one_sealed_session() {
    deliver_on_both("--key-file key");
}

#[test]
fn two_networks_have_one_session_of_broadcasts() {
    deliver_on_both("--broadcast");
}

/// A receiver on both networks answers a sender by the interface on which it hears it. The system may confuse sockets
/// that share a port, depending on a hash of the addresses: so there are several groups.
#[test]
fn answers_leave_by_the_interface_of_the_sender() {
    let Some(net) = Net::new(1) else { return };
    net.file("f", 100_000);
    let [s, r1] = [net.sender(), net.receiver(1)];
    second_network(&net, &[&s, &r1], &[]);
    let rule = |interface: u8, network: u8, counter: &str| {
        format!("oifname eth{interface} ip saddr 10.7{network}.0.0/24 counter name {counter};")
    };
    let rules = [rule(0, 7, "right"), rule(1, 8, "right"), rule(0, 8, "wrong"), rule(1, 7, "wrong")].concat();
    let chain = format!("chain out {{ type filter hook output priority 0; {rules} }};");
    r1.shell(&format!("nft 'table inet look {{ counter right {{}}; counter wrong {{}}; {chain} }}'"));
    for group in 1..=6 {
        let options = format!("--group 239.255.67.{group}:7654 {ETH0_AND_ETH1}");
        let receiving = r1.carillon(&format!("recv --out {group} {options}")).start();
        s.carillon(&format!("send f --receivers 1 {options}")).run().expect(0);
        receiving.end().expect(0);
    }
    let counted = |name: &str| r1.shell(&format!("nft list counter inet look {name}"));
    assert!(!counted("right").contains("packets 0 "), "{}", counted("right"));
    assert!(counted("wrong").contains("packets 0 "), "{}", counted("wrong"));
}

/// Packets of PGM name the address of their sender, which has one on each network.
#[test]
fn pgm_repairs_on_both_networks() {
    let Some(net) = Net::new(2) else { return };
    net.file("f", 1_000_000);
    let [s, r1, r2] = [net.sender(), net.receiver(1), net.receiver(2)];
    second_network(&net, &[&s], &[&r2]);
    [&r1, &r2].into_iter().for_each(|host| host.lose_in(0.05));
    let receiving = [receive(&r1, ""), receive(&r2, "")];
    let sent =
        s.carillon(&format!("send f --protocol pgm --receivers 2 --json {ETH0_AND_ETH1}")).run().expect(0);
    receiving.into_iter().for_each(|one| drop(one.end().expect(0)));
    assert_copies(&net, &["r1", "r2"]);
    assert!(outcomes(&sent).iter().all(|(_, outcome)| outcome == "verified"), "{}", sent.out);
}

/// An interface of the sender goes down in mid-transfer. Its receiver is lost, the other one is served, and the sender
/// says what the system says.
#[test]
fn transfer_goes_on_when_one_interface_goes_down() {
    let Some(net) = Net::new(2) else { return };
    net.file("f", 12_000_000);
    let [s, r1, r2] = [net.sender(), net.receiver(1), net.receiver(2)];
    second_network(&net, &[&s], &[&r2]);
    let receiving = [receive(&r1, "--json"), receive(&r2, "--json")];
    let sender = s
        .carillon(&format!("send f --receivers 2 --rate 20Mbit/s --json --timeout 2 {ETH0_AND_ETH1}"))
        .start();
    wait_until("the start", || receiving[1].out().contains("\"progress\""));
    s.ip("link set eth1 down");
    let sent = sender.end().expect(1);
    let [one, _other] = receiving;
    one.end().expect(0);
    assert_copies(&net, &["r1"]);
    let all = outcomes(&sent);
    assert_eq!(all[0], ("r1".to_owned(), "verified".to_owned()), "{all:?}");
    assert_ne!(all[1].1, "verified", "{all:?}");
    let text = "eth1 (10.78.0.1): Network is down; going on with eth0 (10.77.0.1)";
    assert!(sent.err.contains(text), "{}", sent.err);
    let change = sent.events("interface").pop().expect("an event");
    assert_eq!((&change["change"], &change["text"]), (&"lost".into(), &text.into()));
}

/// The first interface goes down and comes back, and then the second one: both receivers get everything.
#[test]
fn interfaces_that_come_back_go_on() {
    let Some(net) = Net::new(2) else { return };
    net.file("f", 14_000_000);
    let [s, r1, r2] = [net.sender(), net.receiver(1), net.receiver(2)];
    second_network(&net, &[&s], &[&r2]);
    let receiving = [receive(&r1, "--json --timeout 20"), receive(&r2, "--json --timeout 20")];
    let sender = s
        .carillon(&format!("send f --receivers 2 --rate 20Mbit/s --json --timeout 20 {ETH0_AND_ETH1}"))
        .start();
    wait_until("the start", || receiving[1].out().contains("\"progress\""));
    for port in ["eth0", "eth1"] {
        s.ip(&format!("link set {port} down"));
        std::thread::sleep(Duration::from_millis(1500));
        s.ip(&format!("link set {port} up"));
        let back = format!("{port} (10.7{}.0.1) is up again", if port == "eth0" { 7 } else { 8 });
        wait_until("the interface", || sender.err().contains(&back));
    }
    let sent = sender.end().expect(0);
    receiving.into_iter().for_each(|one| drop(one.end().expect(0)));
    assert_copies(&net, &["r1", "r2"]);
    assert_eq!(sent.events("interface").len(), 4, "{}", sent.err);
}

/// Both interfaces of an end are on one network, so everything comes twice: the file is correct, and both ends say so,
/// as far as the system passes such multicasts.
fn deliver_on_one(group: &str, is_always_heard: bool) {
    let Some(net) = Net::new(2) else { return };
    net.file("f", 3_000_000);
    let [s, r1, r2] = [net.sender(), net.receiver(1), net.receiver(2)];
    add_port(&net, &s, "bridge", "79");
    add_port(&net, &r2, "bridge", "79");
    let arp =
        "for file in /proc/sys/net/ipv4/conf/*; do echo 0 >$file/rp_filter; echo 1 >$file/arp_ignore; done";
    [&s, &r1, &r2].into_iter().for_each(|host| drop(host.shell(arp)));
    let receiving = [receive(&r1, group), receive(&r2, &format!("{group} {ETH0_AND_ETH1}"))];
    let sent = s
        .carillon(&format!("send f --receivers 2 --rate 20Mbit/s --json {ETH0_AND_ETH1} {group}"))
        .run()
        .expect(0);
    let received = receiving.map(|one| one.end().expect(0));
    assert_copies(&net, &["r1", "r2"]);
    assert_eq!(outcomes(&sent).len(), 2, "{}", sent.out);
    for err in [&sent.err, &received[1].err] {
        assert!(err.contains("are on the same network") || !is_always_heard, "{err}");
    }
    assert!(!received[0].err.contains("are on the same network"), "{}", received[0].err);
}

#[test]
fn two_interfaces_on_one_network_are_reported() {
    deliver_on_one("--group [ff15::4341]:7654", true);
}

/// Linux does not pass each multicast of which the route to the source leads to another interface.
#[test]
fn two_interfaces_on_one_ipv4_network_deliver() {
    deliver_on_one("", false);
}

#[test]
fn two_addresses_of_one_ipv4_network_are_reported() {
    let Some(net) = Net::new(1) else { return };
    net.file("f", 100_000);
    let s = net.sender();
    add_port(&net, &s, "bridge", "79");
    s.ip("addr add 10.77.0.200/24 brd + dev eth1");
    let receiving = receive(&net.receiver(1), "");
    let sent = s.carillon("send f --receivers 1 --interface eth0 --interface 10.77.0.200").run().expect(0);
    receiving.end().expect(0);
    let text = "eth0 (10.77.0.1) and eth1 (10.77.0.200) are on the same network";
    assert!(sent.err.contains(text), "{}", sent.err);
}

/// A service starts with one of its interfaces and uses the other one when that appears.
#[test]
fn service_waits_for_its_second_interface() {
    let Some(net) = Net::new(2) else { return };
    net.file("f", 1_000_000);
    let [s, r1] = [net.sender(), net.receiver(1)];
    let service = receive(&r1, &format!("--keep-going {ETH0_AND_ETH1}"));
    wait_until("the start", || service.err().contains("going on with eth0 (10.77.0.11)"));
    second_network(&net, &[&s, &r1], &[]);
    wait_until("the interface", || service.err().contains("eth1 (10.78.0.11) is up again"));
    s.carillon("send f --receivers 1 --interface eth1").run().expect(0);
    assert_copies(&net, &["r1"]);
    net.file("g", 1_000_000);
    s.carillon("send g --receivers 1 --interface eth0").run().expect(0);
    service.signal("TERM");
    service.end().expect(0);
}

#[test]
fn options_for_one_interface_are_refused_with_two() {
    let Some(net) = Net::new(1) else { return };
    second_network(&net, &[&net.receiver(1)], &[]);
    let refused = net.receiver(1).carillon(&format!("recv --from 10.77.0.1 {ETH0_AND_ETH1}")).run().expect(2);
    assert!(refused.err.contains("asking a sender for copies works with one interface"), "{}", refused.err);
    let refused = net.receiver(1).carillon("recv --interface eth0 --interface eth7").run().expect(2);
    assert!(refused.err.contains("eth7"), "{}", refused.err);
}
