//! Names of files in plain sessions: from a path of the sender to a URI, and from a URI to a path that stays below
//! the receiver's directory.

use std::path::{Path, PathBuf};

use carillon_wire::file::RelativePath;

use super::NamedFile;
use crate::error::stated;
use crate::files::{Target, shown_path};
use crate::{Error, LocalError};

/// Directory for the files of plain sessions. Names cannot lead out of it, and an existing file is replaced only if
/// that is allowed.
#[derive(Debug)]
pub struct PlainFolder {
    target: Target,
    root: PathBuf,
    position: crate::files::Position,
}

impl PlainFolder {
    /// Opens a writable directory, created if necessary.
    pub fn open(root: &Path, overwrite: bool) -> Result<Self, Error> {
        let target = Target::directory(root, overwrite)?;
        Ok(PlainFolder { target, root: root.to_owned(), position: None })
    }

    /// Writes a file and returns its path. Fails if its name leads elsewhere, or if the system refuses it.
    pub fn store(&mut self, file: &NamedFile) -> Result<PathBuf, Error> {
        let failed = |error: LocalError| Error::from(error);
        let name = local_name(&file.name);
        let name = name.as_deref().and_then(RelativePath::new);
        let name = name.ok_or_else(|| {
            failed(stated!("the name \"{}\" is no path below the directory", file.name.escape_debug()))
        })?;
        self.target.write_plain(&mut self.position, &name, &file.content).map_err(failed)?;
        let text = String::from_utf8_lossy(&name).into_owned();
        Ok(self.root.join(text))
    }
}

/// URI of a file that is sent under its own name.
pub(super) fn location(path: &Path) -> Result<String, Error> {
    use std::os::unix::ffi::OsStrExt as _;

    let name = path.file_name().ok_or_else(|| Error::from(stated!("{} names no file", shown_path(path))))?;
    let mut location = String::from("file:///");
    for &byte in name.as_bytes() {
        match byte {
            b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'-' | b'.' | b'_' | b'~' => location.push(byte.into()),
            byte => location.push_str(&format!("%{byte:02X}")),
        }
    }
    Ok(location)
}

/// Path in a URI, or in a part of one, as bytes of the file system. `None` if it has none.
fn local_name(location: &str) -> Option<Vec<u8>> {
    let path = match location.split_once("://") {
        // Behind the host.
        Some((_, rest)) => rest.split_once('/')?.1,
        None => location,
    };
    let path = path.split(['?', '#']).next().unwrap_or_default().trim_start_matches('/');
    let mut name = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((&byte, behind)) = rest.split_first() {
        let digits = behind.first_chunk::<2>().filter(|_| byte == b'%');
        let escaped = digits
            .filter(|digits| digits.iter().all(u8::is_ascii_hexdigit))
            .and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
        name.push(escaped.unwrap_or(byte));
        rest = if escaped.is_some() { &behind[2..] } else { behind };
    }
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(folder: &mut PlainFolder, name: &str) -> Result<String, String> {
        let file = NamedFile { name: name.to_owned(), content: b"content".as_slice().into() };
        let path = folder.store(&file).map_err(|error| error.to_string())?;
        assert_eq!(std::fs::read(&path).expect("it was written"), b"content");
        Ok(path.strip_prefix(&folder.root).expect("it is below").display().to_string())
    }

    #[test]
    fn files_stay_below_the_directory() {
        let outside = tempfile::tempdir().expect("a directory");
        let root = outside.path().join("in");
        let mut folder = PlainFolder::open(&root, false).expect("it can be written to");
        for (name, path) in [
            ("file:///a.txt", "a.txt"),
            ("b", "b"),
            ("http://host/dir/c%20d?x#y", "dir/c d"),
            ("/etc/e", "etc/e"),
            ("file:///100%", "100%"),
        ] {
            assert_eq!(stored(&mut folder, name).as_deref(), Ok(path), "{name}");
        }
        for name in [
            "",
            "file:///",
            "..",
            "../f",
            "file:///../f",
            "a/../../f",
            "%2e%2e/f",
            "a/%2E%2E/%2e%2e/f",
            "http://host",
            "x//y",
            "a%00b",
            "file:///a.txt",
        ] {
            assert!(stored(&mut folder, name).is_err(), "{name}");
        }
        std::os::unix::fs::symlink(outside.path(), root.join("link")).expect("a link");
        assert!(stored(&mut folder, "link/f").is_err());
        assert_eq!(std::fs::read_dir(outside.path()).expect("it is there").count(), 1);
        drop(folder);
        let mut folder = PlainFolder::open(&root, true).expect("it can be written to");
        assert_eq!(stored(&mut folder, "file:///a.txt").as_deref(), Ok("a.txt"));
    }

    #[test]
    fn names_return_from_their_uris() {
        for name in ["a b.txt", "\u{e9}%2f?#", "..."] {
            let location = location(Path::new(name)).expect("it has a name");
            assert!(location.is_ascii());
            assert_eq!(local_name(&location), Some(name.as_bytes().to_vec()));
        }
        assert!(location(Path::new("/")).is_err());
    }
}
