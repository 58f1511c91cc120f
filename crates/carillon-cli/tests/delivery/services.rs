//! Services follow their network: `recv --keep-going` in a namespace where the interface or its address appears late,
//! changes, or disappears and returns. Both happen while the service waits and during a transfer.

use std::fs;
use std::time::Duration;

use crate::delivery::support::{
    Place, in_parallel, need_multicast, wait_for_part, wait_until, wait_until_or,
};
use crate::netns::process::Running;
use crate::netns::{Host, Net};

/// A change of the network of receiver 1, and the state before it.
struct Case {
    name: &'static str,
    before: fn(&Net, &Host<'_>),
    change: fn(&Net, &Host<'_>),
    /// Flags of both ends.
    flags: &'static str,
    receiver: &'static str,
    /// Messages of the service before and after the change; empty if none.
    says: [&'static str; 2],
}

const NO_CHANGE: fn(&Net, &Host<'_>) = |_, _| {};
const PRESENT: &str = "the network is up: listening to group";
const WAITING: &str = "waiting for the network";

const CASES: &[Case] = &[
    Case {
        name: "address comes late",
        before: |_, r| r.ip("addr flush dev eth0"),
        change: |_, r| set_up(r, 11),
        flags: "",
        receiver: "",
        says: [WAITING, PRESENT],
    },
    Case {
        name: "link comes late",
        before: |_, r| r.ip("link set eth0 down"),
        change: |_, r| set_up(r, 11),
        flags: "",
        receiver: "",
        says: [WAITING, PRESENT],
    },
    Case {
        name: "named interface comes late",
        before: |_, r| r.ip("link del eth0"),
        change: create,
        flags: "",
        receiver: "--interface eth0",
        says: [WAITING, PRESENT],
    },
    Case {
        name: "another address",
        before: NO_CHANGE,
        change: |_, r| {
            r.ip("addr flush dev eth0");
            set_up(r, 66);
        },
        flags: "",
        receiver: "",
        says: ["", PRESENT],
    },
    Case {
        name: "another IPv6 address",
        before: NO_CHANGE,
        change: |_, r| {
            r.shell("ip -6 addr del fd77::b/64 dev eth0; ip -6 addr add fd77::66/64 dev eth0 nodad");
        },
        flags: "--group [ff15::77]:7654",
        receiver: "",
        says: ["", PRESENT],
    },
    Case {
        name: "interface removed and made again",
        before: NO_CHANGE,
        change: |net, r| {
            r.ip("link del eth0");
            create(net, r);
        },
        flags: "",
        receiver: "",
        says: ["", PRESENT],
    },
    Case {
        name: "named interface made again, IPv6 group of the link",
        before: NO_CHANGE,
        change: |net, r| {
            r.ip("link del eth0");
            std::thread::sleep(Duration::from_millis(1500));
            create(net, r);
        },
        flags: "--interface eth0 --group [ff02::77]:7654",
        receiver: "",
        says: ["", PRESENT],
    },
    Case {
        name: "link down and up",
        before: NO_CHANGE,
        change: |_, r| {
            r.ip("link set eth0 down");
            std::thread::sleep(Duration::from_millis(1500));
            set_up(r, 11);
        },
        flags: "",
        receiver: "",
        says: ["", PRESENT],
    },
    Case {
        name: "interface renamed",
        before: NO_CHANGE,
        change: |_, r| {
            r.shell("ip link set eth0 down; ip link set eth0 name lan0; ip link set lan0 up; ip route add 224.0.0.0/4 dev lan0");
        },
        flags: "",
        receiver: "",
        says: ["", ""],
    },
    Case {
        name: "group routed to another interface",
        before: |_, r| {
            r.shell("ip link add other type veth peer name far; ip addr add 10.99.0.1/24 dev other; ip link set other up; ip link set far up; ip route del 224.0.0.0/4 dev eth0; ip route add 224.0.0.0/4 dev other");
        },
        change: |_, r| r.ip("route replace 224.0.0.0/4 dev eth0"),
        flags: "",
        receiver: "",
        says: ["", PRESENT],
    },
];

/// Assigns to `eth0` of a host its address with this number, and brings it up.
fn set_up(host: &Host<'_>, number: u8) {
    host.shell(&format!(
        "ip addr replace 10.77.0.{number}/24 brd + dev eth0; ip link set eth0 up; ip route replace 224.0.0.0/4 dev eth0"
    ));
}

/// Creates `eth0` of receiver 1 again, and its port at the switch.
fn create(net: &Net, host: &Host<'_>) {
    net.shell(&format!(
        "ip link add r1 mtu 1500 type veth peer name eth0 netns {}; ip link set r1 master bridge; ip link set r1 up",
        host.namespace()
    ));
    host.shell("echo 0 >/proc/sys/net/ipv6/conf/eth0/accept_dad || true");
    set_up(host, 11);
}

fn service(host: &Host<'_>, flags: &str) -> Running {
    host.carillon("recv --name r1 --out r1 --keep-going").args(flags).start()
}

/// Ends a service, which exits with success. Returns its output.
#[track_caller]
fn end(service: Running) -> String {
    service.signal("TERM");
    service.end().expect(0).err
}

#[test]
fn service_receives_after_any_change_of_its_network() {
    in_parallel(5, CASES, |case| {
        let Some(net) = Net::new(1) else { return };
        let sent = net.file("f", 50_000);
        let host = net.receiver(1);
        (case.before)(&net, &host);
        let service = service(&host, &format!("{} {}", case.flags, case.receiver));
        match case.says[0] {
            "" => std::thread::sleep(Duration::from_millis(700)),
            words => wait_until_or(case.name, || service.err(), || service.err().contains(words)),
        }
        (case.change)(&net, &host);
        if !case.says[1].is_empty() {
            wait_until_or(case.name, || service.err(), || service.err().contains(case.says[1]));
        }
        let sender = net.sender().carillon("send f --expect r1 --join-timeout 20").args(case.flags).run();
        assert_eq!(sender.code, Some(0), "{}: {}{}", case.name, sender.err, service.err());
        assert_eq!(fs::read(net.path("r1/f")).ok(), fs::read(&sent).ok(), "{}", case.name);
        let said = end(service);
        assert!(!said.contains("127.0.0.1"), "{}: {said}", case.name);
        // Each outage is reported once. An IPv6 address under duplicate address detection at the start counts as one
        // too.
        let outages = said.matches("the network is up").count().max(1);
        assert!(said.matches(WAITING).count() <= outages, "{}: {said}", case.name);
    });
}

/// A transfer of an existing file fails and the next one succeeds. Each has a line with its contents, sender and
/// time, and the end of the service is no failure.
#[test]
fn service_names_each_transfer_and_succeeds_when_told_to_end() {
    need_multicast!();
    let place = Place::new();
    let (first, second) = (place.file("first", 1000), place.file("second", 2000));
    place.file("a/first", 10);
    let service = place.recv("a").arg("--keep-going").start();
    place.send("s1").args("--name s1 --receivers 1").arg(first).run().expect(1);
    place.send("s2").args("--name s2 --receivers 1").arg(second).run().expect(0);
    wait_until("it is received", || service.out().contains("second"));
    service.signal("TERM");
    let ended = service.end().expect(0);
    let line = ended.out.lines().next().expect("a line");
    assert!(line.starts_with("received second from s2 (127.0.0.1:"), "{line}");
    assert!(line.contains("1 file, 1.95 KiB in ") && line.ends_with('Z'), "{line}");
    let failed = ended.err.lines().find(|line| line.contains("from s1 (127.0.0.1:")).expect("a line");
    let time = failed.strip_prefix("carillon: 20").and_then(|rest| rest.split(' ').next());
    assert!(time.is_some_and(|time| time.ends_with('Z') && time.contains('T')), "{failed}");
    assert!(failed.contains("exists"), "{failed}");
}

/// The switch forgets the memberships of two services on one host, and sends no query.
#[test]
fn idle_services_join_again_after_a_switch_forgets_them() {
    let Some(net) = Net::new(1) else { return };
    net.shell("ip link set bridge type bridge mcast_startup_query_interval 1000000 mcast_snooping 1 mcast_querier 1; ip link set r1 type bridge_slave mcast_flood off");
    let host = net.receiver(1);
    let services = ["r1", "r2", "r3"].map(|name| {
        let six = if name == "r3" { " --group [ff15::77]:7654" } else { "" };
        host.carillon(&format!("recv --name {name} --out {name} --keep-going{six}")).start()
    });
    let groups = ["239.255.67.65", "ff15::77"];
    let known = || {
        // The switch is asked by a program of its own.
        std::thread::sleep(Duration::from_millis(200));
        groups.map(|group| net.shell("bridge mdb").contains(&format!("port r1 grp {group}")))
    };
    wait_until("the switch knows", || known() == [true, true]);
    // The kernel sends each membership report twice.
    std::thread::sleep(Duration::from_millis(2500));
    wait_until("the switch forgets", || {
        for group in groups {
            net.shell(&format!("bridge mdb del dev bridge port r1 grp {group} || true"));
        }
        known() == [false, false]
    });
    wait_until("the switch knows again", || known() == [true, true]);
    services.into_iter().for_each(|service| drop(end(service)));
}

/// Changes the network of a host.
type Change = fn(&Net, &Host<'_>);

/// Changes of the network of receiver 1 during a transfer.
const CHANGES_DURING_TRANSFER: &[(&str, Change)] = &[
    ("another address", |_, r| {
        r.ip("addr flush dev eth0");
        set_up(r, 66);
    }),
    ("interface made again", |net, r| {
        r.ip("link del eth0");
        create(net, r);
    }),
    ("switch forgets the group", |net, _| {
        net.shell("bridge mdb del dev bridge port r1 grp 239.255.67.65");
    }),
];

#[test]
fn service_completes_transfer_while_its_network_changes() {
    in_parallel(3, CHANGES_DURING_TRANSFER, |(name, change)| {
        let Some(net) = Net::new(1) else { return };
        let sent = net.file("f", 1_000_000);
        net.shell("ip link set bridge type bridge mcast_snooping 1 mcast_querier 1 mcast_query_response_interval 100; ip link set r1 type bridge_slave mcast_flood off");
        let host = net.receiver(1);
        let service = service(&host, "");
        let sender =
            net.sender().carillon("send f --expect r1 --rate 2Mbit/s --timeout 4 --join-timeout 20").start();
        wait_for_part(&net.path("r1"));
        std::thread::sleep(Duration::from_millis(300));
        change(&net, &host);
        let sender = sender.end();
        assert_eq!(sender.code, Some(0), "{name}: {}{}{}", sender.out, sender.err, service.err());
        wait_until("it is complete", || fs::read(net.path("r1/f")).ok() == fs::read(&sent).ok());
        end(service);
    });
}
