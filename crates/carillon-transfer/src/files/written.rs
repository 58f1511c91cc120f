//! Entries that a transfer has created in a directory, identified by the file system.
//!
//! File systems that ignore case or normalise Unicode treat two names as one file: the second would replace the
//! first, or fail as existing. Equality is therefore asked of the file system instead of derived from the spelling.
//! It compares device and inode number. Where a file system with folded names has several inode numbers per file
//! (FUSE), it reads the directory listing.

use std::collections::HashSet;
use std::hash::{BuildHasher as _, RandomState};
use std::os::fd::BorrowedFd;

use rustix::fs::{AtFlags, Dir, FileType, Stat, fstat, statat};

use super::names::split;

/// Entries created since the beginning of the transfer.
#[derive(Debug, Default)]
pub struct Written {
    hashes: RandomState,
    /// Hashes of the paths.
    paths: HashSet<u64>,
    /// Device and inode numbers.
    ids: HashSet<(u64, u64)>,
    /// Device with a file system that was found to compare names byte by byte.
    exact_device: Option<u64>,
}

impl Written {
    /// Creates an empty set; `exact_device` is a device with byte-wise comparison of names.
    pub fn new(exact_device: Option<u64>) -> Self {
        Written { exact_device, ..Written::default() }
    }

    /// Resets the set for the next transfer.
    pub fn clear(&mut self) {
        self.paths.clear();
        self.ids.clear();
    }

    /// Returns true if this path was created.
    pub fn has(&self, path: &[u8]) -> bool {
        self.paths.contains(&self.hashes.hash_one(path))
    }

    /// Returns true if all entries are on this device.
    pub fn is_on(&self, device: u64) -> bool {
        self.ids.iter().all(|(of, _)| *of == device)
    }

    /// Adds an entry with this path.
    pub fn note(&mut self, path: &[u8], stat: &Stat) {
        self.paths.insert(self.hashes.hash_one(path));
        self.ids.insert(id(stat));
    }

    /// Returns true if this name leads to an entry of the transfer, on a file system that may take two names for one.
    pub fn has_other_spelling(&self, directory: BorrowedFd<'_>, name: &[u8]) -> bool {
        statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)
            .is_ok_and(|stat| self.exact_device != Some(stat.st_dev) && self.ids.contains(&id(&stat)))
    }

    /// Returns the name of another entry of this transfer to which `path` leads on this file system, if any. `found`
    /// is the metadata of the existing entry at `path`.
    pub fn alias(&self, directory: BorrowedFd<'_>, path: &[u8], found: &Stat) -> Option<Vec<u8>> {
        if self.paths.is_empty() || self.has(path) {
            return None;
        }
        let (parent, name) = split(path);
        let known = self.ids.contains(&id(found));
        if !known && self.exact_device == Some(found.st_dev) {
            return None;
        }
        let mut others = Vec::new();
        for entry in Dir::read_from(directory).ok()?.flatten() {
            let other = entry.file_name().to_bytes();
            if other == name && !known {
                return None;
            }
            let sibling = if parent.is_empty() { other.to_vec() } else { [parent, b"/", other].concat() };
            if other != name && self.has(&sibling) {
                others.push(other.to_vec());
            }
        }
        let same = |other: &Vec<u8>| {
            statat(directory, other.as_slice(), AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|stat| {
                let kind = |stat: &Stat| FileType::from_raw_mode(stat.st_mode);
                let is_directory = kind(&stat) == FileType::Directory;
                match known {
                    true => id(&stat) == id(found),
                    // An equal size cannot exclude the same file: it is not replaced.
                    false => kind(&stat) == kind(found) && (is_directory || stat.st_size == found.st_size),
                }
            })
        };
        let other = others.into_iter().find(same);
        // The entry was renamed, or is listed in another spelling.
        other.or_else(|| known.then(|| b"another entry".to_vec()))
    }
}

/// Returns true if a directory lists an entry of exactly this name.
pub fn lists(directory: BorrowedFd<'_>, name: &[u8]) -> bool {
    let Ok(entries) = Dir::read_from(directory) else { return true };
    entries.flatten().any(|entry| entry.file_name().to_bytes() == name)
}

/// Returns the device of a directory if its file system compares names byte by byte. The test looks up an existing
/// file with lower case and composed characters in its name, in other spellings.
pub fn exact_device(directory: BorrowedFd<'_>, name: &str) -> Option<u64> {
    let spellings = [name.to_uppercase(), name.replace('é', "e\u{301}")];
    let finds = |spelling: &String| statat(directory, spelling.as_str(), AtFlags::SYMLINK_NOFOLLOW).is_ok();
    match spellings.iter().any(finds) {
        true => None,
        false => fstat(directory).ok().map(|stat| stat.st_dev),
    }
}

fn id(stat: &Stat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}
