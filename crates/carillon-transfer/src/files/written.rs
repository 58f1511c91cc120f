//! The entries that a transfer has made in a directory, by what the file system says of them.
//!
//! File systems that ignore case, or normalise Unicode, take two names for one file: the second would replace the first,
//! or fail as if it had been there before. Whether two names lead to one file is asked of the file system and never
//! guessed from their spelling: by device and inode number, and where a file system that folds names gives one file several
//! inode numbers (FUSE does), by the listing of the directory.

use std::collections::HashSet;
use std::hash::{BuildHasher as _, RandomState};
use std::os::fd::BorrowedFd;

use rustix::fs::{AtFlags, Dir, FileType, Stat, fstat, statat};

use super::names::split;

/// What was made since the transfer began.
#[derive(Debug, Default)]
pub struct Written {
    hashes: RandomState,
    /// Hashes of the paths.
    paths: HashSet<u64>,
    /// Device and inode numbers.
    ids: HashSet<(u64, u64)>,
    /// The device on which names were compared byte by byte when that was probed.
    exact_device: Option<u64>,
}

impl Written {
    /// For a directory on this device, if its file system compares names byte by byte.
    pub fn new(exact_device: Option<u64>) -> Self {
        Written { exact_device, ..Written::default() }
    }

    /// For the next transfer.
    pub fn clear(&mut self) {
        self.paths.clear();
        self.ids.clear();
    }

    /// Whether this path was made.
    pub fn has(&self, path: &[u8]) -> bool {
        self.paths.contains(&self.hashes.hash_one(path))
    }

    /// Adds an entry with this path.
    pub fn note(&mut self, path: &[u8], stat: &Stat) {
        self.paths.insert(self.hashes.hash_one(path));
        self.ids.insert(id(stat));
    }

    /// The name of another entry of this transfer that `path` leads to on this file system, if there is one. `found` is what
    /// the last component of the path leads to in this directory.
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
                    // A file cannot be told from another one of the same size: it is not replaced then.
                    false => kind(&stat) == kind(found) && (is_directory || stat.st_size == found.st_size),
                }
            })
        };
        let other = others.into_iter().find(same);
        // It has been renamed since, or is listed in another spelling.
        other.or_else(|| known.then(|| b"another entry".to_vec()))
    }
}

/// Whether a directory lists an entry by exactly this name.
pub fn lists(directory: BorrowedFd<'_>, name: &[u8]) -> bool {
    let Ok(entries) = Dir::read_from(directory) else { return true };
    entries.flatten().any(|entry| entry.file_name().to_bytes() == name)
}

/// The device of a directory if its file system compares names byte by byte, as far as a file in it shows that has this
/// name (lower case, and composed characters): it is looked up in other spellings.
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
