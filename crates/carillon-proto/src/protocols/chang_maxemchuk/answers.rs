//! What other sites have asked for and is still to be sent to them.

use std::collections::{BTreeMap, BTreeSet};

use carillon_core::Transmit;
use carillon_wire::chang_maxemchuk::{Body, Id};

use super::context::Context;
use super::order::Order;
use super::token::Token;
use crate::blocks::reformation::To;

/// Answers that are due. Only what was asked for is kept; the answer itself is made when it is sent.
#[derive(Debug, Default)]
pub(super) struct Answers {
    /// By site and timestamp, whether the message goes with the acknowledgment.
    repairs: BTreeMap<(u16, u64), bool>,
    /// Sites that want to know how far this one is.
    pub confirmations: BTreeSet<u16>,
    /// Sites that asked for what is not kept any more.
    pub purged: BTreeSet<u16>,
    /// All are to know how far this one is.
    pub announced: bool,
}

/// Repairs due at most.
const MAX_PENDING_REPAIRS: usize = 4096;

impl Answers {
    /// A site asks for an acknowledgment, with its message or without.
    pub fn repair(&mut self, site: u16, timestamp: u64, with_message: bool) {
        if self.repairs.len() < MAX_PENDING_REPAIRS {
            *self.repairs.entry((site, timestamp)).or_default() |= with_message;
        }
    }

    /// A repair that is due, if what was asked for is still kept.
    pub fn poll_repair(
        &mut self,
        context: &mut Context,
        order: &Order,
        view: u32,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        loop {
            let ((site, timestamp), with_message) = self.repairs.pop_first()?;
            let Some(entry) = order.log.get(timestamp) else { continue };
            let to = To::Rank(site.into());
            if !with_message {
                context.emit(view, Body::Ack(entry.ack), buf);
            } else {
                context.emit(view, Body::Repair { ack: entry.ack, payload: &entry.payload }, buf);
                if let Some(Id { source, number }) = entry.ack.message {
                    return Some(context.data_sent(to, (source.into(), number), buf.len(), true, true));
                }
            }
            context.record_ack(entry.ack);
            return Some(context.transmit(to));
        }
    }

    /// Another answer to one site.
    pub fn poll(
        &mut self,
        context: &mut Context,
        order: &Order,
        token: &Token,
    ) -> Option<(u16, Body<'static>)> {
        if let Some(site) = self.purged.pop_first() {
            let below = order.log.base();
            context.control("purged", below);
            return Some((site, Body::Purged { below }));
        }
        self.confirmations.pop_first().map(|site| (site, token.confirmation(context, order)))
    }
}
