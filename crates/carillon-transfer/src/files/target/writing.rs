//! Creating of entries in a directory.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::Path;

use carillon_wire::file::{RelativePath, SUBTREE_BYTES};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, fstat, openat, readlinkat, statat, unlinkat};
use rustix::io::Errno;

use super::super::draft::{self, Draft, WriteError};
use super::super::names::{below, shown_path, split};
use super::super::problem::is_unfit;
use super::super::times::Attributes;
use super::super::unstorable::Unstorable;
use super::super::written::{Written, lists};
use super::errors::{
    cannot_create, cannot_write, exists, has_no_links, is_a_directory, is_unfit_io, unnamed_because,
};
use super::in_place::{InPlace, unmark};
use super::partial::Kind;
use super::{ExistingFiles, FolderOptions, Partial, Position, Target, next};
use crate::error::{Context as _, LocalError, stated};

impl Target {
    /// Reopens the partial file of an earlier attempt; `read` receives its contents.
    pub(in crate::files) fn reopen(
        &mut self,
        position: &mut Position,
        name: &RelativePath<'_>,
        size: Option<u64>,
        part: &[u8],
        read: impl FnMut(&[u8]),
    ) -> Result<Option<Partial>, LocalError> {
        let Target::Directory(folder) = self else { return Ok(None) };
        let (parents, _) = split(name);
        let (above, part) = split(part);
        if above != parents {
            return Ok(None);
        }
        let directory = folder.enter(position, parents, None)?;
        let path = below(&folder.root, name);
        let directory = directory.try_clone_to_owned().with_context(|| cannot_create(&path))?;
        let Ok(mut draft) = Draft::reopen(directory, part, read) else { return Ok(None) };
        draft.grow_to(size).with_context(|| cannot_write(&path))?;
        draft.sync_often(folder.options.syncs);
        Ok(Some(Partial(Kind::File { draft, path, overwrite: folder.options.overwrites() })))
    }

    /// Opens an existing file of this name and size.
    pub(in crate::files) fn existing(
        &mut self,
        position: &mut Position,
        name: &RelativePath<'_>,
        size: u64,
    ) -> Result<Option<File>, LocalError> {
        let Target::Directory(folder) = self else { return Ok(None) };
        let (parents, file_name) = split(name);
        let directory = folder.enter(position, parents, None)?;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let Ok(file) = openat(directory, file_name, flags, Mode::empty()).map(File::from) else {
            return Ok(None);
        };
        if !file.metadata().is_ok_and(|found| found.is_file() && found.len() == size) {
            return Ok(None);
        }
        let stat = fstat(&file).map_err(io::Error::from)?;
        if let Some(other) = folder.written.alias(directory, name, &stat) {
            return Err(Unstorable::alias(&other).into());
        }
        folder.written.note(name, &stat);
        Ok(Some(file))
    }

    /// Begins a file with an expected size. An existing file is refused unless it may be replaced.
    pub(in crate::files) fn begin(
        &mut self,
        position: &mut Position,
        name: &RelativePath<'_>,
        size: Option<u64>,
        mode: u32,
    ) -> Result<Partial, LocalError> {
        let folder = match self {
            Target::Directory(folder) => folder,
            Target::Output(output) => return Ok(Partial(Kind::Output(output.clone()))),
            Target::Device(device) => {
                return Ok(Partial(Kind::Device(Box::new(device.begin(name, size)?))));
            }
        };
        let (parents, file_name) = split(name);
        let directory = folder.enter(position, parents, None)?;
        let path = below(&folder.root, name);
        let found = statat(directory, file_name, AtFlags::SYMLINK_NOFOLLOW);
        if let Ok(stat) = &found
            && let Some(other) = folder.written.alias(directory, name, stat)
        {
            return Err(Unstorable::alias(&other).into());
        }
        match found.as_ref().map(|stat| FileType::from_raw_mode(stat.st_mode)) {
            Ok(FileType::Directory) if folder.replaced.contains(name.as_bytes()) => {}
            Ok(FileType::Directory) => return Err(is_a_directory(&path)),
            Ok(_) if !folder.options.overwrites() => return Err(exists(&path)),
            Ok(_) | Err(&Errno::NOENT) => {}
            Err(&error) if is_unfit(error, directory) => return Err(Unstorable::unfit(error).into()),
            Err(&error) => {
                return Err(io::Error::from(error))
                    .with_context(|| format!("cannot look at {}", shown_path(&path)));
            }
        }
        if let Ok(found) = found
            && let Some(partial) = open_in_place(&folder.options, directory, file_name, &found, size, &path)?
        {
            folder.in_place.insert(name.as_bytes().to_owned());
            return Ok(partial);
        }
        let owned = directory.try_clone_to_owned().with_context(|| cannot_create(&path))?;
        let mut draft = match Draft::create(owned, file_name, mode, || next(&mut folder.number)) {
            Err(error) if is_unfit_io(&error, directory) => return Err(Unstorable::unfit(error).into()),
            draft => draft.with_context(|| cannot_create(&path))?,
        };
        draft.grow_to(size).with_context(|| cannot_write(&path))?;
        draft.sync_often(folder.options.syncs);
        Ok(Partial(Kind::File { draft, path, overwrite: folder.options.overwrites() }))
    }

    /// Writes a complete file with these permission bits and modification time.
    pub(in crate::files) fn write(
        &mut self,
        position: &mut Position,
        name: &RelativePath<'_>,
        attributes: Attributes,
        bytes: &[u8],
    ) -> Result<(), LocalError> {
        let folder = match self {
            Target::Directory(folder) => folder,
            Target::Output(output) => return output.write(bytes).and_then(|()| output.flush()),
            Target::Device(device) => {
                let mut writer = device.begin(name, Some(bytes.len() as u64))?;
                return writer.write(bytes).and_then(|()| writer.finish());
            }
        };
        let (parents, file_name) = split(name);
        let directory = folder.enter(position, parents, None)?;
        let path = || below(&folder.root, name);
        if folder.options.overwrites() {
            folder.written.check(directory, name)?;
        }
        let number = || next(&mut folder.number);
        #[cfg(target_os = "linux")]
        let unnamed =
            folder.unnamed.then(|| draft::write_unnamed(directory, file_name, attributes, bytes)).flatten();
        #[cfg(not(target_os = "linux"))]
        let unnamed = None;
        folder.unnamed = unnamed.is_some();
        let written = unnamed.unwrap_or_else(|| {
            draft::write(directory, file_name, attributes, bytes, folder.options.overwrites(), number)
        });
        match written {
            Ok(stat) => folder.written.made(directory, name, &stat),
            Err(WriteError::Name(error)) => {
                Err(unnamed_because(error, directory, name, &folder.written, &path))
            }
            Err(WriteError::Contents(error)) => Err(error).with_context(|| cannot_write(&path())),
        }
    }

    /// Writes a complete file of a plain session, which has no attributes.
    pub(crate) fn write_plain(
        &mut self,
        position: &mut Position,
        name: &RelativePath<'_>,
        bytes: &[u8],
    ) -> Result<(), LocalError> {
        self.write(position, name, Attributes { mode: 0o666, modified: None }, bytes)
    }

    /// Creates a directory unless it exists. Permission bits (of a created one) and modification time are set after
    /// its contents are complete.
    pub(in crate::files) fn make_directory(
        &mut self,
        position: &mut Position,
        name: &RelativePath<'_>,
        attributes: Attributes,
    ) -> Result<(), LocalError> {
        match self {
            Target::Directory(folder) => folder.enter(position, name, Some(attributes)).map(|_| ()),
            Target::Device(device) => device.refuse(name, "directory"),
            Target::Output(_) => Ok(()),
        }
    }

    /// Creates a symbolic link; `again` permits an existing equal one. The caller has checked its target.
    pub(in crate::files) fn make_link(
        &mut self,
        position: &mut Position,
        name: &RelativePath<'_>,
        target: &[u8],
        again: bool,
    ) -> Result<(), LocalError> {
        let folder = match self {
            Target::Directory(folder) => folder,
            Target::Device(device) => return device.refuse(name, "symbolic link"),
            Target::Output(_) => return Ok(()),
        };
        let (parents, file_name) = split(name);
        let directory = folder.enter(position, parents, None)?;
        let found = || readlinkat(directory, file_name, Vec::new()).is_ok_and(|at| at.as_bytes() == target);
        if again && found() {
            return Ok(());
        }
        if folder.options.overwrites() {
            folder.written.check(directory, name)?;
        }
        match draft::link(directory, file_name, target, folder.options.overwrites(), || {
            next(&mut folder.number)
        }) {
            Ok(()) => {
                let stat =
                    statat(directory, file_name, AtFlags::SYMLINK_NOFOLLOW).map_err(io::Error::from)?;
                folder.written.made(directory, name, &stat)
            }
            Err(error) if has_no_links(&error) => Err(Unstorable::link(error).into()),
            Err(error) => {
                let path = || below(&folder.root, name);
                Err(unnamed_because(error, directory, name, &folder.written, &path))
            }
        }
    }

    /// Gives a complete file its final name and modification time.
    pub(in crate::files) fn commit(
        &mut self,
        partial: Partial,
        name: &RelativePath<'_>,
        attributes: Attributes,
    ) -> Result<(), LocalError> {
        let (draft, path, overwrite) = match partial.0 {
            Kind::File { draft, path, overwrite } => (draft, path, overwrite),
            Kind::InPlace { file, path } => {
                let Target::Directory(folder) = self else { return Ok(()) };
                let stat = file.finish(attributes, folder.permitted).with_context(|| cannot_write(&path))?;
                folder.in_place.remove(name.as_bytes());
                folder.written.note(name, &stat);
                return Ok(());
            }
            Kind::Output(output) => return output.flush(),
            Kind::Device(device) => return device.finish(),
        };
        let Target::Directory(folder) = self else {
            return Err(stated!("{} has no directory", shown_path(&path)));
        };
        let directory = draft.directory().try_clone_to_owned().with_context(|| cannot_create(&path))?;
        let directory = directory.as_fd();
        if overwrite {
            folder.written.check(directory, name)?;
        }
        match draft.name(split(name).1, attributes.modified, overwrite) {
            Ok(stat) => {
                // If the file that it replaces was partly changed, the marker says nothing any more.
                if overwrite {
                    let _ = unmark(directory, split(name).1);
                }
                folder.written.made(directory, name, &stat)
            }
            Err(error) => Err(unnamed_because(error, directory, name, &folder.written, &|| path.clone())),
        }
    }
}

/// Opens an existing file to be changed in place, if it is fit for that and the new version is large too.
fn open_in_place(
    options: &FolderOptions,
    directory: BorrowedFd<'_>,
    name: &[u8],
    found: &Stat,
    size: Option<u64>,
    path: &Path,
) -> Result<Option<Partial>, LocalError> {
    if options.existing != ExistingFiles::ChangedInPlace || size.is_none_or(|size| size < SUBTREE_BYTES) {
        return Ok(None);
    }
    let opened = InPlace::open(directory, name, found).map_err(Unstorable::not_in_place)?;
    Ok(opened.map(|mut file| {
        file.sync_often(options.syncs);
        Partial(Kind::InPlace { file: Box::new(file), path: path.to_owned() })
    }))
}

impl Written {
    /// Refuses a path with a name that leads to another entry of the transfer.
    fn check(&self, directory: BorrowedFd<'_>, path: &[u8]) -> Result<(), LocalError> {
        let Ok(found) = statat(directory, split(path).1, AtFlags::SYMLINK_NOFOLLOW) else { return Ok(()) };
        match self.alias(directory, path, &found) {
            Some(other) => Err(Unstorable::alias(&other).into()),
            None => Ok(()),
        }
    }

    /// Records a created entry, unless the file system has changed its name.
    fn made(&mut self, directory: BorrowedFd<'_>, path: &[u8], stat: &Stat) -> Result<(), LocalError> {
        let (_, name) = split(path);
        // FAT omits trailing dots and spaces.
        if (name.ends_with(b".") || name.ends_with(b" ")) && !lists(directory, name) {
            let _ = unlinkat(directory, name, AtFlags::empty());
            return Err(Unstorable::renamed().into());
        }
        self.note(path, stat);
        Ok(())
    }
}
