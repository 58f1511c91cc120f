//! Queue of outgoing messages of a live stream, from the sending program to the loop.

use std::collections::VecDeque;
use std::io;
use std::task::{Context, Poll};
use std::time::Instant;

use carillon_core::Bytes;
use carillon_net::Waker;
use carillon_wire::file::{MESSAGE_HEADER_LEN, Packer, Record, ResumePoint, TransferId, stream_records};

use super::message_history::{History, MessageHistory};
use super::message_numbers::{BEGINS, CONTINUES};
use super::worker_queue::Found;
use crate::shared::Shared;

/// A bounded queue of messages. A sending thread or task waits for room; the loop never waits and is woken. Queued
/// messages are packed together up to the protocol's message size, and longer ones are split.
#[derive(Debug)]
pub struct Feed {
    gate: Shared<State>,
}

/// Error: the session has ended and takes no more messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed;

#[derive(Debug)]
struct State {
    /// Messages for the protocol, with the number of content bytes.
    ready: VecDeque<(Bytes, u64)>,
    /// Packs the next short messages together.
    packer: Packer,
    packed: u64,
    /// Bytes of queued messages.
    bytes: usize,
    /// Number of messages so far.
    messages: u64,
    /// Maximum message size of the protocol; nothing is admitted before it is known.
    max_payload: Option<usize>,
    ended: bool,
    closed: bool,
    error: Option<io::Error>,
    /// True if the loop found the queue empty and waits.
    waits: bool,
    waker: Waker,
    /// Number of messages given to the protocol, and released by it.
    given: u64,
    done: u64,
    /// Messages that a later session may need; none if no late receivers are served.
    history: Option<MessageHistory>,
}

impl Feed {
    /// Creates an empty queue.
    #[must_use]
    pub fn new() -> Feed {
        Feed {
            gate: Shared::new(State {
                ready: VecDeque::new(),
                packer: Packer::new(0),
                packed: 0,
                bytes: 0,
                messages: 0,
                max_payload: None,
                ended: false,
                closed: false,
                error: None,
                waits: false,
                waker: Waker::default(),
                given: 0,
                done: 0,
                history: None,
            }),
        }
    }

    /// Keeps messages for late receivers (called by the loop, before the first message).
    pub(crate) fn keep(&self, history: History) {
        self.gate.change(|state| {
            state.history.get_or_insert_with(|| MessageHistory::new(history));
            ((), false)
        });
    }

    /// Ends the present session of the stream `job` at a message boundary (called by the loop). What was added before
    /// is delivered in it; later messages wait for the next session. Returns the number of the first of them, or
    /// `None` if the stream has ended or keeps no history.
    pub(crate) fn pause(&self, job: TransferId) -> Option<u64> {
        self.gate.change(|state| {
            let is_over = state.ended || state.closed || state.is_paused() || state.max_payload.is_none();
            if is_over || state.history.is_none() {
                return (None, false);
            }
            let next = state.messages;
            state.push(&Record::Resume(ResumePoint { transfer: job, entry: CONTINUES, offset: next }), 0);
            state.pack();
            // The loop takes what is queued now.
            state.history.iter_mut().for_each(MessageHistory::pause);
            state.bytes = 0;
            (Some(next), true)
        })
    }

    /// Keeps further messages for the next session (called by the loop, when a session has ended early). What was
    /// queued counts as sent.
    pub(crate) fn suspend(&self) {
        self.gate.change(|state| {
            if !state.is_paused() {
                state.ready.clear();
                state.packer.take();
                (state.packed, state.bytes) = (0, 0);
                state.history.iter_mut().for_each(MessageHistory::pause);
            }
            ((), true)
        });
    }

    /// Begins a later session of the stream `job` with this message, or with the oldest that is kept (called by the
    /// loop). Returns its number.
    pub(crate) fn resume(&self, job: TransferId, from: u64, max_payload: usize, waker: Waker) -> u64 {
        self.gate.change(|state| (state.resume(job, from, max_payload, waker), true))
    }

    /// Sets the protocol's message size and the waker (called by the loop).
    pub(crate) fn open(&self, max_payload: usize, waker: Waker) {
        self.gate.change(|state| {
            state.packer = Packer::new(max_payload);
            (state.max_payload, state.waker) = (Some(max_payload), waker);
            ((), true)
        });
    }

    /// Raises the protocol's message size (called by the loop).
    pub(crate) fn grow(&self, max_payload: usize) {
        self.gate.change(|state| {
            state.pack();
            state.packer = Packer::new(max_payload);
            state.max_payload = Some(max_payload);
            ((), true)
        });
    }

    /// Takes all queued messages (called by the loop).
    pub(crate) fn take(&self, into: &mut VecDeque<(Bytes, u64)>) -> Result<Found, io::Error> {
        self.gate.change(|state| {
            if let Some(error) = state.error.take() {
                return (Err(error), false);
            }
            state.pack();
            if state.ready.is_empty() {
                let is_over = state.ended || state.is_paused();
                state.waits = !is_over;
                return (Ok(if is_over { Found::End } else { Found::NotYet }), false);
            }
            state.given += state.ready.len() as u64;
            let had_room = state.has_room();
            into.append(&mut state.ready);
            if !state.is_paused() {
                state.bytes = 0;
            }
            (Ok(Found::Some), !had_room)
        })
    }

    /// Records that the protocol has released one more message (called by the loop).
    pub(crate) fn done(&self) {
        self.gate.change(|state| {
            state.done += 1;
            ((), state.is_settled())
        });
    }

    /// Closes the queue (called by the loop).
    pub(crate) fn close(&self) {
        self.gate.change(|state| {
            state.closed = true;
            state.ready.clear();
            state.packer.take();
            ((), true)
        });
    }

    /// Adds a message, waiting for room.
    pub fn put(&self, message: &[u8]) -> Result<(), Closed> {
        let put = self.gate.wait(None, |state| state.admit(message));
        // Without a deadline the wait ends only with a result.
        Feed::wake(put.unwrap_or(Err(Closed)))
    }

    /// Adds a message for a task.
    pub fn poll_put(&self, context: &Context<'_>, message: &[u8]) -> Poll<Result<(), Closed>> {
        self.gate.poll(context, |state| state.admit(message)).map(Feed::wake)
    }

    /// Adds a message if there is room; returns true if it did.
    pub fn try_put(&self, message: &[u8]) -> Result<bool, Closed> {
        match self.gate.change(|state| (state.admit(message), false)) {
            Some(put) => Feed::wake(put).map(|()| true),
            None => Ok(false),
        }
    }

    /// Marks the end of the stream.
    pub fn end(&self) {
        let waker = self.gate.change(|state| {
            // Between two sessions the record waits for the next one.
            if !std::mem::replace(&mut state.ended, true) && !state.closed && !state.is_paused() {
                let messages = state.messages;
                state.push(&Record::EndOfStream { messages }, 0);
            }
            (std::mem::take(&mut state.waits).then(|| state.waker.clone()), true)
        });
        waker.iter().for_each(Waker::wake);
    }

    /// Ends the stream with an error.
    pub(super) fn fail(&self, error: io::Error) {
        let waker = self.gate.change(|state| {
            (state.error, state.ended) = (Some(error), true);
            (state.waker.clone(), true)
        });
        waker.wake();
    }

    /// Waits until the protocol has released all messages: each was acknowledged by every remaining member. Returns
    /// true if that happened in time. Requires a protocol with acknowledgments.
    pub fn settle(&self, until: Instant) -> Result<bool, Closed> {
        self.gate.wait(Some(until), State::settled).map_or(Ok(false), |settled| settled.map(|()| true))
    }

    /// Polls for the release of all messages.
    pub fn poll_settle(&self, context: &Context<'_>) -> Poll<Result<(), Closed>> {
        self.gate.poll(context, State::settled)
    }

    /// Number of messages added so far.
    pub fn messages(&self) -> u64 {
        self.gate.change(|state| (state.messages, false))
    }

    /// Wakes the loop if it waits.
    fn wake(put: Result<Option<Waker>, Closed>) -> Result<(), Closed> {
        put.map(|waker| waker.iter().for_each(Waker::wake))
    }
}

impl Default for Feed {
    fn default() -> Self {
        Feed::new()
    }
}

impl State {
    /// Returns true between two sessions: messages wait in the history.
    fn is_paused(&self) -> bool {
        self.history.as_ref().is_some_and(MessageHistory::is_paused)
    }

    fn has_room(&self) -> bool {
        self.bytes < MAX_QUEUED_BYTES && self.ready.len() < MAX_QUEUED_MESSAGES
    }

    /// Adds a whole message if there is room. Returns the waker of a waiting loop.
    fn admit(&mut self, message: &[u8]) -> Option<Result<Option<Waker>, Closed>> {
        if self.closed || self.ended {
            return Some(Err(Closed));
        }
        let max = self.max_payload.filter(|_| self.has_room())?;
        if let Some(history) = &mut self.history {
            history.add(message);
        }
        if self.is_paused() {
            self.messages += 1;
            self.bytes += message.len() + MESSAGE_HEADER_LEN;
            return Some(Ok(None));
        }
        self.pack_message(message, max);
        self.messages += 1;
        self.bytes += message.len() + MESSAGE_HEADER_LEN;
        Some(Ok(std::mem::take(&mut self.waits).then(|| self.waker.clone())))
    }

    /// Packs the next message.
    fn pack_message(&mut self, message: &[u8], max: usize) {
        let mut before = 0;
        for record in stream_records(self.messages, message, max) {
            let (Record::Message { bytes, .. } | Record::Piece { bytes, .. }) = record else { continue };
            before += bytes.len();
            self.push(&record, bytes.len());
        }
        debug_assert_eq!(before, message.len());
    }

    fn resume(&mut self, job: TransferId, from: u64, max_payload: usize, waker: Waker) -> u64 {
        self.ready.clear();
        self.packer = Packer::new(max_payload);
        (self.packed, self.bytes, self.given, self.done) = (0, 0, 0, 0);
        (self.max_payload, self.waker, self.waits) = (Some(max_payload), waker, false);
        let messages = self.messages;
        let mut history = self.history.take();
        history.iter_mut().for_each(MessageHistory::discard);
        let oldest = history.as_ref().map_or(messages, |history| history.first(messages));
        let first = from.clamp(oldest, messages);
        self.push(&Record::Resume(ResumePoint { transfer: job, entry: BEGINS, offset: first }), 0);
        // `pack_message` numbers a message by the count before it.
        self.messages = first;
        for message in history.iter().flat_map(|history| history.since(first, messages)) {
            self.pack_message(message, max_payload);
            self.messages += 1;
        }
        self.history = history;
        self.history.iter_mut().for_each(MessageHistory::resume);
        if self.ended {
            self.push(&Record::EndOfStream { messages }, 0);
        }
        first
    }

    fn push(&mut self, record: &Record<'_>, bytes: usize) {
        if record.wire_len() > self.packer.room() {
            self.pack();
        }
        self.packer.push(record);
        self.packed += bytes as u64;
    }

    /// Queues the packed messages as they are.
    fn pack(&mut self) {
        if !self.packer.is_empty() {
            self.ready.push_back((self.packer.take(), std::mem::take(&mut self.packed)));
        }
    }

    fn is_settled(&self) -> bool {
        let waits = self.history.as_ref().is_some_and(MessageHistory::has_unsent);
        self.ready.is_empty() && self.packer.is_empty() && self.done >= self.given && !waits
    }

    fn settled(&mut self) -> Option<Result<(), Closed>> {
        if self.is_settled() { Some(Ok(())) } else { self.closed.then_some(Err(Closed)) }
    }
}

/// Maximum queued bytes, plus one message. A longer queue would not fit the cache.
const MAX_QUEUED_BYTES: usize = 1 << 20;
/// Maximum number of packed messages in the queue.
const MAX_QUEUED_MESSAGES: usize = 1024;

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use carillon_wire::file::records;

    use super::*;

    fn taken(feed: &Feed) -> (Found, Vec<Bytes>) {
        let mut ready = VecDeque::new();
        let found = feed.take(&mut ready).expect("nothing failed");
        (found, ready.into_iter().map(|(message, _)| message).collect())
    }

    #[test]
    fn messages_offered_before_the_size_is_known_stay_whole() {
        let feed = Feed::new();
        feed.open(40, Waker::default());
        feed.put(&[1; 60]).expect("it is open");
        feed.grow(100);
        feed.put(&[2; 60]).expect("it is open");
        let (_, ready) = taken(&feed);
        let lens: Vec<usize> = ready.iter().map(Bytes::len).collect();
        assert!(lens[..lens.len() - 1].iter().all(|&len| len <= 40) && lens[lens.len() - 1] > 60, "{lens:?}");
        let pieces = ready.iter().flat_map(|message| records(message)).map(|record| match record {
            Ok(Record::Message { bytes, .. } | Record::Piece { bytes, .. }) => bytes.len(),
            other => panic!("{other:?}"),
        });
        assert_eq!(pieces.sum::<usize>(), 120);
    }

    #[test]
    fn messages_that_wait_together_go_together() {
        let feed = Feed::new();
        feed.open(100, Waker::default());
        for text in ["one", "two", "three"] {
            feed.put(text.as_bytes()).expect("it is open");
        }
        let (found, packs) = taken(&feed);
        assert_eq!((found, packs.len()), (Found::Some, 1));
        assert_eq!(records(&packs[0]).count(), 3);
        assert_eq!(taken(&feed).0, Found::NotYet);
        feed.end();
        let (_, end) = taken(&feed);
        assert_eq!(records(&end[0]).collect::<Vec<_>>(), [Ok(Record::EndOfStream { messages: 3 })]);
        assert_eq!(taken(&feed).0, Found::End);
        assert_eq!(feed.put(b"late"), Err(Closed));
    }

    #[test]
    fn a_long_message_goes_in_pieces_that_fit() {
        let feed = Feed::new();
        feed.open(64, Waker::default());
        let long: Vec<u8> = (0..=255).collect();
        feed.put(&long).expect("it is open");
        let (_, parts) = taken(&feed);
        assert!(parts.iter().all(|part| part.len() <= 64));
        let mut whole = Vec::new();
        for record in parts.iter().flat_map(|part| records(part)) {
            match record.expect("they are records") {
                Record::Piece { number: 0, offset, len: 256, bytes } if offset as usize == whole.len() => {
                    whole.extend_from_slice(bytes);
                }
                other => panic!("{other}"),
            }
        }
        assert_eq!(whole, long);
    }

    #[test]
    fn producer_waits_for_room_and_learns_of_closure() {
        let feed = Arc::new(Feed::new());
        feed.open(1000, Waker::default());
        let put = thread::spawn({
            let feed = feed.clone();
            move || (0u64..).take_while(|_| feed.put(&[7; 900]).is_ok()).count()
        });
        let mut came = 0;
        while came < 10_000 {
            let (_, messages) = taken(&feed);
            assert!(messages.iter().map(|message| message.len()).sum::<usize>() <= MAX_QUEUED_BYTES + 1000);
            came += messages.len();
        }
        feed.close();
        assert!(put.join().expect("it does not panic") >= came);
    }

    #[test]
    fn feed_is_settled_after_the_protocol_released_everything() {
        let feed = Feed::new();
        feed.open(100, Waker::default());
        assert_eq!(feed.settle(Instant::now()), Ok(true));
        feed.put(b"one").expect("it is open");
        assert_eq!(feed.settle(Instant::now()), Ok(false));
        taken(&feed);
        assert_eq!(feed.settle(Instant::now()), Ok(false));
        feed.done();
        assert_eq!(feed.settle(Instant::now()), Ok(true));
        feed.put(b"two").expect("it is open");
        taken(&feed);
        feed.close();
        assert_eq!(feed.settle(Instant::now()), Err(Closed));
    }

    const JOB: TransferId = [7; 16];

    /// Texts and numbers of the records, one each.
    fn told(messages: &[Bytes]) -> Vec<String> {
        let all = messages.iter().flat_map(|message| records(message));
        all.map(|record| match record {
            Ok(Record::Message { number, bytes }) => format!("{number} {}", String::from_utf8_lossy(bytes)),
            Ok(Record::Resume(ResumePoint { transfer: JOB, entry, offset })) => {
                format!("resume {entry} {offset}")
            }
            Ok(Record::EndOfStream { messages }) => format!("end {messages}"),
            other => panic!("{other:?}"),
        })
        .collect()
    }

    #[test]
    fn paused_feed_keeps_its_messages_for_the_next_session() {
        for (history, from, first) in [
            (History::EMPTY, 0, 2),
            (History::Bytes(1 << 20), 0, 0),
            (History::Bytes(1 << 20), 1, 1),
            (History::Bytes(1 << 20), u64::MAX, 3),
        ] {
            let feed = Feed::new();
            feed.keep(history);
            feed.open(100, Waker::default());
            feed.put(b"a").and_then(|()| feed.put(b"b")).expect("it is open");
            assert_eq!(feed.pause(JOB), Some(2));
            assert_eq!(feed.pause(JOB), None, "it is paused");
            let (found, ready) = taken(&feed);
            assert_eq!((found, told(&ready)), (Found::Some, strings(&["0 a", "1 b", "resume 1 2"])));
            feed.put(b"c").expect("it waits");
            assert_eq!(taken(&feed).0, Found::End);
            (0..2).for_each(|_| feed.done());
            assert!(!feed.settle(Instant::now()).expect("it is open"), "a message waits");
            assert_eq!(feed.resume(JOB, from, 100, Waker::default()), first);
            feed.put(b"d").expect("it is open");
            feed.end();
            let all = ["0 a", "1 b", "2 c", "3 d", "end 4"];
            let mut expected = vec![format!("resume 0 {first}")];
            expected.extend(strings(&all[first as usize..]));
            assert_eq!(told(&taken(&feed).1), expected, "{history:?} from {from}");
            assert_eq!(taken(&feed).0, Found::End);
            assert_eq!(feed.pause(JOB), None, "it has ended");
        }
    }

    #[test]
    fn paused_feed_tells_its_end_to_the_next_session() {
        let feed = Feed::new();
        feed.keep(History::EMPTY);
        feed.open(100, Waker::default());
        feed.put(b"a").expect("it is open");
        assert_eq!(feed.pause(JOB), Some(1));
        feed.end();
        assert_eq!(told(&taken(&feed).1), strings(&["0 a", "resume 1 1"]));
        assert_eq!(feed.resume(JOB, 0, 100, Waker::default()), 1);
        assert_eq!(told(&taken(&feed).1), strings(&["resume 0 1", "end 1"]));
    }

    #[test]
    fn paused_feed_holds_the_program_back_when_it_is_full() {
        let feed = Feed::new();
        feed.keep(History::EMPTY);
        feed.open(100, Waker::default());
        assert_eq!(feed.pause(JOB), Some(0));
        let message = [0; 1000];
        let mut put = 0;
        while feed.try_put(&message).expect("it is open") {
            put += 1;
        }
        assert!((1000..1100).contains(&put), "{put}");
        feed.resume(JOB, 0, 2000, Waker::default());
        assert_eq!(taken(&feed).0, Found::Some);
        assert!(feed.try_put(&message).expect("it is open"));
    }

    fn strings(texts: &[&str]) -> Vec<String> {
        texts.iter().map(ToString::to_string).collect()
    }
}
