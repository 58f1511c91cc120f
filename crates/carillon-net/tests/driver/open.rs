//! Tests of opening an endpoint: the chosen interface, and the text of each error.

use std::net::{SocketAddr, UdpSocket};
use std::process::Command;

use crate::common::{group, in_namespace, listening, multicast_works, sending};
use carillon_core::RawIp;
use carillon_net::{Choice, Endpoint, EndpointConfig, Interface, Key, OpenError};
use carillon_testkit::take_port;

fn error(config: EndpointConfig) -> OpenError {
    match Endpoint::open(config) {
        Ok(endpoint) => panic!("opened on {}", endpoint.interface()),
        Err(error) => {
            let text = error.to_string();
            assert!(!text.contains('\n') && text.len() < 220, "one line: {text}");
            println!("{text}");
            error
        }
    }
}

fn on(interface: &str, group: &str) -> EndpointConfig {
    let group: SocketAddr = group.parse().expect("an address");
    EndpointConfig { interface: Some(interface.to_owned()), ..EndpointConfig::new(group) }
}

#[test]
fn a_unicast_group_is_refused() {
    assert!(matches!(error(on("lo", "127.0.0.1:5000")), OpenError::NotMulticast { .. }));
    assert!(matches!(error(on("lo", "[::1]:5000")), OpenError::NotMulticast { .. }));
}

#[test]
fn a_group_without_a_port_is_refused() {
    assert!(matches!(error(on("lo", "239.1.2.3:0")), OpenError::NoPort { .. }));
}

#[test]
fn an_unknown_interface_is_named_with_those_that_exist() {
    for wanted in ["nosuch0", "203.0.113.77", "fe80::77%lo"] {
        match error(on(wanted, "239.1.2.3:5000")) {
            OpenError::NoSuchInterface { wanted: named, available } => {
                assert_eq!(named, wanted);
                assert!(available.split(", ").any(|name| name == "lo"), "{available}");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_port_taken_by_a_socket_that_does_not_share_is_reported() {
    let group = group();
    let _taken = take_port(group.port());
    assert!(matches!(error(listening(group)), OpenError::PortTaken { address } if address == group));
    // A sender does not need the port.
    Endpoint::open(sending(group)).unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn a_port_that_needs_a_privilege_is_reported() {
    const NAME: &str = "open::a_port_that_needs_a_privilege_is_reported";
    const UNPRIVILEGED: &str = "CARILLON_TEST_UNPRIVILEGED";
    if !in_namespace(NAME, "ip link set lo up && setpriv --version") {
        return;
    }
    // Again without the privilege, which the bounding set removes from root as well.
    if std::env::var_os(UNPRIVILEGED).is_none() {
        let this = std::env::current_exe().expect("the path of this test");
        let run = Command::new("setpriv")
            .args(["--bounding-set=-net_bind_service", "--inh-caps=-net_bind_service"])
            .arg(this)
            .args(["--exact", NAME, "--nocapture"])
            .env(UNPRIVILEGED, "1")
            .output()
            .expect("setpriv is there");
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
        return;
    }
    let config = EndpointConfig { listen: true, ..on("lo", "239.1.2.3:99") };
    assert!(matches!(error(config), OpenError::Permission { .. }));
}

/// Protocol number 253 is for experiments (RFC 3692).
fn raw(config: EndpointConfig) -> EndpointConfig {
    EndpointConfig { raw: Some(RawIp { protocol: 253, carries: |_| true }), ..config }
}

#[test]
fn raw_ip_limits_are_reported() {
    if !in_namespace("open::raw_ip_limits_are_reported", VETH) {
        return;
    }
    assert!(
        matches!(error(raw(on("lo", "239.1.2.3:99"))), OpenError::RawOnLoopback { name } if name == "lo")
    );
    assert!(matches!(error(raw(on("v0", "[ff15::77]:99"))), OpenError::RawNeedsIpv4 { .. }));
    let sealed = EndpointConfig { key: Key::of(&[7; 32]), ..on("v0", "239.1.2.3:99") };
    assert!(matches!(error(raw(sealed)), OpenError::RawSealed));
    let endpoint = Endpoint::open(raw(on("v0", "239.1.2.3:99"))).unwrap_or_else(|error| panic!("{error}"));
    assert!(endpoint.is_raw());
}

#[test]
fn raw_packets_need_a_privilege() {
    const NAME: &str = "open::raw_packets_need_a_privilege";
    const UNPRIVILEGED: &str = "CARILLON_TEST_UNPRIVILEGED";
    if !in_namespace(NAME, &format!("{VETH} && setpriv --version")) {
        return;
    }
    if std::env::var_os(UNPRIVILEGED).is_none() {
        let this = std::env::current_exe().expect("the path of this test");
        let run = Command::new("setpriv")
            .args(["--bounding-set=-net_raw", "--inh-caps=-net_raw"])
            .arg(this)
            .args(["--exact", NAME, "--nocapture"])
            .env(UNPRIVILEGED, "1")
            .output()
            .expect("setpriv is there");
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
        return;
    }
    assert!(matches!(error(raw(on("v0", "239.1.2.3:99"))), OpenError::RawForbidden { protocol: 253 }));
}

/// A wire with an address of either family.
const VETH: &str = "ip link set lo up && ip link add v0 type veth peer name v1 && ip link set v0 up && ip link set v1 up && ip addr add 10.7.7.1/24 dev v0 \
    && (ip addr add fd77::1/64 dev v0 nodad || true) && ip route add 224.0.0.0/4 dev v0";

#[test]
fn an_interface_that_is_down_is_reported() {
    if in_namespace("open::an_interface_that_is_down_is_reported", "true") {
        assert!(
            matches!(error(on("lo", "239.1.2.3:5000")), OpenError::InterfaceDown { name } if name == "lo")
        );
    }
}

#[test]
fn an_interface_without_multicast_is_reported() {
    let setup =
        "ip link add b0 type bridge && ip link set b0 multicast off up && ip addr add 10.7.7.1/24 dev b0";
    if in_namespace("open::an_interface_without_multicast_is_reported", setup) {
        assert!(matches!(
            error(on("10.7.7.1", "239.1.2.3:5000")),
            OpenError::InterfaceWithoutMulticast { name } if name == "b0"
        ));
    }
}

#[test]
fn an_interface_without_an_address_of_the_family_is_reported() {
    let setup = "ip link add b0 type bridge && ip link set b0 up";
    if in_namespace("open::an_interface_without_an_address_of_the_family_is_reported", setup) {
        assert!(matches!(
            error(on("b0", "239.1.2.3:5000")),
            OpenError::NoAddress { family: "IPv4", name } if name == "b0"
        ));
    }
}

#[test]
fn an_address_that_is_still_being_checked_is_reported() {
    // The automatic address may appear a moment later.
    let setup = "ip link set lo up && ip link add v0 type veth peer name v1 && sysctl -q -w net.ipv6.conf.v0.dad_transmits=100 && \
                 ip link set v0 up && ip link set v1 up && ip addr add fe80::7/64 dev v0";
    if in_namespace("open::an_address_that_is_still_being_checked_is_reported", setup) {
        assert!(matches!(error(on("v0", "[ff02::1234]:5000")), OpenError::AddressNotReady { .. }));
    }
}

#[test]
fn a_group_without_a_route_is_reported_with_what_would_help() {
    if in_namespace("open::a_group_without_a_route_is_reported_with_what_would_help", "ip link set lo up") {
        match error(on("lo", "[ff15::1234]:5000")) {
            OpenError::NoRoute { name, advice, .. } => {
                assert_eq!(name, "lo");
                assert!(advice.contains("IPv4") && advice.contains("ip -6 route add"), "{advice}");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn without_a_route_the_interface_is_loopback() {
    if in_namespace("open::without_a_route_the_interface_is_loopback", "ip link set lo up") {
        let endpoint = Endpoint::open(EndpointConfig::new("239.1.2.3:5000".parse().expect("an address")))
            .unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(endpoint.interface().to_string(), "lo (127.0.0.1)");
        assert_eq!(endpoint.choice(), &Choice::NoRoute);
        assert_eq!(Interface::candidates(endpoint.group()).expect("a list"), []);
    }
}

#[test]
fn a_route_to_an_interface_without_multicast_is_told() {
    let setup = "ip link set lo up && ip link add b0 type bridge && ip link set b0 multicast off up && \
                 ip addr add 10.7.7.1/24 dev b0 && ip route add 224.0.0.0/4 dev b0";
    if in_namespace("open::a_route_to_an_interface_without_multicast_is_told", setup) {
        let endpoint = Endpoint::open(EndpointConfig::new("239.1.2.3:5000".parse().expect("an address")))
            .unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(endpoint.choice(), &Choice::BadRoute("b0".to_owned()));
    }
}

#[test]
fn a_link_local_group_needs_an_interface() {
    let setup = "ip link set lo up && ip link add v0 type veth peer name v1 && \
                 sysctl -q -w net.ipv6.conf.v0.accept_dad=0 && ip link set v1 up && ip link set v0 up && sleep 0.2";
    if in_namespace("open::a_link_local_group_needs_an_interface", setup) {
        match error(EndpointConfig::new("[ff02::1234]:5000".parse().expect("an address"))) {
            OpenError::NeedsInterface { available, .. } => {
                assert!(available.split(", ").any(|name| name == "v0"), "{available}");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn an_endpoint_can_listen_for_a_while() {
    if !multicast_works("an_endpoint_can_listen_for_a_while") {
        return;
    }
    let group = group();
    let mut endpoint = Endpoint::open(sending(group)).unwrap_or_else(|error| panic!("{error}"));
    for _ in 0..2 {
        endpoint.listen().unwrap_or_else(|error| panic!("{error}"));
    }
    // A socket that does not share the port finds it taken while the endpoint listens.
    assert!(UdpSocket::bind(group).is_err());
    endpoint.stop_listening();
    take_port(group.port());
}

#[test]
fn with_a_route_the_interface_is_where_it_leads() {
    let setup = "ip link set lo up && ip link add v0 mtu 1400 type veth peer name v1 && \
                 sysctl -q -w net.ipv6.conf.v0.accept_dad=0 && ip link set v1 up && ip link set v0 up && \
                 sleep 0.2 && ip addr add 10.7.7.1/24 dev v0 && ip route add default via 10.7.7.2";
    if in_namespace("open::with_a_route_the_interface_is_where_it_leads", setup) {
        let open = |group: &str| {
            Endpoint::open(EndpointConfig::new(group.parse().expect("an address")))
                .unwrap_or_else(|error| panic!("{error}"))
        };
        let endpoint = open("239.1.2.3:5000");
        assert_eq!(endpoint.interface().to_string(), "v0 (10.7.7.1)");
        assert_eq!(endpoint.choice(), &Choice::Routed);
        assert_eq!(endpoint.local_addr().ip(), endpoint.interface().address);
        assert_eq!(endpoint.max_datagram(), 1400 - 28);
        let v6 = Endpoint::open(on("v0", "[ff02::1234]:5000")).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(v6.max_datagram(), 1400 - 48);
    }
}

#[test]
fn an_endpoint_says_what_it_got() {
    if !multicast_works("an_endpoint_says_what_it_got") {
        return;
    }
    let endpoint = Endpoint::open(EndpointConfig { receive_buffer: 100_000, ..listening(group()) })
        .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(endpoint.receive_buffer(), 100_000);
    assert_eq!(endpoint.max_datagram(), 65_507);
    assert_eq!(endpoint.interface().to_string(), "lo (127.0.0.1)");
    assert!(endpoint.interface().loopback);
    assert_eq!(endpoint.local_addr().ip().to_string(), "127.0.0.1");
    assert_ne!(endpoint.local_addr().port(), 0);
    assert_eq!(endpoint.kernel_drops(), if cfg!(target_os = "linux") { Some(0) } else { None });
    assert_eq!(Endpoint::open(on("127.0.0.1", "239.1.2.3:5000")).expect("loopback").interface().name, "lo");
}
