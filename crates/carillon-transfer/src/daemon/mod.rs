//! A daemon that many programs of a machine share: it holds their sockets.
//!
//! A program reaches it over a Unix-domain socket, with one line more ([`Socket::through`](crate::socket::Socket::through));
//! everything else is the same, as the daemon runs the same sessions. A connection is a socket: what the kernel keeps of
//! it is all that waits on the way, so that who does not read, or sends too fast, holds up itself alone.
//! `docs/reference/daemon.md` has what is spoken there.
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

pub(crate) use connection::Connection;
pub use options::DaemonOptions;
pub use status::{DaemonStatus, SocketStatus};

use crate::Error;
use client_table::{ClientSlot, ClientTable, Refusal};
use path::SocketPath;

/// Where a daemon is looked for if nothing is said: `CARILLON_DAEMON`, otherwise `carillon/daemon.sock` below
/// `XDG_RUNTIME_DIR`, otherwise below `/run`.
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

/// What the daemon at this path is doing.
pub fn status(path: impl AsRef<Path>) -> Result<DaemonStatus, Error> {
    retried(|| program::status(path.as_ref()))
}

/// Ends the daemon at this path, and waits until all its sessions have ended: their groups are told.
pub fn stop(path: impl AsRef<Path>) -> Result<(), Error> {
    retried(|| program::stop(path.as_ref()))
}

/// A command of the daemon, once more if a crowd of other connections has displaced it or left no slot for a moment.
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

/// A daemon whose socket is open.
#[derive(Debug)]
pub struct Daemon {
    /// Removes the socket and releases the lock when the daemon has ended: before the listener closes, so that
    /// whoever waits for its end finds the path free.
    _socket_path: SocketPath,
    listener: UnixListener,
    wakeups: WakeReceiver,
    table: Arc<ClientTable>,
}

/// Stops a [`Daemon`] from another thread.
#[derive(Clone, Debug)]
pub struct DaemonStopper(Arc<ClientTable>);

impl DaemonStopper {
    /// Its sessions are ended, and then [`Daemon::run`] returns.
    pub fn stop(&self) {
        self.0.stop();
    }
}

impl Daemon {
    /// Opens its socket; an error if a daemon has it already, or something other than a socket is there. A socket
    /// left by a daemon that was killed is replaced.
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

    /// What stops it.
    #[must_use]
    pub fn stopper(&self) -> DaemonStopper {
        DaemonStopper(self.table.clone())
    }

    /// Serves until it is stopped.
    pub fn run(mut self) -> Result<(), Error> {
        while !self.table.is_stopping() {
            match self.accept() {
                Ok(()) => self.wait(true, None)?,
                // There are no more file descriptors, as a rule: some will be free again.
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

    /// Takes everybody who waits.
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

    /// Gives a connection a thread of its own, if there is a place.
    fn admit(&self, stream: UnixStream) {
        let refused = |stream: &UnixStream, refusal: Refusal, text: &str| {
            self.table.count(refusal);
            let mut frame = Vec::new();
            Frame::Refused(text).emit(&mut frame);
            // It fits what the kernel keeps, or is not heard.
            let _ = stream.set_nonblocking(true);
            let _ = io::Write::write(&mut &*stream, &frame);
        };
        let Ok(credentials) = getsockopt(&stream, sockopt::PeerCredentials) else {
            return refused(&stream, Refusal::System, "the system does not say who this is");
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

/// A slot that is free again when its thread has ended, however it has.
struct ClientGuard {
    slot: Arc<ClientSlot>,
    table: Arc<ClientTable>,
}

impl Drop for ClientGuard {
    fn drop(&mut self) {
        self.table.leave(&self.slot);
    }
}

/// Raises the limit of open files to what this many sockets take, as far as the system lets it; returns the limit.
fn raise_file_limit(clients: usize) -> u64 {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return u64::MAX };
    let wanted = (clients as u64).saturating_add(SPARE_FILES).saturating_mul(FILES_PER_CLIENT).min(hard);
    match soft < wanted && setrlimit(Resource::RLIMIT_NOFILE, wanted, hard).is_ok() {
        true => wanted,
        false => soft,
    }
}

/// A connection says what it is for within this time.
const OPEN_TIMEOUT: Duration = Duration::from_secs(5);
/// So long is waited for those who are told something last.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);
/// Between two tries to accept when the system has refused.
const ACCEPT_RETRY_INTERVAL: Duration = Duration::from_millis(100);
/// Between two looks whether another daemon has ended.
const TAKEOVER_CHECK_INTERVAL: Duration = Duration::from_millis(5);
/// End of the refusal of a connection for which there is no slot.
const LIMIT_REACHED: &str = ", and no more may be";
/// What a connection is told that has not said what it is for while others came.
const DISPLACED: &str = "others came before it was said what this connection is for: try again";
/// Maximum number of times `status` and `stop` try again after they were displaced.
const MAX_COMMAND_RETRIES: usize = 20;
/// Files of a connection and its socket.
const FILES_PER_CLIENT: u64 = 10;
/// Files for everything that is no open socket: the daemon's own, and connections that have not said what they are for.
const SPARE_FILES: u64 = 100;
/// Of the thread of a connection, which does little by itself.
const CLIENT_STACK_BYTES: usize = 256 << 10;
