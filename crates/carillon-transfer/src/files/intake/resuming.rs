//! Resuming of a transfer from what an earlier attempt left, and opening of its files.

use carillon_wire::file::{RelativePath, ResumePoint};

use super::super::arriving::{Open, WRITE_BYTES};
use super::super::names::shown_name;
use super::super::problem::{Problem, ours, refused, relative, stored};
use super::super::target::Partial;
use super::super::times::Attributes;
use super::super::unstorable::Unstorable;
use super::{Intake, PriorFile, Sink};

impl Intake {
    /// Handles the identifier of a transfer and the sender's starting point.
    pub(super) fn resume(&mut self, sink: &mut Sink, from: ResumePoint) -> Result<(), Problem> {
        let Sink::Files(target) = sink else { return Err(self.files_come()) };
        let is_first = self.folder.is_empty() && self.resumption.identify(from.transfer, target);
        // Complete files would block the next attempt; a single entry has no next attempt.
        if is_first && self.announced.is_some_and(|(entries, _)| entries > 1) {
            self.note(sink, None);
        }
        self.resumption.begin(&from)
    }

    /// Looks for an existing complete file from an attempt that came further.
    pub(super) fn had(
        &mut self,
        sink: &mut Sink,
        path: RelativePath<'_>,
        size: Option<u64>,
    ) -> Result<Result<Option<PriorFile>, Unstorable>, Problem> {
        // An update has compared all files.
        let kept = self.resumption.kept.as_ref().filter(|_| self.comparison.is_none());
        let (Some(kept), Sink::Files(target), Some(size)) = (kept, sink, size) else {
            return Ok(Ok(None));
        };
        let was_noted = self.counts.entries < kept.reached.entry;
        let is_part = self.counts.entries == kept.reached.entry && kept.part.is_some();
        // Where files are replaced an existing file may be outdated: without a journal entry it is written again.
        if !was_noted && (is_part || self.counts.entries >= kept.at_most() || target.overwrites()) {
            return Ok(Ok(None));
        }
        let name = self.below(path)?;
        let offset = self.resumption.offset(self.counts.entries);
        match stored(target.existing(&mut self.position, &relative(&name)?, size))? {
            Err(reason) => Ok(Err(reason)),
            Ok(Some(_)) => Ok(Ok(Some(PriorFile { name, size, offset }))),
            Ok(None) if was_noted => Err(refused(&format!(
                "{} was received earlier and has been removed since: try again",
                shown_name(&name)
            ))),
            Ok(None) => Ok(Ok(None)),
        }
    }

    /// Writes the progress into the journal.
    pub(super) fn note(&mut self, sink: &mut Sink, partial: Option<&mut Partial>) {
        // The next attempt would look for the files in the journal.
        if let (0, Sink::Files(target)) = (self.missing.unstored_count, sink) {
            self.resumption.note(target, self.counts.entries, self.counts.bytes, partial);
        }
    }

    /// Opens a file for its contents, or the part of it that an earlier attempt left.
    pub(super) fn open(
        &mut self,
        sink: &mut Sink,
        path: RelativePath<'_>,
        size: Option<u64>,
        attributes: Attributes,
    ) -> Result<Result<Open, Unstorable>, Problem> {
        let Sink::Files(target) = sink else { return Err(self.files_come()) };
        let name = self.below(path)?;
        let mut spare = self.spare.take().unwrap_or_default();
        let begun = self.resumption.offset(self.counts.entries);
        let is_update = self.comparison.is_some();
        let part = self.resumption.part(self.counts.entries).filter(|_| !is_update);
        if let Some(part) = part {
            let mut had = 0;
            let read = |bytes: &[u8]| {
                spare.tree.update(bytes);
                had += bytes.len() as u64;
            };
            let partial =
                target.reopen(&mut self.position, &relative(&name)?, size, &part, read).map_err(ours)?;
            let fits = begun <= had && size.is_none_or(|size| had <= size);
            if let Some(partial) = partial.filter(|_| fits) {
                self.counts.resumed += begun;
                let partial = Some(partial);
                let open = Open { partial, name, attributes, size, offset: begun, had, verified: 0, spare };
                return Ok(Ok(open));
            }
            spare.tree.reset();
        }
        if begun > 0 {
            return Err(refused(&format!(
                "the received part of {} has been removed since: try again",
                shown_name(&name)
            )));
        }
        // A small file is written at once when it is complete.
        let partial = match size {
            Some(size) if size <= WRITE_BYTES as u64 => None,
            _ => {
                let begun = target.begin(&mut self.position, &relative(&name)?, size, attributes.mode);
                match stored(begun)? {
                    Ok(partial) => Some(partial),
                    Err(reason) => {
                        self.spare = Some(spare);
                        return Ok(Err(reason));
                    }
                }
            }
        };
        let mut open = Open { partial, name, attributes, size, offset: 0, had: 0, verified: 0, spare };
        if self.resumption.is_noted() && open.partial.is_some() {
            self.note(sink, open.partial.as_mut());
        }
        Ok(Ok(open))
    }
}
