//! Sender without feedback.
//!
//! The sender transmits each block with its redundancy at a fixed rate, and then forgets it. Polls that name no
//! member tell receivers which blocks have ended, so that a receiver with too few symbols reports the loss instead of
//! waiting.

use std::time::Duration;

use carillon_core::{
    BuildContext, Config, ConfigError, DropReason, ObservedState, Received, Role, Time, TokenBucket, Transmit,
};
use carillon_wire::carillon::{ClosedBlocks as Listed, Packet, Poll, PolledReceivers};

use super::blocks::{Blocks, GroupEstimate};
use super::context::{Context, MIN_QUIET, Timer};
use super::sender::{PACING_BURST, state};
use super::states::STATES;
use crate::blocks::{AckWindow, FixedWindow, Members, NOMINAL_PACKET_BYTES, Part, Player, wire};

/// Sender of blocks with enough redundancy that receivers do without repairs.
#[derive(Debug)]
pub struct OneWaySender {
    blocks: Blocks,
    pace: TokenBucket,
    to: GroupEstimate,
    block_time: Duration,
    /// Time at which the open block was opened.
    opened: Time,
    quiet: Duration,
    /// Number of polls still to send about the end of the last block, and whether the next one is due.
    polls: u32,
    is_poll_due: bool,
}

impl OneWaySender {
    /// Creates a sender to all listening receivers. Fails if no rate is set.
    pub fn new(build: &BuildContext, settings: &Config) -> Result<Player<Self>, ConfigError> {
        let rate = settings.rate("rate");
        if rate.is_none() {
            return Err(ConfigError::Conflict(
                "`rate` is 0 and `feedback` is none, so no receiver reports what the path carries: give a rate"
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
            pace: TokenBucket::new(rate, PACING_BURST),
            // Number, room and loss of the receivers are unknown. Assume the loss that the redundancy can repair.
            to: GroupEstimate {
                receivers: ASSUMED_RECEIVERS.max(build.members.len()),
                room: window,
                loss: redundancy / (1.0 + redundancy),
                window: 0,
            },
            block_time: span("block_time").max(MIN_QUIET),
            opened: Time::ZERO,
            quiet: span("quiet").max(MIN_QUIET),
            polls: 0,
            is_poll_due: false,
        }
        .play(build))
    }

    /// Writes a poll that tells which blocks have ended. Receivers report missing messages of them as lost.
    fn poll(&mut self, context: &mut Context, buf: &mut Vec<u8>) -> Transmit {
        // Several polls follow the end of a block, since each may be lost.
        self.polls -= 1;
        self.is_poll_due = false;
        if self.polls > 0 {
            context.timers.arm(Timer::Quiet, context.now + self.quiet);
        }
        let (next, first) = (wire(self.blocks.sent), wire(self.blocks.window.start()));
        let poll = Poll { next, first, question: 0, after: 0, span: 0 };
        let (blocks, asked) = (Listed::new(&[]), PolledReceivers::new(&[]));
        Packet::Poll { poll, blocks, asked }.emit(context.association, buf);
        context.events.control("poll", self.blocks.sent.saturating_sub(1));
        context.to_group()
    }

    /// Forgets the blocks that were sent with all their symbols.
    fn complete(&mut self, context: &mut Context) {
        let start = self.blocks.window.start();
        self.blocks.forget_sent();
        if self.blocks.window.start() > start {
            (self.polls, self.is_poll_due) = (FINAL_POLLS, true);
            // Cancelled, as the first of the new polls is due at once and arms the timer again.
            context.timers.cancel(Timer::Quiet);
        }
    }
}

impl Part for OneWaySender {
    type Timer = Timer;

    const ROLE: Role = Role::Sender;

    fn report_states(&self, _context: &Context, tell: &mut dyn FnMut(ObservedState)) {
        for block in self.blocks.iter() {
            tell(ObservedState { of: STATES[0].of, about: block.first(), state: state(block), turn: 0 });
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
            // `Pace` only makes the driver ask for the next packet, and the others are never armed.
            Timer::Answer(_) | Timer::Repeat | Timer::Sweep | Timer::Pace => {}
        }
    }

    fn poll_transmit(&mut self, context: &mut Context, buf: &mut Vec<u8>) -> Option<Transmit> {
        let (has_new, has_repairs) = (self.blocks.sent < self.blocks.window.end(), self.blocks.has_repairs());
        if !has_new && !has_repairs && !self.is_poll_due {
            if self.blocks.is_open() {
                // A message that comes alone does not wait for the block to fill.
                context.timers.arm(Timer::Close, (self.opened + self.quiet).max(context.now + MIN_QUIET));
            }
            return None;
        }
        if let Some(at) = self.pace.ready_at(context.now) {
            context.timers.arm(Timer::Pace, at);
            return None;
        }
        // Polls count against the rate too.
        self.pace.spend(context.now, NOMINAL_PACKET_BYTES);
        if self.is_poll_due {
            return Some(self.poll(context, buf));
        }
        let transmit = if has_repairs {
            // Nothing is known of the receivers, so symbols are planned as for a large group.
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

    // Without acknowledgments only sent blocks complete, in `complete`.
    fn advance(&mut self, _context: &mut Context) {}

    fn awaits(&self, _context: &Context, _member: carillon_core::NodeId) -> bool {
        false
    }

    fn is_finished(&self) -> bool {
        self.blocks.window.is_finished() && self.polls == 0
    }
}

/// Number of receivers assumed for the length of blocks if the number is unknown.
const ASSUMED_RECEIVERS: usize = 1000;
/// Number of polls after the last block. Some receivers learn of its end only from these, so they must survive loss.
const FINAL_POLLS: u32 = 8;
