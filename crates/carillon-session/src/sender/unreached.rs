//! Members that long datagrams do not reach while the session runs.
//!
//! The sender finds the longest datagram that reaches all members while it [gathers](super::sizes). A forged SIZE can
//! make that too long, and a path can shrink later: a route changes, a tunnel begins. The sender therefore keeps
//! checking. A member that answers polls and receives no data is set aside. The next session of the job then sends
//! datagrams of [`fallback`](SenderSessionConfig::fallback) bytes and trusts no SIZE. RFC 8899 (4.4) calls such a path
//! a black hole and falls back to its base size in the same way.

use carillon_core::Time;
use carillon_wire::session::{MemberRole, RefuseReason};

use super::SenderSession;
use super::sizes::Shortened;
use crate::config::{SenderSessionConfig, Slow};
use crate::roster::{Aside, Member, MemberOutcome};

impl SenderSessionConfig {
    /// Returns true if a catch-up session serves at least the members that this one sets aside. The data of a stream
    /// may be gone by then, so its sender waits for stragglers instead.
    pub(super) fn serves_aside(&self) -> bool {
        (self.job.further || self.job.lanes) && !self.job.is_series()
    }
}

impl SenderSession {
    /// Names of the members that the datagrams of this session do not reach, or that acknowledge none of them.
    pub fn unreached(&self) -> impl Iterator<Item = &str> {
        let members = self.roster.members().iter().enumerate();
        // A member that reports afterwards that it has everything needs no catch-up session.
        let is_unreached = |(index, member): &(usize, &Member)| {
            self.roster.record(*index).is_unreached() && matches!(member.outcome, MemberOutcome::Lost(_))
        };
        let unreached = members.filter(is_unreached);
        unreached.map(|(_, member)| member.name.as_str())
    }

    /// The size of datagrams for the next session and a member that needs it, if longer ones do not reach all.
    pub fn falls_back(&self) -> Option<Shortened> {
        let member = self.unreached().next()?.to_owned();
        self.config.fallback.map(|datagram| Shortened { datagram, member })
    }

    /// Bytes of the longest datagram that a message makes.
    pub(super) fn longest_datagram(&self) -> usize {
        let headers = (self.config.protocol.packets.header_bytes)(&self.config.config).max;
        self.sending.max_payload as usize + headers
    }

    /// Returns true if a catch-up session may serve this member with shorter datagrams.
    fn can_fall_back(&self, index: usize) -> bool {
        let shorter =
            self.config.fallback.is_some_and(|datagram| usize::from(datagram) < self.longest_datagram());
        let member = &self.roster.members()[index];
        let receives = member.part == MemberRole::Receives && member.outcome == MemberOutcome::Active;
        shorter && receives && self.config.serves_aside() && !self.config.has_roster()
    }

    /// Reason to assume that datagrams of this session do not reach a member: packets were sent to it and none
    /// arrived, although it answers, or it is heard and acknowledges nothing.
    fn why_unreached(&self, awake: Time, index: usize) -> Option<String> {
        let (lag, bytes) = (&self.roster.record(index).lag, self.longest_datagram());
        if let Some(lost) = lag.lost_run.unreached() {
            return Some(format!("received none of {lost} packets of up to {bytes} bytes, but answers"));
        }
        // The protocol counts arrivals, and these show no such path.
        if lag.path.is_some() {
            return None;
        }
        // A protocol that does not count what arrives cannot tell this from an application that takes nothing.
        let waits = self.config.slow == Slow::Wait;
        let patience = if waits { PATIENCE_OF_WAIT } else { 1 } * self.config.member_timeout;
        let stalls = lag.stalled.0 >= patience && !self.is_silent(awake, index);
        stalls.then(|| format!("acknowledged nothing of datagrams of up to {bytes} bytes, but is heard"))
    }

    /// Records that a member is set aside for another reason than the length of datagrams, which may be the cause even
    /// so.
    pub(super) fn note_aside(&mut self, index: usize) {
        let is_suspect = self.can_fall_back(index) && self.roster.record(index).lag.lost_run.is_suspect();
        self.roster.record_mut(index).aside = if is_suspect { Aside::Unreached } else { Aside::Slow };
    }

    /// Sets a member aside that the datagrams of this session do not reach, if shorter ones may. Returns true if it
    /// did.
    pub(super) fn set_aside_unreached(&mut self, now: Time, awake: Time, index: usize) -> bool {
        if !self.can_fall_back(index) {
            return false;
        }
        let Some(reason) = self.why_unreached(awake, index) else { return false };
        let record = self.roster.record_mut(index);
        // REFUSE goes out below, so `refuse_expelled` waits a heartbeat before it sends another one.
        (record.aside, record.refused) = (Aside::Unreached, Some(now));
        let (nonce, node) = (record.nonce, self.roster.members()[index].node);
        self.give_up(now, index, reason);
        let name = self.roster.members()[index].name.clone();
        // The member is notified at once: the session may be over before its next packet arrives.
        if self.want(&name) {
            self.refuse(now, node, nonce, RefuseReason::Later);
        }
        true
    }
}

/// Number of member timeouts for which a member may acknowledge nothing where slow ones are waited for.
const PATIENCE_OF_WAIT: u32 = 4;
