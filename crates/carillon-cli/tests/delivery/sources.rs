//! `recv --source`: source-specific multicast, in groups of its ranges and in others.

use std::fs;
use std::time::Duration;

use super::support::{in_parallel, wait_until};
use crate::netns::process::Running;
use crate::netns::{Host, Net};

fn receive(host: &Host<'_>, options: &str) -> Running {
    host.carillon(&format!("recv --name {0} --out {0} {options}", host.name())).start()
}

/// Rows of the table of source filters: interface, group, source, and the numbers of members that include and exclude
/// it.
fn filters(host: &Host<'_>) -> Vec<Vec<String>> {
    let text = host.shell("cat /proc/net/mcfilter /proc/net/mcfilter6 2>/dev/null || true");
    let rows = text.lines().filter(|line| !line.starts_with("Idx"));
    rows.map(|row| row.split_whitespace().skip(1).map(str::to_owned).collect()).collect()
}

/// Group, the addresses of two senders, one that does not send, and the first one in hexadecimal.
const GROUPS: [[&str; 5]; 4] = [
    ["232.1.2.3:7654", "10.77.0.1", "10.77.0.2", "10.77.0.99", "0x0a4d0001"],
    ["239.255.67.65:7654", "10.77.0.1", "10.77.0.2", "10.77.0.99", "0x0a4d0001"],
    ["[ff3e::8000:77]:7654", "fd77::1", "fd77::2", "fd77::99", "fd770000000000000000000000000001"],
    ["[ff15::77]:7654", "fd77::1", "fd77::2", "fd77::99", "fd770000000000000000000000000001"],
];

/// Two senders in one group, and loss. Each of two receivers takes what its source sends; the third one has a wrong
/// source, hears nothing, and says so.
#[test]
fn receivers_hear_their_sources_alone() {
    in_parallel(2, &GROUPS, |[group, s, x, wrong, hex]| {
        let Some(net) = Net::new(3) else { return };
        let (f, g) = (net.file("f", 1_000_000), net.file("g", 800_000));
        net.receivers().for_each(|host| host.lose_in(0.05));
        let options = |source: &str| format!("--group {group} --source {source}");
        let one = receive(&net.receiver(1), &options(s));
        let other = receive(&net.receiver(2), &options(x));
        let none = receive(&net.receiver(3), &options(wrong));
        wait_until("the filter of the system", || filters(&net.receiver(1)).len() == 1);
        assert_eq!(filters(&net.receiver(1))[0][2..], [hex, "1", "0"], "{group}");
        let send = |host: Host<'_>, file, to| {
            host.carillon(&format!("send {file} --group {group} --expect {to} --join-timeout 20")).start()
        };
        let sending = [send(net.sender(), "f", "r1"), send(net.extra(), "g", "r2")];
        sending.into_iter().for_each(|sender| drop(sender.end().expect(0)));
        drop((one.end().expect(0), other.end().expect(0)));
        assert_eq!(fs::read(net.path("r1/f")).ok(), fs::read(f).ok(), "{group}");
        assert_eq!(fs::read(net.path("r2/g")).ok(), fs::read(g).ok(), "{group}");
        let notice = format!("nothing was received from {wrong} (--source)");
        wait_until("the notice of a receiver with a wrong source", || none.err().contains(&notice));
        none.signal("TERM");
        none.end().expect(1);
        assert!(!net.path("r3/f").exists() && !net.path("r3/g").exists(), "{group}");
    });
}

/// A service keeps its source when its interface is made again and has another address, and serves the source alone
/// then.
#[test]
fn service_keeps_its_source_when_its_network_changes() {
    let Some(net) = Net::new(1) else { return };
    let f = net.file("f", 200_000);
    net.file("g", 200_000);
    let host = net.receiver(1);
    let service = receive(&host, "--keep-going --group 232.1.2.3:7654 --source 10.77.0.1");
    wait_until("the filter of the system", || filters(&host).len() == 1);
    host.ip("link del eth0");
    net.shell(&format!(
        "ip link add r1 mtu 1500 type veth peer name eth0 netns {}; ip link set r1 master bridge; ip link set r1 up",
        host.namespace()
    ));
    host.shell(
        "ip addr add 10.77.0.66/24 brd + dev eth0; ip link set eth0 up; ip route add 224.0.0.0/4 dev eth0",
    );
    wait_until("the service has moved", || service.err().contains("the network is up"));
    assert_eq!(filters(&host).iter().map(|row| &row[2..]).collect::<Vec<_>>(), [["0x0a4d0001", "1", "0"]]);
    let other = net.extra().carillon("send g --group 232.1.2.3:7654 --expect r1 --join-timeout 3").start();
    std::thread::sleep(Duration::from_millis(500));
    net.sender().carillon("send f --group 232.1.2.3:7654 --expect r1 --join-timeout 20").run().expect(0);
    other.end().expect(1);
    assert_eq!(fs::read(net.path("r1/f")).ok(), fs::read(f).ok());
    assert!(!net.path("r1/g").exists());
    service.signal("TERM");
    service.end().expect(0);
}

/// A group of source-specific multicast without a source, an address of the other family, and a protocol with members
/// that multicast to each other: each is said.
#[test]
fn receiver_says_what_is_wrong_with_its_sources() {
    let Some(net) = Net::new(2) else { return };
    net.file("f", 100_000);
    let host = net.receiver(1);
    let silent = receive(&host, "--group 232.1.2.3:7654");
    wait_until("advice", || silent.err().contains("use --source ADDRESS"));
    drop(silent);
    let other = host.carillon("recv --group 239.1.2.3:4567 --source fd77::1").run().expect(2);
    assert!(other.err.contains("fd77::1 cannot be a source of group 239.1.2.3:4567"), "{}", other.err);
    let members = [receive(&host, "--source 10.77.0.1,10.77.0.12"), receive(&net.receiver(2), "")];
    net.sender().carillon("send f --protocol srm --expect r1,r2").run().expect(0);
    let [named, all] = members.map(|member| member.end().expect(0));
    assert!(
        named.err.contains("members of srm multicast to each other, and --source names 10.77.0.1"),
        "{}",
        named.err
    );
    assert!(!all.err.contains("--source"), "{}", all.err);
}
