//! Updates without a network: the messages of a reading thread go to receivers in random directories.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::os::unix::fs::{FileExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use carillon_core::{Bytes, Rng, Seeds};
use carillon_net::Waker;
use carillon_testkit::{is_long_tier, sampling_step};
use carillon_wire::deletions::Deletions;
use carillon_wire::file::{ListFlags, Record, SUBTREE_BYTES, records};
use carillon_wire::holdings::{Holding, Holdings};

use super::super::intake::{Intake, Sink};
use super::super::manifest::{Manifest, Selection};
use super::super::names::is_part_name;
use super::super::reader::{ReadAhead, Start};
use super::super::signing::Binding;
use super::super::target::Target;
use super::super::worker_queue::Found;
use super::asking::worst;
use super::{Announcement, DELETIONS_QUESTION, Plan, Update};

pub(super) const PART_LEN: usize = SUBTREE_BYTES as usize;

/// Result of an update.
pub(super) struct Updated {
    /// Bytes of all messages.
    pub sent: usize,
    pub results: Vec<Result<(), String>>,
    damaged: Vec<bool>,
    /// Files of each receiver that are neither their old nor their new version.
    pub partly_changed: Vec<Vec<Vec<u8>>>,
}

/// Sends this tree to the receivers. `disturb` is called after each answer, with the number of the question.
fn update(source: &Path, out: &[&Path], options: Update, mut disturb: impl FnMut(u32)) -> Updated {
    update_until(source, out, options, usize::MAX, &mut disturb)
}

/// Like [`update`], but ends without a word after this number of messages.
fn update_until(
    source: &Path,
    out: &[&Path],
    options: Update,
    messages: usize,
    disturb: &mut dyn FnMut(u32),
) -> Updated {
    update_into(source, out, (options, false), messages, disturb)
}

/// Like [`update_until`], into directories where files are changed in place if the flag is set.
pub(super) fn update_into(
    source: &Path,
    out: &[&Path],
    (options, in_place): (Update, bool),
    messages: usize,
    disturb: &mut dyn FnMut(u32),
) -> Updated {
    let manifest = Manifest::list(&[source.to_owned()], &Selection::default()).expect("it can be listed");
    let manifest = Arc::new(manifest);
    let mut sinks: Vec<Sink> = out.iter().map(|out| sink(out, in_place)).collect();
    let mut intakes: Vec<Intake> = out.iter().map(|_| Intake::new("s".to_owned(), None, false)).collect();
    let list = manifest.id().expect("files");
    let is_known = sinks.iter().all(|sink| sink.list().is_some_and(|known| known.0 == list));
    for sink in &mut sinks {
        sink.permit_deleting(options.delete);
        let _ = sink.reached(false);
    }
    let flags = ListFlags { entries: !is_known || options.checksum, checksum: options.checksum };
    let delete = options.delete.then_some(options.max_delete);
    let start = Start::Update(Announcement { list, flags, delete });
    let entries = manifest.entries().len() as u32;
    let mut offer = Vec::new();
    Record::Offer { entries, bytes: manifest.bytes() }.emit(&mut offer);
    let mut ready: VecDeque<(Bytes, u64)> = [(offer.into(), 0)].into();
    let ahead = ReadAhead::start(manifest, start, 1400, Binding::default(), Waker::default());
    let ahead = ahead.expect("a thread");
    let (mut sent, mut left) = (0, messages);
    loop {
        while let Some((message, _)) = ready.pop_front() {
            if left == 0 {
                break;
            }
            left -= 1;
            sent += message.len();
            for (intake, sink) in intakes.iter_mut().zip(&mut sinks) {
                intake.take(&message, sink).expect("no local error");
            }
        }
        if let Some(asked) = ahead.asked().filter(|_| left > 0) {
            let mut all = vec![Holding::Same; asked.items];
            let mut any = false;
            for intake in &mut intakes {
                let Some((question, answer)) = intake.take_answer() else { continue };
                assert_eq!(question, asked.question);
                sent += answer.len();
                any = true;
                if question == DELETIONS_QUESTION {
                    Deletions::parse(&answer).expect("an answer");
                    continue;
                }
                let answer = Holdings::parse(&answer).expect("an answer");
                for (all, one) in all.iter_mut().zip(answer.states(asked.items)) {
                    *all = worst(*all, one);
                }
            }
            if any {
                disturb(asked.question);
                ahead.go_on(match asked.question {
                    1 => Plan::Entries(all),
                    DELETIONS_QUESTION => Plan::Deletions,
                    _ => Plan::Parts(all.into_iter().map(|holding| holding == Holding::Same).collect()),
                });
            }
        }
        match ahead.take(&mut ready) {
            Found::End => break,
            _ if left == 0 => break,
            _ => std::thread::yield_now(),
        }
    }
    let results = intakes.iter().map(|intake| intake.result().cloned().unwrap_or(Err("cut".to_owned())));
    let damaged = intakes.iter().map(Intake::is_damaged).collect();
    let results = results.collect();
    drop(intakes);
    let partly_changed = sinks.iter().map(Sink::partly_changed).collect();
    Updated { sent, results, damaged, partly_changed }
}

/// A directory in which files are replaced, or changed in place.
fn sink(out: &Path, in_place: bool) -> Sink {
    let mut target = Target::directory(out, true).expect("a directory");
    if in_place {
        target.change_in_place();
    }
    Sink::Files(target)
}

/// Entries of a tree: type, permission bits, time of files, and contents. Temporary files do not count.
pub(super) fn tree(root: &Path) -> BTreeMap<PathBuf, (String, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut todo = vec![root.to_owned()];
    while let Some(directory) = todo.pop() {
        for entry in fs::read_dir(&directory).expect("a directory").map(|entry| entry.expect("an entry")) {
            let (path, kind) = (entry.path(), entry.file_type().expect("its type"));
            let metadata = fs::symlink_metadata(&path).expect("it is there");
            let mode = metadata.permissions().mode() & 0o777;
            let (about, contents) = if kind.is_symlink() {
                (
                    "link".to_owned(),
                    fs::read_link(&path).expect("a link").into_os_string().into_encoded_bytes(),
                )
            } else if kind.is_dir() {
                todo.push(path.clone());
                ("directory".to_owned(), Vec::new())
            } else {
                let time = metadata.modified().expect("a time");
                (format!("file {mode:o} {time:?}"), fs::read(&path).expect("a file"))
            };
            if !is_part_name(entry.file_name().as_encoded_bytes()) {
                let name = path.strip_prefix(root).expect("it is below").to_owned();
                found.insert(name, (about, contents));
            }
        }
    }
    found
}

/// Waits until no file is so recent that a change could go unnoticed.
pub(super) fn settle() {
    std::thread::sleep(std::time::Duration::from_millis(25));
}

pub(super) fn bytes(seed: &str, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    blake3::Hasher::new().update(seed.as_bytes()).finalize_xof().fill(&mut bytes);
    bytes
}

pub(super) struct Places {
    directory: tempfile::TempDir,
}

impl Places {
    pub(super) fn new() -> Places {
        let places = Places { directory: tempfile::tempdir().expect("a directory") };
        fs::create_dir(places.source()).expect("a directory");
        places
    }

    pub(super) fn source(&self) -> PathBuf {
        self.directory.path().join("site")
    }

    pub(super) fn out(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}

#[test]
fn unchanged_tree_costs_a_few_bytes() {
    let places = Places::new();
    for number in 0..3000 {
        fs::write(places.source().join(format!("f{number}")), bytes("x", number % 50)).expect("a file");
    }
    settle();
    let (a, b) = (places.out("a"), places.out("b"));
    let options = Update::default();
    let first = update(&places.source(), &[&a, &b], options, |_| {});
    assert_eq!(first.results, [Ok(()), Ok(())]);
    let second = update(&places.source(), &[&a, &b], options, |_| {});
    assert_eq!(second.results, [Ok(()), Ok(())]);
    assert!(first.sent > 100_000 && second.sent < 200, "{} and {} bytes", first.sent, second.sent);
    // A file that is gone is sent again, to the receiver that misses it.
    fs::remove_file(a.join("site/f77")).expect("it is there");
    let third = update(&places.source(), &[&a, &b], options, |_| {});
    assert_eq!(third.results, [Ok(()), Ok(())]);
    assert!(third.sent < 400, "{} bytes", third.sent);
    assert_eq!(tree(&a), tree(&b));
    // Without its list, a receiver is sent all names.
    fs::remove_file(b.join(".list.carillon-0000000000000000.part")).expect("it is there");
    let fourth = update(&places.source(), &[&a, &b], options, |_| {});
    assert_eq!(fourth.results, [Ok(()), Ok(())]);
    assert!(fourth.sent > 50_000 && fourth.sent < first.sent, "{} bytes", fourth.sent);
}

#[test]
fn changed_part_of_an_image_is_sent_alone() {
    let places = Places::new();
    let image = places.source().join("image");
    let file = fs::File::create(&image).expect("a file");
    let parts = if is_long_tier() { 110 } else { 55 };
    let size = parts * SUBTREE_BYTES + 12_345;
    file.set_len(size).expect("it can be long");
    for part in (0..parts).step_by(5) {
        file.write_all_at(&bytes(&part.to_string(), PART_LEN), part * SUBTREE_BYTES).expect("written");
    }
    settle();
    let (a, b) = (places.out("a"), places.out("b"));
    let first = update(&places.source(), &[&a, &b], Update::default(), |_| {});
    assert_eq!(first.results, [Ok(()), Ok(())]);
    // One part differs at a receiver, and one at the sender.
    file.write_all_at(b"changed", 50 * SUBTREE_BYTES + 99).expect("written");
    settle();
    let old = fs::OpenOptions::new().write(true).open(a.join("site/image")).expect("it is there");
    old.write_all_at(b"other", 20 * SUBTREE_BYTES).expect("written");
    settle();
    let second = update(&places.source(), &[&a, &b], Update::default(), |_| {});
    assert_eq!(second.results, [Ok(()), Ok(())]);
    let part = second.sent as f64 / size as f64;
    assert!((1.1..3.3).contains(&(part * parts as f64)), "{part} of {size} bytes");
    let sent = fs::read(&image).expect("it is there");
    assert!(fs::read(a.join("site/image")).expect("it is there") == sent);
    assert!(fs::read(b.join("site/image")).expect("it is there") == sent);
    use std::os::unix::fs::MetadataExt as _;
    let blocks = fs::metadata(b.join("site/image")).expect("it is there").blocks();
    assert!(blocks * 512 < size / 2, "holes stay holes");
}

#[test]
fn version_that_changes_after_the_comparison_is_damage() {
    let places = Places::new();
    let image = places.source().join("image");
    fs::write(&image, bytes("1", 4 * PART_LEN)).expect("a file");
    settle();
    let (a, b) = (places.out("a"), places.out("b"));
    assert_eq!(update(&places.source(), &[&a, &b], Update::default(), |_| {}).results, [Ok(()), Ok(())]);
    let file = fs::OpenOptions::new().write(true).open(&image).expect("it is there");
    file.write_all_at(b"changed", 3 * SUBTREE_BYTES).expect("written");
    settle();
    let old = fs::OpenOptions::new().write(true).open(a.join("site/image")).expect("it is there");
    let done = update(&places.source(), &[&a, &b], Update::default(), |question| {
        if question == 2 {
            old.write_all_at(b"meanwhile", SUBTREE_BYTES + 7).expect("written");
        }
    });
    assert_eq!(done.damaged, [true, false]);
    assert_eq!(done.results[1], Ok(()));
    let again = update(&places.source(), &[&a], Update::default(), |_| {});
    assert_eq!(again.results, [Ok(())]);
    assert!(again.sent < 3 * PART_LEN, "{} bytes", again.sent);
    assert!(fs::read(a.join("site/image")).expect("it is there") == fs::read(&image).expect("it is there"));
}

#[test]
fn interrupted_update_keeps_its_complete_parts() {
    let places = Places::new();
    fs::write(places.source().join("image"), bytes("1", 6 * PART_LEN)).expect("a file");
    settle();
    let a = places.out("a");
    // About four of six parts arrive.
    let messages = 4 * PART_LEN / 1380 + 200;
    let cut = update_until(&places.source(), &[&a], Update::default(), messages, &mut |_| {});
    assert_eq!(cut.results, [Err("cut".to_owned())]);
    let again = update(&places.source(), &[&a], Update::default(), |_| {});
    assert_eq!(again.results, [Ok(())]);
    assert!(again.sent < 3 * PART_LEN, "{} bytes", again.sent);
    let left = fs::read_dir(a.join("site")).expect("a directory").count();
    assert_eq!(left, 1, "the partial files are gone");
}

/// Changes a tree at random: new, changed, longer, shorter, renamed and removed entries, other types and permissions.
fn change(root: &Path, rng: &mut Rng, steps: u64) {
    let names = ["a", "b", "c", "d/a", "d/b", "d/e/a", "d/e/b", "x", "y/z"];
    for _ in 0..steps {
        let path = root.join(names[rng.below(names.len() as u64) as usize]);
        if let Some(parent) = path.parent()
            && fs::create_dir_all(parent).is_err()
        {
            continue;
        }
        let is_directory = path.is_dir() && !path.is_symlink();
        match rng.below(8) {
            0 if is_directory => _ = fs::remove_dir_all(&path),
            0 => _ = fs::remove_file(&path),
            1 if !path.exists() => _ = symlink("a", &path),
            2 if path.is_file() => {
                let mode = [0o600, 0o644, 0o755, 0o400][rng.below(4) as usize];
                _ = fs::set_permissions(&path, fs::Permissions::from_mode(mode));
            }
            3 if path.is_file() => {
                let other = root.join(names[rng.below(names.len() as u64) as usize]);
                _ = fs::rename(&path, &other);
            }
            4 if path.is_file() && rng.chance(0.3) => {
                if let Ok(file) = fs::OpenOptions::new().write(true).open(&path) {
                    let len = rng.below(3 * SUBTREE_BYTES);
                    _ = file.set_len(len);
                    _ = file.write_all_at(&rng.bits().to_be_bytes(), rng.below(len + 1));
                }
            }
            _ if is_directory => {}
            _ => _ = fs::write(&path, bytes(&rng.bits().to_string(), rng.below(400_000) as usize)),
        }
    }
}

#[test]
fn random_trees_are_equal_after_an_update() {
    for case in 0..40 / sampling_step(2) as u64 {
        let mut rng = Seeds::new(case).stream("update");
        let places = Places::new();
        fs::write(places.source().join("a"), b"begins").expect("a file");
        change(&places.source(), &mut rng, 30);
        settle();
        let out = [places.out("a"), places.out("b")];
        let both = [out[0].as_path(), out[1].as_path()];
        let options = Update { checksum: rng.chance(0.3), ..Update::default() };
        let first = update(&places.source(), &both, options, |_| {});
        assert_eq!(first.results, [Ok(()), Ok(())], "case {case}");
        // Contents change, and types do not.
        for place in both.iter().map(|out| out.join("site")).chain([places.source()]) {
            for (name, (about, contents)) in tree(&place) {
                let path = place.join(name);
                if about.starts_with("file") && rng.chance(0.4) {
                    let mut contents = contents;
                    contents.extend(bytes("more", rng.below(1000) as usize));
                    let mode = fs::Permissions::from_mode(0o644);
                    fs::set_permissions(&path, mode)
                        .and_then(|()| fs::write(&path, contents))
                        .expect("a file");
                }
            }
        }
        fs::write(out[0].join("site/mine"), b"not the sender's").expect("a file");
        settle();
        let second = update(&places.source(), &both, options, |_| {});
        assert_eq!(second.results, [Ok(()), Ok(())], "case {case}");
        let sent = tree(&places.source());
        for out in &out {
            let mut came = tree(&out.join("site"));
            came.remove(Path::new("mine"));
            assert!(came == sent, "case {case}: {:?} and {:?}", came.keys(), sent.keys());
        }
        assert!(out[0].join("site/mine").exists());
    }
}

/// Changes a tree at random, with every kind of change of types, and links to a directory outside.
fn twist(root: &Path, outside: &Path, rng: &mut Rng, steps: u64) {
    let names =
        ["a", "a/b", "a/b/c", "A", "d", "d/a", "d/e", "d/e/a", "d/e/f/g", "é", "e\u{301}", "x", "y", "y/z"];
    for _ in 0..steps {
        let path = root.join(names[rng.below(names.len() as u64) as usize]);
        let remove = |path: &Path| match path.is_dir() && !path.is_symlink() {
            true => _ = fs::remove_dir_all(path),
            false => _ = fs::remove_file(path),
        };
        // Nothing is written through a link here, nor below a file.
        for above in path.ancestors().skip(1).take_while(|above| *above != root) {
            if above.is_symlink() || above.is_file() {
                remove(above);
            }
        }
        fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        match rng.below(8) {
            0 | 1 => remove(&path),
            2 => {
                remove(&path);
                symlink(if rng.chance(0.5) { "nowhere" } else { "a" }, &path).expect("a link");
            }
            // The sender's tree has no links that lead out.
            3 if root.ends_with("out/site") => {
                remove(&path);
                symlink(outside, &path).expect("a link");
            }
            4 => {
                let other = root.join(names[rng.below(names.len() as u64) as usize]);
                if !other.starts_with(&path) && other.parent().is_some_and(Path::is_dir) && !other.exists() {
                    _ = fs::rename(&path, &other);
                }
            }
            5 if !path.is_dir() => {
                remove(&path);
                fs::create_dir(&path).expect("a directory");
            }
            _ if path.is_dir() && !path.is_symlink() && rng.chance(0.7) => {}
            _ => {
                remove(&path);
                let len = [10, 1000, 300_000, 5 << 20][rng.below(40).min(3) as usize];
                fs::write(&path, bytes(&rng.bits().to_string(), len)).expect("a file");
            }
        }
    }
}

/// A receiver may have one file under two names that are different files of the sender.
#[test]
fn hard_links_of_a_receiver_are_no_other_spellings() {
    let places = Places::new();
    fs::write(places.source().join("a"), b"one").expect("a file");
    fs::write(places.source().join("b"), b"another").expect("a file");
    settle();
    let out = places.out("out");
    assert_eq!(update(&places.source(), &[&out], Update::default(), |_| {}).results, [Ok(())]);
    fs::remove_file(out.join("site/b")).expect("it is there");
    fs::hard_link(out.join("site/a"), out.join("site/b")).expect("a link");
    assert_eq!(update(&places.source(), &[&out], Update::default(), |_| {}).results, [Ok(())]);
    assert!(tree(&out.join("site")) == tree(&places.source()));
}

#[test]
fn random_trees_are_equal_after_an_update_that_deletes() {
    let (mut deleted, mut cut) = (0, 0);
    let cases = 60 / sampling_step(5) as u64;
    for case in 0..cases {
        let mut rng = Seeds::new(case).stream("delete");
        let places = Places::new();
        let (outside, out) = (places.out("outside"), places.out("out"));
        fs::create_dir(&outside).expect("a directory");
        fs::write(outside.join("a"), b"not the sender's").expect("a file");
        fs::write(places.source().join("begins"), b"begins").expect("a file");
        twist(&places.source(), &outside, &mut rng, 30);
        settle();
        let options = Update { delete: true, checksum: rng.chance(0.3), ..Update::default() };
        let first = update(&places.source(), &[&out], options, |_| {});
        assert_eq!(first.results, [Ok(())], "case {case}");
        twist(&places.source(), &outside, &mut rng, 20);
        twist(&out.join("site"), &outside, &mut rng, 30);
        fs::write(out.join("own"), b"beside the site").expect("a file");
        settle();
        let (before, expected) = (tree(&out).len(), tree(&places.source()));
        let untouched = tree(&outside);
        // A receiver that dies in between begins again.
        if rng.chance(0.5) {
            let messages = rng.below(40) as usize;
            cut += update_until(&places.source(), &[&out], options, messages, &mut |_| {}).results.len();
        }
        let second = update(&places.source(), &[&out], options, |_| {});
        assert_eq!(second.results, [Ok(())], "case {case}");
        let came = tree(&out.join("site"));
        assert!(came == expected, "case {case}: {:?} and {:?}", came.keys(), expected.keys());
        deleted += before.saturating_sub(came.len());
        assert_eq!(fs::read(out.join("own")).expect("it stays"), b"beside the site");
        assert!(tree(&outside) == untouched, "case {case}");
    }
    assert!(deleted > cases as usize && cut >= cases as usize / 4, "{deleted} deleted, {cut} cut");
}

#[test]
fn records_out_of_turn_are_refused() {
    let places = Places::new();
    fs::write(places.source().join("a"), bytes("a", 1000)).expect("a file");
    settle();
    let out = places.out("a");
    assert_eq!(update(&places.source(), &[&out], Update::default(), |_| {}).results, [Ok(())]);
    let path = |path| carillon_wire::file::RelativePath::new(path).expect("a path");
    let list = Record::List { list: [7; 16], flags: ListFlags { entries: true, checksum: false } };
    let file = |index, path| Record::File { index, size: Some(9), mode: 0o644, modified: Some(1), path };
    let (one, two) = (Record::Question { question: 1 }, Record::Question { question: 2 });
    let same = Record::Same { index: 0, offset: 0, len: SUBTREE_BYTES };
    let end = Record::End { bytes: 9, listing: [0; 32] };
    let subtree = Record::Subtree { index: 0, end: SUBTREE_BYTES, value: [0; 32] };
    let link = Record::Link { index: 1, target: b"../../etc", path: path("l") };
    let offer = Record::Offer { entries: 1, bytes: Some(9) };
    let offer_two = Record::Offer { entries: 2, bytes: Some(9) };
    let (delete, three) = (Record::Delete { limit: None }, Record::Question { question: 3 });
    let exclude = Record::Exclude { pattern: "[" };
    let cases: [&[Record<'_>]; 17] = [
        &[offer, list, two],
        &[offer, list, one],
        &[offer, list, file(1, path("x"))],
        &[offer, list, file(0, path("x")), file(0, path("x"))],
        // A file that is missing and not sent.
        &[offer, list, file(0, path("x")), one, end],
        &[offer, list, file(0, path("x")), one, file(0, path("y"))],
        &[offer, list, file(0, path("x")), one, file(0, path("x")), same],
        &[offer, list, file(0, path("x")), one, subtree],
        &[offer, list, file(0, path("x")), one, two, two],
        &[offer, list, list],
        &[offer_two, list, file(0, path("x")), link, one, file(0, path("x")), end],
        // Deletions without a request, twice, too late, without their question, or with a bad pattern.
        &[offer, list, file(0, path("x")), one, three],
        &[offer, list, delete, delete],
        &[offer, list, file(0, path("x")), delete],
        &[offer, list, delete, file(0, path("x")), three],
        &[offer, list, delete, exclude, file(0, path("x")), one, three],
        &[offer, list, exclude],
    ];
    for (case, records) in cases.into_iter().enumerate() {
        let mut sink = Sink::Files(Target::directory(&out, true).expect("a directory"));
        sink.permit_deleting(true);
        let mut intake = Intake::new("s".to_owned(), None, false);
        for record in records {
            let mut message = Vec::new();
            record.emit(&mut message);
            intake.take(&message, &mut sink).expect("no local error");
        }
        assert!(matches!(intake.result(), Some(Err(_))), "case {case}: {:?}", intake.result());
    }
    assert!(!out.join("x").exists() && !out.join("l").exists() && out.join("site/a").exists());
    assert!(records(&[]).next().is_none_or(|record| record.is_err()));
}
