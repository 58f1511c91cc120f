//! Checks of the names of a manifest.

use std::collections::BTreeSet;

use carillon_wire::file::RelativePath;

use super::super::names::{components, is_part_name, shown_name, split};
use super::{Entry, Kind, Manifest};
use crate::error::{LocalError, stated};

impl Manifest {
    /// Checks the names that the caller chose, and that no two entries have the same name.
    pub(super) fn check_names(&self) -> Result<(), LocalError> {
        let mut names = BTreeSet::new();
        let mut directories = BTreeSet::new();
        let entries = self.entries.iter().map(|Entry { name, kind, .. }| (name, Some(kind)));
        for (name, kind) in entries.chain(self.specials().iter().map(|special| (&special.name, None))) {
            if RelativePath::new(name).is_none() {
                return Err(stated!(
                    "the name \"{}\" cannot be sent: no part of it may be empty, `.` or `..`, have a NUL byte, \
                     or be longer than {} bytes; at most {} bytes and {} parts",
                    shown_name(name),
                    RelativePath::MAX_NAME_LEN,
                    RelativePath::MAX_LEN,
                    RelativePath::MAX_DEPTH
                ));
            }
            if components(name).any(is_part_name) {
                return Err(stated!(
                    "\"{}\" is the name of a file that did not arrive completely: rename it",
                    shown_name(name)
                ));
            }
            if let Some(Kind::Directory { .. }) = kind {
                directories.insert(name.as_slice());
            } else if !names.insert(name.as_slice()) {
                return Err(stated!(
                    "two files would have the name \"{}\" at the receivers: send them one by one",
                    shown_name(name)
                ));
            }
        }
        // A file cannot be a directory as well, neither a sent one nor one above a renamed file.
        for name in names.iter().chain(&directories) {
            let mut above = if directories.contains(name) { Some(*name) } else { parent(name) };
            while let Some(directory) = above {
                if names.contains(directory) {
                    return Err(stated!(
                        "\"{}\" would be a file and a directory at the receivers: send them one by one",
                        shown_name(directory)
                    ));
                }
                above = parent(directory);
            }
        }
        Ok(())
    }
}

fn parent(name: &[u8]) -> Option<&[u8]> {
    let (parent, _) = split(name);
    (!parent.is_empty()).then_some(parent)
}
