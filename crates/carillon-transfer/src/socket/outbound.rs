//! The ends that send.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::time::Instant;

use carillon_core::Duration;
use carillon_wire::daemon::Role;

use super::{Member, Socket};
use crate::daemon::fields::{Event, Report};
use crate::daemon::{program, settings};
use crate::end::End;
use crate::files::{Closed, Feed, MAX_MESSAGE_LEN};
use crate::handle::{Events, Handle, spawn};
use crate::{Error, JoinEvent, JoinReport, SendEvent, SendReport};

/// The sender of a session, connected. Dropped, it aborts the session; [`close`](Outbound::close) ends it in order.
pub type Outbound = Sending<SendEvent, SendReport>;

/// A further sender in a session of peers, joined. Dropped, it leaves; [`close`](JoinedOutbound::close) ends what it sends in order.
pub type JoinedOutbound = Sending<JoinEvent, JoinReport>;

/// An end that sends: an [`Outbound`] or a [`JoinedOutbound`].
#[derive(Debug)]
pub struct Sending<E, R> {
    feed: Arc<Feed>,
    events: Events<E>,
    handle: Handle<E, R>,
    members: Vec<Member>,
    /// Whether the protocol is told what has arrived.
    confirmed: Option<bool>,
}

/// A socket that sends no more, and whose last messages are on their way.
#[derive(Debug)]
pub struct Closing<E, R>(Handle<E, R>);

/// What a sender's events say of its connection.
pub trait SenderEvent: Send + 'static {
    /// Whether it can send now.
    fn has_started(&self) -> bool;
    /// Takes note of who comes and goes.
    fn note(self, members: &mut Vec<Member>);
}

/// Whether a report says why nothing was ever sent.
pub trait Refusal {
    /// Why, if so.
    fn refusal(&self) -> Option<String>;
}

impl SenderEvent for SendEvent {
    fn has_started(&self) -> bool {
        matches!(self, SendEvent::Started)
    }

    fn note(self, members: &mut Vec<Member>) {
        match self {
            SendEvent::Joined { name, address, .. } => members.push(Member { name, address, gone: None }),
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

    /// Sends a message, of [`MAX_MESSAGE_LEN`] bytes at most, to everybody; waits while too much waits to go out.
    pub fn send(&mut self, message: &[u8]) -> Result<(), Error> {
        self.check(message)?;
        self.feed.put(message).map_err(closed)
    }

    /// The same for a task. If it is given up half way, the message is not sent.
    pub async fn send_async(&mut self, message: &[u8]) -> Result<(), Error> {
        self.check(message)?;
        poll_fn(|context| self.feed.poll_put(context, message)).await.map_err(closed)
    }

    /// Sends a message if there is room; whether there was.
    pub fn try_send(&mut self, message: &[u8]) -> Result<bool, Error> {
        self.check(message)?;
        self.feed.try_put(message).map_err(closed)
    }

    /// Waits until everybody has acknowledged all that was sent, or was given up; whether that was within this time. An
    /// error with protocols whose senders never learn it; some learn of the last message only when another follows or
    /// the socket is closed (`erramilli-singh`).
    pub fn settle(&mut self, within: Duration) -> Result<bool, Error> {
        self.check_confirmed()?;
        self.feed.settle(Instant::now() + within).map_err(closed)
    }

    /// The same for a task, without a bound.
    pub async fn settle_async(&mut self) -> Result<(), Error> {
        self.check_confirmed()?;
        poll_fn(|context| self.feed.poll_settle(context)).await.map_err(closed)
    }

    /// Who is in the group, in order of joining, those who have been given up with the reason. A further sender
    /// knows names only.
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

    /// Whether the session is over, whatever became of it: nothing more can be sent.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.handle.has_ended()
    }

    /// Ends it: waits until everybody has everything or was given up, and says what became of everyone.
    pub fn close(self) -> Result<R, Error> {
        self.finish().wait()
    }

    /// The same for a task.
    pub async fn close_async(self) -> Result<R, Error> {
        self.finish().ended().await
    }

    /// Ends it, and waits for nobody.
    #[must_use]
    pub fn finish(self) -> Closing<E, R> {
        self.feed.end();
        Closing(self.handle)
    }

    /// Leaves at once: what has not arrived by now may never do. The others are told.
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
    /// Waits until everybody has everything or was given up.
    pub fn wait(self) -> Result<R, Error> {
        self.0.wait()
    }

    /// The same for a task.
    pub async fn ended(self) -> Result<R, Error> {
        self.0.ended().await
    }

    /// Whether that is so: then waiting takes no time.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.0.has_ended()
    }

    /// Ends it at once.
    pub fn abort(&self) {
        self.0.abort();
    }
}

/// A stream of bytes: they may arrive in other pieces than they were written in. Small writes go together as far as
/// they wait.
impl<E: SenderEvent, R: Refusal> io::Write for Sending<E, R> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let len = bytes.len().min(MAX_MESSAGE_LEN);
        if len > 0 {
            self.send(&bytes[..len]).map_err(|error| io::Error::new(io::ErrorKind::BrokenPipe, error))?;
        }
        Ok(len)
    }

    /// What was written goes out by itself.
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
