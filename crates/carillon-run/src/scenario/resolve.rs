//! Resolution of a document to a scenario: every value is checked, and an error names its key.

use std::num::{NonZeroU32, NonZeroU64};
use std::sync::Arc;
use std::time::Duration;

use carillon_core::{BitRate, Config, HelperTable, Helpers, NetworkKind, NodeId, ProtocolEntry, Role, Span};
use carillon_sim::graph::GraphConfig;
use carillon_sim::{DEFAULT_EMISSION_LIMIT, HostConfig, LanConfig};
use toml::{Table, Value};

use super::document::{
    self, Bytes, Document, GRAPH_KEYS, INPUT_KEYS, LAN_KEYS, LINK_KEYS, MEDIUM_KEYS, Measurement, RADIO_KEYS,
    STAR_KEYS,
};
use super::error::ScenarioError;
use super::file::ScenarioFile;
use super::loss::{self, Section};
use super::network::{RoutedNetwork, ScenarioNetwork};
use super::resolved::{Competition, Competitor, Death, Measurements, Reader, Scenario, Workload};
use super::sweep::Point;
use super::{helpers, star, sweep, topology};
use crate::drops;

/// First helper. For a protocol with helping routers: the router of the first receiver.
fn first_helping(
    protocol: &ProtocolEntry,
    network: &ScenarioNetwork,
    helpers: &HelperTable,
) -> Option<NodeId> {
    if let Some(helper) = helpers.helpers().first() {
        return Some(helper.node);
    }
    let graph = network.graph().filter(|_| protocol.roles.contains(&Role::Relay))?;
    let &receiver = graph.topology.receivers.first()?;
    let (_, _, link) = graph.topology.ports(receiver).next()?;
    Some(link.other(receiver)).filter(|&router| router != graph.source())
}

impl ScenarioFile {
    /// The scenario at a sweep point.
    pub fn resolve(&self, point: &Point) -> Result<Scenario, ScenarioError> {
        let table = self.table_at(point);
        let document = document::typed(&format!("{}{point}", self.origin), &table)?;
        self.scenario(document, &table)
    }

    /// The document of a sweep point: without the sweep, with the values of the point.
    pub fn table_at(&self, point: &Point) -> Table {
        // Each point of a long sweep would have a copy of the sweep.
        let sections = self.table.iter().filter(|(name, _)| *name != "sweep");
        let mut table: Table = sections.map(|(name, section)| (name.clone(), section.clone())).collect();
        for (key, value) in &point.0 {
            sweep::set(&mut table, key, value.clone());
        }
        table
    }

    fn scenario(&self, document: Document, table: &Table) -> Result<Scenario, ScenarioError> {
        let bad = |key: &str, what: String| self.bad(key, what);
        let sections = loss::sections(self, &document.loss, table)?;
        let is_lan = document.network.kind.is_shared();
        self.refuse_foreign_keys(document.network.kind, table)?;
        let (protocol, config) = self.protocol(&document.protocol, is_lan, document.workload.size())?;
        let (network, receivers) = if is_lan {
            let network = self.lan(&document, &sections)?;
            let receivers =
                document.group.receivers.ok_or_else(|| bad("group.receivers", "is missing".into()))?;
            (ScenarioNetwork::Lan(network), receivers)
        } else {
            let network = self.graph(&document, &sections, table)?;
            if network.drops.is_some() {
                let key = loss::single_loss_key(&sections, "drop_one");
                can_lose_one(protocol).map_err(|what| bad(&key, what))?;
            }
            let receivers = network.topology.receivers.len() as u32;
            (ScenarioNetwork::Graph(network), receivers)
        };
        if !(1..=MAX_RECEIVERS).contains(&receivers) {
            let what = format!("is {receivers}: give 1 to {MAX_RECEIVERS}");
            return Err(bad("group.receivers", what));
        }
        let overhead = (protocol.packets.header_bytes)(&config).data as u32 + network.overhead();
        let workload = self.workload(&document, &sections, &network, overhead)?;
        let hosts = self.hosts(&document, &sections, &network, receivers)?;
        let senders = self.senders(&document, protocol, receivers)?;
        let group = &document.group;
        let helped = !group.helpers_if_any || protocol.helpers != Helpers::None;
        let helpers = helpers::table(
            protocol,
            &network,
            &network.receivers(receivers),
            group.helpers.as_ref().filter(|_| helped),
            group.tree.as_ref().filter(|_| helped),
        );
        let helpers: Arc<HelperTable> = helpers.map_err(|(key, what)| bad(key, what))?.into();
        let death = self.death(&document, protocol, &network, &helpers)?;
        let reader = self.reader(&document, &network, &network.receivers(receivers))?;
        let competitor = self.competitor(&document, &network, protocol)?;
        let only_helping = helpers.helpers().iter().filter(|helper| !helper.delivers).count();
        let stations = receivers as usize + 1 + only_helping;
        let losses =
            loss::placed(&sections, protocol, &network, &network.receivers(receivers), stations)?.into();
        self.check_load(workload.messages, senders, receivers)?;
        Ok(Scenario {
            name: document.name,
            receivers,
            senders,
            death,
            helpers,
            network,
            hosts,
            losses,
            protocol,
            config,
            workload,
            reader,
            competitor,
            time_limit: document.run.time_limit.at(BitRate::mbps(10)),
            step_limit: document.run.step_limit.map_or(u64::MAX, NonZeroU64::get),
            emission_limit: document.run.emission_limit.map_or(DEFAULT_EMISSION_LIMIT, NonZeroU64::get),
            memory_limit: document.run.memory_limit,
            keeps_unfinished: document.run.unfinished == document::Unfinished::Keep,
            linger: document.run.linger.at(BitRate::mbps(10)),
            measurements: Measurements {
                receivers: document.run.measure.contains(&Measurement::Receivers),
                nodes: document.run.measure.contains(&Measurement::Nodes),
                queues: document.run.measure.contains(&Measurement::Queues),
            },
        })
    }

    /// Refuses keys that belong to other kinds of networks.
    fn refuse_foreign_keys(&self, kind: document::NetworkKind, table: &Table) -> Result<(), ScenarioError> {
        type Keys = (&'static [&'static str], &'static str);
        const GRAPH: Keys = (GRAPH_KEYS, "graph");
        const LINK: Keys = (LINK_KEYS, "graph");
        const STAR: Keys = (STAR_KEYS, "star");
        const INPUT: Keys = (INPUT_KEYS, "star");
        let foreign: &[Keys] = match kind {
            document::NetworkKind::Lan => &[(RADIO_KEYS, "radio"), GRAPH, LINK, STAR, INPUT],
            document::NetworkKind::Radio => &[(LAN_KEYS, "lan"), GRAPH, LINK, STAR, INPUT],
            document::NetworkKind::Star => {
                &[(MEDIUM_KEYS, "lan"), (LAN_KEYS, "lan"), (RADIO_KEYS, "radio"), GRAPH]
            }
            document::NetworkKind::Graph => {
                &[(MEDIUM_KEYS, "lan"), (LAN_KEYS, "lan"), (RADIO_KEYS, "radio"), STAR]
            }
        };
        for (keys, kind) in foreign {
            if let Some(key) = given(table, keys) {
                return Err(self.bad(key, format!("belongs to kind = \"{kind}\"")));
            }
        }
        Ok(())
    }

    /// A shared network.
    fn lan(&self, document: &Document, sections: &[Section<'_>]) -> Result<LanConfig, ScenarioError> {
        let mut network = document.network.lan();
        loss::lan(sections, &mut network)?;
        let half_slot = network.bit_rate.time_for_bits(network.slot_bits) / 2;
        if network.radio.is_none() && network.propagation_delay > half_slot {
            let what = format!("is more than half a slot ({} ns at this bit rate)", half_slot.as_nanos());
            return Err(self.bad("network.propagation_delay", what));
        }
        Ok(network)
    }

    /// Number of senders.
    fn senders(
        &self,
        document: &Document,
        protocol: &ProtocolEntry,
        receivers: u32,
    ) -> Result<u32, ScenarioError> {
        let senders = document.group.senders;
        let has_many = protocol.session.many_sources.is_some() || protocol.roles.contains(&Role::Peer);
        let most = if has_many { receivers + 1 } else { 1 };
        if !(1..=most).contains(&senders) {
            let what = match most {
                1 => format!("is {senders}: \"{}\" has one sender", protocol.name),
                _ => format!("is {senders}: give 1 to {most}, the nodes of the group"),
            };
            return Err(self.bad("group.senders", what));
        }
        Ok(senders)
    }

    /// Death of a helper, if the scenario has one.
    fn death(
        &self,
        document: &Document,
        protocol: &ProtocolEntry,
        network: &ScenarioNetwork,
        helpers: &HelperTable,
    ) -> Result<Option<Death>, ScenarioError> {
        let group = &document.group;
        let span = |span: Option<Span>| span.map(|span| span.at(BitRate::mbps(10)));
        let (dies, told) = (span(group.helper_dies), span(group.death_told));
        if dies.is_none() && told.is_some() {
            return Err(self.bad("group.death_told", "belongs to group.helper_dies".into()));
        }
        if dies.is_some() && network.graph().is_none() {
            return Err(self.bad("group.helper_dies", "belongs to kind = \"graph\"".into()));
        }
        Ok(dies.and_then(|at| {
            let node = first_helping(protocol, network, helpers)?;
            Some(Death { node, at, told: told.map(|told| at + told) })
        }))
    }

    /// Refuses a run with more messages or deliveries than a run may have.
    fn check_load(&self, messages: u64, senders: u32, receivers: u32) -> Result<(), ScenarioError> {
        let offered = messages.saturating_mul(senders.into());
        let deliveries = offered.saturating_mul(receivers.into());
        if offered > MAX_MESSAGES || deliveries > MAX_DELIVERIES {
            let what = format!(
                "is {messages}: with {senders} senders and {receivers} receivers a run has {offered} messages and {deliveries} deliveries, and may have {MAX_MESSAGES} and {MAX_DELIVERIES}; send fewer messages, to fewer receivers, or in several runs (run.replications)"
            );
            return Err(self.bad("workload.messages", what));
        }
        Ok(())
    }

    fn workload(
        &self,
        document: &Document,
        sections: &[Section<'_>],
        network: &ScenarioNetwork,
        headers: u32,
    ) -> Result<Workload, ScenarioError> {
        let bad = |key: &str, what: String| self.bad(key, what);
        let keys = &document.workload;
        let interval = keys.rate.map_or(Duration::ZERO, |rate| rate.interval());
        let (key, Bytes(message_bytes)) = match (keys.message_bytes, keys.payload_bytes) {
            (Some(message), None) => ("workload.message_bytes", message),
            // As if one packet took it, whether the protocol cuts it or not.
            (None, Some(Bytes(payload))) => {
                ("workload.payload_bytes", Bytes(payload.saturating_add(headers)))
            }
            (None, None) => return Err(bad("workload.message_bytes", "is missing".into())),
            _ => return Err(bad("workload.payload_bytes", "says what message_bytes says".into())),
        };
        let total_bytes = keys.total_bytes.map(|Bytes(bytes)| u64::from(bytes));
        let payload = u64::from(message_bytes.saturating_sub(headers)).max(1);
        let of_total = total_bytes.map(|total| total.div_ceil(payload));
        if of_total.is_some() && keys.messages.is_some() {
            return Err(bad(
                "workload.total_bytes",
                "says how many messages there are, as messages does".into(),
            ));
        }
        let messages = match network.graph().and_then(|graph| Some((graph, graph.drops?))) {
            None => {
                keys.messages.or(of_total).ok_or_else(|| bad("workload.messages", "is missing".into()))?
            }
            Some((graph, losses)) => {
                let Some(rate) = keys.rate else {
                    let what = "is missing: losses one by one need a steady rate, such as \"10 packet/s\"";
                    return Err(bad("workload.rate", what.into()));
                };
                let count = drops::places(graph, &losses).len() as u64 * u64::from(losses.times);
                if count == 0 {
                    let key = loss::single_loss_key(sections, "links");
                    return Err(bad(&key, "leaves no link of the multicast tree to lose on".into()));
                }
                let needed = losses.first + count * drops::stride(&losses, rate.per_second());
                match keys.messages {
                    Some(messages) if messages < needed => {
                        let what =
                            format!("is {messages}: {count} losses need {needed}; or leave the key out");
                        return Err(bad("workload.messages", what));
                    }
                    messages => messages.unwrap_or(needed),
                }
            }
        };
        if messages == 0 {
            return Err(bad("workload.messages", "is 0: give at least 1 message".into()));
        }
        let (least, kind) = match network {
            ScenarioNetwork::Lan(lan) => (lan.min_frame, "a frame on a lan"),
            ScenarioNetwork::Graph(_) => (1, "a packet on a graph"),
        };
        if !(least..=MAX_FRAME).contains(&message_bytes) {
            let what =
                format!("is {message_bytes}: {kind} has {least} to {MAX_FRAME} bytes, headers included");
            return Err(bad(key, what));
        }
        let start = keys.start.map_or(Duration::ZERO, |span| span.at(network.bit_rate()));
        if keys.burst.is_some() && keys.rate.is_none() {
            return Err(bad("workload.burst", "requires workload.rate, the mean rate of the bursts".into()));
        }
        let burst = keys.burst.map_or(1, NonZeroU32::get);
        let by_payload = keys.payload_bytes.is_some();
        Ok(Workload { messages, message_bytes, by_payload, total_bytes, interval, burst, start })
    }

    /// Slow applications of receivers, if the scenario has any.
    fn reader(
        &self,
        document: &Document,
        network: &ScenarioNetwork,
        receivers: &[NodeId],
    ) -> Result<Option<Reader>, ScenarioError> {
        let Some(keys) = &document.reader else { return Ok(None) };
        let Some(rate) = keys.rate else {
            let what =
                "is missing: messages that the application reads in a second, such as \"10 message/s\"";
            return Err(self.bad("reader.rate", what.into()));
        };
        let burst = keys.burst.map_or(1, NonZeroU32::get);
        let mut nodes = match &keys.receivers {
            None => receivers.to_vec(),
            Some(words) => loss::receivers(words, receivers, network.graph().map(|graph| &*graph.topology))
                .map_err(|(key, what)| self.bad(&format!("reader.{key}"), what))?,
        };
        nodes.sort_unstable();
        let start = keys.start.map_or(Duration::ZERO, |span| span.at(network.bit_rate()));
        Ok(Some(Reader { burst, pause: rate.interval() * burst, start, nodes: nodes.into() }))
    }

    /// Competing traffic, if the scenario has any.
    fn competitor(
        &self,
        document: &Document,
        network: &ScenarioNetwork,
        protocol: &ProtocolEntry,
    ) -> Result<Option<Competitor>, ScenarioError> {
        let Some(keys) = document.competitor else { return Ok(None) };
        let kind = match keys.kind {
            document::CompetitorKind::None => return Ok(None),
            document::CompetitorKind::Cubic => Competition::Cubic,
            document::CompetitorKind::Session => Competition::Session,
        };
        if network.graph().is_none() {
            return Err(self.bad("competitor.kind", "belongs to kind = \"graph\" or \"star\"".into()));
        }
        if protocol.roles.contains(&Role::Peer) {
            let what = format!("needs one sender, and members of \"{}\" are peers", protocol.name);
            return Err(self.bad("competitor.kind", what));
        }
        let start = keys.start.map_or(Duration::ZERO, |span| span.at(network.bit_rate()));
        Ok(Some(Competitor { kind, start }))
    }

    /// Processing costs and drops of hosts, if the scenario states any.
    fn hosts(
        &self,
        document: &Document,
        sections: &[Section<'_>],
        network: &ScenarioNetwork,
        receivers: u32,
    ) -> Result<Option<HostConfig>, ScenarioError> {
        let rate = network.bit_rate();
        let keys = &document.network;
        let costs = [keys.host_call, keys.host_read, keys.host_packet, keys.host_receive];
        let spends = costs.iter().any(Option::is_some);
        let span = |span: Option<carillon_core::Span>| span.map_or(Duration::ZERO, |span| span.at(rate));
        let drops = loss::host_drops(sections, &network.receivers(receivers))?;
        let config = HostConfig {
            call: span(keys.host_call),
            read: span(keys.host_read),
            packet: span(keys.host_packet),
            receive: span(keys.host_receive),
            copy_rate: spends.then_some(rate),
            drops,
        };
        Ok((spends || drops.is_some()).then_some(config))
    }

    fn graph(
        &self,
        document: &Document,
        sections: &[Section<'_>],
        table: &Table,
    ) -> Result<RoutedNetwork, ScenarioError> {
        let keys = &document.network;
        let receivers = document.group.receivers;
        let of_key = |(key, what): (&str, String)| self.bad(key, what);
        let (topology, domains, own) = match keys.kind {
            document::NetworkKind::Star => {
                let star::Star { topology, children } = star::star(keys, receivers, table).map_err(of_key)?;
                (topology, [].into(), children)
            }
            _ => {
                let topology::Named { topology, domains, own } =
                    topology::topology(keys, receivers, &self.inputs, table).map_err(of_key)?;
                (topology, domains, own)
            }
        };
        let defaults = GraphConfig::default();
        let config = GraphConfig {
            rate: keys.rate(),
            queue: keys.queue.map_or(defaults.queue, |queue| queue as usize),
            port_queue: keys.port_queue,
            overhead: keys.overhead.map_or(UDP_OVERHEAD, |Bytes(bytes)| bytes),
        };
        let losses = loss::links(sections, &domains)?;
        let outages = keys.outages(&topology).map_err(of_key)?;
        Ok(RoutedNetwork {
            outages,
            topology: Arc::new(topology),
            domains,
            config,
            loss: losses.model,
            lossy: losses.lossy,
            drops: losses.drops,
            own,
            is_star: keys.kind == document::NetworkKind::Star,
            input: keys.input().map_err(of_key)?,
        })
    }

    fn protocol(
        &self,
        section: &Table,
        is_lan: bool,
        message: Bytes,
    ) -> Result<(&'static ProtocolEntry, Config), ScenarioError> {
        let bad = |key: &str, what: String| self.bad(key, what);
        let name = section.get("name").and_then(Value::as_str);
        let known = || {
            let names: Vec<_> = self.protocols.iter().map(|entry| entry.name).collect();
            names.join(", ")
        };
        let Some(name) = name else {
            return Err(bad("protocol", format!("has no `name`; known protocols: {}", known())));
        };
        let find = |name: &str| self.protocols.iter().copied().find(|entry| entry.name == name);
        let Some(entry) = find(name) else {
            return Err(bad("protocol.name", format!("\"{name}\" is no known protocol; known: {}", known())));
        };
        let kind = if is_lan { NetworkKind::Lan } else { NetworkKind::Graph };
        if !entry.networks.contains(&kind) {
            return Err(bad("protocol.name", format!("\"{name}\" does not run on a {kind}")));
        }
        let mut config = match section.get("profile").map(sweep::text_of).as_deref() {
            None | Some("defaults") => Config::defaults(entry.parameters),
            Some("delivery") => as_delivered(entry, message.0.into()),
            Some(other) => {
                let what = format!("is \"{other}\": give \"defaults\" or \"delivery\"");
                return Err(bad("protocol.profile", what));
            }
        };
        let (own, common): (Vec<_>, Vec<_>) = section
            .iter()
            .filter(|(key, _)| !matches!(key.as_str(), "name" | "profile"))
            .partition(|(_, value)| value.is_table());
        for (key, value) in common {
            let set = config.set(entry.parameters, key, &sweep::text_of(value));
            set.map_err(|error| bad(&format!("protocol.{key}"), error.to_string()))?;
        }
        // What one protocol has for itself goes before what all have; that of the others is looked at too.
        for (name, settings) in own {
            let Some(of) = find(name) else {
                let what = format!(
                    "is neither a parameter of \"{}\" nor a protocol; protocols: {}",
                    entry.name,
                    known()
                );
                return Err(bad(&format!("protocol.{name}"), what));
            };
            let mut others = Config::defaults(of.parameters);
            let config = if of.name == entry.name { &mut config } else { &mut others };
            for (key, value) in settings.as_table().into_iter().flatten() {
                let set = config.set(of.parameters, key, &sweep::text_of(value));
                set.map_err(|error| bad(&format!("protocol.{name}.{key}"), error.to_string()))?;
            }
        }
        Ok((entry, config))
    }
}

/// Settings with which `send` runs a protocol: buffers of two mebibytes.
fn as_delivered(entry: &ProtocolEntry, message: u64) -> Config {
    let mut config = Config::defaults(entry.parameters);
    let fixed = entry.settings.delivery.iter().map(|&(key, value)| (key, value.to_owned()));
    let host = entry.settings.host.iter().map(|&(key, value)| {
        (key, value.text(DELIVERY_BUFFER / message.max(1), message, u64::MAX, MEMBER_TIMEOUT))
    });
    for (key, value) in fixed.chain(host) {
        // What a protocol says of itself it takes: a test of the registry holds it to that.
        let _ = config.set(entry.parameters, key, &value);
    }
    config
}

/// Bytes that receivers' buffers hold in a delivery, as a sender takes them to.
const DELIVERY_BUFFER: u64 = 2 << 20;
/// After how long a delivery gives a silent member up.
const MEMBER_TIMEOUT: Duration = Duration::from_secs(5);

/// Refuses single losses for a protocol that does not mark first transmissions. The network could not tell these from
/// repairs, and would silently lose nothing.
fn can_lose_one(protocol: &ProtocolEntry) -> Result<(), String> {
    match protocol.study.marks_originals {
        true => Ok(()),
        false => Err(format!("needs to know first transmissions, which \"{}\" does not mark", protocol.name)),
    }
}

/// The first of these keys that was given.
fn given(table: &Table, keys: &[&'static str]) -> Option<&'static str> {
    keys.iter().copied().find(|key| sweep::has(table, key))
}

/// The largest frame: a jumbo frame of 9000 bytes with header and check sequence.
const MAX_FRAME: u32 = 9018;

/// Nodes are numbered in 32 bits; memory ends long before.
const MAX_RECEIVERS: u32 = 10_000_000;

/// Maximum number of messages in a run: each takes about fifty bytes of records.
const MAX_MESSAGES: u64 = 20_000_000;

/// Deliveries in a run: each is a step or more, so that this takes an hour.
const MAX_DELIVERIES: u64 = 10_000_000_000;

/// IPv4 and UDP.
const UDP_OVERHEAD: u32 = 20 + 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_loss_requires_marked_first_transmissions() {
        let rra = carillon_proto::find("rra").expect("a protocol");
        assert_eq!(can_lose_one(rra), Ok(()));
        let error = can_lose_one(&ProtocolEntry {
            study: carillon_core::StudyProperties { marks_originals: false, ..rra.study },
            ..*rra
        })
        .expect_err("it marks none");
        assert!(error.contains("which \"rra\" does not mark"), "{error}");
    }
}
