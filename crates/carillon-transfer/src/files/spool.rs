//! What a receiver has overheard of sessions that it was not in: pieces of large files, for a further session of the sender.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use carillon_core::{AssociationId, Bytes, SeqSet};
use carillon_wire::file::{Record, Sessions, records};
use rustix::fs::{Mode, OFlags, open, statvfs};

/// Pieces of files in files without names, each at its place: what does not come takes no room, and all is gone with the process.
///
/// What is kept is not verified, and none of it is delivered as it is: a further session delivers it as if it had come, and a file gets its
/// name by its digest.
#[derive(Debug)]
pub struct Spool {
    /// Where there is room for it.
    directory: PathBuf,
    sessions: VecDeque<(AssociationId, Heard)>,
    /// It could not be written: no more is.
    failed: bool,
    /// Bytes kept since it was looked how much room there is.
    unlooked: u64,
}

/// What was overheard of a session, by files.
#[derive(Debug, Default)]
struct Heard {
    files: BTreeMap<u32, Piece>,
    /// What comes next to it is written with it: of which file, and from where on.
    open: Option<(u32, u64, Vec<u8>)>,
}

/// What there is of a file.
#[derive(Debug)]
struct Piece {
    file: File,
    /// Which bytes.
    bytes: SeqSet,
}

impl Spool {
    /// An empty one, which keeps what it has in this directory.
    pub fn new(directory: &Path) -> Self {
        Spool {
            directory: directory.to_owned(),
            sessions: VecDeque::new(),
            failed: false,
            unlooked: LOOK_BYTES,
        }
    }

    /// Keeps what this message of a session has of large files.
    pub fn keep(&mut self, session: AssociationId, message: &Bytes) {
        if self.failed {
            return;
        }
        self.unlooked += message.len() as u64;
        if self.unlooked >= LOOK_BYTES {
            self.unlooked = 0;
            if !has_room(&self.directory) {
                return self.give_up();
            }
        }
        for record in records(message).map_while(Result::ok) {
            let kept = match record {
                Record::Data { index, offset, bytes } if offset >= LEAST_OFFSET => self
                    .heard(session)
                    .and_then(|(heard, directory)| heard.add(directory, index, offset, bytes)),
                Record::Hole { index, offset, len } => self
                    .heard(session)
                    .and_then(|(heard, directory)| heard.add_zeros(directory, index, offset, len)),
                _ => Ok(()),
            };
            if kept.is_err() {
                // A full disk, or no files without names: it does without.
                return self.give_up();
            }
        }
    }

    fn give_up(&mut self) {
        self.failed = true;
        self.sessions.clear();
    }

    fn heard(&mut self, session: AssociationId) -> io::Result<(&mut Heard, &Path)> {
        if !self.sessions.iter().any(|(known, _)| *known == session) {
            if self.sessions.len() >= MOST_SESSIONS {
                self.sessions.pop_front();
            }
            self.sessions.push_back((session, Heard::default()));
        }
        let heard = self.sessions.iter_mut().find(|(known, _)| *known == session);
        heard.map(|(_, heard)| (heard, &*self.directory)).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// What is here of the messages that a SPAN announces: each with its place among them.
    pub fn find(&mut self, record: &Record<'_>) -> Vec<(u32, Bytes)> {
        let &Record::Span { index, offset, step, count, sessions } = record else { return Vec::new() };
        let mut found = Vec::new();
        if self.flush(sessions).is_err() {
            return found;
        }
        // More than a sender announces, and little work.
        let most = (MOST_BYTES / u64::from(step)).min(MOST_PIECES);
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
        let Spool { directory, sessions: all, .. } = self;
        let mut named = all.iter_mut().filter(|(known, _)| sessions.iter().any(|session| session == *known));
        named.try_for_each(|(_, heard)| heard.flush(directory))
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    /// Nothing of it is wanted any more.
    pub fn clear(&mut self) {
        self.sessions.clear();
        self.failed = false;
    }
}

impl Heard {
    fn add(&mut self, directory: &Path, index: u32, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let follows = |(of, from, open): &(u32, u64, Vec<u8>)| {
            *of == index && from + open.len() as u64 == offset && open.len() < TOGETHER
        };
        if !self.open.as_ref().is_some_and(follows) {
            self.flush(directory)?;
            self.open = Some((index, offset, Vec::with_capacity(TOGETHER)));
        }
        if let Some((_, _, open)) = &mut self.open {
            open.extend_from_slice(bytes);
        }
        Ok(())
    }

    fn add_zeros(&mut self, directory: &Path, index: u32, offset: u64, len: u64) -> io::Result<()> {
        self.flush(directory)?;
        if let Some(piece) = self.file(directory, index)? {
            piece.file.set_len(piece.file.metadata()?.len().max(offset + len))?;
            piece.bytes.insert_run(offset..offset + len);
        }
        Ok(())
    }

    /// Writes what waits for more.
    fn flush(&mut self, directory: &Path) -> io::Result<()> {
        let Some((index, offset, bytes)) = self.open.take() else { return Ok(()) };
        if let Some(piece) = self.file(directory, index)? {
            piece.file.write_all_at(&bytes, offset)?;
            piece.bytes.insert_run(offset..offset + bytes.len() as u64);
        }
        Ok(())
    }

    /// The file for what there is of this one; nothing if there are too many.
    fn file(&mut self, directory: &Path, index: u32) -> io::Result<Option<&mut Piece>> {
        if !self.files.contains_key(&index) {
            if self.files.len() >= MOST_FILES {
                return Ok(None);
            }
            let file = unnamed(directory)?;
            self.files.insert(index, Piece { file, bytes: SeqSet::new() });
        }
        Ok(self.files.get_mut(&index))
    }
}

impl Piece {
    /// So many bytes from there on, if all are there.
    fn read(&self, from: u64, len: u32) -> Option<Vec<u8>> {
        if !self.bytes.contains_run(&(from..from + u64::from(len))) {
            return None;
        }
        let mut bytes = vec![0; len as usize];
        self.file.read_exact_at(&mut bytes, from).ok()?;
        Some(bytes)
    }
}

/// Whether an eighth of the disk is free: it is others' too, and what is overheard nobody has asked for.
fn has_room(directory: &Path) -> bool {
    statvfs(directory).is_ok_and(|disk| disk.f_bavail > disk.f_blocks / 8)
}

/// A file without a name, which is gone when it is closed.
#[cfg(target_os = "linux")]
fn unnamed(directory: &Path) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
    Ok(open(directory, flags, Mode::RUSR | Mode::WUSR).map(File::from)?)
}

#[cfg(not(target_os = "linux"))]
fn unnamed(_: &Path) -> io::Result<File> {
    Err(io::ErrorKind::Unsupported.into())
}

/// What comes before this place of a file is not kept: of small files there would be many.
const LEAST_OFFSET: u64 = 256 << 10;
/// How often it is looked how much room there is.
const LOOK_BYTES: u64 = 16 << 20;
/// Written at once, if it comes together.
const TOGETHER: usize = 64 << 10;
/// Files of a session of which something is kept.
const MOST_FILES: usize = 64;
/// Sessions of which something is kept.
const MOST_SESSIONS: usize = 4;
/// Bytes that are looked for at a time, and pieces.
const MOST_BYTES: u64 = 16 << 20;
const MOST_PIECES: u64 = 1 << 14;

#[cfg(test)]
mod tests {
    use super::*;

    const SESSION: AssociationId = AssociationId(7);

    fn data(index: u32, offset: u64, bytes: &[u8]) -> Bytes {
        let mut message = Vec::new();
        Record::Data { index, offset: LEAST_OFFSET + offset, bytes }.emit(&mut message);
        message.into()
    }

    /// The places that are found, of pieces of ten bytes, and what they say of themselves.
    fn found(spool: &mut Spool, index: u32, sessions: &[u8]) -> Vec<(u32, Bytes)> {
        let (offset, sessions) = (LEAST_OFFSET, Sessions::new(sessions).expect("a few"));
        spool.find(&Record::Span { index, offset, step: 10, count: 6, sessions })
    }

    #[test]
    fn what_was_overheard_is_found_whatever_its_pieces() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut spool = Spool::new(directory.path());
        assert!(spool.is_empty() && found(&mut spool, 0, &[0, 0, 0, 7]).is_empty());
        let bytes: Vec<u8> = (0..60).collect();
        // Of the pieces of ten bytes the second, fourth and fifth are there; of the third half.
        for (from, to) in [(30, 33), (10, 25), (33, 50)] {
            spool.keep(SESSION, &data(0, from, &bytes[from as usize..to]));
        }
        let piece = |place: u32| (place, data(0, u64::from(place) * 10, &bytes[place as usize * 10..][..10]));
        assert_eq!(found(&mut spool, 0, &[0, 0, 0, 7]), [piece(1), piece(3), piece(4)]);
        // The rest of it, in another session.
        spool.keep(AssociationId(9), &data(0, 20, &bytes[20..30]));
        assert_eq!(found(&mut spool, 0, &[0, 0, 0, 9, 0, 0, 0, 7]).len(), 4);
        assert!(
            found(&mut spool, 0, &[0, 0, 0, 8]).is_empty() && found(&mut spool, 1, &[0, 0, 0, 7]).is_empty()
        );
        assert_eq!(directory.path().read_dir().expect("it is there").count(), 0, "they have no names");
        spool.clear();
        assert!(found(&mut spool, 0, &[0, 0, 0, 7]).is_empty());
    }

    #[test]
    fn zeros_are_there_and_take_no_room() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut spool = Spool::new(directory.path());
        let mut message = Vec::new();
        Record::Hole { index: 0, offset: LEAST_OFFSET + 5, len: 25 }.emit(&mut message);
        spool.keep(SESSION, &message.into());
        let zeros = |place: u32| (place, data(0, u64::from(place) * 10, &[0; 10]));
        assert_eq!(found(&mut spool, 0, &[0, 0, 0, 7]), [zeros(1), zeros(2)]);
    }

    #[test]
    fn where_nothing_can_be_written_nothing_is_kept_and_nothing_fails() {
        let mut spool = Spool::new(Path::new("/proc/1/none"));
        for offset in [0, 100_000] {
            spool.keep(SESSION, &data(0, offset, &[1; 10]));
        }
        assert!(found(&mut spool, 0, &[0, 0, 0, 7]).is_empty());
        spool.keep(SESSION, &data(0, 0, &[1; 10]));
        assert!(found(&mut spool, 0, &[0, 0, 0, 7]).is_empty());
    }
}
