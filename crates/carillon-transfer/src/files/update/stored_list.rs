//! List of the last complete update, in its directory.
//!
//! A receiver that has the list need not be sent it again. The list says what was complete, and not what is: the
//! entries are compared with the directory in each update.
//!
//! ```text
//! magic | list, 16 bytes | (record length u16 | FILE, DIRECTORY, LINK or ARCHIVE) ... | BLAKE3 of all before, 16 bytes
//! ```

use std::io::{Read as _, Write as _};
use std::os::fd::BorrowedFd;

use carillon_wire::file::{Record, TransferId};
use rustix::fs::{AtFlags, Mode, OFlags, openat, renameat, unlinkat};

use super::comparison::Comparison;
use super::lookup::Lookup;

/// Identity of the stored list, without a check of its contents.
pub(in crate::files) fn identity(lookup: &mut Lookup) -> Option<TransferId> {
    let mut begin = [0; MAGIC.len() + 16];
    lookup.file(NAME.as_bytes())?.read_exact(&mut begin).ok()?;
    begin.strip_prefix(MAGIC)?.try_into().ok()
}

/// Bytes of the stored list, if it is this one and intact.
pub(in crate::files) fn read(lookup: &mut Lookup, list: &TransferId) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    lookup.file(NAME.as_bytes())?.take(MAX_FILE_BYTES).read_to_end(&mut bytes).ok()?;
    let (rest, check) = bytes.split_at_checked(bytes.len().checked_sub(CHECK)?)?;
    let intact = blake3::hash(rest).as_bytes()[..CHECK] == *check;
    let records = rest.strip_prefix(MAGIC)?.strip_prefix(list)?;
    intact.then(|| records.to_owned())
}

/// Records of a stored list; `None` for one that cannot be parsed.
pub(in crate::files) fn records(mut bytes: &[u8]) -> impl Iterator<Item = Option<Record<'_>>> {
    std::iter::from_fn(move || {
        let (len, rest) = bytes.split_first_chunk()?;
        let record = rest.split_at_checked(u16::from_be_bytes(*len).into());
        let (record, rest) = record.unwrap_or_default();
        bytes = rest;
        Some(Record::parse(record).ok())
    })
}

/// Stores the list of a comparison. A list that cannot be stored is sent again.
pub(in crate::files) fn write(
    directory: BorrowedFd<'_>,
    comparison: &Comparison,
    table: &[u8],
    part: &str,
) -> Option<()> {
    let mut bytes = [MAGIC, &comparison.list].concat();
    for index in 0..comparison.entries.len() as u32 {
        let record = comparison.record(index)?;
        bytes.extend_from_slice(&u16::try_from(record.wire_len()).ok()?.to_be_bytes());
        record.emit(&mut bytes);
    }
    // The table of an archive.
    let total = table.len() as u32;
    for (at, part) in table.chunks(MAX_TABLE_PART).enumerate() {
        let record = Record::Archive { offset: (at * MAX_TABLE_PART) as u32, total, bytes: part };
        bytes.extend_from_slice(&u16::try_from(record.wire_len()).ok()?.to_be_bytes());
        record.emit(&mut bytes);
    }
    let check = blake3::hash(&bytes);
    bytes.extend_from_slice(&check.as_bytes()[..CHECK]);
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = std::fs::File::from(openat(directory, part, flags, Mode::from_raw_mode(0o600)).ok()?);
    let written = file.write_all(&bytes).is_ok() && renameat(directory, part, directory, NAME).is_ok();
    if !written {
        let _ = unlinkat(directory, part, AtFlags::empty());
    }
    written.then_some(())
}

/// Returns true for the name of a stored list.
pub(in crate::files) fn is_list(name: &[u8]) -> bool {
    name == NAME.as_bytes()
}

/// Name of the list: a temporary name, which is never sent.
const NAME: &str = ".list.carillon-0000000000000000.part";
const MAGIC: &[u8] = b"carillon list 1\n";
/// Bytes of the digest over the rest.
const CHECK: usize = 16;
/// Bytes of a part of the table of an archive.
const MAX_TABLE_PART: usize = 60_000;
/// Maximum bytes of a stored list.
const MAX_FILE_BYTES: u64 = 512 << 20;
