//! The senders of `carillon recv --from`: names of senders to accept, and the host that is asked for unicast copies.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};

use anyhow::{Context as _, anyhow, bail};

/// Accepted senders.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Senders {
    /// Names; empty accepts any.
    pub(super) names: BTreeSet<String>,
    /// Sender that is asked for unicast copies.
    pub(super) host: Option<SocketAddr>,
}

impl Senders {
    /// Parses the values of `--from`. An address and a host with a port, such as `192.0.2.1`, `[2001:db8::1]:7654` or
    /// `build1:7654`, are a host; any other word is a name. The port is that of the group by default.
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
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    if let Ok(ip) = bare.parse::<IpAddr>() {
        return Ok(Some(SocketAddr::new(ip, group.port())));
    }
    let is_host = text.rsplit_once(':').is_some_and(|(host, port)| {
        !host.is_empty() && !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit())
    });
    if !is_host {
        return Ok(None);
    }
    let found = text.to_socket_addrs().with_context(|| format!("--from {text}: no such host"))?;
    let all: Vec<SocketAddr> = found.collect();
    let found = all.iter().find(|address| address.is_ipv4() == group.is_ipv4());
    let family = if group.is_ipv4() { "IPv4" } else { "IPv6" };
    let found =
        found.ok_or_else(|| anyhow!("--from {text}: the host has no {family} address, as the group"))?;
    if found.port() == 0 {
        bail!("--from {text}: give a port from 1 to 65535");
    }
    Ok(Some(*found))
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
        assert_eq!(host("127.0.0.1:7654"), "127.0.0.1:7654");
        for name in ["a:b", ":1", "a:", "a b"] {
            assert_eq!(parse(&[name]).expect("a name").host, None, "{name}");
        }
    }

    #[test]
    fn second_host_and_invalid_ports_are_refused() {
        assert!(parse(&["10.0.0.1", "10.0.0.2"]).expect_err("two").contains("another was given"));
        assert!(parse(&["10.0.0.1:0"]).expect_err("no port").contains("1 to 65535"));
        assert!(parse(&["10.0.0.1:99999"]).expect_err("no port").contains("no such host"));
    }
}
