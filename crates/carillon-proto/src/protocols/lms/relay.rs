//! Router that turns requests to repliers, and repairs into subtrees.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use carillon_core::{
    Addresses, AssociationId, BuildContext, Config, ConfigError, Dest, DropReason, Event, Events, GroupId,
    Machine, MessageId, NodeId, ObservedState, PortId, PortSet, Received, Relay, Time, Transmit, Verdict,
};
use carillon_wire::lms::{Data, Offer, Packet, Request, TurningPoint, packet_type, packet_type_of};

use super::config::Settings;
use super::padding::padded;
use super::states::STATES;

/// LMS router for the sources of all SETUP packets that pass it. It has no timers: the age of its state is checked
/// when the state is used.
#[derive(Debug)]
pub struct LmsRelay {
    addresses: Addresses,
    /// Address of this router; `None` if it has none.
    address: Option<IpAddr>,
    /// Maximum number of sources with state.
    max_states: usize,
    /// Lifetime of state that is not refreshed: three SETUP intervals.
    lifetime: Duration,
    filter: Filter,
    states: BTreeMap<AssociationId, SourceState>,
    /// Outgoing datagrams, with the event to record when each leaves.
    out: VecDeque<(Transmit, Vec<u8>, Option<Event>)>,
    events: Events,
}

/// State for a source and its group. Its size does not depend on the number of receivers.
#[derive(Debug)]
struct SourceState {
    source: NodeId,
    group: GroupId,
    /// Interface towards the source, and the next LMS router there or the source.
    upstream: (PortId, NodeId),
    /// True if there is no LMS router between this one and the source.
    is_first: bool,
    /// Time until which another session with the same number cannot replace this state.
    until: Time,
    replier: Option<Replier>,
    /// Updates of the replier by interface: the start of the interval in which they are counted, and their number.
    updates: BTreeMap<PortId, (Time, u32)>,
}

/// Replier of the subtree below this router.
#[derive(Clone, Copy, Debug)]
struct Replier {
    /// Interface that leads to the replier.
    port: PortId,
    /// Next LMS router on the path to the replier, or the replier.
    neighbour: NodeId,
    offer: Offer,
    /// Expiry unless the offer is repeated.
    until: Time,
}

/// Limit of the updates from each interface, "to guard themselves from malfunctioning receivers" (thesis, section
/// 5.8.4).
#[derive(Clone, Copy, Debug)]
struct Filter {
    /// Maximum number of updates in an interval; 0 for any number.
    limit: u32,
    interval: Duration,
}

impl Filter {
    /// Counts an update in an interval, which begins anew when it is over. Returns false beyond the limit.
    fn passes(self, now: Time, (start, updates): &mut (Time, u32)) -> bool {
        if now >= *start + self.interval {
            (*start, *updates) = (now, 0);
        }
        *updates = updates.saturating_add(1);
        self.limit == 0 || *updates <= self.limit
    }
}

/// Packet that this router forwards and its destination, if any.
type Onward<'a> = Result<Option<(Dest, Packet<'a>)>, DropReason>;

impl LmsRelay {
    /// Creates a router without state; fails if a setting is invalid.
    pub fn new(context: &BuildContext, config: &Config) -> Result<Self, ConfigError> {
        let settings = Settings::new(context, config)?;
        Ok(LmsRelay {
            address: context.addresses.of_node(context.node),
            addresses: context.addresses.clone(),
            max_states: settings.sources,
            lifetime: settings.setup_ivl.saturating_mul(3),
            filter: Filter { limit: settings.refresh_limit, interval: settings.setup_ivl },
            states: BTreeMap::new(),
            out: VecDeque::new(),
            events: Events::default(),
        })
    }

    /// Handles SETUP and SPM: notes the interface towards the source, and names this router to the nodes below.
    /// Returns false if the packet passes unchanged.
    fn on_way(
        &mut self,
        now: Time,
        datagram: &Received<'_>,
        (association, group): (AssociationId, GroupId),
        previous: &mut Option<IpAddr>,
    ) -> bool {
        let (source, port) = (datagram.source, datagram.ingress);
        let Some(address) = self.address else { return false };
        let neighbour = previous.map_or(Some(source), |address| self.addresses.node_at(address));
        let Some(neighbour) = neighbour else { return false };
        if self.states.len() >= self.max_states && !self.states.contains_key(&association) {
            self.states.retain(|_, state| now < state.until);
        }
        let replier = match self.states.get(&association) {
            // A replier behind the new upstream interface is outside of this subtree.
            Some(state) if (state.source, state.group) == (source, group) => {
                state.replier.filter(|replier| replier.port != port || replier.neighbour == neighbour)
            }
            // Another session has drawn the same number: this router does not serve it.
            Some(state) if now < state.until => return false,
            None if self.states.len() >= self.max_states => return false,
            _ => None,
        };
        let is_first = previous.replace(address).is_none();
        let until = now + self.lifetime;
        let updates = self.states.remove(&association).map(|state| state.updates).unwrap_or_default();
        let state =
            SourceState { source, group, upstream: (port, neighbour), is_first, until, replier, updates };
        self.states.insert(association, state);
        true
    }

    /// Handles SRC_REFRESH: the upstream interface becomes the replier if the source is nearer and no more expensive.
    /// A router without a replier ignores it, because its requests go up anyway. Returns false if the packet passes
    /// unchanged.
    fn on_src_refresh(
        &mut self,
        now: Time,
        datagram: &Received<'_>,
        association: AssociationId,
        offer: &mut Offer,
    ) -> bool {
        let (port, until) = (datagram.ingress, now + self.lifetime);
        let state = self.states.get_mut(&association);
        let Some(state) = state.filter(|state| state.source == datagram.source && state.upstream.0 == port)
        else {
            return false;
        };
        offer.hops = offer.hops.saturating_add(1);
        let is_better = state.replier(now).is_some_and(|replier| {
            replier.port == port || replier.offer.cost >= offer.cost && replier.offer.hops > offer.hops
        });
        if is_better {
            state.replier = Some(Replier { port, neighbour: state.upstream.1, offer: *offer, until });
        }
        true
    }

    /// Queues a packet, padded to the length of the packet that it replaces.
    fn send(&mut self, dest: Dest, association: AssociationId, packet: Packet<'_>, len: usize) {
        if self.out.len() >= MAX_QUEUED_DATAGRAMS {
            return self.events.dropped(DropReason::BufferFull);
        }
        let control = |packet, message| Some(Event::ControlSent { packet, message: MessageId(message) });
        let event = match packet {
            Packet::Req(request) => control("req", request.lo.into()),
            Packet::Refresh(_) => control("refresh", 0),
            Packet::Leave => control("leave", 0),
            // The replier or the source has recorded the repair.
            _ => None,
        };
        self.out.push_back((Transmit::now(dest), padded(association, packet, len), event));
    }
}

impl SourceState {
    /// Present replier, unless its offer has expired.
    fn replier(&self, now: Time) -> Option<Replier> {
        self.replier.filter(|replier| now < replier.until)
    }

    /// Forwards a packet upwards. The first router forwards nothing, because the source needs no offers.
    fn up<'a>(&self, packet: Packet<'a>) -> Option<(Dest, Packet<'a>)> {
        (!self.is_first).then_some((Dest::Node(self.upstream.1), packet))
    }

    /// Handles REFRESH, the offer of a replier below. An equally good offer does not replace the present replier, so
    /// the earliest of equal offers stays.
    fn on_refresh(
        &mut self,
        now: Time,
        (until, filter): (Time, Filter),
        datagram: &Received<'_>,
        mut offer: Offer,
    ) -> Onward<'static> {
        let (port, neighbour) = (datagram.ingress, datagram.source);
        if port == self.upstream.0 {
            return Err(DropReason::OutOfWindow);
        }
        if self.replier(now).is_some_and(|other| other.port != port && other.offer.cost <= offer.cost) {
            return Err(DropReason::Redundant);
        }
        if !filter.passes(now, self.updates.entry(port).or_insert((now, 0))) {
            return Err(DropReason::OutOfWindow);
        }
        offer.hops = offer.hops.saturating_add(1);
        self.replier = Some(Replier { port, neighbour, offer, until });
        Ok(self.up(Packet::Refresh(offer)))
    }

    /// Handles LEAVE: the place stays empty until the next REFRESH.
    fn on_leave(&mut self, datagram: &Received<'_>) -> Onward<'static> {
        let gone = self.replier.take_if(|replier| replier.port == datagram.ingress);
        gone.map(|_| self.up(Packet::Leave)).ok_or(DropReason::Redundant)
    }

    /// Handles REQ: forwards it up if it arrives from the replier, else to the replier. In that case this router
    /// becomes the turning point, unless the request has one.
    fn on_req(
        &self,
        now: Time,
        address: Option<IpAddr>,
        datagram: &Received<'_>,
        mut request: Request,
    ) -> Onward<'static> {
        let (address, interface) = (address.ok_or(DropReason::Foreign)?, datagram.ingress);
        request.hops_left = request.hops_left.checked_sub(1).ok_or(DropReason::OutOfWindow)?;
        let replier = self.replier(now);
        let mut next = self.upstream.1;
        if replier.is_none_or(|replier| replier.port != interface) {
            if interface != self.upstream.0 {
                request.turning_point.get_or_insert(TurningPoint { address, interface });
            }
            match replier {
                // On a further attempt the request passes this replier, which did not help.
                Some(_) if request.past > 0 => request.past -= 1,
                Some(replier) if replier.neighbour != datagram.source => next = replier.neighbour,
                _ => {}
            }
        }
        Ok(Some((Dest::Node(next), Packet::Req(request))))
    }

    /// Handles DMCAST: multicasts the repair on the named interface with the source's address.
    fn on_dmcast<'a>(&self, interface: PortId, data: Data<'a>) -> Onward<'a> {
        if interface == self.upstream.0 {
            return Err(DropReason::OutOfWindow);
        }
        let dest = Dest::group_behind(PortSet::from_iter([interface]), self.source, self.group);
        Ok(Some((dest, Packet::Repair(data))))
    }
}

impl Machine for LmsRelay {
    fn events(&mut self) -> Option<&mut Events> {
        Some(&mut self.events)
    }

    fn report_states(&self, now: Time, tell: &mut dyn FnMut(ObservedState)) {
        for (association, kept) in &self.states {
            let replier = kept.replier(now);
            let state = match replier {
                None => "NoReplier",
                Some(replier) if replier.port == kept.upstream.0 => "Upstream",
                Some(_) => "Replier",
            };
            let turn = replier.map_or(0, |replier| replier.until.as_nanos());
            tell(ObservedState { of: STATES[0].of, about: association.0.into(), state, turn });
        }
    }

    fn handle_datagram(&mut self, now: Time, datagram: Received<'_>) {
        let Ok((association, packet)) = Packet::parse(datagram.bytes) else {
            return self.events.dropped(DropReason::Malformed);
        };
        let Some(state) = self.states.get_mut(&association) else {
            return self.events.dropped(DropReason::Foreign);
        };
        let onward = match packet {
            Packet::Req(request) => state.on_req(now, self.address, &datagram, request),
            Packet::Dmcast { interface, data } => state.on_dmcast(interface, data),
            Packet::Refresh(offer) => {
                state.on_refresh(now, (now + self.lifetime, self.filter), &datagram, offer)
            }
            Packet::Leave => state.on_leave(&datagram),
            _ => Err(DropReason::Foreign),
        };
        match onward {
            Ok(Some((dest, packet))) => self.send(dest, association, packet, datagram.bytes.len()),
            Ok(None) => {}
            Err(reason) => self.events.dropped(reason),
        }
    }

    fn poll_transmit(&mut self, _now: Time, buf: &mut Vec<u8>) -> Option<Transmit> {
        let (transmit, bytes, event) = self.out.pop_front()?;
        buf.extend_from_slice(&bytes);
        if let Some(event) = event {
            self.events.push(event);
        }
        Some(transmit)
    }

    /// Number of sources with state.
    fn held(&self) -> Option<u64> {
        Some(self.states.len() as u64)
    }

    fn as_relay(&mut self) -> Option<&mut dyn Relay> {
        Some(self)
    }
}

impl Relay for LmsRelay {
    /// Handles a packet in transit: only SETUP, SPM and SRC_REFRESH are examined, messages pass unread.
    fn handle_transit(&mut self, now: Time, datagram: Received<'_>) -> Verdict {
        let Dest::Group { group, .. } = *datagram.destination else { return Verdict::Forward };
        let shows_way = matches!(
            packet_type_of(datagram.bytes),
            Some(packet_type::SETUP | packet_type::SPM | packet_type::SRC_REFRESH)
        );
        if !shows_way {
            return Verdict::Forward;
        }
        let Ok((association, mut packet)) = Packet::parse(datagram.bytes) else { return Verdict::Forward };
        let is_changed = match &mut packet {
            Packet::Setup { previous, .. } | Packet::Spm { previous, .. } => {
                self.on_way(now, &datagram, (association, group), previous)
            }
            Packet::SrcRefresh(offer) => self.on_src_refresh(now, &datagram, association, offer),
            _ => false,
        };
        match is_changed {
            true => Verdict::ForwardAs(padded(association, packet, datagram.bytes.len()).into()),
            false => Verdict::Forward,
        }
    }
}

/// Maximum number of datagrams that wait for the interface; it bounds the memory.
const MAX_QUEUED_DATAGRAMS: usize = 1024;
