//! The token list, and how a site comes to a new one: the reformation phase.
//!
//! Who takes part in a reformation neither acknowledges nor accepts the token nor delivers anything until a list
//! is in force; then all of the log that goes on is committed, and the coordinator is the token site.

use bytes::Bytes;
use carillon_core::{BuildContext, ConfigError, Event, MessageId};
use carillon_wire::chang_maxemchuk::{Ack, Body};

use super::config::Settings;
use super::order::Order;
use super::peer::{Scene, Timer};
use super::requests::RUN;
use crate::blocks::reformation::{Reformation, Step, Terms, too_few};
use crate::blocks::{LogTransfer, next_numbers};

/// The agreement on the list, and what is to be had before one is accepted.
#[derive(Debug)]
pub(super) struct List {
    settings: Settings,
    pub agreement: Reformation,
    /// The same as it is at a site that has lost what it knew.
    strange: Reformation,
    transfer: Option<LogTransfer<(Ack, Bytes)>>,
}

/// What has become of a site's part in its list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// It has none any more.
    Left,
    /// Another list is in force.
    Installed,
}

impl List {
    /// The first one, of which the site of the context is or has been.
    pub fn new(context: &BuildContext, settings: Settings, rank: usize) -> Result<Self, ConfigError> {
        let terms = Terms {
            interval: settings.reform_timeout,
            tries: settings.patience.tries(settings.reform_timeout),
            resilience: settings.resilience as usize,
        };
        let agreement = |is_lost| {
            let rng = context.seeds.stream(if is_lost { "reformation.anew" } else { "reformation" });
            Reformation::new(rank, context.members.len(), terms, rng, is_lost)
        };
        let (agreement, strange) = (agreement(context.rejoining)?, agreement(true)?);
        Ok(List { settings, agreement, strange, transfer: None })
    }

    /// Does what the agreement asks for, up to the next change.
    pub fn follow(&mut self, scene: &mut Scene, order: &mut Order) -> Option<Change> {
        let ballot = self.agreement.promised().number;
        self.transfer.take_if(|transfer| transfer.ballot() != ballot);
        while let Some(step) = self.agreement.poll_step() {
            match step {
                Step::Leave => {
                    scene.timers.clear();
                    scene.events.push(Event::StateChanged { state: "reformation" });
                    return Some(Change::Left);
                }
                Step::Install => {
                    scene.timers.clear();
                    let view = self.agreement.view();
                    scene.on_view(&order.sites().iter().map(|&rank| rank.into()).collect(), view);
                    order.install(scene, view);
                    scene.events.push(Event::StateChanged { state: "normal" });
                    return Some(Change::Installed);
                }
                Step::Short { votes } => scene.events.too_few(too_few(votes, scene.nodes.len())),
                Step::Fetch { length, state: Some(state), .. } => {
                    if let Some(numbers) = next_numbers(&state, scene.nodes.len())
                        && order.join(scene, length, numbers)
                    {
                        self.accept(scene, order);
                    }
                }
                Step::Fetch { from, length, continues, others, state: None } => {
                    let start = if continues { order.log.length() } else { order.log.committed() };
                    if length.saturating_sub(start) > order.log.most_apart() {
                        self.begin_anew(scene, order);
                        continue;
                    }
                    self.transfer = Some(LogTransfer::new(ballot, from, others, start, length));
                    self.complete(scene, order);
                }
            }
        }
        None
    }

    /// This site is gone for good.
    pub fn expel(&mut self, scene: &mut Scene, rank: usize) {
        self.strange.expel(scene.now, rank);
        self.agreement.expel(scene.now, rank);
    }

    /// A part of the log that is fetched. Returns whether any is.
    pub fn on_fetched(
        &mut self,
        scene: &mut Scene,
        order: &mut Order,
        from: u16,
        ack: Ack,
        payload: Bytes,
    ) -> bool {
        let Some(transfer) = &mut self.transfer else { return false };
        if order.is_whole(scene, &ack) && transfer.insert(from.into(), ack.timestamp, (ack, payload)) {
            self.agreement.progress();
            self.complete(scene, order);
        }
        true
    }

    /// What is fetched is not kept there any more: perhaps another member of the new list has it, for the
    /// coordinator may be one that had lost what it knew.
    pub fn on_purged(&mut self, scene: &mut Scene, order: &Order, from: u16, below: u64) {
        if let Some(transfer) = &mut self.transfer
            && transfer.asks(from.into())
            && transfer.missing() < below
            && !transfer.ask_another()
        {
            self.begin_anew(scene, order);
        }
    }

    /// What was asked for has not come.
    pub fn on_fetch_timeout(&mut self) {
        let coordinator = self.agreement.promised().coordinator.into();
        if let Some(transfer) = &mut self.transfer {
            transfer.ask_again(coordinator);
        }
    }

    /// What is asked for next of the log that goes on.
    pub fn poll(&mut self, scene: &mut Scene) -> Option<(u16, Body<'static>)> {
        let (from, run) = self.transfer.as_mut()?.ask(RUN, RUN)?;
        scene.timers.arm(Timer::Fetch, scene.now + self.settings.request_timeout);
        scene.control("retrans", run.start);
        Some((from as u16, Body::Retrans { from: run.start, below: run.end }))
    }

    /// Whether no list is in force here because of this site.
    pub fn awaits(&self, rank: usize) -> bool {
        let asked = self.transfer.as_ref().is_some_and(|transfer| transfer.asks(rank));
        asked || self.agreement.awaits(rank)
    }

    /// The log from where this site's own may differ is complete: it takes its place.
    fn complete(&mut self, scene: &mut Scene, order: &mut Order) {
        if let Some(transfer) = self.transfer.take_if(|transfer| transfer.is_complete()) {
            let (start, _, entries) = transfer.into_parts();
            order.replace(scene, start, entries);
            self.accept(scene, order);
        }
    }

    fn accept(&mut self, scene: &mut Scene, order: &Order) {
        self.transfer = None;
        scene.timers.cancel(Timer::Fetch);
        self.agreement.fetched(scene.now, order.log.state());
    }

    /// What this site would have to fetch is kept nowhere any more: it joins as if it had lost all.
    fn begin_anew(&mut self, scene: &mut Scene, order: &Order) {
        for &rank in order.sites() {
            // Of each source, what comes next may be lost to it.
            let message = MessageId(order.log.expected(rank));
            scene.events.push(Event::LossFound { source: None, message });
        }
        // It is asked to leave, like any other that has lost what it knew.
        self.agreement = self.strange.clone();
        self.agreement.handle_timeout(scene.now, order.log.length());
    }
}
