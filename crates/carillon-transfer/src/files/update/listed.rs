//! Entries of the list of an update.

use carillon_wire::holdings::Holding;

/// A listed entry.
#[derive(Debug)]
pub(in crate::files) struct Listed {
    pub name: Box<[u8]>,
    pub mode: u32,
    pub modified: Option<i64>,
    pub kind: ListedKind,
    pub holding: Holding,
    /// True if the destination has the contents with other permission bits or another time.
    pub differs: bool,
}

/// Kind of a listed entry.
#[derive(Debug)]
pub(in crate::files) enum ListedKind {
    File { size: u64 },
    Directory,
    Link(Box<[u8]>),
}
