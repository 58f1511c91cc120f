//! `send --delete`: receivers remove what the sender does not have.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::json;

use crate::delivery::support::{Place, files, need_multicast};
use crate::netns::process::Ended;

/// A site of the sender, and the same with more at the receiver.
fn sites(place: &Place) {
    for name in
        ["site/a", "site/dir/b", "a/site/a", "a/site/dir/b", "a/site/dir/old", "a/site/gone/x/y", "a/own"]
    {
        place.file(name, 100);
    }
    symlink("/etc", place.path("a/site/gone/etc")).expect("a link");
    std::thread::sleep(std::time::Duration::from_millis(30));
}

fn update(place: &Place, recv: &str, send: &str) -> (Ended, Ended) {
    let receiver = place.recv("a").args("--overwrite --json").args(recv).start();
    let line = "--receivers 1 --json --update";
    let sent = place.send("s").args(line).args(send).arg(place.path("site")).start().end();
    (sent, receiver.end())
}

fn names(directory: &Path) -> Vec<String> {
    files(directory).into_keys().filter(|name| !name.ends_with(".part")).collect()
}

fn row(sent: &Ended) -> serde_json::Value {
    sent.events("report").pop().unwrap_or_else(|| panic!("no report: {}{}", sent.out, sent.err))["receivers"]
        [0]
    .clone()
}

#[test]
fn entries_that_the_sender_does_not_have_are_deleted() {
    need_multicast!();
    let place = Place::new();
    sites(&place);
    let (sent, came) = update(&place, "--allow-delete", "--delete --dry-run");
    let preview = sent.expect(0).events("preview").pop().expect("a preview");
    came.expect(1);
    let paths = ["site/dir/old", "site/gone/etc", "site/gone/x/y", "site/gone/x/", "site/gone/"];
    let paths: Vec<_> = paths.iter().map(|path| json!({ "path": path })).collect();
    let expected = json!({ "count": 5, "paths": paths });
    assert_eq!(preview["receivers"][0]["deletes"], expected, "{preview}");
    assert!(place.path("a/site/gone/x/y").exists());
    let (sent, came) = update(&place, "--allow-delete", "--delete");
    assert_eq!(row(&sent.expect(0))["deleted"], expected);
    let report = came.expect(0).events("report").pop().expect("a report");
    assert_eq!(report["deleted"], expected);
    assert_eq!(names(&place.path("a")), ["own", "site/a", "site/dir/b"]);
    assert!(Path::new("/etc/passwd").exists());
    // Nothing is left to delete.
    let (sent, came) = update(&place, "--allow-delete", "--delete");
    assert_eq!(row(&sent.expect(0))["deleted"]["count"], 0);
    came.expect(0);
}

#[test]
fn excluded_entries_and_everything_beside_the_site_stay() {
    need_multicast!();
    let place = Place::new();
    sites(&place);
    let (sent, came) = update(&place, "--allow-delete", "--delete --exclude y --exclude /dir/");
    assert_eq!(row(&sent.expect(0))["deleted"]["paths"], json!([{ "path": "site/gone/etc" }]));
    came.expect(0);
    assert_eq!(names(&place.path("a")), ["own", "site/a", "site/dir/b", "site/dir/old", "site/gone/x/y"]);
}

#[test]
fn receiver_that_permits_no_deleting_declines() {
    need_multicast!();
    let place = Place::new();
    sites(&place);
    place.file("site/new", 10);
    let receiver = place.recv("a").args("--overwrite").start();
    let line = "--expect a --join-timeout 3 --json --update --delete";
    let sent = place.send("s").args(line).arg(place.path("site")).start().end().expect(1);
    let came = receiver.end().expect(1);
    assert!(came.err.contains("lets no sender delete files (recv --allow-delete)"), "{}", came.err);
    assert!(sent.out.contains("lets no sender delete files"), "{}", sent.out);
    assert!(place.path("a/site/gone/x/y").exists() && !place.path("a/site/new").exists());
}

#[test]
fn too_many_deletions_change_nothing() {
    need_multicast!();
    let place = Place::new();
    sites(&place);
    fs::write(place.path("site/a"), "changed").expect("a file");
    std::thread::sleep(std::time::Duration::from_millis(30));
    let (sent, came) = update(&place, "--allow-delete", "--delete --max-delete 4");
    let row = row(&sent.expect(1));
    let text = "5 entries would be deleted, more than --max-delete 4: nothing was changed";
    assert_eq!((&row["reason"], &row["deleted"]), (&json!(text), &json!(null)), "{row}");
    came.expect(1);
    assert!(place.path("a/site/gone/x/y").exists());
    assert!(fs::read(place.path("a/site/a")).expect("it is there") != b"changed");
    let (sent, came) = update(&place, "--allow-delete", "--delete --max-delete 5");
    sent.expect(0);
    came.expect(0);
    assert!(!place.path("a/site/gone").exists());
}

#[test]
fn entries_of_another_type_are_replaced() {
    need_multicast!();
    let place = Place::new();
    // A directory becomes a file and a link, a file and a link become directories.
    place.file("site/d1", 400_000);
    place.file("site/d2", 10);
    symlink("d2", place.path("site").join("d3")).expect("a link");
    for name in ["site/f/x/y", "site/l/z", "a/site/d1/x/y", "a/site/d2/x", "a/site/d3/x/y", "a/site/f"] {
        place.file(name, 50);
    }
    fs::create_dir_all(place.path("elsewhere")).expect("a directory");
    place.file("elsewhere/z", 50);
    symlink(place.path("elsewhere"), place.path("a/site/l")).expect("a link");
    std::thread::sleep(std::time::Duration::from_millis(30));
    let (sent, came) = update(&place, "--allow-delete", "--delete");
    assert_eq!(row(&sent.expect(0))["deleted"]["count"], 10);
    came.expect(0);
    assert!(files(&place.path("site")) == files(&place.path("a/site")));
    assert!(place.path("a/site/d3").is_symlink() && !place.path("a/site/l").is_symlink());
    assert_eq!(fs::read_dir(place.path("elsewhere")).expect("it stays").count(), 1);
}

#[test]
fn deleting_needs_a_complete_list_and_answers() {
    let place = Place::new();
    sites(&place);
    let site = place.path("site");
    let sent = place.send("s").args("--update --delete --protocol pgm").arg(&site).run().expect(2);
    assert!(sent.err.contains("cannot delete: leave out --delete"), "{}", sent.err);
    // A path that is too long to be sent.
    let made = std::process::Command::new("sh")
        .args([
            "-c",
            "cd \"$0\" && n=$(printf %200s | tr ' ' n) && for i in $(seq 22); do mkdir $n && cd $n; done",
        ])
        .arg(&site)
        .status();
    assert!(made.expect("sh runs").success());
    let sent = place.send("s").args("--update --delete").arg(&site).run().expect(2);
    assert!(sent.err.contains("--delete would delete it at the receivers"), "{}", sent.err);
}
