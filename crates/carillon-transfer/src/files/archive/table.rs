//! Table of an archive that is received, and the entries that it is about.

use std::collections::BTreeSet;

use carillon_wire::file::Record;
use carillon_wire::file::archive::{Archive, Special, SpecialKind};

use super::super::problem::{Problem, damaged, refused};
use super::super::update::{Listed, ListedKind, Lookup};
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

    /// Notes the entry of a record, in a transfer that is no update.
    pub fn add_entry(&mut self, record: &Record<'_>) -> Result<(), Problem> {
        let (index, name, kind, modified) = match *record {
            Record::File { index, path, modified, .. } => (index, path, Kind::File, modified),
            Record::Directory { index, path, modified, .. } => (index, path, Kind::Directory, modified),
            Record::Link { index, path, .. } => (index, path, Kind::Link, None),
            _ => return Ok(()),
        };
        if self.table.is_none() {
            return Err(damaged("the table of the archive is incomplete".to_owned()));
        }
        if index as usize == self.entries.len() {
            self.named += size_of::<Entry>() + name.len();
            if self.named > MAX_NAMED_BYTES {
                return Err(refused("the list of files is too long for an archive"));
            }
            self.entries.push(Entry { name: name.as_bytes().into(), kind, modified });
        }
        Ok(())
    }

    /// Takes the entries from the list of an update.
    pub fn set_entries(&mut self, listed: &[Listed]) {
        let entries = listed.iter().map(|entry| {
            let kind = match entry.kind {
                ListedKind::File { .. } => Kind::File,
                ListedKind::Directory => Kind::Directory,
                ListedKind::Link(_) => Kind::Link,
            };
            Entry { name: entry.name.clone(), kind, modified: entry.modified }
        });
        self.entries = entries.collect();
    }

    /// Bytes of the whole table.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The table, if it is complete.
    pub fn table(&self) -> Option<&Archive> {
        self.table.as_ref()
    }

    /// Files of the transfer: index, name and modification time.
    pub fn files(&self) -> impl Iterator<Item = (u32, &[u8], Option<i64>)> {
        let entries = (0..).zip(&self.entries).filter(|(_, entry)| entry.kind == Kind::File);
        entries.map(|(index, entry)| (index, &*entry.name, entry.modified))
    }

    /// Special entries, in order.
    pub fn specials(&self) -> &[Special] {
        self.table.as_ref().map_or(&[], |table| &table.specials)
    }

    /// Name of the file that a special entry is a further hard link to; an error if it is none.
    pub fn leader(&self, special: &Special) -> Result<Option<&[u8]>, ()> {
        let SpecialKind::HardLink(index) = special.kind else { return Ok(None) };
        match self.entries.get(index as usize) {
            Some(entry) if entry.kind == Kind::File => Ok(Some(&*entry.name)),
            _ => Err(()),
        }
    }

    /// Records that a special entry was not made.
    pub fn add_unmade(&mut self, at: usize) {
        self.unmade.insert(at);
    }

    /// Returns true if every special entry was made.
    pub fn has_all_specials(&self) -> bool {
        self.unmade.is_empty()
    }

    /// Losses.
    pub fn losses(&self) -> &Losses {
        &self.losses
    }

    /// Sets the attributes of everything but directories.
    pub fn set_attributes(&mut self, lookup: Lookup, accepts: Accepted) {
        let Some(table) = &self.table else { return };
        let mut setter = Setter::new(lookup, accepts, &mut self.losses);
        let mut links = table.links.iter().peekable();
        for (index, (entry, class)) in self.entries.iter().zip(classes(table)).enumerate() {
            let Some(class) = table.classes.get(class as usize) else { continue };
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
        let made = table.specials.iter().enumerate().filter(|(at, _)| !self.unmade.contains(at));
        for (_, special) in made {
            let Some(class) = table.classes.get(special.class as usize) else { continue };
            let kind = match special.kind {
                SpecialKind::HardLink(_) => continue,
                SpecialKind::Link(_) => Attributed::Link,
                _ => Attributed::Special,
            };
            setter.set(&special.name, kind, class, special.modified);
        }
    }

    /// Sets the attributes of directories, those below first, as nothing is made in them any more.
    pub fn set_directories(&mut self, lookup: Lookup, accepts: Accepted) {
        let Some(table) = &self.table else { return };
        let mut setter = Setter::new(lookup, accepts, &mut self.losses);
        let classes: Vec<u32> = classes(table).collect();
        for (entry, class) in self.entries.iter().zip(classes).rev() {
            if let (Kind::Directory, Some(class)) = (entry.kind, table.classes.get(class as usize)) {
                setter.set(&entry.name, Attributed::Directory, class, entry.modified);
            }
        }
    }
}

/// Class of each entry.
fn classes(table: &Archive) -> impl Iterator<Item = u32> {
    table.runs.iter().flat_map(|(count, class)| std::iter::repeat_n(*class, *count as usize))
}

/// Maximum memory of the names of entries.
const MAX_NAMED_BYTES: usize = 512 << 20;
