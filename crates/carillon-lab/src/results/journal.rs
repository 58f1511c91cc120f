//! Journal of a sweep: the completed runs, in a file of the result folder. Memory only holds their positions in it.
//!
//! A record is appended when its run ends, in any order of runs. When the journal is opened again, a truncated record
//! at the end (of a process that was killed) is cut off. The sweep then resumes with the complete records.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use carillon_core::{NodeId, Time};

use crate::metrics::{METRICS, MessageRecord};
use crate::run::RunResult;

/// The file.
#[derive(Debug)]
pub(super) struct Journal {
    /// Path of the file, unless it is a temporary one without a name.
    path: Option<PathBuf>,
    file: File,
    end: u64,
    runs: Vec<Option<Entry>>,
    /// Metrics beside the registered ones, which follow them in numbering.
    own_metrics: &'static [&'static str],
}

/// Index entry of a completed run.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub steps: u64,
    pub wall: Duration,
    messages: JournalRange,
    /// The samples of each metric.
    pub metrics: Vec<(&'static str, JournalRange)>,
    /// The nodes of samples, for some metrics.
    nodes: Vec<(&'static str, JournalRange)>,
}

impl Entry {
    /// Nodes of the samples of a metric, if the run names them.
    pub fn nodes(&self, metric: &str) -> Option<JournalRange> {
        self.nodes.iter().find_map(|(of, range)| (*of == metric).then_some(*range))
    }
}

/// Range of the journal: an offset and a number of items. A sample has 8 bytes, and so has a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct JournalRange {
    at: u64,
    pub count: u64,
}

impl JournalRange {
    /// Splits the range into pieces of at most `most` items.
    pub fn pieces(self, most: u64) -> impl Iterator<Item = JournalRange> {
        let starts = (0..self.count).step_by(usize::try_from(most).unwrap_or(usize::MAX));
        starts.map(move |from| JournalRange { at: self.at + 8 * from, count: most.min(self.count - from) })
    }
}

impl Journal {
    /// Creates an empty journal for `runs` runs of the sweep with this digest.
    pub fn create(
        path: &Path,
        digest: &[u8; 32],
        runs: usize,
        own_metrics: &'static [&'static str],
    ) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let mut file = options.read(true).write(true).create(true).truncate(false).open(path)?;
        lock(&file)?;
        file.set_len(0)?;
        file.write_all(digest)?;
        Ok(Journal {
            path: Some(path.into()),
            file,
            end: digest.len() as u64,
            runs: vec![None; runs],
            own_metrics,
        })
    }

    /// Creates an empty journal for `runs` runs in a file without a name in this folder, which goes with the process.
    pub fn temporary(dir: &Path, runs: usize) -> io::Result<Self> {
        let file = tempfile::tempfile_in(dir)?;
        Ok(Journal { path: None, file, end: 0, runs: vec![None; runs], own_metrics: &[] })
    }

    /// Opens the journal of an earlier process; `None` if it belongs to a different sweep.
    pub fn resume(
        path: &Path,
        digest: &[u8; 32],
        runs: usize,
        own_metrics: &'static [&'static str],
    ) -> io::Result<Option<Self>> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        lock(&file)?;
        let length = file.metadata()?.len();
        let mut reader = BufReader::new(&file);
        let mut found = [0; 32];
        if length < found.len() as u64 {
            return Ok(None);
        }
        reader.read_exact(&mut found)?;
        if found != *digest {
            return Ok(None);
        }
        let mut journal = Journal {
            path: Some(path.into()),
            file: file.try_clone()?,
            end: found.len() as u64,
            runs: vec![None; runs],
            own_metrics,
        };
        while let Some((run, entry, end)) = record(&mut reader, journal.end, length, own_metrics)? {
            if let Some(place) = journal.runs.get_mut(run) {
                *place = Some(entry);
            }
            journal.end = end;
        }
        journal.file.set_len(journal.end)?;
        Ok(Some(journal))
    }

    /// Appends a run.
    pub fn append(&mut self, run: usize, result: &RunResult, with_messages: bool) -> io::Result<()> {
        let messages = if with_messages { &result.messages[..] } else { &[] };
        let samples: usize = result.samples.iter().map(|(_, values)| 16 + 8 * values.len()).sum();
        let nodes: usize = result.nodes.iter().map(|(_, nodes)| 16 + 8 * nodes.len()).sum();
        let length =
            (ENTRY_HEADER_BYTES - 8 + messages.len() * MESSAGE_RECORD_BYTES + samples + nodes) as u64;
        self.file.seek(SeekFrom::Start(self.end))?;
        // Where the next part begins.
        let mut at = self.end + ENTRY_HEADER_BYTES as u64;
        let mut range = |count: usize, head: u64, size: usize| {
            let range = JournalRange { at: at + head, count: count as u64 };
            at = range.at + (count * size) as u64;
            range
        };
        let mut entry = Entry {
            steps: result.steps,
            wall: result.wall,
            messages: range(messages.len(), 0, MESSAGE_RECORD_BYTES),
            metrics: Vec::with_capacity(result.samples.len()),
            nodes: Vec::new(),
        };
        // There may be ten million samples: they are not copied.
        let mut out = BufWriter::new(&self.file);
        let mut put = |number: u64| out.write_all(&number.to_le_bytes());
        put(length)?;
        let numbers = [
            run as u64,
            result.steps,
            u64::try_from(result.wall.as_nanos()).unwrap_or(u64::MAX),
            messages.len() as u64,
            result.samples.len() as u64,
            result.nodes.len() as u64,
        ];
        numbers.into_iter().try_for_each(&mut put)?;
        for message in messages {
            let MessageRecord { source, start, end, window, retransmissions, failed, collisions } = message;
            for number in [
                source.0.into(),
                start.as_nanos(),
                end.as_nanos(),
                u64::from(*window) << 32 | u64::from(*retransmissions),
                u64::from(*failed),
                collisions.to_bits(),
            ] {
                put(number)?;
            }
        }
        let number_of = |metric: &str| {
            let known = metric_names(self.own_metrics).position(|known| known == metric);
            known.expect("samples are of registered metrics") as u64
        };
        for (metric, values) in &result.samples {
            put(number_of(metric))?;
            put(values.len() as u64)?;
            values.iter().try_for_each(|value| put(value.to_bits()))?;
            entry.metrics.push((metric, range(values.len(), 16, 8)));
        }
        for (metric, nodes) in &result.nodes {
            put(number_of(metric))?;
            put(nodes.len() as u64)?;
            nodes.iter().try_for_each(|node| put(node.0.into()))?;
            entry.nodes.push((metric, range(nodes.len(), 16, 8)));
        }
        out.flush()?;
        drop(out);
        self.runs[run] = Some(entry);
        self.end += 8 + length;
        Ok(())
    }

    /// A run that is done.
    pub fn run(&self, run: usize) -> Option<&Entry> {
        self.runs[run].as_ref()
    }

    /// Number of completed runs.
    pub fn done(&self) -> usize {
        self.runs.iter().flatten().count()
    }

    /// The real time that the runs took.
    pub fn wall(&self) -> Duration {
        self.runs.iter().flatten().map(|entry| entry.wall).sum()
    }

    /// Steps of all runs that are done.
    pub fn steps(&self) -> u64 {
        self.runs.iter().flatten().map(|entry| entry.steps).sum()
    }

    /// Results of a run that is done, without its messages, as a run of point 0.
    pub fn result(&mut self, run: usize) -> io::Result<Option<RunResult>> {
        let Some(Entry { steps, wall, metrics, nodes, .. }) = self.run(run).cloned() else { return Ok(None) };
        let mut result = RunResult {
            point: 0,
            replication: 0,
            messages: Vec::new(),
            samples: Vec::new(),
            nodes: Vec::new(),
            steps,
            wall,
        };
        for (metric, range) in metrics {
            let mut samples = Vec::new();
            self.read(range, &mut samples)?;
            result.samples.push((metric, samples));
        }
        for (metric, range) in nodes {
            let mut nodes = Vec::new();
            self.read_nodes(range, &mut nodes)?;
            result.nodes.push((metric, nodes));
        }
        Ok(Some(result))
    }

    /// Reads the samples of a range and appends them to a buffer.
    pub fn read(&mut self, part: JournalRange, into: &mut Vec<f64>) -> io::Result<()> {
        self.read_numbers(part, into, f64::from_bits)
    }

    /// Reads the nodes of a range and appends them to a buffer.
    pub fn read_nodes(&mut self, part: JournalRange, into: &mut Vec<NodeId>) -> io::Result<()> {
        self.read_numbers(part, into, |number| NodeId(number as u32))
    }

    fn read_numbers<T>(
        &mut self,
        part: JournalRange,
        into: &mut Vec<T>,
        convert: impl Fn(u64) -> T,
    ) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(part.at))?;
        let mut reader = BufReader::with_capacity(1 << 16, &self.file);
        let count = usize::try_from(part.count).map_err(io::Error::other)?;
        into.reserve(count);
        for _ in 0..count {
            into.push(convert(number(&mut reader)?));
        }
        Ok(())
    }

    /// The messages of a run that is done.
    pub fn messages(&mut self, run: usize) -> io::Result<Vec<MessageRecord>> {
        let Some(part) = self.run(run).map(|entry| entry.messages) else { return Ok(Vec::new()) };
        self.file.seek(SeekFrom::Start(part.at))?;
        let mut reader = BufReader::new(&self.file);
        (0..part.count).map(|_| message(&mut reader)).collect()
    }

    /// Removes the file.
    pub fn remove(self) -> io::Result<()> {
        drop(self.file);
        self.path.map_or(Ok(()), std::fs::remove_file)
    }
}

/// Keeps other processes out of the folder for as long as the file is open. Where files cannot be locked nothing is
/// kept out.
fn lock(file: &File) -> io::Result<()> {
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => Err(io::Error::new(
            io::ErrorKind::WouldBlock,
            "another process is running a sweep in this folder",
        )),
        Ok(()) | Err(TryLockError::Error(_)) => Ok(()),
    }
}

/// The next record: which run, where its parts are, and where it ends; `None` if the file ends before.
fn record(
    reader: &mut impl Read,
    at: u64,
    file_end: u64,
    own_metrics: &'static [&'static str],
) -> io::Result<Option<(usize, Entry, u64)>> {
    if file_end - at < ENTRY_HEADER_BYTES as u64 {
        return Ok(None);
    }
    let end = number(reader)?.checked_add(at + 8).filter(|end| *end <= file_end);
    let Some(end) = end else { return Ok(None) };
    let run = usize::try_from(number(reader)?).map_err(|_| wrong())?;
    let (steps, wall) = (number(reader)?, Duration::from_nanos(number(reader)?));
    let (messages, metrics, nodes) = (number(reader)?, number(reader)?, number(reader)?);
    let mut at = at + ENTRY_HEADER_BYTES as u64;
    let messages = part(reader, &mut at, messages, MESSAGE_RECORD_BYTES as u64, end)?;
    let mut named_parts = |count: u64| {
        let mut parts = Vec::new();
        for _ in 0..count {
            if end - at < 16 {
                return Err(wrong());
            }
            let (metric, count) = (number(reader)?, number(reader)?);
            at += 16;
            let metric = usize::try_from(metric)
                .ok()
                .and_then(|at| metric_names(own_metrics).nth(at))
                .ok_or_else(wrong)?;
            parts.push((metric, part(reader, &mut at, count, 8, end)?));
        }
        Ok(parts)
    };
    let (metrics, nodes) = (named_parts(metrics)?, named_parts(nodes)?);
    Ok(Some((run, Entry { steps, wall, messages, metrics, nodes }, end)))
}

/// Names of the registered metrics and of the sweep's own ones, in the order of their numbers.
fn metric_names(own: &'static [&'static str]) -> impl Iterator<Item = &'static str> {
    METRICS.iter().map(|metric| metric.name).chain(own.iter().copied())
}

/// Skips `count` items of a size and returns their range.
fn part(reader: &mut impl Read, at: &mut u64, count: u64, size: u64, end: u64) -> io::Result<JournalRange> {
    let part = JournalRange { at: *at, count };
    let bytes = count.checked_mul(size).filter(|bytes| *bytes <= end - *at).ok_or_else(wrong)?;
    io::copy(&mut reader.by_ref().take(bytes), &mut io::sink())?;
    *at += bytes;
    Ok(part)
}

fn wrong() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the journal of the sweep is damaged")
}

fn number(reader: &mut impl Read) -> io::Result<u64> {
    let mut bytes = [0; 8];
    reader.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

fn message(reader: &mut impl Read) -> io::Result<MessageRecord> {
    let source = NodeId(number(reader)? as u32);
    let (start, end) = (Time::from_nanos(number(reader)?), Time::from_nanos(number(reader)?));
    let counts = number(reader)?;
    let (window, retransmissions) = ((counts >> 32) as u32, counts as u32);
    let (failed, collisions) = (number(reader)? != 0, f64::from_bits(number(reader)?));
    Ok(MessageRecord { source, start, end, window, retransmissions, failed, collisions })
}

/// Bytes before the messages of a record: its length, then run, steps, time, and the numbers of messages, metrics and
/// metrics with nodes.
const ENTRY_HEADER_BYTES: usize = 7 * 8;

/// Bytes of a message.
const MESSAGE_RECORD_BYTES: usize = 6 * 8;

/// Name of the journal: runs that are done, until all are.
pub(super) const JOURNAL_FILE: &str = "runs.partial";
