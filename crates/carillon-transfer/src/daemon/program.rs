//! The program's side of a connection to the daemon: it replaces a session in the program's own process.

use std::collections::VecDeque;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use carillon_core::Bytes;
use carillon_wire::daemon::{FieldList, Frame, MAX_RECORDS_LEN, Role};
use carillon_wire::file::{Record, records};

use super::DaemonStatus;
use super::connection::Connection;
use super::fields::{Event, Parts, Report};
use super::limits;
use super::status::{decode_part, decode_rest};
use crate::files::{Feed, Found, Messages as _, Pieces};
use crate::handle::{AbortSignal, EventSink};
use crate::socket::Filler;
use crate::{Error, LocalError, ReceiveEvent, ReceiveReport};

/// Connects to the daemon and requests this role.
fn open(path: &Path, role: Role, list: &FieldList) -> Result<Connection, Error> {
    let lost = |error: std::io::Error| Error::Daemon(format!("{}: {error}", path.display()));
    let mut connection = UnixStream::connect(path).and_then(Connection::new).map_err(lost)?;
    connection.push(&Frame::Open { role, fields: list.fields() });
    Ok(connection)
}

/// Opens the connection of a listener; its sockets are open on return.
pub(crate) fn listen(path: &Path, list: &FieldList) -> Result<Connection, Error> {
    let mut connection = open(path, Role::Listen, list)?;
    loop {
        match heard(&mut connection)? {
            Some(Frame::Opened) => return Ok(connection),
            Some(other) => return Err(unexpected(&other)),
            None => wait(&mut connection)?,
        }
    }
}

/// Runs a session with the messages of `feed`, up to its report.
pub(crate) fn send<E: Event, R: Report>(
    path: &Path,
    role: Role,
    list: &FieldList,
    feed: &Arc<Feed>,
    abort: &AbortSignal,
    teller: &EventSink<E>,
) -> Result<R, Error> {
    /// Closes the feed when dropped, so that waiting senders return.
    struct Closes<'a>(&'a Feed);
    impl Drop for Closes<'_> {
        fn drop(&mut self) {
            self.0.close();
        }
    }
    let _closes = Closes(feed);
    let mut connection = open(path, role, list)?;
    abort.set_waker(connection.waker());
    feed.open(MAX_RECORDS_LEN, connection.waker());
    let mut outgoing = Outgoing { feed, ready: VecDeque::new(), sent: 0, done: 0, left: false };
    let (mut parts, mut names) = (Parts::default(), Vec::new());
    loop {
        match heard(&mut connection)? {
            Some(Frame::Event(fields)) => {
                if let Some(event) = E::heard(fields, &mut names) {
                    teller.tell(event);
                }
                continue;
            }
            Some(Frame::Done(frames)) => {
                outgoing.done_with(frames);
                continue;
            }
            Some(Frame::Part(fields)) => {
                parts.push(fields);
                continue;
            }
            Some(Frame::Report(fields)) => return Ok(R::heard(&parts, fields)),
            Some(other) => return Err(unexpected(&other)),
            None => {}
        }
        if abort.is_requested() && !outgoing.left {
            outgoing.left = true;
            connection.shut();
        }
        outgoing.fill(&mut connection)?;
        wait(&mut connection)?;
    }
}

/// Messages of a program on their way to the daemon.
struct Outgoing<'a> {
    feed: &'a Feed,
    ready: VecDeque<(Bytes, u64)>,
    /// Number of MESSAGES frames sent, and number confirmed by the daemon.
    sent: u64,
    done: u64,
    /// True after the last message was sent.
    left: bool,
}

impl Outgoing<'_> {
    fn fill(&mut self, connection: &mut Connection) -> Result<(), Error> {
        while !self.left && connection.has_room() {
            if let Some((records, _)) = self.ready.pop_front() {
                connection.push(&Frame::Messages(&records));
                self.sent += 1;
                continue;
            }
            match self.feed.take(&mut self.ready) {
                Ok(Found::Some) => {}
                Ok(Found::NotYet | Found::End) => break,
                Err(error) => return Err(LocalError::from(error).into()),
            }
        }
        Ok(())
    }

    fn done_with(&mut self, frames: u64) {
        while self.done < frames.min(self.sent) {
            self.done += 1;
            self.feed.done();
        }
    }
}

/// Receives one session of a listener up to its report; returns the connection unless it failed.
pub(crate) fn receive(
    mut connection: Connection,
    filler: Filler,
    aborts: &[&AbortSignal],
    teller: &EventSink<ReceiveEvent>,
) -> (Result<ReceiveReport, Error>, Option<Connection>) {
    let mut incoming = Incoming { filler, sender: String::new(), pieces: Pieces::default(), trouble: None };
    match incoming.receive(&mut connection, aborts, teller) {
        Ok(result) => (result, Some(connection)),
        Err(error) => (Err(error), None),
    }
}

/// Messages on their way to a program.
struct Incoming {
    filler: Filler,
    sender: String,
    pieces: Pieces,
    /// Error of the receiving program, which takes no more messages.
    trouble: Option<std::io::Error>,
}

impl Incoming {
    /// Returns an outer result for the connection and an inner one for the session.
    fn receive(
        &mut self,
        connection: &mut Connection,
        aborts: &[&AbortSignal],
        teller: &EventSink<ReceiveEvent>,
    ) -> Result<Result<ReceiveReport, Error>, Error> {
        aborts.iter().for_each(|abort| abort.set_waker(connection.waker()));
        connection.push(&Frame::Accept);
        let (mut parts, mut names, mut left) = (Parts::default(), Vec::new(), false);
        loop {
            match heard(connection) {
                Ok(Some(Frame::Event(fields))) => {
                    if let Some(event) = ReceiveEvent::heard(fields, &mut names) {
                        teller.tell(event);
                    }
                    continue;
                }
                Ok(Some(Frame::From(name))) => {
                    name.clone_into(&mut self.sender);
                    continue;
                }
                Ok(Some(Frame::Messages(bytes))) => {
                    self.take(bytes)?;
                    continue;
                }
                Ok(Some(Frame::Part(fields))) => {
                    parts.push(fields);
                    continue;
                }
                Ok(Some(Frame::Report(fields))) => {
                    let report = ReceiveReport::heard(&parts, fields);
                    return Ok(self
                        .trouble
                        .take()
                        .map_or(Ok(report), |error| Err(LocalError::from(error).into())));
                }
                Ok(Some(other)) => return Err(unexpected(&other)),
                Ok(None) => {}
                // Messages that arrived earlier are delivered before the error.
                Err(error) => return Err(error),
            }
            if let Err(error) = self.filler.flush() {
                self.trouble.get_or_insert(error);
            }
            if !left && (self.trouble.is_some() || aborts.iter().any(|abort| abort.is_requested())) {
                left = true;
                connection.push(&Frame::Leave);
            }
            wait(connection)?;
        }
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), Error> {
        for record in records(bytes) {
            let (number, message) = match record.map_err(|error| garbled(&error))? {
                Record::Piece { number, offset, len, bytes } => {
                    let message = self.pieces.take(number, (offset, len), bytes);
                    (number, message.map_err(|text| garbled(&text))?)
                }
                Record::Message { number, bytes } => (number, Some(bytes.to_vec())),
                other => return Err(garbled(&other)),
            };
            if let Some(message) = message.filter(|_| self.trouble.is_none())
                && let Err(error) = self.filler.whole(&self.sender, number, message)
            {
                self.trouble = Some(error);
            }
        }
        Ok(())
    }
}

/// Requests the status of the daemon.
pub(super) fn status(path: &Path) -> Result<DaemonStatus, Error> {
    let mut connection = open(path, Role::Command, &FieldList::new())?;
    connection.push(&Frame::Status);
    let mut status = DaemonStatus::default();
    loop {
        match heard(&mut connection)? {
            Some(Frame::Part(fields)) => decode_part(&mut status, fields),
            Some(Frame::Report(fields)) => {
                decode_rest(&mut status, fields);
                return Ok(status);
            }
            Some(other) => return Err(unexpected(&other)),
            None => wait(&mut connection)?,
        }
    }
}

/// Stops the daemon and waits until all its sessions have ended.
pub(super) fn stop(path: &Path) -> Result<(), Error> {
    let mut connection = open(path, Role::Command, &FieldList::new())?;
    connection.push(&Frame::Stop);
    loop {
        match heard(&mut connection) {
            Ok(Some(other)) => return Err(unexpected(&other)),
            Ok(None) => {}
            Err(Error::Gone) => break,
            Err(error) => return Err(error),
        }
        wait(&mut connection)?;
    }
    // The connection closed after the sessions ended; the daemon process ends next.
    let until = Instant::now() + limits::FLUSH_TIMEOUT;
    while UnixStream::connect(path).is_ok() && Instant::now() < until {
        std::thread::sleep(limits::TAKEOVER_CHECK_INTERVAL);
    }
    Ok(())
}

/// Returns the next frame of the daemon, if one has arrived.
fn heard(connection: &mut Connection) -> Result<Option<Frame<'_>>, Error> {
    let ended = match connection.frame() {
        Err(error) => return Err(garbled(&error.0)),
        Ok(None) => true,
        Ok(Some(_)) => false,
    };
    if ended {
        return match connection.has_ended() {
            true => Err(Error::Gone),
            false => Ok(None),
        };
    }
    match Frame::parse(connection.last()) {
        Ok(Frame::Refused(text) | Frame::Failed(text)) => Err(Error::Daemon(text.to_owned())),
        Ok(frame) => Ok(Some(frame)),
        Err(error) => Err(garbled(&error)),
    }
}

fn wait(connection: &mut Connection) -> Result<(), Error> {
    // Frames that arrived before the hang-up are read first.
    match connection.is_gone() {
        true => Ok(()),
        false => connection.wait(true, None).map_err(|error| Error::Daemon(error.to_string())),
    }
}

fn unexpected(frame: &Frame<'_>) -> Error {
    garbled(frame)
}

fn garbled(what: &dyn std::fmt::Display) -> Error {
    Error::Daemon(format!("it is not a daemon of this version: {what}"))
}
