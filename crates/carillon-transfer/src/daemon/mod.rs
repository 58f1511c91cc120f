//! A daemon that holds the network sockets of many programs of a machine.
//!
//! A program reaches it over a Unix-domain socket ([`Socket::through`](crate::socket::Socket::through)); the daemon
//! runs the same sessions that the program would run itself. Each connection is one socket with a thread of its own.
//! Only the kernel buffers data between the two, so a program that does not read, or sends too fast, delays only
//! itself. The protocol is described in `docs/reference/daemon.md`.
//!
//! ```
//! use carillon_transfer::daemon::{Daemon, DaemonOptions, status, stop};
//! use carillon_transfer::socket::bind;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("socket");
//! # let Some(group) = carillon_testkit::loopback_group() else { return Ok(()) };
//! let daemon = Daemon::open(DaemonOptions::new(&path))?;
//! let daemon = std::thread::spawn(move || daemon.run());
//!
//! let mut listener = bind(group).interface("lo").name("alice").through(&path).listen()?;
//! let receiver = std::thread::spawn(move || listener.accept()?.collect::<Result<Vec<_>, _>>());
//! let mut outbound = bind(group).interface("lo").name("bob").through(&path).receivers(1).connect()?;
//! outbound.send(b"one")?;
//! assert!(outbound.close()?.is_success());
//! assert_eq!(receiver.join().expect("it does not panic")?[0].bytes, b"one");
//!
//! assert_eq!(status(&path)?.connections, 3);
//! stop(&path)?;
//! daemon.join().expect("it does not panic")?;
//! # Ok(()) }
//! ```

mod client_table;
#[cfg(test)]
mod client_table_tests;
mod connection;
pub(crate) mod fields;
mod host;
mod limits;
mod options;
mod packing;
mod path;
pub(crate) mod program;
pub(crate) mod settings;
mod status;

use std::fs;
use std::os::fd::AsFd as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use std::{env, io};

use carillon_net::WakeReceiver;
use carillon_wire::daemon::Frame;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::socket::{getsockopt, sockopt};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

pub use carillon_monitor::{DaemonStatus, SocketStatus};
pub(crate) use connection::Connection;
pub use options::DaemonOptions;

use crate::Error;
use client_table::{ClientSlot, ClientTable, Refusal};
use limits::{
    ACCEPT_RETRY_INTERVAL, CLIENT_STACK_BYTES, DISPLACED, FILES_PER_CLIENT, FLUSH_TIMEOUT, LIMIT_REACHED,
    MAX_COMMAND_RETRIES, SPARE_FILES, TAKEOVER_CHECK_INTERVAL,
};
use path::SocketPath;

/// Returns the default path: `CARILLON_DAEMON`, otherwise `carillon/daemon.sock` below `XDG_RUNTIME_DIR`, otherwise
/// below `/run`.
#[must_use]
pub fn default_path() -> PathBuf {
    match env::var_os("CARILLON_DAEMON").filter(|path| !path.is_empty()) {
        Some(path) => path.into(),
        None => {
            let runtime = env::var_os("XDG_RUNTIME_DIR").filter(|path| !path.is_empty());
            runtime.map_or_else(|| PathBuf::from("/run"), PathBuf::from).join("carillon/daemon.sock")
        }
    }
}

/// Returns the status of the daemon at this path.
pub fn status(path: impl AsRef<Path>) -> Result<DaemonStatus, Error> {
    retried(|| program::status(path.as_ref()))
}

/// Stops the daemon at this path and waits until its sessions have ended and notified their members.
pub fn stop(path: impl AsRef<Path>) -> Result<(), Error> {
    retried(|| program::stop(path.as_ref()))
}

/// Runs a command and repeats it while other connections displace it or occupy all slots.
fn retried<T>(command: impl Fn() -> Result<T, Error>) -> Result<T, Error> {
    for _ in 1..MAX_COMMAND_RETRIES {
        match command() {
            Err(Error::Daemon(text)) if text == DISPLACED || text.ends_with(LIMIT_REACHED) => {
                thread::sleep(TAKEOVER_CHECK_INTERVAL);
            }
            result => return result,
        }
    }
    command()
}

/// A daemon with an open socket.
#[derive(Debug)]
pub struct Daemon {
    /// Removes the socket file and releases the lock when the daemon ends. Dropped before the listener, so that a
    /// program that waits for the end finds the path free.
    _socket_path: SocketPath,
    listener: UnixListener,
    wakeups: WakeReceiver,
    table: Arc<ClientTable>,
}

/// Stops a [`Daemon`] from another thread.
#[derive(Clone, Debug)]
pub struct DaemonStopper(Arc<ClientTable>);

impl DaemonStopper {
    /// Requests the end of all sessions, after which [`Daemon::run`] returns.
    pub fn stop(&self) {
        self.0.stop();
    }
}

impl Daemon {
    /// Opens the socket. Fails if a daemon or another file occupies the path; the socket of a killed daemon is
    /// replaced.
    pub fn open(options: DaemonOptions) -> Result<Daemon, Error> {
        let path = options.path.clone();
        let failed = |error: io::Error| Error::Daemon(format!("{}: {error}", path.display()));
        if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(parent).map_err(failed)?;
        }
        let (socket_path, listener) = SocketPath::claim(&path, options.mode)?;
        let wakeups = WakeReceiver::new().map_err(failed)?;
        let files = raise_file_limit(options.clients);
        let options = options.limited_by_files(files);
        let table = Arc::new(ClientTable::new(options, wakeups.waker()));
        Ok(Daemon { _socket_path: socket_path, listener, wakeups, table })
    }

    /// Returns a handle that stops the daemon.
    #[must_use]
    pub fn stopper(&self) -> DaemonStopper {
        DaemonStopper(self.table.clone())
    }

    /// Serves until it is stopped.
    pub fn run(mut self) -> Result<(), Error> {
        while !self.table.is_stopping() {
            match self.accept() {
                Ok(()) => self.wait(true, None)?,
                // Usually the process is out of file descriptors: retry later.
                Err(_) => {
                    self.table.count(Refusal::System);
                    self.wait(false, Some(ACCEPT_RETRY_INTERVAL))?;
                }
            }
        }
        let until = Instant::now() + FLUSH_TIMEOUT + FLUSH_TIMEOUT;
        while !self.table.is_empty() && Instant::now() < until {
            self.wait(false, Some(until - Instant::now()))?;
        }
        Ok(())
    }

    /// Accepts all waiting connections.
    fn accept(&self) -> io::Result<()> {
        loop {
            match self.listener.accept() {
                Ok((stream, _)) => self.admit(stream),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted
                    ) => {}
                Err(error) => return Err(error),
            }
            if self.table.is_stopping() {
                return Ok(());
            }
        }
    }

    /// Starts a thread for a connection, if there is a free slot.
    fn admit(&self, stream: UnixStream) {
        let refused = |stream: &UnixStream, refusal: Refusal, text: &str| {
            self.table.count(refusal);
            let mut frame = Vec::new();
            Frame::Refused(text).emit(&mut frame);
            // The message fits into the kernel buffer; if not, the client misses it.
            let _ = stream.set_nonblocking(true);
            let _ = io::Write::write(&mut &*stream, &frame);
        };
        let Ok(credentials) = getsockopt(&stream, sockopt::PeerCredentials) else {
            return refused(&stream, Refusal::System, "the system does not tell the user of this connection");
        };
        let told = stream.try_clone();
        let (connection, told) = match (Connection::new(stream), told) {
            (Ok(connection), Ok(told)) => (connection, told),
            _ => return self.table.count(Refusal::System),
        };
        let slot = match self.table.sit(credentials.pid(), credentials.uid(), connection.waker()) {
            Ok(slot) => slot,
            Err((refusal, text)) => return refused(&told, refusal, &text),
        };
        let place = ClientGuard { slot, table: self.table.clone() };
        let thread = thread::Builder::new().name("carillon-client".to_owned()).stack_size(CLIENT_STACK_BYTES);
        let spawned = thread.spawn(move || host::serve(connection, &place.slot, &place.table));
        if spawned.is_err() {
            refused(&told, Refusal::System, "the system gives no more threads");
        }
    }

    fn wait(&mut self, accepts: bool, patience: Option<Duration>) -> Result<(), Error> {
        let patience = if self.wakeups.is_woken() { Some(Duration::ZERO) } else { patience };
        let patience = patience.and_then(|time| Timespec::try_from(time).ok());
        let mut fds = [
            PollFd::from_borrowed_fd(self.wakeups.fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.listener.as_fd(), PollFlags::IN),
        ];
        let fds = if accepts { &mut fds[..] } else { &mut fds[..1] };
        match poll(fds, patience.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(Error::Daemon(error.to_string())),
        }
        let rung = !fds[0].revents().is_empty();
        self.wakeups.answer(rung);
        Ok(())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.table.stop();
    }
}

/// Frees the slot of a connection when its thread ends, even by a panic.
struct ClientGuard {
    slot: Arc<ClientSlot>,
    table: Arc<ClientTable>,
}

impl Drop for ClientGuard {
    fn drop(&mut self) {
        self.table.leave(&self.slot);
    }
}

/// Raises the limit of open files for this many sockets, as far as the system permits; returns the limit.
fn raise_file_limit(clients: usize) -> u64 {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return u64::MAX };
    let wanted = (clients as u64).saturating_add(SPARE_FILES).saturating_mul(FILES_PER_CLIENT).min(hard);
    match soft < wanted && setrlimit(Resource::RLIMIT_NOFILE, wanted, hard).is_ok() {
        true => wanted,
        false => soft,
    }
}
