//! What is done with what comes of a transfer, message by message.

use std::collections::BTreeMap;

use carillon_core::{Bytes, NodeId};
use carillon_net::Waker;

use super::arriving::{Completed, Unstored};
use super::intake::{Intake, Sink};
use super::signing::{Checks, Signature};
use crate::LocalError;

/// Something to do with what comes of a sender.
#[derive(Debug)]
pub(super) enum Job {
    /// It is the first of it.
    Begin(Box<Intake>),
    /// A message.
    Take(Bytes),
    /// Nothing more comes, and this is why.
    GiveUp(String),
}

/// What has happened since it was last asked.
#[derive(Debug, Default)]
pub struct Notes {
    /// How far each sender is of whom something came.
    pub senders: BTreeMap<NodeId, State>,
    /// Files completed, with the names of their senders.
    pub completed: Vec<(String, Completed)>,
    /// Entries that cannot be stored here.
    pub unstored: Vec<Unstored>,
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
    /// It has sent all of its live stream, and not all came.
    pub is_short: bool,
    /// What came is damaged, and what was verified of it is kept: it may do better another time.
    pub is_damaged: bool,
    /// How it ended, if it has.
    pub result: Option<Result<(), String>>,
    /// Whose signature it has, if it has to have one.
    pub signature: Option<Signature>,
}

/// Checks, hashes, writes and names.
#[derive(Debug)]
pub struct Taker {
    sink: Sink,
    checks: Checks,
    intakes: BTreeMap<NodeId, Intake>,
}

impl Taker {
    pub(super) fn new(sink: Sink, checks: Checks) -> Self {
        Taker { sink, checks, intakes: BTreeMap::new() }
    }

    pub(super) fn act(&mut self, node: NodeId, job: Job) -> anyhow::Result<()> {
        if let Job::Begin(intake) = job {
            self.checks.begin(node);
            self.intakes.insert(node, *intake);
            return Ok(());
        }
        let Some(intake) = self.intakes.get_mut(&node) else { return Ok(()) };
        match job {
            Job::Take(message) => match self.checks.check(node, &message) {
                Ok(()) => intake.take(&message, &mut self.sink),
                Err(problem) => intake.fail(problem, &mut self.sink),
            },
            Job::GiveUp(reason) => {
                intake.give_up(reason);
                Ok(())
            }
            Job::Begin(_) => Ok(()),
        }
    }

    /// Live messages that have come are not to wait for later ones.
    pub(super) fn flush(&mut self) -> anyhow::Result<()> {
        match &mut self.sink {
            Sink::Live(live) => live.flush(),
            Sink::Files(_) => Ok(()),
        }
    }

    /// Notes how far this sender's is; whether it has ended, if it was begun.
    pub(super) fn tell(&mut self, node: NodeId, notes: &mut Notes) -> Option<bool> {
        let intake = self.intakes.get_mut(&node)?;
        let state = State {
            name: intake.name().to_owned(),
            bytes: intake.bytes(),
            resumed: intake.resumed(),
            total: intake.total(),
            files: intake.files(),
            is_short: intake.is_short(),
            is_damaged: intake.is_damaged(),
            result: intake.result().cloned(),
            signature: self.checks.signature(node),
        };
        let ended = state.result.is_some();
        notes.senders.insert(node, state);
        notes.unstored.extend(intake.take_unstored());
        if intake.has_completed() {
            let name = intake.name().to_owned();
            let files = intake.take_completed().into_iter().map(|file| (name.clone(), file));
            notes.completed.extend(files);
        }
        Some(ended)
    }

    pub(super) fn is_live(&self) -> bool {
        matches!(self.sink, Sink::Live(_))
    }

    /// Whether it can take more without waiting; if not, this wakes the loop when it can.
    pub(super) fn has_room(&mut self, waker: &Waker) -> bool {
        match &mut self.sink {
            Sink::Live(live) => live.has_room(waker),
            Sink::Files(_) => true,
        }
    }

    pub(super) fn into_sink(self) -> Sink {
        self.sink
    }
}
