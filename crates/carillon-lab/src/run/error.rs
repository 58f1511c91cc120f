//! Why a run gave nothing.

use std::time::Duration;

use carillon_core::ConfigError;
use thiserror::Error;

/// Why a run gave nothing.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RunError {
    /// The settings do not go together.
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
    /// The senders were not done in the time they had.
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
}
