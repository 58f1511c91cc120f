//! Host of one node of a world, while its machine is drained or its application calls.

use carillon_core::{
    Application, Bytes, Dest, Event, Frame, Handling, Host, Machine, NodeId, Notice, Observer, Time,
    Transmit, poll_application,
};

use crate::network::{Arrival, Call, Network};
use crate::stop::{Runaway, StopReason};

/// Cache of the last unicast packets. A protocol without multicast sends equal packets to many nodes; the cache lets
/// them share one buffer.
#[derive(Debug, Default)]
pub(crate) struct CopyCache {
    last: [Bytes; CACHED_COPIES],
    next: usize,
}

/// Number of cached packets. Two kinds may alternate, such as data with and without a poll.
const CACHED_COPIES: usize = 2;

impl CopyCache {
    fn shared(&mut self, bytes: &[u8]) -> Bytes {
        if let Some(same) = self.last.iter().find(|last| last[..] == *bytes) {
            return same.clone();
        }
        let new = Bytes::copy_from_slice(bytes);
        self.last[self.next] = new.clone();
        self.next = (self.next + 1) % CACHED_COPIES;
        new
    }
}

/// Host of one node during a drain.
pub(crate) struct NodeHost<'a, N, O> {
    pub now: Time,
    pub node: NodeId,
    pub network: &'a mut N,
    pub observer: &'a mut O,
    pub copy_cache: &'a mut CopyCache,
    pub timers_fired: bool,
    /// Datagram that has just arrived, if the observer wants to know it.
    pub arrived: Option<&'a Arrival>,
    pub lost_members: &'a mut Vec<NodeId>,
    pub emission_limit: u64,
    /// Number of datagrams sent in this event; `records` counts the events and notices.
    pub datagrams: u64,
    pub records: u64,
    pub halted: &'a mut Option<StopReason>,
}

impl<N, O: Observer> NodeHost<'_, N, O> {
    /// Stops the run if the machine has emitted too much, and checks at intervals whether the observer stops it.
    /// Counts a datagram.
    fn count_datagram(&mut self) {
        self.datagrams += 1;
        if self.datagrams > self.emission_limit {
            self.run_away();
        }
        self.ask_to_stop();
    }

    /// Counts an event or a notice.
    fn count_record(&mut self) {
        self.records += 1;
        self.ask_to_stop();
    }

    /// Checks the number of records and asks the observer whether to stop, at intervals: each costs more than a record.
    fn ask_to_stop(&mut self) {
        if !(self.datagrams + self.records).is_multiple_of(STOP_CHECK_INTERVAL) {
            return;
        }
        if self.records / MAX_RECORDS_PER_DATAGRAM > self.emission_limit.max(STOP_CHECK_INTERVAL) {
            self.run_away();
        } else if self.halted.is_none() && self.observer.stops() {
            *self.halted = Some(StopReason::Stopped);
        }
    }

    #[cold]
    fn run_away(&mut self) {
        let NodeHost { now, node, datagrams, records, .. } = *self;
        *self.halted = Some(StopReason::Runaway(Runaway { node, time: now, datagrams, records }));
    }
}

impl<N: Network, O: Observer> NodeHost<'_, N, O> {
    /// Lets an application make a call. Returns true if it did.
    pub fn call<A: Application + ?Sized>(
        &mut self,
        application: &mut Box<A>,
        machine: &mut (dyn Machine + 'static),
        sends: bool,
    ) -> bool {
        let mut offers = Vec::new();
        let has_called = poll_application(application, self.now, machine, |event| offers.push(event));
        for offer in &offers {
            self.event(offer);
            self.network.on_call(self.now, self.node, Call::Send);
        }
        if has_called && !sends {
            self.network.on_call(self.now, self.node, Call::Read);
        }
        has_called
    }
}

impl<N: Network, O: Observer> Host for NodeHost<'_, N, O> {
    fn is_ready(&mut self) -> bool {
        self.network.is_ready(self.now, self.node)
    }

    fn may_emit(&mut self) -> bool {
        self.halted.is_none()
    }

    fn transmit(&mut self, transmit: Transmit, bytes: &mut Vec<u8>) {
        self.count_datagram();
        let bytes = match transmit.dest {
            Dest::Node(_) => self.copy_cache.shared(bytes),
            _ => Bytes::copy_from_slice(bytes),
        };
        if self.observer.watches_packets() {
            self.observer.handled(self.now, self.node, Handling::Sent);
        }
        self.network.transmit(self.now, self.node, transmit, bytes, self.observer);
    }

    fn event(&mut self, event: &Event) {
        self.count_record();
        if matches!(event, Event::Received { .. }) && !self.observer.watches_receptions() {
            return;
        }
        if let (Some(arrival), Event::Received { .. } | Event::Dropped { .. }) = (self.arrived, event) {
            let link = self.network.link_to(self.node, arrival.ingress);
            let frame = Frame::new(link, &arrival.bytes).original(arrival.original.is_some());
            self.observer.frame_event(self.now, self.node, event, &frame);
        } else {
            self.observer.event(self.now, self.node, event);
        }
    }

    fn notice(&mut self, notice: Notice) {
        self.count_record();
        if let Notice::MemberLost { member } = notice {
            self.lost_members.push(member);
        }
        self.observer.notice(self.now, self.node, &notice);
    }

    fn timers_fired(&self) -> bool {
        self.timers_fired
    }
}

/// Maximum number of events and notices in one event, for each datagram that the machine may send.
const MAX_RECORDS_PER_DATAGRAM: u64 = 16;
/// Number of emissions between two checks whether the observer stops the run.
const STOP_CHECK_INTERVAL: u64 = 1024;
