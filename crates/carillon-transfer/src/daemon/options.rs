//! Where a daemon listens, and for how many.

use std::path::PathBuf;

/// Where a daemon listens, and for how many.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DaemonOptions {
    /// The path of its socket.
    pub path: PathBuf,
    /// Sockets that may be open at a time; each takes a few megabytes at most, while messages wait.
    pub clients: usize,
    /// Of these, so many of one process.
    pub per_client: usize,
    /// Maximum number of sockets of one user. `None`: half of `clients` where `mode` lets other users connect, else all.
    pub per_user: Option<usize>,
    /// Who may connect: the permission bits of the socket.
    pub mode: u32,
}

impl DaemonOptions {
    /// The usual, at this path: 128 sockets, 32 of a process, for its own user alone.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        DaemonOptions { path: path.into(), clients: 128, per_client: 32, per_user: None, mode: 0o600 }
    }

    /// So many sockets may be open at a time.
    #[must_use]
    pub fn clients(mut self, clients: usize) -> Self {
        self.clients = clients;
        self
    }

    /// So many of one process.
    #[must_use]
    pub fn per_client(mut self, sockets: usize) -> Self {
        self.per_client = sockets;
        self
    }

    /// Limits the sockets of one user.
    #[must_use]
    pub fn per_user(mut self, sockets: usize) -> Self {
        self.per_user = Some(sockets);
        self
    }

    /// Maximum number of sockets of one user.
    pub(super) fn user_limit(&self) -> usize {
        let others_may_connect = self.mode & 0o077 != 0;
        self.per_user.unwrap_or(if others_may_connect { self.clients.div_ceil(2) } else { self.clients })
    }

    /// The same with no more sockets than this number of open files is enough for.
    pub(super) fn limited_by_files(mut self, files: u64) -> Self {
        let sockets = files.saturating_sub(super::SPARE_FILES) / super::FILES_PER_CLIENT;
        self.clients = self.clients.min(usize::try_from(sockets).unwrap_or(usize::MAX).max(1));
        self
    }

    /// The permission bits of the socket.
    #[must_use]
    pub fn mode(mut self, mode: u32) -> Self {
        self.mode = mode;
        self
    }
}
