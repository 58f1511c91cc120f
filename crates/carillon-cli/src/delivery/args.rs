//! Arguments that `send` and `recv` share.

use std::io::IsTerminal as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::bail;
use carillon_core::{BitRate, Probability};
use carillon_transfer::options::Settings;
use carillon_transfer::{Bound, Key, Network};

use super::messages::{EndpointContext, notice};
use super::metrics::MetricsArgs;
use super::option_args::{EveryEnd, EveryEndExpert, OptionArgs};

/// Group, interface, key, and options for tests.
#[derive(Debug, clap::Args)]
pub struct NetworkArgs {
    #[command(flatten)]
    options: OptionArgs<EveryEnd>,
    /// Encrypt and authenticate all packets with the key in this file. All machines need the same key.
    #[arg(long, value_name = "FILE", help_heading = "Security")]
    pub key_file: Option<PathBuf>,
    #[command(flatten)]
    expert: OptionArgs<EveryEndExpert>,
    /// Record packets (.pcapng, for Wireshark) or events (.jsonl) in a file.
    #[cfg_attr(feature = "laboratory", arg(long, value_name = "FILE", help_heading = "Output"))]
    #[cfg_attr(not(feature = "laboratory"), arg(skip))]
    pub trace: Option<PathBuf>,
    /// Print one JSON object for each event on stdout, instead of a table.
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    #[command(flatten)]
    pub numbers: MetricsArgs,
}

impl NetworkArgs {
    /// Opens the sockets.
    pub fn open(&self, listen: bool, ttl: u8, rate: Option<BitRate>) -> anyhow::Result<Bound> {
        let bound = self.keyed_network()?.open(listen, ttl, rate)?;
        self.remark(&bound);
        Ok(bound)
    }

    /// Opens the sockets of a sender with this network and the key.
    pub fn open_sender(
        &self,
        network: Network,
        listen: bool,
        ttl: u8,
        rate: Option<BitRate>,
    ) -> anyhow::Result<Bound> {
        let bound = self.keyed(network)?.open_sender(listen, ttl, rate)?;
        self.remark(&bound);
        Ok(bound)
    }

    /// Prints which network was chosen for lack of a better one, and the seed of --drop.
    pub fn remark(&self, bound: &Bound) {
        for line in EndpointContext::of(&bound.endpoint).remarks(self.group()) {
            notice(line);
        }
        if let Some(seed) = bound.drawn.filter(|_| self.network().drop > Probability::ZERO) {
            notice(format_args!("drops drawn with --seed {seed}"));
        }
    }

    /// Returns the network options with the key.
    pub fn keyed_network(&self) -> anyhow::Result<Network> {
        self.keyed(self.network())
    }

    /// Adds the key to a network.
    fn keyed(&self, network: Network) -> anyhow::Result<Network> {
        let group = self.options.given("group").filter(|_| self.options.given("broadcast").is_some());
        if let Some(group) =
            group.filter(|group| group.parse().is_ok_and(|group: SocketAddr| group.is_ipv6()))
        {
            bail!("--broadcast with --group {group}: IPv6 has no broadcast, so use an IPv4 group, or none");
        }
        let key = self.key_file.as_deref().map(read_key).transpose()?;
        Ok(Network { key, ..network })
    }

    /// Returns the group.
    pub fn group(&self) -> SocketAddr {
        self.network().group
    }

    /// Returns the name given, or the host name.
    pub fn name(&self) -> String {
        self.network().name()
    }

    /// Returns an alternative name for the case that the first one is taken; `None` if the user chose the name.
    pub fn second_name(&self) -> Option<String> {
        self.network().second_name()
    }

    /// Returns the settings that these arguments make, without the key.
    pub fn settings(&self) -> Settings {
        let mut settings = Settings::default();
        self.options.apply(&mut settings);
        self.expert.apply(&mut settings);
        settings
    }

    fn network(&self) -> Network {
        self.settings().network
    }
}

/// Reads a key file, and warns if other users can read it.
pub fn read_key(path: &Path) -> anyhow::Result<Key> {
    let file = Key::read(path)?;
    if file.exposed {
        let path = path.display();
        notice(format_args!(
            "everybody on this host can read or write the key file {path}: `chmod 600 {path}`"
        ));
    }
    Ok(file.key)
}

/// Returns true if stderr is a terminal, so that progress bars can be shown.
pub fn is_text_terminal() -> bool {
    std::io::stderr().is_terminal()
}
