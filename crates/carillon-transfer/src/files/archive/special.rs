//! Creating of special entries, and of inodes of their own for files.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, BorrowedFd};

use carillon_wire::file::RelativePath;
use carillon_wire::file::archive::SpecialKind;
use rustix::fs::{
    AtFlags, FileType, Mode, Stat, linkat, makedev, mknodat, readlinkat, renameat, statat, symlinkat,
    unlinkat,
};
use rustix::io::Errno;

use super::super::contents::READ_BYTES;
use super::super::draft::Draft;
use super::super::holes::Holes;
use super::super::names::{below, part_name, shown_path, split};
use super::super::target::{Position, Target};
use super::super::unstorable::Unstorable;
use super::super::update::{Lookup, is_file};
use super::Accepted;
use crate::error::{Context as _, LocalError, stated};

impl Target {
    /// Accepts this part of archives.
    pub fn accept_archives(&mut self, accepts: Accepted) {
        if let Target::Directory(folder) = self {
            folder.accept_archives(accepts);
        }
    }

    /// Part of archives that is accepted.
    pub(in crate::files) fn accepts(&self) -> Accepted {
        match self {
            Target::Directory(folder) => folder.accepts(),
            Target::Output(_) | Target::Device(_) => Accepted::Nothing,
        }
    }

    /// Creates a special entry unless it exists. `leader` is the file to which a hard link belongs.
    pub(in crate::files) fn make_special(
        &mut self,
        position: &mut Position,
        name: &RelativePath<'_>,
        kind: &SpecialKind,
        leader: Option<&[u8]>,
    ) -> Result<(), LocalError> {
        let Target::Directory(folder) = self else { return Ok(()) };
        let path = below(folder.root(), name);
        let (parents, file_name) = split(name);
        let mut lookup = Lookup::new(folder.root())?;
        let leader = match leader {
            Some(leader) => {
                let (_, stat) = lookup.stat(leader).filter(|(_, stat)| is_file(stat)).ok_or_else(|| {
                    stated!(
                        "{} has been removed by another program",
                        shown_path(&below(folder.root(), leader))
                    )
                })?;
                Some((leader, stat))
            }
            None => None,
        };
        let directory = folder.enter(position, parents, None)?;
        let stat = statat(directory, file_name, AtFlags::SYMLINK_NOFOLLOW).ok();
        let is_here = |stat: &Stat| match &leader {
            Some((_, leader)) => (stat.st_dev, stat.st_ino) == (leader.st_dev, leader.st_ino),
            None => is_equal(directory, file_name, kind, stat),
        };
        if stat.as_ref().is_some_and(is_here) {
            folder.note_entry(name, stat.as_ref());
            return Ok(());
        }
        if let Some(stat) = &stat {
            if folder.has_other_spelling(directory, file_name) {
                return Err(Unstorable::alias(b"another entry").into());
            }
            if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
                return Err(stated!("{} is a directory: choose another --out", shown_path(&path)));
            }
            if !folder.replaces() {
                return Err(stated!(
                    "{} exists: give --overwrite to replace it, or another --out",
                    shown_path(&path)
                ));
            }
        }
        let make = |at: &[u8]| match (kind, &leader) {
            (_, Some((leader, _))) => {
                let (parents, leader) = split(leader);
                let above = lookup.directory(parents).ok_or(Errno::NOENT)?;
                linkat(above, leader, directory, at, AtFlags::empty())
            }
            (kind, None) => create(directory, at, kind),
        };
        let part = part_name(file_name, folder.next_number());
        match place(directory, file_name, part.as_bytes(), stat.is_some(), make) {
            Ok(()) => {
                let stat = statat(directory, file_name, AtFlags::SYMLINK_NOFOLLOW).ok();
                folder.note_entry(name, stat.as_ref());
                Ok(())
            }
            Err(error @ (Errno::PERM | Errno::NOSYS | Errno::NOTSUP | Errno::XDEV | Errno::MLINK)) => {
                Err(Unstorable::special(label(kind), error).into())
            }
            Err(error @ (Errno::INVAL | Errno::NAMETOOLONG | Errno::ILSEQ)) => {
                Err(Unstorable::unfit(error).into())
            }
            Err(error) => {
                Err(io::Error::from(error)).with_context(|| format!("cannot create {}", shown_path(&path)))
            }
        }
    }

    /// Gives a file an inode of its own, with equal contents.
    pub(in crate::files) fn unshare(
        &mut self,
        position: &mut Position,
        name: &RelativePath<'_>,
        lookup: &mut Lookup,
        modified: Option<i64>,
    ) -> Result<(), LocalError> {
        let Target::Directory(folder) = self else { return Ok(()) };
        let failed = || format!("cannot copy {}", shown_path(&below(folder.root(), name)));
        let mut file = lookup.file(name).with_context(failed)?;
        let failed = failed();
        let (parents, file_name) = split(name);
        let directory = folder.enter(position, parents, None)?.try_clone_to_owned()?;
        let mut number = folder.next_number();
        let draft = Draft::create(directory, file_name, 0o600, || {
            number = number.wrapping_add(1);
            number
        });
        let done = draft.and_then(|mut draft| {
            copy(&mut file, &mut draft)?;
            draft.name(file_name, modified, true)
        });
        done.map(|_| ()).with_context(|| failed)
    }
}

/// Copies contents with their holes.
fn copy<D: AsFd>(file: &mut File, draft: &mut Draft<D>) -> io::Result<()> {
    let metadata = file.metadata()?;
    let (size, mut holes, mut buffer) = (metadata.len(), Holes::of(&metadata), vec![0; READ_BYTES]);
    let mut at = 0;
    while at < size {
        let hole = holes.at(file, at, size)?;
        if hole > 0 {
            draft.go_over(hole)?;
            at += hole;
            continue;
        }
        let len = file.read(&mut buffer)?;
        if len == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        draft.write(&buffer[..len])?;
        at += len as u64;
    }
    Ok(())
}

/// Creates an entry of this name, under a temporary name first if there is another one.
fn place(
    directory: BorrowedFd<'_>,
    name: &[u8],
    part: &[u8],
    replaces: bool,
    mut make: impl FnMut(&[u8]) -> Result<(), Errno>,
) -> Result<(), Errno> {
    if !replaces {
        return make(name);
    }
    make(part)?;
    let renamed = renameat(directory, part, directory, name);
    // After an error, and where both names are links to one file: then nothing was renamed. The first error is
    // reported.
    let _ = unlinkat(directory, part, AtFlags::empty());
    renamed
}

fn create(directory: BorrowedFd<'_>, name: &[u8], kind: &SpecialKind) -> Result<(), Errno> {
    let mode = Mode::RUSR | Mode::WUSR;
    match kind {
        SpecialKind::HardLink(_) => Err(Errno::NOENT),
        SpecialKind::Link(target) => symlinkat(target.as_slice(), directory, name),
        SpecialKind::Fifo => mknodat(directory, name, FileType::Fifo, mode, 0),
        SpecialKind::CharacterDevice(major, minor) => {
            mknodat(directory, name, FileType::CharacterDevice, mode, makedev(*major, *minor))
        }
        SpecialKind::BlockDevice(major, minor) => {
            mknodat(directory, name, FileType::BlockDevice, mode, makedev(*major, *minor))
        }
    }
}

/// Returns true if the existing entry is the wanted one, apart from its attributes.
fn is_equal(directory: BorrowedFd<'_>, name: &[u8], kind: &SpecialKind, stat: &Stat) -> bool {
    let found = FileType::from_raw_mode(stat.st_mode);
    // Another name of it would get its attributes.
    let is_single = stat.st_nlink == 1;
    match kind {
        SpecialKind::HardLink(_) => false,
        SpecialKind::Link(target) => {
            found == FileType::Symlink
                && readlinkat(directory, name, Vec::new()).is_ok_and(|at| at.as_bytes() == target.as_slice())
        }
        SpecialKind::Fifo => is_single && found == FileType::Fifo,
        SpecialKind::CharacterDevice(major, minor) => {
            is_single && found == FileType::CharacterDevice && stat.st_rdev == makedev(*major, *minor)
        }
        SpecialKind::BlockDevice(major, minor) => {
            is_single && found == FileType::BlockDevice && stat.st_rdev == makedev(*major, *minor)
        }
    }
}

fn label(kind: &SpecialKind) -> &'static str {
    match kind {
        SpecialKind::HardLink(_) => "hard link",
        SpecialKind::Link(_) => "symbolic link",
        SpecialKind::Fifo => "FIFO",
        SpecialKind::CharacterDevice(..) => "character device",
        SpecialKind::BlockDevice(..) => "block device",
    }
}
