//! Failures of a receiver, with one sentence each.

use std::fmt;

use carillon_wire::session::RefuseReason;

/// Reason why a receiver gets no more data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReceiverFailure {
    /// The sender refused the receiver, with the sender's own words, if any.
    Refused(RefuseReason, String),
    /// The sender was silent for too long.
    SenderSilent,
    /// The sender aborted the session, with its reason.
    Aborted(String),
    /// The sender expelled this receiver.
    Expelled,
    /// The data received differ from the data sent, as the application reports.
    Damaged(String),
    /// The receiver cannot accept the invitation, with the reason.
    BadInvitation(String),
    /// The application left, with its reason.
    Left(String),
}

impl std::error::Error for ReceiverFailure {}

impl fmt::Display for ReceiverFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let with = |f: &mut fmt::Formatter<'_>, sentence: &str, text: &str| match text {
            "" => f.write_str(sentence),
            text => write!(f, "{sentence}: {text}"),
        };
        match self {
            ReceiverFailure::Refused(reason, text) => {
                let sentence = match reason {
                    RefuseReason::AlreadyStarted => "the session started without this receiver",
                    RefuseReason::NameTaken => "another receiver has joined under the same name",
                    RefuseReason::NotExpected => "the sender expects no receiver of this name",
                    RefuseReason::Full => "the session takes no more receivers",
                    RefuseReason::Expelled => "the sender has given this receiver up",
                    RefuseReason::Nonce => "the sender takes it for another",
                    RefuseReason::Later => "a catch-up session will serve this receiver",
                    RefuseReason::Done => "this receiver has everything of this job already",
                };
                with(f, sentence, text)
            }
            ReceiverFailure::SenderSilent => f.write_str("the sender has fallen silent"),
            ReceiverFailure::Aborted(reason) => with(f, "the sender aborted the session", reason),
            ReceiverFailure::Damaged(reason) => f.write_str(reason),
            ReceiverFailure::Expelled => f.write_str("the sender has given this receiver up"),
            ReceiverFailure::BadInvitation(reason) => {
                with(f, "the sender's invitation cannot be accepted", reason)
            }
            ReceiverFailure::Left(reason) => with(f, "this receiver left the session", reason),
        }
    }
}
