//! Admission of receivers: which receiver of the job a JOIN stands for, and whether it is admitted.

use std::net::IpAddr;

use carillon_core::{DropReason, Duration, Event, NodeId, Time};
use carillon_wire::session::{Cookie, MemberRole, Nonce, Origin, RefuseReason, State};

use super::SenderSession;
use super::state::{Reply, SenderPhase};
use crate::config::{Gather, HelperSelection};
use crate::ledger::{Applicant, Entry, LedgerMatch};
use crate::roster::{Joining, MemberOutcome};
use crate::secret;
use crate::unserved::UnservedReason;

/// Receiver of the job that a JOIN stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Speaker {
    /// The receiver with this index in the ledger.
    Known(usize),
    /// A receiver that is new to the job.
    New,
    /// A known receiver that may still be at its former node: the next JOINs of both decide.
    Undecided,
}

impl SenderSession {
    pub(super) fn on_join(
        &mut self,
        now: Time,
        source: NodeId,
        nonce: Nonce,
        mut joining: Joining<'_>,
        (cookie, origin): (Option<Cookie>, Option<Origin>),
    ) {
        let own = joining.name;
        // An aborted session admits no receiver, so it gets the state of the session.
        if self.phase == SenderPhase::Aborted
            || self.announcing.end.is_some_and(|f| f.state == State::Aborted)
        {
            return self.answer(now, source, Reply::Answer(nonce));
        }
        // A member repeats its JOIN as a keepalive, or because WELCOME was lost.
        if let Some(index) = self.roster.index_of(source)
            && self.roster.record(index).nonce == nonce
        {
            if self.roster.record(index).expelled {
                return self.refuse_expelled(now, index);
            }
            self.on_member_asks(now, index);
            self.heard(now, index);
            self.roster.member_mut(index).largest = joining.largest;
            self.answering.replies.insert(source, Reply::Welcome);
            return;
        }
        // Keep no state for a JOIN until its address has answered a challenge.
        if !self.is_answered(now, source, nonce, cookie) {
            self.on_stranger_asks(now, source, own);
            return self.challenge(now, source, nonce);
        }
        self.gathering.arrivals.on_answered(now, source);
        self.await_quiet();
        if let Some(index) = self.roster.index_of(source)
            && self.phase == SenderPhase::Gathering
        {
            // The receiver was restarted, or its address is forged: in the latter case the true one is still heard.
            if now.since(self.roster.record(index).heard) < RESTART_SILENCE {
                return self.events.dropped(DropReason::NotAMember);
            }
            self.forget(now, index, UnservedReason::Left(String::new()));
        }
        let who =
            Applicant { own, node: source, host: self.config.network.addresses.of_node(source), origin };
        let started = self.phase != SenderPhase::Gathering;
        let speaker = self.speaker(now, &who, started);
        if speaker == Speaker::Undecided {
            return self.events.dropped(DropReason::NotAMember);
        }
        if let Speaker::Known(index) = speaker
            && joining.part.receives()
            && self.note_done(now, index, &who)
        {
            return self.refuse(now, source, nonce, RefuseReason::Done);
        }
        let helping = &self.config.helpers.wanted;
        let (may_help, has_helpers) = (helping.allows(own), self.roster.helpers() >= helping.count());
        if joining.part == MemberRole::ReceivesAndHelps && (!may_help || has_helpers) {
            // The member is willing to help, but not needed as a helper.
            joining.part = MemberRole::Receives;
        }
        let refusal = self.refusal(&who, joining.part, nonce);
        if let (Speaker::Known(index), true, None) =
            (speaker, self.config.job.is_series() && started, refusal)
        {
            self.replace(now, index, source);
        }
        let (name, refusal) = self.enter(speaker, &who, joining.part, refusal);
        let name = name.unwrap_or_else(|| own.to_owned());
        if let Some(reason) = refusal {
            if reason != RefuseReason::Nonce {
                self.leave_out(now, source, &name, UnservedReason::Refused(reason));
            }
            return self.refuse(now, source, nonce, reason);
        }
        self.admit(now, source, nonce, Joining { name: &name, ..joining });
    }

    /// Reason to refuse a receiver that has answered from its address.
    fn refusal(&self, who: &Applicant<'_>, part: MemberRole, nonce: Nonce) -> Option<RefuseReason> {
        let (helping, started) = (&self.config.helpers.wanted, self.phase != SenderPhase::Gathering);
        let (may_help, has_helpers) = (helping.allows(who.own), self.roster.helpers() >= helping.count());
        let (receives, helps) = (part.receives(), part.helps());
        // A helper's name is reserved for it, a helper must be permitted, and an expected receiver must receive.
        let out_of_place = match (helps, helping, &self.config.gather) {
            (true, _, _) if !may_help => true,
            (false, HelperSelection::Names(names), _) if names.contains(who.own) => true,
            (_, _, Gather::Names(names)) => names.contains(who.own) != receives,
            (_, _, Gather::Again { only: Some(names), .. }) => !names.contains(who.own),
            _ => false,
        };
        // Reserve the places of expected helpers.
        let free = self.config.member_limit() - helping.count();
        let is_full = (helps && has_helpers)
            || (receives && (self.roster.receivers() >= free || self.has_too_many_at(who.node)));
        let elsewhere = |host: &IpAddr| who.host != Some(*host);
        // A receiver of a stream that cannot resume would take a later message for the first.
        let may_resume = !self.config.job.is_series() || who.origin.is_some_and(|origin| origin.resumes);
        if out_of_place || self.config.hosts.get(who.own).is_some_and(elsewhere) {
            // An earlier start would not help this receiver.
            Some(RefuseReason::NotExpected)
        } else if started && !(self.config.job.further && may_resume && part == MemberRole::Receives) {
            Some(RefuseReason::AlreadyStarted)
        } else if !started && is_full {
            Some(RefuseReason::Full)
        } else if !started && self.roster.has_identity(secret::identity(nonce)) {
            Some(RefuseReason::Nonce)
        } else {
            None
        }
    }

    /// Enters a receiver in the ledger unless it is refused. Returns its name in the job, and the reason to refuse it.
    fn enter(
        &mut self,
        speaker: Speaker,
        who: &Applicant<'_>,
        part: MemberRole,
        refusal: Option<RefuseReason>,
    ) -> (Option<String>, Option<RefuseReason>) {
        let started = self.phase != SenderPhase::Gathering;
        // A refused receiver gets no entry in the ledger, so strangers cannot fill it.
        let name = match refusal {
            None => self.taken_down(speaker, who),
            Some(_) => None,
        };
        let refusal = match &name {
            // The place of a helper expected by name is reserved for it.
            Some(name)
                if part.helps()
                    && name != who.own
                    && matches!(self.config.helpers.wanted, HelperSelection::Names(_)) =>
            {
                Some(RefuseReason::NameTaken)
            }
            Some(name) if started && self.want(name) => Some(RefuseReason::Later),
            Some(_) if started => Some(RefuseReason::AlreadyStarted),
            Some(_) => None,
            None => refusal.or(Some(RefuseReason::Full)),
        };
        (name, refusal)
    }

    /// Admits a receiver as a member.
    fn admit(&mut self, now: Time, source: NodeId, nonce: Nonce, joining: Joining<'_>) {
        let (name, receives) = (joining.name, joining.part.receives());
        // An earlier process of the same receiver is gone.
        if let Some(index) = self.roster.members().iter().position(|member| member.name == name) {
            self.forget(now, index, UnservedReason::Left(String::new()));
        }
        self.catch_up.unserved.remove(source, name);
        self.catch_up.undecided.remove(&source);
        self.roster.add(now, source, nonce, joining);
        self.heard(now, self.roster.members().len() - 1);
        self.answering.replies.insert(source, Reply::Welcome);
        self.events.push(Event::MemberJoined { member: source });
        // The waiting time runs from the join of the first receiver.
        let settle = match self.config.gather {
            Gather::Settle(time) | Gather::Quiet(time) | Gather::Again { settle: time, .. } => Some(time),
            Gather::Count(_) | Gather::Names(_) => self.config.limits.wait,
            Gather::Wait(_) | Gather::Silent(_) => None,
        };
        if let Some(time) = settle.filter(|_| self.roster.receivers() == 1 && receives) {
            self.gathering.on_first_join(now, time);
            self.begin_quiet_start(now);
        }
    }

    /// Expels the member that a receiver was before it was started again, so that a stream does not wait for it.
    fn replace(&mut self, now: Time, index: usize, node: NodeId) {
        let former = self.catch_up.ledger.entry(index).node;
        if let Some(index) = self.roster.index_of(former).filter(|_| former != node)
            && self.roster.members()[index].outcome == MemberOutcome::Active
        {
            self.give_up(now, index, "was replaced by its new process".to_owned());
        }
    }

    /// Returns true if this receiver of the job was heard just now.
    fn is_there(&self, now: Time, entry: &Entry) -> bool {
        let heard = self.heard_last(entry);
        entry.waits || heard.is_some_and(|heard| self.awake(now).since(heard) < RESTART_SILENCE)
    }

    /// Time at which this receiver was last heard in this session, unless it was expelled.
    fn heard_last(&self, entry: &Entry) -> Option<Time> {
        let index = self.roster.index_of(entry.node)?;
        let record = self.roster.record(index);
        let is_lost = matches!(self.roster.members()[index].outcome, MemberOutcome::Lost(_));
        (!is_lost && !record.expelled).then_some(record.heard)
    }

    /// Receiver that a JOIN stands for.
    fn speaker(&mut self, now: Time, who: &Applicant<'_>, started: bool) -> Speaker {
        let is_there = |entry: &Entry| self.is_there(now, entry);
        let ledger = &self.catch_up.ledger;
        let found =
            match self.config.job.is_series() && (started || !self.config.job.earlier.sessions.is_empty()) {
                true => ledger.find_live(who, is_there, |index| self.is_done(index)),
                false => ledger.find(who, is_there),
            };
        let (index, has_moved) = match found {
            LedgerMatch::New => return Speaker::New,
            LedgerMatch::Entry(index) => (index, false),
            LedgerMatch::Moved(index) => (index, true),
        };
        let entry = self.catch_up.ledger.entry(index);
        // At the same host and place, a new process replaces the old one without delay.
        if entry.node == who.node || (started && !has_moved) || self.is_done(index) {
            return Speaker::Known(index);
        }
        let Some(heard) = self.heard_last(entry) else { return Speaker::Known(index) };
        let awake = self.awake(now);
        if awake.since(heard) >= RESTART_SILENCE {
            return Speaker::Known(index);
        }
        let is_new = !self.catch_up.undecided.contains_key(&who.node);
        // The map is bounded. The oldest entry goes, which only delays the decision about its node.
        if is_new && self.catch_up.undecided.len() >= MAX_UNDECIDED {
            let oldest =
                self.catch_up.undecided.iter().min_by_key(|(_, since)| **since).map(|(node, _)| *node);
            oldest.and_then(|node| self.catch_up.undecided.remove(&node));
        }
        let since = *self.catch_up.undecided.entry(who.node).or_insert(awake);
        // Packets from the old node after the first JOIN from the new one show that there are two receivers.
        if heard > since { Speaker::New } else { Speaker::Undecided }
    }

    /// Returns true if this receiver of the job has everything.
    pub(super) fn is_done(&self, index: usize) -> bool {
        let entry = self.catch_up.ledger.entry(index);
        let verified = |index: usize| self.roster.members()[index].outcome == MemberOutcome::Verified;
        entry.verified
            || self.catch_up.reported_since.contains_key(&entry.name)
            || (!self.catch_up.continues && self.roster.index_of(entry.node).is_some_and(verified))
    }

    /// Returns true if this receiver has everything, according to the ledger or to this JOIN.
    fn note_done(&mut self, now: Time, index: usize, who: &Applicant<'_>) -> bool {
        let is_done = self.is_done(index);
        let entry = self.catch_up.ledger.entry(index);
        // Only the process that was verified can claim it.
        let says_so =
            who.origin.filter(|origin| origin.is_done).is_some_and(|origin| entry.is_process(origin));
        if is_done || !says_so {
            return is_done;
        }
        let name = entry.name.clone();
        self.catch_up.ledger.entry_mut(index).verified = true;
        self.catch_up.wanting.remove(&name);
        self.catch_up.reported_since.entry(name).or_insert(now);
        true
    }

    /// Adds the receiver of a JOIN to the ledger. Returns its name in the job; `None` if there are too many.
    fn taken_down(&mut self, speaker: Speaker, who: &Applicant<'_>) -> Option<String> {
        let index = match speaker {
            Speaker::Known(index) => {
                self.catch_up.ledger.moved(index, who);
                index
            }
            Speaker::New | Speaker::Undecided => self.add_to_ledger(who)?,
        };
        let entry = self.catch_up.ledger.entry_mut(index);
        // A receiver that joins after the start waits for the catch-up session.
        entry.waits |= self.phase != SenderPhase::Gathering;
        Some(entry.name.clone())
    }

    fn add_to_ledger(&mut self, who: &Applicant<'_>) -> Option<usize> {
        if self.phase != SenderPhase::Gathering && self.catch_up.wanting.len() >= self.config.member_limit() {
            // The catch-up session has no place left.
            return None;
        }
        let limit = LEDGER_LIMIT * self.config.max_members;
        // The roster lists the sender too, so its name is reserved.
        let sender = self.config.has_roster().then_some(self.config.name.as_str());
        self.catch_up.ledger.add(who, limit, |name| Some(name) == sender)
    }

    /// Receiver of the job that declines because it is late.
    pub(super) fn late(&mut self, node: NodeId, own: &str) -> Option<usize> {
        let who = Applicant { own, node, host: self.config.network.addresses.of_node(node), origin: None };
        let index = self.catch_up.ledger.declined(&who).or_else(|| self.add_to_ledger(&who))?;
        self.catch_up.ledger.entry_mut(index).waits = true;
        Some(index)
    }
}

/// Time since its last packet within which a gathering member cannot have been restarted.
const RESTART_SILENCE: Duration = Duration::from_millis(2500);
/// Maximum number of nodes with an undecided identity.
const MAX_UNDECIDED: usize = 64;
/// Maximum number of receivers in the ledger of a job, as a multiple of the members of a session.
const LEDGER_LIMIT: usize = 4;
