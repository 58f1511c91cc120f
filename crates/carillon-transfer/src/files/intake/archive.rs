//! Receiving of an archive: its table, and its application when everything else has arrived.

use std::collections::BTreeSet;

use carillon_wire::file::Record;
use carillon_wire::file::archive::{Special, SpecialKind};

use super::super::archive::{Accepted, HardLinkGroups, Losses, Received};
use super::super::arriving::Unstored;
use super::super::names::{components, is_part_name, shown_name};
use super::super::problem::{Problem, damaged, ours, refused, relative, stored};
use super::super::target::Target;
use super::super::unstorable::Unstorable;
use super::super::update::{Comparison, Lookup};
use super::{Intake, Sink, Stage};

impl Intake {
    /// Handles the parts of a table, and notes the entries of a transfer that is no update. Returns false for other
    /// records.
    pub(super) fn on_archive(&mut self, record: &Record<'_>, sink: &mut Sink) -> Result<bool, Problem> {
        if let Record::Archive { offset, total, bytes } = *record {
            let is_first = match &self.comparison {
                Some(comparison) => comparison.question == 0 && comparison.entries.is_empty(),
                None => self.counts.entries == 0,
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
        if let Some(archive) = self.archive.as_mut().filter(|_| self.comparison.is_none()) {
            archive.add_entry(record)?;
        }
        Ok(false)
    }

    /// Makes the special entries and sets the attributes of everything but directories.
    pub(super) fn set_archive(&mut self, sink: &mut Sink) -> Result<(), Problem> {
        let Some(mut archive) = self.archive.take() else { return Ok(()) };
        let Sink::Files(target) = sink else { return Ok(()) };
        if let Some(comparison) = &self.comparison {
            archive.set_entries(&comparison.entries);
        }
        let done = self.set_archived(&mut archive, target);
        self.archive = Some(archive);
        done
    }

    fn set_archived(&mut self, archive: &mut Received, target: &mut Target) -> Result<(), Problem> {
        if archive.table().is_none() {
            return Err(damaged("the table of the archive is incomplete".to_owned()));
        }
        let root = match target {
            Target::Directory(folder) => folder.root().to_owned(),
            Target::Output(_) | Target::Device(_) => return Ok(()),
        };
        // Hard links come first: the system may refuse links to files of other users.
        self.unshare(archive, target)?;
        let mut unmade = Vec::new();
        for (at, special) in archive.specials().iter().enumerate() {
            if let Err(reason) = self.make_special(archive, at, special, target)? {
                unmade.push(at);
                let (name, reason) = (special.name.clone(), reason.to_string());
                self.missing.add_unstored(Unstored { name, reason });
            }
        }
        unmade.into_iter().for_each(|at| archive.add_unmade(at));
        let lookup = Lookup::new(&root).map_err(|error| ours(error.into()))?;
        archive.set_attributes(lookup, target.accepts());
        Ok(())
    }

    /// Sets the attributes of directories, after all else.
    pub(super) fn set_directories(&mut self, sink: &mut Sink) -> Result<(), Problem> {
        let (Some(archive), Sink::Files(target)) = (&mut self.archive, sink) else { return Ok(()) };
        let (accepts, Target::Directory(folder)) = (target.accepts(), target) else { return Ok(()) };
        if archive.table().is_some() {
            let lookup = Lookup::new(folder.root()).map_err(|error| ours(error.into()))?;
            archive.set_directories(lookup, accepts);
        }
        Ok(())
    }

    /// Returns true if every special entry was made.
    pub(super) fn has_all_specials(&self) -> bool {
        self.archive.as_ref().is_none_or(|archive| archive.has_all_specials())
    }

    /// Attributes that could not be stored.
    pub fn losses(&self) -> Option<&Losses> {
        self.archive.as_ref().map(|archive| archive.losses())
    }

    /// Gives files inodes of their own that have other hard links than the sender's, so that what is done to them is
    /// done to nothing else.
    fn unshare(&mut self, archive: &Received, target: &mut Target) -> Result<(), Problem> {
        let (Target::Directory(folder), Some(table)) = (&*target, archive.table()) else { return Ok(()) };
        let mut lookup = Lookup::new(folder.root()).map_err(|error| ours(error.into()))?;
        let groups = HardLinkGroups::new(table);
        let mut seen = BTreeSet::new();
        for (index, name, modified) in archive.files() {
            let Some((_, stat)) = lookup.stat(name).filter(|(_, stat)| stat.st_nlink > 1) else {
                continue;
            };
            let is_first = seen.insert((stat.st_dev, stat.st_ino));
            if is_first && groups.has_all(index, &stat, &mut lookup) {
                continue;
            }
            let done = target.unshare(&mut self.position, &relative(name)?, &mut lookup, modified);
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
        let Ok(leader) = archive.leader(special) else {
            return Err(damaged(format!("{} is a link to no file", shown_name(&name))));
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
