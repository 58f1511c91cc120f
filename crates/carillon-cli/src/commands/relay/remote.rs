//! `carillon relay --from`: a relay for a network that the sender's multicasts do not reach.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::{anyhow, bail};
use carillon_core::ProtocolEntry;
use carillon_net::{RemoteRelay, RemoteRelayConfig};
use carillon_transfer::Network;
use serde_json::json;

use super::args::Args;
use super::helping;
use super::sockets::{CHECK_INTERVAL, LONGEST_STEP, RECEIVE_BUFFER, open};
use crate::delivery::{Stop, enable_timestamps, host_address, notice, print_json, print_table, read_key};

/// Relays until the process is interrupted.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let stop = Stop::on_signals()?;
    relay(args, &|| stop.asked())
}

/// Relays, and helps in the sessions of the sender at the same time, which are received by unicast.
pub fn run_with_helper(args: &Args, protocol: &'static ProtocolEntry) -> anyhow::Result<()> {
    let (_, from) = addresses(args)?;
    let helped = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let relaying = scope.spawn(|| relay(args, &|| helped.load(Ordering::Relaxed)));
        let result = helping::run(args, protocol, Some(from));
        helped.store(true, Ordering::Relaxed);
        let relayed = relaying.join().unwrap_or_else(|_| Err(anyhow!("the relay has ended")));
        result.and(relayed)
    })
}

fn relay(args: &Args, stopped: &dyn Fn() -> bool) -> anyhow::Result<()> {
    let interface = match &args.interfaces[..] {
        [] => None,
        [one] => Some(one.clone()),
        _ => bail!("a relay with --from has one network of its own: give --interface once"),
    };
    if args.protocol.is_none() && !args.sources.is_empty() {
        bail!("--source is for routers and helpers: a relay with --from forwards that sender alone");
    }
    let (group, from) = addresses(args)?;
    let key = args.key_file.as_deref().map(read_key).transpose()?;
    let config = RemoteRelayConfig { group, from, interface, key, receive_buffer: RECEIVE_BUFFER };
    enable_timestamps();
    let sockets = || RemoteRelay::open(config.clone());
    let ready = format!("relaying {group} from {from}");
    let Some(mut relay) = open(&ready, stopped, sockets)? else { return Ok(()) };
    announce(args.json, group, &relay)?;
    let mut watch = PathWatch::default();
    let mut check_at = Instant::now() + CHECK_INTERVAL;
    while !stopped() {
        relay.step(LONGEST_STEP)?;
        watch.look(args.json, &relay)?;
        if Instant::now() >= check_at {
            check_at = Instant::now() + CHECK_INTERVAL;
            if !relay.is_current() {
                notice("an interface or address has changed; waiting for the network");
                let Some(other) = open(&ready, stopped, sockets)? else { break };
                relay = other;
                announce(args.json, group, &relay)?;
            }
        }
    }
    report(args.json, &relay)
}

/// Group and address of the sender. The default group is the one of the sender's IP version.
fn addresses(args: &Args) -> anyhow::Result<(SocketAddr, SocketAddr)> {
    let from = sender(args.from.as_deref().unwrap_or_default(), args.group)?;
    let network = Network { group: args.group, from: Some(from), ..Network::default() };
    Ok((network.effective_group(), from))
}

/// Parses the sender's address. Its port is that of the group by default.
fn sender(text: &str, group: SocketAddr) -> anyhow::Result<SocketAddr> {
    match host_address(text, group.port()) {
        Some(Ok(address)) if address.port() > 0 && !address.ip().is_multicast() => Ok(address),
        Some(Err(error)) => Err(error),
        _ => Err(anyhow!(
            "--from {text}: give the sender's address, such as 192.0.2.1, 192.0.2.1:7654 or 2001:db8::1"
        )),
    }
}

fn announce(json: bool, group: SocketAddr, relay: &RemoteRelay) -> anyhow::Result<()> {
    let from = relay.state().server;
    if json {
        return print_json(&json!({
            "event": "relaying",
            "group": group.to_string(),
            "from": from.to_string(),
            "interface": relay.near().to_string(),
            "towards_sender": relay.far().to_string(),
        }));
    }
    notice(format_args!(
        "relaying {group} of {from} from {} to the network of {}",
        relay.far(),
        relay.near()
    ));
    Ok(())
}

/// Tells when the sender answers and when the path changes.
#[derive(Debug, Default)]
struct PathWatch {
    answered: bool,
    full: bool,
    unicast: Option<bool>,
}

impl PathWatch {
    fn look(&mut self, json: bool, relay: &RemoteRelay) -> anyhow::Result<()> {
        let state = relay.state();
        if !state.answered {
            return Ok(());
        }
        if !std::mem::replace(&mut self.answered, true) && !json {
            notice(format_args!("{} answers", state.server));
        }
        if std::mem::replace(&mut self.full, state.full) != state.full && state.full {
            notice(format_args!("{} has no place for another relay or receiver", state.server));
        }
        if self.unicast == Some(state.unicast) {
            return Ok(());
        }
        self.unicast = Some(state.unicast);
        let path = if state.unicast { "unicast" } else { "multicast" };
        if json {
            return print_json(&json!({ "event": "path", "path": path }));
        }
        notice(format_args!("the sender's data come by {path}"));
        Ok(())
    }
}

/// Prints the counters.
fn report(json: bool, relay: &RemoteRelay) -> anyhow::Result<()> {
    let (state, stats) = (relay.state(), relay.stats());
    let rows = [
        ("copies", state.copies, "datagrams of the sender that came by unicast"),
        ("multicasts", state.multicasts, "datagrams of the sender that came by multicast"),
        ("forwarded", stats.forwarded, "datagrams multicast on the network of this relay"),
        ("too_large", stats.too_large, "lost: they do not fit the interface (send --datagram)"),
        ("refused", stats.refused, "ignored: not from the sender"),
        ("errors", stats.errors, "lost to errors that pass"),
    ];
    if json {
        let mut object = json!({ "event": "relayed", "bytes": stats.bytes });
        for (name, count, _) in rows {
            object[name] = count.into();
        }
        return print_json(&object);
    }
    let shown = rows.iter().filter(|(_, count, _)| *count > 0);
    let table: Vec<Vec<String>> = shown
        .map(|(name, count, means)| vec![(*name).to_owned(), count.to_string(), (*means).to_owned()])
        .collect();
    print_table(&table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sender_has_the_port_of_the_group_by_default() {
        let group = "239.1.2.3:7777".parse().expect("an address");
        let of = |text| sender(text, group).map(|address| address.to_string()).map_err(|e| e.to_string());
        assert_eq!(of("10.0.0.1"), Ok("10.0.0.1:7777".to_owned()));
        assert_eq!(of("10.0.0.1:99"), Ok("10.0.0.1:99".to_owned()));
        assert_eq!(of("fd00::1"), Ok("[fd00::1]:7777".to_owned()));
        assert_eq!(of("[fd00::1]:7"), Ok("[fd00::1]:7".to_owned()));
        for bad in ["", "host", "10.0.0.1:0", "239.1.1.1", "[fd00::1]:0", "ff15::1", "fd00::1:x"] {
            assert!(of(bad).is_err(), "{bad}");
        }
    }
}
