//! Setting of attributes through handles, so that no link is followed and nothing is opened for reading: opening a
//! FIFO or a device would have effects. Extended attributes, permission bits and times of such a handle are set through
//! its name in `/proc/self/fd`.

use carillon_wire::file::archive::Class;

use super::super::update::Lookup;
use super::{Accepted, Losses};

/// Kind of the entry that gets attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attributed {
    File,
    Directory,
    Link,
    /// A FIFO or device.
    Special,
}

/// Sets attributes of entries below the destination.
#[derive(Debug)]
pub(super) struct Setter<'a> {
    lookup: Lookup,
    accepts: Accepted,
    losses: &'a mut Losses,
}

impl<'a> Setter<'a> {
    pub fn new(lookup: Lookup, accepts: Accepted, losses: &'a mut Losses) -> Self {
        Setter { lookup, accepts, losses }
    }

    /// Sets the attributes of an entry as far as the system permits it.
    #[cfg(target_os = "linux")]
    pub fn set(&mut self, name: &[u8], kind: Attributed, class: &Class, modified: Option<i64>) {
        let Setter { lookup, accepts, losses } = self;
        match linux::Entry::open(lookup, name, kind) {
            Ok(mut entry) => {
                let owned = entry.set_owner(class, losses);
                entry.set_attributes(class, *accepts, losses);
                entry.set_mode(class, *accepts, owned, losses);
                entry.set_time(modified, losses);
            }
            Err(error) => losses.add("attributes", error, name),
        }
    }

    /// Sets nothing: attributes differ between systems.
    #[cfg(not(target_os = "linux"))]
    pub fn set(&mut self, name: &[u8], _: Attributed, _: &Class, _: Option<i64>) {
        let _ = (&self.lookup, self.accepts);
        self.losses.add("attributes", "only Linux stores them", name);
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::io;
    use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};
    use std::path::PathBuf;

    use carillon_wire::file::archive::{ARCHIVE_MODE_MASK, Class};
    use rustix::fs::{
        AtFlags, CWD, FileType, Gid, Mode, OFlags, Stat, Timespec, Timestamps, UTIME_OMIT, Uid, XattrFlags,
        chmodat, chownat, fstat, openat, removexattr, setxattr, utimensat,
    };
    use rustix::io::Errno;

    use super::super::super::names::split;
    use super::super::super::update::Lookup;
    use super::super::{Accepted, AttributeKind, DEFAULT_ACL, Losses, read_attributes};
    use super::Attributed;

    /// An entry that gets its attributes.
    pub(super) struct Entry<'a> {
        directory: BorrowedFd<'a>,
        name: &'a [u8],
        kind: Attributed,
        handle: OwnedFd,
        /// Name of the handle in the file system of processes.
        path: PathBuf,
        stat: Stat,
    }

    impl<'a> Entry<'a> {
        /// Opens an entry without following links. Another type than expected is an error.
        pub fn open(lookup: &'a mut Lookup, name: &'a [u8], kind: Attributed) -> io::Result<Self> {
            let (parents, last) = split(name);
            let gone = || io::Error::from(io::ErrorKind::NotFound);
            let directory = lookup.directory(parents).ok_or_else(gone)?;
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let handle = openat(directory, last, flags, Mode::empty())?;
            let stat = fstat(&handle)?;
            let found = FileType::from_raw_mode(stat.st_mode);
            let fits = match kind {
                Attributed::File => found == FileType::RegularFile,
                Attributed::Directory => found == FileType::Directory,
                Attributed::Link => found == FileType::Symlink,
                Attributed::Special => {
                    matches!(found, FileType::Fifo | FileType::CharacterDevice | FileType::BlockDevice)
                }
            };
            if !fits {
                return Err(io::Error::other("another program has replaced it"));
            }
            let path = format!("/proc/self/fd/{}", handle.as_raw_fd()).into();
            Ok(Entry { directory, name, kind, handle, path, stat })
        }

        /// Sets owner and group; returns false if one of them could not be set.
        pub fn set_owner(&mut self, class: &Class, losses: &mut Losses) -> bool {
            let (user, group) = (Uid::from_raw(class.user), Gid::from_raw(class.group));
            let (is_user, is_group) = (self.stat.st_uid == class.user, self.stat.st_gid == class.group);
            if is_user && is_group {
                return true;
            }
            let chown = |user| chownat(&self.handle, "", user, Some(group), AtFlags::EMPTY_PATH);
            let Err(error) = chown(Some(user)) else { return true };
            // The owner may still change the group to one of its own.
            let group_is_set = is_group || (!is_user && chown(None).is_ok());
            if !is_user {
                losses.add("owner", io::Error::from(error), self.name);
            }
            if !group_is_set {
                losses.add("group", io::Error::from(error), self.name);
            }
            false
        }

        /// Sets extended attributes and ACLs, and removes others of the kinds that archives have.
        pub fn set_attributes(&mut self, class: &Class, accepts: Accepted, losses: &mut Losses) {
            // FIFOs and devices may have an ACL, and inherit one.
            if self.kind == Attributed::Link {
                return;
            }
            let found = read_attributes(&self.path, &mut Vec::new());
            let found = match found {
                Ok(found) => found,
                Err(error) => {
                    if !class.attributes.is_empty() {
                        losses.add("extended attributes", error, self.name);
                    }
                    return;
                }
            };
            let is_accepted = |name: &[u8]| {
                AttributeKind::of(name) != Some(AttributeKind::Privileged) || accepts == Accepted::Privileged
            };
            let more = found.iter().filter(|(name, _)| !class.attributes.iter().any(|(own, _)| own == name));
            for (name, _) in more.filter(|(name, _)| is_accepted(name)) {
                if let Err(error) = removexattr(&self.path, name.as_slice()) {
                    losses.add(label(name), io::Error::from(error), self.name);
                }
            }
            for (name, value) in class.attributes.iter().filter(|one| !found.contains(one)) {
                let Some(_) = AttributeKind::of(name) else {
                    losses.add("extended attributes", "they belong to this host", self.name);
                    continue;
                };
                if !is_accepted(name) {
                    losses.add(label(name), NOT_PRIVILEGED, self.name);
                } else if let Err(error) = setxattr(&self.path, name.as_slice(), value, XattrFlags::empty()) {
                    losses.add(label(name), io::Error::from(error), self.name);
                }
            }
        }

        /// Sets the permission bits. A file is set-user-id or set-group-id only if that is accepted, and if it has the
        /// owner of the sender's file.
        pub fn set_mode(&mut self, class: &Class, accepts: Accepted, owned: bool, losses: &mut Losses) {
            let mut mode = class.mode & ARCHIVE_MODE_MASK;
            let set_id = if self.kind == Attributed::File { mode & 0o6000 } else { 0 };
            if set_id != 0 && (accepts < Accepted::Privileged || !owned) {
                mode &= !set_id;
                let reason = if owned { NOT_PRIVILEGED } else { "its owner or group differs" };
                losses.add("set-user-id bit", reason, self.name);
            }
            // Changes of the owner and of lists have changed the bits.
            let now = fstat(&self.handle).map_or(u32::MAX, |stat| stat.st_mode & ARCHIVE_MODE_MASK);
            if self.kind == Attributed::Link || now == mode {
                return;
            }
            if let Err(error) = chmodat(CWD, &self.path, Mode::from_raw_mode(mode), AtFlags::empty()) {
                losses.add("permissions", io::Error::from(error), self.name);
            }
        }

        /// Sets the modification time.
        pub fn set_time(&mut self, modified: Option<i64>, losses: &mut Losses) {
            let Some(modified) = modified else { return };
            let (seconds, nanos) = (modified.div_euclid(SECOND), modified.rem_euclid(SECOND));
            let last_access = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
            let times =
                Timestamps { last_access, last_modification: Timespec { tv_sec: seconds, tv_nsec: nanos } };
            let done = match self.kind {
                Attributed::Link => {
                    utimensat(self.directory, split(self.name).1, &times, AtFlags::SYMLINK_NOFOLLOW)
                }
                _ => utimensat(CWD, &self.path, &times, AtFlags::empty()),
            };
            match done {
                // Some file systems have no times of links.
                Ok(()) | Err(Errno::NOTSUP | Errno::NOSYS) => {}
                Err(error) => losses.add("modification time", io::Error::from(error), self.name),
            }
        }
    }

    /// Kind of an attribute in messages.
    fn label(name: &[u8]) -> &'static str {
        match (AttributeKind::of(name), name) {
            (_, DEFAULT_ACL) => "default ACL",
            (Some(AttributeKind::Acl), _) => "ACL",
            (_, b"security.capability") => "file capabilities",
            (Some(AttributeKind::Privileged), _) => "trusted attributes",
            _ => "extended attributes",
        }
    }

    const SECOND: i64 = 1_000_000_000;
    const NOT_PRIVILEGED: &str = "needs recv --allow-archive=privileged";
}
