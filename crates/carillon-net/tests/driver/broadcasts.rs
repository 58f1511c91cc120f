//! Broadcasts on one network in place of a group.
#![cfg(target_os = "linux")]

use std::net::SocketAddr;
use std::time::Duration;

use carillon_core::{Dest, NodeId};
use carillon_net::{Endpoint, EndpointConfig, GROUP, OpenError};

use crate::common::{Talker, driver, in_namespace, listening, run, run_for};

const SETUP: &str = "ip link set lo up && ip link add d0 type veth peer name p0 && ip link set p0 up && \
                     ip addr add 10.9.0.1/24 dev d0 && ip link set d0 up && \
                     ip link add d1 type veth peer name p1 && ip link set p1 up && \
                     ip addr add 10.9.1.1/31 dev d1 && ip link set d1 up";

fn on(interface: Option<&str>) -> EndpointConfig {
    let group = "255.255.255.255:7777".parse().expect("an address");
    EndpointConfig { interface: interface.map(str::to_owned), ..listening(group) }
}

/// Endpoints on one host: a broadcast reaches each of them once, and not its sender.
#[test]
fn broadcasts_reach_all_others_of_the_network_once() {
    if !in_namespace("broadcasts::broadcasts_reach_all_others_of_the_network_once", SETUP) {
        return;
    }
    let mut all = [(); 3].map(|()| driver(on(None), Talker::default()));
    assert_eq!(all[0].endpoint().group(), SocketAddr::from(([10, 9, 0, 255], 7777)));
    assert!(all[0].endpoint().broadcasts());
    all[0].machine_mut().say(Dest::group(GROUP), "ping");
    for _ in 0..40 {
        all[0].machine_mut().say(Dest::group(GROUP), vec![7; 900]);
    }
    run(&mut all, |all| {
        all[0].machine().heard.len() == 2 && all[1..].iter().all(|one| one.machine().heard.len() >= 41)
    });
    run_for(&mut all, Duration::from_millis(50));
    for one in &all[1..] {
        let heard = &one.machine().heard;
        assert_eq!(heard.len(), 41);
        assert!(heard.iter().all(|one| one.from == NodeId(1) && one.to == Dest::group(GROUP)), "{heard:?}");
    }
    assert_eq!(all[0].stats().own, 41, "own broadcasts come back");
    assert!(all[0].machine().heard.iter().all(|one| one.bytes == "pong" && one.to != Dest::group(GROUP)));
    // Unicast to the port is none.
    let outside = std::net::UdpSocket::bind("10.9.0.1:0").expect("a socket");
    outside.send_to(b"no", "10.9.0.1:7777").expect("it is sent");
    run_for(&mut all, Duration::from_millis(50));
    assert_eq!(all[1].machine().heard.len(), 41);
    all[1].endpoint_mut().renew_membership().expect("nothing to renew");
}

#[test]
fn interfaces_without_broadcast_are_refused() {
    if !in_namespace("broadcasts::interfaces_without_broadcast_are_refused", SETUP) {
        return;
    }
    for interface in ["lo", "d1"] {
        let error = Endpoint::open(on(Some(interface))).map(drop).expect_err("it has no broadcast address");
        assert!(matches!(error, OpenError::NoBroadcast { .. }), "{error}");
    }
}
