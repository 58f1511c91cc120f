//! The sending application: files in, messages out.

use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{Receiver, TryRecvError};

use anyhow::{Context as _, anyhow, bail};
use carillon_core::{Application, Bytes, Duration, OfferError, Sender, Time};
use carillon_wire::file::{
    DATA_HEADER_LEN, FILE_HEADER_LEN, LINK_HEADER_LEN, MESSAGE_HEADER_LEN, Packer, Record, RelativePath,
    Withdrawn,
};

use super::Manifest;
use super::contents::{Contents, Filled, Opened, READ_BYTES};
use super::manifest::{Entry, Kind};
use super::names::shown_path;
use super::stdin::{read_lines, read_stream};

/// Reads the files of a [`Manifest`] piece by piece and offers them as records, as many to a message
/// as fit.
///
/// Files are read and hashed piece by piece as the protocol takes them, a little ahead: what
/// can be done while the protocol waits for its acknowledgments need not be done afterwards.
#[derive(Debug)]
pub struct Outgoing {
    manifest: Manifest,
    /// Bytes of a message, at most.
    max_payload: usize,
    stage: Stage,
    contents: Box<Contents>,
    /// The message that is being filled, with the bytes of files in it.
    packer: Packer,
    packed: u64,
    /// Messages that the protocol has not taken yet, with their bytes of files, and their own length.
    ready: VecDeque<(Bytes, u64)>,
    ready_bytes: usize,
    /// Bytes of files offered, and bytes of files read.
    bytes: u64,
    read: u64,
    /// What reading has cost, in bytes: an entry costs something too.
    effort: u64,
    /// Files that were not delivered, a line each.
    withdrawn: Vec<String>,
    /// Since when the next file has been found fresh.
    fresh: Option<Time>,
    /// Messages of a live stream.
    messages: u64,
    started: Option<Time>,
    finished: bool,
    /// The session takes nothing although it was not finished.
    refused: bool,
    /// When to look at a stream again.
    look: Option<Time>,
    error: Option<anyhow::Error>,
}

/// What comes next.
#[derive(Debug)]
enum Stage {
    Offer,
    Entry(usize),
    Contents(usize),
    /// The file is given up.
    Withdrawn(usize, Withdrawn),
    /// A live stream: its lines, once they are read.
    Lines(Option<Receiver<io::Result<Vec<u8>>>>),
    End,
    Done,
}

/// What [`Outgoing::next`] finds.
enum Next {
    Message(Bytes, u64),
    /// There is nothing more for now.
    NotYet,
    Done,
}

/// What [`Outgoing::step`] has done.
enum Step {
    /// Put a record into the message.
    More,
    /// Nothing: the next record needs the next message.
    Full,
    /// Nothing: there is nothing more for now.
    NotYet,
    Done,
}

impl Outgoing {
    /// Will send these files in messages of up to `max_payload` bytes.
    pub fn new(manifest: Manifest, max_payload: usize) -> anyhow::Result<Self> {
        let longest = manifest.entries().iter().map(header_len).max().unwrap_or(0);
        if max_payload < MIN_PAYLOAD.max(longest) {
            let name = manifest.entries().iter().map(|entry| entry.name.len()).max().unwrap_or(0);
            bail!("names of {name} bytes do not fit messages of {max_payload} bytes");
        }
        Ok(Outgoing {
            manifest,
            max_payload,
            stage: Stage::Offer,
            contents: Box::new(Contents::new()),
            packer: Packer::new(max_payload),
            packed: 0,
            ready: VecDeque::new(),
            ready_bytes: 0,
            bytes: 0,
            read: 0,
            effort: 0,
            withdrawn: Vec::new(),
            fresh: None,
            messages: 0,
            started: None,
            finished: false,
            refused: false,
            look: None,
            error: None,
        })
    }

    /// Will send the standard input as a live stream: each line a message as soon as it is there,
    /// longer ones cut.
    pub fn stream(manifest: Manifest, max_payload: usize) -> anyhow::Result<Self> {
        Ok(Outgoing { stage: Stage::Lines(None), ..Self::new(manifest, max_payload)? })
    }

    /// Bytes of files offered so far.
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
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The files, to be sent elsewhere; nothing once it was begun.
    pub fn into_manifest(self) -> Option<Manifest> {
        self.started.is_none().then_some(self.manifest)
    }

    /// Whether the session has refused what was offered: it is over, or not for this sender.
    pub fn is_refused(&self) -> bool {
        self.refused
    }

    /// Whether something went wrong here.
    pub fn has_failed(&self) -> bool {
        self.error.is_some()
    }

    /// What went wrong here, once: nothing more will be offered, and the session is to be aborted.
    pub fn take_error(&mut self) -> Option<anyhow::Error> {
        self.error.take()
    }

    /// The next message, as full as it gets.
    fn next(&mut self, now: Time) -> anyhow::Result<Next> {
        if let Stage::Lines(_) = self.stage {
            return self.next_line(now);
        }
        loop {
            match self.step(now)? {
                // Until the protocol takes the first message no file is read: it may wait for long.
                Step::More if self.started.is_some() || self.packer.is_empty() => {}
                Step::NotYet if self.packer.is_empty() => return Ok(Next::NotYet),
                Step::Done if self.packer.is_empty() => return Ok(Next::Done),
                Step::More | Step::Full | Step::NotYet | Step::Done => {
                    let bytes = std::mem::take(&mut self.packed);
                    return Ok(Next::Message(self.packer.take(), bytes));
                }
            }
        }
    }

    fn step(&mut self, now: Time) -> anyhow::Result<Step> {
        match self.stage {
            Stage::Offer => {
                let entries = self.manifest.entries().len() as u32;
                let record = Record::Offer { entries, bytes: self.manifest.bytes() };
                Ok(pack(&mut self.packer, &record, || self.stage = Stage::Entry(0)))
            }
            Stage::Entry(index) if index >= self.manifest.entries().len() => {
                self.stage = Stage::End;
                Ok(Step::More)
            }
            Stage::Entry(index) => self.begin(now, index),
            Stage::Contents(index) => self.go_on(now, index),
            Stage::Withdrawn(at, reason) => {
                let record = Record::Withdraw { index: at as u32, reason };
                Ok(pack(&mut self.packer, &record, || self.stage = Stage::Entry(at + 1)))
            }
            Stage::End => {
                let record = Record::End { bytes: self.read };
                Ok(pack(&mut self.packer, &record, || self.stage = Stage::Done))
            }
            Stage::Lines(_) | Stage::Done => Ok(Step::Done),
        }
    }

    /// Begins an entry.
    fn begin(&mut self, now: Time, at: usize) -> anyhow::Result<Step> {
        let entry = &self.manifest.entries()[at];
        let path = RelativePath::new(&entry.name).ok_or_else(|| anyhow!("{:?} is no path", entry.name))?;
        let (index, mode) = (at as u32, entry.mode);
        if self.packer.room() < header_len(entry) {
            return Ok(Step::Full);
        }
        self.effort += ENTRY_EFFORT;
        let mut withdraw = None;
        match &entry.kind {
            Kind::Directory => {
                self.packer.push(&Record::Directory { index, mode, path });
                self.stage = Stage::Entry(at + 1);
                return Ok(Step::More);
            }
            Kind::Link(target) => {
                self.packer.push(&Record::Link { index, target, path });
                self.stage = Stage::Entry(at + 1);
                return Ok(Step::More);
            }
            Kind::Stream => {
                self.packer.push(&Record::File { index, size: None, mode, path });
                let input = self.manifest.take_input();
                self.contents.read_stream(read_stream(input, self.max_payload));
            }
            Kind::File { path: source, size } => {
                let size = match Opened::open(source, self.manifest.follows()) {
                    Ok(opened) if opened.is_fresh() => {
                        let since = *self.fresh.get_or_insert(now);
                        if now.since(since) < opened.patience() {
                            self.look = Some(now + FRESH_LOOK);
                            return Ok(Step::NotYet);
                        }
                        // Whether its last change came before it was read or after, its times cannot tell.
                        self.withdrawn.push(changed(entry));
                        withdraw = Some(Withdrawn::Changed);
                        opened.size()
                    }
                    Ok(opened) => {
                        let size = opened.size();
                        self.contents.read_file(opened);
                        size
                    }
                    Err(error) => {
                        self.withdrawn.push(format!("cannot read {}: {error}", shown_path(source)));
                        withdraw = Some(Withdrawn::Unreadable);
                        *size
                    }
                };
                self.fresh = None;
                self.packer.push(&Record::File { index, size: Some(size), mode, path });
            }
        }
        self.stage = Stage::Contents(at);
        match withdraw {
            None => Ok(Step::More),
            Some(reason) => Ok(self.withdraw(at, reason)),
        }
    }

    /// Goes on with the file.
    fn go_on(&mut self, now: Time, at: usize) -> anyhow::Result<Step> {
        let index = at as u32;
        let room = self.packer.room();
        let wanted = room.saturating_sub(DATA_HEADER_LEN);
        let available = self.contents.available();
        // Better a message of its own than many small pieces.
        let small = wanted < MIN_PIECE && (available == 0 || wanted < available);
        if small && !self.packer.is_empty() && !self.contents.is_done() {
            return Ok(Step::Full);
        }
        let entry = &self.manifest.entries()[at];
        let filled = match self.contents.fill(now, wanted) {
            Filled::Ready if self.contents.is_done() && !self.contents.is_unchanged(entry.path()) => {
                Filled::Changed
            }
            filled => filled,
        };
        match filled {
            Filled::Ready => {}
            Filled::NotYet => {
                self.look = Some(now + STREAM_LOOK);
                return Ok(Step::NotYet);
            }
            Filled::Changed => {
                self.withdrawn.push(changed(entry));
                return Ok(self.withdraw(at, Withdrawn::Changed));
            }
            Filled::Unreadable(error) if matches!(entry.kind, Kind::Stream) => {
                return Err(error).with_context(|| format!("cannot read {}", entry.shown()));
            }
            Filled::Unreadable(error) => {
                self.withdrawn.push(format!("cannot read {}: {error}", entry.shown()));
                return Ok(self.withdraw(at, Withdrawn::Unreadable));
            }
        }
        if self.contents.is_done() {
            let (size, digest) = (self.contents.offset(), self.contents.digest());
            let record = Record::EndOfFile { index, size, digest };
            return Ok(pack(&mut self.packer, &record, || {
                self.contents.close();
                self.stage = Stage::Entry(at + 1);
            }));
        }
        let (offset, bytes) = self.contents.take(wanted);
        let len = bytes.len() as u64;
        self.packer.push(&Record::Data { index, offset, bytes });
        self.packed += len;
        self.read += len;
        self.effort += len;
        Ok(Step::More)
    }

    /// The file is not to be kept by anyone.
    fn withdraw(&mut self, at: usize, reason: Withdrawn) -> Step {
        self.contents.close();
        self.stage = Stage::Withdrawn(at, reason);
        Step::More
    }

    /// The next line of a live stream.
    fn next_line(&mut self, now: Time) -> anyhow::Result<Next> {
        let Stage::Lines(lines) = &mut self.stage else { return Ok(Next::Done) };
        let piece = self.max_payload.saturating_sub(MESSAGE_HEADER_LEN);
        let manifest = &mut self.manifest;
        let line = match lines.get_or_insert_with(|| read_lines(manifest.take_input(), piece)).try_recv() {
            Ok(line) => line.context("cannot read the standard input")?,
            Err(TryRecvError::Empty) => {
                self.look = Some(now + STREAM_LOOK);
                return Ok(Next::NotYet);
            }
            Err(TryRecvError::Disconnected) => {
                self.stage = Stage::Done;
                return Ok(Next::Message(emit(&Record::EndOfStream { messages: self.messages }), 0));
            }
        };
        let message = emit(&Record::Message { number: self.messages, bytes: &line });
        self.messages += 1;
        self.read += line.len() as u64;
        self.effort += line.len() as u64;
        Ok(Next::Message(message, line.len() as u64))
    }

    /// Offers one message; returns whether the protocol took it.
    fn offer<S: Sender>(&mut self, now: Time, session: &mut S) -> anyhow::Result<bool> {
        let (message, len) = match self.ready.pop_front() {
            Some(ready) => {
                self.ready_bytes -= ready.0.len();
                ready
            }
            None => match self.next(now)? {
                Next::Message(message, len) => (message, len),
                Next::NotYet => return Ok(false),
                Next::Done => {
                    session.finish(now);
                    self.finished = true;
                    return Ok(true);
                }
            },
        };
        match session.offer(now, message.clone()) {
            Ok(_) => {
                self.started.get_or_insert(now);
                self.bytes += len;
                Ok(true)
            }
            Err(OfferError::Full) => {
                self.ready_bytes += message.len();
                self.ready.push_front((message, len));
                if self.started.is_some() {
                    self.read_ahead(now)?;
                }
                Ok(false)
            }
            // The session is over: its phase and its members say why.
            Err(OfferError::Finished) => {
                (self.finished, self.refused) = (true, true);
                Ok(false)
            }
            Err(error @ OfferError::TooLarge { .. }) => Err(error.into()),
        }
    }

    /// Gets some more messages ready, so few that the network need not wait; comes back for more.
    fn read_ahead(&mut self, now: Time) -> anyhow::Result<()> {
        let from = self.effort;
        while self.effort - from < READ_BYTES as u64 {
            if self.ready_bytes >= AHEAD_BYTES || self.ready.len() >= AHEAD_MESSAGES {
                return Ok(());
            }
            match self.next(now)? {
                Next::Message(message, len) => {
                    self.ready_bytes += message.len();
                    self.ready.push_back((message, len));
                }
                Next::NotYet | Next::Done => return Ok(()),
            }
        }
        self.look = Some(now);
        Ok(())
    }
}

impl<S: Sender> Application<S> for Outgoing {
    fn poll(&mut self, now: Time, session: &mut S) -> bool {
        self.look = None;
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
                    self.error = Some(error);
                    self.finished = true;
                }
            }
        }
        called
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.look
    }
}

/// Puts the record into the message, and does what follows, if there is room.
fn pack(packer: &mut Packer, record: &Record<'_>, then: impl FnOnce()) -> Step {
    if packer.room() < record.wire_len() {
        return Step::Full;
    }
    packer.push(record);
    then();
    Step::More
}

/// Bytes of the record that begins it.
fn header_len(entry: &Entry) -> usize {
    entry.name.len()
        + match &entry.kind {
            Kind::Link(target) => LINK_HEADER_LEN + target.len(),
            _ => FILE_HEADER_LEN,
        }
}

fn changed(entry: &Entry) -> String {
    format!("{} changed while it was sent", entry.shown())
}

fn emit(record: &Record<'_>) -> Bytes {
    let mut message = Vec::with_capacity(record.wire_len());
    record.emit(&mut message);
    message.into()
}

/// Bytes of messages read ahead of what the protocol has taken: more would only push the rest out of
/// the cache.
const AHEAD_BYTES: usize = 1 << 20;
/// Messages read ahead, at most: there are small ones too.
const AHEAD_MESSAGES: usize = 4096;
/// What beginning an entry costs, in bytes that could be read in that time.
const ENTRY_EFFORT: u64 = 4096;
/// A piece of a file beside other records is not smaller, unless it is the last.
const MIN_PIECE: usize = 256;
/// How often to look for more of a stream that has paused.
const STREAM_LOOK: Duration = Duration::from_millis(2);
/// How often to look at a file that has just changed.
const FRESH_LOOK: Duration = Duration::from_millis(10);
/// No message carries less than a digest and its frame.
const MIN_PAYLOAD: usize = 64;
