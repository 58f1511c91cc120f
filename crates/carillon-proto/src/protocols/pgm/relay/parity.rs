//! Parity at a network element (RFC 3208, section 11.5): NAKs and repairs of transmission groups.

use std::iter;
use std::time::Duration;

use carillon_core::{Dest, DropReason, PortId, PortSet, Received, Time, Transmit, Verdict};
use carillon_wire::pgm::{Body, Nak, NakList, Options, Tsi};

use super::super::identity::{list_of, numbers};
use super::state::GroupRepair;
use super::{Confirmation, MAX_PENDING_CONFIRMATIONS, PgmRelay};
use crate::blocks::Expired;

/// Group of a sequence number, and the number of packets that it counts, in groups of this size.
fn counted(sqn: u32, size: u32) -> (u32, u32) {
    (sqn & !(size - 1), (sqn & (size - 1)) + 1)
}

impl PgmRelay {
    /// Handles a parity NAK: confirms it on its port, and forwards it if it asks for more packets than are pending.
    pub(super) fn on_parity_nak(
        &mut self,
        now: Time,
        tsi: Tsi,
        nak: Nak,
        options: Options<'_>,
        ingress: PortId,
    ) {
        let list = options.nak_list;
        let session = self.sessions.get_mut(&tsi).filter(|session| session.upstream_port != ingress);
        let Some((session, size)) =
            session.and_then(|session| session.group_size.map(|size| (session, size)))
        else {
            return self.events.dropped(DropReason::Foreign);
        };
        let is_new = |sqn: &u32| self.groups.get((tsi, counted(*sqn, size).0)).is_none();
        let new = numbers(nak, list).filter(is_new).count();
        if session.repairs + new > self.max_repairs || self.confirmations.len() >= MAX_PENDING_CONFIRMATIONS {
            return self.events.dropped(DropReason::BufferFull);
        }
        let mut is_forwarded = false;
        for sqn in numbers(nak, list) {
            let (group, count) = counted(sqn, size);
            let key = (tsi, group);
            let is_known = self.groups.get(key).is_some();
            if !is_known {
                session.repairs += 1;
                self.groups.begin(now, key, Duration::ZERO, GroupRepair::default());
            }
            let Some(repair) = self.groups.get_mut(key) else { continue };
            let needed = repair.counts.entry(ingress).or_default();
            *needed = count.max(*needed);
            let is_quiet = repair.quiet_until.is_none_or(|until| now < until);
            if is_known && count <= repair.asked && is_quiet {
                continue;
            }
            is_forwarded = true;
            (repair.asked, repair.quiet_until) = (count.max(repair.asked), None);
            self.groups.back_off(now, key, Duration::ZERO);
            self.groups.give_up_at(key, now + self.nak_rpt_ivl);
        }
        self.keep_report(tsi, options.report.filter(|_| is_forwarded));
        match is_forwarded {
            true => self.events.received("nak", nak.sqn),
            false => self.events.dropped(DropReason::Redundant),
        }
        let list = list.as_bytes().into();
        self.confirmations.push_back(Confirmation { tsi, port: ingress, nak, list, parity: true });
    }

    /// Handles a parity NCF from upstream: it confirms a NAK for at most as many packets, or anticipates NAKs.
    pub(super) fn on_parity_ncf(&mut self, now: Time, tsi: Tsi, all: &[u32], ingress: PortId) -> Verdict {
        let Some(session) = self.sessions.get_mut(&tsi) else { return Verdict::Forward };
        let Some(size) = session.group_size.filter(|_| session.upstream_port == ingress) else {
            self.events.dropped(DropReason::Redundant);
            return Verdict::Absorb;
        };
        for &sqn in all {
            let (group, count) = counted(sqn, size);
            let key = (tsi, group);
            if self.groups.get(key).is_none() && session.repairs < self.max_repairs {
                session.repairs += 1;
                self.groups.begin(now, key, Duration::ZERO, GroupRepair::default());
            }
            let Some(repair) = self.groups.get_mut(key).filter(|repair| count >= repair.asked) else {
                continue;
            };
            (repair.asked, repair.quiet_until) = (count, Some(now + self.nak_elim_ivl));
            self.groups.confirm(now, key, self.nak_rdata_ivl);
        }
        Verdict::Absorb
    }

    /// Handles a parity packet that repairs: forwards it out of the ports that still need one.
    pub(super) fn on_parity_repair(&mut self, tsi: Tsi, sqn: u32) -> Verdict {
        let Some(session) = self.sessions.get_mut(&tsi) else { return Verdict::Forward };
        let Some(size) = session.group_size else { return Verdict::Forward };
        let key = (tsi, counted(sqn, size).0);
        let Some(repair) = self.groups.get_mut(key) else { return Verdict::Absorb };
        let ports: PortSet = repair.counts.keys().copied().collect();
        repair.counts.retain(|_, count| {
            *count -= 1;
            *count > 0
        });
        repair.asked = repair.asked.saturating_sub(1);
        if repair.counts.is_empty() && repair.asked == 0 {
            self.groups.remove(key);
            session.repairs -= 1;
        }
        Verdict::ForwardOn(ports)
    }

    /// Emits one parity NAK for all due groups of one source, as far as they fit the list.
    pub(super) fn emit_parity_nak(&mut self, now: Time, buf: &mut Vec<u8>) -> Option<Transmit> {
        while let Some((tsi, group)) = self.groups.take_due() {
            let Some(session) = self.sessions.get_mut(&tsi) else { continue };
            let number = |group: u32, repair: &GroupRepair| group + repair.asked.max(1) - 1;
            let first = self.groups.get((tsi, group)).map_or(group, |repair| number(group, repair));
            self.groups.asked(now, (tsi, group), self.nak_rpt_rte);
            let list = list_of(iter::from_fn(|| {
                let ((other, more), repair) = self.groups.first_due()?;
                if other != tsi {
                    return None;
                }
                let next = number(more, repair);
                self.groups.take_due();
                self.groups.asked(now, (tsi, more), self.nak_rpt_rte);
                Some(next)
            }));
            let report = session.report.take();
            let options = Options { parity: true, report, ..Options::listing(&list) };
            let transmit = Transmit::now(Dest::Node(session.upstream));
            let nak = Body::Nak(session.nak(first));
            self.packet(tsi, nak, options).emit(buf);
            self.events.control("nak", first);
            return Some(transmit);
        }
        None
    }

    /// Expires the waits of groups.
    pub(super) fn expire_groups(&mut self, now: Time) {
        while let Some((key, expired)) = self.groups.expire(now) {
            match expired {
                Expired::Unanswered => self.groups.back_off(now, key, Duration::ZERO),
                Expired::Abandoned(_) => {
                    if let Some(session) = self.sessions.get_mut(&key.0) {
                        session.repairs -= 1;
                    }
                }
                Expired::Due | Expired::Over(_) => {}
            }
        }
    }

    /// Returns true if a packet that passes is parity, with the verdict on it.
    pub(super) fn on_passing_parity(
        &mut self,
        now: Time,
        (tsi, body): (Tsi, Body<'_>),
        list: NakList<'_>,
        datagram: Received<'_>,
    ) -> Verdict {
        match body {
            Body::Rdata(data) => self.on_parity_repair(tsi, data.sqn),
            Body::Ncf(nak) => {
                let all: Vec<u32> = numbers(nak, list).collect();
                self.on_parity_ncf(now, tsi, &all, datagram.ingress)
            }
            // Proactive parity goes to all, and is not stored.
            _ => Verdict::Forward,
        }
    }
}
