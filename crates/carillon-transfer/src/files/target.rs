//! Where files go: a directory that nothing leaves, under temporary names until all is verified.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use carillon_wire::file::RelativePath;
use rustix::fs::{AtFlags, FileType, statat};
use rustix::io::Errno;

use super::descent::Descent;
use super::draft::{self, Draft, WriteError};
use super::leftovers::Sweep;
use super::names::shown_path;
use super::output::Output;
use crate::LocalError;

/// A directory for received files, or one output for their contents.
#[derive(Debug)]
pub enum Target {
    /// Files below a directory.
    Directory(Box<Folder>),
    /// The contents of all files, one after the other.
    Output(Output),
}

/// A directory for received files.
#[derive(Debug)]
pub struct Folder {
    root: PathBuf,
    /// Whether files that exist are replaced.
    overwrite: bool,
    /// Whether small files can do without a temporary name, as far as is known.
    unnamed: bool,
    /// What the next temporary name is made of.
    number: u64,
    sweep: Sweep,
    /// Whether all was looked through for what an earlier transfer left.
    swept: bool,
}

/// A file that is not complete yet. Dropped, it leaves nothing.
#[derive(Debug)]
pub struct Partial(Kind);

#[derive(Debug)]
enum Kind {
    File { draft: Draft<OwnedFd>, path: PathBuf, overwrite: bool },
    Output(Output),
}

/// Where the last file of a sender went; nothing before the first.
pub type Position = Option<Descent>;

impl Target {
    /// A directory, made if it does not exist, that can be written to. What a receiver that was killed
    /// has left there is removed or named.
    pub fn directory(root: &Path, overwrite: bool) -> Result<Target, LocalError> {
        Ok(Target::open(root, overwrite)?)
    }

    fn open(root: &Path, overwrite: bool) -> anyhow::Result<Target> {
        let failed = || format!("cannot write to directory {}", shown_path(root));
        let mut number = getrandom::u64().context("the system gives no random numbers")?;
        let descent = Descent::new(root).with_context(failed)?;
        // Better now than when the transfer has begun.
        let probe = Draft::create(descent.root(), "probe", 0o600, || next(&mut number));
        let user = probe.and_then(|probe| probe.user()).with_context(failed)?;
        let mut sweep = Sweep::new(user);
        let swept = sweep.tree(descent.root(), root);
        Ok(Target::Directory(Box::new(Folder {
            root: root.to_owned(),
            overwrite,
            unnamed: !overwrite && cfg!(target_os = "linux"),
            number,
            sweep,
            swept,
        })))
    }

    /// What there is to tell of the directory, a line each.
    pub fn take_notes(&mut self) -> Vec<String> {
        match self {
            Target::Directory(folder) => folder.sweep.take_lines(),
            Target::Output(_) => Vec::new(),
        }
    }

    /// Begins a file. One that exists is refused unless it may be overwritten.
    pub(super) fn begin(
        &mut self,
        position: &mut Position,
        name: &RelativePath<'_>,
        mode: u32,
    ) -> anyhow::Result<Partial> {
        let folder = match self {
            Target::Directory(folder) => folder,
            Target::Output(output) => return Ok(Partial(Kind::Output(output.clone()))),
        };
        let (parents, file_name) = split(name);
        let directory = folder.enter(position, parents, None)?;
        let path = folder.root.join(name.as_str());
        let found = statat(directory, file_name, AtFlags::SYMLINK_NOFOLLOW);
        match found.map(|stat| FileType::from_raw_mode(stat.st_mode)) {
            Ok(FileType::Directory) => return Err(is_a_directory(&path)),
            Ok(_) if !folder.overwrite => return Err(exists(&path)),
            Ok(_) | Err(Errno::NOENT) => {}
            Err(error) => {
                return Err(io::Error::from(error))
                    .with_context(|| format!("cannot look at {}", shown_path(&path)));
            }
        }
        let directory = directory.try_clone_to_owned().with_context(|| cannot_create(&path))?;
        let draft = Draft::create(directory, file_name, mode, || next(&mut folder.number))
            .with_context(|| cannot_create(&path))?;
        Ok(Partial(Kind::File { draft, path, overwrite: folder.overwrite }))
    }

    /// Writes a file of which everything is there.
    pub(super) fn write(
        &mut self,
        position: &mut Position,
        name: &RelativePath<'_>,
        mode: u32,
        bytes: &[u8],
    ) -> anyhow::Result<()> {
        let folder = match self {
            Target::Directory(folder) => folder,
            Target::Output(output) => return output.write(bytes).and_then(|()| output.flush()),
        };
        let (parents, file_name) = split(name);
        let directory = folder.enter(position, parents, None)?;
        let path = || folder.root.join(name.as_str());
        let number = || next(&mut folder.number);
        #[cfg(target_os = "linux")]
        let unnamed =
            folder.unnamed.then(|| draft::write_unnamed(directory, file_name, mode, bytes)).flatten();
        #[cfg(not(target_os = "linux"))]
        let unnamed = None;
        folder.unnamed = unnamed.is_some();
        let written = unnamed
            .unwrap_or_else(|| draft::write(directory, file_name, mode, bytes, folder.overwrite, number));
        match written {
            Ok(()) => Ok(()),
            Err(WriteError::Name(error)) => named(Err(error), directory, file_name, &path),
            Err(WriteError::Contents(error)) => Err(error).with_context(|| cannot_write(&path())),
        }
    }

    /// Makes a directory, unless it exists. It gets its permission bits when what follows in it is
    /// there.
    pub(super) fn make_directory(
        &mut self,
        position: &mut Position,
        name: &RelativePath<'_>,
        mode: u32,
    ) -> anyhow::Result<()> {
        let Target::Directory(folder) = self else { return Ok(()) };
        folder.enter(position, name, Some(mode)).map(|_| ())
    }

    /// Makes a symbolic link. Whether it is harmless is not asked here.
    pub(super) fn make_link(
        &mut self,
        position: &mut Position,
        name: &RelativePath<'_>,
        target: &str,
    ) -> anyhow::Result<()> {
        let Target::Directory(folder) = self else { return Ok(()) };
        let (parents, file_name) = split(name);
        let directory = folder.enter(position, parents, None)?;
        let made = draft::link(directory, file_name, target, folder.overwrite, || next(&mut folder.number));
        named(made, directory, file_name, &|| folder.root.join(name.as_str()))
    }
}

impl Folder {
    fn enter<'a>(
        &mut self,
        position: &'a mut Position,
        names: &str,
        mode: Option<u32>,
    ) -> anyhow::Result<BorrowedFd<'a>> {
        let descent = match position {
            Some(descent) => descent,
            None => {
                let descent = Descent::new(&self.root);
                let failed = || format!("cannot write to directory {}", shown_path(&self.root));
                position.insert(descent.with_context(failed)?)
            }
        };
        let (sweep, swept) = (&mut self.sweep, self.swept);
        descent.enter(names, mode, &mut |directory, path| {
            if !swept {
                sweep.directory(directory, path);
            }
        })
    }
}

impl Partial {
    /// Appends bytes.
    pub fn write(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        match &mut self.0 {
            Kind::File { draft, path, .. } => draft.write(bytes).with_context(|| cannot_write(path)),
            Kind::Output(output) => output.write(bytes),
        }
    }

    /// Gives the file its name.
    pub fn commit(self) -> anyhow::Result<()> {
        let (draft, path, overwrite) = match self.0 {
            Kind::File { draft, path, overwrite } => (draft, path, overwrite),
            Kind::Output(output) => return output.flush(),
        };
        let directory = draft.directory().try_clone_to_owned().with_context(|| cannot_create(&path))?;
        let Some(file_name) = path.file_name().and_then(|name| name.to_str()) else {
            bail!("{} is no name of a file", shown_path(&path));
        };
        named(draft.name(file_name, overwrite), directory.as_fd(), file_name, &|| path.clone())
    }
}

/// Says what was in the way of a name.
fn named(
    done: io::Result<()>,
    directory: BorrowedFd<'_>,
    file_name: &str,
    path: &dyn Fn() -> PathBuf,
) -> anyhow::Result<()> {
    let Err(error) = done else { return Ok(()) };
    let found = statat(directory, file_name, AtFlags::SYMLINK_NOFOLLOW);
    match (error.kind(), found.map(|stat| FileType::from_raw_mode(stat.st_mode))) {
        (io::ErrorKind::AlreadyExists | io::ErrorKind::IsADirectory, Ok(FileType::Directory)) => {
            Err(is_a_directory(&path()))
        }
        (io::ErrorKind::AlreadyExists, _) => Err(exists(&path())),
        _ => Err(error).with_context(|| cannot_create(&path())),
    }
}

fn split<'a>(name: &RelativePath<'a>) -> (&'a str, &'a str) {
    let name = name.as_str();
    name.rsplit_once('/').unwrap_or(("", name))
}

fn is_a_directory(path: &Path) -> anyhow::Error {
    anyhow!("{} is a directory: choose another --out", shown_path(path))
}

fn exists(path: &Path) -> anyhow::Error {
    anyhow!("{} exists: give --overwrite to replace it, or another --out", shown_path(path))
}

fn cannot_create(path: &Path) -> String {
    format!("cannot create {}", shown_path(path))
}

fn cannot_write(path: &Path) -> String {
    format!("cannot write {}", shown_path(path))
}

fn next(number: &mut u64) -> u64 {
    *number = number.wrapping_add(1);
    *number
}
