//! `carillon relay`: a router of a protocol, or a helper.

use std::collections::BTreeMap;
use std::net::{SocketAddr, SocketAddrV4};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use carillon_core::{
    AssociationId, BitRate, BuildContext, Config, Event, Identities, Machine, NodeId, Observer,
    ProtocolEntry, Role, Seeds, Time,
};
use carillon_net::{GROUP, RelayConfig, RelayDriver, RelayEndpoint, RelayStats, SELF};
use carillon_proto::{REGISTRY, find};
use carillon_transfer::monitor::{Router, Snapshot};
use serde_json::json;

mod args;
mod helping;
mod remote;
mod sockets;

use crate::delivery::{Stop, enable_timestamps, notice, print_json, print_table};
pub use args::Args;
use sockets::{CHECK_INTERVAL, LONGEST_STEP, RECEIVE_BUFFER, open};

/// `carillon relay`
pub fn run(args: &Args) -> anyhow::Result<()> {
    let Some(name) = args.protocol.as_deref() else { return remote::run(args) };
    let protocol = protocol(name)?;
    if protocol.roles.contains(&Role::Helper) {
        if !args.settings.is_empty() {
            bail!("--set is for routers: a helper has the session's settings from its sender");
        }
        return match args.from {
            Some(_) => remote::run_with_helper(args, protocol),
            None => helping::run(args, protocol, None),
        };
    }
    if args.from.is_some() {
        bail!(
            "--from is for relays without a protocol, and for helpers: a router of {name} forwards multicast"
        );
    }
    if args.key_file.is_some() {
        bail!(
            "--key-file is for helpers: a router would have to read what passes, which a seal keeps it from"
        );
    }
    let SocketAddr::V4(group) = args.group else { bail!("--group {}: a router is for IPv4", args.group) };
    let stop = Stop::on_signals()?;
    enable_timestamps();
    let interfaces = args.interfaces.clone();
    let sources = args.sources.clone();
    let config = RelayConfig { group, interfaces, sources, receive_buffer: RECEIVE_BUFFER };
    let sockets = || RelayEndpoint::open(config.clone());
    let ready = format!("forwarding {group}");
    let Some(endpoint) = open(&ready, &|| stop.asked(), sockets)? else { return Ok(()) };
    if endpoint.interfaces().count() < 2 {
        bail!("a relay has two interfaces or more: give --interface again");
    }
    let machine = build(protocol, &args.settings, &endpoint)?;
    if is_forwarding_off() {
        notice("the system does not forward unicast: sysctl net.ipv4.ip_forward=1");
    }
    let mut numbers = args.numbers.serve()?;
    announce(args.json, protocol, group, &endpoint)?;
    let mut driver = RelayDriver::new(endpoint, machine, Counts::default());
    let mut told = Instant::now();
    let tell = |driver: &RelayDriver<_>| {
        let Some(monitor) = numbers.monitor() else { return };
        monitor.put(snapshot(protocol, group, driver.endpoint(), driver.observer()));
    };
    tell(&driver);
    let mut network = RelayNetwork::new();
    while !stop.asked() {
        driver.step(LONGEST_STEP)?;
        network.look(driver.endpoint_mut());
        if told.elapsed() >= METRICS_INTERVAL {
            told = Instant::now();
            tell(&driver);
        }
    }
    tell(&driver);
    numbers.work_is_over(&stop);
    let reported = report(args.json, driver.endpoint().stats(), driver.observer());
    numbers.linger(&stop);
    reported
}

/// Follows the interfaces of a router, and renews its group membership.
struct RelayNetwork {
    check_at: Instant,
    renew_at: Instant,
    absent: bool,
}

impl RelayNetwork {
    fn new() -> Self {
        let now = Instant::now();
        RelayNetwork { check_at: now + CHECK_INTERVAL, renew_at: now + RENEWAL_INTERVAL, absent: false }
    }

    /// Checks the interfaces when it is time, and moves to the new ones of the same names if one has changed.
    fn look(&mut self, endpoint: &mut RelayEndpoint) {
        let now = Instant::now();
        if now < self.check_at {
            return;
        }
        self.check_at = now + CHECK_INTERVAL;
        if now >= self.renew_at {
            endpoint.renew_membership();
            self.renew_at = now + RENEWAL_INTERVAL;
        }
        if endpoint.is_current() && !self.absent {
            return;
        }
        match endpoint.reopen() {
            Ok(()) => {
                self.absent = false;
                let names: Vec<String> = endpoint.interfaces().map(ToString::to_string).collect();
                notice(format_args!("the network is there: relaying between {}", names.join(", ")));
            }
            Err(error) if !self.absent => {
                self.absent = true;
                notice(format_args!("{error}; waiting for the network"));
            }
            Err(_) => {}
        }
    }
}

fn protocol(name: &str) -> anyhow::Result<&'static ProtocolEntry> {
    let has_some =
        |entry: &&ProtocolEntry| entry.roles.iter().any(|role| matches!(role, Role::Relay | Role::Helper));
    match find(name).filter(|entry| has_some(&&**entry)) {
        Some(entry) => Ok(entry),
        None => {
            let with: Vec<_> = REGISTRY.iter().copied().filter(has_some).map(|entry| entry.name).collect();
            bail!("no protocol \"{name}\" with relays or helpers; there are: {}", with.join(", "))
        }
    }
}

fn build(
    protocol: &ProtocolEntry,
    settings: &[String],
    endpoint: &RelayEndpoint,
) -> anyhow::Result<Box<dyn Machine>> {
    let mut config = Config::defaults(protocol.parameters);
    for (key, value) in protocol.settings.delivery {
        config.set(protocol.parameters, key, value)?;
    }
    for setting in settings {
        let Some((key, value)) = setting.split_once('=') else {
            bail!("--set {setting}: expected KEY=VALUE");
        };
        let set = config.set(protocol.parameters, key.trim(), value.trim());
        set.with_context(|| format!("--set {setting}"))?;
    }
    let context = BuildContext {
        // The router serves all sessions of the group, so it has no association of its own.
        association: AssociationId(0),
        node: SELF,
        sender: SELF,
        members: [].into(),
        helpers: Default::default(),
        identities: Identities::agreed(0, [].into()),
        addresses: endpoint.addresses(),
        group: GROUP,
        seeds: Seeds::new(getrandom::u64().context("the system gives no random numbers")?),
        bit_rate: BitRate::mbps(1000),
        link_overhead: 0,
        max_payload: 0,
        memory: usize::MAX,
        rejoining: false,
    };
    Ok((protocol.build)(Role::Relay, &context, &config)?)
}

fn is_forwarding_off() -> bool {
    std::fs::read_to_string("/proc/sys/net/ipv4/ip_forward").is_ok_and(|text| text.trim() == "0")
}

fn announce(
    json: bool,
    protocol: &ProtocolEntry,
    group: SocketAddrV4,
    endpoint: &RelayEndpoint,
) -> anyhow::Result<()> {
    let names: Vec<String> = endpoint.interfaces().map(ToString::to_string).collect();
    if json {
        return print_json(&json!({
            "event": "relaying",
            "protocol": protocol.name,
            "group": group.to_string(),
            "address": endpoint.address().to_string(),
            "interfaces": names,
        }));
    }
    notice(format_args!("relay of {} for {group} between {}", protocol.name, names.join(", ")));
    Ok(())
}

/// Counts of the machine's events, by kind and name.
#[derive(Debug, Default)]
struct Counts(BTreeMap<&'static str, BTreeMap<String, u64>>);

impl Observer for Counts {
    fn event(&mut self, _time: Time, _node: NodeId, event: &Event) {
        let (kind, name) = match event {
            Event::ControlSent { packet, .. } => ("sent", (*packet).to_owned()),
            Event::Received { packet, .. } => ("received", (*packet).to_owned()),
            Event::Forwarded { repair: true, .. } => ("sent", "repair".to_owned()),
            Event::Dropped { reason } => ("dropped", reason.name().to_owned()),
            _ => return,
        };
        *self.0.entry(kind).or_default().entry(name).or_default() += 1;
    }
}

/// Metrics of the router.
fn snapshot(
    protocol: &ProtocolEntry,
    group: SocketAddrV4,
    endpoint: &RelayEndpoint,
    counts: &Counts,
) -> Snapshot {
    let names: Vec<String> = endpoint.interfaces().map(ToString::to_string).collect();
    let packets = counts
        .0
        .iter()
        .flat_map(|(kind, names)| names.iter().map(|(name, count)| (*kind, name.clone(), *count)));
    let mut snapshot = Snapshot::new("router");
    snapshot.protocol = Some(protocol.name.to_owned());
    snapshot.group = Some(group.into());
    snapshot.interface = Some(names.join(", "));
    snapshot.router = Some(Router::new(endpoint.stats().clone(), packets.collect()));
    snapshot
}

/// Prints the counters.
fn report(json: bool, stats: &RelayStats, counts: &Counts) -> anyhow::Result<()> {
    let rows = [
        ("forwarded", stats.forwarded, "multicasts let through"),
        ("rewritten", stats.rewritten, "of these, changed on the way"),
        ("narrowed", stats.narrowed, "of these, to some of the other interfaces only"),
        ("copies", stats.copies, "what came of them, each interface by itself"),
        ("absorbed", stats.absorbed, "multicasts not let through"),
        ("directed", stats.directed, "sent into chosen branches in another's name"),
        ("received", stats.received, "addressed to this relay"),
        ("sent", stats.sent, "sent by it to one node"),
        ("off_path", stats.off_path, "ignored: not from where their source is"),
        ("expired", stats.expired, "ignored: as far as they may come (send --ttl)"),
        ("too_large", stats.too_large, "lost: they do not fit the interface (send --datagram)"),
        ("unroutable", stats.unroutable, "dropped: unknown destination"),
        ("refused_peers", stats.refused_peers, "ignored: too many sources"),
        ("errors", stats.errors, "lost to errors that pass"),
    ];
    if json {
        let mut object = json!({ "event": "relayed", "packets": counts.0 });
        for (name, count, _) in rows {
            object[name] = count.into();
        }
        return print_json(&object);
    }
    let mut table: Vec<Vec<String>> = rows
        .iter()
        .filter(|(_, count, _)| *count > 0)
        .map(|(name, count, means)| vec![(*name).to_owned(), count.to_string(), (*means).to_owned()])
        .collect();
    for (kind, names) in &counts.0 {
        table.extend(names.iter().map(|(name, count)| {
            vec![format!("{kind} {name}"), count.to_string(), "packets of the protocol".to_owned()]
        }));
    }
    print_table(&table)
}

/// Interval at which metrics are updated.
const METRICS_INTERVAL: Duration = Duration::from_millis(250);

/// Interval at which the membership is renewed.
const RENEWAL_INTERVAL: Duration = Duration::from_secs(30);
