//! Scenario files: what is to be run.
//!
//! A [`ScenarioFile`] is a TOML document with sweeps; at each sweep point it resolves to one
//! [`Scenario`], in which every value is known. A Segovia command file is translated to such a
//! document first ([`crate::command_file`]), so there is one way from here on.

mod document;
mod error;
mod group;
mod helpers;
mod network;
mod regions;
mod resolve;
mod star;
mod sweep;
mod topology;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use carillon_core::{Config, HelperTable, NodeId, ProtocolEntry, Role};
use carillon_sim::HostConfig;
use serde::Serialize;
use toml::{Table, Value};

pub use error::ScenarioError;
pub use network::{DropPlaces, Drops, LinkKind, RoutedNetwork, ScenarioNetwork};
pub use sweep::{Axis, Point};
pub(crate) use sweep::{number_of, text_of};

use document::Document;

/// A scenario file as read, with the settings made on top of it.
#[derive(Clone, Debug)]
pub struct ScenarioFile {
    origin: String,
    /// Where it is: files that it names are looked for there.
    dir: PathBuf,
    /// The text, to point at lines in it; empty if there is none.
    text: String,
    table: Table,
    document: Document,
    axes: Vec<Axis>,
    /// The protocols that it may name.
    protocols: &'static [&'static ProtocolEntry],
}

/// One scenario, every value known.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Its name.
    pub name: String,
    /// The network.
    pub network: ScenarioNetwork,
    /// What its hosts spend and drop, if they do.
    pub hosts: Option<HostConfig>,
    /// Receivers of each message. The group has one node more.
    pub receivers: u32,
    /// Nodes that offer messages: the first ones. More than one among peers only.
    pub senders: u32,
    /// Who turns to which helper; empty without helpers.
    pub helpers: Arc<HelperTable>,
    /// The helper that dies, if one does.
    pub death: Option<Death>,
    /// The protocol.
    pub protocol: &'static ProtocolEntry,
    /// Its settings.
    pub config: Config,
    /// What is sent.
    pub workload: Workload,
    /// Simulated time after which a run is given up.
    pub time_limit: Duration,
    /// Steps of the simulation after which it is.
    pub step_limit: u64,
    /// What there is of a run that is not done by then counts, and one that cannot begin has nothing: otherwise both are errors.
    pub keeps_unfinished: bool,
    /// Among peers, how long they have to deliver everything after the last sender has finished.
    pub linger: Duration,
}

/// The death of a helper.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Death {
    /// The helper, or the router that does not help any more.
    pub node: NodeId,
    /// When.
    pub at: Duration,
    /// When the ends are told, if they are.
    pub told: Option<Duration>,
}

impl Scenario {
    /// Whether the protocol's members are all senders and receivers at once.
    pub fn is_among_peers(&self) -> bool {
        self.protocol.roles.contains(&Role::Peer)
    }

    /// The node that sends; among peers the first one.
    pub fn sender(&self) -> NodeId {
        self.network.graph().map_or(NodeId(0), RoutedNetwork::source)
    }

    /// The members of the group: the receivers, or all peers with the sender first.
    pub fn members(&self) -> Arc<[NodeId]> {
        let first = self.is_among_peers().then(|| self.sender());
        first.into_iter().chain(self.network.receivers(self.receivers)).collect()
    }

    /// The nodes that help and do not deliver.
    pub fn only_helping(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.helpers.helpers().iter().filter(|helper| !helper.delivers).map(|helper| helper.node)
    }

    /// Whether a node helps and does not deliver.
    pub fn only_helps(&self, node: NodeId) -> bool {
        self.helpers.helper(node).is_some_and(|helper| !helper.delivers)
    }

    /// The hosts: the sender, the receivers, and those that only help.
    pub fn stations(&self) -> usize {
        self.receivers as usize + 1 + self.only_helping().count()
    }

    /// Whether a node offers messages: of peers the first ones.
    pub fn is_sending(&self, node: NodeId) -> bool {
        if !self.is_among_peers() || node == self.sender() {
            return node == self.sender();
        }
        let others = self.senders as usize - 1;
        match &self.network {
            ScenarioNetwork::Lan(_) => (node.0 as usize) <= others,
            ScenarioNetwork::Graph(graph) => graph.topology.receivers[..others].contains(&node),
        }
    }

    /// The nodes that offer messages.
    pub fn sending(&self) -> Vec<NodeId> {
        match self.is_among_peers() {
            true => self.members().iter().copied().take(self.senders as usize).collect(),
            false => vec![self.sender()],
        }
    }
}

/// What each sender's application offers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Workload {
    /// Messages.
    pub messages: u64,
    /// Bytes of the frame that carries a message, all headers included.
    pub message_bytes: u32,
    /// What was said is the payload: where headers are longer, the frame is.
    #[serde(skip)]
    pub by_payload: bool,
    /// Bytes of all messages together, if they were given: the last message has what is left of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_bytes: Option<u64>,
    /// Time between two messages; zero is as fast as they are taken.
    pub interval: Duration,
    /// When the first is offered.
    pub start: Duration,
}

impl Workload {
    /// The payload of the last message, if each other one has so many bytes.
    pub fn last_payload(&self, payload: u32) -> usize {
        let each = u64::from(payload);
        let before = each * self.messages.saturating_sub(1);
        let left = self.total_bytes.map_or(each, |total| total.saturating_sub(before).min(each));
        left as usize
    }

    /// Bytes of the payloads of all messages, if each but the last has so many.
    pub fn user_bytes(&self, payload: u32) -> u64 {
        u64::from(payload) * self.messages.saturating_sub(1) + self.last_payload(payload) as u64
    }
}

impl ScenarioFile {
    /// Reads a scenario from TOML text; `origin` is its name in error messages.
    pub fn parse(origin: &str, text: &str) -> Result<Self, ScenarioError> {
        Self::parse_with(origin, text, carillon_proto::REGISTRY)
    }

    /// The same, if it may name these protocols.
    pub fn parse_with(
        origin: &str,
        text: &str,
        protocols: &'static [&'static ProtocolEntry],
    ) -> Result<Self, ScenarioError> {
        let document: Document =
            toml::from_str(text).map_err(|error| ScenarioError::toml(origin, text, &error))?;
        let table: Table = toml::from_str(text).map_err(|error| ScenarioError::toml(origin, text, &error))?;
        Self::build(origin, text, table, document, dir_of(origin), protocols)
    }

    /// A scenario from a document that was made, not read.
    pub fn from_table(origin: &str, table: Table) -> Result<Self, ScenarioError> {
        let document = document::typed(origin, &table)?;
        Self::build(origin, "", table, document, dir_of(origin), carillon_proto::REGISTRY)
    }

    fn build(
        origin: &str,
        text: &str,
        table: Table,
        document: Document,
        dir: PathBuf,
        protocols: &'static [&'static ProtocolEntry],
    ) -> Result<Self, ScenarioError> {
        let axes = sweep::axes(origin, text, &table, protocols)?;
        let (origin, text) = (origin.to_owned(), text.to_owned());
        let file = ScenarioFile { origin, dir, text, table, document, axes, protocols };
        let (points, replications) = (file.points().len(), file.replications());
        if points.saturating_mul(replications as usize) > MAX_RUNS {
            let what = format!(
                "is {replications}: with {points} points that is more than {MAX_RUNS} runs; sweep fewer values, replicate less, or divide the sweep among several files"
            );
            return Err(file.bad("run.replications", what));
        }
        // Every value is looked at now, so that the last point of a sweep cannot fail after hours.
        for point in file.points() {
            file.resolve(&point)?;
        }
        Ok(file)
    }

    /// The same scenario with one key set, as by `--set key=value`. A swept key is no longer swept.
    pub fn with(&self, key: &str, value: &str) -> Result<Self, ScenarioError> {
        self.with_all(&[(key, value)])
    }

    /// The same with several keys set at once.
    pub fn with_all(&self, settings: &[(&str, &str)]) -> Result<Self, ScenarioError> {
        if settings.is_empty() {
            return Ok(self.clone());
        }
        let mut table = self.table.clone();
        let mut origin = String::new();
        for (key, value) in settings {
            let separator = if origin.is_empty() { "" } else { " " };
            origin += &format!("{separator}--set {key}={value}");
            if let Some(Value::Table(sweep)) = table.get_mut("sweep") {
                sweep.remove(*key);
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
        }
        let document = document::typed(&origin, &table)?;
        Self::build(&origin, "", table, document, self.dir.clone(), self.protocols)
            .map(|file| ScenarioFile { origin: self.origin.clone(), ..file })
    }

    /// The sweep points in order: the cross product of the axes, the last one running fastest.
    pub fn points(&self) -> Vec<Point> {
        sweep::points(&self.axes)
    }

    /// The scenario at a sweep point.
    pub fn resolve(&self, point: &Point) -> Result<Scenario, ScenarioError> {
        // Without the sweep, of which each point of a long one would have a copy.
        let sections = self.table.iter().filter(|(name, _)| *name != "sweep");
        let mut table: Table = sections.map(|(name, section)| (name.clone(), section.clone())).collect();
        for (key, value) in &point.0 {
            sweep::set(&mut table, key, value.clone());
        }
        let document = document::typed(&format!("{}{point}", self.origin), &table)?;
        self.scenario(document, &table)
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

    /// The value that a key of a section has where it is not swept, as it would be typed.
    pub fn text(&self, key: &str) -> Option<String> {
        let (section, key) = key.split_once('.')?;
        self.table.get(section)?.get(key).map(text_of)
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

    /// Whether the document of a manifest is this scenario: all the same, but for what is swept here, how
    /// many messages are sent, and how often.
    pub fn repeats(&self, manifest: &serde_json::Value) -> bool {
        let strip = |mut document: serde_json::Value| {
            let swept = self.axes.iter().flat_map(|axis| &axis.keys).map(String::as_str);
            for key in swept.chain(["workload.messages"]) {
                if let Some((section, name)) = key.split_once('.')
                    && let Some(section) = document.get_mut(section).and_then(|table| table.as_object_mut())
                {
                    section.remove(name);
                }
            }
            if let Some(document) = document.as_object_mut() {
                document.remove("sweep");
                document.remove("run");
            }
            document
        };
        serde_json::to_value(&self.table).is_ok_and(|own| strip(own) == strip(manifest.clone()))
    }

    /// The document with everything set, for the manifest.
    pub fn table(&self) -> &Table {
        &self.table
    }
}

/// A document of keys with their sections, and values as they would be typed.
pub fn text_table(keys: &[(&str, &str)]) -> Table {
    let mut table = Table::new();
    keys.iter().for_each(|(key, value)| set(&mut table, key, value));
    table
}

/// Sets a key with its section to a value as it would be typed.
pub fn set(table: &mut Table, key: &str, value: &str) {
    sweep::set(table, key, sweep::value_of(value));
}

/// Each run of a plan has a scenario of its own in memory.
const MAX_RUNS: usize = 100_000;

/// The folder of a file.
fn dir_of(origin: &str) -> PathBuf {
    Path::new(origin).parent().map(Path::to_owned).unwrap_or_default()
}
