//! The token site: gives timestamps, passes the token on (section 2.9.1).

use carillon_core::{Event, MessageId, Time};
use carillon_wire::chang_maxemchuk::{Ack, Body, Id};

use super::peer::{Peer, Timer};

/// Where the token is, as far as it concerns this site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// Another site has it.
    Elsewhere,
    /// This site acknowledges.
    Here {
        /// Acknowledgments given since it was accepted.
        given: u64,
        /// Whether the others have been shown that it was accepted.
        shown: bool,
        /// What is to be sent if there is nothing to acknowledge.
        due: Option<Due>,
    },
    /// It was passed on and the next site has not shown that it accepted it.
    Passing {
        /// Repetitions since that site was heard.
        tries: u32,
        /// Whether the transfer is to be repeated now.
        due: bool,
    },
}

/// What a token site sends that has nothing to acknowledge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// An acknowledgment of nothing that passes the token on.
    Transfer,
    /// A confirmation.
    Confirmation,
}

impl Token {
    /// The state of the first token site of a list, before any message.
    pub const FIRST: Token = Token::Here { given: 0, shown: true, due: None };
}

impl Peer {
    /// Accepts the token if it was passed to this site, which lacks nothing before it.
    pub(super) fn accept_token(&mut self, now: Time) {
        let passed = self.log.last().is_some_and(|entry| {
            let Ack { site, next, .. } = entry.ack;
            next == self.rank && site != self.rank
        });
        let takes_part = self.reformation.takes_part();
        if self.token != Token::Elsewhere || !takes_part || !passed || self.is_full() {
            return;
        }
        self.log.confirm(self.rank, self.log.length());
        self.events.push(Event::StateChanged { state: "token site" });
        // With the token on its round through an idle group there is nothing to wait for.
        let on_round = self.log.accepted_since_last_message().is_some_and(|passes| {
            self.settings.idle_timeout.is_some()
                && passes > self.resilience().max(1)
                && passes < self.whole_round()
        });
        let due = on_round.then_some(Due::Transfer);
        self.token = Token::Here { given: 0, shown: false, due };
        self.timers.arm(Timer::Confirm, now + self.settings.confirm_timeout);
        self.commit();
    }

    /// The transfers after a message from which every site knows that it is committed: the token has
    /// come to every site, and once more to those that had it before the message was committed.
    pub(super) fn whole_round(&self) -> u64 {
        self.ring.len() as u64 - 1 + self.resilience()
    }

    /// Whether nothing is left to do with the token here: it is elsewhere, or at rest.
    pub(super) fn token_rests(&self) -> bool {
        match self.token {
            Token::Elsewhere => true,
            Token::Passing { .. } => false,
            Token::Here { shown, due, .. } => shown && due.is_none() && self.is_settled(),
        }
    }

    /// A token site had nothing to acknowledge for a while.
    pub(super) fn on_confirm_timeout(&mut self, now: Time) {
        let passes = self.log.accepted_since_last_message();
        let (resilience, round) = (self.resilience(), self.whole_round());
        let Token::Here { shown, due, .. } = &mut self.token else { return };
        if passes.is_some_and(|passes| passes < resilience) {
            *due = Some(Due::Transfer);
            return;
        }
        if !*shown {
            *due = Some(Due::Confirmation);
        }
        if let (Some(passes), Some(idle)) = (passes, self.settings.idle_timeout)
            && passes < round
        {
            self.timers.arm(Timer::Idle, now + idle);
        }
    }

    /// The group has been idle: the token goes around.
    pub(super) fn on_idle_timeout(&mut self) {
        if let Token::Here { due, .. } = &mut self.token {
            *due = Some(Due::Transfer);
        }
    }

    /// The transfer has not been accepted in time: it is repeated. Returns whether too often.
    pub(super) fn on_transfer_timeout(&mut self) -> bool {
        let limit = self.tries(self.settings.transfer_timeout);
        let Token::Passing { tries, due } = &mut self.token else { return false };
        *due = true;
        *tries += 1;
        *tries > limit
    }

    /// The site to which the token was passed lives, though it may not be able to accept it yet.
    pub(super) fn on_sign_of_life(&mut self, site: u16) {
        let next = self.log.last().map(|entry| entry.ack.next);
        if let Token::Passing { tries, .. } = &mut self.token
            && next == Some(site)
        {
            *tries = 0;
        }
    }

    /// The next site has the token.
    pub(super) fn on_accepted(&mut self) {
        if matches!(self.token, Token::Passing { .. }) {
            self.token = Token::Elsewhere;
            self.timers.cancel(Timer::Transfer);
        }
    }

    /// What a token site sends next, if anything.
    pub(super) fn poll_token(&mut self, now: Time) -> Option<Body<'static>> {
        match &mut self.token {
            Token::Elsewhere => None,
            Token::Passing { due, .. } => {
                if !std::mem::take(due) {
                    return None;
                }
                self.timers.arm(Timer::Transfer, now + self.settings.transfer_timeout);
                let ack = self.log.last()?.ack;
                self.record_ack(ack);
                Some(Body::Ack(ack))
            }
            Token::Here { given, shown, due } => {
                // A site alone has no one to pass the token to: it waits for its own application.
                let waits = self.ring.len() == 1 && self.deliveries.len() >= self.settings.buffer;
                let message = if waits { None } else { self.inbox.next() };
                if message.is_some() {
                    *given += 1;
                    let transfer = *given >= self.settings.transfer_every;
                    *due = None;
                    return Some(Body::Ack(self.give(now, message, transfer)));
                }
                match due.take()? {
                    Due::Transfer => Some(Body::Ack(self.give(now, None, true))),
                    Due::Confirmation => {
                        *shown = true;
                        Some(self.confirmation())
                    }
                }
            }
        }
    }

    /// Gives the next timestamp, to a message or to nothing, and passes the token on if so decided.
    fn give(&mut self, now: Time, message: Option<Id>, transfer: bool) -> Ack {
        let next = if transfer { self.after(self.rank) } else { self.rank };
        let ack = Ack { timestamp: self.log.length(), site: self.rank, next, message };
        let payload = message.and_then(|id| self.inbox.get(id).cloned()).unwrap_or_default();
        self.append(ack, payload);
        if next == self.rank {
            if let Token::Here { shown, .. } = &mut self.token {
                *shown = true;
            }
            self.timers.arm(Timer::Confirm, now + self.settings.confirm_timeout);
        } else {
            self.token = Token::Passing { tries: 0, due: false };
            self.timers.cancel(Timer::Confirm);
            self.timers.arm(Timer::Transfer, now + self.settings.transfer_timeout);
        }
        self.timers.cancel(Timer::Idle);
        self.commit();
        self.record_ack(ack);
        ack
    }

    /// The site that has the token after this one: the list is a ring.
    pub(super) fn after(&self, rank: u16) -> u16 {
        let later = self.ring.iter().find(|&&member| member > rank);
        later.or(self.ring.first()).copied().unwrap_or(rank)
    }

    /// How far this site has accepted all: not past a transfer to it that it cannot accept yet.
    pub(super) fn confirmation(&mut self) -> Body<'static> {
        let length = self.log.length();
        let waits = self.token == Token::Elsewhere
            && self
                .log
                .last()
                .is_some_and(|entry| entry.ack.next == self.rank && entry.ack.site != self.rank);
        let below = length - u64::from(waits);
        self.events.push(Event::ControlSent { packet: "confirm", message: MessageId(below) });
        Body::Confirm { site: self.rank, below }
    }

    pub(super) fn record_ack(&mut self, ack: Ack) {
        let (packet, message) = match ack.message {
            Some(id) => ("ack", id.number),
            None => ("transfer", ack.timestamp),
        };
        self.events.push(Event::ControlSent { packet, message: MessageId(message) });
    }
}
