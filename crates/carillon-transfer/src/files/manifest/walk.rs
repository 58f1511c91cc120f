//! Listing of the paths of a transfer.

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirEntry, File, Metadata};
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use carillon_wire::file::{LINK_TARGET_MAX_LEN, MODE_MASK, RelativePath, link_stays_below};
use rustix::fs::{Access, AtFlags, CWD, accessat};
use rustix::process::geteuid;

use super::super::contents::{Opened, Stamp};
use super::super::names::{is_part_name, shown_path};
use super::super::skipped::{SkipReason, Skipped};
use super::super::times;
use super::super::update::is_list;
use super::{Entry, Kind, Manifest, STREAM_MODE, Selection, Symlinks, special};
use crate::error::{Context as _, LocalError, stated};

impl Manifest {
    pub(super) fn walk_all(paths: &[PathBuf], selection: &Selection) -> Result<Manifest, LocalError> {
        let Selection { rename, symlinks: links, exclude, names, archive } = selection;
        let rename = rename.as_deref();
        let mut manifest = Manifest { links: *links, exclude: exclude.clone(), ..Manifest::empty() };
        manifest.archive = archive.then(Box::default);
        if let Some(names) = names {
            let [base] = paths else { return Err(stated!("names of --files-from are relative to one PATH")) };
            manifest.add_named(base, names)?;
        }
        for path in paths.iter().filter(|_| names.is_none()) {
            manifest.add_path(path, rename)?;
        }
        manifest.check_names()?;
        manifest.finish_archive()?;
        if manifest.entries.is_empty() {
            let names: Vec<_> = paths.iter().map(|path| shown_path(path)).collect();
            return Err(stated!("nothing to send: no file in {}", names.join(", ")));
        }
        if u32::try_from(manifest.entries.len()).is_err() {
            return Err(stated!("{} files are too many for one transfer", manifest.entries.len()));
        }
        Ok(manifest)
    }

    /// Adds a path of the command line with everything below it.
    fn add_path(&mut self, path: &Path, rename: Option<&OsStr>) -> Result<(), LocalError> {
        if path.as_os_str() == "-" {
            let name = rename.unwrap_or(OsStr::new("stdin")).as_bytes().to_owned();
            if self.entries.iter().any(|entry| matches!(entry.kind, Kind::Stream)) {
                return Err(stated!("the standard input can be sent only once: give `-` once"));
            }
            if self.archive.is_some() {
                return Err(stated!("--archive: the standard input has no attributes: leave out `-`"));
            }
            self.entries.push(Entry { name, kind: Kind::Stream, mode: STREAM_MODE });
            return Ok(());
        }
        let metadata = fs::metadata(path).with_context(|| cannot_read(path))?;
        if let Some(name) = rename {
            if metadata.is_dir() {
                return Err(stated!(
                    "{} is a directory: --as renames one file or the standard input",
                    shown_path(path)
                ));
            }
            return self.add(path, name.as_bytes().to_owned(), &metadata, true);
        }
        let name = base_name(path)?;
        if self.exclude.matches_root(&name, metadata.is_dir()) {
            self.excluded += 1;
            return Ok(());
        }
        self.tree = path.canonicalize().ok();
        self.walk(path, name, &metadata, &mut Vec::new())
    }

    fn walk(
        &mut self,
        path: &Path,
        name: Vec<u8>,
        metadata: &Metadata,
        above: &mut Vec<(u64, u64)>,
    ) -> Result<(), LocalError> {
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
        let entry = Entry { name: name.clone(), kind: Kind::Directory { modified }, mode };
        if !self.push(entry, path, metadata) {
            return Ok(());
        }
        for (child, entry) in children {
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
            // By the open directory, which is faster than by the path.
            let found = entry.metadata();
            // Patterns match below the directory that is sent.
            let below = name.iter().position(|&byte| byte == b'/').map_or(&[][..], |at| &name[at + 1..]);
            if self.exclude.matches(below, found.as_ref().is_ok_and(Metadata::is_dir)) {
                self.excluded += 1;
                continue;
            }
            match found {
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

    pub(super) fn skip(&mut self, path: &Path, reason: SkipReason) {
        self.skipped.push(Skipped { path: path.to_owned(), reason });
    }

    /// Handles a symbolic link as configured; returns the metadata of its target if that is sent.
    pub(super) fn link(&mut self, path: &Path, name: &[u8]) -> Option<Metadata> {
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
            let is_short = text.len() <= LINK_TARGET_MAX_LEN;
            let metadata = match fs::symlink_metadata(path) {
                Ok(metadata) => metadata,
                Err(error) => {
                    self.skip(path, SkipReason::Unreadable(error.to_string()));
                    return None;
                }
            };
            if stays && is_short {
                let entry = Entry { name: name.to_owned(), kind: Kind::Link(text.to_owned()), mode: 0 };
                self.push(entry, path, &metadata);
            } else if !is_short || !self.add_special(path, name, &metadata, Some(text)) {
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
    pub(super) fn add(
        &mut self,
        path: &Path,
        name: Vec<u8>,
        metadata: &Metadata,
        named: bool,
    ) -> Result<(), LocalError> {
        let is_device = named && metadata.file_type().is_block_device();
        if !metadata.is_file() && !is_device {
            if named {
                let (kind, path) = (special(metadata.file_type()), shown_path(path));
                return Err(stated!(
                    "{path} is a {kind}, not a file or directory: `carillon send - < {path}` sends its contents as a stream"
                ));
            }
            if !self.add_special(path, &name, metadata, None) {
                self.skip(path, SkipReason::Special(special(metadata.file_type())));
            }
            return Ok(());
        }
        if self.add_hard_link(&name, metadata) {
            return Ok(());
        }
        // Problems are found before the transfer instead of in the middle. Opening tells why access is denied.
        if !is_readable(path, metadata)
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
            return Err(stated!("{} is a block device of 0 bytes: attach a medium", shown_path(&path)));
        }
        let (source, kind) = (path.clone(), Kind::File { path, stamp });
        self.push(Entry { name, kind, mode }, &source, metadata);
        Ok(())
    }
}

/// Entries of a directory, sorted by their names.
fn list_directory(path: &Path) -> io::Result<Vec<(OsString, DirEntry)>> {
    let named = |entry: io::Result<DirEntry>| entry.map(|entry| (entry.file_name(), entry));
    let mut entries = fs::read_dir(path)?.map(named).collect::<io::Result<Vec<_>>>()?;
    entries.sort_by(|(one, _), (other, _)| one.cmp(other));
    Ok(entries)
}

/// Returns true if the process may read the file. The owner's bits decide for the owner, without a system call.
fn is_readable(path: &Path, metadata: &Metadata) -> bool {
    static OWN_USER: OnceLock<u32> = OnceLock::new();
    let is_owner = metadata.uid() == *OWN_USER.get_or_init(|| geteuid().as_raw());
    is_owner && metadata.mode() & OWNER_MAY_READ != 0
        || accessat(CWD, path, Access::READ_OK, AtFlags::EACCESS).is_ok()
}

/// Permission of a file's owner to read it.
const OWNER_MAY_READ: u32 = 0o400;

fn cannot_read(path: &Path) -> String {
    format!("cannot read {}", shown_path(path))
}

/// Returns true if the error means that the link has no target.
fn leads_nowhere(error: &io::Error) -> bool {
    let link_loop = error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error());
    link_loop || matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Last component of a path, also for paths like `..` or `dir/.`.
fn base_name(path: &Path) -> Result<Vec<u8>, LocalError> {
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
    let Some(name) = name else { return Err(stated!("{} has no name: send its contents", shown_path(path))) };
    Ok(name.into_vec())
}
