//! Paths that carry shorter datagrams than the session measured, or stop carrying such datagrams during it.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use carillon_wire::session::{Body, Packet, Padding, State};

use crate::delivery::forging::{CapturedDatagram, RawSocket};
use crate::netns::process::{Ended, Running};
use crate::netns::{Host, Net};

const GROUP: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(239, 255, 67, 65), 7654);
/// Bytes of a forged fragment, the payload of a frame of 1500 bytes.
const FRAGMENT: usize = 1480;

/// Waits for a sender that gathers members, and sends forged datagrams of this size in its name, in fragments, until
/// `ends` is set.
fn forge(host: &Host<'_>, bytes: usize, ends: &AtomicBool) {
    let (socket, raw) = host.inside(|| {
        let socket = UdpSocket::bind(SocketAddr::from(GROUP)).expect("the group's port");
        socket.join_multicast_v4(GROUP.ip(), &host.address()).expect("a member");
        (socket, RawSocket::open_sender(host.address()))
    });
    socket.set_read_timeout(Some(Duration::from_millis(50))).expect("a time limit");
    let (mut heard, mut identification) = ([0; 2048], 1);
    while !ends.load(Ordering::Relaxed) {
        let Ok((len, SocketAddr::V4(from))) = socket.recv_from(&mut heard) else { continue };
        let Ok(Packet { association, body: Body::Invite(invite) }) = Packet::parse(&heard[..len]) else {
            continue;
        };
        if invite.state != State::Gathering {
            continue;
        }
        let mut size = Vec::new();
        Packet { association, body: Body::Size(Padding(bytes - 8)) }.emit(&mut size);
        raw.send_fragments(&CapturedDatagram { from, to: GROUP, bytes: size }, identification, FRAGMENT);
        identification += 1;
    }
}

fn receive(net: &Net) -> Vec<Running> {
    net.receivers()
        .map(|host| host.carillon(&format!("recv --name {0} --out {0}", host.name())).start())
        .collect()
}

/// Checks that all receivers have and report everything, and that these were served with datagrams that every network
/// carries.
fn verify(net: &Net, sent: &Ended, receiving: Vec<Running>, unreached: &[&str]) {
    let told: Vec<_> = sent.events("unreached");
    let mut named: Vec<_> = told.iter().map(|event| event["receiver"].as_str().expect("a name")).collect();
    named.sort_unstable();
    assert_eq!(named, unreached, "{}{}", sent.out, sent.err);
    assert!(told.iter().all(|event| event["datagram"] == 1252), "{}", sent.out);
    assert_eq!(sent.code, Some(0), "{}{}", sent.out, sent.err);
    let report = &sent.events("report")[0];
    for row in report["receivers"].as_array().expect("rows") {
        assert_eq!(row["outcome"], "verified", "{report}");
    }
    let content = std::fs::read(net.path("f")).expect("a file");
    for (running, host) in receiving.into_iter().zip(net.receivers()) {
        running.end().expect(0);
        assert!(
            std::fs::read(net.path(host.name()).join("f")).expect("a copy") == content,
            "{}",
            host.name()
        );
    }
}

/// Creates a network of long frames with this many receivers, and a file.
fn long_frames(receivers: usize, bytes: usize) -> Option<Net> {
    let net = Net::new(receivers)?;
    net.hosts().for_each(|host| host.mtu(9000));
    net.file("f", bytes);
    Some(net)
}

#[test]
fn a_forged_size_costs_a_detour_and_nothing_is_lost() {
    let Some(net) = long_frames(2, 3_000_000) else { return };
    // The first receiver is behind a port of shorter frames, which fragments pass.
    net.receiver(1).switch_port_mtu(1500);
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (host, ends) = (net.extra(), &ends);
        scope.spawn(move || forge(&host, 8972, ends));
        let receiving = receive(&net);
        let sent = net.sender().carillon("send f --receivers 2 --rate 50Mbit/s --json").run();
        ends.store(true, Ordering::Relaxed);
        verify(&net, &sent, receiving, &["r1"]);
    });
}

#[test]
fn a_path_that_shrinks_in_mid_transfer_costs_a_detour() {
    type Shrink = fn(&Net);
    let cases: [(&[&str], Shrink); 2] = [
        (&["r2"], |net| net.receiver(2).switch_port_mtu(1500)),
        // On the sender's own interface the system refuses longer datagrams.
        (&["r1", "r2"], |net| net.sender().ip("link set eth0 mtu 1500")),
    ];
    crate::delivery::support::in_parallel(2, &cases, |(unreached, shrink)| {
        let Some(net) = long_frames(2, 4_000_000) else { return };
        let receiving = receive(&net);
        let sending = net.sender().carillon("send f --receivers 2 --rate 20Mbit/s --json").start();
        let start = Instant::now();
        while net.sender().counters().bytes_out < 1_000_000 {
            assert!(start.elapsed() < Duration::from_secs(30), "it does not start: {}", sending.err());
            std::thread::sleep(Duration::from_millis(20));
        }
        shrink(&net);
        verify(&net, &sending.end(), receiving, unreached);
    });
}

/// A sender with a configured datagram size keeps it. The loss is reported, with the reason.
#[test]
fn a_chosen_size_that_stops_passing_is_reported() {
    let Some(net) = long_frames(1, 3_000_000) else { return };
    let receiving = receive(&net);
    let sending = net
        .sender()
        .carillon("send f --receivers 1 --rate 20Mbit/s --datagram 8972 --rounds 0 --timeout 1 --json")
        .start();
    let start = Instant::now();
    while net.sender().counters().bytes_out < 1_000_000 {
        assert!(start.elapsed() < Duration::from_secs(30), "it does not start: {}", sending.err());
        std::thread::sleep(Duration::from_millis(20));
    }
    net.receiver(1).switch_port_mtu(1500);
    let sent = sending.end().expect(1);
    let report = &sent.events("report")[0]["receivers"][0];
    assert_eq!(report["outcome"], "lost", "{report}");
    let reason = report["reason"].as_str().expect("a reason");
    assert!(reason.contains("received none of") && reason.ends_with("but answers"), "{reason}");
    for one in receiving {
        one.end().expect(1);
    }
}
