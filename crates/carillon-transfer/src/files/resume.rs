//! How far a transfer came into a directory, kept there, so that the next attempt goes on from it.

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

/// The journal of a directory: which transfer it was, which of its entries are complete, and the file that holds what came
/// of the next one. It is locked as long as it is open: two receivers that share a directory do not share it.
#[derive(Debug)]
pub struct Journal {
    file: File,
}

/// What an earlier attempt has left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// How far it came.
    pub reached: ResumePoint,
    /// The file that holds what came of the next entry: its path below the directory, with its temporary name.
    pub part: Option<Vec<u8>>,
    /// Whether all of it was signed with a key that the receiver trusted.
    pub trusted: bool,
}

impl Journal {
    /// Opens that of a directory, made if there is none and `make` says so. `None` if there is none, it is not this user's,
    /// or somebody else writes it.
    pub fn open(directory: BorrowedFd<'_>, user: u32, make: bool) -> Option<Journal> {
        Some(Journal { file: open_locked(directory, NAME, user, make)? })
    }

    /// What it says, as far as that is still there: the part is a plain file of this user.
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
            // It was complete, and has its name.
            None | Some(Err(Errno::NOENT)) => (None, 0),
            Some(_) => return None,
        };
        Some(Kept { reached: ResumePoint { offset, ..reached }, part, trusted })
    }

    /// Says that so many entries are complete, and where what comes of the next one is.
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

    /// Takes it away.
    pub fn remove(self, directory: BorrowedFd<'_>) {
        // What is left behind says nothing that is not checked.
        let _ = unlinkat(directory, NAME, AtFlags::empty());
        let _ = self.file.set_len(0);
    }
}

impl Kept {
    /// So many entries are complete at most: they are noted several at a time.
    pub fn at_most(&self) -> u32 {
        self.reached.entry.saturating_add(NOTE_ENTRIES)
    }

    /// Takes the part away.
    pub fn remove(&self, directory: BorrowedFd<'_>) {
        if let Some(part) = &self.part
            && let Ok((above, name)) = above(directory, part)
        {
            // If it cannot be, the next one who looks for what was left over names it.
            let _ = unlinkat(above, name, AtFlags::empty());
        }
    }
}

/// The directory of a file below another, by directories alone: no link leads out.
fn above<'a>(directory: BorrowedFd<'_>, path: &'a [u8]) -> Result<(OwnedFd, &'a [u8]), Errno> {
    let (directories, name) = split(path);
    let mut handle = open_directory(directory, ".")?;
    for name in components(directories).filter(|name| !name.is_empty()) {
        handle = open_directory(handle.as_fd(), name)?;
    }
    Ok((handle, name))
}

/// Opens a file and locks it as long as it is open, made if there is none and `make` says so. `None` if there is none, it is not this user's,
/// or somebody else has it.
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

/// Whether a file of this name is a journal.
pub fn is_journal(name: &[u8]) -> bool {
    name == NAME.as_bytes()
}

/// Bytes beyond the check are those of a longer one before.
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

/// Its own name is one of files that are not complete: it is never sent.
const NAME: &str = ".transfer.carillon-0000000000000000.part";
const MAGIC: &[u8] = b"carillon transfer 1\n";
/// Bytes of the digest over the rest: a journal that was half written says nothing.
const CHECK: usize = 16;
/// Bytes of the longest one, with the longest path and the longest temporary name.
const MAX_JOURNAL_BYTES: usize = 8192;

/// Entries that may be complete before that is noted: to note each costs a small file an eighth of what its making does.
pub const NOTE_ENTRIES: u32 = 64;

/// What came of a file is kept for the next attempt when so much has come: less is sent again sooner than it is looked for.
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
        // A shorter one over it.
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
