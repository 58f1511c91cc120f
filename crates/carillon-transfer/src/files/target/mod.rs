//! Destination of files: a directory that no name can escape, with temporary names until everything is verified.

mod comparing;
mod device;
mod errors;
mod in_place;
mod partial;
mod writing;

use std::collections::{BTreeSet, HashSet};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use carillon_wire::file::{ResumePoint, TransferId};
use rustix::fs::{Mode, Stat, fchmod, fstat};

use super::archive::Accepted;
use super::descent::Descent;
use super::draft::Draft;
use super::leftovers::Sweep;
use super::manifest::special;
use super::names::{below, shown_path, split};
use super::output::Output;
use super::resume::{Journal, Kept};
use super::spool::Spool;
use super::times::{self, Attributes};
use super::unstorable::Unstorable;
use super::update::{Lookup, list_identity};
use super::written::{Written, exact_device};
use crate::LocalError;
use crate::error::Context as _;

pub use device::Device;
pub(super) use in_place::{Marked, is_marked, marked_file, unmark};
pub use partial::Partial;

/// A directory for received files, or one output for their contents.
#[derive(Debug)]
pub enum Target {
    /// Files below a directory.
    Directory(Box<Folder>),
    /// The contents of all files, one after the other.
    Output(Output),
    /// The contents of one file, on a block device.
    Device(Device),
}

/// A directory for received files.
#[derive(Debug)]
pub struct Folder {
    root: PathBuf,
    options: FolderOptions,
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
    /// Names of files to come in whose place directories may stand until they are complete.
    replaced: HashSet<Vec<u8>>,
    /// Names of files that were begun in place and are not known to be complete.
    in_place: BTreeSet<Vec<u8>>,
}

/// Options of a directory.
#[derive(Debug, Default)]
struct FolderOptions {
    existing: ExistingFiles,
    /// True if a sender may delete entries.
    deletes: bool,
    /// Part of archives that is accepted.
    accepts: Accepted,
    /// True if everything is on the disk before a transfer ends.
    syncs: bool,
}

/// Treatment of files that exist.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ExistingFiles {
    /// They are not replaced, and their entries fail.
    #[default]
    Kept,
    /// They are replaced by the complete new version.
    Replaced,
    /// The same, and large ones are changed in place.
    ChangedInPlace,
}

impl FolderOptions {
    /// Returns true if existing files are replaced.
    fn overwrites(&self) -> bool {
        self.existing != ExistingFiles::Kept
    }
}

/// Directory of a sender's last file; `None` before the first.
pub type Position = Option<Descent>;

impl Target {
    /// Opens a writable directory, created if necessary, and removes or reports leftovers of a killed receiver.
    pub fn directory(root: &Path, overwrite: bool) -> Result<Target, LocalError> {
        Target::open(root, overwrite)
    }

    /// A block device that nothing uses.
    pub fn device(path: &Path) -> Result<Target, LocalError> {
        Ok(Target::Device(Device::new(path)?))
    }

    fn open(root: &Path, overwrite: bool) -> Result<Target, LocalError> {
        let failed = || format!("cannot write to directory {}", shown_path(root));
        if let Ok(found) = std::fs::metadata(root)
            && !found.is_dir()
        {
            let kind = if found.is_file() { "file" } else { special(found.file_type()) };
            let path = shown_path(root);
            let how = match found.file_type().is_block_device() {
                true => format!("--device {path}"),
                false => format!("--stdout > {path}"),
            };
            let text = format!(
                "{path} is a {kind}, not a directory: `carillon recv {how}` writes a single received file to it"
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
        let existing = if overwrite { ExistingFiles::Replaced } else { ExistingFiles::Kept };
        Ok(Target::Directory(Box::new(Folder {
            root: root.to_owned(),
            options: FolderOptions { existing, ..FolderOptions::default() },
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
            replaced: HashSet::new(),
            in_place: BTreeSet::new(),
        })))
    }

    /// Permits senders to delete entries of the directory.
    pub fn permit_deleting(&mut self, deletes: bool) {
        if let Target::Directory(folder) = self {
            folder.options.deletes = deletes;
        }
    }

    /// Changes large existing files in place, if files are replaced.
    pub fn change_in_place(&mut self) {
        if let Target::Directory(folder) = self
            && folder.options.overwrites()
        {
            folder.options.existing = ExistingFiles::ChangedInPlace;
        }
    }

    /// Paths of files that are neither their old nor their new version.
    pub fn partly_changed(&self) -> Vec<Vec<u8>> {
        match self {
            Target::Directory(folder) => folder.partly_changed(),
            Target::Device(device) if device.is_partly_changed() => {
                vec![device.path().as_os_str().as_bytes().to_owned()]
            }
            Target::Device(_) | Target::Output(_) => Vec::new(),
        }
    }

    /// Waits before the end of a transfer until everything is on the disk.
    pub fn sync_at_end(&mut self, syncs: bool) {
        match self {
            Target::Directory(folder) => folder.options.syncs = syncs,
            Target::Output(output) => output.sync_at_end(syncs),
            // A file is complete when it is on the device.
            Target::Device(_) => {}
        }
    }

    /// Writes everything to the disk, if that was asked for.
    pub(super) fn sync(&self) -> Result<(), LocalError> {
        match self {
            Target::Directory(folder) if folder.options.syncs => folder.sync(),
            Target::Directory(_) => Ok(()),
            Target::Output(output) => output.sync(),
            Target::Device(_) => Ok(()),
        }
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
            Target::Device(device) => {
                let path = std::fs::canonicalize(device.path()).unwrap_or_else(|_| device.path().to_owned());
                Some([b"device".as_slice(), path.as_os_str().as_bytes()].concat())
            }
        }
    }

    /// Messages about the directory, a line each.
    pub fn take_notes(&mut self) -> Vec<String> {
        match self {
            Target::Directory(folder) => folder.sweep.take_lines(),
            Target::Output(_) | Target::Device(_) => Vec::new(),
        }
    }

    /// Progress of an earlier attempt; asked between transfers. With `trusted` only signed progress counts.
    pub fn reached(&mut self, trusted: bool) -> Option<ResumePoint> {
        let Target::Directory(folder) = self else { return None };
        folder.trusted = trusted;
        folder.written.clear();
        folder.replaced.clear();
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
        list_identity(&mut Lookup::new(&folder.root).ok()?)
    }

    /// Returns true if existing files are replaced.
    pub(super) fn overwrites(&self) -> bool {
        matches!(self, Target::Directory(folder) if folder.options.overwrites())
    }

    /// Removes the journal.
    pub(super) fn forget(&mut self) {
        if let Target::Directory(folder) = self {
            folder.forget();
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

    /// Returns true if a sender may delete entries.
    pub(super) fn permits_deleting(&self) -> bool {
        self.options.deletes
    }

    /// Accepts this part of archives.
    pub(super) fn accept_archives(&mut self, accepts: Accepted) {
        self.options.accepts = accepts;
    }

    /// Part of archives that is accepted.
    pub(super) fn accepts(&self) -> Accepted {
        self.options.accepts
    }

    /// Returns true if existing files are replaced.
    pub(super) fn replaces(&self) -> bool {
        self.options.overwrites()
    }

    /// Number of the next temporary name.
    pub(super) fn next_number(&mut self) -> u64 {
        next(&mut self.number)
    }

    /// Records an entry of the transfer.
    pub(super) fn note_entry(&mut self, name: &[u8], stat: Option<&Stat>) {
        stat.into_iter().for_each(|stat| self.written.note(name, stat));
    }

    /// Accepts files in place of these directories, which are removed when the files are complete.
    pub(super) fn replace_directories(&mut self, names: impl Iterator<Item = Vec<u8>>) {
        self.replaced.extend(names);
    }

    /// Returns true if this name leads to an entry of the transfer with another spelling.
    pub(super) fn has_other_spelling(&self, directory: BorrowedFd<'_>, name: &[u8]) -> bool {
        self.written.has_other_spelling(directory, name)
    }

    pub(super) fn enter<'a>(
        &mut self,
        position: &'a mut Position,
        names: &[u8],
        attributes: Option<Attributes>,
    ) -> Result<BorrowedFd<'a>, LocalError> {
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
    /// Writes the file systems of all entries of the transfer to their disks. One call for a file system takes far less
    /// time than one for each of many files.
    fn sync(&self) -> Result<(), LocalError> {
        let failed = || format!("cannot write {} to the disk", shown_path(&self.root));
        let descent = Descent::new(&self.root).with_context(failed)?;
        let stat = fstat(descent.root()).map_err(io::Error::from).with_context(failed)?;
        #[cfg(target_os = "linux")]
        if self.written.is_on(stat.st_dev) {
            return rustix::fs::syncfs(descent.root()).map_err(io::Error::from).with_context(failed);
        }
        let _ = stat;
        rustix::fs::sync();
        Ok(())
    }

    /// Names of files that are neither their old nor their new version.
    fn partly_changed(&self) -> Vec<Vec<u8>> {
        let found = self.sweep.partly_changed().iter().filter_map(|path| path.strip_prefix(&self.root).ok());
        let found = found.map(|path| path.as_os_str().as_bytes().to_owned());
        let names: BTreeSet<Vec<u8>> = self.in_place.iter().cloned().chain(found).collect();
        let Ok(mut lookup) = Lookup::new(&self.root) else { return Vec::new() };
        let is_partly = |name: &Vec<u8>| {
            lookup.stat(name).is_some_and(|(directory, stat)| is_marked(directory, split(name).1, &stat))
        };
        names.into_iter().filter(is_partly).collect()
    }

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

fn next(number: &mut u64) -> u64 {
    *number = number.wrapping_add(1);
    *number
}
