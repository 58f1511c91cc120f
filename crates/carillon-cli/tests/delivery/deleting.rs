//! `send --delete`: receivers remove what the sender does not have.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

use serde_json::json;

use crate::delivery::file_systems::run;
use crate::delivery::support::{CARILLON, Place, files, is_root, need_multicast};
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
    // A path with too many parts to be sent.
    fs::create_dir_all(site.join("d/".repeat(130))).expect("directories");
    let sent = place.send("s").args("--update --delete").arg(&site).run().expect(2);
    assert!(sent.err.contains("--delete would delete it at the receivers"), "{}", sent.err);
}

/// A receiver without the rights of root, in a directory of which it owns a part.
#[test]
fn entries_that_cannot_be_deleted_are_named() {
    need_multicast!();
    if !is_root() {
        return carillon_testkit::skip("this test needs root");
    }
    let place = Place::new();
    sites(&place);
    place.file("a/site/gone/w", 10);
    let owner =
        |path: &str, id| std::os::unix::fs::chown(place.path(path), Some(id), None).expect("root may");
    fs::set_permissions(place.path(""), fs::Permissions::from_mode(0o755)).expect("its own");
    for path in ["a", "a/site", "a/site/a", "a/site/dir", "a/site/dir/b", "a/site/dir/old", "a/site/gone"] {
        owner(path, 65_534);
    }
    // What is in `gone/x` belongs to root.
    let args = ["--reuid", "65534", "--clear-groups", CARILLON];
    let out = place.path("a");
    let receiver = place.wrapped("setpriv", &args, "recv", "a").arg("--name").arg("a").arg("--out").arg(&out);
    let receiver = receiver.args("--overwrite --allow-delete --json").start();
    let line = "--receivers 1 --json --update --delete";
    let sent = place.send("s").args(line).arg(place.path("site")).start().end().expect(1);
    receiver.end().expect(1);
    let text = "everything arrived, but site/gone/x/y and 2 more could not be deleted: Permission denied (os error 13)";
    assert_eq!(row(&sent)["reason"], text);
    assert_eq!(names(&place.path("a")), ["own", "site/a", "site/dir/b", "site/gone/x/y"]);
}

/// A small file system in memory; unmounted when dropped.
struct Small(std::path::PathBuf);

impl Small {
    fn mount(at: std::path::PathBuf, bytes: u32) -> Result<Small, String> {
        fs::create_dir_all(&at).map_err(|error| error.to_string())?;
        let size = format!("size={bytes}");
        run(Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(&at)).map(|_| Small(at))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = run(Command::new("umount").arg("-l").arg(&self.0));
    }
}

#[test]
fn full_disk_deletes_nothing() {
    need_multicast!();
    let place = Place::new();
    let Ok(_mounted) = Small::mount(place.path("a"), 2 << 20) else {
        return carillon_testkit::skip("no file system can be mounted");
    };
    sites(&place);
    place.file("site/new", 4 << 20);
    let (sent, came) = update(&place, "--allow-delete", "--delete");
    assert_eq!(row(&sent.expect(1))["deleted"], json!(null));
    assert!(came.expect(2).err.contains("No space left"), "no space");
    assert!(place.path("a/site/gone/x/y").exists() && place.path("a/site/dir/old").exists());
}

/// Another file system below the directory is not the receiver's tree.
#[test]
fn mounted_file_systems_stay() {
    need_multicast!();
    let place = Place::new();
    sites(&place);
    let Ok(_mounted) = Small::mount(place.path("a/site/gone/x/disk"), 1 << 20) else {
        return carillon_testkit::skip("no file system can be mounted");
    };
    place.file("a/site/gone/x/disk/data", 10);
    let (sent, came) = update(&place, "--allow-delete", "--delete");
    let paths = json!([{ "path": "site/dir/old" }, { "path": "site/gone/etc" }, { "path": "site/gone/x/y" }]);
    assert_eq!(row(&sent.expect(0))["deleted"]["paths"], paths);
    came.expect(0);
    assert_eq!(names(&place.path("a")), ["own", "site/a", "site/dir/b", "site/gone/x/disk/data"]);
}
