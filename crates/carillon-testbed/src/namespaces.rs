//! Network namespaces, one for each node and one in the middle that all are wired to.

use std::fs::File;
use std::io::Write as _;
use std::net::Ipv4Addr;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use nix::sched::{CloneFlags, setns};

use crate::Error;

/// Medium between the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// A model of the shared Ethernet, run in real time.
    Shared,
    /// The system's bridge: a switch as fast as the machine.
    Switched,
}

/// The namespaces of a run; they go when this is dropped.
#[derive(Debug)]
pub(crate) struct Namespaces {
    prefix: String,
    nodes: usize,
}

/// The interface of a node, in its namespace.
pub(crate) const INTERFACE: &str = "lan";

/// First two bytes of all addresses: 10.77.x.y.
const NETWORK: [u8; 2] = [10, 77];

/// Maximum number of nodes: the system's limit on the ports of a bridge.
const MAX_NODES: usize = 1000;

/// Number of testbeds created by this process; makes their names unique.
static CREATED_TESTBEDS: AtomicU64 = AtomicU64::new(0);

impl Namespaces {
    /// Makes a namespace for each node and wires it to the middle; joins them by a bridge if the
    /// medium is one.
    pub(crate) fn create(nodes: usize, medium: Medium) -> Result<Self, Error> {
        if nodes > MAX_NODES {
            return Err(Error::TooManyNodes { nodes, max: MAX_NODES });
        }
        permitted()?;
        // A process may have several testbeds at a time.
        let number = CREATED_TESTBEDS.fetch_add(1, Ordering::Relaxed);
        let namespaces = Namespaces { prefix: format!("carillon-{}-{number}", std::process::id()), nodes };
        namespaces.build(medium)?;
        Ok(namespaces)
    }

    fn build(&self, medium: Medium) -> Result<(), Error> {
        let middle = self.middle();
        let mut all = format!("netns add {middle}\n");
        for node in 0..self.nodes {
            all += &format!("netns add {}\n", self.name(node));
        }
        ip(None, &all)?;
        let mut wires = String::new();
        if medium == Medium::Switched {
            wires += "link add bridge type bridge mcast_snooping 0\nlink set bridge up\n";
        }
        for node in 0..self.nodes {
            let port = port(node);
            wires += &format!("link add {port} type veth peer name {INTERFACE} netns {}\n", self.name(node));
            if medium == Medium::Switched {
                wires += &format!("link set {port} master bridge\n");
            }
            wires += &format!("link set {port} up\n");
        }
        ip(Some(&middle), &wires)?;
        for node in 0..self.nodes {
            let address = address(node);
            let commands = format!(
                "addr add {address}/16 dev {INTERFACE}\nlink set lo up\nlink set {INTERFACE} up\nroute add 224.0.0.0/4 dev {INTERFACE}\n"
            );
            ip(Some(&self.name(node)), &commands)?;
        }
        Ok(())
    }

    /// Moves the calling thread into the namespace of a node.
    pub(crate) fn enter(&self, node: usize) -> Result<(), Error> {
        enter(&self.name(node))
    }

    /// Moves the calling thread into the middle, where the other ends of all wires are.
    pub(crate) fn enter_middle(&self) -> Result<(), Error> {
        enter(&self.middle())
    }

    fn name(&self, node: usize) -> String {
        format!("{}-{node}", self.prefix)
    }

    fn middle(&self) -> String {
        format!("{}-medium", self.prefix)
    }
}

/// Checks that this process may create namespaces.
pub(crate) fn permitted() -> Result<(), Error> {
    if !nix::unistd::geteuid().is_root() {
        return Err(Error::NotPermitted);
    }
    Ok(())
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        // Wires go with the namespaces they end in. Nothing can be done about what remains.
        let mut all = format!("netns del {}\n", self.middle());
        for node in 0..self.nodes {
            all += &format!("netns del {}\n", self.name(node));
        }
        let _ = ip(None, &all);
    }
}

/// The other end of a node's wire.
pub(crate) fn port(node: usize) -> String {
    format!("port{node}")
}

/// The address of a node.
pub(crate) fn address(node: usize) -> Ipv4Addr {
    let number = node as u16 + 1;
    let [high, low] = number.to_be_bytes();
    Ipv4Addr::new(NETWORK[0], NETWORK[1], high, low)
}

/// The node that has this address.
pub(crate) fn node_of(address: Ipv4Addr) -> Option<usize> {
    let [a, b, high, low] = address.octets();
    let number = u16::from_be_bytes([high, low]);
    ([a, b] == NETWORK).then(|| usize::from(number).checked_sub(1)).flatten()
}

fn enter(name: &str) -> Result<(), Error> {
    let path = format!("/run/netns/{name}");
    let file = File::open(&path).map_err(Error::doing(format!("open {path}")))?;
    setns(file, CloneFlags::CLONE_NEWNET).map_err(Error::doing(format!("enter {path}")))
}

/// Gives commands to ip(8), in a namespace.
fn ip(namespace: Option<&str>, commands: &str) -> Result<(), Error> {
    let mut command = Command::new("ip");
    if let Some(namespace) = namespace {
        command.args(["-n", namespace]);
    }
    command
        .args(["-force", "-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut child = command.spawn().map_err(Error::doing("run ip, of the package iproute2"))?;
    let mut input = child.stdin.take().ok_or(Error::Internal("ip takes no input"))?;
    input.write_all(commands.as_bytes()).map_err(Error::doing("give commands to ip"))?;
    drop(input);
    let output = child.wait_with_output().map_err(Error::doing("wait for ip"))?;
    if !output.status.success() {
        return Err(Error::Ip(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_name_nodes() {
        assert_eq!(address(0).to_string(), "10.77.0.1");
        assert_eq!(address(255).to_string(), "10.77.1.0");
        for node in [0, 1, 254, 255, 999] {
            assert_eq!(node_of(address(node)), Some(node));
        }
        assert_eq!(node_of(Ipv4Addr::new(10, 77, 0, 0)), None);
        assert_eq!(node_of(Ipv4Addr::new(10, 78, 0, 1)), None);
    }
}
