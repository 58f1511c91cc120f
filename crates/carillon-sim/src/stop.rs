//! Reasons why a run of a world stops.

use carillon_core::{NodeId, Time};

/// Reason why a run stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// The condition of the run holds.
    Done,
    /// No event is left.
    Idle,
    /// The limit of simulated time was reached.
    TimeLimit,
    /// The observer [stopped](carillon_core::Observer::stops) the run in the middle of an event.
    Stopped,
    /// A machine emitted more in one event than the world allows; the run cannot go on.
    Runaway(Runaway),
}

/// Machine that emits without end at one point in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Runaway {
    /// Node of the machine.
    pub node: NodeId,
    /// Time of the event.
    pub time: Time,
    /// Number of datagrams sent in the event.
    pub datagrams: u64,
    /// Number of events and notices emitted in the event.
    pub records: u64,
}
