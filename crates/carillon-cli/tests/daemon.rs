//! `carillon daemon` shared by several processes: an application cannot harm the others.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use carillon_testkit::loopback_group;
use carillon_transfer::socket::{Socket, bind};
use serde_json::Value;
use tempfile::TempDir;

/// A daemon in a process of its own.
struct Daemon {
    process: Child,
    path: PathBuf,
    directory: TempDir,
}

impl Daemon {
    fn start(args: &str) -> Daemon {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("socket");
        let process =
            carillon().args(["daemon", "--socket"]).arg(&path).args(args.split_whitespace()).spawn();
        let daemon = Daemon { process: process.expect("the command starts"), path, directory };
        let until = Instant::now() + Duration::from_secs(20);
        while UnixStream::connect(&daemon.path).is_err() {
            assert!(Instant::now() < until, "it does not listen");
            thread::sleep(Duration::from_millis(10));
        }
        daemon
    }

    fn status(&self) -> Value {
        let output = carillon().args(["daemon", "status", "--json", "--socket"]).arg(&self.path).output();
        let output = output.expect("the command runs");
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).expect("a line of JSON")
    }

    /// Peak memory in megabytes.
    fn megabytes(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.id())).expect("it lives");
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("it is told");
        line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") >> 10
    }

    /// Processor time used, in hundredths of a second.
    fn cpu_ticks(&self) -> u64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.process.id())).expect("it lives");
        let fields: Vec<&str> = stat.rsplit(')').next().expect("a name").split_whitespace().collect();
        fields[11..13].iter().map(|ticks| ticks.parse::<u64>().expect("a number")).sum()
    }

    fn stop(mut self) {
        let stopped = carillon().args(["daemon", "stop", "--socket"]).arg(&self.path).status();
        assert!(stopped.expect("the command runs").success());
        assert!(self.process.wait().expect("it ends").success());
        assert!(!self.path.exists());
    }

    /// Starts an application of the daemon in a process of its own.
    fn application(&self, role: &str, group: SocketAddr, name: &str) -> Application {
        let told = self.directory.path().join(name);
        let process = Command::new(std::env::current_exe().expect("this is a program"))
            .args(["daemon::application", "--exact", "--nocapture"])
            .env(APPLICATION, role)
            .env("DAEMON", &self.path)
            .env("GROUP", group.to_string())
            .env("NAME", name)
            .env("TOLD", &told)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Application { process: process.expect("it starts"), told }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

struct Application {
    process: Child,
    told: PathBuf,
}

impl Application {
    /// Waits for the end of the process and returns its output.
    #[track_caller]
    fn end(mut self) -> String {
        let until = Instant::now() + Duration::from_secs(60);
        while self.process.try_wait().expect("it can be waited for").is_none() {
            assert!(Instant::now() < until, "it does not end");
            thread::sleep(Duration::from_millis(20));
        }
        fs::read_to_string(&self.told).unwrap_or_default()
    }
}

impl Drop for Application {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn carillon() -> Command {
    Command::new(env!("CARGO_BIN_EXE_carillon"))
}

const APPLICATION: &str = "CARILLON_TEST_APPLICATION";
const MESSAGES: u64 = 3000;
const MESSAGE_BYTES: usize = 10_000;

/// Runs an application when the environment variable is set. The tests start this program again with it.
#[test]
fn application() {
    let Ok(role) = std::env::var(APPLICATION) else { return };
    let get = |name: &str| std::env::var(name).expect(name);
    let group = get("GROUP").parse().expect("an address");
    let socket = bind(group).interface("lo").name(get("NAME")).through(get("DAEMON"));
    let told = match role.as_str() {
        "send" => send_messages(socket),
        "crowd" => hold_connections(Path::new(&get("DAEMON")), Path::new(&get("TOLD"))),
        role => receive_messages(role, socket),
    };
    fs::write(get("TOLD"), told).expect("it can be told");
}

fn send_messages(socket: Socket) -> String {
    let names = ["reads", "dies", "sleeps"];
    let mut outbound = socket.expect(names).timeout(Duration::from_secs(2)).connect().expect("it connects");
    for number in 0..MESSAGES {
        let mut message = vec![number as u8; MESSAGE_BYTES];
        message[..8].copy_from_slice(&number.to_be_bytes());
        outbound.send(&message).expect("it is open");
    }
    let report = outbound.close().expect("it has an end");
    report.receivers.iter().map(|one| format!("{} {}\n", one.name, one.outcome.name())).collect()
}

/// Opens as many connections as one process can have, sends nothing on them, and waits until it is killed.
fn hold_connections(daemon: &Path, told: &Path) -> String {
    let group = std::env::var("GROUP").expect("GROUP").parse().expect("an address");
    let socket = || bind(group).interface("lo").name("crowd").through(daemon);
    let _sockets: Vec<_> = std::iter::from_fn(|| socket().listen().ok()).collect();
    let _silent: Vec<_> = (0..8).filter_map(|_| UnixStream::connect(daemon).ok()).collect();
    fs::write(told, "full").expect("it can be told");
    thread::sleep(Duration::from_secs(600));
    String::new()
}

fn receive_messages(role: &str, socket: Socket) -> String {
    let mut inbound = socket.listen().expect("it can listen").accept().expect("it is let in");
    let mut next = 0u64;
    while let Some(message) = inbound.recv().expect("nothing is missing") {
        assert!(message.number == next && message.bytes[..8] == next.to_be_bytes(), "in order");
        next += 1;
        match role {
            "die" if next == 100 => std::process::abort(),
            // The process waits until it is killed.
            "sleep" if next == 100 => thread::sleep(Duration::from_secs(600)),
            _ => {}
        }
    }
    format!("{next}")
}

/// Two of four applications fail: one is killed and one never reads. The others lose no message.
#[test]
fn killed_and_stuck_applications_cost_the_others_nothing() {
    let Some(group) = loopback_group() else { return };
    let daemon = Daemon::start("");
    let before = daemon.megabytes();
    let [reads, dies, sleeps] = [("read", "reads"), ("die", "dies"), ("sleep", "sleeps")]
        .map(|(role, name)| daemon.application(role, group, name));
    let sends = daemon.application("send", group, "sends");
    assert_eq!(reads.end(), MESSAGES.to_string());
    let report = sends.end();
    assert!(report.contains("reads verified\n"), "{report}");
    assert!(report.contains("dies failed\n") || report.contains("dies lost\n"), "{report}");
    assert!(report.contains("sleeps lost\n") || report.contains("sleeps failed\n"), "{report}");
    drop(dies);
    let status = daemon.status();
    assert_eq!(status["refused"]["vanished"], 1, "{status}");
    // The daemon still serves the application that never reads, and no other one.
    let sockets = status["sockets"].as_array().expect("a list");
    assert_eq!(sockets.iter().map(|socket| &socket["name"]).collect::<Vec<_>>(), ["sleeps"], "{status}");
    drop(sleeps);
    let after = daemon.megabytes();
    println!("the daemon: {before} MB before, {after} MB at most; {report}");
    assert!(after < before + 100, "30 MB went through it: {before} MB, then {after} MB");
    daemon.stop();
}

#[test]
fn an_idle_daemon_computes_nothing() {
    let Some(group) = loopback_group() else { return };
    let daemon = Daemon::start("");
    let at = |name: &str| bind(group).interface("lo").name(name).through(&daemon.path);
    let idle: Vec<_> = ["a", "b"].map(|name| at(name).listen().expect("it can listen")).into();
    let mut waits = at("c").listen().expect("it can listen");
    let stopper = waits.stopper();
    let waits = thread::spawn(move || waits.accept().is_err());
    thread::sleep(Duration::from_millis(500));
    let before = daemon.cpu_ticks();
    thread::sleep(Duration::from_secs(3));
    let spent = daemon.cpu_ticks() - before;
    println!("{spent} hundredths of a second in three");
    assert!(spent <= 1, "{spent} hundredths of a second in three");
    stopper.stop();
    assert!(waits.join().expect("it does not panic"));
    drop(idle);
    daemon.stop();
}

/// Clients that send nothing or read nothing use a bounded amount of memory.
#[test]
fn idle_clients_take_little_memory_and_delay_no_others() {
    let Some(group) = loopback_group() else { return };
    let daemon = Daemon::start("--clients 20 --per-client 8");
    let crowd = thread::spawn({
        let path = daemon.path.clone();
        move || (0..3000).filter_map(|at| misbehave(&path, at)).count()
    });
    assert!(crowd.join().expect("it does not panic") > 1000);
    // The daemon has handled the crowd before the next client comes: its queue of connections is short.
    let until = Instant::now() + Duration::from_secs(20);
    while daemon.status()["refused"]["greedy"].as_u64() <= Some(1000) {
        assert!(Instant::now() < until, "the daemon does not handle the crowd");
        thread::sleep(Duration::from_millis(10));
    }
    // The connections of this process were refused; another one is served.
    let reads = daemon.application("read", group, "reads");
    let mut outbound = bind(group).interface("lo").name("s").receivers(1).connect().expect("it connects");
    for number in 0..100u64 {
        outbound.send(&number.to_be_bytes()).expect("it is open");
    }
    assert!(outbound.close().expect("it ends").is_success());
    assert_eq!(reads.end(), "100");
    let (status, most) = (daemon.status(), daemon.megabytes());
    println!("{most} MB at most: {status}");
    assert!(most < 100, "{most} MB");
    daemon.stop();
}

/// Connects and sends an invalid or incomplete frame. Closes the connection, or leaves it open, depending on `at`.
fn misbehave(path: &Path, at: usize) -> Option<()> {
    use std::io::Write as _;
    let mut stream = UnixStream::connect(path).ok()?;
    let bytes: &[u8] =
        [&b"\0\0\0\x10\x01"[..], b"\xff\xff\xff\xff", b"", b"\0\0\0\x08\x01\x02\0\x03\0\x01\0\x04"][at % 4];
    let _ = stream.write_all(bytes);
    if at.is_multiple_of(50) {
        // The connection stays open until this process ends.
        std::mem::forget(stream);
    }
    Some(())
}

/// Six processes occupy all sockets and all places for clients without a request yet.
#[test]
fn a_full_daemon_answers_status_and_stop() {
    let Some(group) = loopback_group() else { return };
    let daemon = Daemon::start("--clients 10 --per-client 4");
    let crowd: Vec<_> = (0..6).map(|at| daemon.application("crowd", group, &format!("c{at}"))).collect();
    let until = Instant::now() + Duration::from_secs(20);
    while !crowd.iter().all(|one| one.told.exists()) {
        assert!(Instant::now() < until, "the crowd is not there");
        thread::sleep(Duration::from_millis(10));
    }
    let status = daemon.status();
    assert_eq!(status["sockets"].as_array().map(Vec::len), Some(10), "{status}");
    assert!(status["refused"]["greedy"].as_u64() > Some(10), "{status}");
    daemon.stop();
}

#[test]
fn without_a_daemon_its_commands_say_so() {
    for command in ["status", "stop"] {
        let output = carillon().args(["daemon", command, "--socket", "/nonexistent/socket"]).output();
        let output = output.expect("the command runs");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && text.contains("/nonexistent/socket"), "{text}");
    }
}
