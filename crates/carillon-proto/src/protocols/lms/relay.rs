//! The router: bends requests to repliers, and repairs into branches.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use carillon_core::Addresses;
use carillon_core::{
    AssociationId, BuildContext, Config, ConfigError, Dest, DropReason, Event, Events, GroupId, InState,
    Machine, MessageId, NodeId, PortId, PortSet, Received, Relay, Time, Transmit, Verdict,
};
use carillon_wire::lms::{Offer, Packet, Request, TurningPoint, packet_type, packet_type_of};

use super::config::Settings;
use super::describe::DESCRIBED;
use super::pad;

/// A router that speaks LMS, for all sources whose SETUP passes it. It has no timers: age is looked at when it matters.
#[derive(Debug)]
pub struct LmsRelay {
    addresses: Addresses,
    /// Its own.
    address: Option<IpAddr>,
    /// Sources it keeps state for.
    most: usize,
    lifetime: Duration,
    states: BTreeMap<AssociationId, State>,
    out: VecDeque<(Transmit, Vec<u8>, Option<Event>)>,
    events: Events,
}

/// What it keeps for a source and its group: so much, however many receivers there are.
#[derive(Debug)]
struct State {
    source: NodeId,
    group: GroupId,
    /// The interface to the source, and the LMS router there or the source.
    upstream: (PortId, NodeId),
    /// There is no LMS router up to the source.
    is_first: bool,
    /// When the way up was last seen.
    seen: Time,
    replier: Option<Replier>,
}

/// The replier of what lies below.
#[derive(Clone, Copy, Debug)]
struct Replier {
    /// The interface behind which it is.
    port: PortId,
    /// The next LMS router on the way to it, or itself.
    neighbour: NodeId,
    cost: u32,
    hops: u16,
    /// When it was last offered.
    refreshed: Time,
}

impl LmsRelay {
    /// A router that knows nothing yet.
    pub fn new(context: &BuildContext, config: &Config) -> Result<Self, ConfigError> {
        let settings = Settings::new(context, config)?;
        Ok(LmsRelay {
            address: context.addresses.of_node(context.node),
            addresses: context.addresses.clone(),
            most: settings.sources,
            lifetime: settings.lifetime(),
            states: BTreeMap::new(),
            out: VecDeque::new(),
            events: Events::default(),
        })
    }

    /// The state of a session for what comes from its source; a new one if there is room.
    fn state(
        &mut self,
        now: Time,
        association: AssociationId,
        source: NodeId,
        group: GroupId,
        upstream: (PortId, NodeId),
    ) -> Option<&mut State> {
        let lifetime = self.lifetime;
        let is_over = |state: &State| now >= state.seen + lifetime;
        let is_taken = match self.states.get(&association) {
            Some(state) if state.source == source && state.group == group => true,
            // Another session that has drawn the same number: this router is not for it.
            Some(state) if !is_over(state) => return None,
            Some(_) => false,
            None if self.states.len() < self.most => false,
            None => {
                self.states.retain(|_, state| !is_over(state));
                if self.states.len() >= self.most {
                    return None;
                }
                false
            }
        };
        if !is_taken {
            let state = State { source, group, upstream, is_first: false, seen: now, replier: None };
            self.states.insert(association, state);
        }
        self.states.get_mut(&association)
    }

    /// SETUP and SPM: notes the way up, and names itself to those below.
    fn on_way(
        &mut self,
        now: Time,
        datagram: &Received<'_>,
        association: AssociationId,
        packet: Packet<'_>,
    ) -> Verdict {
        let (Packet::Setup { previous, .. } | Packet::Spm { previous, .. }) = packet else {
            return Verdict::Forward;
        };
        let (Dest::Group { group, .. }, Some(address)) = (datagram.destination, self.address) else {
            return Verdict::Forward;
        };
        let neighbour = match previous {
            None => Some(datagram.source),
            Some(address) => self.addresses.node_at(address),
        };
        let Some(neighbour) = neighbour else { return Verdict::Forward };
        let upstream = (datagram.ingress, neighbour);
        let Some(state) = self.state(now, association, datagram.source, *group, upstream) else {
            return Verdict::Forward;
        };
        state.upstream = upstream;
        state.is_first = previous.is_none();
        state.seen = now;
        // A replier behind what is now the way up is none of this subtree any more.
        state.replier.take_if(|replier| replier.port == datagram.ingress && replier.neighbour != neighbour);
        let previous = Some(address);
        let rewritten = match packet {
            Packet::Setup { progress, timestamp, .. } => Packet::Setup { previous, progress, timestamp },
            Packet::Spm { progress, .. } => Packet::Spm { previous, progress },
            other => other,
        };
        forward_as(association, rewritten, datagram.bytes.len())
    }

    /// SRC_REFRESH: the way up is the replier if that is nearer and as good. A router without a
    /// replier has nobody below who could be helped: its requests go up anyway.
    fn on_src_refresh(
        &mut self,
        now: Time,
        datagram: &Received<'_>,
        association: AssociationId,
        offer: Offer,
    ) -> Verdict {
        let lifetime = self.lifetime;
        let Some(state) = self.states.get_mut(&association) else { return Verdict::Forward };
        if state.source != datagram.source || state.upstream.0 != datagram.ingress {
            return Verdict::Forward;
        }
        let (port, neighbour) = state.upstream;
        let Offer { cost, hops } = Offer { hops: offer.hops.saturating_add(1), ..offer };
        let is_better = state
            .replier(now, lifetime)
            .is_some_and(|replier| replier.port == port || replier.cost >= cost && replier.hops > hops);
        if is_better {
            state.replier = Some(Replier { port, neighbour, cost, hops, refreshed: now });
        }
        forward_as(association, Packet::SrcRefresh(Offer { cost, hops }), datagram.bytes.len())
    }

    /// REFRESH: a replier below. One that is as good as the present one does not replace it, so
    /// that of equals the nearest in time stays.
    fn on_refresh(&mut self, now: Time, datagram: &Received<'_>, association: AssociationId, offer: Offer) {
        let lifetime = self.lifetime;
        let Some(state) = self.states.get_mut(&association) else {
            return self.events.dropped(DropReason::Foreign);
        };
        if datagram.ingress == state.upstream.0 {
            return self.events.dropped(DropReason::OutOfWindow);
        }
        let Offer { cost, hops } = Offer { hops: offer.hops.saturating_add(1), ..offer };
        let is_taken = state
            .replier(now, lifetime)
            .is_none_or(|replier| replier.port == datagram.ingress || cost < replier.cost);
        if !is_taken {
            return self.events.dropped(DropReason::Redundant);
        }
        state.replier =
            Some(Replier { port: datagram.ingress, neighbour: datagram.source, cost, hops, refreshed: now });
        // The source is its own router's replier.
        if !state.is_first {
            let dest = Dest::Node(state.upstream.1);
            self.send(dest, association, Packet::Refresh(Offer { cost, hops }), datagram.bytes.len());
        }
    }

    /// LEAVE: nobody takes the place before the next REFRESH.
    fn on_leave(&mut self, datagram: &Received<'_>, association: AssociationId) {
        let Some(state) = self.states.get_mut(&association) else {
            return self.events.dropped(DropReason::Foreign);
        };
        if state.replier.take_if(|replier| replier.port == datagram.ingress).is_none() {
            return self.events.dropped(DropReason::Redundant);
        }
        if !state.is_first {
            let dest = Dest::Node(state.upstream.1);
            self.send(dest, association, Packet::Leave, datagram.bytes.len());
        }
    }

    /// REQ: up if it comes from the replier, else to it, and this is the turning point if it has none
    /// yet.
    fn on_req(
        &mut self,
        now: Time,
        datagram: &Received<'_>,
        association: AssociationId,
        mut request: Request,
    ) {
        let lifetime = self.lifetime;
        let (Some(state), Some(address)) = (self.states.get(&association), self.address) else {
            return self.events.dropped(DropReason::Foreign);
        };
        let Some(hops_left) = request.hops_left.checked_sub(1) else {
            return self.events.dropped(DropReason::OutOfWindow);
        };
        request.hops_left = hops_left;
        let ingress = datagram.ingress;
        let replier = state.replier(now, lifetime);
        let mut next = state.upstream.1;
        if replier.is_none_or(|replier| replier.port != ingress) {
            if ingress != state.upstream.0 {
                request.turning_point.get_or_insert(TurningPoint { address, interface: ingress });
            }
            match replier {
                // Another attempt: this replier did not help.
                Some(_) if request.past > 0 => request.past -= 1,
                Some(replier) if replier.neighbour != datagram.source => next = replier.neighbour,
                _ => {}
            }
        }
        self.send(Dest::Node(next), association, Packet::Req(request), datagram.bytes.len());
    }

    /// DMCAST: into the branch that it names, as if the source had sent it.
    fn on_dmcast(&mut self, association: AssociationId, packet: Packet<'_>) {
        let Packet::Dmcast { interface, data } = packet else { return };
        let Some(state) = self.states.get(&association) else {
            return self.events.dropped(DropReason::Foreign);
        };
        if interface == state.upstream.0 {
            return self.events.dropped(DropReason::OutOfWindow);
        }
        let dest = Dest::group_behind(PortSet::from_iter([interface]), state.source, state.group);
        self.send(dest, association, Packet::Repair(data), 0);
    }

    fn send(&mut self, dest: Dest, association: AssociationId, packet: Packet<'_>, len: usize) {
        if self.out.len() >= MAX_OUT {
            return self.events.dropped(DropReason::BufferFull);
        }
        let mut bytes = Vec::with_capacity(packet.wire_len().max(len));
        packet.emit(association, &mut bytes);
        pad(&mut bytes, len);
        let control = |packet, message| Some(Event::ControlSent { packet, message: MessageId(message) });
        let event = match packet {
            Packet::Req(request) => control("req", request.lo.into()),
            Packet::Refresh(_) => control("refresh", 0),
            Packet::Leave => control("leave", 0),
            // The replier or the source has said that it repairs.
            _ => None,
        };
        self.out.push_back((Transmit::now(dest), bytes, event));
    }
}

impl State {
    /// The replier, if it was refreshed lately.
    fn replier(&self, now: Time, lifetime: Duration) -> Option<Replier> {
        self.replier.filter(|replier| now < replier.refreshed + lifetime)
    }
}

/// Goes on as another packet, as long as it was.
fn forward_as(association: AssociationId, packet: Packet<'_>, len: usize) -> Verdict {
    let mut bytes = Vec::with_capacity(len);
    packet.emit(association, &mut bytes);
    pad(&mut bytes, len);
    Verdict::ForwardAs(Bytes::from(bytes))
}

impl Machine for LmsRelay {
    fn events(&mut self) -> Option<&mut Events> {
        Some(&mut self.events)
    }

    fn tell_states(&self, now: Time, tell: &mut dyn FnMut(InState)) {
        for (association, kept) in &self.states {
            let (state, turn) = match kept.replier(now, self.lifetime) {
                None => ("NoReplier", 0),
                Some(replier) if replier.port == kept.upstream.0 => {
                    ("Upstream", replier.refreshed.as_nanos())
                }
                Some(replier) => ("Replier", replier.refreshed.as_nanos()),
            };
            tell(InState { of: DESCRIBED.states[0].of, about: association.0.into(), state, turn });
        }
    }

    fn handle_datagram(&mut self, now: Time, datagram: Received<'_>) {
        match Packet::parse(datagram.bytes) {
            Err(_) => self.events.dropped(DropReason::Malformed),
            Ok((association, packet)) => match packet {
                Packet::Req(request) => self.on_req(now, &datagram, association, request),
                Packet::Dmcast { .. } => self.on_dmcast(association, packet),
                Packet::Refresh(offer) => self.on_refresh(now, &datagram, association, offer),
                Packet::Leave => self.on_leave(&datagram, association),
                _ => self.events.dropped(DropReason::Foreign),
            },
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

    fn as_relay(&mut self) -> Option<&mut dyn Relay> {
        Some(self)
    }
}

impl Relay for LmsRelay {
    /// Of what passes only the packets that show the way are looked at; messages are not.
    fn handle_transit(&mut self, now: Time, datagram: Received<'_>) -> Verdict {
        let is_to_group = matches!(datagram.destination, Dest::Group { .. });
        let shows_way = matches!(
            packet_type_of(datagram.bytes),
            Some(packet_type::SETUP | packet_type::SPM | packet_type::SRC_REFRESH)
        );
        if !is_to_group || !shows_way {
            return Verdict::Forward;
        }
        match Packet::parse(datagram.bytes) {
            Err(_) => Verdict::Forward,
            Ok((association, Packet::SrcRefresh(offer))) => {
                self.on_src_refresh(now, &datagram, association, offer)
            }
            Ok((association, packet)) => self.on_way(now, &datagram, association, packet),
        }
    }
}

/// Datagrams that may wait for the interface.
const MAX_OUT: usize = 1024;
