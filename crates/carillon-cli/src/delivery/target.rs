//! Where files go: a directory that nothing leaves, under temporary names until all is verified.

use std::fs::{self, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use carillon_wire::file::RelativePath;
use tempfile::{NamedTempFile, TempPath};

/// A directory for received files, or the standard output.
#[derive(Debug)]
pub enum Target {
    /// Files below this directory.
    Directory {
        /// The directory.
        root: PathBuf,
        /// Whether files that exist are replaced.
        overwrite: bool,
    },
    /// The contents of all files, one after the other.
    Stdout,
}

/// A file that is not complete yet. Dropped, it leaves nothing.
#[derive(Debug)]
pub struct Draft(Kind);

#[derive(Debug)]
enum Kind {
    File { file: NamedTempFile, path: PathBuf, overwrite: bool },
    Stdout,
}

impl Target {
    /// A directory, made if it does not exist, that can be written to.
    pub fn directory(root: &Path, overwrite: bool) -> anyhow::Result<Target> {
        let failed = || format!("cannot write to directory {}", root.display());
        fs::create_dir_all(root).with_context(failed)?;
        // Better now than when the transfer has begun.
        temporary(root, "probe", 0o600).with_context(failed)?;
        Ok(Target::Directory { root: root.to_owned(), overwrite })
    }

    /// Begins a file. One that exists is refused unless it may be overwritten.
    pub fn begin(&self, name: &RelativePath<'_>, mode: u32) -> anyhow::Result<Draft> {
        let Target::Directory { root, overwrite } = self else { return Ok(Draft(Kind::Stdout)) };
        let (parents, file_name) = name.rsplit_once('/').unwrap_or(("", name));
        let directory = descend(root, parents)?;
        let path = directory.join(file_name);
        match fs::symlink_metadata(&path) {
            Ok(metadata) if metadata.is_dir() => {
                bail!("{} is a directory: choose another --out", path.display());
            }
            Ok(_) if !overwrite => {
                bail!("{} exists: give --overwrite to replace it, or another --out", path.display());
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                return Err(error).with_context(|| format!("cannot look at {}", path.display()));
            }
        }
        let file = temporary(&directory, file_name, mode)
            .with_context(|| format!("cannot create a file in {}", directory.display()))?;
        Ok(Draft(Kind::File { file, path, overwrite: *overwrite }))
    }
}

impl Draft {
    /// Appends bytes.
    pub fn write(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        match &mut self.0 {
            Kind::File { file, path, .. } => {
                let file = file.as_file_mut();
                file.write_all(bytes).with_context(|| format!("cannot write {}", path.display()))
            }
            Kind::Stdout => {
                let written = io::stdout().write_all(bytes);
                // A reader that has gone is a failure here: it did not get what was sent.
                written.map_err(|error| anyhow::anyhow!("cannot write to the standard output: {error}"))
            }
        }
    }

    /// Gives the file its name.
    pub fn commit(self) -> anyhow::Result<()> {
        let Kind::File { file, path, overwrite } = self.0 else {
            let flushed = io::stdout().flush();
            return flushed.map_err(|error| anyhow::anyhow!("cannot write to the standard output: {error}"));
        };
        let temporary: TempPath = file.into_temp_path();
        let named = if overwrite { temporary.persist(&path) } else { temporary.persist_noclobber(&path) };
        named.map_err(|error| plain(error.error)).with_context(|| format!("cannot create {}", path.display()))
    }
}

/// The directory of these names below `root`, made as needed. None of them may be a symbolic link,
/// which could lead out.
fn descend(root: &Path, parents: &str) -> anyhow::Result<PathBuf> {
    let mut directory = root.to_owned();
    for part in parents.split('/').filter(|part| !part.is_empty()) {
        directory.push(part);
        match fs::create_dir(&directory) {
            Ok(()) => continue,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => {
                return Err(error)
                    .with_context(|| format!("cannot create directory {}", directory.display()));
            }
        }
        let metadata = fs::symlink_metadata(&directory)
            .with_context(|| format!("cannot look at {}", directory.display()))?;
        if !metadata.is_dir() {
            bail!("{} is not a directory: nothing is written through it", directory.display());
        }
    }
    Ok(directory)
}

/// A file of a temporary name that says what it is, short enough for every file system.
fn temporary(directory: &Path, file_name: &str, mode: u32) -> io::Result<NamedTempFile> {
    let mut end = file_name.len().min(MAX_STEM);
    while !file_name.is_char_boundary(end) {
        end -= 1;
    }
    tempfile::Builder::new()
        .prefix(&format!(".{}.carillon-", &file_name[..end]))
        .suffix(".part")
        .permissions(Permissions::from_mode(mode))
        .tempfile_in(directory)
        .map_err(plain)
}

/// The system's error without the temporary path that the library adds: it means nothing to anyone.
fn plain(error: io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(code) => io::Error::from_raw_os_error(code),
        None => {
            let inner = error.get_ref().and_then(|inner| inner.source());
            let inner = inner.and_then(|inner| inner.downcast_ref::<io::Error>());
            inner
                .and_then(io::Error::raw_os_error)
                .map_or(io::Error::from(error.kind()), io::Error::from_raw_os_error)
        }
    }
}

/// Bytes of a file's name that its temporary name repeats.
const MAX_STEM: usize = 120;
