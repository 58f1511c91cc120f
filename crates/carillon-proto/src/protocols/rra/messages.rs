//! Send window of RRA: unacknowledged messages and the repairs to send.

use std::collections::BTreeSet;

use carillon_core::{MessageId, Transmit};
use carillon_wire::map::Map;
use carillon_wire::rra::{AckRequest, Packet};

use super::context::Context;
use super::receiver::MODULUS;
use crate::blocks::{AckWindow, OutstandingPoll, ReceiverMap};

/// Unacknowledged messages, and those among them that a receiver reported missing.
#[derive(Debug)]
pub(super) struct Messages {
    pub window: AckWindow,
    /// Messages that some receiver is missing.
    pub repairs: BTreeSet<u64>,
    /// Last report of a receiver, kept to reuse its allocation.
    last_report: ReceiverMap,
    /// Number after the last message sent.
    pub sent: u64,
    /// Number of data packets sent, the transmit order of packets.
    pub serial: u64,
}

impl Messages {
    /// Creates an empty window.
    pub fn new(window: AckWindow) -> Self {
        let (repairs, last_report) = (BTreeSet::new(), ReceiverMap::default());
        Messages { window, repairs, last_report, sent: 0, serial: 0 }
    }

    /// Schedules repairs of messages before `end` that a receiver is missing, if they were sent before its poll and
    /// not repeated since. At most `most` of them are new requests, which no other receiver has made. Returns the
    /// number of new requests, and of all.
    pub fn mark_missing(
        &mut self,
        question: &OutstandingPoll,
        (expected, end): (u64, u64),
        received: Map<'_>,
        most: u64,
        // A message sent after the poll may be in flight: the next answer covers it.
    ) -> (u64, u32) {
        let (mut new_requests, mut messages) = (0, 0);
        self.last_report.assign(expected, received.words());
        for number in self.last_report.missing(self.window.start()..end) {
            let slot = self.window.get_mut(number);
            if slot.is_none_or(|slot| slot.serial > question.serial || slot.sent.is_none()) {
                continue;
            }
            if self.repairs.contains(&number) {
                messages += 1;
            } else if new_requests < most {
                self.repairs.insert(number);
                (new_requests, messages) = (new_requests + 1, messages + 1);
            }
        }
        (new_requests, messages)
    }

    /// Completes the messages that every receiver has acknowledged.
    pub fn advance(&mut self, context: &mut Context) {
        let before = self.window.start();
        while let Some((number, _)) = self.window.complete_first(&mut context.events) {
            self.sent = self.sent.max(number + 1);
        }
        if self.window.start() > before && !self.repairs.is_empty() {
            self.repairs = self.repairs.split_off(&self.window.start());
        }
    }

    /// Counts a packet with this message, about to be sent.
    pub fn on_send(&mut self, number: u64) {
        self.serial += 1;
        self.sent = self.sent.max(number + 1);
    }

    /// Emits the packet, with a poll if `asks` is given.
    pub fn emit(
        &mut self,
        context: &mut Context,
        number: u64,
        asks: Option<AckRequest>,
        buf: &mut Vec<u8>,
    ) -> Transmit {
        let first = (self.window.start() % MODULUS) as u32;
        let window = self.window.len() as u32;
        let slot = self.window.get_mut(number).expect("the message is in the window");
        slot.serial = self.serial;
        let sequence = (number % MODULUS) as u32;
        Packet::Data { sequence, first, asks, payload: &slot.payload }.emit(context.association, buf);
        let again = slot.on_send(context.now, window);
        context.events.data_sent(context.to_group(), MessageId(number), buf.len(), again)
    }
}
