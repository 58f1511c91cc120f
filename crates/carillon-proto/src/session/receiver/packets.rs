//! Packets of a receiver's session: handling of received ones, and creation of new ones.

use carillon_core::{
    AssociationId, BuildContext, Config, Dest, DropReason, Helpers, Identities, NodeId, Order, Received,
    Role, Time, Transmit,
};
use carillon_wire::session::{
    Attachment, Body, Cookie, Invite, MemberRole, Name, Opening, Packet, RefuseReason, State, Terms, Text,
    Verdict,
};

use super::failure::ReceiverFailure;
use super::peers::{Peers, one_sender};
use super::sizes::SIZE_INVITATIONS;
use super::state::{Decline, Invited, ReceiverPhase, Timer};
use super::{IGNORE_TIME, JOIN_TIMEOUT, JOIN_WAIT_MAX, JOIN_WAIT_MIN, ReceiverSession};
use crate::session::unserved::ARRIVED_AFTER_START;
use crate::session::{LOCAL_NODE, ReceiverSessionConfig, bounds, secret};

impl ReceiverSession {
    /// Handles a packet of this session or of another one.
    pub(super) fn on_session_packet(&mut self, now: Time, datagram: Received<'_>) {
        let (source, len) = (datagram.source, datagram.bytes.len());
        let packet = match Packet::parse(datagram.bytes) {
            Ok(packet) => packet,
            Err(_) => return self.events.dropped(DropReason::Malformed),
        };
        // Packets for all members come by multicast, and packets for one member by unicast.
        let to_all = matches!(
            packet.body,
            Body::Invite(_) | Body::Roster(_) | Body::Present { .. } | Body::Measure { .. } | Body::Size(_)
        );
        if to_all != matches!(datagram.destination, Dest::Group { .. }) {
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
        if let (Body::Present { proof }, Some(_)) = (packet.body, &self.peers) {
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
        match packet.body {
            Body::Invite(invite) => {
                // Each invitation allows as many bytes in answer, so that a forged address is no amplifier.
                invited.credit = (invited.credit + len).min(MAX_CREDIT);
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
            | Body::Answer { nonce, .. }
                if nonce != self.nonce =>
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
            Body::ReportAck { .. } if self.verdict.is_some() && !self.acknowledged => {
                // The acknowledgment may arrive after the sender announced the end, which ended the reporting too.
                self.acknowledged = true;
                self.note_done();
                if self.phase == ReceiverPhase::Reporting {
                    self.end(ReceiverPhase::Finished);
                }
            }
            Body::ReportAck { .. } => self.events.dropped(DropReason::Duplicate),
            Body::Answer { state, terms, text, .. } => {
                self.learn_terms(terms);
                if self.is_welcomed() {
                    self.on_authenticated_packet(now);
                }
                self.on_answer(now, state, &text);
            }
            Body::Roster(page) => {
                self.on_sender_continues();
                self.on_roster(now, &page);
            }
            Body::Measure { edition } => self.on_measure(now, edition),
            Body::Size(_) => self.on_size(now, len),
            Body::Join { .. }
            | Body::Progress { .. }
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
        if !self.config.from.is_empty() && !self.config.from.contains(&*invite.sender) {
            if self.passed_over.as_deref() != Some(&*invite.sender) {
                self.passed_over = Some(invite.sender.to_string());
            }
            return self.events.dropped(DropReason::Foreign);
        }
        if self.has_everything_of(source, invite) {
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
                (waits && now.since(invited.since) >= JOIN_TIMEOUT, waits)
            }
        };
        // A sender that answered a query exists.
        if invite.state == State::Gathering && self.is_succeeded(now, association, source, &invite.sender) {
            return self.fail(ReceiverFailure::Refused(RefuseReason::Later, String::new()));
        }
        let answered = self.ignored.has_answered(association, source) && (free || waits);
        if !answered && (!free || self.ignored.has(now, association, source)) {
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
                self.ignored.add(association, source, now + IGNORE_TIME);
                // A catch-up session may follow for this receiver.
                return self.events.dropped(DropReason::Foreign);
            }
            State::Finished | State::Aborted => return self.events.dropped(DropReason::Foreign),
        }
        // The present sender had its time to answer.
        if waits {
            self.ignore_unresponsive(now);
        }
        let (largest, invitations) = self.ignored.take(association, source);
        self.invited_to(now, source, association, invite, len);
        if let Some(invited) = &mut self.invited {
            // While two senders invite in turn, earlier observations of a sender count again at its next turn.
            (invited.largest, invited.invitations) = (largest, (invitations + 1).min(SIZE_INVITATIONS - 1));
        }
        // A problem is reported only to a sender that has proved that it exists, so ASK goes out in place of JOIN.
        let problem = self.accept(source, association, invite).err();
        if let Some(invited) = &mut self.invited {
            invited.problem = problem;
        }
        self.set_phase(ReceiverPhase::Joining);
        self.join_wait = JOIN_WAIT_MIN;
        let delay = self.random_delay();
        self.timers.arm(Timer::Join, now + delay);
        self.timers.arm(Timer::Silence, now + self.config.silence);
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
        // The nonce depends on session and sender, so a repeated attempt is recognised as the same.
        self.nonce = self.nonce_for(association, source);
        self.token = secret::token(self.nonce);
        let name = invite.sender.to_string();
        self.invited = Some(Invited {
            association,
            sender: source,
            job: invite.job,
            name,
            state: invite.state,
            member: None,
            since: now,
            gathering: now,
            credit,
            problem: None,
            terms: invite.terms(),
            proven: false,
            accepted: true,
            protocol: None,
            order: Order::Source,
            has_lost: false,
            max_payload: invite.max_payload,
            sizes: invite.sizes,
            successor: None,
            largest: 0,
            invitations: 1,
            cookie: None,
            challenges: 0,
            relays: false,
        });
    }

    /// Declines an invitation of `len` bytes. Nothing acknowledges that, so it is repeated, within three times the
    /// bytes of the invitation.
    pub(super) fn decline(&mut self, association: AssociationId, sender: NodeId, text: &str, len: usize) {
        let text = Text::clean(text);
        let one = Opening::datagram_len(self.config.name.len()) + 1 + text.len();
        let left = (len * MAX_DECLINES / one).min(MAX_DECLINES);
        self.decline_due = (left > 0).then_some(Decline { association, sender, text, left });
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
        for (key, value) in invite.settings.pairs() {
            config.set(entry.parameters, key, value).map_err(|error| error.to_string())?;
        }
        // The settings may be forged. `set` has checked their ranges, and times are bounded here.
        bounds::cut(entry, &mut config, self.config.bit_rate);
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
            self.peers = Some(Box::new(peers));
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
        self.inner = Some(machine);
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
            identities: Identities::agreed(secret::identity(self.nonce).0, [].into()),
            addresses: self.config.addresses.clone(),
            group: self.config.group,
            seeds: self.seeds.clone(),
            bit_rate: self.config.bit_rate,
            link_overhead: self.config.link_overhead,
            max_payload,
            memory: self.config.memory,
            rejoining: false,
        }
    }

    /// Handles a CHALLENGE: repeats the JOIN with its cookie, before the sender allocates a place.
    fn on_challenge(&mut self, now: Time, cookie: Cookie) {
        let Some(invited) = self.invited.as_mut().filter(|invited| invited.member.is_none()) else {
            return self.events.dropped(DropReason::Duplicate);
        };
        let is_new = invited.cookie.replace(cookie) != Some(cookie);
        if !is_new || self.phase != ReceiverPhase::Joining || invited.challenges >= MAX_CHALLENGES {
            // The cookie goes out with the next scheduled JOIN.
            return;
        }
        invited.challenges += 1;
        // The sender exists, so it gets time to answer before another one has its turn.
        if invited.challenges == 1 {
            invited.since = now;
        }
        // The answer may be three times as long as the challenge (RFC 9000, section 8.1).
        invited.credit = (invited.credit + CHALLENGE_CREDIT).min(MAX_CREDIT);
        self.join_due = true;
    }

    /// Learns the terms of the session from a unicast of the sender. If they differ from the invitation, that was
    /// forged, and everything built from it is dropped.
    fn learn_terms(&mut self, terms: Terms) {
        let Some(invited) = self.invited.as_mut().filter(|invited| invited.member.is_none()) else { return };
        invited.proven = true;
        if invited.terms != terms {
            (invited.terms, invited.accepted, invited.problem) = (terms, false, None);
            (self.inner, self.peers) = (None, None);
        }
    }

    /// Returns true if the sender itself sent this invitation, as far as that can be known. The first genuine
    /// invitation after forged ones is accepted here.
    fn is_its_own(&mut self, now: Time, invite: &Invite<'_>) -> bool {
        let Some(invited) = self.invited.as_mut().filter(|invited| invited.proven) else { return true };
        if invite.terms() != invited.terms {
            return false;
        }
        // Everything built from the forged invitation was dropped, so begin again with the genuine one.
        if !std::mem::replace(&mut invited.accepted, true) {
            (invited.name, invited.max_payload) = (invite.sender.to_string(), invite.max_payload);
            invited.sizes = invite.sizes;
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
        let at = now + self.random_delay();
        if self.timers.armed(Timer::Join).is_some_and(|next| next > at) {
            self.timers.arm(Timer::Join, at);
            self.join_wait = JOIN_WAIT_MIN;
        }
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
        self.on_sender_continues();
        let (busy, member) = (self.is_busy(), self.is_welcomed());
        if member {
            self.restart_silence_timer(now);
        }
        let Some(invited) = &mut self.invited else { return };
        invited.state = invite.state;
        match invite.state {
            State::Gathering if member => {
                // Repeat the JOIN at times as a keepalive, so that the sender does not start without this member.
                invited.gathering = now;
                if busy && self.timers.armed(Timer::Join).is_none() {
                    self.timers.arm(Timer::Join, now + JOIN_WAIT_MAX);
                }
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
                self.schedule_progress(now, invite.progress_interval);
            }
            State::Running | State::Closing | State::Finished | State::Aborted => {}
        }
    }

    pub(super) fn on_welcome(&mut self, now: Time, number: u32) {
        let Some(invited) = &mut self.invited else { return };
        // An invitation that cannot be accepted, or was forged, makes no member.
        if invited.member.is_some() || invited.problem.is_some() || !invited.accepted {
            return self.events.dropped(DropReason::Duplicate);
        }
        invited.member = Some(number);
        self.overhearing = None;
        self.with_inner(|inner| inner.start(now));
        self.join_due = false;
        // JOIN is repeated as a keepalive while the sender gathers.
        self.timers.arm(Timer::Join, now + JOIN_WAIT_MAX);
        self.timers.arm(Timer::Confirm, now + self.config.silence);
        // The application may have reported while this receiver was joining.
        if self.phase == ReceiverPhase::Joining {
            match self.peers {
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
            // The number of attempts makes the next nonce different.
            self.attempts += 1;
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

    /// Writes the next packet of the session, if one is due.
    pub(super) fn due_packet(&mut self, buf: &mut Vec<u8>) -> Option<Transmit> {
        if let Some(decline) = &mut self.decline_due
            && let (Some(name), Some(text)) = (Name::new(&self.config.name), Text::new(&decline.text))
        {
            decline.left -= 1;
            let dest = Dest::Node(decline.sender);
            let body = Body::Decline { name, text };
            Packet { association: decline.association, body }.emit(buf);
            self.decline_due.take_if(|decline| decline.left == 0);
            return Some(Transmit::now(dest));
        }
        if let Some(transmit) = self.emit_earlier_decline(buf).or_else(|| self.due_query(buf)) {
            return Some(transmit);
        }
        let job = self.invited.as_ref().and_then(|invited| Some((invited.job?, invited.sender)));
        let origin = job.filter(|_| self.join_due).map(|(job, sender)| self.origin(job, sender));
        let invited = self.invited.as_mut()?;
        let nonce = self.nonce;
        let body = if self.join_due {
            self.join_due = false;
            let name = Name::new(&self.config.name).expect("the name was cleaned when the session was made");
            let ReceiverSessionConfig { receive_buffer, ref attached, .. } = self.config;
            let part = self.config.part;
            // The first JOIN only asks for a challenge, so its attachment would be lost.
            let attached = invited.cookie.and_then(|_| Attachment::new(attached)).unwrap_or_default();
            let body = match invited.problem {
                Some(_) => Body::Ask { nonce },
                None => {
                    let Invited { largest, cookie, .. } = *invited;
                    Body::Join { nonce, receive_buffer, part, largest, name, attached, cookie, origin }
                }
            };
            let len = Packet { association: invited.association, body }.wire_len();
            if invited.member.is_none() {
                // Send no more bytes than the claimed address has sent, so that a forged address is no amplifier.
                invited.credit = invited.credit.checked_sub(len)?;
            }
            body
        } else if self.ask_due {
            self.ask_due = false;
            Body::Ask { nonce }
        } else if self.present_due {
            self.present_due = false;
            let body = Body::Present { proof: secret::proof(nonce) };
            Packet { association: invited.association, body }.emit(buf);
            return Some(Transmit::now(Dest::group(self.config.group)));
        } else if self.ready_due {
            self.ready_due = false;
            Body::Ready { nonce, edition: self.peers.as_ref().map_or(0, |peers| peers.edition()) }
        } else if self.report_due && invited.member.is_some() {
            self.report_due = false;
            let failure = self.verdict.as_ref().and_then(|verdict| verdict.as_ref().err());
            // The text was sanitised when the application reported.
            let text = failure.and_then(|reason| Text::new(reason)).unwrap_or_default();
            let verdict = match failure {
                None => Verdict::Verified,
                Some(_) if self.damaged => Verdict::Damaged,
                Some(_) => Verdict::Failed,
            };
            Body::Report { nonce, bytes: self.bytes, verdict, text }
        } else if self.progress_due {
            self.progress_due = false;
            // The report states the same bytes.
            if self.verdict.is_some() {
                return None;
            }
            Body::Progress { nonce, bytes: self.bytes }
        } else if let Some((reason, left)) = &mut self.leave_due {
            // A sender that has not admitted this receiver may be forged, so it gets a packet without text.
            let text = Text::new(reason).filter(|_| invited.member.is_some()).unwrap_or_default();
            let body = Body::Leave { nonce, text };
            Packet { association: invited.association, body }.emit(buf);
            let dest = Dest::Node(invited.sender);
            *left -= 1;
            if *left == 0 {
                self.leave_due = None;
            }
            return Some(Transmit::now(dest));
        } else {
            return None;
        };
        Packet { association: invited.association, body }.emit(buf);
        Some(Transmit::now(Dest::Node(invited.sender)))
    }
}

/// Maximum number of times that a sender is notified that its invitation is declined.
const MAX_DECLINES: usize = 3;
/// Maximum number of bytes sent at once in answer to invitations.
const MAX_CREDIT: usize = 2048;
/// Bytes that may be sent for a challenge of 24 bytes.
const CHALLENGE_CREDIT: usize = 3 * 24;
/// Maximum number of challenges of one session that are answered at once.
const MAX_CHALLENGES: u32 = 4;
