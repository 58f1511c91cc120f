//! Deleting of entries that the sender of an update has not listed.

use super::super::problem::{Problem, damaged, ours, refused};
use super::super::target::Target;
use super::super::unstorable::Unstorable;
use super::super::update::{Comparison, DELETIONS_QUESTION, Lookup, Removed};
use super::{Intake, Sink};

impl Intake {
    /// Answers QUESTION 3.
    pub(super) fn plan_deletions(&mut self, sink: &mut Sink) -> Result<(), Problem> {
        let Sink::Files(Target::Directory(folder)) = sink else { return Err(refused("files come")) };
        let Some(comparison) = &mut self.comparison else { return Ok(()) };
        let Comparison { entries, lookup, deletion, question, .. } = &mut **comparison;
        let Some(deletion) = deletion.as_mut().filter(|_| matches!(question, 1 | 2)) else {
            return Err(damaged("the question about deletions is out of turn".to_owned()));
        };
        let specials = self.archive.iter().flat_map(|archive| archive.specials());
        let specials: Vec<&[u8]> = specials.map(|special| special.name.as_slice()).collect();
        deletion.plan(entries, lookup, &specials)?;
        let name = |index: u32| entries.get(index as usize).map(|entry| entry.name.to_vec());
        folder.replace_directories(deletion.obstructed().filter_map(name));
        *question = DELETIONS_QUESTION;
        self.answer = Some((DELETIONS_QUESTION, deletion.answer()));
        Ok(())
    }

    /// Removes what stands in the way of a file that is complete.
    pub(super) fn clear(&mut self) -> Result<Result<(), Unstorable>, Problem> {
        let Some(comparison) = &mut self.comparison else { return Ok(Ok(())) };
        let Comparison { deletion: Some(deletion), lookup, .. } = &mut **comparison else {
            return Ok(Ok(()));
        };
        deletion.clear(lookup, self.counts.entries)
    }

    /// Deletes what is planned; everything has arrived by now.
    pub(super) fn delete(&mut self, sink: &mut Sink) -> Result<(), Problem> {
        let Sink::Files(Target::Directory(folder)) = sink else { return Ok(()) };
        let Some(Comparison { entries, deletion: Some(deletion), .. }) = self.comparison.as_deref_mut()
        else {
            return Ok(());
        };
        let mut lookup = Lookup::new(folder.root()).map_err(|error| ours(error.into()))?;
        // The file system may take a name for that of an entry of the transfer.
        deletion.delete(entries, &mut lookup, |directory, name| folder.has_other_spelling(directory, name))
    }

    /// Removed entries.
    pub fn deleted(&self) -> Option<&Removed> {
        self.comparison.as_ref()?.deletion.as_ref().map(|deletion| deletion.deleted())
    }
}
