//! Reading and hashing of a sender's files in a thread, ahead of the network.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use carillon_core::{Bytes, Duration, Time};
use carillon_net::Waker;
use carillon_wire::file::{
    ARCHIVE_HEADER_LEN, DATA_HEADER_LEN, FILE_HEADER_LEN, HOLE_MAX, KEPT_LEN, LINK_HEADER_LEN,
    PACK_RECORD_LEN, Packer, Record, RelativePath, ResumePoint, SIGNED_HEADER_LEN, SUBTREE_BYTES,
    WithdrawReason,
};

use super::contents::{Contents, Filled, Opened, Stamp};
use super::listing::Listing;
use super::manifest::{Entry, Kind};
use super::names::shown_path;
use super::signing::{Binding, Signer};
use super::stdin::read_stream;
use super::times;
use super::update::{Announcement, Asked, Phase, Plan, Updating};
use super::worker_queue::{Found, WorkerQueue};
use super::{Manifest, PIECE_BYTES};
use crate::LocalError;
use crate::error::{Context as _, stated};

/// Reads the messages of a [`Manifest`] after the first in a thread that is slightly ahead, so that reading overlaps
/// with the protocol's round trips.
#[derive(Debug)]
pub struct ReadAhead {
    lane: Arc<WorkerQueue<(Bytes, u64)>>,
    notes: Arc<Mutex<Notes>>,
}

/// Beginning of a transfer.
#[derive(Clone, Copy, Debug)]
pub enum Start {
    /// Begins at this resume point, if there is one.
    Whole(Option<ResumePoint>),
    /// Begins with the list of all entries, for receivers that report their holdings.
    Update(Announcement),
}

/// Notes from the thread to the loop.
#[derive(Debug, Default)]
pub(super) struct Notes {
    /// Files that are not delivered, a line each.
    withdrawn: Vec<String>,
    /// Error that ended the thread.
    error: Option<LocalError>,
    /// Question that the thread has put, until its plan is there.
    pub(super) asked: Option<Asked>,
    pub(super) plan: Option<Plan>,
}

impl ReadAhead {
    /// Starts reading.
    pub fn start(
        manifest: Arc<Manifest>,
        start: Start,
        max_payload: usize,
        binding: Binding,
        waker: Waker,
    ) -> io::Result<ReadAhead> {
        let (lane, notes) = (Arc::new(WorkerQueue::new(waker)), Arc::<Mutex<Notes>>::default());
        let signer = manifest.signing().map(|signing| Signer::new(signing, binding));
        let max_payload = max_payload - if signer.is_some() { SIGNED_HEADER_LEN } else { 0 };
        let (from, update) = match start {
            Start::Whole(from) => (from, None),
            Start::Update(announcement) => (None, Some(Box::new(Updating::new(announcement)))),
        };
        let stage = match &update {
            Some(_) => Stage::Update(Phase::List),
            None => from.map_or(Stage::Archive(0), Stage::Resume),
        };
        let reader = Reader {
            signer,
            manifest,
            max_payload,
            stage,
            update,
            from: from.map_or((0, 0), |from| (from.entry as usize, from.offset)),
            contents: Contents::new(),
            packer: Packer::new(max_payload),
            packed: 0,
            read: 0,
            listing: Listing::default(),
            withdrawn: Vec::new(),
            told: 0,
            fresh: None,
        };
        let ahead = ReadAhead { lane: lane.clone(), notes: notes.clone() };
        let _detached = thread::Builder::new()
            .name("carillon-reader".to_owned())
            .spawn(move || reader.work(&lane, &notes))?;
        Ok(ahead)
    }

    /// Takes the ready messages, each with its number of file bytes.
    pub fn take(&self, into: &mut VecDeque<(Bytes, u64)>) -> Found {
        self.lane.take(into)
    }

    /// Question that waits for a plan.
    pub fn asked(&self) -> Option<Asked> {
        lock(&self.notes).asked
    }

    /// Continues after a question.
    pub fn go_on(&self, plan: Plan) {
        let mut notes = lock(&self.notes);
        (notes.asked, notes.plan) = (None, Some(plan));
    }

    /// Files that are not delivered; slightly ahead of the taken messages.
    pub fn withdrawn(&self) -> Vec<String> {
        std::mem::take(&mut lock(&self.notes).withdrawn)
    }

    /// Returns the error that ended reading early, once.
    pub fn take_error(&self) -> Option<LocalError> {
        lock(&self.notes).error.take()
    }
}

/// The thread is not joined, as it may be waiting for a disk.
impl Drop for ReadAhead {
    fn drop(&mut self) {
        self.lane.close();
    }
}

/// Reads files in pieces and packs records into messages.
#[derive(Debug)]
pub(super) struct Reader {
    signer: Option<Signer>,
    pub(super) manifest: Arc<Manifest>,
    /// Maximum bytes of a message.
    max_payload: usize,
    pub(super) stage: Stage,
    /// State of an update.
    pub(super) update: Option<Box<Updating>>,
    /// First entry to send and the first byte of it; receivers have the data before.
    from: (usize, u64),
    pub(super) contents: Contents,
    /// Message that is being filled, with its number of file bytes.
    pub(super) packer: Packer,
    pub(super) packed: u64,
    /// File bytes read.
    pub(super) read: u64,
    /// Digest of the announced entries.
    pub(super) listing: Listing,
    /// Withdrawn files that were not reported yet.
    withdrawn: Vec<String>,
    /// End of the last announced subtree of the file.
    pub(super) told: u64,
    /// Time since which the next file counts as fresh.
    fresh: Option<Time>,
}

/// Next record to produce.
#[derive(Debug)]
pub(super) enum Stage {
    /// Part of an update before the files.
    Update(Phase),
    Resume(ResumePoint),
    /// The table of an archive, from this byte on.
    Archive(usize),
    Entry(usize),
    Contents(usize),
    /// Withdraws the file for this reason.
    WithdrawReason(usize, WithdrawReason),
    End,
    Done,
}

/// Result of [`Reader::next`].
enum Next {
    Message(Bytes, u64),
    /// No data is available for this time.
    NotYet(Duration),
    Done,
}

/// Result of [`Reader::step`].
pub(super) enum Step {
    /// A record was added to the message.
    More,
    /// The next record needs another message.
    Full,
    /// No data is available for this time.
    NotYet(Duration),
    Done,
}

impl Reader {
    /// Produces messages until everything is read or the queue is closed.
    fn work(mut self, lane: &WorkerQueue<(Bytes, u64)>, notes: &Mutex<Notes>) {
        let _end = AtEnd(lane, notes);
        let start = Instant::now();
        loop {
            let next = self.next(Time::ZERO + start.elapsed(), notes);
            if !self.withdrawn.is_empty() {
                // The note precedes the message that contains the withdrawal.
                lock(notes).withdrawn.append(&mut self.withdrawn);
            }
            let goes_on = match next {
                Ok(Next::Message(message, bytes)) => {
                    let message = match &mut self.signer {
                        Some(signer) => signer.sign(message),
                        None => message,
                    };
                    let len = message.len();
                    lane.put((message, bytes), len)
                }
                Ok(Next::NotYet(pause)) => lane.pause(pause),
                Ok(Next::Done) => false,
                Err(error) => {
                    lock(notes).error = Some(error);
                    false
                }
            };
            if !goes_on {
                return;
            }
        }
    }

    /// Returns the next message, as full as possible.
    fn next(&mut self, now: Time, notes: &Mutex<Notes>) -> Result<Next, LocalError> {
        loop {
            match self.step(now)? {
                Step::More => {}
                Step::NotYet(pause) if self.packer.is_empty() => {
                    self.await_plan(&mut lock(notes));
                    return Ok(Next::NotYet(pause));
                }
                Step::Done if self.packer.is_empty() => return Ok(Next::Done),
                Step::Full | Step::NotYet(_) | Step::Done => {
                    let bytes = std::mem::take(&mut self.packed);
                    self.update.iter_mut().for_each(|update| update.subtrees = 0);
                    return Ok(Next::Message(self.packer.take(), bytes));
                }
            }
        }
    }

    fn step(&mut self, now: Time) -> Result<Step, LocalError> {
        match self.stage {
            Stage::Update(phase) => self.go_on_updating(now, phase),
            Stage::Resume(from) => {
                Ok(pack(&mut self.packer, &Record::Resume(from), || self.stage = Stage::Archive(0)))
            }
            Stage::Archive(at) => self.add_table(at, Stage::Entry(0)),
            Stage::Entry(index) if index >= self.manifest.entries().len() => {
                self.stage = Stage::End;
                Ok(Step::More)
            }
            Stage::Entry(index) => self.begin(now, index),
            Stage::Contents(index) => self.go_on(now, index),
            Stage::WithdrawReason(at, reason) => {
                let record = Record::Withdraw { index: at as u32, reason };
                Ok(pack(&mut self.packer, &record, || {
                    self.listing.add(&record);
                    self.stage = Stage::Entry(at + 1);
                }))
            }
            Stage::End => {
                let record = Record::End { bytes: self.read, listing: self.listing.digest() };
                Ok(pack(&mut self.packer, &record, || self.stage = Stage::Done))
            }
            Stage::Done => Ok(Step::Done),
        }
    }

    /// Adds the next part of the table of an archive; `then` is the stage behind it.
    pub(super) fn add_table(&mut self, at: usize, then: Stage) -> Result<Step, LocalError> {
        let manifest = self.manifest.clone();
        let table = manifest.table().unwrap_or_default();
        let Some(rest) = table.get(at..).filter(|rest| !rest.is_empty()) else {
            self.stage = then;
            return Ok(Step::More);
        };
        let room = self.packer.room().saturating_sub(ARCHIVE_HEADER_LEN);
        if room < rest.len().min(MIN_PIECE) && !self.packer.is_empty() {
            return Ok(Step::Full);
        }
        let bytes = &rest[..rest.len().min(room).min(MAX_TABLE_PART)];
        self.tell(&Record::Archive { offset: at as u32, total: table.len() as u32, bytes });
        match &mut self.stage {
            Stage::Archive(at) | Stage::Update(Phase::Archive(at)) => *at += bytes.len(),
            _ => {}
        }
        Ok(Step::More)
    }

    /// Begins an entry.
    fn begin(&mut self, now: Time, at: usize) -> Result<Step, LocalError> {
        if self.passes_entry(at) {
            return Ok(Step::More);
        }
        let manifest = self.manifest.clone();
        let entry = &manifest.entries()[at];
        let path =
            RelativePath::new(&entry.name).ok_or_else(|| stated!("{} is not a valid path", entry.shown()))?;
        let (index, mode) = (at as u32, entry.mode);
        if self.packer.room() < header_len(entry) {
            return Ok(Step::Full);
        }
        self.told = 0;
        match &entry.kind {
            &Kind::Directory { modified } => {
                self.tell(&Record::Directory { index, mode, modified, path });
                self.stage = Stage::Entry(at + 1);
                Ok(Step::More)
            }
            Kind::Link(target) => {
                self.tell(&Record::Link { index, target, path });
                self.stage = Stage::Entry(at + 1);
                Ok(Step::More)
            }
            Kind::Stream => {
                self.tell(&Record::File { index, size: None, mode, modified: None, path });
                let input = self.manifest.take_input();
                self.contents.read_stream(read_stream(input, self.max_payload));
                self.stage = Stage::Contents(at);
                Ok(Step::More)
            }
            Kind::File { stamp, .. } if at < self.from.0 => {
                if self.packer.room() < header_len(entry) + PACK_RECORD_LEN + KEPT_LEN {
                    return Ok(Step::Full);
                }
                self.tell(&file_record(at, entry, &path, stamp));
                self.tell(&Record::Kept { index });
                self.packed += stamp.size();
                self.read += stamp.size();
                self.stage = Stage::Entry(at + 1);
                Ok(Step::More)
            }
            Kind::File { .. } => Ok(self.begin_file(now, at, entry, &path)),
        }
    }

    /// Begins a file that is read now, or withdraws it.
    fn begin_file(&mut self, now: Time, at: usize, entry: &Entry, path: &RelativePath<'_>) -> Step {
        let Kind::File { path: source, stamp } = &entry.kind else { return Step::More };
        let follow = self.manifest.follows();
        // An entry without room for its header will not fit below either.
        if let Ok(true) = self.contents.read_whole(source, follow, stamp) {
            self.fresh = None;
            self.tell(&file_record(at, entry, path, stamp));
            self.stage = Stage::Contents(at);
            return Step::More;
        }
        let (stamp, withdrawn) = match Opened::open(source, follow, stamp.is_device()) {
            Ok(opened) if opened.is_fresh() => {
                let since = *self.fresh.get_or_insert(now);
                if now.since(since) < opened.patience() {
                    return Step::NotYet(FRESH_POLL_INTERVAL);
                }
                // Time stamps cannot tell whether the last change was before or after reading.
                self.withdrawn.push(changed(entry));
                (opened.stamp(), Some(WithdrawReason::Changed))
            }
            Ok(opened) => {
                let stamp = opened.stamp();
                self.check_parts(at, &stamp);
                self.contents.read_file(opened);
                (stamp, None)
            }
            Err(error) => {
                self.withdrawn.push(format!("cannot read {}: {error}", shown_path(source)));
                (*stamp, Some(WithdrawReason::Unreadable))
            }
        };
        self.fresh = None;
        self.tell(&file_record(at, entry, path, &stamp));
        self.stage = Stage::Contents(at);
        match withdrawn {
            None => Step::More,
            Some(reason) => self.withdraw(at, reason),
        }
    }

    /// Adds a record about an entry, for which there is room.
    pub(super) fn tell(&mut self, record: &Record<'_>) {
        self.listing.add(record);
        self.packer.push(record);
    }

    /// Continues with the file.
    fn go_on(&mut self, now: Time, at: usize) -> Result<Step, LocalError> {
        let index = at as u32;
        let end = self.told + SUBTREE_BYTES;
        if let Some(value) = self.contents.subtree(end) {
            let record = Record::Subtree { index, end, value };
            return Ok(pack(&mut self.packer, &record, || self.told = end));
        }
        let room = self.packer.room().saturating_sub(DATA_HEADER_LEN);
        let piece = self.piece();
        let until_part = self.until_next_part(at);
        let wanted = (piece.unwrap_or(room) as u64).min(until_part) as usize;
        let available = self.contents.available();
        // One message of its own is better than many small pieces.
        let small = room < MIN_PIECE && (available == 0 || room < available);
        if small && !self.packer.is_empty() && !self.contents.is_done() {
            return Ok(Step::Full);
        }
        let skipped = if at == self.from.0 { self.from.1.saturating_sub(self.contents.offset()) } else { 0 };
        // Receivers verify their existing data meanwhile.
        if skipped > 0 && !self.packer.is_empty() {
            return Ok(Step::Full);
        }
        if self.has_part(at) {
            return self.pass_over_part(at);
        }
        match self.contents.hole().map(|len| len.min(until_part)) {
            Ok(0) => {}
            Ok(len) if skipped > 0 => return self.go_over(at, len.min(skipped), false),
            // Hash values begin a message: hashing a message full of them would take long.
            Ok(_) if !self.packer.is_empty() => return Ok(Step::Full),
            Ok(len) => return self.go_over(at, len, true),
            Err(filled) => return self.without(at, filled),
        }
        if skipped == 0 && piece.is_some_and(|piece| self.contents.has_piece(piece)) {
            return self.pass_on(at, wanted, room);
        }
        let filled = match self.contents.fill(now, wanted) {
            Filled::Ready
                if self.contents.is_done()
                    && !self.contents.is_unchanged(self.manifest.entries()[at].path()) =>
            {
                Filled::Changed
            }
            filled => filled,
        };
        if !matches!(filled, Filled::Ready) {
            return self.without(at, filled);
        }
        // The bytes are hashed and not sent.
        if skipped > 0 && self.contents.available() > 0 {
            let (_, bytes) = self.contents.take(usize::try_from(skipped).unwrap_or(usize::MAX));
            let len = bytes.len() as u64;
            self.packed += len;
            self.read += len;
            return Ok(Step::More);
        }
        if self.contents.is_done() {
            let digest = self.known_digest(at).unwrap_or_else(|| self.contents.digest());
            let size = self.contents.offset();
            let record = Record::EndOfFile { index, size, digest };
            return Ok(pack(&mut self.packer, &record, || {
                self.listing.add(&record);
                self.contents.close();
                self.stage = Stage::Entry(at + 1);
            }));
        }
        let cut = piece.is_some_and(|piece| room < piece && self.contents.available() >= piece);
        if cut && !self.packer.is_empty() {
            return Ok(Step::Full);
        }
        let (offset, bytes) = self.contents.take(wanted.min(room));
        let len = bytes.len() as u64;
        self.packer.push(&Record::Data { index, offset, bytes });
        self.packed += len;
        self.read += len;
        Ok(Step::More)
    }

    /// Bytes up to the next multiple of [`PIECE_BYTES`], if the file is cut there.
    fn piece(&self) -> Option<usize> {
        let most = self.max_payload - DATA_HEADER_LEN;
        let fits = (PIECE_BYTES..PIECE_BYTES + MIN_FILL_GAP).contains(&most) && !self.contents.is_whole();
        let begun = (self.contents.offset() % PIECE_BYTES as u64) as usize;
        fits.then_some(PIECE_BYTES - begun)
    }

    /// Reads a piece of `len` bytes directly into the message.
    fn pass_on(&mut self, at: usize, len: usize, room: usize) -> Result<Step, LocalError> {
        if room < len {
            return Ok(Step::Full);
        }
        let offset = self.contents.offset();
        let read = self.packer.push_data(at as u32, offset, len, |into| self.contents.read_piece(into));
        if let Err(filled) = read {
            return self.without(at, filled);
        }
        self.packed += len as u64;
        self.read += len as u64;
        Ok(Step::More)
    }

    /// Skips a hole, at most what one record describes, and announces it if `tells` is set.
    fn go_over(&mut self, at: usize, len: u64, tells: bool) -> Result<Step, LocalError> {
        let len = len.min(HOLE_MAX);
        match self.contents.go_over(len) {
            Ok(offset) if tells => self.packer.push(&Record::Hole { index: at as u32, offset, len }),
            Ok(_) => {}
            Err(filled) => return self.without(at, filled),
        }
        self.packed += len;
        self.read += len;
        Ok(Step::More)
    }

    /// Handles a file without a piece to send, at the moment or for good.
    pub(super) fn without(&mut self, at: usize, filled: Filled) -> Result<Step, LocalError> {
        let manifest = self.manifest.clone();
        let entry = &manifest.entries()[at];
        match filled {
            Filled::Ready => Ok(Step::More),
            Filled::NotYet => Ok(Step::NotYet(STREAM_POLL_INTERVAL)),
            Filled::Changed => {
                self.withdrawn.push(changed(entry));
                Ok(self.withdraw(at, WithdrawReason::Changed))
            }
            Filled::Unreadable(error) if matches!(entry.kind, Kind::Stream) => {
                Err(error).with_context(|| format!("cannot read {}", entry.shown()))
            }
            Filled::Unreadable(error) => {
                self.withdrawn.push(format!("cannot read {}: {error}", entry.shown()));
                Ok(self.withdraw(at, WithdrawReason::Unreadable))
            }
        }
    }

    /// Withdraws a file: receivers discard it.
    fn withdraw(&mut self, at: usize, reason: WithdrawReason) -> Step {
        self.contents.close();
        self.stage = Stage::WithdrawReason(at, reason);
        Step::More
    }
}

/// Marks the end of the queue when the thread ends.
struct AtEnd<'a>(&'a WorkerQueue<(Bytes, u64)>, &'a Mutex<Notes>);

impl Drop for AtEnd<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            lock(self.1).error = Some(stated!("the reader of the data has panicked"));
        }
        self.0.end();
    }
}

fn lock(notes: &Mutex<Notes>) -> MutexGuard<'_, Notes> {
    notes.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Adds a record to the message and runs `then`, if there is room.
pub(super) fn pack(packer: &mut Packer, record: &Record<'_>, then: impl FnOnce()) -> Step {
    if packer.room() < record.wire_len() {
        return Step::Full;
    }
    packer.push(record);
    then();
    Step::More
}

/// FILE of an entry with these attributes.
fn file_record<'a>(at: usize, entry: &Entry, path: &RelativePath<'a>, stamp: &Stamp) -> Record<'a> {
    let (size, modified) = (Some(stamp.size()), times::carried(stamp.modified()));
    Record::File { index: at as u32, size, mode: entry.mode, modified, path: *path }
}

/// Bytes of the record that begins an entry.
pub fn header_len(entry: &Entry) -> usize {
    entry.name.len()
        + match &entry.kind {
            Kind::Link(target) => LINK_HEADER_LEN + target.len(),
            _ => FILE_HEADER_LEN,
        }
}

fn changed(entry: &Entry) -> String {
    format!("{} changed while it was sent", entry.shown())
}

/// Maximum bytes of a part of the table of an archive, which must fit the stored list of an update.
const MAX_TABLE_PART: usize = 60_000;
/// Minimum bytes of a piece beside other records, unless it is the last.
const MIN_PIECE: usize = 256;
/// Minimum space behind a piece of [`PIECE_BYTES`] for further data of the same file in the message.
const MIN_FILL_GAP: usize = PIECE_BYTES / 16;
/// Interval between checks of a paused stream.
const STREAM_POLL_INTERVAL: Duration = Duration::from_millis(2);
/// Interval between checks of a recently changed file.
const FRESH_POLL_INTERVAL: Duration = Duration::from_millis(10);
