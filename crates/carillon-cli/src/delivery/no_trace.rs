//! Absence of traces: their formats belong to the laboratory, which this build does not have.

use std::net::SocketAddr;
use std::path::Path;

use carillon_core::{Bytes, Dest, Event, NodeId, Time};
use carillon_net::Endpoint;

/// A trace that never exists.
#[derive(Debug)]
pub enum Trace {}

impl Trace {
    /// Fails. The command line of this build has no option that leads here.
    pub fn create(path: &Path, _: &Endpoint) -> anyhow::Result<Trace> {
        anyhow::bail!("{}: this build writes no traces", path.display())
    }

    /// Records an event.
    pub fn event(&mut self, _: Time, _: NodeId, _: &Event) {
        match *self {}
    }

    /// Keeps a datagram until the end of the step.
    pub fn datagram(&mut self, _: Time, _: NodeId, _: &Dest, _: &Bytes) {
        match *self {}
    }

    /// Nodes of this step's datagrams with addresses that the trace does not have yet.
    pub fn unnamed(&self) -> Vec<NodeId> {
        match *self {}
    }

    /// Ends the step.
    pub fn end_step(&mut self, _: Vec<(NodeId, SocketAddr)>) {
        match *self {}
    }

    /// Completes the file.
    pub fn finish(self) -> anyhow::Result<()> {
        match self {}
    }
}
