//! Errors of a run that therefore has no results.

use std::time::Duration;

use carillon_core::{ConfigError, DataSize, NodeId, Role, Time};
use thiserror::Error;

/// Error of a run that therefore has no results.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RunError {
    /// Inconsistent settings.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A frame of this size has no room for the headers.
    #[error(
        "workload.message_bytes is {message_bytes}: {headers} bytes of headers leave no room for a payload"
    )]
    NoRoom {
        /// Bytes of the frame.
        message_bytes: u32,
        /// Bytes of the headers.
        headers: u32,
    },
    /// The senders had not finished at the time limit.
    #[error(
        "after {limit:?} of simulated time the senders had completed {done} of {messages} messages; raise run.time_limit or lower the loss"
    )]
    Unfinished {
        /// The time.
        limit: Duration,
        /// Messages completed.
        done: u64,
        /// Messages offered.
        messages: u64,
    },
    /// The senders had not finished at the limit of steps.
    #[error(
        "after {steps} simulation steps the senders had completed {done} of {messages} messages; raise run.step_limit or lower the loss"
    )]
    Steps {
        /// Number of steps.
        steps: u64,
        /// Messages completed.
        done: u64,
        /// Messages offered.
        messages: u64,
    },
    /// A machine would emit without end.
    #[error(
        "node {node}, the {role} of {protocol}, sent {datagrams} datagrams and recorded {records} events in one event at {time} of simulated time, without an end in sight. This is a bug of the protocol; if it is intended, raise run.emission_limit"
    )]
    Runaway {
        /// The node of the machine.
        node: NodeId,
        /// Its role.
        role: Role,
        /// Name of its protocol.
        protocol: &'static str,
        /// The time of the event.
        time: Time,
        /// Number of datagrams sent by the node in this event.
        datagrams: u64,
        /// Number of events and notices of the event.
        records: u64,
    },
    /// The run exceeds its memory limit.
    #[error(
        "at {time} of simulated time the process holds {resident} of memory, above the limit of {limit}: raise run.memory_limit, make the run smaller, or run fewer at once (--jobs)"
    )]
    Memory {
        /// The time that the run had reached.
        time: Time,
        /// Resident memory of the process.
        resident: DataSize,
        /// The limit.
        limit: DataSize,
    },
}
