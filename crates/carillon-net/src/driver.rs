//! Driver of a machine on real sockets and a monotonic clock, with the drain loop of the simulator.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use carillon_core::{
    Application, Dest, DropReason, Event, Machine, NodeId, Observer, PortId, Received, Scope, Time,
    check_early, drain, poll_application,
};
use nix::poll::{PollFd, PollFlags};

use crate::copies::is_frame;
use crate::endpoint::{Copying, Endpoint};
use crate::failures::passes;
use crate::gather::Gather;
use crate::inbox::{Datagram, Inbox, Opener};
use crate::numbers::{BranchId, FIRST, GROUP, SELF};
use crate::port::Port;
use crate::seal::is_sealed;
use crate::wait::{Deadline, is_readable, wait, wait_for};
use crate::{DriveError, Stats};

mod branching;
mod copying;
mod outlet;

use outlet::{Gate, Outlet};

/// A machine on an endpoint, with its application and its observer.
///
/// All work is done in [`step`](Driver::step), in the caller's thread. Time comes from a monotonic clock that starts
/// when the driver is created, or at a given instant.
///
/// The observer receives every event with node [`SELF`], and [`Observer::datagram`] for every datagram in both
/// directions. A sent datagram comes from [`SELF`] once the system has accepted it; a received one comes from its
/// peer, after the fault injector. With a key the observer sees the contents without seals.
///
/// The driver reports its own errors as notes: `send_error` and `unroutable`. Counters are in [`Stats`].
pub struct Driver<M: Machine + ?Sized, A, O> {
    endpoint: Endpoint,
    start: Instant,
    /// Next `handle_timeout` of the machine, as determined by the last drain.
    timeout: Option<Time>,
    /// State may have changed since the last turn: do not wait.
    fresh: bool,
    gather: Option<Gather>,
    /// Time, address and number of the last received datagram. Datagrams often arrive in runs from one source.
    heard: Option<(Time, SocketAddr, NodeId)>,
    /// Sockets of further interfaces that can be read.
    further: Vec<(BranchId, Inlet)>,
    gate: Gate,
    buf: Vec<u8>,
    application: A,
    observer: O,
    machine: Box<M>,
}

/// Reason why datagrams cannot leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backpressure {
    /// The system accepts no more at the moment: the interface queue is full.
    Socket,
    /// The configured maximum rate.
    Rate,
}

/// Sockets that can be read, by [`Inlet`].
struct Ready([bool; 4]);

impl Ready {
    fn has(&self, inlet: Inlet) -> bool {
        self.0[inlet as usize]
    }
}

/// Socket by which a datagram came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Inlet {
    Unicast,
    Group,
    /// Unicast copies of multicasts.
    Copies,
    Raw,
}

impl<M, A, O> Driver<M, A, O>
where
    M: Machine + ?Sized,
    A: Application<M>,
    O: Observer,
{
    /// Creates a driver and starts its clock and the machine. The clock continues if the endpoint had a driver
    /// before.
    pub fn new(mut endpoint: Endpoint, machine: Box<M>, application: A, observer: O) -> Self {
        let start = *endpoint.clock.get_or_insert_with(Instant::now);
        Driver::with_clock(start, endpoint, machine, application, observer)
    }

    /// Creates a driver like [`new`](Driver::new), on a clock that was zero at this instant. Drivers with a common
    /// clock order their observations: a datagram is received after it was sent.
    pub fn with_clock(
        start: Instant,
        endpoint: Endpoint,
        mut machine: Box<M>,
        application: A,
        observer: O,
    ) -> Self {
        machine.start(Time::ZERO + start.elapsed());
        Driver {
            endpoint,
            start,
            timeout: None,
            fresh: true,
            gather: None,
            heard: None,
            further: Vec::new(),
            gate: Gate::default(),
            buf: Vec::new(),
            application,
            observer,
            machine,
        }
    }

    /// Delays reading of sparse multicast by up to two milliseconds, similar to interrupt coalescing of network
    /// cards, to save processor time.
    #[must_use]
    pub fn gathering(mut self) -> Self {
        self.gather = Some(Gather::default());
        self
    }

    /// Performs one turn of *mutate, drain, wait*: waits at most `max_wait` for the next event and handles it.
    ///
    /// A turn fires due timers and reads at most one batch of datagrams per socket. It polls the application a
    /// bounded number of times and sends a bounded number of bytes; if work is left, the next turn starts at once. A
    /// flood of datagrams therefore stops neither timers nor the application, and a busy sender still receives.
    ///
    /// The first turn does not wait. Nor does a turn after a mutable borrow of machine or application, or after a
    /// [`Waker`](crate::Waker) was called.
    pub fn step(&mut self, max_wait: Duration) -> Result<(), DriveError> {
        let ready = self.wait(max_wait)?;
        self.gather(ready.has(Inlet::Group));
        self.fresh = false;
        // A new turn: reset the budget and retry sockets that were full.
        self.gate.budget = TURN_BYTES;
        self.gate.blocked = false;
        self.gate.stalled = false;

        let now = self.now();
        self.endpoint.check_interfaces(now);
        self.gate.retry = self.gate.retry.filter(|&at| at > now);
        self.outlet(now).flush();
        // Queued runs precede delayed datagrams, which became due later.
        self.outlet(now).depart();
        self.outlet(now).subscribe();
        // Timers fire before reading: a flood must not delay them.
        if self.machine.poll_timeout().is_some_and(|at| at <= now) {
            self.machine.handle_timeout(now);
            self.drain_after(now, true);
        } else {
            self.drain(now);
            if cfg!(debug_assertions) && !self.gate.stalled {
                check_early(&mut *self.machine, now, &mut self.buf);
            }
        }
        // One batch per socket, so that no socket starves another or the application.
        let received = self.endpoint.stats.datagrams_received;
        for inlet in [Inlet::Group, Inlet::Copies, Inlet::Unicast] {
            if ready.has(inlet) {
                self.receive(inlet)?;
            }
        }
        if ready.has(Inlet::Raw) {
            self.receive_raw()?;
        }
        if !self.further.is_empty() {
            let ready = std::mem::take(&mut self.further);
            self.receive_further(&ready)?;
        }
        if let Some(gather) = &mut self.gather {
            gather.read(self.endpoint.stats.datagrams_received - received);
        }
        let now = self.now();
        // The application acts on everything received in this turn; then the batch leaves.
        self.serve_application(now);
        self.outlet(now).flush();
        self.gate.failure.take().map_or(Ok(()), Err)
    }

    /// Mutable access to the machine; its output is taken at the next step.
    pub fn machine_mut(&mut self) -> &mut M {
        self.fresh = true;
        &mut self.machine
    }

    /// Mutable access to the application, which is polled at the next step.
    pub fn application_mut(&mut self) -> &mut A {
        self.fresh = true;
        &mut self.application
    }

    /// Mutable access to the observer.
    pub fn observer_mut(&mut self) -> &mut O {
        &mut self.observer
    }

    /// Mutable access to the endpoint.
    pub fn endpoint_mut(&mut self) -> &mut Endpoint {
        &mut self.endpoint
    }

    /// Current time.
    pub fn now(&self) -> Time {
        Time::ZERO + self.start.elapsed()
    }

    /// The machine.
    pub fn machine(&self) -> &M {
        &self.machine
    }

    /// The application.
    pub fn application(&self) -> &A {
        &self.application
    }

    /// The observer.
    pub fn observer(&self) -> &O {
        &self.observer
    }

    /// The endpoint.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Counters of the endpoint.
    pub fn stats(&self) -> &Stats {
        self.endpoint.stats()
    }

    /// Reason why datagrams could not leave during the last step, apart from the machine itself.
    pub fn backpressure(&self) -> Option<Backpressure> {
        match &self.gate {
            Gate { blocked: true, .. } | Gate { retry: Some(_), .. } => Some(Backpressure::Socket),
            Gate { stalled: true, .. } => self.endpoint.pace.ready_at(self.now()).map(|_| Backpressure::Rate),
            _ => None,
        }
    }

    /// Returns true if the machine has finished sending. Unlike [`machine_mut`](Driver::machine_mut) it does not make
    /// the next step start at once.
    pub fn is_finished(&mut self) -> bool {
        self.machine.as_sender().is_some_and(|sender| sender.is_finished())
    }

    /// Returns the parts. Datagrams that wait for their departure time or a busy socket stay with the endpoint.
    pub fn into_parts(self) -> (Endpoint, Box<M>, A, O) {
        (self.endpoint, self.machine, self.application, self.observer)
    }

    fn outlet(&mut self, now: Time) -> Outlet<'_, O> {
        let Self { endpoint, observer, gate, .. } = self;
        Outlet { endpoint, observer, gate, now, timers_fired: false }
    }

    fn drain(&mut self, now: Time) {
        self.drain_after(now, false);
    }

    fn drain_after(&mut self, now: Time, timers_fired: bool) {
        let Self { endpoint, observer, gate, .. } = self;
        let mut outlet = Outlet { endpoint, observer, gate, now, timers_fired };
        self.timeout = drain(&mut *self.machine, now, &mut self.buf, &mut outlet);
    }

    /// Reads one batch from a socket and passes it to the machine, with a drain after each datagram as the contract
    /// requires. Datagrams sent meanwhile are still batched.
    fn receive(&mut self, inlet: Inlet) -> Result<(), DriveError> {
        let Endpoint { unicast, multicast, copying, inbox, stats, .. } = &mut self.endpoint;
        let subscription = &mut copying.subscription;
        let port = match inlet {
            Inlet::Group => multicast.as_ref(),
            Inlet::Copies => subscription.as_ref().map(|subscription| &subscription.port),
            Inlet::Unicast | Inlet::Raw => Some(&*unicast),
        };
        let Some(port) = port else { return Ok(()) };
        if !read(port, inlet != Inlet::Unicast, inbox, stats)? {
            return Ok(());
        }
        // The batch may contain datagrams that arrived while this process did not run: their time is that of reading.
        let now = self.now();
        while let Some(datagram) = self.take(now) {
            self.accept(now, FIRST, inlet, datagram);
        }
        let mut outlet = self.outlet(now);
        outlet.greet();
        outlet.answer();
        outlet.flush();
        Ok(())
    }

    /// Passes a datagram on, unless it is an own one or the multicast of a source that is not wanted.
    #[inline]
    fn accept(&mut self, now: Time, by: BranchId, inlet: Inlet, datagram: Datagram) {
        if inlet == Inlet::Group && !self.endpoint.has_source(datagram.source.ip()) {
            self.endpoint.stats.other_sources += 1;
            return;
        }
        // Own multicast, received through multicast loopback, or by another interface.
        if datagram.multicast && self.endpoint.is_own(by, datagram.source) {
            self.endpoint.stats.own += 1;
            return;
        }
        self.handle(now, by, inlet, datagram);
    }

    /// Reads packets that arrived directly over IP, and attributes them to the peer at the host's address.
    fn receive_raw(&mut self) -> Result<(), DriveError> {
        let now = self.now();
        for multicast in [true, false] {
            for _ in 0..RAW_BATCH {
                let Endpoint { raw: Some(raw), stats, peers, group, config, .. } = &mut self.endpoint else {
                    return Ok(());
                };
                let (host, bytes) = match raw.receive(multicast) {
                    Ok(received) => received,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) if passes(&error) => {
                        stats.receive_errors += 1;
                        break;
                    }
                    Err(source) => {
                        return Err(DriveError::Receive {
                            address: SocketAddr::new(raw.address.into(), 0),
                            source,
                        });
                    }
                };
                stats.receive_calls += 1;
                let is_wanted = config.sources.is_empty() || config.sources.contains(&host.into());
                if multicast && !is_wanted {
                    stats.other_sources += 1;
                    continue;
                }
                // Own multicast, received through multicast loopback.
                if host == raw.address {
                    stats.own += 1;
                    continue;
                }
                let Some(source) = peers.address_at(SocketAddr::new(host.into(), group.port())) else {
                    stats.refused_peers += 1;
                    continue;
                };
                let len = bytes.len();
                self.handle(
                    now,
                    FIRST,
                    Inlet::Raw,
                    Datagram { source, multicast, len, content: Ok(Some(bytes)) },
                );
            }
        }
        self.outlet(now).flush();
        Ok(())
    }

    #[inline]
    fn take(&mut self, now: Time) -> Option<Datagram> {
        let Endpoint { inbox, seal, unicast, .. } = &mut self.endpoint;
        inbox.take(seal.as_deref_mut().map(|seal| Opener { seal, now, own: unicast.address }))
    }

    #[inline]
    fn handle(&mut self, now: Time, by: BranchId, inlet: Inlet, datagram: Datagram) {
        let Datagram { source, multicast, len, content } = datagram;
        let endpoint = &mut self.endpoint;
        endpoint.stats.datagrams_received += 1;
        endpoint.stats.bytes_received += len as u64;
        if let Ok(Some(bytes)) = &content
            && is_frame(bytes)
            && endpoint.take_frame(now, by, inlet, source, bytes)
        {
            return;
        }
        if !endpoint.admits(now, inlet, source) {
            endpoint.stats.refused_peers += 1;
            return;
        }
        if endpoint.injector.drops() {
            endpoint.stats.injected_drops += 1;
            self.outlet(now).record(&Event::Dropped { reason: DropReason::Injected });
            return;
        }
        let bytes = match content {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return,
            // Most datagrams come on both paths while the sender finds out that multicast arrives.
            Err(DropReason::Replayed) if endpoint.copying.subscription.is_some() => return,
            Err(reason) => {
                endpoint.stats.seal.refuse(reason, source);
                return self.outlet(now).record(&Event::Dropped { reason });
            }
        };
        if endpoint.seal.is_none() && is_sealed(&bytes) {
            endpoint.stats.seal.sealed += 1;
        }
        // Datagrams from port 0 cannot be answered.
        let address = source;
        let Some(source) = Some(source).filter(|s| s.port() != 0).and_then(|s| self.hear(now, s)) else {
            self.endpoint.stats.refused_peers += 1;
            return;
        };
        if !self.endpoint.branches.is_empty()
            && let Err(other) = self.endpoint.peers.admit(now, source, by, multicast)
        {
            self.endpoint.stats.duplicates += 1;
            self.endpoint.note_same_network(by, other);
            return;
        }
        if self.endpoint.copying.relay.is_some() {
            self.endpoint.tell_relay(now, address);
        }
        let destination = if multicast { &TO_GROUP } else { &TO_SELF };
        self.observer.datagram(now, source, destination, &bytes);
        let received =
            Received { source, destination, ingress: PortId(0), scope: Scope::GLOBAL, bytes: &bytes };
        self.machine.handle_datagram(now, received);
        self.drain(now);
    }

    /// Returns the number of a datagram's source, unless the source is new and the table is full.
    #[inline]
    fn hear(&mut self, now: Time, address: SocketAddr) -> Option<NodeId> {
        match self.heard {
            Some((then, last, node)) if (then, last) == (now, address) => Some(node),
            _ => {
                let node = self.endpoint.peers.hear(now, address)?;
                self.heard = Some((now, address, node));
                Some(node)
            }
        }
    }

    fn serve_application(&mut self, now: Time) {
        for _ in 0..TURN_POLLS {
            let Driver { application, machine, observer, .. } = self;
            let record = |event| observer.event(now, SELF, &event);
            if !poll_application(application, now, &mut **machine, record) {
                return;
            }
            self.drain(now);
        }
        self.fresh = true;
    }

    /// Delays reading if the host wakes up often for few datagrams and has nothing else to do. Only multicast is
    /// delayed, because the endpoint may be waiting for a unicast datagram.
    fn gather(&mut self, multicast: bool) {
        if !multicast || self.fresh || self.gate.stalled || self.gate.blocked {
            return;
        }
        let now = self.now();
        let timer = self.timeout.is_some_and(|at| at <= now);
        let Some(gather) = &mut self.gather else { return };
        if let Some(wait) = gather.wake(now).filter(|_| !timer) {
            std::thread::sleep(wait);
        }
    }

    /// Waits for the next event; returns the readable sockets.
    fn wait(&mut self, max_wait: Duration) -> Result<Ready, DriveError> {
        let now = self.now();
        let Gate { blocked, retry, stalled, .. } = self.gate;
        let outbox = &self.endpoint.outbox;
        let departure = outbox.next_departure().filter(|_| !(blocked || stalled || retry.is_some()));
        let exact = [self.timeout, self.application.poll_timeout(), departure].into_iter().flatten().min();
        let coarse = if self.fresh || self.endpoint.wakeups.is_woken() {
            Some(now)
        } else if blocked || retry.is_some() {
            retry
        } else if stalled && self.endpoint.further_are_full() {
            self.endpoint.further_at(now)
        } else if stalled {
            // The token bucket compensates for a late wake-up; the other cause is the turn's budget.
            Some(self.endpoint.pace.ready_at(now).unwrap_or(now))
        } else {
            None
        };
        let ask = self.endpoint.copying.subscription.as_ref().map(|subscription| subscription.next(now));
        let is_open = !(blocked || retry.is_some());
        let copies = self.endpoint.copying.server.as_ref().filter(|_| is_open);
        let copy = copies.and_then(|copies| copies.copy_at(now));
        let further = self.endpoint.further_at(now);
        let check = self.endpoint.branches.check_at();
        let coarse = [coarse, ask, copy, further, check].into_iter().flatten().min();
        let coarse = coarse.map_or(max_wait, |at| at.since(now).min(max_wait)).min(MAX_WAIT);
        let exact = exact.map_or(coarse, |at| at.since(now));
        let begun = Instant::now();
        let at = begun + exact.min(coarse);
        let deadline = Deadline { at, precise: exact < coarse };
        let interest =
            if self.gate.blocked { PollFlags::POLLIN | PollFlags::POLLOUT } else { PollFlags::POLLIN };
        let Endpoint { unicast, multicast, raw, copying: Copying { subscription, .. }, wakeups, .. } =
            &self.endpoint;
        let (unicast, rung) = ((unicast.fd(), interest), (wakeups.fd(), PollFlags::POLLIN));
        let reading = |fd| (fd, PollFlags::POLLIN);
        if !self.endpoint.branches.is_empty() {
            let further = self.endpoint.further_fds();
            let first = [Some(unicast), Some(rung), multicast.as_ref().map(|group| reading(group.fd()))];
            let first = first.map(|fd| fd.unwrap_or(rung));
            let all = first.into_iter().chain(further.iter().map(|&(.., fd)| reading(fd)));
            let mut fds: Vec<PollFd<'_>> = all.map(|(fd, interest)| PollFd::new(fd, interest)).collect();
            wait_for(&mut fds, deadline).map_err(DriveError::Wait)?;
            let ready: Vec<bool> = fds.iter().map(is_readable).collect();
            let readable = further.iter().zip(&ready[first.len()..]).filter(|(_, is_ready)| **is_ready);
            self.further = readable.map(|(&(id, inlet, _), _)| (id, inlet)).collect();
            let [unicast, rung, group] = [ready[0], ready[1], ready[2] && multicast.is_some()];
            self.endpoint.wakeups.answer(rung);
            self.endpoint.stats.waited += begun.elapsed();
            return Ok(Ready([unicast, group, false, false]));
        }
        let ready = match (multicast, raw, subscription) {
            (Some(group), None, None) => wait([unicast, rung, reading(group.fd())], deadline)
                .map(|[unicast, rung, multicast]| [unicast, rung, multicast, false, false, false]),
            (None, None, None) => wait([unicast, rung], deadline)
                .map(|[unicast, rung]| [unicast, rung, false, false, false, false]),
            (group, raw, subscription) => {
                // A missing socket is replaced by the one of wake-ups.
                let group = group.as_ref().map_or(rung, |group| reading(group.fd()));
                let copies =
                    subscription.as_ref().map_or(rung, |subscription| reading(subscription.port.fd()));
                let (raw, raw_group) = match raw.as_ref().map(|raw| raw.fds()) {
                    Some((to_host, to_group)) => (reading(to_host), reading(to_group.unwrap_or(to_host))),
                    None => (rung, rung),
                };
                wait([unicast, rung, group, copies, raw, raw_group], deadline)
            }
        };
        let [unicast, rung, multicast, copies, raw, raw_group] = ready.map_err(DriveError::Wait)?;
        self.endpoint.wakeups.answer(rung);
        self.endpoint.stats.waited += begun.elapsed();
        Ok(Ready([unicast, multicast, copies, raw || raw_group]))
    }
}

const TO_SELF: Dest = Dest::Node(SELF);
const TO_GROUP: Dest = Dest::group(GROUP);

/// Reads one batch from a socket. Returns false if there is none.
fn read(port: &Port, is_group: bool, inbox: &mut Inbox, stats: &mut Stats) -> Result<bool, DriveError> {
    match inbox.fill(&port.socket, &port.state, is_group) {
        Ok(()) => {
            stats.receive_calls += 1;
            Ok(true)
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
        Err(error) if passes(&error) => {
            stats.receive_errors += 1;
            Ok(false)
        }
        Err(source) => Err(DriveError::Receive { address: port.address, source }),
    }
}

/// Maximum bytes sent per turn: less than a millisecond's worth on loopback.
const TURN_BYTES: usize = 1 << 20;

/// Maximum polls of the application per turn.
const TURN_POLLS: usize = 1024;

/// Maximum packets read directly over IP per turn, from each socket.
const RAW_BATCH: usize = 64;

/// Maximum wait: longer than any caller's, and safe to add to any clock.
const MAX_WAIT: Duration = Duration::from_secs(86_400);
