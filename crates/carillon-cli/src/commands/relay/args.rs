//! Arguments of `carillon relay`.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use carillon_core::Probability;
use carillon_transfer::DEFAULT_GROUP;

use crate::delivery::{MetricsArgs, seconds};

/// Take part in a protocol as a router, or as a helper that sends repairs to the members below it.
///
/// A router (lms, pgm) forwards the multicasts of one group between two or more interfaces, directs requests to
/// nodes that can answer, and limits repairs to the interfaces where they were requested. It runs until it is
/// interrupted, and then prints its counters. The system forwards unicast (sysctl net.ipv4.ip_forward=1). It needs
/// root or CAP_NET_RAW, because forwarded packets keep their source address. A router is for IPv4 only.
///
/// With --from, a relay serves a network that the sender's multicasts do not reach, for sessions of any protocol: it
/// gets them by unicast and multicasts them in the sender's name, over IPv4 or IPv6. The receivers there need no
/// options.
///
/// A helper (protocols with this role, see `carillon protocols`) joins the sessions of senders that admit
/// helpers (send --helpers), one after another, on one interface and without privileges.
#[derive(Debug, clap::Args)]
#[command(
    before_help = "Example: carillon relay --protocol pgm --interface eth0 --interface eth1",
    after_help = "Examples:
  carillon relay --protocol pgm --interface eth0 --interface eth1
  carillon relay --protocol lms --interface wan --interface lan1 --interface lan2 --json
  carillon relay --from 192.0.2.1 --interface lan
  carillon relay --from 2001:db8::1 --interface lan

As a helper, for a sender that waits for it:
  carillon relay --protocol rmtp --name h1
  carillon send --protocol rmtp --helpers h1 --expect a,b,c image.iso

Senders must let their datagrams pass routers:
  carillon send --protocol lms --ttl 8 --set replier_buffer=1024 image.iso"
)]
pub struct Args {
    /// Protocol with relays or helpers; `carillon protocols` lists them.
    #[arg(long, value_name = "NAME", required_unless_present = "from")]
    pub(super) protocol: Option<String>,
    /// Ask this sender for unicast copies, and multicast them on the network of --interface, where the sender's
    /// multicasts do not arrive. For sessions of any protocol; with --protocol also be a helper. The port is that of
    /// the group by default.
    #[arg(long, value_name = "ADDR[:PORT]", conflicts_with = "settings")]
    pub(super) from: Option<String>,
    /// Interface, by name or address. A router needs two or more; all senders and receivers need a route to the
    /// address of the first one. A helper has one [default: the one that the route to the group selects].
    #[arg(long = "interface", value_name = "NAME|ADDR")]
    pub(super) interfaces: Vec<String>,
    /// Multicast group and UDP port.
    #[arg(long, value_name = "ADDR:PORT", default_value = DEFAULT_GROUP)]
    pub(super) group: SocketAddr,
    /// Receive the multicasts of these hosts only (source-specific multicast), as `recv --source`. With --from, groups
    /// of source-specific multicast have that sender as the source.
    #[arg(long = "source", value_name = "ADDRESS", value_delimiter = ',')]
    pub(super) sources: Vec<IpAddr>,
    /// Set a parameter of the protocol, as at the sender; `carillon protocols NAME` lists them.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(super) settings: Vec<String>,
    /// Print one JSON object for each event on stdout, instead of a table.
    #[arg(long)]
    pub(super) json: bool,
    /// Helper: name in the session [default: the host name].
    #[arg(long, value_name = "NAME")]
    pub(super) name: Option<String>,
    /// Helper: exit after one session.
    #[arg(long)]
    pub(super) once: bool,
    /// Helper: leave a session if the sender stays silent for this long.
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = seconds)]
    pub(super) timeout: Duration,
    /// Helper: encrypt and authenticate all packets with the key in this file, as all other members.
    #[arg(long, value_name = "FILE")]
    pub(super) key_file: Option<PathBuf>,
    /// Helper: drop this share of the arriving datagrams on purpose, as a test.
    #[arg(long, value_name = "P", default_value = "0")]
    pub(super) drop: Probability,
    #[command(flatten)]
    pub(super) numbers: MetricsArgs,
}
