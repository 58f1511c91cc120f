//! How far a session is, and why somebody is not let in.

use std::fmt;

use crate::ParseError;

/// How far a session is. Ordered: a sender never goes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Receivers may join.
    Gathering,
    /// The members, who are peers, learn of each other. No one joins any more.
    Assembling,
    /// Messages are under way.
    Running,
    /// All messages are through; the sender waits for reports.
    Closing,
    /// Every member has reported or is lost.
    Finished,
    /// The sender gave up.
    Aborted,
}

/// Why a receiver is not a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RefuseReason {
    /// The session started without it.
    AlreadyStarted,
    /// Another receiver joined with the same name.
    NameTaken,
    /// The sender expects certain names, and this is none of them.
    NotExpected,
    /// The sender takes no more members.
    Full,
    /// It was a member, and the sender gave it up.
    Expelled,
    /// Its nonce will not do: it may try another.
    Nonce,
    /// It came after the start, or was given up: a further session will serve it.
    Later,
    /// It has everything of this job, verified.
    Done,
}

/// What a receiver reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Verdict {
    /// Not everything is there, or it cannot be had.
    Failed = 0,
    /// Everything is there and verified.
    Verified = 1,
    /// Not everything that came is what was sent: a further session may do better.
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
