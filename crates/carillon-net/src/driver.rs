//! Driver of a machine on real sockets and a monotonic clock, with the drain loop of the simulator.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use carillon_core::{
    Application, Dest, DropReason, Event, Host, Machine, NodeId, Note, Notice, Observer, PortId, Received,
    Scope, Time, Transmit, Value, check_early, drain, poll_application,
};
use nix::errno::Errno;
use nix::poll::PollFlags;

use crate::endpoint::{Endpoint, GROUP, Port, SELF};
use crate::gather::Gather;
use crate::inbox::{Datagram, Opener};
use crate::outbox::{Route, Run};
use crate::seal::{Kind, is_sealed};
use crate::wait::{Deadline, wait};
use crate::{DriveError, Stats};

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

/// Gate between the machine and the sockets.
#[derive(Debug, Default)]
struct Gate {
    /// The socket buffer is full.
    blocked: bool,
    /// The system was short of memory; retry at this time.
    retry: Option<Time>,
    /// Remaining bytes of this turn.
    budget: usize,
    /// A drain or a departure stopped at the gate.
    stalled: bool,
    /// Sending failed; the step returns the error.
    failure: Option<DriveError>,
}

/// Sockets that can be read.
struct Ready {
    unicast: bool,
    multicast: bool,
    raw: bool,
}

/// The driver as the host of a drain.
struct Outlet<'a, O> {
    endpoint: &'a mut Endpoint,
    observer: &'a mut O,
    gate: &'a mut Gate,
    now: Time,
    /// True if no datagram was received between `handle_timeout(now)` and this drain: rule 4 of the contract.
    timers_fired: bool,
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
        let Ready { unicast, multicast, raw } = self.wait(max_wait)?;
        self.gather(multicast);
        self.fresh = false;
        // A new turn: reset the budget and retry sockets that were full.
        self.gate.budget = TURN_BYTES;
        self.gate.blocked = false;
        self.gate.stalled = false;

        let now = self.now();
        self.gate.retry = self.gate.retry.filter(|&at| at > now);
        self.outlet(now).flush();
        // Queued runs precede delayed datagrams, which became due later.
        self.outlet(now).depart();
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
        if multicast {
            self.receive(true)?;
        }
        if unicast {
            self.receive(false)?;
        }
        if raw {
            self.receive_raw()?;
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
    fn receive(&mut self, multicast: bool) -> Result<(), DriveError> {
        let Endpoint { unicast, multicast: group, inbox, stats, .. } = &mut self.endpoint;
        let Some(port) = (if multicast { group.as_ref() } else { Some(&*unicast) }) else { return Ok(()) };
        match inbox.fill(&port.socket, &port.state, multicast) {
            Ok(()) => stats.receive_calls += 1,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) if passes(&error) => {
                stats.receive_errors += 1;
                return Ok(());
            }
            Err(source) => return Err(DriveError::Receive { address: port.address, source }),
        }
        // The batch may contain datagrams that arrived while this process did not run: their time is that of reading.
        let now = self.now();
        while let Some(datagram) = self.take(now) {
            // Own multicast, received through multicast loopback.
            if datagram.multicast && datagram.source == self.endpoint.unicast.address {
                self.endpoint.stats.own += 1;
                continue;
            }
            self.handle(now, datagram);
        }
        let mut outlet = self.outlet(now);
        outlet.greet();
        outlet.flush();
        Ok(())
    }

    /// Reads packets that arrived directly over IP, and attributes them to the peer at the host's address.
    fn receive_raw(&mut self) -> Result<(), DriveError> {
        let now = self.now();
        for multicast in [true, false] {
            for _ in 0..RAW_BATCH {
                let Endpoint { raw: Some(raw), stats, peers, group, .. } = &mut self.endpoint else {
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
                // Own multicast, received through multicast loopback.
                if host == raw.address {
                    stats.own += 1;
                    continue;
                }
                let Some(source) = peers.address_at(SocketAddr::new(host.into(), group.port())) else {
                    stats.refused_peers += 1;
                    continue;
                };
                self.handle(now, Datagram { source, multicast, len: bytes.len(), content: Ok(Some(bytes)) });
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
    fn handle(&mut self, now: Time, datagram: Datagram) {
        let Datagram { source, multicast, len, content } = datagram;
        let endpoint = &mut self.endpoint;
        endpoint.stats.datagrams_received += 1;
        endpoint.stats.bytes_received += len as u64;
        if endpoint.injector.drops() {
            endpoint.stats.injected_drops += 1;
            self.outlet(now).record(&Event::Dropped { reason: DropReason::Injected });
            return;
        }
        let bytes = match content {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return,
            Err(reason) => {
                endpoint.stats.refuse(reason, source);
                return self.outlet(now).record(&Event::Dropped { reason });
            }
        };
        if endpoint.seal.is_none() && is_sealed(&bytes) {
            endpoint.stats.sealed += 1;
        }
        // Datagrams from port 0 cannot be answered.
        let Some(source) = Some(source).filter(|s| s.port() != 0).and_then(|s| self.hear(now, s)) else {
            self.endpoint.stats.refused_peers += 1;
            return;
        };
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
        } else if stalled {
            // The token bucket compensates for a late wake-up; the other cause is the turn's budget.
            Some(self.endpoint.pace.ready_at(now).unwrap_or(now))
        } else {
            None
        };
        let coarse = coarse.map_or(max_wait, |at| at.since(now).min(max_wait)).min(MAX_WAIT);
        let exact = exact.map_or(coarse, |at| at.since(now));
        let begun = Instant::now();
        let at = begun + exact.min(coarse);
        let deadline = Deadline { at, precise: exact < coarse };
        let interest =
            if self.gate.blocked { PollFlags::POLLIN | PollFlags::POLLOUT } else { PollFlags::POLLIN };
        let Endpoint { unicast, multicast, raw, wakeups, .. } = &self.endpoint;
        let (unicast, rung) = ((unicast.fd(), interest), (wakeups.fd(), PollFlags::POLLIN));
        let ready = match (multicast, raw) {
            (group, Some(raw)) => {
                let (to_host, to_group) = raw.fds();
                let [raw, raw_group] =
                    [to_host, to_group.unwrap_or(to_host)].map(|fd| (fd, PollFlags::POLLIN));
                let group = group.as_ref().map_or(rung, |group| (group.fd(), PollFlags::POLLIN));
                wait([unicast, rung, group, raw, raw_group], deadline)
            }
            (Some(group), None) => wait([unicast, rung, (group.fd(), PollFlags::POLLIN)], deadline)
                .map(|[unicast, rung, multicast]| [unicast, rung, multicast, false, false]),
            (None, None) => {
                wait([unicast, rung], deadline).map(|[unicast, rung]| [unicast, rung, false, false, false])
            }
        };
        let [unicast, rung, multicast, raw, raw_group] = ready.map_err(DriveError::Wait)?;
        self.endpoint.wakeups.answer(rung);
        self.endpoint.stats.waited += begun.elapsed();
        Ok(Ready { unicast, multicast, raw: raw || raw_group })
    }
}

impl<O: Observer> Host for Outlet<'_, O> {
    fn is_ready(&mut self) -> bool {
        let open = self.gate.failure.is_none()
            && !self.gate.blocked
            && self.gate.retry.is_none()
            && self.gate.budget > 0
            && self.endpoint.pace.ready_at(self.now).is_none();
        self.gate.stalled |= !open;
        open
    }

    fn transmit(&mut self, transmit: Transmit, bytes: &mut Vec<u8>) {
        match transmit.departure {
            Some(at) if at > self.now => {
                // Delayed datagrams count too: otherwise a machine that emits without end would keep the turn from
                // ending.
                self.gate.budget = self.gate.budget.saturating_sub(bytes.len().max(64));
                self.endpoint.outbox.hold(at, transmit.dest, std::mem::take(bytes));
            }
            _ => self.send(transmit.dest, transmit.stranger, bytes),
        }
    }

    fn event(&mut self, event: &Event) {
        self.record(event);
    }

    fn notice(&mut self, notice: Notice) {
        self.observer.notice(self.now, SELF, &notice);
    }

    fn timers_fired(&self) -> bool {
        self.timers_fired
    }
}

impl<O: Observer> Outlet<'_, O> {
    /// Adds a datagram to the batch and sends full runs. The address of a `stranger` does not become a kept peer.
    fn send(&mut self, to: Dest, stranger: bool, bytes: &mut Vec<u8>) {
        let (address, hops) = match &to {
            Dest::Group { scope, .. } => (Some(self.endpoint.group), Some(self.endpoint.ttl.min(scope.0))),
            Dest::Node(node) if stranger => (self.endpoint.peers.address(*node), None),
            Dest::Node(node) => (self.endpoint.peers.reach(self.now, *node), None),
            Dest::Ports { .. } => (None, None),
        };
        let Some(address) = address else {
            self.endpoint.stats.unroutable += 1;
            self.note("unroutable", [("to", format!("{to:?}"))]);
            return;
        };
        let raw = self.endpoint.raw.as_ref().is_some_and(|raw| raw.carries(bytes));
        let spared = if raw { UDP_HEADER } else { 0 };
        let max = self.endpoint.max_datagram() + spared;
        if bytes.len() > max {
            let interface = self.endpoint.interface().to_string();
            let failure = DriveError::TooLarge { len: bytes.len(), max, interface };
            self.gate.failure.get_or_insert(failure);
            return;
        }
        let len = bytes.len() + self.endpoint.seal_bytes();
        self.gate.budget = self.gate.budget.saturating_sub(len.max(64));
        self.endpoint.pace.spend(self.now, (len + self.endpoint.header_bytes() - spared) as u64);
        let segments = if raw { 1 } else { self.endpoint.max_segments() };
        let way = Route { address, hops, raw };
        let Endpoint { outbox, seal, .. } = &mut *self.endpoint;
        match seal {
            None => outbox.push(to, way, bytes, segments),
            Some(seal) => {
                let content = Bytes::from(std::mem::take(bytes));
                self.observer.datagram(self.now, SELF, &to, &content);
                let kind = if hops.is_some() { Kind::Group } else { Kind::One };
                outbox.push_with(to, way, len, segments, |run| {
                    seal.seal(kind, address, &content, run);
                });
                if content.is_unique() {
                    *bytes = content.into();
                }
            }
        }
        self.flush_to(1);
    }

    /// Sends queued greetings, by which endpoints prove their presence. A greeting lost at a busy socket is repeated
    /// later.
    fn greet(&mut self) {
        while let Some((to, mut bytes)) =
            self.endpoint.seal.as_deref_mut().and_then(crate::seal::Seal::next_greeting)
        {
            if self.gate.blocked || self.gate.retry.is_some() {
                continue;
            }
            self.endpoint.stats.greetings += 1;
            self.endpoint.pace.spend(self.now, (bytes.len() + self.endpoint.header_bytes()) as u64);
            let segments = self.endpoint.max_segments();
            let way = Route { address: to, hops: None, raw: false };
            self.endpoint.outbox.push(Dest::Node(SELF), way, &mut bytes, segments);
            self.flush_to(1);
        }
    }

    /// Sends delayed datagrams that are due.
    fn depart(&mut self) {
        while self.endpoint.outbox.next_departure().is_some_and(|at| at <= self.now) && self.is_ready() {
            if let Some((to, mut bytes)) = self.endpoint.outbox.due(self.now) {
                self.send(to, false, &mut bytes);
            }
        }
    }

    /// Sends every run.
    fn flush(&mut self) {
        self.flush_to(0);
    }

    /// Sends runs until `leave` runs are left or the socket is full. A run that was not accepted stays first.
    fn flush_to(&mut self, leave: usize) {
        while self.endpoint.outbox.runs() > leave
            && !self.gate.blocked
            && self.gate.retry.is_none()
            && let Some(run) = self.endpoint.outbox.pop()
        {
            match self.endpoint.transmit(&run) {
                Ok(()) => self.sent(run),
                Err(error) => self.not_sent(run, error),
            }
        }
    }

    fn sent(&mut self, mut run: Run) {
        let stats = &mut self.endpoint.stats;
        stats.datagrams_sent += run.count as u64;
        stats.bytes_sent += run.contents.len() as u64;
        self.endpoint.failures.clear(run.way.address);
        let whole = Bytes::from(std::mem::take(&mut run.contents));
        // With a seal, the observer received the contents before sealing.
        if self.endpoint.seal.is_none() {
            for datagram in run.datagrams(&whole) {
                self.observer.datagram(self.now, SELF, &run.to, &datagram);
            }
        }
        if whole.is_unique() {
            self.endpoint.outbox.recycle(whole.into());
        }
    }

    fn not_sent(&mut self, run: Run, error: io::Error) {
        let errno = error.raw_os_error().map(Errno::from_raw);
        match errno {
            // EWOULDBLOCK has the same value on these systems.
            Some(Errno::EAGAIN) if !run.way.raw => {
                self.endpoint.stats.busy += 1;
                self.gate.blocked = true;
                self.endpoint.outbox.push_front(run);
            }
            // The queue of the interface is full: poll does not report when it has room, nor for raw sockets.
            Some(Errno::ENOBUFS | Errno::ENOMEM | Errno::EAGAIN) => {
                self.endpoint.stats.busy += 1;
                self.gate.retry = Some(self.now + FULL_QUEUE_RETRY);
                self.endpoint.outbox.push_front(run);
            }
            // The interface cannot segment: datagrams are sent singly, from now on.
            Some(Errno::EIO | Errno::EINVAL | Errno::EMSGSIZE) if run.count > 1 => {
                for single in run.split().into_iter().rev() {
                    self.endpoint.outbox.push_front(single);
                }
            }
            // The interface carried it when it was opened, and has become smaller.
            Some(Errno::EMSGSIZE) if run.way.hops.is_some() && !self.endpoint.tolerates_shrinking => {
                let interface = self.endpoint.interface().to_string();
                let len = run.contents.len().saturating_sub(self.endpoint.seal_bytes());
                let max = self.endpoint.max_datagram_now().filter(|&max| max < len);
                let max = max.unwrap_or(len.saturating_sub(1));
                self.gate.failure.get_or_insert(DriveError::TooLarge { len, max, interface });
            }
            _ if passes(&error) => {
                self.endpoint.stats.send_errors += run.count as u64;
                self.endpoint.failures.note(run.way.address, &error, run.count as u64);
                self.note("send_error", [("to", run.way.address.to_string()), ("error", error.to_string())]);
            }
            _ => {
                self.gate.failure.get_or_insert(DriveError::Send { to: run.way.address, source: error });
            }
        }
    }

    fn note<const N: usize>(&mut self, name: &'static str, fields: [(&'static str, String); N]) {
        let fields = fields.into_iter().map(|(key, text)| (key, Value::Text(text))).collect();
        self.record(&Event::Note(Box::new(Note { name, fields })));
    }

    fn record(&mut self, event: &Event) {
        self.observer.event(self.now, SELF, event);
    }
}

impl Endpoint {
    /// Passes one run to the system.
    fn transmit(&mut self, run: &Run) -> io::Result<()> {
        self.stats.send_calls += 1;
        if let Some(raw) = self.raw.as_mut().filter(|_| run.way.raw) {
            return raw.send(run.way.address, run.way.hops, &run.contents);
        }
        if let Some(hops) = run.way.hops {
            self.set_hops(hops)?;
        }
        let Port { socket, state, .. } = &self.unicast;
        let transmit = quinn_udp::Transmit {
            destination: run.way.address,
            ecn: None,
            contents: &run.contents,
            segment_size: (run.count > 1).then_some(run.segment),
            src_ip: None,
        };
        state.try_send(socket.into(), &transmit)
    }
}

/// Returns true for an error of one peer or one moment, which is counted and does not end the driver.
pub(crate) fn passes(error: &io::Error) -> bool {
    let Some(errno) = error.raw_os_error().map(Errno::from_raw) else { return false };
    matches!(
        errno,
        Errno::ECONNREFUSED
            | Errno::ECONNRESET
            | Errno::EHOSTUNREACH
            | Errno::EHOSTDOWN
            | Errno::ENETUNREACH
            | Errno::ENETDOWN
            // The interface was removed.
            | Errno::ENODEV
            | Errno::ENXIO
            | Errno::EADDRNOTAVAIL
            | Errno::ENOMEM
            | Errno::ENOBUFS
            | Errno::EINTR
            | Errno::EIO
            | Errno::EINVAL
            | Errno::EMSGSIZE
            // A firewall rejects an outgoing datagram like this.
            | Errno::EPERM
            | Errno::EACCES
    )
}

const TO_SELF: Dest = Dest::Node(SELF);
const TO_GROUP: Dest = Dest::group(GROUP);

/// Maximum bytes sent per turn: less than a millisecond's worth on loopback.
const TURN_BYTES: usize = 1 << 20;

/// Maximum polls of the application per turn.
const TURN_POLLS: usize = 1024;

/// Maximum packets read directly over IP per turn, from each socket.
const RAW_BATCH: usize = 64;

/// Bytes of a UDP header, which packets directly over IP do not have.
const UDP_HEADER: usize = 8;

/// Time for a full interface queue to drain.
const FULL_QUEUE_RETRY: Duration = Duration::from_millis(1);

/// Maximum wait: longer than any caller's, and safe to add to any clock.
const MAX_WAIT: Duration = Duration::from_secs(86_400);
