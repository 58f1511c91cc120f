//! Records that begin an entry, or end the transfer.

use carillon_wire::file::{Record, RelativePath, link_stays_below};

use super::super::arriving::{Completed, Unstored};
use super::super::names::{components, is_part_name, shown_name};
use super::super::problem::{Problem, damaged, ours, refused, relative, stored};
use super::super::times::Attributes;
use super::super::unstorable::Unstorable;
use super::unwritten::{Unwritten, UnwrittenReason};
use super::{Intake, Sink, Stage};

impl Intake {
    /// Handles a record between entries, other than END.
    pub(super) fn on_entry(&mut self, record: &Record<'_>, sink: &mut Sink) -> Result<(), Problem> {
        match *record {
            Record::Resume(from) if self.counts.entries == 0 && self.resumption.transfer.is_none() => {
                self.resume(sink, from)?;
                self.stage = Stage::Between;
            }
            Record::File { index, size, mode, modified, path } => {
                self.expect_entry(index)?;
                let attributes = Attributes { mode, modified };
                let stage = match self.had(sink, path, size)? {
                    Ok(Some(had)) => Ok(Stage::PriorFile(Box::new(had))),
                    Ok(None) => {
                        let opened = self.open(sink, path, size, attributes)?;
                        opened.map(|open| Stage::Contents(Box::new(open)))
                    }
                    Err(reason) => Err(reason),
                };
                self.stage = match stage {
                    Ok(stage) => stage,
                    Err(reason) => {
                        let name = self.add_unstored(path, &reason)?;
                        Stage::Unwritten(Unwritten::new(name, UnwrittenReason::Unstorable))
                    }
                };
            }
            Record::Directory { index, mode, modified, path } => {
                self.expect_entry(index)?;
                let name = self.below(path)?;
                let Sink::Files(target) = sink else { return Err(self.files_come()) };
                let attributes = Attributes { mode, modified };
                let made = target.make_directory(&mut self.position, &relative(&name)?, attributes);
                self.finish_entry(path, stored(made)?, sink)?;
            }
            Record::Link { index, target: text, path } => {
                self.expect_entry(index)?;
                expect_link_below(&path, text)?;
                let name = self.below(path)?;
                let Sink::Files(target) = sink else { return Err(self.files_come()) };
                // A file of an earlier attempt may exist.
                let again = self.resumption.kept.as_ref().is_some_and(|kept| index < kept.at_most());
                let made = target.make_link(&mut self.position, &relative(&name)?, text, again);
                self.finish_entry(path, stored(made)?, sink)?;
            }
            _ => return self.out_of_turn(Stage::Between, record),
        }
        Ok(())
    }

    /// Handles END: everything must be here.
    pub(super) fn on_end(
        &mut self,
        bytes: u64,
        listing: [u8; blake3::OUT_LEN],
        sink: &mut Sink,
    ) -> Result<(), Problem> {
        let (entries, _) = self.announced.unwrap_or_default();
        if entries != self.counts.entries || bytes != self.counts.bytes {
            return Err(damaged(format!(
                "the transfer is incomplete: {} of {entries} entries and {} of {bytes} bytes arrived",
                self.counts.entries, self.counts.bytes
            )));
        }
        if listing != self.listing.digest() {
            // It is unknown which of the existing files are wrong, and another attempt cannot know either.
            return Err(refused(
                "names, permissions or times differ from the sender's: remove the received files and try again",
            ));
        }
        if let Some(descent) = &mut self.position {
            descent.finish().map_err(ours)?;
        }
        if let Some(text) = self.missing.text() {
            return Err(refused(&text));
        }
        self.conclude(sink)
    }

    /// Ends an entry that is no file, which could be stored or not.
    pub(super) fn finish_entry(
        &mut self,
        path: RelativePath<'_>,
        made: Result<(), Unstorable>,
        sink: &mut Sink,
    ) -> Result<(), Problem> {
        if let Err(reason) = made {
            self.add_unstored(path, &reason)?;
        }
        self.next_entry(sink);
        Ok(())
    }

    /// Records an entry that cannot be stored; returns its name below the destination.
    fn add_unstored(&mut self, path: RelativePath<'_>, reason: &Unstorable) -> Result<Vec<u8>, Problem> {
        let name = self.below(path)?;
        self.missing.add_unstored(Unstored { name: name.clone(), reason: reason.to_string() });
        Ok(name)
    }

    /// Advances to the next entry.
    pub(super) fn next_entry(&mut self, sink: &mut Sink) {
        self.drop_kept(sink);
        self.counts.entries += 1;
        self.stage = Stage::Between;
        if self.resumption.is_due(self.counts.entries, self.counts.bytes) {
            self.note(sink, None);
        }
    }

    /// Records a complete file.
    pub(super) fn complete(&mut self, completed: Completed, sink: &mut Sink) {
        self.counts.bytes += completed.bytes;
        self.counts.files += 1;
        self.completed.add(completed);
        self.next_entry(sink);
    }

    /// Name below the destination.
    pub(super) fn below(&self, path: RelativePath<'_>) -> Result<Vec<u8>, Problem> {
        let name = [self.folder.as_bytes(), path.as_bytes()].concat();
        if components(&name).any(is_part_name) {
            let text = format!("{} has the name of a temporary file: not received", shown_name(&name));
            return Err(refused(&text));
        }
        relative(&name)?;
        Ok(name)
    }

    pub(super) fn expect_index(&self, index: u32) -> Result<(), Problem> {
        let expected = self.counts.entries;
        if index == expected {
            return Ok(());
        }
        Err(damaged(format!("the transfer is incomplete: entry {index} arrived instead of entry {expected}")))
    }

    /// Checks the index of the first record of an entry.
    fn expect_entry(&self, index: u32) -> Result<(), Problem> {
        let (entries, _) = self.announced.unwrap_or_default();
        if self.counts.entries >= entries {
            return Err(damaged(format!("more entries arrived than the {entries} announced ones")));
        }
        self.expect_index(index)
    }
}

/// Checks that a symbolic link does not lead out of the destination.
pub(super) fn expect_link_below(path: &RelativePath<'_>, text: &[u8]) -> Result<(), Problem> {
    if link_stays_below(path, text) {
        return Ok(());
    }
    let (path, text) = (shown_name(path), shown_name(text));
    Err(refused(&format!("the link {path} leads out, to {text}: it is not made")))
}
