//! A file that changes while it is sent is reported by name and is not delivered; the others are.

use std::fs::{self, File, OpenOptions};
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::Path;

use crate::delivery::support::{Place, files, need_multicast, wait_until};

/// File size, in bytes: far more than is read before data arrives.
const LEN: usize = 60_000_000;

/// Sends three files, of which the second takes ten seconds, and changes the second one meanwhile. A detected change
/// ends its transfer at once. On a busy machine the test may be scheduled late.
fn change(change: impl FnOnce(&Path)) {
    let place = Place::new();
    let big = place.file("tree/big", LEN);
    for name in ["tree/a", "tree/z"] {
        place.file(name, 10_000);
    }
    let receivers = ["r", "s"].map(|name| place.recv(name).arg("--json").start());
    let sender = place.send("s").arg(place.path("tree")).args("--receivers 2 --rate 48Mbit/s").start();
    // Waits until the second file is being sent; an earlier change would not count as one.
    wait_until("the second file is on its way", || {
        let parts = files(&place.path("r")).into_iter().filter(|(name, _)| name.ends_with(".part"));
        parts
            .into_iter()
            .any(|(name, _)| fs::metadata(place.path("r").join(name)).is_ok_and(|part| part.len() > 10_000))
    });
    change(&big);
    let sender = sender.end().expect(1);
    let line = format!("carillon: {} changed while it was sent: not delivered", big.display());
    assert!(sender.err.lines().any(|found| found == line), "{}", sender.err);
    assert!(sender.out.contains("0 of 2 verified"), "{}", sender.out);
    let expected = files(&place.path("tree"));
    for (receiver, name) in receivers.into_iter().zip(["r", "s"]) {
        let ended = receiver.end().expect(1).one_line(&["not delivered: tree/big changed while it was sent"]);
        let report = &ended.events("report")[0];
        assert_eq!(report["outcome"], "failed");
        assert_eq!(report["files"], 2);
        let arrived = files(&place.path(name));
        assert_eq!(arrived.keys().collect::<Vec<_>>(), ["tree/a", "tree/z"]);
        assert!(
            arrived.iter().all(|(name, digest)| expected[name.strip_prefix("tree/").unwrap()] == *digest)
        );
    }
}

fn write_at(path: &Path, at: SeekFrom) {
    let mut file = OpenOptions::new().write(true).open(path).unwrap();
    file.seek(at).unwrap();
    file.write_all(b"changed").unwrap();
}

#[test]
fn rewritten_in_place_where_it_was_read_already() {
    need_multicast!();
    change(|big| write_at(big, SeekFrom::Start(0)));
}

#[test]
fn rewritten_in_place_where_it_is_still_to_be_read() {
    need_multicast!();
    change(|big| write_at(big, SeekFrom::End(-7)));
}

#[test]
fn appended_to() {
    need_multicast!();
    change(|big| write_at(big, SeekFrom::End(0)));
}

#[test]
fn truncated() {
    need_multicast!();
    change(|big| OpenOptions::new().write(true).open(big).unwrap().set_len(1_000_000).unwrap());
}

#[test]
fn replaced_by_a_rename() {
    need_multicast!();
    change(|big| {
        let other = big.with_extension("new");
        fs::copy(big, &other).unwrap();
        fs::rename(&other, big).unwrap();
    });
}

#[test]
fn what_changes_before_its_turn_is_sent_as_it_is_then() {
    need_multicast!();
    let place = Place::new();
    let file = place.file("tree/f", 1000);
    place.file("tree/other", 1000);
    let sender = place.send("s").arg(place.path("tree")).args("--receivers 1 --json").start();
    wait_until("the sender waits", || sender.out().contains("gathering"));
    fs::write(&file, "something longer than it was".repeat(100)).unwrap();
    place.recv("a").run().expect(0);
    sender.end().expect(0);
    assert_eq!(files(&place.path("a/tree")), files(&place.path("tree")));
}

#[test]
fn what_is_gone_when_its_turn_comes_is_named() {
    need_multicast!();
    let place = Place::new();
    let file = place.file("tree/f", 1000);
    place.file("tree/other", 1000);
    let sender = place.send("s").arg(place.path("tree")).args("--receivers 1 --json").start();
    wait_until("the sender waits", || sender.out().contains("gathering"));
    fs::remove_file(&file).unwrap();
    let receiver = place.recv("a").run().expect(1);
    receiver.one_line(&["not delivered: tree/f could not be read by the sender"]);
    let sender = sender.end().expect(1);
    assert!(sender.err.contains("tree/f: No such file"), "{}", sender.err);
    let withdrawn = sender.events("report")[0]["withdrawn"].to_string();
    assert!(withdrawn.contains("tree/f"), "{withdrawn}");
    assert_eq!(files(&place.path("a")).len(), 1);
}

#[test]
fn what_grows_all_the_time_is_never_verified() {
    need_multicast!();
    let place = Place::new();
    let path = place.file("log", 100_000);
    let sender = place.send("s").arg(&path).args("--receivers 1").start();
    let receiver = place.recv("a").start();
    let mut log = File::options().append(true).open(&path).unwrap();
    let start = std::time::Instant::now();
    let ended = std::thread::scope(|scope| {
        let ends = scope.spawn(|| (sender.end(), receiver.end()));
        while !ends.is_finished() && start.elapsed().as_secs() < 60 {
            log.write_all(b"line\n").unwrap();
            std::thread::sleep(std::time::Duration::from_micros(100));
        }
        ends.join().unwrap()
    });
    // The writer may have paused just then; a verified file is a prefix of the source.
    if ended.0.code == Some(0) {
        let copy = fs::read(place.path("a/log")).unwrap();
        assert!(fs::read(&path).unwrap().starts_with(&copy));
    } else {
        assert!(ended.0.expect(1).err.contains("changed while it was sent"));
        ended.1.expect(1);
        assert!(files(&place.path("a")).is_empty());
    }
}
