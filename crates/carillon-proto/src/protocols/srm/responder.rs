//! Repairs for other members: budgets, scopes, and two-step repairs.

use std::collections::BTreeMap;
use std::sync::Arc;

use carillon_core::{DropReason, Scope, Transmit};
use carillon_wire::srm::{Answer, Data, Packet, Request};

use super::config::Settings;
use super::context::{Context, micros};
use super::recovery::Key;
use super::streams::Streams;
use crate::blocks::reformation::To;
use crate::blocks::{LocalRecovery, Reach, RepairBudget, RepairScope, RequestOrigin};

/// Repairs of a member. Recovery decides when they are sent.
#[derive(Debug)]
pub(super) struct RepairResponder {
    settings: Arc<Settings>,
    /// Repair budget for each requester's rank.
    budget: RepairBudget<u32>,
    /// Two-step repairs to repeat locally, with their scope in hops.
    pub repeats: BTreeMap<Key, u8>,
}

impl RepairResponder {
    /// Creates a responder without requests.
    pub fn new(settings: Arc<Settings>) -> Self {
        RepairResponder {
            budget: RepairBudget::new(settings.repair_budget),
            repeats: BTreeMap::new(),
            settings,
        }
    }

    /// Handles a request of another member.
    pub fn on_request(
        &mut self,
        context: &mut Context,
        streams: &mut Streams,
        request: &Request,
        scope: Scope,
    ) {
        let source = request.source;
        if source as usize >= context.nodes.len() {
            return context.events.dropped(DropReason::Malformed);
        }
        let stream = streams.stream(source, request.sequence);
        let number = stream.expand(request.sequence);
        let (key, rounds, is_here) =
            ((source, number), stream.rounds(number), stream.payload(number).is_some());
        context.events.received("request", number);
        // A request for an unknown message reveals its loss here.
        if number >= stream.next() {
            if source as usize == context.rank {
                // The message was never sent.
                return context.events.dropped(DropReason::OutOfWindow);
            }
            return streams.extend_known(context, source, number + 1, None);
        }
        let allowed = self.budget.left(request.from, streams.stored()) > 0;
        if request.scope == u8::MAX {
            streams.recovery.widen(key);
        }
        // A pending request, repair or hold-down handles the request.
        if streams.recovery.on_request(context, key, request.round.into(), false) {
            return;
        }
        if !is_here {
            return context.events.dropped(DropReason::OutOfWindow);
        }
        if !allowed {
            return context.events.dropped(DropReason::Redundant);
        }
        // Hops from the requester: the routers on the path, and one more. The repair must travel as far back.
        let way = request.scope.saturating_sub(scope.0).saturating_add(1);
        let reach = self.settings.local.reach(RequestOrigin { scope: request.scope, way });
        streams.recovery.begin_repair(context, key, request.from, rounds, reach);
        self.budget.spend(request.from, 1);
    }

    /// Handles a repair of a missing message. The requester of a two-step repair repeats it in its own neighbourhood.
    pub fn on_repaired(&mut self, context: &Context, key: Key, answer: Answer) {
        let is_asked = answer.again > 0 && answer.requester as usize == context.rank;
        if is_asked && self.settings.local == LocalRecovery::TwoStep {
            self.repeats.insert(key, answer.again.min(self.settings.local_scope));
        }
    }

    /// Emits the next repair: a two-step repetition, or the answer to a request.
    pub fn poll(
        &mut self,
        context: &mut Context,
        streams: &mut Streams,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        while let Some((key, scope)) = self.repeats.pop_first() {
            let answer = Answer { round: 0, scope, again: 0, distance_us: 0, requester: context.rank as u32 };
            if let Some(transmit) = emit(context, streams, key, answer, buf) {
                return Some(transmit);
            }
        }
        while let Some((key, repair)) = streams.recovery.next_repair() {
            let (round, requester) = (repair.round.min(u8::MAX.into()) as u8, repair.requester);
            let Reach::Group { scope, again } = repair.reach else { continue };
            let distance_us = micros(streams.recovery.distances.distance(requester));
            let answer = Answer { round, scope, again, distance_us, requester };
            let transmit = emit(context, streams, key, answer, buf);
            streams.recovery.on_sent_repair(context, key, round, distance_us);
            if transmit.is_some() {
                return transmit;
            }
        }
        None
    }
}

/// Emits the repair of a message, if it is still here.
fn emit(
    context: &mut Context,
    streams: &Streams,
    (source, number): Key,
    answer: Answer,
    buf: &mut Vec<u8>,
) -> Option<Transmit> {
    let (from, payload) = (context.rank as u32, streams.payload((source, number))?);
    let data = Data { from, source, sequence: number as u32, payload };
    Packet::Repair { data, answer }.emit(context.association, buf);
    let sent = context.data_sent(To::Group, (source as usize, number), buf.len(), true, true);
    Some(Transmit { dest: context.within(answer.scope), ..sent })
}
