//! One end of a connection between a program and the daemon: frames in and out, and the wait for either.

use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::time::Instant;

use carillon_net::{WakeReceiver, Waker};
use carillon_wire::ParseError;
use carillon_wire::daemon::{Frame, LENGTH_LEN, MAX_FRAME_LEN, frame_len};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// A connection that never waits but in [`wait`](Connection::wait). It holds a frame and a half of what comes, and as much of
/// what goes.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: UnixStream,
    wakeups: WakeReceiver,
    input: Vec<u8>,
    /// From where on it was not taken.
    start: usize,
    /// Where the frame begins that was taken last.
    last: usize,
    output: Vec<u8>,
    /// Up to where it was written.
    written: usize,
    /// The other end writes no more.
    ended: bool,
    /// The other end is gone: nothing can be told it.
    gone: bool,
}

/// What is wrong with what the other end has sent.
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

    /// ThreadWaker who waits here.
    pub fn waker(&self) -> Waker {
        self.wakeups.waker()
    }

    /// Whether the other end writes no more: it has closed, or was killed.
    pub fn has_ended(&self) -> bool {
        self.ended || self.gone
    }

    /// Whether nothing can be told the other end.
    pub fn is_gone(&self) -> bool {
        self.gone
    }

    /// Whether a few frames more are to be put in.
    pub fn has_room(&self) -> bool {
        self.output.len() - self.written < MAX_FRAME_LEN
    }

    /// Whether all was written, as far as it can be.
    pub fn is_flushed(&self) -> bool {
        self.gone || self.output.len() == self.written
    }

    /// Puts a frame in.
    pub fn push(&mut self, frame: &Frame<'_>) {
        if !self.gone {
            frame.emit(&mut self.output);
        }
    }

    /// Writes what can be written now.
    pub fn flush(&mut self) {
        while !self.is_flushed() {
            match (&self.stream).write(&self.output[self.written..]) {
                Ok(0) => self.gone = true,
                Ok(len) => self.written += len,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    // What was written goes, not for each few bytes that go.
                    if self.written > self.output.len() / 2 {
                        self.output.drain(..self.written);
                        self.written = 0;
                    }
                    return;
                }
                // What it has said before can still be read.
                Err(_) => self.gone = true,
            }
        }
        self.output.clear();
        self.written = 0;
        if self.output.capacity() > READ_BYTES {
            self.output = Vec::new();
        }
    }

    /// The next frame if all of it has come: its type and body.
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

    /// The frame that [`frame`](Connection::frame) has given last; once more.
    pub fn last(&self) -> &[u8] {
        &self.input[self.last..self.start]
    }

    /// Whether the beginning of a frame has come.
    pub fn has_half(&self) -> bool {
        self.start < self.input.len()
    }

    /// Reads what is there; whether something was.
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
            // Who says nothing for long takes no room.
            self.input = Vec::new();
        }
        len > 0
    }

    /// Writes what can be written, and waits until something can be read, if that is wanted, or written, if something
    /// is to be, or the other end has gone, or the bell is rung, or it is as late as that.
    pub fn wait(&mut self, wants: bool, until: Option<Instant>) -> io::Result<()> {
        let (had_room, was_gone) = (self.has_room(), self.gone);
        self.flush();
        if had_room != self.has_room() || was_gone != self.gone {
            // There may be more to put in, or to be given up.
            return Ok(());
        }
        let mut flags = PollFlags::empty();
        // It is told once that it has ended, as that does not pass.
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
            // What came before may wait still; it is not read by who has gone since.
            self.ended = true;
        }
        self.wakeups.answer(rung);
        Ok(())
    }

    /// Writes no more: the other end learns that this one has ended.
    pub fn shut(&mut self) {
        self.output.clear();
        self.written = 0;
        // It may be closed already.
        let _ = self.stream.shutdown(std::net::Shutdown::Write);
    }
}

/// Room for what goes that is kept while nothing goes.
const READ_BYTES: usize = 4 << 10;

/// The other end writes no more, whatever of it was not read yet; where the system does not tell, reading does.
#[cfg(target_os = "linux")]
const HANGS_UP: PollFlags = PollFlags::RDHUP;
#[cfg(not(target_os = "linux"))]
const HANGS_UP: PollFlags = PollFlags::empty();
