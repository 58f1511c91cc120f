//! State of a transfer that an interrupted attempt can be resumed from.

use carillon_wire::file::{ResumePoint, TransferId};

use super::super::problem::{Problem, refused};
use super::super::resume::{KEEP_BYTES, Kept, NOTE_ENTRIES};
use super::super::target::{Partial, Target};

/// Identity of a transfer, what an earlier attempt left of it, and what its journal says.
#[derive(Debug, Default)]
pub struct Resumption {
    /// Identifier of the transfer, if it has one and its data can be kept.
    pub transfer: Option<TransferId>,
    /// Entry and offset at which the sender began.
    begun: (u32, u64),
    /// State that an earlier attempt left.
    pub kept: Option<Kept>,
    /// Progress in the journal: complete entries and bytes in them.
    noted: Option<(u32, u64)>,
}

impl Resumption {
    /// Takes the state of an earlier attempt at this transfer. Returns true if there is none.
    pub fn identify(&mut self, transfer: TransferId, target: &mut Target) -> bool {
        self.transfer = Some(transfer);
        self.kept = target.resume(transfer);
        self.noted = self.kept.as_ref().map(|kept| (kept.reached.entry, 0));
        self.kept.is_none()
    }

    /// Begins where the sender does. Fails if this receiver has not reached that point.
    pub fn begin(&mut self, from: &ResumePoint) -> Result<(), Problem> {
        let had = self.kept.as_ref().map_or((0, 0), |kept| (kept.reached.entry, kept.reached.offset));
        self.begun = (from.entry, from.offset);
        if self.begun > had {
            return Err(refused(
                "the sender resumes at a point that this receiver has not reached: try again",
            ));
        }
        Ok(())
    }

    /// Returns true if the sender began behind this entry.
    pub fn began_behind(&self, entry: u32) -> bool {
        entry < self.begun.0
    }

    /// Offset at which the sender begins this entry.
    pub fn offset(&self, entry: u32) -> u64 {
        if entry == self.begun.0 { self.begun.1 } else { 0 }
    }

    /// Partial file of this entry, from an interrupted attempt.
    pub fn part(&self, entry: u32) -> Option<Vec<u8>> {
        self.kept.as_ref().filter(|kept| kept.reached.entry == entry).and_then(|kept| kept.part.clone())
    }

    /// Returns true if the journal has progress.
    pub fn is_noted(&self) -> bool {
        self.noted.is_some()
    }

    /// Returns true if the journal has progress and is to be renewed.
    pub fn is_due(&self, entries: u32, bytes: u64) -> bool {
        self.noted.is_some_and(|(noted, at)| {
            entries >= noted.saturating_add(NOTE_ENTRIES) || bytes >= at.saturating_add(KEEP_BYTES)
        })
    }

    /// Writes the progress into the journal, unless that is further ahead from an earlier attempt.
    pub fn note(&mut self, target: &mut Target, entries: u32, bytes: u64, partial: Option<&mut Partial>) {
        let Some(transfer) = self.transfer else { return };
        let further = |(noted, _)| noted > entries || (noted == entries && partial.is_none());
        if !self.noted.is_some_and(further) {
            self.noted = Some((entries, bytes));
            target.note(transfer, entries, partial);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resumption(entry: u32, offset: u64) -> Resumption {
        let reached = ResumePoint { transfer: [1; 16], entry, offset };
        let kept = Some(Kept { reached, part: Some(b"part".to_vec()), trusted: false });
        Resumption { transfer: Some([1; 16]), kept, noted: Some((entry, 0)), ..Resumption::default() }
    }

    #[test]
    fn sender_begins_at_most_where_this_receiver_has_come() {
        for (entry, offset, fits) in [(0, 0, true), (3, 7, true), (3, 8, false), (4, 0, false), (2, 9, true)]
        {
            let mut resumption = resumption(3, 7);
            let from = ResumePoint { transfer: [1; 16], entry, offset };
            assert_eq!(resumption.begin(&from).is_ok(), fits, "{entry} {offset}");
            let at = (resumption.offset(entry), resumption.offset(entry + 1));
            assert_eq!(at, (offset, 0));
            assert_eq!((resumption.began_behind(entry), resumption.began_behind(0)), (false, entry > 0));
        }
    }

    #[test]
    fn partial_file_belongs_to_the_entry_that_was_reached() {
        let resumption = resumption(3, 7);
        assert_eq!((resumption.part(3), resumption.part(2)), (Some(b"part".to_vec()), None));
    }

    #[test]
    fn journal_is_renewed_after_a_number_of_entries_or_bytes() {
        let resumption = resumption(3, 7);
        assert!(!resumption.is_due(3, 0) && !resumption.is_due(2 + NOTE_ENTRIES, KEEP_BYTES - 1));
        assert!(resumption.is_due(3 + NOTE_ENTRIES, 0) && resumption.is_due(3, KEEP_BYTES));
        assert!(!Resumption::default().is_due(u32::MAX, u64::MAX));
    }
}
