//! The PGM network element (RFC 3208, section 7), which stands at a router and inspects passing packets.

mod congestion;
mod parity;
mod repairers;
mod state;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::iter;
use std::net::IpAddr;
use std::time::Duration;

use carillon_core::{
    Addresses, BuildContext, Bytes, Config, ConfigError, Dest, DropReason, Event, Events, Machine, MessageId,
    NodeId, PortId, PortSet, Received, Relay, Time, Timers, Transmit, Verdict,
};
use carillon_wire::pgm::{Body, Nak, Options, Packet, PacketType, Spm, Tsi, emit_repair, with_path};

use super::config::interval;
use super::identity::{
    address_of, destination_port, is_newer, is_of_session, list_of, node_on_path, numbers, parse,
};
use super::parity::Offer;
use crate::blocks::{Expired, Passed, PassedPackets, RequestSchedule, Tries};
use state::{GroupRepair, Repair, Repairers, RequestRoute, Session};

/// Confirms NAKs, forwards one of them for each packet, and sends repairs out of the ports of their requesters.
#[derive(Debug)]
pub struct PgmRelay {
    destination_port: u16,
    node: NodeId,
    addresses: Addresses,
    /// Address of the element, which it writes as the path into SPMs.
    address: IpAddr,
    nak_rpt_rte: Duration,
    nak_rpt_ivl: Duration,
    nak_elim_ivl: Duration,
    nak_rdata_ivl: Duration,
    tsi_expiry: Duration,
    max_sessions: usize,
    max_repairs: usize,
    dlr_nak_rpt_ivl: Duration,
    dlr_expiry: Duration,
    max_repairers: usize,
    /// Maximum number of packets stored per source for repairs; 0 disables the store.
    max_stored: usize,
    sessions: BTreeMap<Tsi, Session>,
    /// NCFs to send, oldest first.
    confirmations: VecDeque<Confirmation>,
    /// Requested packets. The element repeats a NAK until it is confirmed, and drops the state after a timeout.
    requests: RequestSchedule<(Tsi, u32), Repair>,
    /// Transmission groups of which parity is requested, by their first number.
    groups: RequestSchedule<(Tsi, u32), GroupRepair>,
    /// N-NAKs to send upstream.
    nnaks_due: BTreeSet<(Tsi, u32)>,
    /// Repairs of designated local repairers to forward.
    forwarded_repairs: VecDeque<(Tsi, u32, Bytes)>,
    /// Acknowledgments of the acker to forward (PGMCC).
    acks: VecDeque<(Tsi, u32, Bytes)>,
    /// Repairs from the element's own store, and their ports.
    repairs_due: BTreeMap<(Tsi, u32), PortSet>,
    timers: Timers<Timer>,
    events: Events,
}

/// An NCF to send: the NAK and list that it repeats, and its port.
#[derive(Debug, PartialEq, Eq)]
struct Confirmation {
    tsi: Tsi,
    port: PortId,
    nak: Nak,
    list: Box<[u8]>,
    /// True if they count parity packets.
    parity: bool,
}

/// Timers of the element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// End of the interval in which an N-NAK for this packet is not repeated.
    Nnak(Tsi, u32),
    /// No SPM of this session came within `ne_tsi_expiry`.
    SessionExpiry(Tsi),
}

impl PgmRelay {
    /// Creates the network element at a node, for all sources.
    pub fn new(context: &BuildContext, settings: &Config) -> Result<Self, ConfigError> {
        let interval = |name| interval(settings, context.bit_rate, name);
        Ok(PgmRelay {
            destination_port: destination_port(settings)?,
            node: context.node,
            addresses: context.addresses.clone(),
            address: address_of(&context.addresses, context.node),
            nak_rpt_rte: interval("ne_nak_rpt_rte")?,
            nak_rpt_ivl: interval("ne_nak_rpt_ivl")?,
            nak_elim_ivl: settings.span("nak_elim_ivl").at(context.bit_rate),
            nak_rdata_ivl: interval("ne_nak_rdata_ivl")?,
            tsi_expiry: interval("ne_tsi_expiry")?,
            max_sessions: settings.count("ne_tsis") as usize,
            max_repairs: settings.count("ne_repairs") as usize,
            dlr_nak_rpt_ivl: interval("dlr_nak_rpt_ivl")?,
            dlr_expiry: interval("dlr_expiry")?,
            max_repairers: settings.count("ne_dlrs") as usize,
            max_stored: settings.count("ne_dlr_sqns") as usize,
            sessions: BTreeMap::new(),
            confirmations: VecDeque::new(),
            requests: RequestSchedule::new(Tries { unrepaired: 0, ..Tries::UNLIMITED }),
            groups: RequestSchedule::new(Tries { unrepaired: 0, ..Tries::UNLIMITED }),
            nnaks_due: BTreeSet::new(),
            forwarded_repairs: VecDeque::new(),
            acks: VecDeque::new(),
            repairs_due: BTreeMap::new(),
            timers: Timers::new(),
            events: Events::default(),
        })
    }

    /// Handles an SPM (section 7.1): learns the upstream node and forwards the SPM with this element as its path.
    fn on_spm(
        &mut self,
        now: Time,
        tsi: Tsi,
        (spm, options): (Spm, Options<'_>),
        datagram: Received<'_>,
    ) -> Verdict {
        let Dest::Group { group, .. } = *datagram.destination else { return Verdict::Forward };
        // Without an address of the same family as the path, the element does not serve this source.
        let Some(bytes) = with_path(datagram.bytes, self.address) else { return Verdict::Forward };
        let upstream = match is_of_session(tsi) {
            true => node_on_path(&self.addresses, spm.path, datagram.source, self.node),
            // Others receive NAKs at the port of the encapsulation, whatever port they send from.
            false => self.addresses.listener_at(spm.path).unwrap_or(datagram.source),
        };
        let known = self.sessions.get(&tsi);
        if known.is_some_and(|session| !is_newer(spm.sqn, session.spm_sqn)) {
            self.events.dropped(DropReason::Redundant);
            return Verdict::Absorb;
        }
        if known.is_none() && self.sessions.len() >= self.max_sessions {
            return Verdict::Forward;
        }
        let session = self.sessions.entry(tsi).or_insert_with(|| Session {
            spm_sqn: spm.sqn,
            upstream,
            upstream_port: datagram.ingress,
            source: datagram.source,
            group,
            source_address: address_of(&self.addresses, datagram.source),
            group_address: self.addresses.of_group(group),
            repairs: 0,
            group_size: None,
            poll_sqn: None,
            repairers: Repairers::default(),
            nnaks: BTreeSet::new(),
            store: PassedPackets::new(self.max_stored, self.nak_elim_ivl),
            report: None,
        });
        session.spm_sqn = spm.sqn;
        // The first offer holds: the repair states of groups belong to one size.
        session.group_size = session.group_size.or(Offer::of_spm(&options).map(|offer| offer.size as u32));
        (session.upstream, session.upstream_port) = (upstream, datagram.ingress);
        if (spm.trail, spm.lead) != Spm::NO_WINDOW {
            session.store.advance(spm.trail);
        }
        self.timers.arm(Timer::SessionExpiry(tsi), now + self.tsi_expiry);
        Verdict::ForwardAs(Bytes::from(bytes))
    }

    /// Handles a repair (section 7.4): forwards it out of the requesters' ports and deletes the repair state.
    fn on_repair(&mut self, now: Time, tsi: Tsi, sqn: u32, datagram: Received<'_>) -> Verdict {
        let Some(session) = self.sessions.get_mut(&tsi) else {
            // Without an SPM the element acts as an ordinary router.
            return Verdict::Forward;
        };
        if session.is_downstream(datagram) {
            session.store.keep(sqn, datagram.bytes);
        }
        let Some(repair) = self.requests.remove((tsi, sqn)) else { return Verdict::Absorb };
        session.repairs -= 1;
        session.store.on_passed(now, sqn, &repair.ports);
        Verdict::ForwardOn(repair.ports)
    }

    /// Handles original data (section 7.1): forwards it unchanged, and stores it if the element repairs.
    fn on_original(&mut self, tsi: Tsi, sqn: u32, datagram: Received<'_>) -> Verdict {
        if let Some(session) = self.sessions.get_mut(&tsi).filter(|session| session.is_downstream(datagram)) {
            session.store.keep(sqn, datagram.bytes);
        }
        Verdict::Forward
    }

    /// Handles an NCF from upstream: confirms a pending NAK (section 7.3), or creates repair state for NAKs to come
    /// (NAK anticipation, section 7.5).
    fn on_ncf(&mut self, now: Time, tsi: Tsi, numbers: &[u32], ingress: PortId) -> Verdict {
        let Some(session) = self.sessions.get_mut(&tsi) else { return Verdict::Forward };
        if session.upstream_port != ingress {
            self.events.dropped(DropReason::Redundant);
            return Verdict::Absorb;
        }
        // State without ports: the repair is absorbed here unless a NAK from below adds one.
        for &sqn in numbers {
            if self.requests.get((tsi, sqn)).is_none() && session.repairs < self.max_repairs {
                session.repairs += 1;
                self.requests.begin(now, (tsi, sqn), Duration::ZERO, Repair::default());
            }
        }
        numbers.iter().for_each(|&sqn| self.confirm(now, tsi, sqn));
        Verdict::Absorb
    }

    /// Marks a NAK as confirmed: stops repeating it, and suppresses further NAKs for NAK_ELIM_IVL.
    fn confirm(&mut self, now: Time, tsi: Tsi, sqn: u32) {
        let Some(repair) = self.requests.get_mut((tsi, sqn)) else { return };
        repair.quiet_until = Some(now + self.nak_elim_ivl);
        self.requests.confirm(now, (tsi, sqn), self.nak_rdata_ivl);
    }

    /// Handles a NAK (section 7.2): confirms it on its port, and forwards it unless another NAK for the packet is
    /// pending. Repairs packets from the element's own store instead.
    fn on_nak(&mut self, now: Time, tsi: Tsi, nak: Nak, options: Options<'_>, from: Received<'_>) {
        let (ingress, list) = (from.ingress, options.nak_list);
        let Some(session) = self.sessions.get_mut(&tsi).filter(|session| session.upstream_port != ingress)
        else {
            return self.events.dropped(DropReason::Foreign);
        };
        let is_new = |sqn: &u32| self.requests.get((tsi, *sqn)).is_none() && !session.store.has(*sqn);
        let new = numbers(nak, list).filter(is_new).count();
        if session.repairs + new > self.max_repairs || self.confirmations.len() >= MAX_PENDING_CONFIRMATIONS {
            return self.events.dropped(DropReason::BufferFull);
        }
        let mut is_forwarded = false;
        let mut repaired = Vec::new();
        // A stored packet is repaired here; the source only learns of it through an N-NAK.
        for sqn in numbers(nak, list) {
            match session.store.ask(now, sqn, ingress) {
                Passed::Absent => {}
                Passed::Again => continue,
                Passed::Held => {
                    repaired.push(sqn);
                    self.repairs_due.entry((tsi, sqn)).or_default().insert(ingress);
                    continue;
                }
            }
            let key = (tsi, sqn);
            let is_known = self.requests.get(key).is_some();
            if !is_known {
                session.repairs += 1;
                self.requests.begin(now, key, Duration::ZERO, Repair::default());
            }
            let Some(repair) = self.requests.get_mut(key) else { continue };
            // The repair will go out of every port that a NAK came in by.
            repair.ports.insert(ingress);
            // A repairer that requests the packet it was asked for does not have it.
            let is_missing_there = repair.route == RequestRoute::Repairer(from.source);
            // NAK elimination (section 7.3): another NAK for this packet is pending or was just confirmed.
            if is_known && repair.eliminates(now) && !is_missing_there {
                continue;
            }
            is_forwarded = true;
            repair.quiet_until = None;
            // A repairer below this element cannot have a packet that never passed here.
            repair.route = match is_known || session.store.is_missed(sqn) {
                true => RequestRoute::Upstream,
                false => session.repairers.choose(now, &repair.ports),
            };
            let limit = match repair.route {
                RequestRoute::Upstream => self.nak_rpt_ivl,
                RequestRoute::Repairer(_) => self.dlr_nak_rpt_ivl,
            };
            // Send the NAK now, and give up after the timeout of its next node.
            self.requests.back_off(now, key, Duration::ZERO);
            self.requests.give_up_at(key, now + limit);
        }
        self.keep_report(tsi, options.report.filter(|_| is_forwarded || !repaired.is_empty()));
        self.announce_repairs(now, tsi, &repaired);
        match is_forwarded || !repaired.is_empty() {
            true => self.events.received("nak", nak.sqn),
            false => self.events.dropped(DropReason::Redundant),
        }
        // Every NAK is confirmed, also an eliminated one (section 7.2).
        let list = list.as_bytes().into();
        self.confirmations.push_back(Confirmation { tsi, port: ingress, nak, list, parity: false });
    }

    fn packet<'a>(&self, tsi: Tsi, body: Body<'a>, options: Options<'a>) -> Packet<'a> {
        Packet { tsi, destination_port: self.destination_port, body, options }
    }

    /// Emits an NCF in the source's name out of the port of the NAK.
    fn emit_confirmation(&mut self, buf: &mut Vec<u8>) -> Option<Transmit> {
        while let Some(Confirmation { tsi, port, nak, list, parity }) = self.confirmations.pop_front() {
            let Some(session) = self.sessions.get(&tsi) else { continue };
            let dest = Dest::group_behind(PortSet::from_iter([port]), session.source, session.group);
            self.packet(tsi, Body::Ncf(nak), Options { parity, ..Options::listing(&list) }).emit(buf);
            self.events.control("ncf", nak.sqn);
            return Some(Transmit::now(dest));
        }
        None
    }

    /// Emits one NAK for all due requests of one source with the same next node, as far as they fit the list.
    fn emit_nak(&mut self, now: Time, buf: &mut Vec<u8>) -> Option<Transmit> {
        while let Some((tsi, sqn)) = self.requests.take_due() {
            let Some(session) = self.sessions.get_mut(&tsi) else { continue };
            let route = self.requests.get((tsi, sqn)).map_or(RequestRoute::Upstream, |repair| repair.route);
            self.requests.asked(now, (tsi, sqn), self.nak_rpt_rte);
            let list = list_of(iter::from_fn(|| {
                let ((other, more), repair) = self.requests.first_due()?;
                if (other, repair.route) != (tsi, route) {
                    return None;
                }
                self.requests.take_due();
                self.requests.asked(now, (tsi, more), self.nak_rpt_rte);
                Some(more)
            }));
            let next = match route {
                RequestRoute::Upstream => session.upstream,
                RequestRoute::Repairer(node) => node,
            };
            let transmit = Transmit::now(Dest::Node(next));
            let report = session.report.take().filter(|_| route == RequestRoute::Upstream);
            let nak = Body::Nak(session.nak(sqn));
            self.packet(tsi, nak, Options { report, ..Options::listing(&list) }).emit(buf);
            self.events.control("nak", sqn);
            return Some(transmit);
        }
        None
    }

    /// Emits a stored packet as a repair in the source's name, out of the requesters' ports.
    fn emit_repair(&mut self, buf: &mut Vec<u8>) -> Option<Transmit> {
        while let Some(((tsi, sqn), ports)) = self.repairs_due.pop_first() {
            let Some(session) = self.sessions.get(&tsi) else { continue };
            let kept = session.store.get(sqn);
            if !kept.is_some_and(|(bytes, trail)| emit_repair(bytes, trail, buf)) {
                continue;
            }
            let (source, message, bytes) = (session.source, MessageId(sqn.into()), buf.len() as u32);
            self.events.push(Event::Forwarded { source, message, bytes, repair: true });
            return Some(Transmit::now(Dest::group_behind(ports, source, session.group)));
        }
        None
    }
}

impl Machine for PgmRelay {
    fn events(&mut self) -> Option<&mut Events> {
        Some(&mut self.events)
    }

    fn handle_datagram(&mut self, now: Time, datagram: Received<'_>) {
        let sessions = (None, self.destination_port);
        let Some(packet) = parse(&mut self.events, sessions, datagram.bytes) else { return };
        let (tsi, options) = (packet.tsi, packet.options);
        let all = |nak| numbers(nak, options.nak_list).collect::<Vec<_>>();
        match packet.body {
            Body::Nak(nak) if options.parity => {
                self.on_parity_nak(now, tsi, nak, options, datagram.ingress);
            }
            // Repairers have no parity.
            _ if options.parity => self.events.dropped(DropReason::Foreign),
            Body::Nak(nak) => self.on_nak(now, tsi, nak, options, datagram),
            Body::Nnak(nak) => self.on_nnak(now, tsi, &all(nak), datagram.ingress),
            Body::Polr { sqn, .. } => self.on_polr(now, tsi, sqn, options, datagram),
            Body::Ncf(nak) => self.on_repairer_ncf(now, tsi, datagram.source, &all(nak)),
            Body::Rdata(data) => self.on_repairer_data(tsi, data.sqn, datagram),
            Body::Ack(ack) => self.on_ack(tsi, ack.newest, datagram),
            _ => self.events.dropped(DropReason::Foreign),
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        while let Some((key, expired)) = self.requests.expire(now) {
            match expired {
                Expired::Unanswered => self.requests.back_off(now, key, Duration::ZERO),
                Expired::Abandoned(repair) => self.fall_back(now, key, repair),
                Expired::Due | Expired::Over(_) => {}
            }
        }
        self.expire_groups(now);
        while let Some(timer) = self.timers.expire(now) {
            match timer {
                Timer::Nnak(tsi, sqn) => {
                    if let Some(session) = self.sessions.get_mut(&tsi) {
                        session.nnaks.remove(&sqn);
                    }
                }
                Timer::SessionExpiry(tsi) => {
                    let Some(session) = self.sessions.remove(&tsi) else { continue };
                    self.requests.remove_all((tsi, 0)..=(tsi, u32::MAX));
                    self.groups.remove_all((tsi, 0)..=(tsi, u32::MAX));
                    for sqn in session.nnaks {
                        self.timers.cancel(Timer::Nnak(tsi, sqn));
                    }
                }
            }
        }
    }

    fn poll_timeout(&self) -> Option<Time> {
        [self.timers.next(), self.requests.next_timeout(), self.groups.next_timeout()]
            .into_iter()
            .flatten()
            .min()
    }

    fn poll_transmit(&mut self, now: Time, buf: &mut Vec<u8>) -> Option<Transmit> {
        self.emit_confirmation(buf)
            .or_else(|| self.emit_forwarded_ack(buf))
            .or_else(|| self.emit_nak(now, buf))
            .or_else(|| self.emit_parity_nak(now, buf))
            .or_else(|| self.emit_nnak(buf))
            .or_else(|| self.emit_forwarded_repair(now, buf))
            .or_else(|| self.emit_repair(buf))
    }

    /// Number of sessions, of packets with a pending repair, and of stored packets.
    fn held(&self) -> Option<u64> {
        let stored: usize = self.sessions.values().map(|session| session.store.count()).sum();
        Some((self.sessions.len() + self.requests.count() + self.groups.count() + stored) as u64)
    }

    fn as_relay(&mut self) -> Option<&mut dyn Relay> {
        Some(self)
    }
}

impl Relay for PgmRelay {
    fn handle_transit(&mut self, now: Time, datagram: Received<'_>) -> Verdict {
        let is_of_interest = |kind| match kind {
            PacketType::Spm | PacketType::Rdata | PacketType::Ncf | PacketType::Poll => true,
            // ODATA is most of the traffic; only an element with a store inspects it (section 7.1).
            PacketType::Odata => self.max_stored > 0,
            _ => false,
        };
        // Unicast between repairers and other elements is not addressed to the group.
        let is_to_group = matches!(datagram.destination, Dest::Group { .. });
        if !is_to_group || !PacketType::peek(datagram.bytes).is_some_and(is_of_interest) {
            return Verdict::Forward;
        }
        let packet = Packet::parse(datagram.bytes).ok();
        let Some(packet) = packet.filter(|packet| packet.destination_port == self.destination_port) else {
            return Verdict::Forward;
        };
        match packet.body {
            Body::Spm(spm) => self.on_spm(now, packet.tsi, (spm, packet.options), datagram),
            body if packet.options.parity => {
                self.on_passing_parity(now, (packet.tsi, body), packet.options.nak_list, datagram)
            }
            Body::Odata(data) => self.on_original(packet.tsi, data.sqn, datagram),
            Body::Rdata(data) => self.on_repair(now, packet.tsi, data.sqn, datagram),
            Body::Ncf(nak) => {
                let all: Vec<_> = numbers(nak, packet.options.nak_list).collect();
                self.on_ncf(now, packet.tsi, &all, datagram.ingress)
            }
            Body::Poll(poll) => self.on_poll(packet.tsi, poll, datagram),
            _ => Verdict::Forward,
        }
    }
}

/// Maximum number of NCFs, or of repairers' repairs, that wait for a port.
const MAX_PENDING_CONFIRMATIONS: usize = 4096;
