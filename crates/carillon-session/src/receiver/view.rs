//! State of a receiver's session for its host and application.

use carillon_core::{AssociationId, NodeId, ObservedState, Order};
use carillon_wire::session::State;

use super::peers::PeerMember;
use super::{JobId, ReceiverPhase, ReceiverSession};

impl ReceiverSession {
    /// Phase of the session.
    pub fn phase(&self) -> ReceiverPhase {
        self.phase.clone()
    }

    /// Name of the sender that invited this receiver.
    pub fn sender_name(&self) -> Option<&str> {
        self.invited.as_ref().map(|invited| invited.name.as_str())
    }

    /// Node of the sender that invited this receiver.
    pub fn sender_node(&self) -> Option<NodeId> {
        self.invited.as_ref().map(|invited| invited.sender)
    }

    /// Returns true if the sender has said that messages are in flight.
    pub fn has_started(&self) -> bool {
        self.invited.as_ref().is_some_and(|invited| matches!(invited.state, State::Running | State::Closing))
    }

    /// Number that the sender gave this member.
    pub fn member_number(&self) -> Option<u32> {
        self.invited.as_ref()?.member
    }

    /// Job of the session, if its sender states one.
    pub fn job(&self) -> Option<JobId> {
        self.invited.as_ref()?.job
    }

    /// Identifier of the session.
    pub fn association(&self) -> Option<AssociationId> {
        self.invited.as_ref().map(|invited| invited.association)
    }

    /// Protocol of the session, if this receiver supports it.
    pub fn protocol(&self) -> Option<&'static str> {
        self.invited.as_ref()?.protocol
    }

    /// Order in which messages are delivered.
    pub fn order(&self) -> Order {
        self.invited.as_ref().map_or(Order::Source, |invited| invited.order)
    }

    /// Returns true if the protocol gave up messages that this receiver is missing.
    pub fn has_lost(&self) -> bool {
        self.invited.as_ref().is_some_and(|invited| invited.has_lost)
    }

    /// Maximum payload of a message, once invited.
    pub fn max_payload(&self) -> Option<u32> {
        self.invited.as_ref().map(|invited| invited.max_payload)
    }

    /// Members by rank, once this member has received from all of them; empty if they are not peers.
    pub fn peers(&self) -> &[PeerMember] {
        self.assembling.peers.as_ref().filter(|peers| peers.are_peers()).map_or(&[], |peers| peers.members())
    }

    /// Members by rank, in any session with a roster, including one with helpers.
    pub fn roster(&self) -> &[PeerMember] {
        self.assembling.peers.as_ref().map_or(&[], |peers| peers.members())
    }

    /// Returns true if the assignment of members to helpers is final: the session runs or is over.
    pub fn has_tree(&self) -> bool {
        matches!(self.phase, ReceiverPhase::Running | ReceiverPhase::Reporting | ReceiverPhase::Finished)
    }

    /// Members that turn to this one, in a session with helpers.
    pub fn children(&self) -> Vec<&PeerMember> {
        self.assembling.peers.as_ref().map_or_else(Vec::new, |peers| peers.child_members())
    }

    /// Returns true if the sender has acknowledged the report.
    pub fn report_acknowledged(&self) -> bool {
        self.reporting.is_acknowledged()
    }

    /// States of the machines that make the session.
    pub(super) fn observe(&self) -> impl Iterator<Item = ObservedState> {
        let one = [
            self.phase.observe(),
            self.joining.observe(),
            self.observe_catch_up(),
            self.observe_overhearing(),
        ];
        let others = [self.liveness.observe(), self.reporting.observe(), self.assembling.observe()];
        one.into_iter().chain(others.into_iter().flatten())
    }
}
