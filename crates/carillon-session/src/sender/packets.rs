//! Packets of a sender's session: handling of received ones, and creation of new ones.

use carillon_core::{
    AssociationId, Dest, DropReason, Duration, Event, NodeId, Received, Span, Time, Transmit,
};
use carillon_wire::session::{
    Body, Invite, MemberRole, Name, Nonce, Packet, RefuseReason, Settings, State, Text, Verdict, emit_answer,
};

use super::SenderSession;
use super::state::{Pending, Reply, SenderPhase};
use super::watch::PROGRESS_STEPS;
use crate::config::Slow;
use crate::roster::{Joining, Member, MemberOutcome};
use crate::unserved::{ARRIVED_AFTER_START, Unserved, UnservedReason};
use crate::{KNOCK, secret};

impl SenderSession {
    /// Member `source` with this nonce. Records a drop if there is none.
    pub(super) fn member(&mut self, source: NodeId, nonce: Nonce) -> Option<usize> {
        let index = self.roster.index_of(source).filter(|&index| self.roster.record(index).nonce == nonce);
        if index.is_none() {
            self.events.dropped(DropReason::NotAMember);
        }
        index
    }

    /// Records that a member was heard, and arms its silence timer if necessary.
    pub(super) fn heard(&mut self, now: Time, index: usize) {
        self.roster.record_mut(index).heard = self.awake(now);
        // Assembling has one timer for all members.
        let waiting = match self.phase {
            SenderPhase::Gathering | SenderPhase::Running | SenderPhase::Closing => !self.is_over(),
            SenderPhase::Assembling | SenderPhase::Finished | SenderPhase::Aborted => false,
        };
        if waiting && self.is_needed(index) {
            let node = self.roster.members()[index].node;
            self.watching.await_packet(node, now + self.config.member_timeout);
        }
    }

    pub(super) fn refuse(&mut self, now: Time, node: NodeId, nonce: Nonce, reason: RefuseReason) {
        self.answer(now, node, Reply::Refuse(nonce, reason));
    }

    /// Schedules an answer. Members always get one, strangers at most [`STRANGERS_RATE`] per second.
    pub(super) fn answer(&mut self, now: Time, node: NodeId, reply: Reply) {
        let member = self.roster.index_of(node).is_some();
        // Strangers share a rate, so that a flood of forged addresses does not make the sender a reflector.
        if !member {
            if now.since(self.answering.strangers.0) >= Duration::from_secs(1) {
                self.answering.strangers = (now, 0);
            }
            if self.answering.strangers.1 >= STRANGERS_RATE {
                return self.events.dropped(DropReason::BufferFull);
            }
        }
        // The queue has one answer per node, and a bound for strangers.
        if member
            || self.answering.replies.len() < self.config.max_members + MAX_STRANGERS
            || self.answering.replies.contains_key(&node)
        {
            self.answering.strangers.1 += u32::from(!member);
            self.answering.replies.insert(node, reply);
        } else {
            self.events.dropped(DropReason::BufferFull);
        }
    }

    /// Schedules a receiver for the catch-up session. Returns false if there are too many.
    pub(super) fn want(&mut self, name: &str) -> bool {
        if self.catch_up.wanting.len() < self.config.member_limit() {
            self.catch_up.wanting.insert(name.to_owned());
        }
        self.catch_up.wanting.contains(name)
    }

    /// Notifies an expelled member, at most once per heartbeat.
    pub(super) fn refuse_expelled(&mut self, now: Time, index: usize) {
        self.events.dropped(DropReason::NotAMember);
        let (node, heartbeat) = (self.roster.members()[index].node, self.config.heartbeat);
        if self.roster.members()[index].outcome == MemberOutcome::Verified {
            // A verified member was released; it only needs the acknowledgment.
            self.answering.replies.insert(node, Reply::ReportAck);
            return;
        }
        let record = self.roster.record_mut(index);
        if record.refused.is_none_or(|told| now.since(told) >= heartbeat) {
            record.refused = Some(now);
            let (nonce, was_silent, is_aside) = (record.nonce, record.was_silent, record.is_aside());
            // A silent member without data may have been suspended. A member that was heard and received nothing
            // would receive nothing in a catch-up session either.
            let follows = self.config.job.further || self.config.job.lanes && is_aside;
            let may_go_on = was_silent || self.may_go_on(index);
            // `drop` ends slow members, not members that long datagrams do not reach.
            let is_dropped = self.config.slow == Slow::Drop && !self.roster.record(index).is_unreached();
            let serves = follows && !is_dropped && may_go_on;
            let reason = if serves { RefuseReason::Later } else { RefuseReason::Expelled };
            if serves {
                self.catch_up.wanting.insert(self.roster.members()[index].name.clone());
            }
            self.refuse(now, node, nonce, reason);
        }
    }

    pub(super) fn on_session_packet(&mut self, now: Time, datagram: Received<'_>) {
        let source = datagram.source;
        let packet = match Packet::parse(datagram.bytes) {
            Ok(packet) => packet,
            Err(_) => return self.on_unreadable(now, &datagram),
        };
        let is_to_group = matches!(datagram.destination, Dest::Group { .. });
        if packet.association != self.config.association {
            // A member of an earlier session of the job may report late.
            if let Body::Report { nonce, verdict: Verdict::Verified, .. } = packet.body
                && self.on_former_report(now, packet.association, source, nonce)
            {
                return;
            }
            match &packet.body {
                Body::Invite(invite) => {
                    self.on_rival(now, source, packet.association, invite, datagram.bytes.len());
                }
                Body::Report { nonce, .. } if !is_to_group => {
                    return self.on_stranded(now, source, packet.association, *nonce);
                }
                _ => {}
            }
            return self.events.dropped(DropReason::Foreign);
        }
        // Nonces must come by unicast, since a multicast nonce is no secret.
        let to_all = matches!(packet.body, Body::Present { .. });
        let is_knock = is_to_group && matches!(packet.body, Body::Join { nonce: KNOCK, .. });
        if to_all != is_to_group && !is_knock {
            return self.events.dropped(DropReason::NotAMember);
        }
        match packet.body {
            Body::Join { name, .. } if is_knock => self.on_knock(now, source, &name),
            Body::Join { nonce, receive_buffer, part, largest, name, attached, cookie, origin, list } => {
                let attached = attached.bytes();
                let joining = Joining { name: &name, receive_buffer, part, largest, attached, list };
                self.on_join(now, source, nonce, joining, (cookie, origin));
            }
            Body::Holdings { nonce, part } => self.on_holdings(now, source, nonce, part),
            Body::Progress { nonce, bytes } => self.on_progress(now, source, nonce, bytes),
            Body::Report { nonce, bytes, verdict, text } => {
                let outcome = match verdict {
                    Verdict::Verified => MemberOutcome::Verified,
                    Verdict::Failed | Verdict::Damaged => MemberOutcome::Failed(text.to_string()),
                };
                self.on_report(now, source, nonce, bytes, outcome, verdict == Verdict::Damaged);
            }
            Body::Leave { nonce, text } => self.on_leave(now, source, nonce, &text),
            Body::Ready { nonce, edition } => self.on_ready(now, source, nonce, edition),
            Body::Present { proof } => self.on_present(now, source, secret::named(proof)),
            Body::Decline { name, text } => self.on_decline(now, source, &name, &text),
            Body::Ask { nonce } => self.answer(now, source, Reply::Answer(nonce)),
            Body::Probe { token } => self.on_probe(source, token),
            Body::Distances { nonce, edition, distances } => {
                self.on_distances(now, source, nonce, edition, distances);
            }
            Body::Answer { .. }
            | Body::Measure { .. }
            | Body::Echo { .. }
            | Body::Invite(_)
            | Body::Welcome { .. }
            | Body::Challenge { .. }
            | Body::Refuse { .. }
            | Body::ReportAck { .. }
            | Body::HoldingsAck { .. }
            | Body::Size(_)
            | Body::Roster(_) => self.events.dropped(DropReason::NotAMember),
        }
    }

    fn on_progress(&mut self, now: Time, source: NodeId, nonce: Nonce, bytes: u64) {
        let Some(index) = self.member(source, nonce) else { return };
        if self.roster.record(index).expelled {
            return self.refuse_expelled(now, index);
        }
        self.heard(now, index);
        // No member can have more than was offered, so a false claim is cut.
        let bytes = bytes.min(self.sending.offered_bytes);
        let member = self.roster.member_mut(index);
        member.bytes = member.bytes.max(bytes);
        // A closing member that makes no progress must not delay the end forever. Each 64th of the data extends its
        // time, so the wait is bounded even for a member that lies.
        let step = (self.sending.offered_bytes / PROGRESS_STEPS).max(1);
        let limit = self.config.stall_timeout();
        // A member that has reported cannot be lost; this packet may be an old one.
        let waited_for = member.outcome == MemberOutcome::Active && member.part.receives();
        let closing = self.phase == SenderPhase::Closing && !self.is_over() && waited_for;
        let record = self.roster.record_mut(index);
        if bytes >= record.mark.0.saturating_add(step) {
            record.mark = (bytes, now);
            self.watching.made_progress = true;
        } else if closing && now.since(record.mark.1) >= limit {
            self.give_up(now, index, format!("made too little progress for {}", Span::Time(limit)));
        }
    }

    /// Handles a report. `may_go_on` is true if a catch-up session may serve the member better.
    fn on_report(
        &mut self,
        now: Time,
        source: NodeId,
        nonce: Nonce,
        bytes: u64,
        outcome: MemberOutcome,
        may_go_on: bool,
    ) {
        let Some(index) = self.member(source, nonce) else { return };
        let verified = outcome == MemberOutcome::Verified;
        // Everything cannot have arrived before everything was offered. A peer that offers only needs to have offered
        // its own messages.
        let part = self.roster.members()[index].part;
        let offers = self.config.has_peers() && part.offers();
        // A member that only helps has nothing to report.
        if !part.receives()
            || self.phase <= SenderPhase::Assembling
            || (verified && !self.sending.finishing && !offers)
        {
            return self.events.dropped(DropReason::OutOfWindow);
        }
        // The member knows best what it has, so a lost one may still report success, and its failure is no news. A
        // member that has reported may correct itself: its last report counts.
        let believed = match self.roster.members()[index].outcome {
            MemberOutcome::Active => true,
            MemberOutcome::Lost(_) => verified,
            MemberOutcome::Verified => !verified,
            MemberOutcome::Failed(_) => verified && self.announcing.failure.is_none(),
        };
        if believed {
            self.watching.stop_waiting(source);
            self.roster.set_outcome(index, outcome);
            // Among peers the sender does not know the total number of bytes.
            let most = if self.config.has_peers() {
                u64::MAX
            } else {
                self.sending.offered_bytes + self.sending.unsent
            };
            let member = self.roster.member_mut(index);
            member.bytes = bytes.min(most);
            member.finished = Some(now);
            // A failed member acknowledges nothing more, so the protocol need not wait for it.
            if !verified {
                self.release(now, source);
            } else {
                // A verified member needs no catch-up session.
                self.catch_up.wanting.remove(&self.roster.members()[index].name);
            }
            if may_go_on && self.config.job.further && part == MemberRole::Receives {
                let name = self.roster.members()[index].name.clone();
                self.want(&name);
            }
        }
        // A verified member stays while the protocol may need its acknowledgments; a failed one may leave.
        let kept = match self.config.has_peers() {
            // Peers need each other until the end.
            true => !self.is_over(),
            false => self.phase == SenderPhase::Running,
        };
        if !kept || !verified || self.roster.record(index).expelled {
            self.answering.replies.insert(source, Reply::ReportAck);
        }
        self.heard(now, index);
    }

    /// Handles a report to an earlier session from one of its members.
    fn on_former_report(
        &mut self,
        now: Time,
        association: AssociationId,
        source: NodeId,
        nonce: Nonce,
    ) -> bool {
        // The nonce proves that the report comes from that member.
        let Some(name) = self.config.job.earlier.members.get(&(association, source, nonce)) else {
            return false;
        };
        self.catch_up.reported_since.entry(name.clone()).or_insert(now);
        self.answering.replies.insert(source, Reply::Former(association, nonce));
        true
    }

    /// Handles a report to a session that has left this address. Its member waits for an acknowledgment, and joins no
    /// other session meanwhile.
    fn on_stranded(&mut self, now: Time, source: NodeId, association: AssociationId, nonce: Nonce) {
        // A member has left that session, so the report is an old one.
        if self.roster.index_of(source).is_some() {
            return self.events.dropped(DropReason::Foreign);
        }
        if self.phase == SenderPhase::Gathering {
            self.gathering.arrivals.on_stranded(now);
            self.await_quiet();
        }
        self.answer(now, source, Reply::Over(association, nonce));
    }

    fn on_leave(&mut self, now: Time, source: NodeId, nonce: Nonce, text: &str) {
        let Some(index) = self.member(source, nonce) else { return };
        if self.phase == SenderPhase::Gathering {
            self.forget(now, index, UnservedReason::Left(text.to_owned()));
        } else if self.roster.members()[index].outcome == MemberOutcome::Active {
            self.watching.stop_waiting(source);
            let reason = if text.is_empty() { "left".to_owned() } else { format!("left: {text}") };
            self.roster.set_outcome(index, MemberOutcome::Failed(reason));
            self.release(now, source);
        } else if !self.roster.record(index).expelled {
            // The member has everything, and its last acknowledgment may be lost. Neither peers nor the protocol wait
            // for it.
            self.watching.stop_waiting(source);
            self.roster.record_mut(index).expelled = true;
            self.release(now, source);
        }
    }

    /// Handles a receiver that declines the invitation or is too late.
    fn on_decline(&mut self, now: Time, source: NodeId, name: &str, text: &str) {
        // A member has accepted the invitation, so a DECLINE from its node is old or forged.
        if self.is_over() || self.roster.index_of(source).is_some() {
            return self.events.dropped(DropReason::OutOfWindow);
        }
        // Anyone can forge a DECLINE, and a late receiver of a stream interrupts the others.
        let late = text == ARRIVED_AFTER_START && self.config.job.further && !self.config.job.is_series();
        let known = if late { self.late(source, name) } else { None };
        if known.is_some_and(|index| self.is_done(index)) {
            return self.events.dropped(DropReason::OutOfWindow);
        }
        let name =
            known.map_or_else(|| name.to_owned(), |index| self.catch_up.ledger.entry(index).name.clone());
        // A late receiver declines because invitations told it so.
        let reason = if late && self.want(&name) {
            UnservedReason::Refused(RefuseReason::Later)
        } else {
            UnservedReason::Declined(text.to_owned())
        };
        self.leave_out(now, source, &name, reason);
    }

    /// Records an unserved receiver, unless this node or name is served.
    pub(super) fn leave_out(&mut self, at: Time, node: NodeId, name: &str, reason: UnservedReason) {
        let served = |member: &Member| {
            member.node == node || (member.name == name && member.outcome == MemberOutcome::Verified)
        };
        if !self.roster.members().iter().any(served) {
            self.catch_up.unserved.add(Unserved { name: name.to_owned(), node, at, reason });
        }
    }

    /// Stops the protocol's wait for a member that has left.
    pub(super) fn release(&mut self, now: Time, member: NodeId) {
        // The roster announces the loss to the other members.
        if self.config.has_roster() {
            self.announcing.pending.insert(Pending::Roster);
        }
        self.hosted.lost.push(member);
        self.with_inner(|inner| {
            if let Some(sender) = inner.as_sender() {
                sender.expel(now, member);
            }
        });
    }

    /// Removes a member before the session runs.
    pub(super) fn forget(&mut self, now: Time, index: usize, reason: UnservedReason) {
        let Member { node, name, .. } = self.roster.members()[index].clone();
        self.watching.stop_waiting(node);
        self.answering.replies.remove(&node);
        self.roster.remove(index);
        self.leave_out(now, node, &name, reason);
        self.events.push(Event::MemberLost { member: node });
    }

    /// Expels a member that the protocol still counts, or has completed.
    pub(super) fn give_up(&mut self, now: Time, index: usize, reason: String) {
        let node = self.roster.members()[index].node;
        self.watching.stop_waiting(node);
        self.roster.lose(index, reason);
        self.events.push(Event::MemberLost { member: node });
        // Expel a verified member too, since the others may still wait for it.
        let was_silent = self.is_silent(self.awake(now), index);
        let record = self.roster.record_mut(index);
        (record.expelled, record.was_silent) = (true, was_silent);
        self.release(now, node);
    }

    /// PROGRESS interval in milliseconds, as invitations state it.
    pub(super) fn progress_interval(&self) -> u16 {
        let interval = self.config.progress_interval(self.roster.members().len());
        u16::try_from(interval.as_millis()).unwrap_or(u16::MAX)
    }

    /// State as invitations state it.
    fn state(&self) -> State {
        match (self.announcing.end, self.phase) {
            (Some(end_notices), _) => end_notices.state,
            (None, SenderPhase::Gathering) => State::Gathering,
            (None, SenderPhase::Assembling) => State::Assembling,
            (None, SenderPhase::Running) => State::Running,
            (None, SenderPhase::Closing) => State::Closing,
            (None, SenderPhase::Finished) => State::Finished,
            (None, SenderPhase::Aborted) => State::Aborted,
        }
    }

    /// Invitation to the group.
    fn invitation(&self) -> Invite<'_> {
        let name = |name| Name::new(name).expect("names were checked when the session was made");
        let settings = Settings::new(&self.announcing.settings)
            .expect("settings were checked when the session was made");
        let reason = self.announcing.failure.as_deref().and_then(Text::new).unwrap_or_default();
        Invite {
            state: self.state(),
            max_payload: self.config.max_payload,
            progress_interval: self.progress_interval(),
            relays: self.config.lets_relays_in(),
            sizes: self.config.shown(),
            protocol: name(self.config.protocol.name),
            sender: name(&self.config.name),
            settings,
            reason,
            job: Some(self.config.job.id),
            asks: self.config.job.asks,
            job_name: self.config.job.name.as_deref().map(name),
        }
    }

    /// Writes the next packet to the group, if one is due.
    pub(super) fn emit_pending(&mut self, now: Time, buf: &mut Vec<u8>) -> Option<Transmit> {
        while let Some(&first) = self.announcing.pending.first() {
            let transmit = match first {
                Pending::Invite => Some(self.emit_invite(now, buf)),
                Pending::Notice => self.emit_notice(buf),
                Pending::Size => self.emit_size(buf),
                Pending::Roster => self.emit_roster(buf),
                Pending::Measure => self.emit_measure(buf),
            };
            if transmit.is_some() {
                return transmit;
            }
            // No part of this packet is left.
            self.announcing.pending.remove(&first);
        }
        None
    }

    fn emit_invite(&mut self, now: Time, buf: &mut Vec<u8>) -> Transmit {
        self.announcing.pending.remove(&Pending::Invite);
        let invite = self.invitation();
        Packet { association: self.config.association, body: Body::Invite(invite) }.emit(buf);
        match self.announcing.on_invite_sent(now) {
            Some(State::Aborted) => self.set_phase(SenderPhase::Aborted),
            Some(_) => self.set_phase(SenderPhase::Finished),
            None => {}
        }
        Transmit::now(Dest::group(self.config.group))
    }

    pub(super) fn emit_reply(&mut self, buf: &mut Vec<u8>) -> Option<Transmit> {
        if self.answering.replies.is_empty() {
            return None;
        }
        let terms = self.invitation().terms();
        // A reply is composed when it leaves, so it states the present state.
        while let Some((node, reply)) = self.answering.replies.pop_first() {
            let member = self.roster.index_of(node);
            let body = match (reply, member) {
                (Reply::Refuse(nonce, reason), _) => Body::Refuse { nonce, reason, text: Text::default() },
                (Reply::Answer(nonce), member) => {
                    // The reason of a failure is for members only.
                    let known = member.is_some_and(|index| self.roster.record(index).nonce == nonce);
                    let reason = self.announcing.failure.as_deref().filter(|_| known).and_then(Text::new);
                    Body::Answer { nonce, state: self.state(), terms, text: reason.unwrap_or_default() }
                }
                (Reply::Welcome, Some(index)) if !self.roster.record(index).expelled => {
                    let member = self.roster.members()[index].number;
                    Body::Welcome { nonce: self.roster.record(index).nonce, member, terms }
                }
                (Reply::Challenge(nonce, slot), _) => {
                    let body = Body::Challenge { nonce, cookie: self.cookie(node, nonce, slot) };
                    Packet { association: self.config.association, body }.emit(buf);
                    return Some(Transmit::now(Dest::Node(node)).to_stranger());
                }
                (Reply::Invite, _) => self.short_invite(),
                (Reply::ReportAck, Some(index)) => Body::ReportAck { nonce: self.roster.record(index).nonce },
                (Reply::Earlier(nonce), _) => {
                    let name = Name::new(&self.config.name);
                    emit_answer(
                        self.config.association,
                        name.expect("names were checked when the session was made"),
                        nonce,
                        buf,
                    );
                    return Some(Transmit::now(Dest::Node(node)));
                }
                (Reply::Former(association, nonce), _) => {
                    Packet { association, body: Body::ReportAck { nonce } }.emit(buf);
                    return Some(Transmit::now(Dest::Node(node)));
                }
                (Reply::Over(association, nonce), _) => {
                    let body = Body::Answer { nonce, state: State::Finished, terms, text: Text::default() };
                    Packet { association, body }.emit(buf);
                    return Some(Transmit::now(Dest::Node(node)));
                }
                (Reply::HoldingsAck, Some(index)) => {
                    let (question, bytes) = self.roster.record(index).holdings.acknowledged();
                    Body::HoldingsAck { nonce: self.roster.record(index).nonce, question, bytes }
                }
                // Obsolete: the member is gone.
                (Reply::Welcome | Reply::ReportAck | Reply::HoldingsAck, _) => continue,
            };
            Packet { association: self.config.association, body }.emit(buf);
            return Some(Transmit::now(Dest::Node(node)));
        }
        None
    }
}

/// Maximum number of answers to strangers per second.
const STRANGERS_RATE: u32 = 500;
/// Maximum number of pending answers to strangers.
pub(super) const MAX_STRANGERS: usize = 64;
