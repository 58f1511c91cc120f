//! Addresses of hosts on the command line, with the zone of a link-local address.

use std::net::{IpAddr, SocketAddr, SocketAddrV6};

use anyhow::anyhow;
use carillon_net::Interface;

/// Parses an address such as `192.0.2.1`, `192.0.2.1:7654`, `2001:db8::1`, `[2001:db8::1]:7654`, or `fe80::1%eth0`,
/// with this port by default. `None` if the text is none of these.
///
/// # Errors
/// No interface has the name of the zone.
pub fn host_address(text: &str, port: u16) -> Option<anyhow::Result<SocketAddr>> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    if let Ok(ip) = bare.parse::<IpAddr>() {
        return Some(Ok(SocketAddr::new(ip, port)));
    }
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Some(Ok(address));
    }
    let (inside, port) = match text.strip_prefix('[').and_then(|text| text.rsplit_once("]:")) {
        Some((inside, port)) => (inside, port.parse().ok()?),
        None => (bare, port),
    };
    let (ip, zone) = inside.split_once('%')?;
    let ip = ip.parse().ok()?;
    let index = zone.parse().ok().or_else(|| Interface::index_of(zone));
    let address = index.map(|index| SocketAddrV6::new(ip, port, 0, index).into());
    Some(address.ok_or_else(|| anyhow!("{text}: there is no interface {zone}")))
}
