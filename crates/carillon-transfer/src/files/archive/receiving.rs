//! Receiving of an archive: its table, and its application when everything else has arrived.

use std::collections::BTreeSet;

use carillon_wire::file::Record;
use carillon_wire::file::archive::{Archive, Special, SpecialKind};

use super::super::arriving::Unstored;
use super::super::intake::{Intake, Sink, Stage};
use super::super::names::{components, is_part_name, shown_name};
use super::super::problem::{Problem, Unstorable, damaged, ours, refused, relative, stored};
use super::super::target::Target;
use super::super::update::{Comparison, ListedKind, Lookup};
use super::apply::{Attributed, Setter};
use super::{Accepted, Losses};

/// Table of an archive, and the entries that it is about.
#[derive(Debug)]
pub(in crate::files) struct Received {
    bytes: Vec<u8>,
    total: usize,
    /// The table, once it is complete.
    table: Option<Archive>,
    /// Entries so far, in a transfer that is no update.
    entries: Vec<Entry>,
    /// Bytes of their names.
    named: usize,
    losses: Losses,
    /// Special entries that were not made, by their index in the table. Nothing is deleted then.
    unmade: BTreeSet<usize>,
}

/// Entry of the transfer.
#[derive(Clone, Debug)]
struct Entry {
    name: Box<[u8]>,
    kind: Kind,
    modified: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    File,
    Directory,
    Link,
}

impl Received {
    /// Begins a table of this length.
    pub fn new(total: u32) -> Self {
        Received {
            bytes: Vec::new(),
            total: total as usize,
            table: None,
            entries: Vec::new(),
            named: 0,
            losses: Losses::default(),
            unmade: BTreeSet::new(),
        }
    }

    /// Adds a part of the table; returns false if it does not fit.
    pub fn add(&mut self, offset: u32, total: u32, bytes: &[u8], entries: u32) -> bool {
        if offset as usize != self.bytes.len() || total as usize != self.total || self.table.is_some() {
            return false;
        }
        self.bytes.extend_from_slice(bytes);
        if self.bytes.len() < self.total {
            return true;
        }
        let table = Archive::parse(&self.bytes).ok().filter(|table| {
            let covered: u64 = table.runs.iter().map(|(count, _)| u64::from(*count)).sum();
            covered == u64::from(entries)
        });
        self.table = table;
        self.table.is_some()
    }

    /// Bytes of the whole table.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Names of the special entries.
    pub fn specials(&self) -> impl Iterator<Item = &[u8]> {
        self.table.iter().flat_map(|table| &table.specials).map(|special| special.name.as_slice())
    }

    /// Losses.
    pub fn losses(&self) -> &Losses {
        &self.losses
    }
}

impl Intake {
    /// Handles the parts of a table, and notes the entries of a transfer that is no update. Returns false for other
    /// records.
    pub(in crate::files) fn on_archive(
        &mut self,
        record: &Record<'_>,
        sink: &mut Sink,
    ) -> Result<bool, Problem> {
        if let Record::Archive { offset, total, bytes } = *record {
            let is_first = match &self.comparison {
                Some(comparison) => comparison.question == 0 && comparison.entries.is_empty(),
                None => self.entries == 0,
            };
            if !matches!(self.stage, Stage::Between) || !is_first {
                return Err(damaged("the table of the archive is out of turn".to_owned()));
            }
            let accepts = matches!(sink, Sink::Files(Target::Directory(folder)) if folder.accepts() != Accepted::Nothing);
            if !accepts || !self.folder.is_empty() {
                return Err(refused("the sender may not set owners and attributes at this receiver"));
            }
            let (entries, _) = self.announced.unwrap_or_default();
            let archive = self.archive.get_or_insert_with(|| Box::new(Received::new(total)));
            if !archive.add(offset, total, bytes, entries) {
                return Err(damaged("the table of the archive is damaged".to_owned()));
            }
            return Ok(true);
        }
        let Some(archive) = self.archive.as_mut().filter(|_| self.comparison.is_none()) else {
            return Ok(false);
        };
        let (index, name, kind, modified) = match *record {
            Record::File { index, path, modified, .. } => (index, path, Kind::File, modified),
            Record::Directory { index, path, modified, .. } => (index, path, Kind::Directory, modified),
            Record::Link { index, path, .. } => (index, path, Kind::Link, None),
            _ => return Ok(false),
        };
        if archive.table.is_none() {
            return Err(damaged("the table of the archive is incomplete".to_owned()));
        }
        if index as usize == archive.entries.len() {
            archive.named += size_of::<Entry>() + name.len();
            if archive.named > MAX_NAMED_BYTES {
                return Err(refused("the list of files is too long for an archive"));
            }
            archive.entries.push(Entry { name: name.as_bytes().into(), kind, modified });
        }
        Ok(false)
    }

    /// Makes the special entries and sets the attributes of everything but directories.
    pub(in crate::files) fn set_archive(&mut self, sink: &mut Sink) -> Result<(), Problem> {
        let Some(mut archive) = self.archive.take() else { return Ok(()) };
        let Sink::Files(target) = sink else { return Ok(()) };
        if let Some(comparison) = &self.comparison {
            archive.entries = entries_of(comparison);
        }
        let done = self.set_archived(&mut archive, target);
        self.archive = Some(archive);
        done
    }

    fn set_archived(&mut self, archive: &mut Received, target: &mut Target) -> Result<(), Problem> {
        let Some(table) = archive.table.take() else {
            return Err(damaged("the table of the archive is incomplete".to_owned()));
        };
        let classes = classes(&table);
        let root = match target {
            Target::Directory(folder) => folder.root().to_owned(),
            Target::Output(_) => return Ok(()),
        };
        let lookup = || Lookup::new(&root).map_err(|error| ours(error.into()));
        // Hard links come first: the system may refuse links to files of other users.
        self.unshare(archive, &table, target)?;
        for (at, special) in table.specials.iter().enumerate() {
            if let Err(reason) = self.make_special(archive, at, special, target)? {
                archive.unmade.insert(at);
                let (name, reason) = (special.name.clone(), reason.to_string());
                self.missing.add_unstored(Unstored { name, reason });
            }
        }
        let accepts = target.accepts();
        let mut setter = Setter::new(lookup()?, accepts, &mut archive.losses);
        let mut links = table.links.iter().peekable();
        for (index, (entry, class)) in archive.entries.iter().zip(&classes).enumerate() {
            let Some(class) = table.classes.get(*class as usize) else { continue };
            let (kind, modified) = match entry.kind {
                Kind::Directory => continue,
                Kind::File => (Attributed::File, entry.modified),
                Kind::Link => {
                    while links.next_if(|(entry, _)| (*entry as usize) < index).is_some() {}
                    let time = links.next_if(|(entry, _)| *entry as usize == index);
                    (Attributed::Link, time.and_then(|(_, time)| *time))
                }
            };
            setter.set(&entry.name, kind, class, modified);
        }
        let made = table.specials.iter().enumerate().filter(|(at, _)| !archive.unmade.contains(at));
        for (_, special) in made {
            let Some(class) = table.classes.get(special.class as usize) else { continue };
            let kind = match special.kind {
                SpecialKind::HardLink(_) => continue,
                SpecialKind::Link(_) => Attributed::Link,
                _ => Attributed::Special,
            };
            setter.set(&special.name, kind, class, special.modified);
        }
        archive.table = Some(table);
        Ok(())
    }

    /// Sets the attributes of directories, those below first, as nothing is made in them any more.
    pub(in crate::files) fn set_directories(&mut self, sink: &mut Sink) -> Result<(), Problem> {
        let (Some(archive), Sink::Files(target @ Target::Directory(_))) = (&mut self.archive, sink) else {
            return Ok(());
        };
        let (accepts, Target::Directory(folder)) = (target.accepts(), target) else { return Ok(()) };
        let Some(table) = &archive.table else { return Ok(()) };
        let lookup = Lookup::new(folder.root()).map_err(|error| ours(error.into()))?;
        let mut setter = Setter::new(lookup, accepts, &mut archive.losses);
        let classes = classes(table);
        for (entry, class) in archive.entries.iter().zip(&classes).rev() {
            if let (Kind::Directory, Some(class)) = (entry.kind, table.classes.get(*class as usize)) {
                setter.set(&entry.name, Attributed::Directory, class, entry.modified);
            }
        }
        Ok(())
    }

    /// Returns true if every special entry was made.
    pub(in crate::files) fn has_all_specials(&self) -> bool {
        self.archive.as_ref().is_none_or(|archive| archive.unmade.is_empty())
    }

    /// Attributes that could not be stored.
    pub fn losses(&self) -> Option<&Losses> {
        self.archive.as_ref().map(|archive| archive.losses())
    }

    /// Gives files inodes of their own that have other hard links than the sender's, so that what is done to them is
    /// done to nothing else.
    fn unshare(&mut self, archive: &Received, table: &Archive, target: &mut Target) -> Result<(), Problem> {
        let Target::Directory(folder) = &*target else { return Ok(()) };
        let mut lookup = Lookup::new(folder.root()).map_err(|error| ours(error.into()))?;
        let groups = super::unshare::Groups::new(table);
        let mut seen = BTreeSet::new();
        for (index, entry) in archive.entries.iter().enumerate().filter(|(_, entry)| entry.kind == Kind::File)
        {
            let Some((_, stat)) = lookup.stat(&entry.name).filter(|(_, stat)| stat.st_nlink > 1) else {
                continue;
            };
            let is_first = seen.insert((stat.st_dev, stat.st_ino));
            if is_first && groups.has_all(index as u32, &stat, &mut lookup) {
                continue;
            }
            let done =
                target.unshare(&mut self.position, &relative(&entry.name)?, &mut lookup, entry.modified);
            done.map_err(ours)?;
        }
        Ok(())
    }

    fn make_special(
        &mut self,
        archive: &Received,
        at: usize,
        special: &Special,
        target: &mut Target,
    ) -> Result<Result<(), Unstorable>, Problem> {
        let name = relative(&special.name)?;
        if components(&name).any(is_part_name) {
            let text = format!("{} has the name of a temporary file: not received", shown_name(&name));
            return Err(refused(&text));
        }
        if target.accepts() < Accepted::Privileged
            && let SpecialKind::CharacterDevice(..) | SpecialKind::BlockDevice(..) = special.kind
        {
            return Ok(Err(Unstorable::unwanted_device()));
        }
        let leader = match special.kind {
            SpecialKind::HardLink(index) => match archive.entries.get(index as usize) {
                Some(entry) if entry.kind == Kind::File => Some(&*entry.name),
                _ => return Err(damaged(format!("{} is a link to no file", shown_name(&name)))),
            },
            _ => None,
        };
        if let Some(comparison) = &mut self.comparison {
            let index = (comparison.entries.len() + at) as u32;
            let Comparison { deletion, lookup, .. } = &mut **comparison;
            if let Some(deletion) = deletion
                && let Err(reason) = deletion.clear(lookup, index)?
            {
                return Ok(Err(reason));
            }
        }
        stored(target.make_special(&mut self.position, &name, &special.kind, leader))
    }
}

/// Class of each entry.
fn classes(table: &Archive) -> Vec<u32> {
    table.runs.iter().flat_map(|(count, class)| std::iter::repeat_n(*class, *count as usize)).collect()
}

fn entries_of(comparison: &Comparison) -> Vec<Entry> {
    let entries = comparison.entries.iter().map(|entry| {
        let kind = match entry.kind {
            ListedKind::File { .. } => Kind::File,
            ListedKind::Directory => Kind::Directory,
            ListedKind::Link(_) => Kind::Link,
        };
        Entry { name: entry.name.clone(), kind, modified: entry.modified }
    });
    entries.collect()
}

/// Maximum memory of the names of entries.
const MAX_NAMED_BYTES: usize = 512 << 20;
