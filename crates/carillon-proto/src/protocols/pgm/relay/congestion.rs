//! Feedback of receivers that passes a network element, for congestion control at the source (PGMCC).
//!
//! A report travels with the NAK that the element sends for the receiver's. A NAK that is eliminated takes its report
//! with it: a receiver that loses more than others sends more NAKs that are not.

use carillon_core::{Dest, DropReason, Received, Transmit};
use carillon_wire::pgm::{LossReport, Tsi};

use super::{MAX_PENDING_CONFIRMATIONS, PgmRelay};

impl PgmRelay {
    /// Keeps the report of a receiver for the next NAK upstream.
    pub(super) fn keep_report(&mut self, tsi: Tsi, report: Option<LossReport>) {
        if let Some(session) = self.sessions.get_mut(&tsi) {
            session.report = report;
        }
    }

    /// Handles an acknowledgment from below: queues it for the next node towards the source.
    pub(super) fn on_ack(&mut self, tsi: Tsi, newest: u32, datagram: Received<'_>) {
        if self.sessions.get(&tsi).is_none_or(|session| session.upstream_port == datagram.ingress) {
            return self.events.dropped(DropReason::Foreign);
        }
        if self.acks.len() >= MAX_PENDING_CONFIRMATIONS {
            return self.events.dropped(DropReason::BufferFull);
        }
        self.events.received("ack", newest);
        self.acks.push_back((tsi, newest, datagram.bytes.clone()));
    }

    /// Emits an acknowledgment, byte for byte.
    pub(super) fn emit_forwarded_ack(&mut self, buf: &mut Vec<u8>) -> Option<Transmit> {
        while let Some((tsi, newest, bytes)) = self.acks.pop_front() {
            let Some(session) = self.sessions.get(&tsi) else { continue };
            buf.extend_from_slice(&bytes);
            self.events.control("ack", newest);
            return Some(Transmit::now(Dest::Node(session.upstream)));
        }
        None
    }
}
