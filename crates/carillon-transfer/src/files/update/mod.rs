//! Updates: transfers in which receivers say first what they have, and only the rest is sent.
//!
//! The sender lists all entries and asks (QUESTION 1). Each receiver compares the list with its directory. For large
//! files that all receivers have in some version, the sender describes the 4 MiB subtrees and asks again (QUESTION 2).
//! Then it sends the files, and the parts of described files, that at least one receiver is missing. Receivers copy
//! the other parts from their own version. An interrupted update is not different from a changed tree, so both resume
//! in the same way.

mod asking;
mod comparison;
mod deleting;
#[cfg(test)]
mod in_place_tests;
mod listed;
mod lookup;
mod reading;
mod stored_list;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use carillon_wire::file::{ListFlags, SUBTREE_BYTES, TransferId};
use carillon_wire::holdings::Holding;

pub(super) use asking::Asking;
pub(super) use comparison::Comparison;
pub(super) use deleting::Deletion;
pub use deleting::Removed;
pub(super) use listed::{Listed, ListedKind};
pub(super) use lookup::{Lookup, is_file};
pub(super) use stored_list::{
    identity as list_identity, is_list, read as read_list, records as list_records, write as write_list,
};

use super::contents::Stamp;

/// Options of an update.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Update {
    /// Compares files by digest instead of by size and modification time.
    pub checksum: bool,
    /// Only asks what each receiver is missing, and sends nothing.
    pub dry_run: bool,
    /// Deletes what receivers have beyond the sender's directories, where they permit it.
    pub delete: bool,
    /// Maximum number of entries that a receiver deletes; one that would delete more fails and changes nothing.
    pub max_delete: Option<u64>,
}

/// Files and bytes that a receiver had before an update.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Presence {
    /// Files that the receiver has unchanged, and their bytes. Equal parts of changed files count as bytes.
    pub files: u64,
    /// Bytes that the receiver has.
    pub bytes: u64,
    /// Files that the receiver is missing.
    pub missing_files: u64,
    /// Bytes that the receiver is missing.
    pub missing_bytes: u64,
}

/// Contents of LIST.
#[derive(Clone, Copy, Debug)]
pub struct Announcement {
    pub list: TransferId,
    pub flags: ListFlags,
    /// Limit of deletions, if receivers delete.
    pub delete: Option<Option<u64>>,
}

/// A question that waits for answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Number of the question.
    pub question: u32,
    /// Number of items of the answer.
    pub items: usize,
}

/// Holdings of all receivers together.
#[derive(Debug)]
pub enum Plan {
    /// Answer to QUESTION 1, for each entry.
    Entries(Vec<Holding>),
    /// Answer to QUESTION 2: each described part that every receiver has.
    Parts(Vec<bool>),
    /// Answer to QUESTION 3: each receiver knows what it will delete.
    Deletions,
}

/// Step of an update before the files.
#[derive(Clone, Copy, Debug)]
pub(super) enum Phase {
    /// LIST.
    List,
    /// DELETE.
    Delete,
    /// A pattern of entries that stay.
    Exclude(usize),
    /// The table of an archive, from this byte on.
    Archive(usize),
    /// An entry of the list.
    Entry(usize),
    /// A question.
    Question(u32),
    /// Waits for the plan after this question.
    Await(u32),
    /// Opens this one of the files to describe.
    Describe(usize),
    /// Describes it.
    Subtrees(usize),
}

/// State of an update in the reading thread.
#[derive(Debug)]
pub(super) struct Updating {
    announcement: Announcement,
    /// Answer to QUESTION 1; empty before.
    entries: Vec<Holding>,
    /// Files to describe.
    describe: Vec<usize>,
    described: BTreeMap<usize, Description>,
    /// Described parts: index of the file, in order.
    items: Vec<usize>,
    /// Number of SUBTREEs in the message that is being filled.
    pub subtrees: usize,
}

/// Description of a file.
#[derive(Debug)]
struct Description {
    stamp: Stamp,
    digest: [u8; blake3::OUT_LEN],
    values: Vec<[u8; blake3::OUT_LEN]>,
    /// Parts that every receiver has.
    same: Vec<bool>,
}

impl Updating {
    pub fn new(announcement: Announcement) -> Self {
        Updating {
            announcement,
            entries: Vec::new(),
            describe: Vec::new(),
            described: BTreeMap::new(),
            items: Vec::new(),
            subtrees: 0,
        }
    }
}

/// Returns true if a file is described: every receiver that does not have it has another version, and it has a whole
/// part.
pub(super) fn is_described(holding: Holding, size: u64) -> bool {
    holding == Holding::Other && size >= SUBTREE_BYTES
}

/// Demand on receivers in an update that deletes.
pub(crate) const DELETE_DEMAND: &str = "delete";

/// Number of the question what receivers will delete.
pub(super) const DELETIONS_QUESTION: u32 = 3;

/// Maximum number of SUBTREEs in a message of a description, as each costs a receiver the hashing of 4 MiB.
pub(super) const MAX_SUBTREES: usize = 16;
