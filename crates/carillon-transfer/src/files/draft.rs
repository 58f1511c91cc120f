//! Temporary files and their final names.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{
    AtFlags, FlockOperation, Mode, OFlags, Stat, flock, fstat, linkat, openat, renameat, symlinkat, unlinkat,
};
use rustix::io::Errno;

use super::holes::{self, Holes};
use super::message_buffer::Scratch;
use super::names::part_name;
use super::reserve::Reserve;
use super::times::{self, Attributes};

/// A file under a temporary name in its final directory. Dropping it removes the file.
#[derive(Debug)]
pub struct Draft<D: AsFd> {
    file: File,
    directory: D,
    part: Vec<u8>,
    named: bool,
    /// True if a journal refers to the file, which then stays after the drop.
    kept: bool,
    reserve: Reserve,
    /// Bytes that may be in memory only, if the file is written to the disk meanwhile.
    unsynced: Option<u64>,
}

impl<D: AsFd> Draft<D> {
    /// Creates a temporary file for this name; `number` returns differing numbers. The file is locked while it is
    /// open, so that no other process takes it for a leftover.
    pub fn create(directory: D, name: &[u8], mode: u32, mut number: impl FnMut() -> u64) -> io::Result<Self> {
        for _ in 0..MAX_NAME_ATTEMPTS {
            let part = part_name(name, number()).into_bytes();
            let file = match open(&directory, &part, mode) {
                Ok(file) => file,
                Err(Errno::EXIST) => continue,
                Err(error) => return Err(error.into()),
            };
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                // Another process may have removed it as a leftover.
                Ok(()) if fstat(&file)?.st_nlink == 0 => continue,
                Err(Errno::WOULDBLOCK) => continue,
                // File systems without locks are not swept for leftovers.
                Ok(()) | Err(_) => {}
            }
            return Ok(Draft {
                file,
                directory,
                part,
                named: false,
                kept: false,
                reserve: Reserve::default(),
                unsynced: None,
            });
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Reopens a kept file and passes all its bytes to `read`.
    pub fn reopen(directory: D, part: &[u8], mut read: impl FnMut(&[u8])) -> io::Result<Self> {
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let mut file = openat(&directory, part, flags, Mode::empty()).map(File::from)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        let mut buffer = Scratch::new(READ_BYTES);
        let metadata = file.metadata()?;
        let (mut holes, mut at) = (Holes::of(&metadata), 0);
        loop {
            holes::zeros(holes.at(&file, at, metadata.len())?).for_each(&mut read);
            match file.read(&mut buffer)? {
                0 => break,
                len => read(&buffer[..len]),
            }
            at = file.stream_position()?;
        }
        let part = part.to_owned();
        Ok(Draft {
            file,
            directory,
            part,
            named: false,
            kept: true,
            reserve: Reserve::default(),
            unsynced: None,
        })
    }

    /// Reserves space for this size, if known.
    pub fn grow_to(&mut self, size: Option<u64>) -> io::Result<()> {
        self.reserve = Reserve::new(self.file.stream_position()?, size);
        Ok(())
    }

    /// Writes the file to the disk from time to time, so that little is left to do at the end.
    pub fn sync_often(&mut self, syncs: bool) {
        self.unsynced = syncs.then_some(0);
    }

    /// Keeps the file after the drop.
    pub fn keep(&mut self) {
        self.kept = true;
    }

    /// Removes the file.
    pub fn discard(mut self) {
        self.kept = false;
    }

    /// Its temporary name.
    pub fn part(&self) -> &[u8] {
        &self.part
    }

    /// Appends bytes.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.reserve.write(&self.file, bytes.len() as u64);
        self.file.write_all(bytes)?;
        let Some(unsynced) = &mut self.unsynced else { return Ok(()) };
        *unsynced += bytes.len() as u64;
        if *unsynced >= SYNC_BYTES {
            *unsynced = 0;
            self.file.sync_data()?;
        }
        Ok(())
    }

    /// Truncates the file to this length. Nothing is appended afterwards.
    pub fn cut(&mut self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    /// Appends zeros as a hole, where the file system supports holes.
    pub fn go_over(&mut self, len: u64) -> io::Result<()> {
        let end = self.file.stream_position()? + len;
        self.file.set_len(end)?;
        self.reserve.go_over(&self.file, len);
        self.file.seek(io::SeekFrom::Start(end)).map(|_| ())
    }

    /// Owner of the file.
    pub fn user(&self) -> io::Result<u32> {
        Ok(fstat(&self.file)?.st_uid)
    }

    /// Permission bits of the file.
    pub fn mode(&self) -> io::Result<u32> {
        Ok(fstat(&self.file)?.st_mode as u32 & 0o777)
    }

    /// Directory of the file.
    pub fn directory(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }

    /// Renames the file and sets its modification time, if given. An existing file is replaced only if `replace` is
    /// set. Returns the metadata of the file.
    pub fn name(mut self, name: &[u8], modified: Option<i64>, replace: bool) -> io::Result<Stat> {
        times::set(self.file.as_fd(), modified);
        let stat = fstat(&self.file)?;
        rename(self.directory.as_fd(), &self.part, name, replace)?;
        self.named = true;
        Ok(stat)
    }
}

impl<D: AsFd> Drop for Draft<D> {
    fn drop(&mut self) {
        if !self.named && !self.kept {
            // The file has its final name before its lock is released, so no sweep removes it.
            let _ = unlinkat(&self.directory, &self.part, AtFlags::empty());
        }
    }
}

/// Writes a complete file under a temporary name, without a lock as it exists only briefly. If another process
/// removes it as a leftover, it is written again.
pub fn write(
    directory: BorrowedFd<'_>,
    name: &[u8],
    Attributes { mode, modified }: Attributes,
    bytes: &[u8],
    replace: bool,
    mut number: impl FnMut() -> u64,
) -> Result<Stat, WriteError> {
    for _ in 0..MAX_NAME_ATTEMPTS {
        let part = part_name(name, number()).into_bytes();
        let file = match open(directory, &part, mode) {
            Ok(file) => file,
            Err(Errno::EXIST) => continue,
            Err(error) => return Err(WriteError::Name(error.into())),
        };
        let reserve = Reserve::default();
        let mut draft = Draft { file, directory, part, named: false, kept: false, reserve, unsynced: None };
        draft.write(bytes).map_err(WriteError::Contents)?;
        match draft.name(name, modified, replace) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            named => return named.map_err(WriteError::Name),
        }
    }
    Err(WriteError::Name(io::ErrorKind::NotFound.into()))
}

/// Writes a complete file that has no name before its final one (`O_TMPFILE`). That takes the fewest system calls and
/// never leaves a file behind. Returns `None` where the file system or the system does not support it.
#[cfg(target_os = "linux")]
pub fn write_unnamed(
    directory: BorrowedFd<'_>,
    name: &[u8],
    Attributes { mode, modified }: Attributes,
    bytes: &[u8],
) -> Option<Result<Stat, WriteError>> {
    let flags = OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC;
    let mut file = openat(directory, ".", flags, Mode::from_raw_mode(mode as _)).map(File::from).ok()?;
    if let Err(error) = file.write_all(bytes) {
        return Some(Err(WriteError::Contents(error)));
    }
    times::set(file.as_fd(), modified);
    let stat = fstat(&file).ok()?;
    match linkat(&file, "", directory, name, AtFlags::EMPTY_PATH) {
        Ok(()) => Some(Ok(stat)),
        Err(Errno::EXIST) => Some(Err(WriteError::Name(Errno::EXIST.into()))),
        Err(_) => None,
    }
}

/// Error of [`write()`].
#[derive(Debug)]
pub enum WriteError {
    /// The file could not be created or named.
    Name(io::Error),
    /// Its bytes could not be written.
    Contents(io::Error),
}

fn open(directory: impl AsFd, part: &[u8], mode: u32) -> Result<File, Errno> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(directory, part, flags, Mode::from_raw_mode(mode as _)).map(File::from)
}

/// Creates a symbolic link.
pub fn link(
    directory: BorrowedFd<'_>,
    name: &[u8],
    target: &[u8],
    replace: bool,
    mut number: impl FnMut() -> u64,
) -> io::Result<()> {
    match symlinkat(target, directory, name) {
        Err(Errno::EXIST) if replace => {}
        done => return Ok(done?),
    }
    let part = part_name(name, number()).into_bytes();
    symlinkat(target, directory, &part)?;
    let renamed = renameat(directory, &part, directory, name);
    if renamed.is_err() {
        // The first error is reported.
        let _ = unlinkat(directory, &part, AtFlags::empty());
    }
    Ok(renamed?)
}

fn rename(directory: BorrowedFd<'_>, from: &[u8], to: &[u8], replace: bool) -> io::Result<()> {
    if replace {
        return Ok(renameat(directory, from, directory, to)?);
    }
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{RenameFlags, renameat_with};
        match renameat_with(directory, from, directory, to, RenameFlags::NOREPLACE) {
            // This file system cannot rename without replacement; it may support hard links.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {}
            done => return Ok(done?),
        }
    }
    match linkat(directory, from, directory, to, AtFlags::empty()) {
        // It supports no hard links either, as FAT and many user-space file systems.
        Err(Errno::PERM | Errno::NOSYS | Errno::NOTSUP | Errno::INVAL) => take_place(directory, from, to),
        Err(error) => Err(error.into()),
        Ok(()) => Ok(unlinkat(directory, from, AtFlags::empty())?),
    }
}

/// Renames without replacement on file systems that can only rename: creates an empty file of that name, which fails
/// if one exists, and replaces it.
fn take_place(directory: BorrowedFd<'_>, from: &[u8], to: &[u8]) -> io::Result<()> {
    drop(open(directory, to, 0o600)?);
    let renamed = renameat(directory, from, directory, to);
    if renamed.is_err() {
        // The first error is reported.
        let _ = unlinkat(directory, to, AtFlags::empty());
    }
    Ok(renamed?)
}

const MAX_NAME_ATTEMPTS: usize = 16;
/// Bytes read at a time.
const READ_BYTES: usize = 256 << 10;
/// Bytes after which a file is written to the disk, if it is to be there at the end.
const SYNC_BYTES: u64 = 128 << 20;
