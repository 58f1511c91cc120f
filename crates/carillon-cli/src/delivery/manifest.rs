//! What is to be sent: the paths of the command line, as files with the names they will have.

use std::collections::BTreeSet;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use carillon_wire::file::{MODE_MASK, RelativePath};

/// The files of a transfer, in the order they are sent.
#[derive(Debug)]
pub struct Manifest {
    entries: Vec<Entry>,
    /// What was left out, a line each.
    skipped: Vec<String>,
}

/// One of them.
#[derive(Debug)]
pub struct Entry {
    /// The name it has at the receivers.
    pub name: String,
    /// Where it is; `None` is the standard input.
    pub path: Option<PathBuf>,
    /// Its size when it was listed; `None` for a stream.
    pub size: Option<u64>,
    /// Unix permission bits.
    pub mode: u32,
}

impl Manifest {
    /// Lists what the paths stand for. Directories are walked, in order of name; symbolic links are
    /// followed. Fails if something cannot be read, or if two files would have one name.
    pub fn list(paths: &[PathBuf], rename: Option<&str>) -> anyhow::Result<Manifest> {
        let mut manifest = Manifest { entries: Vec::new(), skipped: Vec::new() };
        for path in paths {
            if path.as_os_str() == "-" {
                let name = rename.unwrap_or("stdin").to_owned();
                if manifest.entries.iter().any(|entry| entry.path.is_none()) {
                    bail!("the standard input can be sent only once: give `-` once");
                }
                manifest.entries.push(Entry { name, path: None, size: None, mode: STREAM_MODE });
                continue;
            }
            let metadata = fs::metadata(path).with_context(|| format!("cannot read {}", path.display()))?;
            if let Some(name) = rename {
                if metadata.is_dir() {
                    bail!("{} is a directory: --as renames one file or the standard input", path.display());
                }
                manifest.add(path, name.to_owned(), &metadata, true)?;
            } else {
                let name = base_name(path)?;
                manifest.walk(path, name, &metadata, &mut Vec::new())?;
            }
        }
        manifest.check_names()?;
        if manifest.entries.is_empty() {
            let names: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
            bail!("nothing to send: no file in {}", names.join(", "));
        }
        if u32::try_from(manifest.entries.len()).is_err() {
            bail!("{} files are more than a transfer can have", manifest.entries.len());
        }
        Ok(manifest)
    }

    /// The files.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// What was left out, and why, a line each.
    pub fn skipped(&self) -> &[String] {
        &self.skipped
    }

    /// Bytes of all files together; `None` if one of them is a stream.
    pub fn bytes(&self) -> Option<u64> {
        self.entries.iter().map(|entry| entry.size).sum()
    }

    /// The length of the longest name.
    pub fn longest_name(&self) -> usize {
        self.entries.iter().map(|entry| entry.name.len()).max().unwrap_or(0)
    }

    fn walk(
        &mut self,
        path: &Path,
        name: String,
        metadata: &Metadata,
        above: &mut Vec<(u64, u64)>,
    ) -> anyhow::Result<()> {
        if !metadata.is_dir() {
            return self.add(path, name, metadata, above.is_empty());
        }
        let identity = (metadata.dev(), metadata.ino());
        if above.contains(&identity) {
            bail!("{} leads back to a directory above it: remove the symbolic link", path.display());
        }
        above.push(identity);
        let failed = || format!("cannot read directory {}", path.display());
        let mut children = Vec::new();
        for child in fs::read_dir(path).with_context(failed)? {
            children.push(child.with_context(failed)?.file_name());
        }
        children.sort();
        for child in children {
            let path = path.join(&child);
            let Some(child) = child.to_str() else {
                bail!("the name of {} is not UTF-8: rename it", path.display());
            };
            let metadata = fs::metadata(&path).with_context(|| format!("cannot read {}", path.display()))?;
            self.walk(&path, format!("{name}/{child}"), &metadata, above)?;
        }
        above.pop();
        Ok(())
    }

    /// Adds a file. One that is not regular is an error if it was `named` on the command line.
    fn add(&mut self, path: &Path, name: String, metadata: &Metadata, named: bool) -> anyhow::Result<()> {
        if !metadata.is_file() {
            if named {
                bail!("{} is not a regular file or directory: use `-` to send a stream", path.display());
            }
            self.skipped.push(format!("{} is not a regular file: not sent", path.display()));
            return Ok(());
        }
        // Better now than in the middle of the transfer.
        File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
        let mode = metadata.permissions().mode() & MODE_MASK;
        self.entries.push(Entry { name, path: Some(path.to_owned()), size: Some(metadata.len()), mode });
        Ok(())
    }

    fn check_names(&self) -> anyhow::Result<()> {
        let mut names = BTreeSet::new();
        for Entry { name, .. } in &self.entries {
            if RelativePath::new(name).is_none() {
                bail!(
                    "the name {name:?} cannot be sent: no part of it may be empty, `.` or `..`, \
                     or have a backslash; at most {} bytes",
                    RelativePath::MAX_LEN
                );
            }
            if !names.insert(name.as_str()) {
                bail!("two files would have the name {name:?} at the receivers: send them one by one");
            }
        }
        for name in &names {
            let mut above = *name;
            while let Some((parent, _)) = above.rsplit_once('/') {
                if names.contains(parent) {
                    bail!(
                        "{parent:?} would be a file and a directory at the receivers: send them one by one"
                    );
                }
                above = parent;
            }
        }
        Ok(())
    }
}

/// The last component of a path, also of one like `..` or `dir/.`.
fn base_name(path: &Path) -> anyhow::Result<String> {
    let plain = path.components().next_back().and_then(|last| match last {
        std::path::Component::Normal(name) => Some(name.to_owned()),
        _ => None,
    });
    let name = match plain {
        Some(name) => Some(name),
        None => {
            let resolved: io::Result<PathBuf> = path.canonicalize();
            let resolved = resolved.with_context(|| format!("cannot read {}", path.display()))?;
            resolved.file_name().map(ToOwned::to_owned)
        }
    };
    let Some(name) = name else { bail!("{} has no name: send what is in it", path.display()) };
    match name.into_string() {
        Ok(name) => Ok(name),
        Err(_) => bail!("the name of {} is not UTF-8: rename it", path.display()),
    }
}

const STREAM_MODE: u32 = 0o644;
