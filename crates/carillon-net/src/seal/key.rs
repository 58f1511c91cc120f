//! The key that the ends of a group share, and the file it is kept in.

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use thiserror::Error;

/// What all ends of a group share: who has it may take part, nobody else.
#[derive(Clone, PartialEq, Eq)]
pub struct Key([u8; 32]);

/// A key and the file it was read from.
#[derive(Debug)]
pub struct KeyFile {
    /// The key.
    pub key: Key,
    /// Others than its owner and its group may read or write the file.
    pub exposed: bool,
}

/// Why a file is no key.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum KeyError {
    /// It could not be read.
    #[error("the key file {}: {reason}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        reason: io::Error,
    },
    /// It is too short to be hard to guess.
    #[error(
        "the key file {} has {len} bytes, and a key has {MIN_KEY_BYTES} at least, drawn at random: make one with `(umask 077; head -c 32 /dev/urandom | base64 > key)`",
        path.display()
    )]
    Short {
        /// The file.
        path: PathBuf,
        /// Bytes of it, white space at its end not counted.
        len: usize,
    },
    /// It is too long to be meant.
    #[error("the key file {} has more than {MAX_KEY_FILE_BYTES} bytes: that is no key", path.display())]
    Long {
        /// The file.
        path: PathBuf,
    },
}

impl Key {
    /// Reads a file: its bytes, whatever they are, without the white space at their end, at least 32 and at most 64 KiB.
    /// They should be random; a password is no key, as nothing here slows down who guesses.
    ///
    /// # Errors
    /// The file cannot be read, is too short or too long.
    pub fn read(path: impl AsRef<Path>) -> Result<KeyFile, KeyError> {
        let path = path.as_ref();
        let unreadable = |reason| KeyError::Unreadable { path: path.to_owned(), reason };
        let file = File::open(path).map_err(unreadable)?;
        let exposed = is_exposed(&file).map_err(unreadable)?;
        let mut bytes = Vec::new();
        file.take(MAX_KEY_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
        if bytes.len() as u64 > MAX_KEY_FILE_BYTES {
            return Err(KeyError::Long { path: path.to_owned() });
        }
        match Key::of(&bytes) {
            Some(key) => Ok(KeyFile { key, exposed }),
            None => Err(KeyError::Short { path: path.to_owned(), len: bytes.trim_ascii_end().len() }),
        }
    }

    /// Of these bytes, as if they stood in a file; `None` if they are too few.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Option<Key> {
        let bytes = bytes.trim_ascii_end();
        (bytes.len() >= MIN_KEY_BYTES).then(|| Key(blake3::derive_key(GROUP_KEY, bytes)))
    }

    /// Of what [`to_bytes`](Key::to_bytes) has given.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 32]) -> Key {
        Key(bytes)
    }

    /// What stands for the key where it is handed on, in one machine: as secret as the file.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; 32] {
        self.0
    }

    /// The key with which the endpoint of this salt seals.
    pub(super) fn of_sender(&self, salt: &super::Salt) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new_derive_key(SENDER_KEY);
        hasher.update(&self.0).update(salt);
        *hasher.finalize().as_bytes()
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

/// Pipes and the like are seen by who made them.
fn is_exposed(file: &File) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt as _;
    let metadata = file.metadata()?;
    Ok(metadata.is_file() && metadata.mode() & 0o006 != 0)
}

const MIN_KEY_BYTES: usize = 32;
const MAX_KEY_FILE_BYTES: u64 = 65_536;

/// What the two derived keys are for (the context of BLAKE3's `derive_key`).
const GROUP_KEY: &str = "carillon 2026-11-23 seal 1: key file to group key";
const SENDER_KEY: &str = "carillon 2026-11-23 seal 1: group key and salt to sender key";

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn read(bytes: &[u8], mode: u32) -> Result<KeyFile, String> {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), bytes).expect("written");
        std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(mode)).expect("it is ours");
        Key::read(file.path()).map_err(|error| error.to_string())
    }

    #[test]
    fn only_trailing_white_space_is_ignored_in_a_key() {
        let bytes = [b'k'; 32];
        let key = Key::of(&bytes).expect("long enough");
        for same in [[&bytes[..], b"\n"].concat(), [&bytes[..], b" \r\n\n"].concat()] {
            assert_eq!(read(&same, 0o600).expect("a key").key, key);
        }
        for other in [[b" ", &bytes[..]].concat(), vec![b'k'; 33]] {
            assert_ne!(read(&other, 0o600).expect("a key").key, key);
        }
        assert_eq!(Key::from_bytes(key.to_bytes()), key);
        assert_eq!(format!("{key:?}"), "Key(..)");
    }

    #[test]
    fn invalid_key_file_error_shows_how_to_make_one() {
        for (bytes, has) in
            [(&b""[..], "0 bytes"), (&[b'k'; 31][..], "31 bytes"), (&[b'\n'; 99][..], "0 bytes")]
        {
            let error = read(bytes, 0o600).expect_err("too short");
            assert!(error.contains(has) && error.contains("/dev/urandom | base64 > key"), "{error}");
        }
        let error = read(&[b'k'; 70_000], 0o600).expect_err("too long");
        assert!(error.contains("more than 65536 bytes"), "{error}");
        let error = Key::read("/nonexistent/key").expect_err("not there").to_string();
        assert!(error.contains("/nonexistent/key"), "{error}");
    }

    #[test]
    fn world_accessible_key_file_is_exposed() {
        for (mode, exposed) in [(0o600, false), (0o640, false), (0o644, true), (0o602, true)] {
            assert_eq!(read(&[b'k'; 32], mode).expect("a key").exposed, exposed, "{mode:o}");
        }
    }
}
