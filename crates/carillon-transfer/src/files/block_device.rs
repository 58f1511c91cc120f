//! Block devices: what they are called, how large they are, and whether the system uses them.
//!
//! A device that is mounted, or that holds swap space, a volume group or an array, must not be written. Neither is it
//! sent, because its contents change meanwhile. The system itself knows best: an exclusive open fails if the device or
//! a partition of it is in use. `/proc` and `/sys` then give the reason.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{OFlags, major, minor};
use rustix::io::Errno;

use super::manifest::special;
use super::names::{shown, shown_path};
use crate::LocalError;
use crate::error::{Context as _, stated};

/// Opens a device that nothing else uses, for reading and writing, and returns its size in bytes. Nothing else can
/// mount it while it is open.
pub fn open_unused(path: &Path) -> Result<(File, u64), LocalError> {
    open(path, true)
}

/// Checks that a device can be sent: nothing uses it, except file systems that are mounted read-only.
pub fn check_source(path: &Path) -> Result<(), LocalError> {
    match open(path, false) {
        Ok(_) => Ok(()),
        Err(_) if number_of(path).is_ok_and(is_only_read) => Ok(()),
        Err(error) => Err(error),
    }
}

fn open(path: &Path, writes: bool) -> Result<(File, u64), LocalError> {
    let device = number_of(path)?;
    let flags = OFlags::EXCL | OFlags::NONBLOCK | OFlags::NOCTTY;
    let opened = OpenOptions::new().read(true).write(writes).custom_flags(flags.bits() as i32).open(path);
    let mut file = opened.map_err(|error| match Errno::from_io_error(&error) {
        Some(Errno::BUSY) => in_use(path, device),
        _ => {
            let what = if writes { "written" } else { "read" };
            LocalError::from(error).context(format!("{} cannot be {what}", shown_path(path)))
        }
    })?;
    // The path may lead to another device by now.
    let opened = file.metadata()?;
    if !opened.file_type().is_block_device() || opened.rdev() != device {
        return Err(stated!("{} was replaced by another file", shown_path(path)));
    }
    // Such a device can be opened, and its first write fails.
    if writes && fs::read_to_string(in_sys(device).join("ro")).is_ok_and(|text| text.trim() == "1") {
        return Err(stated!("{} is read-only: it cannot be written", shown_path(path)));
    }
    let size = file.seek(io::SeekFrom::End(0))?;
    file.rewind()?;
    if size == 0 {
        return Err(stated!("{} is a block device of 0 bytes: attach a medium", shown_path(path)));
    }
    Ok((file, size))
}

/// Number of a device.
fn number_of(path: &Path) -> Result<u64, LocalError> {
    let found = fs::metadata(path).with_context(|| format!("cannot look at {}", shown_path(path)))?;
    let kind = found.file_type();
    if kind.is_block_device() {
        return Ok(found.rdev());
    }
    let (kind, advice) = match () {
        () if kind.is_file() => ("regular file", "files need no --device"),
        () if kind.is_dir() => ("directory", "files need no --device"),
        () => (special(kind), "name a disk or a partition"),
    };
    Err(stated!("{} is a {kind}, not a block device: {advice}", shown_path(path)))
}

/// Error of a device that something uses.
fn in_use(path: &Path, device: u64) -> LocalError {
    let path = shown_path(path);
    if let Some(mount) = mounts().into_iter().find(|mount| is_part(mount.device, device)) {
        let (part, at) = (shown_path(&mount.source), shown_path(&mount.point));
        return match mount.device == device {
            true => stated!("{path} is mounted at {at}: unmount it first"),
            false => stated!("{part}, a part of {path}, is mounted at {at}: unmount it first"),
        };
    }
    if let Some(swap) = swaps().into_iter().find(|swap| is_part(*swap, device)) {
        let part = if swap == device { "it" } else { "a part of it" };
        return stated!("{path} is in use, {part} as swap space: `swapoff` it first");
    }
    match holders(device) {
        names if names.is_empty() => stated!("{path} is in use by another program or system"),
        names => stated!("{path} is in use by {}: LVM, RAID or encryption", shown(&names.join(", "))),
    }
}

/// Returns true if all that uses a device are file systems that are mounted read-only.
fn is_only_read(device: u64) -> bool {
    let mounts: Vec<Mount> = mounts().into_iter().filter(|mount| is_part(mount.device, device)).collect();
    let is_swap = swaps().into_iter().any(|swap| is_part(swap, device));
    !mounts.is_empty()
        && mounts.iter().all(|mount| mount.is_read_only)
        && !is_swap
        && holders(device).is_empty()
}

/// A mounted device.
#[derive(Debug, PartialEq, Eq)]
struct Mount {
    device: u64,
    source: PathBuf,
    point: PathBuf,
    /// True if no mount of this file system can write.
    is_read_only: bool,
}

fn mounts() -> Vec<Mount> {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    table.lines().filter_map(mount_of).collect()
}

/// Parses a line of `mountinfo` (proc(5)).
fn mount_of(line: &str) -> Option<Mount> {
    let (about, rest) = line.split_once(" - ")?;
    let mut about = about.split(' ').skip(2);
    let (numbers, _root, point) = (about.next()?, about.next()?, about.next()?);
    let mut rest = rest.split(' ').skip(1);
    let (source, options) = (PathBuf::from(unescaped(rest.next()?)), rest.next()?);
    let (major, minor) = numbers.split_once(':')?;
    let listed = rustix::fs::makedev(major.parse().ok()?, minor.parse().ok()?);
    // Some file systems, such as btrfs, have a device number of their own.
    let device = match major {
        "0" => fs::metadata(&source).ok().filter(|it| it.file_type().is_block_device()).map(|it| it.rdev()),
        _ => None,
    };
    let is_read_only = options.split(',').next() == Some("ro");
    Some(Mount { device: device.unwrap_or(listed), source, point: unescaped(point).into(), is_read_only })
}

/// Text with the octal escapes of `/proc` resolved.
fn unescaped(text: &str) -> String {
    let escapes = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    escapes.into_iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

/// Numbers of devices with swap space.
fn swaps() -> Vec<u64> {
    let table = fs::read_to_string("/proc/swaps").unwrap_or_default();
    let paths = table.lines().skip(1).filter_map(|line| line.split_whitespace().next());
    let found = paths.filter_map(|path| fs::metadata(unescaped(path)).ok());
    found.filter(|found| found.file_type().is_block_device()).map(|found| found.rdev()).collect()
}

/// Names of the volumes and arrays that are built on a device or on a partition of it.
fn holders(device: u64) -> Vec<String> {
    let names = |path: PathBuf| {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect::<Vec<_>>()
    };
    let mut found = names(in_sys(device).join("holders"));
    for part in names(in_sys(device)) {
        found.extend(names(in_sys(device).join(part).join("holders")));
    }
    found
}

/// Returns true if a device is another one or a partition of it.
fn is_part(device: u64, whole: u64) -> bool {
    let real = |device| fs::canonicalize(in_sys(device));
    device == whole
        || matches!((real(device), real(whole)), (Ok(part), Ok(whole)) if part.starts_with(&whole))
}

fn in_sys(device: u64) -> PathBuf {
    format!("/sys/dev/block/{}:{}", major(device), minor(device)).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_has_device_place_and_rights() {
        let line = "36 35 98:1 / /mnt/a\\040b rw,noatime shared:1 - ext3 /dev/root ro,errors=continue";
        let mount = Mount {
            device: rustix::fs::makedev(98, 1),
            source: "/dev/root".into(),
            point: "/mnt/a b".into(),
            is_read_only: true,
        };
        assert_eq!(mount_of(line), Some(mount));
        assert!(
            mount_of("36 35 98:1 / /mnt rw - ext3 /dev/root rw").is_some_and(|mount| !mount.is_read_only)
        );
        assert_eq!(mount_of("36 35 98 / /mnt"), None);
    }

    #[test]
    fn other_files_are_no_devices() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let text = open_unused(file.path()).expect_err("it is a file").to_string();
        assert!(text.ends_with("is a regular file, not a block device: files need no --device"), "{text}");
        let text = check_source(Path::new("/dev/null")).expect_err("it is no disk").to_string();
        assert_eq!(text, "/dev/null is a character device, not a block device: name a disk or a partition");
        let text = check_source(Path::new("/tmp")).expect_err("a directory").to_string();
        assert!(text.starts_with("/tmp is a directory"), "{text}");
        assert!(check_source(Path::new("/dev/none")).is_err());
    }
}
