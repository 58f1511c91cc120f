//! Socket and lock file of a daemon.
//!
//! Another user may have placed a file or link at these names, for instance to have a daemon running as root
//! overwrite its target. Therefore symbolic links are never followed and no file is truncated. Only a socket without
//! a listener is replaced.

use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Instant;

use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};
use rustix::fs::OFlags;

use super::limits;

use crate::Error;

/// A listening socket, its path, and the lock that makes it unique.
#[derive(Debug)]
pub(super) struct SocketPath {
    path: PathBuf,
    /// Device and inode of the socket, so that only this one is removed.
    identity: (u64, u64),
    /// Locked while the daemon runs.
    _lock: File,
}

impl SocketPath {
    /// Takes the lock and listens at `path`; a socket left by a daemon that was killed is replaced.
    ///
    /// # Errors
    /// A daemon or another program listens there, something other than a socket is there, or the system refuses.
    pub fn claim(path: &Path, mode: u32) -> Result<(SocketPath, UnixListener), Error> {
        let failed = |error: io::Error| refused(path, &error.to_string());
        let lock_path = beside(path, ".lock");
        let lock = open_lock(&lock_path).map_err(|text| refused(&lock_path, &text))?;
        // An ending daemon removes its path first and releases the lock next.
        let until = Instant::now() + limits::FLUSH_TIMEOUT;
        while lock.try_lock().is_err() {
            if path.exists() || Instant::now() >= until {
                return Err(refused(path, "a daemon runs there already"));
            }
            thread::sleep(limits::TAKEOVER_CHECK_INTERVAL);
        }
        remove_stale(path)?;
        // The socket is renamed into place after its permissions were set, so no program connects earlier.
        let new = beside(path, ".new");
        remove_stale(&new)?;
        let listener = UnixListener::bind(&new).map_err(failed)?;
        fs::set_permissions(&new, Permissions::from_mode(mode)).map_err(failed)?;
        // Only this socket is removed at the end, not one that replaced it.
        let identity = identity(&fs::symlink_metadata(&new).map_err(failed)?);
        if let Err(error) = rename_to_free_name(&new, path) {
            let _ = fs::remove_file(&new);
            return Err(failed(error));
        }
        listener.set_nonblocking(true).map_err(failed)?;
        Ok((SocketPath { path: path.to_owned(), identity, _lock: lock }, listener))
    }
}

impl Drop for SocketPath {
    fn drop(&mut self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|metadata| identity(&metadata) == self.identity) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Opens or creates the lock file without changing its contents.
fn open_lock(path: &Path) -> Result<File, String> {
    // Opening a FIFO would block without O_NONBLOCK.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(flags.bits().cast_signed())
        .open(path)
        .map_err(|error| match Errno::from_raw(error.raw_os_error().unwrap_or(0)) {
            Errno::ELOOP | Errno::EMLINK => {
                "it is a symbolic link, which is not followed: remove it".to_owned()
            }
            _ => error.to_string(),
        })?;
    let metadata = file.metadata().map_err(|error| error.to_string())?;
    if !metadata.is_file() {
        return Err("it is not a regular file: remove it".to_owned());
    }
    // Otherwise another user could hold the lock forever.
    let (owner, own) = (metadata.uid(), nix::unistd::geteuid().as_raw());
    if owner != own && owner != 0 {
        return Err(format!("it belongs to user {owner}, and this is user {own}: remove it"));
    }
    Ok(file)
}

/// Removes a socket without a listener; fails for anything else.
fn remove_stale(path: &Path) -> Result<(), Error> {
    let metadata = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(refused(path, &error.to_string())),
    };
    if !metadata.file_type().is_socket() {
        return Err(refused(path, "something other than a socket is there, which is not replaced"));
    }
    match probe(path) {
        Err(Errno::ECONNREFUSED) => {
            fs::remove_file(path).map_err(|error| refused(path, &format!("a stale socket is there: {error}")))
        }
        Err(Errno::ENOENT) => Ok(()),
        Ok(()) | Err(Errno::EAGAIN | Errno::EPROTOTYPE) => {
            Err(refused(path, "another program listens at this socket"))
        }
        Err(error) => Err(refused(path, &format!("a socket is there that may be in use: {error}"))),
    }
}

/// Connects to a socket without blocking.
fn probe(path: &Path) -> Result<(), Errno> {
    let probe = socket(AddressFamily::Unix, SockType::Stream, SockFlag::empty(), None)?;
    rustix::io::ioctl_fionbio(&probe, true).map_err(|error| Errno::from_raw(error.raw_os_error()))?;
    connect(std::os::fd::AsRawFd::as_raw_fd(&probe), &UnixAddr::new(path)?)
}

/// Renames a socket unless the new name exists.
fn rename_to_free_name(from: &Path, to: &Path) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        use rustix::io::Errno;
        match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
            // This file system has no atomic rename without replacement.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {}
            result => return Ok(result?),
        }
    }
    fs::rename(from, to)
}

fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

fn refused(path: &Path, text: &str) -> Error {
    Error::Daemon(format!("{}: {text}", path.display()))
}
