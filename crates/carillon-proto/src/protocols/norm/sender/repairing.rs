//! Repair cycles of the sender (RFC 5740, 5.4): collection of NACKs, choice of repairs, hold-off.

use carillon_core::{DropReason, Event, MessageId, NodeId, Time, Transmit};
use carillon_wire::norm::{Object, Requests};

use super::{Context, Cycle, NormSender, Requester, Timer};
use crate::blocks::symbol;
use crate::protocols::norm::repairs::Wants;

impl NormSender {
    /// Handles the requests of a receiver.
    pub(super) fn on_nack(&mut self, context: &mut Context, from: NodeId, requests: Requests<'_>) {
        let (shape, next) = (self.policy.shape, self.window.next());
        let mut wants = Wants::read(requests, shape, shape.place(next).0, MAX_BLOCKS);
        let requester: Requester = self.members.index_of(from);
        if self.budget.left(requester, next) < wants.symbols() {
            // The budget is spent: such requests neither keep messages in the cache nor cause repairs.
            return context.events.dropped(DropReason::Redundant);
        }
        // Blocks before the cache are lost for good, which a SQUELCH says; later ones do not exist.
        let (trail, before) = (self.window.trail(), wants.blocks().count());
        let lost = wants.blocks().any(|block| shape.first(block + 1) <= trail);
        wants.retain(|block| shape.first(block) < next && shape.first(block + 1) > trail);
        if lost {
            self.request_squelch(context.now);
        }
        if wants.is_empty() {
            let reason = if before == 0 { DropReason::Malformed } else { DropReason::OutOfWindow };
            return context.events.dropped(reason);
        }
        if self.cycle == Cycle::HoldOff {
            // Repairs of blocks up to the one being sent are in transit, or were requested too late.
            let passed = self.repairs.blocks().next().unwrap_or(u64::MAX);
            wants.retain(|block| block > passed);
            if wants.is_empty() {
                return context.events.dropped(DropReason::Redundant);
            }
        }
        let first = wants.blocks().next().map_or(0, |block| shape.first(block));
        context.events.received("nack", first);
        self.budget.spend(requester, wants.symbols());
        for block in wants.blocks() {
            for number in shape.first(block)..shape.first(block + 1) {
                self.window.asked(context.now, number);
            }
        }
        match self.cycle {
            Cycle::HoldOff => self.repairs.merge(wants),
            Cycle::Aggregating | Cycle::Normal => self.collected.merge(wants),
        }
        if self.cycle == Cycle::Normal {
            self.cycle = Cycle::Aggregating;
            let wait = (u32::from(self.policy.backoff) + 1) * self.grtt.value();
            context.timers.arm(Timer::Cycle, context.now + wait);
        }
        if self.policy.unicast && context.timers.armed(Timer::Advertise).is_none() {
            // Receivers do not hear the NACKs of others: the sender tells them, once per round-trip time.
            self.pending.advertise = true;
            context.timers.arm(Timer::Advertise, context.now + self.grtt.value());
        }
    }

    /// Schedules a SQUELCH, unless one was sent within two round-trip times.
    fn request_squelch(&mut self, now: Time) {
        let pause = 2 * self.grtt.value();
        if self.pending.last_squelch.is_none_or(|last| now.since(last) >= pause) {
            self.pending.last_squelch = Some(now);
            self.pending.squelch = true;
        }
    }

    /// Ends the collection of NACKs, or the hold-off.
    pub(super) fn on_cycle_timer(&mut self, context: &mut Context) {
        match self.cycle {
            Cycle::Aggregating => {
                self.repairs.merge(std::mem::take(&mut self.collected));
                self.cycle = Cycle::HoldOff;
                context.timers.arm(Timer::Cycle, context.now + self.grtt.value());
            }
            Cycle::HoldOff | Cycle::Normal => self.cycle = Cycle::Normal,
        }
    }

    /// Emits the next repair: parity that no receiver has yet, then symbols that receivers named.
    pub(super) fn emit_repair(&mut self, context: &mut Context, buf: &mut Vec<u8>) -> Option<Transmit> {
        loop {
            let (block, want) = self.repairs.first_mut()?;
            let used = self.parity_sent.get(&block).copied().unwrap_or(0);
            let shape = self.policy.shape;
            let whole =
                shape.first(block) >= self.window.trail() && shape.first(block + 1) <= self.window.next();
            if want.erasures > 0 && whole && used < shape.parity {
                want.erasures -= 1;
                if want.erasures == 0 {
                    self.repairs.remove(block);
                }
                self.parity_sent.insert(block, used + 1);
                return self.emit_parity(context, (block, used), Object::REPAIR, buf);
            }
            let Some(index) = want.symbols.pop_first() else {
                self.repairs.remove(block);
                continue;
            };
            let flags = Object::REPAIR | Object::EXPLICIT;
            let sent = match u64::from(index) < shape.block {
                true => self.emit_source(context, shape.first(block) + u64::from(index), flags, buf),
                false if whole => self.emit_parity(context, (block, index - shape.block as u8), flags, buf),
                false => None,
            };
            if sent.is_some() {
                return sent;
            }
            if shape.first(block) < self.window.trail() {
                // A part of the block is gone, and with it all parity: receivers must know.
                self.request_squelch(context.now);
            }
        }
    }

    /// Emits parity that no receiver has requested.
    pub(super) fn emit_automatic(&mut self, context: &mut Context, buf: &mut Vec<u8>) -> Option<Transmit> {
        loop {
            let (block, left) = self.automatic.front_mut()?;
            let (block, used) = (*block, self.parity_sent.get(block).copied().unwrap_or(0));
            *left -= 1;
            if *left == 0 {
                self.automatic.pop_front();
            }
            if used < self.policy.shape.parity && self.policy.shape.first(block) >= self.window.trail() {
                self.parity_sent.insert(block, used + 1);
                return self.emit_parity(context, (block, used), 0, buf);
            }
        }
    }

    /// Emits the message with this number again, if it is still kept.
    fn emit_source(
        &mut self,
        context: &mut Context,
        number: u64,
        flags: u8,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let slot = self.window.send_again(context.now, number, std::time::Duration::ZERO)?;
        let symbol = slot.payload.clone();
        self.emit_symbol(self.policy.shape.place(number), flags, &symbol, buf);
        self.on_activity(context);
        let to_group = context.to_group();
        Some(context.events.data_sent(to_group, MessageId(number), buf.len(), true))
    }

    /// Emits the parity symbol with this number of a block that was sent and is kept as a whole.
    fn emit_parity(
        &mut self,
        context: &mut Context,
        (block, parity): (u64, u8),
        flags: u8,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let shape = self.policy.shape;
        let first = shape.first(block);
        let sources: Vec<_> =
            (first..first + shape.block).map_while(|number| self.window.payload(number).cloned()).collect();
        if sources.len() as u64 != shape.block {
            return None;
        }
        let size = sources.iter().map(|source| source.len()).max().unwrap_or(0);
        let index = shape.block as u8 + parity;
        let known: Vec<_> = (0..).zip(sources.iter().map(|source| &source[..])).collect();
        let coded = symbol(&known, index.into(), size);
        self.emit_symbol((block, index), flags, &coded, buf);
        self.on_activity(context);
        let (to_group, message) = (context.to_group(), MessageId(first));
        if flags & Object::REPAIR == 0 {
            // No receiver has requested it, so it is a part of the first transmission.
            context.events.push(Event::Continued { message, bytes: buf.len() as u32 });
            return Some(to_group);
        }
        Some(context.events.data_sent(to_group, message, buf.len(), true))
    }

    /// Forgets what concerns blocks that the cache has dropped.
    pub(super) fn forget_dropped(&mut self) {
        let trail = self.policy.shape.place(self.window.trail()).0;
        while self.parity_sent.first_key_value().is_some_and(|(&block, _)| block < trail) {
            self.parity_sent.pop_first();
        }
    }
}

/// Maximum number of blocks of which one NACK is read.
const MAX_BLOCKS: usize = 1024;
