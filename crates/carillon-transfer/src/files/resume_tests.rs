//! Tests of interrupted and resumed transfers, at every point of interruption.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use carillon_testkit::sampling_step;
use carillon_wire::file::{Packer, Record, RelativePath, ResumePoint, SUBTREE_BYTES};

use super::intake::{Intake, Sink};
use super::listing::Listing;
use super::names::is_part_name;
use super::resume::{KEEP_BYTES, NOTE_ENTRIES, is_journal};
use super::target::Target;
use super::tree::Tree;

const TRANSFER: [u8; 16] = [9; 16];
const PIECE: usize = 100_000;

/// The sent entries: directories, links, empty and small files, and a file of several pieces.
struct Sent {
    files: Vec<(String, Vec<u8>)>,
}

impl Sent {
    fn new() -> Sent {
        Sent::of(&[0, 10, 300_000, 1_700_000, KEEP_BYTES as usize, 5, 1_000, 0, 400_000, 2])
    }

    fn of(sizes: &[usize]) -> Sent {
        let contents = |number: usize, size: usize| {
            let mut bytes = vec![0; size];
            blake3::Hasher::new().update(&number.to_be_bytes()).finalize_xof().fill(&mut bytes);
            // Large files contain a hole.
            if size > 900_000 {
                bytes[100_000..900_000].fill(0);
            }
            bytes
        };
        let files = sizes.iter().enumerate().map(|(number, &size)| {
            let name = if number % 3 == 0 { format!("d/e/f{number}") } else { format!("d/f{number}") };
            (name, contents(number, size))
        });
        Sent { files: files.collect() }
    }

    fn bytes(&self) -> u64 {
        self.files.iter().map(|(_, bytes)| bytes.len() as u64).sum()
    }

    /// Messages with one record each from this point on: entry 0 is a directory, 1 a link, files follow.
    fn messages(&self, from: ResumePoint) -> Vec<Vec<u8>> {
        let mut messages = Vec::new();
        let mut put = |record: Record<'_>| {
            let mut message = Vec::new();
            record.emit(&mut message);
            messages.push(message);
        };
        put(Record::Offer { entries: self.files.len() as u32 + 2, bytes: Some(self.bytes()) });
        put(Record::Resume(from));
        put(Record::Directory { index: 0, mode: 0o755, modified: None, path: path("d") });
        put(Record::Link { index: 1, target: b"f1", path: path("d/link") });
        for (number, (name, bytes)) in self.files.iter().enumerate() {
            let index = number as u32 + 2;
            put(Record::File {
                index,
                size: Some(bytes.len() as u64),
                mode: 0o644,
                modified: None,
                path: path(name),
            });
            if index < from.entry {
                put(Record::Kept { index });
                continue;
            }
            let start = if index == from.entry { from.offset as usize } else { 0 };
            let mut at = start;
            let mut tree = Tree::default();
            tree.update(bytes);
            let mut ends = (1..).map(|number| number * SUBTREE_BYTES).peekable();
            loop {
                // Subtree values follow as soon as their data was sent or is known to be present.
                while let Some(end) = ends.next_if(|end| *end <= at as u64) {
                    put(Record::Subtree { index, end, value: tree.value(end).expect("it is there") });
                }
                if at == bytes.len() {
                    break;
                }
                let zeros = bytes[at..].iter().take_while(|byte| **byte == 0).count();
                let (offset, len) = (at as u64, zeros as u64);
                let chunk = &bytes[at..bytes.len().min(at + PIECE)];
                let is_hole = zeros > 1000;
                put(if is_hole {
                    Record::Hole { index, offset, len }
                } else {
                    Record::Data { index, offset, bytes: chunk }
                });
                at += if is_hole { zeros } else { chunk.len() };
            }
            put(Record::EndOfFile {
                index,
                size: bytes.len() as u64,
                digest: *blake3::hash(bytes).as_bytes(),
            });
        }
        let mut listing = Listing::default();
        messages.iter().for_each(|message| listing.add(&Record::parse(message).expect("a record")));
        let mut end = Vec::new();
        Record::End { bytes: self.bytes(), listing: listing.digest() }.emit(&mut end);
        messages.push(end);
        messages
    }

    #[track_caller]
    fn is_there(&self, out: &Path) {
        for (name, bytes) in &self.files {
            assert!(fs::read(out.join(name)).expect("it is there") == *bytes, "{name}");
        }
        assert_eq!(fs::read_link(out.join("d/link")).expect("it is there"), Path::new("f1"));
        let left = left(out);
        assert!(left.is_empty(), "{left:?}");
    }
}

fn path(path: &str) -> RelativePath<'_> {
    RelativePath::new(path).expect("it is a path")
}

/// Temporary files and journals.
fn left(directory: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for entry in fs::read_dir(directory).expect("a directory") {
        let entry = entry.expect("an entry");
        if entry.file_type().expect("its type").is_dir() {
            names.extend(left(&entry.path()));
        } else if is_part_name(entry.file_name().as_bytes()) {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    names
}

fn target(out: &Path) -> (Sink, ResumePoint) {
    let mut sink = Sink::Files(Target::directory(out, false).expect("it can be written to"));
    let reached = sink.reached(false);
    (sink, reached.unwrap_or(ResumePoint { transfer: TRANSFER, entry: 0, offset: 0 }))
}

/// Applies messages; returns the result and the number of bytes that were present.
fn take(sink: &mut Sink, messages: &[Vec<u8>]) -> (Option<Result<(), String>>, u64) {
    let mut intake = Intake::new("s".to_owned(), None, true);
    for message in messages {
        let _ = intake.take(message, sink);
    }
    (intake.result().cloned(), intake.resumed())
}

#[test]
fn transfer_resumes_from_any_interruption() {
    let sent = Sent::new();
    let start = ResumePoint { transfer: TRANSFER, entry: 0, offset: 0 };
    let all = sent.messages(start);
    let mut most = 0;
    for cut in 0..all.len() {
        let directory = tempfile::tempdir().expect("a directory");
        let out = directory.path();
        let (mut sink, reached) = target(out);
        assert_eq!(reached, start);
        assert_eq!(take(&mut sink, &all[..cut]).0, None);
        drop(sink);
        let (mut sink, reached) = target(out);
        let began = reached.entry > 0;
        let came: u64 = all[..cut].iter().map(|message| message.len() as u64).sum();
        assert!(began || came < 300, "cut at {cut}: {came} bytes came, and nothing is kept");
        let (result, resumed) = take(&mut sink, &sent.messages(reached));
        assert_eq!(result, Some(Ok(())), "cut at {cut}, from {reached:?}");
        most = most.max(resumed);
        drop(sink);
        sent.is_there(out);
    }
    assert!(most > sent.bytes() * 9 / 10, "{most} of {}", sent.bytes());
}

/// Damage or silent loss of a message resumes with the subtree in which it is found.
#[test]
fn damage_costs_one_subtree_or_one_small_file() {
    const SUBTREE: usize = SUBTREE_BYTES as usize;
    let sent = Sent::of(&[10, 2 * SUBTREE + 300_000, 7, SUBTREE, 100_000]);
    let start = ResumePoint { transfer: TRANSFER, entry: 0, offset: 0 };
    let all = sent.messages(start);
    let contents = |message: &[u8]| {
        matches!(
            Record::parse(message),
            Ok(Record::Data { .. } | Record::Hole { .. } | Record::Subtree { .. } | Record::EndOfFile { .. })
        )
    };
    let parts: Vec<usize> = (0..all.len()).filter(|&at| contents(&all[at])).collect();
    let places = parts.iter().enumerate().filter(|(number, _)| number % 9 == 0 || *number > parts.len() - 9);
    for (number, &at) in places {
        let directory = tempfile::tempdir().expect("a directory");
        let out = directory.path();
        let mut messages = all.clone();
        let message = &mut messages[at];
        match number % 3 {
            // Without subtree values the digest of the whole file detects it.
            2 if matches!(Record::parse(message), Ok(Record::Subtree { .. })) => continue,
            0 => *message.last_mut().expect("it has bytes") ^= 1,
            1 => *message = vec![0xFF; 9],
            _ => drop(messages.remove(at)),
        }
        let (mut sink, _) = target(out);
        let mut intake = Intake::new("s".to_owned(), None, true);
        let mut came = 0;
        for message in &messages {
            came += if intake.result().is_none() { message.len() } else { 0 };
            let _ = intake.take(message, &mut sink);
        }
        assert!(
            intake.is_damaged() && matches!(intake.result(), Some(Err(_))),
            "{at}: {:?}",
            intake.result()
        );
        drop((intake, sink));
        let (mut sink, reached) = target(out);
        let (result, resumed) = take(&mut sink, &sent.messages(reached));
        assert_eq!(result, Some(Ok(())), "{at}, from {reached:?}");
        let again = came as u64 - resumed.min(came as u64);
        assert!(again < SUBTREE_BYTES + 2 * PIECE as u64, "{at}: {again} bytes again of {came}, {reached:?}");
        drop(sink);
        sent.is_there(out);
    }
}

#[test]
fn resent_small_files_are_at_most_one_journal_interval() {
    let sent = Sent::of(&[10; 200]);
    let all = sent.messages(ResumePoint { transfer: TRANSFER, entry: 0, offset: 0 });
    // Existing files count as older where files are replaced.
    for (cut, replaced) in
        (0..all.len()).step_by(17 * sampling_step(3)).flat_map(|cut| [(cut, false), (cut, true)])
    {
        let directory = tempfile::tempdir().expect("a directory");
        let out = directory.path();
        fs::create_dir_all(out.join("d/e")).expect("a directory");
        for (name, _) in sent.files.iter().filter(|_| replaced) {
            fs::write(out.join(name), [7; 10]).expect("written");
        }
        let target = || Sink::Files(Target::directory(out, replaced).expect("it can be written to"));
        let mut sink = target();
        take(&mut sink, &all[..cut]);
        drop(sink);
        // Three messages per file, after those of the beginning.
        let complete = (cut.saturating_sub(4) / 3) as u32 + 2;
        let mut sink = target();
        let reached = sink.reached(false).unwrap_or(ResumePoint { transfer: TRANSFER, entry: 0, offset: 0 });
        assert!(complete < reached.entry + NOTE_ENTRIES + 3, "{complete} were complete, noted {reached:?}");
        let (result, _) = take(&mut sink, &sent.messages(reached));
        assert_eq!(result, Some(Ok(())), "cut at {cut}, from {reached:?}");
        drop(sink);
        sent.is_there(out);
    }
}

#[test]
fn complete_large_file_is_not_sent_again() {
    let size = 2 * KEEP_BYTES as usize;
    let sent = Sent::of(&[size, 10]);
    let all = sent.messages(ResumePoint { transfer: TRANSFER, entry: 0, offset: 0 });
    let directory = tempfile::tempdir().expect("a directory");
    let (mut sink, _) = target(directory.path());
    // All but the other file's, which are three, and the end.
    take(&mut sink, &all[..all.len() - 4]);
    drop(sink);
    let (mut sink, reached) = target(directory.path());
    assert_eq!((reached.entry, reached.offset), (3, 0));
    assert_eq!(take(&mut sink, &sent.messages(reached)), (Some(Ok(())), size as u64));
    drop(sink);
    sent.is_there(directory.path());
}

#[test]
fn renamed_file_without_journal_entry_is_recognized() {
    let sent = Sent::new();
    let start = ResumePoint { transfer: TRANSFER, entry: 0, offset: 0 };
    let all = sent.messages(start);
    for is_whole in [true, false] {
        let directory = tempfile::tempdir().expect("a directory");
        let out = directory.path();
        let (mut sink, _) = target(out);
        take(&mut sink, &all[..all.len() * 6 / 10]);
        drop(sink);
        let (_, reached) = target(out);
        let (name, bytes) = &sent.files[reached.entry as usize - 2];
        let above = out.join(name).parent().expect("it has one").to_owned();
        let part = left(&above).into_iter().find(|name| !is_journal(name.as_bytes())).expect("it is there");
        fs::rename(above.join(part), out.join(name)).expect("it gets its name");
        let mut content = bytes.clone();
        content[17] ^= u8::from(!is_whole);
        fs::write(out.join(name), content).expect("it is complete");
        let (mut sink, again) = target(out);
        assert_eq!(again, ResumePoint { offset: 0, ..reached });
        let (result, _) = take(&mut sink, &sent.messages(again));
        drop(sink);
        match is_whole {
            true => assert_eq!(result, Some(Ok(()))),
            false => assert!(
                matches!(&result, Some(Err(text)) if text.contains("differs from the sender's file")),
                "{result:?}"
            ),
        }
        assert_eq!(left(out), [""; 0]);
    }
}

#[test]
fn receiver_ahead_of_the_resume_point_accepts_repeats() {
    let sent = Sent::new();
    let start = ResumePoint { transfer: TRANSFER, entry: 0, offset: 0 };
    let all = sent.messages(start);
    let cuts: Vec<usize> = (0..all.len()).rev().step_by(3).collect();
    for (number, &cut) in cuts.iter().enumerate() {
        let directory = tempfile::tempdir().expect("a directory");
        let (mut sink, _) = target(directory.path());
        take(&mut sink, &all[..cut]);
        drop(sink);
        let (mut sink, reached) = target(directory.path());
        if reached.entry == 0 {
            break;
        }
        // The other receiver is behind: at the start, in the middle of a file, or at an earlier entry.
        let from = match number % 3 {
            0 => start,
            1 => ResumePoint { entry: reached.entry - 1, offset: 0, ..reached },
            _ => ResumePoint { offset: reached.offset / 2, ..reached },
        };
        assert_eq!(take(&mut sink, &sent.messages(from)).0, Some(Ok(())), "cut at {cut}, from {from:?}");
        drop(sink);
        sent.is_there(directory.path());
    }
}

#[test]
fn repeated_interruptions_resume_every_time() {
    let sent = Sent::new();
    let directory = tempfile::tempdir().expect("a directory");
    let mut came = 2;
    for _ in 0..100 {
        let (mut sink, reached) = target(directory.path());
        let (result, _) = take(&mut sink, sent.messages(reached).split_at(came).0);
        drop(sink);
        if let Some(result) = result {
            assert_eq!(result, Ok(()));
            return sent.is_there(directory.path());
        }
        came = (came + 1).min(sent.messages(target(directory.path()).1).len());
    }
    panic!("it does not get on");
}

#[test]
fn other_transfer_removes_leftovers() {
    let sent = Sent::new();
    let directory = tempfile::tempdir().expect("a directory");
    let (mut sink, reached) = target(directory.path());
    let all = sent.messages(reached);
    take(&mut sink, &all[..all.len() / 2]);
    drop(sink);
    assert!(!left(directory.path()).is_empty());
    let (mut sink, _) = target(directory.path());
    let mut packer = Packer::new(1000);
    let other = ResumePoint { transfer: [8; 16], entry: 0, offset: 0 };
    let end = Record::End { bytes: 0, listing: Listing::default().digest() };
    let records = [Record::Offer { entries: 0, bytes: Some(0) }, Record::Resume(other), end];
    records.iter().for_each(|record| packer.push(record));
    assert_eq!(take(&mut sink, &[packer.take().to_vec()]).0, Some(Ok(())));
    drop(sink);
    assert_eq!(left(directory.path()), [""; 0]);
}

#[test]
fn tampering_restarts_the_transfer() {
    let sent = Sent::new();
    let start = ResumePoint { transfer: TRANSFER, entry: 0, offset: 0 };
    let all = sent.messages(start);
    // In the middle of the fifth file.
    let cut = all.len() * 6 / 10;
    for meddle in 0..4 {
        let directory = tempfile::tempdir().expect("a directory");
        let out = directory.path();
        let (mut sink, _) = target(out);
        take(&mut sink, &all[..cut]);
        drop(sink);
        let (mut sink, reached) = target(out);
        assert!(reached.entry > 4 && reached.offset > 0, "{reached:?}");
        let part = fs::read_dir(out.join("d")).unwrap().map(|entry| entry.unwrap().path());
        let mut part = part.chain(fs::read_dir(out.join("d/e")).unwrap().map(|entry| entry.unwrap().path()));
        let part = part.find(|path| is_part_name(path.file_name().unwrap().as_bytes())).unwrap();
        let words = match meddle {
            0 => {
                let mut bytes = fs::read(&part).unwrap();
                bytes[7] ^= 1;
                fs::write(&part, bytes).unwrap();
                "its digest is wrong"
            }
            1 => {
                fs::remove_file(&part).unwrap();
                "removed since: try again"
            }
            2 => {
                fs::remove_file(out.join("d/f1")).unwrap();
                "d/f1 was received earlier and has been removed since: try again"
            }
            _ => {
                fs::write(out.join("d/f2"), [0; 300_000]).unwrap();
                "d/f2 exists and differs from the sender's file: remove it and try again"
            }
        };
        // Damage of the last file is noticed only when it is sent again.
        let from = if meddle == 3 { start } else { reached };
        let (result, _) = take(&mut sink, &sent.messages(from));
        assert!(matches!(&result, Some(Err(reason)) if reason.contains(words)), "{result:?}");
        drop(sink);
        if meddle == 0 {
            // Earlier files are unchanged.
            let (mut sink, reached) = target(out);
            assert!(reached.entry > 4 && reached.offset == 0, "{reached:?}");
            assert_eq!(take(&mut sink, &sent.messages(reached)).0, Some(Ok(())));
            drop(sink);
            sent.is_there(out);
        }
        assert_eq!(left(out), [""; 0], "{meddle}");
    }
}

#[test]
fn resume_point_beyond_the_receiver_is_refused() {
    let sent = Sent::new();
    let directory = tempfile::tempdir().expect("a directory");
    let (mut sink, _) = target(directory.path());
    for (entry, offset) in [(1, 0), (0, 1), (u32::MAX, u64::MAX)] {
        let from = ResumePoint { transfer: TRANSFER, entry, offset };
        let messages = &sent.messages(ResumePoint { entry: 0, offset: 0, ..from })[..1];
        let mut resume = Vec::new();
        Record::Resume(from).emit(&mut resume);
        let (result, _) = take(&mut sink, &[messages[0].clone(), resume]);
        assert!(matches!(&result, Some(Err(reason)) if reason.contains("has not reached")), "{result:?}");
    }
}

#[test]
fn unsigned_progress_is_ignored_when_signing_is_required() {
    let sent = Sent::new();
    let directory = tempfile::tempdir().expect("a directory");
    let (mut sink, reached) = target(directory.path());
    let all = sent.messages(reached);
    take(&mut sink, &all[..all.len() / 2]);
    drop(sink);
    let mut sink = Sink::Files(Target::directory(directory.path(), false).expect("it can be written to"));
    assert_eq!(sink.reached(true), None);
    drop(sink);
    assert_eq!(left(directory.path()), [""; 0]);
}
