//! Waiting for sockets and deadlines.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags};

/// End of a wait without a ready socket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    pub(crate) at: Instant,
    /// True for a wait that sleeps until [`SPIN`] before the deadline and polls from there on, because a sleeping
    /// thread wakes up to 100 microseconds late (timer slack and scheduling).
    pub(crate) precise: bool,
}

/// Waits until the deadline or until a socket is ready; returns which can be read.
pub(crate) fn wait<const N: usize>(
    sockets: [(BorrowedFd<'_>, PollFlags); N],
    deadline: Deadline,
) -> io::Result<[bool; N]> {
    let mut fds = sockets.map(|(fd, interest)| PollFd::new(fd, interest));
    wait_for(&mut fds, deadline)?;
    Ok(std::array::from_fn(|i| is_readable(&fds[i])))
}

/// Returns true if a socket can be read after a wait. Error conditions are found and cleared by reading.
pub(crate) fn is_readable(fd: &PollFd<'_>) -> bool {
    let readable = PollFlags::POLLIN | PollFlags::POLLERR | PollFlags::POLLHUP;
    fd.revents().is_some_and(|r| r.intersects(readable))
}

/// Waits until the deadline or until a socket is ready.
pub(crate) fn wait_for(fds: &mut [PollFd<'_>], deadline: Deadline) -> io::Result<()> {
    loop {
        let left = deadline.at.saturating_duration_since(Instant::now());
        let sleep = if deadline.precise { left.saturating_sub(SPIN) } else { left };
        let ready = match poll(fds, sleep) {
            Ok(ready) => ready,
            Err(Errno::EINTR) => 0,
            Err(error) => return Err(error.into()),
        };
        if ready > 0 || deadline.at <= Instant::now() {
            return Ok(());
        }
    }
}

#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd", target_os = "dragonfly"))]
fn poll(fds: &mut [PollFd<'_>], sleep: Duration) -> Result<i32, Errno> {
    // A day fits every time type and exceeds every wait.
    nix::poll::ppoll(fds, Some(sleep.min(Duration::from_secs(86_400)).into()), None)
}

/// Waits with poll where ppoll is missing: in whole milliseconds, rounded down; the rest is polled.
#[cfg(not(any(target_os = "linux", target_os = "android", target_os = "freebsd", target_os = "dragonfly")))]
fn poll(fds: &mut [PollFd<'_>], sleep: Duration) -> Result<i32, Errno> {
    nix::poll::poll(fds, u16::try_from(sleep.as_millis()).unwrap_or(u16::MAX))
}

/// Time before a precise deadline at which sleeping ends.
const SPIN: Duration = Duration::from_micros(100);
