//! What is to be sent: the paths of the command line, as files with the names they will have.

use std::collections::BTreeSet;
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, bail};
use carillon_wire::file::{
    LINK_TARGET_MAX_LEN, MODE_MASK, Reached, RelativePath, TransferId, link_stays_below,
};
use rustix::fs::{Access, AtFlags, CWD, accessat};

use super::contents::Stamp;
use super::feed::Feed;
use super::names::{is_part_name, shown, shown_path};
use super::signing::{Signing, SigningKey};
use super::stdin::{Input, read_lines};
use super::times;
use crate::LocalError;

/// The files of a transfer, in the order they are sent.
#[derive(Debug)]
pub struct Manifest {
    entries: Vec<Entry>,
    links: Symlinks,
    /// What was left out, a line each.
    skipped: Vec<String>,
    /// Links that were left out because it was wished so.
    links_skipped: u64,
    /// What is read for the stream.
    input: Mutex<Input>,
    /// Where the messages of a program come from.
    feed: Option<Arc<Feed>>,
    /// What it is signed with.
    signing: Option<Signing>,
}

/// One of them.
#[derive(Debug)]
pub struct Entry {
    /// The name it has at the receivers.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// Unix permission bits.
    pub mode: u32,
}

/// What an entry is.
#[derive(Debug)]
pub enum Kind {
    /// A file.
    File {
        /// Where it is.
        path: PathBuf,
        /// What it was when it was listed.
        stamp: Stamp,
    },
    /// The standard input.
    Stream,
    /// A directory; what is in it follows.
    Directory {
        /// When it had been modified last, as records carry it.
        modified: Option<i64>,
    },
    /// A symbolic link, with what it says.
    Link(String),
}

/// What is done with the symbolic links in directories. Links that are named themselves are followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Symlinks {
    /// What they lead to is sent.
    #[default]
    Follow,
    /// They are sent as links.
    Keep,
    /// They are left out.
    Skip,
}

impl FromStr for Symlinks {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "follow" => Ok(Symlinks::Follow),
            "keep" => Ok(Symlinks::Keep),
            "skip" => Ok(Symlinks::Skip),
            _ => Err("expected follow, keep or skip".to_owned()),
        }
    }
}

impl Entry {
    /// Where it is, if it is a file.
    pub fn path(&self) -> Option<&Path> {
        match &self.kind {
            Kind::File { path, .. } => Some(path),
            _ => None,
        }
    }

    /// Where it is, for people.
    pub fn shown(&self) -> String {
        match &self.kind {
            Kind::File { path, .. } => shown_path(path),
            Kind::Stream => "the standard input".to_owned(),
            Kind::Directory { .. } | Kind::Link(_) => shown(&self.name).into_owned(),
        }
    }
}

impl Manifest {
    /// What a reader gives, as one file of this name.
    pub fn reader(name: &str, reader: impl Read + Send + 'static) -> Result<Manifest, LocalError> {
        let manifest = Manifest {
            entries: vec![Entry { name: name.to_owned(), kind: Kind::Stream, mode: STREAM_MODE }],
            links: Symlinks::default(),
            skipped: Vec::new(),
            links_skipped: 0,
            input: Mutex::new(Input::new(reader)),
            feed: None,
            signing: None,
        };
        manifest.check_names()?;
        Ok(manifest)
    }

    /// What a program sends as a live stream.
    #[must_use]
    pub fn feed(feed: Arc<Feed>) -> Manifest {
        Manifest {
            entries: vec![Entry { name: "stream".to_owned(), kind: Kind::Stream, mode: STREAM_MODE }],
            links: Symlinks::default(),
            skipped: Vec::new(),
            links_skipped: 0,
            input: Mutex::default(),
            feed: Some(feed),
            signing: None,
        }
    }

    /// Signs it with this key, as of now, if it is files; a live stream is not signed.
    #[must_use]
    pub fn signed(mut self, key: SigningKey) -> Manifest {
        self.signing = Some(Signing::now(key));
        self
    }

    /// What it is signed with.
    pub(super) fn signing(&self) -> Option<&Signing> {
        self.signing.as_ref()
    }

    /// Lists what the paths stand for. Directories are walked, in order of name. Fails if something
    /// cannot be read, or if two files would have one name.
    pub fn list(paths: &[PathBuf], rename: Option<&str>, links: Symlinks) -> Result<Manifest, LocalError> {
        Ok(Manifest::walk_all(paths, rename, links)?)
    }

    fn walk_all(paths: &[PathBuf], rename: Option<&str>, links: Symlinks) -> anyhow::Result<Manifest> {
        let mut manifest = Manifest {
            entries: Vec::new(),
            links,
            skipped: Vec::new(),
            links_skipped: 0,
            input: Mutex::default(),
            feed: None,
            signing: None,
        };
        for path in paths {
            if path.as_os_str() == "-" {
                let name = rename.unwrap_or("stdin").to_owned();
                if manifest.entries.iter().any(|entry| matches!(entry.kind, Kind::Stream)) {
                    bail!("the standard input can be sent only once: give `-` once");
                }
                manifest.entries.push(Entry { name, kind: Kind::Stream, mode: STREAM_MODE });
                continue;
            }
            let metadata = fs::metadata(path).with_context(|| cannot_read(path))?;
            if let Some(name) = rename {
                if metadata.is_dir() {
                    bail!("{} is a directory: --as renames one file or the standard input", shown_path(path));
                }
                manifest.add(path, name.to_owned(), &metadata, true)?;
            } else {
                let name = base_name(path)?;
                manifest.walk(path, name, &metadata, &mut Vec::new())?;
            }
        }
        manifest.check_names()?;
        if manifest.links_skipped > 0 {
            let count = manifest.links_skipped;
            manifest.skipped.push(match count {
                1 => "1 symbolic link is not sent".to_owned(),
                _ => format!("{count} symbolic links are not sent"),
            });
        }
        if manifest.entries.is_empty() {
            let names: Vec<_> = paths.iter().map(|path| shown_path(path)).collect();
            bail!("nothing to send: no file in {}", names.join(", "));
        }
        if u32::try_from(manifest.entries.len()).is_err() {
            bail!("{} files are more than a transfer can have", manifest.entries.len());
        }
        Ok(manifest)
    }

    /// Files, directories and links.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// How many files there are.
    pub fn files(&self) -> usize {
        self.entries.iter().filter(|entry| matches!(entry.kind, Kind::File { .. } | Kind::Stream)).count()
    }

    /// What is to be read for the stream.
    pub(super) fn take_input(&self) -> Input {
        std::mem::take(&mut *self.input.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Where the messages of the live stream come from: a program, or the lines of what is read, each cut at this length.
    pub(super) fn live(&self, piece: usize) -> Arc<Feed> {
        self.feed.clone().unwrap_or_else(|| {
            let feed = Arc::new(Feed::new());
            read_lines(self.take_input(), piece, feed.clone());
            feed
        })
    }

    /// Whether a program gives the messages of the live stream.
    pub(super) fn is_fed(&self) -> bool {
        self.feed.is_some()
    }

    /// Whether links that are found in the place of files are followed.
    pub fn follows(&self) -> bool {
        self.links == Symlinks::Follow
    }

    /// What was left out, and why, a line each.
    pub fn skipped(&self) -> &[String] {
        &self.skipped
    }

    /// What tells this transfer apart: the names of its entries in their order, with what each is, and of files the size and
    /// the time of their last change. `None` if one of them is a stream.
    pub fn id(&self) -> Option<TransferId> {
        let mut hasher = blake3::Hasher::new_derive_key("carillon 2026-11-23 transfer of files");
        let mut put = |bytes: &[u8]| {
            hasher.update(&(bytes.len() as u64).to_be_bytes());
            hasher.update(bytes);
        };
        for entry in &self.entries {
            put(entry.name.as_bytes());
            put(&entry.mode.to_be_bytes());
            match &entry.kind {
                Kind::File { stamp, .. } => {
                    let (seconds, nanos) = stamp.modified();
                    put(b"file");
                    put(&stamp.size().to_be_bytes());
                    put(&seconds.to_be_bytes());
                    put(&nanos.to_be_bytes());
                }
                Kind::Stream => return None,
                Kind::Directory { .. } => put(b"directory"),
                Kind::Link(target) => {
                    put(b"link");
                    put(target.as_bytes());
                }
            }
        }
        hasher.finalize().as_bytes().first_chunk().copied()
    }

    /// The place where a transfer to all of these can begin: nothing before it is lacking anywhere. Where one has nothing of
    /// it, it begins at the first byte, and where one says what cannot be.
    pub fn start(&self, reached: impl IntoIterator<Item = Option<Reached>>) -> Option<Reached> {
        let transfer = self.id()?;
        let none = Reached { transfer, entry: 0, offset: 0 };
        let fits = |reached: &Reached| match self.entries.get(reached.entry as usize) {
            Some(Entry { kind: Kind::File { stamp, .. }, .. }) => reached.offset <= stamp.size(),
            Some(_) => reached.offset == 0,
            None => reached.entry as usize == self.entries.len() && reached.offset == 0,
        };
        let all = reached.into_iter().map(|reached| {
            reached.filter(|reached| reached.transfer == transfer).filter(fits).unwrap_or(none)
        });
        Some(all.min_by_key(|reached| (reached.entry, reached.offset)).unwrap_or(none))
    }

    /// Bytes of the files before this place.
    pub fn bytes_before(&self, place: &Reached) -> u64 {
        let before = self.entries.iter().take(place.entry as usize);
        let sizes =
            before.map(|entry| if let Kind::File { stamp, .. } = entry.kind { stamp.size() } else { 0 });
        sizes.sum::<u64>() + place.offset
    }

    /// Bytes of all files together; `None` if one of them is a stream.
    pub fn bytes(&self) -> Option<u64> {
        let size = |entry: &Entry| match entry.kind {
            Kind::File { stamp, .. } => Some(stamp.size()),
            Kind::Stream => None,
            Kind::Directory { .. } | Kind::Link(_) => Some(0),
        };
        self.entries.iter().map(size).sum()
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
            bail!("{} leads back to a directory above it: remove the symbolic link", shown_path(path));
        }
        above.push(identity);
        let failed = || format!("cannot read directory {}", shown_path(path));
        let mut children = Vec::new();
        for child in fs::read_dir(path).with_context(failed)? {
            children.push(child.with_context(failed)?.file_name());
        }
        children.sort();
        let mode = metadata.permissions().mode() & MODE_MASK;
        let modified = times::carried((metadata.mtime(), metadata.mtime_nsec()));
        self.entries.push(Entry { name: name.clone(), kind: Kind::Directory { modified }, mode });
        for child in children {
            let path = path.join(&child);
            let Some(child) = child.to_str() else {
                bail!("the name of {} is not UTF-8: rename it", shown_path(&path));
            };
            let name = format!("{name}/{child}");
            let metadata = match fs::symlink_metadata(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    self.skipped.push(format!("{} is gone again: not sent", shown_path(&path)));
                    continue;
                }
                metadata => metadata.with_context(|| cannot_read(&path))?,
            };
            if !metadata.is_symlink() {
                self.walk(&path, name, &metadata, above)?;
            } else if let Some(metadata) = self.link(&path, &name)? {
                self.walk(&path, name, &metadata, above)?;
            }
        }
        above.pop();
        Ok(())
    }

    /// Does with a symbolic link what is wished; returns what it leads to if that is to be sent.
    fn link(&mut self, path: &Path, name: &str) -> anyhow::Result<Option<Metadata>> {
        match self.links {
            Symlinks::Skip => {
                self.links_skipped += 1;
                Ok(None)
            }
            Symlinks::Follow => match fs::metadata(path) {
                Err(error) if leads_nowhere(&error) => {
                    let line =
                        format!("{} is a symbolic link that leads nowhere: not sent", shown_path(path));
                    self.skipped.push(line);
                    Ok(None)
                }
                metadata => metadata.map(Some).with_context(|| cannot_read(path)),
            },
            Symlinks::Keep => {
                let target = fs::read_link(path).with_context(|| cannot_read(path))?;
                let Some(target) = target.to_str() else {
                    bail!("what the link {} says is not UTF-8: remove it", shown_path(path));
                };
                let relative = RelativePath::new(name);
                let harmless = relative.is_some_and(|name| link_stays_below(&name, target));
                if harmless && target.len() <= LINK_TARGET_MAX_LEN {
                    let kind = Kind::Link(target.to_owned());
                    self.entries.push(Entry { name: name.to_owned(), kind, mode: 0 });
                } else {
                    let (path, target) = (shown_path(path), shown(target));
                    self.skipped.push(format!("the link {path} could lead out, to {target}: not sent"));
                }
                Ok(None)
            }
        }
    }

    /// Adds a file. One that is not regular is an error if it was `named` on the command line.
    fn add(&mut self, path: &Path, name: String, metadata: &Metadata, named: bool) -> anyhow::Result<()> {
        if !metadata.is_file() {
            if named {
                bail!("{} is not a regular file or directory: use `-` to send a stream", shown_path(path));
            }
            self.skipped.push(format!("{} is not a regular file: not sent", shown_path(path)));
            return Ok(());
        }
        if !named && name.rsplit('/').next().is_some_and(is_part_name) {
            let line = format!("{} is a file that did not arrive completely: not sent", shown_path(path));
            self.skipped.push(line);
            return Ok(());
        }
        // Better now than in the middle of the transfer; what is in the way, opening it tells.
        if accessat(CWD, path, Access::READ_OK, AtFlags::EACCESS).is_err() {
            File::open(path).with_context(|| cannot_read(path))?;
        }
        let mode = metadata.permissions().mode() & MODE_MASK;
        let kind = Kind::File { path: path.to_owned(), stamp: Stamp::of(metadata) };
        self.entries.push(Entry { name, kind, mode });
        Ok(())
    }

    fn check_names(&self) -> anyhow::Result<()> {
        let mut names = BTreeSet::new();
        let mut directories = BTreeSet::new();
        for Entry { name, kind, .. } in &self.entries {
            if RelativePath::new(name).is_none() {
                bail!(
                    "the name {name:?} cannot be sent: no part of it may be empty, `.` or `..`, \
                     have a backslash, or be longer than {} bytes; at most {} bytes and {} parts",
                    RelativePath::MAX_NAME_LEN,
                    RelativePath::MAX_LEN,
                    RelativePath::MAX_DEPTH
                );
            }
            if name.split('/').any(is_part_name) {
                bail!("{name:?} is the name of a file that did not arrive completely: rename it");
            }
            if let Kind::Directory { .. } = kind {
                directories.insert(name.as_str());
            } else if !names.insert(name.as_str()) {
                bail!("two files would have the name {name:?} at the receivers: send them one by one");
            }
        }
        // A file is no directory, neither one that is sent nor one above a file that is renamed.
        for name in names.iter().chain(&directories) {
            let mut above = if directories.contains(name) { Some(*name) } else { parent(name) };
            while let Some(directory) = above {
                if names.contains(directory) {
                    bail!(
                        "{directory:?} would be a file and a directory at the receivers: send them one by one"
                    );
                }
                above = parent(directory);
            }
        }
        Ok(())
    }
}

fn parent(name: &str) -> Option<&str> {
    name.rsplit_once('/').map(|(parent, _)| parent)
}

fn cannot_read(path: &Path) -> String {
    format!("cannot read {}", shown_path(path))
}

/// Whether this error of following a link says that there is nothing at its end.
fn leads_nowhere(error: &io::Error) -> bool {
    let link_loop = error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error());
    link_loop || matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
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
            let resolved = resolved.with_context(|| cannot_read(path))?;
            resolved.file_name().map(ToOwned::to_owned)
        }
    };
    let Some(name) = name else { bail!("{} has no name: send what is in it", shown_path(path)) };
    match name.into_string() {
        Ok(name) => Ok(name),
        Err(_) => bail!("the name of {} is not UTF-8: rename it", shown_path(path)),
    }
}

const STREAM_MODE: u32 = 0o644;
