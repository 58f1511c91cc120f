//! Samples in order, however many there are: what does not fit a bounded piece of memory is sorted on disk.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::Path;

use super::journal::{Journal, JournalRange};
use crate::statistics::Summary;

/// Summarises the samples of the journal exactly, in bounded memory, by an external merge sort (Knuth, volume 3,
/// section 5.4).
pub(super) fn summary(journal: &mut Journal, parts: &[JournalRange], scratch: &Path) -> io::Result<Summary> {
    summary_within(journal, parts, scratch, MAX_SAMPLES_IN_MEMORY)
}

fn summary_within(
    journal: &mut Journal,
    parts: &[JournalRange],
    scratch: &Path,
    in_memory: usize,
) -> io::Result<Summary> {
    let total: u64 = parts.iter().map(|part| part.count).sum();
    let mut buffer = Vec::new();
    if total <= in_memory as u64 {
        for part in parts {
            journal.read(*part, &mut buffer)?;
        }
        return Ok(Summary::of(&mut buffer));
    }
    let file = File::options().read(true).write(true).create(true).truncate(true).open(scratch)?;
    let mut out = BufWriter::new(&file);
    let mut chunks = Vec::new();
    for part in parts {
        // A run may have ten million samples of a metric.
        for piece in part.pieces(in_memory as u64) {
            journal.read(piece, &mut buffer)?;
            if buffer.len() >= in_memory {
                chunks.push(spill(&mut buffer, &mut out)?);
            }
        }
    }
    chunks.push(spill(&mut buffer, &mut out)?);
    out.flush()?;
    drop(out);
    let failure = RefCell::new(None);
    let merged = || Merge::new(scratch, &chunks, &failure);
    let summary = Summary::of_sorted(chunks.iter().sum(), merged);
    std::fs::remove_file(scratch)?;
    match failure.into_inner() {
        None => Ok(summary),
        Some(error) => Err(error),
    }
}

/// Sorts the buffer, writes it as one run of the merge sort, and returns its number of samples; missing samples are
/// skipped.
fn spill(buffer: &mut Vec<f64>, out: &mut impl Write) -> io::Result<u64> {
    buffer.retain(|sample| !sample.is_nan());
    buffer.sort_unstable_by(f64::total_cmp);
    for sample in buffer.iter() {
        out.write_all(&sample.to_le_bytes())?;
    }
    let count = buffer.len() as u64;
    buffer.clear();
    Ok(count)
}

/// Sorted chunks of a file as one. An error ends it and is left in `failure`.
struct Merge<'a> {
    readers: Vec<(BufReader<File>, u64)>,
    /// The next sample of each chunk, least first.
    heads: BinaryHeap<Reverse<(TotalOrderF64, usize)>>,
    failure: &'a RefCell<Option<io::Error>>,
}

/// A sample by the total order of numbers.
#[derive(PartialEq, Clone, Copy)]
struct TotalOrderF64(f64);

impl Eq for TotalOrderF64 {}

impl PartialOrd for TotalOrderF64 {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for TotalOrderF64 {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl<'a> Merge<'a> {
    fn new(path: &Path, chunks: &[u64], failure: &'a RefCell<Option<io::Error>>) -> Self {
        let mut merge = Merge { readers: Vec::new(), heads: BinaryHeap::new(), failure };
        let mut at = 0;
        for &count in chunks {
            let open = || {
                let mut file = File::open(path)?;
                file.seek(SeekFrom::Start(8 * at))?;
                Ok(BufReader::with_capacity(1 << 16, file))
            };
            match open() {
                Ok(reader) => merge.readers.push((reader, count)),
                Err(error) => *failure.borrow_mut() = Some(error),
            }
            at += count;
        }
        (0..merge.readers.len()).for_each(|chunk| merge.advance(chunk));
        merge
    }

    fn advance(&mut self, chunk: usize) {
        let (reader, left) = &mut self.readers[chunk];
        if *left == 0 {
            return;
        }
        *left -= 1;
        let mut bytes = [0; 8];
        match reader.read_exact(&mut bytes) {
            Ok(()) => self.heads.push(Reverse((TotalOrderF64(f64::from_le_bytes(bytes)), chunk))),
            Err(error) => *self.failure.borrow_mut() = Some(error),
        }
    }
}

impl Iterator for Merge<'_> {
    type Item = f64;

    fn next(&mut self) -> Option<f64> {
        let Reverse((TotalOrderF64(sample), chunk)) = self.heads.pop()?;
        self.advance(chunk);
        Some(sample)
    }
}

/// Samples that are sorted in memory at a time: 16 MiB, and as many again of a run with which they become more.
pub(super) const MAX_SAMPLES_IN_MEMORY: usize = 1 << 21;

/// Name of the file of samples that are being sorted.
pub(super) const SORT_SCRATCH_DIR: &str = "sort.partial";

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::run::RunResult;

    #[test]
    fn sorting_on_disk_gives_the_same_summary_bits() {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = Journal::create(&dir.path().join("journal"), &[7; 32], 40, &[]).unwrap();
        let mut state = 1_u64;
        let mut samples = Vec::new();
        for run in 0..40 {
            let mut values = Vec::new();
            for _ in 0..run * 5 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let value = (state >> 40) as f64 * 1e-3;
                values.push(if state >> 60 == 3 { f64::NAN } else { value });
            }
            samples.extend(values.clone());
            let result = RunResult {
                point: 0,
                replication: run,
                messages: Vec::new(),
                samples: vec![("losses", values)],
                nodes: Vec::new(),
                steps: 0,
                wall: Duration::ZERO,
            };
            journal.append(run as usize, &result, false).unwrap();
        }
        let parts: Vec<JournalRange> = (0..40).map(|run| journal.run(run).unwrap().metrics[0].1).collect();
        let expected = format!("{:?}", Summary::of(&mut samples));
        for in_memory in [1, 17, 400, 1 << 20] {
            let summary =
                summary_within(&mut journal, &parts, &dir.path().join("scratch"), in_memory).unwrap();
            assert_eq!(format!("{summary:?}"), expected, "{in_memory} in memory");
        }
    }
}
