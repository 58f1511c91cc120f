//! State of a node of a world.

use carillon_core::{Application, Machine, Time};

/// State of a node. Nodes are small and in one array, since a fan-out visits them in order.
pub(crate) struct Node {
    pub(crate) machine: Box<dyn Machine>,
    pub(crate) application: Option<Box<dyn Application>>,
    /// True if the machine is a sender. The answer is kept, because most machines are none and are called for each
    /// datagram.
    pub(crate) sends: bool,
    /// Time at which the machine or the application wants to be called next.
    pub(crate) wanted: Time,
    /// Earliest wake-up in the queue. If `wanted` is later, the wake-up is stale and schedules another one.
    pub(crate) scheduled: Time,
    /// Number of messages that the machine kept after its last call, as far as the observer knows it; `u32::MAX`
    /// before.
    pub(crate) held: u32,
}

// A large world has many of them.
const _: () = assert!(size_of::<Node>() <= 56);

impl Node {
    pub(crate) fn new(mut machine: Box<dyn Machine>, application: Option<Box<dyn Application>>) -> Self {
        let sends = machine.as_sender().is_some();
        Node { machine, application, sends, wanted: Time::MAX, scheduled: Time::MAX, held: u32::MAX }
    }
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.machine.fmt(f)
    }
}
