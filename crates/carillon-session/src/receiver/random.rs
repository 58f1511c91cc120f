//! Random values of a receiver: delays, nonces, and numbers that identify its process.

use carillon_core::{AssociationId, Duration, NodeId, Rng, Seeds};
use carillon_wire::session::Nonce;

use crate::{ANSWER_SPREAD, secret};

/// Random streams, and the values drawn for the present session.
#[derive(Debug)]
pub(super) struct RandomValues {
    /// Stream of the delays that spread answers.
    delays: Rng,
    /// Source of the nonces.
    nonces: Seeds,
    /// Number of nonces that collided with another member's.
    collisions: u64,
    /// Nonce of the present attempt to join.
    pub nonce: Nonce,
    /// Token that replaces the association in the protocol's packets to the sender.
    pub token: AssociationId,
    /// Number of this process, from which each job's number is derived.
    pub process: Seeds,
}

impl RandomValues {
    pub fn new(delays: Rng, nonces: Seeds, process: Seeds) -> Self {
        let (nonce, token) = (Nonce(0), AssociationId(0));
        RandomValues { delays, nonces, collisions: 0, nonce, token, process }
    }

    /// Delay that spreads the answers of many receivers.
    pub fn answer_delay(&mut self) -> Duration {
        self.within(ANSWER_SPREAD)
    }

    /// Delay of up to this time, at least 1 ns.
    pub fn within(&mut self, time: Duration) -> Duration {
        Duration::from_nanos(1 + self.delays.below(time.as_nanos() as u64))
    }

    /// Nonce for this sender, the same each time, which no other node can know.
    pub fn nonce_for(&self, association: AssociationId, sender: NodeId) -> Nonce {
        let attempt = format!("{} {} {}", association.0, sender.0, self.collisions);
        Nonce(self.nonces.part(&attempt).stream("session.nonce").bits())
    }

    /// Draws the values for a session. They depend on session and sender, so a repeated attempt is recognised as the
    /// same.
    pub fn draw_for(&mut self, association: AssociationId, sender: NodeId) {
        self.nonce = self.nonce_for(association, sender);
        self.token = secret::token(self.nonce);
    }

    /// Notes that the nonce collided with another member's, which makes the next one different.
    pub fn note_collision(&mut self) {
        self.collisions += 1;
    }
}
