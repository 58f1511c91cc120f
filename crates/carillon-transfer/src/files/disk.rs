//! What takes what comes of a transfer: a thread of its own, if what it does may wait, and otherwise the loop itself.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use carillon_core::{Bytes, NodeId};
use carillon_net::Waker;

use super::intake::{Intake, Sink};
use super::signing::Checks;
use super::taker::{Job, Notes, Taker};
use super::worker_queue::WorkerQueue;
use crate::LocalError;

/// Checks, hashes, writes and names what comes, behind the machine that delivers it.
#[derive(Debug)]
pub enum Disk {
    /// A disk waits now and then, and so may a program's own writer.
    Apart(Thread),
    /// Who never waits is handed everything at once: another thread would have to be woken for each message.
    Here(Box<Here>),
}

/// What happens in the loop.
#[derive(Debug)]
pub struct Here {
    taker: Taker,
    notes: Notes,
    /// Whose messages were taken since it was last told how far they are.
    touched: BTreeSet<NodeId>,
    waker: Waker,
}

/// The thread, from the loop.
#[derive(Debug)]
pub struct Thread {
    lane: Arc<WorkerQueue<(NodeId, Job)>>,
    board: Arc<NewsBoard>,
    /// The notes on the board that were read.
    read: u64,
    thread: Option<JoinHandle<Sink>>,
}

/// What the thread tells.
#[derive(Debug, Default)]
struct NewsBoard {
    notes: Mutex<Notes>,
    /// Grows when the notes change.
    edition: AtomicU64,
}

impl Disk {
    /// Begins to write there what passes these checks, and wakes the loop when there is something to know.
    pub(super) fn start(sink: Sink, checks: Checks, waker: Waker) -> io::Result<Disk> {
        let is_prompt = sink.is_prompt();
        let taker = Taker::new(sink, checks);
        if is_prompt {
            let (notes, touched) = (Notes::default(), BTreeSet::new());
            return Ok(Disk::Here(Box::new(Here { taker, notes, touched, waker })));
        }
        let (lane, board) = (Arc::new(WorkerQueue::new(waker)), Arc::new(NewsBoard::default()));
        let worker = Worker { taker, lane: lane.clone(), board: board.clone() };
        let thread = thread::Builder::new().name("carillon-disk".to_owned()).spawn(move || worker.work())?;
        Ok(Disk::Apart(Thread { lane, board, read: 0, thread: Some(thread) }))
    }

    /// Whether it can take more: if not, the loop is woken when it can.
    pub fn has_room(&mut self) -> bool {
        match self {
            Disk::Apart(thread) => thread.lane.has_room(),
            Disk::Here(here) => here.notes.error.is_none() && here.taker.has_room(&here.waker),
        }
    }

    /// What is to become of a sender's messages.
    pub fn begin(&mut self, node: NodeId, intake: Intake) {
        self.act(node, Job::Begin(Box::new(intake)), 0);
    }

    /// A message of a sender that was begun.
    pub fn take(&mut self, node: NodeId, message: Bytes) {
        let len = message.len();
        self.act(node, Job::Take(message), len);
    }

    /// Nothing more comes of this sender.
    pub fn give_up(&mut self, node: NodeId, reason: String) {
        self.act(node, Job::GiveUp(reason), 0);
    }

    fn act(&mut self, node: NodeId, job: Job, bytes: usize) {
        match self {
            Disk::Apart(thread) => thread.lane.push((node, job), bytes),
            Disk::Here(here) if here.notes.error.is_none() => {
                here.notes.error = here.taker.act(node, job).err().map(LocalError);
                here.touched.insert(node);
            }
            Disk::Here(_) => {}
        }
    }

    /// What is new, if anything is, when nothing more comes at the moment.
    pub fn news(&mut self) -> Option<Notes> {
        match self {
            Disk::Apart(Thread { board, read, .. }) => {
                let edition = board.edition.load(Ordering::Acquire);
                (edition != std::mem::replace(read, edition)).then(|| std::mem::take(&mut *board.lock()))
            }
            Disk::Here(here) => here.news(),
        }
    }

    /// Ends: what was not written yet is not written any more. Gives back where it all went, unless the thread has
    /// died with it.
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
            self.notes.error = self.taker.flush().err().map(LocalError);
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

/// Files that are not complete are taken away before anything else goes on.
impl Drop for Thread {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The thread.
struct Worker {
    taker: Taker,
    lane: Arc<WorkerQueue<(NodeId, Job)>>,
    board: Arc<NewsBoard>,
}

impl Worker {
    fn work(mut self) -> Sink {
        let _word = PanicGuard(self.board.clone(), self.lane.clone());
        let mut jobs = VecDeque::new();
        // A thread that gets up for each message costs more than what it does.
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
                    // Before the sender's result, which it is the cause of.
                    self.board.lock().error = Some(LocalError(error));
                    self.tell(node, done, true);
                    return self.taker.into_sink();
                }
            }
            if let Err(error) = self.taker.flush() {
                self.board.lock().error = Some(LocalError(error));
            }
            if let Some(node) = at {
                let failed = self.board.lock().error.is_some();
                self.tell(node, done, failed);
            }
        }
        self.taker.into_sink()
    }

    /// SenderEvent how far this sender's is.
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

/// A thread that dies, of a program's own writer for instance, says so.
struct PanicGuard(Arc<NewsBoard>, Arc<WorkerQueue<(NodeId, Job)>>);

impl Drop for PanicGuard {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.lock().error = Some(LocalError(anyhow::anyhow!("what takes the bytes has panicked")));
            self.0.edition.fetch_add(1, Ordering::Release);
            self.1.done(0, true);
        }
    }
}

/// How often it is told how far everything is.
const TELL_BYTES: usize = 64 << 10;
/// How long it waits for more of files where little has come.
const MAX_NEWS_DELAY: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use super::super::live::{Live, Messages};
    use super::*;

    /// Says in which thread it is called.
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
            let mut disk = Disk::start(sink, Checks::default(), Waker::default()).expect("it starts");
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
