//! `carillon doctor` between two machines in namespaces: it names the injected fault, and reports none in a correct
//! network.

use std::collections::BTreeSet;

use crate::delivery::support::in_parallel;
use crate::netns::process::Ended;
use crate::netns::{Host, Net};
use crate::wrong_set_ups::{put_behind_a_router, without_way_back};

/// A fault of the network, the flags of both ends, and the faults that each end is to name.
struct Case {
    name: &'static str,
    make: fn(&Net, &Host<'_>, &Host<'_>),
    flags: [&'static str; 2],
    faults: [&'static [&'static str]; 2],
}

const TO: [&str; 2] = ["10.77.0.11", "10.77.0.1"];

const CASES: &[Case] = &[
    Case { name: "healthy", make: |_, _, _| {}, flags: TO, faults: [&[], &[]] },
    Case { name: "healthy, nobody named", make: |_, _, _| {}, flags: ["", ""], faults: [&[], &[]] },
    Case {
        name: "healthy, IPv6",
        make: |_, _, _| {},
        flags: ["fd77::b --group [ff15::77]:7654", "fd77::1 --group [ff15::77]:7654"],
        faults: [&[], &[]],
    },
    Case {
        name: "no route for multicast",
        make: |_, s, _| s.no_multicast_route(),
        flags: ["10.77.0.11 --wait 2", "10.77.0.1 --wait 2"],
        faults: [&["no-route", "wrong-interface"], &["not-heard"]],
    },
    Case {
        name: "wrong interface",
        make: |_, _, r| {
            r.shell("ip link add eth1 type veth peer name eth2; ip link set eth2 up; ip addr add 10.88.0.1/24 dev eth1; ip link set eth1 up");
        },
        flags: ["10.77.0.11 --wait 2", "10.77.0.1 --interface eth1 --wait 2"],
        // The sender has no route to the network of the other interface either.
        faults: [&["no-multicast", "not-heard", "cannot-send"], &["wrong-interface"]],
    },
    Case {
        name: "no route to the other machine",
        make: |_, s, r| {
            without_way_back(r, 0);
            s.ip("route add 10.99.0.0/24 dev eth0");
        },
        flags: ["", ""],
        faults: [&["own-port-blocked"], &["cannot-send"]],
    },
    Case {
        name: "a firewall of its own before the group",
        make: |_, s, _| {
            s.shell("nft 'add table inet f { chain c { type filter hook output priority 0; ip daddr 239.0.0.0/8 drop; }; }'");
        },
        flags: TO,
        faults: [&["cannot-send"], &["snooping"]],
    },
    Case {
        name: "healthy, without IPv4",
        make: |_, s, r| [s, r].iter().for_each(|host| drop(host.shell("ip -4 addr flush dev eth0"))),
        flags: ["fd77::b", "fd77::1"],
        faults: [&[], &[]],
    },
    Case {
        name: "another group",
        make: |_, _, _| {},
        flags: ["", "--group 239.255.67.66:7654"],
        faults: [&["other-group"], &["other-group"]],
    },
    Case {
        name: "another address family",
        make: |_, _, _| {},
        flags: ["", "--group [ff15::77]:7654"],
        faults: [&["other-family"], &["other-family"]],
    },
    Case {
        name: "a hop limit of zero",
        make: |_, _, _| {},
        flags: ["10.77.0.11 --ttl 0", "10.77.0.1"],
        faults: [&["no-hops"], &["no-hops"]],
    },
    Case {
        name: "a router between",
        make: |net, _, _| put_behind_a_router(net),
        flags: ["10.88.0.11", "10.77.0.1"],
        // The bridge forwards nothing in the other direction.
        faults: [&["no-multicast", "router"], &["no-multicast", "router"]],
    },
    Case {
        name: "a switch that keeps the group back",
        make: |_, _, r| r.firewall_in("ip daddr 239.255.67.65"),
        flags: ["", ""],
        faults: [&["snooping"], &["snooping"]],
    },
    Case {
        name: "a firewall before the group's port",
        make: |_, _, r| r.firewall_in("udp dport 7654"),
        flags: TO,
        faults: [&["group-port-blocked"], &["group-port-blocked"]],
    },
    Case {
        name: "a firewall before other ports",
        make: |_, s, _| s.firewall_in("udp dport != 7654"),
        flags: TO,
        faults: [&["own-port-blocked"], &["own-port-blocked"]],
    },
    Case {
        name: "a firewall before everything",
        make: |_, _, r| r.firewall_in("meta l4proto udp"),
        flags: ["10.77.0.11 --wait 3", "10.77.0.1 --wait 3"],
        faults: [&["one-way"], &["not-heard"]],
    },
    Case {
        name: "short frames between",
        make: |_, s, r| {
            s.mtu(9000);
            r.mtu(9000);
            r.switch_port_mtu(1500);
        },
        flags: TO,
        faults: [&["mtu"], &["mtu"]],
    },
    Case {
        name: "long frames at one end",
        make: |_, s, _| s.mtu(9000),
        flags: TO,
        faults: [&["mtu"], &["mtu"]],
    },
    // Routers pass multicasts in such a group only to members that name the source.
    Case {
        name: "healthy, source-specific multicast",
        make: |_, s, _| s.firewall_in("ip daddr 232.0.0.0/8"),
        flags: ["10.77.0.11 --group 232.1.2.3:7654", "10.77.0.1 --group 232.1.2.3:7654 --source 10.77.0.1"],
        faults: [&[], &[]],
    },
    Case {
        name: "healthy, one source in an ordinary group",
        make: |_, _, _| {},
        flags: ["10.77.0.11", "10.77.0.1 --source 10.77.0.1,10.77.0.99"],
        faults: [&[], &[]],
    },
    Case {
        name: "a source whose multicasts are kept back",
        make: |_, _, r| r.firewall_in("ip daddr 232.1.2.3"),
        flags: ["10.77.0.11 --group 232.1.2.3:7654", "10.77.0.1 --group 232.1.2.3:7654 --source 10.77.0.1"],
        faults: [&["snooping"], &["snooping"]],
    },
    Case { name: "losses", make: |_, _, r| r.lose_in(0.3), flags: TO, faults: [&["loss"], &["loss"]] },
];

fn faults(ended: &Ended) -> BTreeSet<String> {
    let name = |fault: &serde_json::Value| fault["fault"].as_str().expect("a name").to_owned();
    ended.events("fault").iter().map(name).collect()
}

#[test]
fn doctor_names_the_injected_fault_and_no_other() {
    in_parallel(6, CASES, |case| {
        let Some(net) = Net::new(1) else { return };
        let (s, r) = (net.sender(), net.receiver(1));
        (case.make)(&net, &s, &r);
        let start = |host: &Host<'_>, flags: &str| {
            host.carillon(&format!("doctor --json --for 4 --name {}", host.name())).args(flags).start()
        };
        let running = [start(&s, case.flags[0]), start(&r, case.flags[1])];
        for ((end, ended), expected) in ["s", "r1"].iter().zip(running.map(|one| one.end())).zip(case.faults)
        {
            let found = faults(&ended);
            let wanted: BTreeSet<String> = expected.iter().map(|&name| name.to_owned()).collect();
            let what = format!("{}, {end}: {}{}", case.name, ended.out, ended.err);
            assert_eq!(found, wanted, "{what}");
            assert_eq!(ended.code, Some(i32::from(!wanted.is_empty())), "{what}");
        }
    });
}

/// Which paths work, and their throughput. The first receiver has both; multicast does not reach the second, and its
/// port passes 20 Mbit/s; the third is on a network with a relay.
#[test]
fn doctor_says_which_paths_work() {
    let Some(net) = Net::new(3) else { return };
    let blocked = net.receiver(2);
    blocked.firewall_in("ip daddr 224.0.0.0/4");
    blocked.rate_in(20.0);
    let _relaying = net.receiver(3).carillon("relay --from 10.77.0.2").start();
    let start = |host: &Host<'_>, others: &str| {
        host.carillon(&format!("doctor --json --for 5 --name {} {others}", host.name())).start()
    };
    let running = [
        start(&net.sender(), "10.77.0.11 10.77.0.12"),
        start(&net.receiver(1), "10.77.0.1"),
        start(&blocked, "10.77.0.1"),
    ];
    let [sender, first, second] = running.map(|one| one.end());
    let path = |ended: &Ended, to: &str| {
        let all = ended.events("path");
        let found = all.iter().find(|path| path["machine"].as_str().is_some_and(|name| name.starts_with(to)));
        found.unwrap_or_else(|| panic!("no path to {to}: {}", ended.out)).clone()
    };
    let works = |path: serde_json::Value| {
        ["multicast_from", "multicast_to", "unicast"].map(|key| path[key].as_bool().expect("a flag"))
    };
    assert_eq!(works(path(&sender, "r1")), [true, true, true]);
    assert_eq!(works(path(&sender, "r2")), [true, false, true]);
    assert_eq!(works(path(&second, "s")), [false, true, true]);
    assert!(path(&first, "s")["multicast_bps"].as_f64() > Some(20e6), "{}", first.out);
    // A shaper with a bucket of 32 KB passes a part of each train faster than its rate.
    let rate = path(&second, "s")["unicast_bps"].as_f64().expect("a rate");
    assert!((5e6..60e6).contains(&rate), "{rate}");
    let relays = first.events("relay");
    assert!(
        relays.iter().any(|one| one["address"] == "10.77.0.13" && one["from"] == "10.77.0.2:7654"),
        "{relays:?}"
    );
}

#[test]
fn doctor_reports_that_it_found_no_machine() {
    let Some(net) = Net::new(1) else { return };
    let alone = net.sender().carillon("doctor --wait 0.5").run().expect(1);
    assert!(alone.out.contains("fault: no machine answered within 0 s on eth0 (10.77.0.1)"), "{}", alone.out);
    let named = net.sender().carillon("doctor --wait 0.5 10.77.0.11").run().expect(1);
    assert!(named.out.contains("fault: 10.77.0.11 did not answer"), "{}", named.out);
    assert!(named.out.ends_with("1 fault found\n"), "{}", named.out);
}
