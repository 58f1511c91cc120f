//! Trace of a session in a file: events, or datagrams with their addresses.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use carillon_core::{Bytes, Dest, Event, NodeId, Observer as _, Time};
use carillon_lab::trace::{CaptureOptions, TraceFile};
use carillon_net::{Endpoint, GROUP, SELF};

/// A trace file, and the datagrams of this step.
#[derive(Debug)]
pub struct Trace {
    file: TraceFile,
    /// Datagrams of this step. The addresses of their sources are known only at its end.
    datagrams: Vec<(Time, NodeId, Dest, Bytes)>,
    named: BTreeMap<NodeId, SocketAddr>,
}

impl Trace {
    /// Creates the file.
    pub fn create(path: &Path, endpoint: &Endpoint) -> anyhow::Result<Trace> {
        let options = CaptureOptions {
            name: endpoint.interface().name.clone(),
            port: endpoint.group().port(),
            start: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
            nodes: BTreeMap::from([(SELF, endpoint.local_addr())]),
            groups: BTreeMap::from([(GROUP, endpoint.group())]),
        };
        Ok(Trace {
            file: TraceFile::create(path, options)?,
            datagrams: Vec::new(),
            named: BTreeMap::from([(SELF, endpoint.local_addr())]),
        })
    }

    /// Records an event.
    pub fn event(&mut self, time: Time, node: NodeId, event: &Event) {
        self.file.event(time, node, event);
    }

    /// Keeps a datagram until the end of the step.
    pub fn datagram(&mut self, time: Time, from: NodeId, to: &Dest, bytes: &Bytes) {
        self.datagrams.push((time, from, to.clone(), bytes.clone()));
    }

    /// Nodes of this step's datagrams with addresses that the trace does not have yet.
    pub fn unnamed(&self) -> Vec<NodeId> {
        let nodes = self.datagrams.iter().flat_map(|(_, from, to, _)| {
            let to = if let Dest::Node(node) = to { Some(*node) } else { None };
            [Some(*from), to].into_iter().flatten()
        });
        nodes.filter(|node| !self.named.contains_key(node)).collect()
    }

    /// Ends the step: records its datagrams, after the addresses of further nodes.
    pub fn end_step(&mut self, found: Vec<(NodeId, SocketAddr)>) {
        for (node, address) in found {
            self.file.name_node(node, address);
            self.named.insert(node, address);
        }
        for (time, from, to, bytes) in self.datagrams.drain(..) {
            self.file.datagram(time, from, &to, &bytes);
        }
    }

    /// Completes the file.
    pub fn finish(self) -> anyhow::Result<()> {
        Ok(self.file.finish()?)
    }
}
