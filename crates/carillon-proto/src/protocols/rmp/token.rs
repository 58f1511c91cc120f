//! Token at one member: orders the messages that it holds and passes the token on.

use std::time::Duration;

use carillon_core::{Event, ObservedState};
use carillon_wire::reformation::Ranks;
use carillon_wire::rmp::{Body, Id, Item, Slot};

use super::config::Settings;
use super::context::{Context, Timer};
use super::order::{Order, after};
use super::states::TOKEN;
use crate::blocks::{MeasuredTimeout, MissedPolls};

/// State of the token at this member.
#[derive(Debug)]
pub(super) struct Token {
    settings: Settings,
    place: Location,
    /// Time in which the next site accepts the token, by the first slot of the acknowledgment.
    timeout: MeasuredTimeout<u64>,
}

/// Location of the token as seen by this member.
#[derive(Clone, Copy, Debug)]
enum Location {
    /// Another member has the token.
    Elsewhere,
    /// This member is the token site.
    Here {
        /// True after the other members were shown that the token was accepted.
        shown: bool,
        /// Packet that is due if there is nothing to order.
        due: Option<IdlePacket>,
    },
    /// The token was passed on, and the next site has not shown yet that it accepted the token.
    Passing {
        /// First slot of the acknowledgment that passed the token on.
        first: u64,
        /// Repetitions of the acknowledgment since the last packet of the next site.
        silence: MissedPolls,
        /// True while a repetition of the acknowledgment is due.
        due: bool,
    },
}

/// Packet of a token site that has nothing to order.
#[derive(Clone, Copy, Debug)]
enum IdlePacket {
    /// Null acknowledgment, which passes the token on.
    NullAck,
    /// Confirmation of the accepted token.
    Confirmation,
}

/// Packet that the token site sends to the group.
pub(super) enum TokenPacket {
    /// Acknowledgment that begins with this slot.
    Ack(u64),
    /// Other packet.
    Other(Body<'static>),
}

impl Token {
    /// Creates the state at the start of a view; `is_here` at the first token site.
    pub fn new(context: &mut Context, settings: Settings, is_here: bool) -> Self {
        let timeout = settings.measured(settings.pass_timeout);
        let mut token = Token { settings, place: Location::Elsewhere, timeout };
        if is_here {
            token.place = Location::Here { shown: true, due: None };
        }
        token.start(context);
        token
    }

    /// Begins at this time. A host may create a member long after its clock began.
    pub fn start(&self, context: &mut Context) {
        if matches!(self.place, Location::Here { .. }) {
            // In an idle group the token moves too, so that a failed member is detected.
            context.timers.arm(Timer::Idle, context.now + self.settings.max_idle_interval);
        }
    }

    /// Accepts the token if it was passed to this member and the member holds all slots before it.
    pub fn accept(&mut self, context: &mut Context, order: &mut Order) {
        if !self.is_elsewhere() || !order.is_passed_here(context) || order.is_full(context) {
            return;
        }
        order.passes.confirm(context.rank as u16, order.log.length());
        context.events.push(Event::StateChanged { state: "Here" });
        self.place = Location::Here { shown: false, due: None };
        context.timers.arm(Timer::Confirm, context.now + self.settings.confirm_timeout);
        order.deliver_ready(context);
    }

    /// Decides, after `confirm_timeout` without a message, between a null acknowledgment and a confirmation.
    pub fn on_confirm_timeout(&mut self, context: &mut Context, order: &Order) {
        let Location::Here { shown, due } = &mut self.place else { return };
        // Messages that wait for resilience need further passes before they can be delivered.
        if order.needs_passes() {
            *due = Some(IdlePacket::NullAck);
            return;
        }
        if !*shown {
            *due = Some(IdlePacket::Confirmation);
        }
        context.timers.arm(Timer::Idle, context.now + self.idle_interval(order));
    }

    /// Makes a null acknowledgment due in an idle group.
    pub fn on_idle_timeout(&mut self) {
        if let Location::Here { due, .. } = &mut self.place {
            *due = Some(IdlePacket::NullAck);
        }
    }

    /// Schedules the repetition of an acknowledgment that was not accepted in time. Returns true after too many
    /// repetitions.
    pub fn on_pass_timeout(&mut self) -> bool {
        let Location::Passing { silence, due, .. } = &mut self.place else { return false };
        *due = true;
        let has_failed = silence.missed(self.settings.patience, self.timeout.current());
        self.timeout.on_expiry();
        has_failed
    }

    /// Notes that the next token site is alive, though it may not be able to accept the token yet.
    pub fn on_sign_of_life(&mut self, order: &Order, site: u16) {
        if let Location::Passing { silence, .. } = &mut self.place
            && order.token_site() == site
        {
            silence.heard();
        }
    }

    /// Notes that the next site has accepted the token.
    pub fn on_accepted(&mut self, context: &mut Context) {
        if let Location::Passing { first, .. } = self.place {
            self.timeout.on_answer(context.now, first);
            self.place = Location::Elsewhere;
            context.timers.cancel(Timer::Pass);
        }
    }

    /// Returns the next packet of the token site.
    ///
    /// `list` is the list of members that the next slot shall hold, if the members change.
    pub fn poll(
        &mut self,
        context: &mut Context,
        order: &mut Order,
        list: Option<Ranks>,
    ) -> Option<TokenPacket> {
        match &mut self.place {
            Location::Elsewhere => None,
            Location::Passing { first, due, .. } => {
                if !std::mem::take(due) {
                    return None;
                }
                self.timeout.on_request(context.now, *first);
                context.timers.arm(Timer::Pass, context.now + self.timeout.current());
                Some(TokenPacket::Ack(*first))
            }
            Location::Here { shown, due } => {
                // A member alone cannot pass the token on: it waits for its own application.
                let waits = order.members() == 1 && order.is_full(context);
                if let Some(members) = list {
                    return Some(self.acknowledge(context, order, &[], Item::List(members)));
                }
                let batch = if waits { Vec::new() } else { order.batch() };
                if !batch.is_empty() {
                    *due = None;
                    return Some(self.acknowledge(context, order, &batch, Item::Null));
                }
                match due.take()? {
                    IdlePacket::NullAck if order.members() > 1 => {
                        Some(self.acknowledge(context, order, &[], Item::Null))
                    }
                    IdlePacket::NullAck => None,
                    IdlePacket::Confirmation => {
                        *shown = true;
                        Some(TokenPacket::Other(self.confirmation(context, order)))
                    }
                }
            }
        }
    }

    /// Builds the confirmation of all slots that this member holds, without a pass to it that it cannot accept yet.
    pub fn confirmation(&self, context: &mut Context, order: &Order) -> Body<'static> {
        let waits = self.is_elsewhere() && order.is_passed_here(context);
        let below = order.log.length() - u64::from(waits);
        context.control("confirm", below);
        Body::Confirm { site: context.rank as u16, below }
    }

    /// Returns true if another member has the token.
    pub fn is_elsewhere(&self) -> bool {
        matches!(self.place, Location::Elsewhere)
    }

    /// Returns true if this member fills the slots.
    pub fn is_here(&self) -> bool {
        matches!(self.place, Location::Here { .. })
    }

    /// State of the token for the generated diagram; `Reformation` while no view is in force.
    pub fn state(&self, takes_part: bool) -> ObservedState {
        let (state, turn) = match self.place {
            _ if !takes_part => ("Reformation", 0),
            Location::Elsewhere => ("Elsewhere", 0),
            Location::Here { shown, .. } => ("Here", shown.into()),
            Location::Passing { first, due, .. } => ("Passing", 2 * first + u64::from(due)),
        };
        ObservedState { of: TOKEN.of, about: 0, state, turn }
    }

    /// Interval before the next null acknowledgment: it doubles with each round of an idle group.
    fn idle_interval(&self, order: &Order) -> Duration {
        let doubled = 1_u32.checked_shl(order.idle_rounds().min(64) as u32).unwrap_or(u32::MAX);
        self.settings.idle_interval.saturating_mul(doubled).min(self.settings.max_idle_interval)
    }

    /// Gives the next slots to these messages, or the next one to an item without a message, and passes the token on.
    fn acknowledge(
        &mut self,
        context: &mut Context,
        order: &mut Order,
        batch: &[Id],
        item: Item,
    ) -> TokenPacket {
        let (site, first) = (context.rank as u16, order.log.length());
        let after = match &item {
            Item::List(members) => after(members, site),
            _ => after(&order.ring, site),
        };
        for (left, &id) in (0..batch.len()).rev().zip(batch) {
            let message = order.waits(id).cloned();
            let next = if left == 0 { after } else { site };
            let slot = Slot { timestamp: order.log.length(), site, next, item: Item::Message(id) };
            order.append(context, slot, message);
        }
        if batch.is_empty() {
            order.append(context, Slot { timestamp: first, site, next: after, item }, None);
        }
        context.timers.cancel(Timer::Idle);
        context.timers.cancel(Timer::Confirm);
        if after == site {
            self.place = Location::Here { shown: true, due: None };
        } else {
            self.place = Location::Passing { first, silence: MissedPolls::default(), due: false };
            self.timeout.on_request(context.now, first);
            context.timers.arm(Timer::Pass, context.now + self.timeout.current());
        }
        order.deliver_ready(context);
        TokenPacket::Ack(first)
    }
}
