//! Writer behind the protocol: a thread of its own if the destination may block, otherwise the event loop itself.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use carillon_core::{Bytes, NodeId};
use carillon_net::Waker;

use super::intake::{Intake, Sink};
use super::taker::{Job, Notes, Taker};
use super::worker_queue::WorkerQueue;
use crate::error::stated;

/// Verifies, hashes, writes and renames received data.
#[derive(Debug)]
pub enum Disk {
    /// A thread, for disks and for writers of the program, which may block.
    Apart(Thread),
    /// The event loop, for destinations that never block: waking a thread per message would cost more.
    Here(Box<Here>),
}

/// Writer in the event loop.
#[derive(Debug)]
pub struct Here {
    taker: Taker,
    notes: Notes,
    /// Senders with messages handled since the last report of progress.
    touched: BTreeSet<NodeId>,
    waker: Waker,
}

/// Handle of the writer thread.
#[derive(Debug)]
pub struct Thread {
    lane: Arc<WorkerQueue<(NodeId, Job)>>,
    board: Arc<NewsBoard>,
    /// Edition of the notes that was read last.
    read: u64,
    thread: Option<JoinHandle<Sink>>,
}

/// Notes from the thread to the loop.
#[derive(Debug, Default)]
struct NewsBoard {
    notes: Mutex<Notes>,
    /// Incremented when the notes change.
    edition: AtomicU64,
}

impl Disk {
    /// Starts the writer for this destination. `waker` wakes the loop when there are notes to read.
    pub(super) fn start(taker: Taker, waker: Waker) -> io::Result<Disk> {
        let is_prompt = taker.is_prompt();
        if is_prompt {
            let (notes, touched) = (Notes::default(), BTreeSet::new());
            return Ok(Disk::Here(Box::new(Here { taker, notes, touched, waker })));
        }
        let (lane, board) = (Arc::new(WorkerQueue::new(waker)), Arc::new(NewsBoard::default()));
        let worker = Worker { taker, lane: lane.clone(), board: board.clone() };
        let thread = thread::Builder::new().name("carillon-disk".to_owned()).spawn(move || worker.work())?;
        Ok(Disk::Apart(Thread { lane, board, read: 0, thread: Some(thread) }))
    }

    /// Returns true if it can take more; otherwise the loop is woken when it can.
    pub fn has_room(&mut self) -> bool {
        match self {
            Disk::Apart(thread) => thread.lane.has_room(),
            Disk::Here(here) => here.notes.error.is_none() && here.taker.has_room(&here.waker),
        }
    }

    /// Sets the handler of a sender's messages.
    pub fn begin(&mut self, node: NodeId, intake: Intake) {
        self.act(node, Job::Begin(Box::new(intake)), 0);
    }

    /// Passes on a message of a sender.
    pub fn take(&mut self, node: NodeId, message: Bytes) {
        let len = message.len();
        self.act(node, Job::Take(message), len);
    }

    /// Ends a sender from which no more messages will come.
    pub fn give_up(&mut self, node: NodeId, reason: String) {
        self.act(node, Job::GiveUp(reason), 0);
    }

    fn act(&mut self, node: NodeId, job: Job, bytes: usize) {
        match self {
            Disk::Apart(thread) => thread.lane.push((node, job), bytes),
            Disk::Here(here) if here.notes.error.is_none() => {
                here.notes.error = here.taker.act(node, job).err();
                here.touched.insert(node);
            }
            Disk::Here(_) => {}
        }
    }

    /// Returns new notes, if any, when no message follows at the moment.
    pub fn news(&mut self) -> Option<Notes> {
        match self {
            Disk::Apart(Thread { board, read, .. }) => {
                let edition = board.edition.load(Ordering::Acquire);
                (edition != std::mem::replace(read, edition)).then(|| std::mem::take(&mut *board.lock()))
            }
            Disk::Here(here) => here.news(),
        }
    }

    /// Stops the writer and discards unwritten data. Returns the destination unless the thread has panicked.
    pub fn end(self) -> (Option<Sink>, Notes) {
        match self {
            Disk::Apart(mut thread) => {
                let sink = thread.stop();
                (sink, std::mem::take(&mut *thread.board.lock()))
            }
            Disk::Here(here) => (Some(here.taker.into_sink()), here.notes),
        }
    }
}

impl Here {
    fn news(&mut self) -> Option<Notes> {
        if self.touched.is_empty() {
            return None;
        }
        if self.notes.error.is_none() {
            self.notes.error = self.taker.flush().err();
        }
        for node in std::mem::take(&mut self.touched) {
            self.taker.tell(node, &mut self.notes);
        }
        Some(std::mem::take(&mut self.notes))
    }
}

impl Thread {
    fn stop(&mut self) -> Option<Sink> {
        self.lane.close();
        self.thread.take().and_then(|thread| thread.join().ok())
    }
}

/// Waits for the thread, so that incomplete files are removed first.
impl Drop for Thread {
    fn drop(&mut self) {
        self.stop();
    }
}

/// State of the writer thread.
struct Worker {
    taker: Taker,
    lane: Arc<WorkerQueue<(NodeId, Job)>>,
    board: Arc<NewsBoard>,
}

impl Worker {
    fn work(mut self) -> Sink {
        let _word = PanicGuard(self.board.clone(), self.lane.clone());
        let mut jobs = VecDeque::new();
        // Waking up for each message would cost more than handling it.
        let patience = if self.taker.is_live() { Duration::ZERO } else { MAX_NEWS_DELAY };
        while self.lane.next(&mut jobs, patience) {
            let mut at = None;
            let mut done = 0;
            while let Some(((node, job), bytes)) = jobs.pop_front() {
                if at.is_some_and(|at| at != node) || done >= TELL_BYTES {
                    self.tell(at.unwrap_or(node), std::mem::take(&mut done), false);
                    if self.lane.is_closed() {
                        return self.taker.into_sink();
                    }
                }
                at = Some(node);
                done += bytes;
                if let Err(error) = self.taker.act(node, job) {
                    // Notes of progress precede the sender's result, which they cause.
                    self.board.lock().error = Some(error);
                    self.tell(node, done, true);
                    return self.taker.into_sink();
                }
            }
            if let Err(error) = self.taker.flush() {
                self.board.lock().error = Some(error);
            }
            if let Some(node) = at {
                let failed = self.board.lock().error.is_some();
                self.tell(node, done, failed);
            }
        }
        self.taker.into_sink()
    }

    /// Reports the progress of this sender.
    fn tell(&mut self, node: NodeId, done: usize, failed: bool) {
        let Some(ended) = self.taker.tell(node, &mut self.board.lock()) else { return };
        self.board.edition.fetch_add(1, Ordering::Release);
        self.lane.done(done, ended || failed);
    }
}

impl NewsBoard {
    fn lock(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reports a panic of the thread, for instance in a writer of the program.
struct PanicGuard(Arc<NewsBoard>, Arc<WorkerQueue<(NodeId, Job)>>);

impl Drop for PanicGuard {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.lock().error = Some(stated!("the writer of the received data has panicked"));
            self.0.edition.fetch_add(1, Ordering::Release);
            self.1.done(0, true);
        }
    }
}

/// Bytes between two reports of progress.
const TELL_BYTES: usize = 64 << 10;
/// Maximum wait for more data before a short backlog of files is handled.
const MAX_NEWS_DELAY: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use super::super::live::{Live, Messages};
    use super::super::signing::Checks;
    use super::*;

    /// Reports the name of the calling thread.
    struct Named {
        is_prompt: bool,
        to: std::sync::mpsc::Sender<thread::ThreadId>,
    }

    impl Messages for Named {
        fn message(&mut self, _: &str, _: u64, _: &[u8]) -> io::Result<()> {
            Ok(())
        }

        fn flush(&mut self) -> io::Result<()> {
            self.to.send(thread::current().id()).map_err(io::Error::other)
        }

        fn is_prompt(&self) -> bool {
            self.is_prompt
        }
    }

    #[test]
    fn prompt_sink_is_called_in_the_loop() {
        let here = thread::current().id();
        for is_prompt in [true, false] {
            let (to, threads) = std::sync::mpsc::channel();
            let sink = Sink::Live(Live::plain(Named { is_prompt, to }));
            let mut disk =
                Disk::start(Taker::new(sink, Checks::default()), Waker::default()).expect("it starts");
            assert!(disk.has_room() && disk.news().is_none());
            disk.begin(NodeId(7), Intake::new("s".to_owned(), None, false));
            disk.give_up(NodeId(7), "it is gone".to_owned());
            if is_prompt {
                let notes = disk.news().expect("it was given up");
                assert_eq!(notes.senders[&NodeId(7)].result, Some(Err("it is gone".to_owned())));
                assert!(disk.news().is_none());
            }
            assert_eq!(threads.recv().expect("it is called") == here, is_prompt);
        }
    }
}
