//! The way out of a driver: from the machine's datagrams to the sockets, with pacing and backpressure.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd as _;
use std::time::Duration;

use bytes::Bytes;
use carillon_core::{Dest, Event, Host, Note, Notice, Observer, Time, Transmit, Value};
use nix::errno::Errno;
#[cfg(any(target_os = "linux", target_os = "android"))]
use nix::sys::socket::{ControlMessage, MsgFlags, SockaddrStorage, sendmsg};
use socket2::Socket;

use crate::DriveError;
use crate::endpoint::Endpoint;
use crate::failures::passes;
use crate::numbers::{FIRST, SELF};
use crate::outbox::{Route, Run};
use crate::port::Port;
use crate::seal::Kind;

/// Gate between the machine and the sockets.
#[derive(Debug, Default)]
pub(super) struct Gate {
    /// The socket buffer is full.
    pub(super) blocked: bool,
    /// The system was short of memory; retry at this time.
    pub(super) retry: Option<Time>,
    /// Remaining bytes of this turn.
    pub(super) budget: usize,
    /// A drain or a departure stopped at the gate.
    pub(super) stalled: bool,
    /// Sending failed; the step returns the error.
    pub(super) failure: Option<DriveError>,
}

/// The driver as the host of a drain.
pub(super) struct Outlet<'a, O> {
    pub(super) endpoint: &'a mut Endpoint,
    pub(super) observer: &'a mut O,
    pub(super) gate: &'a mut Gate,
    pub(super) now: Time,
    /// True if no datagram was received between `handle_timeout(now)` and this drain: rule 4 of the contract.
    pub(super) timers_fired: bool,
}

impl<O: Observer> Host for Outlet<'_, O> {
    fn is_ready(&mut self) -> bool {
        let open = self.gate.failure.is_none()
            && !self.gate.blocked
            && self.gate.retry.is_none()
            && self.gate.budget > 0
            && self.endpoint.pace.ready_at(self.now).is_none()
            && !self.endpoint.further_are_full();
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
            Dest::Group { scope, .. } => {
                (Some(self.endpoint.group), Some(self.endpoint.config.ttl.min(scope.0)))
            }
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
        if !self.endpoint.branches.is_empty() {
            let own = match &to {
                Dest::Node(node) => self.endpoint.peers.branch(*node),
                _ => FIRST,
            };
            let way = Route { address, hops, raw };
            if own != FIRST && self.push_on(own, to.clone(), way, bytes) {
                return self.flush_further(1);
            }
            if let Some(hops) = hops {
                self.push_further(&to, hops, bytes);
                self.flush_further(1);
            }
            if self.endpoint.branches.first_is_down {
                return;
            }
        }
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
    pub(super) fn greet(&mut self) {
        while let Some((to, mut bytes)) =
            self.endpoint.seal.as_deref_mut().and_then(crate::seal::Seal::next_greeting)
        {
            if self.gate.blocked || self.gate.retry.is_some() {
                continue;
            }
            self.endpoint.stats.seal.greetings += 1;
            self.endpoint.pace.spend(self.now, (bytes.len() + self.endpoint.header_bytes()) as u64);
            let segments = self.endpoint.max_segments();
            let way = Route { address: to, hops: None, raw: false };
            self.endpoint.outbox.push(Dest::Node(SELF), way, &mut bytes, segments);
            self.flush_to(1);
        }
        self.greet_further();
    }

    /// Sends delayed datagrams that are due.
    pub(super) fn depart(&mut self) {
        while self.endpoint.outbox.next_departure().is_some_and(|at| at <= self.now) && self.is_ready() {
            if let Some((to, mut bytes)) = self.endpoint.outbox.due(self.now) {
                self.send(to, false, &mut bytes);
            }
        }
    }

    /// Sends every run, and then copies as far as their budget permits.
    pub(super) fn flush(&mut self) {
        self.flush_to(0);
        while !self.gate.blocked
            && self.gate.retry.is_none()
            && let Some(copy) = self.next_copy()
        {
            self.endpoint.outbox.push_front(copy);
            self.flush_to(0);
        }
        if !self.endpoint.branches.is_empty() {
            self.flush_further(0);
        }
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
        let (count, bytes) = (run.count as u64, run.contents.len() as u64);
        let stats = &mut self.endpoint.stats;
        stats.datagrams_sent += count;
        stats.bytes_sent += bytes;
        if run.is_copy {
            if let Some(copies) = &mut self.endpoint.copying.server {
                copies.sent(count, bytes);
            }
            return self.endpoint.outbox.recycle(run.contents);
        }
        self.copy(&run);
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
            Some(Errno::EMSGSIZE) if run.way.hops.is_some() && !self.endpoint.limits.tolerates_shrinking => {
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

    pub(super) fn record(&mut self, event: &Event) {
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
        if self.config.dscp.is_some() {
            let sent = send_on(&self.unicast, run, true);
            // The interface cannot segment.
            let is_refused = |error: &io::Error| {
                matches!(error.raw_os_error().map(Errno::from_raw), Some(Errno::EIO | Errno::EINVAL))
            };
            if run.count > 1 && sent.as_ref().is_err_and(is_refused) {
                self.set_segmentation(false);
            }
            return sent;
        }
        send_on(&self.unicast, run, false)
    }
}

/// Passes one run to the system by this socket, with the traffic class of the socket if it is marked.
pub(super) fn send_on(port: &Port, run: &Run, marked: bool) -> io::Result<()> {
    let Port { socket, state, .. } = port;
    let segment = (run.count > 1).then_some(run.segment);
    if marked {
        return send_marked(socket, run.way.address, &run.contents, segment);
    }
    let transmit = quinn_udp::Transmit {
        destination: run.way.address,
        ecn: None,
        contents: &run.contents,
        segment_size: segment,
        src_ip: None,
    };
    state.try_send(socket.into(), &transmit)
}

/// Sends datagrams with the traffic class of the socket. `quinn-udp` writes a class for each datagram, with the bits
/// of ECN only, so that the code point of the socket would not count.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn send_marked(socket: &Socket, to: SocketAddr, contents: &[u8], segment: Option<usize>) -> io::Result<()> {
    let segment = segment.and_then(|bytes| u16::try_from(bytes).ok());
    let control = segment.as_ref().map(ControlMessage::UdpGsoSegments);
    let to = SockaddrStorage::from(to);
    loop {
        let contents = [io::IoSlice::new(contents)];
        match sendmsg(socket.as_raw_fd(), &contents, control.as_slice(), MsgFlags::empty(), Some(&to)) {
            Err(Errno::EINTR) => {}
            sent => return Ok(sent.map(drop)?),
        }
    }
}

/// Other systems send one datagram at a time.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn send_marked(socket: &Socket, to: SocketAddr, contents: &[u8], segment: Option<usize>) -> io::Result<()> {
    match segment {
        Some(_) => Err(Errno::EINVAL.into()),
        None => socket.send_to(contents, &to.into()).map(drop),
    }
}

/// Bytes of a UDP header, which packets directly over IP do not have.
const UDP_HEADER: usize = 8;

/// Time for a full interface queue to drain.
const FULL_QUEUE_RETRY: Duration = Duration::from_millis(1);
