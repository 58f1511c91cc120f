//! Snapshots of a running sender for monitoring.

use std::collections::BTreeMap;
use std::time::SystemTime;

use carillon_core::{NodeId, Observer, Time};
use carillon_monitor::{Limit, ReceiverView, Snapshot};
use carillon_session::{Member, MemberOutcome, SenderPhase, Standing};

use super::run::{SendRun, repairs_are_told};
use crate::publisher::{Cause, Publisher};
use crate::run_loop::Run as _;

impl<O: Observer> SendRun<O> {
    /// Sets the publisher of snapshots, used a few times a second and at the end.
    pub(super) fn published(mut self, publisher: Option<Publisher>) -> Self {
        self.publisher = publisher;
        self
    }

    /// Publishes a snapshot if one is due.
    pub(super) fn publish(&mut self, now: Time) {
        let Some(mut publisher) = self.publisher.take() else { return };
        let phase = self.driver.machine().phase();
        // After the end the session accepts no data, which is not a limit.
        let takes_more = !self.driver.machine().is_blocked() && phase == SenderPhase::Running;
        let has_more = !self.driver.application().is_finished();
        publisher.look(
            now,
            match self.driver.backpressure() {
                None if takes_more && has_more => Cause::Input,
                held => held.into(),
            },
        );
        if publisher.is_due(now) || self.is_over() {
            let snapshot = self.snapshot(now, &mut publisher);
            publisher.put(snapshot);
        }
        self.publisher = Some(publisher);
    }

    fn snapshot(&self, now: Time, publisher: &mut Publisher) -> Snapshot {
        let (session, outgoing) = (self.driver.machine(), self.driver.application());
        let phase = session.phase();
        let mut snapshot = publisher.begin(&self.driver, self.is_over());
        snapshot.protocol = Some(self.facts.protocol.name.to_owned());
        snapshot.phase = Some((phase.name(), SenderPhase::NAMES));
        snapshot.amounts.size = outgoing.manifest().bytes();
        snapshot.unserved = Some(session.unserved().len() as u64 + session.more_unserved());
        let told = repairs_are_told(self.driver.observer().repairs, session.members());
        let waits = self.facts.protocol.delivery.waits;
        let standings: BTreeMap<NodeId, Standing> =
            session.members().iter().map(|member| member.node).zip(session.standings(now)).collect();
        let view = |member: &Member| {
            let standing = standings.get(&member.node)?;
            let heard = SystemTime::now().checked_sub(standing.silent).unwrap_or(SystemTime::UNIX_EPOCH);
            let mut view = ReceiverView::new(member.name.clone(), state(member, phase), heard);
            view.address = self.driver.endpoint().peer(member.node);
            view.bytes = member.part.receives().then_some(member.bytes);
            view.repairs = told.then_some(member.repairs);
            view.waited = waits.then_some(member.waited);
            view.path = standing.path;
            Some(view)
        };
        snapshot.receivers = session.members().iter().filter_map(view).collect();
        let is_running = matches!(phase, SenderPhase::Running | SenderPhase::Closing) && !self.is_over();
        publisher.progress(now, &mut snapshot, outgoing.bytes(), is_running);
        let hindrance = publisher.hindrance(now, self.driver.stats().waited);
        snapshot.limit = match phase {
            SenderPhase::Running => Some(self.limit(hindrance, &standings)),
            SenderPhase::Closing if is_running => Some(Limit::Report { receiver: self.unreported() }),
            _ => None,
        };
        snapshot
    }

    /// Name of the only receiver without a result, if there is one.
    fn unreported(&self) -> Option<String> {
        let members = self.driver.machine().members().iter();
        let mut active = members.filter(|member| member.outcome == MemberOutcome::Active);
        active.next().filter(|_| active.next().is_none()).map(|member| member.name.clone())
    }

    fn limit(&self, (cause, work): (Cause, f64), standings: &BTreeMap<NodeId, Standing>) -> Limit {
        let members = self.driver.machine().members().iter();
        let active: Vec<(&Member, &Standing)> = members
            .filter(|member| member.outcome == MemberOutcome::Active)
            .filter_map(|member| Some((member, standings.get(&member.node)?)))
            .collect();
        match cause {
            Cause::Rate => return Limit::Rate,
            Cause::Interface => return Limit::Interface,
            _ if work >= BUSY_SHARE => return Limit::Processor,
            Cause::Input => return Limit::Input,
            Cause::Protocol => {}
        }
        if let Some((full, _)) = active.iter().find(|(_, at)| at.path.is_some_and(|path| !path.has_room)) {
            return Limit::Room { receiver: full.name.clone() };
        }
        // The receiver with the smallest measured window limits the sender, otherwise the only one that is waited
        // for.
        let mut windows: Vec<(u64, &Member)> =
            active.iter().filter_map(|(member, at)| Some((at.path?.window, *member))).collect();
        windows.sort_by_key(|(window, _)| *window);
        let awaited = || {
            let mut awaited = active.iter().filter(|(_, at)| at.awaited);
            awaited.next().filter(|_| awaited.next().is_none()).map(|(member, _)| *member)
        };
        let slowest = match windows[..] {
            [(_, only)] => Some(only),
            [(least, slowest), (next, _), ..] => (least < next / 2).then_some(slowest),
            [] => awaited(),
        };
        Limit::Path { receiver: slowest.map(|member| member.name.clone()) }
    }
}

fn state(member: &Member, phase: SenderPhase) -> &'static str {
    match member.outcome {
        MemberOutcome::Active if phase <= SenderPhase::Assembling => "waiting",
        MemberOutcome::Active => "receiving",
        MemberOutcome::Verified => "verified",
        MemberOutcome::Failed(_) => "failed",
        MemberOutcome::Lost(_) => "given_up",
    }
}

/// Busy share above which the processor is the limit.
const BUSY_SHARE: f64 = 0.9;
