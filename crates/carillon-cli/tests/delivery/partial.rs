//! Partial files of a killed receiver, which the next receiver finds.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;

use crate::delivery::support::{CARILLON, Place, files, is_root, need_multicast, wait_for_part, wait_until};

const SLOW: &str = "--receivers 1 --rate 6Mbit/s --timeout 2";

fn parts(place: &Place, out: &str) -> Vec<String> {
    let partial = |name: &String| name.ends_with(".part") && !name.starts_with(".transfer.");
    files(&place.path(out)).into_keys().filter(partial).collect()
}

/// Kills a receiver in the middle of a file below two directories. Returns the path of the partial file.
fn killed(place: &Place) -> PathBuf {
    let file = place.file("tree/sub/f", 5_000_000);
    let mut victim = place.recv("a").start();
    let sender = place.send("s").arg(place.path("tree")).args(SLOW).start();
    wait_for_part(&place.path("a"));
    victim.kill();
    drop(victim);
    sender.end().expect(1);
    assert_eq!(parts(place, "a").len(), 1);
    // A partial file without its journal cannot be resumed.
    fs::remove_file(place.path("a/.transfer.carillon-0000000000000000.part")).unwrap();
    file
}

#[test]
fn the_next_receiver_removes_it_and_says_so() {
    need_multicast!();
    let place = Place::new();
    let file = killed(&place);
    let left = parts(&place, "a").remove(0);
    let receiver = place.recv("a").start();
    wait_until("it is removed", || parts(&place, "a").is_empty());
    place.send("s").arg(place.path("tree")).args("--receivers 1").run().expect(0);
    receiver.end().expect(0).one_line(&[&left, "left over from an interrupted transfer: removed"]);
    assert_eq!(fs::read(place.path("a/tree/sub/f")).unwrap(), fs::read(file).unwrap());
    assert!(parts(&place, "a").is_empty());
}

#[test]
fn what_another_receiver_is_writing_is_left_alone() {
    need_multicast!();
    let place = Place::new();
    let file = place.file("f", 3_000_000);
    let receiver = place.recv("a").start();
    let sender = place.send("s").arg(&file).args(SLOW).start();
    wait_for_part(&place.path("a"));
    let other = Place::new();
    let second = other.wrapped(CARILLON, &[], "recv", "b").arg("--out").arg(place.path("a"));
    // The receiver looks for partial files before it opens its socket.
    let second = second.args("--json").start();
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(parts(&place, "a").len(), 1);
    sender.end().expect(0);
    receiver.end().expect(0);
    second.signal("TERM");
    assert!(!second.end().err.contains("left over"));
    assert_eq!(fs::read(place.path("a/f")).unwrap(), fs::read(file).unwrap());
}

#[test]
fn what_is_not_surely_its_own_is_named_and_kept() {
    need_multicast!();
    let place = Place::new();
    let out = place.path("a");
    fs::create_dir(&out).unwrap();
    // A link, a FIFO, a directory, a file with another name and, where possible, a file of another user.
    symlink("x", out.join(".l.carillon-0123456789abcdef.part")).unwrap();
    let fifo = out.join(".p.carillon-0123456789abcdef.part");
    assert!(Command::new("mkfifo").arg(fifo).status().unwrap().success());
    fs::create_dir(out.join(".d.carillon-0123456789abcdef.part")).unwrap();
    fs::write(out.join(".f.carillon-0123.part"), "mine").unwrap();
    fs::write(out.join(".h.carillon-0123456789abcdef.part"), "two names").unwrap();
    fs::hard_link(out.join(".h.carillon-0123456789abcdef.part"), out.join("h")).unwrap();
    let mut named = vec![".l.", ".p.", ".h."];
    if is_root() {
        let theirs = out.join(".t.carillon-0123456789abcdef.part");
        fs::write(&theirs, "theirs").unwrap();
        std::os::unix::fs::chown(&theirs, Some(65534), None).unwrap();
        named.push(".t.");
    }
    let before = fs::read_dir(&out).unwrap().count();
    let receiver = place.recv("a").start();
    place.send("s").arg(place.file("new", 10)).args("--receivers 1").run().expect(0);
    let ended = receiver.end().expect(0);
    assert_eq!(ended.err.lines().count(), named.len(), "{}", ended.err);
    for name in named {
        let line = ended.err.lines().find(|line| line.contains(name)).expect(name);
        assert!(line.ends_with("seems to be left over from an interrupted transfer: remove it"), "{line}");
    }
    assert_eq!(fs::read_dir(&out).unwrap().count(), before + 1);
}

#[test]
fn it_is_not_sent_on() {
    need_multicast!();
    let place = Place::new();
    place.file("tree/f", 10);
    let part = place.file("tree/.g.carillon-0123456789abcdef.part", 10);
    let receiver = place.recv("a").start();
    let sender = place.send("s").arg(place.path("tree")).args("--receivers 1").run().expect(1);
    assert!(sender.err.contains("did not arrive completely: not sent"), "{}", sender.err);
    receiver.end().expect(0);
    assert_eq!(files(&place.path("a")).len(), 1);
    place.send("s").arg(part).run().expect(2).one_line(&["did not arrive completely: rename it"]);
}
