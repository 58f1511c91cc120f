//! Table of an archive while a tree is listed.

use std::collections::HashMap;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use carillon_wire::file::archive::{ARCHIVE_MODE_MASK, Archive, Class};

use super::super::archive::{ACCESS_ACL, read_attributes};

/// Collects the table of an archive while a tree is listed.
#[derive(Debug, Default)]
pub(super) struct Collector {
    pub(super) table: Archive,
    /// Classes that are in the table, by their contents.
    classes: HashMap<Class, u32>,
    /// Indices of files with several names, by device and inode.
    pub(super) files: HashMap<(u64, u64), u32>,
    /// Buffer for attributes.
    buffer: Vec<u8>,
}

impl Collector {
    /// Index of the class of this entry.
    pub(super) fn class(&mut self, path: &Path, metadata: &Metadata) -> std::io::Result<u32> {
        let attributes = match metadata.is_symlink() {
            true => Vec::new(),
            false => read_attributes(path, &mut self.buffer)?,
        };
        let (user, group, mode) = (metadata.uid(), metadata.gid(), metadata.mode() & ARCHIVE_MODE_MASK);
        let class = Class { user, group, mode, attributes };
        let next = self.table.classes.len() as u32;
        Ok(*self.classes.entry(class).or_insert_with_key(|class| {
            self.table.classes.push(class.clone());
            next
        }))
    }

    /// Returns true if this class has an access control list.
    pub(super) fn has_acl(&self, class: u32) -> bool {
        let class = self.table.classes.get(class as usize);
        class.is_some_and(|class| class.attributes.iter().any(|(name, _)| name == ACCESS_ACL))
    }

    /// Adds an entry of this class.
    pub(super) fn run(&mut self, class: u32) {
        match self.table.runs.last_mut() {
            Some((entries, last)) if *last == class => *entries += 1,
            _ => self.table.runs.push((1, class)),
        }
    }
}
