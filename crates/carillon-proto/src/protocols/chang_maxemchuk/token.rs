//! Token at one site: gives timestamps and passes the token on (section 2.9.1).

use carillon_core::{Event, ObservedState};
use carillon_wire::chang_maxemchuk::{Ack, Body, Id};

use super::config::Settings;
use super::context::{Context, Timer};
use super::order::Order;
use super::states::TOKEN;
use crate::blocks::MissedPolls;

/// State of the token at this site.
#[derive(Debug)]
pub(super) struct Token {
    settings: Settings,
    place: Location,
}

/// Location of the token as seen by this site.
#[derive(Clone, Copy, Debug)]
enum Location {
    /// Another site has the token.
    Elsewhere,
    /// This site gives acknowledgments.
    Here {
        /// Acknowledgments given since the token was accepted.
        given: u64,
        /// True after the other sites were shown that the token was accepted.
        shown: bool,
        /// Packet that is due if there is nothing to acknowledge.
        due: Option<IdlePacket>,
    },
    /// The token was passed on, and the next site has not shown yet that it accepted the token.
    Passing {
        /// Repetitions of the transfer since the last packet of the next site.
        silence: MissedPolls,
        /// True while a repetition of the transfer is due.
        due: bool,
    },
}

/// Packet of a token site that has nothing to acknowledge.
#[derive(Clone, Copy, Debug)]
enum IdlePacket {
    /// Acknowledgment without a message that passes the token on.
    Transfer,
    /// Confirmation of the accepted token.
    Confirmation,
}

impl Token {
    /// Creates the state at the start of a list; `is_here` at the first token site.
    pub fn new(settings: Settings, is_here: bool) -> Self {
        let here = Location::Here { given: 0, shown: true, due: None };
        Token { settings, place: if is_here { here } else { Location::Elsewhere } }
    }

    /// Accepts the token if it was passed to this site and the site has all entries before it.
    pub fn accept(&mut self, context: &mut Context, order: &mut Order) {
        if !self.is_elsewhere() || !order.is_passed_here(context) || order.is_full(context) {
            return;
        }
        order.transfers.confirm(context.rank as u16, order.log.length());
        context.events.push(Event::StateChanged { state: "Here" });
        // On its round through an idle group the token need not wait at any site.
        let on_round = order.transfers.accepted_since_last_message().is_some_and(|passes| {
            self.settings.idle_timeout.is_some()
                && passes > order.resilience().max(1)
                && passes < order.whole_round()
        });
        self.place = Location::Here { given: 0, shown: false, due: on_round.then_some(IdlePacket::Transfer) };
        context.timers.arm(Timer::Confirm, context.now + self.settings.confirm_timeout);
        order.commit(context);
    }

    /// Decides, after `confirm_timeout` without an acknowledgment, between a transfer and a confirmation.
    pub fn on_confirm_timeout(&mut self, context: &mut Context, order: &Order) {
        let Location::Here { shown, due, .. } = &mut self.place else { return };
        // Uncommitted messages need further transfers before they can be delivered.
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

    /// Sends the token around an idle group.
    pub fn on_idle_timeout(&mut self) {
        if let Location::Here { due, .. } = &mut self.place {
            *due = Some(IdlePacket::Transfer);
        }
    }

    /// Schedules the repetition of a transfer that was not accepted in time. Returns true after too many repetitions.
    pub fn on_transfer_timeout(&mut self) -> bool {
        let Location::Passing { silence, due } = &mut self.place else { return false };
        *due = true;
        silence.missed(self.settings.patience, self.settings.transfer_timeout)
    }

    /// Notes that the next token site is alive, though it may not be able to accept the token yet.
    pub fn on_sign_of_life(&mut self, order: &Order, site: u16) {
        if let Location::Passing { silence, .. } = &mut self.place
            && order.transfers.last.is_some_and(|ack| ack.next == site)
        {
            silence.heard();
        }
    }

    /// Notes that the next site has accepted the token.
    pub fn on_accepted(&mut self, context: &mut Context) {
        if matches!(self.place, Location::Passing { .. }) {
            self.place = Location::Elsewhere;
            context.timers.cancel(Timer::Transfer);
        }
    }

    /// Returns the next packet of the token site.
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
                // A site alone cannot pass the token on: it waits for its own application.
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

    /// Builds the confirmation of all entries that this site has accepted, without a transfer to it that it cannot
    /// accept yet.
    pub fn confirmation(&self, context: &mut Context, order: &Order) -> Body<'static> {
        let waits = self.is_elsewhere() && order.is_passed_here(context);
        let below = order.log.length() - u64::from(waits);
        context.control("confirm", below);
        Body::Confirm { site: context.rank as u16, below }
    }

    /// Returns true if another site has the token.
    pub fn is_elsewhere(&self) -> bool {
        matches!(self.place, Location::Elsewhere)
    }

    /// Returns true if this site gives the timestamps.
    pub fn is_here(&self) -> bool {
        matches!(self.place, Location::Here { .. })
    }

    /// Returns true if this site has nothing left to do with the token: another site has it, or it is at rest.
    pub fn rests(&self, order: &Order) -> bool {
        match self.place {
            Location::Elsewhere => true,
            Location::Passing { .. } => false,
            Location::Here { shown, due, .. } => shown && due.is_none() && order.is_settled(),
        }
    }

    /// State of the token for the generated diagram; `Reformation` while no list is in force.
    pub fn state(&self, takes_part: bool) -> ObservedState {
        let (state, turn) = match self.place {
            _ if !takes_part => ("Reformation", 0),
            Location::Elsewhere => ("Elsewhere", 0),
            Location::Here { given, shown, .. } => ("Here", 2 * given + u64::from(shown)),
            Location::Passing { due, .. } => ("Passing", due.into()),
        };
        ObservedState { of: TOKEN.of, about: 0, state, turn }
    }

    /// Gives the next timestamp, to a message or to an empty entry, and passes the token on if `transfer`.
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
