//! What a sender has under way: messages, who lacks which, and what is to be sent again.

use std::collections::BTreeSet;

use carillon_core::{MessageId, Transmit};
use carillon_wire::map::Map;
use carillon_wire::rra::{AckRequest, Packet};

use super::context::Context;
use super::receiver::MODULUS;
use crate::blocks::{AckWindow, OutstandingPoll, ReceiverMap};

/// The messages that not all have, and those of them that somebody is known to lack.
#[derive(Debug)]
pub(super) struct Messages {
    pub window: AckWindow,
    /// Messages that some receiver lacks.
    pub repairs: BTreeSet<u64>,
    /// What a receiver says it has; kept for its room.
    last_report: ReceiverMap,
    /// One past the last message sent.
    pub sent: u64,
    /// Packets of messages sent.
    pub serial: u64,
}

impl Messages {
    /// None yet.
    pub fn new(window: AckWindow) -> Self {
        let (repairs, last_report) = (BTreeSet::new(), ReceiverMap::default());
        Messages { window, repairs, last_report, sent: 0, serial: 0 }
    }

    /// What a receiver lacks of what had been sent when it was asked, which lies before `end`, is to be sent again,
    /// unless that has been done since; so many more than others lack, at most. Says how many those were, and how many
    /// in all.
    pub fn mark_missing(
        &mut self,
        question: &OutstandingPoll,
        (expected, end): (u64, u64),
        received: Map<'_>,
        most: u64,
    ) -> (u64, u32) {
        let (mut news, mut messages) = (0, 0);
        self.last_report.assign(expected, received.words());
        for number in self.last_report.missing(self.window.start()..end) {
            let slot = self.window.get_mut(number);
            if slot.is_none_or(|slot| slot.serial > question.serial || slot.sent.is_none()) {
                continue;
            }
            if self.repairs.contains(&number) {
                messages += 1;
            } else if news < most {
                self.repairs.insert(number);
                (news, messages) = (news + 1, messages + 1);
            }
        }
        (news, messages)
    }

    /// Completes what all have acknowledged.
    pub fn advance(&mut self, context: &mut Context) {
        let before = self.window.start();
        while let Some((number, _)) = self.window.complete_first(&mut context.events) {
            self.sent = self.sent.max(number + 1);
        }
        if self.window.start() > before && !self.repairs.is_empty() {
            self.repairs = self.repairs.split_off(&self.window.start());
        }
    }

    /// A packet with this message is about to go out.
    pub fn on_send(&mut self, number: u64) {
        self.serial += 1;
        self.sent = self.sent.max(number + 1);
    }

    /// The packet, which asks somebody, or nobody.
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
