//! Real networks for tests: hosts in network namespaces on one switch, frames of at most 1500 bytes, and whatever
//! a test does to the ports. Everything is removed when the [`Net`] is dropped, also after a panic.
//!
//! ```text
//! let Some(net) = Net::new(4) else { return };            // says aloud that it skips
//! net.receivers().for_each(|host| host.lose_in(0.05));
//! let receiver = net.receiver(1).carillon("recv --name r1 --out r1").start();
//! net.sender().carillon("send file --receivers 1").run().expect(0);
//! ```
mod host;
pub mod process;
mod system;

use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

pub use host::Host;
use system::{emulator, in_namespace, ip, make_possible, shell};

/// The command under test.
pub const CARILLON: &str = env!("CARGO_BIN_EXE_carillon");

/// A switch, a sender, receivers and one host more; each in a namespace of its own, with `lo` and `eth0`.
///
/// The sender is 10.77.0.1, the extra host 10.77.0.2, receiver N (from 1) 10.77.0.(10+N), each also
/// fd77:: with the same last number; `eth0` has a route to all multicast groups of both families. The switch floods.
pub struct Net {
    prefix: String,
    receivers: usize,
    directory: tempfile::TempDir,
    emulators: Vec<Child>,
    next_log: AtomicU32,
}

impl Net {
    /// Creates a network without loss and delay. Prints a notice and returns `None` if that is not possible.
    #[track_caller]
    pub fn new(receivers: usize) -> Option<Net> {
        Net::delayed(receivers, Duration::ZERO)
    }

    /// Creates a network in which the sender's port delays packets by `each_way` in both directions.
    #[track_caller]
    pub fn delayed(receivers: usize, each_way: Duration) -> Option<Net> {
        let delays = [("s", each_way)];
        Net::apart(receivers, if each_way.is_zero() { &[] } else { &delays })
    }

    /// Creates a network in which the ports of these hosts delay packets in both directions.
    #[track_caller]
    pub fn apart(receivers: usize, delays: &[(&str, Duration)]) -> Option<Net> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        assert!((1..=240).contains(&receivers), "receivers have numbers of one byte");
        if let Err(reason) = make_possible() {
            carillon_testkit::skip(reason);
            return None;
        }
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let mut net = Net {
            prefix: format!("{}{}-{number}-", system::PREFIX, std::process::id()),
            receivers,
            directory: tempfile::tempdir().expect("a temporary directory"),
            emulators: Vec::new(),
            next_log: AtomicU32::new(0),
        };
        let delayed: Vec<&str> = delays.iter().map(|(host, _)| *host).collect();
        net.build(&delayed);
        for (host, each_way) in delays {
            net.emulators.push(emulator(&net.switch(), host, *each_way));
        }
        Some(net)
    }

    fn build(&self, delayed: &[&str]) {
        let switch = self.switch();
        let all: Vec<Host<'_>> = self.hosts().collect();
        let mut names = format!("netns add {switch}\n");
        all.iter().for_each(|host| names += &format!("netns add {}\n", host.namespace()));
        ip(None, &names);
        let mut wires = "link add bridge type bridge mcast_snooping 0\nlink set bridge up\n".to_owned();
        for host in &all {
            let port = host.name();
            wires +=
                &format!("link add {port} mtu 1500 type veth peer name eth0 netns {}\n", host.namespace());
            if !delayed.contains(&port) {
                wires += &format!("link set {port} master bridge\n");
            }
            wires += &format!("link set {port} up\n");
        }
        for port in delayed {
            wires += &format!("link add {port}-near type veth peer name {port}-far\n");
            wires += &format!("link set {port}-far master bridge\n");
            wires += &format!("link set {port}-near up\nlink set {port}-far up\n");
        }
        ip(Some(&switch), &wires);
        // Offloading is off; the kernel would otherwise pass frames of 64 KiB between ports.
        let plain = "ethtool -K $port tx off rx off sg off tso off gso off gro off >/dev/null 2>&1 || true";
        shell(&switch, &format!("for port in $(ls /sys/class/net | grep -v bridge); do {plain}; done"));
        for host in &all {
            let number = host.number();
            shell(
                &host.namespace(),
                &format!(
                    "port=eth0; {plain}
                     six=/proc/sys/net/ipv6/conf/eth0 and_six=
                     if [ -e $six ]; then
                         echo 0 >$six/accept_dad; echo 0 >$six/router_solicitations
                         and_six='addr add fd77::{number:x}/64 dev eth0 nodad'
                     fi
                     echo \"
                         link set lo up
                         addr add 10.77.0.{number}/24 brd + dev eth0
                         $and_six
                         link set eth0 up
                         route add 224.0.0.0/4 dev eth0\" | ip -batch -"
                ),
            );
        }
    }

    pub fn sender(&self) -> Host<'_> {
        Host::new(self, "s".to_owned(), 1)
    }

    /// Host for an attacker or a second sender.
    pub fn extra(&self) -> Host<'_> {
        Host::new(self, "x".to_owned(), 2)
    }

    /// Receiver with this number, from 1.
    pub fn receiver(&self, number: usize) -> Host<'_> {
        assert!((1..=self.receivers).contains(&number), "there are {} receivers", self.receivers);
        Host::new(self, format!("r{number}"), 10 + number as u8)
    }

    pub fn receivers(&self) -> impl Iterator<Item = Host<'_>> {
        (1..=self.receivers).map(|number| self.receiver(number))
    }

    pub fn hosts(&self) -> impl Iterator<Item = Host<'_>> {
        [self.sender(), self.extra()].into_iter().chain(self.receivers())
    }

    /// Directory in which the commands of all hosts run; they share their files.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory().join(name)
    }

    /// Writes a file of this many bytes without repetitions.
    pub fn file(&self, name: &str, len: usize) -> PathBuf {
        let path = self.path(name);
        let mut bytes = vec![0; len];
        blake3::Hasher::new().update(name.as_bytes()).finalize_xof().fill(&mut bytes);
        std::fs::write(&path, bytes).expect("a file");
        path
    }

    /// Namespace of the switch. Its ports have the names of the hosts: `s`, `x`, `r1`, …
    pub fn switch(&self) -> String {
        format!("{}switch", self.prefix)
    }

    /// Runs a script of sh(1) in the namespace of the switch; the bridge is called `bridge`. Returns the output.
    #[track_caller]
    pub fn shell(&self, script: &str) -> String {
        shell(&self.switch(), script)
    }

    fn namespace(&self, host: &str) -> String {
        format!("{}{host}", self.prefix)
    }

    /// Path of the output of the next process.
    fn log(&self, host: &str) -> PathBuf {
        let number = self.next_log.fetch_add(1, Ordering::Relaxed);
        self.path(&format!("log-{number}-{host}.log"))
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for emulator in &mut self.emulators {
            let _ = emulator.kill();
            let _ = emulator.wait();
        }
        let mut names: Vec<String> = self.hosts().map(|host| host.namespace()).collect();
        names.push(self.switch());
        system::remove(&names);
    }
}

/// Prepares a program that runs in a namespace.
fn command(namespace: &str, program: &str) -> Command {
    in_namespace(namespace, program)
}
