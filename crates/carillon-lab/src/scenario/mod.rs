//! Scenario files: what is to be run.
//!
//! A [`ScenarioFile`] is a TOML document with sweeps; at each sweep point it resolves to one
//! [`Scenario`], in which every value is known. A Segovia command file is translated to such a
//! document first ([`crate::command_file`]), so there is one way from here on.

mod document;
mod error;
mod sweep;

use std::time::Duration;

use carillon_core::{BitRate, Config, NetworkKind, Probability, ProtocolEntry, Role};
use carillon_sim::LanConfig;
use serde::Serialize;
use toml::{Table, Value};

pub use error::ScenarioError;
pub(crate) use sweep::text_of;
pub use sweep::{Axis, Point};

use document::Document;

/// A scenario file as read, with the settings made on top of it.
#[derive(Clone, Debug)]
pub struct ScenarioFile {
    origin: String,
    /// The text, to point at lines in it; empty if there is none.
    text: String,
    table: Table,
    document: Document,
    axes: Vec<Axis>,
}

/// One scenario, every value known.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Its name.
    pub name: String,
    /// The network.
    pub network: LanConfig,
    /// Receivers of each message. The group has one node more.
    pub receivers: u32,
    /// Nodes that offer messages: the first ones. More than one among peers only.
    pub senders: u32,
    /// The protocol.
    pub protocol: &'static ProtocolEntry,
    /// Its settings.
    pub config: Config,
    /// What is sent.
    pub workload: Workload,
    /// Simulated time after which a run is given up.
    pub time_limit: Duration,
    /// Among peers, how long they have to deliver everything after the last sender has finished.
    pub linger: Duration,
}

impl Scenario {
    /// Whether the protocol's members are all senders and receivers at once.
    pub fn is_among_peers(&self) -> bool {
        self.protocol.roles.contains(&Role::Peer)
    }
}

/// What each sender's application offers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Workload {
    /// Messages.
    pub messages: u64,
    /// Bytes of the frame that carries a message, all headers included.
    pub message_bytes: u32,
    /// Time between two messages; zero is as fast as they are taken.
    pub interval: Duration,
}

impl ScenarioFile {
    /// Reads a scenario from TOML text; `origin` is its name in error messages.
    pub fn parse(origin: &str, text: &str) -> Result<Self, ScenarioError> {
        let document: Document =
            toml::from_str(text).map_err(|error| ScenarioError::toml(origin, text, &error))?;
        let table: Table = toml::from_str(text).map_err(|error| ScenarioError::toml(origin, text, &error))?;
        Self::build(origin, text, table, document)
    }

    /// A scenario from a document that was made, not read.
    pub fn from_table(origin: &str, table: Table) -> Result<Self, ScenarioError> {
        let document = document::typed(origin, &table)?;
        Self::build(origin, "", table, document)
    }

    fn build(origin: &str, text: &str, table: Table, document: Document) -> Result<Self, ScenarioError> {
        let axes = sweep::axes(origin, text, &table)?;
        let file = ScenarioFile { origin: origin.to_owned(), text: text.to_owned(), table, document, axes };
        // Every value is looked at now, so that the last point of a sweep cannot fail after hours.
        for point in file.points() {
            file.resolve(&point)?;
        }
        Ok(file)
    }

    /// The same scenario with one key set, as by `--set key=value`. A swept key is no longer swept.
    pub fn with(&self, key: &str, value: &str) -> Result<Self, ScenarioError> {
        let mut table = self.table.clone();
        if let Some(Value::Table(sweep)) = table.get_mut("sweep") {
            sweep.remove(key);
        }
        if let Some(axis) =
            self.axes.iter().find(|axis| axis.keys.len() > 1 && axis.keys.iter().any(|k| k == key))
        {
            let what = format!(
                "is swept together with others ({}): change the scenario file instead",
                axis.keys.join(", ")
            );
            return Err(ScenarioError::new(format!("--set {key}={value}"), format!("`{key}` {what}")));
        }
        sweep::set(&mut table, key, sweep::value_of(value));
        let origin = format!("--set {key}={value}");
        let document = document::typed(&origin, &table)?;
        Self::build(&origin, "", table, document)
            .map(|file| ScenarioFile { origin: self.origin.clone(), ..file })
    }

    /// The sweep points in order: the cross product of the axes, the last one running fastest.
    pub fn points(&self) -> Vec<Point> {
        sweep::points(&self.axes)
    }

    /// The scenario at a sweep point.
    pub fn resolve(&self, point: &Point) -> Result<Scenario, ScenarioError> {
        let mut table = self.table.clone();
        for (key, value) in &point.0 {
            sweep::set(&mut table, key, value.clone());
        }
        let document = document::typed(&format!("{}{point}", self.origin), &table)?;
        self.scenario(document)
    }

    fn scenario(&self, document: Document) -> Result<Scenario, ScenarioError> {
        let network = document.network.config(document.loss.map_or(Probability::ZERO, |loss| loss.p));
        let (protocol, config) = self.protocol(&document.protocol)?;
        let workload = Workload {
            messages: document.workload.messages,
            message_bytes: document.workload.message_bytes,
            interval: document.workload.rate.map_or(Duration::ZERO, |rate| rate.interval()),
        };
        let bad = |key: &str, what: String| ScenarioError::at(&self.origin, &self.text, key, what);
        if workload.messages == 0 {
            return Err(bad("workload.messages", "is 0: give at least 1 message".into()));
        }
        let sizes = network.min_frame..=MAX_FRAME;
        if !sizes.contains(&workload.message_bytes) {
            let what = format!(
                "is {}: a frame on a lan has {} to {MAX_FRAME} bytes, headers included",
                workload.message_bytes, network.min_frame
            );
            return Err(bad("workload.message_bytes", what));
        }
        if !(1..=MAX_RECEIVERS).contains(&document.group.receivers) {
            let what = format!("is {}: give 1 to {MAX_RECEIVERS}", document.group.receivers);
            return Err(bad("group.receivers", what));
        }
        let senders = document.group.senders;
        let most = if protocol.roles.contains(&Role::Peer) { document.group.receivers + 1 } else { 1 };
        if !(1..=most).contains(&senders) {
            let what = match most {
                1 => format!("is {senders}: \"{}\" has one sender", protocol.name),
                _ => format!("is {senders}: give 1 to {most}, the nodes of the group"),
            };
            return Err(bad("group.senders", what));
        }
        let half_slot = network.bit_rate.time_for_bits(network.slot_bits) / 2;
        if network.propagation_delay > half_slot {
            let what = format!("is more than half a slot ({} ns at this bit rate)", half_slot.as_nanos());
            return Err(bad("network.propagation_delay", what));
        }
        Ok(Scenario {
            name: document.name,
            receivers: document.group.receivers,
            senders,
            network,
            protocol,
            config,
            workload,
            time_limit: document.run.time_limit.at(BitRate::mbps(10)),
            linger: document.run.linger.at(BitRate::mbps(10)),
        })
    }

    fn protocol(&self, section: &Table) -> Result<(&'static ProtocolEntry, Config), ScenarioError> {
        let bad = |key: &str, what: String| ScenarioError::at(&self.origin, &self.text, key, what);
        let name = section.get("name").and_then(Value::as_str);
        let known = || {
            let names: Vec<_> = carillon_proto::REGISTRY.iter().map(|entry| entry.name).collect();
            names.join(", ")
        };
        let Some(name) = name else {
            return Err(bad("protocol", format!("has no `name`; known protocols: {}", known())));
        };
        let Some(entry) = carillon_proto::find(name) else {
            return Err(bad("protocol.name", format!("\"{name}\" is no known protocol; known: {}", known())));
        };
        if !entry.networks.contains(&NetworkKind::Lan) {
            return Err(bad("protocol.name", format!("\"{name}\" does not run on a lan")));
        }
        let mut config = Config::defaults(entry.parameters);
        for (key, value) in section.iter().filter(|(key, _)| *key != "name") {
            config
                .set(entry.parameters, key, &sweep::text_of(value))
                .map_err(|error| bad(&format!("protocol.{key}"), error.to_string()))?;
        }
        Ok((entry, config))
    }

    /// Where it was read from.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.document.name
    }

    /// What it repeats, if it says so.
    pub fn source(&self) -> Option<&str> {
        self.document.source.as_deref()
    }

    /// The axes of its sweep.
    pub fn axes(&self) -> &[Axis] {
        &self.axes
    }

    /// How often each point is run.
    pub fn replications(&self) -> u32 {
        self.document.run.replications
    }

    /// The seed of its random streams.
    pub fn seed(&self) -> u64 {
        self.document.run.seed
    }

    /// The document with everything set, for the manifest.
    pub fn table(&self) -> &Table {
        &self.table
    }
}

/// The largest frame: a jumbo frame of 9000 bytes with header and check sequence.
const MAX_FRAME: u32 = 9018;

/// Nodes are numbered in 32 bits; memory ends long before.
const MAX_RECEIVERS: u32 = 10_000_000;
