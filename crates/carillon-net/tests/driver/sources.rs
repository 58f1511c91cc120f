//! Endpoints that receive the multicasts of certain hosts only.
#![cfg(target_os = "linux")]

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use carillon_core::Dest;
use carillon_net::{EndpointConfig, GROUP, OpenError};

use crate::common::{Talker, TestDriver, driver, group, in_namespace, listening, run, run_for, sending};

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// A receiver of the second host's multicasts, and senders at both.
fn three(group: SocketAddr, hosts: [&str; 2]) -> [TestDriver; 3] {
    let at = |host: &str| EndpointConfig { interface: Some(host.to_owned()), ..sending(group) };
    let receiver = EndpointConfig { listen: true, sources: vec![ip(hosts[1]), ip(hosts[1])], ..at(hosts[0]) };
    [
        driver(receiver, Talker::default()),
        driver(at(hosts[0]), Talker::default()),
        driver(at(hosts[1]), Talker::default()),
    ]
}

/// Both senders multicast this; the receiver gets it from the second one alone.
fn only_the_source_is_heard(all: &mut [TestDriver; 3], words: &'static str) {
    let heard = |all: &[TestDriver]| all[0].machine().heard.iter().filter(|one| one.bytes == words).count();
    all[1].machine_mut().say(Dest::group(GROUP), words);
    all[2].machine_mut().say(Dest::group(GROUP), words);
    run(all, |all| heard(all) > 0);
    run_for(all, Duration::from_millis(50));
    assert_eq!(heard(all), 1, "{words}");
    let from = all[0].machine().heard.last().expect("a datagram").from;
    assert_eq!(all[0].endpoint().peer(from), Some(all[2].endpoint().local_addr()), "{words}");
}

/// The system keeps the sources when the membership is renewed, when it ends for a while, and after the sockets were
/// opened again.
fn sources_last(group: SocketAddr, hosts: [&str; 2], table: &str) {
    let mut all = three(group, hosts);
    only_the_source_is_heard(&mut all, "joined");
    all[0].endpoint_mut().renew_membership().expect("it is a member");
    only_the_source_is_heard(&mut all, "renewed");
    all[0].endpoint_mut().leave_group().expect("it is a member");
    all[2].machine_mut().say(Dest::group(GROUP), "away");
    run_for(&mut all, Duration::from_millis(50));
    assert!(all[0].machine().heard.iter().all(|one| one.bytes != "away"), "it has left");
    all[0].endpoint_mut().rejoin_group().expect("a member");
    only_the_source_is_heard(&mut all, "back");
    all[0].endpoint_mut().reopen(group).expect("the interface is there");
    only_the_source_is_heard(&mut all, "reopened");
    let filters = std::fs::read_to_string(format!("/proc/thread-self/net/{table}")).expect("a table");
    let entries: Vec<&str> = filters.lines().skip(1).collect();
    assert_eq!(entries.len(), 1, "one source, and no membership for all: {filters}");
    // The columns INC and EXC: members that include the source, and that exclude it.
    assert!(entries[0].split_whitespace().collect::<Vec<_>>().ends_with(&["1", "0"]), "{filters}");
}

#[test]
fn sources_last_over_renewals_on_ipv4() {
    let setup =
        "ip link set lo up && ip addr add 127.0.0.2/8 dev lo && ip route add local 224.0.0.0/4 dev lo";
    if in_namespace("sources::sources_last_over_renewals_on_ipv4", setup) {
        for group in [group(), "232.1.2.3:4567".parse().expect("a group")] {
            sources_last(group, ["127.0.0.1", "127.0.0.2"], "mcfilter");
        }
    }
}

#[test]
fn sources_last_over_renewals_on_ipv6() {
    let setup = "ip link set lo up && ip addr add fd77::1/128 dev lo && ip addr add fd77::2/128 dev lo \
                 && ip -6 route add local ff00::/8 dev lo table local";
    if in_namespace("sources::sources_last_over_renewals_on_ipv6", setup) {
        for group in ["[ff15::4341]:4567", "[ff3e::8000:1]:4567"] {
            sources_last(group.parse().expect("a group"), ["fd77::1", "fd77::2"], "mcfilter6");
        }
    }
}

#[test]
fn unfit_sources_and_too_many_are_refused() {
    let setup = "ip link set lo up && ip route add local 224.0.0.0/4 dev lo";
    if !in_namespace("sources::unfit_sources_and_too_many_are_refused", setup) {
        return;
    }
    let refused = |sources: Vec<IpAddr>| {
        let opened = carillon_net::Endpoint::open(EndpointConfig { sources, ..listening(group()) });
        opened.map(drop).expect_err("it is refused")
    };
    for unfit in ["fd77::1", "239.1.1.1", "0.0.0.0"] {
        let error = refused(vec![ip(unfit)]);
        assert!(
            matches!(error, OpenError::UnfitSource { .. }) && error.to_string().contains(unfit),
            "{error}"
        );
    }
    let many = refused((0..200).map(|host| IpAddr::from([10, 0, 0, host])).collect());
    assert!(many.to_string().contains("sysctl net.ipv4.igmp_max_msf=200"), "{many}");
}
