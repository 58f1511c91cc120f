//! The senders of `carillon recv --from`: names of senders to accept, and the host that is asked for unicast copies.

use std::collections::BTreeSet;
use std::net::{SocketAddr, ToSocketAddrs as _};

use anyhow::{Context as _, anyhow, bail};
use carillon_transfer::Network;

use crate::delivery::host_address;

/// Accepted senders.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Senders {
    /// Names; empty accepts any.
    pub(super) names: BTreeSet<String>,
    /// Sender that is asked for unicast copies.
    pub(super) host: Option<SocketAddr>,
}

impl Senders {
    /// Parses the values of `--from`. An address and a host with a port, such as `192.0.2.1`, `[2001:db8::1]:7654`,
    /// `fe80::1%eth0` or `build1:7654`, are a host; any other word is a name. The port is that of the group by default.
    pub(super) fn parse(values: &[String], group: SocketAddr) -> anyhow::Result<Senders> {
        let mut senders = Senders::default();
        for value in values {
            match host(value, group)? {
                None => drop(senders.names.insert(value.clone())),
                Some(_) if senders.host.is_some() => {
                    bail!("--from {value}: a receiver asks one host for copies, and another was given")
                }
                Some(address) => senders.host = Some(address),
            }
        }
        Ok(senders)
    }
}

/// Resolves a host; `None` if the text is a name of a sender.
fn host(text: &str, group: SocketAddr) -> anyhow::Result<Option<SocketAddr>> {
    if let Some(address) = host_address(text, group.port()).transpose()? {
        return with_port(text, address).map(Some);
    }
    let is_host = text.rsplit_once(':').is_some_and(|(host, port)| {
        !host.is_empty() && !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit())
    });
    if !is_host {
        return Ok(None);
    }
    let found = text.to_socket_addrs().with_context(|| format!("--from {text}: no such host"))?;
    let all: Vec<SocketAddr> = found.collect();
    // The default group is used in the IP version of the sender.
    let is_default = Network::default().group == group;
    let found = all.iter().find(|address| address.is_ipv4() == group.is_ipv4());
    let found = found.or_else(|| all.first().filter(|_| is_default));
    let family = if group.is_ipv4() { "IPv4" } else { "IPv6" };
    let found =
        found.ok_or_else(|| anyhow!("--from {text}: the host has no {family} address, as the group"))?;
    with_port(text, *found).map(Some)
}

fn with_port(text: &str, address: SocketAddr) -> anyhow::Result<SocketAddr> {
    if address.port() == 0 {
        bail!("--from {text}: give a port from 1 to 65535");
    }
    Ok(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(values: &[&str]) -> Result<Senders, String> {
        let values: Vec<String> = values.iter().map(|value| (*value).to_owned()).collect();
        let group = "239.1.2.3:7777".parse().expect("an address");
        Senders::parse(&values, group).map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn words_are_names_and_addresses_are_hosts() {
        let senders = parse(&["build1", "10.0.0.1"]).expect("both");
        assert_eq!(senders.names, ["build1".to_owned()].into());
        assert_eq!(senders.host, Some("10.0.0.1:7777".parse().expect("an address")));
        let host = |text| parse(&[text]).expect("a host").host.expect("a host").to_string();
        assert_eq!(host("10.0.0.1:99"), "10.0.0.1:99");
        assert_eq!(host("2001:db8::1"), "[2001:db8::1]:7777");
        assert_eq!(host("[2001:db8::1]"), "[2001:db8::1]:7777");
        assert_eq!(host("[2001:db8::1]:99"), "[2001:db8::1]:99");
        assert_eq!(host("127.0.0.1:7654"), "127.0.0.1:7654");
        for text in ["fe80::1%lo", "[fe80::1%lo]", "[fe80::1%lo]:7777", "fe80::1%1"] {
            assert_eq!(host(text), "[fe80::1%1]:7777", "{text}");
        }
        for name in ["a:b", ":1", "a:", "a b"] {
            assert_eq!(parse(&[name]).expect("a name").host, None, "{name}");
        }
    }

    #[test]
    fn second_host_and_invalid_ports_are_refused() {
        assert!(parse(&["10.0.0.1", "10.0.0.2"]).expect_err("two").contains("another was given"));
        assert!(parse(&["10.0.0.1:0"]).expect_err("no port").contains("1 to 65535"));
        assert!(parse(&["fe80::1%none"]).expect_err("no interface").contains("no interface none"));
        assert!(parse(&["[fd00::1]:0"]).expect_err("no port").contains("1 to 65535"));
        assert!(parse(&["10.0.0.1:99999"]).expect_err("no port").contains("no such host"));
    }
}
