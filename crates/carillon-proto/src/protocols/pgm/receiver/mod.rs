//! The PGM receiver (RFC 3208, section 6): ordered delivery and NAKs for missing packets.

mod assembly;
mod feedback;
mod groups;
mod parity;
mod repairer;
mod repairing;
mod reporting;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use carillon_core::{
    Addresses, BuildContext, Config, ConfigError, Dest, DropReason, Event, MessageId, NodeId, ObservedState,
    Received, Role, Time, Transmit,
};
use carillon_wire::pgm::{Body, Data, Nak, NakList, Options, Packet, Poll, Spm, Tsi};

use super::config::interval;
use super::identity::{
    address_of, destination_port, is_newer, is_of_session, list_of, node_on_path, numbers, parse, tsi,
};
use super::states::STATES;
use crate::blocks::{
    ConfirmedRequests, FeedbackDelay, MachineContext, Part, Player, Reception, RequestSchedule, Stage, Tries,
    Uniform, Waits, near, wire,
};
use assembly::{Assembly, Piece};
use feedback::Feedback;
use groups::Groups;
use repairer::Repairer;

/// Delivers packets in order and requests missing ones.
#[derive(Debug)]
pub struct PgmReceiver {
    tsi: Tsi,
    destination_port: u16,
    node: NodeId,
    addresses: Addresses,
    rxw_sqns: u64,
    nak_list: u8,
    /// Destination of NAKs; `None` before the first SPM.
    upstream: Option<Upstream>,
    spm_sqn: u32,
    /// Sequence number up to which every packet was received or is known to be missing.
    tracked: u64,
    /// Number after the last packet known to exist; `None` before any packet or SPM.
    known: Option<u64>,
    /// Trailing edge of the transmit window (TXW_TRAIL).
    trail: u64,
    /// State until the first SPM.
    beginning: Option<Box<Beginning>>,
    /// Receive window from the next packet to deliver; `None` marks a lost packet.
    early: Reception<Option<Piece>>,
    /// Message of which the first fragments were delivered.
    assembly: Assembly,
    missing: ConfirmedRequests,
    /// Transmission groups, if the source offers parity.
    groups: Option<Box<Groups>>,
    /// Feedback to a source with congestion control.
    feedback: Option<Box<Feedback>>,
    /// Repairer role, if the receiver is a designated local repairer.
    repairer: Option<Box<Repairer>>,
}

/// Upstream node and source address for NAKs.
#[derive(Clone, Copy, Debug)]
struct Upstream {
    node: NodeId,
    /// Source address named in NAKs.
    source: IpAddr,
}

/// State of a receiver until the first SPM, which tells it the window.
#[derive(Debug)]
struct Beginning {
    /// Packets received, when the start of the window is unknown.
    packets: BTreeMap<u64, Piece>,
    request: SpmRequest,
    /// Waits and tries of requests for parity, in case the source offers it.
    parity: Option<(Waits, Tries)>,
}

/// Back-off of SPM requests (SPMR), sent when data arrives before an SPM.
#[derive(Debug)]
struct SpmRequest {
    back_off: Uniform,
    retry_interval: Duration,
    last_sent: Option<Time>,
    request: RequestSchedule<()>,
}

impl PgmReceiver {
    /// Creates the receiver of a session.
    pub fn new(build: &BuildContext, settings: &Config) -> Result<Player<Self>, ConfigError> {
        PgmReceiver::with_tsi(tsi(build.association), build, settings)
    }

    /// Creates the receiver of a source that has this identity on the wire.
    pub(in super::super) fn with_tsi(
        tsi: Tsi,
        build: &BuildContext,
        settings: &Config,
    ) -> Result<Player<Self>, ConfigError> {
        let span = |name| settings.span(name).at(build.bit_rate);
        let interval = |name| interval(settings, build.bit_rate, name);
        let back_off = |most, stream| Uniform::new(most, &build.seeds, stream);
        let (ncf, data) = (interval("nak_rpt_ivl")?, interval("nak_rdata_ivl")?);
        let waits = |stream| Waits { back_off: back_off(span("nak_bo_ivl"), stream), ncf, data };
        let tries = Tries {
            unconfirmed: settings.count("nak_ncf_retries") as u32,
            unrepaired: settings.count("nak_data_retries") as u32,
        };
        let every = settings.count("dlr_every");
        let repairs = build.rank().is_some_and(|rank| every > 0 && (rank as u64).is_multiple_of(every));
        let held = build.max_messages(settings.count("dlr_sqns")) as usize;
        Ok(PgmReceiver {
            repairer: repairs.then(|| Box::new(Repairer::new(held, &build.seeds))),
            tsi,
            destination_port: destination_port(settings)?,
            node: build.node,
            addresses: build.addresses.clone(),
            rxw_sqns: build.max_messages(settings.count("rxw_sqns")),
            nak_list: settings.count("nak_list") as u8,
            upstream: None,
            spm_sqn: 0,
            tracked: 0,
            known: None,
            trail: 0,
            beginning: Some(Box::new(Beginning {
                packets: BTreeMap::new(),
                request: SpmRequest {
                    back_off: back_off(interval("spmr_bo_ivl")?, "pgm.spmr"),
                    retry_interval: interval("spmr_spm_ivl")?,
                    last_sent: None,
                    request: RequestSchedule::new(Tries::UNLIMITED),
                },
                // Other programs mean other parity by the flags of their SPMs.
                parity: is_of_session(tsi).then(|| (waits("pgm.parity_back_off"), tries)),
            })),
            early: Reception::default(),
            assembly: Assembly::default(),
            missing: ConfirmedRequests::new(waits("pgm.nak_back_off"), tries),
            groups: None,
            feedback: None,
        }
        .play(build))
    }

    /// Expands a 32-bit sequence number to 64 bits, nearest to the newest known one.
    fn expand(&self, sqn: u32) -> u64 {
        self.known.map_or(sqn.into(), |known| near(sqn, known))
    }

    /// Handles an SPM (section 6.2): updates the upstream node and the transmit window.
    fn on_spm(&mut self, context: &mut MachineContext, from: NodeId, spm: Spm, options: Options<'_>) {
        if self.upstream.is_some() && !is_newer(spm.sqn, self.spm_sqn) {
            return context.events.dropped(DropReason::Redundant);
        }
        // An SPM without a window, or with OPT_NBR_UNREACH, only refreshes the sequence number (9.8.1).
        let has_window = (spm.trail, spm.lead) != Spm::NO_WINDOW && !options.neighbour_unreachable;
        let window = self.window_of(spm);
        if has_window && window.is_none() {
            return context.events.dropped(DropReason::Malformed);
        }
        let lead = self.expand(spm.lead);
        context.events.received("spm", lead);
        self.spm_sqn = spm.sqn;
        let Some((trail, end)) = window.filter(|_| has_window) else { return };
        let node = node_on_path(&self.addresses, spm.path, from, self.node);
        let source =
            if node == context.sender { spm.path } else { address_of(&self.addresses, context.sender) };
        self.upstream = Some(Upstream { node, source });
        if let Some(beginning) = self.beginning.take() {
            let Beginning { packets, parity, .. } = *beginning;
            self.accept_parity(&options, parity);
            self.synchronise(packets, trail, end, options.join);
        }
        // The leading edge reveals tail losses, and the trailing edge ends hopeless recoveries (section 6.3).
        self.known = self.known.max(Some(end));
        self.on_trail(context, trail);
        self.advance(context);
        self.judge_losses(context, end, end);
        // OPT_RST with the N bit: no repair will come, so everything missing is lost.
        if options.reset.is_some_and(|flags| flags & RESET_NO_NAKS != 0) {
            self.declare_lost_before(context, self.tracked);
            self.deliver_in_order(context);
        }
    }

    /// First sequence number beyond the receive window.
    fn limit(&self) -> u64 {
        self.early.expected().saturating_add(self.rxw_sqns)
    }

    /// Window that an SPM announces: trailing edge, and one past the leading edge. `None` if they contradict each
    /// other.
    fn window_of(&self, spm: Spm) -> Option<(u64, u64)> {
        let end = near(spm.lead.wrapping_add(1), self.known.unwrap_or(spm.trail.into()));
        let trail = near(spm.trail, end);
        (trail <= end).then_some((trail, end))
    }

    /// Chooses the start of reception at the first SPM, from early data and OPT_JOIN (section 6.1).
    fn synchronise(&mut self, packets: BTreeMap<u64, Piece>, trail: u64, end: u64, join: Option<u32>) {
        let earliest = packets.first_key_value().map(|(&number, _)| number);
        let start = match join {
            Some(minimum) => near(minimum, end).clamp(trail, end),
            None => earliest.unwrap_or(end),
        };
        // Data received before the SPM proves that the window reached back that far.
        let start = earliest.map_or(start, |earliest| start.min(earliest));
        (self.tracked, self.trail) = (start, start);
        self.early = Reception::starting_at(start);
        let end = start.saturating_add(self.rxw_sqns);
        for (number, piece) in packets.into_iter().take_while(|(number, _)| *number < end) {
            self.keep_symbol(number, &piece);
            self.early.insert(number, Some(piece));
        }
    }

    /// Advances the trailing edge (section 6.3): missing packets behind it are lost.
    fn on_trail(&mut self, context: &mut MachineContext, trail: u64) {
        if trail <= self.trail {
            return;
        }
        self.trail = trail;
        if trail <= self.early.expected() {
            return;
        }
        self.declare_lost_before(context, trail.min(self.tracked));
        // After a jump far beyond the window, report a bounded number of losses.
        for number in self.tracked..trail.min(self.tracked.saturating_add(self.rxw_sqns)) {
            context.events.loss_found(context.sender, number);
            context.events.loss_final(context.sender, MessageId(number));
        }
        for (number, piece) in self.early.skip_to(trail) {
            self.deliver(context, number, piece);
        }
        self.tracked = self.tracked.max(trail);
        self.advance_groups(context);
    }

    fn declare_lost_before(&mut self, context: &mut MachineContext, limit: u64) {
        for number in self.groups.as_mut().map(|groups| groups.lose_before(limit)).unwrap_or_default() {
            self.declare_lost(context, number);
        }
        while let Some(number) = self.missing.first_before(limit) {
            self.missing.remove(number);
            self.declare_lost(context, number);
        }
    }

    /// Declares a packet lost and stops its requests.
    fn declare_lost(&mut self, context: &mut MachineContext, number: u64) {
        self.early.insert(number, None);
        context.events.loss_final(context.sender, MessageId(number));
    }

    /// Delivers packets in order, and starts NAKs for gaps up to the newest known packet.
    fn advance(&mut self, context: &mut MachineContext) {
        if self.upstream.is_none() {
            return;
        }
        self.deliver_in_order(context);
        // Request only packets that fit the receive window.
        let limit = self.known.unwrap_or(0).min(self.limit());
        if limit <= self.tracked {
            return;
        }
        let missing = self.early.missing(self.tracked..limit);
        let found = missing.inspect(|&number| context.events.loss_found(context.sender, number));
        match &mut self.groups {
            Some(groups) => groups.miss(found),
            None => self.missing.add(context.now, found),
        }
        self.tracked = limit;
    }

    fn deliver_in_order(&mut self, context: &mut MachineContext) {
        while let Some((number, piece)) = self.early.pop() {
            self.deliver(context, number, piece);
        }
        self.tracked = self.tracked.max(self.early.expected());
    }

    /// Delivers a packet, or the message that it completes. `None` is a lost packet.
    fn deliver(&mut self, context: &mut MachineContext, number: u64, piece: Option<Piece>) {
        if let Some((number, message)) = self.assembly.add(number, piece) {
            context.deliver_sent(number, message);
        }
    }

    /// Handles ODATA or RDATA.
    fn on_data(&mut self, context: &mut MachineContext, data: Data<'_>, piece: Piece, is_repair: bool) {
        let number = self.expand(data.sqn);
        let message = MessageId(number);
        // Before the first SPM the destination of NAKs is unknown (section 6.5): keep the data and ask for an SPM.
        if self.upstream.is_none() {
            self.known = self.known.max(Some(number + 1));
            self.request_spm(context);
        } else {
            let trail = near(data.trail, number);
            if trail > number {
                return context.events.dropped(DropReason::Malformed);
            }
            self.known = self.known.max(Some(number + 1));
            self.on_trail(context, trail);
            // A lost packet that arrives late after all is out of the window, not a duplicate.
            let is_present = matches!(self.early.get(number), Some(Some(_)));
            if number < self.early.expected() || is_present {
                context.events.dropped(DropReason::Duplicate);
                return self.advance(context);
            }
            if number >= self.limit() || self.early.has(number) {
                context.events.dropped(DropReason::OutOfWindow);
                return self.advance(context);
            }
        }
        if self.is_full(context) {
            // The application is too slow: treat the packet as lost and request it later.
            context.events.dropped(DropReason::BufferFull);
            return self.advance(context);
        }
        context.events.received(if is_repair { "rdata" } else { "odata" }, message);
        if let Some(repairer) = &mut self.repairer {
            repairer.hold(number, piece.payload.clone());
        }
        let was_missing = self.missing.remove(number) | self.remove_awaited(number);
        if was_missing && is_repair {
            context.events.push(Event::LossRepaired { source: context.sender, message });
        }
        match &mut self.beginning {
            None => {
                self.keep_symbol(number, &piece);
                self.early.insert(number, Some(piece));
            }
            Some(beginning) => drop(beginning.packets.insert(number, piece)),
        }
        self.advance(context);
        if self.upstream.is_some() {
            self.on_group_data(context, number);
        }
    }

    /// Returns true if no more packets may be kept, since the application is too slow.
    fn is_full(&self, context: &MachineContext) -> bool {
        self.kept() + context.waiting() as u64 >= self.rxw_sqns
    }

    /// Number of packets kept.
    fn kept(&self) -> u64 {
        let symbols = self.groups.as_ref().map_or(0, |groups| groups.held());
        let before_spm = self.beginning.as_ref().map_or(0, |beginning| beginning.packets.len());
        (self.early.len() + before_spm) as u64 + symbols
    }

    /// Handles an NCF (section 6.4): suppresses the receiver's own NAKs for its packets.
    fn on_ncf(&mut self, context: &mut MachineContext, nak: Nak, list: NakList<'_>) {
        context.events.received("ncf", self.expand(nak.sqn));
        if self.upstream.is_none() {
            return;
        }
        for number in self.numbers(nak, list) {
            self.learn_of(context, number);
            if self.missing.on_confirmed(context.now, number) == Some(true) {
                context.events.push(Event::RequestSuppressed { message: MessageId(number) });
            }
        }
    }

    /// Learns that a packet exists because another receiver requested it (section 6.3).
    fn learn_of(&mut self, context: &mut MachineContext, number: u64) {
        if number >= self.tracked && number < self.limit() {
            self.known = self.known.max(Some(number + 1));
            self.advance(context);
        }
    }

    /// Handles a NAK that the parent redirects to this repairer. Repairs held packets, and requests missing ones at
    /// once, which tells the parent to ask elsewhere.
    fn on_redirected_nak(&mut self, context: &mut MachineContext, from: NodeId, nak: Nak, list: NakList<'_>) {
        let numbers = self.numbers(nak, list);
        let is_parent = self.upstream.is_some_and(|upstream| upstream.node == from);
        let Some(repairer) = self.repairer.as_mut().filter(|_| is_parent) else {
            return context.events.dropped(DropReason::Foreign);
        };
        context.events.received("nak", numbers[0]);
        let trail = self.trail;
        let missing: Vec<u64> =
            numbers.into_iter().filter(|&number| !repairer.on_request(number, trail)).collect();
        for number in missing {
            self.learn_of(context, number);
            self.missing.end_back_off(context.now, number);
        }
    }

    /// Handles a POLL: a repairer answers its own parent, unless that is the source, below which it could help no
    /// receiver.
    fn on_poll(&mut self, context: &mut MachineContext, poll: Poll) {
        context.events.received("poll", poll.sqn);
        let path = self.addresses.node_at(poll.path);
        let upstream = self.upstream.map(|upstream| upstream.node).filter(|&node| node != context.sender);
        if let Some(repairer) = &mut self.repairer
            && poll.subtype == Poll::REPAIRERS
            && upstream.is_some()
            && upstream == path
        {
            repairer.on_poll(context.now, poll);
        }
    }

    /// Handles the NAK of another receiver (section 6.4), which suppresses the own one.
    fn on_nak(&mut self, context: &mut MachineContext, nak: Nak, list: NakList<'_>) {
        context.events.received("nak", self.expand(nak.sqn));
        for number in self.numbers(nak, list) {
            if self.missing.on_overheard(context.now, number) == Some(true) {
                context.events.push(Event::RequestSuppressed { message: MessageId(number) });
            }
        }
    }

    fn numbers(&self, nak: Nak, list: NakList<'_>) -> Vec<u64> {
        numbers(nak, list).map(|sqn| self.expand(sqn)).collect()
    }

    /// Starts the back-off of an SPMR (section 6.5).
    fn request_spm(&mut self, context: &mut MachineContext) {
        let Some(beginning) = &mut self.beginning else { return };
        let SpmRequest { back_off, retry_interval, last_sent, request } = &mut beginning.request;
        if request.stage(()).is_some() {
            return;
        }
        let moment = Duration::from_nanos(1);
        let wait = match *last_sent {
            Some(last_sent) => (last_sent + *retry_interval).since(context.now).max(moment),
            None => moment + back_off.delay(0, 0.0),
        };
        request.begin(context.now, (), wait, ());
    }

    fn own_address(&self) -> IpAddr {
        address_of(&self.addresses, self.node)
    }

    fn packet<'a>(&self, body: Body<'a>, options: Options<'a>) -> Packet<'a> {
        Packet { tsi: self.tsi, destination_port: self.destination_port, body, options }
    }

    /// Emits one NAK for the oldest due packets, up to `nak_list`.
    fn emit_nak(
        &mut self,
        context: &mut MachineContext,
        upstream: Upstream,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let due = std::iter::from_fn(|| self.missing.next_request(context.now)).take(self.nak_list.into());
        let mut last_sent = due.inspect(|&number| {
            context.events.push(Event::Requested { source: context.sender, message: MessageId(number) });
        });
        let Some(first) = last_sent.next() else {
            drop(last_sent);
            return self.emit_parity_nak(context, upstream, buf);
        };
        let list = list_of(last_sent.map(wire));
        let nak =
            Nak { sqn: wire(first), source: upstream.source, group: self.addresses.of_group(context.group) };
        let options = Options { report: self.report(context.now), ..Options::listing(&list) };
        self.packet(Body::Nak(nak), options).emit(buf);
        context.events.control("nak", first);
        Some(Transmit::now(Dest::Node(upstream.node)))
    }

    fn emit_spm_request(&mut self, context: &mut MachineContext, buf: &mut Vec<u8>) -> Option<Transmit> {
        let due = self.beginning.as_mut().filter(|beginning| beginning.request.request.is_due())?;
        due.request.request.remove(());
        due.request.last_sent = Some(context.now);
        self.packet(Body::Spmr, Options::default()).emit(buf);
        context.events.control("spmr", self.known.unwrap_or(0).saturating_sub(1));
        Some(Transmit::now(Dest::Node(context.sender)))
    }
}

impl Part for PgmReceiver {
    type Timer = ();

    const ROLE: Role = Role::Receiver;

    fn held(&self) -> Option<u64> {
        Some(self.kept())
    }

    fn is_complete(&self) -> bool {
        let is_synchronised = self.upstream.is_some() && self.early.is_empty();
        is_synchronised && self.known.is_none_or(|known| self.early.expected() >= known)
    }

    fn report_states(&self, _context: &MachineContext, tell: &mut dyn FnMut(ObservedState)) {
        let of = STATES[0].of;
        for (about, stage, ends) in self.missing.stages() {
            let turn = ends.map_or(0, Time::as_nanos);
            let (state, turn) = match stage {
                Stage::Asked => ("WaitNcf", turn),
                Stage::Confirmed => ("WaitData", turn),
                _ => ("BackOff", 0),
            };
            tell(ObservedState { of, about, state, turn });
        }
        for about in self.early.expected()..self.early.end() {
            if let Some(None) = self.early.get(about) {
                tell(ObservedState { of, about, state: "Lost", turn: 0 });
            }
        }
    }

    fn handle_datagram(&mut self, context: &mut MachineContext, datagram: Received<'_>) {
        let session = (Some(self.tsi), self.destination_port);
        let Some(packet) = parse(&mut context.events, session, datagram.bytes) else { return };
        let options = packet.options;
        let piece = || Piece {
            payload: datagram.bytes.slice(datagram.bytes.len() - packet.payload().len()..),
            fragment: options.fragment,
        };
        match packet.body {
            Body::Nak(nak) if options.parity => self.on_parity_nak(context, nak, options.nak_list),
            Body::Nak(nak) if self.repairer.is_some() && matches!(datagram.destination, Dest::Node(_)) => {
                self.on_redirected_nak(context, datagram.source, nak, options.nak_list);
            }
            Body::Nak(nak) => self.on_nak(context, nak, options.nak_list),
            // Downstream packets carry the source's address, also when an element forwards them.
            _ if datagram.source != context.sender => context.events.dropped(DropReason::NotAMember),
            Body::Spm(spm) => self.on_spm(context, datagram.source, spm, options),
            Body::Odata(data) | Body::Rdata(data) if options.parity => {
                self.on_parity(context, data, options, piece().payload);
            }
            Body::Ncf(nak) if options.parity => self.on_parity_ncf(context, nak, options.nak_list),
            Body::Odata(data) => {
                if let Some(election) = options.election {
                    self.on_election(context, data.sqn, election);
                }
                self.on_data(context, data, piece(), false);
            }
            Body::Rdata(data) => self.on_data(context, data, piece(), true),
            Body::Ncf(nak) => self.on_ncf(context, nak, options.nak_list),
            Body::Poll(poll) => self.on_poll(context, poll),
            Body::Polr { .. } | Body::Nnak(_) | Body::Spmr | Body::Ack(_) => {
                context.events.dropped(DropReason::Foreign)
            }
        }
    }

    fn handle_timeout(&mut self, context: &mut MachineContext) {
        let given_up = self.missing.expire(context.now);
        if !given_up.is_empty() {
            given_up.into_iter().for_each(|number| self.declare_lost(context, number));
            self.advance(context);
        }
        self.expire_groups(context);
        if let Some(repairer) = &mut self.repairer {
            repairer.on_time(context.now);
        }
        if let Some(beginning) = &mut self.beginning {
            while beginning.request.request.expire(context.now).is_some() {}
        }
        if let Some(feedback) = &mut self.feedback {
            feedback.on_time(context.now);
        }
    }

    fn poll_timeout(&self) -> Option<Time> {
        let answer = self.repairer.as_ref().and_then(|repairer| repairer.next_timeout());
        let request = self.beginning.as_ref().and_then(|beginning| beginning.request.request.next_timeout());
        let parity = self.groups.as_ref().and_then(|groups| groups.requests.next_timeout());
        let proposal = self.feedback.as_ref().and_then(|feedback| feedback.next_timeout());
        [self.missing.next_timeout(), request, answer, parity, proposal].into_iter().flatten().min()
    }

    fn poll_transmit(&mut self, context: &mut MachineContext, buf: &mut Vec<u8>) -> Option<Transmit> {
        match self.upstream {
            Some(upstream) => self
                .emit_task(context, upstream, buf)
                .or_else(|| self.emit_ack(context, upstream, buf))
                .or_else(|| self.emit_nak(context, upstream, buf)),
            None => self.emit_spm_request(context, buf),
        }
    }
}

/// The N bit of OPT_RST: the source repairs nothing more.
const RESET_NO_NAKS: u8 = 0x40;
