//! Feedback of a receiver to a source with congestion control (PGMCC): reports in NAKs, and acknowledgments.

use carillon_core::{Dest, Time, Transmit};
use carillon_wire::pgm::{Ack, AckerElection, Body, LossReport, Options};

use super::feedback::Feedback;
use super::{PgmReceiver, Upstream};
use crate::blocks::{MachineContext, wire};

impl PgmReceiver {
    /// Handles the timestamp and the acker of an original packet. A receiver proposes itself after a NAK's random wait.
    pub(super) fn on_election(&mut self, context: &MachineContext, sqn: u32, election: AckerElection) {
        let number = self.expand(sqn);
        let own = self.own_address();
        let wait = self.missing.random_wait();
        let feedback = self.feedback.get_or_insert_with(|| Box::new(Feedback::starting_at(number)));
        feedback.on_packet(context.now, number, election.timestamp_ms);
        feedback.on_acker(context.now, election.acker, own, wait);
    }

    /// Report for the source, once it has sent a timestamp.
    pub(super) fn report(&self, now: Time) -> Option<LossReport> {
        self.feedback.as_ref().map(|feedback| feedback.report(now, self.own_address()))
    }

    /// Emits the acknowledgment that is due, to the next node towards the source.
    pub(super) fn emit_ack(
        &mut self,
        context: &mut MachineContext,
        upstream: Upstream,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let (newest, bitmap) = self.feedback.as_mut()?.take_acknowledgment()?;
        let ack = Ack { newest: wire(newest), bitmap };
        let options = Options { report: self.report(context.now), ..Options::default() };
        self.packet(Body::Ack(ack), options).emit(buf);
        context.events.control("ack", newest);
        Some(Transmit::now(Dest::Node(upstream.node)))
    }
}
