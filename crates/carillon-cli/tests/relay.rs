//! `carillon relay` between network namespaces: a sender, a router, and receivers on networks of their own.
//! Namespaces need root and ip(8). Without them each test prints a notice that it is skipped
//! (`carillon_testkit::skip`).

use std::io::Read as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use carillon_testkit::skip;
use serde_json::Value;

const CARILLON: &str = env!("CARGO_BIN_EXE_carillon");
const RECEIVERS: usize = 3;

/// Routers in a row; the sender, host 0, is at the first and the receivers are at the last. Each host h is
/// in a network of its own, 10.(100 + h).0.0/24, in which the router is 1 and the host 2; between two
/// routers there is 10.99.0.0/24.
struct Network {
    prefix: String,
    routers: usize,
    directory: tempfile::TempDir,
}

impl Network {
    /// Creates a network with one or two routers. Prints a notice and returns `None` if namespaces are not available.
    fn build(routers: usize) -> Option<Network> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let prefix = format!("carillon-relay-{}-{number}", std::process::id());
        let directory = tempfile::tempdir().expect("a temporary directory");
        let network = Network { prefix, routers, directory };
        for router in (0..routers).map(|router| network.router(router)) {
            if !ip(&["netns", "add", &router]) {
                skip("network namespaces cannot be made here");
                return None;
            }
            let forwarding = "echo 1 > /proc/sys/net/ipv4/ip_forward";
            let set = Command::new("ip").args(["netns", "exec", &router, "sh", "-c", forwarding]).status();
            assert!(set.is_ok_and(|status| status.success()), "unicast is forwarded");
        }
        let inside = |name: &str, line: &str| assert!(ip(&split(&format!("-n {name} {line}"))), "{line}");
        for host in 0..=RECEIVERS {
            let (name, port) = (network.host(host), format!("port{host}"));
            let router = network.router(if host == 0 { 0 } else { routers - 1 });
            assert!(ip(&["netns", "add", &name]));
            inside(&router, &format!("link add {port} type veth peer name lan netns {name}"));
            inside(&router, &format!("addr add 10.{}.0.1/24 dev {port}", 100 + host));
            inside(&router, &format!("link set {port} up"));
            inside(&name, &format!("addr add 10.{}.0.2/24 dev lan", 100 + host));
            inside(&name, "link set lo up");
            inside(&name, "link set lan up");
            inside(&name, &format!("route add default via 10.{}.0.1", 100 + host));
            inside(&name, "route add 224.0.0.0/4 dev lan");
        }
        if routers == 2 {
            let (first, last) = (network.router(0), network.router(1));
            inside(&first, &format!("link add lower type veth peer name upper netns {last}"));
            for (router, port, number) in [(&first, "lower", 1), (&last, "upper", 2)] {
                inside(router, &format!("addr add 10.99.0.{number}/24 dev {port}"));
                inside(router, &format!("link set {port} up"));
            }
            inside(&last, "route add default via 10.99.0.1");
            for host in 1..=RECEIVERS {
                inside(&first, &format!("route add 10.{}.0.0/24 via 10.99.0.2", 100 + host));
            }
        }
        Some(network)
    }

    /// Starts the relays with settings, which are ready when this returns.
    fn relays(&self, protocol: &str, settings: &str) -> Vec<Running> {
        let receivers = (1..=RECEIVERS).map(|host| format!("port{host}"));
        let ports: Vec<Vec<String>> = match self.routers {
            1 => vec![std::iter::once("port0".to_owned()).chain(receivers).collect()],
            _ => vec![
                vec!["port0".to_owned(), "lower".to_owned()],
                std::iter::once("upper".to_owned()).chain(receivers).collect(),
            ],
        };
        let start = |(router, ports): (usize, Vec<String>)| {
            let ports: Vec<String> = ports.iter().map(|port| format!("--interface {port}")).collect();
            let line = format!("relay --protocol {protocol} --json {settings} {}", ports.join(" "));
            let mut relay = self.start(&self.router(router), &line);
            let line = relay.first_line();
            assert!(line.contains("\"relaying\""), "{line}: {:?}", relay.end());
            relay
        };
        ports.into_iter().enumerate().map(start).collect()
    }

    fn router(&self, number: usize) -> String {
        format!("{}-router{number}", self.prefix)
    }

    fn host(&self, host: usize) -> String {
        format!("{}-{host}", self.prefix)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Starts the command in a namespace.
    fn start(&self, namespace: &str, line: &str) -> Running {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", namespace, CARILLON]).args(split(line)).current_dir(&self.directory);
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        Running(child.expect("ip runs"))
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for host in 0..=RECEIVERS {
            ip(&["netns", "del", &self.host(host)]);
        }
        for router in 0..self.routers {
            ip(&["netns", "del", &self.router(router)]);
        }
    }
}

/// A running process; killed when dropped.
struct Running(Child);

impl Running {
    /// Reads the first line of output.
    fn first_line(&mut self) -> String {
        let mut line = String::new();
        let out = self.0.stdout.as_mut().expect("its output is read here");
        // Reads byte by byte, since later output is read elsewhere.
        let mut byte = [0];
        while out.read_exact(&mut byte).is_ok() && byte != *b"\n" {
            line.push(byte[0].into());
        }
        line
    }

    /// Waits for the end, for at most a minute. Returns exit code, standard output and standard error.
    fn end(mut self) -> (Option<i32>, String, String) {
        let start = Instant::now();
        let code = loop {
            match self.0.try_wait().expect("it can be waited for") {
                Some(status) => break status.code(),
                None if start.elapsed() > Duration::from_secs(60) => {
                    self.0.kill().expect("it can be killed");
                    break None;
                }
                None => std::thread::sleep(Duration::from_millis(10)),
            }
        };
        let (mut out, mut err) = (String::new(), String::new());
        self.0.stdout.take().expect("output").read_to_string(&mut out).expect("text");
        self.0.stderr.take().expect("complaints").read_to_string(&mut err).expect("text");
        (code, out, err)
    }

    fn interrupt(&self) {
        let sent = Command::new("kill").args(["-INT", &self.0.id().to_string()]).status();
        assert!(sent.is_ok_and(|status| status.success()));
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn ip(args: &[&str]) -> bool {
    let output = Command::new("ip").args(args).output();
    output.is_ok_and(|output| output.status.success())
}

fn split(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

/// Sends a file to three receivers, each behind an interface of its own of the last router; returns what the
/// relays have counted.
fn deliver(network: &Network, protocol: &str, to_sender: &str) -> Vec<Value> {
    deliver_with(network, protocol, to_sender, "")
}

/// Like [`deliver`], with settings of the relays.
fn deliver_with(network: &Network, protocol: &str, to_sender: &str, to_relays: &str) -> Vec<Value> {
    let bytes: Vec<u8> = {
        let mut bytes = vec![0; 1_500_000];
        blake3::Hasher::new().update(protocol.as_bytes()).finalize_xof().fill(&mut bytes);
        bytes
    };
    std::fs::write(network.path("image"), &bytes).expect("a file");
    let relays = network.relays(protocol, to_relays);
    let receivers: Vec<Running> = (1..=RECEIVERS)
        .map(|host| {
            let line = format!(
                "recv --interface lan --name r{host} --out r{host} --overwrite --drop 0.1 --seed {host}"
            );
            network.start(&network.host(host), &line)
        })
        .collect();
    let line = format!(
        "send --interface lan --ttl 8 --relays --json --protocol {protocol} --receivers {RECEIVERS} {to_sender} image"
    );
    let (code, out, err) = network.start(&network.host(0), &line).end();
    let ends: Vec<_> = receivers.into_iter().map(Running::end).collect();
    relays.iter().for_each(Running::interrupt);
    let relays: Vec<_> = relays.into_iter().map(Running::end).collect();
    assert_eq!(code, Some(0), "{out}\n{err}\n{ends:?}\n{relays:?}");
    for (host, (code, out, err)) in (1..).zip(&ends) {
        assert_eq!(*code, Some(0), "r{host}: {out}\n{err}");
        let received = std::fs::read(network.path(&format!("r{host}/image"))).expect("the file");
        assert!(received == bytes, "r{host} has another file");
    }
    let read = |(code, counts, complaints): &(Option<i32>, String, String)| {
        assert_eq!(*code, Some(0), "{complaints}");
        println!("{protocol}: {counts}");
        let counts: Value = serde_json::from_str(counts.trim()).expect("one line of JSON");
        assert!(count(&counts, "/forwarded") > 1000, "the datagrams of the file: {counts}");
        for nothing in ["/expired", "/too_large", "/unroutable", "/refused_peers", "/off_path"] {
            assert_eq!(count(&counts, nothing), 0, "{nothing}: {counts}");
        }
        counts
    };
    relays.iter().map(read).collect()
}

fn count(counts: &Value, at: &str) -> u64 {
    counts.pointer(at).and_then(Value::as_u64).unwrap_or(0)
}

/// Routers turn requests to a replier, and direct its repairs into the branches that asked.
#[test]
fn lms_routers_direct_requests_and_repairs() {
    let Some(network) = Network::build(1) else { return };
    let [counts] = &deliver(&network, "lms", "--set replier_buffer=1024")[..] else { panic!("one relay") };
    assert!(count(counts, "/rewritten") > 0, "SETUP names the router: {counts}");
    assert!(count(counts, "/packets/sent/req") > 20, "requests are turned or go up: {counts}");
    assert!(count(counts, "/directed") > 20, "DMCASTs come as repairs into one branch: {counts}");
    assert!(count(counts, "/copies") >= 3 * count(counts, "/forwarded"), "{counts}");
}

#[test]
fn pgm_gathers_requests_and_constrains_repairs() {
    let Some(network) = Network::build(1) else { return };
    let [counts] = &deliver(&network, "pgm", "")[..] else { panic!("one relay") };
    assert!(count(counts, "/rewritten") > 0, "SPMs name the router: {counts}");
    assert!(count(counts, "/packets/received/nak") > 20, "requests are made of the router: {counts}");
    assert!(count(counts, "/packets/sent/ncf") > 20, "and confirmed by it: {counts}");
    assert!(count(counts, "/packets/sent/nak") > 20, "and go on: {counts}");
    assert!(count(counts, "/packets/dropped/redundant") > 0, "of equal requests one goes on: {counts}");
    assert!(count(counts, "/narrowed") > 20, "repairs go only where they were asked for: {counts}");
}

/// The receivers drop data that the router forwarded, so that the router repairs nearly all of it.
#[test]
fn pgm_routers_repair_what_has_passed_them() {
    let Some(network) = Network::build(1) else { return };
    let [counts] = &deliver_with(&network, "pgm", "", "--set ne_dlr_sqns=4096")[..] else {
        panic!("one relay")
    };
    assert!(count(counts, "/packets/sent/repair") > 20, "it repairs: {counts}");
    assert!(count(counts, "/packets/sent/n-nak") > 20, "and tells the source so: {counts}");
    assert_eq!(count(counts, "/packets/sent/nak"), 0, "which need not repair: {counts}");
    drop(network);
    let Some(network) = Network::build(2) else { return };
    let [first, last] = &deliver_with(&network, "pgm", "", "--set ne_dlr_sqns=4096")[..] else {
        panic!("two relays")
    };
    assert!(count(last, "/packets/sent/repair") > 20, "{last}");
    assert_eq!(count(first, "/packets/sent/repair"), 0, "nothing is lost above the last: {first}");
    assert!(count(first, "/packets/received/n-nak") > 20, "what it says goes on to the source: {first}");
}

#[test]
fn two_routers_in_a_row_know_each_other() {
    let Some(network) = Network::build(2) else { return };
    let [first, last] = &deliver(&network, "lms", "--set replier_buffer=1024")[..] else {
        panic!("two relays")
    };
    assert!(count(last, "/directed") > 20, "repairs go into branches where they part: {last}");
    assert!(count(first, "/received") > 0, "and what the replier lacks goes up: {first}");
    assert!(count(first, "/received") < count(last, "/received"), "little of it: {first} {last}");
    let [first, last] = &deliver(&network, "pgm", "")[..] else { panic!("two relays") };
    let requests = "/packets/received/nak";
    assert!(count(first, requests) > 20, "{first}");
    assert!(count(first, requests) <= count(last, "/packets/sent/nak"), "{first} {last}");
    assert!(count(last, "/narrowed") > 20, "{last}");
    assert!(count(first, "/directed") > 20, "the first confirms what the last asks for: {first}");
}

/// A router forwards no packet that arrives from the wrong interface or has reached its hop limit.
#[test]
fn packets_from_wrong_side_or_at_hop_limit_are_dropped() {
    let Some(network) = Network::build(1) else { return };
    let (router, host) = (network.router(0), network.host(1));
    // The router sees this address of host 1 behind host 0. The kernel must not check it.
    let wrong = "10.200.0.5";
    assert!(ip(&split(&format!("-n {host} addr add {wrong}/32 dev lan"))));
    assert!(ip(&split(&format!("-n {router} route add {wrong}/32 via 10.100.0.2"))));
    let blind = "for file in /proc/sys/net/ipv4/conf/*/rp_filter; do echo 0 > $file; done";
    assert!(Command::new("ip").args(["netns", "exec", &router, "sh", "-c", blind]).status().is_ok());
    std::fs::write(network.path("image"), b"image").expect("a file");
    let counts = |from: &str, ttl: u8| {
        let mut relays = network.relays("pgm", "");
        let line = format!("send --interface {from} --ttl {ttl} --protocol pgm --join-timeout 1 image");
        let (code, _, err) = network.start(&host, &line).end();
        assert_eq!(code, Some(1), "nobody has joined: {err}");
        let relay = relays.pop().expect("one relay");
        relay.interrupt();
        serde_json::from_str::<Value>(relay.end().1.trim()).expect("one line of JSON")
    };
    let far = counts("10.101.0.2", 8);
    assert!(count(&far, "/forwarded") > 0 && count(&far, "/expired") == 0, "{far}");
    let near = counts("10.101.0.2", 1);
    assert!(count(&near, "/forwarded") == 0 && count(&near, "/expired") > 0, "{near}");
    let stray = counts(wrong, 8);
    assert!(count(&stray, "/forwarded") == 0 && count(&stray, "/off_path") > 0, "{stray}");
}

#[test]
fn the_numbers_of_a_router_are_those_of_its_report() {
    let Some(network) = Network::build(1) else { return };
    std::fs::write(network.path("image"), b"image").expect("a file");
    assert!(ip(&split(&format!("-n {} link set lo up", network.router(0)))));
    let settings = "--metrics 127.0.0.1:9464 --metrics-linger 60";
    let mut relay = network.relays("pgm", settings).pop().expect("one relay");
    let line = "send --interface lan --ttl 8 --protocol pgm --join-timeout 1 image";
    let (code, _, err) = network.start(&network.host(0), line).end();
    assert_eq!(code, Some(1), "nobody has joined: {err}");
    relay.interrupt();
    let report: Value = serde_json::from_str(&relay.first_line()).expect("a line of JSON");
    let ask = "exec 3<>/dev/tcp/127.0.0.1/9464; printf 'GET /metrics HTTP/1.0\\r\\n\\r\\n' >&3; cat <&3";
    let mut fetch = Command::new("ip");
    fetch.args(["netns", "exec", &network.router(0), "timeout", "20", "bash", "-c", ask]);
    let numbers = String::from_utf8(fetch.output().expect("bash runs").stdout).expect("text");
    let is_there = |line: &str| numbers.lines().any(|there| there == line);
    let counts = report.as_object().expect("an object").iter();
    let counts: Vec<(&String, u64)> =
        counts.filter_map(|(name, value)| Some((name, value.as_u64()?))).collect();
    assert!(counts.len() == 14 && count(&report, "/forwarded") > 0, "{report}");
    for (name, value) in counts {
        assert!(is_there(&format!("carillon_relay_{name}_total {value}")), "{name} {value}: {numbers}");
    }
    assert!(is_there("carillon_session_info{protocol=\"pgm\"} 1"), "{numbers}");
    relay.interrupt();
    assert_eq!(relay.end().0, Some(0), "a signal ends the waiting");
}

#[test]
fn relay_without_raw_sockets_reports_an_error() {
    let probe = Command::new("setpriv").args(["--version"]).output();
    if probe.is_err() || !nix::unistd::geteuid().is_root() {
        skip("setpriv(1) and root are needed");
        return;
    }
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set=-net_raw,-net_admin", "--inh-caps=-all", "--no-new-privs", CARILLON]);
    let output = command.args(split("relay --protocol pgm --interface lo --interface lo")).output();
    let err = String::from_utf8(output.expect("setpriv runs").stderr).expect("text");
    assert!(err.contains("root or CAP_NET_RAW"), "{err}");
}

#[test]
fn a_protocol_without_relays_is_refused_by_name() {
    let output = Command::new(CARILLON).args(split("relay --protocol mbap --interface lo")).output();
    let output = output.expect("the command runs");
    assert_eq!(output.status.code(), Some(2));
    let err = String::from_utf8(output.stderr).expect("text");
    assert!(err.contains("lms") && err.contains("pgm") && !err.contains("srm"), "{err}");
}
