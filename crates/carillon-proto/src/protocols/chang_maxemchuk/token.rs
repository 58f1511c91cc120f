//! The token site: gives timestamps, passes the token on (section 2.9.1).

use carillon_core::{Event, ObservedState};
use carillon_wire::chang_maxemchuk::{Ack, Body, Id};

use super::config::Settings;
use super::context::{Context, Timer};
use super::describe::TOKEN;
use super::order::Order;
use crate::blocks::MissedPolls;

/// Where the token is, as far as it concerns this site.
#[derive(Debug)]
pub(super) struct Token {
    settings: Settings,
    place: Location,
}

#[derive(Clone, Copy, Debug)]
enum Location {
    /// Another site has it.
    Elsewhere,
    /// This site acknowledges.
    Here {
        /// Acknowledgments given since it was accepted.
        given: u64,
        /// Whether the others have been shown that it was accepted.
        shown: bool,
        /// What is to be sent if there is nothing to acknowledge.
        due: Option<IdlePacket>,
    },
    /// It was passed on and the next site has not shown that it accepted it.
    Passing {
        /// Repetitions since that site was heard.
        silence: MissedPolls,
        /// Whether the transfer is to be repeated now.
        due: bool,
    },
}

/// What a token site sends that has nothing to acknowledge.
#[derive(Clone, Copy, Debug)]
enum IdlePacket {
    /// An acknowledgment of nothing that passes the token on.
    Transfer,
    /// A confirmation.
    Confirmation,
}

impl Token {
    /// Before any message of a list, and between lists.
    pub fn new(settings: Settings, is_here: bool) -> Self {
        let here = Location::Here { given: 0, shown: true, due: None };
        Token { settings, place: if is_here { here } else { Location::Elsewhere } }
    }

    /// Accepts the token if it was passed to this site, which lacks nothing before it.
    pub fn accept(&mut self, context: &mut Context, order: &mut Order) {
        if !self.is_elsewhere() || !order.is_passed_here(context) || order.is_full(context) {
            return;
        }
        order.transfers.confirm(context.rank as u16, order.log.length());
        context.events.push(Event::StateChanged { state: "Here" });
        // With the token on its round through an idle group there is nothing to wait for.
        let on_round = order.transfers.accepted_since_last_message().is_some_and(|passes| {
            self.settings.idle_timeout.is_some()
                && passes > order.resilience().max(1)
                && passes < order.whole_round()
        });
        self.place = Location::Here { given: 0, shown: false, due: on_round.then_some(IdlePacket::Transfer) };
        context.timers.arm(Timer::Confirm, context.now + self.settings.confirm_timeout);
        order.commit(context);
    }

    /// A token site had nothing to acknowledge for a while.
    pub fn on_confirm_timeout(&mut self, context: &mut Context, order: &Order) {
        let Location::Here { shown, due, .. } = &mut self.place else { return };
        let passes = order.transfers.accepted_since_last_message();
        if passes.is_some_and(|passes| passes < order.resilience()) {
            *due = Some(IdlePacket::Transfer);
            return;
        }
        if !*shown {
            *due = Some(IdlePacket::Confirmation);
        }
        if let (Some(passes), Some(idle)) = (passes, self.settings.idle_timeout)
            && passes < order.whole_round()
        {
            context.timers.arm(Timer::Idle, context.now + idle);
        }
    }

    /// The group has been idle: the token goes around.
    pub fn on_idle_timeout(&mut self) {
        if let Location::Here { due, .. } = &mut self.place {
            *due = Some(IdlePacket::Transfer);
        }
    }

    /// The transfer has not been accepted in time: it is repeated. Returns whether too often.
    pub fn on_transfer_timeout(&mut self) -> bool {
        let Location::Passing { silence, due } = &mut self.place else { return false };
        *due = true;
        silence.missed(self.settings.patience, self.settings.transfer_timeout)
    }

    /// The site to which the token was passed lives, though it may not be able to accept it yet.
    pub fn on_sign_of_life(&mut self, order: &Order, site: u16) {
        if let Location::Passing { silence, .. } = &mut self.place
            && order.transfers.last.is_some_and(|ack| ack.next == site)
        {
            silence.heard();
        }
    }

    /// The next site has the token.
    pub fn on_accepted(&mut self, context: &mut Context) {
        if matches!(self.place, Location::Passing { .. }) {
            self.place = Location::Elsewhere;
            context.timers.cancel(Timer::Transfer);
        }
    }

    /// What a token site sends next, if anything.
    pub fn poll(&mut self, context: &mut Context, order: &mut Order) -> Option<Body<'static>> {
        match &mut self.place {
            Location::Elsewhere => None,
            Location::Passing { due, .. } => {
                if !std::mem::take(due) {
                    return None;
                }
                context.timers.arm(Timer::Transfer, context.now + self.settings.transfer_timeout);
                let ack = order.transfers.last?;
                context.record_ack(ack);
                Some(Body::Ack(ack))
            }
            Location::Here { given, shown, due } => {
                // A site alone has no one to pass the token to: it waits for its own application.
                let waits = order.sites() == 1 && order.is_full(context);
                if let Some(message) = order.next_message().filter(|_| !waits) {
                    *given += 1;
                    let transfer = *given >= self.settings.transfer_every;
                    *due = None;
                    return Some(self.give(context, order, Some(message), transfer));
                }
                match due.take()? {
                    IdlePacket::Transfer => Some(self.give(context, order, None, true)),
                    IdlePacket::Confirmation => {
                        *shown = true;
                        Some(self.confirmation(context, order))
                    }
                }
            }
        }
    }

    /// How far this site has accepted all: not past a transfer to it that it cannot accept yet.
    pub fn confirmation(&self, context: &mut Context, order: &Order) -> Body<'static> {
        let waits = self.is_elsewhere() && order.is_passed_here(context);
        let below = order.log.length() - u64::from(waits);
        context.control("confirm", below);
        Body::Confirm { site: context.rank as u16, below }
    }

    /// Whether another site has it.
    pub fn is_elsewhere(&self) -> bool {
        matches!(self.place, Location::Elsewhere)
    }

    /// Whether this site gives the timestamps.
    pub fn is_here(&self) -> bool {
        matches!(self.place, Location::Here { .. })
    }

    /// Whether nothing is left to do with the token here: it is elsewhere, or at rest.
    pub fn rests(&self, order: &Order) -> bool {
        match self.place {
            Location::Elsewhere => true,
            Location::Passing { .. } => false,
            Location::Here { shown, due, .. } => shown && due.is_none() && order.is_settled(),
        }
    }

    /// Where the token is, while a list is in force.
    pub fn state(&self, takes_part: bool) -> ObservedState {
        let (state, turn) = match self.place {
            _ if !takes_part => ("Reformation", 0),
            Location::Elsewhere => ("Elsewhere", 0),
            Location::Here { given, shown, .. } => ("Here", 2 * given + u64::from(shown)),
            Location::Passing { due, .. } => ("Passing", due.into()),
        };
        ObservedState { of: TOKEN.of, about: 0, state, turn }
    }

    /// Gives the next timestamp, to a message or to nothing, and passes the token on if so decided.
    fn give(
        &mut self,
        context: &mut Context,
        order: &mut Order,
        message: Option<(Id, bytes::Bytes)>,
        transfer: bool,
    ) -> Body<'static> {
        let site = context.rank as u16;
        let next = if transfer { order.after(site) } else { site };
        let (message, payload) = message.unzip();
        let ack = Ack { timestamp: order.log.length(), site, next, message };
        order.append(context, ack, payload.unwrap_or_default());
        if next == site {
            if let Location::Here { shown, .. } = &mut self.place {
                *shown = true;
            }
            context.timers.arm(Timer::Confirm, context.now + self.settings.confirm_timeout);
        } else {
            self.place = Location::Passing { silence: MissedPolls::default(), due: false };
            context.timers.cancel(Timer::Confirm);
            context.timers.arm(Timer::Transfer, context.now + self.settings.transfer_timeout);
        }
        context.timers.cancel(Timer::Idle);
        order.commit(context);
        context.record_ack(ack);
        Body::Ack(ack)
    }
}
