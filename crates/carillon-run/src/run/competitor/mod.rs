//! Competing traffic: a second flow between the hosts of a run, which shares their links with the session.
//!
//! The flow starts at the source's node and ends at the receivers' nodes. Each of these nodes then has two machines:
//! one of the session, and one of the flow. Their datagrams go through the same interface, so the first link of the
//! source is a bottleneck of both. The events of the flow stay out of the trace, except a note with the number of its
//! packets that arrived, from which metrics compute its share.

mod flow;

use std::time::Duration;

use carillon_core::{
    Application, AssociationId, BuildContext, Event, HelperTable, Machine, NodeId, Note, Notice,
    ObservedState, Received, Receiver, Relay, Role, Sender, Time, Transmit, Value,
};
use carillon_sim::applications::Source;

use super::error::RunError;
use super::node::build;
use crate::scenario::{Competition, Scenario};

/// Name of the note about arrived packets of the competing flow, and of its field.
pub(crate) const NOTE: &str = "competitor";
pub(crate) const PACKETS: &str = "packets";

/// Adds the machine of the competing flow to that of the session, at the nodes that take part in it. `context` belongs
/// to the session's machine.
pub(super) fn accompany(
    scenario: &Scenario,
    context: &BuildContext,
    node: NodeId,
    own: Box<dyn Machine>,
) -> Result<Box<dyn Machine>, RunError> {
    let Some(competitor) = scenario.competitor else { return Ok(own) };
    let (source, receivers) = (scenario.sender(), scenario.receiving());
    let start = Time::ZERO + competitor.start;
    let first = receivers[0];
    let payload = context.max_payload as usize;
    let (machine, application): (Box<dyn Machine>, Option<Source>) = match competitor.kind {
        Competition::Cubic if node == source => {
            let size = scenario.workload.message_bytes.saturating_sub(scenario.network.overhead()) as usize;
            (Box::new(flow::FlowSender::new(first, size, start)), None)
        }
        Competition::Cubic if node == first => (Box::new(flow::FlowSink::new(source)), None),
        Competition::Session if node == source || receivers.contains(&node) => {
            let context = BuildContext {
                association: AssociationId(2),
                seeds: context.seeds.part("competitor"),
                ..context.clone()
            };
            let messages = || Source::new(u64::MAX, payload, Duration::ZERO).starting(start);
            let source = (node == source).then(messages);
            let role = if source.is_some() { Role::Sender } else { Role::Receiver };
            (build(scenario, role, &context)?, source)
        }
        _ => return Ok(own),
    };
    let counts = node == first;
    Ok(Box::new(Accompanied {
        own,
        other: machine,
        application,
        counts,
        arrived: 0,
        told: Time::ZERO,
        due: 0,
    }))
}

/// Machine of the session, and that of a competing flow.
#[derive(Debug)]
struct Accompanied {
    own: Box<dyn Machine>,
    other: Box<dyn Machine>,
    /// Application of the other machine, if it sends messages.
    application: Option<Source>,
    /// True at the node that reports how many packets arrived.
    counts: bool,
    /// Number of packets that arrived since the last report, and its time.
    arrived: u64,
    told: Time,
    /// Number of packets in the report that is due.
    due: u64,
}

impl Accompanied {
    /// Completes a call of the other machine: its application offers, its deliveries are counted, and its events are
    /// dropped.
    fn settle(&mut self, now: Time) {
        let other = self.other.as_mut();
        if let Some(application) = &mut self.application {
            application.poll(now, other);
            while application.poll_offered().is_some() {}
        }
        if let Some(receiver) = other.as_receiver() {
            while receiver.poll_delivery().is_some() {
                self.arrived += u64::from(self.counts);
            }
        }
        while other.poll_event().is_some() {}
        while other.poll_notice().is_some() {}
        if self.arrived > 0 && now.since(self.told) >= REPORT_INTERVAL {
            (self.due, self.arrived, self.told) = (self.due + self.arrived, 0, now);
        }
    }
}

impl Machine for Accompanied {
    fn start(&mut self, now: Time) {
        self.own.start(now);
        self.other.start(now);
        self.settle(now);
    }

    fn handle_datagram(&mut self, now: Time, datagram: Received<'_>) {
        // A second session gets all datagrams, as its packets name their session.
        if !flow::is_of_flow(datagram.bytes) {
            self.own.handle_datagram(now, datagram);
        }
        self.other.handle_datagram(now, datagram);
        self.settle(now);
    }

    fn handle_timeout(&mut self, now: Time) {
        self.own.handle_timeout(now);
        self.other.handle_timeout(now);
        self.settle(now);
    }

    fn poll_timeout(&self) -> Option<Time> {
        let application = self.application.as_ref().and_then(|application| application.poll_timeout());
        let all = [self.own.poll_timeout(), self.other.poll_timeout(), application];
        all.into_iter().flatten().min()
    }

    fn poll_transmit(&mut self, now: Time, buf: &mut Vec<u8>) -> Option<Transmit> {
        if let Some(transmit) = self.own.poll_transmit(now, buf) {
            return Some(transmit);
        }
        let transmit = self.other.poll_transmit(now, buf)?;
        self.settle(now);
        // Only the session's messages have numbers in the trace.
        Some(Transmit { original: None, ..transmit })
    }

    fn poll_event(&mut self) -> Option<Event> {
        if let Some(event) = self.own.poll_event() {
            return Some(event);
        }
        let packets = std::mem::take(&mut self.due);
        let note = || Note { name: NOTE, fields: vec![(PACKETS, Value::Count(packets))] };
        (packets > 0).then(|| Event::Note(Box::new(note())))
    }

    fn poll_notice(&mut self) -> Option<Notice> {
        self.own.poll_notice()
    }

    fn report_states(&self, now: Time, tell: &mut dyn FnMut(ObservedState)) {
        self.own.report_states(now, tell);
    }

    fn held(&self) -> Option<u64> {
        self.own.held()
    }

    fn update_helpers(&mut self, now: Time, table: &std::sync::Arc<HelperTable>) {
        self.own.update_helpers(now, table);
    }

    fn as_sender(&mut self) -> Option<&mut dyn Sender> {
        self.own.as_sender()
    }

    fn as_receiver(&mut self) -> Option<&mut dyn Receiver> {
        self.own.as_receiver()
    }

    fn as_relay(&mut self) -> Option<&mut dyn Relay> {
        self.own.as_relay()
    }
}

/// Minimum time between two reports, so that a trace stays short.
const REPORT_INTERVAL: Duration = Duration::from_millis(10);
