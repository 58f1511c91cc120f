//! Handling of received messages, in the loop or in the writer thread.

use std::collections::BTreeMap;

use carillon_core::{Bytes, NodeId};
use carillon_net::Waker;
use carillon_wire::file::TransferId;

use super::archive::Loss;
use super::arriving::{Completed, Unstored};
use super::finish::Finish;
use super::intake::{Intake, Sink};
use super::signing::{Checks, Signature};
use super::update::Removed;
use crate::LocalError;

/// A task for one sender's data.
#[derive(Debug)]
pub(super) enum Job {
    /// Begin with a sender.
    Begin(Box<Intake>),
    /// Handle a message.
    Take(Bytes),
    /// End a sender for this reason, as no more messages will come.
    GiveUp(String),
}

/// Progress since the last call.
#[derive(Debug, Default)]
pub struct Notes {
    /// State of each sender with messages.
    pub senders: BTreeMap<NodeId, State>,
    /// Files completed, with the names of their senders.
    pub completed: Vec<(String, Completed)>,
    /// Entries that cannot be stored here.
    pub unstored: Vec<Unstored>,
    /// Answers to the questions of updates.
    pub answers: Vec<(u32, Vec<u8>)>,
    /// Local error.
    pub error: Option<LocalError>,
}

/// State of one sender.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// The sender's name.
    pub name: String,
    /// Bytes written, or waiting in memory until their file is complete.
    pub bytes: u64,
    /// Bytes that an earlier attempt left.
    pub resumed: u64,
    /// Bytes of changed files that were copied from their earlier versions.
    pub copied: u64,
    /// Entries that were deleted, once it has ended.
    pub deleted: Option<Removed>,
    /// Attributes of an archive that could not be stored, once it has ended.
    pub losses: Vec<Loss>,
    /// Total bytes of all files, once announced.
    pub total: Option<u64>,
    /// Files completed.
    pub files: u32,
    /// True if its live stream has ended and messages are missing.
    pub is_short: bool,
    /// True if data was damaged and the verified part is kept for another attempt.
    pub is_damaged: bool,
    /// True if another session continues its live stream.
    pub is_continued: bool,
    /// Result, once it has ended.
    pub result: Option<Result<(), String>>,
    /// Verified signature, if signatures are required.
    pub signature: Option<Signature>,
}

/// Verifies, hashes, writes and renames received data.
#[derive(Debug)]
pub struct Taker {
    sink: Sink,
    checks: Checks,
    intakes: BTreeMap<NodeId, Intake>,
    /// Function to call at the end, and the job.
    finish: Option<(Finish, [u8; 16])>,
    /// Job of the session.
    job: TransferId,
}

impl Taker {
    pub(super) fn new(sink: Sink, checks: Checks) -> Self {
        Taker { sink, checks, intakes: BTreeMap::new(), finish: None, job: TransferId::default() }
    }

    /// Sets the job of the session.
    pub(super) fn of_job(self, job: TransferId) -> Self {
        Taker { job, ..self }
    }

    /// Calls a function when a transfer of this job has arrived.
    pub(super) fn finishing(self, finish: Option<(Finish, [u8; 16])>) -> Self {
        Taker { finish, ..self }
    }

    pub(super) fn act(&mut self, node: NodeId, job: Job) -> Result<(), LocalError> {
        if let Job::Begin(mut intake) = job {
            self.checks.begin(node);
            if let Sink::Live(live) = &mut self.sink {
                intake.resume_stream(self.job, live.take_numbers(self.job));
            }
            self.intakes.insert(node, intake.collecting(self.finish.is_some()));
            return Ok(());
        }
        let Some(intake) = self.intakes.get_mut(&node) else { return Ok(()) };
        match job {
            Job::Take(message) => {
                match self.checks.check(node, &message) {
                    Ok(()) => intake.take(&message, &mut self.sink)?,
                    Err(problem) => intake.fail(problem, &mut self.sink)?,
                }
                if let Some((finish, job)) = &self.finish {
                    intake.finish(finish, *job);
                }
                Ok(())
            }
            Job::GiveUp(reason) => {
                intake.give_up(reason);
                Ok(())
            }
            Job::Begin(_) => Ok(()),
        }
    }

    /// Flushes delivered live messages.
    pub(super) fn flush(&mut self) -> Result<(), LocalError> {
        match &mut self.sink {
            Sink::Live(live) => live.flush(),
            Sink::Files(_) => Ok(()),
        }
    }

    /// Records the state of a sender; returns whether it has ended or answered, if it was begun.
    pub(super) fn tell(&mut self, node: NodeId, notes: &mut Notes) -> Option<bool> {
        let intake = self.intakes.get_mut(&node)?;
        let state = State {
            name: intake.name().to_owned(),
            bytes: intake.bytes(),
            resumed: intake.resumed(),
            copied: intake.copied(),
            deleted: intake.deleted().filter(|_| intake.result().is_some()).cloned(),
            losses: match intake.result() {
                Some(_) => intake.losses().into_iter().flat_map(|losses| losses.all()).cloned().collect(),
                None => Vec::new(),
            },
            total: intake.total(),
            files: intake.files(),
            is_short: intake.is_short(),
            is_damaged: intake.is_damaged(),
            is_continued: intake.is_continued(),
            result: intake.result().cloned(),
            signature: self.checks.signature(node),
        };
        let answer = intake.take_answer();
        // The loop must be woken for an answer too.
        let ended = state.result.is_some() || answer.is_some();
        notes.answers.extend(answer);
        notes.senders.insert(node, state);
        notes.unstored.extend(intake.take_unstored());
        if intake.has_completed() {
            let name = intake.name().to_owned();
            let files = intake.take_completed().into_iter().map(|file| (name.clone(), file));
            notes.completed.extend(files);
        }
        Some(ended)
    }

    /// Returns true if its destination never blocks while it has room.
    pub(super) fn is_prompt(&self) -> bool {
        self.sink.is_prompt()
    }

    pub(super) fn is_live(&self) -> bool {
        matches!(self.sink, Sink::Live(_))
    }

    /// Returns true if it can take more without blocking; otherwise `waker` is called when it can.
    pub(super) fn has_room(&mut self, waker: &Waker) -> bool {
        match &mut self.sink {
            Sink::Live(live) => live.has_room(waker),
            Sink::Files(_) => true,
        }
    }

    pub(super) fn into_sink(mut self) -> Sink {
        // Streams of several senders cannot be resumed.
        if let (Sink::Live(live), 1) = (&mut self.sink, self.intakes.len())
            && let Some((_, intake)) = self.intakes.pop_first()
        {
            live.keep_numbers(self.job, intake.into_numbers());
        }
        self.sink
    }
}
