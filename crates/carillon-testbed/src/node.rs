//! A node: its sockets in its namespace, its machine and application, and what it observes.

use std::sync::atomic::Ordering;
use std::time::Duration;

use carillon_core::{Application, Event, HeaderBytes, NodeId, Notice, Observer, Time, TraceEvent};
use carillon_lab::plan::Run;
use carillon_lab::run::{Numbering, build_node, payload_bytes};
use carillon_net::{Driver, Endpoint, EndpointConfig, swapped};
use carillon_sim::applications::Sink;

use crate::Error;
use crate::namespaces::{INTERFACE, Namespaces};
use crate::shared::Shared;

/// The group and port of every run: namespaces share nothing.
const GROUP: ([u8; 4], u16) = ([239, 255, 77, 77], 7777);

/// Another node of the testbed has failed, and its error is reported.
const OTHER_FAILED: Error = Error::Internal("another node failed");

/// Runs the node until the run is over.
pub(crate) fn live(node: NodeId, run: &Run, namespaces: &Namespaces, shared: &Shared) -> Result<(), Error> {
    let opened = shared.end(open(node, run, namespaces, shared));
    shared.ready.wait();
    let prepared = shared.end(opened.and_then(|endpoint| prepare(node, run, endpoint, shared)));
    shared.ready.wait();
    let (endpoint, machine, application) = prepared?;
    if shared.broken.load(Ordering::Relaxed) {
        return Ok(());
    }
    let tape = NodeRecorder { node, run, shared, events: Vec::new() };
    let mut driver = Driver::with_clock(shared.start(), endpoint, machine, application, tape);
    let mut is_sending = run.scenario.is_sending(node);
    let mut edition = run.scenario.helpers.edition();
    while !shared.is_over() {
        driver.step(Duration::from_millis(5))?;
        if let Some(table) = shared.helpers_since(edition) {
            edition = table.edition();
            let (now, seen) = (driver.now(), table.renumbered(|other| swapped(node, other)));
            driver.machine_mut().update_helpers(now, &seen.into());
        }
        // Looking is free; borrowing to look would make the driver turn without a pause.
        if is_sending && driver.is_finished() {
            is_sending = false;
            shared.finished.fetch_add(1, Ordering::Relaxed);
        }
    }
    let (_, _, _, tape) = driver.into_parts();
    shared.give(tape.events);
    Ok(())
}

fn open(node: NodeId, run: &Run, namespaces: &Namespaces, shared: &Shared) -> Result<Endpoint, Error> {
    namespaces.enter(node.index())?;
    let mut endpoint = Endpoint::open(EndpointConfig {
        interface: Some(INTERFACE.to_owned()),
        ttl: 1,
        listen: true,
        drop: shared.drop,
        seeds: run.seeds.node(node),
        ..EndpointConfig::new(GROUP.into())
    })?;
    if let Some(drops) = run.scenario.hosts.and_then(|hosts| hosts.drops).filter(|drops| drops.node == node) {
        endpoint.drop_one_in(drops.of(&run.seeds));
    }
    // Without segmentation offload, so that each datagram is a frame of its own on the medium.
    endpoint.set_segmentation(false);
    let mut addresses = shared.addresses.lock().map_err(|_| OTHER_FAILED)?;
    addresses[node.index()] = Some(endpoint.local_addr());
    Ok(endpoint)
}

type Parts = (Endpoint, Box<dyn carillon_core::Machine>, Box<dyn Application>);

fn prepare(node: NodeId, run: &Run, mut endpoint: Endpoint, shared: &Shared) -> Result<Parts, Error> {
    let addresses = shared.addresses.lock().map_err(|_| OTHER_FAILED)?.clone();
    for peer in (1..addresses.len() as u32).map(|number| swapped(node, NodeId(number))) {
        let address = addresses[peer.index()].ok_or(Error::Internal("another node is not open"))?;
        endpoint.keep_peer(Time::ZERO, address).ok_or(Error::Internal("the table of peers is full"))?;
    }
    let numbering = Numbering::with(&run.scenario, node, |other| swapped(node, other));
    let header = (run.scenario.protocol.packets.header_bytes)(&run.scenario.config);
    let payload = match payload_bytes(&run.scenario)? {
        payload if run.scenario.workload.by_payload => payload,
        payload => repairable(payload, header, endpoint.max_datagram()),
    };
    let (machine, application) =
        build_node(&run.scenario, &run.seeds, payload, node, &numbering, &shared.settled)?;
    // A node that only helps gets an application that discards everything.
    let application = application.unwrap_or_else(|| Box::new(Sink::default()));
    Ok((endpoint, machine, application))
}

/// Largest message size that leaves room for a repair's longer header. If the first transmission just fits its frame,
/// a repair with more fields would not. A message that does not fit its first transmission is left as it is, and
/// refused when sent.
fn repairable(payload: u32, header: HeaderBytes, max_datagram: usize) -> u32 {
    let fits = payload as usize + header.data <= max_datagram;
    let most = max_datagram.saturating_sub(header.max) as u32;
    if fits { payload.min(most) } else { payload }
}

/// Recorder of a node's events, translated to the numbers of the run.
struct NodeRecorder<'a> {
    node: NodeId,
    run: &'a Run,
    shared: &'a Shared,
    events: Vec<TraceEvent>,
}

impl Observer for NodeRecorder<'_> {
    fn event(&mut self, time: Time, _node: NodeId, event: &Event) {
        let mut event = event.clone();
        match &mut event {
            Event::Delivered { source: other, .. }
            | Event::Forwarded { source: other, .. }
            | Event::RepairNeeded { member: other, .. }
            | Event::MemberJoined { member: other }
            | Event::MemberLost { member: other } => *other = swapped(self.node, *other),
            _ => {}
        }
        self.events.push(TraceEvent { time, node: self.node, event });
    }

    fn notice(&mut self, _time: Time, _node: NodeId, notice: &Notice) {
        self.shared.settled.note(&self.run.scenario, self.node, notice);
        if let Notice::MemberLost { member } = notice {
            self.shared.lose(swapped(self.node, *member));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_exchanges_its_number_and_that_of_the_first_node() {
        let numbers =
            |host: u32| (0..4).map(|node| swapped(NodeId(host), NodeId(node)).0).collect::<Vec<_>>();
        assert_eq!(numbers(0), [0, 1, 2, 3]);
        assert_eq!(numbers(2), [2, 1, 0, 3]);
    }
}
