//! A file that is being sent: read and hashed piece by piece, and checked for changes.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read as _, Seek as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::SystemTime;

use carillon_core::{Duration, Time};
use carillon_wire::file::SUBTREE_BYTES;
use rustix::fs::OFlags;

use super::holes::{self, Holes};
use super::message_buffer::MessageBuffer;
use super::tree::Tree;

/// Reader of one file after the other.
#[derive(Debug)]
pub struct Contents {
    input: Input,
    tree: Box<Tree>,
    /// Bytes that were read and hashed and not offered yet.
    ready: MessageBuffer,
    offset: u64,
    /// Number of pieces taken from the current buffer.
    pieces: u32,
    at_end: bool,
    /// Time since which less than a piece of a stream is available.
    short_since: Option<Time>,
}

#[derive(Debug)]
enum Input {
    Nothing,
    File(Opened),
    /// A small file that was read at once.
    Whole {
        stamp: Stamp,
        follow: bool,
        digest: blake3::Hash,
    },
    Stream(Receiver<io::Result<Vec<u8>>>),
}

/// An open file, with its metadata at the time of opening.
#[derive(Debug)]
pub struct Opened {
    file: File,
    follow: bool,
    stamp: Stamp,
    holes: Holes,
}

/// Metadata that identify a file and its version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
    is_device: bool,
}

/// Result of [`Contents::fill`].
#[derive(Debug)]
pub enum Filled {
    /// A piece, the rest before a pause of a stream, or the end is ready.
    Ready,
    /// A stream has no data at the moment.
    NotYet,
    /// The file has changed since it was opened.
    Changed,
    /// The file cannot be read.
    Unreadable(io::Error),
}

impl Opened {
    /// Opens a regular file, or a block device if one was listed. A symbolic link in its place is followed only if
    /// `follow` is set.
    pub fn open(path: &Path, follow: bool, is_device: bool) -> io::Result<Opened> {
        let mut file = open(path, follow)?;
        let metadata = file.metadata()?;
        let mut stamp = Stamp::of(&metadata);
        match is_device {
            true if !stamp.is_device => {
                return Err(io::Error::other("it was replaced by something other than a block device"));
            }
            true => stamp.size = size_by_seek(&mut file)?,
            false if !metadata.is_file() => {
                return Err(io::Error::other("it was replaced by something other than a regular file"));
            }
            false => {}
        }
        Ok(Opened { file, follow, stamp, holes: Holes::of(&metadata) })
    }

    /// Metadata at the time of opening.
    pub fn stamp(&self) -> Stamp {
        self.stamp
    }

    /// The file.
    pub fn into_file(self) -> File {
        self.file
    }

    /// Returns true if the last change was so recent that another change might leave the same time stamp, as clocks
    /// of file systems tick slowly.
    pub fn is_fresh(&self) -> bool {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.stamp.is_fresh(now)
    }

    /// Time until the file is not fresh any longer. A file that is still fresh then changes continuously.
    pub fn patience(&self) -> Duration {
        self.stamp.tick() * STAMP_SETTLE_TICKS
    }

    /// Number of bytes from this position on that are a hole. A caller that skips part of them asks again before
    /// reading.
    fn hole(&mut self, at: u64) -> io::Result<u64> {
        self.holes.at(&self.file, at, self.stamp.size)
    }

    /// Returns true if the open file is unchanged.
    fn is_same(&self) -> io::Result<bool> {
        Ok(self.stamp.fits(&self.file.metadata()?))
    }
}

/// Size of a device, as its metadata contain 0.
fn size_by_seek(file: &mut File) -> io::Result<u64> {
    let size = file.seek(io::SeekFrom::End(0))?;
    file.rewind()?;
    Ok(size)
}

fn open(path: &Path, follow: bool) -> io::Result<File> {
    let nofollow = if follow { OFlags::empty() } else { OFlags::NOFOLLOW };
    // Opening a pipe in place of the file must not block.
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY | nofollow;
    OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path)
}

impl Stamp {
    /// Extracts the stamp from metadata.
    pub fn of(metadata: &Metadata) -> Stamp {
        Stamp {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
            is_device: metadata.file_type().is_block_device(),
        }
    }

    /// Returns true for a block device.
    pub fn is_device(&self) -> bool {
        self.is_device
    }

    /// Returns true if the metadata are those of the same unchanged file. The size of a device is not compared.
    fn fits(&self, metadata: &Metadata) -> bool {
        let found = Stamp::of(metadata);
        let size = if found.is_device { self.size } else { found.size };
        Stamp { size, ..found } == *self
    }

    /// Size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Time of the last modification, in seconds and nanoseconds.
    pub fn modified(&self) -> (i64, i64) {
        self.modified
    }

    /// Returns true if another change at this time might leave the same time stamps.
    fn is_fresh(&self, now: Duration) -> bool {
        let (seconds, nanos) = self.changed;
        let changed = Duration::new(seconds.max(0) as u64, nanos.clamp(0, 999_999_999) as u32);
        // A file server's clock may be slightly ahead of this host's; a large difference is not waited for.
        now.abs_diff(changed) < self.tick()
    }

    /// Returns true if the path leads to the same unchanged file.
    fn is_there(&self, path: &Path, follow: bool) -> bool {
        let found = if follow { fs::metadata(path) } else { fs::symlink_metadata(path) };
        found.is_ok_and(|metadata| self.fits(&metadata))
    }

    /// Time within which two changes may get the same time stamp.
    fn tick(&self) -> Duration {
        // Some file systems keep whole seconds: a time without a fraction may come from such a file system.
        if self.changed.1 == 0 { WHOLE_SECONDS_TICK } else { CLOCK_TICK }
    }
}

impl Contents {
    /// Creates a reader without a file.
    pub fn new() -> Self {
        Contents {
            input: Input::Nothing,
            tree: Box::default(),
            ready: MessageBuffer::default(),
            offset: 0,
            pieces: 0,
            at_end: false,
            short_since: None,
        }
    }

    /// Continues with this file.
    pub fn read_file(&mut self, file: Opened) {
        self.begin(Input::File(file));
    }

    /// Continues with this file if it is small, unchanged since it was listed, and not fresh: then it is opened, read
    /// and checked at once. Returns false if it must be opened and watched.
    pub fn read_whole(&mut self, path: &Path, follow: bool, listed: &Stamp) -> io::Result<bool> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        if listed.size == 0 || listed.size > READ_BYTES as u64 || listed.is_fresh(now) {
            return Ok(false);
        }
        let mut file = open(path, follow)?;
        self.begin(Input::Nothing);
        let read = file.read(self.ready.free(listed.size as usize))?;
        if read as u64 != listed.size || !listed.fits(&file.metadata()?) {
            return Ok(false);
        }
        let digest = blake3::hash(self.ready.fill(read));
        self.input = Input::Whole { stamp: *listed, follow, digest };
        self.at_end = true;
        Ok(true)
    }

    /// Continues with the standard input.
    pub fn read_stream(&mut self, chunks: Receiver<io::Result<Vec<u8>>>) {
        self.begin(Input::Stream(chunks));
    }

    /// Closes the file.
    pub fn close(&mut self) {
        self.input = Input::Nothing;
    }

    /// Bytes that can be offered.
    pub fn available(&self) -> usize {
        self.ready.len()
    }

    /// Returns true for a small file that was read at once.
    pub fn is_whole(&self) -> bool {
        matches!(self.input, Input::Whole { .. })
    }

    /// Returns true if everything was read and taken.
    pub fn is_done(&self) -> bool {
        self.at_end && self.available() == 0
    }

    /// Bytes taken so far.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// BLAKE3 over all bytes read.
    pub fn digest(&self) -> [u8; blake3::OUT_LEN] {
        match &self.input {
            Input::Whole { digest, .. } => *digest.as_bytes(),
            _ => *self.tree.finalize().as_bytes(),
        }
    }

    /// Chaining value of the subtree that ends there, if all of it was taken.
    pub fn subtree(&self, end: u64) -> Option<[u8; blake3::OUT_LEN]> {
        if end > self.offset { None } else { self.tree.value(end) }
    }

    /// Returns true if the file is unchanged and in place; asked before its end is sent.
    pub fn is_unchanged(&self, path: Option<&Path>) -> bool {
        match (&self.input, path) {
            (Input::File(opened), Some(path)) => opened.stamp.is_there(path, opened.follow),
            // A file that was read and is sent at once had no time to change.
            (Input::Whole { stamp, follow, .. }, Some(path)) => {
                self.pieces <= 1 || stamp.is_there(path, *follow)
            }
            _ => true,
        }
    }

    /// Reads if less than `wanted` bytes are available, and checks a file for changes.
    pub fn fill(&mut self, now: Time, wanted: usize) -> Filled {
        if self.available() >= wanted || self.at_end {
            return Filled::Ready;
        }
        match &self.input {
            Input::Nothing | Input::Whole { .. } => Filled::Ready,
            Input::File(_) => self.fill_from_file().unwrap_or_else(Filled::Unreadable),
            Input::Stream(_) => match self.fill_from_stream(now, wanted) {
                Ok(true) => Filled::Ready,
                Ok(false) => Filled::NotYet,
                Err(error) => Filled::Unreadable(error),
            },
        }
    }

    /// Takes at most `len` bytes, and returns their position as well.
    pub fn take(&mut self, len: usize) -> (u64, &[u8]) {
        let offset = self.offset;
        let bytes = self.ready.take(len);
        self.offset += bytes.len() as u64;
        self.pieces += 1;
        (offset, bytes)
    }

    /// Number of next bytes that are a hole of the file and can be [skipped](Self::go_over); 0 while buffered bytes
    /// come first.
    pub fn hole(&mut self) -> Result<u64, Filled> {
        match &mut self.input {
            Input::File(opened) if self.ready.len() == 0 => {
                opened.hole(self.offset).map_err(Filled::Unreadable)
            }
            _ => Ok(0),
        }
    }

    /// Skips bytes of a hole and returns their position.
    pub fn go_over(&mut self, len: u64) -> Result<u64, Filled> {
        let Input::File(opened) = &mut self.input else { return Err(Filled::Ready) };
        let at = self.offset;
        if !opened.is_same().map_err(Filled::Unreadable)? {
            return Err(Filled::Changed);
        }
        holes::hash(&mut self.tree, len);
        self.offset += len;
        self.pieces += 1;
        self.at_end = self.offset == opened.stamp.size;
        Ok(at)
    }

    /// Skips a subtree of the file that receivers have, with its chaining value; returns false if buffered bytes come
    /// first.
    pub fn pass_over(&mut self, value: [u8; blake3::OUT_LEN]) -> Result<bool, Filled> {
        let Input::File(opened) = &mut self.input else { return Ok(false) };
        if self.ready.len() > 0 {
            return Ok(false);
        }
        if !opened.is_same().map_err(Filled::Unreadable)? {
            return Err(Filled::Changed);
        }
        self.offset += SUBTREE_BYTES;
        opened.file.seek(io::SeekFrom::Start(self.offset)).map_err(Filled::Unreadable)?;
        self.tree.skip(value);
        self.pieces += 1;
        self.at_end = self.offset == opened.stamp.size;
        Ok(true)
    }

    /// Metadata of an open file when it was opened.
    pub fn stamp(&self) -> Option<Stamp> {
        if let Input::File(opened) = &self.input { Some(opened.stamp) } else { None }
    }

    /// Chaining values of the complete subtrees so far.
    pub fn values(&self) -> Vec<[u8; blake3::OUT_LEN]> {
        (1..).map_while(|at| self.tree.value(at * SUBTREE_BYTES)).collect()
    }

    /// Returns true if the next `len` bytes are a piece that can be [read into place](Self::read_piece).
    pub fn has_piece(&self, len: usize) -> bool {
        let Input::File(opened) = &self.input else { return false };
        self.available() == 0 && !self.at_end && self.offset + len as u64 <= opened.stamp.size
    }

    /// Reads that piece into the given buffer.
    pub fn read_piece(&mut self, into: &mut [u8]) -> Result<(), Filled> {
        let Input::File(opened) = &mut self.input else { return Err(Filled::Ready) };
        let read = read_all(&mut opened.file, into).map_err(Filled::Unreadable)?;
        let look = (self.offset + read as u64).is_multiple_of(READ_BYTES as u64);
        if read < into.len() || (look && !opened.is_same().map_err(Filled::Unreadable)?) {
            return Err(Filled::Changed);
        }
        self.tree.update(into);
        self.offset += read as u64;
        self.pieces += 1;
        self.at_end = self.offset == opened.stamp.size;
        Ok(())
    }

    fn begin(&mut self, input: Input) {
        self.input = input;
        self.tree.reset();
        self.ready.clear();
        (self.offset, self.pieces, self.at_end, self.short_since) = (0, 0, false, None);
    }

    fn fill_from_file(&mut self) -> io::Result<Filled> {
        let Input::File(opened) = &mut self.input else { return Ok(Filled::Ready) };
        if self.ready.len() > 0 && opened.hole(self.offset + self.ready.len() as u64)? > 0 {
            return Ok(Filled::Ready);
        }
        let left = opened.stamp.size.saturating_sub(self.offset + self.ready.len() as u64);
        let room = READ_BYTES as u64 - self.tree.count() % READ_BYTES as u64;
        // A file of size 0 may still have contents, as in `/proc`.
        let want = if opened.stamp.size == 0 { 1 } else { left.min(room) };
        let len = read_all(&mut opened.file, self.ready.free(want as usize))?;
        let read = len as u64;
        self.at_end = read >= left;
        let cut = read < want.min(left);
        if cut || read > left || (!self.at_end && !opened.is_same()?) {
            return Ok(Filled::Changed);
        }
        self.tree.update(self.ready.fill(len));
        Ok(Filled::Ready)
    }

    fn fill_from_stream(&mut self, now: Time, wanted: usize) -> io::Result<bool> {
        let Input::Stream(chunks) = &mut self.input else { return Ok(true) };
        while self.ready.len() < wanted && !self.at_end {
            match chunks.try_recv() {
                Ok(chunk) => {
                    self.tree.update(self.ready.push(&chunk?));
                }
                Err(TryRecvError::Disconnected) => self.at_end = true,
                Err(TryRecvError::Empty) => break,
            }
        }
        if self.available() >= wanted || self.at_end {
            self.short_since = None;
            return Ok(true);
        }
        if self.available() == 0 {
            return Ok(false);
        }
        let paused = now.since(*self.short_since.get_or_insert(now)) >= STREAM_READ_TIMEOUT;
        if paused {
            self.short_since = None;
        }
        Ok(paused)
    }
}

/// Reads until the buffer is full or the file ends; returns the number of bytes.
fn read_all(file: &mut File, into: &mut [u8]) -> io::Result<usize> {
    let mut read = 0;
    while read < into.len() {
        match file.read(&mut into[read..]) {
            Ok(0) => break,
            Ok(len) => read += len,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(read)
}

/// Bytes per read, at multiples of this size: large enough to hash fast, small enough for the cache.
pub const READ_BYTES: usize = 256 << 10;
/// Pause of a stream after which a partial message is sent.
const STREAM_READ_TIMEOUT: Duration = Duration::from_millis(10);
/// Resolution of file time stamps, with a margin.
const CLOCK_TICK: Duration = Duration::from_millis(20);
/// Resolution of time stamps in file systems with whole or even seconds, with a margin.
const WHOLE_SECONDS_TICK: Duration = Duration::from_millis(2020);
const STAMP_SETTLE_TICKS: u32 = 5;

#[cfg(test)]
mod tests;
