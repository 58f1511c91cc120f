//! Deliveries on networks with frames of 1500 bytes, and checks of these networks.

use std::fs;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, UdpSocket};
use std::time::{Duration, Instant};

use carillon_testkit::is_long_tier;
use carillon_transfer::DEFAULT_PROTOCOL;

use crate::delivery::support::in_parallel;
use crate::netns::{Host, Net};

/// Binds a socket to the group's port. Repeats the attempt, since a process that another test is just starting may
/// hold a closed socket until it executes its program.
fn bound(group: (Ipv4Addr, u16)) -> UdpSocket {
    let end = Instant::now() + Duration::from_secs(2);
    loop {
        match UdpSocket::bind(group) {
            Err(error) if error.kind() == ErrorKind::AddrInUse && Instant::now() < end => {
                std::thread::sleep(Duration::from_millis(5));
            }
            bound => return bound.expect("a port"),
        }
    }
}

/// Sends numbered datagrams of 1400 bytes to a group from one host. Returns the number that each other host received.
fn receive_numbered(from: &Host<'_>, at: &[Host<'_>], count: usize) -> Vec<usize> {
    let group = (Ipv4Addr::new(239, 7, 7, 7), 7000);
    let hear = |host: &Host<'_>| {
        let socket = host.inside(|| {
            let socket = bound(group);
            socket.join_multicast_v4(&group.0, &host.address()).expect("the group");
            socket
        });
        socket.set_read_timeout(Some(Duration::from_millis(300))).expect("a limit");
        socket
    };
    let sockets: Vec<UdpSocket> = at.iter().map(hear).collect();
    let sender = from.inside(|| UdpSocket::bind((from.address(), 0)).expect("a port"));
    for _ in 0..count {
        // A firewall may refuse to send.
        let _ = sender.send_to(&[7; 1400], group);
        std::thread::sleep(Duration::from_micros(20));
    }
    let count = |socket: &UdpSocket| std::iter::from_fn(|| socket.recv(&mut [0; 2000]).ok()).count();
    sockets.iter().map(count).collect()
}

#[test]
fn test_network_loses_delays_and_filters() {
    let Some(net) = Net::delayed(3, Duration::from_millis(20)) else { return };
    let (sender, receivers) = (net.sender(), net.receivers().collect::<Vec<_>>());
    // The datagrams fit the socket buffers, since they are read afterwards.
    assert_eq!(receive_numbered(&sender, &receivers, 60), [60, 60, 60]);
    receivers[0].lose_in(0.5);
    receivers[1].firewall_in("udp dport 7000");
    let counts = receive_numbered(&sender, &receivers, 60);
    assert!((10..=50).contains(&counts[0]), "{counts:?}");
    assert_eq!(counts[1..], [0, 60]);
    sender.lose_out(1.0);
    assert_eq!(receive_numbered(&sender, &receivers, 5), [0, 0, 0]);
    sender.lose_out(0.0);
    receivers[0].lose_in(0.0);
    receivers[1].no_firewall();
    assert_eq!(receive_numbered(&sender, &receivers, 20), [20, 20, 20]);

    // The sender's port delays by 20 ms in each direction; the other ports do not.
    let round_trip = |from: &Host<'_>, to: &Host<'_>| {
        let [near, far] =
            [from, to].map(|host| host.inside(|| UdpSocket::bind((host.address(), 0)).unwrap()));
        near.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let address = near.local_addr().unwrap();
        let start = Instant::now();
        far.send_to(b"?", address).unwrap();
        let (_, back) = near.recv_from(&mut [0; 8]).unwrap();
        near.send_to(b"!", back).unwrap();
        far.recv(&mut [0; 8]).unwrap();
        start.elapsed()
    };
    assert!(round_trip(&sender, &receivers[0]) >= Duration::from_millis(40));
    round_trip(&net.extra(), &receivers[0]);

    // The longest frame has 1500 bytes, and each packet is one frame.
    let before = sender.counters();
    receive_numbered(&sender, &receivers[..1], 10);
    let after = sender.counters();
    let (bytes, frames) = (after.bytes_out - before.bytes_out, after.frames_out - before.frames_out);
    assert!((10..20).contains(&frames) && bytes < 12 * 1500, "{frames} frames, {bytes} bytes");
}

#[test]
fn a_rate_holds_at_the_port_that_has_it() {
    let Some(net) = Net::new(2) else { return };
    let [slow, fast] = [net.receiver(1), net.receiver(2)];
    slow.rate_in(1.0);
    // A burst of 32 KiB passes at once, and the rest of 80 frames of 1442 bytes within half a second. All fit the
    // queue.
    let start = Instant::now();
    assert_eq!(receive_numbered(&net.sender(), &[fast, slow], 80), [80, 80]);
    assert!(start.elapsed() > Duration::from_millis(300 + 400), "{:?}", start.elapsed());
}

#[test]
fn frozen_and_killed_processes_leave_nothing_behind() {
    let Some(net) = Net::new(1) else { return };
    let namespace = net.receiver(1).namespace();
    let mut process = net.receiver(1).program("sleep").args("60").start();
    process.signal("STOP");
    process.signal("CONT");
    process.kill();
    assert_eq!(process.end().code, None);
    let _left = net.receiver(1).program("sleep").args("60").start();
    assert!(fs::exists(format!("/run/netns/{namespace}")).unwrap());
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
        let _net = net;
        // The network is dropped as after a failed test, without its output.
        std::panic::resume_unwind(Box::new(()));
    }));
    assert!(caught.is_err());
    assert!(!fs::exists(format!("/run/netns/{namespace}")).unwrap());
}

#[test]
fn a_file_arrives_through_frames_of_1500_bytes_on_both_families() {
    let Some(net) = Net::new(2) else { return };
    let file = net.file("f", 2_000_000);
    for (number, group) in ["239.255.67.65:7654", "[ff15::77]:7654", "[ff02::77]:7654"].iter().enumerate() {
        let interface = if group.contains("ff02") { "--interface eth0" } else { "" };
        let start = |host: Host<'_>| {
            let name = host.name().to_owned();
            host.carillon(&format!("recv {interface} --group {group} --name {name} --out {name}-{number}"))
                .start()
        };
        let receivers: Vec<_> = net.receivers().map(start).collect();
        let send = format!("send f {interface} --group {group} --receivers 2");
        net.sender().carillon(&send).run().expect(0);
        for (receiver, name) in receivers.into_iter().zip(["r1", "r2"]) {
            receiver.end().expect(0);
            let copy = fs::read(net.path(&format!("{name}-{number}/f"))).unwrap();
            assert!(copy == fs::read(&file).unwrap(), "{name}, {group}: another file");
        }
    }
}

/// Losses in both directions at every port.
#[test]
fn every_protocol_delivers_through_loss() {
    every_protocol_delivers(0, 4, 0.05, Duration::ZERO);
}

/// Losses, and a long delay.
#[test]
fn every_protocol_delivers_through_loss_and_delay() {
    every_protocol_delivers(1, 2, 0.2, Duration::from_millis(10));
}

/// Runs several protocols in parallel, each in a network of its own: a quarter of them and the default, or all in the
/// long tier.
fn every_protocol_delivers(half: usize, receivers: usize, loss: f64, delay: Duration) {
    let repairing = carillon_proto::REGISTRY.iter().filter(|entry| entry.delivery.repairs).enumerate();
    let is_tried = |place: usize, name| is_long_tier() || place % 4 == half || name == DEFAULT_PROTOCOL;
    let tried = repairing.filter(|&(place, entry)| is_tried(place, entry.name));
    let tried: Vec<_> = tried.map(|(_, entry)| entry).collect();
    in_parallel(4, &tried, |entry| {
        let Some(net) = Net::delayed(receivers, delay) else { return };
        for host in net.hosts() {
            host.lose_in(loss);
        }
        let bytes = fs::read(net.file("f", 60_000)).unwrap();
        let protocol = entry.name;
        let start = |host: Host<'_>| {
            let name = host.name().to_owned();
            host.carillon(&format!("recv --name {name} --out {name}")).start()
        };
        let begin = Instant::now();
        let running: Vec<_> = net.receivers().map(start).collect();
        let send = format!("send f --protocol {protocol} --receivers {receivers}");
        let sender = net.sender().carillon(&send).run();
        let what = format!("{protocol} to {receivers} at {loss}: {}{}", sender.out, sender.err);
        assert_eq!(sender.code, Some(0), "{what}");
        for (receiver, host) in running.into_iter().zip(net.receivers()) {
            let ended = receiver.end();
            assert_eq!(ended.code, Some(0), "{what}\n{}: {}{}", host.name(), ended.out, ended.err);
            let copy = net.path(host.name()).join("f");
            assert!(fs::read(copy).unwrap() == bytes, "{what}: another file");
        }
        println!("{protocol} to {receivers} at {loss}: {:.1} s", begin.elapsed().as_secs_f64());
    });
}
