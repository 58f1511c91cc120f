//! Further interfaces at a driver: datagrams that arrive and leave there.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use bytes::Bytes;
use carillon_core::{Application, Dest, Machine, Observer, Time};
use nix::errno::Errno;

use super::outlet::{Outlet, send_on};
use super::{Driver, Inlet, read};
use crate::DriveError;
use crate::endpoint::Endpoint;
use crate::inbox::Opener;
use crate::numbers::{BranchId, SELF};
use crate::outbox::{Route, Run};
use crate::seal::Kind;

impl<M, A, O> Driver<M, A, O>
where
    M: Machine + ?Sized,
    A: Application<M>,
    O: Observer,
{
    /// Reads one batch from each socket of a further interface that is ready.
    pub(super) fn receive_further(&mut self, ready: &[(BranchId, Inlet)]) -> Result<(), DriveError> {
        for &(id, inlet) in ready {
            self.receive_on(id, inlet)?;
        }
        Ok(())
    }

    fn receive_on(&mut self, id: BranchId, inlet: Inlet) -> Result<(), DriveError> {
        let Endpoint { branches, inbox, stats, .. } = &mut self.endpoint;
        let Some(sockets) = branches.get(id) else { return Ok(()) };
        let port = match inlet {
            Inlet::Group => sockets.multicast.as_ref(),
            _ => Some(&sockets.unicast),
        };
        let Some(port) = port else { return Ok(()) };
        if !read(port, inlet == Inlet::Group, inbox, stats)? {
            return Ok(());
        }
        let now = self.now();
        loop {
            let Endpoint { branches, inbox, .. } = &mut self.endpoint;
            let Some(sockets) = branches.get(id) else { return Ok(()) };
            let own = sockets.unicast.address;
            let opener = sockets.seal.as_deref_mut().map(|seal| Opener { seal, now, own });
            let Some(datagram) = inbox.take(opener) else { break };
            self.accept(now, id, inlet, datagram);
        }
        let mut outlet = self.outlet(now);
        outlet.greet();
        outlet.answer();
        outlet.flush();
        Ok(())
    }
}

impl Endpoint {
    /// Sockets of the further interfaces, to wait for.
    pub(super) fn further_fds(&self) -> Vec<(BranchId, Inlet, BorrowedFd<'_>)> {
        let all = self.branches.all().flat_map(|(id, sockets)| {
            let unicast = (id, Inlet::Unicast, sockets.unicast.fd());
            let group = sockets.multicast.as_ref().map(|port| (id, Inlet::Group, port.fd()));
            std::iter::once(unicast).chain(group)
        });
        all.collect()
    }
}

impl<O: Observer> Outlet<'_, O> {
    /// Queues a multicast on every further interface that is up.
    pub(super) fn push_further(&mut self, to: &Dest, hops: u8, bytes: &[u8]) {
        let segments = self.endpoint.max_segments();
        let raw = false;
        for (_, sockets) in self.endpoint.branches.live() {
            let way = Route { address: sockets.group, hops: Some(hops), raw };
            match sockets.seal.as_deref_mut() {
                None => sockets.outbox.push(to.clone(), way, &mut bytes.to_vec(), segments),
                Some(seal) => {
                    let len = bytes.len() + crate::SEAL_BYTES;
                    sockets.outbox.push_with(to.clone(), way, len, segments, |run| {
                        seal.seal(Kind::Group, way.address, bytes, run);
                    });
                }
            }
        }
    }

    /// Queues a datagram to a node that is reached by a further interface. Returns false if that has no sockets.
    pub(super) fn push_on(&mut self, id: BranchId, to: Dest, way: Route, bytes: &mut Vec<u8>) -> bool {
        let segments = self.endpoint.max_segments();
        let Some(sockets) = self.endpoint.branches.get(id) else { return false };
        match sockets.seal.as_deref_mut() {
            None => sockets.outbox.push(to, way, bytes, segments),
            Some(seal) => {
                let content = Bytes::from(std::mem::take(bytes));
                self.observer.datagram(self.now, SELF, &to, &content);
                let len = content.len() + crate::SEAL_BYTES;
                sockets.outbox.push_with(to, way, len, segments, |run| {
                    seal.seal(Kind::One, way.address, &content, run);
                });
            }
        }
        true
    }

    /// Queues greetings on further interfaces.
    pub(super) fn greet_further(&mut self) {
        let segments = self.endpoint.max_segments();
        let Endpoint { branches, stats, .. } = &mut *self.endpoint;
        for (_, sockets) in branches.live() {
            while let Some((to, mut bytes)) =
                sockets.seal.as_deref_mut().and_then(|seal| seal.next_greeting())
            {
                stats.seal.greetings += 1;
                let way = Route { address: to, hops: None, raw: false };
                sockets.outbox.push(Dest::Node(SELF), way, &mut bytes, segments);
            }
        }
    }

    /// Sends what is queued on further interfaces, all but the last `leave` runs of each, and copies if nothing else
    /// is queued.
    pub(super) fn flush_further(&mut self, leave: usize) {
        let ids: Vec<BranchId> = self.endpoint.branches.all().map(|(id, _)| id).collect();
        for id in ids {
            while let Some(run) = self.next_on(id, leave) {
                self.send_run_on(id, run);
            }
        }
    }

    fn next_on(&mut self, id: BranchId, leave: usize) -> Option<Run> {
        let now = self.now;
        let sockets = self.endpoint.branches.get(id)?;
        sockets.retry = sockets.retry.filter(|&at| at > now);
        if sockets.retry.is_some() {
            return None;
        }
        if sockets.outbox.runs() > leave {
            return sockets.outbox.pop();
        }
        if leave > 0 || sockets.outbox.runs() > 0 {
            return None;
        }
        sockets.copies.as_deref_mut()?.next_copy(now)
    }

    fn send_run_on(&mut self, id: BranchId, run: Run) {
        let marked = self.endpoint.config.dscp.is_some();
        let header = self.endpoint.header_bytes();
        let Some(sockets) = self.endpoint.branches.get(id) else { return };
        let set = run.way.hops.map_or(Ok(()), |hops| sockets.set_hops(hops));
        let sent = set.and_then(|()| send_on(&sockets.unicast, &run, marked));
        self.endpoint.stats.send_calls += 1;
        let (count, bytes) = (run.count as u64, run.contents.len() as u64);
        match sent {
            Ok(()) => {
                let Some(sockets) = self.endpoint.branches.get(id) else { return };
                sockets.stuck = None;
                if let Some(copies) = sockets.copies.as_deref_mut() {
                    match (run.is_copy, run.way.hops) {
                        (true, _) => copies.sent(count, bytes),
                        (false, Some(_)) => copies.offer(self.now, &run, header),
                        (false, None) => {}
                    }
                }
                self.endpoint.stats.datagrams_sent += count;
                self.endpoint.stats.bytes_sent += bytes;
                self.endpoint.failures.clear(run.way.address);
                // With a seal, the observer received the contents before sealing. Multicasts are observed once.
                if self.endpoint.seal.is_none() && run.way.hops.is_none() && !run.is_copy {
                    let whole = Bytes::from(run.contents.clone());
                    for datagram in run.datagrams(&whole) {
                        self.observer.datagram(self.now, SELF, &run.to, &datagram);
                    }
                }
            }
            Err(error) => self.not_sent_on(id, run, &error),
        }
    }

    /// Handles a run that the system did not accept. An interface that accepts nothing for [`MAX_STUCK`] loses what is
    /// queued there, so that the others go on.
    fn not_sent_on(&mut self, id: BranchId, run: Run, error: &io::Error) {
        let now = self.now;
        let Endpoint { branches, stats, failures, .. } = &mut *self.endpoint;
        let Some(sockets) = branches.get(id) else { return };
        match error.raw_os_error().map(Errno::from_raw) {
            Some(Errno::EAGAIN | Errno::ENOBUFS | Errno::ENOMEM) => {
                let since = *sockets.stuck.get_or_insert(now);
                stats.busy += 1;
                sockets.retry = Some(now + RETRY);
                sockets.outbox.push_front(run);
                if now.since(since) >= MAX_STUCK {
                    while let Some(lost) = sockets.outbox.pop() {
                        stats.send_errors += lost.count as u64;
                    }
                }
            }
            // The interface cannot segment: datagrams are sent singly.
            Some(Errno::EIO | Errno::EINVAL | Errno::EMSGSIZE) if run.count > 1 => {
                for single in run.split().into_iter().rev() {
                    sockets.outbox.push_front(single);
                }
            }
            _ => {
                stats.send_errors += run.count as u64;
                failures.note(run.way.address, error, run.count as u64);
            }
        }
    }
}

impl Endpoint {
    /// Returns true if the queue of a further interface is full: then the machine waits.
    pub(super) fn further_are_full(&self) -> bool {
        self.branches.all().any(|(_, sockets)| sockets.outbox.runs() >= MAX_QUEUED_RUNS)
    }

    /// Time at which a further interface can send again what is queued there, or a copy.
    pub(super) fn further_at(&self, now: Time) -> Option<Time> {
        let of = |sockets: &crate::branch::Sockets| {
            let queued = (sockets.outbox.runs() > 0).then(|| sockets.retry.unwrap_or(now));
            let copy = sockets.copies.as_ref().and_then(|copies| copies.copy_at(now));
            [queued, copy].into_iter().flatten().min()
        };
        self.branches.all().filter_map(|(_, sockets)| of(sockets)).min()
    }
}

/// Time for a full queue to drain.
const RETRY: Duration = Duration::from_millis(1);
/// Time after which an interface that accepts nothing loses what is queued there.
const MAX_STUCK: Duration = Duration::from_millis(250);
/// Number of queued runs of an interface at which the machine waits.
const MAX_QUEUED_RUNS: usize = 16;
