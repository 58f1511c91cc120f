//! Between two views: what the [reformation](crate::blocks::reformation) asks for.

use std::collections::BTreeSet;

use bytes::Bytes;
use carillon_core::{BuildContext, ConfigError, DropReason, Event, MessageId, Transmit};
use carillon_wire::reformation::Ranks;
use carillon_wire::sequencer::Body;

use super::config::{FETCHED, Settings};
use super::follower::MOST_ASKED;
use super::order::{Entry, Order, near};
use super::peer::{Scene, Timer, answer};
use crate::blocks::reformation::{Reformation, Step, Terms, To, too_few};
use crate::blocks::{LogTransfer, next_numbers};

/// The agreement on the view, and what is to be had before one is accepted.
#[derive(Debug)]
pub(super) struct Election {
    settings: Settings,
    pub agreement: Reformation,
    /// The members of the last view that was in force here.
    known: Ranks,
    /// The log of a new view, while it is fetched.
    transfer: Option<LogTransfer<Entry>>,
    /// What other nodes lack: places and ranks.
    serve: BTreeSet<(u64, usize)>,
}

/// What has become of a member's part in its view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// It has none any more.
    Left,
    /// Another view is in force.
    Installed,
}

impl Election {
    /// In the first view, to which the member of the context belongs or has belonged.
    pub fn new(context: &BuildContext, settings: &Settings, rank: usize) -> Result<Self, ConfigError> {
        let terms = Terms {
            interval: settings.vote_interval,
            tries: settings.patience.tries(settings.vote_interval),
            resilience: settings.resilience,
        };
        let rng = context.seeds.stream("sequencer.reformation");
        let agreement = Reformation::new(rank, context.members.len(), terms, rng, context.rejoining)?;
        let known = agreement.view().members;
        Ok(Election { settings: settings.clone(), agreement, known, transfer: None, serve: BTreeSet::new() })
    }

    /// Does what the agreement asks for, up to the next change.
    pub fn follow(&mut self, scene: &mut Scene, order: &mut Order) -> Option<Change> {
        let ballot = self.agreement.promised().number;
        self.transfer.take_if(|transfer| transfer.ballot() != ballot);
        while let Some(step) = self.agreement.poll_step() {
            let change = match step {
                Step::Leave => {
                    scene.timers.clear();
                    order.forget_parked();
                    Some(Change::Left)
                }
                Step::Install => {
                    order.install(scene);
                    let view = *self.agreement.view();
                    scene.on_view(&self.known, &view);
                    self.known = view.members;
                    self.serve.clear();
                    Some(Change::Installed)
                }
                Step::Short { votes } => {
                    scene.events.too_few(too_few(votes, scene.nodes.len()));
                    None
                }
                Step::Fetch { length, state: Some(state), .. } => {
                    if let Some(numbers) = next_numbers(&state, scene.nodes.len()) {
                        self.join(scene, order, length, numbers);
                    }
                    None
                }
                Step::Fetch { from, length, continues, others, state: None } => {
                    let start = if continues { order.length() } else { order.delivered() };
                    // No view takes back what was delivered.
                    let transfer = LogTransfer::new(ballot, from, others, start, length);
                    self.transfer = Some(transfer).filter(|_| length >= order.delivered());
                    scene.timers.cancel(Timer::Fetch);
                    self.complete(scene, order);
                    None
                }
            };
            scene.events.push(Event::StateChanged { state: self.agreement.state() });
            if change.is_some() {
                return change;
            }
        }
        None
    }

    /// FETCH, FETCHED and GONE.
    pub fn on_packet(
        &mut self,
        scene: &mut Scene,
        order: &mut Order,
        from: usize,
        view: u32,
        body: Body<'_>,
        bytes: &Bytes,
    ) {
        if view != self.agreement.promised().number {
            return scene.events.dropped(DropReason::OutOfWindow);
        }
        let at = self.transfer.as_ref().map_or(order.length(), LogTransfer::missing);
        match (body, &mut self.transfer) {
            (Body::Fetch { order: place }, _) => {
                let place = order.near(place);
                scene.received(body.name(), place);
                if place < order.length() {
                    self.serve.insert((place, from));
                }
            }
            (Body::Fetched { order: place, source, message, payload }, Some(transfer))
                if usize::from(source) < scene.nodes.len() =>
            {
                let (source, place) = (usize::from(source), near(place, at));
                let message = near(message, order.next(source));
                let entry = Entry { source, message, payload: bytes.slice_ref(payload) };
                scene.received(body.name(), message);
                if place < at.saturating_add(FETCHED * self.settings.history as u64)
                    && transfer.insert(from, place, entry)
                {
                    self.agreement.progress();
                    self.complete(scene, order);
                }
            }
            (Body::Gone { order: place, state }, Some(transfer)) if transfer.asks(from) => {
                let place = near(place, at);
                let numbers = next_numbers(state, scene.nodes.len());
                if let Some(numbers) = numbers.filter(|_| (at + 1..=transfer.length()).contains(&place)) {
                    transfer.skip_to(place, numbers);
                    self.agreement.progress();
                    self.complete(scene, order);
                }
            }
            _ => scene.events.dropped(DropReason::OutOfWindow),
        }
    }

    /// FETCH, and the answers to it.
    pub fn poll(&mut self, scene: &mut Scene, order: &mut Order, buf: &mut Vec<u8>) -> Option<Transmit> {
        let view = self.agreement.promised().number;
        if let Some((place, rank)) = self.serve.pop_first() {
            return Some(answer(scene, order, view, place, rank, None, buf));
        }
        let (from, run) = self.transfer.as_mut()?.ask(MOST_ASKED, 1)?;
        if scene.timers.armed(Timer::Fetch).is_none() {
            scene.timers.arm(Timer::Fetch, scene.now + self.settings.retrans_interval);
        }
        let body = Body::Fetch { order: run.start as u32 };
        Some(scene.control_to(To::Rank(from), view, body, run.start, buf))
    }

    /// What was asked for has not come.
    pub fn on_fetch_timeout(&mut self) {
        let coordinator = self.agreement.promised().coordinator.into();
        if let Some(transfer) = &mut self.transfer {
            transfer.ask_again(coordinator);
        }
    }

    /// Whether no view is in force here because of this member.
    pub fn awaits(&self, rank: usize) -> bool {
        let asked = self.transfer.as_ref().is_some_and(|transfer| transfer.asks(rank));
        asked || self.agreement.awaits(rank)
    }

    /// Makes what was fetched this node's own, once it is all there.
    fn complete(&mut self, scene: &mut Scene, order: &mut Order) {
        let Some(transfer) = self.transfer.take_if(|transfer| transfer.is_complete()) else { return };
        let (start, skipped, entries) = transfer.into_parts();
        if let Some(numbers) = skipped {
            order.replace(order.delivered(), std::iter::empty());
            skip_to(scene, order, start, numbers);
        }
        order.replace(start, entries);
        self.accept(scene, order.state_at(order.length()));
    }

    /// Comes to the group without any state.
    fn join(&mut self, scene: &mut Scene, order: &mut Order, length: u64, numbers: Vec<u64>) {
        if order.outbox.is_empty() {
            order.outbox.number_from(numbers[scene.rank]);
        }
        order.begin_at(length, numbers);
        self.accept(scene, Vec::new());
    }

    fn accept(&mut self, scene: &mut Scene, state: Vec<u8>) {
        scene.timers.cancel(Timer::Fetch);
        self.agreement.fetched(scene.now, state);
    }
}

/// Nothing before this place can be had any more.
pub(super) fn skip_to(scene: &mut Scene, order: &mut Order, place: u64, numbers: Vec<u64>) {
    for lost in order.skip_to(scene, place, numbers) {
        scene.events.push(Event::LossFound { source: None, message: MessageId(lost) });
    }
}
