//! Handling of the packets that a receiver's session gets.

use carillon_core::{
    AssociationId, BuildContext, Config, Dest, DropReason, Helpers, Identities, NodeId, Order, Received,
    Role, Time,
};
use carillon_wire::session::{Body, Cookie, Invite, MemberRole, Packet, RefuseReason, State, Terms};

use super::super::demands;
use super::failure::ReceiverFailure;
use super::outbox::Pending;
use super::peers::{Peers, one_sender};
use super::sizes::SIZE_INVITATIONS;
use super::state::{Invited, ReceiverPhase, SeenSizes, StatedTerms};
use super::{IGNORE_TIME, JOIN_TIMEOUT, ReceiverSession};
use crate::unserved::ARRIVED_AFTER_START;
use crate::{KNOCK, LOCAL_NODE, bounds, secret};

impl ReceiverSession {
    /// Handles a packet of this session or of another one.
    pub(super) fn on_session_packet(&mut self, now: Time, datagram: Received<'_>) {
        let (source, len) = (datagram.source, datagram.bytes.len());
        let packet = match Packet::parse(datagram.bytes) {
            Ok(packet) => packet,
            Err(_) => return self.events.dropped(DropReason::Malformed),
        };
        let is_to_group = matches!(datagram.destination, Dest::Group { .. });
        // Another receiver has to ask the whole group, too.
        if let Body::Join { nonce: KNOCK, .. } = packet.body
            && is_to_group
        {
            self.joining.on_knock();
            return self.events.dropped(DropReason::NotAMember);
        }
        // Packets for all members come by multicast, and packets for one member by unicast.
        let to_all = matches!(
            packet.body,
            Body::Invite(_) | Body::Roster(_) | Body::Present { .. } | Body::Measure { .. } | Body::Size(_)
        );
        if to_all != is_to_group {
            return self.events.dropped(DropReason::NotAMember);
        }
        let ours = |invited: &Invited| invited.association == packet.association;
        // An invitation to another session, or by another node, may begin a new session.
        if let Body::Invite(invite) = packet.body
            && !self.invited.as_ref().is_some_and(|invited| ours(invited) && invited.sender == source)
        {
            return self.on_invitation(now, source, packet.association, &invite, len);
        }
        // An answer may come from a session that is ignored and was queried.
        if let Body::Welcome { nonce, .. } | Body::Answer { nonce, .. } = packet.body
            && self.on_query_answer(packet.association, source, nonce)
        {
            return;
        }
        let Some(invited) = self.invited.as_mut().filter(|invited| ours(invited)) else {
            return self.events.dropped(DropReason::Foreign);
        };
        // PRESENT, PROBE and ECHO come from other members too, so the source is not checked yet.
        if let (Body::Present { proof }, Some(_)) = (packet.body, &self.assembling.peers) {
            return self.on_present(now, source, secret::named(proof));
        }
        match packet.body {
            Body::Probe { token } => return self.on_probe(source, token),
            Body::Echo { token } => return self.on_echo(now, source, token),
            _ => {}
        }
        if source != invited.sender {
            return self.events.dropped(DropReason::NotAMember);
        }
        self.on_packet_of_sender(now, packet.body, len);
    }

    /// Handles a packet of `len` bytes of the present session from the node that invited.
    fn on_packet_of_sender(&mut self, now: Time, body: Body<'_>, len: usize) {
        match body {
            Body::Invite(invite) => {
                self.joining.add_credit(len);
                if self.is_its_own(now, &invite) {
                    self.on_heartbeat(now, &invite);
                } else {
                    self.events.dropped(DropReason::NotAMember);
                }
            }
            // A packet without the nonce may come from a node that forges the sender's address.
            Body::Welcome { nonce, .. }
            | Body::Challenge { nonce, .. }
            | Body::Refuse { nonce, .. }
            | Body::ReportAck { nonce }
            | Body::HoldingsAck { nonce, .. }
            | Body::Answer { nonce, .. }
                if nonce != self.random.nonce =>
            {
                self.events.dropped(DropReason::NotAMember);
            }
            Body::Welcome { member, terms, .. } => {
                self.learn_terms(terms);
                self.on_welcome(now, member);
                self.on_authenticated_packet(now);
            }
            Body::Challenge { cookie, .. } => self.on_challenge(now, cookie),
            Body::Refuse { reason, text, .. } => {
                self.on_authenticated_packet(now);
                self.on_refuse(reason, &text);
            }
            Body::ReportAck { .. } if self.reporting.acknowledge() => {
                // The acknowledgment may arrive after the sender announced the end, which ended the reporting too.
                self.note_done();
                if self.phase == ReceiverPhase::Reporting {
                    self.end(ReceiverPhase::Finished);
                }
            }
            Body::ReportAck { .. } => self.events.dropped(DropReason::Duplicate),
            Body::HoldingsAck { question, bytes, .. } => {
                self.on_authenticated_packet(now);
                self.on_holdings_ack(now, question, bytes);
            }
            Body::Answer { state, terms, text, .. } => {
                self.learn_terms(terms);
                if self.is_welcomed() {
                    self.on_authenticated_packet(now);
                }
                self.on_answer(now, state, &text);
            }
            Body::Roster(page) => {
                self.liveness.claim.contradict();
                self.on_roster(now, &page);
            }
            Body::Measure { edition } => self.on_measure(now, edition),
            Body::Size(_) => self.on_size(now, len),
            Body::Join { .. }
            | Body::Progress { .. }
            | Body::Holdings { .. }
            | Body::Report { .. }
            | Body::Leave { .. }
            | Body::Present { .. }
            | Body::Ready { .. }
            | Body::Ask { .. }
            | Body::Probe { .. }
            | Body::Echo { .. }
            | Body::Distances { .. }
            | Body::Decline { .. } => self.events.dropped(DropReason::NotAMember),
        }
    }

    /// Handles an invitation to a session that this receiver is not in.
    fn on_invitation(
        &mut self,
        now: Time,
        source: NodeId,
        association: AssociationId,
        invite: &Invite<'_>,
        len: usize,
    ) {
        let is_open = self.is_wanted(invite) && !self.has_everything_of(source, invite);
        if !is_open || !self.is_of_continued_job(now, invite) {
            return self.events.dropped(DropReason::Foreign);
        }
        if self.config.silent {
            return self.follow(now, source, association, invite);
        }
        // An invitation to the overheard session has the settings that its machine needs.
        self.learn_overheard(source, association, invite);
        let (free, waits) = match &self.invited {
            None => (self.phase == ReceiverPhase::Seeking, false),
            // A sender that does not answer may not exist, so the next one gets its turn.
            Some(invited) => {
                let waits = self.phase == ReceiverPhase::Joining && invited.member.is_none();
                (waits && now.since(self.joining.since) >= JOIN_TIMEOUT, waits)
            }
        };
        self.ask_about_the_end(association, source, invite.state);
        // A sender that answered a query exists.
        if invite.state == State::Gathering && self.is_succeeded(now, association, source, &invite.sender) {
            return self.on_succession(invite);
        }
        let answered = self.seeking.ignored.has_answered(association, source) && (free || waits);
        if !answered && (!free || self.seeking.ignored.has(now, association, source)) {
            // Ask the sender whether it exists. A later invitation finds its answer.
            if free || waits {
                self.query_ignored(now, association, source, invite.state);
            }
            return self.events.dropped(DropReason::Foreign);
        }
        match invite.state {
            State::Gathering => {}
            State::Running | State::Assembling if answered => {}
            // This receiver is late, if the claim is true. The sender confirms it when asked to admit the receiver.
            State::Running | State::Assembling if !self.config.keep_seeking && !waits => {}
            // The claim may be forged. If it is true, the sender will confirm it to this receiver alone.
            State::Running | State::Assembling => {
                self.query_ignored(now, association, source, invite.state);
                return self.events.dropped(DropReason::Foreign);
            }
            State::Closing => {
                self.decline(association, source, ARRIVED_AFTER_START, len);
                self.seeking.ignored.add(association, source, now + IGNORE_TIME);
                // A catch-up session may follow for this receiver.
                return self.events.dropped(DropReason::Foreign);
            }
            State::Finished | State::Aborted => return self.events.dropped(DropReason::Foreign),
        }
        // The present sender had its time to answer.
        if waits {
            self.ignore_unresponsive(now);
        }
        let (largest, invitations) = self.seeking.ignored.take(association, source);
        self.invited_to(now, source, association, invite, len);
        if let Some(invited) = &mut self.invited {
            // While two senders invite in turn, earlier observations of a sender count again at its next turn.
            invited.sizes.largest = largest;
            invited.sizes.invitations = (invitations + 1).min(SIZE_INVITATIONS - 1);
        }
        // A problem is reported only to a sender that has proved that it exists, so ASK goes out in place of JOIN.
        let problem = self.accept(source, association, invite).err();
        if let Some(invited) = &mut self.invited {
            invited.problem = problem;
        }
        self.set_phase(ReceiverPhase::Joining);
        self.joining.ask(now + self.random.answer_delay());
        self.liveness.begin(now);
    }

    /// Returns true if this receiver takes part in such a job of this sender; otherwise the sender is remembered.
    fn is_wanted(&mut self, invite: &Invite<'_>) -> bool {
        let (jobs, from) = (&self.config.jobs, &self.config.from);
        let is_wanted = jobs.is_empty() || invite.job_name.is_some_and(|name| jobs.contains(&*name));
        if is_wanted && (from.is_empty() || from.contains(&*invite.sender)) {
            return true;
        }
        if self.seeking.met.passed_over.as_deref() != Some(&*invite.sender) {
            self.seeking.met.passed_over = Some(invite.sender.to_string());
        }
        false
    }

    /// Makes this session the present one.
    pub(super) fn invited_to(
        &mut self,
        now: Time,
        source: NodeId,
        association: AssociationId,
        invite: &Invite<'_>,
        credit: usize,
    ) {
        self.random.draw_for(association, source);
        self.joining.on_invitation(now, credit);
        let name = invite.sender.to_string();
        self.invited = Some(Invited {
            association,
            sender: source,
            job: invite.job,
            asks: invite.asks,
            name,
            state: invite.state,
            member: None,
            problem: None,
            terms: StatedTerms::Claimed(invite.terms()),
            protocol: None,
            order: Order::Source,
            has_lost: false,
            max_payload: invite.max_payload,
            sizes: SeenSizes { shown: invite.sizes, largest: 0, invitations: 1 },
            successor: None,
            relays: false,
        });
    }

    /// Builds the protocol's receiver. Among peers the settings are only tried, as the members are not known yet.
    pub(super) fn accept(
        &mut self,
        sender: NodeId,
        association: AssociationId,
        invite: &Invite<'_>,
    ) -> Result<(), String> {
        let Some(entry) = self.config.protocols.iter().find(|entry| entry.name == &*invite.protocol) else {
            return Err(format!("this receiver does not know the protocol \"{}\"", invite.protocol));
        };
        if let Some(invited) = &mut self.invited {
            invited.protocol = Some(entry.name);
        }
        if let Some(problem) = self.too_long(invite) {
            return Err(problem);
        }
        if invite.max_payload > self.config.receive_buffer {
            let (max, buffer) = (invite.max_payload, self.config.receive_buffer);
            return Err(format!("messages of {max} bytes do not fit the receive buffer of {buffer} bytes"));
        }
        let mut config = Config::defaults(entry.parameters);
        demands::check(&invite.settings, &self.config.demands)?;
        for (key, value) in demands::protocol_settings(&invite.settings) {
            config.set(entry.parameters, key, value).map_err(|error| error.to_string())?;
        }
        // The settings may be forged. `set` has checked their ranges, and times are bounded here.
        bounds::cut(entry, &mut config, self.config.network.bit_rate);
        if let Some(invited) = &mut self.invited {
            invited.order = entry.order_with(&config);
        }
        let context = self.context(association, sender, self.payload_here(invite));
        if self.config.part == MemberRole::Helps && entry.helpers == Helpers::None {
            return Err(format!("the protocol \"{}\" has no helpers", entry.name));
        }
        let are_peers = entry.roles.contains(&Role::Peer);
        if self.config.silent && (are_peers || entry.helpers != Helpers::None || entry.confirms(&config)) {
            return Err(
                "it waits for answers, which this receiver does not give (--one-way at both ends)".to_owned()
            );
        }
        if !are_peers && self.config.part.offers() {
            return Err(one_sender(entry.name, self.config.protocols));
        }
        if are_peers || entry.helpers != Helpers::None {
            let peers = Peers::new(entry, self.config.part, config, context);
            peers.check()?;
            self.assembling.peers = Some(Box::new(peers));
            return Ok(());
        }
        if let Some(invited) = &mut self.invited {
            invited.relays = invite.relays && entry.roles.contains(&Role::Relay);
        }
        let mut machine =
            (entry.build)(Role::Receiver, &context, &config).map_err(|error| error.to_string())?;
        if machine.as_receiver().is_none() {
            return Err(format!("the protocol \"{}\" has no receiver", entry.name));
        }
        self.hosted.machine = Some(machine);
        Ok(())
    }

    /// Build context of the session's machines.
    pub(super) fn context(
        &self,
        association: AssociationId,
        sender: NodeId,
        max_payload: u32,
    ) -> BuildContext {
        BuildContext {
            association,
            node: LOCAL_NODE,
            sender,
            members: [].into(),
            helpers: Default::default(),
            identities: Identities::agreed(secret::identity(self.random.nonce).0, [].into()),
            addresses: self.config.network.addresses.clone(),
            group: self.config.group,
            seeds: self.hosted.seeds.clone(),
            bit_rate: self.config.network.bit_rate,
            link_overhead: self.config.network.link_overhead,
            max_payload,
            memory: self.config.memory,
            rejoining: false,
        }
    }

    /// Handles a CHALLENGE: repeats the JOIN with its cookie, before the sender allocates a place.
    fn on_challenge(&mut self, now: Time, cookie: Cookie) {
        if self.is_welcomed() {
            return self.events.dropped(DropReason::Duplicate);
        }
        if self.joining.on_challenge(now, cookie, self.phase == ReceiverPhase::Joining) {
            self.outbox.schedule(Pending::Join);
        }
    }

    /// Learns the terms of the session from a unicast of the sender. If they differ from the invitation, that was
    /// forged, and everything built from it is dropped.
    fn learn_terms(&mut self, terms: Terms) {
        let Some(invited) = self.invited.as_mut().filter(|invited| invited.member.is_none()) else { return };
        if invited.terms.prove(terms) {
            invited.problem = None;
            (self.hosted.machine, self.assembling.peers) = (None, None);
        }
    }

    /// Returns true if the sender itself sent this invitation, as far as that can be known. The first genuine
    /// invitation after forged ones is accepted here.
    fn is_its_own(&mut self, now: Time, invite: &Invite<'_>) -> bool {
        let Some(invited) = &mut self.invited else { return true };
        let terms = match invited.terms {
            StatedTerms::Claimed(_) => return true,
            StatedTerms::Proven(terms) | StatedTerms::Forged(terms) => terms,
        };
        if invite.terms() != terms {
            return false;
        }
        // Everything built from the forged invitation was dropped, so begin again with the genuine one.
        if invited.terms.are_forged() {
            invited.terms = StatedTerms::Proven(terms);
            (invited.name, invited.max_payload) = (invite.sender.to_string(), invite.max_payload);
            invited.sizes.shown = invite.sizes;
            let (sender, association) = (invited.sender, invited.association);
            let problem = self.accept(sender, association, invite).err();
            if let Some(invited) = &mut self.invited {
                invited.problem = problem;
            }
            self.join_soon(now);
        }
        true
    }

    /// Sends the next JOIN soon, if it would have waited longer.
    pub(super) fn join_soon(&mut self, now: Time) {
        self.joining.ask_by(now + self.random.answer_delay());
    }

    /// Handles a further invitation (heartbeat) of the present session.
    fn on_heartbeat(&mut self, now: Time, invite: &Invite<'_>) {
        if self.config.silent {
            return self.on_heartbeat_unanswered(now, invite);
        }
        if matches!(invite.state, State::Finished | State::Aborted) {
            // A stranger may have forged the end.
            if self.is_busy() || self.phase == ReceiverPhase::Reporting {
                self.verify_state(now, invite.state, &invite.reason);
            }
            return;
        }
        self.liveness.claim.contradict();
        let (busy, member) = (self.is_busy(), self.is_welcomed());
        if member {
            self.on_sender_heard(now);
        }
        let Some(invited) = &mut self.invited else { return };
        invited.state = invite.state;
        // A forged invitation may lack the field.
        invited.asks |= invite.asks;
        match invite.state {
            State::Gathering if member => {
                self.joining.keep(now, busy);
            }
            State::Gathering => self.count_invitation(now, invite),
            // The sender waits for a member that does not know of its admission yet.
            _ if self.phase == ReceiverPhase::Joining => self.join_soon(now),
            State::Assembling => self.begin_presence(now),
            State::Running | State::Closing if self.phase == ReceiverPhase::Assembling => {
                self.verify_state(now, invite.state, "");
            }
            // Send PROGRESS as a keepalive, as the sender may wait for this member.
            State::Running | State::Closing if busy => {
                self.reporting.schedule_progress(now, invite.progress_interval, &mut self.random);
            }
            State::Running | State::Closing | State::Finished | State::Aborted => {}
        }
    }

    pub(super) fn on_welcome(&mut self, now: Time, number: u32) {
        let Some(invited) = &mut self.invited else { return };
        // An invitation that cannot be accepted, or was forged, makes no member.
        if invited.member.is_some() || invited.problem.is_some() || invited.terms.are_forged() {
            return self.events.dropped(DropReason::Duplicate);
        }
        invited.member = Some(number);
        self.seeking.overhearing = None;
        self.with_inner(|inner| inner.start(now));
        self.outbox.cancel(&[Pending::Join, Pending::Knock]);
        self.joining.on_welcome(now);
        self.liveness.await_confirmation(now);
        // The application may have reported while this receiver was joining.
        if self.phase == ReceiverPhase::Joining {
            match self.assembling.peers {
                Some(_) => {
                    self.set_phase(ReceiverPhase::Assembling);
                    self.begin_presence(now);
                    self.get_ready(now);
                }
                None => {
                    self.set_phase(ReceiverPhase::Running);
                    self.feed_early(now);
                }
            }
        }
    }

    fn on_refuse(&mut self, reason: RefuseReason, text: &str) {
        if reason == RefuseReason::Nonce && self.phase == ReceiverPhase::Joining && !self.is_welcomed() {
            // The nonce collides with another member's by chance: try another one.
            self.invited = None;
            self.random.note_collision();
            return self.end(ReceiverPhase::Seeking);
        }
        let member = self.invited.as_ref().is_some_and(|invited| invited.member.is_some());
        match self.phase {
            ReceiverPhase::Joining | ReceiverPhase::Assembling | ReceiverPhase::Running => {}
            // This receiver has everything, but the sender does not know it as a member.
            ReceiverPhase::Reporting if !member && reason != RefuseReason::Expelled => {}
            // The sender accepts a report even from an expelled member.
            _ => return self.events.dropped(DropReason::Duplicate),
        }
        self.fail(match reason {
            RefuseReason::Expelled => ReceiverFailure::Expelled,
            reason => ReceiverFailure::Refused(reason, text.to_owned()),
        });
    }
}
