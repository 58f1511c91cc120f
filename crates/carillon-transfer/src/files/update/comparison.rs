//! Comparison of a sender's list with the destination.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use blake3::hazmat::HasherExt as _;
use carillon_session::HoldingsPart;
use carillon_wire::file::{ListFlags, Record, RelativePath, SUBTREE_BYTES, TransferId};
use carillon_wire::holdings::{Holding, HoldingsWriter};
use rustix::fs::Stat;

use super::super::contents::READ_BYTES;
use super::super::names::split;
use super::super::problem::{Problem, damaged, refused};
use super::super::target::{is_marked, unmark};
use super::deleting::Deletion;
use super::listed::{Listed, ListedKind};
use super::lookup::{Lookup, is_file};
use super::reading::hash_file;

/// The list of a sender, and what the destination has of it.
#[derive(Debug)]
pub(in crate::files) struct Comparison {
    pub list: TransferId,
    pub flags: ListFlags,
    pub entries: Vec<Listed>,
    /// Bytes of the names and targets.
    bytes: usize,
    /// Number of the last question.
    pub question: u32,
    /// Request to delete what is not listed.
    pub deletion: Option<Box<Deletion>>,
    pub lookup: Lookup,
    /// Answer to QUESTION 2 so far, and the number of its items.
    parts: HoldingsWriter,
    items: usize,
    /// Versions that have the parts of described files.
    places: BTreeMap<u32, Vec<Place>>,
    /// Versions of the file that is described or received.
    versions: Option<(u32, Versions)>,
}

/// Version of a file that has a certain part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Nowhere,
    Old,
    Partial,
}

/// Versions of a file that exist here.
#[derive(Debug, Default)]
struct Versions {
    /// The file under its name.
    old: Option<File>,
    /// The partial file of an interrupted transfer.
    partial: Option<File>,
}

impl Comparison {
    pub fn new(list: TransferId, flags: ListFlags, lookup: Lookup) -> Self {
        Comparison {
            list,
            flags,
            entries: Vec::new(),
            bytes: 0,
            question: 0,
            deletion: None,
            lookup,
            parts: HoldingsWriter::new(HoldingsPart::MAX_TOTAL as usize),
            items: 0,
            places: BTreeMap::new(),
            versions: None,
        }
    }

    /// Adds an entry of the list. Returns false if the list is too long.
    pub fn add(&mut self, record: &Record<'_>) -> bool {
        let (name, mode, modified, kind) = match *record {
            Record::File { size: Some(size), mode, modified, path, .. } => {
                (path, mode, modified, ListedKind::File { size })
            }
            Record::Directory { mode, modified, path, .. } => (path, mode, modified, ListedKind::Directory),
            Record::Link { target, path, .. } => (path, 0, None, ListedKind::Link(target.into())),
            _ => return false,
        };
        self.bytes += size_of::<Listed>() + record.wire_len();
        let name = name.as_bytes().into();
        self.entries.push(Listed { name, mode, modified, kind, holding: Holding::Missing, differs: false });
        self.bytes <= MAX_LIST_BYTES
    }

    /// Adds an entry of the list, if it is the next of the announced number.
    pub fn add_next(&mut self, record: &Record<'_>, index: u32, announced: u32) -> Result<(), Problem> {
        if !self.flags.entries || index as usize != self.entries.len() || index >= announced {
            return Err(damaged(format!("the list is incomplete: entry {index} is out of turn")));
        }
        match self.add(record) {
            true => Ok(()),
            false => Err(refused("the list of files is too long for an update")),
        }
    }

    /// Checks that the digest of this entry follows its entry.
    pub fn expect_digest(&self, index: u32) -> Result<(), Problem> {
        if !self.flags.checksum || index as usize + 1 != self.entries.len() {
            return Err(damaged(format!("the list is incomplete: digest {index} is out of turn")));
        }
        Ok(())
    }

    /// Finds the entry of a file that comes now. Returns true if it was listed with these attributes and is here.
    pub fn has_listed(
        &self,
        index: u32,
        name: &[u8],
        size: Option<u64>,
        modified: Option<i64>,
    ) -> Result<bool, Problem> {
        match self.entries.get(index as usize) {
            Some(Listed {
                name: listed,
                kind: ListedKind::File { size: at },
                modified: time,
                holding,
                ..
            }) if **listed == *name => {
                // A file that has changed since it was listed is another one.
                let is_listed = Some(*at) == size && *time == modified;
                Ok(is_listed && *holding == Holding::Same)
            }
            _ => Err(refused(&format!("entry {index} is another one than in the list"))),
        }
    }

    /// Record of an entry, as it was listed.
    pub fn record(&self, index: u32) -> Option<Record<'_>> {
        let entry = self.entries.get(index as usize)?;
        let (path, mode, modified) = (RelativePath::new(&entry.name)?, entry.mode, entry.modified);
        Some(match &entry.kind {
            ListedKind::File { size } => Record::File { index, size: Some(*size), mode, modified, path },
            ListedKind::Directory => Record::Directory { index, mode, modified, path },
            ListedKind::Link(target) => Record::Link { index, target, path },
        })
    }

    /// Answer to QUESTION 1. Directories and links are made from the list, so nothing is missing of them.
    pub fn entries_answer(&self) -> Vec<u8> {
        let mut answer = HoldingsWriter::new(HoldingsPart::MAX_TOTAL as usize);
        for entry in &self.entries {
            let is_file = matches!(entry.kind, ListedKind::File { .. });
            answer.push(if is_file { entry.holding } else { Holding::Same });
        }
        answer.finish()
    }

    /// Answer to QUESTION 2.
    pub fn parts_answer(&mut self) -> Vec<u8> {
        self.versions = None;
        let empty = HoldingsWriter::new(HoldingsPart::MAX_TOTAL as usize);
        std::mem::replace(&mut self.parts, empty).finish()
    }

    /// Compares a part of a file with its versions here; `partial` opens the partial file of this entry. Returns false
    /// if the part does not belong to the list.
    pub fn describe(
        &mut self,
        index: u32,
        end: u64,
        value: [u8; blake3::OUT_LEN],
        partial: impl FnOnce(&mut Lookup) -> Option<File>,
    ) -> bool {
        let Some(Listed { kind: ListedKind::File { size }, holding, name, .. }) =
            self.entries.get(index as usize)
        else {
            return false;
        };
        let places = self.places.entry(index).or_default();
        self.items += 1;
        if end > *size || end / SUBTREE_BYTES != places.len() as u64 + 1 || self.items > MAX_PARTS {
            return false;
        }
        if *holding == Holding::Other && self.versions.as_ref().is_none_or(|(of, _)| *of != index) {
            let versions = Versions { old: self.lookup.file(name), partial: partial(&mut self.lookup) };
            self.versions = Some((index, versions));
        }
        let versions = self.versions.as_ref().filter(|(of, _)| *of == index && *holding == Holding::Other);
        let has = |file: &Option<File>| {
            file.as_ref().is_some_and(|file| part_value(file, end).is_ok_and(|found| found == value))
        };
        let place = match versions {
            Some((_, versions)) if has(&versions.partial) => Place::Partial,
            Some((_, versions)) if has(&versions.old) => Place::Old,
            _ => Place::Nowhere,
        };
        places.push(place);
        let has_all = *holding == Holding::Same;
        self.parts.push(if has_all || place != Place::Nowhere { Holding::Same } else { Holding::Missing });
        true
    }

    /// Opens the versions of a file that is received now, if parts of it were described.
    pub fn open_versions(&mut self, index: u32, partial: impl FnOnce(&mut Lookup) -> Option<File>) {
        self.versions = None;
        if self.places.contains_key(&index)
            && let Some(entry) = self.entries.get(index as usize)
        {
            let versions =
                Versions { old: self.lookup.file(&entry.name), partial: partial(&mut self.lookup) };
            self.versions = Some((index, versions));
        }
    }

    /// Passes a part of a file, as this receiver said to have it, to `take`; true if its zeros are to be a hole.
    /// Returns `None` if it never said so.
    pub fn copy<E: From<io::Error>>(
        &self,
        index: u32,
        offset: u64,
        mut take: impl FnMut(u64, &[u8], bool) -> Result<(), E>,
    ) -> Option<Result<(), E>> {
        let place = self.places.get(&index)?.get((offset / SUBTREE_BYTES) as usize)?;
        let (_, versions) = self.versions.as_ref().filter(|(of, _)| *of == index)?;
        let file = match place {
            Place::Nowhere => return None,
            Place::Old => versions.old.as_ref(),
            Place::Partial => versions.partial.as_ref(),
        }?;
        let is_sparse = is_sparse(file);
        Some(each_chunk(file, offset, |at, bytes| {
            take(at, bytes, is_sparse && bytes.iter().all(|byte| *byte == 0))
        }))
    }

    /// Compares an entry with the destination. `expected` gives the permission bits that a new file would get.
    pub fn look(
        &mut self,
        index: u32,
        digest: Option<[u8; blake3::OUT_LEN]>,
        expected: impl Fn(u32) -> u32,
    ) -> Option<Stat> {
        let entry = self.entries.get_mut(index as usize)?;
        let ListedKind::File { size } = entry.kind else { return None };
        let (directory, stat) = self.lookup.stat(&entry.name).filter(|(_, stat)| is_file(stat))?;
        let (found, same_time) = (stat.st_size as u64, is_same_time(&stat, entry.modified));
        // Size and time say nothing about a file that was being changed in place; a digest does.
        let last = split(&entry.name).1;
        let is_partly = found >= SUBTREE_BYTES && is_marked(directory, last, &stat);
        let is_same = found == size
            && match digest {
                None => same_time && !is_partly,
                Some(digest) => {
                    let file = self.lookup.file(&entry.name);
                    file.and_then(|mut file| hash_file(&mut file, size).ok()) == Some(digest)
                }
            };
        if is_same
            && is_partly
            && let Some((directory, _)) = self.lookup.stat(&entry.name)
        {
            let _ = unmark(directory, last);
        }
        entry.differs = !same_time || stat.st_mode & 0o777 != expected(entry.mode);
        entry.holding = match is_same {
            true => Holding::Same,
            false if found.min(size) >= SUBTREE_BYTES => Holding::Other,
            false => Holding::Missing,
        };
        Some(stat)
    }
}

/// Returns true if a file has this modification time, as far as its file system can store it: some store seconds, FAT
/// even ones.
fn is_same_time(stat: &Stat, modified: Option<i64>) -> bool {
    let Some(modified) = modified else { return false };
    let (seconds, nanos) = (modified.div_euclid(SECOND), modified.rem_euclid(SECOND));
    let found = (stat.st_mtime, stat.st_mtime_nsec as i64);
    let truncated = found.1 == 0 && nanos != 0 && (found.0 == seconds || found.0 == seconds - seconds % 2);
    found == (seconds, nanos) || truncated
}

fn is_sparse(file: &File) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    file.metadata().is_ok_and(|found| found.blocks().saturating_mul(512) < found.len())
}

/// Chaining value of the part of a file that ends there.
fn part_value(file: &File, end: u64) -> io::Result<[u8; blake3::OUT_LEN]> {
    let mut hasher = blake3::Hasher::new();
    hasher.set_input_offset(end - SUBTREE_BYTES);
    each_chunk(file, end - SUBTREE_BYTES, |_, bytes| {
        hasher.update(bytes);
        Ok::<(), io::Error>(())
    })?;
    Ok(hasher.finalize_non_root())
}

/// Reads the part of a file that begins there.
fn each_chunk<E: From<io::Error>>(
    file: &File,
    offset: u64,
    mut take: impl FnMut(u64, &[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let mut buffer = vec![0; READ_BYTES];
    for at in (offset..offset + SUBTREE_BYTES).step_by(READ_BYTES) {
        file.read_exact_at(&mut buffer, at)?;
        take(at, &buffer)?;
    }
    Ok(())
}

const SECOND: i64 = 1_000_000_000;
/// Maximum memory of a list.
const MAX_LIST_BYTES: usize = 512 << 20;
/// Maximum number of described parts: 64 TiB.
const MAX_PARTS: usize = 16 << 20;
