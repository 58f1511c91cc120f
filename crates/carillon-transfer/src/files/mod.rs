//! Files and streams as messages of any protocol of the registry.
//!
//! [`Outgoing`] and [`Incoming`] are the applications at the two ends of a session, [`Contribution`] that of a
//! further sender. They use the records of [`carillon_wire::file`] and do the disk I/O. Session and protocol do not
//! depend on files, nor this module on a protocol.

mod archive;
mod arriving;
mod block_device;
mod contents;
mod contribution;
mod descent;
mod disk;
mod draft;
mod feed;
mod finish;
mod history;
mod holes;
mod incoming;
mod intake;
mod leftovers;
mod listing;
mod live;
mod manifest;
mod message_buffer;
mod message_history;
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
mod signing_keys;
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
mod unstorable;
mod update;
mod withholding;
mod worker_queue;
mod written;

pub use crate::limits::MAX_MESSAGE_LEN;
pub(crate) use archive::ARCHIVE_DEMAND;
pub use archive::{Accepted, Loss};
pub use arriving::{Completed, Unstored};
pub use block_device::check_source;
pub use contribution::Contribution;
pub use feed::{Closed, Feed};
pub use finish::{Arrived, Finish};
pub use incoming::Incoming;
pub use intake::Sink;
pub use live::{Live, Messages};
pub use manifest::{Exclude, ExcludeError, Manifest, Selection, Symlinks, split_names};
pub use message_history::{History, MAX_HISTORY_BYTES};
pub use names::{needs_escape, shown, shown_name, shown_path};
pub use outgoing::{Outgoing, needed_payload};
pub(crate) use outgoing::{Taken, stream_position};
pub use output::Output;
pub(crate) use pieces::Pieces;
pub use problem::Problem;
pub use signing::{Binding, Signature, Trust};
pub use signing_keys::{SigningKey, VerifyingKey};
pub use skipped::{SkipReason, Skipped};
pub use taker::State as SenderState;
pub(crate) use target::Position;
pub use target::{Folder, Target};
pub(crate) use unstorable::Unstorable;
pub(crate) use update::DELETE_DEMAND;
pub use update::{Presence, Removed, Update};
pub(crate) use worker_queue::Found;

/// Piece size, in bytes, for hashing and writing in place. An aligned piece is a large subtree of BLAKE3, and
/// a processor hashes its leaves in parallel; shorter pieces are collected in a buffer first.
pub const PIECE_BYTES: usize = 32 << 10;
