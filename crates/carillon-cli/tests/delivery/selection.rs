//! `send --exclude` and `send --files-from`: what is sent of a tree.

use std::fs;
use std::path::Path;

use crate::delivery::support::{Place, files, need_multicast};

fn tree(place: &Place) -> std::path::PathBuf {
    for name in
        ["src/a.c", "src/a.o", "src/deep/b.o", "src/deep/b.c", "src/.git/x", "src/deep/.git/y", "src/c.c"]
    {
        place.file(name, 100);
    }
    place.path("src")
}

fn names(directory: &Path) -> Vec<String> {
    files(directory).into_keys().collect()
}

#[test]
fn excluded_entries_are_neither_sent_nor_counted_as_skipped() {
    need_multicast!();
    let place = Place::new();
    let src = tree(&place);
    let receiver = place.recv("a").start();
    let line = "--receivers 1 --json --exclude *.o --exclude !deep/*.o --exclude /.git/ --exclude *.txt";
    let sent = place.send("s").args(line).arg(&src).arg(place.file("n.txt", 5)).run().expect(0);
    receiver.end().expect(0);
    assert_eq!(names(&place.path("a/src")), ["a.c", "c.c", "deep/.git/y", "deep/b.c", "deep/b.o"]);
    assert!(!place.path("a/n.txt").exists());
    let report = sent.events("report").pop().expect("a report");
    assert_eq!((&report["excluded"], &report["skipped"]), (&3.into(), &serde_json::json!([])), "{report}");
    assert!(sent.err.contains("3 entries are excluded"), "{}", sent.err);
}

#[test]
fn bad_pattern_is_an_error() {
    let place = Place::new();
    let src = tree(&place);
    let sent = place.send("s").arg(&src).args("--exclude [").run().expect(2);
    assert!(sent.err.contains("--exclude: the pattern \"[\" is invalid"), "{}", sent.err);
    let sent = place.send("s").arg(&src).args("--exclude src").run().expect(2);
    assert!(sent.err.contains("nothing to send"), "{}", sent.err);
}

#[test]
fn named_files_are_sent_with_their_paths() {
    need_multicast!();
    let place = Place::new();
    let src = tree(&place);
    fs::write(src.join("new\nline"), "x").expect("a file");
    // One name a line, twice in another spelling, and a directory without its contents.
    fs::write(place.path("lines"), "deep/b.c\n./a.c\n\na.c\ndeep/.git/\ngone\n").expect("a list");
    let receiver = place.recv("a").start();
    let line = "--receivers 1 --files-from lines src";
    let sent = place.send("s").args(line).directory(&place.path("")).run().expect(1);
    receiver.end().expect(0);
    assert!(sent.err.contains("src/gone was removed"), "{}", sent.err);
    assert_eq!(names(&place.path("a")), ["a.c", "deep/b.c"]);
    assert!(place.path("a/deep/.git").is_dir());
    // NUL after each, from standard input, in the working directory.
    fs::write(place.path("nul"), "new\nline\0deep/b.o\0a.o\0").expect("a list");
    let receiver = place.recv("b").start();
    let line = "--receivers 1 --files-from - --exclude a.*";
    place.send("s").args(line).input(&place.path("nul")).directory(&src).run().expect(0);
    receiver.end().expect(0);
    assert_eq!(names(&place.path("b")), ["deep/b.o", "new\nline"]);
}

#[test]
fn names_that_lead_out_are_refused() {
    let place = Place::new();
    let src = tree(&place);
    for name in ["/etc/passwd", "../n", "deep/../../n"] {
        fs::write(place.path("list"), name).expect("a list");
        let sent = place.send("s").arg("--files-from").arg(place.path("list")).arg(&src).run().expect(2);
        assert!(sent.err.contains("leads out of the directory"), "{}", sent.err);
    }
    let list = place.path("list");
    place.send("s").arg("--files-from").arg(&list).arg(&src).arg(&src).run().expect(2);
    place.send("s").arg("--files-from").arg(&list).arg(src.join("a.c")).run().expect(2);
    place.send("s").arg("--files-from").arg(place.path("none")).arg(&src).run().expect(2);
}
