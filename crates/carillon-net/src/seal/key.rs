//! The shared key of a group and its file.

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::peer::Salt;

/// Key that all endpoints of a group share; only its holders can take part.
#[derive(Clone, PartialEq, Eq)]
pub struct Key([u8; 32]);

/// A key and the file it was read from.
#[derive(Debug)]
pub struct KeyFile {
    /// The key.
    pub key: Key,
    /// True if users outside the file's owner and group may read or write it.
    pub exposed: bool,
}

/// Reason why a file is not a valid key.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The file could not be read.
    #[error("the key file {}: {reason}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        reason: io::Error,
    },
    /// The file is too short to be hard to guess.
    #[error(
        "the key file {} has {len} bytes, and a key has {MIN_KEY_BYTES} at least, drawn at random: make one with `(umask 077; head -c 32 /dev/urandom | base64 > key)`",
        path.display()
    )]
    Short {
        /// The file.
        path: PathBuf,
        /// Length in bytes, without trailing white space.
        len: usize,
    },
    /// The file is too long to be a key.
    #[error("the key file {} has more than {MAX_KEY_FILE_BYTES} bytes: that is no key", path.display())]
    Long {
        /// The file.
        path: PathBuf,
    },
}

impl Key {
    /// Reads a file: all its bytes without trailing white space, at least 32 bytes and at most 64 KiB. They must be
    /// random: a password is not a key, because nothing slows down guessing.
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

    /// Derives the key from the contents of a file; `None` if they are too short.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Option<Key> {
        let bytes = bytes.trim_ascii_end();
        (bytes.len() >= MIN_KEY_BYTES).then(|| Key(blake3::derive_key(GROUP_KEY, bytes)))
    }

    /// Restores a key from [`to_bytes`](Key::to_bytes).
    #[must_use]
    pub fn from_bytes(bytes: [u8; 32]) -> Key {
        Key(bytes)
    }

    /// Serializes the key for use within one machine; as secret as the file.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; 32] {
        self.0
    }

    /// Derives the sealing key of the endpoint with this salt.
    pub(super) fn of_sender(&self, salt: &Salt) -> [u8; 32] {
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

/// Returns true if other users may access the file. Pipes are visible only to their creators.
fn is_exposed(file: &File) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt as _;
    let metadata = file.metadata()?;
    Ok(metadata.is_file() && metadata.mode() & 0o006 != 0)
}

/// Minimum length of a key file in bytes.
const MIN_KEY_BYTES: usize = 32;
/// Maximum length of a key file in bytes.
const MAX_KEY_FILE_BYTES: u64 = 65_536;

/// Contexts of BLAKE3's `derive_key` for the two derived keys.
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
