//! Attributes and special entries of an archive: owners, all permission bits, extended attributes, further hard links,
//! links that lead out, FIFOs and devices.

use std::fs::Metadata;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

use carillon_wire::file::archive::{MAX_TABLE_BYTES, Special, SpecialKind};

use super::super::skipped::SkipReason;
use super::super::times;
use super::{Entry, Kind, Manifest};
use crate::error::{LocalError, stated};

impl Manifest {
    /// Adds an entry with its attributes. One with attributes that cannot be read is skipped; returns false for it.
    pub(super) fn push(&mut self, mut entry: Entry, path: &Path, metadata: &Metadata) -> bool {
        let index = self.entries.len() as u32;
        if let Some(archive) = &mut self.archive {
            let class = match archive.class(path, metadata) {
                Ok(class) => class,
                Err(error) => {
                    self.skip(path, SkipReason::Unreadable(error.to_string()));
                    return false;
                }
            };
            archive.run(class);
            match &entry.kind {
                // Until the receiver sets the list, group bits are those of its mask.
                Kind::File { .. } | Kind::Directory { .. } if archive.has_acl(class) => entry.mode &= 0o700,
                Kind::Link(_) => archive.table.links.push((index, modified(metadata))),
                _ => {}
            }
            if let (Kind::File { .. }, true) = (&entry.kind, metadata.is_file() && metadata.nlink() > 1) {
                archive.files.insert((metadata.dev(), metadata.ino()), index);
            }
        }
        self.entries.push(entry);
        true
    }

    /// Adds a further name of a file; returns false if this is the first one.
    pub(super) fn add_hard_link(&mut self, name: &[u8], metadata: &Metadata) -> bool {
        let Some(archive) = self.archive.as_mut().filter(|_| metadata.is_file() && metadata.nlink() > 1)
        else {
            return false;
        };
        let Some(&index) = archive.files.get(&(metadata.dev(), metadata.ino())) else { return false };
        let kind = SpecialKind::HardLink(index);
        archive.table.specials.push(Special { name: name.to_owned(), class: 0, modified: None, kind });
        true
    }

    /// Adds an entry that only archives have; returns false if this is no archive, or no such entry. `target` is that
    /// of a symbolic link.
    pub(super) fn add_special(
        &mut self,
        path: &Path,
        name: &[u8],
        metadata: &Metadata,
        target: Option<&[u8]>,
    ) -> bool {
        let Some(archive) = &mut self.archive else { return false };
        let (file_type, device) = (metadata.file_type(), metadata.rdev());
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let kind = match target {
            Some(target) => SpecialKind::Link(target.to_owned()),
            None if file_type.is_fifo() => SpecialKind::Fifo,
            None if file_type.is_char_device() => SpecialKind::CharacterDevice(major, minor),
            None if file_type.is_block_device() => SpecialKind::BlockDevice(major, minor),
            None => return false,
        };
        match archive.class(path, metadata) {
            Ok(class) => archive.table.specials.push(Special {
                name: name.to_owned(),
                class,
                modified: modified(metadata),
                kind,
            }),
            Err(error) => self.skip(path, SkipReason::Unreadable(error.to_string())),
        }
        true
    }

    /// Special entries of an archive.
    pub(super) fn specials(&self) -> &[Special] {
        self.archive.as_ref().map_or(&[], |archive| &archive.table.specials)
    }

    /// Encodes the table of an archive.
    pub(super) fn finish_archive(&mut self) -> Result<(), LocalError> {
        let Some(archive) = &self.archive else { return Ok(()) };
        let mut table = Vec::new();
        archive.table.emit(&mut table);
        if table.len() > MAX_TABLE_BYTES {
            return Err(stated!(
                "the attributes have {} bytes, more than {MAX_TABLE_BYTES}: send less at once",
                table.len()
            ));
        }
        self.table = Some(table);
        Ok(())
    }
}

fn modified(metadata: &Metadata) -> Option<i64> {
    times::carried((metadata.mtime(), metadata.mtime_nsec()))
}
