//! Buffered frames between a program and the daemon, at either end.

use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::time::Instant;

use carillon_net::{WakeReceiver, Waker};
use carillon_wire::ParseError;
use carillon_wire::daemon::{Frame, LENGTH_LEN, MAX_FRAME_LEN, frame_len};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// A connection that blocks only in [`wait`](Connection::wait). Each direction buffers at most a frame and a half.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: UnixStream,
    wakeups: WakeReceiver,
    input: Vec<u8>,
    /// Start of the received bytes that were not taken yet.
    start: usize,
    /// Start of the frame that was taken last.
    last: usize,
    output: Vec<u8>,
    /// Number of outgoing bytes that were written.
    written: usize,
    /// The other end has closed its direction.
    ended: bool,
    /// The other end is gone: nothing more can be sent.
    gone: bool,
}

/// A protocol error of the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed(pub ParseError);

impl Connection {
    pub fn new(stream: UnixStream) -> io::Result<Connection> {
        stream.set_nonblocking(true)?;
        Ok(Connection {
            stream,
            wakeups: WakeReceiver::new()?,
            input: Vec::new(),
            start: 0,
            last: 0,
            output: Vec::new(),
            written: 0,
            ended: false,
            gone: false,
        })
    }

    /// Waker of [`wait`](Self::wait).
    pub fn waker(&self) -> Waker {
        self.wakeups.waker()
    }

    /// Returns true if the other end has closed its direction, or was killed.
    pub fn has_ended(&self) -> bool {
        self.ended || self.gone
    }

    /// Returns true if nothing can be sent any longer.
    pub fn is_gone(&self) -> bool {
        self.gone
    }

    /// Returns true if a few more frames may be pushed.
    pub fn has_room(&self) -> bool {
        self.output.len() - self.written < MAX_FRAME_LEN
    }

    /// Returns true if everything was written, or cannot be.
    pub fn is_flushed(&self) -> bool {
        self.gone || self.output.len() == self.written
    }

    /// Appends a frame to the outgoing bytes.
    pub fn push(&mut self, frame: &Frame<'_>) {
        if !self.gone {
            frame.emit(&mut self.output);
        }
    }

    /// Writes as much as the kernel takes now.
    pub fn flush(&mut self) {
        while !self.is_flushed() {
            match (&self.stream).write(&self.output[self.written..]) {
                Ok(0) => self.gone = true,
                Ok(len) => self.written += len,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    // Written bytes are removed in large steps, as each removal moves the rest.
                    if self.written > self.output.len() / 2 {
                        self.output.drain(..self.written);
                        self.written = 0;
                    }
                    return;
                }
                // Bytes that arrived before the failure can still be read.
                Err(_) => self.gone = true,
            }
        }
        self.output.clear();
        self.written = 0;
        if self.output.capacity() > READ_BYTES {
            self.output = Vec::new();
        }
    }

    /// Returns type and body of the next frame if it has arrived in full.
    pub fn frame(&mut self) -> Result<Option<&[u8]>, Malformed> {
        loop {
            let there = &self.input[self.start..];
            match frame_len(there).map_err(Malformed)? {
                Some(len) if len <= there.len() => {
                    self.last = self.start + LENGTH_LEN;
                    self.start += len;
                    return Ok(Some(&self.input[self.last..self.start]));
                }
                _ if !self.fill() => return Ok(None),
                _ => {}
            }
        }
    }

    /// Returns the frame of the last call of [`frame`](Connection::frame) again.
    pub fn last(&self) -> &[u8] {
        &self.input[self.last..self.start]
    }

    /// Returns true if part of a frame has arrived.
    pub fn has_half(&self) -> bool {
        self.start < self.input.len()
    }

    /// Reads available bytes; returns true if there were any.
    fn fill(&mut self) -> bool {
        if self.ended {
            return false;
        }
        self.input.drain(..self.start);
        (self.start, self.last) = (0, 0);
        let had = self.input.len();
        self.input.resize(LENGTH_LEN + MAX_FRAME_LEN, 0);
        let read = loop {
            match (&self.stream).read(&mut self.input[had..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        let len = match read {
            Ok(len) => {
                self.ended = len == 0;
                len
            }
            Err(error) => {
                self.ended = error.kind() != io::ErrorKind::WouldBlock;
                0
            }
        };
        self.input.truncate(had + len);
        if self.input.is_empty() {
            // An idle connection keeps no large buffer.
            self.input = Vec::new();
        }
        len > 0
    }

    /// Writes pending bytes and waits: until input is readable (if `wants`), output is writable (if pending), the
    /// other end is gone, the waker is called, or the deadline passes.
    pub fn wait(&mut self, wants: bool, until: Option<Instant>) -> io::Result<()> {
        let (had_room, was_gone) = (self.has_room(), self.gone);
        self.flush();
        if had_room != self.has_room() || was_gone != self.gone {
            // The flush may have made room, or found the other end gone.
            return Ok(());
        }
        let mut flags = PollFlags::empty();
        // Hang-up is a lasting state and would end every wait: it is polled only until it was seen.
        if !self.ended {
            flags |= HANGS_UP;
        }
        if wants && !self.ended {
            flags |= PollFlags::IN;
        }
        if !self.is_flushed() {
            flags |= PollFlags::OUT;
        }
        let until = if self.wakeups.is_woken() { Some(Instant::now()) } else { until };
        let patience = until.map(|at| at.saturating_duration_since(Instant::now()));
        let patience = patience.and_then(|time| Timespec::try_from(time).ok());
        let mut fds = [
            PollFd::from_borrowed_fd(self.wakeups.fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.stream.as_fd(), flags),
        ];
        let fds = if self.gone { &mut fds[..1] } else { &mut fds[..] };
        match poll(fds, patience.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let rung = !fds[0].revents().is_empty();
        let seen = fds.get(1).map_or(PollFlags::empty(), |fd| fd.revents());
        if seen.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
            self.gone = true;
        }
        if seen.intersects(HANGS_UP) && !wants {
            // Data that arrived before the hang-up may still be unread.
            self.ended = true;
        }
        self.wakeups.answer(rung);
        Ok(())
    }

    /// Closes the outgoing direction, so that the other end sees the end of the stream.
    pub fn shut(&mut self) {
        self.output.clear();
        self.written = 0;
        // The connection may be closed already.
        let _ = self.stream.shutdown(std::net::Shutdown::Write);
    }
}

/// Capacity of the outgoing buffer that is kept while idle.
const READ_BYTES: usize = 4 << 10;

/// Poll flag for a hang-up independent of unread data. Elsewhere reading detects the hang-up.
#[cfg(target_os = "linux")]
const HANGS_UP: PollFlags = PollFlags::RDHUP;
#[cfg(not(target_os = "linux"))]
const HANGS_UP: PollFlags = PollFlags::empty();
