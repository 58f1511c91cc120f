//! Reading for an update: the list, the description of large files, and what is not sent.

use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::path::Path;

use carillon_core::{Duration, Time};
use carillon_wire::file::{DIGEST_LEN, HOLE_MAX, PACK_RECORD_LEN, Record, RelativePath, SUBTREE_BYTES};
use carillon_wire::holdings::Holding;

use super::super::contents::{Filled, Opened, READ_BYTES, Stamp};
use super::super::holes::{self, Holes};
use super::super::manifest::Kind;
use super::super::reader::{Notes, Reader, Stage, Step, header_len, pack};
use super::super::times;
use super::super::tree::Tree;
use super::{Announcement, Asked, DELETIONS_QUESTION, Description, MAX_SUBTREES, Phase, Plan, is_described};
use crate::error::{LocalError, stated};

impl Reader {
    /// Adds the next record of an update before the files.
    pub(in crate::files) fn go_on_updating(&mut self, now: Time, phase: Phase) -> Result<Step, LocalError> {
        let Some(update) = &mut self.update else { return Ok(Step::Done) };
        let (announcement, describe) = (update.announcement, update.describe.len());
        match phase {
            Phase::List => {
                let record = Record::List { list: announcement.list, flags: announcement.flags };
                let next = announcement.delete.map_or(announcement.after_list(), |_| Phase::Delete);
                Ok(pack(&mut self.packer, &record, || self.stage = Stage::Update(next)))
            }
            Phase::Delete => {
                let record = Record::Delete { limit: announcement.delete.flatten() };
                Ok(pack(&mut self.packer, &record, || {
                    self.listing.add(&record);
                    self.stage = Stage::Update(Phase::Exclude(0));
                }))
            }
            Phase::Exclude(at) => {
                let manifest = self.manifest.clone();
                let Some(pattern) = manifest.exclude().texts().nth(at) else {
                    return self.turn_to(announcement.after_list());
                };
                let record = Record::Exclude { pattern };
                Ok(pack(&mut self.packer, &record, || {
                    self.listing.add(&record);
                    self.stage = Stage::Update(Phase::Exclude(at + 1));
                }))
            }
            Phase::Archive(at) => self.add_table(at, Stage::Update(Phase::Entry(0))),
            Phase::Entry(at) if at >= self.manifest.entries().len() => self.turn_to(Phase::Question(1)),
            Phase::Entry(at) => self.list_entry(at),
            Phase::Question(question) => {
                let next = Stage::Update(Phase::Await(question));
                Ok(pack(&mut self.packer, &Record::Question { question }, || self.stage = next))
            }
            // The loop sets the plan.
            Phase::Await(_) => Ok(Step::NotYet(PLAN_POLL_INTERVAL)),
            Phase::Describe(at) if at >= describe => self.turn_to(Phase::Question(2)),
            Phase::Describe(at) => self.describe(at),
            Phase::Subtrees(at) => self.describe_subtrees(now, at),
        }
    }

    fn turn_to(&mut self, phase: Phase) -> Result<Step, LocalError> {
        self.stage = Stage::Update(phase);
        Ok(Step::More)
    }

    /// Adds an entry to the list, with the digest of a file if files are compared by digest.
    fn list_entry(&mut self, at: usize) -> Result<Step, LocalError> {
        let manifest = self.manifest.clone();
        let entry = &manifest.entries()[at];
        let checksum = self.update.as_ref().is_some_and(|update| update.announcement.flags.checksum);
        let digest_len = if checksum { PACK_RECORD_LEN + END_OF_FILE_LEN } else { 0 };
        if self.packer.room() < header_len(entry) + digest_len {
            return Ok(Step::Full);
        }
        let path =
            RelativePath::new(&entry.name).ok_or_else(|| stated!("{} is not a valid path", entry.shown()))?;
        let (index, mode) = (at as u32, entry.mode);
        match &entry.kind {
            &Kind::Directory { modified } => self.tell(&Record::Directory { index, mode, modified, path }),
            Kind::Link(target) => self.tell(&Record::Link { index, target, path }),
            Kind::Stream => return Err(stated!("a stream cannot be compared")),
            Kind::File { path: source, stamp } => {
                let (size, modified) = (Some(stamp.size()), times::carried(stamp.modified()));
                self.tell(&Record::File { index, size, mode, modified, path });
                if checksum {
                    // A file that cannot be read has no digest that a receiver could have.
                    let digest = digest_of(source, manifest.follows(), stamp).unwrap_or_default();
                    self.tell(&Record::EndOfFile { index, size: stamp.size(), digest });
                }
            }
        }
        self.turn_to(Phase::Entry(at + 1))
    }

    /// Publishes a question that waits, or takes the plan.
    pub(in crate::files) fn await_plan(&mut self, notes: &mut Notes) {
        let Stage::Update(Phase::Await(question)) = self.stage else { return };
        let Some(update) = &mut self.update else { return };
        let Some(plan) = notes.plan.take() else {
            let items = match question {
                1 => self.manifest.entries().len(),
                DELETIONS_QUESTION => 0,
                _ => update.items.len(),
            };
            notes.asked = Some(Asked { question, items });
            return;
        };
        let asks_again = update.announcement.delete.is_some() && question != DELETIONS_QUESTION;
        self.stage = match asks_again {
            true => Stage::Update(Phase::Question(DELETIONS_QUESTION)),
            false => Stage::Entry(0),
        };
        match plan {
            Plan::Deletions => {}
            Plan::Entries(entries) => {
                let sizes = self.manifest.entries().iter().map(|entry| entry.size());
                let holdings = entries.iter().copied().zip(sizes).enumerate();
                let described = holdings.filter(|(_, (holding, size))| is_described(*holding, *size));
                update.describe = described.map(|(at, _)| at).collect();
                update.entries = entries;
                if !update.describe.is_empty() {
                    self.stage = Stage::Update(Phase::Describe(0));
                }
            }
            Plan::Parts(parts) => {
                for (at, same) in update.items.iter().zip(parts) {
                    if let Some(description) = update.described.get_mut(at) {
                        description.same.push(same);
                    }
                }
            }
        }
    }

    /// Opens a file to describe. One that cannot be described is sent in full, or withdrawn in its turn.
    fn describe(&mut self, at: usize) -> Result<Step, LocalError> {
        let manifest = self.manifest.clone();
        let Some(Kind::File { path, stamp }) = self.described_file(at).map(|at| &manifest.entries()[at].kind)
        else {
            return self.turn_to(Phase::Describe(at + 1));
        };
        match Opened::open(path, manifest.follows(), stamp.is_device()) {
            // Receivers have compared the version that was listed.
            Ok(opened) if !opened.is_fresh() && opened.stamp() == *stamp => {
                self.contents.read_file(opened);
                self.told = 0;
                self.turn_to(Phase::Subtrees(at))
            }
            _ => self.turn_to(Phase::Describe(at + 1)),
        }
    }

    fn described_file(&self, at: usize) -> Option<usize> {
        self.update.as_ref().and_then(|update| update.describe.get(at).copied())
    }

    /// Reads on in a file that is described, and adds the values of its subtrees.
    fn describe_subtrees(&mut self, now: Time, at: usize) -> Result<Step, LocalError> {
        let (Some(file), Some(update)) = (self.described_file(at), &mut self.update) else {
            return self.turn_to(Phase::Describe(at + 1));
        };
        let end = self.told + SUBTREE_BYTES;
        if let Some(value) = self.contents.subtree(end) {
            if update.subtrees >= MAX_SUBTREES {
                return Ok(Step::Full);
            }
            let record = Record::Subtree { index: file as u32, end, value };
            return Ok(pack(&mut self.packer, &record, || {
                self.told = end;
                update.items.push(file);
                update.subtrees += 1;
            }));
        }
        let read = match self.contents.hole() {
            Ok(0) => match self.contents.fill(now, READ_BYTES) {
                Filled::Ready => {
                    self.contents.take(usize::MAX);
                    Ok(())
                }
                filled => Err(filled),
            },
            Ok(len) => self.contents.go_over(len.min(HOLE_MAX)).map(|_| ()),
            Err(filled) => Err(filled),
        };
        if read.is_err() {
            // Answers about these parts are ignored.
            self.contents.close();
            return self.turn_to(Phase::Describe(at + 1));
        }
        if self.contents.is_done() && self.contents.subtree(end).is_none() {
            if self.contents.is_unchanged(self.manifest.entries()[file].path())
                && let Some(stamp) = self.contents.stamp()
            {
                let (digest, values) = (self.contents.digest(), self.contents.values());
                update.described.insert(file, Description { stamp, digest, values, same: Vec::new() });
            }
            self.contents.close();
            return self.turn_to(Phase::Describe(at + 1));
        }
        Ok(Step::More)
    }

    /// Passes over an entry that every receiver has or takes from the list. Returns true if it did.
    pub(in crate::files) fn passes_entry(&mut self, at: usize) -> bool {
        let Some(update) = &self.update else { return false };
        let entry = &self.manifest.entries()[at];
        let is_file = matches!(entry.kind, Kind::File { .. });
        if is_file && update.entries.get(at) != Some(&Holding::Same) {
            return false;
        }
        self.packed += entry.size();
        self.read += entry.size();
        self.stage = Stage::Entry(at + 1);
        true
    }

    fn description(&self, at: usize) -> Option<&Description> {
        self.update.as_ref().and_then(|update| update.described.get(&at))
    }

    /// Forgets the description of a file that has changed since.
    pub(in crate::files) fn check_parts(&mut self, at: usize, stamp: &Stamp) {
        if self.description(at).is_some_and(|description| description.stamp != *stamp)
            && let Some(update) = &mut self.update
        {
            update.described.remove(&at);
        }
    }

    /// Returns true if the next part of the file need not be sent.
    pub(in crate::files) fn has_part(&self, at: usize) -> bool {
        let offset = self.contents.offset();
        offset.is_multiple_of(SUBTREE_BYTES) && self.is_same(at, offset / SUBTREE_BYTES)
    }

    fn is_same(&self, at: usize, part: u64) -> bool {
        self.description(at).is_some_and(|description| description.same.get(part as usize) == Some(&true))
    }

    /// Bytes up to the next part of the file if that need not be sent.
    pub(in crate::files) fn until_next_part(&self, at: usize) -> u64 {
        let part = self.contents.offset() / SUBTREE_BYTES + 1;
        if self.is_same(at, part) { part * SUBTREE_BYTES - self.contents.offset() } else { u64::MAX }
    }

    /// Digest of a described file.
    pub(in crate::files) fn known_digest(&self, at: usize) -> Option<[u8; blake3::OUT_LEN]> {
        self.description(at).map(|description| description.digest)
    }

    /// Passes over a part of the file that every receiver has. Like a hole it has a message of its own.
    pub(in crate::files) fn pass_over_part(&mut self, at: usize) -> Result<Step, LocalError> {
        let offset = self.contents.offset();
        if !self.packer.is_empty() {
            return Ok(Step::Full);
        }
        let value = self.description(at).and_then(|it| it.values.get((offset / SUBTREE_BYTES) as usize));
        let Some(value) = value.copied() else { return self.without(at, Filled::Changed) };
        match self.contents.pass_over(value) {
            Ok(true) => {}
            Ok(false) => return self.without(at, Filled::Changed),
            Err(filled) => return self.without(at, filled),
        }
        self.packer.push(&Record::Same { index: at as u32, offset, len: SUBTREE_BYTES });
        self.packed += SUBTREE_BYTES;
        self.read += SUBTREE_BYTES;
        Ok(Step::More)
    }
}

impl Announcement {
    /// Phase behind LIST and the request to delete.
    fn after_list(&self) -> Phase {
        if self.flags.entries { Phase::Archive(0) } else { Phase::Question(1) }
    }
}

/// Digest of a file that is unchanged since it was listed.
fn digest_of(path: &Path, follow: bool, listed: &Stamp) -> io::Result<[u8; blake3::OUT_LEN]> {
    let opened = Opened::open(path, follow, listed.is_device())?;
    if opened.stamp() != *listed {
        return Err(io::ErrorKind::InvalidData.into());
    }
    hash_file(&mut opened.into_file(), listed.size())
}

/// Digest of the first `size` bytes of a file, without reading its holes.
pub(in crate::files) fn hash_file(file: &mut File, size: u64) -> io::Result<[u8; blake3::OUT_LEN]> {
    let (mut tree, mut buffer) = (Tree::default(), vec![0; READ_BYTES.min(size as usize + 1)]);
    let mut holes = Holes::of(&file.metadata()?);
    file.rewind()?;
    while tree.count() < size {
        let hole = holes.at(file, tree.count(), size)?;
        holes::hash(&mut tree, hole);
        if hole == 0 {
            let left = (size - tree.count()).min(buffer.len() as u64) as usize;
            match file.read(&mut buffer[..left])? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                len => tree.update(&buffer[..len]),
            }
        }
    }
    Ok(*tree.finalize().as_bytes())
}

/// Bytes of an END_OF_FILE.
const END_OF_FILE_LEN: usize = 1 + 4 + 8 + DIGEST_LEN;
/// Interval at which the thread looks for the plan.
const PLAN_POLL_INTERVAL: Duration = Duration::from_millis(2);
