//! Messages that have come and wait for the program.

use std::collections::VecDeque;
use std::io;
use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use carillon_net::Waker;

use super::Message;
use crate::files::Messages;
use crate::shared::Shared;

/// A queue with a bound: whoever puts messages in waits for room, and so the protocol learns that the program is slow.
#[derive(Debug)]
pub(crate) struct Queue {
    gate: Shared<State>,
}

#[derive(Debug, Default)]
struct State {
    messages: VecDeque<Message>,
    bytes: usize,
    /// Nothing more comes.
    ended: bool,
    /// Nothing is wanted any more.
    closed: bool,
    /// Whom it wakes when there is room.
    waits: Option<Waker>,
}

/// Who puts messages in, where they come.
#[derive(Debug)]
pub(crate) struct Filler {
    queue: Arc<Queue>,
    /// The last sender's name: it is told for each message, and kept once.
    sender: Arc<str>,
    /// What goes in together.
    messages: VecDeque<Message>,
    bytes: usize,
    /// It never waits for room: whoever fills it asks for that before.
    is_prompt: bool,
}

/// What is found in a queue: all that waited, or that it has ended.
pub(crate) type Found = Option<VecDeque<Message>>;

impl Queue {
    pub fn new() -> Arc<Queue> {
        Arc::new(Queue { gate: Shared::new(State::default()) })
    }

    /// Takes all that there is as soon as there is something; nothing when the time is over.
    pub fn take(&self, deadline: Option<Instant>) -> Option<Found> {
        let found = self.gate.wait(deadline, State::take)?;
        self.make_room(|_| ());
        Some(found)
    }

    /// The same for a task.
    pub fn poll_take(&self, context: &Context<'_>) -> Poll<Found> {
        let found = self.gate.poll(context, State::take);
        if found.is_ready() {
            self.make_room(|_| ());
        }
        found
    }

    /// Who puts messages in, and waits for room, looks again.
    fn make_room(&self, change: impl FnOnce(&mut State)) {
        let waits = self.gate.change(|state| {
            change(state);
            (state.waits.take(), true)
        });
        if let Some(waker) = waits {
            waker.wake();
        }
    }

    /// Whether there is room; if not, this is woken when there is.
    fn has_room(&self, waker: &Waker) -> bool {
        self.gate.change(|state| {
            let has_room = state.closed || state.bytes < MAX_QUEUED_BYTES;
            state.waits = (!has_room).then(|| waker.clone());
            (has_room, false)
        })
    }

    /// Nothing is wanted any more.
    pub fn close(&self) {
        self.make_room(|state| {
            state.closed = true;
            state.messages.clear();
        });
    }

    /// Puts messages in, when there is room or at once.
    fn put(&self, messages: &mut VecDeque<Message>, bytes: usize, at_once: bool) -> io::Result<()> {
        let closed = self.gate.wait(None, |state| {
            if state.closed {
                return Some(true);
            }
            (at_once || state.bytes < MAX_QUEUED_BYTES).then(|| {
                state.messages.append(messages);
                state.bytes += bytes;
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
            ((), true)
        });
    }
}

impl State {
    fn take(&mut self) -> Option<Found> {
        if self.messages.is_empty() {
            return (self.ended || self.closed).then_some(None);
        }
        self.bytes = 0;
        Some(Some(mem::take(&mut self.messages)))
    }
}

impl Filler {
    pub fn new(queue: Arc<Queue>) -> Self {
        Filler { queue, sender: "".into(), messages: VecDeque::new(), bytes: 0, is_prompt: false }
    }

    /// The same for a loop, which must not wait.
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
        // A message of no bytes takes room too.
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
        // What is left goes in, if it is wanted still.
        let _ = self.flush();
        self.queue.end();
    }
}

/// Bytes that wait at most, and what is put in together.
const MAX_QUEUED_BYTES: usize = 1 << 20;
/// So much goes in together, if it comes together.
const TOGETHER_BYTES: usize = 64 << 10;
/// What a message takes beside its bytes.
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
        // One goes in, however full it is then.
        filler.message("s", 0, &vec![0; MAX_QUEUED_BYTES]).expect("it is wanted");
        filler.message("s", 1, &vec![0; MAX_QUEUED_BYTES]).expect("it is wanted");
        assert!(!filler.has_room(&wakeups.waker()) && !wakeups.is_woken());
        assert_eq!(queue.take(None).flatten().map(|messages| messages.len()), Some(2));
        assert!(wakeups.is_woken() && filler.has_room(&wakeups.waker()));
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
