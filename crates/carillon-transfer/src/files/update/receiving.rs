//! Receiving of an update.

use std::fs::File;
use std::io;

use carillon_wire::file::{ListFlags, Record, SUBTREE_BYTES, TransferId};
use carillon_wire::holdings::Holding;

use super::super::archive::{Accepted, Received};
use super::super::arriving::Open;
use super::super::intake::{Intake, Sink, Stage};
use super::super::names::{shown_name, split};
use super::super::problem::{Problem, damaged, in_order, ours, refused, relative, stored};
use super::super::target::{Folder, Target};
use super::super::times::Attributes;
use super::comparison::{Comparison, ListedKind};
use super::deleting::Deletion;
use super::lookup::Lookup;
use super::{DELETIONS_QUESTION, stored_list};

impl Intake {
    /// Handles a record that only updates have. Returns false if it is another one.
    pub(in crate::files) fn on_update(
        &mut self,
        record: &Record<'_>,
        sink: &mut Sink,
    ) -> Result<bool, Problem> {
        if let Stage::Present(..) = self.stage {
            return self.on_present(record, sink);
        }
        let between = matches!(self.stage, Stage::Between);
        match (&mut self.comparison, *record) {
            (None, Record::List { list, flags })
                if between && self.entries == 0 && self.transfer.is_none() =>
            {
                self.begin_update(sink, list, flags)?;
            }
            (None, _) => return Ok(false),
            (
                Some(comparison),
                Record::File { index, .. } | Record::Directory { index, .. } | Record::Link { index, .. },
            ) if comparison.question == 0 => {
                let (announced, _) = self.announced.unwrap_or_default();
                if !comparison.flags.entries
                    || index as usize != comparison.entries.len()
                    || index >= announced
                {
                    return Err(damaged(format!("the list is incomplete: entry {index} is out of turn")));
                }
                if !comparison.add(record) {
                    return Err(refused("the list of files is too long for an update"));
                }
                self.look(sink, index, None)?;
            }
            (Some(comparison), Record::EndOfFile { index, digest, .. }) if comparison.question == 0 => {
                if !comparison.flags.checksum || index as usize + 1 != comparison.entries.len() {
                    return Err(damaged(format!("the list is incomplete: digest {index} is out of turn")));
                }
                self.look(sink, index, Some(digest))?;
            }
            (Some(comparison), Record::Delete { limit })
                if comparison.question == 0
                    && comparison.entries.is_empty()
                    && comparison.deletion.is_none() =>
            {
                if !matches!(sink, Sink::Files(Target::Directory(folder)) if folder.permits_deleting()) {
                    return Err(refused("the sender may not delete files of this receiver"));
                }
                comparison.deletion = Some(Box::new(Deletion::new(limit)));
            }
            (Some(comparison), Record::Exclude { pattern })
                if comparison.question == 0
                    && comparison.entries.is_empty()
                    && comparison.deletion.is_some() =>
            {
                if let Some(deletion) = &mut comparison.deletion {
                    deletion.keep(pattern).map_err(|text| refused(&text))?;
                }
            }
            (Some(_), Record::Question { question: DELETIONS_QUESTION }) if between => {
                self.plan_deletions(sink)?;
            }
            (Some(comparison), Record::Question { question: 1 }) if comparison.question == 0 => {
                self.answer_entries(sink)?;
            }
            (Some(comparison), Record::Subtree { index, end, value })
                if between && comparison.question == 1 =>
            {
                let part = self.kept_part(index);
                if !comparison_describes(&mut self.comparison, index, end, value, part) {
                    return Err(damaged(format!("a digest of entry {index} is out of turn")));
                }
            }
            (Some(comparison), Record::Question { question: 2 }) if between && comparison.question == 1 => {
                comparison.question = 2;
                self.answer = Some((2, comparison.parts_answer()));
            }
            (Some(_), Record::File { index, size, modified, path, .. }) if between => {
                self.advance(index, sink)?;
                let part = self.kept_part(index);
                let Some(comparison) = &mut self.comparison else { return Ok(false) };
                let listed = comparison.entries.get(index as usize);
                let fits = |kind: &ListedKind| matches!(kind, ListedKind::File { .. });
                if !listed.is_some_and(|entry| *entry.name == *path.as_bytes() && fits(&entry.kind)) {
                    return Err(refused(&format!("entry {index} is another one than in the list")));
                }
                // A file that has changed since it was listed is another one.
                let is_listed = listed.is_some_and(|entry| {
                    let same_size =
                        matches!(entry.kind, ListedKind::File { size: listed } if Some(listed) == size);
                    same_size && entry.modified == modified
                });
                if is_listed && listed.is_some_and(|entry| entry.holding == Holding::Same) {
                    self.stage = Stage::Present(path.as_bytes().to_owned(), 0);
                    return Ok(true);
                }
                comparison.open_versions(index, |lookup| open_part(lookup, part));
                return Ok(false);
            }
            (Some(_), Record::End { .. }) if between => {
                let (entries, _) = self.announced.unwrap_or_default();
                self.advance(entries, sink)?;
                return Ok(false);
            }
            (Some(_), Record::Same { index, offset, .. }) => {
                let stage = std::mem::replace(&mut self.stage, Stage::Over);
                if let (Stage::Unstored(name, at), Record::Same { len, .. }) = (&stage, *record) {
                    self.expect_index(index)?;
                    in_order(name, *at, offset)?;
                    self.stage = Stage::Unstored(name.clone(), at + len);
                    return Ok(true);
                }
                let Stage::Contents(mut open) = stage else {
                    self.stage = stage;
                    return Ok(false);
                };
                let copied = self.expect_index(index).and_then(|()| self.copy(&mut open, record));
                self.go_on(open, sink);
                copied.map_err(|problem| match problem {
                    Problem::Damaged(text) => Problem::Damaged(format!("{text} (from byte {offset})")),
                    other => other,
                })?;
            }
            // Directories and links come with the list only.
            (Some(_), Record::Directory { index, .. } | Record::Link { index, .. }) => {
                return Err(refused(&format!("entry {index} came after the list")));
            }
            (Some(_), _) => return Ok(false),
        }
        Ok(true)
    }

    /// Follows a file that this receiver has, and that is sent to others. Returns false for a record about something
    /// else.
    fn on_present(&mut self, record: &Record<'_>, sink: &mut Sink) -> Result<bool, Problem> {
        let Stage::Present(name, at) = &self.stage else { return Ok(false) };
        let (name, at) = (name.clone(), *at);
        match *record {
            Record::Data { index, offset, .. }
            | Record::Hole { index, offset, .. }
            | Record::Same { index, offset, .. } => {
                let len = match *record {
                    Record::Data { bytes, .. } => bytes.len() as u64,
                    Record::Hole { len, .. } | Record::Same { len, .. } => len,
                    _ => 0,
                };
                self.expect_index(index)?;
                in_order(&name, at, offset)?;
                self.stage = Stage::Present(name, at.saturating_add(len));
            }
            Record::Subtree { index, .. } => self.expect_index(index)?,
            Record::EndOfFile { index, size, .. } => {
                self.expect_index(index)?;
                in_order(&name, size, at)?;
                self.complete_present(sink);
            }
            Record::Withdraw { index, reason } => {
                self.expect_index(index)?;
                self.bytes += at;
                self.missing.add(&name, reason);
                self.next_entry(sink);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Completes an entry that is a file of this receiver.
    fn complete_present(&mut self, sink: &mut Sink) {
        if let (Some(comparison), Sink::Files(target)) = (&mut self.comparison, &mut *sink)
            && let Some(entry) = comparison.entries.get(self.entries as usize)
            && let ListedKind::File { size } = entry.kind
        {
            let (name, attributes) =
                (entry.name.clone(), Attributes { mode: entry.mode, modified: entry.modified });
            // The attributes of an archive are set at the end.
            if entry.differs && self.archive.is_none() {
                target.set_attributes(&mut comparison.lookup, &name, attributes);
            }
            self.bytes += size;
            self.resumed += size;
            self.files += 1;
        }
        self.next_entry(sink);
    }

    /// Removes the partial file of an interrupted attempt, once its entry is complete.
    pub(in crate::files) fn drop_kept(&mut self, sink: &mut Sink) {
        let entries = self.entries;
        let is_update = self.comparison.is_some();
        if let Some(kept) = self.kept.take_if(|kept| is_update && kept.reached.entry == entries)
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
        self.transfer = Some(list);
        self.kept = target.resume(list);
        match &self.kept {
            Some(kept) => self.noted = Some((kept.reached.entry, 0)),
            None => self.note(sink, None),
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
        let kept = self.kept.as_ref().filter(|kept| kept.reached.entry == index && kept.part.is_some());
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
            let archive = &mut self.archive;
            if !folder.read_list(comparison, announced, archive) {
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

    /// Completes the entries up to this one: all of them are here, or are made from the list.
    fn advance(&mut self, to: u32, sink: &mut Sink) -> Result<(), Problem> {
        let over = self.comparison.as_ref().and_then(|comparison| comparison.deletion.as_ref()?.refusal());
        if let Some(refusal) = over {
            return Err(refused(&refusal));
        }
        while self.entries < to {
            let (index, Some(comparison)) = (self.entries, &mut self.comparison) else { return Ok(()) };
            let Some(entry) = comparison.entries.get(index as usize) else {
                return Err(damaged(format!("the list has no entry {index}")));
            };
            if !matches!(entry.kind, ListedKind::File { .. })
                && let Some(deletion) = &mut comparison.deletion
                && let Err(reason) = deletion.clear(&mut comparison.lookup, index)?
            {
                let name = entry.name.clone();
                self.unstored(relative(&name)?, &reason, 0)?;
                self.next_entry(sink);
                continue;
            }
            let Sink::Files(target) = sink else { return Err(refused("files come")) };
            let (name, mode, modified) = (entry.name.clone(), entry.mode, entry.modified);
            let (path, attributes) = (relative(&name)?, Attributes { mode, modified });
            let made = match &entry.kind {
                ListedKind::File { .. } if entry.holding == Holding::Same => {
                    self.complete_present(sink);
                    continue;
                }
                ListedKind::File { .. } => {
                    let name = shown_name(&name);
                    return Err(damaged(format!("{name} was not sent, and this receiver does not have it")));
                }
                ListedKind::Directory => stored(target.make_directory(&mut self.position, &path, attributes)),
                ListedKind::Link(text) => {
                    if !carillon_wire::file::link_stays_below(&path, text) {
                        let (path, text) = (shown_name(&path), shown_name(text));
                        return Err(refused(&format!(
                            "the link {path} leads out, to {text}: it is not made"
                        )));
                    }
                    match comparison.lookup.link(&name).is_some_and(|found| *found == **text) {
                        true => Ok(Ok(())),
                        false => stored(target.make_link(&mut self.position, &path, text, true)),
                    }
                }
            };
            if let Err(reason) = made? {
                self.unstored(path, &reason, 0)?;
            }
            self.next_entry(sink);
        }
        Ok(())
    }

    /// Copies a part of a file from an earlier version.
    fn copy(&mut self, open: &mut Open, record: &Record<'_>) -> Result<(), Problem> {
        let (Some(comparison), Record::Same { index, offset, len }) = (&self.comparison, *record) else {
            return Ok(());
        };
        let never =
            || damaged(format!("a part of entry {index} was not sent, and this receiver does not have it"));
        if len != SUBTREE_BYTES || !offset.is_multiple_of(SUBTREE_BYTES) {
            return Err(never());
        }
        let copied = comparison.copy(index, offset, |at, bytes, hole| match hole {
            true => open.go_over(at, bytes.len() as u64).map_err(CopyError::Problem),
            false => open.append(at, bytes).map_err(CopyError::Problem),
        });
        match copied.ok_or_else(never)? {
            Ok(()) => {
                self.copied += len;
                Ok(())
            }
            Err(CopyError::Problem(problem)) => Err(problem),
            // It was truncated since the comparison.
            Err(CopyError::Read(error)) => Err(damaged(format!(
                "the earlier version of {} cannot be read: {error}",
                shown_name(&open.name)
            ))),
        }
    }

    /// Partial file of this entry, from an interrupted attempt.
    fn kept_part(&self, index: u32) -> Option<Vec<u8>> {
        self.kept.as_ref().filter(|kept| kept.reached.entry == index).and_then(|kept| kept.part.clone())
    }

    /// Stores the list of a complete update.
    pub(in crate::files) fn store_list(&self, sink: &mut Sink) {
        if let (Some(comparison), Sink::Files(Target::Directory(folder))) = (&self.comparison, sink) {
            let table = self.archive.as_ref().map_or(&[][..], |archive| archive.bytes());
            folder.write_list(comparison, table);
        }
    }

    /// Returns the answer to a question, once.
    pub fn take_answer(&mut self) -> Option<(u32, Vec<u8>)> {
        self.answer.take()
    }
}

enum CopyError {
    Problem(Problem),
    Read(io::Error),
}

impl From<io::Error> for CopyError {
    fn from(error: io::Error) -> Self {
        CopyError::Read(error)
    }
}

fn comparison_describes(
    comparison: &mut Option<Box<Comparison>>,
    index: u32,
    end: u64,
    value: [u8; 32],
    part: Option<Vec<u8>>,
) -> bool {
    let comparison = comparison.as_mut();
    comparison.is_some_and(|it| it.describe(index, end, value, |lookup| open_part(lookup, part)))
}

fn open_part(lookup: &mut Lookup, part: Option<Vec<u8>>) -> Option<File> {
    lookup.file(&part?)
}

impl Folder {
    /// Reads the stored list into a comparison without entries. Returns false if it is another one.
    fn read_list(
        &self,
        comparison: &mut Comparison,
        entries: u32,
        archive: &mut Option<Box<Received>>,
    ) -> bool {
        let Some(bytes) = stored_list::read(&mut comparison.lookup, &comparison.list) else { return false };
        stored_list::records(&bytes).all(|record| match record {
            Some(Record::Archive { offset, total, bytes }) => {
                let archive = archive.get_or_insert_with(|| Box::new(Received::new(total)));
                self.accepts() != Accepted::Nothing && archive.add(offset, total, bytes, entries)
            }
            Some(record) => comparison.add(&record),
            None => false,
        })
    }
}
