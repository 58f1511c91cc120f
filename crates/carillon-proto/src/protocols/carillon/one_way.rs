//! The sending side where nobody answers.
//!
//! Each block goes out with its redundancy at a fixed rate, and is done with. Receivers learn of what has ended by polls that ask nobody, so that who
//! lacks more than it got symbols for says what is lost instead of waiting for it.

use std::time::Duration;

use carillon_core::{
    BuildContext, Config, ConfigError, DropReason, ObservedState, Received, Role, Time, TokenBucket, Transmit,
};
use carillon_wire::carillon::{ClosedBlocks as Listed, Packet, Poll, PolledReceivers};

use super::MODULUS;
use super::blocks::{Audience, Blocks};
use super::context::{Context, LEAST_QUIET, Timer};
use super::describe::DESCRIBED;
use super::sender::{PACE_DEPTH, state};
use crate::blocks::{AckWindow, FixedWindow, Members, PACKET, Part, Player};

/// Sends blocks and so much more of each that receivers do without a repair.
#[derive(Debug)]
pub struct OneWaySender {
    blocks: Blocks,
    pace: TokenBucket,
    to: Audience,
    block_time: Duration,
    /// When the open block was opened.
    opened: Time,
    quiet: Duration,
    /// Polls that are still to say how far it has come, and whether the next one is due.
    polls: u32,
    is_poll_due: bool,
}

impl OneWaySender {
    /// A sender to whoever listens.
    pub fn new(build: &BuildContext, settings: &Config) -> Result<Player<Self>, ConfigError> {
        let rate = settings.rate("rate");
        if rate.is_none() {
            return Err(ConfigError::Conflict(
                "`rate` is 0 and `feedback` is none, so that nobody says what the path carries: give a rate"
                    .into(),
            ));
        }
        let window = settings.count("window");
        let span = |name| settings.span(name).at(build.bit_rate);
        let redundancy = settings.probability("redundancy").value();
        Ok(OneWaySender {
            blocks: Blocks::new(
                AckWindow::new(Members::new(build.members.clone()), FixedWindow(window)),
                settings,
            ),
            pace: TokenBucket::new(rate, PACE_DEPTH),
            // Nobody has said how many they are, what they have room for, or what they lose: as much as they are given more for.
            to: Audience {
                receivers: MANY.max(build.members.len()),
                room: window,
                loss: redundancy / (1.0 + redundancy),
                window: 0,
            },
            block_time: span("block_time").max(LEAST_QUIET),
            opened: Time::ZERO,
            quiet: span("quiet").max(LEAST_QUIET),
            polls: 0,
            is_poll_due: false,
        }
        .play(build))
    }

    /// Says what has ended: who lacks something of it will not get it.
    fn poll(&mut self, context: &mut Context, buf: &mut Vec<u8>) -> Transmit {
        self.polls -= 1;
        self.is_poll_due = false;
        if self.polls > 0 {
            context.timers.arm(Timer::Quiet, context.now + self.quiet);
        }
        let number = |number: u64| (number % MODULUS) as u32;
        let (next, first) = (number(self.blocks.sent), number(self.blocks.window.start()));
        let poll = Poll { next, first, question: 0, after: 0, span: 0 };
        let (blocks, asked) = (Listed::new(&[]), PolledReceivers::new(&[]));
        Packet::Poll { poll, blocks, asked }.emit(context.association, buf);
        context.events.control("poll", self.blocks.sent.saturating_sub(1));
        context.to_group()
    }

    /// What has gone out is done with.
    fn complete(&mut self, context: &mut Context) {
        let start = self.blocks.window.start();
        self.blocks.forget_sent();
        if self.blocks.window.start() > start {
            (self.polls, self.is_poll_due) = (POLLS, true);
            context.timers.cancel(Timer::Quiet);
        }
    }
}

impl Part for OneWaySender {
    type Timer = Timer;

    const ROLE: Role = Role::Sender;

    fn report_states(&self, _context: &Context, tell: &mut dyn FnMut(ObservedState)) {
        for block in self.blocks.iter() {
            tell(ObservedState {
                of: DESCRIBED.states[0].of,
                about: block.first(),
                state: state(block),
                turn: 0,
            });
        }
    }

    fn handle_datagram(&mut self, context: &mut Context, _datagram: Received<'_>) {
        context.events.dropped(DropReason::Foreign);
    }

    fn on_timer(&mut self, context: &mut Context, timer: Timer) {
        match timer {
            Timer::Close => {
                self.blocks.close();
                self.complete(context);
            }
            Timer::Quiet => self.is_poll_due = self.polls > 0,
            Timer::Answer(_) | Timer::Echo | Timer::Sweep | Timer::Pace => {}
        }
    }

    fn poll_transmit(&mut self, context: &mut Context, buf: &mut Vec<u8>) -> Option<Transmit> {
        let (has_new, has_repairs) = (self.blocks.sent < self.blocks.window.end(), self.blocks.has_repairs());
        if !has_new && !has_repairs && !self.is_poll_due {
            if self.blocks.is_open() {
                // Messages that come one by one do not wait for a block to be full.
                context.timers.arm(Timer::Close, (self.opened + self.quiet).max(context.now + LEAST_QUIET));
            }
            return None;
        }
        if let Some(at) = self.pace.ready_at(context.now) {
            context.timers.arm(Timer::Pace, at);
            return None;
        }
        self.pace.spend(context.now, PACKET);
        if self.is_poll_due {
            return Some(self.poll(context, buf));
        }
        let transmit = if has_repairs {
            self.blocks.next_repair(context, true, buf)
        } else {
            let (transmit, begins) = self.blocks.next_message(context, self.to, buf);
            if begins {
                self.opened = context.now;
                context.timers.arm(Timer::Close, context.now + self.block_time);
            }
            Some(transmit)
        };
        self.complete(context);
        transmit
    }

    fn window(&self) -> Option<&AckWindow> {
        Some(&self.blocks.window)
    }

    fn window_mut(&mut self) -> Option<&mut AckWindow> {
        Some(&mut self.blocks.window)
    }

    // Nobody confirms anything: what has gone out is done with, and nothing else is.
    fn advance(&mut self, _context: &mut Context) {}

    fn awaits(&self, _context: &Context, _member: carillon_core::NodeId) -> bool {
        false
    }

    fn is_finished(&self) -> bool {
        self.blocks.window.is_finished() && self.polls == 0
    }
}

/// So many receivers are reckoned with where nobody says how many they are.
const MANY: usize = 1000;
/// How often it is said that a block has ended, if none follows: the last of these are all that some receivers learn it from.
const POLLS: u32 = 8;
