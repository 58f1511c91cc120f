//! `carillon relay` between network namespaces: a sender, a router, and receivers on networks of their own.
//! Namespaces need root and ip(8); without them each test says that it is skipped.

use std::io::Read as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

const CARILLON: &str = env!("CARGO_BIN_EXE_carillon");
const RECEIVERS: usize = 3;

/// A router with a network for each host: of host h 10.h.0.0/24, in which the router is 10.h.0.1 and the
/// host 10.h.0.2. Host 0 sends.
struct Network {
    prefix: String,
    directory: tempfile::TempDir,
}

impl Network {
    /// `None`, said aloud, where namespaces cannot be made.
    fn build() -> Option<Network> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let prefix = format!("carillon-relay-{}-{number}", std::process::id());
        let network = Network { prefix, directory: tempfile::tempdir().expect("a temporary directory") };
        let router = network.router();
        if !ip(&["netns", "add", &router]) {
            println!("SKIPPED: network namespaces cannot be made here");
            return None;
        }
        for host in 0..=RECEIVERS {
            let (name, port) = (network.host(host), format!("port{host}"));
            let inside = |line: &str| assert!(ip(&split(&format!("-n {name} {line}"))), "{line}");
            let at_router = |line: &str| assert!(ip(&split(&format!("-n {router} {line}"))), "{line}");
            assert!(ip(&["netns", "add", &name]));
            at_router(&format!("link add {port} type veth peer name lan netns {name}"));
            at_router(&format!("addr add 10.{}.0.1/24 dev {port}", 100 + host));
            at_router(&format!("link set {port} up"));
            inside(&format!("addr add 10.{}.0.2/24 dev lan", 100 + host));
            inside("link set lo up");
            inside("link set lan up");
            inside(&format!("route add default via 10.{}.0.1", 100 + host));
            inside("route add 224.0.0.0/4 dev lan");
        }
        let forwarding = "echo 1 > /proc/sys/net/ipv4/ip_forward";
        let set = Command::new("ip").args(["netns", "exec", &router, "sh", "-c", forwarding]).status();
        assert!(set.is_ok_and(|status| status.success()), "unicast is forwarded");
        Some(network)
    }

    fn router(&self) -> String {
        format!("{}-router", self.prefix)
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
        ip(&["netns", "del", &self.router()]);
    }
}

/// A process under way; killed when dropped.
struct Running(Child);

impl Running {
    /// The first line that it prints.
    fn first_line(&mut self) -> String {
        let mut line = String::new();
        let out = self.0.stdout.as_mut().expect("its output is read here");
        // A byte at a time: what follows is read later.
        for byte in out.by_ref().bytes() {
            match byte.expect("output") {
                b'\n' => break,
                byte => line.push(byte.into()),
            }
        }
        line
    }

    /// Waits for the end, which is to come within a minute; its exit code, output, and complaints.
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

/// Sends a file to three receivers, each behind an interface of its own of the router; returns what the
/// relay has counted.
fn deliver(network: &Network, protocol: &str, to_sender: &str) -> Value {
    let bytes: Vec<u8> = {
        let mut bytes = vec![0; 1_500_000];
        blake3::Hasher::new().update(protocol.as_bytes()).finalize_xof().fill(&mut bytes);
        bytes
    };
    std::fs::write(network.path("image"), &bytes).expect("a file");
    let ports: Vec<String> = (0..=RECEIVERS).map(|host| format!("--interface port{host}")).collect();
    let relay = format!("relay --protocol {protocol} --json {}", ports.join(" "));
    let mut relay = network.start(&network.router(), &relay);
    let line = relay.first_line();
    assert!(line.contains("\"relaying\""), "{line}: {:?}", relay.end());
    let receivers: Vec<Running> = (1..=RECEIVERS)
        .map(|host| {
            let line = format!("recv --interface lan --name r{host} --out r{host} --drop 0.1 --seed {host}");
            network.start(&network.host(host), &line)
        })
        .collect();
    let line = format!(
        "send --interface lan --ttl 8 --json --protocol {protocol} --receivers {RECEIVERS} {to_sender} image"
    );
    let (code, out, err) = network.start(&network.host(0), &line).end();
    let ends: Vec<_> = receivers.into_iter().map(Running::end).collect();
    relay.interrupt();
    let (relay_code, counts, complaints) = relay.end();
    assert_eq!(code, Some(0), "{out}\n{err}\n{ends:?}\n{counts}\n{complaints}");
    for (host, (code, out, err)) in (1..).zip(&ends) {
        assert_eq!(*code, Some(0), "r{host}: {out}\n{err}");
        let received = std::fs::read(network.path(&format!("r{host}/image"))).expect("the file");
        assert!(received == bytes, "r{host} has another file");
    }
    assert_eq!(relay_code, Some(0), "{complaints}");
    println!("{protocol}: {counts}");
    let counts: Value = serde_json::from_str(counts.trim()).expect("one line of JSON");
    // Some 1000 datagrams of messages, each for three networks.
    assert!(count(&counts, "/forwarded") > 1000, "{counts}");
    for nothing in ["/expired", "/too_large", "/unroutable", "/refused_peers", "/off_path"] {
        assert_eq!(count(&counts, nothing), 0, "{nothing}: {counts}");
    }
    counts
}

fn count(counts: &Value, at: &str) -> u64 {
    counts.pointer(at).and_then(Value::as_u64).unwrap_or(0)
}

#[test]
fn lms_turns_requests_to_a_replier_and_directs_its_repairs_into_branches() {
    let Some(network) = Network::build() else { return };
    let counts = deliver(&network, "lms", "--set replier_buffer=1024");
    assert!(count(&counts, "/rewritten") > 0, "SETUP names the router: {counts}");
    assert!(count(&counts, "/packets/sent/req") > 20, "requests are turned or go up: {counts}");
    assert!(count(&counts, "/directed") > 20, "DMCASTs come as repairs into one branch: {counts}");
    assert!(count(&counts, "/copies") >= 3 * count(&counts, "/forwarded"), "{counts}");
}

#[test]
fn pgm_gathers_requests_and_constrains_repairs() {
    let Some(network) = Network::build() else { return };
    let counts = deliver(&network, "pgm", "");
    assert!(count(&counts, "/rewritten") > 0, "SPMs name the router: {counts}");
    assert!(count(&counts, "/packets/received/nak") > 20, "requests are made of the router: {counts}");
    assert!(count(&counts, "/packets/sent/ncf") > 20, "and confirmed by it: {counts}");
    assert!(count(&counts, "/packets/sent/nak") > 20, "and go on: {counts}");
    assert!(count(&counts, "/packets/dropped/redundant") > 0, "of equal requests one goes on: {counts}");
    assert!(count(&counts, "/narrowed") > 20, "repairs go only where they were asked for: {counts}");
}

#[test]
fn without_the_right_to_send_for_others_it_says_so() {
    let probe = Command::new("setpriv").args(["--version"]).output();
    if probe.is_err() || !nix::unistd::geteuid().is_root() {
        println!("SKIPPED: setpriv(1) and root are needed");
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
