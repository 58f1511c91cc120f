//! What `send` and `recv` have in common on the command line.

use std::io::IsTerminal as _;
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context as _;
use carillon_core::{BitRate, Duration, Probability, Seeds};
use carillon_net::{Endpoint, EndpointConfig};

use super::words::{Whereabouts, say};

/// Where the group is, and what befalls its datagrams.
#[derive(Debug, clap::Args)]
pub struct NetworkArgs {
    /// The multicast group and its UDP port, such as `239.1.2.3:4567` or `[ff02::1:2]:4567`.
    #[arg(long, value_name = "ADDR:PORT", default_value = DEFAULT_GROUP)]
    pub group: SocketAddr,
    /// The network interface, by name or address [default: the one that the route to the group leads to;
    /// without one loopback, which is said].
    #[arg(long, value_name = "NAME|ADDR")]
    pub interface: Option<String>,
    /// The name by which the others know this end [default: the host's name].
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Drop this fraction of the datagrams that arrive here.
    #[arg(long, value_name = "P", default_value = "0")]
    pub drop: Probability,
    /// Repeat the random choices of an earlier run [default: drawn, and printed with --drop].
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Write what happens to a file: .pcapng for packet dissectors, .jsonl for programs.
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Print JSON lines on stdout instead of a table.
    #[arg(long)]
    pub json: bool,
}

impl NetworkArgs {
    /// Opens the sockets.
    pub fn open(&self, listen: bool, ttl: u8, rate: Option<BitRate>) -> anyhow::Result<(Endpoint, Seeds)> {
        let drawn = if self.seed.is_none() { Some(random()?) } else { None };
        let seed = self.seed.or(drawn).unwrap_or_default();
        let seeds = Seeds::new(seed);
        let config = EndpointConfig {
            interface: self.interface.clone(),
            ttl,
            listen,
            drop: self.drop,
            seeds: seeds.clone(),
            rate,
            ..EndpointConfig::new(self.group)
        };
        let endpoint = Endpoint::open(config)?;
        if let Some(line) = Whereabouts::of(&endpoint).loopback() {
            say(line);
        }
        if let Some(seed) = drawn.filter(|_| self.drop > Probability::ZERO) {
            say(format_args!("drops drawn with --seed {seed}"));
        }
        Ok((endpoint, seeds))
    }

    /// The name given, or the host's.
    pub fn name(&self) -> String {
        self.name.clone().unwrap_or_else(host_name)
    }
}

/// 64 bits from the system.
pub fn random() -> anyhow::Result<u64> {
    getrandom::u64().context("the system gives no random numbers")
}

/// The name of this host.
pub fn host_name() -> String {
    let read = |path| std::fs::read_to_string(path).ok();
    read("/proc/sys/kernel/hostname")
        .or_else(|| read("/etc/hostname"))
        .or_else(|| std::env::var("HOSTNAME").ok())
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "host".to_owned())
}

/// A number of seconds on the command line.
pub fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: Option<f64> = text.trim().trim_end_matches('s').trim_end().parse().ok();
    seconds
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .filter(|span| *span <= LONGEST)
        .ok_or_else(|| format!("expected seconds from 0 to {}, such as 2.5", LONGEST.as_secs()))
}

/// Whether progress has somewhere to be shown.
pub fn is_text_terminal() -> bool {
    std::io::stderr().is_terminal()
}

/// A group of the block that organisations may use as they like (RFC 2365); 67 and 65 spell CA.
pub const DEFAULT_GROUP: &str = "239.255.67.65:7654";
/// As good as forever.
const LONGEST: Duration = Duration::from_secs(1_000_000);
