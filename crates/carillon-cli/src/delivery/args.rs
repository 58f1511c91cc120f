//! What `send` and `recv` have in common on the command line.

use std::io::IsTerminal as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use carillon_core::{BitRate, Probability};
use carillon_transfer::{Bound, DEFAULT_GROUP, Key, Network};

use super::numbers::NumbersArgs;
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
    /// Seal everything with the key in this file, and take only what is sealed with it; all ends need the same.
    #[arg(long, value_name = "FILE")]
    pub key_file: Option<PathBuf>,
    /// With xtp: let its packets go right over IP, as protocol 36, and not over UDP; all ends need this, and the right to open raw
    /// sockets (root).
    #[arg(long, conflicts_with = "key_file")]
    pub raw_ip: bool,
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
    #[command(flatten)]
    pub numbers: NumbersArgs,
}

impl NetworkArgs {
    /// Opens the sockets.
    pub fn open(&self, listen: bool, ttl: u8, rate: Option<BitRate>) -> anyhow::Result<Bound> {
        let bound = self.keyed_network()?.open(listen, ttl, rate)?;
        self.remark(&bound);
        Ok(bound)
    }

    /// Says what was chosen for want of a better network, and the seed of the drops.
    pub fn remark(&self, bound: &Bound) {
        for line in Whereabouts::of(&bound.endpoint).remarks(self.group) {
            say(line);
        }
        if let Some(seed) = bound.drawn.filter(|_| self.drop > Probability::ZERO) {
            say(format_args!("drops drawn with --seed {seed}"));
        }
    }

    /// The network, with the key.
    pub fn keyed_network(&self) -> anyhow::Result<Network> {
        let key = self.key_file.as_deref().map(read_key).transpose()?;
        Ok(Network { key, ..self.network() })
    }

    /// The name given, or the host's.
    pub fn name(&self) -> String {
        self.network().name()
    }

    /// Another one if that is taken; none if it was given.
    pub fn second_name(&self) -> Option<String> {
        self.network().second_name()
    }

    fn network(&self) -> Network {
        Network {
            group: self.group,
            interface: self.interface.clone(),
            name: self.name.clone(),
            drop: self.drop,
            seed: self.seed,
            key: None,
            raw_ip: self.raw_ip,
            service: false,
        }
    }
}

/// Reads a key, and says so if others can read it too.
pub fn read_key(path: &Path) -> anyhow::Result<Key> {
    let file = Key::read(path)?;
    if file.exposed {
        let path = path.display();
        say(format_args!("everybody on this host can read or write the key file {path}: `chmod 600 {path}`"));
    }
    Ok(file.key)
}

/// Whether progress has somewhere to be shown.
pub fn is_text_terminal() -> bool {
    std::io::stderr().is_terminal()
}
