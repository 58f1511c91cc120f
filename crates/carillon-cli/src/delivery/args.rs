//! Arguments that `send` and `recv` share.

use std::io::IsTerminal as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::bail;
use carillon_core::{BitRate, Probability};
use carillon_transfer::{Bound, DEFAULT_GROUP, Dscp, Key, Network};

use super::messages::{EndpointContext, notice};
use super::metrics::MetricsArgs;

/// Group, interface, key, and options for tests.
#[derive(Debug, clap::Args)]
pub struct NetworkArgs {
    /// Multicast group and UDP port, such as `239.1.2.3:4567` or `[ff02::1:2]:4567`.
    #[arg(long, value_name = "ADDR:PORT", default_value = DEFAULT_GROUP, help_heading = "Network")]
    pub group: SocketAddr,
    /// Network interface, by name or address [default: the one that the route to the group selects, else loopback]. Can
    /// be given several times: this machine then sends and receives on each of these networks.
    #[arg(long = "interface", value_name = "NAME|ADDR", value_delimiter = ',', help_heading = "Network")]
    pub interfaces: Vec<String>,
    /// Receive the multicasts of these hosts only, and drop those of others (source-specific multicast). Groups in
    /// 232.0.0.0/8 and ff3x::/32 need it where routers pass multicast. Can be given several times.
    #[arg(long = "source", value_name = "ADDRESS", value_delimiter = ',', help_heading = "Network")]
    pub sources: Vec<IpAddr>,
    /// Send to all hosts of the network of the interface instead of the group, and receive what is sent so: the last
    /// resort where switches do not pass multicast. All machines need it. The port is that of --group. IPv4 only.
    #[arg(long, conflicts_with = "raw_ip", help_heading = "Network")]
    pub broadcast: bool,
    /// Name of this machine in the session [default: the host name].
    #[arg(long, value_name = "NAME", help_heading = "Network")]
    pub name: Option<String>,
    /// Encrypt and authenticate all packets with the key in this file. All machines need the same key.
    #[arg(long, value_name = "FILE", help_heading = "Security")]
    pub key_file: Option<PathBuf>,
    /// Mark everything that this machine sends with a DiffServ code point: a number from 0 to 63, or a name such as
    /// `cs1`, `af11`, `ef` or `le`. Switches and routers queue by it, if they are set up to.
    #[arg(long, value_name = "CODE", value_parser = dscp, help_heading = "Network")]
    pub dscp: Option<Dscp>,
    /// Send the packets of XTP directly over IP, as protocol 36, instead of over UDP. All machines need this, and the
    /// right to open raw sockets.
    #[arg(long, conflicts_with = "key_file", help_heading = "Expert")]
    pub raw_ip: bool,
    /// Drop this share of the arriving datagrams on purpose, as a test.
    #[arg(long, value_name = "P", default_value = "0", help_heading = "Expert")]
    pub drop: Probability,
    /// Repeat the random choices of an earlier run [default: drawn, and printed with --drop].
    #[arg(long, value_name = "N", help_heading = "Expert")]
    pub seed: Option<u64>,
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

    /// Opens the sockets of a sender, which serves unicast copies at this rate.
    pub fn open_sender(
        &self,
        listen: bool,
        ttl: u8,
        rate: Option<BitRate>,
        unicast_rate: Option<BitRate>,
        keyless_relays: bool,
    ) -> anyhow::Result<Bound> {
        let network = Network { unicast_rate, keyless_relays, ..self.keyed_network()? };
        let bound = network.open_sender(listen, ttl, rate)?;
        self.remark(&bound);
        Ok(bound)
    }

    /// Prints which network was chosen for lack of a better one, and the seed of --drop.
    pub fn remark(&self, bound: &Bound) {
        for line in EndpointContext::of(&bound.endpoint).remarks(self.group) {
            notice(line);
        }
        if let Some(seed) = bound.drawn.filter(|_| self.drop > Probability::ZERO) {
            notice(format_args!("drops drawn with --seed {seed}"));
        }
    }

    /// Returns the network options with the key.
    pub fn keyed_network(&self) -> anyhow::Result<Network> {
        if self.broadcast && self.group.is_ipv6() {
            bail!(
                "--broadcast with --group {}: IPv6 has no broadcast, so use an IPv4 group, or none",
                self.group
            );
        }
        let key = self.key_file.as_deref().map(read_key).transpose()?;
        Ok(Network { key, ..self.network() })
    }

    /// Returns the name given, or the host name.
    pub fn name(&self) -> String {
        self.network().name()
    }

    /// Returns an alternative name for the case that the first one is taken; `None` if the user chose the name.
    pub fn second_name(&self) -> Option<String> {
        self.network().second_name()
    }

    fn network(&self) -> Network {
        Network {
            group: match self.broadcast {
                true => SocketAddr::new(Ipv4Addr::BROADCAST.into(), self.group.port()),
                false => self.group,
            },
            interface: (!self.interfaces.is_empty()).then(|| self.interfaces.join(",")),
            name: self.name.clone(),
            drop: self.drop,
            seed: self.seed,
            key: None,
            raw_ip: self.raw_ip,
            service: false,
            dscp: self.dscp,
            sources: self.sources.clone(),
            ..Network::default()
        }
    }
}

fn dscp(text: &str) -> Result<Dscp, String> {
    text.parse().map_err(|error: carillon_net::UnknownDscp| error.to_string())
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
