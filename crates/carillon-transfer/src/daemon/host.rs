//! The daemon's side of a connection: it runs the sessions of one socket for the program at the other end.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, ready};
use std::time::Instant;

use carillon_net::Waker;
use carillon_wire::daemon::{Frame, Role, other_release};
use carillon_wire::file::{Record, records};
use carillon_wire::session::{OtherRelease, Release, WIRE_VERSION};

use super::client_table::{ClientSlot, ClientTable, Refusal};
use super::connection::{Connection, Malformed};
use super::fields::{Event, Report};
use super::limits;
use super::packing::Packing;
use super::settings;
use crate::end::End;
use crate::files::{Feed, Pieces};
use crate::handle::{Events, Handle};
use crate::socket::{Listener, Message, Queue};
use crate::{Error, ReceiveEvent, ReceiveReport};

/// Serves a connection to its end. A refusal is sent to the program and counted.
pub(super) fn serve(mut connection: Connection, slot: &ClientSlot, table: &ClientTable) {
    if let Err((refusal, text)) = Host::new(&mut connection, slot, table).open() {
        table.count(refusal);
        connection.push(&Frame::Refused(&text));
    }
    // A program that does not read the final frames delays the thread only for a limited time.
    let until = Instant::now() + limits::FLUSH_TIMEOUT;
    loop {
        connection.flush();
        if connection.is_flushed() || Instant::now() >= until || connection.wait(false, Some(until)).is_err()
        {
            return;
        }
    }
}

/// Reason for ending a connection, with the text for the program.
type Refused = (Refusal, String);

struct Host<'a> {
    connection: &'a mut Connection,
    slot: &'a ClientSlot,
    table: &'a ClientTable,
    waker: std::task::Waker,
}

/// Wakes the thread of a connection from a task waker.
struct ThreadWaker(Waker);

impl Wake for ThreadWaker {
    fn wake(self: Arc<Self>) {
        self.0.wake();
    }
}

/// Polls for one event after the other.
struct EventStream<E> {
    events: Events<E>,
    next: Option<Pin<Box<dyn Future<Output = Option<E>>>>>,
}

impl<E: 'static> EventStream<E> {
    fn new(events: Events<E>) -> Self {
        EventStream { events, next: None }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<E>> {
        let events = &self.events;
        let next = self.next.get_or_insert_with(|| {
            let events = events.clone();
            Box::pin(async move { events.next().await })
        });
        let event = ready!(next.as_mut().poll(context));
        self.next = None;
        Poll::Ready(event)
    }
}

impl<'a> Host<'a> {
    fn new(connection: &'a mut Connection, slot: &'a ClientSlot, table: &'a ClientTable) -> Self {
        let waker = Arc::new(ThreadWaker(connection.waker())).into();
        Host { connection, slot, table, waker }
    }

    /// Waits for the program's request and serves it.
    fn open(mut self) -> Result<(), Refused> {
        let until = Instant::now() + limits::OPEN_TIMEOUT;
        let (role, socket) = loop {
            match self.frame()? {
                Some(Frame::Open { role: Role::Command, .. }) => return self.command(),
                Some(Frame::Open { role, fields }) => {
                    break (role, settings::socket(fields).map_err(|text| (Refusal::Wrong, text))?);
                }
                Some(other) => return Err(unexpected(&other)),
                None => {}
            }
            if self.connection.has_ended() {
                return self.vanished();
            }
            if self.is_displaced() || self.table.is_stopping() {
                return Ok(());
            }
            if Instant::now() >= until {
                return Err((Refusal::Late, "no request arrived in time".to_owned()));
            }
            self.wait(true, Some(until))?;
        };
        self.table.occupy(self.slot, role, &socket)?;
        let wrong = |error: Error| (Refusal::Wrong, error.to_string());
        match role {
            Role::Listen => {
                let listener = socket.listen().map_err(wrong)?;
                self.connection.push(&Frame::Opened);
                self.listen(listener)
            }
            Role::Join => {
                let feed = Arc::new(Feed::new());
                let End { network, what } = socket;
                let what = what.into_join(feed.clone());
                self.send(&feed, End { network, what }.start(), true)
            }
            Role::Connect | Role::Command => {
                let confirmed = socket.what.options.confirms().map_err(wrong)?;
                let feed = Arc::new(Feed::new());
                let End { network, what } = socket;
                let what = what.into_send(feed.clone());
                self.send(&feed, End { network, what }.start(), confirmed)
            }
        }
    }

    /// Feeds messages of the program into a session and forwards its events.
    fn send<E: Event, R: Report>(
        mut self,
        feed: &Feed,
        handle: Handle<E, R>,
        confirmed: bool,
    ) -> Result<(), Refused> {
        let mut events = EventStream::new(handle.events());
        let mut intake = Intake::default();
        // Number of MESSAGES frames that the program knows to be delivered.
        let mut told = 0;
        // Deadline after an abort: a program that does not read by then misses the report.
        let mut aborted: Option<Instant> = None;
        let result = loop {
            let waker = self.waker.clone();
            let mut context = Context::from_waker(&waker);
            let mut over = false;
            while self.connection.has_room() && !over {
                match events.poll(&mut context) {
                    Poll::Ready(Some(event)) => event.tell(self.connection),
                    Poll::Ready(None) => over = true,
                    Poll::Pending => break,
                }
            }
            if over {
                break Ok(());
            }
            // Messages flow only until an abort, as the session ends anyway.
            let taken =
                if aborted.is_some() { Ok(false) } else { self.take_messages(&mut intake, feed, &context) };
            let wants = match taken {
                Ok(wants) => wants,
                Err(refused) => break Err(refused),
            };
            if confirmed && told < intake.frames && feed.poll_settle(&context) == Poll::Ready(Ok(())) {
                told = intake.frames;
                self.connection.push(&Frame::Done(told));
            }
            if aborted.is_none() && (self.connection.has_ended() || self.table.is_stopping()) {
                aborted = Some(Instant::now() + limits::FLUSH_TIMEOUT);
                if self.connection.has_ended() {
                    self.table.count(Refusal::Vanished);
                }
                // The session ends in order and notifies its members.
                handle.abort();
            }
            if aborted.is_some_and(|until| Instant::now() >= until) {
                return Ok(());
            }
            self.wait(wants && aborted.is_none(), aborted)?;
        };
        if result.is_ok() {
            push_end(handle.wait(), self.connection);
        }
        result
    }

    /// Moves received messages into the feed as far as there is room; returns true if more may be read.
    fn take_messages(
        &mut self,
        intake: &mut Intake,
        feed: &Feed,
        context: &Context<'_>,
    ) -> Result<bool, Refused> {
        loop {
            while let Some(message) = intake.messages.front() {
                match feed.poll_put(context, message) {
                    Poll::Pending => return Ok(false),
                    // The session has ended; the report says why.
                    Poll::Ready(Err(_)) => return Ok(false),
                    Poll::Ready(Ok(())) => self.slot.count(message.len()),
                }
                intake.messages.pop_front();
            }
            if std::mem::take(&mut intake.in_frame) {
                intake.frames += 1;
            }
            if intake.ended {
                feed.end();
            }
            match self.frame()? {
                None => return Ok(true),
                Some(Frame::Messages(bytes)) => {
                    intake.take(bytes).map_err(|text| (Refusal::Malformed, text))?
                }
                Some(other) => return Err(unexpected(&other)),
            }
        }
    }

    /// Forwards the messages of one session after the other to the program.
    fn listen(mut self, mut listener: Listener) -> Result<(), Refused> {
        let mut session: Option<ListenSession> = None;
        let mut ending: Option<Instant> = None;
        loop {
            if ending.is_none() {
                self.handle_commands(&mut listener, &mut session)?;
            }
            if ending.is_none() && (self.connection.has_ended() || self.table.is_stopping()) {
                ending = Some(Instant::now() + limits::FLUSH_TIMEOUT);
                match &session {
                    Some(session) => session.leave(),
                    None => return if self.connection.has_ended() { self.vanished() } else { Ok(()) },
                }
                if self.connection.has_ended() {
                    self.table.count(Refusal::Vanished);
                }
            }
            let waker = self.waker.clone();
            let mut context = Context::from_waker(&waker);
            if let Some(hearing) = &mut session
                && hearing.turn(self.connection, self.slot, &mut context)
            {
                if let Some(hearing) = session.take() {
                    push_end(hearing.handle.wait(), self.connection);
                }
                if ending.is_some() {
                    return Ok(());
                }
                continue;
            }
            if ending.is_some_and(|until| Instant::now() >= until) {
                return Ok(());
            }
            self.wait(ending.is_none(), ending)?;
        }
    }

    /// Handles the commands of a listening program.
    fn handle_commands(
        &mut self,
        listener: &mut Listener,
        session: &mut Option<ListenSession>,
    ) -> Result<(), Refused> {
        while let Some(frame) = self.frame()? {
            match frame {
                Frame::Accept if session.is_none() => match listener.session() {
                    Ok((queue, handle)) => *session = Some(ListenSession::new(queue, handle)),
                    Err(error) => self.connection.push(&Frame::Failed(&error.to_string())),
                },
                // The command may have crossed the end of the session.
                Frame::Leave => session.iter().for_each(ListenSession::leave),
                other => return Err(unexpected(&other)),
            }
        }
        Ok(())
    }

    /// Answers `status` and `stop`.
    fn command(mut self) -> Result<(), Refused> {
        let until = Instant::now() + limits::OPEN_TIMEOUT;
        loop {
            match self.frame()? {
                Some(Frame::Status) => {
                    self.table.tell(self.connection);
                    return Ok(());
                }
                Some(Frame::Stop) => return self.stop(),
                Some(other) => return Err(unexpected(&other)),
                None => {}
            }
            if self.connection.has_ended() || self.is_displaced() || self.table.is_stopping() {
                return Ok(());
            }
            if Instant::now() >= until {
                return Err((Refusal::Late, "no request arrived in time".to_owned()));
            }
            self.wait(true, Some(until))?;
        }
    }

    /// Stops the daemon. The connection closes after all other connections have ended.
    fn stop(mut self) -> Result<(), Refused> {
        if !self.slot.may_stop() {
            return Err((Refusal::Wrong, "only the user of the daemon, or root, may stop it".to_owned()));
        }
        self.table.stop();
        while !self.connection.has_ended() && self.table.others(self.slot) > 0 {
            self.wait(true, None)?;
            self.frame()?;
        }
        Ok(())
    }

    fn frame(&mut self) -> Result<Option<Frame<'_>>, Refused> {
        let malformed = |error: Malformed| (Refusal::Malformed, error.0.to_string());
        match self.connection.frame().map_err(malformed)? {
            None => Ok(None),
            Some(bytes) => Frame::parse(bytes).map(Some).map_err(|error| match other_release(bytes) {
                Some(release) => (Refusal::Malformed, releases(release)),
                None => malformed(Malformed(error)),
            }),
        }
    }

    fn wait(&mut self, wants: bool, until: Option<Instant>) -> Result<(), Refused> {
        self.connection.wait(wants, until).map_err(|error| (Refusal::System, error.to_string()))
    }

    /// Returns true if this connection was displaced, after notifying the program. The displacement was counted
    /// before.
    fn is_displaced(&mut self) -> bool {
        let displaced = self.slot.is_displaced();
        if displaced {
            self.connection.push(&Frame::Refused(limits::DISPLACED));
        }
        displaced
    }

    /// Handles a program that left without a request that needs an answer.
    fn vanished(self) -> Result<(), Refused> {
        if self.connection.has_half() {
            self.table.count(Refusal::Malformed);
        }
        Ok(())
    }
}

/// Messages of a program on their way into its session.
#[derive(Default)]
struct Intake {
    pieces: Pieces,
    /// Complete messages that are not in the feed yet.
    messages: VecDeque<Vec<u8>>,
    /// Sequence number of the next message.
    next: u64,
    in_frame: bool,
    ended: bool,
    /// Number of MESSAGES frames that are entirely in the feed.
    frames: u64,
}

impl Intake {
    /// Parses the records of a MESSAGES frame.
    fn take(&mut self, bytes: &[u8]) -> Result<(), String> {
        for record in records(bytes) {
            let record = record.map_err(|error| error.to_string())?;
            let message = match record {
                _ if self.ended => return Err(format!("{record} after the end of the stream")),
                Record::Piece { number, offset, len, bytes } if number == self.next => {
                    self.pieces.take(number, (offset, len), bytes)?
                }
                Record::Message { number, bytes } if number == self.next => Some(bytes.to_vec()),
                Record::EndOfStream { messages } if messages == self.next && self.pieces.is_empty() => {
                    self.ended = true;
                    continue;
                }
                other => return Err(format!("{other} instead of message {}", self.next)),
            };
            if let Some(message) = message {
                self.next += 1;
                self.messages.push_back(message);
            }
        }
        self.in_frame = true;
        Ok(())
    }
}

/// A session of a listener.
struct ListenSession {
    queue: Arc<Queue>,
    handle: Handle<ReceiveEvent, ReceiveReport>,
    events: EventStream<ReceiveEvent>,
    messages: VecDeque<Message>,
    packing: Packing,
    from: Arc<str>,
    /// True after the last message and the last event.
    drained: bool,
    over: bool,
}

impl ListenSession {
    fn new(queue: Arc<Queue>, handle: Handle<ReceiveEvent, ReceiveReport>) -> Self {
        ListenSession {
            queue,
            events: EventStream::new(handle.events()),
            handle,
            messages: VecDeque::new(),
            packing: Packing::new(),
            from: "".into(),
            drained: false,
            over: false,
        }
    }

    /// Stops receiving from the session.
    fn leave(&self) {
        self.handle.abort();
        self.queue.close();
    }

    /// Forwards messages and events as far as there is room. Returns true when the session has ended and only the
    /// report is left.
    fn turn(&mut self, connection: &mut Connection, slot: &ClientSlot, context: &mut Context<'_>) -> bool {
        // A member's admission is announced before its messages.
        while connection.has_room() && !self.over {
            match self.events.poll(context) {
                Poll::Ready(Some(event)) => event.tell(connection),
                Poll::Ready(None) => self.over = true,
                Poll::Pending => break,
            }
        }
        while connection.has_room() && !self.drained {
            let Some(message) = self.messages.pop_front() else {
                match self.queue.poll_take(context) {
                    Poll::Ready(Some(messages)) => self.messages = messages,
                    Poll::Ready(None) => self.drained = true,
                    Poll::Pending => break,
                }
                continue;
            };
            if message.sender != self.from {
                self.packing.flush(connection);
                connection.push(&Frame::From(&message.sender));
                self.from = message.sender;
            }
            slot.count(message.bytes.len());
            self.packing.push(message.number, &message.bytes, connection);
        }
        self.packing.flush(connection);
        self.over && self.drained && connection.has_room()
    }
}

fn push_end<R: Report>(ended: Result<R, Error>, connection: &mut Connection) {
    match ended {
        Ok(report) => report.tell(connection),
        Err(error) => connection.push(&Frame::Failed(&error.to_string())),
    }
}

/// Advice for a program of a release that cannot talk to this daemon.
fn releases(program: OtherRelease) -> String {
    format!(
        "the program runs {program} of carillon, the daemon release {} with wire version {WIRE_VERSION}: install the same release of \
         both",
        Release::CURRENT
    )
}

fn unexpected(frame: &Frame<'_>) -> Refused {
    let mut text = frame.to_string();
    text.truncate(text.floor_char_boundary(100));
    (Refusal::Malformed, format!("not expected here: {text}"))
}
