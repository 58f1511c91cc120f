//! Deleting of entries that a receiver has beyond the sender's list.
//!
//! QUESTION 3 makes a plan: every entry below a listed directory that is not listed, and that no pattern keeps.
//! Entries of another type than listed stand in the way of their successors and are part of the plan too. They are
//! removed when their successor is complete, all others when the whole transfer is. Nothing else is removed, whatever
//! appears in between. Directories are entered through handles, so no link leads out, and file systems that are mounted
//! below a directory stay.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::CString;
use std::os::fd::{AsFd as _, BorrowedFd};

use carillon_session::HoldingsPart;
use carillon_wire::deletions::Deletions;
use rustix::fs::{AtFlags, Dev, Dir, FileType, fstat, statat, unlinkat};
use rustix::io::Errno;

use super::super::descent::open_directory;
use super::super::manifest::Exclude;
use super::super::names::{is_part_name, shown_name, split};
use super::super::problem::{Problem, damaged, ours, refused};
use super::super::times;
use super::super::unstorable::Unstorable;
use super::listed::{Listed, ListedKind};
use super::lookup::Lookup;
use crate::error::LocalError;

/// Request of a sender to delete what it has not listed, and the plan for it.
#[derive(Debug)]
pub(in crate::files) struct Deletion {
    limit: Option<u64>,
    patterns: Vec<String>,
    plan: Option<Plan>,
    /// Removed entries.
    deleted: Removed,
}

/// Removed entries: their number, and the first names.
#[derive(Clone, Debug, Default)]
pub struct Removed {
    /// Number of entries.
    pub count: u64,
    /// Names below the destination, at most 10 000.
    pub names: Vec<Vec<u8>>,
}

/// Entries to delete, each directory behind its contents.
#[derive(Debug, Default)]
struct Plan {
    count: u64,
    bytes: usize,
    doomed: Vec<Doomed>,
    /// Entries in the way of a listed one, by the index of that.
    obstacles: BTreeMap<u32, Vec<Doomed>>,
    /// Listed entries that stay away, because something in their way is kept.
    blocked: BTreeSet<u32>,
}

#[derive(Debug)]
struct Doomed {
    name: Box<[u8]>,
    is_directory: bool,
}

/// Position of a directory that is searched.
#[derive(Clone, Copy, Debug)]
enum Inside {
    Listed,
    Doomed,
    /// Place of this entry of the list.
    Obstacle(u32),
}

impl Deletion {
    pub fn new(limit: Option<u64>) -> Self {
        Deletion { limit, patterns: Vec::new(), plan: None, deleted: Removed::default() }
    }

    /// Adds a pattern of entries that stay.
    pub fn keep(&mut self, pattern: &str) -> Result<(), String> {
        if self.patterns.len() >= Exclude::MAX_PATTERNS || pattern.len() > Exclude::MAX_BYTES {
            return Err("the sender has too many patterns".to_owned());
        }
        self.patterns.push(pattern.to_owned());
        Ok(())
    }

    /// Reason for which nothing may be changed, if there is one.
    pub fn refusal(&self) -> Option<String> {
        let count = self.plan.as_ref().map_or(0, |plan| plan.count);
        let limit = self.limit.filter(|limit| count > *limit)?;
        Some(format!("{count} entries would be deleted, more than --max-delete {limit}: nothing was changed"))
    }

    /// Removes what stands in the way of this entry of the list.
    pub fn clear(&mut self, lookup: &mut Lookup, index: u32) -> Result<Result<(), Unstorable>, Problem> {
        let Some(plan) = &mut self.plan else { return Ok(Ok(())) };
        if plan.blocked.contains(&index) {
            return Ok(Err(Unstorable::blocked()));
        }
        for doomed in plan.obstacles.remove(&index).unwrap_or_default() {
            match doomed.remove(lookup, &|_, _| false) {
                Ok(is_gone) => self.deleted.extend(is_gone.then_some(doomed)),
                Err(error) => {
                    let text = format!("cannot delete {}", shown_name(&doomed.name));
                    return Err(ours(LocalError::from(std::io::Error::from(error)).context(text)));
                }
            }
        }
        Ok(Ok(()))
    }

    /// Removed entries.
    pub fn deleted(&self) -> &Removed {
        &self.deleted
    }

    /// Plans what is deleted, from the list of an update. `specials` are the entries of an archive that are not in the
    /// list.
    pub fn plan(
        &mut self,
        entries: &[Listed],
        lookup: &mut Lookup,
        specials: &[&[u8]],
    ) -> Result<(), Problem> {
        let exclude =
            Exclude::new(std::mem::take(&mut self.patterns)).map_err(|error| refused(&error.to_string()))?;
        self.plan = Some(plan(entries, lookup, specials, &exclude)?);
        Ok(())
    }

    /// Indices of the listed entries that have obstacles in their place.
    pub fn obstructed(&self) -> impl Iterator<Item = u32> {
        self.plan.iter().flat_map(|plan| plan.obstacles.keys().copied())
    }

    /// Deletes what is planned unless `stays` is true for it, and sets the times of the listed directories again. Fails
    /// without a plan.
    pub fn delete(
        &mut self,
        entries: &[Listed],
        lookup: &mut Lookup,
        stays: impl Fn(BorrowedFd<'_>, &[u8]) -> bool,
    ) -> Result<(), Problem> {
        let Some(plan) = self.plan.take() else {
            return Err(damaged("the question about deletions is missing".to_owned()));
        };
        let (mut touched, mut failures) = (BTreeSet::new(), Vec::new());
        for doomed in plan.doomed {
            match doomed.remove(lookup, &stays) {
                Ok(true) => {
                    touched.insert(split(&doomed.name).0.to_vec());
                    self.deleted.extend(Some(doomed));
                }
                Ok(false) => {}
                Err(error) => failures.push((doomed.shown(), error)),
            }
        }
        for entry in entries {
            if let (ListedKind::Directory, true) = (&entry.kind, touched.contains(&*entry.name))
                && let Some(directory) = lookup.directory(&entry.name)
            {
                times::set(directory, entry.modified);
            }
        }
        let Some((name, error)) = failures.first() else { return Ok(()) };
        let more = match failures.len() - 1 {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        Err(refused(&format!(
            "everything arrived, but {}{more} could not be deleted: {}",
            shown_name(name),
            std::io::Error::from(*error)
        )))
    }

    /// Answer to QUESTION 3.
    pub fn answer(&self) -> Vec<u8> {
        let Some(plan) = &self.plan else { return Deletions::encode(0, [], 16) };
        let all = plan.doomed.iter().chain(plan.obstacles.values().flatten());
        let names: Vec<Vec<u8>> = all.take(MAX_ANSWERED).map(Doomed::shown).collect();
        let most = HoldingsPart::MAX_TOTAL as usize;
        Deletions::encode(plan.count, names.iter().map(Vec::as_slice), most)
    }
}

impl Removed {
    fn extend(&mut self, doomed: Option<Doomed>) {
        let Some(doomed) = doomed else { return };
        self.count += 1;
        if self.names.len() < MAX_NAMED {
            self.names.push(doomed.shown());
        }
    }
}

impl Doomed {
    /// Name with a slash behind a directory.
    fn shown(&self) -> Vec<u8> {
        [&*self.name, if self.is_directory { &b"/"[..] } else { b"" }].concat()
    }

    /// Deletes it unless `stays` is true for it; returns false if it stays or is gone already.
    fn remove(
        &self,
        lookup: &mut Lookup,
        stays: &dyn Fn(BorrowedFd<'_>, &[u8]) -> bool,
    ) -> Result<bool, Errno> {
        let (parents, name) = split(&self.name);
        let Some(directory) = lookup.directory(parents) else { return Ok(false) };
        if stays(directory, name) {
            return Ok(false);
        }
        let flags = if self.is_directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        match unlinkat(directory, name, flags) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Searches the listed directories. `specials` are entries of an archive besides those of the list.
fn plan(
    entries: &[Listed],
    lookup: &mut Lookup,
    specials: &[&[u8]],
    exclude: &Exclude,
) -> Result<Plan, Problem> {
    let listed = entries
        .iter()
        .enumerate()
        .map(|(index, entry)| (&*entry.name, (index as u32, matches!(entry.kind, ListedKind::Directory))));
    // The special entries of an archive have the indices behind.
    let specials = specials.iter().zip(entries.len() as u32..).map(|(name, index)| (*name, (index, false)));
    let listed: HashMap<&[u8], (u32, bool)> = listed.chain(specials).collect();
    let mut search = Search { listed: &listed, exclude, device: 0, root: 0, plan: Plan::default() };
    for entry in entries.iter().filter(|entry| matches!(entry.kind, ListedKind::Directory)) {
        // The others are reached from these.
        if !entry.name.contains(&b'/')
            && let Some(directory) = lookup.directory(&entry.name)
        {
            search.device =
                fstat(directory).map_err(|error| ours(std::io::Error::from(error).into()))?.st_dev;
            search.root = entry.name.len() + 1;
            search.directory(directory, &mut entry.name.to_vec(), Inside::Listed, 0)?;
        }
    }
    Ok(search.plan)
}

/// Search of the directories of a list.
struct Search<'a> {
    /// Listed entries: index, and true for a directory.
    listed: &'a HashMap<&'a [u8], (u32, bool)>,
    exclude: &'a Exclude,
    device: Dev,
    /// Length of the name of the directory that was sent, with its slash.
    root: usize,
    plan: Plan,
}

impl Search<'_> {
    /// Searches a directory; returns true if something in it stays that is not listed.
    fn directory(
        &mut self,
        handle: BorrowedFd<'_>,
        path: &mut Vec<u8>,
        inside: Inside,
        depth: usize,
    ) -> Result<bool, Problem> {
        if depth > MAX_DEPTH {
            return Err(refused(&format!("{} is nested too deeply to be deleted", shown_name(path))));
        }
        let (mut keeps, len) = (false, path.len());
        for name in children(handle) {
            path.truncate(len);
            path.push(b'/');
            path.extend_from_slice(name.to_bytes());
            // Files of this program, such as the partial file of an interrupted transfer.
            if is_part_name(name.to_bytes()) {
                keeps = true;
                continue;
            }
            let Ok(stat) = statat(handle, name.as_c_str(), AtFlags::SYMLINK_NOFOLLOW) else { continue };
            let is_directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
            let here = match (inside, self.listed.get(path.as_slice())) {
                (Inside::Listed, Some((_, true))) if is_directory => Inside::Listed,
                (Inside::Listed, Some((index, wanted))) if is_directory != *wanted => {
                    Inside::Obstacle(*index)
                }
                (Inside::Listed, Some(_)) => continue,
                (Inside::Listed, None) => Inside::Doomed,
                (inside, _) => inside,
            };
            let is_kept = !matches!(here, Inside::Listed)
                && self.exclude.matches(&path[self.root..], is_directory)
                || is_directory && stat.st_dev != self.device;
            let is_kept = is_kept || is_directory && self.enter(handle, &name, path, here, depth)?;
            match here {
                Inside::Listed => {}
                Inside::Obstacle(index) if is_kept => {
                    keeps = true;
                    self.plan.blocked.insert(index);
                }
                Inside::Doomed if is_kept => keeps = true,
                Inside::Obstacle(_) | Inside::Doomed => self.doom(here, path, is_directory)?,
            }
        }
        path.truncate(len);
        Ok(keeps)
    }

    /// Searches a directory below another one. One that cannot be opened cannot be deleted either, which is found then.
    fn enter(
        &mut self,
        above: BorrowedFd<'_>,
        name: &CString,
        path: &mut Vec<u8>,
        inside: Inside,
        depth: usize,
    ) -> Result<bool, Problem> {
        match open_directory(above, name.as_c_str()) {
            Ok(handle) => self.directory(handle.as_fd(), path, inside, depth + 1),
            Err(_) => Ok(false),
        }
    }

    fn doom(&mut self, inside: Inside, path: &[u8], is_directory: bool) -> Result<(), Problem> {
        let doomed = Doomed { name: path.into(), is_directory };
        self.plan.count += 1;
        self.plan.bytes += size_of::<Doomed>() + path.len();
        if self.plan.bytes > MAX_PLAN_BYTES {
            let count = self.plan.count;
            return Err(refused(&format!("more than {count} entries would be deleted: nothing was changed")));
        }
        match inside {
            Inside::Obstacle(index) => self.plan.obstacles.entry(index).or_default().push(doomed),
            Inside::Listed | Inside::Doomed => self.plan.doomed.push(doomed),
        }
        Ok(())
    }
}

/// Names in a directory, in order.
fn children(directory: BorrowedFd<'_>) -> Vec<CString> {
    let Ok(entries) = Dir::read_from(directory) else { return Vec::new() };
    let names = entries.flatten().map(|entry| entry.file_name().to_owned());
    let mut names: Vec<CString> = names.filter(|name| !matches!(name.to_bytes(), b"." | b"..")).collect();
    names.sort();
    names
}

/// Maximum depth of a directory that is searched: each level has an open handle.
const MAX_DEPTH: usize = 256;
/// Maximum memory of a plan.
const MAX_PLAN_BYTES: usize = 256 << 20;
/// Maximum number of deleted entries that are named in a report.
const MAX_NAMED: usize = 10_000;
/// Maximum number of names that may fit an answer.
const MAX_ANSWERED: usize = 1 << 15;
