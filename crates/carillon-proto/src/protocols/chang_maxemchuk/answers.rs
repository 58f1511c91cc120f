//! Pending answers of this site to requests of other sites.

use std::collections::{BTreeMap, BTreeSet};

use carillon_core::Transmit;
use carillon_wire::chang_maxemchuk::{Body, Id};

use super::context::Context;
use super::order::Order;
use super::token::Token;
use crate::blocks::reformation::To;

/// Pending answers. The queue keeps only requests; the answer is built when it is sent, so that it is current.
#[derive(Debug, Default)]
pub(super) struct Answers {
    /// Requested acknowledgments by site and timestamp; true if the message goes with the acknowledgment.
    repairs: BTreeMap<(u16, u64), bool>,
    /// Sites that asked for the position of this site.
    pub confirmations: BTreeSet<u16>,
    /// Sites that requested entries which this site has purged.
    pub purged: BTreeSet<u16>,
    /// True while a confirmation to all sites is due.
    pub announced: bool,
}

/// Maximum number of pending repairs; it bounds the memory that requests can take.
const MAX_PENDING_REPAIRS: usize = 4096;

impl Answers {
    /// Queues an acknowledgment for a site, with its message if `with_message`. Drops the request if the queue is
    /// full.
    pub fn repair(&mut self, site: u16, timestamp: u64, with_message: bool) {
        if self.repairs.len() < MAX_PENDING_REPAIRS {
            *self.repairs.entry((site, timestamp)).or_default() |= with_message;
        }
    }

    /// Returns the next repair with an entry in the log.
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

    /// Returns the next answer to one site: a purge notice or a confirmation.
    pub fn poll(
        &mut self,
        context: &mut Context,
        order: &Order,
        token: &Token,
    ) -> Option<(u16, Body<'static>)> {
        // Purge notices come first: their addressee cannot continue without a new list.
        if let Some(site) = self.purged.pop_first() {
            let below = order.log.base();
            context.control("purged", below);
            return Some((site, Body::Purged { below }));
        }
        self.confirmations.pop_first().map(|site| (site, token.confirmation(context, order)))
    }
}
