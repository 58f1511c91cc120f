//! Queue of received messages that wait for the program.

use std::collections::VecDeque;
use std::io;
use std::mem;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use carillon_net::{WakeReceiver, Waker};

use super::message::Message;
use crate::files::Messages;
use crate::shared::Shared;

/// A bounded queue. The thread that fills it waits for room, which tells the protocol that the program is slow.
#[derive(Debug)]
pub(crate) struct Queue {
    gate: Shared<State>,
}

#[derive(Debug, Default)]
struct State {
    messages: VecDeque<Message>,
    bytes: usize,
    /// No more messages will arrive.
    ended: bool,
    /// The program has stopped reading.
    closed: bool,
    /// Waker of the loop that waits for room.
    waits: Option<Waker>,
    /// Makes a descriptor readable from the arrival of messages, or the end, until a reader has found nothing.
    signal: Option<WakeReceiver>,
}

/// Fills the queue of a session.
#[derive(Debug)]
pub(crate) struct Filler {
    queue: Arc<Queue>,
    /// Name of the last sender, shared by its messages.
    sender: Arc<str>,
    /// Messages that are added to the queue together.
    messages: VecDeque<Message>,
    bytes: usize,
    /// True if it must not block: the caller checks for room first.
    is_prompt: bool,
}

/// Waiting messages, or `None` at the end.
pub(crate) type Found = Option<VecDeque<Message>>;

impl Queue {
    pub fn new() -> Arc<Queue> {
        Arc::new(Queue { gate: Shared::new(State::default()) })
    }

    /// Waits for messages and takes all of them; returns `None` when the deadline passes.
    pub fn take(&self, deadline: Option<Instant>) -> Option<Found> {
        let found = self.gate.wait(deadline, State::take)?;
        self.make_room(|_| ());
        Some(found)
    }

    /// Polls for messages and takes all of them.
    pub fn poll_take(&self, context: &Context<'_>) -> Poll<Found> {
        let found = self.gate.poll(context, State::take);
        if found.is_ready() {
            self.make_room(|_| ());
        }
        found
    }

    /// Returns a descriptor that is readable while [`take`](Self::take) may find messages or the end without waiting.
    /// The descriptor is readable at once with `has_some`.
    pub fn descriptor(&self, has_some: bool) -> io::Result<OwnedFd> {
        self.gate.change(|state| (state.descriptor(has_some), false))
    }

    /// Changes the state and wakes the threads and the loop that wait for room.
    fn make_room(&self, change: impl FnOnce(&mut State)) {
        let waits = self.gate.change(|state| {
            change(state);
            (state.waits.take(), true)
        });
        if let Some(waker) = waits {
            waker.wake();
        }
    }

    /// Returns true if there is room; otherwise `waker` is called when there is.
    fn has_room(&self, waker: &Waker) -> bool {
        self.gate.change(|state| {
            let has_room = state.closed || state.bytes < MAX_QUEUED_BYTES;
            state.waits = (!has_room).then(|| waker.clone());
            (has_room, false)
        })
    }

    /// Closes the queue at the reader's side.
    pub fn close(&self) {
        self.make_room(|state| {
            state.closed = true;
            state.messages.clear();
            state.tell();
        });
    }

    /// Adds messages when there is room, or immediately with `at_once`.
    fn put(&self, messages: &mut VecDeque<Message>, bytes: usize, at_once: bool) -> io::Result<()> {
        let closed = self.gate.wait(None, |state| {
            if state.closed {
                return Some(true);
            }
            (at_once || state.bytes < MAX_QUEUED_BYTES).then(|| {
                state.messages.append(messages);
                state.bytes += bytes;
                state.tell();
                false
            })
        });
        if closed == Some(false) {
            self.gate.change(|_| ((), true));
            return Ok(());
        }
        Err(io::Error::new(io::ErrorKind::BrokenPipe, "the program has stopped receiving"))
    }

    fn end(&self) {
        self.gate.change(|state| {
            state.ended = true;
            state.tell();
            ((), true)
        });
    }
}

impl State {
    fn take(&mut self) -> Option<Found> {
        if self.messages.is_empty() {
            let is_over = self.ended || self.closed;
            if let Some(signal) = self.signal.as_mut().filter(|_| !is_over) {
                signal.answer(true);
            }
            return is_over.then_some(None);
        }
        self.bytes = 0;
        Some(Some(mem::take(&mut self.messages)))
    }

    /// Makes the descriptor readable.
    fn tell(&self) {
        self.signal.iter().for_each(|signal| signal.waker().wake());
    }

    fn descriptor(&mut self, has_some: bool) -> io::Result<OwnedFd> {
        let signal = match &mut self.signal {
            Some(signal) => signal,
            none => none.insert(WakeReceiver::new()?),
        };
        let descriptor = signal.fd().try_clone_to_owned()?;
        if has_some || !self.messages.is_empty() || self.ended || self.closed {
            self.tell();
        }
        Ok(descriptor)
    }
}

impl Filler {
    pub fn new(queue: Arc<Queue>) -> Self {
        Filler { queue, sender: "".into(), messages: VecDeque::new(), bytes: 0, is_prompt: false }
    }

    /// Makes a filler for an event loop, which must not block.
    pub fn prompt(mut self) -> Self {
        self.is_prompt = true;
        self
    }
}

impl Messages for Filler {
    fn message(&mut self, sender: &str, number: u64, bytes: &[u8]) -> io::Result<()> {
        self.whole(sender, number, bytes.to_owned())
    }

    fn whole(&mut self, sender: &str, number: u64, bytes: Vec<u8>) -> io::Result<()> {
        if *self.sender != *sender {
            self.sender = sender.into();
        }
        // An empty message takes room as well.
        self.bytes += bytes.len() + MESSAGE_BYTES;
        self.messages.push_back(Message { sender: self.sender.clone(), number, bytes });
        if self.bytes >= TOGETHER_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.messages.is_empty() {
            return Ok(());
        }
        let bytes = mem::take(&mut self.bytes);
        self.queue.put(&mut self.messages, bytes, self.is_prompt)
    }

    fn is_prompt(&self) -> bool {
        self.is_prompt
    }

    fn has_room(&mut self, waker: &Waker) -> bool {
        self.queue.has_room(waker)
    }
}

impl Drop for Filler {
    fn drop(&mut self) {
        // Remaining messages are added if the program still reads.
        let _ = self.flush();
        self.queue.end();
    }
}

/// Maximum bytes that wait in the queue.
const MAX_QUEUED_BYTES: usize = 1 << 20;
/// Maximum bytes that are added together.
const TOGETHER_BYTES: usize = 64 << 10;
/// Bytes that a message occupies in addition to its contents.
const MESSAGE_BYTES: usize = 64;

#[cfg(test)]
mod tests {
    use carillon_net::WakeReceiver;

    use super::*;

    #[test]
    fn loop_never_blocks_and_is_woken_for_room() {
        let wakeups = WakeReceiver::new().expect("it can be made");
        let queue = Queue::new();
        let mut filler = Filler::new(queue.clone()).prompt();
        assert!(filler.has_room(&wakeups.waker()));
        // A message is accepted into an empty queue whatever its size.
        filler.message("s", 0, &vec![0; MAX_QUEUED_BYTES]).expect("it is wanted");
        filler.message("s", 1, &vec![0; MAX_QUEUED_BYTES]).expect("it is wanted");
        assert!(!filler.has_room(&wakeups.waker()) && !wakeups.is_woken());
        assert_eq!(queue.take(None).flatten().map(|messages| messages.len()), Some(2));
        assert!(wakeups.is_woken() && filler.has_room(&wakeups.waker()));
    }

    #[test]
    fn descriptor_is_readable_until_nothing_is_found() {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let queue = Queue::new();
        let mut filler = Filler::new(queue.clone());
        let at_once = || Some(Instant::now());
        let is_readable = |descriptor: &OwnedFd| {
            let mut fds = [PollFd::new(descriptor, PollFlags::IN)];
            poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).expect("it can be polled") == 1
        };
        let early = queue.descriptor(false).expect("a descriptor");
        assert!(!is_readable(&early));
        for number in 0..3 {
            filler.message("s", number, b"x").and_then(|()| filler.flush()).expect("there is room");
            // It stays readable, because the reader keeps messages that it took together.
            assert!(is_readable(&early) && is_readable(&queue.descriptor(false).expect("a descriptor")));
            assert_eq!(queue.take(at_once()).flatten().map(|messages| messages.len()), Some(1));
            assert!(is_readable(&early));
            assert!(queue.take(at_once()).is_none() && !is_readable(&early));
        }
        // A late request with messages at the reader, and the end, which stays.
        assert!(is_readable(&queue.descriptor(true).expect("a descriptor")));
        assert!(queue.take(at_once()).is_none() && !is_readable(&early));
        drop(filler);
        assert!(is_readable(&early));
        assert!(matches!(queue.take(at_once()), Some(None)) && is_readable(&early));
    }

    #[test]
    fn waiting_loop_is_woken_when_the_reader_closes() {
        let wakeups = WakeReceiver::new().expect("it can be made");
        let queue = Queue::new();
        let mut filler = Filler::new(queue.clone()).prompt();
        filler.message("s", 0, &vec![0; MAX_QUEUED_BYTES]).expect("it is wanted");
        assert!(!filler.has_room(&wakeups.waker()));
        queue.close();
        assert!(wakeups.is_woken() && filler.has_room(&wakeups.waker()));
        filler.message("s", 1, b"x").expect("it is kept until it goes in");
        assert!(filler.flush().is_err());
    }
}
