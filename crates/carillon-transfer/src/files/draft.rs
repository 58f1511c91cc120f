//! Files that are not complete yet, and how they get their names.

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

/// A file under a temporary name in the directory where it belongs. Dropped, it leaves nothing.
#[derive(Debug)]
pub struct Draft<D: AsFd> {
    file: File,
    directory: D,
    part: Vec<u8>,
    named: bool,
    /// It stays when it is dropped: a journal leads to it.
    kept: bool,
    reserve: Reserve,
}

impl<D: AsFd> Draft<D> {
    /// Creates one for a file of this name; `number` gives numbers that differ. It is locked as long
    /// as it is open, so that nobody takes it for one that was left behind.
    pub fn create(directory: D, name: &[u8], mode: u32, mut number: impl FnMut() -> u64) -> io::Result<Self> {
        for _ in 0..MAX_NAME_ATTEMPTS {
            let part = part_name(name, number()).into_bytes();
            let file = match open(&directory, &part, mode) {
                Ok(file) => file,
                Err(Errno::EXIST) => continue,
                Err(error) => return Err(error.into()),
            };
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                // Somebody who clears up may have been faster.
                Ok(()) if fstat(&file)?.st_nlink == 0 => continue,
                Err(Errno::WOULDBLOCK) => continue,
                // Where there are no locks, nothing is cleared up either.
                Ok(()) | Err(_) => {}
            }
            return Ok(Draft {
                file,
                directory,
                part,
                named: false,
                kept: false,
                reserve: Reserve::default(),
            });
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Goes on with one that was kept, and gives all of its bytes to `read`.
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
        Ok(Draft { file, directory, part, named: false, kept: true, reserve: Reserve::default() })
    }

    /// It will be so long, if that is known.
    pub fn grow_to(&mut self, size: Option<u64>) -> io::Result<()> {
        self.reserve = Reserve::new(self.file.stream_position()?, size);
        Ok(())
    }

    /// Lets it stay when it is dropped.
    pub fn keep(&mut self) {
        self.kept = true;
    }

    /// Leaves nothing.
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
        self.file.write_all(bytes)
    }

    /// Leaves so many bytes of it. Nothing is appended to it any more.
    pub fn cut(&mut self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    /// Appends so many zeros that take no room, where the file system can do without.
    pub fn go_over(&mut self, len: u64) -> io::Result<()> {
        let end = self.file.stream_position()? + len;
        self.file.set_len(end)?;
        self.reserve.go_over(&self.file, len);
        self.file.seek(io::SeekFrom::Start(end)).map(|_| ())
    }

    /// The user whose file it is.
    pub fn user(&self) -> io::Result<u32> {
        Ok(fstat(&self.file)?.st_uid)
    }

    /// The directory where it belongs.
    pub fn directory(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }

    /// Gives it this name, and a time of modification if there is one. A file that has the name is only replaced if that is
    /// permitted. Returns what the system says of the file.
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
            // It is named when the next one looks for what was left behind.
            let _ = unlinkat(&self.directory, &self.part, AtFlags::empty());
        }
    }
}

/// Writes a file of which everything is there: under a temporary name too, but so shortly that it
/// needs no lock. If somebody takes it for one that was left behind, it is written again.
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
        let mut draft = Draft { file, directory, part, named: false, kept: false, reserve };
        draft.write(bytes).map_err(WriteError::Contents)?;
        match draft.name(name, modified, replace) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            named => return named.map_err(WriteError::Name),
        }
    }
    Err(WriteError::Name(io::ErrorKind::NotFound.into()))
}

/// Writes a file of which everything is there, and which has no name at all before its own: that takes the fewest
/// calls, and nothing is left behind whatever happens. `None` if it cannot be done here: the file system has no such
/// files, this system gives them names to some users only, or something else was in the way.
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

/// What went wrong with [`write()`].
#[derive(Debug)]
pub enum WriteError {
    /// It could not be created, or given its name.
    Name(io::Error),
    /// Its bytes could not be written.
    Contents(io::Error),
}

fn open(directory: impl AsFd, part: &[u8], mode: u32) -> Result<File, Errno> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(directory, part, flags, Mode::from_raw_mode(mode as _)).map(File::from)
}

/// Makes a symbolic link.
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
        // What went wrong before is what is told.
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
            // This file system cannot; a second name it may be able to give.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {}
            done => return Ok(done?),
        }
    }
    match linkat(directory, from, directory, to, AtFlags::empty()) {
        // Nor can it give a second name, as FAT and many file systems in user space.
        Err(Errno::PERM | Errno::NOSYS | Errno::NOTSUP | Errno::INVAL) => take_place(directory, from, to),
        Err(error) => Err(error.into()),
        Ok(()) => Ok(unlinkat(directory, from, AtFlags::empty())?),
    }
}

/// Gives a file a name that no other has, where the file system can only rename: takes the name with an empty file, which
/// fails if it exists, and then replaces that.
fn take_place(directory: BorrowedFd<'_>, from: &[u8], to: &[u8]) -> io::Result<()> {
    drop(open(directory, to, 0o600)?);
    let renamed = renameat(directory, from, directory, to);
    if renamed.is_err() {
        // What went wrong before is what is told.
        let _ = unlinkat(directory, to, AtFlags::empty());
    }
    Ok(renamed?)
}

const MAX_NAME_ATTEMPTS: usize = 16;
/// Bytes read at a time.
const READ_BYTES: usize = 256 << 10;
