//! Sending sockets: [`Outbound`] and [`JoinedOutbound`].

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::time::Instant;

use carillon_core::Duration;
use carillon_wire::daemon::Role;

use super::message::Member;
use super::settings::Socket;
use crate::daemon::fields::{Event, Report};
use crate::daemon::{program, settings};
use crate::end::End;
use crate::files::{Closed, Feed, MAX_MESSAGE_LEN};
use crate::handle::{Events, Handle, spawn};
use crate::{Error, JoinEvent, JoinReport, SendEvent, SendReport};

/// The connected sender of a session. Dropping it aborts the session; [`close`](Outbound::close) ends it in order.
pub type Outbound = Sending<SendEvent, SendReport>;

/// A further sender in a session of peers. Dropping it leaves the session; [`close`](JoinedOutbound::close) ends its
/// contribution in order.
pub type JoinedOutbound = Sending<JoinEvent, JoinReport>;

/// A sending socket: an [`Outbound`] or a [`JoinedOutbound`].
#[derive(Debug)]
pub struct Sending<E, R> {
    feed: Arc<Feed>,
    events: Events<E>,
    handle: Handle<E, R>,
    members: Vec<Member>,
    /// True if the protocol acknowledges delivery; `None` before the start.
    confirmed: Option<bool>,
}

/// A socket that accepts no more messages and delivers its last ones.
#[derive(Debug)]
pub struct Closing<E, R>(Handle<E, R>);

/// Events of a sender that concern its socket.
pub trait SenderEvent: Send + 'static {
    /// Returns true if the event is the start of the session.
    fn has_started(&self) -> bool;
    /// Updates the member list.
    fn note(self, members: &mut Vec<Member>);
}

/// Reports that may contain the reason why nothing was sent.
pub trait Refusal {
    /// Reason why nothing was sent, if so.
    fn refusal(&self) -> Option<String>;
}

impl SenderEvent for SendEvent {
    fn has_started(&self) -> bool {
        matches!(self, SendEvent::Started)
    }

    fn note(self, members: &mut Vec<Member>) {
        match self {
            SendEvent::Joined { name, address, .. } => {
                // A member of a stream joins each of its sessions.
                members.retain(|member| member.name != name);
                members.push(Member { name, address, gone: None });
            }
            SendEvent::Left { name } => members.retain(|member| member.name != name),
            SendEvent::Gone { name, outcome, .. } => {
                let reason = outcome.reason().unwrap_or("it has ended");
                let gone = members.iter_mut().filter(|member| member.name == name);
                gone.for_each(|member| member.gone = Some(reason.to_owned()));
            }
            _ => {}
        }
    }
}

impl SenderEvent for JoinEvent {
    fn has_started(&self) -> bool {
        matches!(self, JoinEvent::Started { .. })
    }

    fn note(self, members: &mut Vec<Member>) {
        match self {
            JoinEvent::Started { members: names } => {
                *members = names.into_iter().map(|name| Member { name, address: None, gone: None }).collect();
            }
            JoinEvent::Gone { name, reason } => {
                let gone = members.iter_mut().filter(|member| member.name == name);
                gone.for_each(|member| member.gone = Some(reason.clone()));
            }
            _ => {}
        }
    }
}

impl Refusal for SendReport {
    fn refusal(&self) -> Option<String> {
        let why = self.failure.clone().unwrap_or_else(|| "everybody has left".to_owned());
        (!self.is_success()).then_some(why)
    }
}

impl Refusal for JoinReport {
    fn refusal(&self) -> Option<String> {
        self.outcome.clone().err()
    }
}

impl Outbound {
    pub(super) fn begin(socket: Socket) -> Result<Self, Error> {
        let confirmed = socket.what.options.confirms()?;
        let feed = Arc::new(Feed::new());
        let handle = match begin_through(&socket, Role::Connect, &feed)? {
            Some(handle) => handle,
            None => End { network: socket.network, what: socket.what.into_send(feed.clone()) }.start(),
        };
        Ok(Sending::new(feed, handle, Some(confirmed)))
    }
}

impl JoinedOutbound {
    pub(super) fn begin(socket: Socket) -> Result<Self, Error> {
        let feed = Arc::new(Feed::new());
        let handle = match begin_through(&socket, Role::Join, &feed)? {
            Some(handle) => handle,
            None => End { network: socket.network, what: socket.what.into_join(feed.clone()) }.start(),
        };
        Ok(Sending::new(feed, handle, None))
    }
}

/// The session at a daemon, if the socket goes through one.
fn begin_through<E: Event, R: Report>(
    socket: &Socket,
    role: Role,
    feed: &Arc<Feed>,
) -> Result<Option<Handle<E, R>>, Error> {
    let Some(path) = socket.what.daemon.clone() else { return Ok(None) };
    let (list, feed) = (settings::told(socket)?, feed.clone());
    Ok(Some(spawn("carillon-program", move |abort, teller| {
        program::send(&path, role, &list, &feed, abort, teller)
    })))
}

impl<E: SenderEvent, R: Refusal> Sending<E, R> {
    fn new(feed: Arc<Feed>, handle: Handle<E, R>, confirmed: Option<bool>) -> Self {
        Sending { feed, events: handle.events(), handle, members: Vec::new(), confirmed }
    }

    pub(super) fn started(mut self) -> Result<Self, Error> {
        while let Some(event) = self.events.next_blocking() {
            if self.note(event) {
                return Ok(self);
            }
        }
        let report = self.handle.wait()?;
        Err(not_connected(&report))
    }

    pub(super) async fn started_async(mut self) -> Result<Self, Error> {
        while let Some(event) = self.events.next().await {
            if self.note(event) {
                return Ok(self);
            }
        }
        let report = self.handle.ended().await?;
        Err(not_connected(&report))
    }

    fn note(&mut self, event: E) -> bool {
        let started = event.has_started();
        event.note(&mut self.members);
        started
    }

    /// Sends a message of at most [`MAX_MESSAGE_LEN`] bytes to all members; waits while the send buffer is full.
    pub fn send(&mut self, message: &[u8]) -> Result<(), Error> {
        self.check(message)?;
        self.feed.put(message).map_err(closed)
    }

    /// Sends a message from a task. A cancelled call sends nothing.
    pub async fn send_async(&mut self, message: &[u8]) -> Result<(), Error> {
        self.check(message)?;
        poll_fn(|context| self.feed.poll_put(context, message)).await.map_err(closed)
    }

    /// Sends a message if the buffer has room; returns true if it did.
    pub fn try_send(&mut self, message: &[u8]) -> Result<bool, Error> {
        self.check(message)?;
        self.feed.try_put(message).map_err(closed)
    }

    /// Waits at most `within` until every remaining member has acknowledged all messages; returns true if so. Fails
    /// for protocols without acknowledgments. With `erramilli-singh` the last message is acknowledged only after
    /// another message or `close`.
    pub fn settle(&mut self, within: Duration) -> Result<bool, Error> {
        self.check_confirmed()?;
        self.feed.settle(Instant::now() + within).map_err(closed)
    }

    /// Awaits the acknowledgment of all messages, without a time limit.
    pub async fn settle_async(&mut self) -> Result<(), Error> {
        self.check_confirmed()?;
        poll_fn(|context| self.feed.poll_settle(context)).await.map_err(closed)
    }

    /// Members in order of joining; expelled ones have a reason. A further sender knows only names.
    pub fn members(&mut self) -> &[Member] {
        while let Some(event) = self.events.try_next() {
            self.note(event);
        }
        &self.members
    }

    /// Messages sent so far.
    #[must_use]
    pub fn messages(&self) -> u64 {
        self.feed.messages()
    }

    /// Returns true if the session has ended: no more messages can be sent.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.handle.has_ended()
    }

    /// Ends the session: waits until every member has everything or was expelled, and returns the report.
    pub fn close(self) -> Result<R, Error> {
        self.finish().wait()
    }

    /// Ends the session, and awaits the report.
    pub async fn close_async(self) -> Result<R, Error> {
        self.finish().ended().await
    }

    /// Ends the session without waiting; the result comes from [`Closing`].
    #[must_use]
    pub fn finish(self) -> Closing<E, R> {
        self.feed.end();
        Closing(self.handle)
    }

    /// Leaves at once and notifies the other members. Messages not yet delivered are lost.
    pub fn leave(self) -> Result<R, Error> {
        self.handle.abort();
        self.feed.close();
        self.handle.wait()
    }

    fn check(&self, message: &[u8]) -> Result<(), Error> {
        if message.len() > MAX_MESSAGE_LEN { Err(Error::TooLong(message.len())) } else { Ok(()) }
    }

    fn check_confirmed(&self) -> Result<(), Error> {
        if self.confirmed == Some(false) { Err(Error::Unconfirmed) } else { Ok(()) }
    }
}

impl<E, R> Closing<E, R> {
    /// Waits until every member has everything or was expelled.
    pub fn wait(self) -> Result<R, Error> {
        self.0.wait()
    }

    /// Awaits the end.
    pub async fn ended(self) -> Result<R, Error> {
        self.0.ended().await
    }

    /// Returns true when the session has ended, so that [`wait`](Self::wait) does not block.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.0.has_ended()
    }

    /// Ends it at once.
    pub fn abort(&self) {
        self.0.abort();
    }
}

/// Writes a stream of bytes. Pieces may arrive in other sizes than they were written; small writes are combined while
/// they wait.
impl<E: SenderEvent, R: Refusal> io::Write for Sending<E, R> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let len = bytes.len().min(MAX_MESSAGE_LEN);
        if len > 0 {
            self.send(&bytes[..len]).map_err(|error| io::Error::new(io::ErrorKind::BrokenPipe, error))?;
        }
        Ok(len)
    }

    /// Does nothing, as written bytes are sent without flushing.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn closed(_: Closed) -> Error {
    Error::Closed
}

fn not_connected<R: Refusal>(report: &R) -> Error {
    Error::NotConnected(report.refusal().unwrap_or_else(|| "the session ended before it began".to_owned()))
}
