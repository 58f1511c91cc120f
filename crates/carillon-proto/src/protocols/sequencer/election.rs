//! Between two views: what the [reformation](crate::blocks::reformation) asks for.

use std::collections::BTreeSet;

use bytes::Bytes;
use carillon_core::{BuildContext, ConfigError, DropReason, Transmit};
use carillon_wire::sequencer::Body;

use super::config::Settings;
use super::follower::MOST_ASKED;
use super::order::{Entry, Order, near};
use super::peer::{Scene, Timer, answer};
use crate::blocks::reformation::{Reformation, Terms, To};
use crate::blocks::{Membership, next_numbers};

/// What is fetched before a view is accepted, and what others fetch.
#[derive(Debug)]
pub(super) struct Election {
    pub membership: Membership<Entry>,
    /// What other nodes lack: places and ranks.
    serve: BTreeSet<(u64, usize)>,
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
        Ok(Election { membership: Membership::new(agreement, None), serve: BTreeSet::new() })
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
        if view != self.membership.agreement().promised().number {
            return scene.events.dropped(DropReason::OutOfWindow);
        }
        let (members, asked) = (scene.nodes.len(), self.membership.asks(from));
        let at = self.membership.missing().unwrap_or(order.length());
        match body {
            Body::Fetch { order: place } => {
                let place = order.near(place);
                scene.received(body.name(), place);
                if place < order.length() {
                    self.serve.insert((place, from));
                }
            }
            Body::Fetched { order: place, source, message, payload }
                if asked && usize::from(source) < members =>
            {
                let (source, place) = (usize::from(source), near(place, at));
                let message = near(message, order.next(source));
                let entry = Entry { source, message, payload: bytes.slice_ref(payload) };
                scene.received(body.name(), message);
                self.membership.on_fetched(scene, order, from, place, entry);
            }
            Body::Gone { order: place, state } if asked => {
                if let Some(numbers) = next_numbers(state, members) {
                    self.membership.on_gone(scene, order, near(place, at), numbers);
                }
            }
            _ => scene.events.dropped(DropReason::OutOfWindow),
        }
    }

    /// FETCH, and the answers to it.
    pub fn poll(
        &mut self,
        scene: &mut Scene,
        order: &mut Order,
        settings: &Settings,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let view = self.membership.agreement().promised().number;
        if let Some((place, rank)) = self.serve.pop_first() {
            return Some(answer(scene, order, view, place, rank, None, buf));
        }
        let (from, run) = self.membership.ask(MOST_ASKED, 1)?;
        if scene.timers.armed(Timer::Fetch).is_none() {
            scene.timers.arm(Timer::Fetch, scene.now + settings.retrans_interval);
        }
        let body = Body::Fetch { order: run.start as u32 };
        Some(scene.control_to(To::Rank(from), view, body, run.start, buf))
    }

    /// Another view is in force: what was asked for between two is not any more.
    pub fn on_installed(&mut self) {
        self.serve.clear();
    }
}
