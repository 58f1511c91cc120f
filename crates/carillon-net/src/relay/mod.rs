//! A router of a protocol in user space: it forwards the multicasts of one group between interfaces as its machine
//! decides.
//!
//! Unicast to other hosts is left to the system. Forwarded datagrams keep source address and port, which takes raw
//! sockets. A datagram must fit each interface without fragmentation. Routers are for IPv4 only; a [`RemoteRelay`] is
//! for both IP versions.

mod endpoint;
mod packet;
mod paths;
mod port;
mod remote;
mod stats;

use std::time::{Duration, Instant};

use bytes::Bytes;
use carillon_core::{
    Dest, Event, Host, Machine, Notice, Observer, Received, Scope, Time, Transmit, Verdict, check_early,
    drain,
};
use nix::poll::PollFlags;

pub use endpoint::{RelayConfig, RelayEndpoint};
pub use remote::{RemoteRelay, RemoteRelayConfig, RemoteRelayStats};
pub use stats::RelayStats;

use crate::DriveError;
use crate::numbers::{GROUP, SELF};
use crate::outbox::Outbox;
use crate::wait::{Deadline, wait};
use endpoint::Arrival;

/// A relay machine on a [`RelayEndpoint`]. Its observer receives events and all arriving datagrams.
#[derive(Debug)]
pub struct RelayDriver<O> {
    endpoint: RelayEndpoint,
    machine: Box<dyn Machine>,
    observer: O,
    start: Instant,
    /// Next `handle_timeout` of the machine, as determined by the last drain.
    timeout: Option<Time>,
    /// Datagrams that wait for their departure time.
    outbox: Outbox,
    buf: Vec<u8>,
}

/// The driver as the host of a drain.
struct Outlet<'a, O> {
    endpoint: &'a mut RelayEndpoint,
    outbox: &'a mut Outbox,
    observer: &'a mut O,
    now: Time,
    /// True if no datagram was received between `handle_timeout(now)` and this drain: rule 4 of the contract.
    timers_fired: bool,
    /// Number of datagrams that the machine may still send in this drain.
    left: u32,
}

impl<O: Observer> RelayDriver<O> {
    /// Creates a driver and starts its clock and the machine. A machine that is no [`Relay`](carillon_core::Relay)
    /// forwards everything.
    pub fn new(endpoint: RelayEndpoint, mut machine: Box<dyn Machine>, observer: O) -> Self {
        machine.start(Time::ZERO);
        let (start, outbox) = (Instant::now(), Outbox::default());
        RelayDriver { endpoint, machine, observer, start, timeout: None, outbox, buf: Vec::new() }
    }

    /// Waits at most `max_wait` for the next event and handles it: fires timers and reads a bounded number of
    /// datagrams.
    pub fn step(&mut self, max_wait: Duration) -> Result<(), DriveError> {
        let now = self.now();
        let due = self.timeout.into_iter().chain(self.outbox.next_departure()).min();
        let sleep = due.map_or(max_wait, |due| due.since(now).min(max_wait));
        let deadline = Deadline { at: Instant::now() + sleep, precise: false };
        wait([(self.endpoint.fd(), PollFlags::POLLIN)], deadline).map_err(DriveError::Wait)?;
        let now = self.now();
        while let Some((dest, bytes)) = self.outbox.due(now) {
            self.endpoint.send(now, &dest, &bytes);
        }
        let is_due = self.machine.poll_timeout().is_some_and(|at| at <= now);
        if is_due {
            self.machine.handle_timeout(now);
        }
        self.drain(now, is_due);
        if cfg!(debug_assertions) {
            check_early(&mut *self.machine, now, &mut self.buf);
        }
        for _ in 0..TURN_DATAGRAMS {
            let Some(arrival) = self.endpoint.receive(now)? else { break };
            // The datagram may have arrived after the turn began.
            self.handle(self.now(), arrival);
        }
        Ok(())
    }

    /// Current time.
    pub fn now(&self) -> Time {
        Time::ZERO + self.start.elapsed()
    }

    /// The endpoint.
    pub fn endpoint(&self) -> &RelayEndpoint {
        &self.endpoint
    }

    /// Mutable access to the endpoint.
    pub fn endpoint_mut(&mut self) -> &mut RelayEndpoint {
        &mut self.endpoint
    }

    /// The observer.
    pub fn observer(&self) -> &O {
        &self.observer
    }

    fn handle(&mut self, now: Time, arrival: Arrival) {
        let Some(source) = self.endpoint.peers.hear(now, arrival.source.into()) else {
            self.endpoint.stats.refused_peers += 1;
            return;
        };
        let scope = Scope(arrival.ttl);
        let destination = match arrival.to_group {
            true => Dest::Group { group: GROUP, scope },
            false => Dest::Node(SELF),
        };
        self.observer.datagram(now, source, &destination, &arrival.bytes);
        let (ingress, bytes) = (arrival.ingress, &arrival.bytes);
        let received = Received { source, destination: &destination, ingress, scope, bytes };
        if arrival.to_group {
            let relay = self.machine.as_relay();
            let verdict = relay.map_or(Verdict::Forward, |relay| relay.handle_transit(now, received));
            self.forward(&arrival, verdict);
        } else {
            self.endpoint.stats.received += 1;
            self.machine.handle_datagram(now, received);
        }
        self.drain(now, false);
    }

    /// Applies the machine's verdict to a multicast.
    fn forward(&mut self, arrival: &Arrival, verdict: Verdict) {
        let Some(ttl) = arrival.ttl.checked_sub(1).filter(|&ttl| ttl > 0) else {
            self.endpoint.stats.expired += 1;
            return;
        };
        let mut ports: Vec<_> = self.endpoint.others(arrival.ingress).collect();
        let all = ports.len();
        let (bytes, is_rewritten): (&Bytes, bool) = match &verdict {
            Verdict::Forward => (&arrival.bytes, false),
            Verdict::ForwardOn(some) => {
                ports.retain(|&port| some.contains(port));
                (&arrival.bytes, false)
            }
            Verdict::ForwardAs(other) => (other, true),
            Verdict::Absorb => {
                self.endpoint.stats.absorbed += 1;
                return;
            }
        };
        let is_narrowed = ports.len() < all;
        let copies = self.endpoint.forward(arrival.source, ttl, bytes, ports.into_iter());
        let stats = &mut self.endpoint.stats;
        stats.forwarded += u64::from(copies > 0);
        stats.rewritten += u64::from(copies > 0 && is_rewritten);
        stats.narrowed += u64::from(copies > 0 && is_narrowed);
        stats.copies += copies;
    }

    fn drain(&mut self, now: Time, timers_fired: bool) {
        let mut outlet = Outlet {
            endpoint: &mut self.endpoint,
            outbox: &mut self.outbox,
            observer: &mut self.observer,
            now,
            timers_fired,
            left: TURN_EMISSIONS,
        };
        self.timeout = drain(&mut *self.machine, now, &mut self.buf, &mut outlet);
    }
}

impl<O: Observer> Host for Outlet<'_, O> {
    fn is_ready(&mut self) -> bool {
        self.left > 0
    }

    fn transmit(&mut self, transmit: Transmit, bytes: &mut Vec<u8>) {
        self.left -= 1;
        match transmit.departure {
            Some(at) if at > self.now => self.outbox.hold(at, transmit.dest, std::mem::take(bytes)),
            _ => self.endpoint.send(self.now, &transmit.dest, bytes),
        }
    }

    fn event(&mut self, event: &Event) {
        self.observer.event(self.now, SELF, event);
    }

    fn notice(&mut self, notice: Notice) {
        self.observer.notice(self.now, SELF, &notice);
    }

    fn timers_fired(&self) -> bool {
        self.timers_fired
    }
}

/// Maximum datagrams sent per drain, so that a machine that emits without end does not block the relay.
const TURN_EMISSIONS: u32 = 65_536;
/// Maximum datagrams received per turn.
const TURN_DATAGRAMS: usize = 256;
