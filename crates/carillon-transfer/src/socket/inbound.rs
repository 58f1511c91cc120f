//! Receiving sockets: [`Listener`] and [`Inbound`].

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use async_channel::{Receiver, Sender, bounded};
use carillon_core::{Duration, Seeds};
use carillon_net::Endpoint;

use super::message::{Member, Message, Timed};
use super::queue::{Filler, Found, Queue};
use crate::daemon::{Connection, program};
use crate::files::{Live, Sink};
use crate::handle::{AbortSignal, EventSink, Events, Handle, spawn};
use crate::network::{Bound, Network};
use crate::receive::Session;
use crate::{Error, ReceiveEvent, ReceiveOptions, ReceiveReport};

/// A listening socket: it joins one session after the other, each when the program [accepts](Listener::accept).
#[derive(Debug)]
pub struct Listener {
    /// Resources of the next session; a running session returns them here.
    place: Receiver<Place>,
    back: Sender<Place>,
    /// A session that was begun and not yet accepted, because its task stopped waiting.
    begun: Option<Inbound>,
    stop: AbortSignal,
}

/// Stops a [`Listener`] from another thread.
#[derive(Clone, Debug)]
pub struct Stopper(AbortSignal);

/// Resources that successive sessions use.
#[derive(Debug)]
enum Place {
    Here {
        network: Network,
        options: Box<ReceiveOptions>,
        endpoint: Box<Endpoint>,
        seeds: Seeds,
    },
    /// The resources are at a daemon.
    There(Connection),
}

/// A session at one of its receivers. Dropping it before the end leaves the session and notifies the other members.
#[derive(Debug)]
pub struct Inbound {
    queue: Arc<Queue>,
    /// Messages taken from the queue together.
    messages: VecDeque<Message>,
    events: Events<ReceiveEvent>,
    end: End,
    sender: String,
    members: Vec<Member>,
    /// Rest of the message that is read as a stream.
    rest: Vec<u8>,
    read: usize,
}

/// End of a session.
#[derive(Debug)]
enum End {
    ToCome(Handle<ReceiveEvent, ReceiveReport>),
    Come(Box<ReceiveReport>),
    /// Its error was returned.
    Failed,
}

impl Listener {
    pub(super) fn here(network: Network, bound: Bound, options: ReceiveOptions) -> Self {
        let Bound { endpoint, seeds, .. } = bound;
        let (options, endpoint) = (Box::new(options), Box::new(endpoint));
        Listener::new(Place::Here { network, options, endpoint, seeds })
    }

    pub(super) fn through(line: Connection) -> Self {
        Listener::new(Place::There(line))
    }

    fn new(first: Place) -> Self {
        let (back, place) = bounded(1);
        // The channel has room for one value.
        let _ = back.try_send(first);
        Listener { place, back, begun: None, stop: AbortSignal::default() }
    }

    /// Waits for a session, joins it, and returns it after admission. Waits for the end of the previous session
    /// first.
    pub fn accept(&mut self) -> Result<Inbound, Error> {
        if self.begun.is_none() {
            let place = self.place.recv_blocking().map_err(|_| stopped())?;
            let (queue, handle) = self.begin(place)?;
            self.begun = Some(Inbound::new(queue, handle));
        }
        let Some(inbound) = &mut self.begun else { return Err(stopped()) };
        while let Some(event) = inbound.events.next_blocking() {
            if inbound.note(event) {
                return self.begun.take().ok_or_else(stopped);
            }
        }
        match self.begun.take().map(|inbound| inbound.end()) {
            Some(End::ToCome(handle)) => Err(not_accepted(handle.wait())),
            _ => Err(stopped()),
        }
    }

    /// Awaits a session. Cancelling and calling it again loses nothing.
    pub async fn accept_async(&mut self) -> Result<Inbound, Error> {
        if self.begun.is_none() {
            let place = self.place.recv().await.map_err(|_| stopped())?;
            let (queue, handle) = self.begin(place)?;
            self.begun = Some(Inbound::new(queue, handle));
        }
        let Some(inbound) = &mut self.begun else { return Err(stopped()) };
        while let Some(event) = inbound.events.next().await {
            if inbound.note(event) {
                return self.begun.take().ok_or_else(stopped);
            }
        }
        match self.begun.take().map(|inbound| inbound.end()) {
            Some(End::ToCome(handle)) => Err(not_accepted(handle.ended().await)),
            _ => Err(stopped()),
        }
    }

    /// Returns a handle that stops the listener and its session.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        Stopper(self.stop.clone())
    }

    /// Begins a session that fills the returned queue; the previous session must have ended.
    pub(crate) fn session(&mut self) -> Result<Begun, Error> {
        let place = self.place.try_recv().map_err(|_| stopped())?;
        self.begin(place)
    }

    fn begin(&mut self, place: Place) -> Result<Begun, Error> {
        if self.stop.is_requested() {
            self.place.close();
            return Err(stopped());
        }
        let (back, stop) = (self.back.clone(), self.stop.clone());
        let queue = Queue::new();
        let filler = Filler::new(queue.clone());
        let handle = spawn("carillon-socket", move |abort, teller| {
            let (result, place) = place.session(filler, &[abort, &stop], teller);
            match place {
                // Returning the resources fails only after the listener was dropped.
                Some(place) => drop(back.try_send(place)),
                // The network failed: the next session reports it.
                None => drop(back.close()),
            }
            result
        });
        Ok((queue, handle))
    }
}

/// Queue of received messages and the handle of the session.
type Begun = (Arc<Queue>, Handle<ReceiveEvent, ReceiveReport>);

impl Place {
    /// Runs one session and returns the resources for the next.
    fn session(
        self,
        filler: Filler,
        aborts: &[&AbortSignal],
        teller: &EventSink<ReceiveEvent>,
    ) -> (Result<ReceiveReport, Error>, Option<Place>) {
        match self {
            Place::Here { network, options, endpoint, seeds } => {
                let next = seeds.part("next");
                let session = Session {
                    network: network.clone(),
                    options: (*options).clone(),
                    endpoint: *endpoint,
                    seeds,
                };
                let (result, endpoint) =
                    session.run(Sink::Live(Live::plain(filler.prompt())), aborts, teller);
                let place =
                    |endpoint| Place::Here { network, options, endpoint: Box::new(endpoint), seeds: next };
                (result, endpoint.map(place))
            }
            Place::There(line) => {
                let (result, line) = program::receive(line, filler, aborts, teller);
                (result, line.map(Place::There))
            }
        }
    }
}

impl Stopper {
    /// Stops the listener: waiting calls return an error.
    pub fn stop(&self) {
        self.0.ask();
    }
}

impl Inbound {
    fn new(queue: Arc<Queue>, handle: Handle<ReceiveEvent, ReceiveReport>) -> Self {
        Inbound {
            queue,
            messages: VecDeque::new(),
            events: handle.events(),
            end: End::ToCome(handle),
            sender: String::new(),
            members: Vec::new(),
            rest: Vec::new(),
            read: 0,
        }
    }

    /// Updates the member list; returns true if the event is the admission.
    fn note(&mut self, event: ReceiveEvent) -> bool {
        match event {
            ReceiveEvent::Joined { sender, .. } => {
                // A late receiver makes its sender gather again.
                self.members.retain(|member| member.name != sender);
                self.members.push(Member { name: sender.clone(), address: None, gone: None });
                self.sender = sender;
                return true;
            }
            ReceiveEvent::Members { names } => {
                let member = |name| Member { name, address: None, gone: None };
                self.members = names.into_iter().map(member).collect();
            }
            ReceiveEvent::Gone { name, reason } => {
                let gone = self.members.iter_mut().filter(|member| member.name == name);
                gone.for_each(|member| member.gone = Some(reason.clone()));
            }
            _ => {}
        }
        false
    }

    /// Returns the next message; `None` after the last, when every sender has ended and the result is known. Returns
    /// an error if data is missing.
    pub fn recv(&mut self) -> Result<Option<Message>, Error> {
        loop {
            if let Some(message) = self.messages.pop_front() {
                return Ok(Some(message));
            }
            // Without a deadline the wait ends only with a message.
            match self.queue.take(None).flatten() {
                Some(messages) => self.messages = messages,
                None => return self.wait().map(|_| None),
            }
        }
    }

    /// Awaits the next message.
    pub async fn recv_async(&mut self) -> Result<Option<Message>, Error> {
        loop {
            if let Some(message) = self.messages.pop_front() {
                return Ok(Some(message));
            }
            let queue = &self.queue;
            let found: Found = poll_fn(|context| queue.poll_take(context)).await;
            match found {
                Some(messages) => self.messages = messages,
                None => return self.ended().await.map(|_| None),
            }
        }
    }

    /// Returns the next message if it is here already.
    pub fn try_recv(&mut self) -> Option<Message> {
        if self.messages.is_empty()
            && let Some(Some(messages)) = self.queue.take(Some(Instant::now()))
        {
            self.messages = messages;
        }
        self.messages.pop_front()
    }

    /// Returns the next message within this time, a timeout, or the end of the session like [`recv`](Self::recv).
    pub fn recv_timeout(&mut self, time: Duration) -> Result<Timed, Error> {
        if self.messages.is_empty() {
            match self.queue.take(Some(Instant::now() + time)) {
                Some(Some(messages)) => self.messages = messages,
                Some(None) => return self.wait().map(|_| Timed::End),
                None => return Ok(Timed::Timeout),
            }
        }
        Ok(self.messages.pop_front().map_or(Timed::Timeout, Timed::Message))
    }

    /// Returns a descriptor for `poll`, `epoll` and event loops. It is readable while [`try_recv`](Self::try_recv) or
    /// [`recv_timeout`](Self::recv_timeout) may return something else than a timeout without waiting, and afterwards
    /// until one of them has found nothing. Only poll it: reading from it, or writing, disturbs the session.
    pub fn descriptor(&self) -> io::Result<OwnedFd> {
        self.queue.descriptor(!self.messages.is_empty())
    }

    /// Name of the organiser.
    #[must_use]
    pub fn sender(&self) -> &str {
        &self.sender
    }

    /// Members as far as receivers learn them: all among peers and with helpers, otherwise only the sender.
    pub fn members(&mut self) -> &[Member] {
        while let Some(event) = self.events.try_next() {
            self.note(event);
        }
        &self.members
    }

    /// Discards further messages, waits for the end of the session and returns the report.
    pub fn close(mut self) -> Result<ReceiveReport, Error> {
        self.queue.close();
        self.wait().cloned()
    }

    /// Leaves at once and notifies the other members.
    pub fn leave(self) -> Result<ReceiveReport, Error> {
        if let End::ToCome(handle) = &self.end {
            handle.abort();
        }
        self.queue.close();
        match self.end() {
            End::ToCome(handle) => handle.wait(),
            End::Come(report) => Ok(*report),
            End::Failed => Err(Error::Closed),
        }
    }

    /// Waits for the end.
    fn wait(&mut self) -> Result<&ReceiveReport, Error> {
        if let End::ToCome(handle) = std::mem::replace(&mut self.end, End::Failed) {
            self.end = End::Come(Box::new(handle.wait()?));
        }
        self.verdict()
    }

    /// Awaits the end. A call that is cancelled can be repeated.
    async fn ended(&mut self) -> Result<&ReceiveReport, Error> {
        if let End::ToCome(handle) = &self.end {
            let report = handle.report().await;
            self.end = End::Failed;
            self.end = End::Come(Box::new(report?));
        }
        self.verdict()
    }

    fn verdict(&self) -> Result<&ReceiveReport, Error> {
        let End::Come(report) = &self.end else { return Err(Error::Closed) };
        match &report.outcome {
            Ok(()) => Ok(report),
            Err(reason) => Err(Error::Incomplete(reason.clone())),
        }
    }

    fn end(mut self) -> End {
        std::mem::replace(&mut self.end, End::Failed)
    }
}

impl Drop for Inbound {
    /// Unblocks the thread that fills the queue.
    fn drop(&mut self) {
        if let End::ToCome(handle) = &self.end {
            handle.abort();
        }
        self.queue.close();
    }
}

/// Iterates over the messages, up to the last or an error.
impl Iterator for Inbound {
    type Item = Result<Message, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if matches!(self.end, End::Failed) {
            return None;
        }
        let next = self.recv();
        if next.is_err() {
            self.end = End::Failed;
        }
        next.transpose()
    }
}

/// The messages one after the other as a stream of bytes.
impl io::Read for Inbound {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        while self.read == self.rest.len() && !buf.is_empty() {
            match self.recv().map_err(io::Error::other)? {
                Some(message) => (self.rest, self.read) = (message.bytes, 0),
                None => return Ok(0),
            }
        }
        let len = buf.len().min(self.rest.len() - self.read);
        buf[..len].copy_from_slice(&self.rest[self.read..self.read + len]);
        self.read += len;
        Ok(len)
    }
}

/// Reason why the session did not admit this receiver.
fn not_accepted(result: Result<ReceiveReport, Error>) -> Error {
    match result.map(|report| report.outcome) {
        Err(error) => error,
        Ok(Err(reason)) => Error::NotConnected(reason),
        Ok(Ok(())) => stopped(),
    }
}

fn stopped() -> Error {
    Error::Closed
}
