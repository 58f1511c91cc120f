//! Receiving of an update.

use std::fs::File;

use carillon_wire::file::{ListFlags, Record, SUBTREE_BYTES, TransferId};
use carillon_wire::holdings::Holding;

use super::super::archive::{Accepted, Received};
use super::super::descent::Descent;
use super::super::names::{part_name, shown_name, split};
use super::super::problem::{Problem, damaged, ours, refused, relative, stored};
use super::super::target::{Folder, Target};
use super::super::times::Attributes;
use super::super::unstorable::Unstorable;
use super::super::update::{
    Comparison, DELETIONS_QUESTION, Deletion, ListedKind, Lookup, list_records, read_list, write_list,
};
use super::entries::expect_link_below;
use super::unwritten::{Unwritten, UnwrittenReason};
use super::{Intake, Sink, Stage};

impl Intake {
    /// Handles a record that only updates have. Returns false if it is another one.
    pub(super) fn on_update(&mut self, record: &Record<'_>, sink: &mut Sink) -> Result<bool, Problem> {
        let between = matches!(self.stage, Stage::Between);
        let Some(comparison) = &mut self.comparison else {
            return match *record {
                Record::List { list, flags }
                    if between && self.counts.entries == 0 && self.resumption.transfer.is_none() =>
                {
                    self.begin_update(sink, list, flags).map(|()| true)
                }
                _ => Ok(false),
            };
        };
        // A file ends before the next entry begins.
        if let Stage::Unwritten(Unwritten { reason: UnwrittenReason::Present, .. }) = self.stage {
            return Ok(false);
        }
        let question = comparison.question;
        if question == 0 && self.on_listing(record, sink)? {
            return Ok(true);
        }
        match *record {
            Record::Question { question: DELETIONS_QUESTION } if between => self.plan_deletions(sink)?,
            Record::Subtree { index, end, value } if between && question == 1 => {
                self.describe(index, end, value)?;
            }
            Record::Question { question: 2 } if between && question == 1 => self.answer_parts(),
            Record::File { index, size, modified, path, .. } if between => {
                self.advance(index, sink)?;
                return self.on_listed_file(index, path.as_bytes(), size, modified);
            }
            Record::End { .. } if between => {
                let (entries, _) = self.announced.unwrap_or_default();
                self.advance(entries, sink)?;
                return Ok(false);
            }
            // Directories and links come with the list only.
            Record::Directory { index, .. } | Record::Link { index, .. } => {
                return Err(refused(&format!("entry {index} came after the list")));
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Handles a record of the list, which ends with QUESTION 1. Returns false if it is another one.
    fn on_listing(&mut self, record: &Record<'_>, sink: &mut Sink) -> Result<bool, Problem> {
        let (announced, _) = self.announced.unwrap_or_default();
        let Some(comparison) = &mut self.comparison else { return Ok(false) };
        let is_first = comparison.entries.is_empty();
        match (*record, &mut comparison.deletion) {
            (
                Record::File { index, .. } | Record::Directory { index, .. } | Record::Link { index, .. },
                _,
            ) => {
                comparison.add_next(record, index, announced)?;
                self.look(sink, index, None)?;
            }
            (Record::EndOfFile { index, digest, .. }, _) => {
                comparison.expect_digest(index)?;
                self.look(sink, index, Some(digest))?;
            }
            (Record::Delete { limit }, None) if is_first => {
                if !matches!(sink, Sink::Files(Target::Directory(folder)) if folder.permits_deleting()) {
                    return Err(refused("the sender may not delete files of this receiver"));
                }
                comparison.deletion = Some(Box::new(Deletion::new(limit)));
            }
            (Record::Exclude { pattern }, Some(deletion)) if is_first => {
                deletion.keep(pattern).map_err(|text| refused(&text))?;
            }
            (Record::Question { question: 1 }, _) => self.answer_entries(sink)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Handles the beginning of a file. Returns true if this receiver has it; otherwise it is opened like any other.
    fn on_listed_file(
        &mut self,
        index: u32,
        name: &[u8],
        size: Option<u64>,
        modified: Option<i64>,
    ) -> Result<bool, Problem> {
        let part = self.resumption.part(index);
        let Some(comparison) = &mut self.comparison else { return Ok(false) };
        if comparison.has_listed(index, name, size, modified)? {
            self.stage = Stage::Unwritten(Unwritten::new(name.to_owned(), UnwrittenReason::Present));
            return Ok(true);
        }
        comparison.open_versions(index, |lookup| open_part(lookup, part));
        Ok(false)
    }

    /// Completes an entry that is a file of this receiver.
    pub(super) fn complete_present(&mut self, sink: &mut Sink) {
        if let (Some(comparison), Sink::Files(target)) = (&mut self.comparison, &mut *sink)
            && let Some(entry) = comparison.entries.get(self.counts.entries as usize)
            && let ListedKind::File { size } = entry.kind
        {
            let (name, attributes) =
                (entry.name.clone(), Attributes { mode: entry.mode, modified: entry.modified });
            // The attributes of an archive are set at the end.
            if entry.differs && self.archive.is_none() {
                target.set_attributes(&mut comparison.lookup, &name, attributes);
            }
            self.counts.bytes += size;
            self.counts.resumed += size;
            self.counts.files += 1;
        }
        self.next_entry(sink);
    }

    /// Removes the partial file of an interrupted attempt, once its entry is complete.
    pub(super) fn drop_kept(&mut self, sink: &mut Sink) {
        let entries = self.counts.entries;
        let is_update = self.comparison.is_some();
        if let Some(kept) = self.resumption.kept.take_if(|kept| is_update && kept.reached.entry == entries)
            && let Sink::Files(target) = sink
        {
            target.remove_kept(&kept);
        }
    }

    fn begin_update(&mut self, sink: &mut Sink, list: TransferId, flags: ListFlags) -> Result<(), Problem> {
        let Sink::Files(Target::Directory(folder)) = sink else {
            return Err(refused("only a directory can be updated"));
        };
        if !self.folder.is_empty() {
            return Err(refused("several members send, which cannot update a directory"));
        }
        let lookup = Lookup::new(folder.root()).map_err(|error| ours(error.into()))?;
        self.comparison = Some(Box::new(Comparison::new(list, flags, lookup)));
        let Sink::Files(target) = sink else { return Ok(()) };
        if self.resumption.identify(list, target) {
            self.note(sink, None);
        }
        Ok(())
    }

    /// Compares an entry with the destination.
    fn look(&mut self, sink: &mut Sink, index: u32, digest: Option<[u8; 32]>) -> Result<(), Problem> {
        let (Some(comparison), Sink::Files(Target::Directory(folder))) = (&mut self.comparison, sink) else {
            return Ok(());
        };
        // With digests the size alone says nothing.
        if comparison.flags.checksum && digest.is_none() {
            return Ok(());
        }
        let stat = comparison.look(index, digest, |mode| mode & folder.permitted());
        let kept = self.resumption.kept.as_ref();
        let kept = kept.filter(|kept| kept.reached.entry == index && kept.part.is_some());
        let Some(entry) = comparison.entries.get_mut(index as usize) else { return Ok(()) };
        if let Some(stat) = stat.filter(|_| entry.holding == Holding::Same) {
            let Some(directory) = comparison.lookup.directory(split(&entry.name).0) else {
                return Ok(());
            };
            // A hard link is no other spelling of a name.
            if stat.st_nlink == 1 && folder.is_alias(directory, &entry.name, &stat) {
                entry.holding = Holding::Missing;
            }
        }
        let ListedKind::File { size } = entry.kind else { return Ok(()) };
        let has_part = kept.is_some_and(|kept| kept.reached.offset >= SUBTREE_BYTES);
        if has_part && entry.holding == Holding::Missing && size >= SUBTREE_BYTES {
            entry.holding = Holding::Other;
        }
        Ok(())
    }

    /// Answers QUESTION 1, with the stored list if the sender has not sent it.
    fn answer_entries(&mut self, sink: &mut Sink) -> Result<(), Problem> {
        let (announced, _) = self.announced.unwrap_or_default();
        if self.comparison.as_ref().is_some_and(|comparison| !comparison.flags.entries) {
            let Sink::Files(Target::Directory(folder)) = sink else { return Err(refused("files come")) };
            let Some(comparison) = &mut self.comparison else { return Ok(()) };
            if !read_stored_list(comparison, announced, &mut self.archive, folder.accepts()) {
                return Err(damaged("the list of the last transfer has been removed since".to_owned()));
            }
            for index in 0..announced {
                self.look(sink, index, None)?;
            }
        }
        let Some(comparison) = &mut self.comparison else { return Ok(()) };
        if comparison.entries.len() != announced as usize {
            let listed = comparison.entries.len();
            return Err(damaged(format!("the list is incomplete: {listed} of {announced} entries arrived")));
        }
        comparison.question = 1;
        self.answer = Some((1, comparison.entries_answer()));
        Ok(())
    }

    /// Compares the described part of a file with the versions of it here.
    fn describe(&mut self, index: u32, end: u64, value: [u8; 32]) -> Result<(), Problem> {
        let part = self.resumption.part(index);
        let comparison = self.comparison.as_mut();
        match comparison.is_some_and(|it| it.describe(index, end, value, |lookup| open_part(lookup, part))) {
            true => Ok(()),
            false => Err(damaged(format!("a digest of entry {index} is out of turn"))),
        }
    }

    /// Answers QUESTION 2.
    fn answer_parts(&mut self) {
        if let Some(comparison) = &mut self.comparison {
            comparison.question = 2;
            self.answer = Some((2, comparison.parts_answer()));
        }
    }

    /// Completes the entries up to this one: all of them are here, or are made from the list.
    fn advance(&mut self, to: u32, sink: &mut Sink) -> Result<(), Problem> {
        let over = self.comparison.as_ref().and_then(|comparison| comparison.deletion.as_ref()?.refusal());
        if let Some(refusal) = over {
            return Err(refused(&refusal));
        }
        while self.counts.entries < to {
            let (index, Some(comparison)) = (self.counts.entries, &self.comparison) else { return Ok(()) };
            let Some(entry) = comparison.entries.get(index as usize) else {
                return Err(damaged(format!("the list has no entry {index}")));
            };
            let name = entry.name.clone();
            match &entry.kind {
                ListedKind::File { .. } if entry.holding == Holding::Same => self.complete_present(sink),
                ListedKind::File { .. } => {
                    let name = shown_name(&name);
                    return Err(damaged(format!("{name} was not sent, and this receiver does not have it")));
                }
                ListedKind::Directory | ListedKind::Link(_) => {
                    let made = self.make_listed(sink)?;
                    self.finish_entry(relative(&name)?, made, sink)?;
                }
            }
        }
        Ok(())
    }

    /// Makes the next entry, a directory or a symbolic link, as it was listed.
    fn make_listed(&mut self, sink: &mut Sink) -> Result<Result<(), Unstorable>, Problem> {
        let (index, Some(comparison)) = (self.counts.entries, &mut self.comparison) else {
            return Ok(Ok(()));
        };
        let Comparison { entries, deletion, lookup, .. } = &mut **comparison;
        if let Some(deletion) = deletion
            && let Err(reason) = deletion.clear(lookup, index)?
        {
            return Ok(Err(reason));
        }
        let Sink::Files(target) = sink else { return Err(refused("files come")) };
        let Some(entry) = entries.get(index as usize) else { return Ok(Ok(())) };
        let path = relative(&entry.name)?;
        match &entry.kind {
            ListedKind::File { .. } => Ok(Ok(())),
            ListedKind::Directory => {
                let attributes = Attributes { mode: entry.mode, modified: entry.modified };
                stored(target.make_directory(&mut self.position, &path, attributes))
            }
            ListedKind::Link(text) => {
                expect_link_below(&path, text)?;
                match lookup.link(&entry.name).is_some_and(|found| *found == **text) {
                    true => Ok(Ok(())),
                    false => stored(target.make_link(&mut self.position, &path, text, true)),
                }
            }
        }
    }

    /// Stores the list of a complete update.
    pub(super) fn store_list(&self, sink: &mut Sink) {
        if let (Some(comparison), Sink::Files(Target::Directory(folder))) = (&self.comparison, sink) {
            let table = self.archive.as_ref().map_or(&[][..], |archive| archive.bytes());
            write_stored_list(folder, comparison, table);
        }
    }

    /// Returns the answer to a question, once.
    pub fn take_answer(&mut self) -> Option<(u32, Vec<u8>)> {
        self.answer.take()
    }
}

fn open_part(lookup: &mut Lookup, part: Option<Vec<u8>>) -> Option<File> {
    lookup.file(&part?)
}

/// Writes the list of a complete update into its directory.
fn write_stored_list(folder: &mut Folder, comparison: &Comparison, table: &[u8]) {
    let part = part_name(b"list", folder.next_number());
    if let Ok(descent) = Descent::new(folder.root()) {
        let _ = write_list(descent.root(), comparison, table, &part);
    }
}

/// Reads the stored list into a comparison without entries. Returns false if it is another one.
fn read_stored_list(
    comparison: &mut Comparison,
    entries: u32,
    archive: &mut Option<Box<Received>>,
    accepts: Accepted,
) -> bool {
    let Some(bytes) = read_list(&mut comparison.lookup, &comparison.list) else { return false };
    list_records(&bytes).all(|record| match record {
        Some(Record::Archive { offset, total, bytes }) => {
            let archive = archive.get_or_insert_with(|| Box::new(Received::new(total)));
            accepts != Accepted::Nothing && archive.add(offset, total, bytes, entries)
        }
        Some(record) => comparison.add(&record),
        None => false,
    })
}
