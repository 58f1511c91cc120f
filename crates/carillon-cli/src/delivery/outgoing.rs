//! The sending application: files in, messages out.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead, Read};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};

use anyhow::{Context as _, anyhow, bail};
use carillon_core::{Application, Bytes, Duration, OfferError, Sender, Time};
use carillon_wire::file::{DATA_HEADER_LEN, MESSAGE_HEADER_LEN, Record, RelativePath};

use super::Manifest;

/// Reads the files of a [`Manifest`] piece by piece and offers them as records.
///
/// Files are read and hashed piece by piece as the protocol takes them, a little ahead: what
/// can be done while the protocol waits for its acknowledgments need not be done afterwards.
#[derive(Debug)]
pub struct Outgoing {
    manifest: Manifest,
    /// Bytes of a file in one message, at most.
    piece: usize,
    stage: Stage,
    /// Messages that the protocol has not taken yet, with their bytes of a file.
    ready: VecDeque<(Bytes, u64)>,
    /// Bytes of files offered, and bytes of files read.
    bytes: u64,
    read: u64,
    /// Messages of a live stream.
    messages: u64,
    started: Option<Time>,
    finished: bool,
    /// When to look at a stream again.
    look: Option<Time>,
    error: Option<anyhow::Error>,
}

/// What comes next.
#[derive(Debug)]
enum Stage {
    Offer,
    File(usize),
    Contents(usize, Box<Contents>),
    /// A live stream: its lines, once they are read.
    Lines(Option<Receiver<io::Result<Vec<u8>>>>),
    End,
    Done,
}

/// A file that is being read.
#[derive(Debug)]
struct Contents {
    input: Input,
    announced: Option<u64>,
    hasher: Box<blake3::Hasher>,
    /// What was read and hashed but not offered yet: from `start` on.
    buffer: Vec<u8>,
    start: usize,
    offset: u64,
    at_end: bool,
    /// Since when there has been less than a piece of a stream.
    short_since: Option<Time>,
}

#[derive(Debug)]
enum Input {
    File(File),
    Stream(Receiver<io::Result<Vec<u8>>>),
}

/// What [`Outgoing::next`] finds.
enum Next {
    Message(Bytes, u64),
    /// A stream has nothing more for now.
    NotYet,
    Done,
}

impl Outgoing {
    /// Will send these files in messages of up to `max_payload` bytes.
    pub fn new(manifest: Manifest, max_payload: usize) -> anyhow::Result<Self> {
        let longest = FILE_HEADER_LEN + manifest.longest_name();
        if max_payload < MIN_PAYLOAD.max(longest) {
            bail!("names of {} bytes do not fit messages of {max_payload} bytes", manifest.longest_name());
        }
        Ok(Outgoing {
            manifest,
            piece: max_payload - DATA_HEADER_LEN,
            stage: Stage::Offer,
            ready: VecDeque::new(),
            bytes: 0,
            read: 0,
            messages: 0,
            started: None,
            finished: false,
            look: None,
            error: None,
        })
    }

    /// Will send the standard input as a live stream: each line a message as soon as it is there,
    /// longer ones cut.
    pub fn stream(manifest: Manifest, max_payload: usize) -> anyhow::Result<Self> {
        Ok(Outgoing {
            piece: max_payload.saturating_sub(MESSAGE_HEADER_LEN),
            stage: Stage::Lines(None),
            ..Self::new(manifest, max_payload)?
        })
    }

    /// Bytes of files offered so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
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

    /// Whether something went wrong here.
    pub fn has_failed(&self) -> bool {
        self.error.is_some()
    }

    /// What went wrong here, once: nothing more will be offered, and the session is to be aborted.
    pub fn take_error(&mut self) -> Option<anyhow::Error> {
        self.error.take()
    }

    fn next(&mut self, now: Time) -> anyhow::Result<Next> {
        loop {
            match &mut self.stage {
                Stage::Offer => {
                    let files = self.manifest.entries().len() as u32;
                    let message = emit(&Record::Offer { files, bytes: self.manifest.bytes() });
                    self.stage = Stage::File(0);
                    return Ok(Next::Message(message, 0));
                }
                Stage::File(index) => {
                    let index = *index;
                    let Some(entry) = self.manifest.entries().get(index) else {
                        self.stage = Stage::End;
                        continue;
                    };
                    let (input, announced) = match &entry.path {
                        None => (Input::Stream(read_stdin(self.piece)), None),
                        Some(path) => {
                            let failed = || format!("cannot read {}", path.display());
                            let file = File::open(path).with_context(failed)?;
                            let size = file.metadata().with_context(failed)?.len();
                            if Some(size) != entry.size {
                                bail!("{} changed while it waited to be sent", path.display());
                            }
                            (Input::File(file), Some(size))
                        }
                    };
                    let path = RelativePath::new(&entry.name)
                        .ok_or_else(|| anyhow!("{:?} is no path", entry.name))?;
                    let record =
                        Record::File { index: index as u32, size: announced, mode: entry.mode, path };
                    let message = emit(&record);
                    let contents = Contents::new(input, announced, self.piece);
                    self.stage = Stage::Contents(index, Box::new(contents));
                    return Ok(Next::Message(message, 0));
                }
                Stage::Contents(index, contents) => {
                    let index = *index;
                    let name = || match &self.manifest.entries()[index].path {
                        Some(path) => path.display().to_string(),
                        None => "the standard input".to_owned(),
                    };
                    if !contents.fill(now, self.piece).with_context(|| format!("cannot read {}", name()))? {
                        self.look = Some(now + STREAM_LOOK);
                        return Ok(Next::NotYet);
                    }
                    let read = contents.offset + contents.available() as u64;
                    if let Some(announced) = contents.announced
                        && (read > announced || (contents.at_end && read != announced))
                    {
                        bail!("{} changed its size of {announced} bytes while it was sent", name());
                    }
                    if contents.available() == 0 {
                        let digest = *contents.hasher.finalize().as_bytes();
                        let size = contents.offset;
                        self.stage = Stage::File(index + 1);
                        let record = Record::EndOfFile { index: index as u32, size, digest };
                        return Ok(Next::Message(emit(&record), 0));
                    }
                    let (message, len) = contents.take(index as u32, self.piece);
                    self.read += len;
                    return Ok(Next::Message(message, len));
                }
                Stage::Lines(lines) => {
                    let lines = lines.get_or_insert_with(|| read_lines(self.piece));
                    let line = match lines.try_recv() {
                        Ok(line) => line.context("cannot read the standard input")?,
                        Err(TryRecvError::Empty) => {
                            self.look = Some(now + STREAM_LOOK);
                            return Ok(Next::NotYet);
                        }
                        Err(TryRecvError::Disconnected) => {
                            self.stage = Stage::Done;
                            let record = Record::EndOfStream { messages: self.messages };
                            return Ok(Next::Message(emit(&record), 0));
                        }
                    };
                    let message = emit(&Record::Message { number: self.messages, bytes: &line });
                    self.messages += 1;
                    self.read += line.len() as u64;
                    return Ok(Next::Message(message, line.len() as u64));
                }
                Stage::End => {
                    self.stage = Stage::Done;
                    return Ok(Next::Message(emit(&Record::End { bytes: self.read }), 0));
                }
                Stage::Done => return Ok(Next::Done),
            }
        }
    }

    /// Offers one message; returns whether the protocol took it.
    fn offer<S: Sender>(&mut self, now: Time, session: &mut S) -> anyhow::Result<bool> {
        let (message, len) = match self.ready.pop_front() {
            Some(ready) => ready,
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
                self.ready.push_front((message, len));
                self.read_ahead(now)?;
                Ok(false)
            }
            // The session is over: its phase and its members say why.
            Err(OfferError::Finished) => {
                self.finished = true;
                Ok(false)
            }
            Err(error @ OfferError::TooLarge { .. }) => Err(error.into()),
        }
    }

    /// Gets some more messages ready, so few that the network need not wait; comes back for more.
    fn read_ahead(&mut self, now: Time) -> anyhow::Result<()> {
        let offered = self.bytes;
        let from = self.read;
        for _ in 0..AHEAD_MESSAGES {
            if self.read - offered >= AHEAD_BYTES || self.ready.len() >= AHEAD_MESSAGES {
                return Ok(());
            }
            match self.next(now)? {
                Next::Message(message, len) => self.ready.push_back((message, len)),
                Next::NotYet | Next::Done => return Ok(()),
            }
            if self.read - from >= READ_BYTES as u64 {
                break;
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

impl Contents {
    fn new(input: Input, announced: Option<u64>, piece: usize) -> Self {
        // A whole number of pieces, so that all but the last are full.
        let capacity = piece * (READ_BYTES / piece).max(1);
        Contents {
            input,
            announced,
            hasher: Box::default(),
            buffer: Vec::with_capacity(capacity),
            start: 0,
            offset: 0,
            at_end: false,
            short_since: None,
        }
    }

    /// Bytes that can be offered.
    fn available(&self) -> usize {
        self.buffer.len() - self.start
    }

    /// Reads on if less than a piece is available. Returns whether there is something to do now: a
    /// piece, what is left of a stream that has paused, or the end.
    fn fill(&mut self, now: Time, piece: usize) -> io::Result<bool> {
        if self.available() >= piece || self.at_end {
            return Ok(true);
        }
        self.buffer.drain(..self.start);
        self.start = 0;
        let old = self.buffer.len();
        match &mut self.input {
            Input::File(file) => {
                let room = (self.buffer.capacity() - old) as u64;
                let read = file.take(room).read_to_end(&mut self.buffer)?;
                self.at_end = (read as u64) < room;
            }
            Input::Stream(chunks) => {
                while self.buffer.len() < piece && !self.at_end {
                    match chunks.try_recv() {
                        Ok(chunk) => self.buffer.extend_from_slice(&chunk?),
                        Err(TryRecvError::Disconnected) => self.at_end = true,
                        Err(TryRecvError::Empty) => break,
                    }
                }
            }
        }
        self.hasher.update(&self.buffer[old..]);
        if self.available() >= piece || self.at_end {
            self.short_since = None;
            return Ok(true);
        }
        if self.available() == 0 {
            return Ok(false);
        }
        let paused = now.since(*self.short_since.get_or_insert(now)) >= STREAM_PATIENCE;
        if paused {
            self.short_since = None;
        }
        Ok(paused)
    }

    /// The next piece as a message, and its bytes of the file.
    fn take(&mut self, index: u32, piece: usize) -> (Bytes, u64) {
        let len = self.available().min(piece);
        let bytes = &self.buffer[self.start..self.start + len];
        let message = emit(&Record::Data { index, offset: self.offset, bytes });
        self.start += len;
        self.offset += len as u64;
        (message, len as u64)
    }
}

fn emit(record: &Record<'_>) -> Bytes {
    let mut message = Vec::with_capacity(record.wire_len());
    record.emit(&mut message);
    message.into()
}

/// Reads the standard input in a thread of its own: it may pause for as long as it likes, and the
/// receivers must hear from the sender all the same.
fn read_stdin(piece: usize) -> Receiver<io::Result<Vec<u8>>> {
    let (to, from) = sync_channel(STREAM_CHUNKS);
    std::thread::spawn(move || forward(&mut io::stdin().lock(), piece, &to));
    from
}

fn forward(input: &mut dyn Read, piece: usize, to: &SyncSender<io::Result<Vec<u8>>>) {
    let mut buffer = vec![0; piece.max(READ_BYTES)];
    loop {
        let sent = match input.read(&mut buffer) {
            Ok(0) => return,
            Ok(len) => to.send(Ok(buffer[..len].to_vec())),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => {
                // Nobody listens any more if it cannot be sent.
                let _ = to.send(Err(error));
                return;
            }
        };
        if sent.is_err() {
            return;
        }
    }
}

/// Reads the lines of the standard input in a thread of its own, as they come.
fn read_lines(piece: usize) -> Receiver<io::Result<Vec<u8>>> {
    let (to, from) = sync_channel(STREAM_LINES);
    std::thread::spawn(move || forward_lines(&mut io::stdin().lock(), piece, &to));
    from
}

fn forward_lines(input: &mut dyn BufRead, piece: usize, to: &SyncSender<io::Result<Vec<u8>>>) {
    loop {
        let mut line = Vec::new();
        let sent = match Read::take(&mut *input, piece as u64).read_until(b'\n', &mut line) {
            Ok(0) => return,
            Ok(_) => to.send(Ok(line)),
            // Nobody listens any more if it cannot be sent.
            Err(error) => return drop(to.send(Err(error))),
        };
        if sent.is_err() {
            return;
        }
    }
}

/// Bytes read at a time: enough to hash fast, little enough to stay in the cache.
const READ_BYTES: usize = 256 << 10;
/// Bytes read ahead of what the protocol has taken: more would only push the rest out of the cache.
const AHEAD_BYTES: u64 = 1 << 20;
/// Messages read ahead, at most: there are small ones too.
const AHEAD_MESSAGES: usize = 4096;
/// Pieces of a stream read ahead.
const STREAM_CHUNKS: usize = 16;
/// Lines of a live stream read ahead.
const STREAM_LINES: usize = 256;
/// How often to look for more of a stream that has paused.
const STREAM_LOOK: Duration = Duration::from_millis(2);
/// Less than a full message of a stream is sent when no more came for this long.
const STREAM_PATIENCE: Duration = Duration::from_millis(10);
/// No message carries less than a digest and its frame.
const MIN_PAYLOAD: usize = 64;
/// What a FILE record has besides its path: type, index, size, and mode.
const FILE_HEADER_LEN: usize = 1 + 4 + 8 + 4;
