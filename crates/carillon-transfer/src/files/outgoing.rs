//! The sending application: files in, messages out.

use std::collections::VecDeque;
use std::sync::Arc;

use anyhow::{Context as _, anyhow};
use carillon_core::{Application, AssociationId, Bytes, OfferError, Sender, Time};
use carillon_net::Waker;
use carillon_wire::file::{MESSAGE_HEADER_LEN, Record, ResumePoint, SIGNED_HEADER_LEN};

use carillon_proto::session::{SenderPhase, SenderSession};

use super::Manifest;
use super::feed::Feed;
use super::reader::{ReadAhead, header_len};
use super::signing::Binding;
use super::withholding::{Turn, Withholding};
use super::worker_queue::Found;
use crate::LocalError;
use crate::network::detached;

/// Offers the files of a [`Manifest`] as records, as many to a message as fit.
///
/// A thread of its own reads and hashes them, some megabytes ahead of what the protocol takes. Until that takes the first
/// message no file is read: it may wait for long.
#[derive(Debug)]
pub struct Outgoing {
    manifest: Arc<Manifest>,
    /// Bytes of a message, at most; as long as that is not known, the least that it may turn out to be.
    max_payload: usize,
    is_known: bool,
    waker: Waker,
    /// Where its signatures count, if it is signed.
    binding: Binding,
    source: Source,
    /// The place of the transfer from which on it is sent, once that is known.
    from: Option<ResumePoint>,
    /// Messages that the protocol has not taken yet, with their bytes of files.
    ready: VecDeque<(Bytes, u64)>,
    /// What is withheld, if receivers may have overheard some of it; and what was sent again, which tells whether they have.
    withholding: Option<Withholding>,
    repairs: u64,
    /// Bytes of files offered.
    bytes: u64,
    /// Those of them that are in no message: receivers have them, or they are zeros that take no room.
    unsent: u64,
    /// Files that were not delivered, a line each.
    withdrawn: Vec<String>,
    started: Option<Time>,
    finished: bool,
    /// The session takes nothing although it was not finished.
    refused: bool,
    error: Option<LocalError>,
}

/// Where messages come from.
#[derive(Debug)]
enum Source {
    /// They do not yet: the first is ready.
    Waiting,
    Files(ReadAhead),
    /// A live stream, once its messages are asked for.
    Live(Option<Taken>),
}

/// Where messages are taken from. Dropped, it tells whoever sends that nobody takes anything any more.
#[derive(Debug)]
struct Taken(Arc<Feed>);

impl Drop for Taken {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Outgoing {
    /// Will send these files in messages of up to `max_payload` bytes; a thread that reads them wakes the loop
    /// with this.
    pub fn new(manifest: Arc<Manifest>, max_payload: usize, waker: Waker) -> Result<Self, LocalError> {
        let entries = u32::try_from(manifest.entries().len()).unwrap_or(u32::MAX);
        let first = emit(&Record::Offer { entries, bytes: manifest.bytes() });
        Outgoing::with(manifest, max_payload, waker, Source::Waiting, [(first, 0)].into())
    }

    /// Will send a live stream: what a program sends, or each line of the standard input, longer ones cut, as soon as
    /// it is there.
    pub fn stream(manifest: Arc<Manifest>, max_payload: usize, waker: Waker) -> Result<Self, LocalError> {
        Outgoing::with(manifest, max_payload, waker, Source::Live(None), VecDeque::new())
    }

    fn with(
        manifest: Arc<Manifest>,
        max_payload: usize,
        waker: Waker,
        source: Source,
        ready: VecDeque<(Bytes, u64)>,
    ) -> Result<Self, LocalError> {
        if max_payload < needed_payload(&manifest) as usize {
            let name = manifest.entries().iter().map(|entry| entry.name.len()).max().unwrap_or(0);
            let text = format!("names of {name} bytes do not fit messages of {max_payload} bytes");
            return Err(LocalError(anyhow!(text)));
        }
        Ok(Outgoing {
            manifest,
            max_payload,
            is_known: true,
            binding: Binding::default(),
            waker,
            source,
            from: None,
            ready,
            withholding: None,
            repairs: 0,
            bytes: 0,
            unsent: 0,
            withdrawn: Vec::new(),
            started: None,
            finished: false,
            refused: false,
            error: None,
        })
    }

    /// It is sent to this group for this job, and a signature counts there alone.
    #[must_use]
    pub fn bound_to(self, binding: Binding) -> Self {
        Outgoing { binding, ..self }
    }

    /// Receivers may have overheard it in these sessions: what of a large file is ready is told to them first, and goes out as far as somebody
    /// lacks it.
    #[must_use]
    pub fn withholding(self, sessions: &[AssociationId]) -> Self {
        Outgoing { withholding: Withholding::new(sessions), ..self }
    }

    /// Only when the session runs it is known how long messages may be: so long at least.
    #[must_use]
    pub fn from_least(self, least: usize) -> Self {
        Outgoing { is_known: least == self.max_payload, max_payload: least, ..self }
    }

    /// Bytes that all receivers had from an earlier attempt: they are not sent.
    pub fn resumed(&self) -> u64 {
        self.from.map_or(0, |from| self.manifest.bytes_before(&from))
    }

    /// Bytes of files offered so far, and those that need not be.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Files that are not delivered because they changed or could not be read, a line each.
    pub fn withdrawn(&self) -> &[String] {
        &self.withdrawn
    }

    /// When the protocol took the first message.
    pub fn started(&self) -> Option<Time> {
        self.started
    }

    /// The files.
    pub fn manifest(&self) -> &Arc<Manifest> {
        &self.manifest
    }

    /// The files, to be sent elsewhere; nothing once it was begun.
    pub fn into_manifest(self) -> Option<Manifest> {
        if self.started.is_some() { None } else { Arc::into_inner(self.manifest) }
    }

    /// Whether the session has refused what was offered: it is over, or not for this sender.
    pub fn is_refused(&self) -> bool {
        self.refused
    }

    /// Whether there is nothing more to offer.
    pub fn is_finished(&self) -> bool {
        self.finished
    }

    /// Whether something went wrong here.
    pub fn has_failed(&self) -> bool {
        self.error.is_some()
    }

    /// What went wrong here, once: nothing more will be offered, and the session is to be aborted.
    pub fn take_error(&mut self) -> Option<LocalError> {
        self.error.take()
    }

    /// Gets more messages ready; whether there are any.
    fn prepare(&mut self) -> anyhow::Result<Found> {
        match &mut self.source {
            Source::Waiting => {
                let (manifest, binding) = (self.manifest.clone(), self.binding);
                let ahead =
                    ReadAhead::start(manifest, self.from, self.max_payload, binding, self.waker.clone());
                self.source = Source::Files(ahead.context("cannot start a thread that reads")?);
                self.prepare()
            }
            Source::Files(ahead) => {
                let found = ahead.take(&mut self.ready);
                self.withdrawn.append(&mut ahead.withdrawn());
                match ahead.take_error().filter(|_| found == Found::End) {
                    Some(error) => Err(error.0),
                    None => Ok(found),
                }
            }
            // Lines are cut when they are read.
            Source::Live(None) if !self.is_known && !self.manifest.is_fed() => Ok(Found::NotYet),
            Source::Live(feed) => {
                let feed = feed.get_or_insert_with(|| {
                    let piece = self.max_payload.saturating_sub(MESSAGE_HEADER_LEN);
                    let feed = self.manifest.live(piece);
                    feed.open(self.max_payload, self.waker.clone());
                    Taken(feed)
                });
                feed.0.take(&mut self.ready).context("cannot read the standard input")
            }
        }
    }

    /// Offers one message; returns whether the protocol took it.
    fn offer<S: Sender>(&mut self, now: Time, session: &mut S) -> anyhow::Result<bool> {
        if self.ready.is_empty() {
            match self.prepare()? {
                Found::Some => {}
                Found::NotYet => return Ok(false),
                Found::End => {
                    session.finish(now);
                    self.finished = true;
                    return Ok(true);
                }
            }
        }
        let turn = match &mut self.withholding {
            Some(withholding) => {
                withholding.next(now, &mut self.ready, session.held() == Some(0), self.repairs)
            }
            None => Turn::Send,
        };
        let Some((message, len)) = self.ready.front() else { return Ok(false) };
        let offered = match turn {
            Turn::Wait => return Ok(false),
            Turn::Withhold => session.withhold(now, message.clone()),
            Turn::Send => session.offer(now, message.clone()),
        };
        match offered {
            Ok(_) => {
                self.withholding.iter_mut().for_each(|withholding| withholding.taken(now));
                self.started.get_or_insert(now);
                self.bytes += len;
                self.unsent += len.saturating_sub(message.len() as u64);
                self.ready.pop_front();
                Ok(true)
            }
            Err(OfferError::Full) => Ok(false),
            // The session is over: its phase and its members say why.
            Err(OfferError::Finished) => {
                (self.finished, self.refused) = (true, true);
                Ok(false)
            }
            Err(error @ OfferError::TooLarge { .. }) => Err(error.into()),
        }
    }
}

impl Outgoing {
    /// Offers what the session takes; whether anything happened.
    pub fn serve<S: Sender>(&mut self, now: Time, session: &mut S) -> bool {
        let mut called = false;
        // A peer delivers too, and must not be held up by what nobody takes.
        while session.as_receiver().and_then(|receiver| receiver.poll_delivery()).is_some() {
            called = true;
        }
        while !self.finished {
            match self.offer(now, session) {
                Ok(true) => called = true,
                Ok(false) => break,
                Err(error) => {
                    self.error = Some(LocalError(error));
                    self.finished = true;
                }
            }
        }
        called
    }
}

impl Application<SenderSession> for Outgoing {
    fn poll(&mut self, now: Time, session: &mut SenderSession) -> bool {
        if matches!(self.source, Source::Waiting)
            && self.from.is_none()
            && session.phase() == SenderPhase::Running
        {
            // Receivers that hear of several senders keep what comes of each apart, and none of it for later.
            let alone = !session.members().iter().any(|member| member.part.offers());
            let receivers = session.members().iter().filter(|member| alone && member.part.receives());
            self.from = self.manifest.start(receivers.map(|member| detached(&member.attached).0));
        }
        if !self.is_known && session.phase() == SenderPhase::Running {
            (self.is_known, self.max_payload) = (true, session.max_payload() as usize);
            if let Source::Live(Some(Taken(feed))) = &self.source {
                feed.grow(self.max_payload);
            }
        }
        self.repairs = session.repairs();
        let called = self.serve(now, session);
        session.note_unsent(self.unsent);
        called
    }

    fn poll_timeout(&self) -> Option<Time> {
        None
    }
}

/// Bytes that a message has to have room for, for the names of these files.
pub fn needed_payload(manifest: &Manifest) -> u32 {
    let longest = manifest.entries().iter().map(header_len).max().unwrap_or(0);
    let signed = if manifest.signing().is_some() { SIGNED_HEADER_LEN } else { 0 };
    u32::try_from(MIN_PAYLOAD.max(longest) + signed).unwrap_or(u32::MAX)
}

fn emit(record: &Record<'_>) -> Bytes {
    let mut message = Vec::with_capacity(record.wire_len());
    record.emit(&mut message);
    message.into()
}

/// No message carries less than a digest and its frame.
const MIN_PAYLOAD: usize = 64;
