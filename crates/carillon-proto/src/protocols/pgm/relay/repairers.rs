//! Designated local repairers below a network element (RFC 3208, off-tree repairers): discovery, requests, and
//! forwarding of their repairs.

use std::iter;
use std::time::Duration;

use carillon_core::{Bytes, Dest, DropReason, NodeId, PortId, Received, Time, Transmit, Verdict};
use carillon_wire::pgm::{Body, Options, Poll, Tsi, with_path};

use super::super::identity::list_of;
use super::state::{Repair, RequestRoute};
use super::{MAX_PENDING_CONFIRMATIONS, PgmRelay, Timer};

impl PgmRelay {
    /// Handles a POLL from upstream: forwards it with this element as its path, so that repairers below answer here.
    pub(super) fn on_poll(&mut self, tsi: Tsi, poll: Poll, datagram: Received<'_>) -> Verdict {
        let Some(session) = self.sessions.get_mut(&tsi) else { return Verdict::Forward };
        if session.upstream_port != datagram.ingress {
            self.events.dropped(DropReason::Redundant);
            return Verdict::Absorb;
        }
        let Some(bytes) = with_path(datagram.bytes, self.address) else { return Verdict::Forward };
        session.poll_sqn = Some(poll.sqn);
        Verdict::ForwardAs(Bytes::from(bytes))
    }

    /// Handles a POLR: registers the child as a repairer.
    pub(super) fn on_polr(
        &mut self,
        now: Time,
        tsi: Tsi,
        sqn: u32,
        options: Options<'_>,
        from: Received<'_>,
    ) {
        let node = options.redirect.and_then(|address| self.addresses.node_at(address));
        let session = self.sessions.get_mut(&tsi).filter(|session| {
            session.poll_sqn == Some(sqn)
                && session.upstream_port != from.ingress
                // A repairer may only offer its own address.
                && node == Some(from.source)
        });
        let Some(session) = session else { return self.events.dropped(DropReason::Foreign) };
        let until = now + self.dlr_expiry;
        match session.repairers.insert(now, from.source, from.ingress, until, self.max_repairers) {
            true => self.events.received("polr", sqn),
            false => self.events.dropped(DropReason::BufferFull),
        }
    }

    /// Handles the NCF of a repairer, which confirms a forwarded NAK.
    pub(super) fn on_repairer_ncf(&mut self, now: Time, tsi: Tsi, from: NodeId, numbers: &[u32]) {
        let mut is_new = false;
        for &sqn in numbers {
            let Some(repair) = self.requests.get((tsi, sqn)) else { continue };
            if repair.route == RequestRoute::Repairer(from) && repair.quiet_until.is_none() {
                is_new = true;
                self.confirm(now, tsi, sqn);
            }
        }
        match is_new {
            true => self.events.received("ncf", numbers[0]),
            false => self.events.dropped(DropReason::Redundant),
        }
    }

    /// Handles a repair by a repairer: queues it for the group below.
    pub(super) fn on_repairer_data(&mut self, tsi: Tsi, sqn: u32, datagram: Received<'_>) {
        let repair = self.requests.get((tsi, sqn));
        if repair.is_none_or(|repair| repair.route != RequestRoute::Repairer(datagram.source)) {
            return self.events.dropped(DropReason::Redundant);
        }
        if self.forwarded_repairs.len() >= MAX_PENDING_CONFIRMATIONS {
            return self.events.dropped(DropReason::BufferFull);
        }
        self.events.received("rdata", sqn);
        self.forwarded_repairs.push_back((tsi, sqn, datagram.bytes.clone()));
    }

    /// Emits a repairer's repair in the source's name, out of the requesters' ports.
    pub(super) fn emit_forwarded_repair(&mut self, now: Time, buf: &mut Vec<u8>) -> Option<Transmit> {
        while let Some((tsi, sqn, bytes)) = self.forwarded_repairs.pop_front() {
            let Some(session) = self.sessions.get_mut(&tsi) else { continue };
            // A repair from elsewhere may have deleted the state first.
            let Some(repair) = self.requests.remove((tsi, sqn)) else { continue };
            session.repairs -= 1;
            session.store.keep(sqn, &bytes);
            session.store.on_passed(now, sqn, &repair.ports);
            let dest = Dest::group_behind(repair.ports, session.source, session.group);
            buf.extend_from_slice(&bytes);
            return Some(Transmit::now(dest));
        }
        None
    }

    /// Handles the timeout of a NAK. If it went to a repairer without an NCF, drops that repairer and sends the NAK
    /// upstream; otherwise deletes the state.
    pub(super) fn fall_back(&mut self, now: Time, key: (Tsi, u32), mut repair: Repair) {
        let Some(session) = self.sessions.get_mut(&key.0) else { return };
        let (RequestRoute::Repairer(node), None) = (repair.route, repair.quiet_until) else {
            session.repairs -= 1;
            return;
        };
        session.repairers.remove(node);
        repair.route = RequestRoute::Upstream;
        self.requests.begin(now, key, Duration::ZERO, repair);
        self.requests.give_up_at(key, now + self.nak_rpt_ivl);
    }

    /// Handles an N-NAK from below, which reports a local repair: forwards it upstream once, without suppressing
    /// NAKs.
    pub(super) fn on_nnak(&mut self, now: Time, tsi: Tsi, numbers: &[u32], ingress: PortId) {
        if self.sessions.get(&tsi).is_none_or(|session| session.upstream_port == ingress) {
            return self.events.dropped(DropReason::Foreign);
        }
        match self.announce_repairs(now, tsi, numbers) {
            true => self.events.received("n-nak", numbers[0]),
            false => self.events.dropped(DropReason::Redundant),
        }
    }

    /// Queues N-NAKs that tell the source of repairs made here or below, except for packets already announced or
    /// requested upstream. Returns true if any was queued.
    pub(super) fn announce_repairs(&mut self, now: Time, tsi: Tsi, numbers: &[u32]) -> bool {
        let Some(session) = self.sessions.get_mut(&tsi) else { return false };
        let mut is_new = false;
        for &sqn in numbers {
            let is_pending = self.requests.get((tsi, sqn));
            let is_pending = is_pending
                .is_some_and(|repair| repair.route == RequestRoute::Upstream && repair.eliminates(now));
            if !is_pending && session.nnaks.len() < self.max_repairs && session.nnaks.insert(sqn) {
                is_new = true;
                self.nnaks_due.insert((tsi, sqn));
                self.timers.arm(Timer::Nnak(tsi, sqn), now + self.nak_elim_ivl);
            }
        }
        is_new
    }

    /// Emits one N-NAK for all packets of one source, as far as they fit the list.
    pub(super) fn emit_nnak(&mut self, buf: &mut Vec<u8>) -> Option<Transmit> {
        while let Some((tsi, sqn)) = self.nnaks_due.pop_first() {
            let Some(session) = self.sessions.get_mut(&tsi) else { continue };
            let list = list_of(iter::from_fn(|| {
                let &(_, more) = self.nnaks_due.first().filter(|(other, _)| *other == tsi)?;
                self.nnaks_due.pop_first();
                Some(more)
            }));
            let transmit = Transmit::now(Dest::Node(session.upstream));
            let (nak, report) = (Body::Nnak(session.nak(sqn)), session.report.take());
            self.packet(tsi, nak, Options { report, ..Options::listing(&list) }).emit(buf);
            self.events.control("n-nak", sqn);
            return Some(transmit);
        }
        None
    }
}
