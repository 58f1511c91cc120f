//! The sending application: it turns files into messages.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use carillon_core::{Application, AssociationId, Bytes, NodeId, OfferError, Sender, Time};
use carillon_net::Waker;
use carillon_wire::file::{
    ListFlags, MESSAGE_HEADER_LEN, Record, ResumePoint, SIGNED_HEADER_LEN, TransferId,
};

use carillon_session::{ListId, SenderPhase, SenderSession};
use carillon_wire::deletions::Deletions;
use carillon_wire::holdings::Holding;

use super::Manifest;
use super::feed::Feed;
use super::manifest::Kind;
use super::message_history::History;
use super::reader::{ReadAhead, Start, header_len};
use super::signing::Binding;
use super::update::{Announcement, Asking, Presence, Update};
use super::withholding::{Turn, Withholding};
use super::worker_queue::Found;
use crate::LocalError;
use crate::error::Context as _;
use crate::network::detached;

/// Offers the entries of a [`Manifest`] as records, packed into messages.
///
/// A thread reads and hashes them, some megabytes ahead of the protocol. It starts when the protocol accepts the
/// first message, which may be much later.
#[derive(Debug)]
pub struct Outgoing {
    manifest: Arc<Manifest>,
    /// Maximum bytes of a message; until the session runs, the smallest possible value.
    max_payload: usize,
    is_known: bool,
    waker: Waker,
    /// Group and job to which signatures are bound.
    binding: Binding,
    source: Source,
    /// Starting point of the transfer, once known.
    from: Option<ResumePoint>,
    /// Options of an update, and the state of one.
    update: Option<Update>,
    asking: Option<Asking>,
    /// Receivers that cannot say what they have, so that everything is sent.
    unable: Vec<String>,
    /// Messages that the protocol has not accepted yet, with the number of file bytes.
    ready: VecDeque<(Bytes, u64)>,
    /// Withholding of data that receivers may have overheard.
    withholding: Option<Withholding>,
    repairs: u64,
    /// File bytes offered.
    bytes: u64,
    /// File bytes that are in no message, because receivers have them or they are holes.
    unsent: u64,
    /// Files that were not delivered, a line each.
    withdrawn: Vec<String>,
    started: Option<Time>,
    finished: bool,
    /// True if the session refused messages before the end.
    refused: bool,
    error: Option<LocalError>,
}

/// Source of messages.
#[derive(Debug)]
enum Source {
    /// Before the start; the first message is ready.
    Waiting,
    Files(ReadAhead),
    /// A live stream.
    Live(LiveSource),
}

/// A live stream.
#[derive(Debug, Default)]
struct LiveSource {
    /// Its queue, once opened.
    feed: Option<Taken>,
    /// Messages that are kept for late receivers.
    history: Option<History>,
    /// Number of the first message of this session; `None` before the start of a session that continues a stream.
    begins_with: Option<u64>,
}

/// Consumer side of a feed; dropping it closes the feed for its producers.
#[derive(Debug)]
pub struct Taken(Arc<Feed>);

impl Drop for Taken {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Outgoing {
    /// Sends these files in messages of up to `max_payload` bytes. The reading thread wakes the loop with `waker`.
    pub fn new(manifest: Arc<Manifest>, max_payload: usize, waker: Waker) -> Result<Self, LocalError> {
        let entries = u32::try_from(manifest.entries().len()).unwrap_or(u32::MAX);
        let first = emit(&Record::Offer { entries, bytes: manifest.bytes() });
        Outgoing::with(manifest, max_payload, waker, Source::Waiting, [(first, 0)].into())
    }

    /// Sends a live stream: messages of a program, or lines of the standard input, as soon as they are available.
    /// Longer lines are cut.
    pub fn stream(manifest: Arc<Manifest>, max_payload: usize, waker: Waker) -> Result<Self, LocalError> {
        let source = Source::Live(LiveSource { begins_with: Some(0), ..LiveSource::default() });
        Outgoing::with(manifest, max_payload, waker, source, VecDeque::new())
    }

    /// Continues the live stream of an earlier session of the job.
    pub fn continued(
        manifest: Arc<Manifest>,
        max_payload: usize,
        waker: Waker,
        stream: Taken,
    ) -> Result<Self, LocalError> {
        let source = Source::Live(LiveSource { feed: Some(stream), ..LiveSource::default() });
        Outgoing::with(manifest, max_payload, waker, source, VecDeque::new())
    }

    /// Keeps messages of a stream for late receivers.
    #[must_use]
    pub fn keeping(mut self, history: Option<History>) -> Self {
        if let Source::Live(live) = &mut self.source {
            live.history = history;
        }
        self
    }

    /// Ends the session of a stream at a message boundary, so that another session can continue it. Returns false if
    /// that is not possible, or if the stream has ended.
    pub fn pause(&mut self) -> bool {
        match &self.source {
            Source::Live(LiveSource { feed: Some(Taken(feed)), begins_with: Some(_), .. }) => {
                feed.pause(self.binding.job).is_some()
            }
            _ => false,
        }
    }

    /// Returns the live stream for a session that continues it.
    pub fn into_stream(mut self) -> Option<Taken> {
        match std::mem::replace(&mut self.source, Source::Waiting) {
            Source::Live(live) => live.feed.inspect(|Taken(feed)| feed.suspend()),
            Source::Waiting | Source::Files(_) => None,
        }
    }

    /// Number of the first message of this session; `None` before it is known, and for files.
    pub fn begins_with(&self) -> Option<u64> {
        match &self.source {
            Source::Live(live) => live.begins_with,
            Source::Waiting | Source::Files(_) => None,
        }
    }

    /// Number of messages of the live stream so far.
    pub fn messages(&self) -> Option<u64> {
        match &self.source {
            Source::Live(live) => Some(live.feed.as_ref().map_or(0, |Taken(feed)| feed.messages())),
            Source::Waiting | Source::Files(_) => None,
        }
    }

    /// Returns true before the start of a session that continues a stream.
    fn resumes(&self) -> bool {
        matches!(&self.source, Source::Live(LiveSource { begins_with: None, .. }))
    }

    /// Continues a stream from the first message that a member is missing and that is kept.
    fn resume(&mut self, session: &SenderSession) {
        let job = self.binding.job;
        let Source::Live(live) = &mut self.source else { return };
        let Some(Taken(feed)) = &live.feed else { return };
        let receivers = session.members().iter().filter(|member| member.part.receives());
        let from = receivers.map(|member| stream_position(&member.attached, job).unwrap_or(0)).min();
        let first = feed.resume(job, from.unwrap_or(u64::MAX), self.max_payload, self.waker.clone());
        live.begins_with = Some(first);
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
            return Err(LocalError::stated(text));
        }
        Ok(Outgoing {
            manifest,
            max_payload,
            is_known: true,
            binding: Binding::default(),
            waker,
            source,
            from: None,
            update: None,
            asking: None,
            unable: Vec::new(),
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

    /// Binds signatures to this group and job.
    #[must_use]
    pub fn bound_to(self, binding: Binding) -> Self {
        Outgoing { binding, ..self }
    }

    /// Enables withholding: receivers may have overheard data in these sessions. Ready data of a large file is
    /// announced first, and only the missing part is sent.
    #[must_use]
    pub fn withholding(self, sessions: &[AssociationId]) -> Self {
        Outgoing { withholding: Withholding::new(sessions), ..self }
    }

    /// Sends only what a receiver is missing, if all of them can tell.
    #[must_use]
    pub fn updating(self, update: Option<Update>) -> Self {
        Outgoing { update, ..self }
    }

    /// Files and bytes that a receiver had before an update.
    pub fn presence(&self, node: NodeId) -> Option<Presence> {
        self.asking.as_ref()?.presence().get(&node).copied()
    }

    /// Entries that a receiver deletes in an update, if it said so.
    pub fn deletions(&self, node: NodeId) -> Option<&Deletions> {
        self.asking.as_ref()?.deletions(node)
    }

    /// Files that at least one of these receivers is missing, each with the indices of these receivers. Asked after a
    /// preview.
    pub fn missing(&self, receivers: &[NodeId]) -> Vec<(PathBuf, u64, Vec<usize>)> {
        let lacks = |node: &NodeId, at: usize| {
            let states = self.asking.as_ref().and_then(|asking| asking.states(*node));
            states.is_none_or(|states| states.get(at) != Some(&Holding::Same))
        };
        let entries = self.manifest.entries().iter().enumerate();
        let files = entries.filter(|(_, entry)| matches!(entry.kind, Kind::File { .. }));
        let files = files.map(|(at, entry)| {
            let to = receivers.iter().enumerate().filter(|(_, node)| lacks(node, at));
            let path = PathBuf::from(OsStr::from_bytes(&entry.name));
            (path, entry.size(), to.map(|(index, _)| index).collect::<Vec<_>>())
        });
        files.filter(|(_, _, to)| !to.is_empty()).collect()
    }

    /// Receivers that cannot take part in an update, so that everything is sent.
    pub fn unable(&self) -> &[String] {
        &self.unable
    }

    /// Returns true if nothing is sent, and all that can be known about it is known.
    pub fn is_previewed(&self) -> bool {
        let dry_run = self.update.is_some_and(|update| update.dry_run);
        dry_run && (!self.unable.is_empty() || self.asking.as_ref().is_some_and(|asking| asking.is_last))
    }

    /// Assumes this minimum message size until the session runs.
    #[must_use]
    pub fn from_least(self, least: usize) -> Self {
        Outgoing { is_known: least == self.max_payload, max_payload: least, ..self }
    }

    /// Bytes that every receiver had from an earlier attempt; they are not sent.
    pub fn resumed(&self) -> u64 {
        match &self.asking {
            Some(asking) => asking.common,
            None => self.from.map_or(0, |from| self.manifest.bytes_before(&from)),
        }
    }

    /// File bytes offered so far, plus the bytes that need not be sent.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Files that are not delivered because they changed or could not be read, a line each.
    pub fn withdrawn(&self) -> &[String] {
        &self.withdrawn
    }

    /// Time at which the protocol accepted the first message.
    pub fn started(&self) -> Option<Time> {
        self.started
    }

    /// The manifest.
    pub fn manifest(&self) -> &Arc<Manifest> {
        &self.manifest
    }

    /// Returns the manifest for another attempt, unless sending has begun.
    pub fn into_manifest(self) -> Option<Manifest> {
        if self.started.is_some() { None } else { Arc::into_inner(self.manifest) }
    }

    /// Returns true if the session refused data because it ended, or because this sender was excluded.
    pub fn is_refused(&self) -> bool {
        self.refused
    }

    /// Returns true if everything was offered.
    pub fn is_finished(&self) -> bool {
        self.finished
    }

    /// Returns true after a local error.
    pub fn has_failed(&self) -> bool {
        self.error.is_some()
    }

    /// Returns the local error, once: nothing more will be offered, and the session must be aborted.
    pub fn take_error(&mut self) -> Option<LocalError> {
        self.error.take()
    }

    /// Returns the beginning of the transfer.
    fn start(&self) -> Start {
        match (&self.update, &self.asking, self.from) {
            (Some(update), Some(_), Some(ResumePoint { transfer, entry, .. })) => {
                let flags = ListFlags { entries: entry == 0, checksum: update.checksum };
                let delete = update.delete.then_some(update.max_delete);
                Start::Update(Announcement { list: transfer, flags, delete })
            }
            (_, _, from) => Start::Whole(from),
        }
    }

    /// Decides how to begin, once the members are known.
    fn begin(&mut self, session: &SenderSession) {
        // With several senders, receivers keep no overheard data and no resume points.
        let alone = !session.members().iter().any(|member| member.part.offers());
        let receivers = || session.members().iter().filter(|member| alone && member.part.receives());
        self.from = self.manifest.start(receivers().map(|member| detached(&member.attached).0));
        let Some((update, list)) = self.update.zip(self.manifest.id()) else { return };
        let unable = receivers().filter(|member| member.list.is_none());
        self.unable = unable.map(|member| member.name.clone()).collect();
        if !self.unable.is_empty() || !alone {
            return;
        }
        self.asking = Some(Asking::new(update));
        // The number of entries says whether every receiver knows them.
        let is_known = !update.checksum && receivers().all(|member| member.list == Some(ListId(list)));
        let entry = if is_known { self.manifest.entries().len() as u32 } else { 0 };
        self.from = Some(ResumePoint { transfer: list, entry, offset: 0 });
    }

    /// Passes the answers of the receivers to the reading thread.
    fn collect(&mut self, now: Time, session: &SenderSession) {
        let (Source::Files(ahead), Some(asking)) = (&self.source, &mut self.asking) else { return };
        let Some(asked) = ahead.asked().filter(|_| self.ready.is_empty()) else { return };
        if let Some(plan) = asking.collect(now, session, &self.manifest, asked)
            && !(asking.is_last && self.update.is_some_and(|update| update.dry_run))
        {
            ahead.go_on(plan);
        }
    }

    /// Prepares more messages; returns whether there are any.
    fn prepare(&mut self) -> Result<Found, LocalError> {
        match &mut self.source {
            Source::Waiting => {
                let (manifest, binding) = (self.manifest.clone(), self.binding);
                let start = self.start();
                let ahead = ReadAhead::start(manifest, start, self.max_payload, binding, self.waker.clone());
                self.source = Source::Files(ahead.context("cannot start a thread that reads")?);
                self.prepare()
            }
            Source::Files(ahead) => {
                let found = ahead.take(&mut self.ready);
                self.withdrawn.append(&mut ahead.withdrawn());
                match ahead.take_error().filter(|_| found == Found::End) {
                    Some(error) => Err(error),
                    None => Ok(found),
                }
            }
            // Lines were cut when they were read.
            Source::Live(live) if live.feed.is_none() && !self.is_known && !self.manifest.is_fed() => {
                Ok(Found::NotYet)
            }
            Source::Live(LiveSource { feed, history, .. }) => {
                let feed = feed.get_or_insert_with(|| {
                    let piece = self.max_payload.saturating_sub(MESSAGE_HEADER_LEN);
                    let feed = self.manifest.live(piece);
                    history.iter().copied().for_each(|history| feed.keep(history));
                    feed.open(self.max_payload, self.waker.clone());
                    Taken(feed)
                });
                feed.0.take(&mut self.ready).context("cannot read the standard input")
            }
        }
    }

    /// Offers one message; returns true if the protocol accepted it.
    fn offer<S: Sender>(&mut self, now: Time, session: &mut S) -> Result<bool, LocalError> {
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
            // The session has ended: its phase and members say why.
            Err(OfferError::Finished) => {
                (self.finished, self.refused) = (true, true);
                Ok(false)
            }
            Err(error @ OfferError::TooLarge { .. }) => Err(error.into()),
        }
    }
}

impl Outgoing {
    /// Offers messages until the session accepts no more; returns true if anything happened.
    pub fn serve<S: Sender>(&mut self, now: Time, session: &mut S) -> bool {
        let mut called = false;
        // A peer also delivers, and must not block on data that the protocol does not accept.
        while session.as_receiver().and_then(|receiver| receiver.poll_delivery()).is_some() {
            called = true;
        }
        while !self.finished {
            match self.offer(now, session) {
                Ok(true) => called = true,
                Ok(false) => break,
                Err(error) => {
                    self.error = Some(error);
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
            self.begin(session);
        }
        if !self.is_known && session.phase() == SenderPhase::Running {
            (self.is_known, self.max_payload) = (true, session.max_payload() as usize);
            if let Source::Live(LiveSource { feed: Some(Taken(feed)), begins_with: Some(_), .. }) =
                &self.source
            {
                feed.grow(self.max_payload);
            }
        }
        if self.resumes() && session.phase() == SenderPhase::Running {
            self.resume(session);
        }
        self.repairs = session.repairs();
        // A preview sends nothing to receivers that take everything.
        let called = !self.is_previewed() && !self.resumes() && self.serve(now, session);
        self.collect(now, session);
        session.note_unsent(self.unsent);
        called
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.asking.as_ref().and_then(Asking::until)
    }
}

/// Number of the next message of the stream `job` that a receiver with this attachment is missing; `None` if it has no
/// message of it.
pub fn stream_position(attached: &[u8], job: TransferId) -> Option<u64> {
    detached(attached).0.filter(|point| point.transfer == job).map(|point| point.offset)
}

/// Minimum message size for the names of these entries.
pub fn needed_payload(manifest: &Manifest) -> u32 {
    let patterns = manifest.exclude().texts().map(|pattern| 1 + pattern.len());
    let longest = manifest.entries().iter().map(header_len).chain(patterns).max().unwrap_or(0);
    let signed = if manifest.signing().is_some() { SIGNED_HEADER_LEN } else { 0 };
    u32::try_from(MIN_PAYLOAD.max(longest) + signed).unwrap_or(u32::MAX)
}

fn emit(record: &Record<'_>) -> Bytes {
    let mut message = Vec::with_capacity(record.wire_len());
    record.emit(&mut message);
    message.into()
}

/// Smallest message of any session: a digest and its record header.
const MIN_PAYLOAD: usize = 64;
