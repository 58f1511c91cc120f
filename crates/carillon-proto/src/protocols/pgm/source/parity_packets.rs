//! Parity packets of a source (RFC 3208, section 11.3): their requests, and their transmission.

use carillon_core::{Event, MessageId, Transmit};
use carillon_wire::pgm::{Body, Data, Options};

use super::{Context, PgmSource, Timer};
use crate::blocks::{near, wire};
use crate::protocols::pgm::parity::encode;

impl PgmSource {
    /// Records that a data packet was sent for the first time.
    pub(super) fn note_sent(&mut self, number: u64) {
        if let Some(parity) = &mut self.parity {
            parity.on_sent(number);
            parity.advance(self.window.trail());
        }
    }

    /// Schedules the parity packets that a NAK asks for, at most `left`. Returns their number; none if the group is not
    /// in the window.
    pub(super) fn request_parity(&mut self, context: &mut Context, sqn: u32, left: u64) -> Option<u64> {
        let parity = self.parity.as_mut().filter(|parity| parity.offer.on_demand)?;
        let number = near(sqn, self.window.next());
        let (group, count) = (parity.offer.group_of(number), parity.offer.count_of(number));
        parity.data_of(&self.window, group)?;
        // The whole group stays in the window, since the code needs all of it.
        (group..group + parity.offer.size).for_each(|number| _ = self.window.asked(context.now, number));
        let new = parity.request(context.now, group, count.min(left), self.rdata_holdoff);
        if new > 0 {
            if self.rdata_delay.is_zero() {
                parity.end_delay(group);
            } else if context.timers.armed(Timer::Parity(group)).is_none() {
                context.timers.arm(Timer::Parity(group), context.now + self.rdata_delay);
            }
        }
        Some(new)
    }

    /// Ends the delay of the repair of a group.
    pub(super) fn end_parity_delay(&mut self, group: u64) {
        if let Some(parity) = &mut self.parity {
            parity.end_delay(group);
        }
    }

    /// Emits the next requested parity packet, as repair data.
    pub(super) fn emit_requested_parity(
        &mut self,
        context: &mut Context,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        loop {
            let (group, number) = self.parity.as_mut()?.next_requested(context.now, self.rdata_holdoff)?;
            if self.emit_parity(context, (group, number), true, buf) {
                let to_group = context.to_group();
                return Some(context.events.data_sent(to_group, MessageId(group), buf.len(), true));
            }
        }
    }

    /// Emits the next parity packet that no receiver has requested, as original data.
    pub(super) fn emit_proactive_parity(
        &mut self,
        context: &mut Context,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        loop {
            let (group, number) = self.parity.as_mut()?.next_proactive()?;
            if self.emit_parity(context, (group, number), false, buf) {
                context.events.push(Event::Continued { message: MessageId(group), bytes: buf.len() as u32 });
                return Some(context.to_group());
            }
        }
    }

    /// Writes a parity packet. Returns false if its group is no longer in the window as a whole.
    fn emit_parity(
        &mut self,
        context: &mut Context,
        (group, number): (u64, u64),
        is_repair: bool,
        buf: &mut Vec<u8>,
    ) -> bool {
        let Some(parity) = &self.parity else { return false };
        let Some(data) = parity.data_of(&self.window, group) else { return false };
        let offer = parity.offer;
        let (payload, variable_length) = encode(&data, (offer.size + number) as u8);
        let (number, parity_group) = offer.address(group, number);
        let data = Data { sqn: wire(number), trail: wire(self.window.trail()), payload: &payload };
        let body = if is_repair { Body::Rdata(data) } else { Body::Odata(data) };
        let options = Options { parity: true, variable_length, parity_group, ..Options::default() };
        self.packet(body, options).emit(buf);
        if self.paces_repairs || !is_repair {
            self.pace.spend(context.now, buf.len() as u64 + self.link_overhead);
        }
        true
    }
}
