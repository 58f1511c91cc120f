//! Journal of an interrupted transfer in its directory, from which the next attempt resumes.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::fs::FileExt as _;

use carillon_wire::file::{ResumePoint, TransferId};
use rustix::fd::OwnedFd;
use rustix::fs::{
    AtFlags, FileType, FlockOperation, Mode, OFlags, Stat, flock, fstat, openat, statat, unlinkat,
};
use rustix::io::Errno;

use super::descent::open_directory;
use super::names::{components, is_part_name, split};

/// The journal of a directory: identifier of the transfer, number of complete entries, and the partial file of the
/// next one. It is locked while open, so two receivers in one directory do not share it.
#[derive(Debug)]
pub struct Journal {
    file: File,
}

/// State left by an earlier attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Progress of the attempt.
    pub reached: ResumePoint,
    /// Partial file of the next entry: its path below the directory, with its temporary name.
    pub part: Option<Vec<u8>>,
    /// True if all of it was signed with a key that the receiver trusted.
    pub trusted: bool,
}

impl Journal {
    /// Opens the journal of a directory, created if `make` is set. `None` if there is none, it belongs to another
    /// user, or another process holds it.
    pub fn open(directory: BorrowedFd<'_>, user: u32, make: bool) -> Option<Journal> {
        Some(Journal { file: open_locked(directory, NAME, user, make)? })
    }

    /// Returns the recorded state, if the partial file is still a regular file of this user.
    pub fn read(&self, directory: BorrowedFd<'_>, user: u32) -> Option<Kept> {
        let mut bytes = [0; MAX_JOURNAL_BYTES];
        let len = self.file.read_at(&mut bytes, 0).ok()?;
        let (trusted, reached, part) = parse(&bytes[..len])?;
        let found = part.map(|part| {
            let (above, name) = above(directory, &part)?;
            statat(&above, name, AtFlags::SYMLINK_NOFOLLOW).map(|stat| (part, stat))
        });
        let (part, offset) = match found {
            Some(Ok((part, stat))) if is_ours(&stat, user) => (Some(part), u64::try_from(stat.st_size).ok()?),
            // The file was complete and has its final name.
            None | Some(Err(Errno::NOENT)) => (None, 0),
            Some(_) => return None,
        };
        Some(Kept { reached: ResumePoint { offset, ..reached }, part, trusted })
    }

    /// Records the number of complete entries and the partial file of the next one.
    pub fn write(
        &self,
        trusted: bool,
        (transfer, entry): (TransferId, u32),
        part: Option<&[u8]>,
    ) -> io::Result<()> {
        let mut bytes = MAGIC.to_vec();
        bytes.push(trusted.into());
        ResumePoint { transfer, entry, offset: 0 }.emit(&mut bytes);
        let part = part.unwrap_or_default();
        bytes.extend_from_slice(&(part.len() as u16).to_be_bytes());
        bytes.extend_from_slice(part);
        let check = blake3::hash(&bytes);
        bytes.extend_from_slice(&check.as_bytes()[..CHECK]);
        self.file.write_all_at(&bytes, 0)
    }

    /// Removes the journal.
    pub fn remove(self, directory: BorrowedFd<'_>) {
        // A remaining journal is harmless, because its data is verified.
        let _ = unlinkat(directory, NAME, AtFlags::empty());
        let _ = self.file.set_len(0);
    }
}

impl Kept {
    /// Upper bound for the complete entries, which are recorded in groups.
    pub fn at_most(&self) -> u32 {
        self.reached.entry.saturating_add(NOTE_ENTRIES)
    }

    /// Removes the partial file.
    pub fn remove(&self, directory: BorrowedFd<'_>) {
        if let Some(part) = &self.part
            && let Ok((above, name)) = above(directory, part)
        {
            // If removal fails, the next sweep for leftovers reports it.
            let _ = unlinkat(above, name, AtFlags::empty());
        }
    }
}

/// Opens the parent directory of a path without following links.
fn above<'a>(directory: BorrowedFd<'_>, path: &'a [u8]) -> Result<(OwnedFd, &'a [u8]), Errno> {
    let (directories, name) = split(path);
    let mut handle = open_directory(directory, ".")?;
    for name in components(directories).filter(|name| !name.is_empty()) {
        handle = open_directory(handle.as_fd(), name)?;
    }
    Ok((handle, name))
}

/// Opens and locks a file, created if `make` is set. `None` if there is none, it belongs to another user, or another
/// process holds it.
pub(super) fn open_locked(directory: BorrowedFd<'_>, name: &str, user: u32, make: bool) -> Option<File> {
    let create = if make { OFlags::CREATE } else { OFlags::empty() };
    let flags = create | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(openat(directory, name, flags, Mode::from_raw_mode(0o600)).ok()?);
    flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
    is_ours(&fstat(&file).ok()?, user).then_some(file)
}

fn is_ours(stat: &Stat, user: u32) -> bool {
    let plain = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    plain && stat.st_nlink == 1 && stat.st_uid == user
}

/// Returns true for the name of a journal.
pub fn is_journal(name: &[u8]) -> bool {
    name == NAME.as_bytes()
}

/// Parses a journal. Bytes beyond the checked length belong to a longer earlier version.
fn parse(bytes: &[u8]) -> Option<(bool, ResumePoint, Option<Vec<u8>>)> {
    let (trusted, rest) = bytes.strip_prefix(MAGIC)?.split_first()?;
    let (reached, rest) = rest.split_at_checked(ResumePoint::LEN)?;
    let (len, rest) = rest.split_first_chunk()?;
    let (part, rest) = rest.split_at_checked(u16::from_be_bytes(*len).into())?;
    let written = bytes.len() - rest.len();
    if blake3::hash(&bytes[..written]).as_bytes()[..CHECK] != *rest.get(..CHECK)? {
        return None;
    }
    let below = !components(part).any(|name| matches!(name, b"" | b"." | b".."));
    let named = is_part_name(split(part).1);
    let part = match part {
        b"" => None,
        part if below && named => Some(part.to_owned()),
        _ => return None,
    };
    Some((*trusted == 1, ResumePoint::parse(reached).ok()?, part))
}

/// Name of the journal: a temporary name, which is never sent.
const NAME: &str = ".transfer.carillon-0000000000000000.part";
const MAGIC: &[u8] = b"carillon transfer 1\n";
/// Bytes of the digest over the rest, which invalidates a partially written journal.
const CHECK: usize = 16;
/// Maximum bytes of a journal, with the longest path and temporary name.
const MAX_JOURNAL_BYTES: usize = 8192;

/// Number of entries completed between two updates: an update costs an eighth of creating a small file.
pub const NOTE_ENTRIES: u32 = 64;

/// Minimum bytes of a partial file to keep: less is sent again faster than it is verified.
pub const KEEP_BYTES: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn journal_returns_the_last_write_unless_corrupted() {
        let directory = tempfile::tempdir().expect("a directory");
        let handle = File::open(directory.path()).expect("it is there");
        let at = handle.as_fd();
        let user = fstat(at).expect("it is there").st_uid;
        assert!(Journal::open(at, user, false).is_none());
        let part = "a/.f\u{fffd}.carillon-0123456789abcdef.part";
        std::fs::create_dir(directory.path().join("a")).expect("a directory");
        std::fs::write(directory.path().join(part), [7; 300]).expect("a file");
        let journal = Journal::open(at, user, true).expect("it can be made");
        assert!(Journal::open(at, user, true).is_none(), "it is locked");
        journal.write(true, ([1; 16], 4), Some(part.as_bytes())).expect("it can be written");
        let reached = |entry, offset| ResumePoint { transfer: [1; 16], entry, offset };
        let kept = Kept { reached: reached(4, 300), part: Some(part.into()), trusted: true };
        assert_eq!(journal.read(at, user), Some(kept));
        // A shorter version overwrites it.
        journal.write(false, ([1; 16], 5), None).expect("it can be written");
        assert_eq!(journal.read(at, user), Some(Kept { reached: reached(5, 0), part: None, trusted: false }));
        let path = directory.path().join(NAME);
        let good = std::fs::read(&path).expect("it can be read");
        let ends = MAGIC.len() + 1 + ResumePoint::LEN + 2 + CHECK;
        for at_byte in 0..ends {
            let mut bad = good.clone();
            bad[at_byte] ^= 1;
            std::fs::write(&path, &bad).expect("it can be written");
            assert_eq!(journal.read(at, user), None, "byte {at_byte}");
            std::fs::write(&path, &good[..at_byte]).expect("it can be written");
            assert_eq!(journal.read(at, user), None, "cut at {at_byte}");
        }
        journal.write(true, ([1; 16], 4), Some(part.as_bytes())).expect("it can be written");
        std::fs::remove_file(directory.path().join(part)).expect("it is there");
        let named = Kept { reached: reached(4, 0), part: None, trusted: true };
        assert_eq!(journal.read(at, user), Some(named), "the part has its name");
        journal.remove(at);
        assert!(!path.exists());
    }

    #[test]
    fn part_file_has_a_temporary_name_in_the_directory() {
        let directory = tempfile::tempdir().expect("a directory");
        let handle = File::open(directory.path()).expect("it is there");
        let user = fstat(&handle).expect("it is there").st_uid;
        let journal = Journal::open(handle.as_fd(), user, true).expect("it can be made");
        for part in
            ["../.f.carillon-0123456789abcdef.part", "/.f.carillon-0123456789abcdef.part", "f", "a//b"]
        {
            journal.write(false, ([1; 16], 4), Some(part.as_bytes())).expect("it can be written");
            assert_eq!(journal.read(handle.as_fd(), user), None, "{part}");
        }
    }
}
