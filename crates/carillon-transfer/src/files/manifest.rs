//! Manifest of a transfer: the paths of the command line, as entries with their names at the receivers.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, anyhow, bail};
use carillon_wire::file::{
    LINK_TARGET_MAX_LEN, MODE_MASK, RelativePath, ResumePoint, TransferId, link_stays_below,
};
use rustix::fs::{Access, AtFlags, CWD, accessat};

use super::contents::{Opened, Stamp};
use super::feed::Feed;
use super::names::{components, is_part_name, shown_name, shown_path, split};
use super::signing::{Signing, SigningKey};
use super::skipped::{SkipReason, Skipped};
use super::stdin::{Input, read_lines};
use super::times;
use super::update::is_list;
use crate::LocalError;

/// The entries of a transfer, in sending order.
#[derive(Debug)]
pub struct Manifest {
    entries: Vec<Entry>,
    links: Symlinks,
    /// Entries that are not sent.
    skipped: Vec<Skipped>,
    /// Links that were followed although they lead out of the tree, with their targets.
    followed_out: Vec<(PathBuf, PathBuf)>,
    /// The directory that is being listed, as a canonical path.
    tree: Option<PathBuf>,
    /// Input of the stream.
    input: Mutex<Input>,
    /// Queue of the program's messages.
    feed: Option<Arc<Feed>>,
    /// Signing key and time.
    signing: Option<Signing>,
}

/// An entry of a manifest.
#[derive(Debug)]
pub struct Entry {
    /// Name at the receivers, in bytes.
    pub name: Vec<u8>,
    /// Kind of the entry.
    pub kind: Kind,
    /// Unix permission bits.
    pub mode: u32,
}

/// Kind of an entry.
#[derive(Debug)]
pub enum Kind {
    /// A file.
    File {
        /// Path at the sender.
        path: PathBuf,
        /// Metadata when it was listed.
        stamp: Stamp,
    },
    /// The standard input.
    Stream,
    /// A directory; its contents follow.
    Directory {
        /// Modification time, in nanoseconds since 1970.
        modified: Option<i64>,
    },
    /// A symbolic link, with its target.
    Link(Vec<u8>),
}

/// Treatment of symbolic links in directories. Links that are named on the command line are followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Symlinks {
    /// Sends their targets.
    Follow,
    /// Sends them as links, except links that lead out of the tree.
    #[default]
    Keep,
    /// Omits them.
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
    /// Path at the sender, for a file.
    pub fn path(&self) -> Option<&Path> {
        match &self.kind {
            Kind::File { path, .. } => Some(path),
            _ => None,
        }
    }

    /// Bytes of a file; 0 for other entries, and for a stream.
    pub fn size(&self) -> u64 {
        if let Kind::File { stamp, .. } = &self.kind { stamp.size() } else { 0 }
    }

    /// Path for messages.
    pub fn shown(&self) -> String {
        match &self.kind {
            Kind::File { path, .. } => shown_path(path),
            Kind::Stream => "the standard input".to_owned(),
            Kind::Directory { .. } | Kind::Link(_) => shown_name(&self.name).into_owned(),
        }
    }
}

impl Manifest {
    /// Creates a manifest of one file of this name with the contents of a reader.
    pub fn reader(
        name: impl AsRef<OsStr>,
        reader: impl Read + Send + 'static,
    ) -> Result<Manifest, LocalError> {
        let manifest = Manifest {
            entries: vec![Entry {
                name: name.as_ref().as_bytes().to_owned(),
                kind: Kind::Stream,
                mode: STREAM_MODE,
            }],
            links: Symlinks::default(),
            skipped: Vec::new(),
            followed_out: Vec::new(),
            tree: None,
            input: Mutex::new(Input::new(reader)),
            feed: None,
            signing: None,
        };
        manifest.check_names()?;
        Ok(manifest)
    }

    /// Creates a manifest of a live stream with the messages of a program.
    #[must_use]
    pub fn feed(feed: Arc<Feed>) -> Manifest {
        Manifest {
            entries: vec![Entry { name: b"stream".to_vec(), kind: Kind::Stream, mode: STREAM_MODE }],
            links: Symlinks::default(),
            skipped: Vec::new(),
            followed_out: Vec::new(),
            tree: None,
            input: Mutex::default(),
            feed: Some(feed),
            signing: None,
        }
    }

    /// Signs files with this key, with the current time. Live streams are not signed.
    #[must_use]
    pub fn signed(mut self, key: SigningKey) -> Manifest {
        self.signing = Some(Signing::now(key));
        self
    }

    /// Signing key and time.
    pub(super) fn signing(&self) -> Option<&Signing> {
        self.signing.as_ref()
    }

    /// Lists the entries of these paths. Directories are walked in order of name; entries that cannot be sent are
    /// skipped ([`Manifest::skipped`]).
    ///
    /// # Errors
    /// One of the paths cannot be read or sent itself, or two files would have the same name.
    pub fn list(paths: &[PathBuf], rename: Option<&OsStr>, links: Symlinks) -> Result<Manifest, LocalError> {
        Ok(Manifest::walk_all(paths, rename, links)?)
    }

    fn walk_all(paths: &[PathBuf], rename: Option<&OsStr>, links: Symlinks) -> anyhow::Result<Manifest> {
        let mut manifest = Manifest {
            entries: Vec::new(),
            links,
            skipped: Vec::new(),
            followed_out: Vec::new(),
            tree: None,
            input: Mutex::default(),
            feed: None,
            signing: None,
        };
        for path in paths {
            if path.as_os_str() == "-" {
                let name = rename.unwrap_or(OsStr::new("stdin")).as_bytes().to_owned();
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
                manifest.add(path, name.as_bytes().to_owned(), &metadata, true)?;
            } else {
                let name = base_name(path)?;
                manifest.tree = path.canonicalize().ok();
                manifest.walk(path, name, &metadata, &mut Vec::new())?;
            }
        }
        manifest.check_names()?;
        if manifest.entries.is_empty() {
            let names: Vec<_> = paths.iter().map(|path| shown_path(path)).collect();
            bail!("nothing to send: no file in {}", names.join(", "));
        }
        if u32::try_from(manifest.entries.len()).is_err() {
            bail!("{} files are too many for one transfer", manifest.entries.len());
        }
        Ok(manifest)
    }

    /// Files, directories and links.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Number of files.
    pub fn files(&self) -> usize {
        self.entries.iter().filter(|entry| matches!(entry.kind, Kind::File { .. } | Kind::Stream)).count()
    }

    /// Takes the input of the stream.
    pub(super) fn take_input(&self) -> Input {
        std::mem::take(&mut *self.input.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Queue of the live stream's messages: the program's, or the lines of the input, each cut at `piece` bytes.
    pub(super) fn live(&self, piece: usize) -> Arc<Feed> {
        self.feed.clone().unwrap_or_else(|| {
            let feed = Arc::new(Feed::new());
            read_lines(self.take_input(), piece, feed.clone());
            feed
        })
    }

    /// Returns true if a program supplies the messages of the live stream.
    pub(super) fn is_fed(&self) -> bool {
        self.feed.is_some()
    }

    /// Returns true if links in place of files are followed.
    pub fn follows(&self) -> bool {
        self.links == Symlinks::Follow
    }

    /// Entries of directories that are not sent.
    pub fn skipped(&self) -> &[Skipped] {
        &self.skipped
    }

    /// Links that lead out of the tree and are followed, with their targets.
    pub fn followed_out(&self) -> &[(PathBuf, PathBuf)] {
        &self.followed_out
    }

    /// Refuses skipped entries, except those that the caller chose to omit.
    ///
    /// # Errors
    /// An entry is skipped.
    pub fn strict(self) -> Result<Manifest, LocalError> {
        let mut skipped = self.skipped.iter().filter(|skipped| !skipped.reason.is_wanted());
        match (skipped.next(), skipped.count()) {
            (None, _) => Ok(self),
            (Some(first), 0) => Err(anyhow!("{first} (one entry of the tree)").into()),
            (Some(first), more) => Err(anyhow!("{first} (and {more} more entries of the tree)").into()),
        }
    }

    /// Identifier of the transfer, from names and kinds of all entries in order, and sizes and modification times of
    /// files. `None` for a stream.
    pub fn id(&self) -> Option<TransferId> {
        let mut hasher = blake3::Hasher::new_derive_key("carillon 2026-11-23 transfer of files");
        let mut put = |bytes: &[u8]| {
            hasher.update(&(bytes.len() as u64).to_be_bytes());
            hasher.update(bytes);
        };
        for entry in &self.entries {
            put(&entry.name);
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
                    put(target);
                }
            }
        }
        hasher.finalize().as_bytes().first_chunk().copied()
    }

    /// Starting point for all these receivers: the earliest of their positions. A receiver without or with an invalid
    /// position makes the transfer begin at the first byte.
    pub fn start(&self, reached: impl IntoIterator<Item = Option<ResumePoint>>) -> Option<ResumePoint> {
        let transfer = self.id()?;
        let none = ResumePoint { transfer, entry: 0, offset: 0 };
        let fits = |reached: &ResumePoint| match self.entries.get(reached.entry as usize) {
            Some(Entry { kind: Kind::File { stamp, .. }, .. }) => reached.offset <= stamp.size(),
            Some(_) => reached.offset == 0,
            None => reached.entry as usize == self.entries.len() && reached.offset == 0,
        };
        let all = reached.into_iter().map(|reached| {
            reached.filter(|reached| reached.transfer == transfer).filter(fits).unwrap_or(none)
        });
        Some(all.min_by_key(|reached| (reached.entry, reached.offset)).unwrap_or(none))
    }

    /// Bytes of the files before this position.
    pub fn bytes_before(&self, place: &ResumePoint) -> u64 {
        let before = self.entries.iter().take(place.entry as usize);
        let sizes =
            before.map(|entry| if let Kind::File { stamp, .. } = entry.kind { stamp.size() } else { 0 });
        sizes.sum::<u64>() + place.offset
    }

    /// Total bytes of all files; `None` for a stream.
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
        name: Vec<u8>,
        metadata: &Metadata,
        above: &mut Vec<(u64, u64)>,
    ) -> anyhow::Result<()> {
        if !metadata.is_dir() {
            return self.add(path, name, metadata, above.is_empty());
        }
        let identity = (metadata.dev(), metadata.ino());
        if above.contains(&identity) {
            self.skip(path, SkipReason::LinkLoop);
            return Ok(());
        }
        let children = match list_directory(path) {
            Err(error) if !above.is_empty() => {
                self.skip(path, SkipReason::Unreadable(error.to_string()));
                return Ok(());
            }
            children => children.with_context(|| format!("cannot read directory {}", shown_path(path)))?,
        };
        above.push(identity);
        let mode = metadata.permissions().mode() & MODE_MASK;
        let modified = times::carried((metadata.mtime(), metadata.mtime_nsec()));
        self.entries.push(Entry { name: name.clone(), kind: Kind::Directory { modified }, mode });
        for child in children {
            let path = path.join(&child);
            let name = [&name, &b"/"[..], child.as_bytes()].concat();
            // The list of an update belongs to this directory alone.
            if is_list(child.as_bytes()) {
                continue;
            }
            if is_part_name(child.as_bytes()) {
                self.skip(&path, SkipReason::Incomplete);
                continue;
            }
            if RelativePath::new(&name).is_none() {
                self.skip(&path, SkipReason::Path);
                continue;
            }
            match fs::symlink_metadata(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    self.skip(&path, SkipReason::Vanished);
                }
                Err(error) => self.skip(&path, SkipReason::Unreadable(error.to_string())),
                Ok(metadata) if metadata.is_symlink() => {
                    if let Some(metadata) = self.link(&path, &name) {
                        self.walk(&path, name, &metadata, above)?;
                    }
                }
                Ok(metadata) => self.walk(&path, name, &metadata, above)?,
            }
        }
        above.pop();
        Ok(())
    }

    fn skip(&mut self, path: &Path, reason: SkipReason) {
        self.skipped.push(Skipped { path: path.to_owned(), reason });
    }

    /// Handles a symbolic link as configured; returns the metadata of its target if that is sent.
    fn link(&mut self, path: &Path, name: &[u8]) -> Option<Metadata> {
        if self.links == Symlinks::Skip {
            self.skip(path, SkipReason::LinkUnwanted);
            return None;
        }
        let target = match fs::read_link(path) {
            Ok(target) => target,
            Err(error) => {
                self.skip(path, SkipReason::Unreadable(error.to_string()));
                return None;
            }
        };
        let text = target.as_os_str().as_bytes();
        if self.links == Symlinks::Keep {
            let stays = RelativePath::new(name).is_some_and(|name| link_stays_below(&name, text));
            if stays && text.len() <= LINK_TARGET_MAX_LEN {
                self.entries.push(Entry {
                    name: name.to_owned(),
                    kind: Kind::Link(text.to_owned()),
                    mode: 0,
                });
            } else {
                self.skip(path, SkipReason::LinkLeadsOut(text.to_owned()));
            }
            return None;
        }
        match fs::metadata(path) {
            Ok(metadata) => {
                let end = path.canonicalize().ok();
                let is_inside = end.zip(self.tree.as_ref()).is_some_and(|(end, tree)| end.starts_with(tree));
                if !is_inside {
                    self.followed_out.push((path.to_owned(), target));
                }
                Some(metadata)
            }
            Err(error) if leads_nowhere(&error) => {
                self.skip(path, SkipReason::DanglingLink);
                None
            }
            Err(error) => {
                self.skip(path, SkipReason::Unreadable(error.to_string()));
                None
            }
        }
    }

    /// Adds a file, or a block device that was `named` on the command line, as its size is known and it can be read
    /// again. A named file that cannot be sent is an error.
    fn add(&mut self, path: &Path, name: Vec<u8>, metadata: &Metadata, named: bool) -> anyhow::Result<()> {
        let is_device = named && metadata.file_type().is_block_device();
        if !metadata.is_file() && !is_device {
            if named {
                let (kind, path) = (special(metadata.file_type()), shown_path(path));
                bail!(
                    "{path} is a {kind}, not a file or directory: `carillon send - < {path}` sends its contents as a stream"
                );
            }
            self.skip(path, SkipReason::Special(special(metadata.file_type())));
            return Ok(());
        }
        // Problems are found before the transfer instead of in the middle. Opening tells why access is denied.
        if accessat(CWD, path, Access::READ_OK, AtFlags::EACCESS).is_err()
            && let Err(error) = File::open(path)
        {
            if named {
                return Err(error).with_context(|| cannot_read(path));
            }
            self.skip(path, SkipReason::Unreadable(error.to_string()));
            return Ok(());
        }
        // A named link is followed here, because `Symlinks::Keep` follows no link in place of a file.
        let path = match named && path.is_symlink() {
            true => path.canonicalize().with_context(|| cannot_read(path))?,
            false => path.to_owned(),
        };
        let (mode, stamp) = match is_device {
            true => {
                (STREAM_MODE, Opened::open(&path, false, true).with_context(|| cannot_read(&path))?.stamp())
            }
            false => (metadata.permissions().mode() & MODE_MASK, Stamp::of(metadata)),
        };
        if is_device && stamp.size() == 0 {
            bail!("{} is a block device of 0 bytes: attach a medium", shown_path(&path));
        }
        let kind = Kind::File { path, stamp };
        self.entries.push(Entry { name, kind, mode });
        Ok(())
    }

    /// Checks the names that the caller chose, and that no two entries have the same name.
    fn check_names(&self) -> anyhow::Result<()> {
        let mut names = BTreeSet::new();
        let mut directories = BTreeSet::new();
        for Entry { name, kind, .. } in &self.entries {
            if RelativePath::new(name).is_none() {
                bail!(
                    "the name \"{}\" cannot be sent: no part of it may be empty, `.` or `..`, have a NUL byte, \
                     or be longer than {} bytes; at most {} bytes and {} parts",
                    shown_name(name),
                    RelativePath::MAX_NAME_LEN,
                    RelativePath::MAX_LEN,
                    RelativePath::MAX_DEPTH
                );
            }
            if components(name).any(is_part_name) {
                bail!(
                    "\"{}\" is the name of a file that did not arrive completely: rename it",
                    shown_name(name)
                );
            }
            if let Kind::Directory { .. } = kind {
                directories.insert(name.as_slice());
            } else if !names.insert(name.as_slice()) {
                bail!(
                    "two files would have the name \"{}\" at the receivers: send them one by one",
                    shown_name(name)
                );
            }
        }
        // A file cannot be a directory as well, neither a sent one nor one above a renamed file.
        for name in names.iter().chain(&directories) {
            let mut above = if directories.contains(name) { Some(*name) } else { parent(name) };
            while let Some(directory) = above {
                if names.contains(directory) {
                    bail!(
                        "\"{}\" would be a file and a directory at the receivers: send them one by one",
                        shown_name(directory)
                    );
                }
                above = parent(directory);
            }
        }
        Ok(())
    }
}

fn parent(name: &[u8]) -> Option<&[u8]> {
    let (parent, _) = split(name);
    (!parent.is_empty()).then_some(parent)
}

/// Names in a directory, sorted.
fn list_directory(path: &Path) -> io::Result<Vec<OsString>> {
    let mut names =
        fs::read_dir(path)?.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>()?;
    names.sort();
    Ok(names)
}

/// Name of a special file type.
pub(super) fn special(kind: fs::FileType) -> &'static str {
    match () {
        () if kind.is_fifo() => "FIFO",
        () if kind.is_socket() => "socket",
        () if kind.is_block_device() => "block device",
        () if kind.is_char_device() => "character device",
        () => "special file",
    }
}

fn cannot_read(path: &Path) -> String {
    format!("cannot read {}", shown_path(path))
}

/// Returns true if the error means that the link has no target.
fn leads_nowhere(error: &io::Error) -> bool {
    let link_loop = error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error());
    link_loop || matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Last component of a path, also for paths like `..` or `dir/.`.
fn base_name(path: &Path) -> anyhow::Result<Vec<u8>> {
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
    let Some(name) = name else { bail!("{} has no name: send its contents", shown_path(path)) };
    Ok(name.into_vec())
}

const STREAM_MODE: u32 = 0o644;
