//! Records of the file that is being received.

use std::io;

use carillon_wire::file::{Record, SUBTREE_BYTES, WithdrawReason};

use super::super::arriving::Open;
use super::super::names::shown_name;
use super::super::problem::{Problem, damaged};
use super::super::resume::KEEP_BYTES;
use super::super::update::Comparison;
use super::unwritten::{Unwritten, UnwrittenReason, part_of};
use super::{Intake, PriorFile, Sink, Stage};

impl Intake {
    /// Handles a record while a file is received.
    pub(super) fn on_contents(
        &mut self,
        mut open: Box<Open>,
        record: &Record<'_>,
        sink: &mut Sink,
    ) -> Result<(), Problem> {
        let done = match *record {
            Record::Data { index, offset, bytes } => {
                self.expect_index(index).and_then(|()| open.append(offset, bytes))
            }
            Record::Hole { index, offset, len } => {
                self.expect_index(index).and_then(|()| open.go_over(offset, len))
            }
            Record::Subtree { index, end, value } => {
                self.expect_index(index).and_then(|()| open.compare(end, value))
            }
            Record::Same { index, offset, len } if self.comparison.is_some() => {
                let copied = self.expect_index(index).and_then(|()| self.copy(&mut open, offset, len));
                copied.map_err(|problem| match problem {
                    Problem::Damaged(text) => Problem::Damaged(format!("{text} (from byte {offset})")),
                    other => other,
                })
            }
            Record::EndOfFile { index, size, digest } => {
                return self.close(open, index, size, blake3::Hash::from_bytes(digest), sink);
            }
            Record::Withdraw { index, reason } => return self.withdraw(*open, index, reason, sink),
            _ => return self.out_of_turn(Stage::Contents(open), record),
        };
        self.go_on(open, sink);
        done
    }

    /// Handles a record about a file that exists already.
    pub(super) fn on_prior_file(
        &mut self,
        mut had: Box<PriorFile>,
        record: &Record<'_>,
        sink: &mut Sink,
    ) -> Result<(), Problem> {
        match *record {
            Record::Data { .. } | Record::Hole { .. } => {
                let (index, offset, len) = part_of(record).unwrap_or_default();
                self.expect_index(index)?;
                had.pass(offset, len)?;
            }
            // The parts of the file are compared at its end.
            Record::Subtree { index, .. } => self.expect_index(index)?,
            Record::Kept { index } if self.resumption.began_behind(index) => {
                self.expect_index(index)?;
                self.counts.resumed += had.size;
                self.counts.bytes += had.size;
                self.counts.files += 1;
                self.next_entry(sink);
                return Ok(());
            }
            Record::EndOfFile { index, size, digest } => {
                self.expect_index(index)?;
                let digest = blake3::Hash::from_bytes(digest);
                let completed = had.close(sink, &mut self.position, size, digest)?;
                self.complete(completed, sink);
                return Ok(());
            }
            Record::Withdraw { index, reason } => {
                self.expect_index(index)?;
                self.counts.bytes += had.offset;
                self.missing.add(&had.name, reason);
                self.next_entry(sink);
                return Ok(());
            }
            _ => return self.out_of_turn(Stage::PriorFile(had), record),
        }
        self.stage = Stage::PriorFile(had);
        Ok(())
    }

    /// Handles a record about a file that is not written.
    pub(super) fn on_unwritten(
        &mut self,
        mut file: Unwritten,
        record: &Record<'_>,
        sink: &mut Sink,
    ) -> Result<(), Problem> {
        match *record {
            Record::Data { .. } | Record::Hole { .. } => self.pass_over(&mut file, record)?,
            Record::Same { .. } if self.comparison.is_some() => self.pass_over(&mut file, record)?,
            Record::Subtree { index, .. } => self.expect_index(index)?,
            Record::EndOfFile { index, size, .. } => {
                self.expect_index(index)?;
                file.end(size)?;
                match file.reason {
                    UnwrittenReason::Present => self.complete_present(sink),
                    UnwrittenReason::Unstorable => {
                        self.counts.bytes += file.offset;
                        self.next_entry(sink);
                    }
                }
                return Ok(());
            }
            Record::Withdraw { index, reason } => {
                self.expect_index(index)?;
                self.counts.bytes += file.offset;
                if file.reason == UnwrittenReason::Present {
                    self.missing.add(&file.name, reason);
                }
                self.next_entry(sink);
                return Ok(());
            }
            _ => return self.out_of_turn(Stage::Unwritten(file), record),
        }
        self.stage = Stage::Unwritten(file);
        Ok(())
    }

    fn pass_over(&self, file: &mut Unwritten, record: &Record<'_>) -> Result<(), Problem> {
        let (index, offset, len) = part_of(record).unwrap_or_default();
        self.expect_index(index)?;
        file.pass(offset, len)
    }

    /// Continues with a file after more of it has arrived.
    fn go_on(&mut self, mut open: Box<Open>, sink: &mut Sink) {
        if !self.resumption.is_noted() && self.counts.bytes + open.offset >= KEEP_BYTES {
            self.note(sink, open.partial.as_mut());
        }
        self.stage = Stage::Contents(open);
    }

    /// Verifies a file and gives it its name.
    fn close(
        &mut self,
        mut open: Box<Open>,
        index: u32,
        size: u64,
        digest: blake3::Hash,
        sink: &mut Sink,
    ) -> Result<(), Problem> {
        if let Err(problem) = self.expect_index(index).and_then(|()| open.verify(size, digest)) {
            self.stage = Stage::Contents(open);
            return Err(problem);
        }
        let cleared = self.clear()?;
        let Sink::Files(target) = sink else { return Err(self.files_come()) };
        let (completed, spare) = match cleared {
            Ok(()) => open.close(target, &mut self.position, digest)?,
            Err(reason) => open.leave(&reason),
        };
        self.spare = Some(spare);
        match completed {
            Ok(completed) => self.complete(completed, sink),
            Err(unstored) => {
                self.counts.bytes += size;
                self.missing.add_unstored(unstored);
                self.next_entry(sink);
            }
        }
        Ok(())
    }

    /// Discards a file that the sender withdraws.
    fn withdraw(
        &mut self,
        open: Open,
        index: u32,
        reason: WithdrawReason,
        sink: &mut Sink,
    ) -> Result<(), Problem> {
        self.expect_index(index)?;
        self.counts.bytes += open.offset;
        match open.partly_changed() {
            Some(partly) => self.missing.add_text(&format!("{} {reason} ({partly})", shown_name(&open.name))),
            None => self.missing.add(&open.name, reason),
        }
        self.spare = Some(open.spare.cleared());
        if let Some(partial) = open.partial {
            partial.discard();
        }
        self.next_entry(sink);
        Ok(())
    }

    /// Copies a part of a file from an earlier version.
    fn copy(&mut self, open: &mut Open, offset: u64, len: u64) -> Result<(), Problem> {
        let index = self.counts.entries;
        let never =
            || damaged(format!("a part of entry {index} was not sent, and this receiver does not have it"));
        if len != SUBTREE_BYTES || !offset.is_multiple_of(SUBTREE_BYTES) {
            return Err(never());
        }
        let Some(comparison) = self.comparison.as_deref() else { return Ok(()) };
        copy_part(comparison, open, index, offset).unwrap_or_else(|| Err(never()))?;
        self.counts.copied += len;
        Ok(())
    }
}

/// Copies a part; `None` if this receiver never said to have it.
fn copy_part(
    comparison: &Comparison,
    open: &mut Open,
    index: u32,
    offset: u64,
) -> Option<Result<(), Problem>> {
    let copied = comparison.copy(index, offset, |at, bytes, hole| match hole {
        true => open.go_over(at, bytes.len() as u64).map_err(CopyError::Problem),
        false => open.append(at, bytes).map_err(CopyError::Problem),
    });
    Some(copied?.map_err(|error| match error {
        CopyError::Problem(problem) => problem,
        // It was truncated since the comparison.
        CopyError::Read(error) => {
            let name = shown_name(&open.name);
            damaged(format!("the earlier version of {name} cannot be read: {error}"))
        }
    }))
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
