//! The receiving application: messages in, verified files out.

use std::fmt;

use carillon_core::{Application, Receiver as _, Time};
use carillon_proto::session::ReceiverSession;
use carillon_wire::file::{Record, RelativePath};

use super::Target;
use super::target::Draft;

/// Writes what the records say, and holds them to what they say: every byte in its place, every
/// digest equal. Reports the result to the session once.
#[derive(Debug)]
pub struct Incoming {
    target: Target,
    stage: Stage,
    announced: Option<(u32, Option<u64>)>,
    /// Bytes of the files completed, and how many they are.
    bytes: u64,
    files: u32,
    completed: Vec<Completed>,
    started: Option<Time>,
    ended: Option<Time>,
    result: Option<Result<(), Problem>>,
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
    /// Waits for OFFER.
    Offer,
    /// Waits for FILE or END.
    Between,
    /// Waits for DATA or END_OF_FILE.
    Contents(Box<Open>),
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

impl Incoming {
    /// Will write one transfer there.
    pub fn new(target: Target) -> Self {
        Incoming {
            target,
            stage: Stage::Offer,
            announced: None,
            bytes: 0,
            files: 0,
            completed: Vec::new(),
            started: None,
            ended: None,
            result: None,
        }
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

    /// Takes the files completed since the last call.
    pub fn take_completed(&mut self) -> Vec<Completed> {
        std::mem::take(&mut self.completed)
    }

    /// From the first record to the last.
    pub fn seconds(&self) -> f64 {
        match (self.started, self.ended) {
            (Some(started), Some(ended)) => ended.since(started).as_secs_f64(),
            _ => 0.0,
        }
    }

    /// Whether files were completed since they were last taken.
    pub fn has_completed(&self) -> bool {
        !self.completed.is_empty()
    }

    /// How the transfer ended, once it has.
    pub fn take_result(&mut self) -> Option<Result<(), Problem>> {
        self.result.take()
    }

    /// The target, for the next transfer.
    pub fn into_target(self) -> Target {
        self.target
    }

    fn on_message(&mut self, message: &[u8]) -> Result<bool, Problem> {
        let record = Record::parse(message)
            .map_err(|error| Problem::Transfer(format!("a message is not of a file transfer: {error}")))?;
        match (std::mem::replace(&mut self.stage, Stage::Over), record) {
            (Stage::Offer, Record::Offer { files, bytes }) => {
                self.announced = Some((files, bytes));
                self.stage = Stage::Between;
            }
            (Stage::Between, Record::File { index, size, mode, path }) => {
                self.expect_index(index, self.files)?;
                self.stage = Stage::Contents(Box::new(self.open(path, size, mode)?));
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

    fn open(&self, path: RelativePath<'_>, size: Option<u64>, mode: u32) -> Result<Open, Problem> {
        let draft = self.target.begin(&path, mode).map_err(Problem::Local)?;
        Ok(Open {
            draft,
            name: path.to_string(),
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

impl Application<ReceiverSession> for Incoming {
    fn poll(&mut self, now: Time, session: &mut ReceiverSession) -> bool {
        if self.result.is_some() {
            return false;
        }
        for taken in 0..POLL_MESSAGES {
            let Some(delivery) = session.poll_delivery() else { return taken > 0 };
            self.started.get_or_insert(now);
            let result = match self.on_message(&delivery.payload) {
                Ok(false) => {
                    session.progress(self.bytes());
                    continue;
                }
                Ok(true) => Ok(()),
                Err(problem) => Err(problem),
            };
            self.stage = Stage::Over;
            self.ended = Some(now);
            session.report(now, self.bytes, result.as_ref().map(|_| ()).map_err(ToString::to_string));
            self.result = Some(result);
            return true;
        }
        true
    }

    fn poll_timeout(&self) -> Option<Time> {
        None
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

/// Bytes hashed and written at a time: enough to be fast, little enough to stay in the cache.
const WRITE_BYTES: usize = 256 << 10;
/// From this many bytes on a message is hashed and written as it is.
const DIRECT_BYTES: usize = 16 << 10;
/// Messages taken in one turn, so that the network is heard between writes.
const POLL_MESSAGES: usize = 64;
