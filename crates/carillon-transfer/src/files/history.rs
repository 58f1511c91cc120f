//! Signing times of accepted transfers, for refusing older ones.
//!
//! A signed transfer stays valid forever: an attacker with a recording could replay it and restore old files. A
//! receiver therefore stores the newest accepted signing time per signing key, group and top-level name. Each line of
//! the file has key (base64), group, time (nanoseconds since 1970) and name (bytes other than letters, digits, `.`,
//! `-` and `_` as `%xx`), separated by spaces. The last line of a subject counts.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use super::signing_keys::VerifyingKey;
use crate::error::{Context as _, LocalError, stated};

/// Key of an entry: signing key, group, and a top-level name.
type Subject = (VerifyingKey, SocketAddr, Vec<u8>);

/// The newest signing time for each key, group and top-level name.
#[derive(Debug, Default)]
pub(super) struct History {
    path: Option<PathBuf>,
    newest: BTreeMap<Subject, u64>,
}

impl History {
    /// Reads the file and creates it if necessary; without a path the history ends with the process.
    ///
    /// # Errors
    /// The file cannot be read or written, or has another format.
    pub(super) fn open(path: Option<&Path>) -> Result<History, LocalError> {
        let Some(path) = path else { return Ok(History::default()) };
        let read = || -> Result<History, LocalError> {
            if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
                DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
            }
            let (file, mut text) = (lock(path)?, String::new());
            (&file).take(MAX_FILE_BYTES).read_to_string(&mut text)?;
            let mut newest = BTreeMap::new();
            let mut lines = 0;
            // Bytes behind the last line feed belong to a write that was cut off by a crash.
            for line in text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')) {
                lines += 1;
                let (subject, time) =
                    parse(line).with_context(|| format!("line {lines}: {line:?} is not a valid entry"))?;
                let newer: &mut u64 = newest.entry(subject).or_default();
                *newer = time.max(*newer);
            }
            let history = History { path: Some(path.to_owned()), newest };
            if lines > 2 * history.newest.len() + SPARE_LINES || !(text.is_empty() || text.ends_with('\n')) {
                history.rewrite(path)?;
            }
            Ok(history)
        };
        read().with_context(|| format!("the file of accepted signatures {}", path.display()))
    }

    /// Time of the newest accepted transfer with this name.
    pub(super) fn newest(&self, key: VerifyingKey, group: SocketAddr, name: &[u8]) -> Option<u64> {
        self.newest.get(&(key, group, name.to_owned())).copied()
    }

    /// Records the acceptance of transfers with these names.
    pub(super) fn accept(
        &mut self,
        key: VerifyingKey,
        group: SocketAddr,
        time: u64,
        names: Vec<Vec<u8>>,
    ) -> Result<(), LocalError> {
        let mut lines = String::new();
        for name in names {
            let subject = (key, group, name);
            if self.newest.get(&subject).is_none_or(|newest| *newest < time) {
                emit(&subject, time, &mut lines);
                self.newest.insert(subject, time);
            }
        }
        let Some(path) = self.path.as_deref().filter(|_| !lines.is_empty()) else { return Ok(()) };
        let append = || -> io::Result<()> {
            let mut file = lock(path)?;
            file.seek(io::SeekFrom::End(0))?;
            file.write_all(lines.as_bytes())
        };
        append().with_context(|| format!("the file of accepted signatures {}", path.display()))
    }

    /// Rewrites the file with one line per entry. The caller holds the lock.
    fn rewrite(&self, path: &Path) -> Result<(), LocalError> {
        let mut text = String::new();
        self.newest.iter().for_each(|(subject, time)| emit(subject, *time, &mut text));
        let mut new = path.as_os_str().to_owned();
        new.push(".new");
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        Ok(fs::rename(&new, path)?)
    }
}

/// Opens the file with an exclusive lock.
fn lock(path: &Path) -> io::Result<File> {
    loop {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
        file.lock()?;
        // Another process may have replaced the file before the lock was granted.
        let (own, there) = (file.metadata()?, fs::metadata(path)?);
        if !own.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        if (own.dev(), own.ino()) == (there.dev(), there.ino()) {
            return Ok(file);
        }
    }
}

fn emit((key, group, name): &Subject, time: u64, text: &mut String) {
    // Writing to a string cannot fail.
    let _ = write!(text, "{key} {group} {time} ");
    for &byte in name {
        let _ = match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b'_' => write!(text, "{}", byte as char),
            _ => write!(text, "%{byte:02x}"),
        };
    }
    text.push('\n');
}

fn parse(line: &str) -> Result<(Subject, u64), LocalError> {
    let fields: Vec<&str> = line.split(' ').collect();
    let [key, group, time, name] = fields[..] else { return Err(stated!("it does not have four fields")) };
    let key = key.parse()?;
    let (mut bytes, mut rest) = (Vec::new(), name.as_bytes());
    while let [byte, more @ ..] = rest {
        rest = more;
        match byte {
            b'%' => {
                let hex = more.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
                bytes.push(u8::from_str_radix(hex.context("it ends in the middle of a byte")?, 16)?);
                rest = &more[2..];
            }
            _ => bytes.push(*byte),
        }
    }
    Ok(((key, group.parse()?, bytes), time.parse()?))
}

/// Maximum size of a history file; a larger file is refused.
const MAX_FILE_BYTES: u64 = 256 << 20;
/// Number of outdated lines, in addition to the current ones, above which the file is rewritten.
const SPARE_LINES: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    fn key(first: u8) -> VerifyingKey {
        let mut bytes = [7; 32];
        bytes[0] = first;
        VerifyingKey::from_bytes(bytes)
    }

    fn group(port: u16) -> SocketAddr {
        ([239, 1, 2, 3], port).into()
    }

    #[test]
    fn the_newest_time_of_each_subject_outlives_the_process() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("below/state");
        let names = || vec![b"a".to_vec(), b"b %\xff\n".to_vec()];
        let mut history = History::open(Some(&path)).expect("it is made");
        history.accept(key(1), group(1), 10, names()).expect("it is written");
        history.accept(key(1), group(1), 5, names()).expect("nothing to write");
        history.accept(key(2), group(1), 3, vec![b"a".to_vec()]).expect("it is written");
        history.accept(key(1), group(2), 20, vec![b"a".to_vec()]).expect("it is written");
        // Lines that another process appended meanwhile are kept.
        History::open(Some(&path))
            .expect("it is read")
            .accept(key(9), group(9), 9, names())
            .expect("written");
        let again = History::open(Some(&path)).expect("it is read");
        let newest = |first, port, name: &[u8]| again.newest(key(first), group(port), name);
        assert_eq!(newest(1, 1, b"a"), Some(10));
        assert_eq!(newest(1, 1, b"b %\xff\n"), Some(10));
        assert_eq!(
            (newest(2, 1, b"a"), newest(1, 2, b"a"), newest(9, 9, b"a")),
            (Some(3), Some(20), Some(9))
        );
        assert_eq!((newest(2, 1, b"b"), newest(3, 1, b"a")), (None, None));
        let mode = fs::metadata(&path).expect("it is there").mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_torn_line_is_dropped_and_a_wrong_one_is_named() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("state");
        let mut history = History::open(Some(&path)).expect("it is made");
        history.accept(key(1), group(1), 10, vec![b"a".to_vec()]).expect("it is written");
        let whole = fs::read_to_string(&path).expect("text");
        fs::write(&path, format!("{whole}{}", &whole[..20])).expect("written");
        let mut history = History::open(Some(&path)).expect("it is read");
        history.accept(key(1), group(1), 11, vec![b"a".to_vec()]).expect("it is written");
        assert_eq!(History::open(Some(&path)).expect("it is read").newest(key(1), group(1), b"a"), Some(11));
        for wrong in ["nonsense\n", "a b c d\n", &whole.replace(" 10 ", " x "), &whole.replace(" a", " %f")] {
            fs::write(&path, format!("{whole}{wrong}")).expect("written");
            let error = format!("{:#}", History::open(Some(&path)).expect_err("it is wrong"));
            assert!(error.contains("line 2") && error.contains("state"), "{error}");
        }
    }

    #[test]
    fn a_long_file_is_written_anew() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("state");
        let mut history = History::open(Some(&path)).expect("it is made");
        for time in 0..1100 {
            history.accept(key(1), group(1), time + 1, vec![b"a".to_vec()]).expect("it is written");
        }
        History::open(Some(&path)).expect("it is read");
        assert_eq!(fs::read_to_string(&path).expect("text").lines().count(), 1);
        assert_eq!(
            History::open(Some(&path)).expect("it is read").newest(key(1), group(1), b"a"),
            Some(1100)
        );
    }
}
