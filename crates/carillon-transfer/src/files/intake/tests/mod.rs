//! Tests of received records, including hostile ones.

mod holes;
mod streams;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use carillon_wire::file::{HOLE_MAX, Packer, Record, RelativePath, WithdrawReason};

use super::super::listing::Listing;
use super::super::names::is_part_name;
use super::super::target::Target;
use super::{Intake, Sink};

/// A directory to receive into, and one beside it that must not change.
struct Place {
    directory: tempfile::TempDir,
    sink: Sink,
    intake: Intake,
}

impl Place {
    fn new(overwrite: bool) -> Place {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("outside")).unwrap();
        let target = Target::directory(&directory.path().join("out"), overwrite).unwrap();
        Place { directory, sink: Sink::Files(target), intake: Intake::new("s".to_owned(), None, true) }
    }

    fn out(&self, name: &str) -> std::path::PathBuf {
        self.directory.path().join("out").join(name)
    }

    fn outside(&self) -> usize {
        fs::read_dir(self.directory.path().join("outside")).unwrap().count()
    }

    /// Applies each record as a message; returns the result, if it has ended.
    fn take(&mut self, records: &[Record<'_>]) -> Option<Result<(), String>> {
        for record in records {
            let mut message = Vec::new();
            record.emit(&mut message);
            // A local error is part of the result too.
            let _ = self.intake.take(&message, &mut self.sink);
        }
        self.intake.result().cloned()
    }

    /// Applies records and expects a failure with these words.
    #[track_caller]
    fn refuses(&mut self, records: &[Record<'_>], words: &str) {
        let result = self.take(records);
        assert!(matches!(&result, Some(Err(reason)) if reason.contains(words)), "{result:?}");
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(self.out(""))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

fn path(path: &str) -> RelativePath<'_> {
    RelativePath::new(path).unwrap()
}

fn offer(entries: u32) -> Record<'static> {
    Record::Offer { entries, bytes: None }
}

fn file(index: u32, name: &str, size: Option<u64>) -> Record<'_> {
    Record::File { index, size, mode: 0o644, modified: None, path: path(name) }
}

fn link<'a>(index: u32, name: &'a str, target: &'a str) -> Record<'a> {
    Record::Link { index, target: target.as_bytes(), path: path(name) }
}

fn data(index: u32, offset: u64, bytes: &[u8]) -> Record<'_> {
    Record::Data { index, offset, bytes }
}

/// The END record of a transfer of this size with these entries.
fn end(bytes: u64, records: &[Record<'_>]) -> Record<'static> {
    let mut listing = Listing::default();
    records.iter().for_each(|record| listing.add(record));
    Record::End { bytes, listing: listing.digest() }
}

/// These records with the END record.
fn whole<'a>(bytes: u64, records: &[Record<'a>]) -> Vec<Record<'a>> {
    [records, &[end(bytes, records)]].concat()
}

fn end_of_file(index: u32, bytes: &[u8]) -> Record<'static> {
    Record::EndOfFile { index, size: bytes.len() as u64, digest: *blake3::hash(bytes).as_bytes() }
}

#[test]
fn withdrawn_file_is_discarded_and_others_are_kept() {
    for size in [Some(3), None] {
        let mut place = Place::new(false);
        let records = [
            offer(3),
            file(0, "a", size),
            data(0, 0, b"abc"),
            end_of_file(0, b"abc"),
            file(1, "b", size),
            data(1, 0, b"ab"),
            Record::Withdraw { index: 1, reason: WithdrawReason::Changed },
            file(2, "c", size),
            data(2, 0, b"abc"),
            end_of_file(2, b"abc"),
        ];
        assert_eq!(place.take(&records), None);
        assert_eq!(place.names(), ["a", "c"]);
        place.refuses(&[end(8, &records)], "not delivered: b changed while it was sent");
        assert_eq!(place.intake.files(), 2);
        assert_eq!(place.intake.take_completed().len(), 2);
    }
}

/// Every changed field of an entry is detected at the end.
#[test]
fn reported_entries_match_the_sent_ones() {
    let with = |time, mode, name, target| {
        let records = [
            offer(3),
            Record::Directory { index: 0, mode, modified: Some(time), path: path("d") },
            Record::File { index: 1, size: None, mode, modified: Some(time), path: path(name) },
            data(1, 0, b"abc"),
            end_of_file(1, b"abc"),
            link(2, "l", target),
        ];
        whole(3, &records)
    };
    let sent = with(7, 0o644, "d/f", "d/f");
    assert_eq!(Place::new(false).take(&sent), Some(Ok(())));
    let others = [with(8, 0o644, "d/f", "d/f"), with(7, 0o645, "d/f", "d/f"), with(7, 0o644, "d/g", "d/f")];
    for (came, at) in
        others.iter().flat_map(|other| [(other, 1), (other, 2)]).chain([(&with(7, 0o644, "d/f", "d"), 5)])
    {
        let mut records = sent.clone();
        records[at] = came[at];
        if records != sent {
            Place::new(false).refuses(&records, "names, permissions or times differ from the sender's");
        }
    }
}

#[test]
fn list_of_withdrawn_files_is_bounded() {
    let mut place = Place::new(false);
    let mut records = vec![offer(1000)];
    for index in 0..1000 {
        records.push(file(index, "x\u{7}", Some(1)));
        records.push(Record::Withdraw { index, reason: WithdrawReason::Unreadable });
    }
    records.push(end(0, &records));
    place.refuses(&records, "x\\u{7} could not be read by the sender, and 997 more files");
}

#[test]
fn misordered_or_surplus_entries_are_refused() {
    for (records, words) in [
        (&[offer(2), file(1, "a", None)][..], "entry 1 arrived instead of entry 0"),
        (&[offer(0), file(0, "a", None)], "more entries arrived than the 0 announced ones"),
        (&[offer(1), link(0, "a", "b"), link(1, "c", "d")], "more entries arrived than the 1 announced"),
        (&[offer(u32::MAX), end(0, &[])], "0 of 4294967295 entries"),
        (&[offer(1), data(0, 0, b"x")], "messages are missing"),
        (&[offer(1), file(0, "a", None), data(0, 1, b"x")], "bytes 0 to 1 are missing"),
        (&[offer(1), file(0, "a", Some(1)), data(0, 0, b"xx")], "larger than announced"),
        (&[offer(1), file(0, "a", Some(2)), data(0, 0, b"x"), end_of_file(0, b"x")], "incomplete"),
        (&[offer(1), file(0, "a", Some(1)), data(0, 0, b"x"), end_of_file(0, b"y")], "its digest is wrong"),
        (&[offer(1), file(0, "a", None), end_of_file(1, b"")], "entry 1 arrived"),
        (&[offer(1), file(0, "a", None), link(0, "b", "c")], "messages are missing"),
        (&[offer(1), Record::Withdraw { index: 0, reason: WithdrawReason::Changed }], "messages are missing"),
        (&[offer(1), offer(1)], "messages are missing"),
    ] {
        let mut place = Place::new(false);
        place.refuses(records, words);
        assert_eq!(place.intake.files(), 0);
        // No file is left, and nothing further is taken.
        let names = place.names();
        assert!(names.iter().all(|name| name == "a" && place.out("a").is_symlink()), "{names:?}");
        place.take(&[file(0, "late", None), end_of_file(0, b"")]);
        assert!(!place.names().contains(&"late".to_owned()));
    }
}

/// A hard link simulates a file system that finds a file under another spelling of its name.
#[test]
fn second_name_of_a_received_file_is_refused() {
    for overwrite in [true, false] {
        for (name, alias) in [("README", "readme"), ("caf\u{e9}", "cafe\u{301}")] {
            for size in [Some(1), None] {
                let mut place = Place::new(overwrite);
                let first = [offer(3), file(0, name, Some(1)), data(0, 0, b"x"), end_of_file(0, b"x")];
                let second = [
                    file(1, alias, size),
                    data(1, 0, b"y"),
                    end_of_file(1, b"y"),
                    file(2, "z", Some(1)),
                    data(2, 0, b"z"),
                    end_of_file(2, b"z"),
                ];
                let records = whole(3, &[&first[..], &second[..]].concat());
                let (first, second) = records.split_at(4);
                assert_eq!(place.take(first), None);
                fs::hard_link(place.out(name), place.out(alias)).unwrap();
                let result = place.take(second);
                let text = format!("not delivered: {alias} is the same file as {name} to the file system");
                assert!(matches!(&result, Some(Err(reason)) if reason.starts_with(&text)), "{result:?}");
                assert_eq!(fs::read(place.out(name)).unwrap(), b"x", "it is not replaced");
                assert_eq!(fs::read(place.out("z")).unwrap(), b"z");
            }
        }
    }
}

#[test]
fn names_of_files_that_are_not_complete_are_refused() {
    for name in [".x.carillon-0123456789abcdef.part", "d/.x.carillon-0123456789abcdef.part/f"] {
        for record in [
            file(0, name, None),
            link(0, name, "x"),
            Record::Directory { index: 0, mode: 0o755, modified: None, path: path(name) },
        ] {
            Place::new(true).refuses(&[offer(1), record], "name of a temporary file");
        }
    }
}

#[test]
fn links_never_lead_outside_the_directory() {
    for (name, target) in [("l", "../x"), ("l", "/etc/passwd"), ("d/l", "x/../../..")] {
        let mut place = Place::new(true);
        place.refuses(&[offer(1), link(0, name, target)], "leads out");
        assert!(place.names().is_empty());
    }
    let through = |record| {
        let mut place = Place::new(true);
        fs::create_dir(place.out("d")).unwrap();
        place.refuses(&[offer(2), link(0, "l", "d"), record], "l is not a directory");
        assert_eq!(fs::read_dir(place.out("d")).unwrap().count(), 0);
    };
    through(file(1, "l/f", None));
    through(link(1, "l/f", "x"));
    through(Record::Directory { index: 1, mode: 0o755, modified: None, path: path("l/f") });
    through(Record::Directory { index: 1, mode: 0o755, modified: None, path: path("l") });
}

#[test]
fn link_in_place_of_a_file_is_replaced() {
    for size in [Some(1), None] {
        let mut place = Place::new(true);
        symlink("../outside/f", place.out("f")).unwrap();
        let records = whole(1, &[offer(1), file(0, "f", size), data(0, 0, b"x"), end_of_file(0, b"x")]);
        assert_eq!(place.take(&records), Some(Ok(())));
        assert!(!place.out("f").is_symlink());
        assert_eq!(place.outside(), 0);
        // Without permission to replace it stays, even if it is found only at the end.
        let mut place = Place::new(false);
        assert_eq!(place.take(&records[..3]), None);
        symlink("../outside/f", place.out("f")).unwrap();
        place.refuses(&records[3..], "exists");
        assert_eq!(place.names(), ["f"]);
        assert_eq!(place.outside(), 0);
    }
}

#[test]
fn a_directory_in_the_place_of_a_file_is_named() {
    for overwrite in [false, true] {
        for size in [Some(1), None] {
            let mut place = Place::new(overwrite);
            fs::create_dir(place.out("f")).unwrap();
            let records = [offer(1), file(0, "f", size), data(0, 0, b"x"), end_of_file(0, b"x")];
            place.refuses(&records, "is a directory: choose another --out");
            assert_eq!(place.names(), ["f"]);
        }
    }
}

#[test]
fn swapping_directories_for_links_writes_nothing_outside() {
    let mut place = Place::new(true);
    let (out, outside) = (place.out(""), place.directory.path().join("outside"));
    let over = AtomicBool::new(false);
    let (mut arrived, mut refused) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let _ = fs::rename(out.join("d"), out.join("aside"));
                let _ = symlink(&outside, out.join("d"));
                let _ = fs::remove_file(out.join("d"));
                let _ = fs::rename(out.join("aside"), out.join("d"));
                // The intake may have created a new `d` meanwhile: the old one cannot return then, and would stop
                // later swaps.
                let _ = fs::remove_dir_all(out.join("aside"));
            }
        });
        // The interleaving of the threads depends on the machine: repeats, within reason, until both outcomes were
        // seen.
        let mut round = 0;
        while round < 3000 || (arrived == 0 || refused == 0) && round < 200_000 {
            round += 1;
            place.intake = Intake::new("s".to_owned(), None, false);
            let mode = 0o755;
            let records = whole(
                2,
                &[
                    offer(4),
                    file(0, "d/f", Some(1)),
                    data(0, 0, b"x"),
                    end_of_file(0, b"x"),
                    file(1, "d/g", None),
                    data(1, 0, b"x"),
                    end_of_file(1, b"x"),
                    link(2, "d/l", "f"),
                    Record::Directory { index: 3, mode, modified: None, path: path("d/e") },
                ],
            );
            match place.take(&records) {
                Some(Ok(())) => arrived += 1,
                _ => refused += 1,
            }
        }
        over.store(true, Ordering::Relaxed);
    });
    assert_eq!(place.outside(), 0, "{arrived} arrived, {refused} were refused");
    assert!(arrived > 0 && refused > 0, "{arrived} arrived, {refused} were refused");
}

/// Lists everything below a directory without following links.
fn tree(directory: &Path, found: &mut BTreeMap<String, fs::FileType>) {
    // Some may have no permissions for this user.
    for entry in fs::read_dir(directory).into_iter().flatten() {
        let entry = entry.unwrap();
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            tree(&entry.path(), found);
        }
        found.insert(entry.path().to_string_lossy().into_owned(), kind);
    }
}

#[test]
fn random_records_never_escape_or_leave_partial_files() {
    // A linear congruential generator, for the same records each time.
    let mut state = 1u64;
    let mut draw = move |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let names = ["a", "b", "a/b", "a/b/c", "l", "l/a", "a/l/b", "d/e/f/g"];
    let targets = ["a", "../b", "..", ".", "l", "../../outside", "/tmp", "a/../.."];
    let contents = [&b""[..], b"x", &[7; 3000], &[8; 300_000]];
    let time = |which: u64| [None, Some(i64::MAX), Some(1 - i64::MAX)][which as usize];
    for _ in 0..400 {
        let mut place = Place::new(draw(2) == 0);
        let mut packer = Packer::new(400_000);
        let (mut index, mut offset, mut content) = (0, 0, &b""[..]);
        let mut records = vec![offer(if draw(8) == 0 { 3 } else { 100 })];
        for _ in 0..draw(40) {
            let path = path(names[draw(8) as usize]);
            let size = content.len() as u64;
            let next = match draw(12) {
                0 => Record::Directory { index, mode: draw(512) as u32, modified: time(draw(3)), path },
                1 => Record::Link { index, target: targets[draw(8) as usize].as_bytes(), path },
                2 | 3 if draw(20) > 0 => {
                    Record::EndOfFile { index, size, digest: *blake3::hash(content).as_bytes() }
                }
                4 => Record::Withdraw { index, reason: WithdrawReason::Changed },
                5 => end(draw(2), &records),
                6 => Record::Offer { entries: 9, bytes: Some(0) },
                7 => Record::Data { index, offset, bytes: content },
                8 => Record::Hole { index, offset, len: [1, 3000, 300_000, HOLE_MAX][draw(4) as usize] },
                _ => {
                    content = contents[draw(4) as usize];
                    let size =
                        [None, Some(content.len() as u64), Some(u64::MAX - 1)][draw(9).min(2) as usize];
                    let (mode, modified) = (draw(512) as u32, time(draw(3)));
                    let begins = Record::File { index, size, mode, modified, path };
                    records.push(begins);
                    offset = 0;
                    Record::Data { index, offset, bytes: content }
                }
            };
            records.push(next);
            match records.last() {
                Some(Record::Data { bytes, .. }) => offset += bytes.len() as u64,
                Some(Record::Hole { len, .. }) => offset += len,
                Some(Record::End { .. } | Record::Offer { .. }) | None => {}
                _ => index += 1,
            }
        }
        for record in &records {
            let full = packer.room() < record.wire_len() || draw(5) == 0;
            if full && !packer.is_empty() {
                let _ = place.intake.take(&packer.take(), &mut place.sink);
            }
            packer.push(record);
        }
        let _ = place.intake.take(&packer.take(), &mut place.sink);
        place.intake.give_up("it ends".to_owned());
        let mut found = BTreeMap::new();
        tree(place.directory.path(), &mut found);
        assert_eq!(place.outside(), 0);
        let top = fs::read_dir(place.directory.path()).unwrap().count();
        assert_eq!(top, 2, "{records:?}");
        for (path, kind) in &found {
            let name = path.rsplit('/').next().unwrap();
            assert!(!is_part_name(name.as_bytes()), "{path} was left: {records:?}");
            if kind.is_symlink() {
                let end = fs::canonicalize(path);
                let inside = end
                    .as_ref()
                    .map_or(true, |end| end.starts_with(fs::canonicalize(place.out("")).unwrap()));
                assert!(inside, "{path} leads to {end:?}");
            }
        }
    }
}
