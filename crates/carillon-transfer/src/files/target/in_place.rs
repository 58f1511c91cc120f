//! A large file that is changed in place, and the marker beside it while it is neither the old nor the new version.
//!
//! The receiver normally writes a new file beside the old one and renames it, so that a name always leads to a complete
//! version. That takes the room of both. A file that is changed in place takes the room of one, and has no complete
//! version meanwhile. A marker beside it therefore says so from the first changed byte on, also after a power failure:
//! it is on the disk before that byte is written, and removed only when all bytes are on the disk.
//!
//! Only pieces that differ are written ([`ComparingWriter`]).

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt as _;

use carillon_wire::file::SUBTREE_BYTES;
use rustix::fs::{
    AtFlags, FileType, FlockOperation, Mode, OFlags, Stat, fchmod, flock, fstat, fsync, openat, statat,
    unlinkat,
};
use rustix::io::Errno;

use super::super::names::{is_part_name_with_suffix, part_name_with_suffix};
use super::super::times::{self, Attributes};
use super::comparing::ComparingWriter;

/// A file that is changed in place.
#[derive(Debug)]
pub struct InPlace {
    writer: ComparingWriter,
    directory: OwnedFd,
    name: Vec<u8>,
    /// True once the marker is on the disk.
    is_marked: bool,
}

impl InPlace {
    /// Opens a file, if it is fit for it: a regular file of at least one subtree, with a single name and without bits
    /// that give rights. `Ok(None)` for others, which are replaced as usual.
    pub fn open(directory: BorrowedFd<'_>, name: &[u8], found: &Stat) -> io::Result<Option<Self>> {
        if !is_fit(found) {
            return Ok(None);
        }
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(openat(directory, name, flags, Mode::empty())?);
        // Other errors mean a file system without locks.
        if flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
            return Err(io::Error::new(io::ErrorKind::WouldBlock, "another program has locked it"));
        }
        // It may be another one by now.
        let opened = fstat(&file)?;
        if !is_fit(&opened) {
            return Ok(None);
        }
        let is_marked = is_marked(directory, name, &opened);
        let directory = directory.try_clone_to_owned()?;
        let writer = ComparingWriter::new(file, opened.st_size as u64);
        Ok(Some(InPlace { writer, directory, name: name.to_owned(), is_marked }))
    }

    /// Writes the file to the disk from time to time, so that little is left to do at the end.
    pub fn sync_often(&mut self, syncs: bool) {
        self.writer.sync_often(syncs);
    }

    /// Puts the next bytes into the file, where they differ.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let InPlace { writer, directory, name, is_marked } = self;
        writer.write(bytes, |file| mark(file, directory, name, is_marked))
    }

    /// Puts zeros into the file.
    pub fn go_over(&mut self, len: u64) -> io::Result<()> {
        let InPlace { writer, directory, name, is_marked } = self;
        writer.go_over(len, |file| mark(file, directory, name, is_marked))
    }

    /// Gives the verified file its size, permission bits and modification time, and removes the marker when everything
    /// is on the disk. Returns the metadata of the file.
    pub fn finish(mut self, attributes: Attributes, permitted: u32) -> io::Result<Stat> {
        let InPlace { writer, directory, name, is_marked } = &mut self;
        writer.cut(|file| mark(file, directory, name, is_marked))?;
        let file = writer.file();
        let mode = attributes.mode & permitted;
        if fstat(file)?.st_mode as u32 & 0o777 != mode {
            // The file of another user keeps its bits. The contents are intact.
            let _ = fchmod(file, Mode::from_raw_mode(mode as _));
        }
        if *is_marked {
            file.sync_all()?;
        }
        // Without the marker, the time tells that the file is complete.
        times::set(file.as_fd(), attributes.modified);
        if *is_marked {
            unmark(directory.as_fd(), name)?;
        }
        Ok(fstat(file)?)
    }

    /// Returns true if the file is neither its old nor its new version.
    pub fn is_marked(&self) -> bool {
        self.is_marked
    }
}

/// Puts the marker on the disk, once.
fn mark(file: &File, directory: &OwnedFd, name: &[u8], is_marked: &mut bool) -> io::Result<()> {
    if *is_marked {
        return Ok(());
    }
    let inode = fstat(file)?.st_ino;
    // What stands there says nothing any more, or is not of this program.
    unmark(directory.as_fd(), name)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = File::from(openat(directory, marker_name(name), flags, Mode::from_raw_mode(0o600))?);
    file.write_all(&[MAGIC, inode.to_string().as_bytes(), b"\n", name].concat())?;
    file.sync_all()?;
    // Some file systems cannot write a directory by itself.
    let _ = fsync(directory);
    *is_marked = true;
    Ok(())
}

fn is_fit(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
        && stat.st_nlink == 1
        && !Mode::from_raw_mode(stat.st_mode).intersects(Mode::SUID | Mode::SGID)
        && stat.st_size as u64 >= SUBTREE_BYTES
}

/// Returns true if a marker says that this file is partly changed. A marker of a file that was replaced since says
/// nothing.
pub fn is_marked(directory: BorrowedFd<'_>, name: &[u8], found: &Stat) -> bool {
    read_marker(directory, marker_name(name).as_bytes())
        .is_some_and(|(inode, of)| of == name && inode == found.st_ino)
}

/// Removes the marker of a file.
pub fn unmark(directory: BorrowedFd<'_>, name: &[u8]) -> io::Result<()> {
    match unlinkat(directory, marker_name(name), AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// A file that a marker belongs to.
pub enum Marked {
    /// The file is partly changed.
    Partly(Vec<u8>),
    /// Another process changes it now.
    Changing,
    /// The file was removed or replaced since.
    Replaced,
}

/// File that this marker belongs to; `None` if it is no marker.
pub fn marked_file(directory: BorrowedFd<'_>, marker: &[u8]) -> Option<Marked> {
    if !is_part_name_with_suffix(marker, SUFFIX) {
        return None;
    }
    let Some((inode, name)) = read_marker(directory, marker) else { return Some(Marked::Replaced) };
    let found = statat(directory, name.as_slice(), AtFlags::SYMLINK_NOFOLLOW);
    let is_same = found.is_ok_and(|found| {
        found.st_ino == inode && FileType::from_raw_mode(found.st_mode) == FileType::RegularFile
    });
    if !is_same || marker_name(&name).as_bytes() != marker {
        return Some(Marked::Replaced);
    }
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = openat(directory, name.as_slice(), flags, Mode::empty());
    let lock = file.map(|file| flock(&file, FlockOperation::NonBlockingLockShared));
    Some(match lock {
        Ok(Err(Errno::WOULDBLOCK)) => Marked::Changing,
        _ => Marked::Partly(name),
    })
}

/// Inode number and file name in a marker.
fn read_marker(directory: BorrowedFd<'_>, marker: &[u8]) -> Option<(u64, Vec<u8>)> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(openat(directory, marker, flags, Mode::empty()).ok()?);
    let mut bytes = vec![0; MAX_MARKER_BYTES];
    let len = file.metadata().ok().filter(|found| found.is_file() && found.len() < bytes.len() as u64)?.len();
    bytes.truncate(len as usize);
    file.read_exact_at(&mut bytes, 0).ok()?;
    let rest = bytes.strip_prefix(MAGIC)?;
    let end = rest.iter().position(|&byte| byte == b'\n')?;
    let inode = std::str::from_utf8(&rest[..end]).ok()?.parse().ok()?;
    let name = &rest[end + 1..];
    (!name.is_empty() && !name.contains(&b'/')).then(|| (inode, name.to_owned()))
}

fn marker_name(name: &[u8]) -> String {
    let hash = blake3::hash(name);
    let number = hash.as_bytes().iter().take(8).fold(0, |all, &byte| all << 8 | u64::from(byte));
    part_name_with_suffix(name, SUFFIX, number)
}

/// End of the file name in the name of a marker.
const SUFFIX: &str = ".changing";
const MAGIC: &[u8] =
    b"This file is partly changed: neither its old nor its new version. See recv --inplace.\n";
/// Maximum bytes of a marker.
const MAX_MARKER_BYTES: usize = 1024;
