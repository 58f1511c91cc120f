//! Directories and groups on loopback for tests of the command, and checks of the results.

use std::collections::BTreeMap;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use carillon_testkit::fresh_group;
use socket2::{Domain, Protocol, Socket, Type};

pub use crate::netns::process::{Ended, Job, Running};

/// The command under test.
pub const CARILLON: &str = env!("CARGO_BIN_EXE_carillon");

/// Skips a test, with the reason, unless multicast works on loopback.
macro_rules! need_multicast {
    () => {
        if let Err(reason) = crate::delivery::support::multicast_on_loopback() {
            return carillon_testkit::skip(format_args!("no multicast on loopback: {reason}"));
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
        Place { directory: tempfile::tempdir().expect("a temporary directory"), group: fresh_group() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Writes a file of this many bytes without repetitions.
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

    /// A command on loopback, not started yet.
    pub fn job(&self, command: &str, name: &str) -> Job {
        self.wrapped(CARILLON, &[], command, name)
    }

    /// Prepares the command as an argument of another program.
    pub fn wrapped(&self, program: &str, before: &[&str], command: &str, name: &str) -> Job {
        let mut process = Command::new(program);
        // The test has a history of signatures of its own.
        process.env_remove("STATE_DIRECTORY").env("XDG_STATE_HOME", self.path("state"));
        process.args(before).arg(command).args(["--interface", "lo", "--group"]).arg(self.group.to_string());
        Job::new(process, self.path(&format!("{command}-{name}.log")))
    }

    /// Prepares the command without any flag.
    pub fn bare(&self, command: &str, name: &str) -> Job {
        let mut process = Command::new(CARILLON);
        process.arg(command);
        Job::new(process, self.path(&format!("{command}-{name}.log")))
    }
}

/// Waits until `holds` returns true, for a minute at most.
#[track_caller]
pub fn wait_until(what: &str, holds: impl FnMut() -> bool) {
    wait_until_or(what, String::new, holds);
}

/// Waits like [`wait_until`], and adds the text of `told` to the failure.
pub fn wait_until_or(what: &str, told: impl Fn() -> String, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what}\n{}", told());
        std::thread::sleep(POLL);
    }
}

/// Calls `each` for every item, on at most `most` threads.
pub fn in_parallel<T: Sync>(most: usize, items: &[T], each: impl Fn(&T) + Sync) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..most.min(items.len()) {
            scope.spawn(|| {
                while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
                    each(item);
                }
            });
        }
    });
}

/// Waits until a partial file exists below this directory.
#[track_caller]
pub fn wait_for_part(directory: &Path) {
    // A receiver first creates a trial file, and a journal.
    let is_part =
        |name: &String| name.ends_with(".part") && !name.contains("probe") && !name.starts_with(".transfer.");
    wait_until("nothing is being received", || files(directory).keys().any(is_part));
}

/// Digests of all files below a directory, by relative path; empty if the directory is missing.
pub fn files(directory: &Path) -> BTreeMap<String, blake3::Hash> {
    let mut found = BTreeMap::new();
    let mut todo = vec![directory.to_owned()];
    while let Some(next) = todo.pop() {
        for entry in fs::read_dir(&next).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                todo.push(path);
            } else {
                // The next call finds a file that was renamed meanwhile under its new name.
                let digest = fs::read(&path).map(|bytes| blake3::hash(&bytes));
                let name = path.strip_prefix(directory).expect("it is below").to_string_lossy().into_owned();
                found.insert(name, digest.unwrap_or_else(|_| blake3::hash(b"")));
            }
        }
    }
    found
}

/// Opens a socket that sends to groups on loopback.
pub fn loopback_sender() -> std::io::Result<UdpSocket> {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_multicast_if_v4(&Ipv4Addr::LOCALHOST)?;
    socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into())?;
    Ok(socket.into())
}

/// Opens a socket that receives a group on loopback, together with others.
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

/// Returns true if this process runs as root.
pub fn is_root() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().any(|line| line.starts_with("Uid:") && line.split_whitespace().nth(2) == Some("0"))
}

/// Prepares a shell script that runs in namespaces of its own; `None` if that is not possible here.
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

const POLL: Duration = Duration::from_millis(10);
