//! Files and streams as messages of any protocol of the registry.
//!
//! [`Outgoing`] and [`Incoming`] are the applications at the two ends of a session, [`Contribution`]
//! that of a further sender. They speak the records of [`carillon_wire::file`] and do the disk I/O; the session and its
//! protocol know nothing of files, and nothing here knows a protocol.

mod arriving;
mod contents;
mod contribution;
mod descent;
mod disk;
mod draft;
mod feed;
mod history;
mod holes;
mod incoming;
mod intake;
#[cfg(test)]
mod intake_tests;
mod leftovers;
mod listing;
mod live;
mod manifest;
mod message_buffer;
mod message_numbers;
mod names;
mod outgoing;
mod output;
mod pieces;
mod problem;
mod reader;
#[cfg(test)]
mod reader_tests;
mod record_digest;
mod reserve;
mod resume;
#[cfg(test)]
mod resume_tests;
mod signing;
#[cfg(test)]
mod signing_tests;
mod skipped;
mod spool;
mod spool_log;
#[cfg(test)]
mod spool_tests;
mod stdin;
mod taker;
mod target;
mod times;
mod tree;
mod withholding;
mod worker_queue;
mod written;

pub use crate::limits::MAX_MESSAGE_LEN;
pub use arriving::{Completed, Unstored};
pub use contribution::Contribution;
pub use feed::{Closed, Feed};
pub use incoming::Incoming;
pub use intake::Sink;
pub use live::{Live, Messages};
pub use manifest::{Manifest, Symlinks};
pub use names::{needs_escape, shown, shown_name, shown_path};
pub use outgoing::{Outgoing, needed_payload};
pub use output::Output;
pub(crate) use pieces::Pieces;
pub use problem::Problem;
pub use signing::{Binding, Signature, SigningKey, Trust, VerifyingKey};
pub use skipped::{SkipReason, Skipped};
pub use taker::State as SenderState;
pub use target::{Folder, Target};
pub(crate) use worker_queue::Found;

/// A piece of a file that begins at a multiple of so many bytes and has as many is hashed and written where it lies: it
/// is a large part of the tree of its digest, of which a processor hashes many leaves at once. Shorter ones are gathered.
pub const PIECE_BYTES: usize = 32 << 10;
