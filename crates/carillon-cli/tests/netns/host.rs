//! Host of a test network: faults of its port, and the processes that run there.

use std::net::Ipv4Addr;
use std::process::Command;

use super::process::Job;
use super::system::{ip, nft, shell};
use super::{CARILLON, Net, command};

/// Bytes and frames that `eth0` has sent and received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counters {
    pub bytes_out: u64,
    pub frames_out: u64,
    pub bytes_in: u64,
    pub frames_in: u64,
}

/// A host, named `s`, `x`, `r1`, `r2`, …
#[derive(Clone)]
pub struct Host<'a> {
    net: &'a Net,
    name: String,
    number: u8,
}

impl<'a> Host<'a> {
    pub(super) fn new(net: &'a Net, name: String, number: u8) -> Host<'a> {
        Host { net, name, number }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn number(&self) -> u8 {
        self.number
    }

    pub fn namespace(&self) -> String {
        self.net.namespace(&self.name)
    }

    pub fn address(&self) -> Ipv4Addr {
        Ipv4Addr::new(10, 77, 0, self.number)
    }

    /// Drops incoming packets with this probability, independently; 0 ends that, 1 drops all.
    #[track_caller]
    pub fn lose_in(&self, part: f64) {
        self.lose("ingress", part);
    }

    /// Drops outgoing packets with this probability.
    #[track_caller]
    pub fn lose_out(&self, part: f64) {
        self.lose("egress", part);
    }

    #[track_caller]
    fn lose(&self, hook: &str, part: f64) {
        assert!((0.0..=1.0).contains(&part), "{part} is no part");
        // Neither ARP nor neighbour discovery is dropped, since the kernel would repeat a request only after a second.
        let some = format!("numgen random mod 1000000 < {}", (part * 1e6) as u32);
        let which = if part < 1.0 { some.as_str() } else { "" };
        let rule = format!("meta protocol {{ ip, ip6 }} meta l4proto != ipv6-icmp {which} drop");
        let chain = format!("chain c {{ type filter hook {hook} device eth0 priority 0; {rule}\n }}\n");
        let table = format!("table netdev lose-{hook}");
        let mut rules = format!("add {table}\ndelete {table}\n");
        if part > 0.0 {
            rules += &format!("{table} {{ {chain} }}\n");
        }
        nft(&self.namespace(), &rules);
    }

    /// Adds a firewall that silently drops matching incoming packets, such as `udp dport 7654` or `ip saddr
    /// 10.77.0.1`.
    #[track_caller]
    pub fn firewall_in(&self, matching: &str) {
        self.firewall("input", matching);
    }

    #[track_caller]
    fn firewall(&self, hook: &str, matching: &str) {
        let chain = format!("chain {hook} {{ type filter hook {hook} priority 0; {matching} drop\n }}\n");
        nft(&self.namespace(), &format!("table inet firewall {{ {chain} }}\n"));
    }

    /// Removes both firewalls.
    #[track_caller]
    pub fn no_firewall(&self) {
        nft(&self.namespace(), "add table inet firewall\ndelete table inet firewall\n");
    }

    /// Limits the port towards this host to a rate, with a queue of 256 KiB; excess packets are dropped. 0 ends that.
    #[track_caller]
    pub fn rate_in(&self, mbit: f64) {
        rate(&self.net.switch(), &self.name, mbit);
    }

    /// Sets the MTU of the host's link, at both ends. The other ports of the switch keep theirs.
    #[track_caller]
    pub fn mtu(&self, bytes: u32) {
        ip(Some(&self.net.switch()), &format!("link set {} mtu {bytes}\n", self.name));
        ip(Some(&self.namespace()), &format!("link set eth0 mtu {bytes}\n"));
    }

    /// Sets the MTU of the link at the switch's end only.
    #[track_caller]
    pub fn switch_port_mtu(&self, bytes: u32) {
        ip(Some(&self.net.switch()), &format!("link set {} mtu {bytes}\n", self.name));
    }

    /// Directory in which commands of this host run.
    pub fn directory(&self) -> &std::path::Path {
        self.net.directory()
    }

    /// Removes the IPv4 multicast route.
    #[track_caller]
    pub fn no_multicast_route(&self) {
        self.ip("route del 224.0.0.0/4 dev eth0");
    }

    /// Runs a command of ip(8) on this host.
    #[track_caller]
    pub fn ip(&self, line: &str) {
        ip(Some(&self.namespace()), &format!("{line}\n"));
    }

    /// Runs a script of sh(1) on this host, which must succeed. Returns its output.
    #[track_caller]
    pub fn shell(&self, script: &str) -> String {
        shell(&self.namespace(), script)
    }

    #[track_caller]
    pub fn counters(&self) -> Counters {
        let files = ["tx_bytes", "tx_packets", "rx_bytes", "rx_packets"];
        let paths = files.map(|file| format!("/sys/class/net/eth0/statistics/{file}"));
        let read = self.shell(&format!("cat {}", paths.join(" ")));
        let numbers: Vec<u64> = read.lines().map(|line| line.parse().expect("a number")).collect();
        let [bytes_out, frames_out, bytes_in, frames_in] = numbers[..] else { panic!("{read}") };
        Counters { bytes_out, frames_out, bytes_in, frames_in }
    }

    /// Prepares `carillon` with these arguments, in the network's directory; not started yet.
    pub fn carillon(&self, line: &str) -> Job {
        self.program(CARILLON).args(line)
    }

    /// Prepares any program in the same way.
    pub fn program(&self, program: &str) -> Job {
        Job::new(self.command(program), self.net.log(&self.name))
    }

    /// Returns a [`Command`] for uses that a [`Job`] does not offer.
    pub fn command(&self, program: &str) -> Command {
        let mut command = command(&self.namespace(), program);
        command.current_dir(self.net.directory());
        command
    }

    /// Calls a function in the namespace of this host, on a thread of its own. Sockets opened there remain in the
    /// namespace.
    pub fn inside<T: Send>(&self, act: impl FnOnce() -> T + Send) -> T {
        let path = format!("/run/netns/{}", self.namespace());
        let enter = || {
            let file = std::fs::File::open(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
            nix::sched::setns(file, nix::sched::CloneFlags::CLONE_NEWNET).expect("root enters");
            act()
        };
        std::thread::scope(|scope| match scope.spawn(enter).join() {
            Ok(value) => value,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    }
}

#[track_caller]
fn rate(namespace: &str, interface: &str, mbit: f64) {
    let script = match mbit {
        0.0 => format!("tc qdisc del dev {interface} root"),
        _ => {
            let kbit = (mbit * 1000.0) as u64;
            format!("tc qdisc replace dev {interface} root tbf rate {kbit}kbit burst 32kb limit 262144")
        }
    };
    shell(namespace, &script);
}
