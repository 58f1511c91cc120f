//! Wakers: they end the wait of a driver from another thread (self-pipe technique).

use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Makes the driver of an endpoint take a turn and poll its application, from any thread. Clones wake the same
/// driver; the default value does nothing.
#[derive(Clone, Debug, Default)]
pub struct Waker(Option<Arc<Signal>>);

/// Receiving end of a waker, for a loop that waits for other descriptors as well.
#[derive(Debug)]
pub struct WakeReceiver {
    heard: UnixStream,
    line: Arc<Signal>,
}

#[derive(Debug)]
struct Signal {
    /// Set by a wake-up until it is answered; further wake-ups need not write.
    rung: AtomicBool,
    to: UnixStream,
}

impl Waker {
    /// Wakes the loop. Cheap if an earlier wake-up was not answered yet.
    pub fn wake(&self) {
        let Some(line) = &self.0 else { return };
        if !line.rung.swap(true, Ordering::AcqRel) {
            // A full socket wakes the loop as well.
            let _ = (&line.to).write(&[0]);
        }
    }
}

impl WakeReceiver {
    /// Creates a receiver; [`waker`](Self::waker) returns its wakers.
    pub fn new() -> io::Result<WakeReceiver> {
        let (to, heard) = UnixStream::pair()?;
        to.set_nonblocking(true)?;
        heard.set_nonblocking(true)?;
        Ok(WakeReceiver { heard, line: Arc::new(Signal { rung: AtomicBool::new(false), to }) })
    }

    /// Waker of this receiver.
    pub fn waker(&self) -> Waker {
        Waker(Some(self.line.clone()))
    }

    /// Descriptor that is readable after a wake-up.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.heard.as_fd()
    }

    /// Returns true after a wake-up: the loop must not wait.
    pub fn is_woken(&self) -> bool {
        self.line.rung.load(Ordering::Acquire)
    }

    /// Prepares for the next wake-up. The loop checks for work after this call.
    pub fn answer(&mut self, readable: bool) {
        if self.line.rung.swap(false, Ordering::AcqRel) || readable {
            // A wake-up between the two lines keeps the flag, so the next turn does not wait. Each wake-up leaves one
            // byte, so there is hardly ever more than one, and a short read leaves none.
            let mut rings = [0; 16];
            while matches!((&self.heard).read(&mut rings), Ok(len) if len == rings.len()) {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::thread;
    use std::time::{Duration, Instant};

    use nix::poll::PollFlags;

    use super::*;
    use crate::wait::{Deadline, wait};

    #[test]
    fn waiter_receives_every_last_wakeup() {
        let mut wakeups = WakeReceiver::new().expect("two sockets");
        let (waker, told) = (wakeups.waker(), Arc::new(AtomicUsize::new(0)));
        let worker = thread::spawn({
            let told = told.clone();
            move || {
                for _ in 0..ROUNDS {
                    told.fetch_add(1, Ordering::Release);
                    waker.wake();
                }
            }
        });
        let mut seen = 0;
        while seen < ROUNDS {
            let patience = if wakeups.is_woken() { Duration::ZERO } else { Duration::from_secs(20) };
            let deadline = Deadline { at: Instant::now() + patience, precise: false };
            let [readable] = wait([(wakeups.fd(), PollFlags::POLLIN)], deadline).expect("it can wait");
            assert!(readable || patience.is_zero(), "a ring was lost after {seen}");
            wakeups.answer(readable);
            seen = told.load(Ordering::Acquire);
        }
        worker.join().expect("it does not panic");
    }

    #[test]
    fn answered_receiver_is_not_readable() {
        let mut wakeups = WakeReceiver::new().expect("two sockets");
        for readable in [true, false].repeat(20) {
            wakeups.waker().wake();
            wakeups.answer(readable);
            let deadline = Deadline { at: Instant::now(), precise: false };
            let heard = wait([(wakeups.fd(), PollFlags::POLLIN)], deadline).expect("it can wait");
            assert_eq!((heard, wakeups.is_woken()), ([false], false));
        }
    }

    const ROUNDS: usize = 20_000;
}
