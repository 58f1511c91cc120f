//! Writer into existing contents that writes only what differs.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

/// Compares each piece with what is at its place, and writes it if it differs. So equal parts keep their blocks, which
/// matters where blocks are shared with snapshots, and flash memory is not worn.
#[derive(Debug)]
pub struct ComparingWriter {
    file: File,
    /// Position of the next byte.
    at: u64,
    /// Length of the contents.
    len: u64,
    buffer: Vec<u8>,
    /// Bytes that may be in memory only, if the file is written to the disk meanwhile.
    unsynced: Option<u64>,
}

impl ComparingWriter {
    /// Begins at the beginning of a file of this length.
    pub fn new(file: File, len: u64) -> Self {
        ComparingWriter { file, at: 0, len, buffer: Vec::new(), unsynced: None }
    }

    /// Writes the file to the disk from time to time, so that little is left to do at the end.
    pub fn sync_often(&mut self, syncs: bool) {
        self.unsynced = syncs.then_some(0);
    }

    /// The file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Position of the next byte.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// Puts the next bytes into the file. `before` is called before each change.
    pub fn write(&mut self, bytes: &[u8], mut before: impl FnMut(&File) -> io::Result<()>) -> io::Result<()> {
        for piece in bytes.chunks(PIECE_BYTES) {
            if !self.has(piece) {
                before(&self.file)?;
                self.file.write_all_at(piece, self.at)?;
                self.note_written(piece.len() as u64)?;
            }
            self.advance(piece.len() as u64);
        }
        Ok(())
    }

    /// Puts zeros into the file, as a hole where the system supports holes. Zeros that are there stay as they are.
    pub fn go_over(&mut self, len: u64, mut before: impl FnMut(&File) -> io::Result<()>) -> io::Result<()> {
        let end = self.at + len;
        while self.at < end {
            if self.at >= self.len {
                before(&self.file)?;
                self.file.set_len(end)?;
                self.advance(end - self.at);
                break;
            }
            // What is behind the end is a hole of its own.
            let len = (end.min(self.len) - self.at).min(PIECE_BYTES as u64);
            let zeros = &ZEROS[..len as usize];
            if !self.has(zeros) {
                before(&self.file)?;
                if !punch(&self.file, self.at, len) {
                    self.file.write_all_at(zeros, self.at)?;
                }
                self.note_written(len)?;
            }
            self.advance(len);
        }
        Ok(())
    }

    /// Cuts what is behind the last byte.
    pub fn cut(&mut self, mut before: impl FnMut(&File) -> io::Result<()>) -> io::Result<()> {
        if self.len > self.at {
            before(&self.file)?;
            self.file.set_len(self.at)?;
            self.len = self.at;
        }
        Ok(())
    }

    fn advance(&mut self, len: u64) {
        self.at += len;
        self.len = self.len.max(self.at);
    }

    /// Returns true if the file has these bytes at the current position. What cannot be read is written.
    fn has(&mut self, bytes: &[u8]) -> bool {
        self.buffer.resize(PIECE_BYTES, 0);
        let buffer = &mut self.buffer[..bytes.len()];
        self.at + bytes.len() as u64 <= self.len
            && self.file.read_exact_at(buffer, self.at).is_ok()
            && buffer == bytes
    }

    fn note_written(&mut self, len: u64) -> io::Result<()> {
        let Some(unsynced) = &mut self.unsynced else { return Ok(()) };
        *unsynced += len;
        if *unsynced >= SYNC_BYTES {
            *unsynced = 0;
            self.file.sync_data()?;
        }
        Ok(())
    }
}

/// Makes a hole; returns false where the file system has none.
#[cfg(target_os = "linux")]
fn punch(file: &File, at: u64, len: u64) -> bool {
    use rustix::fs::{FallocateFlags, fallocate};
    fallocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, at, len).is_ok()
}

#[cfg(not(target_os = "linux"))]
fn punch(_: &File, _: u64, _: u64) -> bool {
    false
}

/// Bytes that are compared and written at a time.
const PIECE_BYTES: usize = 256 << 10;
/// Bytes after which a file is written to the disk, if it is to be there at the end.
const SYNC_BYTES: u64 = 128 << 20;

static ZEROS: [u8; PIECE_BYTES] = [0; PIECE_BYTES];
