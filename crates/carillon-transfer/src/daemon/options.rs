//! Options of a daemon: path, limits, permissions.

use std::path::PathBuf;

use super::limits;

/// Options of a daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DaemonOptions {
    /// The path of its socket.
    pub path: PathBuf,
    /// Maximum number of open sockets; each buffers at most a few megabytes.
    pub clients: usize,
    /// Maximum number of sockets of one process.
    pub per_client: usize,
    /// Maximum number of sockets of one user. `None`: half of `clients` where `mode` lets other users connect, else
    /// all.
    pub per_user: Option<usize>,
    /// Permission bits of the socket, which decide which users may connect.
    pub mode: u32,
}

impl DaemonOptions {
    /// Default options at this path: 128 sockets, 32 per process, own user only.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        DaemonOptions { path: path.into(), clients: 128, per_client: 32, per_user: None, mode: 0o600 }
    }

    /// Sets the maximum number of open sockets.
    #[must_use]
    pub fn clients(mut self, clients: usize) -> Self {
        self.clients = clients;
        self
    }

    /// Sets the maximum number of sockets of one process.
    #[must_use]
    pub fn per_client(mut self, sockets: usize) -> Self {
        self.per_client = sockets;
        self
    }

    /// Sets the maximum number of sockets of one user.
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

    /// Lowers the number of sockets to fit this limit of open files.
    pub(super) fn limited_by_files(mut self, files: u64) -> Self {
        let sockets = files.saturating_sub(limits::SPARE_FILES) / limits::FILES_PER_CLIENT;
        self.clients = self.clients.min(usize::try_from(sockets).unwrap_or(usize::MAX).max(1));
        self
    }

    /// Sets the permission bits of the socket.
    #[must_use]
    pub fn mode(mut self, mode: u32) -> Self {
        self.mode = mode;
        self
    }
}
