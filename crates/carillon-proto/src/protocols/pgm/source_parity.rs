//! Parity packets of a source (RFC 3208, section 11.3).

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use carillon_core::{Bytes, Config, Event, MessageId, Time, Transmit};
use carillon_wire::pgm::{Body, Data, Options};

use super::parity::{Offer, encode};
use super::source::{Context, PgmSource, Timer};
use crate::blocks::{HoldOff, TransmitWindow, near, wire};

/// Parity packets to send, by group.
#[derive(Debug)]
pub(super) struct Parity {
    pub offer: Offer,
    /// Number of parity packets after each group.
    each: u64,
    /// Groups with a parity packet.
    groups: BTreeMap<u64, Group>,
    /// Groups that ended, with the number of proactive parity packets to send.
    proactive: VecDeque<(u64, u64)>,
}

/// Parity of one group.
#[derive(Debug, Default)]
struct Group {
    /// Number of parity packets sent.
    sent: u64,
    /// Number of requested parity packets that are to be sent.
    pending: u64,
    /// True once the delay of the repair is over.
    is_due: bool,
    /// Hold-off after the last repair.
    repaired: HoldOff,
}

impl Parity {
    /// Reads the settings; none without parity.
    pub fn new(settings: &Config) -> Option<Self> {
        let (offer, each) = Offer::of_settings(settings)?;
        let each = each.min(offer.max_parity());
        Some(Parity { offer, each, groups: BTreeMap::new(), proactive: VecDeque::new() })
    }

    /// Records the first transmission of a data packet: parity follows the last one of its group.
    fn on_sent(&mut self, number: u64) {
        let group = self.offer.group_of(number);
        if self.each > 0 && number + 1 == group + self.offer.size {
            self.proactive.push_back((group, self.each));
        }
    }

    /// Raises the number of pending packets of a group to that of a NAK. Returns the number of new ones: none within
    /// `holdoff` after a repair of the group.
    fn request(&mut self, now: Time, group: u64, count: u64, holdoff: Duration) -> u64 {
        let parity = self.groups.entry(group).or_default();
        if !parity.repaired.is_over(now, (), holdoff) {
            return 0;
        }
        let new = count.saturating_sub(parity.pending);
        parity.pending += new;
        new
    }

    /// Makes the pending packets of a group due.
    fn end_delay(&mut self, group: u64) {
        if let Some(parity) = self.groups.get_mut(&group) {
            parity.is_due = true;
        }
    }

    /// Takes the next requested packet: its group and its number there.
    fn next_requested(&mut self, now: Time, holdoff: Duration) -> Option<(u64, u64)> {
        let (&group, parity) =
            self.groups.iter_mut().find(|(_, parity)| parity.is_due && parity.pending > 0)?;
        parity.pending -= 1;
        if parity.pending == 0 {
            parity.is_due = false;
            parity.repaired.note(now, (), holdoff);
        }
        Some((group, self.take_number(group)))
    }

    /// Takes the next proactive packet: its group and its number there.
    fn next_proactive(&mut self) -> Option<(u64, u64)> {
        let (group, left) = self.proactive.front_mut()?;
        let group = *group;
        *left -= 1;
        if *left == 0 {
            self.proactive.pop_front();
        }
        Some((group, self.take_number(group)))
    }

    /// Number of the next parity packet of a group. After the last one of the code they begin again.
    fn take_number(&mut self, group: u64) -> u64 {
        let most = self.offer.max_parity();
        let parity = self.groups.entry(group).or_default();
        parity.sent += 1;
        (parity.sent - 1) % most
    }

    /// Returns true while packets are to be sent that no receiver has requested.
    pub fn has_proactive(&self) -> bool {
        !self.proactive.is_empty()
    }

    /// Returns true while requested packets are due.
    pub fn has_requested(&self) -> bool {
        self.groups.values().any(|parity| parity.is_due && parity.pending > 0)
    }

    /// Forgets the groups before the trailing edge.
    fn advance(&mut self, trail: u64) {
        while self.groups.first_key_value().is_some_and(|(&group, _)| group + self.offer.size <= trail) {
            self.groups.pop_first();
        }
    }

    /// Data of a group; none unless the window holds all of it.
    fn data_of(&self, window: &TransmitWindow, group: u64) -> Option<Vec<Bytes>> {
        (group..group + self.offer.size).map(|number| window.payload(number).cloned()).collect()
    }
}

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
