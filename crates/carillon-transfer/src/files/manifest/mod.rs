//! Manifest of a transfer: the paths of the command line, as entries with their names at the receivers.

mod archive;
mod check;
mod collector;
mod exclude;
mod named;
mod walk;

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

use carillon_session::UnknownWord;
use carillon_wire::file::{ResumePoint, TransferId};

use super::contents::Stamp;
use super::feed::Feed;
use super::names::{shown_name, shown_path};
use super::signing::Signing;
use super::signing_keys::SigningKey;
use super::skipped::{SkipReason, Skipped};
use super::stdin::{Input, read_lines};
use crate::LocalError;
use crate::error::stated;

pub use exclude::{Exclude, ExcludeError};
pub use named::split_names;

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
    /// Patterns of entries that are left out, and the number of such entries.
    exclude: Exclude,
    excluded: u64,
    /// Attributes and special entries, and their table once everything is listed.
    archive: Option<Box<collector::Collector>>,
    table: Option<Vec<u8>>,
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

/// Choice of the entries below the paths of a transfer.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Name of the single file at the receivers.
    pub rename: Option<OsString>,
    /// Treatment of symbolic links in directories.
    pub symlinks: Symlinks,
    /// Entries that are left out.
    pub exclude: Exclude,
    /// Names of the entries, relative to the only path; without them everything below the paths is sent.
    pub names: Option<Vec<Vec<u8>>>,
    /// Sends owners, all permission bits, extended attributes, hard links, links that lead out, FIFOs and devices.
    pub archive: bool,
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
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        match text {
            "follow" => Ok(Symlinks::Follow),
            "keep" => Ok(Symlinks::Keep),
            "skip" => Ok(Symlinks::Skip),
            _ => Err(UnknownWord { expected: "follow, keep or skip" }),
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
        let name = name.as_ref().as_bytes().to_owned();
        let manifest = Manifest {
            entries: vec![Entry { name, kind: Kind::Stream, mode: STREAM_MODE }],
            input: Mutex::new(Input::new(reader)),
            ..Manifest::empty()
        };
        manifest.check_names()?;
        Ok(manifest)
    }

    /// Creates a manifest of a live stream with the messages of a program.
    #[must_use]
    pub fn feed(feed: Arc<Feed>) -> Manifest {
        Manifest {
            entries: vec![Entry { name: b"stream".to_vec(), kind: Kind::Stream, mode: STREAM_MODE }],
            feed: Some(feed),
            ..Manifest::empty()
        }
    }

    fn empty() -> Manifest {
        Manifest {
            entries: Vec::new(),
            links: Symlinks::default(),
            skipped: Vec::new(),
            followed_out: Vec::new(),
            tree: None,
            exclude: Exclude::default(),
            excluded: 0,
            archive: None,
            table: None,
            input: Mutex::default(),
            feed: None,
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

    /// Lists the selected entries of these paths. Directories are walked in order of name; entries that cannot be
    /// sent are skipped ([`Manifest::skipped`]).
    ///
    /// # Errors
    /// One of the paths cannot be read or sent itself, or two files would have the same name.
    pub fn list(paths: &[PathBuf], selection: &Selection) -> Result<Manifest, LocalError> {
        Manifest::walk_all(paths, selection)
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

    /// Number of entries that patterns leave out, without those below a directory that is left out.
    pub fn excluded(&self) -> u64 {
        self.excluded
    }

    /// Patterns of entries that are left out.
    pub fn exclude(&self) -> &Exclude {
        &self.exclude
    }

    /// Table of an archive.
    pub(super) fn table(&self) -> Option<&[u8]> {
        self.table.as_deref()
    }

    /// Returns true if this is an archive, which receivers must accept.
    pub(crate) fn is_archive(&self) -> bool {
        self.table.is_some()
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
            (Some(first), 0) => Err(stated!("{first} (one entry of the tree)")),
            (Some(first), more) => Err(stated!("{first} (and {more} more entries of the tree)")),
        }
    }

    /// Refuses a manifest from which entries are left out because they cannot be read or named. Receivers would delete
    /// their copies of them.
    pub(crate) fn check_complete(&self) -> Result<(), LocalError> {
        let lost = |skipped: &&Skipped| {
            matches!(skipped.reason, SkipReason::Unreadable(_) | SkipReason::Path | SkipReason::Incomplete)
        };
        match self.skipped.iter().find(lost) {
            None => Ok(()),
            Some(first) => {
                let text = "--delete would delete it at the receivers: leave it out with --exclude";
                Err(stated!("{first}, and {text}"))
            }
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
        if let Some(table) = &self.table {
            put(b"archive");
            put(table);
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
}

/// Name of a special file type.
pub(in crate::files) fn special(kind: fs::FileType) -> &'static str {
    match () {
        () if kind.is_fifo() => "FIFO",
        () if kind.is_socket() => "socket",
        () if kind.is_block_device() => "block device",
        () if kind.is_char_device() => "character device",
        () => "special file",
    }
}

const STREAM_MODE: u32 = 0o644;
