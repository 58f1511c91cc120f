//! Hard links of files at a receiver, compared with those of the sender.

use std::collections::BTreeMap;

use carillon_wire::file::archive::{Archive, SpecialKind};
use rustix::fs::Stat;

use super::super::update::Lookup;

/// Further names of files, by the index of the file.
pub(in crate::files) struct Groups<'a>(BTreeMap<u32, Vec<&'a [u8]>>);

impl<'a> Groups<'a> {
    /// Collects the hard links of a table.
    pub fn new(table: &'a Archive) -> Self {
        let mut groups = BTreeMap::<u32, Vec<&[u8]>>::new();
        for special in &table.specials {
            if let SpecialKind::HardLink(index) = special.kind {
                groups.entry(index).or_default().push(&special.name);
            }
        }
        Groups(groups)
    }

    /// Returns true if all names of this file's inode are names of the file at the sender.
    pub fn has_all(&self, index: u32, stat: &Stat, lookup: &mut Lookup) -> bool {
        let names = self.0.get(&index).map_or(&[][..], Vec::as_slice);
        let mut same = 1;
        for name in names {
            let found = lookup.stat(name);
            if found.is_some_and(|(_, found)| (found.st_dev, found.st_ino) == (stat.st_dev, stat.st_ino)) {
                same += 1;
            }
        }
        same == stat.st_nlink
    }
}
