//! States of a session, reasons of refusals, and verdicts.

use std::fmt;

use crate::ParseError;

/// State of a session, in order: a sender never goes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Receivers may join.
    Gathering,
    /// Members, which are peers, learn of each other; no receiver may join.
    Assembling,
    /// Messages are in flight.
    Running,
    /// Delivery is complete, and the sender waits for reports.
    Closing,
    /// Every member has reported or is lost.
    Finished,
    /// Sender has aborted the session.
    Aborted,
}

/// Reason why a receiver is not a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RefuseReason {
    /// Session started without the receiver.
    AlreadyStarted,
    /// Another receiver joined under the same name.
    NameTaken,
    /// Sender expects certain names, and this is none of them.
    NotExpected,
    /// Sender takes no more members.
    Full,
    /// Sender has expelled the member.
    Expelled,
    /// Nonce is in use or known to others; the receiver may try another.
    Nonce,
    /// Receiver came after the start or was expelled: a catch-up session will serve it.
    Later,
    /// Receiver has everything of this job, verified.
    Done,
}

/// Result that a receiver reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Verdict {
    /// Data is incomplete or cannot be stored.
    Failed = 0,
    /// Data is complete and verified.
    Verified = 1,
    /// Data differs from what was sent; a catch-up session may repair it.
    Damaged = 2,
}

impl Verdict {
    pub(super) fn from_code(code: u8) -> Result<Self, ParseError> {
        Ok(match code {
            0 => Verdict::Failed,
            1 => Verdict::Verified,
            2 => Verdict::Damaged,
            other => return Err(ParseError::Field { field: "verdict", value: other.into() }),
        })
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verdict::Failed => "failed",
            Verdict::Verified => "verified",
            Verdict::Damaged => "damaged",
        })
    }
}

impl State {
    pub(super) fn code(self) -> u8 {
        match self {
            State::Gathering => 0,
            State::Running => 1,
            State::Closing => 2,
            State::Finished => 3,
            State::Aborted => 4,
            State::Assembling => 5,
        }
    }

    pub(super) fn from_code(code: u8) -> Result<Self, ParseError> {
        Ok(match code {
            0 => State::Gathering,
            1 => State::Running,
            2 => State::Closing,
            3 => State::Finished,
            4 => State::Aborted,
            5 => State::Assembling,
            other => return Err(ParseError::Field { field: "state", value: other.into() }),
        })
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            State::Gathering => "gathering",
            State::Assembling => "assembling",
            State::Running => "running",
            State::Closing => "closing",
            State::Finished => "finished",
            State::Aborted => "aborted",
        })
    }
}

impl RefuseReason {
    pub(super) fn code(self) -> u8 {
        match self {
            RefuseReason::AlreadyStarted => 1,
            RefuseReason::NameTaken => 2,
            RefuseReason::NotExpected => 3,
            RefuseReason::Full => 4,
            RefuseReason::Expelled => 5,
            RefuseReason::Nonce => 6,
            RefuseReason::Later => 7,
            RefuseReason::Done => 8,
        }
    }

    pub(super) fn from_code(code: u8) -> Result<Self, ParseError> {
        Ok(match code {
            1 => RefuseReason::AlreadyStarted,
            2 => RefuseReason::NameTaken,
            3 => RefuseReason::NotExpected,
            4 => RefuseReason::Full,
            5 => RefuseReason::Expelled,
            6 => RefuseReason::Nonce,
            7 => RefuseReason::Later,
            8 => RefuseReason::Done,
            other => return Err(ParseError::Field { field: "reason", value: other.into() }),
        })
    }
}

impl fmt::Display for RefuseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RefuseReason::AlreadyStarted => "already started",
            RefuseReason::NameTaken => "name taken",
            RefuseReason::NotExpected => "not expected",
            RefuseReason::Full => "full",
            RefuseReason::Expelled => "expelled",
            RefuseReason::Nonce => "another nonce",
            RefuseReason::Later => "later",
            RefuseReason::Done => "done",
        })
    }
}
