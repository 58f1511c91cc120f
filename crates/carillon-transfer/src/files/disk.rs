//! The receiver's disk, and whoever else takes what comes, in a thread of their own.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use carillon_core::{Bytes, NodeId};
use carillon_net::Waker;

use super::intake::{Completed, Intake, Sink};
use super::lane::Lane;
use super::signing::{Checks, Signature, VerifyingKey};
use crate::LocalError;

/// Checks, hashes, writes and names what comes, behind the machine that delivers it.
#[derive(Debug)]
pub struct Disk {
    lane: Arc<Lane<(NodeId, Job)>>,
    board: Arc<Board>,
    /// The notes on the board that were read.
    read: u64,
    thread: Option<JoinHandle<Sink>>,
}

/// Something to do with what comes of a sender.
#[derive(Debug)]
enum Job {
    /// It is the first of it.
    Begin(Box<Intake>),
    /// A message.
    Take(Bytes),
    /// Nothing more comes, and this is why.
    GiveUp(String),
}

/// What the thread tells.
#[derive(Debug, Default)]
struct Board {
    notes: Mutex<Notes>,
    /// Grows when the notes change.
    edition: AtomicU64,
}

/// What has happened since it was last asked.
#[derive(Debug, Default)]
pub struct Notes {
    /// How far each sender is of whom something came.
    pub senders: BTreeMap<NodeId, State>,
    /// Files completed, with the names of their senders.
    pub completed: Vec<(String, Completed)>,
    /// What went wrong here.
    pub error: Option<LocalError>,
}

/// How far what one sender sends is.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// The sender's name.
    pub name: String,
    /// Bytes written, or waiting in memory until their file is complete.
    pub bytes: u64,
    /// Those of them that an earlier attempt had left.
    pub resumed: u64,
    /// Bytes of all files together, if it has said so.
    pub total: Option<u64>,
    /// Files completed.
    pub files: u32,
    /// How it ended, if it has.
    pub result: Option<Result<(), String>>,
    /// Whose signature it has, if it has to have one.
    pub signature: Option<Signature>,
}

impl Disk {
    /// Begins to write there what is signed with one of these keys, or all if there are none, and wakes the loop when there is something to know.
    pub fn start(sink: Sink, trusted: Vec<VerifyingKey>, waker: Waker) -> io::Result<Disk> {
        let checks = Checks::new(trusted);
        let (lane, board) = (Arc::new(Lane::new(waker)), Arc::new(Board::default()));
        let worker =
            Worker { sink, checks, intakes: BTreeMap::new(), lane: lane.clone(), board: board.clone() };
        let thread = thread::Builder::new().name("carillon-disk".to_owned()).spawn(move || worker.work())?;
        Ok(Disk { lane, board, read: 0, thread: Some(thread) })
    }

    /// Whether it can take more: if not, the loop is woken when it can.
    pub fn has_room(&self) -> bool {
        self.lane.has_room()
    }

    /// What is to become of a sender's messages.
    pub fn begin(&self, node: NodeId, intake: Intake) {
        self.lane.push((node, Job::Begin(Box::new(intake))), 0);
    }

    /// A message of a sender that was begun.
    pub fn take(&self, node: NodeId, message: Bytes) {
        let len = message.len();
        self.lane.push((node, Job::Take(message)), len);
    }

    /// Nothing more comes of this sender.
    pub fn give_up(&self, node: NodeId, reason: String) {
        self.lane.push((node, Job::GiveUp(reason)), 0);
    }

    /// What is new, if anything is.
    pub fn news(&mut self) -> Option<Notes> {
        let edition = self.board.edition.load(Ordering::Acquire);
        (edition != std::mem::replace(&mut self.read, edition))
            .then(|| std::mem::take(&mut *self.board.lock()))
    }

    /// Ends: what was not written yet is not written any more. Gives back where it all went, unless the thread has
    /// died with it.
    pub fn end(mut self) -> (Option<Sink>, Notes) {
        let sink = self.stop();
        (sink, std::mem::take(&mut *self.board.lock()))
    }

    fn stop(&mut self) -> Option<Sink> {
        self.lane.close();
        self.thread.take().and_then(|thread| thread.join().ok())
    }
}

/// Files that are not complete are taken away before anything else goes on.
impl Drop for Disk {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The thread.
struct Worker {
    sink: Sink,
    checks: Checks,
    intakes: BTreeMap<NodeId, Intake>,
    lane: Arc<Lane<(NodeId, Job)>>,
    board: Arc<Board>,
}

impl Worker {
    fn work(mut self) -> Sink {
        let _word = LastWord(self.board.clone(), self.lane.clone());
        let mut jobs = VecDeque::new();
        // A thread that gets up for each message costs more than what it does.
        let patience = if matches!(self.sink, Sink::Files(_)) { PATIENCE } else { Duration::ZERO };
        while self.lane.next(&mut jobs, patience) {
            let mut at = None;
            let mut done = 0;
            while let Some(((node, job), bytes)) = jobs.pop_front() {
                if at.is_some_and(|at| at != node) || done >= TELL_BYTES {
                    self.tell(at.unwrap_or(node), std::mem::take(&mut done), false);
                    if self.lane.is_closed() {
                        return self.sink;
                    }
                }
                at = Some(node);
                done += bytes;
                if let Err(error) = self.act(node, job) {
                    // Before the sender's result, which it is the cause of.
                    self.board.lock().error = Some(LocalError(error));
                    self.tell(node, done, true);
                    return self.sink;
                }
            }
            if let Sink::Live(live) = &mut self.sink
                && let Err(error) = live.flush()
            {
                self.board.lock().error = Some(LocalError(error));
            }
            if let Some(node) = at {
                let failed = self.board.lock().error.is_some();
                self.tell(node, done, failed);
            }
        }
        self.sink
    }

    fn act(&mut self, node: NodeId, job: Job) -> anyhow::Result<()> {
        if let Job::Begin(intake) = job {
            self.checks.begin(node);
            self.intakes.insert(node, *intake);
            return Ok(());
        }
        let Some(intake) = self.intakes.get_mut(&node) else { return Ok(()) };
        match job {
            Job::Take(message) => match self.checks.check(node, &message) {
                Ok(()) => intake.take(&message, &mut self.sink),
                Err(reason) => {
                    intake.give_up(reason);
                    Ok(())
                }
            },
            Job::GiveUp(reason) => {
                intake.give_up(reason);
                Ok(())
            }
            Job::Begin(_) => Ok(()),
        }
    }

    /// Tells how far this sender's is.
    fn tell(&mut self, node: NodeId, done: usize, failed: bool) {
        let Some(intake) = self.intakes.get_mut(&node) else { return };
        let mut notes = self.board.lock();
        let state = State {
            name: intake.name().to_owned(),
            bytes: intake.bytes(),
            resumed: intake.resumed(),
            total: intake.total(),
            files: intake.files(),
            result: intake.result().cloned(),
            signature: self.checks.signature(node),
        };
        let ended = state.result.is_some();
        notes.senders.insert(node, state);
        if intake.has_completed() {
            let name = intake.name().to_owned();
            let files = intake.take_completed().into_iter().map(|file| (name.clone(), file));
            notes.completed.extend(files);
        }
        drop(notes);
        self.board.edition.fetch_add(1, Ordering::Release);
        self.lane.done(done, ended || failed);
    }
}

impl Board {
    fn lock(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A thread that dies, of a program's own writer for instance, says so.
struct LastWord(Arc<Board>, Arc<Lane<(NodeId, Job)>>);

impl Drop for LastWord {
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
const PATIENCE: Duration = Duration::from_millis(1);
