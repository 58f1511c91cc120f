//! Destination of files: a directory that no name can escape, with temporary names until everything is verified.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use carillon_wire::file::{RelativePath, ResumePoint, TransferId};
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, Stat, fchmod, fstat, openat, readlinkat, statat, unlinkat,
};
use rustix::io::Errno;

use super::descent::Descent;
use super::draft::{self, Draft, WriteError};
use super::holes;
use super::leftovers::Sweep;
use super::manifest::special;
use super::names::{below, part_name, shown_path, split};
use super::output::Output;
use super::problem::{Unstorable, is_unfit};
use super::resume::{Journal, Kept};
use super::spool::Spool;
use super::times::{self, Attributes};
use super::update::{self, Comparison, Lookup};
use super::written::{Written, exact_device, lists};
use crate::LocalError;

/// A directory for received files, or one output for their contents.
#[derive(Debug)]
pub enum Target {
    /// Files below a directory.
    Directory(Box<Folder>),
    /// The contents of all files, one after the other.
    Output(Output),
}

/// A directory for received files.
#[derive(Debug)]
pub struct Folder {
    root: PathBuf,
    /// True if existing files are replaced.
    overwrite: bool,
    /// True while small files can be created without a temporary name.
    unnamed: bool,
    /// Seed of the next temporary name.
    number: u64,
    sweep: Sweep,
    /// Owner of the receiver's files.
    user: u32,
    /// Journal of the transfer, with the state of an earlier attempt.
    journal: Option<Journal>,
    kept: Option<Kept>,
    /// True if only signed data is accepted.
    trusted: bool,
    /// Spool of overheard data, while no session uses it.
    spool: Option<Box<Spool>>,
    /// True if the directory was swept for leftovers of an earlier transfer.
    swept: bool,
    /// Entries created in this transfer.
    written: Written,
    /// Permission bits that the system leaves to new files.
    permitted: u32,
}

/// An incomplete file. Dropping it removes the file.
#[derive(Debug)]
pub struct Partial(Kind);

#[derive(Debug)]
enum Kind {
    File { draft: Draft<OwnedFd>, path: PathBuf, overwrite: bool },
    Output(Output),
}

/// Directory of a sender's last file; `None` before the first.
pub type Position = Option<Descent>;

impl Target {
    /// Opens a writable directory, created if necessary, and removes or reports leftovers of a killed receiver.
    pub fn directory(root: &Path, overwrite: bool) -> Result<Target, LocalError> {
        Ok(Target::open(root, overwrite)?)
    }

    fn open(root: &Path, overwrite: bool) -> anyhow::Result<Target> {
        let failed = || format!("cannot write to directory {}", shown_path(root));
        if let Ok(found) = std::fs::metadata(root)
            && !found.is_dir()
        {
            let kind = if found.is_file() { "file" } else { special(found.file_type()) };
            let path = shown_path(root);
            let text = format!(
                "{path} is a {kind}, not a directory: `carillon recv --stdout > {path}` writes a single received file to it"
            );
            return Err(io::Error::new(io::ErrorKind::NotADirectory, text).into());
        }
        let mut number = getrandom::u64().context("the system provides no random numbers")?;
        let descent = Descent::new(root).with_context(failed)?;
        // Write errors are found before the transfer begins.
        let probe = Draft::create(descent.root(), b"probe", 0o600, || next(&mut number));
        let user = probe.and_then(|probe| probe.user()).with_context(failed)?;
        // If an unusual spelling is refused, names are not compared byte by byte.
        let probe = Draft::create(descent.root(), "probe-é".as_bytes(), 0o777, || next(&mut number));
        let spelling = probe.as_ref().ok().and_then(|probe| std::str::from_utf8(probe.part()).ok());
        let exact = spelling.and_then(|name| exact_device(descent.root(), name));
        let permitted = probe.as_ref().ok().and_then(|probe| probe.mode().ok()).unwrap_or(0o777);
        drop(probe);
        let mut journal = Journal::open(descent.root(), user, false);
        let kept = journal.as_ref().and_then(|journal| journal.read(descent.root(), user));
        if kept.is_none()
            && let Some(journal) = journal.take()
        {
            journal.remove(descent.root());
        }
        // The journal is read before the other leftovers are removed.
        let spool = Spool::open(root, user);
        let spared = kept.as_ref().and_then(|kept| kept.part.as_ref()).map(|part| below(root, part));
        let mut sweep = Sweep::new(user, spared);
        let swept = sweep.tree(descent.root(), root);
        Ok(Target::Directory(Box::new(Folder {
            root: root.to_owned(),
            overwrite,
            unnamed: !overwrite && cfg!(target_os = "linux"),
            number,
            sweep,
            user,
            journal,
            kept,
            trusted: false,
            spool: Some(Box::new(spool)),
            swept,
            written: Written::new(exact),
            permitted,
        })))
    }

    /// Takes the spool for a session.
    pub(super) fn take_spool(&mut self) -> Option<Box<Spool>> {
        if let Target::Directory(folder) = self { folder.spool.take() } else { None }
    }

    /// Returns the spool for the next session.
    pub(super) fn put_spool(&mut self, spool: Box<Spool>) {
        if let Target::Directory(folder) = self {
            folder.spool = Some(spool);
        }
    }

    /// Identifier of the destination, equal in every process of this host; `None` for an output of this process.
    pub(super) fn place(&self) -> Option<Vec<u8>> {
        match self {
            Target::Directory(folder) => {
                let path = std::fs::canonicalize(&folder.root).unwrap_or_else(|_| folder.root.clone());
                // Containers on one host may have equal paths.
                let device = std::fs::metadata(&path).map_or(0, |found| found.dev());
                Some([b"directory".as_slice(), path.as_os_str().as_bytes(), &device.to_be_bytes()].concat())
            }
            Target::Output(output) => output.is_stdout().then(|| b"stdout".to_vec()),
        }
    }

    /// Messages about the directory, a line each.
    pub fn take_notes(&mut self) -> Vec<String> {
        match self {
            Target::Directory(folder) => folder.sweep.take_lines(),
            Target::Output(_) => Vec::new(),
        }
    }

    /// Progress of an earlier attempt; asked between transfers. With `trusted` only signed progress counts.
    pub fn reached(&mut self, trusted: bool) -> Option<ResumePoint> {
        let Target::Directory(folder) = self else { return None };
        folder.trusted = trusted;
        folder.written.clear();
        if let (None, Some(journal)) = (&folder.kept, &folder.journal) {
            let descent = Descent::new(&folder.root).ok()?;
            folder.kept = journal.read(descent.root(), folder.user);
        }
        if folder.kept.as_ref().is_some_and(|kept| kept.trusted != trusted) {
            folder.forget();
        }
        folder.kept.as_ref().map(|kept| kept.reached)
    }

    /// Begins a resumable transfer and returns the state of its earlier attempt. Leftovers of other transfers are
    /// removed.
    pub(super) fn resume(&mut self, transfer: TransferId) -> Option<Kept> {
        let Target::Directory(folder) = self else { return None };
        let kept = folder.kept.take_if(|kept| kept.reached.transfer == transfer);
        if kept.is_none() {
            folder.forget();
        }
        kept
    }

    /// Records the number of complete entries and the partial file of the next one. If recording fails, the next
    /// attempt begins anew.
    pub(super) fn note(&mut self, transfer: TransferId, entry: u32, partial: Option<&mut Partial>) {
        let Target::Directory(folder) = self else { return };
        if folder.journal.is_none() {
            let descent = Descent::new(&folder.root);
            folder.journal = descent.ok().and_then(|root| Journal::open(root.root(), folder.user, true));
        }
        let Some(journal) = &folder.journal else { return };
        let part = partial.as_ref().and_then(|partial| partial.part(&folder.root));
        match journal.write(folder.trusted, (transfer, entry), part.as_deref()) {
            Ok(()) => partial.into_iter().for_each(Partial::keep),
            Err(_) => folder.forget(),
        }
    }

    /// Sets permission bits and time of a file that is not sent. Errors are ignored, as the contents are intact.
    pub(super) fn set_attributes(&mut self, lookup: &mut Lookup, name: &[u8], attributes: Attributes) {
        let (Target::Directory(folder), Some(file)) = (self, lookup.file(name)) else { return };
        let _ = fchmod(&file, Mode::from_raw_mode((attributes.mode & folder.permitted) as _));
        times::set(file.as_fd(), attributes.modified);
    }

    /// Removes the partial file of an earlier attempt.
    pub(super) fn remove_kept(&mut self, kept: &Kept) {
        if let Target::Directory(folder) = self
            && let Ok(descent) = Descent::new(&folder.root)
        {
            kept.remove(descent.root());
        }
    }

    /// Identity of the list of the last complete update.
    pub(super) fn list(&self) -> Option<TransferId> {
        let Target::Directory(folder) = self else { return None };
        update::list_identity(&mut Lookup::new(&folder.root).ok()?)
    }

    /// Returns true if existing files are replaced.
    pub(super) fn overwrites(&self) -> bool {
        matches!(self, Target::Directory(folder) if folder.overwrite)
    }

    /// Removes the journal.
    pub(super) fn forget(&mut self) {
        if let Target::Directory(folder) = self {
            folder.forget();
        }
    }

    /// Reopens the partial file of an earlier attempt; `read` receives its contents.
    pub(super) fn reopen(
        &mut self,
        position: &mut Position,
        name: &RelativePath<'_>,
        size: Option<u64>,
        part: &[u8],
        read: impl FnMut(&[u8]),
    ) -> anyhow::Result<Option<Partial>> {
        let Target::Directory(folder) = self else { return Ok(None) };
        let (parents, _) = split(name);
        let (above, part) = split(part);
        if above != parents {
            return Ok(None);
        }
        let directory = folder.enter(position, parents, None)?;
        let path = below(&folder.root, name);
        let directory = directory.try_clone_to_owned().with_context(|| cannot_create(&path))?;
        let Ok(mut draft) = Draft::reopen(directory, part, read) else { return Ok(None) };
        draft.grow_to(size).with_context(|| cannot_write(&path))?;
        Ok(Some(Partial(Kind::File { draft, path, overwrite: folder.overwrite })))
    }

    /// Opens an existing file of this name and size.
    pub(super) fn existing(
        &mut self,
        position: &mut Position,
        name: &RelativePath<'_>,
        size: u64,
    ) -> anyhow::Result<Option<File>> {
        let Target::Directory(folder) = self else { return Ok(None) };
        let (parents, file_name) = split(name);
        let directory = folder.enter(position, parents, None)?;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let Ok(file) = openat(directory, file_name, flags, Mode::empty()).map(File::from) else {
            return Ok(None);
        };
        if !file.metadata().is_ok_and(|found| found.is_file() && found.len() == size) {
            return Ok(None);
        }
        let stat = fstat(&file).map_err(io::Error::from)?;
        if let Some(other) = folder.written.alias(directory, name, &stat) {
            return Err(Unstorable::alias(&other).into());
        }
        folder.written.note(name, &stat);
        Ok(Some(file))
    }

    /// Begins a file with an expected size. An existing file is refused unless it may be replaced.
    pub(super) fn begin(
        &mut self,
        position: &mut Position,
        name: &RelativePath<'_>,
        size: Option<u64>,
        mode: u32,
    ) -> anyhow::Result<Partial> {
        let folder = match self {
            Target::Directory(folder) => folder,
            Target::Output(output) => return Ok(Partial(Kind::Output(output.clone()))),
        };
        let (parents, file_name) = split(name);
        let directory = folder.enter(position, parents, None)?;
        let path = below(&folder.root, name);
        let found = statat(directory, file_name, AtFlags::SYMLINK_NOFOLLOW);
        if let Ok(stat) = &found
            && let Some(other) = folder.written.alias(directory, name, stat)
        {
            return Err(Unstorable::alias(&other).into());
        }
        match found.map(|stat| FileType::from_raw_mode(stat.st_mode)) {
            Ok(FileType::Directory) => return Err(is_a_directory(&path)),
            Ok(_) if !folder.overwrite => return Err(exists(&path)),
            Ok(_) | Err(Errno::NOENT) => {}
            Err(error) if is_unfit(error, directory) => return Err(Unstorable::unfit(error).into()),
            Err(error) => {
                return Err(io::Error::from(error))
                    .with_context(|| format!("cannot look at {}", shown_path(&path)));
            }
        }
        let owned = directory.try_clone_to_owned().with_context(|| cannot_create(&path))?;
        let mut draft = match Draft::create(owned, file_name, mode, || next(&mut folder.number)) {
            Err(error) if is_unfit_io(&error, directory) => return Err(Unstorable::unfit(error).into()),
            draft => draft.with_context(|| cannot_create(&path))?,
        };
        draft.grow_to(size).with_context(|| cannot_write(&path))?;
        Ok(Partial(Kind::File { draft, path, overwrite: folder.overwrite }))
    }

    /// Writes a complete file with these permission bits and modification time.
    pub(super) fn write(
        &mut self,
        position: &mut Position,
        name: &RelativePath<'_>,
        attributes: Attributes,
        bytes: &[u8],
    ) -> anyhow::Result<()> {
        let folder = match self {
            Target::Directory(folder) => folder,
            Target::Output(output) => return output.write(bytes).and_then(|()| output.flush()),
        };
        let (parents, file_name) = split(name);
        let directory = folder.enter(position, parents, None)?;
        let path = || below(&folder.root, name);
        if folder.overwrite {
            folder.written.check(directory, name)?;
        }
        let number = || next(&mut folder.number);
        #[cfg(target_os = "linux")]
        let unnamed =
            folder.unnamed.then(|| draft::write_unnamed(directory, file_name, attributes, bytes)).flatten();
        #[cfg(not(target_os = "linux"))]
        let unnamed = None;
        folder.unnamed = unnamed.is_some();
        let written = unnamed.unwrap_or_else(|| {
            draft::write(directory, file_name, attributes, bytes, folder.overwrite, number)
        });
        match written {
            Ok(stat) => folder.written.made(directory, name, &stat),
            Err(WriteError::Name(error)) => {
                Err(unnamed_because(error, directory, name, &folder.written, &path))
            }
            Err(WriteError::Contents(error)) => Err(error).with_context(|| cannot_write(&path())),
        }
    }

    /// Creates a directory unless it exists. Permission bits (of a created one) and modification time are set after
    /// its contents are complete.
    pub(super) fn make_directory(
        &mut self,
        position: &mut Position,
        name: &RelativePath<'_>,
        attributes: Attributes,
    ) -> anyhow::Result<()> {
        let Target::Directory(folder) = self else { return Ok(()) };
        folder.enter(position, name, Some(attributes)).map(|_| ())
    }

    /// Creates a symbolic link; `again` permits an existing equal one. The caller has checked its target.
    pub(super) fn make_link(
        &mut self,
        position: &mut Position,
        name: &RelativePath<'_>,
        target: &[u8],
        again: bool,
    ) -> anyhow::Result<()> {
        let Target::Directory(folder) = self else { return Ok(()) };
        let (parents, file_name) = split(name);
        let directory = folder.enter(position, parents, None)?;
        let found = || readlinkat(directory, file_name, Vec::new()).is_ok_and(|at| at.as_bytes() == target);
        if again && found() {
            return Ok(());
        }
        if folder.overwrite {
            folder.written.check(directory, name)?;
        }
        match draft::link(directory, file_name, target, folder.overwrite, || next(&mut folder.number)) {
            Ok(()) => {
                let stat =
                    statat(directory, file_name, AtFlags::SYMLINK_NOFOLLOW).map_err(io::Error::from)?;
                folder.written.made(directory, name, &stat)
            }
            Err(error) if has_no_links(&error) => Err(Unstorable::link(error).into()),
            Err(error) => {
                let path = || below(&folder.root, name);
                Err(unnamed_because(error, directory, name, &folder.written, &path))
            }
        }
    }

    /// Gives a complete file its final name and modification time.
    pub(super) fn commit(
        &mut self,
        partial: Partial,
        name: &RelativePath<'_>,
        modified: Option<i64>,
    ) -> anyhow::Result<()> {
        let (draft, path, overwrite) = match partial.0 {
            Kind::File { draft, path, overwrite } => (draft, path, overwrite),
            Kind::Output(output) => return output.flush(),
        };
        let Target::Directory(folder) = self else { bail!("{} has no directory", shown_path(&path)) };
        let directory = draft.directory().try_clone_to_owned().with_context(|| cannot_create(&path))?;
        let directory = directory.as_fd();
        if overwrite {
            folder.written.check(directory, name)?;
        }
        match draft.name(split(name).1, modified, overwrite) {
            Ok(stat) => folder.written.made(directory, name, &stat),
            Err(error) => Err(unnamed_because(error, directory, name, &folder.written, &|| path.clone())),
        }
    }
}

impl Folder {
    /// The directory.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Permission bits that the system leaves to new files.
    pub(super) fn permitted(&self) -> u32 {
        self.permitted
    }

    /// Returns true if a file that is not sent is another entry of the transfer to the file system; otherwise records
    /// it.
    pub(super) fn is_alias(&mut self, directory: BorrowedFd<'_>, name: &[u8], stat: &Stat) -> bool {
        let is_alias = self.written.alias(directory, name, stat).is_some();
        if !is_alias {
            self.written.note(name, stat);
        }
        is_alias
    }

    /// Stores the list of a complete update.
    pub(super) fn write_list(&mut self, comparison: &Comparison) {
        let part = part_name(b"list", next(&mut self.number));
        if let Ok(descent) = Descent::new(&self.root) {
            let _ = update::write_list(descent.root(), comparison, &part);
        }
    }

    fn enter<'a>(
        &mut self,
        position: &'a mut Position,
        names: &[u8],
        attributes: Option<Attributes>,
    ) -> anyhow::Result<BorrowedFd<'a>> {
        let descent = match position {
            Some(descent) => descent,
            None => {
                let descent = Descent::new(&self.root);
                let failed = || format!("cannot write to directory {}", shown_path(&self.root));
                position.insert(descent.with_context(failed)?)
            }
        };
        let (sweep, swept, written) = (&mut self.sweep, self.swept, &mut self.written);
        descent.enter(names, attributes, &mut |entered| {
            if written.has(entered.name) {
                return Ok(());
            }
            let stat = fstat(entered.handle).map_err(io::Error::from)?;
            if !entered.is_made {
                if let Some(other) = written.alias(entered.above, entered.name, &stat) {
                    return Err(Unstorable::alias(&other).into());
                }
                if !swept {
                    sweep.directory(entered.handle, entered.path);
                }
            }
            written.note(entered.name, &stat);
            Ok(())
        })
    }
}

impl Folder {
    /// Removes the data kept of a transfer.
    fn forget(&mut self) {
        let Ok(descent) = Descent::new(&self.root) else { return };
        if let Some(journal) = self.journal.take() {
            let noted = journal.read(descent.root(), self.user);
            noted.iter().chain(&self.kept).for_each(|kept| kept.remove(descent.root()));
            journal.remove(descent.root());
        }
        self.kept = None;
    }
}

impl Partial {
    /// Keeps the file after the drop.
    fn keep(&mut self) {
        if let Kind::File { draft, .. } = &mut self.0 {
            draft.keep();
        }
    }

    /// Path below this directory, with its temporary name.
    fn part(&self, root: &Path) -> Option<Vec<u8>> {
        let Kind::File { draft, path, .. } = &self.0 else { return None };
        let part = path.strip_prefix(root).ok()?.with_file_name(OsStr::from_bytes(draft.part()));
        Some(part.into_os_string().into_vec())
    }

    /// Appends bytes.
    pub fn write(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        match &mut self.0 {
            Kind::File { draft, path, .. } => draft.write(bytes).with_context(|| cannot_write(path)),
            Kind::Output(output) => output.write(bytes),
        }
    }

    /// Truncates the file to this length.
    pub fn cut(&mut self, len: u64) -> anyhow::Result<()> {
        match &mut self.0 {
            Kind::File { draft, path, .. } => draft.cut(len).with_context(|| cannot_write(path)),
            Kind::Output(_) => Ok(()),
        }
    }

    /// Appends zeros as a hole.
    pub fn go_over(&mut self, len: u64) -> anyhow::Result<()> {
        match &mut self.0 {
            Kind::File { draft, path, .. } => draft.go_over(len).with_context(|| cannot_write(path)),
            Kind::Output(output) => holes::zeros(len).try_for_each(|zeros| output.write(zeros)),
        }
    }

    /// Removes the file, even if it was kept.
    pub fn discard(self) {
        if let Kind::File { draft, .. } = self.0 {
            draft.discard();
        }
    }
}

impl Written {
    /// Refuses a path with a name that leads to another entry of the transfer.
    fn check(&self, directory: BorrowedFd<'_>, path: &[u8]) -> anyhow::Result<()> {
        let Ok(found) = statat(directory, split(path).1, AtFlags::SYMLINK_NOFOLLOW) else { return Ok(()) };
        match self.alias(directory, path, &found) {
            Some(other) => Err(Unstorable::alias(&other).into()),
            None => Ok(()),
        }
    }

    /// Records a created entry, unless the file system has changed its name.
    fn made(&mut self, directory: BorrowedFd<'_>, path: &[u8], stat: &Stat) -> anyhow::Result<()> {
        let (_, name) = split(path);
        // FAT omits trailing dots and spaces.
        if (name.ends_with(b".") || name.ends_with(b" ")) && !lists(directory, name) {
            let _ = unlinkat(directory, name, AtFlags::empty());
            return Err(Unstorable::renamed().into());
        }
        self.note(path, stat);
        Ok(())
    }
}

/// Reason why an entry could not be given its name.
fn unnamed_because(
    error: io::Error,
    directory: BorrowedFd<'_>,
    name: &[u8],
    written: &Written,
    path: &dyn Fn() -> PathBuf,
) -> anyhow::Error {
    let found = statat(directory, split(name).1, AtFlags::SYMLINK_NOFOLLOW);
    if matches!(error.kind(), io::ErrorKind::AlreadyExists | io::ErrorKind::IsADirectory)
        && let Ok(found) = &found
    {
        if let Some(other) = written.alias(directory, name, found) {
            return Unstorable::alias(&other).into();
        }
        if FileType::from_raw_mode(found.st_mode) == FileType::Directory {
            return is_a_directory(&path());
        }
    }
    match error.kind() {
        io::ErrorKind::AlreadyExists => exists(&path()),
        _ if is_unfit_io(&error, directory) => Unstorable::unfit(error).into(),
        _ => anyhow::Error::from(error).context(cannot_create(&path())),
    }
}

fn is_unfit_io(error: &io::Error, directory: BorrowedFd<'_>) -> bool {
    Errno::from_io_error(error).is_some_and(|error| is_unfit(error, directory))
}

/// Returns true if the error means that the file system has no symbolic links.
fn has_no_links(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::PERM | Errno::NOSYS | Errno::NOTSUP))
}

fn is_a_directory(path: &Path) -> anyhow::Error {
    anyhow!("{} is a directory: choose another --out", shown_path(path))
}

fn exists(path: &Path) -> anyhow::Error {
    anyhow!("{} exists: give --overwrite to replace it, or another --out", shown_path(path))
}

fn cannot_create(path: &Path) -> String {
    format!("cannot create {}", shown_path(path))
}

fn cannot_write(path: &Path) -> String {
    format!("cannot write {}", shown_path(path))
}

fn next(number: &mut u64) -> u64 {
    *number = number.wrapping_add(1);
    *number
}
