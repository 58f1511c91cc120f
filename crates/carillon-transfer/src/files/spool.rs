//! Spool of overheard data: pieces of large files from sessions of other members, for a later catch-up session.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use carillon_core::{AssociationId, Bytes, SeqSet};
use carillon_wire::file::{Record, Sessions, records};
use rustix::fs::{Mode, OFlags, open, statvfs};

use super::spool_log::{Run, SpoolLog};

/// Pieces of files at their offsets; missing ranges take no space.
///
/// The data is in files of the directory with a log of its ranges, so that it survives a restart of the receiver. If
/// another receiver uses that log already, unnamed files are used, which end with the process.
///
/// Spooled data is not verified. A catch-up session delivers it like received data, and a file gets its final name
/// only after its digest was verified.
#[derive(Debug)]
pub struct Spool {
    /// Directory and owner of the files.
    directory: PathBuf,
    user: u32,
    log: Option<SpoolLog>,
    /// True after an attempt to create a log.
    tried: bool,
    sessions: VecDeque<(AssociationId, SpooledFile)>,
    /// True after a write error: nothing more is stored.
    failed: bool,
    /// Bytes stored since the free space was checked.
    unlooked: u64,
    /// Returns true if the disk of the directory has space for optional data.
    has_room: fn(&Path) -> bool,
}

/// Spooled data of a session, by files.
#[derive(Debug, Default)]
struct SpooledFile {
    files: BTreeMap<u32, Piece>,
    /// Data that waits for adjacent data: entry, offset and bytes.
    open: Option<(u32, u64, Vec<u8>)>,
}

/// Spooled ranges of a file.
#[derive(Debug)]
struct Piece {
    file: File,
    /// Ranges of bytes.
    bytes: SeqSet,
}

/// Location of a session's files.
#[derive(Debug)]
struct Place<'a> {
    session: AssociationId,
    directory: &'a Path,
    log: Option<&'a mut SpoolLog>,
}

impl Spool {
    /// Opens the spool that an earlier process of this user left in the directory, or an empty one.
    pub fn open(directory: &Path, user: u32) -> Self {
        let mut spool = Spool {
            directory: directory.to_owned(),
            user,
            log: SpoolLog::open(directory, user, false),
            tried: false,
            sessions: VecDeque::new(),
            failed: false,
            unlooked: MAX_SEARCH_BYTES,
            has_room,
        };
        if spool.take_up().is_err() || (spool.log.is_some() && spool.sessions.is_empty()) {
            spool.clear();
        }
        spool
    }

    /// Restores the ranges of the log.
    fn take_up(&mut self) -> io::Result<()> {
        let Some(runs) = self.log.as_ref().map(SpoolLog::runs).transpose()? else { return Ok(()) };
        let mut looked_for = BTreeSet::new();
        for Run { session, index, bytes } in runs {
            if looked_for.insert((session, index)) {
                self.take_up_file(session, index)?;
            }
            let all = self.sessions.iter_mut().find(|(known, _)| *known == session);
            if let Some(piece) = all.and_then(|(_, heard)| heard.files.get_mut(&index)) {
                piece.bytes.insert_run(bytes);
            }
        }
        Ok(())
    }

    /// Opens the spooled data of a file, if it exists and the limit permits.
    fn take_up_file(&mut self, session: AssociationId, index: u32) -> io::Result<()> {
        let Some(file) = self.log.as_ref().and_then(|log| log.piece(session, index, false)) else {
            return Ok(());
        };
        let (heard, _) = self.heard(session)?;
        if heard.files.len() < MAX_SPOOLED_FILES {
            heard.files.insert(index, Piece { file, bytes: SeqSet::new() });
        }
        Ok(())
    }

    /// Replaces the check of the free space.
    #[cfg(test)]
    pub(super) fn with_room(self, has_room: fn(&Path) -> bool) -> Self {
        Spool { has_room, ..self }
    }

    /// Stores the data of large files in this message.
    pub fn keep(&mut self, session: AssociationId, message: &Bytes) {
        if self.failed {
            return;
        }
        self.unlooked += message.len() as u64;
        if self.unlooked >= MAX_SEARCH_BYTES {
            self.unlooked = 0;
            if !(self.has_room)(&self.directory) {
                return self.give_up();
            }
        }
        for record in records(message).map_while(Result::ok) {
            let kept = match record {
                Record::Data { index, offset, bytes } if offset >= MIN_SPOOLED_OFFSET => self
                    .heard(session)
                    .and_then(|(heard, mut place)| heard.add(&mut place, index, offset, bytes)),
                Record::Hole { index, offset, len } => self
                    .heard(session)
                    .and_then(|(heard, mut place)| heard.add_zeros(&mut place, index, offset, len)),
                _ => Ok(()),
            };
            if kept.is_err() {
                // Neither named nor unnamed files can be written, for instance on a full disk: the spool is disabled.
                return self.give_up();
            }
        }
    }

    fn give_up(&mut self) {
        self.clear();
        self.failed = true;
    }

    fn heard(&mut self, session: AssociationId) -> io::Result<(&mut SpooledFile, Place<'_>)> {
        if !std::mem::replace(&mut self.tried, true) && self.log.is_none() {
            self.log = SpoolLog::open(&self.directory, self.user, true);
        }
        if !self.sessions.iter().any(|(known, _)| *known == session) {
            if self.sessions.len() >= MAX_SPOOLED_SESSIONS {
                self.drop_first();
            }
            self.sessions.push_back((session, SpooledFile::default()));
        }
        let place = Place { session, directory: &self.directory, log: self.log.as_mut() };
        let heard = self.sessions.iter_mut().find(|(known, _)| *known == session);
        heard.map(|(_, heard)| (heard, place)).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Drops the oldest session; returns true if there was one.
    fn drop_first(&mut self) -> bool {
        let Some((session, heard)) = self.sessions.pop_front() else { return false };
        if let Some(log) = &self.log {
            heard.files.keys().for_each(|&index| log.remove_piece(session, index));
        }
        true
    }

    /// Returns the spooled messages that a SPAN announces, each with its index.
    pub fn find(&mut self, record: &Record<'_>) -> Vec<(u32, Bytes)> {
        let &Record::Span { index, offset, step, count, sessions } = record else { return Vec::new() };
        let mut found = Vec::new();
        if self.flush(sessions).is_err() {
            return found;
        }
        // Bounds the work to more than any sender announces.
        let most = (MAX_BUFFERED_BYTES / u64::from(step)).min(MAX_SPOOLED_PIECES);
        for place in 0..count.min(most as u32) {
            let from = offset + u64::from(place) * u64::from(step);
            let mut pieces = sessions.iter().filter_map(|session| self.piece(session, index));
            let Some(bytes) = pieces.find_map(|piece| piece.read(from, step)) else { continue };
            let record = Record::Data { index, offset: from, bytes: &bytes };
            let mut message = Vec::with_capacity(record.wire_len());
            record.emit(&mut message);
            found.push((place, message.into()));
        }
        found
    }

    fn piece(&self, session: AssociationId, index: u32) -> Option<&Piece> {
        let (_, heard) = self.sessions.iter().find(|(known, _)| *known == session)?;
        heard.files.get(&index)
    }

    fn flush(&mut self, sessions: Sessions<'_>) -> io::Result<()> {
        let Spool { directory, log, sessions: all, .. } = self;
        let mut named = all.iter_mut().filter(|(known, _)| sessions.iter().any(|session| session == *known));
        named.try_for_each(|(session, heard)| {
            heard.flush(&mut Place { session: *session, directory, log: log.as_mut() })
        })
    }

    /// Returns true if nothing is spooled.
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    /// Drops all data.
    pub fn clear(&mut self) {
        while self.drop_first() {}
        self.log.take().into_iter().for_each(SpoolLog::remove);
        (self.tried, self.failed) = (false, false);
    }
}

impl SpooledFile {
    fn add(&mut self, place: &mut Place<'_>, index: u32, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let follows = |(of, from, open): &(u32, u64, Vec<u8>)| {
            *of == index && from + open.len() as u64 == offset && open.len() < WRITE_BYTES
        };
        if !self.open.as_ref().is_some_and(follows) {
            self.flush(place)?;
            self.open = Some((index, offset, Vec::with_capacity(WRITE_BYTES)));
        }
        if let Some((_, _, open)) = &mut self.open {
            open.extend_from_slice(bytes);
        }
        Ok(())
    }

    fn add_zeros(&mut self, place: &mut Place<'_>, index: u32, offset: u64, len: u64) -> io::Result<()> {
        self.flush(place)?;
        self.put(place, index, offset..offset + len, |file| {
            file.set_len(file.metadata()?.len().max(offset + len))
        })
    }

    /// Writes buffered data.
    fn flush(&mut self, place: &mut Place<'_>) -> io::Result<()> {
        let Some((index, offset, bytes)) = self.open.take() else { return Ok(()) };
        let run = offset..offset + bytes.len() as u64;
        self.put(place, index, run, |file| file.write_all_at(&bytes, offset))
    }

    /// Writes bytes of a file, unless the limit of files is reached, and records the range.
    fn put(
        &mut self,
        place: &mut Place<'_>,
        index: u32,
        bytes: Range<u64>,
        write: impl FnOnce(&File) -> io::Result<()>,
    ) -> io::Result<()> {
        let is_full = self.files.len() >= MAX_SPOOLED_FILES;
        let piece = match self.files.entry(index) {
            Entry::Occupied(piece) => piece.into_mut(),
            Entry::Vacant(_) if is_full => return Ok(()),
            Entry::Vacant(vacant) => vacant.insert(Piece { file: place.make(index)?, bytes: SeqSet::new() }),
        };
        write(&piece.file)?;
        piece.bytes.insert_run(bytes.clone());
        let session = place.session;
        place.log.as_mut().map_or(Ok(()), |log| log.note(&Run { session, index, bytes }))
    }
}

impl Place<'_> {
    /// Creates a file for spooled data.
    fn make(&self, index: u32) -> io::Result<File> {
        match &self.log {
            Some(log) => {
                log.piece(self.session, index, true).ok_or_else(|| io::ErrorKind::AlreadyExists.into())
            }
            None => unnamed(self.directory),
        }
    }
}

impl Piece {
    /// Returns `len` bytes from this offset, if all are present.
    fn read(&self, from: u64, len: u32) -> Option<Vec<u8>> {
        if !self.bytes.contains_run(&(from..from + u64::from(len))) {
            return None;
        }
        let mut bytes = vec![0; len as usize];
        self.file.read_exact_at(&mut bytes, from).ok()?;
        Some(bytes)
    }
}

/// Returns true if an eighth of the disk or [`ENOUGH_FREE_BYTES`] are free, since overheard data is optional.
fn has_room(directory: &Path) -> bool {
    statvfs(directory).is_ok_and(|disk| {
        let enough = (disk.f_blocks / 8).min(ENOUGH_FREE_BYTES / disk.f_frsize.max(1));
        disk.f_bavail > enough
    })
}

/// Creates an unnamed file, which is deleted when closed.
#[cfg(target_os = "linux")]
fn unnamed(directory: &Path) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
    Ok(open(directory, flags, Mode::RUSR | Mode::WUSR).map(File::from)?)
}

#[cfg(not(target_os = "linux"))]
fn unnamed(_: &Path) -> io::Result<File> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Free space that suffices on a large disk, of which an eighth would be much more.
const ENOUGH_FREE_BYTES: u64 = 4 << 30;
/// Minimum offset of spooled data in a file, which excludes small files.
pub(super) const MIN_SPOOLED_OFFSET: u64 = 256 << 10;
/// Bytes between two checks of the free space.
const MAX_SEARCH_BYTES: u64 = 16 << 20;
/// Bytes of adjacent data that are written together.
const WRITE_BYTES: usize = 64 << 10;
/// Maximum number of spooled files per session.
const MAX_SPOOLED_FILES: usize = 64;
/// Maximum number of spooled sessions.
pub(super) const MAX_SPOOLED_SESSIONS: usize = 4;
/// Maximum bytes and pieces of a single search.
const MAX_BUFFERED_BYTES: u64 = 16 << 20;
const MAX_SPOOLED_PIECES: u64 = 1 << 14;
