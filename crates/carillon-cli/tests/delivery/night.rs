//! A distribution job as it runs at night: services that are slow, killed, late, cloned or hostile, and the report
//! about them.

use std::fs;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use carillon_core::Seeds;
use serde_json::Value;

use crate::delivery::support::{wait_for_part, wait_until_or};
use crate::netns::process::{Ended, Running};
use crate::netns::{Host, Net};

/// Bytes of the file: one to two seconds for a fast receiver, several for a slow one.
const BYTES: usize = 4_000_000;
const LOSS: f64 = 0.05;

/// A receiver as a service on a host, with a directory of the host's name.
fn service(host: &Host<'_>, name: &str) -> Running {
    let out = host.name().to_owned();
    host.carillon(&format!("recv --keep-going --name {name} --out {out} --json")).start()
}

/// Ends the attack when dropped, also after a panic.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Sends captured packets of the session with changed bytes until the job is over. Returns their number.
fn attack(host: &Host<'_>, over: &AtomicBool) -> u32 {
    let group = (std::net::Ipv4Addr::new(239, 255, 67, 65), 7654);
    let hears = host.inside(|| {
        let socket = UdpSocket::bind(group).expect("the group's port");
        socket.join_multicast_v4(&group.0, &host.address()).expect("the group");
        socket
    });
    hears.set_read_timeout(Some(Duration::from_millis(20))).expect("a limit");
    let sockets: Vec<UdpSocket> =
        host.inside(|| (0..16).map(|_| UdpSocket::bind((host.address(), 0)).expect("a port")).collect());
    let mut rng = Seeds::new(50).stream("night");
    let (mut buffer, mut sent) = (vec![0; 65_536], 0);
    while !over.load(Ordering::Relaxed) {
        let Ok((len, from)) = hears.recv_from(&mut buffer) else { continue };
        let mut bytes = buffer[..len].to_vec();
        for _ in 0..1 + rng.below(3) {
            let at = 8 + rng.below(56) as usize;
            if let Some(byte) = bytes.get_mut(at) {
                *byte = rng.bits() as u8;
            }
        }
        let socket = &sockets[rng.below(16) as usize];
        let to = if rng.chance(0.2) { group.into() } else { from };
        sent += u32::from(socket.send_to(&bytes, to).is_ok());
    }
    sent
}

/// Rows of the sender's report: name, address and outcome.
fn rows(sent: &Ended) -> Vec<(String, String, String)> {
    let report = sent.events("report").pop().unwrap_or_else(|| panic!("no report: {}{}", sent.out, sent.err));
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let rows = report["receivers"].as_array().expect("rows").iter();
    let mut rows: Vec<_> =
        rows.map(|row| (text(&row["name"]), text(&row["address"]), text(&row["outcome"]))).collect();
    rows.sort_by(|one, other| one.1.cmp(&other.1));
    rows
}

/// Six services: a web server and its clone, two behind slow ports, one that is killed, and one that starts late. A
/// hostile host sends beside them, and every port loses 5 % in both directions. Every live receiver is verified once,
/// and the report names it.
#[test]
fn six_services_with_every_trouble_are_reported_correctly() {
    let Some(net) = Net::new(6) else { return };
    let file = net.file("f", BYTES);
    for host in net.hosts() {
        host.lose_in(LOSS);
        host.lose_out(LOSS);
    }
    let hosts: Vec<Host<'_>> = net.receivers().collect();
    hosts[1].rate_in(4.0);
    hosts[2].rate_in(4.0);
    let mut killed = service(&hosts[3], "killed");
    let mut live: Vec<(usize, Running)> = [(0, "web"), (1, "slow-1"), (2, "slow-2"), (5, "web")]
        .map(|(at, name)| (at, service(&hosts[at], name)))
        .into();
    let over = AtomicBool::new(false);
    let extra = net.extra();
    std::thread::scope(|scope| {
        let attacker = scope.spawn(|| attack(&extra, &over));
        let stop = Stop(&over);
        let line = "send f --receivers 5 --join-timeout 20 --timeout 3 --rate 32Mbit/s --json";
        let sender = net.sender().carillon(line).start();
        wait_for_part(&net.path("r4"));
        killed.kill();
        live.push((4, service(&hosts[4], "late")));
        let sent = sender.end();
        drop(stop);
        assert!(attacker.join().expect("the attacker ends") > 100);
        let sent = sent.expect(1);
        let rows = rows(&sent);
        let outcomes: Vec<(&str, &str)> =
            rows.iter().map(|row| (row.1.split(':').next().unwrap_or_default(), row.2.as_str())).collect();
        let expected: Vec<(String, &str)> = (1..=6)
            .map(|number| (format!("10.77.0.{}", 10 + number), if number == 4 { "lost" } else { "verified" }))
            .collect();
        let expected: Vec<(&str, &str)> =
            expected.iter().map(|(at, outcome)| (at.as_str(), *outcome)).collect();
        assert_eq!(outcomes, expected, "{}\n{}", sent.out, sent.err);
        let mut names: Vec<&str> = rows.iter().map(|row| row.0.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 6, "every row has a name of its own: {names:?}");
    });
    let expected = blake3::hash(&fs::read(file).unwrap());
    for (at, service) in live {
        let host = hosts[at].name();
        let told = || format!("{}\n{}", service.out(), service.err());
        wait_until_or("the service reports", told, || service.out().contains("\"report\""));
        service.signal("TERM");
        let ended = service.end().expect(0);
        let reports = ended.events("report");
        assert_eq!(reports.len(), 1, "{host} is served once: {}", ended.out);
        let found = fs::read(net.path(&format!("{host}/f"))).unwrap_or_default();
        assert!(blake3::hash(&found) == expected, "{host} has another file");
    }
}
