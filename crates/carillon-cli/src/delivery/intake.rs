//! What one sender delivers: records in, verified files or messages out.

use std::fmt;

use carillon_wire::file::{Record, RelativePath};

use super::live::Live;
use super::target::{Draft, Target};

/// Writes what the records of one sender say, and holds them to what they say: every byte in its
/// place, every digest equal.
#[derive(Debug)]
pub struct Intake {
    /// The sender's name.
    name: String,
    /// Before the names of its files: the directory of this sender and a slash, or nothing.
    folder: String,
    stage: Stage,
    announced: Option<(u32, Option<u64>)>,
    /// Bytes of the files completed, and how many they are.
    bytes: u64,
    files: u32,
    completed: Vec<Completed>,
    result: Option<Result<(), String>>,
}

/// Where the deliveries of all senders go.
#[derive(Debug)]
pub enum Sink {
    /// Files.
    Files(Target),
    /// Messages of live streams.
    Live(Live),
}

/// Why a transfer failed here.
#[derive(Debug)]
pub enum Problem {
    /// What arrived is not what was sent, or not all.
    Transfer(String),
    /// The receiver's own trouble: its disk, its files.
    Local(anyhow::Error),
}

/// A file that has its name.
#[derive(Clone, Debug)]
pub struct Completed {
    /// Its name below the directory.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// BLAKE3 over its bytes.
    pub digest: blake3::Hash,
}

#[derive(Debug)]
enum Stage {
    /// Waits for OFFER, or for the first of a live stream.
    Begin,
    /// Waits for FILE or END.
    Between,
    /// Waits for DATA or END_OF_FILE.
    Contents(Box<Open>),
    /// Waits for the message of this number, or the end of the live stream.
    Live(u64),
    /// Has everything, or has failed.
    Over,
}

/// The file that is being received.
#[derive(Debug)]
struct Open {
    draft: Draft,
    name: String,
    size: Option<u64>,
    /// Bytes received.
    offset: u64,
    hasher: Box<blake3::Hasher>,
    /// The last of them, not hashed and written yet.
    buffer: Vec<u8>,
}

impl Intake {
    /// Of the sender of this name; its files go into a directory of their own if one is named.
    pub fn new(name: String, folder: Option<String>) -> Self {
        Intake {
            name,
            folder: folder.map(|folder| folder + "/").unwrap_or_default(),
            stage: Stage::Begin,
            announced: None,
            bytes: 0,
            files: 0,
            completed: Vec::new(),
            result: None,
        }
    }

    /// Takes a message. What is wrong with the transfer is its result; an error is this receiver's
    /// own trouble.
    pub fn take(&mut self, message: &[u8], sink: &mut Sink) -> anyhow::Result<()> {
        if self.result.is_some() {
            return Ok(());
        }
        match self.on_message(message, sink) {
            Ok(false) => {}
            Ok(true) => self.end(Ok(())),
            Err(Problem::Transfer(reason)) => self.end(Err(reason)),
            Err(Problem::Local(error)) => {
                self.end(Err(format!("{error:#}")));
                return Err(error);
            }
        }
        Ok(())
    }

    /// Nothing more will come, and this is why; unless it has ended before.
    pub fn give_up(&mut self, reason: String) {
        if self.result.is_none() {
            self.end(Err(reason));
        }
    }

    /// The sender's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Bytes received so far.
    pub fn bytes(&self) -> u64 {
        match &self.stage {
            Stage::Contents(open) => self.bytes + open.offset,
            _ => self.bytes,
        }
    }

    /// Bytes of all files together, if the sender has said so.
    pub fn total(&self) -> Option<u64> {
        self.announced.and_then(|(_, bytes)| bytes)
    }

    /// Files completed.
    pub fn files(&self) -> u32 {
        self.files
    }

    /// How it ended, if it has.
    pub fn result(&self) -> Option<&Result<(), String>> {
        self.result.as_ref()
    }

    /// The files completed since they were last taken.
    pub fn completed(&mut self) -> &mut Vec<Completed> {
        &mut self.completed
    }

    /// Whether there are any.
    pub fn has_completed(&self) -> bool {
        !self.completed.is_empty()
    }

    fn end(&mut self, result: Result<(), String>) {
        self.stage = Stage::Over;
        self.result = Some(result);
    }

    fn on_message(&mut self, message: &[u8], sink: &mut Sink) -> Result<bool, Problem> {
        let record = Record::parse(message)
            .map_err(|error| Problem::Transfer(format!("a message is not of a file transfer: {error}")))?;
        match (std::mem::replace(&mut self.stage, Stage::Over), record) {
            (stage @ (Stage::Begin | Stage::Live(_)), Record::Message { number, bytes }) => {
                let Sink::Live(live) = sink else { return Err(refused(STREAMS)) };
                let expected = if let Stage::Live(next) = stage { next } else { 0 };
                if number != expected {
                    let text = format!("message {number} came when message {expected} was to come");
                    return Err(refused(&text));
                }
                live.write(&self.name, number, bytes).map_err(Problem::Local)?;
                self.bytes += bytes.len() as u64;
                self.stage = Stage::Live(number + 1);
            }
            (stage @ (Stage::Begin | Stage::Live(_)), Record::EndOfStream { messages }) => {
                let Sink::Live(_) = sink else { return Err(refused(STREAMS)) };
                let came = if let Stage::Live(next) = stage { next } else { 0 };
                if messages != came {
                    return Err(refused(&format!(
                        "the stream is incomplete: {came} of {messages} messages came"
                    )));
                }
                return Ok(true);
            }
            (Stage::Begin, Record::Offer { files, bytes }) => {
                let Sink::Files(_) = sink else { return Err(refused(FILES)) };
                self.announced = Some((files, bytes));
                self.stage = Stage::Between;
            }
            (Stage::Between, Record::File { index, size, mode, path }) => {
                self.expect_index(index, self.files)?;
                self.stage = Stage::Contents(Box::new(self.open(sink, path, size, mode)?));
            }
            (Stage::Contents(mut open), Record::Data { index, offset, bytes }) => {
                self.expect_index(index, self.files)?;
                open.append(offset, bytes)?;
                self.stage = Stage::Contents(open);
            }
            (Stage::Contents(open), Record::EndOfFile { index, size, digest }) => {
                self.expect_index(index, self.files)?;
                let completed = open.close(size, blake3::Hash::from_bytes(digest))?;
                self.bytes += completed.bytes;
                self.files += 1;
                self.completed.push(completed);
                self.stage = Stage::Between;
            }
            (Stage::Between, Record::End { bytes }) => {
                let (files, _) = self.announced.unwrap_or_default();
                if files != self.files || bytes != self.bytes {
                    return Err(Problem::Transfer(format!(
                        "the transfer is incomplete: {} of {files} files and {} of {bytes} bytes arrived",
                        self.files, self.bytes
                    )));
                }
                return Ok(true);
            }
            (_, record) => {
                return Err(Problem::Transfer(format!(
                    "the transfer is incomplete: messages are missing before \"{record}\""
                )));
            }
        }
        Ok(false)
    }

    fn open(
        &self,
        sink: &Sink,
        path: RelativePath<'_>,
        size: Option<u64>,
        mode: u32,
    ) -> Result<Open, Problem> {
        let Sink::Files(target) = sink else { return Err(refused(FILES)) };
        let name = format!("{}{path}", self.folder);
        let Some(path) = RelativePath::new(&name) else {
            return Err(refused(&format!("the path {name:?} is too long")));
        };
        let draft = target.begin(&path, mode).map_err(Problem::Local)?;
        Ok(Open {
            draft,
            name,
            size,
            offset: 0,
            hasher: Box::default(),
            buffer: Vec::with_capacity(WRITE_BYTES),
        })
    }

    fn expect_index(&self, index: u32, expected: u32) -> Result<(), Problem> {
        if index == expected {
            return Ok(());
        }
        Err(Problem::Transfer(format!(
            "the transfer is incomplete: file {index} came when file {expected} was to come"
        )))
    }
}

impl Open {
    fn append(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Problem> {
        let Open { name, .. } = self;
        if offset != self.offset {
            let what = if offset > self.offset { "are missing" } else { "came twice" };
            let (from, to) = (offset.min(self.offset), offset.max(self.offset));
            return Err(Problem::Transfer(format!("{name} is incomplete: bytes {from} to {to} {what}")));
        }
        self.offset += bytes.len() as u64;
        if self.size.is_some_and(|size| self.offset > size) {
            return Err(Problem::Transfer(format!("{name} is larger than it was said to be")));
        }
        if self.buffer.len() + bytes.len() > WRITE_BYTES {
            self.flush()?;
        }
        if bytes.len() >= DIRECT_BYTES && self.buffer.is_empty() {
            self.hasher.update(bytes);
            return self.draft.write(bytes).map_err(Problem::Local);
        }
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Problem> {
        self.hasher.update(&self.buffer);
        let written = self.draft.write(&self.buffer);
        self.buffer.clear();
        written.map_err(Problem::Local)
    }

    fn close(mut self, size: u64, digest: blake3::Hash) -> Result<Completed, Problem> {
        self.flush()?;
        let Open { draft, name, offset, hasher, .. } = self;
        if size != offset || self.size.is_some_and(|announced| announced != size) {
            return Err(Problem::Transfer(format!("{name} is incomplete: {offset} of {size} bytes arrived")));
        }
        if hasher.finalize() != digest {
            return Err(Problem::Transfer(format!("{name} is not what was sent: its digest differs")));
        }
        draft.commit().map_err(Problem::Local)?;
        Ok(Completed { name, bytes: offset, digest })
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Transfer(reason) => f.write_str(reason),
            Problem::Local(error) => write!(f, "{error:#}"),
        }
    }
}

fn refused(reason: &str) -> Problem {
    Problem::Transfer(reason.to_owned())
}

/// What is said when the sender does not send what this receiver is for.
const STREAMS: &str = "the sender sends a live stream: receive it with --stream";
const FILES: &str = "the sender sends files: receive them without --stream";
/// Bytes hashed and written at a time: enough to be fast, little enough to stay in the cache.
const WRITE_BYTES: usize = 256 << 10;
/// From this many bytes on a message is hashed and written as it is.
const DIRECT_BYTES: usize = 16 << 10;
