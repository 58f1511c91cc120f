//! Repair cycles of the sender of files (RFC 5740, 5.4): collection of NACKs, choice of repairs, hold-off.

use carillon_core::{DropReason, MessageId, Time, Transmit};
use carillon_wire::norm::{Object, Requests};

use super::{Context, Cycle, NormFileSender, Timer};
use crate::protocols::norm::files::needs::Needs;

impl NormFileSender {
    /// Handles the requests of a receiver. Other receivers do not hear what was sent to the sender alone.
    pub(super) fn on_nack(&mut self, context: &mut Context, requests: Requests<'_>, is_to_sender: bool) {
        let mut needs = Needs::read(requests, self.cursor.file, self.policy.shape.code);
        if needs.is_empty() {
            return context.events.dropped(DropReason::Malformed);
        }
        if self.files.first_key_value().is_none_or(|(&first, _)| needs.first().is_some_and(|at| at.0 < first))
        {
            self.request_squelch(context.now);
        }
        self.admit(&mut needs);
        if self.cycle == Cycle::HoldOff {
            // Repairs up to the one being sent are in transit, or were requested too late.
            let passed = self.repairs.first();
            needs.retain(|place| passed.is_some_and(|passed| place > passed));
        }
        if needs.is_empty() {
            return context.events.dropped(DropReason::OutOfWindow);
        }
        let cost = self.cost(&needs);
        if self.budget.left((), self.sent) < cost {
            // The budget is spent: such requests neither keep files nor cause repairs.
            return context.events.dropped(DropReason::Redundant);
        }
        self.budget.spend((), cost);
        context.events.received("nack", needs.first().map_or(0, |place| place.0));
        match self.cycle {
            Cycle::HoldOff => self.repairs.merge(needs),
            Cycle::Aggregating | Cycle::Normal => self.collected.merge(needs),
        }
        if self.cycle == Cycle::Normal {
            self.cycle = Cycle::Aggregating;
            let wait = (u32::from(self.policy.backoff) + 1) * self.grtt.value();
            context.timers.arm(Timer::Cycle, context.now + wait);
        }
        if is_to_sender && context.timers.armed(Timer::Advertise).is_none() {
            // Receivers do not hear the NACKs of others: the sender tells them, once per round-trip time.
            self.pending.advertise = true;
            context.timers.arm(Timer::Advertise, context.now + self.grtt.value());
        }
    }

    /// Removes requests for what does not exist or has not been sent. Those for whole objects become requests for
    /// their blocks.
    fn admit(&mut self, needs: &mut Needs) {
        let cursor = self.cursor;
        let is_sent = |file: u64, block: u64| (file, block) < (cursor.file, cursor.block);
        for &file in &std::mem::take(&mut needs.objects) {
            needs.infos.insert(file);
            let blocks = self.files.get(&file).map_or(0, |outgoing| outgoing.geometry.blocks());
            for block in 0..blocks {
                needs.blocks.entry((file, block)).or_default().whole = true;
            }
        }
        let files = &self.files;
        needs
            .infos
            .retain(|&file| files.contains_key(&file) && (file, true) <= (cursor.file, cursor.is_informed));
        needs.blocks.retain(|&(file, block), need| {
            let Some(geometry) = files.get(&file).map(|outgoing| outgoing.geometry) else { return false };
            need.symbols.retain(|&symbol| symbol < geometry.symbols(block));
            need.erasures = need.erasures.min(geometry.sources(block));
            let exists = need.whole || need.erasures > 0 || !need.symbols.is_empty();
            exists && block < geometry.blocks() && is_sent(file, block)
        });
    }

    /// Number of packets that the requests cause.
    fn cost(&self, needs: &Needs) -> u64 {
        let blocks = needs.blocks.iter().map(|(&(file, block), need)| match need.whole {
            true => self.files.get(&file).map_or(0, |file| u64::from(file.geometry.sources(block))),
            false => u64::from(need.erasures),
        });
        blocks.sum::<u64>() + needs.infos.len() as u64
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

    /// Emits the next repair: information first; of a block parity that no receiver has yet, then symbols that
    /// receivers named.
    pub(super) fn emit_repair(&mut self, context: &mut Context, buf: &mut Vec<u8>) -> Option<Transmit> {
        loop {
            if let Some(file) = self.repairs.infos.pop_first() {
                if self.emit_information(file, Object::REPAIR, buf).is_some() {
                    return Some(self.repaired(context, file, buf));
                }
                continue;
            }
            let mut entry = self.repairs.blocks.first_entry()?;
            let ((file, block), need) = (*entry.key(), entry.get_mut());
            let Some(outgoing) = self.files.get_mut(&file) else {
                entry.remove();
                continue;
            };
            let (geometry, sources) = (outgoing.geometry, outgoing.geometry.sources(block));
            if std::mem::take(&mut need.whole) {
                // All source symbols make up for anything else.
                need.symbols = (0..sources).collect();
                need.erasures = 0;
            }
            let used = outgoing.parity_sent.get(&block).copied().unwrap_or(0);
            if need.erasures > 0 && used < geometry.shape.parity {
                need.erasures -= 1;
                if need.erasures == 0 {
                    entry.remove();
                }
                outgoing.parity_sent.insert(block, used + 1);
                self.collected.on_repair((file, block), sources + used);
                self.emit_symbol(file, (block, sources + used), Object::REPAIR, buf);
                return Some(self.repaired(context, file, buf));
            }
            let Some(symbol) = need.symbols.pop_first() else {
                entry.remove();
                continue;
            };
            self.collected.on_repair((file, block), symbol);
            if self.emit_symbol(file, (block, symbol), Object::REPAIR | Object::EXPLICIT, buf).is_some() {
                return Some(self.repaired(context, file, buf));
            }
        }
    }

    fn repaired(&mut self, context: &mut Context, file: u64, buf: &[u8]) -> Transmit {
        self.on_activity(context, file);
        let to_group = context.to_group();
        context.events.data_sent(to_group, MessageId(file), buf.len(), true)
    }
}

impl Needs {
    /// Removes a symbol that is sent: requests that have arrived before did not count on it.
    fn on_repair(&mut self, place: (u64, u64), symbol: u16) {
        let Some(need) = self.blocks.get_mut(&place) else { return };
        need.symbols.remove(&symbol);
        need.erasures = need.erasures.saturating_sub(1);
        if need.erasures == 0 && !need.whole {
            self.blocks.remove(&place);
        }
    }

    /// Drops the requests for places that do not pass.
    fn retain(&mut self, passes: impl Fn((u64, u64)) -> bool) {
        self.infos.retain(|&file| passes((file, 0)));
        self.objects.retain(|&file| passes((file, 0)));
        self.blocks.retain(|&place, _| passes(place));
    }
}
