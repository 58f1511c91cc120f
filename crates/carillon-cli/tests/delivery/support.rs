//! Processes of the command, and what they leave behind.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};

/// The command under test.
pub const CARILLON: &str = env!("CARGO_BIN_EXE_carillon");

/// Skips a test, and says why, unless multicast works on loopback.
macro_rules! need_multicast {
    () => {
        if let Err(reason) = crate::support::multicast_on_loopback() {
            eprintln!("skipped: no multicast on loopback: {reason}");
            return;
        }
    };
}
pub(crate) use need_multicast;

/// A fresh directory, and a group that no other test uses.
pub struct Place {
    directory: tempfile::TempDir,
    pub group: SocketAddrV4,
}

impl Place {
    pub fn new() -> Place {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = std::process::id().wrapping_mul(64).wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        let [.., high, low] = number.to_be_bytes();
        let port = 10_000 + (number % 20_000) as u16;
        let group = SocketAddrV4::new(Ipv4Addr::new(239, 255, high, low), port);
        Place { directory: tempfile::tempdir().expect("a temporary directory"), group }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Writes a file of this many bytes that repeat nowhere.
    pub fn file(&self, name: &str, len: usize) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("it is in the directory")).expect("a directory");
        let mut bytes = vec![0; len];
        blake3::Hasher::new().update(name.as_bytes()).finalize_xof().fill(&mut bytes);
        fs::write(&path, bytes).expect("a file");
        path
    }

    /// `carillon send` on loopback, not started yet.
    pub fn send(&self, name: &str) -> Job {
        self.job("send", name)
    }

    /// `carillon recv` on loopback into the directory of its name, not started yet.
    pub fn recv(&self, name: &str) -> Job {
        let out = self.path(name);
        self.job("recv", name).arg("--name").arg(name).arg("--out").arg(out)
    }

    fn job(&self, command: &str, name: &str) -> Job {
        self.wrapped(CARILLON, &[], command, name)
    }

    /// The same behind another program.
    pub fn wrapped(&self, program: &str, before: &[&str], command: &str, name: &str) -> Job {
        let mut process = Command::new(program);
        process.args(before).arg(command).args(["--interface", "lo", "--group"]).arg(self.group.to_string());
        Job { process, log: self.path(&format!("{command}-{name}.log")), input: None }
    }

    /// The command without any flag.
    pub fn bare(&self, command: &str, name: &str) -> Job {
        let mut process = Command::new(CARILLON);
        process.arg(command);
        Job { process, log: self.path(&format!("{command}-{name}.log")), input: None }
    }
}

/// A process to be started.
pub struct Job {
    process: Command,
    log: PathBuf,
    input: Option<PathBuf>,
}

impl Job {
    pub fn arg(mut self, arg: impl AsRef<std::ffi::OsStr>) -> Job {
        self.process.arg(arg);
        self
    }

    pub fn args(mut self, line: &str) -> Job {
        self.process.args(line.split_whitespace());
        self
    }

    /// Runs it there.
    pub fn directory(mut self, path: &Path) -> Job {
        self.process.current_dir(path);
        self
    }

    pub fn input(mut self, path: &Path) -> Job {
        self.input = Some(path.to_owned());
        self
    }

    pub fn start(mut self) -> Running {
        let (out, err) = (self.log.with_extension("out"), self.log.with_extension("err"));
        let input = match &self.input {
            Some(path) => File::open(path).expect("the input").into(),
            None => Stdio::null(),
        };
        let create = |path| File::create(path).expect("a log file");
        let process = self.process.stdin(input).stdout(create(&out)).stderr(create(&err)).spawn();
        Running { process: process.expect("the command starts"), out, err }
    }

    /// Starts it with a standard input that stays open until it is closed.
    pub fn start_fed(mut self) -> Running {
        let (out, err) = (self.log.with_extension("out"), self.log.with_extension("err"));
        let create = |path| File::create(path).expect("a log file");
        let process = self.process.stdin(Stdio::piped()).stdout(create(&out)).stderr(create(&err)).spawn();
        Running { process: process.expect("the command starts"), out, err }
    }

    pub fn run(self) -> Ended {
        self.start().end()
    }
}

/// A process under way; killed when dropped.
pub struct Running {
    process: Child,
    out: PathBuf,
    err: PathBuf,
}

/// What a process has left behind.
#[derive(Debug)]
pub struct Ended {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Running {
    /// Waits for the end, which is to come within a minute.
    pub fn end(self) -> Ended {
        self.end_within(Duration::from_secs(60))
    }

    /// Waits for the end, which is to come within this time.
    pub fn end_within(mut self, limit: Duration) -> Ended {
        let start = Instant::now();
        let code = loop {
            if let Some(status) = self.process.try_wait().expect("the process can be waited for") {
                break status.code();
            }
            if start.elapsed() > limit {
                let _ = self.process.kill();
                panic!("no end within {limit:?}: {}\n{}", read(&self.out), read(&self.err));
            }
            std::thread::sleep(POLL);
        };
        Ended { code, out: read(&self.out), err: read(&self.err) }
    }

    /// Waits for the end with this exit code; its output is not text.
    #[track_caller]
    pub fn end_bytes(mut self, code: i32) {
        let status = self.process.wait().expect("the process can be waited for");
        assert_eq!(status.code(), Some(code), "{}", read(&self.err));
    }

    /// Writes to the standard input of one that was started fed.
    pub fn feed(&mut self, text: &str) {
        let input = self.process.stdin.as_mut().expect("an open standard input");
        input.write_all(text.as_bytes()).expect("the process reads");
    }

    /// Ends the standard input.
    pub fn close(&mut self) {
        self.process.stdin = None;
    }

    pub fn kill(&mut self) {
        self.process.kill().expect("the process can be killed");
    }

    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").arg(format!("-{name}")).arg(self.process.id().to_string()).status();
        assert!(sent.expect("kill runs").success());
    }

    pub fn out(&self) -> String {
        read(&self.out)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Ended {
    /// The exit code is this; otherwise everything is shown.
    #[track_caller]
    pub fn expect(self, code: i32) -> Ended {
        assert_eq!(self.code, Some(code), "\n{}\n{}", self.out, self.err);
        self
    }

    /// One line on stderr, with all of these words.
    #[track_caller]
    pub fn one_line(self, words: &[&str]) -> Ended {
        assert_eq!(self.err.trim_end().lines().count(), 1, "{}", self.err);
        for word in words {
            assert!(self.err.contains(word), "{word:?} is not in: {}", self.err);
        }
        self
    }

    /// The JSON lines of its output with this event.
    pub fn events(&self, event: &str) -> Vec<serde_json::Value> {
        let lines = self.out.lines().map(|line| serde_json::from_str(line).expect("a line of JSON"));
        lines.filter(|value: &serde_json::Value| value["event"] == event).collect()
    }
}

/// Waits until something holds, for a minute at most.
#[track_caller]
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(POLL);
    }
}

/// Waits until a file is being received below this directory.
#[track_caller]
pub fn wait_for_part(directory: &Path) {
    wait_until("nothing is being received", || files(directory).keys().any(|name| name.ends_with(".part")));
}

/// Every file below a directory with its digest, by relative path; nothing if there is none.
pub fn files(directory: &Path) -> BTreeMap<String, blake3::Hash> {
    let mut found = BTreeMap::new();
    let mut todo = vec![directory.to_owned()];
    while let Some(next) = todo.pop() {
        for entry in fs::read_dir(&next).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                todo.push(path);
            } else {
                // One that was renamed meanwhile is found under its new name by the next call.
                let digest = fs::read(&path).map(|bytes| blake3::hash(&bytes));
                let name = path.strip_prefix(directory).expect("it is below").to_string_lossy().into_owned();
                found.insert(name, digest.unwrap_or_else(|_| blake3::hash(b"")));
            }
        }
    }
    found
}

/// A socket that sends to groups on loopback.
pub fn loopback_sender() -> std::io::Result<UdpSocket> {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_multicast_if_v4(&Ipv4Addr::LOCALHOST)?;
    socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into())?;
    Ok(socket.into())
}

/// A socket that hears a group on loopback, as others do at the same time.
pub fn listener(group: SocketAddrV4) -> std::io::Result<UdpSocket> {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    socket.bind(&SocketAddr::V4(group).into())?;
    socket.join_multicast_v4(group.ip(), &Ipv4Addr::LOCALHOST)?;
    socket.set_read_timeout(Some(Duration::from_secs(10)))?;
    Ok(socket.into())
}

pub fn multicast_on_loopback() -> std::io::Result<()> {
    let place = Place::new();
    let hears = listener(place.group)?;
    loopback_sender()?.send_to(b"?", place.group)?;
    hears.recv_from(&mut [0; 8]).map(|_| ())
}

/// Whether this process may do what only root may.
pub fn is_root() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().any(|line| line.starts_with("Uid:") && line.split_whitespace().nth(2) == Some("0"))
}

/// Runs a shell script in namespaces of its own; `None` if that is not possible here.
pub fn unshare(kinds: &str, script: &str) -> Option<Command> {
    let probe = Command::new("unshare")
        .args([kinds, "true"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    if !is_root() || !probe.is_ok_and(|status| status.success()) {
        return None;
    }
    let mut command = Command::new("unshare");
    command.args([kinds, "sh", "-ec", script, "sh"]);
    Some(command)
}

impl From<(Command, PathBuf)> for Job {
    fn from((process, log): (Command, PathBuf)) -> Job {
        Job { process, log, input: None }
    }
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

const POLL: Duration = Duration::from_millis(10);
